/* test/test_blueprint.c - blueprints of a small chain of three stages: what they decide, and
 * what they refuse. */
#include <string.h>

#include "base/alloc.h"
#include "engine_case.h"
#include "simulate/simulate.h"

static void test_blueprint(void)
{
    pipeline p;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    if (!pipeline_init(&p, "cpu:3", "1f1b")) return;
    CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
    const ft_plan *plan = ft_blueprint_plan(b);
    CHECK(plan->n_stages == 3 && plan->n_devices == 3 && plan->n_batches == 10);
    CHECK(plan->in_flight[0] == 3 && plan->in_flight[1] == 2 && plan->in_flight[2] == 1);
    CHECK(!plan->recompute[0] && plan->recompute[1]);
    CHECK(plan->n_nodes == NODES);
    CHECK(memcmp(plan->node_stage, p.node_stage, sizeof p.node_stage) == 0);
    CHECK(ft_blueprint_costs(b)->forward_ns[0] > 0 && ft_blueprint_costs(b)->backward_ns[2] > 0);
    /* Stage 0 adds the other term of w2 (reads two, writes one) and reads w1 and w2 for the norm.
     */
    double bytes = 4 * (3 * HIDDEN * HIDDEN + HIDDEN * IN + HIDDEN * HIDDEN);
    CHECK_NEAR(ft_blueprint_costs(b)->reduce_ns[0], 1e9 * bytes / p.devices[0].bytes_per_s, 1e-9);
    /* w2 is in two stages: its term goes to the owner, the new values come back. */
    bool term = false, weight = false;
    for (int e = 0; e < plan->n_edges; e++) {
        const ft_edge *edge = &plan->edges[e];
        bool w2 = edge->bytes == HIDDEN * HIDDEN * (int64_t)sizeof(float);
        term |= w2 && edge->from == 1 && edge->to == 0 && edge->from_kind == FT_ACT_REDUCE;
        weight |= w2 && edge->from == 0 && edge->to == 1 && edge->to_kind == FT_ACT_ADOPT;
    }
    CHECK(term && weight);
    ft_plan *leg = NULL;
    CHECK_STATUS(ft_plan_cut(&leg, ft_blueprint_plan(b), 2, &err), FT_OK);
    CHECK(leg && leg->n_batches == 2);
    ft_plan_free(leg);
    CHECK_STATUS(ft_blueprint_check_memory(b, &err), FT_OK);
    ft_blueprint_free(b);

    p.devices[1].memory_bytes = ft_memory_round(1);
    CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
    CHECK_STATUS(ft_blueprint_check_memory(b, &err), FT_INFEASIBLE);
    CHECK(strstr(err.message, "device cpu:1 needs"));
    CHECK(strstr(err.message, "its budget is") != NULL);
    ft_blueprint_free(b);
    pipeline_free(&p);
}

/* A node takes its arithmetic or its traffic, whatever is longer; what stays takes no time. */
static void test_modelled_costs(void)
{
    enum { SUB = 5 };
    pipeline p;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    if (!pipeline_init(&p, "cpu:1", "1f1b")) return;
    ft_device slow = {.flops_per_s = 1e15, .bytes_per_s = 1e6}, fast = slow;
    fast.bytes_per_s *= 2;
    double traffic = 3 * ROWS * OUT * (double)sizeof(float); /* two are read, one is written */
    CHECK_NEAR(ft_node_time_ns(p.g, SUB, &slow) - ft_node_time_ns(p.g, SUB, &fast),
               1e9 * traffic / 2e6, 1e-6);
    CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
    const ft_plan *plan = ft_blueprint_plan(b);
    for (int e = 0; e < plan->n_edges; e++) CHECK(ft_blueprint_costs(b)->transfer_ns[e] == 0);
    ft_blueprint_free(b);
    pipeline_free(&p);
}

