/* schedule/walk.c - executes the strict lists of a plan.
 *
 * Since every device has one list and every edge one maker and one user, what happens does not
 * depend on who is looked at first; when an action starts is the latest of its device being free,
 * its data being there and its slots being free. So one pass without a clock gives both the proof
 * that a plan completes and its exact times. */
#include "schedule/internal.h"

#include <stdio.h>

ft_status walk_new(walk **out, ft_arena *arena, const ft_plan *plan, ft_error *err)
{
    walk *w = ft_arena_alloc(arena, sizeof *w);
    if (!w || !(w->cursors = ft_arena_array(arena, plan->n_devices, sizeof *w->cursors)) ||
        !(w->free_ns = ft_arena_array(arena, plan->n_devices, sizeof *w->free_ns)) ||
        !(w->at = ft_arena_array(arena, plan->n_devices, sizeof *w->at)) ||
        !(w->queue = ft_arena_array(arena, plan->n_devices, sizeof *w->queue)) ||
        !(w->queued = ft_arena_array(arena, plan->n_devices, sizeof *w->queued)))
        return ft_fail(err, FT_NOMEM, "plan: no memory for %d devices", plan->n_devices);
    FT_TRY(wires_new(&w->wires, arena, plan->n_stages, plan->n_edges, plan->edges, err));
    w->plan = plan;
    for (int d = 0; d < plan->n_devices; d++) cursor_begin(&w->cursors[d], plan, d);
    *out = w;
    return FT_OK;
}

/* The end of the action, which starts as soon as it can; written down as an event. */
static int64_t time_action(walk *w, int device, const ft_action *a, int spot, int64_t index)
{
    int64_t start = wires_start_ns(w->wires, spot, index);
    if (start < w->free_ns[device]) start = w->free_ns[device];
    int64_t end = start + w->cost_ns[spot];
    w->free_ns[device] = end;
    w->events[w->at[device]++] = (ft_event){.start_ns = start,
                                            .end_ns = end,
                                            .batch = a->batch,
                                            .micro = a->micro,
                                            .device = (int16_t)device,
                                            .stage = a->stage,
                                            .lag = a->lag,
                                            .kind = a->kind};
    return end;
}

/* A ring of n_devices: no device is in it twice. */
typedef struct ring {
    int head, n;
} ring;

static void look_at(walk *w, ring *r, int device)
{
    if (w->queued[device]) return;
    w->queued[device] = true;
    int place = r->head + r->n++;
    w->queue[place < w->plan->n_devices ? place : place - w->plan->n_devices] = device;
}

static int next_device(walk *w, ring *r)
{
    int device = w->queue[r->head];
    w->queued[device] = false;
    r->head = r->head + 1 < w->plan->n_devices ? r->head + 1 : 0;
    r->n--;
    return device;
}

/* Devices at the other ends of the spot's edges may go on. */
static void wake_others(walk *w, ring *r, int spot)
{
    const wires *net = w->wires;
    for (int i = net->in_first[spot]; i < net->in_first[spot + 1]; i++)
        look_at(w, r, w->plan->device[net->edges[net->in[i]].from]);
    for (int i = net->out_first[spot]; i < net->out_first[spot + 1]; i++)
        look_at(w, r, w->plan->device[net->edges[net->out[i]].to]);
}

static void run_device(walk *w, ring *r, int device)
{
    cursor *c = &w->cursors[device];
    for (; c->more; cursor_step(c)) {
        bool full;
        int spot = spot_of(c->now.stage, c->now.kind);
        int64_t index = ft_action_index(w->plan, &c->now);
        if (wires_blocking(w->wires, spot, index, &full) >= 0) return;
        int64_t end = w->cost_ns ? time_action(w, device, &c->now, spot, index) : 0;
        wires_complete(w->wires, spot, index, end);
        wake_others(w, r, spot);
    }
}

static ft_status report_stuck(const walk *w, ft_error *err)
{
    char text[512] = "", one[128];
    int used = 0, stuck = 0;
    for (int d = 0; d < w->plan->n_devices; d++) {
        const cursor *c = &w->cursors[d];
        if (!c->more) continue;
        wires_explain(w->wires, &c->now, ft_action_index(w->plan, &c->now), one, sizeof one);
        if (stuck++ < 3)
            used += snprintf(text + used, sizeof text - (size_t)used, "%sdevice %d: %s",
                             used ? "; " : "", d, one);
    }
    if (!stuck) return FT_OK;
    return ft_fail(err, FT_INFEASIBLE, "plan: %d device%s wait%s for ever: %s%s", stuck,
                   stuck > 1 ? "s" : "", stuck > 1 ? "" : "s", text, stuck > 3 ? "; ..." : "");
}

ft_status walk_run(walk *w, ft_error *err)
{
    ring r = {0};
    for (int d = 0; d < w->plan->n_devices; d++) look_at(w, &r, d);
    while (r.n) run_device(w, &r, next_device(w, &r));
    return report_stuck(w, err);
}
