/* test/engine_case.h - a small chain of three stages, for the tests of the engine. */
#ifndef FT_TEST_ENGINE_CASE_H
#define FT_TEST_ENGINE_CASE_H

#include "check.h"
#include "engine/engine.h"

/* y = W3 W2 W2 relu(W1 x), loss = mean((y - t)^2): W2 has two uses. Nodes: linear, relu, linear |
 * linear | linear, sub, mul, mean. */
enum { ROWS = 3, IN = 4, HIDDEN = 5, OUT = 2, NODES = 8, MICRO = 4, PARAMS = 3 };

static inline ft_graph *make_graph(int64_t rows, const char *loss_name)
{
    ft_error err = {FT_OK, ""};
    ft_graph *g = NULL;
    ft_value_id x, t, w1, w2, w3, v;
    if (ft_graph_new(&g, &err) != FT_OK) return NULL;
    const ft_spec x_spec = {FT_F32, {2, {rows, IN}}}, t_spec = {FT_F32, {2, {rows, OUT}}};
    const ft_spec w1_spec = {FT_F32, {2, {HIDDEN, IN}}}, w2_spec = {FT_F32, {2, {HIDDEN, HIDDEN}}};
    const ft_spec w3_spec = {FT_F32, {2, {OUT, HIDDEN}}};
    const ft_op *linear = ft_op_find("linear");
    bool ok =
        ft_graph_input(g, "x", &x_spec, &x, &err) == FT_OK &&
        ft_graph_input(g, "t", &t_spec, &t, &err) == FT_OK &&
        ft_graph_param(g, "w1", &w1_spec, &w1, &err) == FT_OK &&
        ft_graph_param(g, "w2", &w2_spec, &w2, &err) == FT_OK &&
        ft_graph_param(g, "w3", &w3_spec, &w3, &err) == FT_OK &&
        ft_graph_add(g, linear, (ft_value_id[]){x, w1}, 2, NULL, &v, &err) == FT_OK &&
        ft_graph_add(g, ft_op_find("relu"), &v, 1, NULL, &v, &err) == FT_OK &&
        ft_graph_add(g, linear, (ft_value_id[]){v, w2}, 2, NULL, &v, &err) == FT_OK &&
        ft_graph_add(g, linear, (ft_value_id[]){v, w2}, 2, NULL, &v, &err) == FT_OK &&
        ft_graph_add(g, linear, (ft_value_id[]){v, w3}, 2, NULL, &v, &err) == FT_OK &&
        ft_graph_output(g, "y", v, &err) == FT_OK &&
        ft_graph_add(g, ft_op_find("sub"), (ft_value_id[]){v, t}, 2, NULL, &v, &err) == FT_OK &&
        ft_graph_add(g, ft_op_find("mul"), (ft_value_id[]){v, v}, 2, NULL, &v, &err) == FT_OK &&
        ft_graph_add(g, ft_op_find("mean"), &v, 1, NULL, &v, &err) == FT_OK &&
        ft_graph_output(g, loss_name, v, &err) == FT_OK && ft_graph_grad(g, v, &err) == FT_OK;
    if (ok) return g;
    fprintf(stderr, "%s\n", err.message);
    ft_graph_free(g);
    return NULL;
}

typedef struct pipeline {
    ft_graph *g;
    ft_engine_options options;
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
    p->options = (ft_engine_options){.graphs = &p->g,
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
