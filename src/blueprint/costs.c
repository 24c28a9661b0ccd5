/* blueprint/costs.c - times of stages: from a profile, else modelled. */
#include <stddef.h>

#include "blueprint/internal.h"
#include "blueprint/states.h"
#include "program/roofline.h"

/* What costs are known of a device; NULL: they are modelled. */
static const ft_work_costs *costs_of(const ft_blueprint *b, int device)
{
    return b->cut.costs ? b->cut.costs[device] : NULL;
}

/* A micro-batch's part of a forward node's time, which takes a micro-batch alone so long: of a
 * joint forward as much as is measured, else as much less as is modelled. */
static double forward_ns(const ft_blueprint *b, int s, int node, double alone)
{
    const ft_device *device = &b->cut.devices[b->seats[s].device];
    const ft_work_costs *costs = costs_of(b, b->seats[s].device);
    int joint = b->seating.of[b->seats[s].stage].joint, largest = b->cut.n_graphs - 1;
    if (joint == 1) return alone;
    if (costs && costs->joint_ns) return costs->joint_ns[node] / joint;
    return alone * ft_node_time_ns(b->cut.joint_graphs[largest], node, device) / joint /
           ft_node_time_ns(b->cut.graphs[largest], node, device);
}

/* What an action of the kind computes. Forward nodes in a backward are run again. */
static double sum_nodes(const ft_blueprint *b, int s, ft_action_kind kind)
{
    const ft_work_costs *costs = costs_of(b, b->seats[s].device);
    const ft_graph *g = b->cut.graphs[b->cut.n_graphs - 1];
    const int *nodes = b->seats[s].nodes[kind];
    double ns = 0;
    for (int i = 0; i < b->seats[s].n_nodes[kind]; i++) {
        bool forward = kind == FT_ACT_FORWARD;
        bool again = !forward && nodes[i] < ft_graph_n_forward(g);
        double alone = !costs ? ft_node_time_ns(g, nodes[i], &b->cut.devices[b->seats[s].device])
                       : again && costs->recompute_ns ? costs->recompute_ns[nodes[i]]
                                                      : costs->node_ns[nodes[i]];
        ns += forward ? forward_ns(b, s, nodes[i], alone) : alone;
    }
    return ns;
}

static double traffic_ns(double bytes, const ft_device *device)
{
    return 1e9 * bytes / device->bytes_per_s;
}

bool ft_blueprint_by_rows(const ft_blueprint *b, int term)
{
    const ft_graph *g = b->cut.graphs[0];
    return ft_graph_node(g, ft_graph_grad_term(g, term)->node)->op->by_rows;
}

/* Bytes that the sum of a parameter's terms moves, one from each replica of its stage. Of terms by
 * rows the owner's are few, others' as many as pass; where all pass they are walked over. Where its
 * owner has no others, what is sent is copied to one of them, which the next batch clears. */
static double summed_bytes(const ft_blueprint *b, const ft_param_layout *p)
{
    int64_t whole = 0, walked = 0, own = 0, picked = 0;
    for (int t = 0; t < p->n_terms; t++) {
        const ft_stage_share *of = &b->seating.of[b->term_stage[p->terms[t]]];
        bool by_rows = ft_blueprint_by_rows(b, p->terms[t]);
        for (int s = of->first; s < of->first + of->n; s++) {
            int64_t n = s == p->owner ? 0 : ft_blueprint_picked_rows(b, s, p->owner, p->terms[t]);
            whole += !by_rows;
            own += !by_rows && s == p->owner;
            walked += by_rows && s != p->owner && !n;
            picked += n;
        }
    }
    int64_t passes = whole > 0 ? 3 * (whole - 1) + (own ? 0 : 3) : 0;
    double row = (double)ft_shape_width(&p->spec.shape) * sizeof(float);
    return (double)ft_spec_bytes(&p->spec) * (double)(passes + walked) + 3 * row * (double)picked;
}

/* Of the weights that change whose steps the seat knows: those are kept, predicted and compared.
 */
static double known_bytes(const ft_blueprint *b, int s)
{
    double bytes = 0;
    for (int i = 0; i < b->seats[s].n_params; i++) {
        const ft_param_layout *p = &b->params[b->seats[s].params[i].param];
        bool knows = b->seats[s].params[i].owned || b->seats[s].params[i].with_state;
        if (knows && p->n_terms) bytes += (double)ft_spec_bytes(&p->spec);
    }
    return bytes;
}

/* Of a weight that the seat takes over, with what comes with it. */
static double taken_bytes(const ft_blueprint *b, const ft_seat_param *p)
{
    double bytes = (double)ft_spec_bytes(&b->params[p->param].spec);
    return bytes + (p->with_state ? (double)ft_blueprint_state_bytes(b, p->param) : 0);
}

