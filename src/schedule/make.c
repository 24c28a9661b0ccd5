/* schedule/make.c - from a pipeline and a rule to a plan.
 *
 * Orders, then playing, then folding, then the proof. A long leg is played for `n` batches, where n
 * differs from the leg's number by a multiple of every period tried, and its body is then repeated
 * more often; when no body is found, or the proof fails, more batches are played. */
#include "schedule/internal.h"

#include <string.h>

#include "base/alloc.h"
#include "proof/proof.h"

enum {
    PERIODS = 12,         /* a multiple of every number of batches that plan/fold.c tries */
    PROVE_MOST = 1000000, /* actions; a longer plan is proven as the shorter leg that was played */
};

static ft_status no_memory(ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "plan: no memory");
}

/* -- input ---------------------------------------------------------------------------------------
 */

static ft_status check_range(const char *what, int64_t value, int64_t most, ft_error *err)
{
    if (value >= 1 && value <= most) return FT_OK;
    return ft_fail(err, FT_INVALID, "pipeline: %lld %s, expected 1 to %lld", (long long)value, what,
                   (long long)most);
}

static bool takes_norms(const ft_pipeline *p)
{
    for (int e = 0; e < p->n_edges; e++)
        if (p->edges[e].to_kind == FT_ACT_TAKE_NORMS) return true;
    return false;
}

/* Actions of all stages per batch, at most. */
static int64_t per_batch(const ft_pipeline *p, const ft_schedule *schedule)
{
    int64_t micro = schedule->splits ? 3 : 2, step = takes_norms(p) ? 5 : 4;
    if (p->weights == FT_WEIGHTS_PREDICT || ft_weights_rows[p->weights].attenuates) micro++;
    int64_t seats = p->replica_first ? p->replica_first[p->n_stages] : p->n_stages;
    return micro * p->micro_batches * p->n_stages + step * seats;
}

static ft_status check_edge(const ft_pipeline *p, int e, ft_error *err)
{
    const ft_edge *edge = &p->edges[e];
    if ((edge->from_kind == FT_ACT_REDUCE || edge->to_kind == FT_ACT_REDUCE) && !p->reduces)
        return ft_fail(err, FT_INVALID, "pipeline: edge %d %s at a reduce, but there is none", e,
                       edge->from_kind == FT_ACT_REDUCE ? "begins" : "ends");
    return FT_OK;
}

/* Batches read the version before the newest, whatever the order. */
static bool reads_second_newest(const ft_pipeline *p, const ft_schedule *schedule)
{
    return (p->weights ? p->weights : schedule->weights) == FT_WEIGHTS_DOUBLE;
}

static ft_status check_pipeline(const ft_pipeline *p, const ft_schedule *schedule, ft_error *err)
{
    FT_TRY(check_range("stages", p->n_stages, FT_PLAN_MAX_STAGES, err));
    FT_TRY(check_range("devices", p->n_devices, FT_PLAN_MAX_STAGES, err));
    FT_TRY(check_range("micro-batches", p->micro_batches, FT_PLAN_MAX_MICRO, err));
    FT_TRY(check_range("batches", p->n_batches, FT_PLAN_MAX_BATCHES, err));
    FT_TRY(check_range("actions in a leg", per_batch(p, schedule) * p->n_batches,
                       FT_PLAN_MAX_ACTIONS, err));
    if (p->weights >= FT_WEIGHTS_COUNT || schedule->weights >= FT_WEIGHTS_COUNT)
        return ft_fail(err, FT_INVALID, "pipeline: there is no way %d of choosing weights",
                       (int)p->weights);
    if (schedule->forward_only && p->weights != FT_WEIGHTS_OWN)
        return ft_fail(err, FT_INVALID,
                       "schedule %s: forwards alone have weights of one version, there is no '%s'",
                       schedule->name, ft_weights_word(p->weights));
    if (p->is_bounded && p->most_late < 0)
        return ft_fail(err, FT_INVALID,
                       "pipeline: weights at most %d updates late, expected 0 or "
                       "more",
                       p->most_late);
    if (p->is_bounded && !p->most_late && reads_second_newest(p, schedule))
        return ft_fail(err, FT_INVALID,
                       "schedule %s: every weight is read one update late, but 0 is the most that "
                       "is asked for: expected 1 or more",
                       schedule->name);
    bool several = p->replica_first && p->replica_first[p->n_stages] > p->n_stages;
    if (schedule->replicates && !several && p->n_devices > 1)
        return ft_fail(err, FT_INVALID,
                       "schedule %s: expected a stage with several replicas, as on several devices",
                       schedule->name);
    if (p->n_edges < 0 || p->n_edges > FT_PLAN_MAX_EDGES)
        return ft_fail(err, FT_INVALID, "pipeline: %d edges, expected 0 to %d", p->n_edges,
                       FT_PLAN_MAX_EDGES);
    for (int e = 0; e < p->n_edges; e++) {
        FT_TRY(ft_edge_check(&p->edges[e], e, p->n_stages, err));
        if (p->edges[e].from_kind != FT_ACT_FORWARD && schedule->forward_only)
            return ft_fail(err, FT_INVALID,
                           "pipeline: edge %d is not between forwards, which are all there is", e);
        FT_TRY(check_edge(p, e, err));
    }
    if (p->tasks.forward && !schedule->groups)
        return ft_fail(err, FT_INVALID,
                       "schedule %s: stages in tasks are for an order that takes all micro-batches "
                       "through one task, then the next",
                       schedule->name);
    for (int s = 0; p->joint && s < p->n_stages; s++)
        if (p->joint[s] > 1 && !schedule->groups)
            return ft_fail(err, FT_INVALID,
                           "schedule %s: forwards of several micro-batches as one are for an order "
                           "that takes all micro-batches through one task, then the next",
                           schedule->name);
    if (!ft_plan_name_ok(schedule->name))
        return ft_fail(err, FT_INVALID,
                       "schedule '%s': expected a name of 1 to 31 letters, digits, '-', '_' or '.'",
                       schedule->name);
    return FT_OK;
}

