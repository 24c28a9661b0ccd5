/* state/swap.c - activations that leave a device for host memory and come back: actions O, L and
 * D.
 *
 * What moves is the slot of one micro-batch. It has a home in host memory of its device and is
 * copied on the device's stream in or out, beside what is computed. A slot's `moved` is passed when
 * its newest copy has ended: what touches the slot waits for it, and nothing else does. Classes
 * that move as a whole are in units.c. */
#include "base/alloc.h"
#include "state/run.h"

typedef struct slot_state {
    ft_device_event *mark;  /* of compute: the slot is as it was when the copy was submitted */
    ft_device_event *moved; /* of a copy */
    bool has_moved;
} slot_state;

/* The home of one micro-batch's activations. */
typedef struct berth {
    char *home;
    ft_device_event *read; /* its newest copy back */
    bool was_read;
    int64_t holder; /* index of the micro-batch, and one more; 0: free */
} berth;

struct stage_swaps {
    slot_state *slots; /* by slot of activations */
    berth *berths;
    int n_slots, n_berths;
    char *homes; /* all of them */
    int64_t home_bytes;
};

/* -- what a leg needs -------------------------------------------------------------------------- */

bool is_swap(const ft_action *a)
{
    return a->kind == FT_ACT_SWAP_OUT || a->kind == FT_ACT_SWAP_IN || a->kind == FT_ACT_DROP;
}

/* Micro-batches whose activations are in host memory at once, at most; -1: none moves. */
static int most_out(const ft_plan *plan, int s)
{
    int out = 0, most = -1, device = plan->device[s];
    for (int64_t i = 0; i < ft_plan_length(plan, device); i++) {
        ft_action a = ft_plan_at(plan, device, i);
        if (a.stage != s || !is_swap(&a) || a.item != FT_MEMORY_ACTIVATIONS) continue;
        out += a.kind == FT_ACT_SWAP_OUT ? 1 : a.kind == FT_ACT_SWAP_IN ? -1 : 0;
        if (out > most) most = out;
    }
    return most;
}

static ft_status open_slot(slot_state *u, ft_executor *executor, ft_error *err)
{
    FT_TRY(executor->driver->open_event(&u->mark, executor, err));
    return executor->driver->open_event(&u->moved, executor, err);
}

static ft_status open_swaps(ft_run *run, int s, int n_berths, ft_error *err)
{
    const ft_stage_layout *stage = &run->blueprint->stages[s];
    ft_executor *executor = run->workers[stage->device].executor;
    struct stage_swaps *w = ft_alloc(sizeof *w);
    run->stages[s].swaps = w;
    if (!w) return ft_fail(err, FT_NOMEM, "engine: no memory for the swaps of stage %d", s);
    int n_slots = run->stages[s].slots.n;
    w->slots = ft_alloc(n_slots * (int64_t)sizeof *w->slots);
    w->berths = ft_alloc((n_berths + 1) * (int64_t)sizeof *w->berths);
    if (!w->slots || !w->berths)
        return ft_fail(err, FT_NOMEM, "engine: no memory for the swaps of stage %d", s);
    w->n_slots = n_slots;
    w->n_berths = n_berths;
    w->home_bytes = 1 + n_berths * stage->slot_bytes;
    void *homes = NULL;
    FT_TRY(executor->driver->alloc(executor, FT_OF_HOST, w->home_bytes, &homes, err));
    w->homes = homes;
    for (int i = 0; i < n_berths; i++) {
        w->berths[i].home = w->homes + i * stage->slot_bytes;
        FT_TRY(executor->driver->open_event(&w->berths[i].read, executor, err));
    }
    for (int i = 0; i < n_slots; i++) FT_TRY(open_slot(&w->slots[i], executor, err));
    return FT_OK;
}

ft_status swaps_begin(ft_run *run, ft_error *err)
{
    const ft_plan *plan = run->plan;
    for (int s = 0; s < plan->n_stages; s++) {
        int most = most_out(plan, s);
        if (most >= 0) FT_TRY(open_swaps(run, s, most, err));
    }
    return FT_OK;
}

static void close_slot(slot_state *u)
{
    if (u->mark) u->mark->executor->driver->close_event(u->mark);
    if (u->moved) u->moved->executor->driver->close_event(u->moved);
}

static void close_swaps(struct stage_swaps *w, ft_executor *executor)
{
    for (int i = 0; i < w->n_slots; i++) close_slot(&w->slots[i]);
    for (int i = 0; i < w->n_berths; i++)
        if (w->berths[i].read) executor->driver->close_event(w->berths[i].read);
    if (w->homes) executor->driver->release(executor, FT_OF_HOST, w->homes, w->home_bytes);
    ft_free(w->slots);
    ft_free(w->berths);
    ft_free(w);
}

