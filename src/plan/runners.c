/* plan/runners.c - who goes through the lists of a plan.
 *
 * A device that follows its list is one runner; one that chooses by policy has a runner for each of
 * its stages, which sees the stage's own actions alone. */
#include "plan/wires.h"

static void settle(ft_runner *r)
{
    while (r->stage >= 0 && r->cursor.more && r->cursor.now.stage != r->stage)
        ft_cursor_step(&r->cursor);
}

void ft_runner_step(ft_runner *r)
{
    ft_cursor_step(&r->cursor);
    settle(r);
}

static void add(ft_runners *all, const ft_plan *plan, int device, int stage)
{
    ft_runner *r = &all->list[all->n++];
    *r = (ft_runner){.device = device, .stage = stage};
    ft_cursor_begin(&r->cursor, plan, device);
    settle(r);
}

ft_status ft_runners_new(ft_runners *out, ft_arena *arena, const ft_plan *plan,
                         const ft_seating *shares, ft_error *err)
{
    int *first = ft_arena_array(arena, plan->n_devices + 1, sizeof *first);
    *out = (ft_runners){.first = first};
    out->list =
        ft_arena_array(arena, (int64_t)plan->n_devices + shares->n_seats, sizeof *out->list);
    if (!first || !out->list)
        return ft_fail(err, FT_NOMEM, "plan: no memory for %d devices", plan->n_devices);
    for (int d = 0; d < plan->n_devices; d++) {
        first[d] = out->n;
        if (!plan->by_policy[d]) add(out, plan, d, -1);
        for (int s = 0; plan->by_policy[d] && s < plan->n_stages; s++)
            if (ft_seat_of(shares, s, d) >= 0) add(out, plan, d, s);
    }
    first[plan->n_devices] = out->n;
    return FT_OK;
}

ft_meeting ft_meeting_of(const ft_plan *plan, const ft_seating *shares, int device,
                         const ft_action *a)
{
    ft_meeting m = {.stage = a->stage, .kind = a->kind, .item = a->item};
    m.index = ft_action_index(plan, a);
    const ft_stage_share *s = &shares->of[a->stage];
    if (s->n > 1) m.replica = ft_seat_of(shares, a->stage, device) - s->first;
    return m;
}

bool ft_policy_goes_before(const int *depth, const ft_action *a, const ft_action *b)
{
    bool a_forward = a->kind == FT_ACT_FORWARD, b_forward = b->kind == FT_ACT_FORWARD;
    if (a_forward != b_forward) return b_forward;
    if (depth[a->stage] != depth[b->stage]) return depth[a->stage] < depth[b->stage];
    if (a->batch != b->batch) return a->batch < b->batch;
    if (a->micro != b->micro) return a->micro < b->micro;
    return a->stage > b->stage;
}
