/* test/test_engine_replicas.c - runs of a small chain whose stages have replicas. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine_run.h"
#include "slow_driver.h"

typedef struct way {
    const char *schedule;
    ft_weights weights;
    bool recompute;
} way;

static const way ways[] = {
    {"sequential", FT_WEIGHTS_OWN, false}, {"gpipe", FT_WEIGHTS_OWN, false},
    {"gpipe", FT_WEIGHTS_OWN, true},       {"1f1b", FT_WEIGHTS_OWN, true},
    {"1f1b", FT_WEIGHTS_OWN, false},       {"zero-bubble", FT_WEIGHTS_OWN, false},
    {"async", FT_WEIGHTS_OWN, false},      {"async", FT_WEIGHTS_OWN, true},
    {"async", FT_WEIGHTS_STASH, false},    {"async", FT_WEIGHTS_VERTICAL, true},
    {"2bw", FT_WEIGHTS_OWN, false}};
enum { SYNCHRONOUS = 6, WAYS = sizeof ways / sizeof *ways };

/* Replicas of stages; w2 is used in stages 0 and 1. */
typedef struct layout {
    int n_stages, replicas[3];
} layout;

static const layout layouts[] = {{1, {2}},       {1, {4}},       {2, {2, 1}},    {2, {1, 2}},
                                 {2, {2, 2}},    {3, {2, 1, 1}}, {3, {1, 2, 1}}, {3, {1, 1, 2}},
                                 {3, {2, 2, 1}}, {3, {1, 2, 4}}, {2, {4, 2}}};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

typedef struct outcome {
    double losses[10], norm;
    float params[PARAMS][HIDDEN * HIDDEN];
} outcome;

static void check_memory(const ft_run *run, const ft_plan *plan)
{
    for (int d = 0; d < plan->n_devices; d++) {
        int64_t bytes[FT_MEMORY_CLASSES];
        ft_run_measured(run, d, bytes);
        for (int c = 0; c < FT_MEMORY_CLASSES; c++) {
            bool exact = c != FT_MEMORY_BUFFERS;
            CHECK(exact ? bytes[c] == plan->memory[d][c] : bytes[c] <= plan->memory[d][c]);
        }
    }
}

/* Events are of the stages that their devices have. */
static void check_stages(const ft_run *run, const ft_blueprint *b)
{
    const ft_timeline *t = ft_run_timeline(run);
    bool right = true;
    for (int64_t i = 0; i < t->n_events; i++) {
        const ft_event *e = &t->events[i];
        right = right && e->stage < b->seating.n_stages &&
                ft_seat_of(&b->seating, e->stage, e->device) >= 0;
    }
    CHECK(right);
}

typedef enum { REPLAYED, THREADED, DELAYED } manner;

/* With `layout` NULL: all of the chain on one device. */
static outcome train_as(const layout *l, const way *w, const char *optimizer, manner how)
{
    outcome o = {0};
    pipeline p;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    ft_run *run = NULL;
    const layout alone = {1, {1}};
    if (!l) l = &alone;
    if (!pipeline_init(&p, "cpu:1", w->schedule)) return o;
    if (!pipeline_replicate(&p, l->replicas, l->n_stages)) return o;
    p.options.optimizer = ft_optimizer_find(optimizer);
    CHECK_STATUS(ft_optimizer_hypers(p.options.optimizer, NULL, NULL, 0, p.hypers, &err), FT_OK);
    p.weights = w->weights;
    p.options.clip = p.schedule->synchronous ? 0.5 : 0;
    for (int s = 0; s < 3; s++) p.recompute[s] = w->recompute;
    const ft_driver slow = slow_driver();
    for (int d = 0; how == DELAYED && d < p.cut.n_devices; d++) p.devices[d].driver = &slow;
    if (CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK) &&
        CHECK_STATUS(ft_run_new(&run, b, &err), FT_OK)) {
        const ft_plan *plan = ft_blueprint_plan(b);
        CHECK_STATUS(set_params(run, &err), FT_OK);
        if (!CHECK_STATUS(train(run, plan, how != REPLAYED, o.losses, &err), FT_OK))
            fprintf(stderr, "%s: %s\n", w->schedule, err.message);
        for (int i = 0; i < PARAMS; i++) {
            ft_view view = ft_run_param(run, i);
            memcpy(o.params[i], view.data, (size_t)ft_shape_count(&view.shape) * sizeof(float));
        }
        CHECK(ft_run_allocations(run) == 0);
        check_memory(run, plan);
        check_stages(run, b);
    } else
        fprintf(stderr, "%s: %s\n", w->schedule, err.message);
    ft_run_free(run);
    ft_blueprint_free(b);
    pipeline_free(&p);
    return o;
}

