/* test/test_engine.c - runs of a small chain of three stages. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "engine/engine.h"
#include "engine_run.h"
#include "proof/proof.h"

static void write_params(ft_run *run)
{
    ft_error err = {FT_OK, ""};
    CHECK_STATUS(set_params(run, &err), FT_OK);
}

/* -- pipelines --------------------------------------------------------------------------------- */

typedef struct outcome {
    double losses[10];
    float w2[HIDDEN * HIDDEN];
} outcome;

/* By the kind of action that made it. */
static bool sends_as_planned(const ft_run *run, const ft_blueprint *b, int device)
{
    int64_t planned[FT_ACT_COUNT], sent[FT_ACT_COUNT] = {0};
    const ft_timeline *t = ft_run_timeline(run);
    ft_blueprint_sends(b, device, planned);
    for (int64_t i = 0; i < t->n_events; i++)
        if (t->events[i].device == device) sent[t->events[i].kind] += t->events[i].bytes;
    return memcmp(sent, planned, sizeof sent) == 0;
}

static outcome train_on(const char *devices, const char *schedule, bool threaded)
{
    outcome o = {0};
    pipeline p;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    ft_run *run = NULL;
    if (!pipeline_init(&p, devices, schedule)) return o;
    if (CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK) &&
        CHECK_STATUS(ft_run_new(&run, b, &err), FT_OK)) {
        const ft_plan *plan = ft_blueprint_plan(b);
        write_params(run);
        CHECK_STATUS(train(run, plan, threaded, o.losses, &err), FT_OK);
        memcpy(o.w2, ft_run_param(run, 1).data, sizeof o.w2);
        int64_t actions = 0;
        for (int d = 0; d < p.cut.n_devices; d++) actions += ft_plan_length(plan, d);
        CHECK(ft_run_timeline(run)->n_events == actions && ft_run_progress(run) == actions);
        CHECK(ft_run_allocations(run) == 0);
        for (int d = 0; d < p.cut.n_devices; d++) {
            int64_t bytes[FT_MEMORY_CLASSES];
            CHECK(sends_as_planned(run, b, d));
            CHECK(ft_run_busy_ns(run, d) == ft_timeline_busy_ns(ft_run_timeline(run), d));
            ft_run_measured(run, d, bytes);
            for (int c = 0; c < FT_MEMORY_CLASSES; c++) {
                bool shared = c == FT_MEMORY_ACTIVATIONS && p.cut.n_devices < p.cut.n_stages;
                if (c == FT_MEMORY_BUFFERS || shared) /* not all in use at once */
                    CHECK(bytes[c] > 0 && bytes[c] <= plan->memory[d][c]);
                else
                    CHECK(bytes[c] == plan->memory[d][c]);
            }
        }
    } else
        fprintf(stderr, "%s\n", err.message);
    ft_blueprint_free(b); /* a run is freed without it */
    ft_run_free(run);
    pipeline_free(&p);
    return o;
}

static void test_training(void)
{
    outcome judge = train_on("cpu:1", "sequential", false);
    CHECK(judge.losses[0] > 0 && judge.losses[9] < judge.losses[0] / 2);
    const char *const schedules[] = {"sequential", "gpipe", "1f1b", "zero-bubble"};
    const char *const devices[] = {"cpu:1", "cpu:2", "cpu:3", "cpu:2x2"};
    for (int s = 0; s < 4; s++)
        for (int d = 0; d < 4; d++) {
            outcome o = train_on(devices[d], schedules[s], true);
            CHECK(memcmp(&o, &judge, sizeof o) == 0);
        }
    for (int d = 1; d < 3; d++) {
        outcome replay = train_on(devices[d], "async", false);
        outcome threaded = train_on(devices[d], "async", true);
        CHECK(memcmp(&replay, &threaded, sizeof replay) == 0);
        CHECK(memcmp(&replay, &judge, sizeof replay) != 0);
    }
}

/* The lag of an action that reads weights is compared with the updates that were done: another one
 * in the plan ends the leg, of forwards and of backwards. */
