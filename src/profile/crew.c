/* profile/crew.c - workers side by side.
 *
 * One thread for each device that works at once. They begin every round together, so that they stay
 * as far from each other as they begin. The first one leads: it says when a phase has gone on for
 * long enough. A phase of passes (all forwards, then all backwards) is followed by one of updates.
 * Several parts take turns. */
#include <pthread.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/gate.h"
#include "base/thread.h"
#include "profile/internal.h"

/* Rounds that are noted; of TURN rounds of a part the first is not, for caches are as others left
 * them. */
enum { MOST_ROUNDS = 64, MOST_UPDATES = 16, TURN = 3 };
static const double UPDATE_SHARE = 0.2; /* of the time */
/* Seconds are those of the clock that blocks are timed by, in which a worker whose core others use
 * gets its rounds as well; but of the time of day at most so many times as many. */
static const double MOST_WAIT = 4;

typedef struct crew {
    int n_parts;
    double seconds;
    ft_gate came, go; /* how often another one has come to a meeting, and how often they went on */
    bool goes_on;     /* the phase: written by the leader, when all have come */
    int n_others;     /* threads started; read by the leader alone */
    pthread_mutex_t lock;
    ft_error error; /* the first failure, under lock */
} crew;

typedef struct member {
    crew *crew;
    bool leads;
    worker worker;
    pthread_t thread;
    uint32_t met;  /* how often */
    int64_t noted; /* rounds of the first part */
} member;

static void fail(crew *c, const ft_error *error)
{
    pthread_mutex_lock(&c->lock);
    if (c->error.status == FT_OK) c->error = *error;
    pthread_mutex_unlock(&c->lock);
}

static bool has_failed(crew *c)
{
    pthread_mutex_lock(&c->lock);
    bool failed = c->error.status != FT_OK;
    pthread_mutex_unlock(&c->lock);
    return failed;
}

ft_status profile_goes_on(const ft_measure_options *o, ft_error *err)
{
    if (!o->cancelled || !o->cancelled(o->owner)) return FT_OK;
    return ft_fail(err, FT_CANCELLED, "profile: stopped");
}

/* Waits until all have come so far; the leader, which is the caller's thread, says whether they go
 * on, and opens the way. */
static bool meet(member *m, bool enough)
{
    crew *c = m->crew;
    m->met++;
    if (m->leads) {
        ft_gate_wait(&c->came, m->met * (uint32_t)c->n_others, NULL, -1);
        ft_error error;
        if (profile_goes_on(m->worker.parts->bench->options, &error) != FT_OK) fail(c, &error);
        c->goes_on = !enough && !has_failed(c);
        ft_gate_open(&c->go);
    } else {
        ft_gate_open(&c->came);
        ft_gate_wait(&c->go, m->met, NULL, -1);
    }
    return c->goes_on;
}

/* The part whose turn it is. The first round of all warms up, as does the first of a turn. */
static void take_turn(worker *w, int n_parts)
{
    w->part = &w->parts[w->rounds / TURN % n_parts];
    w->noting = n_parts > 1 ? w->rounds % TURN > 0 : w->rounds > 0;
}

static bool is_over(const worker *w, int64_t start, int64_t clock_start, double seconds)
{
    double worked = (double)(w->parts->bench->clock.now() - clock_start) * 1e-9;
    return worked >= seconds || (double)(ft_now_ns() - start) * 1e-9 >= MOST_WAIT * seconds;
}

/* Rounds until the leader has had enough, at least one of each part noted. Gives how many were
 * noted of the first. */
static int64_t run_phase(member *m, int n_parts, double seconds, int most,
                         ft_status (*round)(worker *, ft_error *))
{
    ft_error error = {FT_OK, ""};
    worker *w = &m->worker;
    bool goes_on = meet(m, false);
    int64_t start = ft_now_ns(), clock_start = w->parts->bench->clock.now();
    int64_t noted[CREW_PARTS] = {0};
    for (w->rounds = 0; goes_on; w->rounds++) {
        take_turn(w, n_parts);
        if (round(w, &error) != FT_OK) fail(m->crew, &error);
        noted[w->part - w->parts] += w->noting;
        int64_t fewest = noted[n_parts - 1] < noted[0] ? noted[n_parts - 1] : noted[0];
        goes_on =
            meet(m, fewest >= most || (fewest > 0 && is_over(w, start, clock_start, seconds)));
    }
    return noted[0];
}

static void *work(void *arg)
{
    member *m = arg;
    crew *c = m->crew;
    ft_error error = {FT_OK, ""};
    if (worker_make(&m->worker, &error) != FT_OK) fail(c, &error);
    m->noted =
        run_phase(m, c->n_parts, c->seconds * (1 - UPDATE_SHARE), MOST_ROUNDS, worker_passes);
    run_phase(m, 1, c->seconds * UPDATE_SHARE, MOST_UPDATES, worker_updates);
    return NULL;
}

/* Starts the others, leads them, and waits for them. */
static ft_status run_crew(crew *c, member *members, int n, ft_error *err)
{
    ft_error error = {FT_OK, ""};
    for (member *m = &members[1];
         m < members + n && ft_thread_start(&m->thread, work, m, &error) == FT_OK; m++)
        c->n_others++;
    if (c->n_others < n - 1) {
        ft_error_wrap(&error, "profile: thread %d of %d", c->n_others + 2, n);
        fail(c, &error);
    }
    work(&members[0]);
    for (int i = 1; i <= c->n_others; i++) pthread_join(members[i].thread, NULL);
    if (c->error.status != FT_OK && err) *err = c->error;
    return c->error.status;
}

ft_status crew_measure(const crew_part *parts, int n_parts, double seconds, int64_t *rounds,
                       ft_error *err)
{
    int n_members = parts->bench->options->n_busy;
    float *noise = worker_noise();
    member *members = ft_alloc(n_members * (int64_t)sizeof *members);
    crew c = {.n_parts = n_parts, .seconds = seconds};
    ft_status status = FT_NOMEM;
    if (!noise || !members) {
        ft_fail(err, FT_NOMEM, "profile: no memory for %d workers", n_members);
        goto done;
    }
    pthread_mutex_init(&c.lock, NULL);
    for (int i = 0; i < n_members; i++)
        members[i] =
            (member){.crew = &c,
                     .leads = i == 0,
                     .worker = {.parts = parts, .n_parts = n_parts, .noise = noise, .number = i}};
    status = run_crew(&c, members, n_members, err);
    *rounds = members[0].noted;
    for (int i = 0; i < n_members; i++) worker_free(&members[i].worker);
    pthread_mutex_destroy(&c.lock);
done:
    ft_free(members);
    ft_free(noise);
    return status;
}
