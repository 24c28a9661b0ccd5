/* test/chain_case.h - a small chain of operators and numbers for it. */
#ifndef FT_TEST_CHAIN_CASE_H
#define FT_TEST_CHAIN_CASE_H

#include "check.h"
#include "program/program.h"

/* y = W3 W2 W2 relu(W1 x), loss = mean((y - t)^2): W2 has two uses. Nodes: linear, relu, linear |
 * linear | linear, sub, mul, mean. */
enum { ROWS = 3, IN = 4, HIDDEN = 5, OUT = 2, NODES = 8, MICRO = 4, PARAMS = 3 };

/* Without gradients; *loss: its last value. NULL: there is no graph. */
static inline ft_graph *make_forward_graph(int64_t rows, const char *loss_name, ft_value_id *loss)
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
        ft_graph_output(g, loss_name, v, &err) == FT_OK;
    *loss = v;
    if (ok) return g;
    fprintf(stderr, "%s\n", err.message);
    ft_graph_free(g);
    return NULL;
}

/* The first n_frozen of the weights are not trained. */
static inline ft_graph *make_frozen_graph(int64_t rows, const char *loss_name, int n_frozen)
{
    static const char *const weights[PARAMS] = {"w1", "w2", "w3"};
    ft_error err = {FT_OK, ""};
    ft_value_id loss;
    ft_graph *g = make_forward_graph(rows, loss_name, &loss);
    bool ok = g != NULL;
    for (int i = 0; ok && i < n_frozen; i++) ok = ft_graph_freeze(g, weights[i], &err) == FT_OK;
    if (ok && ft_graph_grad(g, loss, &err) == FT_OK) return g;
    fprintf(stderr, "%s\n", err.message);
    ft_graph_free(g);
    return NULL;
}

static inline ft_graph *make_graph(int64_t rows, const char *loss_name)
{
    return make_frozen_graph(rows, loss_name, 0);
}

/* Numbers between -1 and 1 that depend on the seed. */
static inline void fill(float *data, int64_t n, uint32_t seed)
{
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (float)(seed >> 8) / (float)(1 << 23) - 1.0f;
    }
}

#endif
