/* blueprint/programs.c - what actions run, and where the values of it are.
 *
 * Here it is found out how large the work area of every action is, so that blocks can be laid out.
 * Programs are made by who runs them, for the seats that are there.
 *
 * A joint forward has graphs of its own, of more rows. What it reads of edges and what it gives
 * lies in the work area, where each of its micro-batches has a part of it. */
#include <string.h>

#include "blueprint/internal.h"

/* -- places of values -------------------------------------------------------------------------- */

/* Gives values places one behind the other in a slot, or none without `places`; the bytes of them.
 */
static int64_t line_up(const ft_graph *g, const ft_value_id *values, int n, ft_home home,
                       ft_place *places)
{
    int64_t at = 0;
    for (int i = 0; i < n; i++) {
        if (places) places[values[i]] = (ft_place){home, at};
        at += ft_memory_round(ft_spec_bytes(&ft_graph_value(g, values[i])->spec));
    }
    return at;
}

static void place_given(const ft_graph *g, ft_place *places)
{
    for (int v = 0; v < ft_graph_n_values(g); v++) {
        const ft_value *value = ft_graph_value(g, v);
        places[v] = (ft_place){FT_HOME_WORK, 0};
        if (value->kind == FT_VALUE_INPUT) places[v] = (ft_place){FT_HOME_INPUT, value->source};
        if (value->kind == FT_VALUE_PARAM) places[v] = (ft_place){FT_HOME_PARAM, value->source};
    }
}

/* Of a value for itself alone, a forward has the place, even if halves of the backward keep it. */
static void place_values(const ft_blueprint *b, int s, int bucket, int kind, ft_place *places)
{
    const ft_graph *g = b->cut.graphs[bucket];
    const ft_seat_layout *seat = &b->seats[s];
    const ft_stage *cut = seat->cut[bucket];
    line_up(g, cut->saved, cut->n_saved, FT_HOME_SAVED, places);
    if (kind != FT_ACT_FORWARD) line_up(g, seat->held, seat->n_held, FT_HOME_HELD, places);
}

static void widen(int64_t *most, int64_t bytes)
{
    if (bytes > *most) *most = bytes;
}

static void size_slots(ft_blueprint *b, int s, int bucket)
{
    const ft_graph *g = b->cut.graphs[bucket];
    ft_seat_layout *seat = &b->seats[s];
    const ft_stage *cut = seat->cut[bucket];
    seat->saved_bytes[bucket] = line_up(g, cut->saved, cut->n_saved, FT_HOME_SAVED, NULL);
    seat->held_bytes[bucket] = line_up(g, seat->held, seat->n_held, FT_HOME_HELD, NULL);
    widen(&seat->slot_bytes, ft_place_bytes(seat->saved_bytes[bucket]));
    widen(&seat->held_slot_bytes, ft_place_bytes(seat->held_bytes[bucket]));
}

/* -- programs ---------------------------------------------------------------------------------- */

/* What is asked for, with all that it borrows of the arena. */
typedef struct draft {
    ft_program_request request;
    int n_bound; /* values that are read or written in slots of edges */
    ft_arena *arena;
} draft;

/* Values on the edges of one kind of action, into `values`; returns their number. Edges to the
 * replicas of a stage, or from them, carry the same values. */
static int edge_values(const ft_blueprint *b, const int *edges, int n_edges, ft_value_id *values)
{
    int n = 0;
    for (int i = 0; i < n_edges; i++) {
        const ft_cargo *c = &b->cargoes[edges[i]];
        for (int k = 0; c->kind == FT_CARGO_VALUES && k < c->n; k++)
            if (!ft_value_among(c->items[k], values, n)) values[n++] = c->items[k];
    }
    return n;
}

/* Gives numbers, from *bound on, to those values that the seat keeps nowhere: they are read or
 * written in slots of edges. */
static void bind(ft_place *places, const ft_value_id *values, int n, int *bound)
{
    for (int i = 0; i < n; i++)
        if (places[values[i]].home == FT_HOME_WORK)
            places[values[i]] = (ft_place){FT_HOME_BOUND, (*bound)++};
}

/* What arrives is read where it lies; what is sent is made where it goes from, if that is here. */
static void bind_edges(const ft_blueprint *b, int s, int kind, ft_place *places, draft *d)
{
    const ft_seat_layout *seat = &b->seats[s];
    bind(places, d->request.arrive, d->request.n_arrive, &d->n_bound);
    for (int i = 0; i < seat->n_out_edges[kind]; i++) {
        int e = seat->out_edges[kind][i];
        const ft_cargo *c = &b->cargoes[e];
        if (c->kind == FT_CARGO_VALUES && blueprint_makes_in_row(b, e))
            bind(places, c->items, c->n, &d->n_bound);
    }
}

