/* plan/costs.c - times in whole nanoseconds.
 *
 * Sums of whole numbers do not depend on their order, so equal moments are equal, and a pipeline
 * that repeats itself does so exactly. */
#include "plan/wires.h"

#include <math.h>
#include <stdio.h>

ft_status ft_cost_round(int64_t *out, double ns, const char *what, int index, ft_error *err)
{
    if (!(ns >= 0 && ns <= 1e12)) /* about 17 minutes: sums of a leg stay far below 2^63 */
        return ft_fail(err, FT_INVALID, "cost: %s %d takes %g s, expected 0 to 1000", what, index,
                       ns / 1e9);
    *out = llround(ns);
    return FT_OK;
}

static bool computes_a_micro(ft_action_kind kind)
{
    return ft_action_per_micro(kind) && ft_action_stream(kind) == FT_STREAM_COMPUTE &&
           kind != FT_ACT_DROP && kind != FT_ACT_PREDICT && kind != FT_ACT_ATTENUATE &&
           kind != FT_ACT_MAKE;
}

ft_status ft_costs_round(int64_t **out, ft_arena *arena, int n_stages, const ft_stage_costs *costs,
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
        [FT_ACT_BACKWARD_INPUT] = costs ? costs->backward_input_ns : NULL,
        [FT_ACT_BACKWARD_WEIGHT] = costs ? costs->backward_weight_ns : NULL,
        [FT_ACT_RECOMPUTE] = costs ? costs->recompute_ns : NULL,
        [FT_ACT_PREDICT] = costs ? costs->predict_ns : NULL,
        [FT_ACT_ATTENUATE] = costs ? costs->attenuate_ns : NULL,
        [FT_ACT_EXCHANGE] = costs ? costs->exchange_ns : NULL,
        [FT_ACT_MAKE] = costs ? costs->make_ns : NULL,
    };
    for (int s = 0; s < n_stages; s++)
        for (int k = 0; k < FT_ACT_COUNT; k++) {
            char what[64];
            snprintf(what, sizeof what, "%s of stage", ft_action_word(k));
            if (!costs)
                whole[ft_spot_of(s, k)] = computes_a_micro(k);
            else if (columns[k])
                FT_TRY(ft_cost_round(&whole[ft_spot_of(s, k)], columns[k][s], what, s, err));
        }
    *out = whole;
    return FT_OK;
}