/* -- output --------------------------------------------------------------------------------------
 */

static bool write_stages(ft_plan *plan, const leg *l)
{
    const ft_pipeline *p = l->pipeline;
    const ft_seating *shares = &l->shares;
    int64_t n = p->n_stages;
    int *numbers = ft_arena_array(plan->arena, 6 * n + 1 + shares->n_seats, sizeof *numbers);
    ft_edge *edges = ft_arena_array(plan->arena, p->n_edges, sizeof *edges);
    bool *recompute = ft_arena_array(plan->arena, n, sizeof *recompute);
    uint8_t *rule = ft_arena_array(plan->arena, n, sizeof *rule);
    int64_t *reduce_bytes = ft_arena_array(plan->arena, n, sizeof *reduce_bytes);
    bool *by_policy = ft_arena_array(plan->arena, p->n_devices, sizeof *by_policy);
    if (!numbers || !edges || !recompute || !rule || !reduce_bytes || !by_policy) return false;
    int *depth = numbers + n, *in_flight = depth + n, *versions = in_flight + n;
    int *joint = versions + n, *first = joint + n, *devices = first + n + 1;
    for (int s = 0; s < p->n_stages; s++) {
        const ft_stage_share *share = &shares->of[s];
        numbers[s] = shares->seat_device[share->first];
        depth[s] = l->depths.depth[s];
        first[s] = share->first;
        rule[s] = (uint8_t)share->rule;
        joint[s] = share->joint;
        if (p->reduce_bytes) reduce_bytes[s] = p->reduce_bytes[s];
        for (int i = 0; i < share->n; i++) {
            const stage_order *order = &l->orders[share->first + i];
            devices[share->first + i] = shares->seat_device[share->first + i];
            if (order->in_flight > in_flight[s]) in_flight[s] = order->in_flight;
            if (order->versions > versions[s]) versions[s] = order->versions;
        }
    }
    first[n] = shares->n_seats;
    if (p->n_edges) memcpy(edges, l->edges, (size_t)p->n_edges * sizeof *edges);
    plan->device = numbers;
    plan->depth = depth;
    plan->in_flight = in_flight;
    plan->versions = versions;
    plan->replica_first = first;
    plan->replica_device = devices;
    plan->replica_rule = rule;
    plan->reduce_bytes = reduce_bytes;
    plan->by_policy = by_policy;
    plan->recompute = recompute;
    plan->joint = joint;
    plan->n_edges = p->n_edges;
    plan->edges = edges;
    return true;
}

