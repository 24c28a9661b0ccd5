/* test/test_engine_ranks.c - runs of a small chain by several ranks compute what one process does.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "engine_run.h"
#include "io/io.h"
#include "place.h"
#include "ranks/ranks.h"
#include "edges/remote.h"
#include "state/here.h"
#include "worlds.h"

enum { BATCHES = 10, DRAINED = 4, LEGS = 3, WEIGHTS = HIDDEN * HIDDEN, STATES = 2 };

/* What is trained. */
typedef struct way {
    const char *schedule;
    ft_weights weights;
    double clip;
    int replicas[3]; /* by stage; 0: one */
} way;

static const way ways[] = {
    {"sequential", FT_WEIGHTS_OWN, 0, {0}},     {"gpipe", FT_WEIGHTS_OWN, 0.5, {0}},
    {"1f1b", FT_WEIGHTS_OWN, 0.5, {0}},         {"zero-bubble", FT_WEIGHTS_OWN, 0, {0}},
    {"async", FT_WEIGHTS_LATEST, 0, {0}},       {"async", FT_WEIGHTS_STASH, 0, {0}},
    {"async", FT_WEIGHTS_VERTICAL, 0, {0}},     {"async", FT_WEIGHTS_PREDICT, 0, {0}},
    {"async", FT_WEIGHTS_LATEST, 0.5, {0}},     {"2bw", FT_WEIGHTS_OWN, 0, {0}},
    {"1f1b", FT_WEIGHTS_OWN, 0, {1, 2, 1}},     {"1f1b", FT_WEIGHTS_OWN, 0.5, {2, 1, 1}},
    {"async", FT_WEIGHTS_LATEST, 0, {1, 1, 2}}, {"harmony-dp", FT_WEIGHTS_OWN, 0, {0}},
    {"data-parallel", FT_WEIGHTS_OWN, 0, {0}},
};
enum { WAYS = sizeof ways / sizeof *ways };

/* Whose the devices are. */
typedef struct crew {
    int n_devices, n_ranks, rank_of[4];
} crew;

static const crew crews[] = {
    {2, 2, {0, 1}},    {2, 2, {1, 0}},       {3, 2, {0, 1, 0}},    {3, 2, {1, 1, 0}},
    {3, 3, {2, 0, 1}}, {4, 2, {0, 0, 1, 1}}, {4, 3, {1, 2, 1, 0}}, {4, 4, {0, 1, 2, 3}},
};
enum { CREWS = sizeof crews / sizeof *crews };

typedef struct outcome {
    double losses[LEGS][BATCHES], norms[LEGS][BATCHES], gaps[LEGS][BATCHES][3];
    float params[LEGS][PARAMS][WEIGHTS], states[LEGS][PARAMS][STATES][WEIGHTS];
    int n_events[4];
    int64_t bytes[4][FT_MEMORY_CLASSES];
} outcome;

/* What each rank makes for itself, as each process would. */
typedef struct job {
    const crew *crew; /* NULL: one process */
    pipeline p[MOST_RANKS];
    ft_blueprint *b[MOST_RANKS];
    double rate;
    const ft_driver *driver; /* of the devices of rank `burns`; NULL: the CPU's, as of all others */
    int burns;
    outcome o;
    ft_world *world;  /* rank 0's */
    ft_error failure; /* rank 0's, of a leg that is to fail */
} job;

/* -- a rank ------------------------------------------------------------------------------------ */

static bool went(ft_status status, const ft_error *err)
{
    if (!HOLDS(status == FT_OK)) fprintf(stderr, "%s\n", err->message);
    return status == FT_OK;
}

/* A leg of n batches of the plan's, drained when that is not all of them. */
static ft_status train_leg(ft_run *run, const job *j, int leg, int64_t first, int n, outcome *o,
                           ft_error *err)
{
    const ft_plan *plan = ft_blueprint_plan(j->b[0]);
    int fed = 0, taken = 0;
    FT_TRY(ft_run_begin(run, plan, first, true, err));
    while (taken < n) {
        ft_result result;
        while (fed < n && ft_run_wants(run)) {
            FT_TRY(feed_at(run, (int64_t)MICRO * ROWS, j->rate, err));
            fed++;
        }
        if (fed == n && n < plan->n_batches) ft_run_drain(run);
        FT_TRY(ft_run_next(run, &result, INT64_C(60000000000), err));
        HOLDS(result.step == first + taken && result.rate == j->rate);
        o->losses[leg][taken] = result.loss;
        for (int s = 0; s < 3; s++) o->gaps[leg][taken][s] = ft_run_gap(run, s);
        o->norms[leg][taken++] = result.grad_norm;
    }
    return ft_run_end(run, err);
}