static bool same(const outcome *a, const outcome *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* Replicas with one micro-batch each add them in the order of one device. */
static void test_one_micro_batch_each_is_one_device(void)
{
    static const layout whole[] = {{1, {4}},    {2, {4, 1}},    {2, {1, 4}},
                                   {2, {4, 4}}, {3, {1, 4, 1}}, {3, {4, 1, 1}}};
    for (int i = 0; i < SYNCHRONOUS; i++) {
        outcome one = train_as(NULL, &ways[i], "adamw", THREADED);
        CHECK(one.losses[9] < one.losses[0]);
        for (size_t k = 0; k < sizeof whole / sizeof *whole; k++) {
            outcome found = train_as(&whole[k], &ways[i], "adamw", THREADED);
            if (!CHECK(same(&one, &found)))
                fprintf(stderr, "  %s, layout %zu\n", ways[i].schedule, k);
        }
    }
}

/* What a synchronous run computes follows from the replicas of the stages, not from the order of
 * work; nor does an asynchronous one depend on timing. */
static void test_runs_do_not_depend_on_timing(void)
{
    for (int k = 0; k < LAYOUTS; k++) {
        outcome first = train_as(&layouts[k], &ways[0], "adamw", THREADED);
        /* with one micro-batch for each of its replicas a stage is further ahead than 2bw can be */
        int n = layouts[k].n_stages == 3 && layouts[k].replicas[2] == MICRO ? WAYS - 1 : WAYS;
        for (int i = 0; i < n; i++) {
            outcome replay = train_as(&layouts[k], &ways[i], "adamw", REPLAYED);
            outcome delayed = train_as(&layouts[k], &ways[i], "adamw", DELAYED);
            bool equal = same(&replay, &delayed) && (i >= SYNCHRONOUS || same(&replay, &first));
            if (!CHECK(equal)) fprintf(stderr, "  %s, layout %d\n", ways[i].schedule, k);
            CHECK(replay.losses[9] < replay.losses[0]);
        }
    }
}

/* Two replicas of each of two stages add what two replicas of the whole do. */
static void test_sums_do_not_depend_on_the_cut(void)
{
    outcome whole = train_as(&(layout){1, {2}}, &ways[1], "sgd", THREADED);
    outcome cut = train_as(&(layout){2, {2, 2}}, &ways[4], "sgd", THREADED);
    outcome thrice = train_as(&(layout){3, {2, 2, 2}}, &ways[1], "sgd", THREADED);
    CHECK(same(&whole, &cut) && same(&whole, &thrice));
}

/* -- the order of sums ------------------------------------------------------------------------- */

typedef float gradients[PARAMS][HIDDEN * HIDDEN];

/* After one step of SGD the momentum is the gradient. */
static void read_gradients(const ft_run *run, gradients out)
{
    for (int i = 0; i < PARAMS; i++) {
        const char *name;
        ft_view view;
        if (!CHECK(ft_run_state(run, i, 0, &name, &view))) continue;
        memcpy(out[i], view.data, (size_t)ft_shape_count(&view.shape) * sizeof(float));
    }
}

/* Of these micro-batches of feed's batch, on n replicas. */
static void find_gradients(const int *micros, int n_micros, int n, uint8_t rule, gradients out)
{
    pipeline p;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    ft_run *run = NULL;
    ft_result result;
    float all_x[MICRO * ROWS * IN], all_t[MICRO * ROWS * OUT], x[MICRO * ROWS * IN],
        t[MICRO * ROWS * OUT];
    if (!pipeline_init(&p, "cpu:1", "gpipe") || !pipeline_replicate(&p, &n, 1)) return;
    p.options.optimizer = ft_optimizer_find("sgd");
    CHECK_STATUS(ft_optimizer_hypers(p.options.optimizer, NULL, NULL, 0, p.hypers, &err), FT_OK);
    p.cut.micro_batches = n_micros;
    p.cut.n_batches = 1;
    p.cut.replica_rule = &rule;
    fill(all_x, MICRO * ROWS * IN, 11); /* as feed */
    fill(all_t, MICRO * ROWS * OUT, 12);
    for (int i = 0; i < n_micros; i++) {
        memcpy(x + i * ROWS * IN, all_x + micros[i] * ROWS * IN, ROWS * IN * sizeof *x);
        memcpy(t + i * ROWS * OUT, all_t + micros[i] * ROWS * OUT, ROWS * OUT * sizeof *t);
    }
    int64_t rows = (int64_t)n_micros * ROWS;
    const ft_spec x_spec = {FT_F32, {2, {rows, IN}}}, t_spec = {FT_F32, {2, {rows, OUT}}};
    const ft_view inputs[] = {ft_view_of(&x_spec, x), ft_view_of(&t_spec, t)};
    const ft_feed f = {.n_inputs = 2, .inputs = inputs, .rate = 0.05};
    CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
    CHECK_STATUS(ft_run_new(&run, b, &err), FT_OK);
    CHECK_STATUS(set_params(run, &err), FT_OK);
    CHECK_STATUS(ft_run_begin(run, ft_blueprint_plan(b), 1, true, &err), FT_OK);
    CHECK_STATUS(ft_run_feed(run, &f, &err), FT_OK);
    CHECK_STATUS(ft_run_next(run, &result, (int64_t)600e9, &err), FT_OK);
    CHECK_STATUS(ft_run_end(run, &err), FT_OK);
    read_gradients(run, out);
    ft_run_free(run);
    ft_blueprint_free(b);
    pipeline_free(&p);
}

/* What n replicas have is what one device has of the micro-batches of the first, and to that is
 * added what it has of those of the second, and so on. w2 has two uses, each of which is summed
 * over the replicas by itself, so there the last bits may differ. */
static void compare_with_one_device(int n, uint8_t rule)
{
    static const int all[MICRO] = {0, 1, 2, 3};
    static const int counts[PARAMS] = {HIDDEN * IN, HIDDEN * HIDDEN, OUT * HIDDEN};
    gradients found, sum = {{0}}, own;
    find_gradients(all, MICRO, n, rule, found);
    for (int r = 0; r < n; r++) {
        int each = MICRO / n, micros[MICRO];
        for (int k = 0; k < each; k++)
            micros[k] = rule == FT_REPLICAS_BLOCK ? r * each + k : k * n + r;
        find_gradients(micros, each, 1, 0, own);
        for (int i = 0; i < PARAMS; i++)
            for (int k = 0; k < counts[i]; k++) sum[i][k] += own[i][k];
    }
    for (int i = 0; i < PARAMS; i++)
        for (int k = 0; k < counts[i]; k++)
            CHECK(i == 1 ? fabsf(found[i][k] - sum[i][k]) < 1e-5F : found[i][k] == sum[i][k]);
}

static void test_gradients_are_summed_in_the_order_of_replicas(void)
{
    for (int n = 1; n <= MICRO; n *= 2)
        for (int rule = 0; rule < FT_REPLICAS_COUNT; rule++)
            compare_with_one_device(n, (uint8_t)rule);
}

int main(void)
{
    RUN(test_gradients_are_summed_in_the_order_of_replicas);
    RUN(test_one_micro_batch_each_is_one_device);
    RUN(test_runs_do_not_depend_on_timing);
    RUN(test_sums_do_not_depend_on_the_cut);
    CHECK(ft_alloc_live() == 0);
    return check_report();
}
