/* schedule/make.c - from a pipeline and a rule to a plan.
 *
 * Orders, then playing, then folding, then the proof. A long leg is played for `n` batches, where n
 * differs from the leg's number by a multiple of every period tried, and its body is then repeated
 * more often; when no body is found, or the proof fails, more batches are played. */
#include "schedule/internal.h"

#include <string.h>

enum {
    PERIODS = 12,         /* a multiple of every number of batches that fold.c tries */
    PROVE_MOST = 1000000, /* actions; a longer plan is proven as the shorter leg that was played */
};

static ft_status no_memory(ft_error *err) { return ft_fail(err, FT_NOMEM, "plan: no memory"); }

/* -- input ---------------------------------------------------------------------------------------
 */

static ft_status check_range(const char *what, int64_t value, int64_t most, ft_error *err)
{
    if (value >= 1 && value <= most) return FT_OK;
    return ft_fail(err, FT_INVALID, "pipeline: %lld %s, expected 1 to %lld", (long long)value, what,
                   (long long)most);
}

static ft_status check_pipeline(const ft_pipeline *p, const ft_schedule *schedule, ft_error *err)
{
    FT_TRY(check_range("stages", p->n_stages, PLAN_MAX_STAGES, err));
    FT_TRY(check_range("devices", p->n_devices, PLAN_MAX_STAGES, err));
    FT_TRY(check_range("micro-batches", p->micro_batches, PLAN_MAX_MICRO, err));
    FT_TRY(check_range("batches", p->n_batches, PLAN_MAX_BATCHES, err));
    int64_t per_batch = (2 * (int64_t)p->micro_batches + 3) * p->n_stages;
    FT_TRY(check_range("actions in a leg", per_batch * p->n_batches, PLAN_MAX_ACTIONS, err));
    for (int s = 0; s < p->n_stages; s++)
        if (p->device[s] < 0 || p->device[s] >= p->n_devices)
            return ft_fail(err, FT_INVALID, "pipeline: stage %d is on device %d of %d", s,
                           p->device[s], p->n_devices);
    if (p->n_edges < 0 || p->n_edges > PLAN_MAX_EDGES)
        return ft_fail(err, FT_INVALID, "pipeline: %d edges, expected 0 to %d", p->n_edges,
                       PLAN_MAX_EDGES);
    for (int e = 0; e < p->n_edges; e++) {
        FT_TRY(edge_check(&p->edges[e], e, p->n_stages, err));
        if (p->edges[e].from_kind != FT_ACT_FORWARD && schedule->forward_only)
            return ft_fail(err, FT_INVALID,
                           "pipeline: edge %d is not between forwards, which are all there is", e);
        if (p->edges[e].from_kind == FT_ACT_REDUCE && !p->reduces)
            return ft_fail(err, FT_INVALID,
                           "pipeline: edge %d begins at a reduce, but there is none", e);
    }
    if (!schedule_name_ok(schedule->name))
        return ft_fail(err, FT_INVALID,
                       "schedule '%s': expected a name of 1 to 31 letters, digits, '-', '_' or '.'",
                       schedule->name);
    return FT_OK;
}

/* Longest path to a stage without forward edges out, over the forward edges. */
static ft_status find_depths(leg *l, ft_error *err)
{
    const wires *w = l->wires;
    int n = l->pipeline->n_stages, head = 0, tail = 0;
    int *left = ft_arena_array(l->arena, n, sizeof(int));
    int *queue = ft_arena_array(l->arena, n, sizeof(int));
    l->depth = ft_arena_array(l->arena, n, sizeof(int));
    if (!left || !queue || !l->depth) return no_memory(err);
    for (int s = 0; s < n; s++) {
        int spot = spot_of(s, FT_ACT_FORWARD);
        left[s] = w->out_first[spot + 1] - w->out_first[spot];
        if (!left[s]) queue[tail++] = s;
    }
    while (head < tail) {
        int to = queue[head++], spot = spot_of(to, FT_ACT_FORWARD);
        for (int i = w->in_first[spot]; i < w->in_first[spot + 1]; i++) {
            int from = w->edges[w->in[i]].from;
            if (l->depth[from] < l->depth[to] + 1) l->depth[from] = l->depth[to] + 1;
            if (!--left[from]) queue[tail++] = from;
        }
    }
    for (int s = 0; s < n; s++)
        if (left[s])
            return ft_fail(err, FT_INVALID,
                           "pipeline: forward edges go in a circle, stage %d is on it or before it",
                           s);
    return FT_OK;
}

/* -- output --------------------------------------------------------------------------------------
 */

static bool copy_list(ft_arena *arena, ft_action_list *out, const ft_action *from, int64_t n,
                      int later)
{
    ft_action *actions = ft_arena_array(arena, n, sizeof *actions);
    if (!actions) return false;
    for (int64_t i = 0; i < n; i++) {
        actions[i] = from[i];
        actions[i].batch += later;
    }
    *out = (ft_action_list){.n = (int)n, .actions = actions};
    return true;
}

/* Warm-up, body and drain of each device; the drain is `later` batches later than it was played. */
static bool write_lists(ft_plan *plan, const leg *l, const fold *f, int later)
{
    ft_device_plan *devices = ft_arena_array(plan->arena, plan->n_devices, sizeof *devices);
    if (!devices) return false;
    for (int d = 0; d < plan->n_devices; d++) {
        const ft_action_list *list = &l->done[d];
        int64_t start = f->repeats ? f->start[d] : list->n;
        int64_t length = f->repeats ? f->length[d] : 0;
        int64_t drain = start + length * f->repeats;
        if (!copy_list(plan->arena, &devices[d].warmup, list->actions, start, 0) ||
            !copy_list(plan->arena, &devices[d].body, list->actions + start, length, 0) ||
            !copy_list(plan->arena, &devices[d].drain, list->actions + drain, list->n - drain,
                       later))
            return false;
    }
    plan->devices = devices;
    return true;
}