/* Gradient terms that the seat sends in such an action: read and written. */
static double sending_ns(const ft_blueprint *b, int s, ft_action_kind kind)
{
    const ft_seat_layout *seat = &b->seats[s];
    double bytes = 0;
    for (int i = 0; i < seat->n_out_edges[kind]; i++)
        bytes += (double)b->edges[seat->out_edges[kind][i]].bytes;
    return traffic_ns(2 * bytes, &b->cut.devices[seat->device]);
}

/* Modelled: bytes that reduce, update and adopt move, per seat. */
static void model_steps(const ft_blueprint *b, int s, double *reduce, double *update, double *adopt)
{
    const ft_seat_layout *seat = &b->seats[s];
    const ft_device *device = &b->cut.devices[seat->device];
    double owned = 0, summed = 0, replicas = 0;
    for (int i = 0; i < seat->n_params; i++) {
        const ft_param_layout *p = &b->params[seat->params[i].param];
        double bytes = (double)ft_spec_bytes(&p->spec);
        if (!p->n_terms) continue;
        if (seat->params[i].owned) {
            owned += bytes;
            summed += summed_bytes(b, p);
        }
        if (seat->params[i].replica) replicas += taken_bytes(b, &seat->params[i]);
    }
    if (b->squares) summed += owned;
    *reduce = traffic_ns(summed, device);
    *update = traffic_ns(owned * 7, device); /* AdamW reads p, g, m, v and writes p, m, v */
    *adopt = traffic_ns(replicas * 2, device);
}

/* Packed copies belong to the update of a weight that the seat owns, else to its adoption. */
static void price_packs(const ft_blueprint *b, int s, const ft_work_costs *costs, double *update,
                        double *adopt)
{
    const ft_seat_layout *seat = &b->seats[s];
    const ft_graph *g = b->cut.graphs[0];
    const ft_device *device = &b->cut.devices[seat->device];
    for (int i = 0; i < seat->cut[0]->n_forward; i++) {
        const ft_node *node = ft_graph_node(g, seat->cut[0]->forward[i]);
        double ns = costs->pack_ns[seat->cut[0]->forward[i]];
        if (ns <= 0 || device->unpacked || !node->op->pack_input) continue;
        const ft_value *weight = ft_graph_value(g, node->in[node->op->pack_input - 1]);
        const ft_param_layout *p =
            weight->kind == FT_VALUE_PARAM ? &b->params[weight->source] : NULL;
        if (p && !p->n_terms) continue;
        bool owned = p && p->owner == s;
        *(owned ? update : adopt) += owned ? ft_pack_share(device->kind) * ns : ns;
    }
}

/* Packed copies of all weights, also of those that do not change; those of one direction, where
 * each has its own. */
static double making_ns(const ft_blueprint *b, int s, const ft_work_costs *costs)
{
    const ft_seat_layout *seat = &b->seats[s];
    const ft_stage *cut = seat->cut[0];
    const ft_graph *g = b->cut.graphs[0];
    bool apart = seat->n_forward_packs < seat->n_packs;
    double ns = 0;
    for (int i = 0; i < cut->n_forward; i++) {
        const ft_node *node = ft_graph_node(g, cut->forward[i]);
        if (!node->op->pack_input) continue;
        const ft_value *weight = ft_graph_value(g, node->in[node->op->pack_input - 1]);
        double bytes = weight->kind == FT_VALUE_PARAM ? (double)ft_spec_bytes(&weight->spec) : 0;
        const ft_device *device = &b->cut.devices[seat->device];
        ns += costs ? costs->pack_ns[cut->forward[i]] : traffic_ns(FT_PACK_PASSES * bytes, device);
    }
    return apart ? ns / 2 : ns;
}

/* Measured: by parameter; sums of gradient terms and copies of replicas by their bytes. */
static void price_steps(const ft_blueprint *b, int s, const ft_work_costs *costs, double *reduce,
                        double *update, double *adopt)
{
    const ft_seat_layout *seat = &b->seats[s];
    double summed = 0, replicas = 0;
    *reduce = *update = *adopt = 0;
    for (int i = 0; i < seat->n_params; i++) {
        int number = seat->params[i].param;
        const ft_param_layout *p = &b->params[number];
        if (!p->n_terms) continue;
        if (seat->params[i].replica) replicas += taken_bytes(b, &seat->params[i]);
        if (!seat->params[i].owned) continue;
        *update += costs->update_ns[number];
        summed += summed_bytes(b, p);
        if (b->squares) *reduce += costs->norm_ns[number];
    }
    *reduce += traffic_ns(summed, &b->cut.devices[seat->device]) + sending_ns(b, s, FT_ACT_REDUCE);
    *adopt += traffic_ns(replicas * 2, &b->cut.devices[seat->device]);
    price_packs(b, s, costs, update, adopt);
}

