/* plan/turns.c - edges that share a place. */
#include "plan/wires.h"

/* Why an edge cannot be after another one; NULL: it can. */
static const char *find_fault(const ft_edge *e, const ft_edge *before)
{
    bool alike = e->from_kind == before->from_kind && e->to_kind == before->to_kind;
    if (!alike || ft_action_per_micro(e->from_kind))
        return "expected one between the same actions per batch, both X to R or U to W";
    return e->slots == 1 && before->slots == 1 ? NULL : "expected 1 slot of both";
}

static ft_status link_edge(ft_turns *t, int e, int n_edges, const ft_edge *edges, ft_error *err)
{
    int before = edges[e].after - 1;
    const char *fault = before < 0 || before >= n_edges ? "expected one that there is"
                        : t->next[before] >= 0          ? "expected one that no other is after"
                                                        : find_fault(&edges[e], &edges[before]);
    if (fault)
        return ft_fail(err, FT_INVALID, "plan: edge %d is after edge %d: %s", e, before, fault);
    t->next[before] = e;
    return FT_OK;
}

ft_status ft_turns_link(ft_turns *out, ft_arena *arena, int n_edges, const ft_edge *edges,
                        ft_error *err)
{
    int some = 0, *lists;
    *out = (ft_turns){0};
    while (some < n_edges && !edges[some].after) some++;
    if (some == n_edges) return FT_OK;
    if (!(lists = ft_arena_array(arena, n_edges, 3 * sizeof *lists)))
        return ft_fail(err, FT_NOMEM, "plan: no memory for %d edges", n_edges);
    *out = (ft_turns){lists, lists + n_edges, lists + 2 * (int64_t)n_edges};
    for (int e = 0; e < n_edges; e++) out->first[e] = out->next[e] = -1;
    for (int e = 0; e < n_edges; e++)
        if (edges[e].after) FT_TRY(link_edge(out, e, n_edges, edges, err));
    for (int e = 0; e < n_edges; e++)
        for (int k = edges[e].after ? -1 : e; k >= 0; k = out->next[k]) {
            out->first[k] = e;
            out->last[e] = k;
        }
    for (int e = 0; e < n_edges; e++)
        if (out->first[e] < 0)
            return ft_fail(err, FT_INVALID, "plan: edge %d is after itself, in a circle", e);
    return FT_OK;
}

ft_status ft_turns_check(const ft_plan *p, const ft_seating *shares, ft_arena *arena, ft_error *err)
{
    ft_turns turns;
    FT_TRY(ft_turns_link(&turns, arena, p->n_edges, p->edges, err));
    for (int e = 0; e < p->n_edges; e++) {
        const ft_edge *edge = &p->edges[e];
        if (!edge->after) continue;
        const ft_edge *before = &p->edges[edge->after - 1];
        if (ft_seats_together(shares, edge->from, before->from) &&
            ft_seats_together(shares, edge->to, before->to))
            continue;
        ft_fail(err, FT_INVALID, "plan: edge %d is after edge %d, which joins other devices", e,
                edge->after - 1);
        return ft_plan_at_line(p->edge_line ? p->edge_line[e] : 0, err);
    }
    return FT_OK;
}
