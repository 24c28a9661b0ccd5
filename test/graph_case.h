/* test/graph_case.h - random graphs, rows that only tests need, and a naive interpreter. */
#ifndef FT_TEST_GRAPH_CASE_H
#define FT_TEST_GRAPH_CASE_H

#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "check.h"
#include "graph/graph.h"

/* -- rows of tests: they are not in the table, so text cannot name them ---------------------- */

static inline ft_cost case_cost(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    (void)in, (void)out, (void)attrs;
    return (ft_cost){.flops = 1, .bytes_read = 1, .bytes_written = 1};
}

static inline ft_status case_shape_scalar(const ft_spec *in, const double *attrs, ft_spec *out,
                                          ft_error *err)
{
    (void)in, (void)attrs, (void)err;
    out[0] = (ft_spec){.dtype = FT_F32};
    return FT_OK;
}

static inline ft_status case_shape_second(const ft_spec *in, const double *attrs, ft_spec *out,
                                          ft_error *err)
{
    (void)attrs, (void)err;
    out[0] = in[1];
    return FT_OK;
}

static inline ft_status case_shape_pair(const ft_spec *in, const double *attrs, ft_spec *out,
                                        ft_error *err)
{
    (void)attrs;
    if (!ft_shape_equal(&in[0].shape, &in[1].shape)) return ft_fail(err, FT_SHAPE, "pair differs");
    out[0] = out[1] = in[0];
    return FT_OK;
}

/* fill: every element of y is the scalar; (dy (), x (...)) -> y like x */
static inline ft_status case_fill(const ft_call *call, ft_error *err)
{
    (void)err;
    const double *dy = call->in[0].data;
    double *y = call->out[0].data;
    for (int64_t i = 0; i < ft_shape_count(&call->out[0].shape); i++) y[i] = *dy;
    return FT_OK;
}

static const ft_op case_op_fill = {.name = "case_fill",
                                   .min_in = 2,
                                   .n_in = 2,
                                   .n_out = 1,
                                   .shape = case_shape_second,
                                   .cost = case_cost,
                                   .reference = case_fill};

/* total: the sum of all elements */
static inline ft_status case_total(const ft_call *call, ft_error *err)
{
    (void)err;
    const double *x = call->in[0].data;
    double *y = call->out[0].data;
    *y = 0;
    for (int64_t i = 0; i < ft_shape_count(&call->in[0].shape); i++) *y += x[i];
    return FT_OK;
}

static inline void case_total_grad(ft_builder *b, const ft_grad_site *site)
{
    site->din[0] = b->add(b, &case_op_fill, (ft_value_id[]){site->dout[0], site->in[0]}, 2, NULL);
}

static const ft_op case_op_total = {.name = "case_total",
                                    .min_in = 1,
                                    .n_in = 1,
                                    .n_out = 1,
                                    .shape = case_shape_scalar,
                                    .cost = case_cost,
                                    .grad = case_total_grad,
                                    .reference = case_total};

/* pair: a + b and a * b. Its gradient rule also makes a node that nobody needs. */
static inline ft_status case_pair(const ft_call *call, ft_error *err)
{
    (void)err;
    const double *a = call->in[0].data, *b = call->in[1].data;
    double *sum = call->out[0].data, *product = call->out[1].data;
    for (int64_t i = 0; i < ft_shape_count(&call->in[0].shape); i++) {
        sum[i] = a[i] + b[i];
        product[i] = a[i] * b[i];
    }
    return FT_OK;
}

static inline void case_pair_grad(ft_builder *b, const ft_grad_site *site)
{
    const ft_op *add = ft_op_find("add"), *mul = ft_op_find("mul");
    b->add(b, mul, (ft_value_id[]){site->in[0], site->in[1]}, 2, NULL); /* dead */
    for (int i = 0; i < 2; i++) {
        if (!site->wanted[i]) continue;
        ft_value_id through = FT_NO_VALUE;
        if (site->dout[1] != FT_NO_VALUE)
            through = b->add(b, mul, (ft_value_id[]){site->dout[1], site->in[1 - i]}, 2, NULL);
        if (site->dout[0] == FT_NO_VALUE)
            site->din[i] = through;
        else if (through == FT_NO_VALUE)
            site->din[i] = site->dout[0];
        else
            site->din[i] = b->add(b, add, (ft_value_id[]){site->dout[0], through}, 2, NULL);
    }
}

static const ft_op case_op_pair = {.name = "case_pair",
                                   .min_in = 2,
                                   .n_in = 2,
                                   .n_out = 2,
                                   .shape = case_shape_pair,
                                   .cost = case_cost,
                                   .grad = case_pair_grad,
                                   .reference = case_pair};

/* -- random graphs --------------------------------------------------------------------------- */

enum { CASE_MAX = 256 };

/* What a random graph is made of; all its tensors have one shape, but for the weights of linear. */
typedef struct case_plan {
    int n_nodes;
    int n_params;
    bool table_only; /* rows of the table only, and scalars, so that text can be parsed */
} case_plan;

/* Counts only when it fails: random graphs have too many nodes for a count each. */
static inline void case_need(bool ok, const char *what)
{
    if (!ok) check_note(false, __FILE__, __LINE__, what);
}

static inline ft_value_id case_node(ft_graph *g, const ft_op *op, ft_value_id a, ft_value_id b)
{
    ft_value_id out = FT_NO_VALUE;
    ft_error err = {0};
    int n = b == FT_NO_VALUE ? 1 : 2;
    case_need(op && ft_graph_add(g, op, (ft_value_id[]){a, b}, n, NULL, &out, &err) == FT_OK,
              err.message);
    return out;
}

