/* engine/wait.c - waiting on edges.
 *
 * An edge has two counters: how often it was filled and how often a slot was freed. Action number i
 * reads it when filled > i and writes it when i - freed < slots. The plan was proven to complete
 * with these rules, so a wait that never ends is a fault of the program, not of the plan. */
#include <stdio.h>

#include "engine/internal.h"

typedef struct wait {
    ft_gate *gate;
    uint32_t target;
    int edge; /* -1: the batch itself */
    bool out;
} wait;

static uint32_t action_number(const ft_run *run, const ft_action *a)
{
    return (uint32_t)ft_action_index(run->plan, a);
}

/* The i-th thing that the action waits for; false past the last. */
static bool nth_wait(const ft_run *run, const ft_action *a, int i, wait *out)
{
    uint32_t index = action_number(run, a);
    ft_row_end at;
    if (i == 0) {
        ft_gate *gate = (ft_gate *)(uintptr_t)&run->fed_gate;
        *out = (wait){gate, (uint32_t)a->batch + 1, -1, false};
        return true;
    }
    int taken = 0;
    for (i--; ft_blueprint_takes(run->blueprint, a, taken, &at); taken++) {
        if (taken < i) continue;
        *out = (wait){&run->edges[at.edge].rows[at.row].filled, index + 1, at.edge, false};
        return true;
    }
    if (!ft_blueprint_fills(run->blueprint, a, i - taken, &at)) return false;
    row_state *row = &run->edges[at.edge].rows[at.row];
    *out = (wait){&row->freed, index + 1 - (uint32_t)row->slots.n, at.edge, true};
    return true;
}

static bool is_over(const wait *w)
{
    return (int32_t)(ft_gate_count(w->gate) - w->target) >= 0;
}

bool action_is_ready(const worker *w, const ft_action *a)
{
    wait next;
    for (int i = 0; nth_wait(w->run, a, i, &next); i++)
        if (!is_over(&next)) return false;
    return true;
}

ft_status wait_for_action(const worker *w, const ft_action *a, ft_error *err)
{
    wait next;
    for (int i = 0; nth_wait(w->run, a, i, &next); i++) {
        if (!ft_gate_wait(next.gate, next.target, &w->run->stop, -1))
            return ft_fail(err, FT_CANCELLED, "the run was stopped");
        /* A gate of batches that a drain has opened is one for nothing. */
        if (action_is_left_out(w->run, a)) return FT_OK;
    }
    return FT_OK;
}

void describe_wait(const worker *w, const ft_action *a, char *text, int size)
{
    wait next;
    text[0] = '\0';
    for (int i = 0; nth_wait(w->run, a, i, &next); i++) {
        if (is_over(&next)) continue;
        if (next.edge < 0) {
            snprintf(text, (size_t)size, "batch %d to be fed", a->batch);
            return;
        }
        const ft_edge *edge = &w->run->blueprint->edges[next.edge];
        snprintf(text, (size_t)size, "%s of the edge from stage %d to stage %d",
                 next.out ? "a free slot" : "data", edge->from, edge->to);
        return;
    }
}
