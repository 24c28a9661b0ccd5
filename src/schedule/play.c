/* schedule/play.c - who goes first on each device.
 *
 * A discrete simulation: a device that is idle takes one of the actions that are ready, and nothing
 * is started before its data has arrived. Stages are sequential processes that meet in queues of
 * fixed size only, so whether all of them finish does not depend on these choices (Kahn, 1974). */
#include "schedule/internal.h"

#include <stdio.h>

/* A moment at which a device is looked at: its action ends, or data arrives. */
typedef struct moment {
    int64_t ns;
    int device;
    bool ends;
} moment;

typedef struct heap {
    moment *at;
    int64_t n, capacity;
    ft_arena *arena;
} heap;

typedef struct player {
    leg *leg;
    const int64_t *cost_ns;
    int64_t now;
    int64_t *next;             /* by stage: position in its order */
    int *stage_first, *stages; /* stages of device d: stages[stage_first[d]] ... */
    ft_action **lists;         /* by device: what it has started so far */
    bool *busy;
    heap heap;
    int *dirty; /* devices to look at, a stack */
    bool *is_dirty;
    int n_dirty;
} player;

/* -- the heap ------------------------------------------------------------------------------------
 */

static bool earlier(const moment *a, const moment *b)
{
    if (a->ns != b->ns) return a->ns < b->ns;
    return a->device < b->device;
}

static void heap_swap(heap *h, int64_t i, int64_t j)
{
    moment m = h->at[i];
    h->at[i] = h->at[j];
    h->at[j] = m;
}

static bool heap_add(heap *h, moment m)
{
    if (h->n == h->capacity) {
        int64_t capacity = h->capacity ? 2 * h->capacity : 256;
        moment *bigger = ft_arena_array(h->arena, capacity, sizeof *bigger);
        if (!bigger) return false;
        for (int64_t i = 0; i < h->n; i++) bigger[i] = h->at[i];
        h->at = bigger;
        h->capacity = capacity;
    }
    int64_t i = h->n++;
    h->at[i] = m;
    for (; i && earlier(&h->at[i], &h->at[(i - 1) / 2]); i = (i - 1) / 2)
        heap_swap(h, i, (i - 1) / 2);
    return true;
}

static moment heap_pop(heap *h)
{
    moment top = h->at[0];
    h->at[0] = h->at[--h->n];
    for (int64_t i = 0;;) {
        int64_t least = i;
        for (int64_t child = 2 * i + 1; child <= 2 * i + 2; child++)
            if (child < h->n && earlier(&h->at[child], &h->at[least])) least = child;
        if (least == i) return top;
        heap_swap(h, i, least);
        i = least;
    }
}

/* -- choosing ---------------------------------------------------------------------------------- */

static int64_t index_of(const player *p, const ft_action *a)
{
    if (!ft_action_per_micro(a->kind)) return a->batch;
    return (int64_t)a->batch * p->leg->pipeline->micro_batches + a->micro;
}

/* The stage's next action, when it can start now. */
static const ft_action *ready_action(const player *p, int stage)
{
    const stage_order *order = &p->leg->orders[stage];
    if (p->next[stage] == order->n) return NULL;
    const ft_action *a = &order->actions[p->next[stage]];
    int spot = spot_of(stage, a->kind);
    int64_t index = index_of(p, a);
    bool full;
    if (wires_blocking(p->leg->wires, spot, index, &full) >= 0) return NULL;
    return wires_start_ns(p->leg->wires, spot, index) <= p->now ? a : NULL;
}

/* Not a forward; then closer to the loss; then older. */
static bool goes_before(const player *p, const ft_action *a, const ft_action *b)
{
    bool a_forward = a->kind == FT_ACT_FORWARD, b_forward = b->kind == FT_ACT_FORWARD;
    if (a_forward != b_forward) return b_forward;
    const int *depth = p->leg->depth;
    if (depth[a->stage] != depth[b->stage]) return depth[a->stage] < depth[b->stage];
    if (a->batch != b->batch) return a->batch < b->batch;
    if (a->micro != b->micro) return a->micro < b->micro;
    return a->stage > b->stage;
}

/* -- playing ----------------------------------------------------------------------------------- */

static void look_at(player *p, int device)
{
    if (p->is_dirty[device]) return;
    p->is_dirty[device] = true;
    p->dirty[p->n_dirty++] = device;
}

static bool start_something(player *p, int device)
{
    const ft_action *best = NULL;
    for (int i = p->stage_first[device]; i < p->stage_first[device + 1]; i++) {
        const ft_action *a = ready_action(p, p->stages[i]);
        if (a && (!best || goes_before(p, a, best))) best = a;
    }
    if (!best) return true;
    p->next[best->stage]++;
    p->lists[device][p->leg->done[device].n++] = *best;
    p->busy[device] = true;
    int64_t end = p->now + p->cost_ns[spot_of(best->stage, best->kind)];
    return heap_add(&p->heap, (moment){end, device, true});
}

