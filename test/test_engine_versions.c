/* test/test_engine_versions.c - runs of a small chain that keep older weights. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine_run.h"
#include "slow_driver.h"

/* A schedule without a flush, and what its backwards read. */
typedef struct way {
    const char *schedule;
    ft_weights weights;
} way;

static const way ways[] = {{"async", FT_WEIGHTS_STASH},
                           {"async", FT_WEIGHTS_VERTICAL},
                           {"2bw", FT_WEIGHTS_OWN},
                           {"async", FT_WEIGHTS_PREDICT}};
enum { WAYS = sizeof ways / sizeof *ways };

typedef struct outcome {
    double losses[10];
    float params[PARAMS][HIDDEN * HIDDEN];
} outcome;

/* -- runs -------------------------------------------------------------------------------------- */

static void check_memory(const ft_run *run, const ft_plan *plan, int n_stages)
{
    for (int d = 0; d < plan->n_devices; d++) {
        int64_t bytes[FT_MEMORY_CLASSES];
        ft_run_measured(run, d, bytes);
        CHECK(bytes[FT_MEMORY_VERSIONS] == plan->memory[d][FT_MEMORY_VERSIONS]);
        for (int c = 0; c < FT_MEMORY_CLASSES; c++) CHECK(bytes[c] <= plan->memory[d][c]);
    }
    bool keeps = false;
    for (int s = 0; s < n_stages; s++) keeps |= plan->versions[s] > 1;
    CHECK(!keeps || plan->memory[0][FT_MEMORY_VERSIONS] > 0);
}

/* delayed: every launch and copy of every device begins after a pause of its own. */
static outcome train_on(const char *devices, const way *w, bool threaded, bool delayed)
{
    outcome o = {0};
    pipeline p;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    ft_run *run = NULL;
    const ft_driver slow = slow_driver();
    if (!pipeline_init(&p, devices, w->schedule)) return o;
    p.weights = w->weights;
    for (int d = 0; delayed && d < p.cut.n_devices; d++) p.devices[d].driver = &slow;
    if (CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK) &&
        CHECK_STATUS(ft_run_new(&run, b, &err), FT_OK)) {
        CHECK_STATUS(set_params(run, &err), FT_OK);
        if (!CHECK_STATUS(train(run, ft_blueprint_plan(b), threaded, o.losses, &err), FT_OK))
            fprintf(stderr, "%s\n", err.message);
        for (int i = 0; i < PARAMS; i++) {
            ft_view view = ft_run_param(run, i);
            memcpy(o.params[i], view.data, (size_t)ft_shape_count(&view.shape) * sizeof(float));
        }
        CHECK(ft_run_allocations(run) == 0);
        check_memory(run, ft_blueprint_plan(b), 3);
    } else
        fprintf(stderr, "%s\n", err.message);
    ft_run_free(run);
    ft_blueprint_free(b);
    pipeline_free(&p);
    return o;
}

/* Whatever the timing; and neither what one device computes nor what newest weights give. */
static void test_versions_do_not_depend_on_timing(void)
{
    const way newest = {"async", FT_WEIGHTS_LATEST}, one = {"1f1b", FT_WEIGHTS_OWN};
    outcome others[2] = {train_on("cpu:3", &newest, false, false),
                         train_on("cpu:3", &one, false, false)};
    for (int i = 0; i < WAYS; i++)
        for (int d = 0; d < 2; d++) {
            const char *devices = d ? "cpu:3" : "cpu:2";
            outcome replay = train_on(devices, &ways[i], false, false);
            outcome threaded = train_on(devices, &ways[i], true, false);
            outcome first = train_on(devices, &ways[i], true, true);
            outcome second = train_on(devices, &ways[i], true, true);
            CHECK(memcmp(&replay, &threaded, sizeof replay) == 0);
            CHECK(memcmp(&replay, &first, sizeof replay) == 0);
            CHECK(memcmp(&first, &second, sizeof replay) == 0);
            CHECK(replay.losses[9] < replay.losses[0]);
            for (int k = 0; k < 2; k++) CHECK(memcmp(&replay, &others[k], sizeof replay) != 0);
        }
}

