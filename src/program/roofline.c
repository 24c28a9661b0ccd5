/* program/roofline.c - the modelled time of a node.
 *
 * A node takes the longer of its arithmetic at the device's rate and its traffic at the device's
 * bandwidth (Williams, Waterman, Patterson: "Roofline", CACM 2009), plus the cost of calling a
 * kernel. Good enough to balance stages and to order those that share a device. */
#include "program/roofline.h"

/* What a call of a small kernel costs beside its work, from the operator benchmark. */
static const double CALL_NS = 1500;

double ft_node_time_ns(const ft_graph *graph, int node, const ft_device *device)
{
    const ft_cost cost = ft_graph_cost(graph, node);
    double rate = cost.tf32   ? device->tf32_flops_per_s
                  : cost.f16  ? device->f16_flops_per_s
                  : cost.bf16 ? device->bf16_flops_per_s
                              : device->flops_per_s;
    double arithmetic = cost.flops / rate;
    double traffic = (cost.bytes_read + cost.bytes_written) / device->bytes_per_s;
    const ft_node *n = ft_graph_node(graph, node);
    double ns = CALL_NS + 1e9 * (arithmetic > traffic ? arithmetic : traffic);
    if (!device->unpacked || !n->op->pack_input) return ns;
    const ft_value *weight = ft_graph_value(graph, n->in[n->op->pack_input - 1]); /* packed first */
    return ns + 1e9 * (double)ft_spec_bytes(&weight->spec) / device->bytes_per_s;
}