/* The action that the device is at has ended: its data leaves, its slots are free. */
static bool end_action(player *p, int device)
{
    const ft_action *a = &p->lists[device][p->leg->done[device].n - 1];
    const int *device_of = p->leg->pipeline->device;
    wires *w = p->leg->wires;
    int spot = spot_of(a->stage, a->kind);
    p->busy[device] = false;
    wires_complete(w, spot, index_of(p, a), p->now);
    look_at(p, device);
    for (int i = w->in_first[spot]; i < w->in_first[spot + 1]; i++)
        look_at(p, device_of[w->edges[w->in[i]].from]);
    for (int i = w->out_first[spot]; i < w->out_first[spot + 1]; i++) {
        int e = w->out[i], to = device_of[w->edges[e].to];
        if (!w->transfer_ns[e])
            look_at(p, to);
        else if (!heap_add(&p->heap, (moment){p->now + w->transfer_ns[e], to, false}))
            return false;
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
            moment m = heap_pop(&p->heap);
            if (!m.ends)
                look_at(p, m.device);
            else if (!end_action(p, m.device))
                return false;
        }
    }
}

static ft_status report_stuck(const player *p, ft_error *err)
{
    char text[512] = "", one[128];
    int used = 0, stuck = 0;
    for (int s = 0; s < p->leg->pipeline->n_stages; s++) {
        const stage_order *order = &p->leg->orders[s];
        if (p->next[s] == order->n) continue;
        const ft_action *a = &order->actions[p->next[s]];
        wires_explain(p->leg->wires, a, index_of(p, a), one, sizeof one);
        if (stuck++ < 4)
            used +=
                snprintf(text + used, sizeof text - (size_t)used, "%s%s", used ? "; " : "", one);
    }
    if (!stuck) return FT_OK;
    return ft_fail(err, FT_INFEASIBLE, "schedule %s cannot complete, %d stages wait: %s%s",
                   p->leg->schedule->name, stuck, text, stuck > 4 ? "; ..." : "");
}

/* -- setting up -------------------------------------------------------------------------------- */

static bool list_stages(player *p)
{
    const ft_pipeline *pipe = p->leg->pipeline;
    for (int s = 0; s < pipe->n_stages; s++) p->stage_first[pipe->device[s] + 1]++;
    for (int d = 0; d < pipe->n_devices; d++) p->stage_first[d + 1] += p->stage_first[d];
    int *fill = ft_arena_array(p->leg->arena, pipe->n_devices, sizeof(int));
    if (!fill) return false;
    for (int s = 0; s < pipe->n_stages; s++) {
        int d = pipe->device[s];
        p->stages[p->stage_first[d] + fill[d]++] = s;
    }
    for (int d = 0; d < pipe->n_devices; d++) {
        int64_t n = 0;
        for (int i = p->stage_first[d]; i < p->stage_first[d + 1]; i++)
            n += p->leg->orders[p->stages[i]].n;
        p->lists[d] = ft_arena_array(p->leg->arena, n, sizeof(ft_action));
        if (!p->lists[d]) return false;
    }
    return true;
}

static bool make_arrays(player *p)
{
    ft_arena *arena = p->leg->arena;
    int n_stages = p->leg->pipeline->n_stages, n_devices = p->leg->pipeline->n_devices;
    p->heap.arena = arena;
    return (p->next = ft_arena_array(arena, n_stages, sizeof(int64_t))) &&
           (p->stages = ft_arena_array(arena, n_stages, sizeof(int))) &&
           (p->stage_first = ft_arena_array(arena, n_devices + 1, sizeof(int))) &&
           (p->lists = ft_arena_array(arena, n_devices, sizeof(ft_action *))) &&
           (p->busy = ft_arena_array(arena, n_devices, sizeof(bool))) &&
           (p->dirty = ft_arena_array(arena, n_devices, sizeof(int))) &&
           (p->is_dirty = ft_arena_array(arena, n_devices, sizeof(bool))) &&
           (p->leg->done = ft_arena_array(arena, n_devices, sizeof(ft_action_list))) &&
           list_stages(p);
}

ft_status leg_play(leg *l, ft_error *err)
{
    const ft_pipeline *pipe = l->pipeline;
    player p = {.leg = l};
    int64_t *cost_ns;
    FT_TRY(costs_round(&cost_ns, l->arena, pipe->n_stages, pipe->costs, err));
    p.cost_ns = cost_ns;
    FT_TRY(wires_add_times(l->wires, l->arena, pipe->costs ? pipe->costs->transfer_ns : NULL,
                           (int64_t)l->n_batches * pipe->micro_batches, err));
    if (!make_arrays(&p) || !play_all(&p))
        return ft_fail(err, FT_NOMEM, "plan: no memory to play %d batches", l->n_batches);
    for (int d = 0; d < pipe->n_devices; d++) l->done[d].actions = p.lists[d];
    return report_stuck(&p, err);
}