void swaps_end(ft_run *run)
{
    for (int s = 0; s < run->n_stages; s++) {
        struct stage_swaps *swaps = run->stages[s].swaps;
        if (swaps) close_swaps(swaps, run->workers[run->blueprint->stages[s].device].executor);
        run->stages[s].swaps = NULL;
    }
}

/* -- actions ----------------------------------------------------------------------------------- */

static slot_state *slot_unit(const worker *w, const ft_action *a)
{
    struct stage_swaps *swaps = w->run->stages[a->stage].swaps;
    return &swaps->slots[ft_action_index(w->run->plan, a) % swaps->n_slots];
}

static ft_status settle(worker *w, const slot_state *u, ft_error *err)
{
    return u->has_moved ? wait_on(w, w->compute, u->moved, err) : FT_OK;
}

ft_status swaps_wait(worker *w, const ft_action *a, ft_error *err)
{
    if (is_swap(a)) return FT_OK;
    FT_TRY(units_wait(w, a, err));
    if (!w->run->stages[a->stage].swaps || !ft_action_per_micro(a->kind)) return FT_OK;
    return settle(w, slot_unit(w, a), err);
}

static berth *find_berth(struct stage_swaps *swaps, int64_t holder)
{
    for (int i = 0; i < swaps->n_berths; i++)
        if (swaps->berths[i].holder == holder) return &swaps->berths[i];
    return NULL;
}

/* The copy stream waits for what is computed so far and for the unit's last copy. */
static ft_status begin_move(const worker *w, slot_state *u, ft_device_stream *stream, ft_error *err)
{
    const ft_driver *driver = stream->executor->driver;
    FT_TRY(driver->record(w->compute, u->mark, err));
    FT_TRY(driver->wait(stream, u->mark, err));
    return u->has_moved ? driver->wait(stream, u->moved, err) : FT_OK;
}

static ft_status end_move(slot_state *u, ft_device_stream *stream, ft_error *err)
{
    u->has_moved = true;
    return stream->executor->driver->record(stream, u->moved, err);
}

static char *slot_at(const worker *w, const ft_action *a)
{
    const ft_run *run = w->run;
    const ft_stage_layout *stage = &run->blueprint->stages[a->stage];
    int64_t slot = ft_action_index(run->plan, a) % run->stages[a->stage].slots.n;
    return w->block + stage->slots_at + slot * stage->slot_bytes;
}

static ft_status move_slot(worker *w, const ft_action *a, bool out, ft_error *err)
{
    struct stage_swaps *swaps = w->run->stages[a->stage].swaps;
    const ft_driver *driver = w->executor->driver;
    int64_t bytes = ft_place_room(w->run->blueprint->stages[a->stage].slot_bytes);
    int64_t holder = ft_action_index(w->run->plan, a) + 1;
    ft_device_stream *stream = w->copies[out];
    slot_state *u = slot_unit(w, a);
    berth *b = find_berth(swaps, out ? 0 : holder);
    if (!b)
        return ft_fail(err, FT_INVALID, "engine: stage %d has no home for activations", a->stage);
    const ft_location device = {w->executor, slot_at(w, a)}, host = {NULL, b->home};
    FT_TRY(begin_move(w, u, stream, err));
    if (out && b->was_read) FT_TRY(driver->wait(stream, b->read, err));
    if (!out) driver->occupy(stream, device.address, bytes);
    FT_TRY(copy_on(stream, out ? host : device, out ? device : host, bytes, err));
    if (out) driver->vacate(stream, device.address, bytes);
    if (!out) FT_TRY(driver->record(stream, b->read, err));
    b->was_read = b->was_read || !out;
    b->holder = out ? holder : 0;
    return end_move(u, stream, err);
}

ft_status do_swap_out(worker *w, const ft_action *a, ft_error *err)
{
    return a->item == FT_MEMORY_ACTIVATIONS ? move_slot(w, a, true, err) : unit_goes(w, a, err);
}

ft_status do_swap_in(worker *w, const ft_action *a, ft_error *err)
{
    return a->item == FT_MEMORY_ACTIVATIONS ? move_slot(w, a, false, err) : unit_comes(w, a, err);
}

/* The host's copy is the one that counts again. */
ft_status do_drop(worker *w, const ft_action *a, ft_error *err)
{
    if (a->item != FT_MEMORY_ACTIVATIONS) return unit_is_dropped(w, a, err);
    FT_TRY(settle(w, slot_unit(w, a), err));
    vacate(w, slot_at(w, a), ft_place_room(w->run->blueprint->stages[a->stage].slot_bytes));
    return FT_OK;
}