/* The plan of a leg of n_batches, from the one that was played. */
static ft_status write_plan(ft_plan **out, const leg *l, const ft_fold *f, int n_batches,
                            ft_error *err)
{
    ft_plan *plan = ft_plan_new();
    if (!plan) return no_memory(err);
    int later = n_batches - l->n_batches;
    memcpy(plan->schedule, l->schedule->name, strlen(l->schedule->name));
    plan->n_stages = l->pipeline->n_stages;
    plan->n_devices = l->pipeline->n_devices;
    plan->micro_batches = l->pipeline->micro_batches;
    plan->n_batches = n_batches;
    plan->forward_only = l->schedule->forward_only;
    if (!write_stages(plan, l) || !ft_fold_write(plan, l->done, f, later)) {
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

/* What passes between stages of one task, which is used before the next is made. */
static bool is_in_task(const ft_tasks *tasks, const ft_edge *edge)
{
    const int *task = edge->from_kind == FT_ACT_FORWARD ? tasks->forward : tasks->backward;
    bool passes = edge->from_kind == FT_ACT_FORWARD || edge->from_kind == FT_ACT_BACKWARD;
    return task && passes && task[edge->from] == task[edge->to];
}

/* Orders, plays and folds l->n_batches. */
static ft_status play_leg(leg *l, ft_fold *f, ft_error *err)
{
    const ft_pipeline *p = l->pipeline;
    const ft_seat_request q = {.n_stages = p->n_stages,
                               .n_devices = p->n_devices,
                               .micro_batches = p->micro_batches,
                               .device = p->device,
                               .replica_first = p->replica_first,
                               .replica_device = p->replica_device,
                               .replica_rule = p->replica_rule,
                               .joint = p->joint};
    l->edges = ft_arena_array(l->arena, p->n_edges + 1, sizeof *l->edges);
    if (!l->edges) return no_memory(err);
    if (p->n_edges) memcpy(l->edges, p->edges, (size_t)p->n_edges * sizeof *l->edges);
    FT_TRY(ft_seating_new(&l->shares, l->arena, &q, err));
    for (int e = 0; e < p->n_edges; e++) {
        ft_edge *edge = &l->edges[e];
        bool forward = edge->to_kind == FT_ACT_FORWARD;
        int joint = forward ? l->shares.of[edge->to].joint : 1,
            all = l->shares.of[edge->to].per_batch;
        if (is_in_task(&p->tasks, edge))
            edge->slots = joint;
        else if (joint > 1 && edge->slots < 2 * joint) /* some come while others are worked on */
            edge->slots = 2 * joint < all ? 2 * joint : all;
    }
    l->reduces = (p->reduces || l->shares.several) && !l->schedule->forward_only;
    l->weights = p->weights ? p->weights : l->schedule->weights;
    FT_TRY(ft_wires_new(&l->wires, l->arena, &l->shares, p->n_edges, p->edges, err));
    FT_TRY(ft_depths_find(&l->depths, l->arena, l->wires, err));
    if (l->schedule->interleaves)
        FT_TRY(leg_interleave(l, err));
    else if (l->schedule->folds)
        FT_TRY(leg_vee(l, err));
    else if (leg_has_group(l))
        FT_TRY(leg_group(l, err));
    else {
        FT_TRY(leg_order(l, err));
        FT_TRY(leg_play(l, err));
    }
    return ft_fold_find(f, l->arena, p->n_devices, l->done, err);
}

/* Finds the slots that the edges need, by the plan of the batches that were played. */
static ft_status trim(const leg *l, const ft_fold *f, ft_error *err)
{
    ft_plan *played = NULL;
    FT_TRY(write_plan(&played, l, f, l->n_batches, err));
    ft_status status = ft_plan_trim(played, l->edges, err);
    ft_plan_free(played);
    return status;
}

static ft_status write_proven(ft_plan **out, const leg *l, const ft_fold *f, int n_batches,
                              ft_error *err)
{
    ft_status status = write_plan(out, l, f, n_batches, err);
    if (status == FT_OK) status = ft_plan_check(*out, err);
    if (status == FT_OK && l->pipeline->most_slots) {
        ft_plan_free(*out);
        *out = NULL;
        FT_TRY(trim(l, f, err));
        return write_plan(out, l, f, n_batches, err);
    }
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
    ft_fold f;
    FT_TRY(play_leg(l, &f, err));
    if (l->n_batches == whole) return write_proven(out, l, &f, whole, err);
    bool steady = f.repeats >= 3 && 2 * (int64_t)f.repeats * f.batches >= l->n_batches;
    if (!steady) return FT_OK;
    int64_t length = per_batch(l->pipeline, l->schedule) * whole;
    bool prove_whole = length <= PROVE_MOST;
    ft_status status = write_proven(out, l, &f, prove_whole ? whole : l->n_batches, err);
    if (status == FT_NOMEM) return status;
    if (status != FT_OK) return FT_OK;
    if (prove_whole) return FT_OK;
    ft_plan_free(*out);
    *out = NULL;
    return write_plan(out, l, &f, whole, err);
}

/* With the slots that the edges have. */
static ft_status make(ft_plan **out, const ft_pipeline *pipeline, const ft_schedule *schedule,
                      ft_error *err)
{
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

/* Every edge of `edges` has twice its slots, or the most; false when all have those already. */
static bool widen(const ft_pipeline *p, ft_edge *edges)
{
    int most = p->most_slots < FT_PLAN_MAX_SLOTS ? p->most_slots : FT_PLAN_MAX_SLOTS;
    bool wider = false;
    for (int e = 0; e < p->n_edges; e++) {
        if (edges[e].slots >= most) continue;
        edges[e].slots *= 2;
        if (edges[e].slots > most) edges[e].slots = most;
        wider = true;
    }
    return wider;
}

ft_status ft_plan_make(ft_plan **out, const ft_pipeline *pipeline, const ft_schedule *schedule,
                       ft_error *err)
{
    *out = NULL;
    FT_TRY(check_pipeline(pipeline, schedule, err));
    ft_status status = make(out, pipeline, schedule, err);
    if (status != FT_INFEASIBLE || !pipeline->most_slots) return status;
    int64_t bytes = pipeline->n_edges * (int64_t)sizeof(ft_edge);
    ft_edge *edges = ft_alloc(bytes);
    if (!edges) return no_memory(err);
    ft_pipeline wider = *pipeline;
    memcpy(edges, pipeline->edges, (size_t)bytes);
    wider.edges = edges;
    while (status == FT_INFEASIBLE && widen(pipeline, edges))
        status = make(out, &wider, schedule, err);
    ft_free(edges);
    return status;
}