static void copy_params(ft_run *run, int leg, outcome *o)
{
    ft_error err;
    for (int p = 0; p < PARAMS; p++) {
        const char *name;
        if (!went(ft_run_fetch(run, p, true, &err), &err)) return;
        ft_view view = ft_run_param(run, p);
        size_t bytes = (size_t)ft_shape_count(&view.shape) * sizeof(float);
        memcpy(o->params[leg][p], view.data, bytes);
        for (int i = 0; i < STATES && ft_run_state(run, p, i, &name, &view); i++)
            memcpy(o->states[leg][p][i], view.data,
                   (size_t)ft_shape_count(&view.shape) * sizeof(float));
    }
}

static void begin(ft_run *run)
{
    ft_error err;
    for (int p = 0; p < PARAMS; p++) went(ft_run_fetch(run, p, true, &err), &err);
    went(set_params(run, &err), &err);
}

/* Other numbers in all parameters and states, as of a checkpoint. */
static void write_params(ft_run *run)
{
    ft_error err;
    for (int p = 0; p < PARAMS; p++) {
        const char *name;
        ft_view view = ft_run_param(run, p);
        for (int64_t k = 0; k < ft_shape_count(&view.shape); k++) ((float *)view.data)[k] *= 0.75f;
        for (int i = 0; i < STATES && ft_run_state(run, p, i, &name, &view); i++)
            for (int64_t k = 0; k < ft_shape_count(&view.shape); k++)
                ((float *)view.data)[k] *= 0.5f;
    }
    went(ft_run_refresh(run, &err), &err);
}

/* A whole leg, one that is drained, and one from other numbers. */
static void train_all(ft_run *run, job *j)
{
    ft_error err;
    int64_t first = 1;
    const int n[LEGS] = {BATCHES, DRAINED, BATCHES};
    begin(run);
    for (int leg = 0; leg < LEGS; first += n[leg++]) {
        if (leg == LEGS - 1) write_params(run);
        if (!went(train_leg(run, j, leg, first, n[leg], &j->o, &err), &err)) return;
        copy_params(run, leg, &j->o);
    }
    const ft_timeline *events = ft_run_timeline(run);
    for (int d = 0; d < ft_run_n_devices(run); d++) {
        ft_run_measured(run, d, j->o.bytes[d]);
        for (int i = 0; i < events->n_events; i++)
            j->o.n_events[d] += events->events[i].device == d && events->events[i].end_ns > 0;
    }
}

/* What rank 0 does with the run, while the others serve. */
static void take_part_in(int rank, job *j, void (*lead)(ft_run *run, job *j))
{
    ft_error err = {FT_OK, ""};
    ft_world *w = NULL;
    ft_run *run = NULL;
    if (!went(ft_world_open(&w, &self, hear_line, &err), &err)) return;
    if (!rank) j->world = w;
    if (went(ft_run_join(&run, j->b[rank], w, FT_CHANNELS_IF_ANY, NULL, &err), &err)) {
        if (rank)
            went(ft_run_serve(run, &err), &err);
        else
            lead(run, j);
    }
    ft_run_free(run);
    ft_world_close(w);
}

/* As if the others were on other machines: what is said of their clocks is as far off as it may be.
 */
static void train_elsewhere(ft_run *run, job *j)
{
    int64_t offset, error;
    ft_world *w = j->world;
    for (int r = 1; r < ft_world_size(w); r++) {
        pthread_mutex_lock(&w->carrying);
        w->peers[r].hello.machine[0] ^= 1;
        pthread_mutex_unlock(&w->carrying);
        while (!ft_world_clock(w, r, &offset, &error)) ft_sleep_until_ns(ft_now_ns() + 1000000);
    }
    train_all(run, j);
    const ft_timeline *t = ft_run_timeline(run);
    for (int d = 0; d < t->n_devices; d++) {
        bool here = j->p[0].devices[d].rank == 0;
        HOLDS(here ? !t->clock_error_ns[d] : t->clock_error_ns[d] > 0);
    }
}

