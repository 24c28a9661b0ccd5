/* graph/bf16.c - products in bf16, tf32 or f16, by attributes of their rows; how cards keep values:
 * in 16 bits, rows apart. */
#include "graph/internal.h"

#include <string.h>

#include "base/alloc.h"
#include "ops/attention.h"

static int find_attr(const ft_op *op, const char *name)
{
    for (int i = 0; i < ft_op_attr_count(op); i++)
        if (strcmp(op->attrs[i].name, name) == 0) return i;
    return -1;
}

static void mark(ft_graph *g, const char *attr, double value)
{
    for (int n = 0; n < g->n_nodes; n++) {
        int at = find_attr(g->nodes[n].op, attr);
        if (at >= 0) g->nodes[n].attrs[at] = value;
    }
}

ft_status ft_graph_bf16(ft_graph *g, ft_error *err)
{
    if (!ft_cpu_bf16())
        return ft_fail(err, FT_UNSUPPORTED,
                       "precision bf16 needs a CPU with avx512_bf16 instructions, which this one "
                       "does not have or FTPIPE_KERNELS rules out; f32 runs everywhere");
    mark(g, "bf16", 1);
    return FT_OK;
}

void ft_graph_tf32(ft_graph *g)
{
    mark(g, "tf32", 1);
    mark(g, "rounding", FT_ATTENTION_TF32);
}

/* A way to keep a value, which rows may be able to make and to read. */
typedef enum { IN_HALF, APART } way;

static bool reads(const ft_op *op, int i, way how)
{
    return (how == IN_HALF ? op->half_in : op->apart_in) >> i & 1;
}

/* Clears `so` of values that somebody needs as they were. */
static void keep_plain(const ft_graph *g, bool *so, way how)
{
    for (int n = 0; n < g->n_nodes; n++) {
        const ft_node *node = &g->nodes[n];
        for (int i = 0; i < node->n_in; i++)
            if (node->in[i] != FT_NO_VALUE && !reads(node->op, i, how)) so[node->in[i]] = false;
    }
    for (int i = 0; i < g->n_grads; i++) so[g->grads[i].value] = false;
    for (int i = 0; i < g->n_outputs; i++) so[g->outputs[i].value] = false;
}

bool ft_graph_may_store(const ft_graph *g, ft_value_id v)
{
    const ft_value *value = &g->values[v];
    return value->kind == FT_VALUE_NODE && ft_shape_count(&value->spec.shape) > 1 &&
           g->nodes[value->source].op->half_out >> value->output & 1;
}

ft_status ft_graph_store(ft_graph *g, ft_dtype dtype, ft_error *err)
{
    bool *half = ft_alloc(g->n_values * (int64_t)sizeof *half);
    if (!half) return ft_fail(err, FT_NOMEM, "no memory for a graph of %d values", g->n_values);
    mark(g, dtype == FT_F16 ? "f16" : "bf16", 1);
    mark(g, "rounding", dtype == FT_F16 ? FT_ATTENTION_F16 : FT_ATTENTION_BF16);
    for (int v = 0; v < g->n_values; v++) half[v] = ft_graph_may_store(g, v);
    keep_plain(g, half, IN_HALF);
    for (int v = 0; v < g->n_values; v++)
        if (half[v]) g->values[v].spec.dtype = dtype;
    ft_free(half);
    return FT_OK;
}

/* From a row of the spec to the next, so that all begin at 16 bytes. */
static int64_t aligned_pitch(const ft_spec *spec)
{
    int64_t each = 16 / ft_dtype_bytes(spec->dtype);
    return (ft_spec_pitch(spec) + each - 1) / each * each;
}

static bool may_be_apart(const ft_graph *g, ft_value_id v)
{
    const ft_value *value = &g->values[v];
    return value->kind == FT_VALUE_NODE && value->spec.shape.n_dims > 1 &&
           ft_shape_count(&value->spec.shape) > 0 &&
           g->nodes[value->source].op->apart_out >> value->output & 1;
}

ft_status ft_graph_align(ft_graph *g, ft_error *err)
{
    bool *apart = ft_alloc(g->n_values * (int64_t)sizeof *apart);
    if (!apart) return ft_fail(err, FT_NOMEM, "no memory for a graph of %d values", g->n_values);
    for (int v = 0; v < g->n_values; v++) apart[v] = may_be_apart(g, v);
    keep_plain(g, apart, APART);
    for (int v = 0; v < g->n_values; v++) {
        ft_spec *spec = &g->values[v].spec;
        int64_t pitch = apart[v] ? aligned_pitch(spec) : ft_spec_pitch(spec);
        if (pitch != ft_spec_pitch(spec)) spec->pitch = pitch;
    }
    ft_free(apart);
    return FT_OK;
}
