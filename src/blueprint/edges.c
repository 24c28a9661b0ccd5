/* blueprint/edges.c - who owns which parameter, and what passes between stages.
 *
 * A parameter is owned by the stage among its users that is the furthest from the loss, so that
 * stages wait for each other in one direction, and nobody needs a weight before its owner has it.
 * Other stages that use it send their gradient terms to the owner once per batch and take over its
 * new value once per batch: from a replica of their own when they are on another device, in place
 * when they share the owner's. A replica of what is not trained stays as it was loaded. */
#include <stdlib.h>
#include <string.h>

#include "blueprint/internal.h"

static ft_status no_memory(ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "engine: no memory for parameters and edges");
}

/* -- owners ------------------------------------------------------------------------------------ */

static bool stage_uses(const ft_blueprint *b, int stage, int param)
{
    const ft_stage *cut = b->stages[stage].cut[0];
    for (int i = 0; i < cut->n_params; i++)
        if (cut->params[i] == param) return true;
    return false;
}

/* Longest path to the last stage over what forwards pass on; n_stages rounds reach a fixed point
 * because a split has no cycle. */
static void find_depths(const ft_blueprint *b, int *depth)
{
    const ft_split *split = b->splits[0];
    for (int round = 0; round < b->cut.n_stages; round++)
        for (int i = 0; i < split->n_transfers; i++) {
            const ft_transfer *t = &split->transfers[i];
            if (t->phase == FT_FORWARD && depth[t->from] < depth[t->to] + 1)
                depth[t->from] = depth[t->to] + 1;
        }
}

/* Of the stages with a term: the deepest, then the first. Without terms: the first user. */
static int find_owner(const ft_blueprint *b, int param, const int *depth)
{
    const ft_param_layout *p = &b->params[param];
    int owner = p->n_terms ? b->term_stage[p->terms[0]] : -1;
    for (int t = 1; t < p->n_terms; t++) {
        int s = b->term_stage[p->terms[t]];
        if (depth[s] > depth[owner] || (depth[s] == depth[owner] && s < owner)) owner = s;
    }
    if (owner >= 0) return owner;
    for (int s = 0; s < b->cut.n_stages; s++)
        if (stage_uses(b, s, param)) return s;
    return 0; /* used nowhere: kept and saved all the same */
}

static ft_status list_params(ft_blueprint *b, int s, ft_error *err)
{
    ft_stage_layout *stage = &b->stages[s];
    stage->params = ft_arena_array(b->arena, b->n_params + 1, sizeof *stage->params);
    if (!stage->params) return no_memory(err);
    for (int p = 0; p < b->n_params; p++) {
        int owner = b->params[p].owner;
        if (owner != s && !stage_uses(b, s, p)) continue;
        stage->params[stage->n_params++] =
            (ft_stage_param){.param = p,
                             .owned = owner == s,
                             .replica = owner != s && ((b->cut.keeps && b->params[p].n_terms) ||
                                                       b->stages[owner].device != stage->device)};
    }
    return FT_OK;
}

ft_status blueprint_find_owners(ft_blueprint *b, ft_error *err)
{
    const ft_graph *g = b->cut.graphs[0];
    b->params = ft_arena_array(b->arena, b->n_params + 1, sizeof *b->params);
    b->term_stage = ft_arena_array(b->arena, b->n_terms + 1, sizeof(int));
    int *terms = ft_arena_array(b->arena, b->n_terms + 1, sizeof(int));
    if (!b->params || !b->term_stage || !terms) return no_memory(err);
    for (int t = 0; t < b->n_terms; t++) {
        const ft_grad_term *term = ft_graph_grad_term(g, t);
        b->term_stage[t] = b->splits[0]->node_stage[term->node];
        b->params[term->param].n_terms++;
    }
    for (int p = 0; p < b->n_params; p++) {
        ft_param_layout *info = &b->params[p];
        const ft_value *value = ft_graph_value(g, ft_graph_param_value(g, p));
        info->name = value->name;
        info->spec = value->spec;
        info->terms = terms;
        terms += info->n_terms;
        info->n_terms = 0;
    }
    for (int t = 0; t < b->n_terms; t++) {
        ft_param_layout *info = &b->params[ft_graph_grad_term(g, t)->param];
        info->terms[info->n_terms++] = t;
    }
    int *depth = ft_arena_array(b->arena, b->cut.n_stages, sizeof(int));
    if (!depth) return no_memory(err);
    find_depths(b, depth);
    for (int p = 0; p < b->n_params; p++) b->params[p].owner = find_owner(b, p, depth);
    for (int s = 0; s < b->cut.n_stages; s++) FT_TRY(list_params(b, s, err));
    return FT_OK;
}