static int64_t simulated_ns(const ft_blueprint *b)
{
    ft_error err = {FT_OK, ""};
    ft_timeline *timeline = NULL;
    const ft_simulation options = {.costs = ft_blueprint_costs(b),
                                   .machine = ft_blueprint_machine(b)};
    CHECK_STATUS(ft_plan_simulate_on(&timeline, ft_blueprint_plan(b), &options, &err), FT_OK);
    int64_t end = timeline ? ft_timeline_end_ns(timeline) : -1;
    ft_timeline_free(timeline);
    return end;
}

/* Links of described devices price transfers while they are idle, and are shared in simulations;
 * the caller's may go. */
static void test_machine(void)
{
    pipeline p;
    ft_error err = {FT_OK, ""};
    int64_t end[2] = {0};
    for (int shared = 0; shared < 2; shared++) {
        ft_blueprint *b = NULL;
        ft_cable links[3];
        for (int d = 0; d < 3; d++)
            links[d] =
                (ft_cable){.a = d, .b = 3, .bytes_per_s = 1e6, .latency_ns = 50, .duplex = !shared};
        const ft_machine machine = {.n_devices = 3, .n_places = 4, .n_links = 3, .links = links};
        if (!pipeline_init(&p, "cpu:3", "1f1b")) return;
        p.cut.machine = &machine;
        CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
        memset(links, 0, sizeof links);
        const ft_plan *plan = ft_blueprint_plan(b);
        for (int e = 0; e < plan->n_edges; e++)
            CHECK_NEAR(ft_blueprint_costs(b)->transfer_ns[e],
                       100 + 1000 * (double)plan->edges[e].bytes, 1e-6);
        end[shared] = simulated_ns(b);
        ft_blueprint_free(b);
        pipeline_free(&p);
    }
    CHECK(end[0] > 0 && end[1] > end[0]);
}

static void refused(pipeline *p, const char *words)
{
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    CHECK_STATUS(pipeline_draw(&b, p, &err), FT_INVALID);
    if (!CHECK(!b && strstr(err.message, words))) fprintf(stderr, "%s\n", err.message);
    ft_blueprint_free(b);
    pipeline_free(p);
}

static void test_contradictions(void)
{
    pipeline p;
    pipeline_init(&p, "cpu:3", "async");
    p.options.clip = 1;
    refused(
        &p,
        "clipping by the global norm needs a synchronous schedule: in this plan ('async') stage 1 "
        "updates without waiting for the gradients of stage 0 (an edge R0>U1,");
    pipeline_init(&p, "cpu:2", "gpipe");
    p.stage_device[1] = 2;
    refused(&p, "stage 1 is on device 2, there are 2");
    const ft_machine machine = {.n_devices = 3, .n_places = 3};
    pipeline_init(&p, "cpu:2", "gpipe");
    p.cut.machine = &machine;
    refused(&p, "a machine of 3 devices, there are 2");
    pipeline_init(&p, "cpu:3", "gpipe");
    p.cut.machine = &machine;
    refused(&p, "there is no way from device 0 to device 1");
    pipeline_init(&p, "cpu:2", "gpipe");
    p.cut.micro_batches = 0;
    refused(&p, "micro-batches 0, batches 10");
    pipeline_init(&p, "cpu:2", "gpipe");
    p.node_stage[3] = 0;
    refused(&p, "stage 1");
    pipeline_init(&p, "cpu:2", "gpipe");
    pipeline_free(&p);
    p.g = make_graph(ROWS, "cost");
    refused(&p, "no scalar output named 'loss'");

    pipeline_init(&p, "cpu:2", "gpipe");
    ft_graph *other = NULL, *graphs[2] = {p.g, NULL};
    ft_error err;
    ft_graph_new(&other, &err);
    graphs[1] = other;
    p.cut.graphs = graphs;
    p.cut.n_graphs = 2;
    refused(&p, "length bucket 1 has other nodes");
    ft_graph_free(other);
}

int main(void)
{
    RUN(test_blueprint);
    RUN(test_modelled_costs);
    RUN(test_machine);
    RUN(test_contradictions);
    CHECK(ft_alloc_live() == 0);
    return check_report();
}