static void test_lags_are_what_the_run_counts(void)
{
    static const ft_action_kind kinds[] = {FT_ACT_FORWARD, FT_ACT_BACKWARD};
    for (int i = 0; i < 4; i++) {
        pipeline p;
        ft_error err = {FT_OK, ""};
        ft_blueprint *b = NULL;
        ft_run *run = NULL;
        ft_plan *plan = NULL;
        double losses[10];
        if (!pipeline_init(&p, "cpu:3", i % 2 ? "async" : "1f1b")) return;
        CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
        CHECK_STATUS(ft_run_new(&run, b, &err), FT_OK);
        CHECK_STATUS(ft_plan_cut(&plan, ft_blueprint_plan(b), 2, &err), FT_OK);
        if (!CHECK(plan)) return;
        const ft_device_plan *lists = &plan->devices[1];
        const ft_action_list *list = lists->warmup.n ? &lists->warmup : &lists->body;
        for (int k = 0; k < list->n; k++) {
            ft_action *a = (ft_action *)(uintptr_t)&list->actions[k];
            if (a->kind == kinds[i / 2]) a->lag++;
        }
        write_params(run);
        CHECK_STATUS(train(run, plan, false, losses, &err), FT_INVALID);
        CHECK(strstr(err.message, "updates behind, the plan says"));
        ft_run_free(run);
        ft_plan_free(plan);
        ft_blueprint_free(b);
        pipeline_free(&p);
    }
}

/* Two legs, of n and of 10 - n batches. The first is planned for n, or planned for 10 and drained
 * after n. */
static outcome train_in_two_legs(const char *schedule, bool threaded, int n, bool drain)
{
    outcome o = {0};
    pipeline p;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    ft_run *run = NULL;
    ft_plan *first = NULL, *second = NULL;
    if (!pipeline_init(&p, "cpu:3", schedule)) return o;
    CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
    CHECK_STATUS(ft_run_new(&run, b, &err), FT_OK);
    CHECK_STATUS(ft_plan_cut(&first, ft_blueprint_plan(b), drain ? 10 : n, &err), FT_OK);
    CHECK_STATUS(ft_plan_cut(&second, ft_blueprint_plan(b), 10 - n, &err), FT_OK);
    write_params(run);
    CHECK_STATUS(ft_run_begin(run, first, 1, threaded, &err), FT_OK);
    for (int fed = 0, taken = 0; taken < n; taken++) {
        ft_result result;
        while (fed < n && ft_run_wants(run)) {
            CHECK_STATUS(feed(run, (int64_t)MICRO * ROWS, &err), FT_OK);
            fed++;
        }
        if (fed == n && drain) ft_run_drain(run); /* again and again: no matter */
        CHECK(!drain || fed < n || !ft_run_wants(run));
        CHECK_STATUS(ft_run_next(run, &result, (int64_t)600e9, &err), FT_OK);
        o.losses[taken] = result.loss;
    }
    CHECK_STATUS(ft_run_end(run, &err), FT_OK);
    CHECK(drain || ft_run_timeline(run)->n_events == ft_run_progress(run));
    CHECK_STATUS(train(run, second, threaded, o.losses + n, &err), FT_OK);
    memcpy(o.w2, ft_run_param(run, 1).data, sizeof o.w2);
    ft_run_free(run);
    ft_plan_free(first);
    ft_plan_free(second);
    ft_blueprint_free(b);
    pipeline_free(&p);
    return o;
}

static void test_draining(void)
{
    static const char *const names[] = {"sequential", "gpipe", "1f1b", "zero-bubble", "async"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int n = 1; n <= 4; n++) {
            outcome planned = train_in_two_legs(names[i], true, n, false);
            outcome drained = train_in_two_legs(names[i], true, n, true);
            outcome replayed = train_in_two_legs(names[i], false, n, true);
            CHECK(memcmp(&planned, &drained, sizeof planned) == 0);
            CHECK(memcmp(&planned, &replayed, sizeof planned) == 0);
        }
}

/* -- errors ------------------------------------------------------------------------------------ */