/* What is kept of the seat's own for its backward, by a joint forward too. */
static int saved_here(const ft_blueprint *b, int s, int bucket, ft_value_id *values)
{
    const ft_stage *cut = b->seats[s].cut[bucket];
    int n = 0;
    for (int i = 0; i < cut->n_saved; i++)
        if (ft_blueprint_makes(b, s, bucket, cut->saved[i])) values[n++] = cut->saved[i];
    return n;
}

bool ft_blueprint_makes(const ft_blueprint *b, int s, int bucket, ft_value_id value)
{
    int node = ft_graph_value(b->cut.graphs[bucket], value)->source;
    return b->splits[bucket]->node_stage[node] == b->seats[s].stage;
}

int64_t ft_blueprint_part_bytes(const ft_blueprint *b, int bucket, ft_value_id value)
{
    const ft_spec *one = &ft_graph_value(b->cut.graphs[bucket], value)->spec;
    const ft_spec *all = &ft_graph_value(b->cut.joint_graphs[bucket], value)->spec;
    return ft_shape_count(&one->shape) == ft_shape_count(&all->shape) ? 0 : ft_spec_bytes(one);
}

/* The parts of a value lie one behind the other, or all are the same. */
static ft_status check_parts(const ft_blueprint *b, int s, int bucket, const ft_value_id *values,
                             int n, ft_error *err)
{
    int joint = b->seating.of[b->seats[s].stage].joint;
    for (int i = 0; i < n; i++) {
        const ft_shape *one = &ft_graph_value(b->cut.graphs[bucket], values[i])->spec.shape;
        const ft_shape *all = &ft_graph_value(b->cut.joint_graphs[bucket], values[i])->spec.shape;
        bool same = one->n_dims == all->n_dims;
        for (int k = 1; same && k < one->n_dims; k++) same = one->dims[k] == all->dims[k];
        if (same && (!one->n_dims || one->dims[0] == all->dims[0])) continue;
        if (same && all->dims[0] == joint * one->dims[0]) continue;
        return ft_fail(err, FT_INVALID,
                       "joint forwards of %d micro-batches in stage %d: value %%%d is no row of so "
                       "many parts",
                       joint, b->seats[s].stage, values[i]);
    }
    return FT_OK;
}

/* What the seat's actions of a kind run, or its joint forwards. */
static ft_status draw_up(draft *d, const ft_blueprint *b, int s, int bucket, int kind, bool joint,
                         ft_error *err)
{
    const ft_seat_layout *seat = &b->seats[s];
    const ft_stage *cut = seat->cut[bucket];
    const ft_graph *g = (joint ? b->cut.joint_graphs : b->cut.graphs)[bucket];
    int room = b->splits[bucket]->n_transfers + b->n_outputs + cut->n_saved + 2;
    bool forward = kind == FT_ACT_FORWARD, adds = !forward && kind == (int)seat->last;
    *d = (draft){.arena = ft_arena_new()};
    if (!d->arena) return no_memory(err);
    ft_value_id *arrive = ft_arena_array(d->arena, room, sizeof *arrive);
    ft_value_id *keep = ft_arena_array(d->arena, room, sizeof *keep);
    ft_place *places = ft_arena_array(d->arena, ft_graph_n_values(g) + 1, sizeof *places);
    if (!arrive || !keep || !places) return no_memory(err);
    place_given(g, places);
    if (!joint) place_values(b, s, bucket, kind, places);
    ft_program_request q = {
        .graph = g,
        .nodes = seat->nodes[kind],
        .n_nodes = seat->n_nodes[kind],
        .places = places,
        .arrive = arrive,
        .n_arrive = edge_values(b, seat->in_edges[kind], seat->n_in_edges[kind], arrive),
        .keep = keep,
        .n_keep = edge_values(b, seat->out_edges[kind], seat->n_out_edges[kind], keep),
        .terms = adds ? cut->grads : NULL,
        .n_terms = adds ? cut->n_grads : 0,
        .packs = seat->packs,
        .n_packs = seat->n_packs,
        .team_size = b->cut.devices[seat->device].n_threads,
        .kind = b->cut.devices[seat->device].kind};
    if (forward && seat->sums_loss) keep[q.n_keep++] = b->loss;
    for (int i = 0; i < b->n_outputs; i++)
        if (b->outputs[i].seat == s) keep[q.n_keep++] = b->outputs[i].value;
    if (joint) q.n_keep += saved_here(b, s, bucket, keep + q.n_keep);
    d->request = q;
    if (!joint) {
        bind_edges(b, s, kind, places, d);
        return FT_OK;
    }
    FT_TRY(check_parts(b, s, bucket, arrive, q.n_arrive, err));
    return check_parts(b, s, bucket, keep, q.n_keep, err);
}

