/* residency/moves.c - lists with their moves, and what these copy. */
#include "residency/internal.h"

static ft_status no_memory(ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "residency: no memory");
}

/* -- the list ---------------------------------------------------------------------------------- */

static ft_action move_of(const item *i, ft_action_kind kind, int batch, int micro)
{
    return (ft_action){.kind = (uint16_t)kind,
                       .stage = (int16_t)i->stage,
                       .item = (int16_t)i->class,
                       .batch = batch,
                       .micro = micro};
}

/* Stays by a moment of theirs: numbers[first[at]] ... are those of action `at`. */
typedef struct index {
    int64_t *first, *numbers;
} index;

static ft_status index_stays(planner *p, index *out, bool by_end, ft_error *err)
{
    int64_t *first = ft_arena_array(p->arena, p->n + 2, sizeof *first);
    int64_t *numbers = ft_arena_array(p->arena, p->n_stays + 1, sizeof *numbers);
    if (!first || !numbers) return no_memory(err);
    for (int64_t k = 0; k < p->n_stays; k++)
        first[(by_end ? p->stays[k].end : p->stays[k].begin) + 1]++;
    for (int64_t at = 0; at < p->n; at++) first[at + 1] += first[at];
    for (int64_t k = p->n_stays - 1; k >= 0; k--) {
        int64_t at = by_end ? p->stays[k].end : p->stays[k].begin;
        numbers[--first[at + 1]] = k;
    }
    /* each bound has moved to where its own begin; shift it back */
    for (int64_t at = 0; at < p->n; at++) first[at] = first[at + 1];
    first[p->n] = p->n_stays;
    *out = (index){first, numbers};
    return FT_OK;
}

/* A move away has the batch of something that still comes, or of what brought it: a leg that leaves
 * out one leaves out the other. */
static ft_status label(planner *p, ft_error *err)
{
    int *least = ft_arena_array(p->arena, p->n + 1, sizeof *least);
    if (!least) return no_memory(err);
    least[p->n] = 0;
    for (int64_t at = p->n - 1; at >= 0; at--) {
        least[at] = p->list[at].batch;
        if (at + 1 < p->n && least[at + 1] < least[at]) least[at] = least[at + 1];
    }
    for (int64_t k = 0; k < p->n_stays; k++) {
        stay *s = &p->stays[k];
        s->until_batch = least[s->end + 1] > s->from_batch ? least[s->end + 1] : s->from_batch;
        if (s->end + 1 == p->n || p->items[s->item].class == FT_MEMORY_ACTIVATIONS)
            s->until_batch = s->from_batch;
    }
    return FT_OK;
}

/* Moves of the kind that bring what the action at `at` is the first to need; returns how many. */
static int write_begins(const planner *p, const index *begins, int64_t at, ft_action_kind kind,
                        ft_action *to)
{
    int n = 0;
    for (int64_t k = begins->first[at]; k < begins->first[at + 1]; k++) {
        const stay *s = &p->stays[begins->numbers[k]];
        const item *i = &p->items[s->item];
        if (kind == FT_ACT_MAKE ? i->is_made : s->is_loaded)
            to[n++] = move_of(i, kind, s->from_batch, s->micro);
    }
    return n;
}

ft_status residency_write(planner *p, ft_action_list *out, ft_error *err)
{
    index begins, ends;
    int64_t n = 0;
    FT_TRY(label(p, err));
    FT_TRY(index_stays(p, &begins, false, err));
    FT_TRY(index_stays(p, &ends, true, err));
    int64_t passes;
    FT_TRY(residency_find_passes(p, &passes, err));
    ft_action *to = ft_arena_array(p->arena, p->n + 2 * p->n_stays + passes + 1, sizeof *to);
    if (!to) return no_memory(err);
    for (int64_t at = 0; at < p->n; at++) {
        n += residency_write_passes(p, at, false, to + n);
        n += write_begins(p, &begins, at, FT_ACT_SWAP_IN, to + n);
        n += write_begins(p, &begins, at, FT_ACT_MAKE, to + n); /* of what the loads bring */
        to[n++] = p->list[at];
        n += residency_write_passes(p, at, true, to + n);
        for (int64_t k = ends.first[at]; k < ends.first[at + 1]; k++) {
            const stay *s = &p->stays[ends.numbers[k]];
            if (s->leaving == LEAVES_DEAD) continue;
            ft_action_kind kind = s->leaving == LEAVES_SAVED ? FT_ACT_SWAP_OUT : FT_ACT_DROP;
            to[n++] = move_of(&p->items[s->item], kind, s->until_batch, s->micro);
        }
    }
    *out = (ft_action_list){.n = (int)n, .actions = to};
    return FT_OK;
}

