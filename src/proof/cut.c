/* proof/cut.c - a short leg from a long one: its actions without those of later batches.
 *
 * Nothing that stays waits for anything that goes: edges join actions with the same number, so what
 * is missing leaves slots free only. In the middle of a long leg repetitions of the body stay what
 * they are; a leg that is short enough is written out and folded anew. */
#include "proof/internal.h"

#include <string.h>

enum { REFOLD_MOST = 1 << 20 }; /* actions that are written out to be folded */

static ft_status no_memory(ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "plan: no memory to cut it");
}

/* Which repetitions of the body stay. */
typedef struct kept {
    int n_batches;
    int64_t whole;   /* so many are complete, on every device */
    int64_t some;    /* so many have an action that stays, on some device */
    int64_t skipped; /* of the whole ones, behind the first two, are not written out */
} kept;

/* Whole and some for one action of the body. */
static void keep_repetitions(const ft_plan *p, const ft_action *a, kept *k)
{
    int64_t below = (int64_t)k->n_batches - a->batch, step = p->body_batches;
    int64_t n = below <= 0 ? 0 : step ? (below + step - 1) / step : p->body_repeats;
    if (n > p->body_repeats) n = p->body_repeats;
    if (n < k->whole) k->whole = n;
    if (n > k->some) k->some = n;
}

static kept find_kept(const ft_plan *p, int n_batches)
{
    kept k = {.n_batches = n_batches, .whole = p->body_repeats};
    int64_t length = 0;
    for (int d = 0; d < p->n_devices; d++) {
        const ft_device_plan *lists = &p->devices[d];
        for (int i = 0; i < lists->body.n; i++) keep_repetitions(p, &lists->body.actions[i], &k);
        length += lists->warmup.n + lists->drain.n;
    }
    for (int d = 0; d < p->n_devices; d++) length += p->devices[d].body.n * k.some;
    if (length > REFOLD_MOST && k.whole > 2 && k.some > 2 && p->body_batches)
        k.skipped = k.whole - 2;
    return k;
}

/* Appends what stays of the list, whose batches are `later` ones and, written, `earlier` ones. */
static void append(ft_action_list *out, ft_action *to, const ft_action_list *from, const kept *k,
                   int64_t later, int64_t earlier)
{
    for (int i = 0; i < from->n; i++) {
        int64_t batch = from->actions[i].batch + later;
        if (batch >= k->n_batches) continue;
        to[out->n] = from->actions[i];
        to[out->n++].batch = (int32_t)(batch - earlier);
    }
}

/* The device's list as it is written out; *warmup gets how much of it is warm-up. */
static bool cut_list(ft_arena *arena, const ft_plan *p, int device, const kept *k,
                     ft_action_list *out, int64_t *warmup)
{
    const ft_device_plan *lists = &p->devices[device];
    int64_t skipped = k->skipped, batches = p->body_batches;
    int64_t length = lists->warmup.n + lists->drain.n + lists->body.n * (k->some - skipped);
    ft_action *to = ft_arena_array(arena, length, sizeof *to);
    if (!to) return false;
    *out = (ft_action_list){.actions = to};
    append(out, to, &lists->warmup, k, 0, 0);
    *warmup = out->n;
    for (int64_t r = 0; r < k->some - skipped; r++) {
        int64_t earlier = r < 2 ? 0 : skipped * batches;
        append(out, to, &lists->body, k, r * batches + earlier, earlier);
    }
    append(out, to, &lists->drain, k, 0, skipped * batches);
    return true;
}

