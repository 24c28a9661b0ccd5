/* blueprint/edges.c - what passes between seats.
 *
 * An edge here joins two seats, so one replica with one replica. An edge of the
 * plan, which joins stages of the plan, stands for all of them that pass something: of values those
 * with micro-batches in common, of gradient terms and weights those of which one owns what the
 * other has. */
#include <stdlib.h>
#include <string.h>

#include "blueprint/internal.h"
#include "blueprint/states.h"
#include "device/driver.h"
#include "plan/ends.h"
#include "slots/slots.h"

/* Edges while they are found. */
typedef struct search {
    ft_blueprint *b;
    ft_ends index;
} search;

/* The number of the edge between those actions, added when it is new; -1 without memory. */
static int get_edge(search *q, const ft_edge *wanted)
{
    ft_blueprint *b = q->b;
    int known = ft_ends_find(&q->index, b->edges, wanted);
    if (known >= 0) return known;
    b->edges = ft_arena_room(b->arena, b->edges, b->n_edges, sizeof *b->edges);
    b->cargoes = ft_arena_room(b->arena, b->cargoes, b->n_edges, sizeof *b->cargoes);
    q->index.before = ft_arena_room(b->arena, q->index.before, b->n_edges, sizeof(int));
    if (!b->edges || !b->cargoes || !q->index.before) return -1;
    b->edges[b->n_edges] = *wanted;
    ft_ends_note(&q->index, b->edges, b->n_edges);
    return b->n_edges++;
}

static ft_status add_item(search *q, ft_edge edge, ft_cargo_kind kind, int item, ft_error *err)
{
    int e = get_edge(q, &edge);
    if (e < 0) return no_memory(err);
    ft_cargo *c = &q->b->cargoes[e];
    c->kind = kind;
    if (kind == FT_CARGO_NOTHING) return FT_OK;
    c->items = ft_arena_room(q->b->arena, c->items, c->n, sizeof *c->items);
    if (!c->items) return no_memory(err);
    c->items[c->n++] = item;
    return FT_OK;
}

/* Of a seat, the action that passes on values of the phase. */
static ft_action_kind kind_of(const ft_blueprint *b, int seat, ft_phase phase)
{
    if (phase == FT_FORWARD) return FT_ACT_FORWARD;
    return b->seats[seat].splits ? FT_ACT_BACKWARD_INPUT : FT_ACT_BACKWARD;
}

/* Whether some micro-batch passes from one to the other. */
static bool meet(const ft_blueprint *b, int from, int to)
{
    const ft_seat_layout *x = &b->seats[from], *y = &b->seats[to];
    const ft_stage_share *of_x = &b->seating.of[x->stage], *of_y = &b->seating.of[y->stage];
    for (int i = 0; i < of_x->per_batch; i++)
        if (ft_share_replica(of_y, ft_share_index(of_x, x->replica, i)) == y->replica) return true;
    return false;
}

static ft_status add_value_edges(search *q, ft_error *err)
{
    const ft_blueprint *b = q->b;
    const ft_split *split = b->splits[0];
    for (int i = 0; i < split->n_transfers; i++) {
        const ft_transfer *t = &split->transfers[i];
        const ft_stage_share *from = &b->seating.of[t->from], *to = &b->seating.of[t->to];
        for (int x = from->first; x < from->first + from->n; x++)
            for (int y = to->first; y < to->first + to->n; y++) {
                if (!meet(b, x, y)) continue;
                ft_edge edge = {.from = x,
                                .to = y,
                                .from_kind = kind_of(b, x, t->phase),
                                .to_kind = kind_of(b, y, t->phase)};
                FT_TRY(add_item(q, edge, FT_CARGO_VALUES, t->value, err));
            }
    }
    return FT_OK;
}

static bool is_replicated(const ft_blueprint *b, int seat)
{
    return b->seating.of[b->seats[seat].stage].n > 1;
}

/* Every replica with a term sends it to the owner. Where one of the two is a replica it does so in
 * an action of its own, since replicas send to each other before any of them can sum. */
