/* test/engine_case.h - a small chain in three stages, for tests of blueprints and runs. */
#ifndef FT_TEST_ENGINE_CASE_H
#define FT_TEST_ENGINE_CASE_H

#include <string.h>

#include "blueprint/blueprint.h"
#include "chain_case.h"
#include "proof/proof.h"
#include "schedule/schedule.h"
#include "slots/slots.h"

enum { MOST_DEVICES = 8, JOINT = 2 };

typedef struct pipeline {
    ft_graph *g;
    ft_cut cut;
    const ft_schedule *schedule;
    ft_weights weights; /* which late ones are read */
    ft_plan *plan;
    ft_blueprint_options options;
    int node_stage[NODES], stage_device[3];
    int replica_first[4], replica_device[3 * MOST_DEVICES];
    uint8_t replica_rule[3];
    ft_tasks tasks;
    const int *joint;      /* by stage, as in ft_pipeline */
    ft_graph *joint_graph; /* of JOINT micro-batches */
    bool recompute[3], splits[3];
    ft_device devices[MOST_DEVICES];
    double hypers[FT_MAX_HYPERS];
} pipeline;

/* A chain of three stages on the devices of the text. */
static inline bool pipeline_init(pipeline *p, const char *devices, const char *schedule)
{
    ft_error err = {FT_OK, ""};
    *p = (pipeline){.node_stage = {0, 0, 0, 1, 2, 2, 2, 2}, .recompute = {false, true, false}};
    p->g = make_graph(ROWS, "loss");
    p->schedule = ft_schedule_find(schedule);
    const ft_optimizer *adamw = ft_optimizer_find("adamw");
    p->cut = (ft_cut){.graphs = &p->g,
                      .n_graphs = 1,
                      .n_stages = 3,
                      .node_stage = p->node_stage,
                      .recompute = p->recompute,
                      .splits = p->splits,
                      .stage_device = p->stage_device,
                      .devices = p->devices,
                      .micro_batches = MICRO,
                      .n_batches = 10};
    p->options = (ft_blueprint_options){
        .micro_batch_size = ROWS, .optimizer = adamw, .hypers = p->hypers, .seed = 1};
    bool ok = p->g && p->schedule &&
              ft_devices_parse(devices, p->devices, &p->cut.n_devices, &err) == FT_OK &&
              ft_optimizer_hypers(adamw, NULL, NULL, 0, p->hypers, &err) == FT_OK;
    if (ok) p->cut.together = p->schedule->synchronous;
    for (int s = 0; ok && s < 3; s++) {
        p->stage_device[s] = s % p->cut.n_devices;
        p->splits[s] = p->schedule->splits;
    }
    return CHECK(ok);
}

/* Gives every stage its number of replicas, on devices of their own in their order; instead of
 * `devices`, which may be fewer. One stage: all of the chain is in it. */
static inline bool pipeline_replicate(pipeline *p, const int *replicas, int n_stages)
{
    char text[16];
    ft_error err = {FT_OK, ""};
    int n = 0;
    p->cut.n_stages = n_stages;
    for (int s = 0; s < n_stages; s++) {
        p->replica_first[s] = n;
        for (int i = 0; i < replicas[s]; i++, n++) p->replica_device[n] = n;
        p->stage_device[s] = p->replica_first[s];
    }
    p->replica_first[n_stages] = n;
    for (int i = 0; i < NODES; i++)
        if (p->node_stage[i] >= n_stages) p->node_stage[i] = n_stages - 1;
    p->cut.replica_first = p->replica_first;
    p->cut.replica_device = p->replica_device;
    snprintf(text, sizeof text, "cpu:%d", n);
    return CHECK_STATUS(ft_devices_parse(text, p->devices, &p->cut.n_devices, &err), FT_OK);
}

