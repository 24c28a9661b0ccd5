/* schedule/check.c - the proof of a plan.
 *
 * First the lists by themselves: everything in range, and each stage's actions complete and in the
 * order that training needs. Then one walk with the real numbers of slots. */
#include "schedule/internal.h"

/* -- ranges ------------------------------------------------------------------------------------ */

static ft_status check_range(const char *what, int64_t value, int64_t least, int64_t most,
                             ft_error *err)
{
    if (value >= least && value <= most) return FT_OK;
    return ft_fail(err, FT_INVALID, "plan: %lld %s, expected %lld to %lld", (long long)value, what,
                   (long long)least, (long long)most);
}

static ft_status check_sizes(const ft_plan *p, ft_error *err)
{
    FT_TRY(check_range("stages", p->n_stages, 1, PLAN_MAX_STAGES, err));
    FT_TRY(check_range("devices", p->n_devices, 1, PLAN_MAX_STAGES, err));
    FT_TRY(check_range("micro-batches", p->micro_batches, 1, PLAN_MAX_MICRO, err));
    FT_TRY(check_range("batches", p->n_batches, 1, PLAN_MAX_BATCHES, err));
    FT_TRY(check_range("edges", p->n_edges, 0, PLAN_MAX_EDGES, err));
    FT_TRY(check_range("repetitions of the body", p->body_repeats, 0, p->n_batches, err));
    FT_TRY(check_range("batches in the body", p->body_batches, 0, p->n_batches, err));
    for (int s = 0; s < p->n_stages; s++)
        if (p->device[s] < 0 || p->device[s] >= p->n_devices)
            return ft_fail(err, FT_INVALID, "plan: stage %d is on device %d of %d", s, p->device[s],
                           p->n_devices);
    for (int e = 0; e < p->n_edges; e++) FT_TRY(edge_check(&p->edges[e], e, p->n_stages, err));
    return FT_OK;
}

static ft_status check_action(const ft_plan *p, int device, const ft_action *a, int64_t last_batch,
                              ft_error *err)
{
    if (a->kind >= FT_ACT_COUNT)
        return ft_fail(err, FT_INVALID, "plan: device %d has an action of kind %d, of %d", device,
                       a->kind, FT_ACT_COUNT);
    char name[ACTION_TEXT];
    action_text(name, a);
    if (a->stage < 0 || a->stage >= p->n_stages)
        return ft_fail(err, FT_INVALID, "plan: device %d: %s names stage %d of %d", device, name,
                       a->stage, p->n_stages);
    if (p->device[a->stage] != device)
        return ft_fail(err, FT_INVALID, "plan: device %d: %s belongs to device %d", device, name,
                       p->device[a->stage]);
    if (a->batch < 0 || last_batch >= p->n_batches)
        return ft_fail(err, FT_INVALID, "plan: device %d: %s reaches batch %lld of %d", device,
                       name, (long long)(a->batch < 0 ? a->batch : last_batch), p->n_batches);
    int micros = ft_action_per_micro(a->kind) ? p->micro_batches : 1;
    if (a->micro < 0 || a->micro >= micros)
        return ft_fail(err, FT_INVALID, "plan: device %d: %s names micro-batch %d of %d", device,
                       name, a->micro, micros);
    return FT_OK;
}

static ft_status check_list(const ft_plan *p, int device, const ft_action_list *list, bool body,
                            ft_error *err)
{
    if (list->n < 0)
        return ft_fail(err, FT_INVALID, "plan: device %d has a list of %d actions", device,
                       list->n);
    int64_t more = body && p->body_repeats ? (p->body_repeats - 1) * (int64_t)p->body_batches : 0;
    for (int i = 0; i < list->n; i++) {
        const ft_action *a = &list->actions[i];
        FT_TRY(check_action(p, device, a, a->batch + more, err));
    }
    return FT_OK;
}

static ft_status check_stored(const ft_plan *p, ft_error *err)
{
    int64_t total = 0;
    for (int d = 0; d < p->n_devices; d++) {
        FT_TRY(check_list(p, d, &p->devices[d].warmup, false, err));
        FT_TRY(check_list(p, d, &p->devices[d].body, true, err));
        FT_TRY(check_list(p, d, &p->devices[d].drain, false, err));
        total += ft_plan_length(p, d);
        FT_TRY(check_range("actions", total, 0, PLAN_MAX_ACTIONS, err));
    }
    return FT_OK;
}

/* -- each stage's order ------------------------------------------------------------------------ */

/* How far a stage is. */
typedef struct progress {
    int64_t done[FT_ACT_COUNT];
    int64_t in_flight; /* the most so far */
    bool adopts;       /* an edge U->W ends here */
} progress;

/* What is wrong with `a` as the stage's next action; NULL when nothing. `reduces`: R stands before
 * U. */
