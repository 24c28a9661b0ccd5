/* engine/wait.c - waiting on edges.
 *
 * An edge has two counters: how often it was filled and how often a slot was freed. Action number i
 * reads it when filled > i and writes it when i - freed < slots; a joint forward reads those of all
 * its micro-batches. The plan was proven to complete
 * with these rules, so a wait that never ends is a fault of the program, not of the plan. */
#include "engine/internal.h"

bool nth_need(const ft_run *run, const ft_action *a, int i, need *out)
{
    const ft_blueprint *b = run->blueprint;
    ft_row_end at;
    if (i == 0) {
        ft_gate *gate = (ft_gate *)(uintptr_t)&run->fed_gate;
        *out = (need){gate, (uint32_t)a->batch + 1, FT_WAIT_BATCH, {-1, 0}};
        return true;
    }
    i--;
    ft_action part = *a;
    for (int n = ft_blueprint_joint(b, a); n > 0; n--, part.micro++)
        for (int k = 0; ft_blueprint_takes(b, &part, k, &at); k++) {
            if (i-- > 0) continue;
            uint32_t index = (uint32_t)ft_blueprint_slot_index(b, at.edge, &part);
            *out = (need){&run->edges[at.edge].rows[at.row].filled, index + 1, FT_WAIT_DATA, at};
            return true;
        }
    if (!ft_blueprint_fills(b, a, i, &at)) return false;
    row_state *row = slots_row(run, at);
    uint32_t index = (uint32_t)ft_blueprint_slot_index(b, at.edge, a);
    *out = (need){&row->freed, index + 1 - (uint32_t)row->slots.n, FT_WAIT_SLOT, at};
    return true;
}

bool is_met(const need *n)
{
    return (int32_t)(ft_gate_count(n->gate) - n->target) >= 0;
}

bool action_is_ready(const worker *w, const ft_action *a)
{
    need next;
    for (int i = 0; nth_need(w->run, a, i, &next); i++)
        if (!is_met(&next)) return false;
    return true;
}

static ft_status fail_stopped(ft_error *err)
{
    return ft_fail(err, FT_CANCELLED, "the run was stopped");
}

static ft_status wait_for_need(worker *w, const need *n, ft_error *err)
{
    w->wait = (uint8_t)n->what;
    w->wait_edge = n->what == FT_WAIT_BATCH ? -1 : edge_of_plan(w->run, n->at.edge);
    bool met = w->run->world ? ft_world_wait(w->run->world, n->gate, n->target, &w->run->stop, -1)
                             : ft_gate_wait(n->gate, n->target, &w->run->stop, -1);
    return met ? FT_OK : fail_stopped(err);
}

ft_status wait_for_action(worker *w, const ft_action *a, ft_error *err)
{
    need next;
    if (w->run->world) ft_world_progress(w->run->world); /* what came while it computed */
    for (int i = 0; nth_need(w->run, a, i, &next); i++) {
        if (!is_met(&next)) FT_TRY(wait_for_need(w, &next, err));
        /* A drain may have opened the gate of batches, for nothing, at any time until now. */
        if (next.what == FT_WAIT_BATCH && action_is_left_out(w->run, a)) return FT_OK;
    }
    /* What is ready is not begun behind another device's failure. */
    return atomic_load(&w->run->stop) ? fail_stopped(err) : FT_OK;
}
