/* blueprint/programs.c - what actions run, and where the values of it are.
 *
 * Here it is found out how large the work area of every action is, so that blocks can be laid out.
 * Programs are made by who runs them, for the seats that are there. */
#include <string.h>

#include "blueprint/internal.h"

static ft_status no_memory(ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "blueprint: no memory for what actions run");
}

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

/* Of a value for itself alone, a forward has the place, even if halves of the backward keep it. */
static void place_values(const ft_blueprint *b, int s, int bucket, int kind, ft_place *places)
{
    const ft_graph *g = b->cut.graphs[bucket];
    const ft_seat_layout *seat = &b->seats[s];
    const ft_stage *cut = seat->cut[bucket];
    for (int v = 0; v < ft_graph_n_values(g); v++) {
        const ft_value *value = ft_graph_value(g, v);
        places[v] = (ft_place){FT_HOME_WORK, 0};
        if (value->kind == FT_VALUE_INPUT) places[v] = (ft_place){FT_HOME_INPUT, value->source};
        if (value->kind == FT_VALUE_PARAM) places[v] = (ft_place){FT_HOME_PARAM, value->source};
    }
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

/* Values on the edges of one kind of action, into `values`; returns their number. */
static int edge_values(const ft_blueprint *b, const int *edges, int n_edges, ft_value_id *values)
{
    int n = 0;
    for (int i = 0; i < n_edges; i++) {
        const ft_cargo *c = &b->cargoes[edges[i]];
        for (int k = 0; c->kind == FT_CARGO_VALUES && k < c->n; k++) values[n++] = c->items[k];
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

static ft_status draw_up(draft *d, const ft_blueprint *b, int s, int bucket, int kind,
                         ft_error *err)
{
    const ft_seat_layout *seat = &b->seats[s];
    const ft_stage *cut = seat->cut[bucket];
    const ft_graph *g = b->cut.graphs[bucket];
    int room = b->splits[bucket]->n_transfers + b->n_outputs + 2;
    bool forward = kind == FT_ACT_FORWARD, adds = !forward && kind == (int)seat->last;
    *d = (draft){.arena = ft_arena_new()};
    if (!d->arena) return no_memory(err);
    ft_value_id *arrive = ft_arena_array(d->arena, room, sizeof *arrive);
    ft_value_id *keep = ft_arena_array(d->arena, room, sizeof *keep);
    ft_place *places = ft_arena_array(d->arena, ft_graph_n_values(g) + 1, sizeof *places);
    if (!arrive || !keep || !places) return no_memory(err);
    place_values(b, s, bucket, kind, places);
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
    d->request = q;
    bind_edges(b, s, kind, places, d);
    return FT_OK;
}

ft_status ft_blueprint_compile(const ft_blueprint *b, int seat, int bucket, ft_action_kind kind,
                               ft_program **out, ft_error *err)
{
    draft d;
    *out = NULL;
    ft_status status = draw_up(&d, b, seat, bucket, kind, err);
    if (status == FT_OK) status = ft_program_new(out, &d.request, err);
    ft_arena_free(d.arena);
    return status;
}

static ft_status size_program(ft_blueprint *b, int s, int bucket, int kind, ft_error *err)
{
    draft d;
    int64_t bytes = 0;
    ft_seat_layout *seat = &b->seats[s];
    ft_status status = draw_up(&d, b, s, bucket, kind, err);
    if (status == FT_OK) status = ft_program_measure(&bytes, &d.request, err);
    ft_arena_free(d.arena);
    widen(&seat->work_bytes, ft_place_bytes(bytes));
    if (d.n_bound > seat->n_bound) seat->n_bound = d.n_bound;
    return status;
}

static ft_status find_packs(ft_blueprint *b, int s, ft_error *err)
{
    ft_seat_layout *seat = &b->seats[s];
    const ft_stage *cut = seat->cut[0];
    int n = cut->n_forward + cut->n_backward;
    int *nodes = ft_arena_array(b->arena, n + 1, sizeof(int));
    seat->packs = ft_arena_array(b->arena, n + 1, sizeof *seat->packs);
    seat->pack_at = ft_arena_array(b->arena, n + 1, sizeof(int64_t));
    seat->pack_seat = ft_arena_array(b->arena, n + 1, sizeof(int));
    if (!nodes || !seat->packs || !seat->pack_at || !seat->pack_seat) return no_memory(err);
    memcpy(nodes, cut->forward, (size_t)cut->n_forward * sizeof(int));
    memcpy(nodes + cut->n_forward, cut->backward, (size_t)cut->n_backward * sizeof(int));
    const ft_kernel_list *kernels = ft_kernel_list_of(b->cut.devices[seat->device].kind, FT_F32);
    seat->n_packs = kernels ? ft_program_packs(b->cut.graphs[0], nodes, n, kernels, seat->packs)
                            : ft_program_copies(b->cut.graphs[0], nodes, n, seat->packs);
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
                if (seat->nodes[k]) FT_TRY(size_program(b, s, bucket, k, err));
        }
    }
    return FT_OK;
}
