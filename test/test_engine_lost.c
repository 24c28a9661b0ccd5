/* test/test_engine_lost.c - legs of several ranks that fail in rarer ways than by a device: a
 * worker does not start, another rank fails behind the last batch, a worker does not come back. */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "engine/internal.h"
#include "engine_run.h"
#include "place.h"
#include "worlds.h"

enum { BATCHES = 10 };

/* -- threads that do not start ----------------------------------------------------------------- */

static _Atomic int births_left; /* of threads of that rank, until one fails; 0: none does */
static _Atomic int barren;

/* In place of the C library's. */
int pthread_create(pthread_t *out, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
    typedef int creator(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    creator *create;
    *(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
    bool fails = own_rank == atomic_load(&barren) && atomic_load(&births_left) &&
                 atomic_fetch_sub(&births_left, 1) == 1;
    return fails ? EAGAIN : create(out, attr, start, arg);
}

/* -- runs of ranks ----------------------------------------------------------------------------- */

/* What each rank makes for itself, as each process would. */
typedef struct job {
    int n_ranks;
    void (*lead)(ft_run *run);                   /* rank 0's */
    void (*served)(ft_run *run, ft_status ends); /* rank 1's, when it serves no more; NULL: none */
    const ft_driver *driver;                     /* of rank 1's devices; NULL: the CPU's */
    pipeline p[MOST_RANKS];
    ft_blueprint *b[MOST_RANKS];
} job;

/* The chain on as many devices as there are ranks in the list. */
static bool prepare(job *j, const int *rank_of, int n_devices)
{
    bool ready = true;
    for (int d = 0; d < n_devices; d++)
        if (rank_of[d] >= j->n_ranks) j->n_ranks = rank_of[d] + 1;
    for (int r = 0; r < j->n_ranks && ready; r++) {
        ft_error err;
        char devices[16];
        snprintf(devices, sizeof devices, "cpu:%d", n_devices);
        ready = pipeline_init(&j->p[r], devices, "1f1b");
        for (int d = 0; d < n_devices; d++) {
            j->p[r].devices[d].rank = rank_of[d];
            if (j->driver && rank_of[d] == 1) j->p[r].devices[d].driver = j->driver;
        }
        ready = ready && CHECK_STATUS(pipeline_draw(&j->b[r], &j->p[r], &err), FT_OK);
    }
    return ready;
}

static _Atomic(ft_run *) others_run; /* rank 1's */

static void take_part(int rank, void *user)
{
    job *j = user;
    ft_error err = {FT_OK, ""};
    ft_run *run = NULL;
    ft_world *w = meet();
    if (HOLDS(ft_run_join(&run, j->b[rank], w, FT_CHANNELS_IF_ANY, NULL, &err) == FT_OK)) {
        ft_status ends = FT_OK;
        if (rank == 1) atomic_store(&others_run, run);
        if (rank)
            ends = ft_run_serve(run, &err);
        else
            j->lead(run);
        if (rank == 1 && j->served) j->served(run, ends);
    }
    ft_run_free(run);
    ft_world_close(w);
}

/* All of it; nothing is left of it. */
static void run_job(job *j, const int *rank_of, int n_devices)
{
    int64_t live = ft_alloc_live();
    if (prepare(j, rank_of, n_devices)) run_ranks(j->n_ranks, take_part, j);
    for (int r = 0; r < j->n_ranks; r++) {
        ft_blueprint_free(j->b[r]);
        pipeline_free(&j->p[r]);
    }
    CHECK(ft_alloc_live() == live);
}

static bool writes_params(ft_run *run)
{
    ft_error err;
    bool fetched = true;
    for (int p = 0; p < PARAMS; p++) fetched = fetched && ft_run_fetch(run, p, true, &err) == FT_OK;
    return HOLDS(fetched && set_params(run, &err) == FT_OK);
}

static bool trains(ft_run *run)
{
    ft_error err = {FT_OK, ""};
    double losses[BATCHES];
    return HOLDS(train(run, ft_blueprint_plan(run->blueprint), true, losses, &err) == FT_OK);
}

/* What the run has failed by, once it is stopped; false when it is not. */
static bool has_stopped(ft_run *run, ft_error *why)
{
    for (int i = 0; i < 60000 && !atomic_load(&run->stop); i++) {
        if (run->world) ft_world_progress(run->world);
        ft_sleep_until_ns(ft_now_ns() + 1000000);
    }
    pthread_mutex_lock(&run->error_lock);
    *why = run->error;
    pthread_mutex_unlock(&run->error_lock);
    return atomic_load(&run->stop);
}

/* -- more ranks than devices ------------------------------------------------------------------- */

static void join_without_devices(int rank, void *user)
{
    job *j = user;
    ft_error err = {FT_OK, ""};
    ft_run *run = NULL;
    ft_world *w = meet();
    HOLDS(ft_run_join(&run, j->b[rank], w, FT_CHANNELS_IF_ANY, NULL, &err) == FT_INVALID && !run);
    HOLDS(!strcmp(err.message, "the devices are of 1 processes, and 2 were started: expected as "
                               "many of them, or devices of 2"));
    ft_world_close(w);
}

static void test_a_rank_without_devices(void)
{
    static job j;
    j = (job){.n_ranks = 2};
    if (prepare(&j, (const int[]){0, 0}, 2)) run_ranks(2, join_without_devices, &j);
    for (int r = 0; r < 2; r++) {
        ft_blueprint_free(j.b[r]);
        pipeline_free(&j.p[r]);
    }
}

/* -- a worker does not start ------------------------------------------------------------------- */

static const char CAUSE[] = "engine: device cpu:2: cannot start a thread: ";

static void test_a_worker_does_not_start(void)
{
    static pipeline p;
    ft_error err = {FT_OK, ""}, why;
    ft_blueprint *b = NULL;
    ft_run *run = NULL;
    double losses[BATCHES];
    if (!pipeline_init(&p, "cpu:3", "1f1b")) return;
    CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
    CHECK_STATUS(ft_run_new(&run, b, &err), FT_OK);
    CHECK_STATUS(set_params(run, &err), FT_OK);
    barren = 0;
    births_left = 3;
    CHECK_STATUS(ft_run_begin(run, ft_blueprint_plan(b), 1, true, &err), FT_DEVICE);
    CHECK(strncmp(err.message, CAUSE, strlen(CAUSE)) == 0 && births_left == 0);
    CHECK(has_stopped(run, &why) && !strcmp(why.message, err.message));
    CHECK_STATUS(train(run, ft_blueprint_plan(b), true, losses, &err), FT_OK);
    ft_run_free(run);
    ft_blueprint_free(b);
    pipeline_free(&p);
}

/* Of a leg that moves what it can: whichever of its threads does not start, all is given back. */
static void test_a_thread_does_not_start(void)
{
    static pipeline p;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    int64_t live = ft_alloc_live();
    if (!pipeline_init(&p, "cpu:3", "1f1b")) return;
    CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
    CHECK_STATUS(pipeline_swap(&p, &b, false, &err), FT_OK);
    int64_t drawn = ft_alloc_live();
    bool began = false;
    int k = 1;
    barren = 0;
    for (; !began && k < 100; k++) {
        ft_run *run = NULL;
        CHECK_STATUS(ft_run_new(&run, b, &err), FT_OK);
        CHECK_STATUS(set_params(run, &err), FT_OK);
        births_left = k;
        began = ft_run_begin(run, ft_blueprint_plan(b), 1, true, &err) == FT_OK;
        CHECK(began == (births_left > 0));
        births_left = 0;
        CHECK(began || (err.status == FT_DEVICE && strstr(err.message, "cannot start a thread")));
        CHECK_STATUS(ft_run_end(run, &err), FT_OK);
        ft_run_free(run);
        CHECK(ft_alloc_live() == drawn);
    }
    CHECK(began && k > 3);
    ft_blueprint_free(b);
    pipeline_free(&p);
    CHECK(ft_alloc_live() == live);
}

/* The first leg, before rank 0 has a timeline for what the others did in it. */
static void begin_without_a_worker(ft_run *run)
{
    ft_error err = {FT_OK, ""}, why;
    writes_params(run);
    births_left = 2;
    HOLDS(ft_run_begin(run, ft_blueprint_plan(run->blueprint), 1, true, &err) == FT_DEVICE);
    HOLDS(!strncmp(err.message, "rank 1 (host ", 13) && strstr(err.message, CAUSE));
    HOLDS(!ft_run_timeline(run));
    if (HOLDS(has_stopped(run, &why) && why.status == FT_DEVICE))
        HOLDS(!strcmp(why.message, err.message)); /* which the worker that did start has told */
}

static void test_a_worker_of_others_does_not_start(void)
{
    static job j;
    j = (job){.lead = begin_without_a_worker};
    barren = 1;
    run_job(&j, (const int[]){0, 1, 1}, 3);
    CHECK(births_left == 0);
}

/* Others have begun by then: they hear that it is over, and none begins behind it. */
static void begin_alone(ft_run *run)
{
    ft_error err = {FT_OK, ""};
    const ft_plan *plan = ft_blueprint_plan(run->blueprint);
    writes_params(run);
    HOLDS(ft_run_begin(run, plan, 1, false, &err) == FT_UNSUPPORTED);
    births_left = 1;
    HOLDS(ft_run_begin(run, plan, 1, true, &err) == FT_DEVICE);
    HOLDS(!strncmp(err.message, "engine: device cpu:0: ", 22));
    HOLDS(ft_run_begin(run, plan, 1, true, &err) == FT_INVALID);
    HOLDS(!strcmp(err.message, "a leg of several processes was ended early: begin anew"));
}

static void test_rank_0_does_not_start(void)
{
    static job j;
    j = (job){.lead = begin_alone};
    barren = 0;
    run_job(&j, (const int[]){0, 1}, 2);
    CHECK(births_left == 0);
}

/* Losses are scaled in one process alone. Of the workers, those of this process are waited for. */
static void give_up_at_once(ft_run *run)
{
    ft_error err = {FT_OK, ""};
    writes_params(run);
    HOLDS(ft_run_begin(run, ft_blueprint_plan(run->blueprint), 1, true, &err) == FT_OK);
    HOLDS(feed_scaled(run, (int64_t)MICRO * ROWS, 0.05, 2, &err) == FT_UNSUPPORTED);
    HOLDS(ft_run_give_up(run, INT64_C(20000000000), &err) == FT_OK);
    HOLDS(ft_run_end(run, &err) == FT_OK);
}

static void test_a_leg_of_several_is_given_up(void)
{
    static job j;
    j = (job){.lead = give_up_at_once};
    run_job(&j, (const int[]){0, 1}, 2);
}

/* -- files ------------------------------------------------------------------------------------- */

static _Atomic int syncs[MOST_RANKS];

/* In place of the C library's. */
int fsync(int fd)
{
    syncs[own_rank]++;
    return (int)syscall(SYS_fsync, fd);
}

static void save(ft_run *run)
{
    ft_error err = {FT_OK, ""};
    ft_saved tensors[PARAMS];
    static const char *const names[PARAMS] = {"a", "b", "c"};
    place p = place_new();
    for (int i = 0; i < PARAMS; i++)
        tensors[i] = (ft_saved){.name = names[i], .param = i, .part = -1};
    HOLDS(writes_params(run) && trains(run));
    HOLDS(ft_run_write(run, in(&p, "saved"), tensors, PARAMS, &err) == FT_OK);
    HOLDS(place_free(&p) == 1);
}

/* What each has written of a file is on the disk when it is told to be there. */
static void test_ranks_sync_what_they_save(void)
{
    static job j;
    j = (job){.lead = save};
    run_job(&j, (const int[]){0, 1, 2}, 3);
    CHECK(syncs[0] == 5); /* the empty file and its mark with their directory, what rank 0 has */
    CHECK(syncs[1] == 1 && syncs[2] == 1);
}

/* -- others fail ------------------------------------------------------------------------------- */

typedef struct settling {
    ft_run *run;
    ft_gate over;
    ft_status status;
} settling;

static void *settle(void *arg)
{
    settling *s = arg;
    s->status = remotes_settle(s->run, BATCHES, NULL);
    ft_gate_open(&s->over);
    return NULL;
}

/* Slots that were sent are not freed any more when the receiver has failed meanwhile. */
static void fail_behind_the_last(ft_run *run)
{
    static settling s;
    pthread_t thread;
    ft_error err = {FT_OK, ""}, failed;
    s = (settling){.run = run};
    writes_params(run);
    HOLDS(ft_run_begin(run, ft_blueprint_plan(run->blueprint), 1, true, &err) == FT_OK);
    HOLDS(ft_thread_start(&thread, settle, &s, NULL) == FT_OK);
    ft_fail(&failed, FT_DEVICE, "a device elsewhere is on fire");
    run_stop(run, &failed);
    if (!HOLDS(ft_gate_wait(&s.over, 1, NULL, INT64_C(20000000000))))
        ft_world_give_up(run->world, &failed);
    pthread_join(thread, NULL);
    HOLDS(s.status == FT_OK);
    ft_run_end(run, NULL);
}

static void test_others_fail_behind_the_last_batch(void)
{
    static job j;
    j = (job){.lead = fail_behind_the_last};
    run_job(&j, (const int[]){0, 1}, 2);
}

/* Rank 0 hears why another one has stopped, be it by whom it may. */
static void hear_of_others(ft_run *run)
{
    ft_error err = {FT_OK, ""}, failed, why;
    writes_params(run);
    HOLDS(ft_run_begin(run, ft_blueprint_plan(run->blueprint), 1, true, &err) == FT_OK);
    ft_fail(&failed, FT_DEVICE, "a letter burned");
    run_stop(atomic_load(&others_run), &failed);
    if (HOLDS(has_stopped(run, &why)))
        HOLDS(!strncmp(why.message, "rank 1 (host ", 13) && strstr(why.message, failed.message));
    ft_run_end(run, NULL);
}

static void test_rank_0_hears_why_others_stop(void)
{
    static job j;
    j = (job){.lead = hear_of_others};
    run_job(&j, (const int[]){0, 1}, 2);
}

/* Each rank's has a place of its own: they may come at the same time. */
static void look_for_places(ft_run *run)
{
    const ft_world *w = run->world;
    int n = 0;
    for (int i = 0; i < w->n_receivers; i++) {
        const ft_receiver *r = &w->receivers[i];
        if (r->first_tag != FT_TAG_FAILURE) continue;
        char *one = r->place(r->user, 1, FT_TAG_FAILURE, sizeof(ft_error));
        char *two = r->place(r->user, 2, FT_TAG_FAILURE, sizeof(ft_error));
        HOLDS(two - one >= (ptrdiff_t)sizeof(ft_error));
        n++;
    }
    HOLDS(n == 1 && writes_params(run) && trains(run) && trains(run));
}

static void test_failures_have_places(void)
{
    static job j;
    j = (job){.lead = look_for_places};
    run_job(&j, (const int[]){0, 1, 2}, 3);
}

/* -- a worker does not come back --------------------------------------------------------------- */

static ft_gate entered, released;
static atomic_bool waits; /* launches wait until they are released */

static ft_status launch_late(ft_device_stream *stream, const ft_task *task, const void *arg,
                             ft_error *err)
{
    if (atomic_load(&waits)) {
        ft_gate_open(&entered);
        ft_gate_wait(&released, 1, NULL, -1);
    }
    return ft_cpu_driver.launch(stream, task, arg, err);
}

static void give_up(ft_run *run)
{
    ft_error err = {FT_OK, ""}, failed;
    writes_params(run);
    atomic_store(&waits, true);
    HOLDS(ft_run_begin(run, ft_blueprint_plan(run->blueprint), 1, true, &err) == FT_OK);
    HOLDS(feed(run, (int64_t)MICRO * ROWS, &err) == FT_OK);
    HOLDS(ft_world_wait(run->world, &entered, 1, NULL, LIMIT_NS));
    ft_fail(&failed, FT_HANG, "rank 0 gives up");
    ft_world_give_up(run->world, &failed);
    ft_run_end(run, NULL);
}

/* Its worker is in the launch, and will read the plan of the leg behind it. */
static void look_for_plan(ft_run *run, ft_status ends)
{
    enum { MANY = 64, LEAST = 16, LARGEST = 1 << 16 };
    void *others[MANY];
    HOLDS(ends == FT_HANG && run->lost && run->active);
    for (int64_t bytes = LEAST; bytes <= LARGEST; bytes *= 2) { /* what was freed is theirs */
        for (int i = 0; i < MANY; i++) others[i] = ft_alloc(bytes);
        for (int i = 0; i < MANY; i++) ft_free(others[i]);
    }
    HOLDS(run->plan->n_batches == BATCHES && run->plan->n_stages == 3);
    ft_gate_open(&released);
    workers_join(run);
    run->lost = false; /* it did come back: all can be freed */
    ft_plan *plan = (ft_plan *)(uintptr_t)run->plan;
    ft_run_end(run, NULL);
    ft_plan_free(plan);
}

static void test_a_worker_does_not_come_back(void)
{
    static job j;
    ft_driver late = ft_cpu_driver;
    late.launch = launch_late;
    j = (job){.lead = give_up, .served = look_for_plan, .driver = &late};
    run_job(&j, (const int[]){0, 1}, 2);
}

/* Who is named has not ended, whoever else has. */
static void test_who_does_not_come_back_is_named(void)
{
    static pipeline p;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    ft_run *run = NULL;
    ft_driver late = ft_cpu_driver;
    char at[FT_AT_WORDS];
    late.launch = launch_late;
    if (!pipeline_init(&p, "cpu:3", "1f1b")) return;
    p.devices[1].driver = &late;
    CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
    CHECK_STATUS(ft_run_new(&run, b, &err), FT_OK);
    CHECK_STATUS(set_params(run, &err), FT_OK);
    atomic_store(&entered.count, 0);
    atomic_store(&released.count, 0);
    atomic_store(&waits, true);
    CHECK_STATUS(ft_run_begin(run, ft_blueprint_plan(b), 1, true, &err), FT_OK);
    CHECK_STATUS(feed(run, (int64_t)MICRO * ROWS, &err), FT_OK);
    CHECK(ft_gate_wait(&entered, 1, NULL, LIMIT_NS));
    tell_work(run, at);
    CHECK(strstr(at, ", of training"));
    run_stop(run, &(ft_error){FT_CANCELLED, "stopped"});
    CHECK(ft_gate_wait(&run->ended_gate, 2, NULL, LIMIT_NS));
    CHECK_STATUS(ft_run_give_up(run, 0, &err), FT_HANG);
    CHECK(!strcmp(err.message, "engine: device cpu:1 does not come back from what it does"));
    CHECK_STATUS(ft_run_end(run, &err), FT_HANG);
    ft_gate_open(&released);
    CHECK_STATUS(ft_run_give_up(run, LIMIT_NS, &err), FT_OK);
    ft_run_free(run);
    ft_blueprint_free(b);
    pipeline_free(&p);
}

int main(void)
{
    RUN(test_a_rank_without_devices);
    RUN(test_a_worker_does_not_start);
    RUN(test_a_thread_does_not_start);
    RUN(test_a_worker_of_others_does_not_start);
    RUN(test_rank_0_does_not_start);
    RUN(test_a_leg_of_several_is_given_up);
    RUN(test_ranks_sync_what_they_save);
    RUN(test_others_fail_behind_the_last_batch);
    RUN(test_rank_0_hears_why_others_stop);
    RUN(test_failures_have_places);
    RUN(test_a_worker_does_not_come_back);
    RUN(test_who_does_not_come_back_is_named);
    return check_report();
}