/* Micro-batches whose activations are on the device, at most, by stage. */
static void count_list(const ft_action_list *list, int *held, int *most)
{
    for (int i = 0; i < list->n; i++) {
        const ft_action *a = &list->actions[i];
        if (ft_action_moves(a) && a->item != FT_MEMORY_ACTIVATIONS) continue;
        if (a->kind == FT_ACT_FORWARD || a->kind == FT_ACT_SWAP_IN) held[a->stage]++;
        if (a->kind == FT_ACT_BACKWARD || a->kind == FT_ACT_BACKWARD_WEIGHT || ft_action_leaves(a))
            held[a->stage]--;
        if (held[a->stage] > most[a->stage]) most[a->stage] = held[a->stage];
    }
}

/* What is repeated more than twice, is as the second time. */
ft_status residency_count_held(ft_plan *plan, ft_error *err)
{
    int n = plan->n_stages;
    int *held = ft_arena_array(plan->arena, 2 * (int64_t)n, sizeof *held);
    if (!held) return no_memory(err);
    for (int d = 0; d < plan->n_devices; d++) {
        const ft_device_plan *lists = &plan->devices[d];
        count_list(&lists->warmup, held, held + n);
        for (int i = 0; i < 2 && i < plan->body_repeats; i++)
            count_list(&lists->body, held, held + n);
        count_list(&lists->drain, held, held + n);
    }
    if (!plan->forward_only) plan->in_flight = held + n;
    return FT_OK;
}

/* -- volumes ----------------------------------------------------------------------------------- */

static void note(ft_volume *v, const item *i, ft_action_kind kind)
{
    if (kind == FT_ACT_SWAP_IN) v->in[i->class] += i->bytes;
    if (kind == FT_ACT_SWAP_OUT) v->out[i->class] += i->bytes;
    *(kind == FT_ACT_SWAP_IN    ? &v->loads
      : kind == FT_ACT_SWAP_OUT ? &v->saves
      : kind == FT_ACT_MAKE     ? &v->makes
                                : &v->drops) += 1;
}

/* What a stage leaves another of the device, through host memory. */
static void note_pass(ft_volume *v, int64_t bytes, ft_stream stream)
{
    (stream == FT_STREAM_OUT ? v->out : v->in)[FT_MEMORY_BUFFERS] += bytes;
}

static void add_times(int64_t *to, int64_t by, int64_t times)
{
    *to += by * times;
}

/* What is copied by a device's list that is executed so often. */
static bool add_list(ft_volume *v, const ft_plan *plan, const ft_seating *seating, int device,
                     const ft_action_list *list, int64_t times,
                     const int64_t (*bytes)[FT_MEMORY_CLASSES])
{
    ft_volume once = {.loads = 0};
    for (int i = 0; i < list->n; i++) {
        const ft_action *a = &list->actions[i];
        int seat = ft_seat_of(seating, a->stage, device);
        if (ft_action_at_home(a)) once.updates_at_home++;
        if (ft_action_item(a->kind) == FT_ITEM_CLASS) {
            const item moved = {.class = a->item, .bytes = bytes[seat][a->item]};
            note(&once, &moved, a->kind);
        } else if (ft_action_item(a->kind) == FT_ITEM_EDGE &&
                   ft_edge_stays(plan, &plan->edges[a->item]))
            note_pass(&once, plan->edges[a->item].bytes, ft_action_stream(a->kind));
    }
    for (int c = 0; c < FT_MEMORY_CLASSES; c++) {
        add_times(&v->in[c], once.in[c], times);
        add_times(&v->out[c], once.out[c], times);
    }
    add_times(&v->loads, once.loads, times);
    add_times(&v->saves, once.saves, times);
    add_times(&v->drops, once.drops, times);
    add_times(&v->makes, once.makes, times);
    add_times(&v->updates_at_home, once.updates_at_home, times);
    return once.loads + once.saves + once.drops + once.in[FT_MEMORY_BUFFERS] > 0;
}

bool ft_plan_volumes(const ft_plan *plan, const ft_seating *seating,
                     const int64_t (*bytes)[FT_MEMORY_CLASSES], ft_volume *volumes)
{
    bool any = false;
    for (int d = 0; d < plan->n_devices; d++) {
        const ft_device_plan *lists = &plan->devices[d];
        volumes[d] = (ft_volume){.loads = 0};
        any |= add_list(&volumes[d], plan, seating, d, &lists->warmup, 1, bytes);
        any |= add_list(&volumes[d], plan, seating, d, &lists->body, plan->body_repeats, bytes);
        any |= add_list(&volumes[d], plan, seating, d, &lists->drain, 1, bytes);
    }
    return any;
}