static ft_status add_term_edges(search *q, ft_error *err)
{
    const ft_blueprint *b = q->b;
    for (int t = 0; t < b->n_terms; t++) {
        int owner = b->params[ft_graph_grad_term(b->cut.graphs[0], t)->param].owner;
        const ft_stage_share *from = &b->seating.of[b->term_stage[t]];
        for (int s = from->first; s < from->first + from->n; s++) {
            if (s == owner) continue;
            bool apart = from->n > 1 || is_replicated(b, owner);
            ft_edge edge = {.from = s,
                            .to = owner,
                            .from_kind = apart ? FT_ACT_EXCHANGE : FT_ACT_REDUCE,
                            .to_kind = FT_ACT_REDUCE};
            FT_TRY(add_item(q, edge, FT_CARGO_TERMS, t, err));
        }
    }
    return FT_OK;
}

static ft_status add_weight_edges(search *q, ft_error *err)
{
    const ft_blueprint *b = q->b;
    for (int s = 0; s < b->seating.n_seats; s++)
        for (int i = 0; i < b->seats[s].n_params; i++) {
            const ft_seat_param *p = &b->seats[s].params[i];
            if (p->owned || (p->replica && !b->params[p->param].n_terms)) continue;
            int owner = b->params[p->param].owner;
            ft_edge edge = {
                .from = owner, .to = s, .from_kind = FT_ACT_UPDATE, .to_kind = FT_ACT_ADOPT};
            FT_TRY(
                add_item(q, edge, p->replica ? FT_CARGO_WEIGHTS : FT_CARGO_NOTHING, p->param, err));
        }
    return FT_OK;
}

static ft_status add_norm_edges(search *q, ft_error *err)
{
    const ft_blueprint *b = q->b;
    if (!b->norms) return FT_OK;
    int *depth = ft_arena_array(b->arena, b->seating.n_stages, sizeof(int));
    if (!depth) return no_memory(err);
    blueprint_find_depths(b, depth);
    for (int s = 0; s < b->seating.n_seats; s++)
        for (int t = 0; t < b->seating.n_seats; t++) {
            bool late = !b->cut.together && depth[b->seats[s].stage] > depth[b->seats[t].stage];
            ft_edge edge = {.from = s,
                            .to = t,
                            .from_kind = FT_ACT_REDUCE,
                            .to_kind = late ? FT_ACT_TAKE_NORMS : FT_ACT_UPDATE};
            if (s != t) FT_TRY(add_item(q, edge, FT_CARGO_NOTHING, 0, err));
        }
    return FT_OK;
}

/* -- sizes ------------------------------------------------------------------------------------- */

/* Whether the device can pass rows of a term: cards do not know them, and what goes apart from the
 * work of its maker's device goes as it is. */
static bool knows_rows(const ft_device *d)
{
    return ft_device_kinds[d->kind].in_host && !(d->driver && d->driver->passes_apart);
}

/* Of a term by rows those that do not hold zeros pass, where that is less. What replicas of another
 * stage send is summed in one of their slots, which needs all of them. */
int64_t ft_blueprint_picked_rows(const ft_blueprint *b, int from, int to, int term)
{
    const ft_seat_layout *x = &b->seats[from], *y = &b->seats[to];
    const ft_stage_share *of = &b->seating.of[x->stage];
    bool hosts = knows_rows(&b->cut.devices[x->device]) && knows_rows(&b->cut.devices[y->device]);
    if (!ft_blueprint_by_rows(b, term) || !hosts || (of->n > 1 && x->stage != y->stage)) return 0;
    int64_t most = 0;
    for (int i = 0; i < b->cut.n_graphs; i++) {
        int64_t rows = ft_graph_grad_rows(b->cut.graphs[i], term) * of->per_batch;
        if (rows > most) most = rows;
    }
    const ft_spec *spec = &b->params[ft_graph_grad_term(b->cut.graphs[0], term)->param].spec;
    return ft_picked_bytes(most, ft_shape_width(&spec->shape)) < ft_spec_bytes(spec) ? most : 0;
}

