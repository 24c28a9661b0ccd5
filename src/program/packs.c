/* program/packs.c - packed copies of weights: those that programs could read, and making them. */
#include <string.h>

#include "program/internal.h"

void node_specs(const ft_graph *g, const ft_node *node, ft_spec *specs)
{
    static const ft_spec absent = {.shape = {.n_dims = -1}};
    for (int i = 0; i < FT_MAX_IN; i++)
        specs[i] = node->in[i] == FT_NO_VALUE ? absent : ft_graph_value(g, node->in[i])->spec;
}

static bool is_of_cards(const ft_graph *g, ft_value_id v)
{
    if (v == FT_NO_VALUE) return false;
    const ft_spec *spec = &ft_graph_value(g, v)->spec;
    return spec->dtype == FT_BF16 || spec->dtype == FT_F16 || spec->pitch;
}

bool is_for_cards(const ft_graph *g, const ft_node *node)
{
    for (int i = 0; i < node->n_in; i++)
        if (is_of_cards(g, node->in[i])) return true;
    for (int k = 0; k < node->op->n_out; k++)
        if (is_of_cards(g, node->out + k)) return true;
    return false;
}

bool pack_suits(const ft_graph *graph, const ft_pack *pack, const ft_node *node)
{
    const ft_node *first = ft_graph_node(graph, pack->node);
    return strcmp(pack->kernels->pack_kind(first->op, first->attrs),
                  pack->kernels->pack_kind(node->op, node->attrs)) == 0;
}

int ft_program_packs(const ft_graph *graph, const int *nodes, int n_nodes,
                     const ft_kernel_list *kernels, ft_pack *packs)
{
    int n = 0;
    for (int s = 0; s < n_nodes; s++) {
        const ft_node *node = ft_graph_node(graph, nodes[s]);
        if (!node->op->pack_input) continue;
        const ft_value *weight = ft_graph_value(graph, node->in[node->op->pack_input - 1]);
        if (weight->kind != FT_VALUE_PARAM) continue;
        ft_spec specs[FT_MAX_IN];
        node_specs(graph, node, specs);
        ft_pack pack = {node->op, weight->source, kernels->pack_bytes(node->op, specs, node->attrs),
                        nodes[s], kernels};
        bool known = pack.bytes == 0;
        for (int i = 0; i < n && !known; i++)
            known = packs[i].param == pack.param && packs[i].bytes == pack.bytes &&
                    pack_suits(graph, &packs[i], node);
        if (!known) packs[n++] = pack;
    }
    return n;
}

int ft_program_copies(const ft_graph *graph, const int *nodes, int n_nodes, ft_pack *packs)
{
    int n = 0;
    for (int s = 0; s < n_nodes; s++) {
        const ft_node *node = ft_graph_node(graph, nodes[s]);
        if (!node->op->pack_input) continue;
        const ft_value *weight = ft_graph_value(graph, node->in[node->op->pack_input - 1]);
        const ft_cost cost = ft_graph_cost(graph, nodes[s]);
        int64_t bytes = 2 * ft_shape_count(&weight->spec.shape);
        bool known = weight->kind != FT_VALUE_PARAM || !(cost.bf16 || cost.f16);
        for (int i = 0; i < n && !known; i++) known = packs[i].param == weight->source;
        if (!known)
            packs[n++] = (ft_pack){node->op, weight->source, bytes, nodes[s], &ft_cpu_kernels};
    }
    return n;
}

bool ft_pack_equal(const ft_graph *a_graph, const ft_pack *a, const ft_graph *b_graph,
                   const ft_pack *b)
{
    return a->bytes == b->bytes && pack_suits(a_graph, a, ft_graph_node(b_graph, b->node));
}

bool ft_pack_is_written(const ft_graph *graph, const ft_pack *pack, ft_dtype *dtype)
{
    const ft_node *node = ft_graph_node(graph, pack->node);
    if (!pack->kernels->pack_dtype) return false;
    *dtype = pack->kernels->pack_dtype(node->op, node->attrs);
    return true;
}

double ft_pack_share(ft_device_kind kind)
{
    const ft_kernel_list *kernels = ft_kernel_list_of(kind, FT_F32);
    return kernels && kernels->pack_dtype ? 2.0 / (4 + 2) : 1;
}

ft_status ft_pack_make(const ft_graph *graph, const ft_pack *pack, const void *weight, void *packed,
                       const ft_packer *by, ft_error *err)
{
    const ft_node *node = ft_graph_node(graph, pack->node);
    ft_spec specs[FT_MAX_IN];
    node_specs(graph, node, specs);
    return pack->kernels->pack(pack->op, specs, node->attrs, weight, packed, by, err);
}