/* -- edges ------------------------------------------------------------------------------------- */

static bool same_ends(const ft_edge *a, const ft_edge *b)
{
    return a->from == b->from && a->to == b->to && a->from_kind == b->from_kind &&
           a->to_kind == b->to_kind;
}

/* The number of the edge between those actions, added when it is new. */
static int get_edge(ft_blueprint *b, const ft_edge *wanted)
{
    for (int e = 0; e < b->n_edges; e++)
        if (same_ends(&b->edges[e], wanted)) return e;
    b->edges[b->n_edges] = *wanted;
    return b->n_edges++;
}

static ft_status add_item(ft_blueprint *b, ft_edge edge, ft_cargo_kind kind, int item,
                          ft_error *err)
{
    ft_cargo *c = &b->cargoes[get_edge(b, &edge)];
    c->kind = kind;
    if (kind == FT_CARGO_NOTHING) return FT_OK;
    if (!c->items) {
        int room = b->splits[0]->n_transfers + b->n_terms + b->n_params;
        c->items = ft_arena_array(b->arena, room + 1, sizeof(int));
        if (!c->items) return no_memory(err);
    }
    c->items[c->n++] = item;
    return FT_OK;
}

/* Of a stage, the action that passes on values of the phase. */
static ft_action_kind kind_of(const ft_blueprint *b, int stage, ft_phase phase)
{
    if (phase == FT_FORWARD) return FT_ACT_FORWARD;
    return b->cut.splits[stage] ? FT_ACT_BACKWARD_INPUT : FT_ACT_BACKWARD;
}

static ft_status add_value_edges(ft_blueprint *b, ft_error *err)
{
    const ft_split *split = b->splits[0];
    for (int i = 0; i < split->n_transfers; i++) {
        const ft_transfer *t = &split->transfers[i];
        ft_edge edge = {.from = t->from,
                        .to = t->to,
                        .from_kind = kind_of(b, t->from, t->phase),
                        .to_kind = kind_of(b, t->to, t->phase)};
        FT_TRY(add_item(b, edge, FT_CARGO_VALUES, t->value, err));
    }
    return FT_OK;
}

static ft_status add_tie_edges(ft_blueprint *b, ft_error *err)
{
    for (int t = 0; t < b->n_terms; t++) {
        int owner = b->params[ft_graph_grad_term(b->cut.graphs[0], t)->param].owner;
        if (b->term_stage[t] == owner) continue;
        ft_edge edge = {.from = b->term_stage[t],
                        .to = owner,
                        .from_kind = FT_ACT_REDUCE,
                        .to_kind = FT_ACT_REDUCE};
        FT_TRY(add_item(b, edge, FT_CARGO_TERMS, t, err));
    }
    for (int s = 0; s < b->cut.n_stages; s++)
        for (int i = 0; i < b->stages[s].n_params; i++) {
            const ft_stage_param *p = &b->stages[s].params[i];
            if (p->owned || (p->replica && !b->params[p->param].n_terms)) continue;
            ft_edge edge = {.from = b->params[p->param].owner,
                            .to = s,
                            .from_kind = FT_ACT_UPDATE,
                            .to_kind = FT_ACT_ADOPT};
            FT_TRY(
                add_item(b, edge, p->replica ? FT_CARGO_WEIGHTS : FT_CARGO_NOTHING, p->param, err));
        }
    return FT_OK;
}

static ft_status add_norm_edges(ft_blueprint *b, ft_error *err)
{
    if (!b->norms) return FT_OK;
    int *depth = ft_arena_array(b->arena, b->cut.n_stages, sizeof(int));
    if (!depth) return no_memory(err);
    find_depths(b, depth);
    for (int s = 0; s < b->cut.n_stages; s++)
        for (int t = 0; t < b->cut.n_stages; t++) {
            bool late = !b->cut.together && depth[s] > depth[t];
            ft_edge edge = {.from = s,
                            .to = t,
                            .from_kind = FT_ACT_REDUCE,
                            .to_kind = late ? FT_ACT_TAKE_NORMS : FT_ACT_UPDATE};
            if (s != t) FT_TRY(add_item(b, edge, FT_CARGO_NOTHING, 0, err));
        }
    return FT_OK;
}

/* -- sizes ------------------------------------------------------------------------------------- */

static int64_t item_bytes(const ft_blueprint *b, const ft_cargo *c, int bucket, int i)
{
    const ft_graph *g = b->cut.graphs[bucket];
    switch (c->kind) {
    case FT_CARGO_VALUES: return ft_spec_bytes(&ft_graph_value(g, c->items[i])->spec);
    case FT_CARGO_TERMS:
        return ft_spec_bytes(&b->params[ft_graph_grad_term(g, c->items[i])->param].spec);
    case FT_CARGO_WEIGHTS: return ft_spec_bytes(&b->params[c->items[i]].spec);
    case FT_CARGO_NOTHING: break;
    }
    return 0;
}

