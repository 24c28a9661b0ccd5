/* schedule/wires.c - edges as first-in first-out queues with a fixed number of slots.
 *
 * Item i of an edge is made by action i of one (stage, kind) and used by action i of another. So
 * two counts per edge say everything: item i is there when the maker has completed more than i
 * actions, and there is room for it when the user has completed more than i - slots. */
#include "schedule/internal.h"

#include <stdio.h>

static ft_status no_memory(int n_edges, ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "plan: no memory for %d edges", n_edges);
}

static int spot_at(const ft_edge *e, bool incoming)
{
    return incoming ? spot_of(e->to, e->to_kind) : spot_of(e->from, e->from_kind);
}

/* Edges sorted by the spot at one of their ends, with where each spot's begin. */
static bool group_edges(ft_arena *arena, int n_spots, int n_edges, const ft_edge *edges,
                        bool incoming, const int **first_out, const int **list_out)
{
    int *first = ft_arena_array(arena, n_spots + 1, sizeof(int));
    int *list = ft_arena_array(arena, n_edges, sizeof(int));
    if (!first || !list) return false;
    for (int e = 0; e < n_edges; e++) first[spot_at(&edges[e], incoming)]++;
    for (int s = 0, sum = 0; s <= n_spots; s++) {
        sum += first[s];
        first[s] = sum;
    }
    for (int e = n_edges - 1; e >= 0; e--) list[--first[spot_at(&edges[e], incoming)]] = e;
    *first_out = first;
    *list_out = list;
    return true;
}

ft_status wires_new(wires **out, ft_arena *arena, int n_stages, int n_edges, const ft_edge *edges,
                    ft_error *err)
{
    int n_spots = n_stages * FT_ACT_COUNT;
    wires *w = ft_arena_alloc(arena, sizeof *w);
    if (!w || !(w->done = ft_arena_array(arena, n_spots, sizeof(int64_t))) ||
        !group_edges(arena, n_spots, n_edges, edges, true, &w->in_first, &w->in) ||
        !group_edges(arena, n_spots, n_edges, edges, false, &w->out_first, &w->out))
        return no_memory(n_edges, err);
    w->n_edges = n_edges;
    w->edges = edges;
    *out = w;
    return FT_OK;
}

ft_status wires_add_times(wires *w, ft_arena *arena, const double *transfer_ns, int64_t micros,
                          ft_error *err)
{
    int64_t *transfer = ft_arena_array(arena, w->n_edges, sizeof(int64_t));
    w->ring_first = ft_arena_array(arena, w->n_edges + 1, sizeof(int64_t));
    if (!transfer || !w->ring_first) return no_memory(w->n_edges, err);
    for (int e = 0; e < w->n_edges; e++) {
        int64_t ring = w->edges[e].slots < micros ? w->edges[e].slots : micros;
        w->ring_first[e + 1] = w->ring_first[e] + ring;
        if (transfer_ns)
            FT_TRY(cost_round(&transfer[e], transfer_ns[e], "transfer of edge", e, err));
    }
    w->arrival_ns = ft_arena_array(arena, w->ring_first[w->n_edges], sizeof(int64_t));
    w->release_ns = ft_arena_array(arena, w->ring_first[w->n_edges], sizeof(int64_t));
    if (!w->arrival_ns || !w->release_ns) return no_memory(w->n_edges, err);
    w->transfer_ns = transfer;
    return FT_OK;
}

int wires_blocking(const wires *w, int spot, int64_t index, bool *full)
{
    *full = false;
    for (int i = w->in_first[spot]; i < w->in_first[spot + 1]; i++) {
        const ft_edge *e = &w->edges[w->in[i]];
        if (w->done[spot_of(e->from, e->from_kind)] <= index) return w->in[i];
    }
    *full = true;
    for (int i = w->out_first[spot]; i < w->out_first[spot + 1]; i++) {
        const ft_edge *e = &w->edges[w->out[i]];
        if (w->done[spot_of(e->to, e->to_kind)] <= index - e->slots) return w->out[i];
    }
    return -1;
}

static int64_t ring_place(const wires *w, int edge, int64_t index)
{
    int64_t ring = w->ring_first[edge + 1] - w->ring_first[edge];
    return w->ring_first[edge] + index % ring;
}

int64_t wires_start_ns(const wires *w, int spot, int64_t index)
{
    int64_t start = 0;
    for (int i = w->in_first[spot]; i < w->in_first[spot + 1]; i++) {
        int64_t at = w->arrival_ns[ring_place(w, w->in[i], index)];
        if (at > start) start = at;
    }
    for (int i = w->out_first[spot]; i < w->out_first[spot + 1]; i++) {
        /* zero until the ring has gone round once, and then the release of item index - slots */
        int64_t at = w->release_ns[ring_place(w, w->out[i], index)];
        if (at > start) start = at;
    }
    return start;
}

void wires_complete(wires *w, int spot, int64_t index, int64_t end_ns)
{
    w->done[spot]++;
    if (!w->transfer_ns) return;
    for (int i = w->in_first[spot]; i < w->in_first[spot + 1]; i++)
        w->release_ns[ring_place(w, w->in[i], index)] = end_ns;
    for (int i = w->out_first[spot]; i < w->out_first[spot + 1]; i++) {
        int e = w->out[i];
        w->arrival_ns[ring_place(w, e, index)] = end_ns + w->transfer_ns[e];
    }
}

void wires_explain(const wires *w, const ft_action *action, int64_t index, char *text, int size)
{
    bool full;
    char name[ACTION_TEXT];
    int edge = wires_blocking(w, spot_of(action->stage, action->kind), index, &full);
    action_text(name, action);
    if (edge < 0) {
        snprintf(text, (size_t)size, "%s could start", name);
        return;
    }
    const ft_edge *e = &w->edges[edge];
    char from = ft_action_letter(e->from_kind), to = ft_action_letter(e->to_kind);
    if (full)
        snprintf(text, (size_t)size, "%s waits for a free slot of edge %d, %c%d>%c%d (%d slot%s)",
                 name, edge, from, e->from, to, e->to, e->slots, e->slots == 1 ? "" : "s");
    else
        snprintf(text, (size_t)size, "%s waits for edge %d, %c%d>%c%d, to be filled", name, edge,
                 from, e->from, to, e->to);
}