static void test_misuse(void)
{
    pipeline p;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    ft_run *run = NULL;
    ft_result result;
    if (!pipeline_init(&p, "cpu:3", "1f1b")) return;
    CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
    CHECK_STATUS(ft_run_new(&run, b, &err), FT_OK);
    CHECK_STATUS(feed(run, (int64_t)MICRO * ROWS, &err), FT_INVALID); /* no leg */
    CHECK_STATUS(ft_run_next(run, &result, 0, &err), FT_INVALID);
    CHECK_STATUS(ft_run_end(run, &err), FT_OK);
    CHECK_STATUS(ft_run_begin(run, ft_blueprint_plan(b), 1, true, &err), FT_OK);
    CHECK_STATUS(ft_run_begin(run, ft_blueprint_plan(b), 1, true, &err), FT_INVALID);
    CHECK_STATUS(ft_run_refresh(run, &err), FT_INVALID);
    CHECK_STATUS(ft_run_next(run, &result, 0, &err), FT_INVALID); /* nothing was fed */
    CHECK_STATUS(feed(run, ROWS, &err), FT_SHAPE);
    const ft_feed few = {.bucket = 0, .n_inputs = 1};
    for (int bucket = -1; bucket < 2; bucket += 2) {
        const ft_feed bad_bucket = {.bucket = bucket, .n_inputs = 2};
        CHECK_STATUS(ft_run_feed(run, &bad_bucket, &err), FT_INVALID);
    }
    CHECK_STATUS(ft_run_feed(run, &few, &err), FT_INVALID);
    CHECK(strstr(err.message, "1 inputs fed, the graph has 2"));
    ft_text text = {0};
    CHECK_STATUS(ft_run_describe(run, &text, &err), FT_OK);
    CHECK(text.data && strstr(text.data, "cpu:2: action 0"));
    ft_text_fini(&text);
    ft_run_free(run); /* ends the leg */
    ft_blueprint_free(b);
    pipeline_free(&p);

    pipeline_init(&p, "cpu:3", "1f1b");
    p.devices[1].memory_bytes = ft_memory_round(1);
    CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
    CHECK_STATUS(ft_run_new(&run, b, &err), FT_INFEASIBLE);
    CHECK(!run);
    ft_blueprint_free(b);
    pipeline_free(&p);

    pipeline_init(&p, "sim:3x11GB", "1f1b");
    CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
    CHECK_STATUS(ft_run_new(&run, b, &err), FT_DEVICE);
    CHECK(strstr(err.message, "planning only"));
    ft_blueprint_free(b);
    pipeline_free(&p);
}

/* Such an action may be in any list of a device. */
static void test_what_cannot_be_executed(void)
{
    pipeline p;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    if (!pipeline_init(&p, "cpu:3", "async")) return;
    CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
    CHECK_STATUS(ft_run_check(b, &err), FT_OK);
    for (int part = 0; part < FT_PARTS; part++) {
        const ft_action_list *list = ft_plan_list(&b->plan, 0, (ft_part)part);
        ft_action *a = (ft_action *)(uintptr_t)&list->actions[0], kept = *a;
        if (!CHECK(list->n > 0)) continue;
        a->kind = FT_ACT_RECOMPUTE;
        CHECK_STATUS(ft_run_check(b, &err), FT_UNSUPPORTED);
        CHECK(strstr(err.message, "plan: recompute actions, as stage 0 has on device 0, can"));
        *a = kept;
    }
    ((bool *)(uintptr_t)b->plan.by_policy)[2] = true;
    CHECK_STATUS(ft_run_check(b, &err), FT_UNSUPPORTED);
    CHECK(strstr(err.message, "device 2 chooses its order by policy"));
    ft_blueprint_free(b);
    pipeline_free(&p);
}

/* A number that is not finite ends the leg and says where it came from; the run still works. */
static void test_not_finite(bool threaded)
{
    pipeline p;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    ft_run *run = NULL;
    double losses[10];
    if (!pipeline_init(&p, "cpu:3", "1f1b")) return;
    CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
    CHECK_STATUS(ft_run_new(&run, b, &err), FT_OK);
    write_params(run);
    *(float *)ft_run_param(run, 2).data = NAN;
    CHECK_STATUS(ft_run_refresh(run, &err), FT_OK);
    CHECK_STATUS(train(run, ft_blueprint_plan(b), threaded, losses, &err), FT_DIVERGED);
    if (!CHECK(strstr(err.message, "step 1: 'linear' (forward) ") == err.message &&
               strstr(err.message, "gave nan from the parameter 'w3', which is not "
                                   "finite; stage 2 of 3, micro-batch 0 of 4")))
        fprintf(stderr, "  %s\n", err.message);
    CHECK_STATUS(ft_run_end(run, &err), FT_OK);
    write_params(run);
    CHECK_STATUS(train(run, ft_blueprint_plan(b), threaded, losses, &err), FT_OK);
    CHECK(losses[9] < losses[0]);
    ft_run_free(run);
    ft_blueprint_free(b);
    pipeline_free(&p);
}