static int64_t term_bytes(const ft_blueprint *b, const ft_edge *edge, int term)
{
    const ft_spec *spec = &b->params[ft_graph_grad_term(b->cut.graphs[0], term)->param].spec;
    int64_t rows = ft_blueprint_picked_rows(b, edge->from, edge->to, term);
    return rows ? ft_picked_bytes(rows, ft_shape_width(&spec->shape)) : ft_spec_bytes(spec);
}

static int64_t item_bytes(const ft_blueprint *b, int e, int bucket, int i)
{
    const ft_cargo *c = &b->cargoes[e];
    switch (c->kind) {
    case FT_CARGO_VALUES:
        return ft_spec_bytes(&ft_graph_value(b->cut.graphs[bucket], c->items[i])->spec);
    case FT_CARGO_TERMS: return term_bytes(b, &b->edges[e], c->items[i]);
    case FT_CARGO_WEIGHTS: return ft_spec_bytes(&b->params[c->items[i]].spec);
    case FT_CARGO_NOTHING: break;
    }
    return 0;
}

static ft_status size_edge(ft_blueprint *b, int e, ft_error *err)
{
    ft_cargo *c = &b->cargoes[e];
    bool carries_state = c->kind == FT_CARGO_WEIGHTS && ft_blueprint_with_state(b, e);
    c->at = ft_arena_array(b->arena, (int64_t)b->cut.n_graphs * c->n + 1, sizeof(int64_t));
    c->bytes = ft_arena_array(b->arena, b->cut.n_graphs, sizeof(int64_t));
    c->load = ft_arena_array(b->arena, b->cut.n_graphs, sizeof(int64_t));
    if (!c->at || !c->bytes || !c->load) return no_memory(err);
    for (int bucket = 0; bucket < b->cut.n_graphs; bucket++) {
        int64_t at = 0, bytes = 0;
        for (int i = 0; i < c->n; i++) {
            c->at[bucket * c->n + i] = at;
            bytes += item_bytes(b, e, bucket, i);
            at += ft_memory_round(item_bytes(b, e, bucket, i));
            if (!carries_state) continue;
            bytes += ft_blueprint_state_bytes(b, c->items[i]);
            at += ft_memory_round(ft_blueprint_state_bytes(b, c->items[i]));
        }
        c->bytes[bucket] = at;
        c->load[bucket] = bytes;
        if (ft_place_bytes(at) > c->slot_bytes) c->slot_bytes = ft_place_bytes(at);
        if (bytes > b->edges[e].bytes) b->edges[e].bytes = bytes;
    }
    return FT_OK;
}

/* The same edge between stages of the plan. */
static ft_edge in_plan(const ft_blueprint *b, const ft_edge *edge)
{
    ft_edge e = *edge;
    e.from = b->seats[edge->from].stage;
    e.to = b->seats[edge->to].stage;
    return e;
}

/* Edges of the plan, in the order of the first of theirs. */
static ft_status join_edges(ft_blueprint *b, ft_error *err)
{
    b->plan_edges = ft_arena_array(b->arena, b->n_edges + 1, sizeof *b->plan_edges);
    b->edge_first = ft_arena_array(b->arena, b->n_edges + 1, sizeof *b->edge_first);
    ft_ends index;
    if (!b->plan_edges || !b->edge_first) return no_memory(err);
    FT_TRY(ft_ends_open(&index, b->arena, b->seating.n_stages, b->n_edges, err));
    for (int e = 0; e < b->n_edges; e++) {
        ft_edge edge = in_plan(b, &b->edges[e]);
        int k = ft_ends_find(&index, b->plan_edges, &edge);
        if (k < 0) {
            k = b->n_plan_edges++;
            b->edge_first[k] = e;
            b->plan_edges[k] = edge;
            ft_ends_note(&index, b->plan_edges, k);
        }
        b->cargoes[e].edge = k;
        if (edge.bytes > b->plan_edges[k].bytes) b->plan_edges[k].bytes = edge.bytes;
    }
    return FT_OK;
}

