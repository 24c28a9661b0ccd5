/* test/test_engine_watch.c - a leg that makes no progress: who waits for whom, and that it can be
 * given up. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "engine/engine.h"
#include "engine_run.h"

/* The plan with every device's list unrolled, which then can be changed; freed with `free`. No
 * check has seen what becomes of it. */
typedef struct unrolled {
    ft_plan plan;
    ft_device_plan devices[3];
    ft_action *lists[3];
} unrolled;

static void unroll(unrolled *u, const ft_plan *plan)
{
    *u = (unrolled){.plan = *plan};
    for (int d = 0; d < plan->n_devices; d++) {
        int n = (int)ft_plan_length(plan, d);
        u->lists[d] = malloc((size_t)n * sizeof(ft_action));
        for (int i = 0; i < n; i++) u->lists[d][i] = ft_plan_at(plan, d, i);
        u->devices[d].warmup = (ft_action_list){.n = n, .actions = u->lists[d]};
    }
    u->plan.devices = u->devices;
    u->plan.body_repeats = 0;
}

static int find(const ft_plan *plan, int device, ft_action_kind kind, int batch)
{
    int i = 0;
    for (;; i++) {
        ft_action a = ft_plan_at(plan, device, i);
        if (a.kind == kind && a.batch == batch) return i;
    }
}

/* Waits until what is said of the leg has the words; false after a minute. */
static bool comes_to(ft_run *run, const char *words, ft_text *text)
{
    ft_error err = {FT_OK, ""};
    for (int i = 0; i < 6000; i++) {
        ft_result result;
        ft_text_fini(text);
        if (ft_run_next(run, &result, (int64_t)1e7, &err) != FT_CANCELLED) continue;
        CHECK_STATUS(ft_run_describe(run, text, &err), FT_OK);
        if (text->data && strstr(text->data, words)) return true;
    }
    fprintf(stderr, "%s\n", text->data ? text->data : "nothing");
    return false;
}

/* The first device wants a backward before the forward that leads to it. */
static void test_a_circle_is_named(void)
{
    pipeline p;
    unrolled u;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    ft_run *run = NULL;
    ft_text text = {0};
    double losses[10], again[10];
    if (!pipeline_init(&p, "cpu:3", "1f1b")) return;
    CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
    CHECK_STATUS(ft_run_new(&run, b, &err), FT_OK);
    CHECK_STATUS(set_params(run, &err), FT_OK);
    unroll(&u, ft_blueprint_plan(b));
    int forward = find(&u.plan, 0, FT_ACT_FORWARD, 1),
        backward = find(&u.plan, 0, FT_ACT_BACKWARD, 1);
    ft_action kept = u.lists[0][forward];
    u.lists[0][forward] = u.lists[0][backward];
    u.lists[0][backward] = kept;

    CHECK_STATUS(ft_run_begin(run, &u.plan, 1, true, &err), FT_OK);
    for (int i = 0; i < 2 && ft_run_wants(run); i++)
        CHECK_STATUS(feed(run, (int64_t)MICRO * ROWS, &err), FT_OK);
    CHECK(comes_to(run, "in a circle: cpu:0 waits for cpu:1 waits for cpu:0\n", &text));
    CHECK(text.data &&
          strstr(text.data, "backward of stage 0, batch 1, micro-batch 0, waits for data "
                            "of edge 1, B1>B0 (linear_grad_input, 60 bytes), by cpu:1"));
    CHECK(text.data &&
          strstr(text.data, "forward of stage 1, batch 1, micro-batch 0, waits for data "
                            "of edge 0, F0>F1 (linear, 60 bytes), by cpu:0, for "));
    ft_text_fini(&text);
    CHECK_STATUS(ft_run_describe_past(run, 2, &text, &err), FT_OK);
    CHECK(text.data && strstr(text.data, "cpu:0, the last 2 of "));
    CHECK(text.data && strstr(text.data, "  U0.0 from "));
    ft_text_fini(&text);

    CHECK_STATUS(ft_run_give_up(run, (int64_t)600e9, &err), FT_OK); /* nobody was lost */
    CHECK_STATUS(ft_run_end(run, &err), FT_OK);
    CHECK_STATUS(set_params(run, &err), FT_OK); /* a run whose leg was given up can go on */
    CHECK_STATUS(train(run, ft_blueprint_plan(b), true, losses, &err), FT_OK);
    ft_run_free(run);
    CHECK_STATUS(ft_run_new(&run, b, &err), FT_OK);
    CHECK_STATUS(set_params(run, &err), FT_OK);
    CHECK_STATUS(train(run, ft_blueprint_plan(b), true, again, &err), FT_OK);
    CHECK(losses[0] == again[0]);
    CHECK_STATUS(ft_run_give_up(run, 0, &err), FT_OK); /* no leg */
    for (int d = 0; d < 3; d++) free(u.lists[d]);
    ft_run_free(run);
    ft_blueprint_free(b);
    pipeline_free(&p);
}