static void take_part_elsewhere(int rank, void *user)
{
    take_part_in(rank, user, train_elsewhere);
}

static void take_part(int rank, void *user)
{
    take_part_in(rank, user, train_all);
}

/* -- all of them ------------------------------------------------------------------------------- */

static int ranks_of(const job *j)
{
    return j->crew ? j->crew->n_ranks : 1;
}

/* All stages on every device, whose replicas' edges take turns; false: not for so many. */
static bool share(pipeline *p, int n_devices, ft_error *err)
{
    int shared = 0;
    if (MICRO % n_devices) return false;
    pipeline_spread(p);
    return CHECK_STATUS(share_plan(p, &shared, err), FT_OK) && CHECK(shared > 0);
}

/* Pipelines and blueprints of all ranks; false when the plan is not for so many devices. */
static bool prepare(job *j, const way *w, int n_devices)
{
    bool ready = true;
    for (int r = 0; r < ranks_of(j); r++) {
        ft_error err = {FT_OK, ""};
        pipeline *p = &j->p[r];
        char devices[16];
        int replicas[3], needed = 0;
        for (int s = 0; s < 3; s++) needed += replicas[s] = w->replicas[s] ? w->replicas[s] : 1;
        snprintf(devices, sizeof devices, "cpu:%d", n_devices);
        ready = ready && pipeline_init(p, devices, w->schedule);
        p->weights = w->weights;
        p->options.clip = w->clip;
        p->options.gaps = p->options.gnorm = true;
        p->cut.late_norms = w->clip > 0 && !p->schedule->synchronous;
        if (w->replicas[0])
            ready = ready && needed == n_devices && pipeline_replicate(p, replicas, 3);
        if (!w->replicas[0] && n_devices > 3) ready = false;
        if (ready && p->schedule->replicates) ready = share(p, n_devices, &err);
        for (int d = 0; j->crew && d < n_devices; d++) {
            p->devices[d].rank = j->crew->rank_of[d];
            if (j->driver && p->devices[d].rank == j->burns) p->devices[d].driver = j->driver;
        }
        if (ready && !CHECK_STATUS(pipeline_draw(&j->b[r], p, &err), FT_OK)) {
            fprintf(stderr, "%s: %s\n", w->schedule, err.message);
            ready = false;
        }
    }
    return ready;
}

static void forget(job *j)
{
    for (int r = 0; r < ranks_of(j); r++) {
        ft_blueprint_free(j->b[r]);
        pipeline_free(&j->p[r]);
    }
}

/* One process, with the devices of all. */
static bool train_alone(job *j, const way *w, int n_devices)
{
    ft_error err;
    ft_run *run = NULL;
    *j = (job){.rate = 0.05};
    bool ready = prepare(j, w, n_devices);
    if (ready && CHECK_STATUS(ft_run_new(&run, j->b[0], &err), FT_OK)) train_all(run, j);
    ft_run_free(run);
    forget(j);
    return ready;
}

static bool same_memory(const outcome *a, const outcome *b)
{
    static const ft_memory_class classes[] = {FT_MEMORY_WEIGHTS, FT_MEMORY_GRADIENTS,
                                              FT_MEMORY_OPTIMIZER, FT_MEMORY_VERSIONS};
    for (int d = 0; d < 4; d++)
        for (size_t c = 0; c < sizeof classes / sizeof *classes; c++)
            if (a->bytes[d][classes[c]] != b->bytes[d][classes[c]]) return false;
    return true;
}

static void compare(const job *one, const job *all, const way *w, int number)
{
    const outcome *a = &one->o, *b = &all->o;
    bool fine = CHECK(memcmp(a->losses, b->losses, sizeof a->losses) == 0);
    fine &= CHECK(memcmp(a->norms, b->norms, sizeof a->norms) == 0 && a->norms[0][0] > 0);
    fine &= CHECK(memcmp(a->gaps, b->gaps, sizeof a->gaps) == 0);
    fine &= CHECK(memcmp(a->params, b->params, sizeof a->params) == 0);
    fine &= CHECK(memcmp(a->states, b->states, sizeof a->states) == 0);
    fine &= CHECK(memcmp(a->n_events, b->n_events, sizeof a->n_events) == 0);
    fine &= CHECK(same_memory(a, b));
    fine &= CHECK(a->losses[0][BATCHES - 1] < a->losses[0][0] && a->losses[2][0] != 0);
    if (!fine)
        fprintf(stderr, "%s, %s, crew %d\n", w->schedule, ft_weights_word(w->weights), number);
}