/* Whether another edge here, of the same one of the plan, ends at that seat too: one of them has
 * each micro-batch. */
static bool is_counted(const ft_blueprint *b, int e, int end)
{
    for (int k = b->edge_first[b->cargoes[e].edge]; k < e; k++)
        if (b->cargoes[k].edge == b->cargoes[e].edge &&
            (end ? b->edges[k].to == b->edges[e].to : b->edges[k].from == b->edges[e].from))
            return true;
    return false;
}

/* Whether the seat has the value in a place of its own, from one action to a later one. */
static bool has_kept(const ft_seat_layout *seat, ft_value_id v)
{
    const ft_stage *cut = seat->cut[0];
    return ft_value_among(v, cut->saved, cut->n_saved) ||
           ft_value_among(v, seat->held, seat->n_held);
}

/* Bytes that one end of an edge copies: into the row where it cannot make them there; out of it
 * what it keeps. */
static double copied_bytes(const ft_blueprint *b, int e, bool sends)
{
    const ft_cargo *c = &b->cargoes[e];
    const ft_seat_layout *seat = &b->seats[sends ? b->edges[e].from : b->edges[e].to];
    const ft_graph *g = b->cut.graphs[b->cut.n_graphs - 1];
    bool all = sends && !blueprint_makes_in_row(b, e);
    bool gathers =
        !sends && b->edges[e].to_kind == FT_ACT_FORWARD && b->seating.of[seat->stage].joint > 1;
    double bytes = 0;
    for (int i = 0; i < c->n; i++) {
        int times = gathers + (all || has_kept(seat, c->items[i]));
        bytes += times * (double)ft_spec_bytes(&ft_graph_value(g, c->items[i])->spec);
    }
    return bytes;
}

/* Copies of values, at both ends of edges. */
static void price_copies(const ft_blueprint *b, double *const *rows)
{
    for (int e = 0; e < b->n_edges; e++) {
        const ft_edge *edge = &b->edges[e];
        if (b->cargoes[e].kind != FT_CARGO_VALUES) continue;
        const int ends[] = {edge->from, edge->to};
        const ft_action_kind kinds[] = {edge->from_kind, edge->to_kind};
        for (int i = 0; i < 2; i++) {
            if (is_counted(b, e, i)) continue;
            const ft_work_costs *costs = costs_of(b, b->seats[ends[i]].device);
            if (costs)
                rows[kinds[i]][ends[i]] += 1e9 * copied_bytes(b, e, !i) / costs->copy_bytes_per_s;
        }
    }
}

/* Without a machine. */
static double price_transfer(const ft_blueprint *b, const ft_edge *edge)
{
    int from = b->seats[edge->from].device, to = b->seats[edge->to].device;
    const ft_device *device = &b->cut.devices[to];
    if (from == to) return 0;
    if (costs_of(b, to)) return costs_of(b, to)->handoff_ns;
    return (double)device->link_latency_ns + 1e9 * (double)edge->bytes / device->link_bytes_per_s;
}

static void note_transfer(const ft_blueprint *b, int edge, double ns, double *times)
{
    double *slowest = &times[b->cargoes[edge].edge];
    if (ns > *slowest) *slowest = ns;
}

static ft_status price_ways(const ft_blueprint *b, ft_arena *arena, double *times, ft_error *err)
{
    ft_roads roads;
    FT_TRY(ft_roads_new(&roads, arena, b->cut.machine, b->cut.n_devices, err));
    FT_TRY(ft_roads_join_all(&roads, err));
    for (int e = 0; e < b->n_edges; e++) {
        const ft_edge *edge = &b->edges[e];
        const ft_way *w =
            ft_roads_way(&roads, b->seats[edge->from].device, b->seats[edge->to].device);
        if (!w) return no_memory(err);
        note_transfer(b, e,
                      (double)ft_roads_latency_ns(&roads, w, edge->bytes) +
                          (double)edge->bytes * w->ns_per_byte,
                      times);
    }
    return FT_OK;
}

/* The slowest of those that an edge of the plan stands for. */
static ft_status price_transfers(const ft_blueprint *b, double *times, ft_error *err)
{
    for (int e = 0; !b->cut.machine && e < b->n_edges; e++)
        note_transfer(b, e, price_transfer(b, &b->edges[e]), times);
    if (!b->cut.machine) return FT_OK;
    ft_arena *arena = ft_arena_new();
    if (!arena) return no_memory(err);
    ft_status status = price_ways(b, arena, times, err);
    ft_arena_free(arena);
    return status;
}

/* Of a stage of the plan, what its slowest replica takes. */
static void join_replicas(const ft_blueprint *b, const double *here, double *out)
{
    for (int s = 0; s < b->seating.n_seats; s++) {
        double *most = &out[b->seats[s].stage];
        if (here[s] > *most) *most = here[s];
    }
}

