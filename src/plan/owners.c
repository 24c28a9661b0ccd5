/* plan/owners.c - whose weights stages take over, by edges of their plan. */
#include "plan/owners.h"

static bool is_tie(const ft_edge *e)
{
    return e->to_kind == FT_ACT_ADOPT;
}

/* Into a stage's list of n, which is in the order of stages. */
static void insert(int *list, int n, int stage)
{
    for (; n > 0 && list[n - 1] > stage; n--) list[n] = list[n - 1];
    list[n] = stage;
}

ft_status ft_owners_find(ft_owners *out, ft_arena *arena, const ft_plan *p, ft_error *err)
{
    int *n = ft_arena_array(arena, p->n_stages, sizeof *n);
    out->first = ft_arena_array(arena, p->n_stages + 1, sizeof *out->first);
    out->stages = ft_arena_array(arena, p->n_edges + 1, sizeof *out->stages);
    if (!n || !out->first || !out->stages)
        return ft_fail(err, FT_NOMEM, "plan: no memory for %d edges", p->n_edges);
    for (int e = 0; e < p->n_edges; e++) out->first[p->edges[e].to + 1] += is_tie(&p->edges[e]);
    for (int s = 0; s < p->n_stages; s++) out->first[s + 1] += out->first[s];
    for (int e = 0; e < p->n_edges; e++) {
        const ft_edge *edge = &p->edges[e];
        if (is_tie(edge)) insert(&out->stages[out->first[edge->to]], n[edge->to]++, edge->from);
    }
    return FT_OK;
}