static void test_ranks_compute_what_one_process_does(void)
{
    static job one, all; /* large */
    int tried = 0;
    for (int i = 0; i < WAYS; i++)
        for (int n_devices = 2; n_devices <= 4; n_devices++) {
            bool ready = false;
            for (int c = 0; c < CREWS; c++) {
                if (crews[c].n_devices != n_devices) continue;
                if (!ready && !(ready = train_alone(&one, &ways[i], n_devices))) break;
                all = (job){.crew = &crews[c], .rate = 0.05};
                if (prepare(&all, &ways[i], n_devices)) {
                    run_ranks(crews[c].n_ranks, take_part, &all);
                    compare(&one, &all, &ways[i], c);
                    tried++;
                }
                forget(&all);
            }
        }
    CHECK(tried == 10 * 5 + 3 * 3 + 2 * 2);
}

/* -- saving ------------------------------------------------------------------------------------ */

enum { MOST_SAVED = 1 + PARAMS * (1 + STATES) };

typedef struct saver {
    job j;
    char path[512];
    bool states; /* alone are read, behind weights that were written and not yet told */
} saver;

/* A tensor of rank 0's, parameters, and their state. */
static int list_saved(const ft_run *run, ft_saved *out, char (*names)[32])
{
    static float own[3] = {1, 2, 3};
    const ft_spec spec = {FT_F32, ft_shape_of(3)};
    int n = 0;
    out[n++] = (ft_saved){"own", ft_view_of(&spec, own), -1, -1};
    for (int p = 0; p < PARAMS; p++)
        for (int part = -1; part < 0 || ft_run_state_name(run, p, part); part++, n++) {
            snprintf(names[n], sizeof names[n], "%d %s", p,
                     part < 0 ? "itself" : ft_run_state_name(run, p, part));
            out[n] = (ft_saved){.name = names[n], .param = p, .part = part};
        }
    return n;
}

static void train_and_save(ft_run *run, job *j)
{
    ft_error err;
    ft_saved tensors[MOST_SAVED];
    char names[MOST_SAVED][32];
    const saver *s = (const saver *)(const void *)j; /* its first member */
    begin(run);
    if (!went(train_leg(run, j, 0, 1, BATCHES, &j->o, &err), &err)) return;
    int n = list_saved(run, tensors, names);
    HOLDS(n == MOST_SAVED);
    for (int p = 0; p < PARAMS;
         p++) /* one is written, and not told to anybody before it is saved */
        if (went(ft_run_fetch(run, p, false, &err), &err)) *(float *)ft_run_param(run, p).data = 7;
    went(ft_run_write(run, s->path, tensors, n, &err), &err);
    tensors[1].param = PARAMS;
    HOLDS(ft_run_write(run, s->path, tensors, n, &err) == FT_INVALID);
}

static void take_part_and_save(int rank, void *user)
{
    take_part_in(rank, user, train_and_save);
}

/* What several ranks write into a file is what one process writes. */
static void test_ranks_save_what_one_process_does(void)
{
    static saver one, all; /* large */
    place p = place_new();
    ft_error err;
    ft_run *run = NULL;
    char *wanted = NULL, *found = NULL;
    int64_t wanted_size = 0, size = 0;
    one.j = all.j = (job){.rate = 0.05};
    all.j.crew = &crews[4];
    snprintf(one.path, sizeof one.path, "%s", in(&p, "one"));
    snprintf(all.path, sizeof all.path, "%s", in(&p, "all"));
    if (CHECK(prepare(&one.j, &ways[2], 3)) &&
        CHECK_STATUS(ft_run_new(&run, one.j.b[0], &err), FT_OK))
        train_and_save(run, &one.j);
    ft_run_free(run);
    if (CHECK(prepare(&all.j, &ways[2], 3))) run_ranks(3, take_part_and_save, &all);
    forget(&one.j);
    forget(&all.j);
    CHECK_STATUS(ft_file_read(one.path, &wanted, &wanted_size, &err), FT_OK);
    CHECK_STATUS(ft_file_read(all.path, &found, &size, &err), FT_OK);
    CHECK(size == wanted_size && memcmp(found, wanted, (size_t)size) == 0);
    ft_free(wanted);
    ft_free(found);
    CHECK(place_free(&p) == 2); /* no mark is left */
}

