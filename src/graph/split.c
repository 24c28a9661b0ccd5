/* graph/split.c - a graph cut into stages.
 *
 * A backward node runs in the stage of its origin. Whatever a node needs that another stage makes
 * is a transfer, once per value and stage: a value of forward travels with forward, also when only
 * backward needs it there. What backward needs of forward is saved; with recomputation it is made
 * again from what the stage received. */
#include "graph/internal.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"

/* Everything is written into the arena; the scratch arrays are freed at the end. */
typedef struct splitter {
    ft_graph *g;
    const int *stage_of;
    int n_stages;
    int *node_stage;
    ft_stage *stages;
    ft_transfer *transfers;
    int n_transfers, max_transfers;
    int *mark;  /* scratch, by value: the stage that marked it last */
    int *order; /* scratch, by node: nodes by stage, ascending in each */
    int *first; /* scratch, by stage and one more: where its nodes begin in `order` */
    ft_error *err;
} splitter;

static ft_status no_memory(const splitter *s)
{
    return ft_fail(s->err, FT_NOMEM, "no memory for a split of %d nodes", s->g->n_nodes);
}

/* -- stages of nodes ------------------------------------------------------------------------ */

static ft_status place_nodes(splitter *s)
{
    const ft_graph *g = s->g;
    for (int n = 0; n < g->n_nodes; n++) {
        const ft_node *node = &g->nodes[n];
        char text[256];
        int stage = s->stage_of[node->origin];
        if (stage < 0 || stage >= s->n_stages)
            return ft_fail(s->err, FT_INVALID, "%s is in stage %d, expected 0 to %d",
                           ft_graph_node_text(node, text, sizeof text), stage, s->n_stages - 1);
        s->node_stage[n] = stage;
        s->first[stage + 1]++;
        if (node->phase == FT_FORWARD) s->stages[stage].n_forward++;
    }
    for (int i = 0; i < s->n_stages; i++) {
        if (s->stages[i].n_forward == 0)
            return ft_fail(s->err, FT_INVALID, "stage %d of %d has no forward node", i,
                           s->n_stages);
        s->first[i + 1] += s->first[i];
    }
    for (int n = 0; n < g->n_nodes; n++) s->order[s->first[s->node_stage[n]]++] = n;
    for (int i = s->n_stages; i > 0; i--) s->first[i] = s->first[i - 1];
    s->first[0] = 0;
    return FT_OK;
}

/* -- transfers ------------------------------------------------------------------------------ */

static int compare_transfers(const void *a, const void *b)
{
    const ft_transfer *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    if (x->to != y->to) return x->to < y->to ? -1 : 1;
    if (x->phase != y->phase) return x->phase < y->phase ? -1 : 1;
    return (x->value > y->value) - (x->value < y->value);
}

static void clear_marks(const splitter *s)
{
    for (int v = 0; v < s->g->n_values; v++) s->mark[v] = -1;
}

static ft_status find_transfers(splitter *s)
{
    const ft_graph *g = s->g;
    clear_marks(s);
    for (int k = 0; k < g->n_nodes; k++) {
        const ft_node *node = &g->nodes[s->order[k]];
        int stage = s->node_stage[s->order[k]];
        for (int i = 0; i < node->n_in; i++) {
            ft_value_id v = node->in[i];
            if (v == FT_NO_VALUE || g->values[v].kind != FT_VALUE_NODE) continue;
            int maker = g->values[v].source;
            if (s->node_stage[maker] == stage || s->mark[v] == stage) continue;
            s->mark[v] = stage;
            FT_TRY(ft_graph_grow(&s->transfers, &s->max_transfers, s->n_transfers,
                                 sizeof *s->transfers, s->err));
            s->transfers[s->n_transfers++] =
                (ft_transfer){v, g->nodes[maker].phase, s->node_stage[maker], stage};
        }
    }
    if (s->n_transfers)
        qsort(s->transfers, (size_t)s->n_transfers, sizeof *s->transfers, compare_transfers);
    return FT_OK;
}

/* -- cycles --------------------------------------------------------------------------------- */

/* Depth-first search over the stages. */
typedef struct search {
    const splitter *s;
    ft_phase phase;
    int *begin; /* by stage and one more: its transfers */
    int *next;  /* by stage: the transfer to look at */
    int *path;  /* stages from the root */
    char *state;
} search;

enum { UNSEEN, ON_PATH, DONE };