static ft_status size_edge(ft_blueprint *b, int e, ft_error *err)
{
    ft_cargo *c = &b->cargoes[e];
    c->at = ft_arena_array(b->arena, (int64_t)b->cut.n_graphs * c->n + 1, sizeof(int64_t));
    c->bytes = ft_arena_array(b->arena, b->cut.n_graphs, sizeof(int64_t));
    if (!c->at || !c->bytes) return no_memory(err);
    for (int bucket = 0; bucket < b->cut.n_graphs; bucket++) {
        int64_t at = 0, bytes = 0;
        for (int i = 0; i < c->n; i++) {
            c->at[bucket * c->n + i] = at;
            bytes += item_bytes(b, c, bucket, i);
            at += ft_memory_round(item_bytes(b, c, bucket, i));
        }
        c->bytes[bucket] = at;
        if (ft_place_bytes(at) > c->slot_bytes) c->slot_bytes = ft_place_bytes(at);
        if (bytes > b->edges[e].bytes) b->edges[e].bytes = bytes;
    }
    return FT_OK;
}

/* A producer may be ahead of its consumer by as many micro-batches as their depths differ, of norms
 * that are taken later, by as many as there are stages before the consumer; one buffer more lets it
 * work while the consumer reads. No more than there is to send in the longest leg. */
static void choose_slots(ft_blueprint *b, const int *depth)
{
    const ft_cut *o = &b->cut;
    int deepest = 0;
    for (int s = 0; s < o->n_stages; s++)
        if (depth[s] > deepest) deepest = depth[s];
    for (int e = 0; e < b->n_edges; e++) {
        ft_edge *edge = &b->edges[e];
        int ahead = abs(depth[edge->from] - depth[edge->to]);
        if (edge->to_kind == FT_ACT_TAKE_NORMS)
            ahead = deepest - depth[edge->to] + o->micro_batches;
        bool per_micro = ft_action_per_micro(edge->from_kind);
        int64_t sent = per_micro ? (int64_t)o->n_batches * o->micro_batches : o->n_batches;
        int slots = per_micro ? ahead + 1 : ahead / o->micro_batches + 2;
        edge->slots = slots < sent ? slots : (int)sent;
    }
}

ft_status blueprint_index_edges(ft_blueprint *b, ft_error *err)
{
    for (int s = 0; s < b->cut.n_stages; s++)
        for (int k = 0; k < FT_ACT_COUNT; k++) {
            ft_stage_layout *stage = &b->stages[s];
            stage->in_edges[k] = ft_arena_array(b->arena, b->n_edges + 1, sizeof(int));
            stage->out_edges[k] = ft_arena_array(b->arena, b->n_edges + 1, sizeof(int));
            stage->n_in_edges[k] = stage->n_out_edges[k] = 0;
            if (!stage->in_edges[k] || !stage->out_edges[k]) return no_memory(err);
        }
    for (int e = 0; e < b->n_edges; e++) {
        const ft_edge *edge = &b->edges[e];
        ft_stage_layout *from = &b->stages[edge->from], *to = &b->stages[edge->to];
        from->out_edges[edge->from_kind][from->n_out_edges[edge->from_kind]++] = e;
        to->in_edges[edge->to_kind][to->n_in_edges[edge->to_kind]++] = e;
    }
    return FT_OK;
}

ft_status blueprint_find_edges(ft_blueprint *b, ft_error *err)
{
    int64_t stages = b->cut.n_stages, most = stages * stages * 5 + 1; /* kinds of edges */
    b->edges = ft_arena_array(b->arena, most, sizeof *b->edges);
    b->cargoes = ft_arena_array(b->arena, most, sizeof *b->cargoes);
    if (!b->edges || !b->cargoes) return no_memory(err);
    FT_TRY(add_value_edges(b, err));
    if (!b->cut.forward_only) FT_TRY(add_tie_edges(b, err));
    FT_TRY(add_norm_edges(b, err));
    for (int e = 0; e < b->n_edges; e++) FT_TRY(size_edge(b, e, err));
    return FT_OK;
}