/* Every batch reads the weights of one update ago in every stage: the cut does not matter. */
static void test_double_buffers_do_not_depend_on_the_cut(void)
{
    outcome two = train_on("cpu:2", &ways[2], true, false);
    outcome three = train_on("cpu:3", &ways[2], true, false);
    outcome one = train_on("cpu:1", &ways[2], true, false);
    CHECK(memcmp(&two, &three, sizeof two) == 0 && memcmp(&two, &one, sizeof two) == 0);
}

/* Shared weights may be taken over between a forward and the backward that reads its version. */
static void test_backwards_read_what_came_with_their_forwards(void)
{
    ft_versions slots[2] = {{{3, 1}}, {{2, 2}}};
    const ft_version_count count = {.newest = {{3, 2}}, .n_slots = 2, .forwards = slots};
    const struct {
        ft_action action;
        int64_t own, adopted;
    } rows[] = {{{.kind = FT_ACT_FORWARD, .batch = 3}, 3, 2},
                {{.kind = FT_ACT_FORWARD, .batch = 3, .lag = 2}, 1, 1},
                {{.kind = FT_ACT_BACKWARD, .batch = 3}, 3, 1},
                {{.kind = FT_ACT_BACKWARD, .batch = 3, .micro = 1}, 3, 2},
                {{.kind = FT_ACT_BACKWARD_INPUT, .batch = 3, .micro = 1, .lag = 1}, 2, 2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const ft_action *a = &rows[i].action;
        ft_versions read = ft_versions_read(&count, 2 * (int64_t)a->batch + a->micro, a);
        CHECK(read.of[FT_WEIGHTS_OWNED] == rows[i].own);
        CHECK(read.of[FT_WEIGHTS_ADOPTED] == rows[i].adopted);
    }
}

/* -- two legs ---------------------------------------------------------------------------------- */

enum { PARTS = 1 + FT_MAX_STATE_PARTS };

typedef float held[PARAMS][PARTS][HIDDEN * HIDDEN];

/* Parameters and what the optimizer keeps of them: out of the run, or into it. */
static void pass_held(ft_run *run, held h, bool in)
{
    for (int p = 0; p < PARAMS; p++)
        for (int part = 0; part < PARTS; part++) {
            const char *name;
            ft_view view = ft_run_param(run, p);
            if (part && !ft_run_state(run, p, part - 1, &name, &view)) break;
            size_t bytes = (size_t)ft_shape_count(&view.shape) * sizeof(float);
            memcpy(in ? view.data : h[p][part], in ? h[p][part] : view.data, bytes);
        }
}

/* Of a leg, by batch. */
typedef struct seen {
    double losses[10], norms[10], gaps[10][3];
    held end;
} seen;

static void see_leg(ft_run *run, const ft_plan *plan, seen *out)
{
    ft_error err = {FT_OK, ""};
    CHECK_STATUS(ft_run_begin(run, plan, 1, false, &err), FT_OK);
    for (int taken = 0; taken < plan->n_batches; taken++) {
        ft_result result = {0};
        while (ft_run_wants(run)) CHECK_STATUS(feed(run, (int64_t)MICRO * ROWS, &err), FT_OK);
        CHECK_STATUS(ft_run_next(run, &result, (int64_t)600e9, &err), FT_OK);
        out->losses[taken] = result.loss;
        out->norms[taken] = result.grad_norm;
        for (int s = 0; s < 3; s++) out->gaps[taken][s] = ft_run_gap(run, s);
    }
    CHECK_STATUS(ft_run_end(run, &err), FT_OK);
    pass_held(run, out->end, false);
}

/* What a leg begins with are the weights and the optimizer's state: no norm, gap, version, mark or
 * prediction of the leg before. */
static void test_legs_have_nothing_of_each_other(void)
{
    static const struct {
        way of;
        double clip;
    } legs[] = {{{"1f1b", FT_WEIGHTS_OWN}, 0.01},    {{"async", FT_WEIGHTS_LATEST}, 0.01},
                {{"async", FT_WEIGHTS_LATEST}, 0},   {{"async", FT_WEIGHTS_STASH}, 0.01},
                {{"async", FT_WEIGHTS_VERTICAL}, 0}, {{"async", FT_WEIGHTS_STASH_GAP}, 0.01},
                {{"async", FT_WEIGHTS_PREDICT}, 0},  {{"2bw", FT_WEIGHTS_OWN}, 0}};
    static seen before, legs_of[2];
    for (size_t i = 0; i < sizeof legs / sizeof *legs; i++) {
        pipeline p;
        ft_error err = {FT_OK, ""};
        ft_blueprint *b = NULL;
        ft_plan *two = NULL;
        if (!pipeline_init(&p, "cpu:3", legs[i].of.schedule)) return;
        p.weights = legs[i].of.weights;
        p.cut.late_norms = !p.schedule->synchronous && legs[i].clip > 0;
        p.options.clip = legs[i].clip;
        p.options.gaps = true;
        CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
        CHECK_STATUS(ft_plan_cut(&two, &b->plan, 2, &err), FT_OK);
        for (int r = 0; r < 2; r++) {
            ft_run *run = NULL;
            CHECK_STATUS(ft_run_new(&run, b, &err), FT_OK);
            if (r) pass_held(run, before.end, true);
            CHECK_STATUS(r ? ft_run_refresh(run, &err) : set_params(run, &err), FT_OK);
            if (!r) see_leg(run, two, &before);
            see_leg(run, &b->plan, &legs_of[r]);
            ft_run_free(run);
        }
        if (!CHECK(memcmp(&legs_of[0], &legs_of[1], sizeof *legs_of) == 0))
            fprintf(stderr, "  %s, %s\n", p.schedule->name, ft_weights_word(p.weights));
        bool late = !p.schedule->synchronous;
        for (int k = 0; k < 10; k++) CHECK(isnan(legs_of[0].norms[k]) == (late && !legs[i].clip));
        CHECK(isnan(legs_of[0].gaps[0][0]));
        CHECK(late == (legs_of[0].gaps[9][0] > 0));
        ft_plan_free(two);
        ft_blueprint_free(b);
        pipeline_free(&p);
    }
}

/* -- faults ------------------------------------------------------------------------------------ */

static void one_version_fewer(ft_blueprint *b)
{
    b->seats[0].rings[FT_WEIGHTS_OWNED].n--;
}

/* Forwards of stage 0 ask for weights that are long gone. */
static void another_lag(ft_blueprint *b)
{
    const ft_device_plan *lists = &b->plan.devices[0];
    const ft_action_list *list = &lists->body;
    for (int i = 0; i < list->n; i++) {
        ft_action *a = (ft_action *)(uintptr_t)&list->actions[i];
        if (a->kind == FT_ACT_FORWARD) a->lag += 5;
    }
}

static void refused(void (*spoil)(ft_blueprint *b), const char *words)
{
    pipeline p;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    ft_run *run = NULL;
    double losses[10];
    if (!pipeline_init(&p, "cpu:3", "async")) return;
    p.weights = FT_WEIGHTS_VERTICAL;
    CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
    spoil(b);
    CHECK_STATUS(ft_run_new(&run, b, &err), FT_OK);
    CHECK_STATUS(set_params(run, &err), FT_OK);
    CHECK_STATUS(train(run, ft_blueprint_plan(b), false, losses, &err), FT_INVALID);
    if (!CHECK(strstr(err.message, words))) fprintf(stderr, "  %s\n", err.message);
    ft_run_free(run);
    ft_blueprint_free(b);
    pipeline_free(&p);
}

static void test_faults_are_seen(void)
{
    refused(one_version_fewer, "updates behind, the plan says");
    refused(another_lag, "updates behind, the plan says 6");
}

int main(void)
{
    RUN(test_versions_do_not_depend_on_timing);
    RUN(test_double_buffers_do_not_depend_on_the_cut);
    RUN(test_backwards_read_what_came_with_their_forwards);
    RUN(test_legs_have_nothing_of_each_other);
    RUN(test_faults_are_seen);
    CHECK(ft_alloc_live() == 0);
    return check_report();
}
