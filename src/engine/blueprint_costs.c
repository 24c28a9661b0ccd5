/* engine/blueprint_costs.c - modelled times of nodes and stages.
 *
 * Roofline: a node takes the longer of its arithmetic at the device's rate and its traffic at the
 * device's bandwidth (Williams, Waterman, Patterson: "Roofline", CACM 2009), plus the cost of
 * calling a kernel. Good enough to balance stages and to order those that share a device. */
#include "engine/internal.h"

/* What a call of a small kernel costs beside its work, from the operator benchmark. */
static const double CALL_NS = 1500;
/* Products of bf16 operands, conversions included, against f32: measured with AVX512-BF16. */
static const double BF16_SPEEDUP = 1.9;

double ft_node_time_ns(const ft_graph *graph, int node, const ft_device *device)
{
    const ft_node *n = ft_graph_node(graph, node);
    ft_spec in[FT_MAX_IN], out[FT_MAX_OUT];
    for (int i = 0; i < FT_MAX_IN; i++) {
        in[i] = (ft_spec){.shape = {.n_dims = -1}};
        if (n->in[i] != FT_NO_VALUE) in[i] = ft_graph_value(graph, n->in[i])->spec;
    }
    for (int k = 0; k < n->op->n_out; k++) out[k] = ft_graph_value(graph, n->out + k)->spec;
    ft_cost cost = n->op->cost(in, out, n->attrs);
    double arithmetic = cost.flops / device->flops_per_s / (cost.bf16 ? BF16_SPEEDUP : 1);
    double traffic = (cost.bytes_read + cost.bytes_written) / device->bytes_per_s;
    return CALL_NS + 1e9 * (arithmetic > traffic ? arithmetic : traffic);
}

static double sum_nodes(const ft_graph *g, const int *nodes, int n, const ft_device *device)
{
    double ns = 0;
    for (int i = 0; i < n; i++) ns += ft_node_time_ns(g, nodes[i], device);
    return ns;
}

static double traffic_ns(double bytes, const ft_device *device)
{
    return 1e9 * bytes / device->bytes_per_s;
}

/* Bytes that reduce, update and adopt move, per stage. */
static void estimate_steps(const ft_blueprint *b, int s, double *reduce, double *update,
                           double *adopt)
{
    const stage_info *stage = &b->stages[s];
    const ft_device *device = &b->options.devices[stage->device];
    double owned = 0, summed = 0, replicas = 0;
    for (int i = 0; i < stage->n_params; i++) {
        const param_info *p = &b->params[stage->params[i].param];
        double bytes = (double)ft_spec_bytes(&p->spec);
        if (stage->params[i].owned) {
            owned += bytes;
            if (p->n_terms > 1) summed += bytes * 3 * (p->n_terms - 1);
        }
        if (stage->params[i].replica) replicas += bytes;
    }
    if (b->options.clip > 0) summed += owned;
    *reduce = traffic_ns(summed, device);
    *update = traffic_ns(owned * 7, device); /* AdamW reads p, g, m, v and writes p, m, v */
    *adopt = traffic_ns(replicas * 2, device);
}

ft_status blueprint_estimate(ft_blueprint *b, ft_error *err)
{
    int n = b->options.n_stages, last = b->options.n_graphs - 1;
    double *times = ft_arena_array(b->arena, 5 * (int64_t)n, sizeof(double));
    double *transfer = ft_arena_array(b->arena, b->n_edges + 1, sizeof(double));
    if (!times || !transfer) return ft_fail(err, FT_NOMEM, "engine: no memory for costs");
    const ft_graph *g = b->options.graphs[last];
    for (int s = 0; s < n; s++) {
        const ft_stage *cut = b->stages[s].cut[last];
        const ft_device *device = &b->options.devices[b->stages[s].device];
        times[s] = sum_nodes(g, cut->forward, cut->n_forward, device);
        times[n + s] = sum_nodes(g, cut->backward, cut->n_backward, device);
        estimate_steps(b, s, &times[2 * n + s], &times[3 * n + s], &times[4 * n + s]);
    }
    for (int e = 0; e < b->n_edges; e++) {
        const ft_device *to = &b->options.devices[b->stages[b->edges[e].to].device];
        bool local = b->stages[b->edges[e].to].device == b->stages[b->edges[e].from].device;
        transfer[e] = local ? 0
                            : (double)to->link_latency_ns +
                                  1e9 * (double)b->edges[e].bytes / to->link_bytes_per_s;
    }
    b->costs =
        (ft_stage_costs){times, times + n, times + 2 * n, times + 3 * n, times + 4 * n, transfer};
    return FT_OK;
}