/* Whose slots the values of an edge land in: those of the first with the same receiver. */
static void share_slots(ft_blueprint *b)
{
    for (int e = 0; e < b->n_edges; e++) {
        ft_cargo *c = &b->cargoes[e];
        c->slots_of = e;
        if (!ft_action_per_micro(b->edges[e].to_kind)) continue;
        for (int k = b->edge_first[c->edge]; k < e; k++)
            if (b->cargoes[k].edge == c->edge && b->edges[k].to == b->edges[e].to)
                c->slots_of = b->cargoes[k].slots_of;
    }
}

/* Likewise of edges of the plan that share a place. */
static ft_status take_turns(ft_blueprint *b, ft_error *err)
{
    ft_turn *turns = ft_arena_array(b->arena, b->n_edges + 1, sizeof *turns);
    if (!turns) return no_memory(err);
    for (int e = 0; e < b->n_edges; e++) {
        const ft_cargo *c = &b->cargoes[e];
        const ft_edge *x = &b->edges[e];
        turns[e] = (ft_turn){c->edge, x->from, x->to, c->slot_bytes, c->slots_of, 0, 1};
    }
    FT_TRY(ft_turns_take(turns, b->n_edges, &b->plan, b->arena, err));
    for (int e = 0; e < b->n_edges; e++) {
        ft_cargo *c = &b->cargoes[e];
        c->slots_of = turns[e].whose;
        c->turn = turns[e].number;
        c->turns = turns[e].of;
        c->slot_bytes = turns[e].bytes;
    }
    return FT_OK;
}

/* A producer may be ahead of its consumer by as many micro-batches as their depths differ, of norms
 * that are taken later, by as many as there are stages before the consumer; one buffer more lets it
 * work while the consumer reads; all of it for each producer of a consumer. No more than there is
 * to send in the longest leg. Replicas wait for each other once per batch. What can never be full
 * of this is taken away when there is a plan (ft_plan_trim). */
static void choose_slots(ft_blueprint *b, const int *depth)
{
    const ft_cut *o = &b->cut;
    int deepest = 0;
    for (int s = 0; s < b->seating.n_stages; s++)
        if (depth[s] > deepest) deepest = depth[s];
    for (int e = 0; e < b->n_plan_edges; e++) {
        ft_edge *edge = &b->plan_edges[e];
        int ahead = abs(depth[edge->from] - depth[edge->to]);
        if (edge->to_kind == FT_ACT_TAKE_NORMS)
            ahead = deepest - depth[edge->to] + o->micro_batches;
        int makers = b->seating.of[edge->from].n, users = b->seating.of[edge->to].n;
        bool per_micro = ft_action_per_micro(edge->from_kind);
        int64_t sent = per_micro ? (int64_t)o->n_batches * o->micro_batches : o->n_batches;
        int slots =
            per_micro ? (ahead + 1) * ((makers + users - 1) / users) : ahead / o->micro_batches + 2;
        if (edge->from == edge->to) slots = 1;
        edge->slots = slots < sent ? slots : (int)sent;
    }
}

ft_status blueprint_index_edges(ft_blueprint *b, ft_error *err)
{
    for (int s = 0; s < b->seating.n_seats; s++) {
        memset(b->seats[s].n_in_edges, 0, sizeof b->seats[s].n_in_edges);
        memset(b->seats[s].n_out_edges, 0, sizeof b->seats[s].n_out_edges);
    }
    for (int e = 0; e < b->n_edges; e++) {
        const ft_edge *edge = &b->edges[e];
        ft_seat_layout *from = &b->seats[edge->from], *to = &b->seats[edge->to];
        int **out = &from->out_edges[edge->from_kind], *n_out = from->n_out_edges + edge->from_kind;
        int **in = &to->in_edges[edge->to_kind], *n_in = to->n_in_edges + edge->to_kind;
        *out = ft_arena_room(b->arena, *out, *n_out, sizeof **out);
        *in = ft_arena_room(b->arena, *in, *n_in, sizeof **in);
        if (!*out || !*in) return no_memory(err);
        (*out)[(*n_out)++] = (*in)[(*n_in)++] = e;
    }
    return FT_OK;
}