/* -- reading ----------------------------------------------------------------------------------- */

static bool is_held_here(const ft_run *run, int param)
{
    bool held = false;
    for (int s = 0; s < run->n_seats; s++) held = held || held_at(run, s, param, false);
    return held;
}

static int without_weights(ft_run *run, ft_saved *tensors, int n)
{
    ft_error err;
    int kept = 1;
    for (int p = 0; p < PARAMS; p++) {
        if (!went(ft_run_fetch(run, p, false, &err), &err)) return 1;
        ft_view view = ft_run_param(run, p);
        fill(view.data, ft_shape_count(&view.shape), (uint32_t)p + 5);
    }
    for (int i = 1; i < n; i++)
        if (tensors[i].part >= 0) tensors[kept++] = tensors[i];
    return kept;
}

/* Rank 0 reads a file of all parameters and of their state; then all train. */
static void read_and_train(ft_run *run, job *j)
{
    ft_error err;
    ft_saved tensors[MOST_SAVED];
    char names[MOST_SAVED][32];
    const saver *s = (const saver *)(const void *)j; /* its first member */
    int n = list_saved(run, tensors, names);
    if (s->states) n = without_weights(run, tensors, n);
    if (!went(ft_run_read(run, s->path, tensors + 1, n - 1, true, &err), &err)) return;
    for (int p = 0; run->world && !s->states && p < PARAMS; p++)
        HOLDS(is_held_here(run, p) || !run->mirrors[p].param); /* others have read theirs */
    if (!went(ft_run_refresh(run, &err), &err)) return;
    if (!went(train_leg(run, j, 0, BATCHES + 1, BATCHES, &j->o, &err), &err)) return;
    copy_params(run, 0, &j->o);
    tensors[1].name = "none";
    HOLDS(ft_run_read(run, s->path, tensors + 1, 1, true, &err) == FT_FORMAT);
    HOLDS(strstr(err.message, ": holds no tensor none") != NULL);
    HOLDS(ft_run_read(run, s->path, tensors, 1, true, &err) == FT_INVALID);
    for (int i = 0; i < run->n_seats; i++)
        HOLDS((run->seats[i].programs[FT_ACT_FORWARD] != NULL) == seat_is_here(run, i));
}

static void take_part_and_read(int rank, void *user)
{
    take_part_in(rank, user, read_and_train);
}

/* Each rank reads what it has, as owner or as a copy, and all go on as one process does; each has
 * made programs for the stages that it has. */
