/* schedule/play.c - who goes first on each device.
 *
 * A discrete simulation: a device that is idle takes one of the actions that are ready, and nothing
 * is started before its data has arrived. Stages are sequential processes that meet in queues of
 * fixed size only, so whether all of them finish does not depend on these choices (Kahn, 1974). */
#include "schedule/internal.h"

#include <stdio.h>

typedef struct player {
    leg *leg;
    const int64_t *cost_ns, *sum_ns;
    int64_t now;
    int64_t *next;           /* by seat: position in its order */
    int *seat_first, *seats; /* seats on device d: seats[seat_first[d]] ... */
    ft_action **lists;       /* by device: what it has started so far */
    bool *busy;
    ft_heap heap;
    int *dirty; /* devices to look at, a stack */
    bool *is_dirty;
    int n_dirty;
} player;

/* -- choosing ---------------------------------------------------------------------------------- */

/* At one moment ends come before other reasons to look at a device. */
static int64_t moment_of(int device, bool ends)
{
    return ends ? device : FT_PLAN_MAX_STAGES + device;
}

static ft_meeting meet(const player *p, int seat, const ft_action *a)
{
    const ft_seating *shares = &p->leg->shares;
    ft_meeting m = {.stage = a->stage, .kind = a->kind, .index = a->batch};
    if (ft_action_per_micro(a->kind))
        m.index = (int64_t)a->batch * p->leg->pipeline->micro_batches + a->micro;
    m.replica = seat - shares->of[a->stage].first;
    return m;
}

/* The seat's next action, when it can start now. */
static const ft_action *ready_action(const player *p, int seat)
{
    const stage_order *order = &p->leg->orders[seat];
    if (p->next[seat] == order->n) return NULL;
    const ft_action *a = &order->actions[p->next[seat]];
    ft_meeting m = meet(p, seat, a);
    int64_t cause;
    if (ft_wires_blocking(p->leg->wires, &m).reason != FT_STOP_NOTHING) return NULL;
    return ft_wires_start_ns(p->leg->wires, &m, &cause) <= p->now ? a : NULL;
}

/* -- playing ----------------------------------------------------------------------------------- */

static void look_at(void *user, int device)
{
    player *p = user;
    if (p->is_dirty[device]) return;
    p->is_dirty[device] = true;
    p->dirty[p->n_dirty++] = device;
}

static bool start_something(player *p, int device)
{
    const ft_action *best = NULL;
    int best_seat = -1;
    for (int i = p->seat_first[device]; i < p->seat_first[device + 1]; i++) {
        const ft_action *a = ready_action(p, p->seats[i]);
        if (!a || (best && !ft_policy_goes_before(p->leg->depths.depth, a, best))) continue;
        best = a;
        best_seat = p->seats[i];
    }
    if (!best) return true;
    p->next[best_seat]++;
    p->lists[device][p->leg->done[device].n++] = *best;
    p->busy[device] = true;
    int64_t end = p->now + p->cost_ns[ft_spot_of(best->stage, best->kind)];
    return ft_heap_add(&p->heap, (ft_moment){end, moment_of(device, true)});
}

/* The stage's devices are looked at again at `ns`, now or later. */
static bool look_later(player *p, int stage, int64_t ns)
{
    const ft_stage_share *s = &p->leg->shares.of[stage];
    for (int i = 0; i < s->n; i++) {
        int device = p->leg->shares.seat_device[s->first + i];
        if (ns == p->now)
            look_at(p, device);
        else if (!ft_heap_add(&p->heap, (ft_moment){ns, moment_of(device, false)}))
            return false;
    }
    return true;
}

/* The action that the device is at has ended: its data leaves, its slots are free. */
static bool end_action(player *p, int device)
{
    const ft_action *a = &p->lists[device][p->leg->done[device].n - 1];
    ft_wires *w = p->leg->wires;
    ft_meeting m = meet(p, ft_seat_of(&p->leg->shares, a->stage, device), a);
    int spot = ft_spot_of(a->stage, a->kind);
    p->busy[device] = false;
    ft_wires_complete(w, &m, p->now, -1);
    look_at(p, device);
    ft_wires_wake(w, &m, look_at, p);
    if (ft_wires_join(w, &m)) {
        w->group_ns[a->stage] = p->now + p->sum_ns[a->stage];
        if (!look_later(p, a->stage, w->group_ns[a->stage])) return false;
    }
    for (int i = w->out_first[spot]; i < w->out_first[spot + 1]; i++) {
        int e = w->out[i];
        int64_t there = p->now + w->transfer_ns[e];
        ft_wires_arrive(w, e, m.index, there, -1);
        if (!look_later(p, w->edges[e].to, there)) return false;
    }
    return true;
}