/* What a device did and what it waited for fill the leg; a wait has an edge that leads to it. */
static void test_waits_are_recorded(void)
{
    static const char *const names[] = {"gpipe", "1f1b", "zero-bubble", "async"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        pipeline p;
        ft_error err = {FT_OK, ""};
        ft_blueprint *b = NULL;
        ft_run *run = NULL;
        double losses[10];
        if (!pipeline_init(&p, "cpu:3", names[i])) return;
        CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
        CHECK_STATUS(ft_run_new(&run, b, &err), FT_OK);
        CHECK_STATUS(train(run, ft_blueprint_plan(b), true, losses, &err), FT_OK);
        const ft_timeline *t = ft_run_timeline(run);
        const ft_plan *plan = ft_blueprint_plan(b);
        for (int d = 0; d < 3; d++) {
            int64_t by_wait[FT_WAIT_COUNT], idle = 0, n = 0;
            ft_edge_wait *waits = NULL;
            int64_t last = ft_timeline_idle_ns(t, d, by_wait);
            for (int w = 0; w < FT_WAIT_COUNT; w++) idle += by_wait[w];
            CHECK(last <= ft_timeline_end_ns(t) && idle + ft_timeline_busy_ns(t, d) == last);
            CHECK_STATUS(ft_timeline_edge_waits(&waits, &n, t, d, &err), FT_OK);
            for (int64_t k = 0; k < n; k++) {
                const ft_edge *e = &plan->edges[waits[k].edge];
                CHECK(!waits[k].data_ns || plan->device[e->to] == d);
                CHECK(!waits[k].slot_ns || plan->device[e->from] == d);
                by_wait[FT_WAIT_DATA] -= waits[k].data_ns;
                by_wait[FT_WAIT_SLOT] -= waits[k].slot_ns;
            }
            ft_free(waits);
            CHECK(!by_wait[FT_WAIT_DATA] && !by_wait[FT_WAIT_SLOT]);
        }
        /* a backward of the last stage reads what its own device has made */
        for (int64_t k = 0; k < t->n_events; k++)
            if (t->events[k].stage == 2 && t->events[k].kind == FT_ACT_BACKWARD)
                CHECK(t->events[k].wait == FT_WAIT_NOTHING || t->events[k].wait == FT_WAIT_SLOT);
        /* the last device has nothing to do before the first is done with something */
        int64_t by_wait[FT_WAIT_COUNT];
        ft_timeline_idle_ns(t, 2, by_wait);
        CHECK(by_wait[FT_WAIT_DATA] > 0);
        ft_run_free(run);
        ft_blueprint_free(b);
        pipeline_free(&p);
    }
}

/* -- what is told of moves and copies ---------------------------------------------------------- */

/* All that a leg did, before it is ended. */
static void tell_past(pipeline *p, ft_blueprint *b, const char *const *words)
{
    ft_error err = {FT_OK, ""};
    ft_run *run = NULL;
    ft_result result;
    ft_text text = {0};
    CHECK_STATUS(ft_run_new(&run, b, &err), FT_OK);
    CHECK_STATUS(set_params(run, &err), FT_OK);
    CHECK_STATUS(ft_run_begin(run, ft_blueprint_plan(b), 1, false, &err), FT_OK);
    CHECK_STATUS(feed(run, (int64_t)MICRO * ROWS, &err), FT_OK);
    ft_run_drain(run);
    CHECK_STATUS(ft_run_next(run, &result, (int64_t)600e9, &err), FT_OK);
    CHECK_STATUS(ft_run_describe_past(run, 1000, &text, &err), FT_OK);
    for (; *words; words++)
        if (!CHECK(text.data && strstr(text.data, *words)))
            fprintf(stderr, "%s\n%s\n", *words, text.data ? text.data : "nothing");
    ft_text_fini(&text);
    CHECK_STATUS(ft_run_describe(run, &text, &err), FT_OK);
    CHECK(!text.data || !strstr(text.data, "batch 1,")); /* they are left out */
    ft_text_fini(&text);
    CHECK_STATUS(ft_run_end(run, &err), FT_OK);
    ft_run_free(run);
    ft_blueprint_free(b);
    pipeline_free(p);
}

/* Of devices that are at their end nothing is said. */
static void test_the_end_is_nothing(void)
{
    pipeline p;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    ft_run *run = NULL;
    ft_plan *plan = NULL;
    ft_result result;
    ft_text text = {0};
    int64_t actions = 0;
    if (!pipeline_init(&p, "cpu:3", "1f1b")) return;
    CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
    CHECK_STATUS(ft_plan_cut(&plan, ft_blueprint_plan(b), 1, &err), FT_OK);
    CHECK_STATUS(ft_run_new(&run, b, &err), FT_OK);
    CHECK_STATUS(set_params(run, &err), FT_OK);
    for (int d = 0; d < 3; d++) actions += ft_plan_length(plan, d);
    CHECK_STATUS(ft_run_begin(run, plan, 1, true, &err), FT_OK);
    CHECK_STATUS(feed(run, (int64_t)MICRO * ROWS, &err), FT_OK);
    CHECK_STATUS(ft_run_next(run, &result, (int64_t)600e9, &err), FT_OK);
    const int64_t last = ft_now_ns() + (int64_t)600e9;
    while (ft_run_progress(run) < actions && ft_now_ns() < last) sched_yield();
    CHECK_STATUS(ft_run_describe(run, &text, &err), FT_OK);
    if (!CHECK(!text.length)) fprintf(stderr, "%s\n", text.data);
    ft_text_fini(&text);
    CHECK_STATUS(ft_run_end(run, &err), FT_OK);
    ft_run_free(run);
    ft_plan_free(plan);
    ft_blueprint_free(b);
    pipeline_free(&p);
}