/* What is written out, and its fold: found, or, where repetitions are skipped, that of the plan. */
static ft_status cut_lists(const ft_plan *p, const kept *k, ft_arena *arena, ft_action_list **out,
                           ft_fold *f, ft_error *err)
{
    ft_action_list *lists = ft_arena_array(arena, p->n_devices, sizeof *lists);
    *f = (ft_fold){.batches = p->body_batches, .repeats = 2};
    f->start = ft_arena_array(arena, p->n_devices, sizeof *f->start);
    f->length = ft_arena_array(arena, p->n_devices, sizeof *f->length);
    if (!lists || !f->start || !f->length) return no_memory(err);
    *out = lists;
    for (int d = 0; d < p->n_devices; d++) {
        if (!cut_list(arena, p, d, k, &lists[d], &f->start[d])) return no_memory(err);
        f->length[d] = p->devices[d].body.n;
    }
    return k->skipped ? FT_OK : ft_fold_find(f, arena, p->n_devices, lists, err);
}

/* Everything but the lists. */
static bool copy_head(ft_plan *to, const ft_plan *from)
{
    ft_arena *arena = to->arena;
    *to = *from;
    to->arena = arena;
    int n = from->n_stages, seats = from->replica_first[n];
    to->device = ft_arena_copy(arena, from->device, n, sizeof(int));
    to->replica_first = ft_arena_copy(arena, from->replica_first, n + 1, sizeof(int));
    to->replica_device = ft_arena_copy(arena, from->replica_device, seats, sizeof(int));
    to->replica_rule = ft_arena_copy(arena, from->replica_rule, n, 1);
    to->reduce_bytes = ft_arena_copy(arena, from->reduce_bytes, n, sizeof(int64_t));
    to->stage_line = to->edge_line = NULL;
    to->by_policy = ft_arena_copy(arena, from->by_policy, from->n_devices, sizeof(bool));
    to->recompute = ft_arena_copy(arena, from->recompute, n, sizeof(bool));
    to->joint = ft_arena_copy(arena, from->joint, n, sizeof(int));
    to->edges = ft_arena_copy(arena, from->edges, from->n_edges, sizeof(ft_edge));
    if (from->n_nodes)
        to->node_stage = ft_arena_copy(arena, from->node_stage, from->n_nodes, sizeof(int));
    if (from->memory)
        to->memory = ft_arena_copy(arena, from->memory, from->n_devices, sizeof *from->memory);
    return to->device && to->replica_first && to->replica_device && to->replica_rule &&
           to->reduce_bytes && to->by_policy && to->recompute && to->joint && to->edges &&
           (to->node_stage || !from->n_nodes) && (to->memory || !from->memory);
}

/* In-flight numbers and versions as the lists need them. */
static ft_status measure(ft_plan *plan, ft_error *err)
{
    int n = plan->n_stages, *numbers = ft_arena_array(plan->arena, 3 * (int64_t)n, sizeof(int));
    if (!numbers) return no_memory(err);
    ft_derived found = {numbers, numbers + n, numbers + 2 * (int64_t)n};
    plan->depth = found.depth;
    plan->in_flight = found.in_flight;
    plan->versions = found.versions;
    return ft_plan_derive(plan, &found, err);
}

ft_status ft_plan_cut(ft_plan **out, const ft_plan *plan, int n_batches, ft_error *err)
{
    *out = NULL;
    if (n_batches < 1 || n_batches > plan->n_batches)
        return ft_fail(err, FT_INVALID,
                       "plan: %d batches of it, expected 1 to %d, for which it is drawn", n_batches,
                       plan->n_batches);
    ft_status status;
    ft_action_list *lists = NULL;
    ft_fold f;
    kept k = find_kept(plan, n_batches);
    ft_arena *arena = ft_arena_new();
    ft_plan *cut = ft_plan_new();
    if (!arena || !cut || !copy_head(cut, plan)) FT_GO(no_memory(err));
    cut->n_batches = n_batches;
    FT_GO(cut_lists(plan, &k, arena, &lists, &f, err));
    if (!ft_fold_write(cut, lists, &f, (int)(k.skipped * plan->body_batches)))
        FT_GO(no_memory(err));
    FT_GO(measure(cut, err));
    *out = cut;
    cut = NULL;
done:
    ft_plan_free(cut);
    ft_arena_free(arena);
    return status;
}