static ft_status compile(const ft_blueprint *b, int seat, int bucket, ft_action_kind kind,
                         bool joint, ft_program **out, ft_error *err)
{
    draft d;
    *out = NULL;
    ft_status status = draw_up(&d, b, seat, bucket, kind, joint, err);
    if (status == FT_OK) status = ft_program_new(out, &d.request, err);
    ft_arena_free(d.arena);
    return status;
}

ft_status ft_blueprint_compile(const ft_blueprint *b, int seat, int bucket, ft_action_kind kind,
                               ft_program **out, ft_error *err)
{
    return compile(b, seat, bucket, kind, false, out, err);
}

ft_status ft_blueprint_compile_joint(const ft_blueprint *b, int seat, int bucket, ft_program **out,
                                     ft_error *err)
{
    return compile(b, seat, bucket, FT_ACT_FORWARD, true, out, err);
}

static ft_status size_program(ft_blueprint *b, int s, int bucket, int kind, bool joint,
                              ft_error *err)
{
    draft d;
    int64_t bytes = 0;
    ft_seat_layout *seat = &b->seats[s];
    ft_status status = draw_up(&d, b, s, bucket, kind, joint, err);
    if (status == FT_OK) status = ft_program_measure(&bytes, &d.request, err);
    ft_arena_free(d.arena);
    widen(&seat->work_bytes, ft_place_bytes(bytes));
    if (d.n_bound > seat->n_bound) seat->n_bound = d.n_bound;
    return status;
}

static int find_copies(const ft_graph *g, const int *nodes, int n, const ft_device *device,
                       ft_pack *packs)
{
    const ft_kernel_list *kernels = ft_kernel_list_of(device->kind, FT_F32);
    return device->unpacked ? 0
           : kernels        ? ft_program_packs(g, nodes, n, kernels, packs)
                            : ft_program_copies(g, nodes, n, packs);
}

static ft_status find_packs(ft_blueprint *b, int s, ft_error *err)
{
    ft_seat_layout *seat = &b->seats[s];
    const ft_stage *cut = seat->cut[0];
    int n = cut->n_forward + cut->n_backward, forward = cut->n_forward;
    int *nodes = ft_arena_array(b->arena, n + 1, sizeof(int));
    seat->packs = ft_arena_array(b->arena, n + 1, sizeof *seat->packs);
    seat->pack_at = ft_arena_array(b->arena, n + 1, sizeof(int64_t));
    seat->pack_seat = ft_arena_array(b->arena, n + 1, sizeof(int));
    seat->pack_visit = ft_arena_array(b->arena, n + 1, sizeof(int64_t));
    if (!nodes || !seat->packs || !seat->pack_at || !seat->pack_seat || !seat->pack_visit)
        return no_memory(err);
    memcpy(nodes, cut->forward, (size_t)cut->n_forward * sizeof(int));
    memcpy(nodes + cut->n_forward, cut->backward, (size_t)cut->n_backward * sizeof(int));
    const ft_device *device = &b->cut.devices[seat->device];
    const ft_graph *g = b->cut.graphs[0];
    int own = n - forward - cut->n_recompute, *last = nodes + n - own;
    int backward = find_copies(g, last, own, device, seat->packs);
    seat->n_forward_packs = find_copies(g, nodes, forward, device, seat->packs);
    seat->n_packs = find_copies(g, nodes, n, device, seat->packs);
    seat->share_packs = seat->n_forward_packs + backward > seat->n_packs;
    if (seat->share_packs) seat->n_forward_packs = seat->n_packs;
    if (b->trains) blueprint_share_packs(b, s);
    return FT_OK;
}

ft_status blueprint_size_programs(ft_blueprint *b, ft_error *err)
{
    int n = b->cut.n_graphs;
    for (int s = 0; s < b->seating.n_seats; s++) {
        ft_seat_layout *seat = &b->seats[s];
        seat->saved_bytes = ft_arena_array(b->arena, n, sizeof(int64_t));
        seat->held_bytes = ft_arena_array(b->arena, n, sizeof(int64_t));
        if (!seat->saved_bytes || !seat->held_bytes) return no_memory(err);
        FT_TRY(find_packs(b, s, err));
        for (int bucket = 0; bucket < n; bucket++) {
            size_slots(b, s, bucket);
            for (int k = 0; k < FT_ACT_COUNT; k++)
                if (seat->nodes[k]) FT_TRY(size_program(b, s, bucket, k, false, err));
            if (b->seating.of[seat->stage].joint > 1)
                FT_TRY(size_program(b, s, bucket, FT_ACT_FORWARD, true, err));
        }
    }
    return FT_OK;
}