static const char *find_fault(const ft_plan *p, const progress *s, const ft_action *a, bool reduces)
{
    int64_t finished = s->done[FT_ACT_BACKWARD] / p->micro_batches;
    if (ft_action_index(p, a) != s->done[a->kind]) return "is out of its order, missing or twice";
    if (p->forward_only)
        return a->kind != FT_ACT_FORWARD ? "is not a forward, in a plan of forwards alone"
               : a->lag                  ? "has a lag"
                                         : NULL;
    switch ((ft_action_kind)a->kind) {
    case FT_ACT_FORWARD:
        if (a->lag != a->batch - s->done[FT_ACT_UPDATE])
            return "has another lag than the updates before it give";
        break;
    case FT_ACT_BACKWARD:
        if (s->done[FT_ACT_FORWARD] <= s->done[FT_ACT_BACKWARD]) return "stands before its forward";
        if (a->batch != s->done[FT_ACT_UPDATE])
            return "stands before the update of the batch before";
        if (a->lag) return "has a lag, expected none: gradients of two batches do not mix";
        break;
    case FT_ACT_REDUCE:
        if (finished <= a->batch) return "stands before the last backward of its batch";
        break;
    case FT_ACT_UPDATE:
        if (finished <= a->batch) return "stands before the last backward of its batch";
        if (reduces && s->done[FT_ACT_REDUCE] <= a->batch) return "stands before its reduce";
        break;
    case FT_ACT_ADOPT:
        if (!s->adopts) return "has nothing to adopt: no edge U to W ends at its stage";
        break;
    case FT_ACT_COUNT:
        break;
    }
    if (a->lag && !ft_action_per_micro(a->kind)) return "has a lag";
    return NULL;
}

static ft_status check_device(const ft_plan *p, int device, progress *stages, bool reduces,
                              ft_error *err)
{
    cursor c;
    for (cursor_begin(&c, p, device); c.more; cursor_step(&c)) {
        progress *s = &stages[c.now.stage];
        const char *fault = find_fault(p, s, &c.now, reduces);
        if (fault) {
            char name[ACTION_TEXT];
            return ft_fail(err, FT_INVALID, "plan: device %d: %s %s", device,
                           action_text(name, &c.now), fault);
        }
        s->done[c.now.kind]++;
        int64_t in_flight = s->done[FT_ACT_FORWARD] - s->done[FT_ACT_BACKWARD];
        if (p->forward_only) in_flight = 1;
        if (in_flight > s->in_flight) s->in_flight = in_flight;
    }
    return FT_OK;
}

static ft_status check_stage(const ft_plan *p, int stage, const progress *s, bool reduces,
                             ft_error *err)
{
    for (int k = 0; k < FT_ACT_COUNT; k++) {
        int64_t wanted = p->n_batches;
        if (ft_action_per_micro(k)) wanted *= p->micro_batches;
        if (p->forward_only && k != FT_ACT_FORWARD) wanted = 0;
        if ((k == FT_ACT_REDUCE && !reduces) || (k == FT_ACT_ADOPT && !s->adopts)) wanted = 0;
        if (s->done[k] != wanted)
            return ft_fail(err, FT_INVALID, "plan: stage %d has %lld %s actions, expected %lld",
                           stage, (long long)s->done[k], ft_action_word(k), (long long)wanted);
    }
    if (s->in_flight != p->in_flight[stage])
        return ft_fail(err, FT_INVALID,
                       "plan: stage %d has %lld micro-batches in flight, the plan says %d", stage,
                       (long long)s->in_flight, p->in_flight[stage]);
    return FT_OK;
}

static bool has_kind(const ft_action_list *list, ft_action_kind kind)
{
    for (int i = 0; i < list->n; i++)
        if (list->actions[i].kind == kind) return true;
    return false;
}

/* Some list or edge has a reduce: then every stage has one per batch. */
static bool plan_reduces(const ft_plan *p)
{
    for (int e = 0; e < p->n_edges; e++)
        if (p->edges[e].from_kind == FT_ACT_REDUCE) return true;
    for (int d = 0; d < p->n_devices; d++)
        if (has_kind(&p->devices[d].warmup, FT_ACT_REDUCE) ||
            has_kind(&p->devices[d].body, FT_ACT_REDUCE) ||
            has_kind(&p->devices[d].drain, FT_ACT_REDUCE))
            return true;
    return false;
}

static ft_status check_order(const ft_plan *p, ft_arena *arena, ft_error *err)
{
    progress *stages = ft_arena_array(arena, p->n_stages, sizeof *stages);
    if (!stages) return ft_fail(err, FT_NOMEM, "plan: no memory for %d stages", p->n_stages);
    for (int e = 0; e < p->n_edges; e++)
        if (p->edges[e].to_kind == FT_ACT_ADOPT) stages[p->edges[e].to].adopts = true;
    bool reduces = plan_reduces(p);
    for (int d = 0; d < p->n_devices; d++) FT_TRY(check_device(p, d, stages, reduces, err));
    for (int s = 0; s < p->n_stages; s++) FT_TRY(check_stage(p, s, &stages[s], reduces, err));
    return FT_OK;
}

/* -- all of it --------------------------------------------------------------------------------- */

ft_status plan_check_lists(const ft_plan *plan, ft_error *err)
{
    FT_TRY(check_sizes(plan, err));
    FT_TRY(check_stored(plan, err));
    ft_arena *arena = ft_arena_new();
    if (!arena) return ft_fail(err, FT_NOMEM, "plan: no memory to check it");
    ft_status status = check_order(plan, arena, err);
    ft_arena_free(arena);
    return status;
}

ft_status ft_plan_check(const ft_plan *plan, ft_error *err)
{
    FT_TRY(plan_check_lists(plan, err));
    ft_arena *arena = ft_arena_new();
    if (!arena) return ft_fail(err, FT_NOMEM, "plan: no memory to check it");
    walk *w;
    ft_status status = walk_new(&w, arena, plan, err);
    if (status == FT_OK) status = walk_run(w, err);
    ft_arena_free(arena);
    return status;
}
