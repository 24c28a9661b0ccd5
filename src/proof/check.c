/* proof/check.c - the proof of a plan.
 *
 * First the lists by themselves: everything in range, and each stage's actions complete and in the
 * order that training needs. Then one walk with the real numbers of slots. Of a body that repeats
 * some repetitions stand for all (repeats.h). */
#include "proof/internal.h"
#include "proof/repeats.h"

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
    FT_TRY(check_range("stages", p->n_stages, 1, FT_PLAN_MAX_STAGES, err));
    FT_TRY(check_range("devices", p->n_devices, 1, FT_PLAN_MAX_STAGES, err));
    FT_TRY(check_range("micro-batches", p->micro_batches, 1, FT_PLAN_MAX_MICRO, err));
    FT_TRY(check_range("batches", p->n_batches, 1, FT_PLAN_MAX_BATCHES, err));
    FT_TRY(check_range("edges", p->n_edges, 0, FT_PLAN_MAX_EDGES, err));
    FT_TRY(check_range("repetitions of the body", p->body_repeats, 0, p->n_batches, err));
    FT_TRY(check_range("batches in the body", p->body_batches, 0, p->n_batches, err));
    for (int e = 0; e < p->n_edges; e++)
        if (ft_edge_check(&p->edges[e], e, p->n_stages, err) != FT_OK) {
            ft_error_wrap(err, "plan");
            return ft_plan_at_line(p->edge_line ? p->edge_line[e] : 0, err);
        }
    return FT_OK;
}

static ft_status check_item(const ft_plan *p, int device, const ft_action *a, ft_error *err)
{
    ft_item_kind kind = ft_action_item(a->kind);
    char name[FT_ACTION_TEXT];
    if (kind == FT_ITEM_CLASS && (a->item < 0 || a->item >= FT_MEMORY_CLASSES))
        return ft_fail(err, FT_INVALID, "plan: device %d: %s moves memory class %d of %d", device,
                       ft_action_text(name, a), a->item, FT_MEMORY_CLASSES);
    if (kind == FT_ITEM_PLACE && (a->item < 0 || a->item > 1))
        return ft_fail(err, FT_INVALID, "plan: device %d: %s works in place %d, expected 0 or 1",
                       device, ft_action_text(name, a), a->item);
    if (kind != FT_ITEM_EDGE) return FT_OK;
    ft_action_text(name, a);
    if (a->item < 0 || a->item >= p->n_edges)
        return ft_fail(err, FT_INVALID, "plan: device %d: %s names edge %d of %d", device, name,
                       a->item, p->n_edges);
    const ft_edge *e = &p->edges[a->item];
    int end = a->kind == FT_ACT_SEND ? e->from : e->to;
    const int *first = p->replica_first;
    bool alone = first[e->from + 1] - first[e->from] == 1 && first[e->to + 1] - first[e->to] == 1;
    if (a->stage == end && ft_action_per_micro(e->from_kind) && (alone || ft_edge_stays(p, e)))
        return FT_OK;
    return ft_fail(err, FT_INVALID,
                   "plan: device %d: %s names edge %c%d>%c%d, expected one that %s its stage, per "
                   "micro-batch, between stages without replicas or with the same",
                   device, name, ft_action_letter(e->from_kind), e->from,
                   ft_action_letter(e->to_kind), e->to,
                   a->kind == FT_ACT_SEND ? "leaves" : "reaches");
}

static ft_status check_place(const ft_seating *shares, int device, const ft_action *a,
                             int64_t index, ft_error *err)
{
    char name[FT_ACTION_TEXT];
    const ft_stage_share *s = &shares->of[a->stage];
    int seat = ft_seat_of(shares, a->stage, device);
    if (seat < 0)
        return ft_fail(err, FT_INVALID, "plan: device %d: %s belongs to device %d", device,
                       ft_action_text(name, a), shares->seat_device[s->first]);
    if (s->n == 1 || !ft_action_per_micro(a->kind)) return FT_OK;
    int its = s->first + ft_share_replica(s, index);
    if (seat == its) return FT_OK;
    return ft_fail(err, FT_INVALID, "plan: device %d: %s belongs to the replica on device %d",
                   device, ft_action_text(name, a), shares->seat_device[its]);
}

static ft_status check_action(const ft_plan *p, const ft_seating *shares, int device,
                              const ft_action *a, int64_t last_batch, ft_error *err)
{
    if (a->kind >= FT_ACT_COUNT)
        return ft_fail(err, FT_INVALID, "plan: device %d has an action of kind %d, of %d", device,
                       a->kind, FT_ACT_COUNT);
    char name[FT_ACTION_TEXT];
    if (a->stage < 0 || a->stage >= p->n_stages)
        return ft_fail(err, FT_INVALID, "plan: device %d: %s names stage %d of %d", device,
                       ft_action_text(name, a), a->stage, p->n_stages);
    if (a->batch < 0 || last_batch >= p->n_batches)
        return ft_fail(err, FT_INVALID, "plan: device %d: %s reaches batch %lld of %d", device,
                       ft_action_text(name, a), (long long)(a->batch < 0 ? a->batch : last_batch),
                       p->n_batches);
    int micros = ft_action_per_micro(a->kind) ? p->micro_batches : 1;
    if (a->micro < 0 || a->micro >= micros)
        return ft_fail(err, FT_INVALID, "plan: device %d: %s names micro-batch %d of %d", device,
                       ft_action_text(name, a), a->micro, micros);
    FT_TRY(check_item(p, device, a, err));
    return check_place(shares, device, a, ft_action_index(p, a), err);
}

