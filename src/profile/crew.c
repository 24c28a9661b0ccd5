/* profile/crew.c - workers side by side.
 *
 * One thread for each device that works at once. The first one leads: it says when a phase has gone
 * on for long enough, the others go on until then. A phase of passes (all forwards, then all
 * backwards) is followed by one of updates. Several parts take turns. */
#include <pthread.h>
#include <stdatomic.h>

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

typedef enum { PHASE_PASSES, PHASE_UPDATES, PHASE_DONE } crew_phase;

typedef struct crew {
    int n_parts;
    double seconds;
    _Atomic int phase;
    ft_gate came, go; /* how often another one has come to a meeting, and how often they went on */
    int n_others;     /* threads started; read by the leader alone */
    pthread_mutex_t lock;
    ft_error error; /* the first failure, under lock */
} crew;

typedef struct member {
    crew *crew;
    bool leads;
    worker worker;
    pthread_t thread;
    int64_t noted; /* rounds of the first part */
} member;

static void fail(crew *c, const ft_error *error)
{
    pthread_mutex_lock(&c->lock);
    if (c->error.status == FT_OK) c->error = *error;
    pthread_mutex_unlock(&c->lock);
    atomic_store(&c->phase, PHASE_DONE);
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

/* Rounds until the leader ends the phase, at least one of each part noted. Gives how many were
 * noted of the first. */
static int64_t run_phase(member *m, crew_phase phase, int n_parts, double seconds, int most,
                         ft_status (*round)(worker *, ft_error *))
{
    ft_error error = {FT_OK, ""};
    worker *w = &m->worker;
    int64_t start = ft_now_ns(), clock_start = w->parts->bench->clock.now();
    int64_t noted[CREW_PARTS] = {0};
    int going_on = phase;
    for (w->rounds = 0; atomic_load(&m->crew->phase) == (int)phase; w->rounds++) {
        take_turn(w, n_parts);
        if (round(w, &error) != FT_OK) {
            fail(m->crew, &error);
            return 0;
        }
        noted[w->part - w->parts] += w->noting;
        int64_t fewest = noted[n_parts - 1] < noted[0] ? noted[n_parts - 1] : noted[0];
        bool enough = fewest >= most || (fewest > 0 && is_over(w, start, clock_start, seconds));
        if (m->leads && enough)
            atomic_compare_exchange_strong(&m->crew->phase, &going_on, (int)phase + 1);
    }
    return noted[0];
}

/* Waits until all have come so far for the n-th time; the leader opens the way. */
static void meet(member *m, uint32_t n)
{
    crew *c = m->crew;
    if (m->leads) {
        ft_gate_wait(&c->came, n * (uint32_t)c->n_others, NULL, -1);
        ft_gate_open(&c->go);
    } else {
        ft_gate_open(&c->came);
        ft_gate_wait(&c->go, n, NULL, -1);
    }
}

static void *work(void *arg)
{
    member *m = arg;
    crew *c = m->crew;
    ft_error error = {FT_OK, ""};
    if (worker_make(&m->worker, &error) != FT_OK) fail(c, &error);
    meet(m, 1);
    int64_t noted = run_phase(m, PHASE_PASSES, c->n_parts, c->seconds * (1 - UPDATE_SHARE),
                              MOST_ROUNDS, worker_passes);
    meet(m, 2);
    run_phase(m, PHASE_UPDATES, 1, c->seconds * UPDATE_SHARE, MOST_UPDATES, worker_updates);
    m->noted = noted;
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