static bool write_stages(ft_plan *plan, const leg *l)
{
    const ft_pipeline *p = l->pipeline;
    int *numbers = ft_arena_array(plan->arena, 3 * (int64_t)p->n_stages, sizeof *numbers);
    ft_edge *edges = ft_arena_array(plan->arena, p->n_edges, sizeof *edges);
    bool *recompute = ft_arena_array(plan->arena, p->n_stages, sizeof *recompute);
    if (!numbers || !edges || !recompute) return false;
    int *depth = numbers + p->n_stages, *in_flight = depth + p->n_stages;
    for (int s = 0; s < p->n_stages; s++) {
        numbers[s] = p->device[s];
        depth[s] = l->depth[s];
        in_flight[s] = l->orders[s].in_flight;
    }
    if (p->n_edges) memcpy(edges, p->edges, (size_t)p->n_edges * sizeof *edges);
    plan->device = numbers;
    plan->depth = depth;
    plan->in_flight = in_flight;
    plan->recompute = recompute;
    plan->n_edges = p->n_edges;
    plan->edges = edges;
    return true;
}

/* The plan of a leg of n_batches, from the one that was played. */
static ft_status write_plan(ft_plan **out, const leg *l, const fold *f, int n_batches,
                            ft_error *err)
{
    ft_plan *plan = plan_new();
    if (!plan) return no_memory(err);
    int later = n_batches - l->n_batches;
    memcpy(plan->schedule, l->schedule->name, strlen(l->schedule->name));
    plan->n_stages = l->pipeline->n_stages;
    plan->n_devices = l->pipeline->n_devices;
    plan->micro_batches = l->pipeline->micro_batches;
    plan->n_batches = n_batches;
    plan->forward_only = l->schedule->forward_only;
    plan->body_batches = f->repeats ? f->batches : 0;
    plan->body_repeats = f->repeats ? f->repeats + later / f->batches : 0;
    if (!write_stages(plan, l) || !write_lists(plan, l, f, later)) {
        ft_plan_free(plan);
        return no_memory(err);
    }
    *out = plan;
    return FT_OK;
}

/* -- driver --------------------------------------------------------------------------------------
 */

/* Batches to play, about `wanted`. */
static int batches_to_play(int n_batches, int64_t wanted)
{
    if (n_batches <= wanted + PERIODS) return n_batches;
    return (int)(wanted + (n_batches - wanted) % PERIODS);
}

/* Orders, plays and folds l->n_batches. */
static ft_status play_leg(leg *l, fold *f, ft_error *err)
{
    const ft_pipeline *p = l->pipeline;
    FT_TRY(wires_new(&l->wires, l->arena, p->n_stages, p->n_edges, p->edges, err));
    FT_TRY(find_depths(l, err));
    FT_TRY(leg_order(l, err));
    FT_TRY(leg_play(l, err));
    return fold_find(f, l->arena, p->n_devices, l->done, err);
}

static ft_status write_proven(ft_plan **out, const leg *l, const fold *f, int n_batches,
                              ft_error *err)
{
    ft_status status = write_plan(out, l, f, n_batches, err);
    if (status == FT_OK) status = ft_plan_check(*out, err);
    if (status != FT_OK) {
        ft_plan_free(*out);
        *out = NULL;
    }
    return status;
}

/* One attempt with l->n_batches. *out stays NULL when more batches have to be played. */
static ft_status attempt(ft_plan **out, leg *l, ft_error *err)
{
    int whole = l->pipeline->n_batches;
    fold f;
    FT_TRY(play_leg(l, &f, err));
    if (l->n_batches == whole) return write_proven(out, l, &f, whole, err);
    bool steady = f.repeats >= 3 && 2 * (int64_t)f.repeats * f.batches >= l->n_batches;
    if (!steady) return FT_OK;
    int64_t length = (2 * (int64_t)l->pipeline->micro_batches + 3) * l->pipeline->n_stages * whole;
    bool prove_whole = length <= PROVE_MOST;
    ft_status status = write_proven(out, l, &f, prove_whole ? whole : l->n_batches, err);
    if (status == FT_NOMEM) return status;
    if (status != FT_OK) return FT_OK;
    if (prove_whole) return FT_OK;
    ft_plan_free(*out);
    *out = NULL;
    return write_plan(out, l, &f, whole, err);
}

ft_status ft_plan_make(ft_plan **out, const ft_pipeline *pipeline, const ft_schedule *schedule,
                       ft_error *err)
{
    *out = NULL;
    FT_TRY(check_pipeline(pipeline, schedule, err));
    /* filling and draining take n_stages micro-batches at most; four times that, and some more */
    int64_t wanted = 4 * ((int64_t)pipeline->n_stages / pipeline->micro_batches + 1) + 16;
    for (; !*out; wanted *= 4) {
        leg l = {.pipeline = pipeline, .schedule = schedule, .arena = ft_arena_new()};
        if (!l.arena) return no_memory(err);
        l.n_batches = batches_to_play(pipeline->n_batches, wanted);
        ft_status status = attempt(out, &l, err);
        ft_arena_free(l.arena);
        FT_TRY(status);
    }
    return FT_OK;
}