static inline ft_value_id case_param(ft_graph *g, int number, ft_shape shape)
{
    char name[32];
    ft_value_id out;
    ft_spec spec = {FT_F32, shape};
    snprintf(name, sizeof name, "p%d.weight", number);
    case_need(ft_graph_param(g, name, &spec, &out, NULL) == FT_OK, name);
    return out;
}

/* Adds up the values from `from` on that no node reads, and makes a scalar of the sum. */
static inline ft_value_id case_loss(ft_graph *g, ft_value_id from, bool table_only)
{
    bool read[CASE_MAX * 4] = {false};
    for (int n = 0; n < ft_graph_n_nodes(g); n++)
        for (int i = 0; i < ft_graph_node(g, n)->n_in; i++)
            if (ft_graph_node(g, n)->in[i] >= 0) read[ft_graph_node(g, n)->in[i]] = true;
    ft_value_id sum = FT_NO_VALUE;
    int n_values = ft_graph_n_values(g);
    for (ft_value_id v = from; v < n_values; v++)
        if (!read[v] && ft_graph_value(g, v)->kind == FT_VALUE_NODE)
            sum = sum == FT_NO_VALUE ? v : case_node(g, ft_op_find("add"), sum, v);
    return table_only ? sum : case_node(g, &case_op_total, sum, FT_NO_VALUE);
}

/* A graph with an output "loss". The caller frees it. */
static inline ft_graph *case_random(ft_rng *rng, const case_plan *plan)
{
    ft_graph *g = NULL;
    ft_shape shape = plan->table_only ? (ft_shape){0} : ft_shape_of(2, 3);
    ft_spec spec = {FT_F32, shape};
    ft_value_id pool[CASE_MAX * 2];
    int n = 0;
    case_need(ft_graph_new(&g, NULL) == FT_OK, "new");
    case_need(ft_graph_input(g, "x", &spec, &pool[n++], NULL) == FT_OK, "x");
    for (int i = 0; i < plan->n_params; i++) pool[n++] = case_param(g, i, shape);
    for (int i = 0; i < plan->n_nodes; i++) {
        char scope[32];
        snprintf(scope, sizeof scope, "block.%d/part", i / 4);
        case_need(ft_graph_scope(g, scope, NULL) == FT_OK, scope);
        ft_value_id a = pool[ft_rng_below(rng, (uint64_t)n)];
        ft_value_id b = pool[ft_rng_below(rng, (uint64_t)n)];
        switch (ft_rng_below(rng, plan->table_only ? 3 : 5)) {
        case 0: pool[n++] = case_node(g, ft_op_find("add"), a, b); break;
        case 1: pool[n++] = case_node(g, ft_op_find("mul"), a, b); break;
        case 2: pool[n++] = case_node(g, ft_op_find("tanh"), a, FT_NO_VALUE); break;
        case 3:
            b = case_param(g, 1000 + (int)ft_rng_below(rng, 3), ft_shape_of(3, 3));
            pool[n++] = case_node(g, ft_op_find("linear"), a, b);
            break;
        default:
            pool[n++] = case_node(g, &case_op_pair, a, b);
            pool[n] = pool[n - 1] + 1;
            n++;
            break;
        }
    }
    /* the last word goes to a parameter, so that there always is something to differentiate */
    ft_value_id last = case_node(g, ft_op_find("mul"), pool[n - 1], pool[1]);
    ft_value_id loss = case_loss(g, pool[0], plan->table_only);
    case_need(last != FT_NO_VALUE, "last");
    case_need(ft_graph_output(g, "loss", loss, NULL) == FT_OK, "loss");
    return g;
}

/* -- the interpreter -------------------------------------------------------------------------- */

/* Memory for every value of a graph, in f64; sources are filled from the rng. */
static inline double **case_values(const ft_graph *g, ft_rng *rng)
{
    int n = ft_graph_n_values(g);
    double **values = ft_alloc(n * (int64_t)sizeof *values);
    for (int v = 0; v < n; v++) {
        int64_t count = ft_shape_count(&ft_graph_value(g, v)->spec.shape);
        values[v] = ft_alloc(count * 8);
        if (ft_graph_value(g, v)->kind != FT_VALUE_NODE)
            for (int64_t i = 0; i < count; i++) values[v][i] = 0.5 * ft_rng_normal(rng);
    }
    return values;
}

static inline void case_values_free(const ft_graph *g, double **values)
{
    for (int v = 0; v < ft_graph_n_values(g); v++) ft_free(values[v]);
    ft_free(values);
}

static inline ft_view case_view(const ft_graph *g, double **values, ft_value_id v)
{
    if (v == FT_NO_VALUE) return (ft_view){.shape = {.n_dims = -1}};
    ft_spec spec = {FT_F64, ft_graph_value(g, v)->spec.shape};
    return ft_view_of(&spec, values[v]);
}

static inline void case_run(const ft_graph *g, double **values, int n_nodes)
{
    for (int n = 0; n < n_nodes; n++) {
        const ft_node *node = ft_graph_node(g, n);
        ft_view in[FT_MAX_IN], out[FT_MAX_OUT];
        for (int i = 0; i < FT_MAX_IN; i++)
            in[i] = case_view(g, values, i < node->n_in ? node->in[i] : FT_NO_VALUE);
        for (int k = 0; k < node->op->n_out; k++) out[k] = case_view(g, values, node->out + k);
        ft_call call = {.in = in, .out = out, .attrs = node->attrs};
        case_need(node->op->reference(&call, NULL) == FT_OK, node->op->name);
    }
}

#endif