static ft_status refuse_cycle(const search *d, int length, int stage)
{
    char text[400];
    int i = 0, used = 0;
    while (d->path[i] != stage) i++;
    const ft_transfer *t = &d->s->transfers[d->next[d->path[length - 1]] - 1];
    for (; i < length && used < 300; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%d -> ", d->path[i]);
    const ft_node *maker = &d->s->g->nodes[d->s->g->values[t->value].source];
    char node[256];
    return ft_fail(
        d->s->err, FT_INVALID,
        "stages %s%s%d wait for each other in %s (stage %d needs %%%d from stage %d, %s)", text,
        i < length ? "... -> " : "", stage, d->phase == FT_FORWARD ? "forward" : "backward", t->to,
        t->value, t->from, ft_graph_node_text(maker, node, sizeof node));
}

static ft_status search_from(search *d, int root)
{
    int length = 1;
    d->path[0] = root;
    d->state[root] = ON_PATH;
    while (length) {
        int stage = d->path[length - 1];
        if (d->next[stage] == d->begin[stage + 1]) {
            d->state[stage] = DONE;
            length--;
            continue;
        }
        const ft_transfer *t = &d->s->transfers[d->next[stage]++];
        if (t->phase != d->phase || d->state[t->to] == DONE) continue;
        if (d->state[t->to] == ON_PATH) return refuse_cycle(d, length, t->to);
        d->state[t->to] = ON_PATH;
        d->path[length++] = t->to;
    }
    return FT_OK;
}

static ft_status check_cycles(const splitter *s, ft_phase phase)
{
    int n = s->n_stages;
    int *numbers = ft_alloc((3 * n + 1) * (int64_t)sizeof *numbers);
    char *state = ft_alloc(n);
    ft_status status = FT_OK;
    if (numbers && state) {
        search d = {s, phase, numbers, numbers + n + 1, numbers + 2 * n + 1, state};
        for (int i = 0; i < s->n_transfers; i++) d.begin[s->transfers[i].from + 1]++;
        for (int i = 0; i < n; i++) {
            d.begin[i + 1] += d.begin[i];
            d.next[i] = d.begin[i];
        }
        for (int i = 0; i < n && status == FT_OK; i++)
            if (state[i] == UNSEEN) status = search_from(&d, i);
    } else
        status = no_memory(s);
    ft_free(numbers);
    ft_free(state);
    return status;
}

/* -- one stage ------------------------------------------------------------------------------ */

static int compare_ints(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* Marks the value as wanted by the stage's backward, and saves it unless it can be made again. */
static void want(splitter *s, int stage, ft_value_id v, ft_value_id *saved)
{
    const ft_graph *g = s->g;
    ft_stage *out = &s->stages[stage];
    if (v == FT_NO_VALUE || s->mark[v] == stage || !ft_graph_made_in(g, v, FT_FORWARD)) return;
    s->mark[v] = stage;
    bool again = out->recompute && s->node_stage[g->values[v].source] == stage;
    if (!again) saved[out->n_saved++] = v;
}

static bool output_marked(const splitter *s, const ft_node *node, int stage)
{
    for (int k = 0; k < node->op->n_out; k++)
        if (s->mark[node->out + k] == stage) return true;
    return false;
}

/* Fills forward, backward and saved of a stage. */
static ft_status fill_programs(splitter *s, int stage)
{
    const ft_graph *g = s->g;
    ft_stage *out = &s->stages[stage];
    const int *nodes = s->order + s->first[stage];
    int n_nodes = s->first[stage + 1] - s->first[stage], n_own = n_nodes - out->n_forward;
    int n_saved = 0;
    for (int i = out->n_forward; i < n_nodes; i++) n_saved += g->nodes[nodes[i]].n_in;
    for (int i = 0; i < out->n_forward && out->recompute; i++) n_saved += g->nodes[nodes[i]].n_in;
    int *forward = ft_arena_array(g->arena, out->n_forward, sizeof *forward);
    int *backward = ft_arena_array(g->arena, n_nodes, sizeof *backward);
    ft_value_id *saved = ft_arena_array(g->arena, n_saved, sizeof *saved);
    if (!forward || !backward || !saved) return no_memory(s);

    for (int i = 0; i < out->n_forward; i++) forward[i] = nodes[i];
    for (int i = out->n_forward; i < n_nodes; i++)
        for (int k = 0; k < g->nodes[nodes[i]].n_in; k++)
            want(s, stage, g->nodes[nodes[i]].in[k], saved);
    int again = out->n_forward; /* recomputed nodes fill `backward` from the middle downwards */
    for (int i = out->n_forward - 1; i >= 0 && out->recompute; i--) {
        const ft_node *node = &g->nodes[nodes[i]];
        if (!output_marked(s, node, stage)) continue;
        backward[--again] = nodes[i];
        for (int k = 0; k < node->n_in; k++) want(s, stage, node->in[k], saved);
    }
    out->n_recompute = out->n_forward - again;
    out->n_backward = out->n_recompute + n_own;
    for (int i = 0; i < n_own; i++) backward[out->n_forward + i] = nodes[out->n_forward + i];
    if (out->n_saved) qsort(saved, (size_t)out->n_saved, sizeof *saved, compare_ints);
    out->forward = forward;
    out->backward = backward + again;
    out->saved = saved;
    return FT_OK;
}

/* Parameters that the stage's nodes use. */
static ft_status fill_params(splitter *s, int stage)
{
    const ft_graph *g = s->g;
    ft_stage *out = &s->stages[stage];
    int *params = ft_arena_array(g->arena, g->n_params, sizeof *params);
    if (!params) return no_memory(s);
    for (int i = s->first[stage]; i < s->first[stage + 1]; i++) {
        const ft_node *node = &g->nodes[s->order[i]];
        for (int k = 0; k < node->n_in; k++) {
            ft_value_id v = node->in[k];
            if (v == FT_NO_VALUE || g->values[v].kind != FT_VALUE_PARAM) continue;
            if (s->mark[v] == stage) continue;
            s->mark[v] = stage;
            params[out->n_params++] = g->values[v].source;
        }
    }
    if (out->n_params) qsort(params, (size_t)out->n_params, sizeof *params, compare_ints);
    out->params = params;
    return FT_OK;
}

static ft_status fill_grads(splitter *s, int stage)
{
    const ft_graph *g = s->g;
    ft_stage *out = &s->stages[stage];
    for (int i = 0; i < g->n_grads; i++)
        if (s->node_stage[g->grads[i].node] == stage) out->n_grads++;
    int *grads = ft_arena_array(g->arena, out->n_grads, sizeof *grads);
    if (!grads) return no_memory(s);
    for (int i = 0, k = 0; i < g->n_grads; i++)
        if (s->node_stage[g->grads[i].node] == stage) grads[k++] = i;
    out->grads = grads;
    return FT_OK;
}

/* -- the pass ------------------------------------------------------------------------------- */

static ft_status allocate(splitter *s, const bool *recompute)
{
    ft_graph *g = s->g;
    s->node_stage = ft_arena_array(g->arena, g->n_nodes, sizeof *s->node_stage);
    s->stages = ft_arena_array(g->arena, s->n_stages, sizeof *s->stages);
    s->mark = ft_alloc(g->n_values * (int64_t)sizeof *s->mark);
    s->order = ft_alloc(g->n_nodes * (int64_t)sizeof *s->order);
    s->first = ft_alloc((s->n_stages + 1) * (int64_t)sizeof *s->first);
    if (!s->node_stage || !s->stages || !s->mark || !s->order || !s->first) return no_memory(s);
    for (int i = 0; i < s->n_stages; i++) s->stages[i].recompute = recompute && recompute[i];
    return FT_OK;
}

static ft_status split(splitter *s, const bool *recompute, ft_split *out)
{
    FT_TRY(allocate(s, recompute));
    FT_TRY(place_nodes(s));
    FT_TRY(find_transfers(s));
    FT_TRY(check_cycles(s, FT_FORWARD));
    FT_TRY(check_cycles(s, FT_BACKWARD));
    clear_marks(s);
    for (int i = 0; i < s->n_stages; i++) {
        FT_TRY(fill_programs(s, i));
        FT_TRY(fill_params(s, i));
        FT_TRY(fill_grads(s, i));
    }
    ft_transfer *transfers = ft_arena_array(s->g->arena, s->n_transfers, sizeof *transfers);
    if (!transfers) return no_memory(s);
    for (int i = 0; i < s->n_transfers; i++) transfers[i] = s->transfers[i];
    *out =
        (ft_split){s->n_stages, s->g->n_nodes, s->node_stage, s->stages, transfers, s->n_transfers};
    return FT_OK;
}

/* Whether the graph was cut so the last time. */
static bool is_last(const ft_graph *g, const int *stage_of, const bool *recompute, int n_stages)
{
    const ft_split *last = g->last_split;
    if (!last || last->n_stages != n_stages || last->n_nodes != g->n_nodes) return false;
    for (int i = 0; i < n_stages; i++)
        if (last->stages[i].recompute != (recompute && recompute[i])) return false;
    for (int i = 0; i < ft_graph_n_forward(g); i++)
        if (last->node_stage[i] != stage_of[i]) return false;
    return true;
}

ft_status ft_graph_split(ft_graph *g, const int *stage_of, const bool *recompute, int n_stages,
                         const ft_split **out, ft_error *err)
{
    *out = NULL;
    if (n_stages < 1 || n_stages > ft_graph_n_forward(g))
        return ft_fail(err, FT_INVALID, "%d stages for %d forward nodes, expected 1 to %d",
                       n_stages, ft_graph_n_forward(g), ft_graph_n_forward(g));
    if (is_last(g, stage_of, recompute, n_stages)) {
        *out = g->last_split;
        return FT_OK;
    }
    ft_split *result = ft_arena_alloc(g->arena, sizeof *result);
    if (!result) return ft_fail(err, FT_NOMEM, "no memory for a split");
    splitter s = {.g = g, .stage_of = stage_of, .n_stages = n_stages, .err = err};
    ft_status status = split(&s, recompute, result);
    ft_free(s.mark);
    ft_free(s.order);
    ft_free(s.first);
    ft_free(s.transfers);
    if (status == FT_OK) *out = g->last_split = result;
    return status;
}