/* One micro-batch after the other: a batch that runs, one that is updated, and one that is fed. */
static void test_batches_that_are_wanted(void)
{
    pipeline p;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    ft_run *run = NULL;
    int n = 0;
    if (!pipeline_init(&p, "cpu:3", "sequential")) return;
    CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
    CHECK_STATUS(ft_run_new(&run, b, &err), FT_OK);
    write_params(run);
    CHECK_STATUS(ft_run_begin(run, ft_blueprint_plan(b), 1, false, &err), FT_OK);
    for (; ft_run_wants(run); n++) CHECK_STATUS(feed(run, (int64_t)MICRO * ROWS, &err), FT_OK);
    CHECK(n == 3);
    ft_run_drain(run);
    for (ft_result result; n > 0; n--)
        CHECK_STATUS(ft_run_next(run, &result, (int64_t)600e9, &err), FT_OK);
    CHECK_STATUS(ft_run_end(run, &err), FT_OK);
    ft_run_free(run);
    ft_blueprint_free(b);
    pipeline_free(&p);
}

static void test_optimizer_state(void)
{
    pipeline p;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    ft_run *run = NULL;
    double losses[10];
    const char *name;
    ft_view view;
    if (!pipeline_init(&p, "cpu:3", "gpipe")) return;
    CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
    CHECK_STATUS(ft_run_new(&run, b, &err), FT_OK);
    write_params(run);
    CHECK(ft_run_state(run, 1, 0, &name, &view) && *(float *)view.data == 0);
    CHECK_STATUS(train(run, ft_blueprint_plan(b), true, losses, &err), FT_OK);
    for (int part = 0; part < 2; part++) {
        CHECK(ft_run_state(run, 1, part, &name, &view) && name[0]);
        CHECK(ft_shape_count(&view.shape) == HIDDEN * HIDDEN && *(float *)view.data != 0);
    }
    CHECK(!ft_run_state(run, 1, 2, &name, &view) && !ft_run_state(run, 1, -1, &name, &view));
    ft_run_free(run);
    ft_blueprint_free(b);
    pipeline_free(&p);
}

/* -- what is counted --------------------------------------------------------------------------- */

/* Trains the chain with a fault in its blueprint; what is said of it goes to err. */
static ft_status train_with_fault(const char *schedule, void (*spoil)(ft_blueprint *b),
                                  ft_error *err)
{
    pipeline p;
    ft_blueprint *b = NULL;
    ft_run *run = NULL;
    double losses[10];
    *err = (ft_error){FT_OK, ""};
    if (!pipeline_init(&p, "cpu:3", schedule)) return FT_NOMEM;
    CHECK_STATUS(pipeline_draw(&b, &p, err), FT_OK);
    if (spoil) spoil(b);
    CHECK_STATUS(ft_run_new(&run, b, err), FT_OK);
    write_params(run);
    ft_status status = train(run, ft_blueprint_plan(b), false, losses, err);
    ft_run_free(run);
    ft_blueprint_free(b);
    pipeline_free(&p);
    return status;
}

static void one_slot_fewer(ft_blueprint *b)
{
    b->seats[0].n_slots--;
}

static void one_half_fewer(ft_blueprint *b)
{
    b->seats[2].n_held_slots--;
}

/* The values of an edge reach over the end of its slots. */
static void short_slots(ft_blueprint *b)
{
    for (int e = 0; e < b->n_edges; e++)
        if (b->cargoes[e].kind == FT_CARGO_VALUES && b->edges[e].to == 2)
            b->cargoes[e].at[0] = FT_MEMORY_ALIGN;
}

static void other_lag(ft_blueprint *b)
{
    ft_action *actions = (ft_action *)(uintptr_t)b->plan.devices[1].body.actions;
    actions[0].lag = 1;
}