static void price_seat(const ft_blueprint *b, int s, double *const *rows)
{
    const ft_work_costs *costs = costs_of(b, b->seats[s].device);
    const ft_device *device = &b->cut.devices[b->seats[s].device];
    double *reduce = &rows[FT_ACT_REDUCE][s], *update = &rows[FT_ACT_UPDATE][s];
    double *adopt = &rows[FT_ACT_ADOPT][s];
    if (costs)
        price_steps(b, s, costs, reduce, update, adopt);
    else
        model_steps(b, s, reduce, update, adopt);
    if (b->plan.versions && b->plan.versions[b->seats[s].stage] > 1)
        *update += traffic_ns(2 * known_bytes(b, s), device);
    /* weights and two parts of state are read; weights, older ones, the size of steps */
    rows[FT_ACT_PREDICT][s] = traffic_ns(4 * known_bytes(b, s), device);
    rows[FT_ACT_ATTENUATE][s] = traffic_ns(5 * known_bytes(b, s), device);
    rows[FT_ACT_EXCHANGE][s] = sending_ns(b, s, FT_ACT_EXCHANGE);
    rows[FT_ACT_MAKE][s] = making_ns(b, s, costs);
}

static ft_status note_copies(ft_blueprint *b, ft_error *err)
{
    int n = b->cut.n_devices;
    b->copy_bytes_per_s = ft_arena_array(b->arena, n, sizeof *b->copy_bytes_per_s);
    if (!b->copy_bytes_per_s) return no_memory(err);
    for (int d = 0; d < n; d++) {
        const ft_work_costs *costs = costs_of(b, d);
        b->copy_bytes_per_s[d] =
            costs ? costs->copy_bytes_per_s : b->cut.devices[d].link_bytes_per_s;
    }
    return FT_OK;
}

ft_status blueprint_estimate(ft_blueprint *b, ft_error *err)
{
    static const ft_action_kind kinds[] = {
        FT_ACT_FORWARD,         FT_ACT_BACKWARD, FT_ACT_BACKWARD_INPUT,
        FT_ACT_BACKWARD_WEIGHT, FT_ACT_PREDICT,  FT_ACT_REDUCE,
        FT_ACT_UPDATE,          FT_ACT_ADOPT,    FT_ACT_ATTENUATE,
        FT_ACT_EXCHANGE,        FT_ACT_MAKE};
    enum { KINDS = sizeof kinds / sizeof *kinds };
    int n = b->seating.n_seats, n_stages = b->seating.n_stages;
    double *here[FT_ACT_COUNT] = {NULL}, *rows[FT_ACT_COUNT] = {NULL};
    double *times = ft_arena_array(b->arena, KINDS * (int64_t)(n + n_stages), sizeof(double));
    double *transfer = ft_arena_array(b->arena, b->n_plan_edges + 1, sizeof(double));
    if (!times || !transfer) return no_memory(err);
    FT_TRY(note_copies(b, err));
    for (int k = 0; k < KINDS; k++) {
        here[kinds[k]] = times + (int64_t)k * n;
        rows[kinds[k]] = times + (int64_t)KINDS * n + (int64_t)k * n_stages;
        for (int s = 0; s < n; s++) here[kinds[k]][s] = sum_nodes(b, s, kinds[k]);
    }
    for (int s = 0; s < n; s++) price_seat(b, s, here);
    price_copies(b, here);
    for (int s = 0; s < n; s++)
        here[FT_ACT_BACKWARD][s] +=
            here[FT_ACT_BACKWARD_INPUT][s] + here[FT_ACT_BACKWARD_WEIGHT][s];
    for (int k = 0; k < KINDS; k++) join_replicas(b, here[kinds[k]], rows[kinds[k]]);
    FT_TRY(price_transfers(b, transfer, err));
    b->costs = (ft_stage_costs){.forward_ns = rows[FT_ACT_FORWARD],
                                .backward_ns = rows[FT_ACT_BACKWARD],
                                .reduce_ns = rows[FT_ACT_REDUCE],
                                .update_ns = rows[FT_ACT_UPDATE],
                                .adopt_ns = rows[FT_ACT_ADOPT],
                                .transfer_ns = transfer,
                                .backward_input_ns = rows[FT_ACT_BACKWARD_INPUT],
                                .backward_weight_ns = rows[FT_ACT_BACKWARD_WEIGHT],
                                .recompute_ns = rows[FT_ACT_FORWARD],
                                .predict_ns = rows[FT_ACT_PREDICT],
                                .attenuate_ns = rows[FT_ACT_ATTENUATE],
                                .exchange_ns = rows[FT_ACT_EXCHANGE],
                                .make_ns = rows[FT_ACT_MAKE]};
    return FT_OK;
}
