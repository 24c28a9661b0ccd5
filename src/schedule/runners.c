/* schedule/runners.c - who goes through the lists of a plan.
 *
 * A device that follows its list is one runner; one that chooses by policy has a runner for each of
 * its stages, which sees the stage's own actions alone. */
#include "schedule/internal.h"

static void settle(runner *r)
{
    while (r->stage >= 0 && r->cursor.more && r->cursor.now.stage != r->stage)
        cursor_step(&r->cursor);
}

void runner_step(runner *r)
{
    cursor_step(&r->cursor);
    settle(r);
}

static bool is_on(const ft_plan *p, int stage, int device)
{
    for (int i = p->replica_first[stage]; i < p->replica_first[stage + 1]; i++)
        if (p->replica_device[i] == device) return true;
    return false;
}

static void add(runners *all, const ft_plan *plan, int device, int stage)
{
    runner *r = &all->list[all->n++];
    *r = (runner){.device = device, .stage = stage};
    cursor_begin(&r->cursor, plan, device);
    settle(r);
}

ft_status runners_new(runners *out, ft_arena *arena, const ft_plan *plan, ft_error *err)
{
    int n_seats = plan->replica_first[plan->n_stages];
    int *first = ft_arena_array(arena, plan->n_devices + 1, sizeof *first);
    *out = (runners){.first = first};
    out->list = ft_arena_array(arena, (int64_t)plan->n_devices + n_seats, sizeof *out->list);
    if (!first || !out->list)
        return ft_fail(err, FT_NOMEM, "plan: no memory for %d devices", plan->n_devices);
    for (int d = 0; d < plan->n_devices; d++) {
        first[d] = out->n;
        if (!plan->by_policy[d]) add(out, plan, d, -1);
        for (int s = 0; plan->by_policy[d] && s < plan->n_stages; s++)
            if (is_on(plan, s, d)) add(out, plan, d, s);
    }
    first[plan->n_devices] = out->n;
    return FT_OK;
}

meeting meeting_of(const ft_plan *plan, const seating *shares, int device, const ft_action *a)
{
    meeting m = {.stage = a->stage, .kind = a->kind, .item = a->item};
    m.index = ft_action_index(plan, a);
    if (shares->of[a->stage].n > 1) m.replica = shares_find(shares, a->stage, device);
    return m;
}
