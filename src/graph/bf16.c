/* graph/bf16.c - products in bf16, by an attribute of their rows. */
#include "graph/internal.h"

#include <string.h>

static int find_attr(const ft_op *op, const char *name)
{
    for (int i = 0; i < ft_op_attr_count(op); i++)
        if (strcmp(op->attrs[i].name, name) == 0) return i;
    return -1;
}

ft_status ft_graph_bf16(ft_graph *g, bool planned, ft_error *err)
{
    if (!planned && !ft_ops_have_bf16())
        return ft_fail(err, FT_UNSUPPORTED,
                       "precision bf16 needs a CPU with avx512_bf16 or amx_bf16 instructions, "
                       "which this one does not have or DNNL_MAX_CPU_ISA rules out; f32 runs "
                       "everywhere");
    for (int n = 0; n < g->n_nodes; n++) {
        int at = find_attr(g->nodes[n].op, "bf16");
        if (at >= 0) g->nodes[n].attrs[at] = 1.0;
    }
    return FT_OK;
}
