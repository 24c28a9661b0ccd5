/* proof/repeats.c - a plan with fewer repetitions, and whether these speak for all. */
#include "proof/repeats.h"

#include <string.h>

#include "proof/internal.h"

/* -- a shorter plan ---------------------------------------------------------------------------- */

/* By how many batches lists reach into the leg before their body's second repetition, and how many
 * from its end they begin again behind the last but one. */
typedef struct reach {
    int64_t begin, end;
} reach;

static void reach_into(reach *r, const ft_plan *p, const ft_action_list *list, int64_t moved,
                       bool begins, bool ends)
{
    for (int i = 0; i < list->n; i++) {
        int64_t batch = list->actions[i].batch;
        if (begins && batch + 1 > r->begin) r->begin = batch + 1;
        if (ends && p->n_batches - (batch + moved) > r->end) r->end = p->n_batches - batch - moved;
    }
}

/* Repetitions with which each device is in its body for at least one that every other one is in,
 * of any two actions of one batch, and two more, by which steady states are known. */
static int64_t enough_repeats(const ft_plan *p)
{
    reach r = {0};
    int64_t last = (p->body_repeats - 1) * (int64_t)p->body_batches;
    for (int d = 0; d < p->n_devices; d++) {
        reach_into(&r, p, &p->devices[d].warmup, 0, true, false);
        reach_into(&r, p, &p->devices[d].body, last, true, true);
        reach_into(&r, p, &p->devices[d].drain, 0, false, true);
    }
    return (r.begin + r.end) / p->body_batches + 3;
}

static ft_status move_drain(ft_action_list *list, int64_t fewer, ft_arena *arena, ft_error *err)
{
    ft_action *actions = ft_arena_array(arena, list->n + 1, sizeof *actions);
    if (!actions) return ft_fail(err, FT_NOMEM, "plan: no memory for %d actions", list->n);
    for (int i = 0; i < list->n; i++) {
        actions[i] = list->actions[i];
        actions[i].batch -= (int32_t)fewer;
    }
    list->actions = actions;
    return FT_OK;
}

ft_status proof_shorten(const ft_plan **out, const ft_plan *plan, ft_arena *arena, ft_error *err)
{
    *out = plan;
    if (!plan->body_repeats || !plan->body_batches) return FT_OK;
    int64_t repeats = enough_repeats(plan);
    int64_t fewer = (plan->body_repeats - repeats) * (int64_t)plan->body_batches;
    if (fewer <= 0 || fewer >= plan->n_batches) return FT_OK;
    ft_plan *p = ft_arena_alloc(arena, sizeof *p);
    ft_device_plan *devices = ft_arena_array(arena, plan->n_devices, sizeof *devices);
    if (!p || !devices)
        return ft_fail(err, FT_NOMEM, "plan: no memory for %d devices", plan->n_devices);
    *p = *plan;
    p->n_batches -= (int)fewer;
    p->body_repeats = (int)repeats;
    p->devices = devices;
    for (int d = 0; d < plan->n_devices; d++) {
        devices[d] = plan->devices[d];
        FT_TRY(move_drain(&devices[d].drain, fewer, arena, err));
    }
    *out = p;
    return FT_OK;
}

/* -- states of seats --------------------------------------------------------------------------- */

int64_t proof_finished(const progress *s)
{
    return s->done[s->last];
}

/* Micro-batches that have gone forward and not all of the way back. */
static int64_t open_micros(const progress *s)
{
    return s->done[FT_ACT_FORWARD] - proof_finished(s);
}

static void *keep_open(ft_arena *arena, const progress *s, const void *by_micro, size_t size)
{
    if (!by_micro) return NULL;
    return ft_arena_copy(arena, (const char *)by_micro + (size_t)proof_finished(s) * size,
                         open_micros(s), (int64_t)size);
}

ft_status proof_keep_seats(seats_then *out, ft_arena *arena, const ft_seating *shares, int device,
                           const progress *seats, ft_error *err)
{
    out->n = 0;
    out->seats = ft_arena_array(arena, shares->n_seats + 1, sizeof *out->seats);
    for (int i = 0; out->seats && i < shares->n_seats; i++) {
        if (shares->seat_device[i] != device) continue;
        progress *s = &out->seats[out->n++];
        *s = seats[i];
        s->micros = keep_open(arena, &seats[i], seats[i].micros, sizeof *s->micros);
        s->lags = keep_open(arena, &seats[i], seats[i].lags, sizeof *s->lags);
        if ((seats[i].micros && !s->micros) || (seats[i].lags && !s->lags)) out->seats = NULL;
    }
    if (out->seats) return FT_OK;
    return ft_fail(err, FT_NOMEM, "plan: no memory for %d stages", shares->n_stages);
}

/* Whether `now` is what `then` was: all of it that does not only grow. */
static bool is_same(const progress *now, const progress *then)
{
    int64_t open = open_micros(now), first = proof_finished(now);
    if (open != open_micros(then) || now->held != then->held || now->are_dead != then->are_dead ||
        now->predicted != then->predicted || memcmp(now->at, then->at, sizeof now->at) != 0)
        return false;
    int64_t behind = first - now->attenuated;
    if (now->attenuates && behind != proof_finished(then) - then->attenuated) return false;
    if (now->micros && memcmp(now->micros + first, then->micros, (size_t)open)) return false;
    return !now->lags || !memcmp(now->lags + first, then->lags, (size_t)open * sizeof *now->lags);
}

bool proof_is_steady(const seats_then *then, const ft_seating *shares, int device,
                     const progress *seats)
{
    int n = 0;
    for (int i = 0; i < shares->n_seats; i++)
        if (shares->seat_device[i] == device && !is_same(&seats[i], &then->seats[n++]))
            return false;
    return true;
}
