/* test/engine_case.h - a small chain in three stages, for tests of blueprints and runs. */
#ifndef FT_TEST_ENGINE_CASE_H
#define FT_TEST_ENGINE_CASE_H

#include "blueprint/blueprint.h"
#include "chain_case.h"

typedef struct pipeline {
    ft_graph *g;
    ft_blueprint_options options;
    int node_stage[NODES], stage_device[3];
    bool recompute[3];
    ft_device devices[3];
    double hypers[FT_MAX_HYPERS];
} pipeline;

/* A chain of three stages on the devices of the text. */
static inline bool pipeline_init(pipeline *p, const char *devices, const char *schedule)
{
    ft_error err = {FT_OK, ""};
    *p = (pipeline){.node_stage = {0, 0, 0, 1, 2, 2, 2, 2}, .recompute = {false, true, false}};
    p->g = make_graph(ROWS, "loss");
    const ft_optimizer *adamw = ft_optimizer_find("adamw");
    p->options = (ft_blueprint_options){.graphs = &p->g,
                                     .n_graphs = 1,
                                     .n_stages = 3,
                                     .node_stage = p->node_stage,
                                     .recompute = p->recompute,
                                     .stage_device = p->stage_device,
                                     .devices = p->devices,
                                     .micro_batches = MICRO,
                                     .micro_batch_size = ROWS,
                                     .schedule = ft_schedule_find(schedule),
                                     .n_batches = 10,
                                     .optimizer = adamw,
                                     .hypers = p->hypers,
                                     .seed = 1};
    bool ok = p->g && p->options.schedule &&
              ft_devices_parse(devices, p->devices, &p->options.n_devices, &err) == FT_OK &&
              ft_optimizer_hypers(adamw, NULL, NULL, 0, p->hypers, &err) == FT_OK;
    for (int s = 0; s < 3; s++) p->stage_device[s] = s % p->options.n_devices;
    return CHECK(ok);
}

#endif