static bool play_all(player *p)
{
    for (int d = 0; d < p->leg->pipeline->n_devices; d++) look_at(p, d);
    for (;;) {
        while (p->n_dirty) {
            int d = p->dirty[--p->n_dirty];
            p->is_dirty[d] = false;
            if (!p->busy[d] && !start_something(p, d)) return false;
        }
        if (!p->heap.n) return true;
        p->now = p->heap.at[0].ns;
        while (p->heap.n && p->heap.at[0].ns == p->now) {
            ft_moment m = ft_heap_pop(&p->heap);
            if (m.what >= FT_PLAN_MAX_STAGES)
                look_at(p, (int)m.what - FT_PLAN_MAX_STAGES);
            else if (!end_action(p, (int)m.what))
                return false;
        }
    }
}

static ft_status report_stuck(const player *p, ft_error *err)
{
    char text[512] = "", one[160];
    int used = 0, stuck = 0;
    for (int seat = 0; seat < p->leg->shares.n_seats; seat++) {
        const stage_order *order = &p->leg->orders[seat];
        if (p->next[seat] == order->n) continue;
        const ft_action *a = &order->actions[p->next[seat]];
        ft_meeting m = meet(p, seat, a);
        ft_wires_explain(p->leg->wires, a, &m, one, sizeof one);
        if (stuck++ < 3)
            used +=
                snprintf(text + used, sizeof text - (size_t)used, "%s%s", used ? "; " : "", one);
    }
    if (!stuck) return FT_OK;
    return ft_fail(err, FT_INFEASIBLE, "schedule %s cannot complete, %d stages wait: %s%s",
                   p->leg->schedule->name, stuck, text, stuck > 3 ? "; ..." : "");
}

/* -- setting up -------------------------------------------------------------------------------- */

static bool list_seats(player *p)
{
    const ft_seating *shares = &p->leg->shares;
    int n_devices = p->leg->pipeline->n_devices;
    for (int i = 0; i < shares->n_seats; i++) p->seat_first[shares->seat_device[i] + 1]++;
    for (int d = 0; d < n_devices; d++) p->seat_first[d + 1] += p->seat_first[d];
    int *fill = ft_arena_array(p->leg->arena, n_devices, sizeof(int));
    if (!fill) return false;
    for (int i = 0; i < shares->n_seats; i++) {
        int d = shares->seat_device[i];
        p->seats[p->seat_first[d] + fill[d]++] = i;
    }
    for (int d = 0; d < n_devices; d++) {
        int64_t n = 0;
        for (int i = p->seat_first[d]; i < p->seat_first[d + 1]; i++)
            n += p->leg->orders[p->seats[i]].n;
        p->lists[d] = ft_arena_array(p->leg->arena, n, sizeof(ft_action));
        if (!p->lists[d]) return false;
    }
    return true;
}

static bool make_arrays(player *p)
{
    ft_arena *arena = p->leg->arena;
    int n_seats = p->leg->shares.n_seats, n_devices = p->leg->pipeline->n_devices;
    p->heap.arena = arena;
    return (p->next = ft_arena_array(arena, n_seats, sizeof(int64_t))) &&
           (p->seats = ft_arena_array(arena, n_seats, sizeof(int))) &&
           (p->seat_first = ft_arena_array(arena, n_devices + 1, sizeof(int))) &&
           (p->lists = ft_arena_array(arena, n_devices, sizeof(ft_action *))) &&
           (p->busy = ft_arena_array(arena, n_devices, sizeof(bool))) &&
           (p->dirty = ft_arena_array(arena, n_devices, sizeof(int))) &&
           (p->is_dirty = ft_arena_array(arena, n_devices, sizeof(bool))) &&
           (p->leg->done = ft_arena_array(arena, n_devices, sizeof(ft_action_list))) &&
           list_seats(p);
}

static ft_status round_costs(player *p, ft_error *err)
{
    leg *l = p->leg;
    const ft_stage_costs *costs = l->pipeline->costs;
    int n = l->pipeline->n_stages;
    int64_t *cost_ns, *sum_ns = ft_arena_array(l->arena, n, sizeof *sum_ns);
    if (!sum_ns) return ft_fail(err, FT_NOMEM, "plan: no memory for %d stages", n);
    FT_TRY(ft_costs_round(&cost_ns, l->arena, n, costs, err));
    for (int s = 0; costs && costs->all_reduce_ns && s < n; s++)
        FT_TRY(ft_cost_round(&sum_ns[s], costs->all_reduce_ns[s], "all-reduce of stage", s, err));
    p->cost_ns = cost_ns;
    p->sum_ns = sum_ns;
    return ft_wires_add_times(l->wires, l->arena, costs ? costs->transfer_ns : NULL,
                              (int64_t)l->n_batches * l->pipeline->micro_batches, err);
}

ft_status leg_play(leg *l, ft_error *err)
{
    player p = {.leg = l};
    FT_TRY(round_costs(&p, err));
    if (!make_arrays(&p) || !play_all(&p))
        return ft_fail(err, FT_NOMEM, "plan: no memory to play %d batches", l->n_batches);
    for (int d = 0; d < l->pipeline->n_devices; d++) l->done[d].actions = p.lists[d];
    return report_stuck(&p, err);
}
