/* plan/fold.c - finds the part of a leg that repeats.
 *
 * With a period of b batches, action i + p of a device is action i moved by b batches, where p is
 * what the device does in b batches. Each device has its own longest stretch where that holds; all
 * must repeat the same number of times. The b that needs the fewest actions in writing wins. */
#include "plan/making.h"

enum { MOST_BATCHES = 4 };

/* A stretch of a device's list that repeats: from begin to before end. */
typedef struct stretch {
    int64_t begin, end, period;
} stretch;

static bool same_but_moved(const ft_action *a, const ft_action *b, int batches)
{
    return a->kind == b->kind && a->stage == b->stage && a->lag == b->lag && a->micro == b->micro &&
           a->item == b->item && a->stay == b->stay && a->batch + batches == b->batch;
}

/* Actions of the list that belong to a batch in its middle: as many as belong to any other, but for
 * moves of memory at both ends. */
static int64_t per_batch(const ft_action_list *list)
{
    int64_t n = 0;
    for (int i = 0; i < list->n; i++)
        n += list->actions[i].batch == list->actions[list->n / 2].batch;
    return n;
}

static stretch longest_stretch(const ft_action_list *list, int batches)
{
    stretch best = {.period = per_batch(list) * batches};
    int64_t begin = 0;
    for (int64_t i = 0; best.period && i + best.period < list->n; i++) {
        if (!same_but_moved(&list->actions[i], &list->actions[i + best.period], batches))
            begin = i + 1;
        else if (i + 1 + best.period - begin > best.end - best.begin) {
            best.begin = begin;
            best.end = i + 1 + best.period;
        }
    }
    return best;
}

/* Where the device begins a batch, at or after `from`; -1 when not before `until`. */
static int64_t batch_begin(const ft_action_list *list, int64_t from, int64_t until)
{
    int first_stage = list->actions[0].stage;
    for (int i = 1; i < list->n; i++)
        if (list->actions[i].stage < first_stage) first_stage = list->actions[i].stage;
    for (int64_t i = from; i <= until && i < list->n; i++) {
        const ft_action *a = &list->actions[i];
        if (a->kind == FT_ACT_FORWARD && a->stage == first_stage && a->micro == 0) return i;
    }
    return -1;
}

/* Starts every body where a batch begins, when all devices have the room; it reads better. */
static bool align(ft_fold *f, int n_devices, const ft_action_list *lists, const stretch *stretches,
                  int repeats)
{
    for (int d = 0; d < n_devices; d++) {
        const stretch *s = &stretches[d];
        f->start[d] = 0;
        if (!s->period) continue;
        f->start[d] = batch_begin(&lists[d], s->begin, s->end - repeats * s->period);
        if (f->start[d] < 0) return false;
    }
    f->repeats = repeats;
    return true;
}

/* The fold with a period of f->batches; returns how many actions it needs in writing. */
static int64_t try_period(ft_fold *f, int n_devices, const ft_action_list *lists,
                          stretch *stretches)
{
    int64_t repeats = INT32_MAX, total = 0, saved = 0;
    for (int d = 0; d < n_devices; d++) {
        stretches[d] = longest_stretch(&lists[d], f->batches);
        total += lists[d].n;
        f->length[d] = stretches[d].period;
        if (!stretches[d].period) continue;
        int64_t times = (stretches[d].end - stretches[d].begin) / stretches[d].period;
        if (times < repeats) repeats = times;
    }
    f->repeats = 0;
    if (repeats < 2 || repeats == INT32_MAX) return total;
    bool aligned = align(f, n_devices, lists, stretches, (int)repeats) ||
                   (repeats > 2 && align(f, n_devices, lists, stretches, (int)repeats - 1));
    if (!aligned) {
        f->repeats = (int)repeats;
        for (int d = 0; d < n_devices; d++) f->start[d] = stretches[d].begin;
    }
    for (int d = 0; d < n_devices; d++) saved += f->length[d] * (f->repeats - 1);
    return total - saved;
}

ft_status ft_fold_find(ft_fold *out, ft_arena *arena, int n_devices, const ft_action_list *lists,
                       ft_error *err)
{
    ft_fold best = {0}, f = {0};
    stretch *stretches = ft_arena_array(arena, n_devices, sizeof *stretches);
    int64_t *numbers = ft_arena_array(arena, 4 * (int64_t)n_devices, sizeof *numbers);
    if (!stretches || !numbers)
        return ft_fail(err, FT_NOMEM, "plan: no memory for %d devices", n_devices);
    f.start = numbers;
    f.length = numbers + n_devices;
    best.start = numbers + 2 * (int64_t)n_devices;
    best.length = numbers + 3 * (int64_t)n_devices;
    int64_t least = INT64_MAX;
    for (f.batches = 1; f.batches <= MOST_BATCHES; f.batches++) {
        int64_t written = try_period(&f, n_devices, lists, stretches);
        if (!f.repeats || written >= least) continue;
        least = written;
        best.batches = f.batches;
        best.repeats = f.repeats;
        for (int d = 0; d < n_devices; d++) {
            best.start[d] = f.start[d];
            best.length[d] = f.length[d];
        }
    }
    *out = best;
    return FT_OK;
}

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

bool ft_fold_write(ft_plan *plan, const ft_action_list *lists, const ft_fold *f, int later)
{
    ft_device_plan *devices = ft_arena_array(plan->arena, plan->n_devices, sizeof *devices);
    if (!devices) return false;
    for (int d = 0; d < plan->n_devices; d++) {
        const ft_action *actions = lists[d].actions;
        int64_t start = f->repeats ? f->start[d] : lists[d].n;
        int64_t length = f->repeats ? f->length[d] : 0;
        int64_t drain = start + length * f->repeats;
        if (!copy_list(plan->arena, &devices[d].warmup, actions, start, 0) ||
            !copy_list(plan->arena, &devices[d].body, actions + start, length, 0) ||
            !copy_list(plan->arena, &devices[d].drain, actions + drain, lists[d].n - drain, later))
            return false;
    }
    plan->devices = devices;
    plan->body_batches = f->repeats ? f->batches : 0;
    plan->body_repeats = f->repeats ? f->repeats + later / f->batches : 0;
    return true;
}