static void test_faults_are_seen(void)
{
    static const struct {
        const char *schedule;
        void (*spoil)(ft_blueprint *b);
        const char *words;
    } faults[] = {
        {"1f1b", one_slot_fewer,
         "slot 0 of 2 of activations of stage 0 is handed out to number 2 while "
         "number 0 is in it"},
        {"zero-bubble", one_half_fewer,
         "slot 0 of 2 of values between the halves of backwards of stage 2 is handed out to "
         "number 2 while number 0 is in it"},
        {"1f1b", short_slots,
         "device cpu:2: something wrote past the end of buffers in stage 2, slot 0"},
        {"1f1b", other_lag, "stage 1 is 0 updates behind, the plan says 1"},
    };
    ft_error err;
    CHECK_STATUS(train_with_fault("1f1b", NULL, &err), FT_OK);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        CHECK_STATUS(train_with_fault(faults[i].schedule, faults[i].spoil, &err), FT_INVALID);
        if (!CHECK(strstr(err.message, faults[i].words))) fprintf(stderr, "  %s\n", err.message);
    }
}

/* Sequentially every edge holds one micro-batch at a time, whatever slots it has; a batch is fed
 * while one is worked on. */
static void test_live_buffers(void)
{
    pipeline p;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    ft_run *run = NULL;
    double losses[10];
    if (!pipeline_init(&p, "cpu:3", "sequential")) return;
    CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
    CHECK_STATUS(ft_run_new(&run, b, &err), FT_OK);
    write_params(run);
    CHECK_STATUS(train(run, ft_blueprint_plan(b), false, losses, &err), FT_OK);
    for (int d = 0; d < 3; d++) {
        int64_t bytes[FT_MEMORY_CLASSES], forward = 0, others = 0;
        ft_run_measured(run, d, bytes);
        for (int e = 0; e < b->n_edges; e++) {
            if (b->edges[e].to != d) continue;
            bool micro = b->cargoes[e].kind == FT_CARGO_VALUES;
            *(micro ? &forward : &others) += b->cargoes[e].slot_bytes;
        }
        int64_t fed = b->batch_slots * b->blocks[d].batch_slot_bytes;
        CHECK(bytes[FT_MEMORY_BUFFERS] >= fed);
        CHECK(bytes[FT_MEMORY_BUFFERS] <= fed + forward + others);
        CHECK(bytes[FT_MEMORY_BUFFERS] < b->blocks[d].bytes[FT_MEMORY_BUFFERS]);
    }
    ft_run_free(run);
    ft_blueprint_free(b);
    pipeline_free(&p);
}

/* -- failing allocations ----------------------------------------------------------------------- */

/* Fails the first, second, third ... allocation until a blueprint and a run are made. */
static void test_no_memory(void)
{
    const ft_cable link = {.a = 0, .b = 1, .bytes_per_s = 1e9};
    const ft_machine machine = {.n_devices = 2, .n_places = 2, .n_links = 1, .links = &link};
    int64_t live = ft_alloc_live();
    bool made = false;
    int failures = 0;
    for (int n = 1; n < 10000 && !made; n++) {
        pipeline p;
        ft_error err = {FT_OK, ""};
        ft_blueprint *b = NULL;
        ft_run *run = NULL;
        if (!pipeline_init(&p, "cpu:2x2", "1f1b")) return;
        p.cut.machine = &machine;
        ft_alloc_fail_after(n);
        ft_status status = pipeline_draw(&b, &p, &err);
        if (status == FT_OK) status = ft_run_new(&run, b, &err);
        ft_alloc_fail_after(0);
        made = status == FT_OK;
        if (!made) {
            failures++;
            CHECK(status == FT_NOMEM && err.status == FT_NOMEM && err.message[0] && !run);
        }
        ft_run_free(run);
        ft_blueprint_free(b);
        pipeline_free(&p); /* it owns its splits */
        CHECK(ft_alloc_live() == live);
    }
    CHECK(made && failures > 20);
}

int main(void)
{
    RUN(test_training);
    RUN(test_lags_are_what_the_run_counts);
    RUN(test_draining);
    RUN(test_misuse);
    RUN(test_what_cannot_be_executed);
    test_not_finite(true);
    test_not_finite(false);
    RUN(test_batches_that_are_wanted);
    RUN(test_optimizer_state);
    RUN(test_faults_are_seen);
    RUN(test_live_buffers);
    RUN(test_no_memory);
    CHECK(ft_alloc_live() == 0);
    return check_report();
}
