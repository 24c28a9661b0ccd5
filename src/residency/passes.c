/* residency/passes.c - what tasks of a device leave each other, through host memory.
 *
 * Where all leaves with its task, so does what it makes for others: an S stands behind the action
 * that makes it, a V before the one that reads it, and the slots of the edge between them are no
 * device's. What passes within a task stays. */
#include "residency/internal.h"

/* Whether the actions at both ends are of one task. */
static bool is_within_task(const planner *p, const ft_edge *e)
{
    bool forward = e->from_kind == FT_ACT_FORWARD;
    const int *tasks = forward ? p->q->tasks.forward : p->q->tasks.backward;
    return tasks && tasks[e->from] == tasks[e->to];
}

static int *nowhere(planner *p, int n)
{
    int *list = ft_arena_array(p->arena, n + 1, sizeof *list);
    for (int i = 0; list && i < n; i++) list[i] = -1;
    return list;
}

/* S or V of the edge at the action that is its end; returns how many, which are only counted
 * without `to`. A joint forward reads what all its micro-batches read. */
static int write_one(const planner *p, const ft_action *a, int e, bool sends, ft_action *to)
{
    const ft_edge *edge = &p->plan->edges[e];
    int n = 1;
    if (a->kind != (int)(sends ? edge->from_kind : edge->to_kind)) return 0;
    if (!sends && a->kind == FT_ACT_FORWARD)
        n = ft_share_joint(&p->shares.of[a->stage], ft_action_index(p->plan, a));
    for (int i = 0; to && i < n; i++)
        to[i] = (ft_action){.kind = sends ? FT_ACT_SEND : FT_ACT_RECEIVE,
                            .stage = a->stage,
                            .item = (int16_t)e,
                            .batch = a->batch,
                            .micro = a->micro + i};
    return n;
}

int residency_write_passes(const planner *p, int64_t at, bool sends, ft_action *to)
{
    const ft_action *a = &p->list[at];
    int n = 0, e = (sends ? p->first_out : p->first_into)[a->stage];
    for (; e >= 0; e = (sends ? p->next_out : p->next_into)[e])
        n += write_one(p, a, e, sends, to ? to + n : NULL);
    return n;
}

ft_status residency_find_passes(planner *p, int64_t *n, ft_error *err)
{
    const ft_plan *plan = p->plan;
    p->first_into = nowhere(p, plan->n_stages);
    p->first_out = nowhere(p, plan->n_stages);
    p->next_into = nowhere(p, plan->n_edges);
    p->next_out = nowhere(p, plan->n_edges);
    if (!p->first_into || !p->first_out || !p->next_into || !p->next_out)
        return ft_fail(err, FT_NOMEM, "residency: no memory for %d edges", plan->n_edges);
    for (int e = plan->n_edges - 1; e >= 0 && p->scope == FT_SCOPE_GROUP; e--) {
        const ft_edge *edge = &plan->edges[e];
        if (p->seat[edge->from] < 0 || !ft_edge_stays(plan, edge) || is_within_task(p, edge))
            continue;
        p->next_into[e] = p->first_into[edge->to];
        p->first_into[edge->to] = e;
        p->next_out[e] = p->first_out[edge->from];
        p->first_out[edge->from] = e;
    }
    *n = 0;
    for (int64_t at = 0; at < p->n; at++)
        *n +=
            residency_write_passes(p, at, true, NULL) + residency_write_passes(p, at, false, NULL);
    return FT_OK;
}
