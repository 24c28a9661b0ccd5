/* schedule/costs.c - times in whole nanoseconds.
 *
 * Sums of whole numbers do not depend on their order, so equal moments are equal, and a pipeline
 * that repeats itself does so exactly. */
#include "schedule/internal.h"

#include <math.h>

ft_status cost_round(int64_t *out, double ns, const char *what, int index, ft_error *err)
{
    if (!(ns >= 0 && ns <= 1e12)) /* about 17 minutes: sums of a leg stay far below 2^63 */
        return ft_fail(err, FT_INVALID, "cost: %s %d takes %g ns, expected 0 to 1e12", what, index,
                       ns);
    *out = llround(ns);
    return FT_OK;
}

ft_status costs_round(int64_t **out, ft_arena *arena, int n_stages, const ft_stage_costs *costs,
                      ft_error *err)
{
    int64_t *whole = ft_arena_array(arena, n_stages, FT_ACT_COUNT * (int64_t)sizeof(int64_t));
    if (!whole) return ft_fail(err, FT_NOMEM, "cost: no memory for %d stages", n_stages);
    const double *const columns[FT_ACT_COUNT] = {
        [FT_ACT_FORWARD] = costs ? costs->forward_ns : NULL,
        [FT_ACT_BACKWARD] = costs ? costs->backward_ns : NULL,
        [FT_ACT_REDUCE] = costs ? costs->reduce_ns : NULL,
        [FT_ACT_UPDATE] = costs ? costs->update_ns : NULL,
        [FT_ACT_ADOPT] = costs ? costs->adopt_ns : NULL,
    };
    static const char *const whats[FT_ACT_COUNT] = {"forward of stage", "backward of stage",
                                                    "reduce of stage", "update of stage",
                                                    "adopt of stage"};
    for (int s = 0; s < n_stages; s++)
        for (int k = 0; k < FT_ACT_COUNT; k++) {
            if (!costs)
                whole[spot_of(s, k)] = ft_action_per_micro(k);
            else if (columns[k])
                FT_TRY(cost_round(&whole[spot_of(s, k)], columns[k][s], whats[k], s, err));
        }
    *out = whole;
    return FT_OK;
}
