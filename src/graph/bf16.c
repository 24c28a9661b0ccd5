/* graph/bf16.c - products in bf16, tf32 or f16, by attributes of their rows; plans of 16-bit
 * activations. */
#include "graph/internal.h"

#include <string.h>

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

static void mark_attention(ft_graph *g, ft_attention_rounding rounding)
{
    mark(g, "rounding", rounding);
}

ft_status ft_graph_bf16(ft_graph *g, bool cards, ft_error *err)
{
    if (!cards && !ft_ops_have_bf16())
        return ft_fail(err, FT_UNSUPPORTED,
                       "precision bf16 needs a CPU with avx512_bf16 or amx_bf16 instructions, "
                       "which this one does not have or DNNL_MAX_CPU_ISA rules out; f32 runs "
                       "everywhere");
    mark(g, "bf16", 1);
    if (cards) mark_attention(g, FT_ATTENTION_BF16);
    return FT_OK;
}

void ft_graph_tf32(ft_graph *g)
{
    mark(g, "tf32", 1);
    mark_attention(g, FT_ATTENTION_TF32);
}

void ft_graph_f16(ft_graph *g)
{
    mark(g, "f16", 1);
    mark_attention(g, FT_ATTENTION_F16);
}

void ft_graph_store(ft_graph *g, ft_dtype dtype)
{
    mark(g, "bf16", 1);
    mark_attention(g, dtype == FT_F16 ? FT_ATTENTION_F16 : FT_ATTENTION_BF16);
    for (int v = 0; v < g->n_values; v++) {
        ft_value *value = &g->values[v];
        if (value->kind == FT_VALUE_NODE && value->spec.dtype == FT_F32 &&
            ft_shape_count(&value->spec.shape) > 1)
            value->spec.dtype = dtype;
    }
    for (int i = 0; i < g->n_grads; i++) g->values[g->grads[i].value].spec.dtype = FT_F32;
}
