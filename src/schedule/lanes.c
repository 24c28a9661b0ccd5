/* schedule/lanes.c - several pipelines side by side.
 *
 * Where a schedule says itself on which device a stage is, replicas make lanes: lane r has replica
 * r of every stage, and goes through its share of the micro-batches as a pipeline without replicas
 * goes through all of them. Lanes meet where their gradients are summed. */
#include "schedule/internal.h"

ft_status leg_count_lanes(const leg *l, int *lanes, ft_error *err)
{
    const ft_stage_share *first = &l->shares.of[0];
    *lanes = first->n;
    for (int s = 1; s < l->pipeline->n_stages; s++)
        if (l->shares.of[s].n != first->n)
            return ft_fail(err, FT_INVALID,
                           "schedule %s: stage 0 has %d replicas and stage %d has %d, expected as "
                           "many of each: every device has a place in a pipeline of its own",
                           l->schedule->name, first->n, s, l->shares.of[s].n);
    if (l->pipeline->n_devices % first->n == 0) return FT_OK;
    return ft_fail(err, FT_INVALID, "schedule %s: %d replicas of each stage on %d devices",
                   l->schedule->name, first->n, l->pipeline->n_devices);
}

int leg_lane_device(const leg *l, int stage, int lane)
{
    return l->shares.seat_device[l->shares.of[stage].first + lane];
}

bool leg_exchanges(const leg *l, int stage)
{
    int spot = ft_spot_of(stage, FT_ACT_EXCHANGE);
    return l->wires->out_first[spot] < l->wires->out_first[spot + 1];
}

bool leg_adopts(const leg *l, int stage)
{
    int spot = ft_spot_of(stage, FT_ACT_ADOPT);
    return l->wires->in_first[spot] < l->wires->in_first[spot + 1];
}