static void test_ranks_read_what_one_process_does(void)
{
    static saver one, all; /* large */
    static const struct {
        int way, crew, n_devices;
        bool states;
    } cases[] = {{2, 4, 3, false},  {7, 3, 3, false}, {10, 7, 4, false},
                 {12, 7, 4, false}, {2, 4, 3, true},  {12, 7, 4, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const way *w = &ways[cases[i].way];
        const crew *c = &crews[cases[i].crew];
        place p = place_new();
        ft_error err;
        ft_run *run = NULL;
        one.j = all.j = (job){.rate = 0.05};
        all.j.crew = c;
        one.states = all.states = cases[i].states;
        snprintf(one.path, sizeof one.path, "%s", in(&p, "weights"));
        snprintf(all.path, sizeof all.path, "%s", one.path);
        for (int turn = 0; turn < 2; turn++, run = NULL) { /* makes the file; reads it */
            if (CHECK(prepare(&one.j, w, c->n_devices)) &&
                CHECK_STATUS(ft_run_new(&run, one.j.b[0], &err), FT_OK))
                (turn ? read_and_train : train_and_save)(run, &one.j);
            ft_run_free(run);
            forget(&one.j);
        }
        if (CHECK(prepare(&all.j, w, c->n_devices)))
            run_ranks(c->n_ranks, take_part_and_read, &all);
        forget(&all.j);
        CHECK(!memcmp(one.j.o.losses[0], all.j.o.losses[0], sizeof one.j.o.losses[0]));
        CHECK(!memcmp(one.j.o.params[0], all.j.o.params[0], sizeof one.j.o.params[0]));
        CHECK(!memcmp(one.j.o.states[0], all.j.o.states[0], sizeof one.j.o.states[0]));
        CHECK(one.j.o.losses[0][0] != 0);
        CHECK(place_free(&p) == 1);
    }
}

/* -- failures ---------------------------------------------------------------------------------- */

/* Rank 0 trains until it fails, then tries again. */
static void fail_once(ft_run *run, job *j)
{
    ft_error err = {FT_OK, ""};
    begin(run);
    HOLDS(train_leg(run, j, 0, 1, BATCHES, &j->o, &j->failure) != FT_OK);
    ft_run_end(run, NULL);
    copy_params(run, 0, &j->o);
    HOLDS(ft_run_begin(run, ft_blueprint_plan(j->b[0]), 1, true, &err) == FT_INVALID);
    HOLDS(!strcmp(err.message, "a leg of several processes was ended early: begin anew"));
}

static void fail_with_others(int rank, void *user)
{
    take_part_in(rank, user, fail_once);
}

static _Atomic int launches;

/* Launches of one rank's devices, of which one fails. */
static ft_status launch_or_fail(ft_device_stream *stream, const ft_task *task, const void *arg,
                                ft_error *err)
{
    if (++launches == 40) return ft_fail(err, FT_DEVICE, "the device is on fire");
    return ft_cpu_driver.launch(stream, task, arg, err);
}

/* What goes wrong elsewhere is said by the rank where it did, and ends the leg here. */
static void test_failing_devices(void)
{
    static job j;
    ft_driver burning = ft_cpu_driver;
    burning.launch = launch_or_fail;
    for (int rank = 0; rank < 3; rank++) {
        j = (job){.crew = &crews[4], .rate = 0.05, .driver = &burning, .burns = rank};
        launches = 0;
        if (prepare(&j, &ways[2], 3)) {
            run_ranks(3, fail_with_others, &j);
            CHECK(j.failure.status == FT_DEVICE);
            CHECK(strstr(j.failure.message, "the device is on fire") != NULL);
            CHECK(!rank || strncmp(j.failure.message, "rank ", 5) == 0);
            CHECK(!rank || j.failure.message[5] == '0' + rank);
        }
        forget(&j);
    }
}

/* What one process says of a run whose steps are far too large, and what it has then. */
static void diverge_alone(job *one, const way *w)
{
    ft_error err;
    ft_run *run = NULL;
    *one = (job){.rate = 1e30};
    if (prepare(one, w, 3) && CHECK_STATUS(ft_run_new(&run, one->b[0], &err), FT_OK)) {
        CHECK_STATUS(set_params(run, &err), FT_OK);
        CHECK_STATUS(train_leg(run, one, 0, 1, BATCHES, &one->o, &one->failure), FT_DIVERGED);
        ft_run_end(run, NULL);
        copy_params(run, 0, &one->o);
    }
    ft_run_free(run);
    forget(one);
}

/* Numbers that are not finite are found where they are made, and told as one process tells it: of
 * all that are found in a batch, the first. No stage updates by that step, where all wait for each
 * other. */
static void test_not_finite(void)
{
    static job one, all;
    for (int i = 0; i < 5; i++) {
        diverge_alone(&one, &ways[i]);
        for (int c = 2; c < 5; c++) {
            all = (job){.crew = &crews[c], .rate = 1e30};
            if (prepare(&all, &ways[i], 3)) {
                run_ranks(crews[c].n_ranks, fail_with_others, &all);
                CHECK(all.failure.status == FT_DIVERGED);
                if (!CHECK(!strcmp(one.failure.message, all.failure.message)))
                    fprintf(stderr, "%s, crew %d: %s\nexpected: %s\n", ways[i].schedule, c,
                            all.failure.message, one.failure.message);
                if (all.p[0].schedule->synchronous)
                    CHECK(!memcmp(one.o.params[0], all.o.params[0], sizeof one.o.params[0]));
            }
            forget(&all);
        }
    }
}

static void test_clocks_of_others(void)
{
    static job all;
    all = (job){.crew = &crews[4], .rate = 0.05};
    if (prepare(&all, &ways[2], 3)) run_ranks(3, take_part_elsewhere, &all);
    forget(&all);
}

int main(void)
{
    RUN(test_ranks_compute_what_one_process_does);
    RUN(test_ranks_save_what_one_process_does);
    RUN(test_ranks_read_what_one_process_does);
    RUN(test_clocks_of_others);
    RUN(test_not_finite);
    RUN(test_failing_devices);
    return check_report();
}
