/* schedule/simulate.c - when everything of a plan happens, given what it costs. */
#include "schedule/internal.h"

/* A leg's end stays far inside an int64_t: nothing is later than everything one after the other. */
static ft_status check_length(const walk *w, int64_t actions, ft_error *err)
{
    int64_t most = 0, transfer = 0;
    for (int s = 0; s < w->plan->n_stages * FT_ACT_COUNT; s++)
        if (w->cost_ns[s] > most) most = w->cost_ns[s];
    for (int e = 0; e < w->plan->n_edges; e++)
        if (w->wires->transfer_ns[e] > transfer) transfer = w->wires->transfer_ns[e];
    if (actions <= INT64_MAX / 2 / (most + transfer + 1)) return FT_OK;
    return ft_fail(err, FT_INVALID, "simulate: %lld actions of up to %lld ns are too long a leg",
                   (long long)actions, (long long)(most + transfer));
}

static ft_status simulate(ft_timeline *timeline, const ft_plan *plan, const ft_stage_costs *costs,
                          ft_arena *arena, ft_error *err)
{
    walk *w;
    int64_t *cost_ns, micros = (int64_t)plan->n_batches * plan->micro_batches;
    FT_TRY(walk_new(&w, arena, plan, err));
    FT_TRY(costs_round(&cost_ns, arena, plan->n_stages, costs, err));
    FT_TRY(wires_add_times(w->wires, arena, costs ? costs->transfer_ns : NULL, micros, err));
    w->cost_ns = cost_ns;
    w->events = timeline->events;
    FT_TRY(check_length(w, timeline->capacity, err));
    for (int d = 1; d < plan->n_devices; d++) w->at[d] = w->at[d - 1] + ft_plan_length(plan, d - 1);
    FT_TRY(walk_run(w, err));
    timeline->n_events = timeline->capacity;
    return FT_OK;
}

ft_status ft_plan_simulate(ft_timeline **out, const ft_plan *plan, const ft_stage_costs *costs,
                           ft_error *err)
{
    ft_timeline *timeline = NULL;
    ft_arena *arena = NULL;
    int64_t n = 0;
    *out = NULL;
    ft_status status = plan_check_lists(plan, err);
    if (status != FT_OK) return status;
    for (int d = 0; d < plan->n_devices; d++) n += ft_plan_length(plan, d);
    FT_GO(ft_timeline_new(&timeline, plan->n_devices, plan->n_stages, n, err));
    if (!(arena = ft_arena_new())) FT_GO(ft_fail(err, FT_NOMEM, "simulate: no memory"));
    FT_GO(simulate(timeline, plan, costs, arena, err));
    *out = timeline;
    timeline = NULL;
done:
    ft_timeline_free(timeline);
    ft_arena_free(arena);
    return status;
}