static ft_status check_list(const ft_plan *p, const ft_seating *shares, int device,
                            const ft_action_list *list, bool body, ft_error *err)
{
    if (list->n < 0)
        return ft_fail(err, FT_INVALID, "plan: device %d has a list of %d actions", device,
                       list->n);
    int64_t more = body && p->body_repeats ? (p->body_repeats - 1) * (int64_t)p->body_batches : 0;
    for (int i = 0; i < list->n; i++) {
        const ft_action *a = &list->actions[i];
        if (check_action(p, shares, device, a, a->batch + more, err) != FT_OK)
            return ft_plan_at_line(list->lines ? list->lines[i] : 0, err);
    }
    return FT_OK;
}

static ft_status check_stored(const ft_plan *p, const ft_seating *shares, ft_error *err)
{
    int64_t total = 0;
    for (int d = 0; d < p->n_devices; d++) {
        FT_TRY(check_list(p, shares, d, &p->devices[d].warmup, false, err));
        FT_TRY(check_list(p, shares, d, &p->devices[d].body, true, err));
        FT_TRY(check_list(p, shares, d, &p->devices[d].drain, false, err));
        total += ft_plan_length(p, d);
        FT_TRY(check_range("actions", total, 0, FT_PLAN_MAX_ACTIONS, err));
    }
    return FT_OK;
}

/* -- all of it --------------------------------------------------------------------------------- */

/* Sizes and lists by themselves; gives the shares that everything else needs. */
static ft_status check_ranges(const ft_plan *p, ft_seating *shares, ft_arena *arena, ft_error *err)
{
    FT_TRY(check_sizes(p, err));
    FT_TRY(ft_seating_of_plan(shares, arena, p, err));
    FT_TRY(ft_turns_check(p, shares, arena, err));
    return check_stored(p, shares, err);
}

/* What follows from the lists, into `out`; without it, whether they are what the plan says. */
static ft_status go_through(const ft_plan *plan, const ft_seating *shares, const ft_derived *out,
                            bool *is_steady, ft_arena *arena, ft_error *err)
{
    if (out) return proof_measure(plan, shares, is_steady, arena, out, err);
    FT_TRY(proof_check_order(plan, shares, is_steady, arena, err));
    return proof_check_ties(plan, shares, arena, err);
}

/* Goes through few repetitions, and through all where these do not speak for them. */
static ft_status check(const ft_plan *plan, const ft_derived *out, bool walks, ft_error *err)
{
    ft_seating shares;
    ft_status status;
    const ft_plan *few;
    bool is_steady = false;
    ft_arena *arena = ft_arena_new();
    if (!arena) return ft_fail(err, FT_NOMEM, "plan: no memory to check it");
    FT_GO(check_ranges(plan, &shares, arena, err));
    FT_GO(proof_shorten(&few, plan, arena, err));
    status = go_through(few, &shares, out, &is_steady, arena, err);
    if (few != plan && (status != FT_OK || !is_steady))
        status = go_through(plan, &shares, out, &is_steady, arena, err);
    if (status == FT_OK && walks) FT_GO(ft_plan_walk(plan, &shares, 0, arena, err));
done:
    ft_arena_free(arena);
    return status;
}

ft_status ft_plan_derive(const ft_plan *plan, const ft_derived *out, ft_error *err)
{
    return check(plan, out, false, err);
}

ft_status ft_plan_batch_slots(const ft_plan *plan, int least, int *out, ft_error *err)
{
    ft_seating shares;
    ft_status status;
    ft_arena *arena = ft_arena_new();
    if (!arena) return ft_fail(err, FT_NOMEM, "plan: no memory to walk it");
    FT_GO(ft_seating_of_plan(&shares, arena, plan, err));
    *out = least < 1 ? 1 : least;
    while (*out < plan->n_batches) {
        status = ft_plan_walk(plan, &shares, *out, arena, err);
        if (status != FT_INFEASIBLE) goto done;
        *out *= 2;
    }
    *out = plan->n_batches; /* then none waits for another to end */
    status = FT_OK;
done:
    ft_arena_free(arena);
    return status;
}

ft_status ft_plan_check_lists(const ft_plan *plan, ft_error *err)
{
    return check(plan, NULL, false, err);
}

ft_status ft_plan_check(const ft_plan *plan, ft_error *err)
{
    return check(plan, NULL, true, err);
}
