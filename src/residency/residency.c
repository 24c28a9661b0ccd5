/* residency/residency.c - loads, saves and drops for an order of work.
 *
 * Devices one by one (stays.c), their lists with moves (moves.c). A leg is planned with as many
 * batches as its pattern needs to repeat, which the rest then follows. Where none is found, and the
 * leg is too long to be planned whole, devices begin every batch with nothing of what moves. */
#include "residency/internal.h"

#include "plan/making.h"
#include "proof/proof.h"

enum { MOST_ACTIONS = 1 << 20, SPAN = 12 }; /* a multiple of every period that a fold may have */

static ft_status no_memory(ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "residency: no memory");
}

/* -- a device ---------------------------------------------------------------------------------- */

static ft_status plan_device(const ft_residency *q, const ft_plan *plan, int d, bool anew,
                             ft_arena *arena, ft_action_list *out, ft_error *err)
{
    planner p = {
        .q = q, .plan = plan, .arena = arena, .device = d, .scope = q->scope, .anew = anew};
    int64_t all = 0;
    if (q->scope == FT_SCOPE_PLAN && q->early && q->early[d]) p.scope = FT_SCOPE_TASK;
    FT_TRY(residency_begin(&p, &all, err));
    *out = (ft_action_list){.n = (int)p.n, .actions = p.list};
    bool stays = all <= q->capacity[d] && p.scope == FT_SCOPE_PLAN && !q->updates_at_home;
    if (stays) return FT_OK; /* everything */
    FT_TRY(residency_find_uses(&p, err));
    FT_TRY(residency_find_stays(&p, err));
    if (p.scope == FT_SCOPE_PLAN) FT_TRY(residency_put_off(&p, err));
    FT_TRY(residency_hoist(&p, err));
    return residency_write(&p, out, err);
}

/* -- a plan ------------------------------------------------------------------------------------ */

static ft_status check_request(const ft_residency *q, ft_error *err)
{
    const ft_plan *p = q->plan;
    if (!(q->room >= 0 && q->room <= 1))
        return ft_fail(err, FT_INVALID, "room for loads ahead is %g, expected a share of 0 to 1",
                       q->room);
    for (int d = 0; d < p->n_devices; d++)
        if (p->by_policy[d])
            return ft_fail(err, FT_UNSUPPORTED,
                           "device %d chooses its order by policy: what it needs next is not known",
                           d);
    return FT_OK;
}

/* Whether most of n batches are the repeating middle: what repeats only now and then is no pattern.
 */
static bool is_steady(const ft_fold *f, int n)
{
    return f->repeats >= 3 && 2 * f->repeats * f->batches >= n;
}

/* Marks the devices of which one batch is not as the next. */
static ft_status mark_unsteady(bool *marks, const ft_action_list *lists, int n_devices, int n,
                               ft_arena *arena, ft_error *err)
{
    ft_fold f;
    for (int d = 0; d < n_devices; d++) {
        FT_TRY(ft_fold_find(&f, arena, 1, &lists[d], err));
        marks[d] = f.batches != 1 || !is_steady(&f, n);
    }
    return FT_OK;
}

/* Actions of a leg, on all devices. */
static int64_t length_of(const ft_plan *plan)
{
    int64_t length = 0;
    for (int d = 0; d < plan->n_devices; d++) length += ft_plan_length(plan, d);
    return length;
}

static ft_status check_length(const ft_plan *plan, ft_error *err)
{
    int64_t length = length_of(plan);
    if (length <= MOST_ACTIONS) return FT_OK;
    return ft_fail(err, FT_UNSUPPORTED,
                   "residency: an order of %lld actions that does not repeat is too long",
                   (long long)length);
}

/* Plans `n` batches, each begun with nothing on the devices that are marked in `anew`; NULL in *out
 * when there are more and these do not repeat: then those devices are marked in `unsteady` for
 * which this is so. The two may be one. */
static ft_status plan_batches(ft_plan **out, const ft_residency *q, int n, const bool *anew,
                              bool *unsteady, ft_arena *arena, ft_error *err)
{
    ft_plan *plan = NULL;
    ft_fold f;
    FT_TRY(ft_plan_cut(&plan, q->plan, n, err));
    ft_action_list *lists = ft_arena_array(arena, plan->n_devices, sizeof *lists);
    ft_status status = lists ? check_length(plan, err) : no_memory(err);
    for (int d = 0; d < plan->n_devices && status == FT_OK; d++)
        status = plan_device(q, plan, d, anew[d], arena, &lists[d], err);
    if (status == FT_OK) status = ft_fold_find(&f, arena, plan->n_devices, lists, err);
    int later = q->plan->n_batches - n;
    bool repeats = status == FT_OK && (!later || (is_steady(&f, n) && later % f.batches == 0));
    plan->n_batches += later;
    if (repeats && !ft_fold_write(plan, lists, &f, later)) status = no_memory(err);
    if (repeats && status == FT_OK) status = residency_count_held(plan, err);
    if (status == FT_OK && !repeats)
        status = mark_unsteady(unsteady, lists, plan->n_devices, n, arena, err);
    if (status == FT_OK && repeats)
        *out = plan;
    else
        ft_plan_free(plan);
    return status;
}

/* Few batches show the pattern of most legs; as many as there are stages that of the others. */
static ft_status plan_leg(ft_plan **out, const ft_residency *q, ft_arena *arena, ft_error *err)
{
    int n_devices = q->plan->n_devices, all = q->plan->n_batches, rest = all % SPAN;
    const int few = SPAN + rest, more = SPAN * (2 + q->plan->n_stages / SPAN) + rest;
    const bool too_long = length_of(q->plan) > MOST_ACTIONS;
    bool *none = ft_arena_array(arena, n_devices, sizeof *none);
    bool *unsteady = ft_arena_array(arena, n_devices, sizeof *unsteady);
    if (!none || !unsteady) return no_memory(err);
    if (few < all) FT_TRY(plan_batches(out, q, few, none, unsteady, arena, err));
    if (!*out && more < all) FT_TRY(plan_batches(out, q, more, none, unsteady, arena, err));
    if (!*out && more < all && too_long)
        FT_TRY(plan_batches(out, q, more, unsteady, unsteady, arena, err));
    if (*out) return FT_OK;
    return plan_batches(out, q, all, none, unsteady, arena, err);
}

ft_status ft_residency_plan(ft_plan **out, const ft_residency *q, ft_volume *volumes, ft_error *err)
{
    *out = NULL;
    FT_TRY(check_request(q, err));
    ft_arena *arena = ft_arena_new();
    if (!arena) return no_memory(err);
    ft_seating seating;
    ft_status status = ft_seating_of_plan(&seating, arena, q->plan, err);
    if (status == FT_OK) status = plan_leg(out, q, arena, err);
    if (status == FT_OK) ft_plan_volumes(*out, &seating, q->bytes, volumes);
    ft_arena_free(arena);
    return status;
}

ft_status ft_residency_least(const ft_residency *q, int64_t *least, ft_error *err)
{
    ft_arena *arena = ft_arena_new();
    ft_plan *one = NULL;
    ft_status status = arena ? ft_plan_cut(&one, q->plan, 1, err) : no_memory(err);
    for (int d = 0; status == FT_OK && d < one->n_devices; d++) {
        planner p = {.q = q, .plan = one, .arena = arena, .device = d};
        int64_t all = 0;
        status = residency_begin(&p, &all, err);
        if (status == FT_OK) status = residency_find_uses(&p, err);
        least[d] = p.least;
    }
    ft_plan_free(one);
    ft_arena_free(arena);
    return status;
}