/* Puts all three stages on every device, which has micro-batches that follow each other. */
static inline void pipeline_spread(pipeline *p)
{
    int n = p->cut.n_devices;
    for (int s = 0; s < 3; s++) {
        p->replica_first[s] = s * n;
        p->stage_device[s] = 0;
        p->replica_rule[s] = FT_REPLICAS_BLOCK;
        for (int i = 0; i < n; i++) p->replica_device[s * n + i] = i;
    }
    p->replica_first[3] = 3 * n;
    p->cut.replica_first = p->replica_first;
    p->cut.replica_device = p->replica_device;
    p->cut.replica_rule = p->replica_rule;
}

/* Forwards of stages with JOINT in the list take so many micro-batches as one. */
static inline bool pipeline_join(pipeline *p, const int *joint)
{
    p->joint_graph = make_graph((int64_t)JOINT * ROWS, "loss");
    p->joint = p->cut.joint = joint;
    p->cut.joint_graphs = p->options.joint_graphs = &p->joint_graph;
    return CHECK(p->joint_graph);
}

/* The plan of the schedule for the cut. */
static inline ft_status pipeline_plan(pipeline *p, ft_error *err)
{
    ft_wiring *wiring;
    ft_weights read = p->weights == FT_WEIGHTS_OWN ? p->schedule->weights : p->weights;
    p->cut.keeps = ft_weights_keep(read);
    FT_TRY(ft_wiring_new(&wiring, &p->cut, err));
    const ft_pipeline made_for = {.n_stages = p->cut.n_stages,
                                  .n_devices = p->cut.n_devices,
                                  .device = p->stage_device,
                                  .replica_first = p->cut.replica_first,
                                  .replica_device = p->cut.replica_device,
                                  .replica_rule = p->cut.replica_rule,
                                  .most_slots =
                                      p->cut.replica_first || p->schedule->groups ? 64 : 0,
                                  .micro_batches = p->cut.micro_batches,
                                  .n_batches = p->cut.n_batches,
                                  .weights = p->weights,
                                  .tasks = p->tasks,
                                  .joint = p->joint,
                                  .reduces = true,
                                  .n_edges = wiring->n_edges,
                                  .edges = wiring->edges,
                                  .costs = &wiring->costs};
    ft_status status = ft_plan_make(&p->plan, &made_for, p->schedule, err);
    ft_wiring_free(wiring);
    if (status == FT_OK)
        status = ft_plan_annotate(p->plan, NODES, p->node_stage, p->recompute, NULL, err);
    return status;
}

/* The plan with edges between replicas that take turns in one place: so many more of them than
 * places. */
static inline ft_status share_plan(pipeline *p, int *shared, ft_error *err)
{
    ft_edge edges[64];
    if (!p->plan) FT_TRY(pipeline_plan(p, err));
    size_t bytes = (size_t)p->plan->n_edges * sizeof *edges;
    if (!CHECK(bytes <= sizeof edges)) return FT_OK;
    memcpy(edges, p->plan->edges, bytes);
    FT_TRY(ft_turns_share(p->plan, edges, shared, err));
    memcpy((void *)(uintptr_t)p->plan->edges, edges, bytes);
    return ft_plan_check(p->plan, err);
}

/* The blueprint of the plan, which is made unless it is there. */
static inline ft_status pipeline_draw(ft_blueprint **out, pipeline *p, ft_error *err)
{
    *out = NULL;
    if (!p->plan) FT_TRY(pipeline_plan(p, err));
    p->options.graphs = p->cut.graphs;
    p->options.n_graphs = p->cut.n_graphs;
    p->options.devices = p->devices;
    p->options.n_devices = p->cut.n_devices;
    p->options.machine = p->cut.machine;
    p->options.plan = p->plan;
    return ft_blueprint_new(out, &p->options, err);
}

/* After everything that was made of it. */
static inline void pipeline_free(pipeline *p)
{
    ft_plan_free(p->plan);
    ft_graph_free(p->joint_graph);
    ft_graph_free(p->g);
}

#endif