static void test_moves_and_copies_are_told(void)
{
    static const char *const copies[] = {"\n  S1.0.0:1 from ", "\n  V0.0.3:1 from ", NULL};
    static const char *const moves[] = {"cpu:2, copies in, the last ", "\n  L2.0.0:weights from ",
                                        "cpu:2, copies out, the last ",
                                        "\n  O2.0.1:activations from ", NULL};
    pipeline p;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    if (!pipeline_init(&p, "cpu:3", "gpipe")) return;
    CHECK_STATUS(pipeline_plan(&p, &err), FT_OK);
    CHECK_STATUS(pipeline_add_copies(&p, 1, &err), FT_OK);
    CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
    tell_past(&p, b, copies);
    if (!pipeline_init(&p, "cpu:3", "gpipe")) return;
    CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
    CHECK_STATUS(pipeline_swap(&p, &b, false, &err), FT_OK);
    tell_past(&p, b, moves);
}

/* -- what is told of replicas ------------------------------------------------------------------ */

static ft_gate released;

static ft_status launch_late(ft_device_stream *stream, const ft_task *task, const void *arg,
                             ft_error *err)
{
    ft_gate_wait(&released, 1, NULL, -1);
    return ft_cpu_driver.launch(stream, task, arg, err);
}

/* Who has waited on an edge of the plan is at an end of it. */
static void check_edges_of_waits(const ft_run *run, const ft_blueprint *b)
{
    const ft_timeline *t = ft_run_timeline(run);
    int waited = 0;
    for (int64_t i = 0; i < t->n_events; i++) {
        const ft_event *e = &t->events[i];
        if (e->wait != FT_WAIT_DATA && e->wait != FT_WAIT_SLOT) continue;
        waited++;
        if (!CHECK(e->edge < b->n_plan_edges)) continue;
        const ft_edge *edge = &b->plan_edges[e->edge];
        CHECK(e->stage == (e->wait == FT_WAIT_DATA ? edge->to : edge->from));
        CHECK(e->kind == (e->wait == FT_WAIT_DATA ? edge->to_kind : edge->from_kind));
    }
    CHECK(waited > 0);
}

/* One of two replicas is held up; others wait for what it is to send. */
static void wait_for_replica(int late_one, int n_stages, const char *words)
{
    static const int replicas[] = {2, 1};
    pipeline p;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    ft_run *run = NULL;
    ft_text text = {0};
    ft_result result;
    ft_driver late = ft_cpu_driver;
    late.launch = launch_late;
    if (!pipeline_init(&p, "cpu:1", "gpipe") || !pipeline_replicate(&p, replicas, n_stages)) return;
    p.devices[late_one].driver = &late;
    CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
    ft_gate_open(&released);
    CHECK_STATUS(ft_run_new(&run, b, &err), FT_OK);
    CHECK_STATUS(set_params(run, &err), FT_OK);
    atomic_store(&released.count, 0);
    CHECK_STATUS(ft_run_begin(run, ft_blueprint_plan(b), 1, true, &err), FT_OK);
    CHECK_STATUS(feed(run, (int64_t)MICRO * ROWS, &err), FT_OK);
    ft_run_drain(run);
    CHECK(comes_to(run, words, &text));
    ft_text_fini(&text);
    ft_gate_open(&released);
    CHECK_STATUS(ft_run_next(run, &result, (int64_t)600e9, &err), FT_OK);
    CHECK_STATUS(ft_run_end(run, &err), FT_OK);
    check_edges_of_waits(run, b);
    ft_run_free(run);
    ft_blueprint_free(b);
    pipeline_free(&p);
}

static void test_what_replicas_wait_for_is_told(void)
{
    wait_for_replica(0, 1, "waits for data of edge 0, X0>R0 (gradient of w1 and 1 more");
    wait_for_replica(
        1, 2, "forward of stage 1, batch 0, micro-batch 1, waits for data of edge 0, F0>F1 (");
}

int main(void)
{
    RUN(test_a_circle_is_named);
    RUN(test_waits_are_recorded);
    RUN(test_moves_and_copies_are_told);
    RUN(test_the_end_is_nothing);
    RUN(test_what_replicas_wait_for_is_told);
    return check_report();
}