ft_status blueprint_find_edges(ft_blueprint *b, ft_error *err)
{
    search q = {.b = b};
    FT_TRY(ft_ends_open(&q.index, b->arena, b->seating.n_seats, 0, err));
    FT_TRY(add_value_edges(&q, err));
    if (!b->cut.forward_only) {
        FT_TRY(add_term_edges(&q, err));
        FT_TRY(add_weight_edges(&q, err));
    }
    FT_TRY(add_norm_edges(&q, err));
    for (int e = 0; e < b->n_edges; e++) FT_TRY(size_edge(b, e, err));
    FT_TRY(join_edges(b, err));
    share_slots(b);
    return FT_OK;
}

ft_status blueprint_choose_slots(ft_blueprint *b, ft_error *err)
{
    int *depth = ft_arena_array(b->arena, b->seating.n_stages + 1, sizeof(int));
    if (!depth) return no_memory(err);
    blueprint_find_depths(b, depth);
    choose_slots(b, depth);
    return FT_OK;
}

/* -- a plan's edges ---------------------------------------------------------------------------- */

/* What an edge carries, for people: the name of a parameter, or where a value is made. */
static const char *describe_cargo(const ft_blueprint *b, const ft_cargo *c)
{
    const ft_graph *g = b->cut.graphs[0];
    int first = c->n ? c->items[0] : 0;
    switch (c->kind) {
    case FT_CARGO_VALUES: return ft_graph_node(g, ft_graph_value(g, first)->source)->scope;
    case FT_CARGO_TERMS: return b->params[ft_graph_grad_term(g, first)->param].name;
    case FT_CARGO_WEIGHTS: return b->params[first].name;
    case FT_CARGO_NOTHING: break;
    }
    return "weights that both use";
}

static ft_status report_missing(const ft_blueprint *b, int k, ft_error *err)
{
    const ft_edge *edge = &b->plan_edges[k];
    char from = ft_action_letter(edge->from_kind), to = ft_action_letter(edge->to_kind);
    return ft_fail(err, FT_INVALID,
                   "the plan has no edge %c%d>%c%d, but with these stages '%s' has to pass there: "
                   "add 'edge %c%d>%c%d bytes 0 slots 2', or cut elsewhere",
                   from, edge->from, to, edge->to, describe_cargo(b, &b->cargoes[b->edge_first[k]]),
                   from, edge->from, to, edge->to);
}

/* What was found from the graph, while a plan's edges take its place. */
typedef struct found {
    int n, n_plan_edges;
    ft_edge *edges, *plan_edges;
    ft_cargo *cargoes;
    ft_ends index; /* of its edges of the plan */
    int *first,
        *next; /* by edge of the plan, the first of its edges; by edge, the next; -1: none */
} found;

static ft_status index_found(found *f, const ft_blueprint *b, ft_error *err)
{
    FT_TRY(ft_ends_open(&f->index, b->arena, b->seating.n_stages, f->n_plan_edges, err));
    f->first = ft_arena_array(b->arena, f->n_plan_edges + 1, sizeof(int));
    f->next = ft_arena_array(b->arena, f->n + 1, sizeof(int));
    if (!f->first || !f->next) return no_memory(err);
    for (int k = 0; k < f->n_plan_edges; k++) {
        f->first[k] = -1;
        ft_ends_note(&f->index, f->plan_edges, k);
    }
    for (int e = f->n - 1; e >= 0; e--) {
        f->next[e] = f->first[f->cargoes[e].edge];
        f->first[f->cargoes[e].edge] = e;
    }
    return FT_OK;
}

