/* plan/ends.c - edges of a list, found by the actions that they join. */
#include "plan/ends.h"

enum { MOST_BUCKETS = 1 << 20 };

ft_status ft_ends_open(ft_ends *out, ft_arena *arena, int n_ends, int n_edges, ft_error *err)
{
    int64_t pairs = (int64_t)n_ends * n_ends;
    out->n_ends = n_ends;
    out->n_buckets = pairs < MOST_BUCKETS ? (int)pairs : MOST_BUCKETS;
    out->newest = ft_arena_array(arena, out->n_buckets, sizeof(int));
    out->before = ft_arena_array(arena, n_edges + 1, sizeof(int));
    if (!out->newest || !out->before)
        return ft_fail(err, FT_NOMEM, "plan: no memory for %d edges", n_edges);
    for (int i = 0; i < out->n_buckets; i++) out->newest[i] = -1;
    return FT_OK;
}

static int *newest_of(const ft_ends *ends, const ft_edge *edge)
{
    return &ends->newest[((int64_t)edge->from * ends->n_ends + edge->to) % ends->n_buckets];
}

void ft_ends_note(ft_ends *ends, const ft_edge *edges, int e)
{
    int *newest = newest_of(ends, &edges[e]);
    ends->before[e] = *newest;
    *newest = e;
}

static bool same_ends(const ft_edge *a, const ft_edge *b)
{
    return a->from == b->from && a->to == b->to && a->from_kind == b->from_kind &&
           a->to_kind == b->to_kind;
}

int ft_ends_find(const ft_ends *ends, const ft_edge *edges, const ft_edge *wanted)
{
    int e = *newest_of(ends, wanted);
    while (e >= 0 && !same_ends(&edges[e], wanted)) e = ends->before[e];
    return e;
}