ft_status blueprint_choose_slots(ft_blueprint *b, ft_error *err)
{
    int *depth = ft_arena_array(b->arena, b->cut.n_stages + 1, sizeof(int));
    if (!depth) return no_memory(err);
    find_depths(b, depth);
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

static ft_status report_missing(const ft_blueprint *b, int e, ft_error *err)
{
    const ft_edge *edge = &b->edges[e];
    char from = ft_action_letter(edge->from_kind), to = ft_action_letter(edge->to_kind);
    return ft_fail(err, FT_INVALID,
                   "the plan has no edge %c%d>%c%d, but with these stages '%s' has to pass there: "
                   "add 'edge %c%d>%c%d bytes 0 slots 2', or cut elsewhere",
                   from, edge->from, to, edge->to, describe_cargo(b, &b->cargoes[e]), from,
                   edge->from, to, edge->to);
}

/* The places of each edge: its slots, and those that S and V of the plan need at its ends. */
static ft_status find_rows(ft_blueprint *b, ft_error *err)
{
    int *sent = ft_arena_array(b->arena, b->n_edges + 1, sizeof *sent);
    int *received = ft_arena_array(b->arena, b->n_edges + 1, sizeof *received);
    if (!sent || !received) return no_memory(err);
    FT_TRY(ft_plan_holds(&b->plan, sent, received, err));
    for (int e = 0; e < b->n_edges; e++) {
        ft_row *rows = b->cargoes[e].rows;
        int from = b->stages[b->edges[e].from].device, to = b->stages[b->edges[e].to].device;
        rows[FT_ROW_MADE] = (ft_row){.n = sent[e], .device = from};
        rows[FT_ROW_EDGE] = (ft_row){.n = b->edges[e].slots, .device = to};
        rows[FT_ROW_USED] = (ft_row){.n = received[e], .device = to};
    }
    return FT_OK;
}

ft_status blueprint_take_plan(ft_blueprint *b, const ft_plan *plan, ft_error *err)
{
    int n_found = b->n_edges, n = plan->n_edges;
    ft_edge *found = b->edges;
    ft_edge *edges = blueprint_copy(b->arena, plan->edges, n, sizeof *edges);
    ft_cargo *cargoes = ft_arena_array(b->arena, n + 1, sizeof *cargoes);
    int64_t *nothing = ft_arena_array(b->arena, b->cut.n_graphs, sizeof *nothing);
    if (!edges || !cargoes || !nothing) return no_memory(err);
    for (int e = 0; e < n; e++) {
        cargoes[e].kind = FT_CARGO_NOTHING; /* what is not found here is order alone */
        cargoes[e].bytes = nothing;
        edges[e].bytes = 0;
    }
    for (int f = 0; f < n_found; f++) {
        int e = 0;
        while (e < n && !same_ends(&edges[e], &found[f])) e++;
        if (e == n) return report_missing(b, f, err);
        cargoes[e] = b->cargoes[f];
        edges[e].bytes = found[f].bytes;
    }
    b->n_edges = n;
    b->edges = edges;
    b->cargoes = cargoes;
    b->plan = *plan;
    b->plan.edges = edges;
    b->plan.arena = NULL; /* the rest is the other's */
    FT_TRY(blueprint_index_edges(b, err));
    return find_rows(b, err);
}

/* -- rows -------------------------------------------------------------------------------------- */

/* Of an edge with an S or V, the places at its ends. */
bool ft_blueprint_takes(const ft_blueprint *b, const ft_action *a, int i, ft_row_end *out)
{
    const ft_stage_layout *stage = &b->stages[a->stage];
    bool copies = a->kind == FT_ACT_SEND || a->kind == FT_ACT_RECEIVE;
    if (i >= (copies ? 1 : stage->n_in_edges[a->kind])) return false;
    int e = copies ? a->item : stage->in_edges[a->kind][i];
    ft_row_kind last = b->cargoes[e].rows[FT_ROW_USED].n ? FT_ROW_USED : FT_ROW_EDGE;
    *out = (ft_row_end){e, a->kind == FT_ACT_SEND      ? FT_ROW_MADE
                           : a->kind == FT_ACT_RECEIVE ? FT_ROW_EDGE
                                                       : last};
    return true;
}

bool ft_blueprint_fills(const ft_blueprint *b, const ft_action *a, int i, ft_row_end *out)
{
    const ft_stage_layout *stage = &b->stages[a->stage];
    bool copies = a->kind == FT_ACT_SEND || a->kind == FT_ACT_RECEIVE;
    if (i >= (copies ? 1 : stage->n_out_edges[a->kind])) return false;
    int e = copies ? a->item : stage->out_edges[a->kind][i];
    ft_row_kind first = b->cargoes[e].rows[FT_ROW_MADE].n ? FT_ROW_MADE : FT_ROW_EDGE;
    *out = (ft_row_end){e, a->kind == FT_ACT_SEND      ? FT_ROW_EDGE
                           : a->kind == FT_ACT_RECEIVE ? FT_ROW_USED
                                                       : first};
    return true;
}