/* Edge k of the plan, of which nothing was found, is order alone: of every two that it joins. */
static void add_order(ft_blueprint *b, const ft_edge *edge, int k, int64_t *nothing)
{
    const ft_stage_share *from = &b->seating.of[edge->from], *to = &b->seating.of[edge->to];
    for (int x = from->first; x < from->first + from->n; x++)
        for (int y = to->first; y < to->first + to->n; y++) {
            if (x == y || (ft_action_per_micro(edge->to_kind) && !meet(b, x, y))) continue;
            b->cargoes[b->n_edges] =
                (ft_cargo){.kind = FT_CARGO_NOTHING, .edge = k, .bytes = nothing, .load = nothing};
            b->edges[b->n_edges] = *edge;
            b->edges[b->n_edges].from = x;
            b->edges[b->n_edges++].to = y;
        }
}

/* Likewise one of which edges were found: those, with its slots. */
static void add_found(ft_blueprint *b, const found *f, int number, const ft_edge *edge, int k)
{
    for (int e = f->first[number]; e >= 0; e = f->next[e]) {
        b->cargoes[b->n_edges] = f->cargoes[e];
        b->cargoes[b->n_edges].edge = k;
        b->edges[b->n_edges] = f->edges[e];
        b->edges[b->n_edges++].slots = edge->slots;
    }
}

static ft_status check_found(const ft_blueprint *b, const ft_plan *plan, ft_error *err)
{
    ft_ends index;
    FT_TRY(ft_ends_open(&index, b->arena, plan->n_stages, plan->n_edges, err));
    for (int e = 0; e < plan->n_edges; e++) ft_ends_note(&index, plan->edges, e);
    for (int k = 0; k < b->n_plan_edges; k++)
        if (ft_ends_find(&index, plan->edges, &b->plan_edges[k]) < 0)
            return report_missing(b, k, err);
    return FT_OK;
}

ft_status blueprint_take_plan(ft_blueprint *b, const ft_plan *plan, ft_error *err)
{
    int n = plan->n_edges;
    int64_t pairs = 0, *nothing = ft_arena_array(b->arena, b->cut.n_graphs, sizeof *nothing);
    FT_TRY(check_found(b, plan, err));
    found f = {.n = b->n_edges,
               .n_plan_edges = b->n_plan_edges,
               .edges = b->edges,
               .plan_edges = b->plan_edges,
               .cargoes = b->cargoes};
    FT_TRY(index_found(&f, b, err));
    for (int k = 0; k < n; k++)
        pairs += (int64_t)b->seating.of[plan->edges[k].from].n * b->seating.of[plan->edges[k].to].n;
    b->plan_edges = ft_arena_copy(b->arena, plan->edges, n, sizeof *b->plan_edges);
    b->edge_first = ft_arena_array(b->arena, n + 1, sizeof *b->edge_first);
    b->edges = ft_arena_array(b->arena, pairs + 1, sizeof *b->edges);
    b->cargoes = ft_arena_array(b->arena, pairs + 1, sizeof *b->cargoes);
    if (!nothing || !b->plan_edges || !b->edge_first || !b->edges || !b->cargoes)
        return no_memory(err);
    b->n_edges = 0;
    b->n_plan_edges = n;
    for (int k = 0; k < n; k++) {
        int number = ft_ends_find(&f.index, f.plan_edges, &plan->edges[k]), first = b->n_edges;
        bool known = number >= 0;
        b->plan_edges[k].bytes = known ? f.plan_edges[number].bytes : 0;
        if (known)
            add_found(b, &f, number, &plan->edges[k], k);
        else
            add_order(b, &b->plan_edges[k], k, nothing);
        b->edge_first[k] = b->n_edges > first ? first : -1;
    }
    share_slots(b);
    b->plan = *plan;
    b->plan.edges = b->plan_edges;
    b->plan.arena = NULL; /* the rest is the other's */
    FT_TRY(take_turns(b, err));
    for (int s = 0; s < b->seating.n_seats; s++)
        b->seats[s].last = ft_plan_last(&b->plan, b->seats[s].stage);
    FT_TRY(blueprint_index_edges(b, err));
    return blueprint_find_rows(b, err);
}
