/* state/swap.c - activations that leave a device for host memory and come back: actions O, L and
 * D.
 *
 * What moves are those of one micro-batch, between its forward and the end of its backward. Where
 * they lie is in the plan, by stay; they have a home in host memory of their device and are copied
 * on its stream in or out, beside what is computed. What touches them waits until their newest copy
 * has ended, and nothing else does. Classes that move as a whole are in units.c. */
#include "base/alloc.h"
#include "state/here.h"

/* A micro-batch under way; the ones whose number is larger by a multiple of the window follow it.
 */
typedef struct micro_state {
    char *home;
    ft_device_event *mark;  /* of compute: all is as it was when the copy was submitted */
    ft_device_event *moved; /* of its newest copy */
    bool has_moved;
    int stay; /* the newest */
} micro_state;

struct seat_swaps {
    micro_state *micros; /* by number, modulo the seat's window */
    int window;
    char *homes; /* all of them */
    int64_t home_bytes;
};

/* -- around a leg ------------------------------------------------------------------------------ */

static ft_status open_swaps(ft_run *run, int s, ft_error *err)
{
    const ft_seat_layout *seat = &run->blueprint->seats[s];
    ft_executor *executor = run->workers[seat->device].executor;
    struct seat_swaps *w = ft_alloc(sizeof *w);
    run->seats[s].swaps = w;
    if (w) w->micros = ft_alloc(seat->window * (int64_t)sizeof *w->micros);
    if (!w || !w->micros)
        return ft_fail(err, FT_NOMEM, "engine: no memory for the swaps of stage %d",
                       plan_stage(run, s));
    w->window = seat->window;
    w->home_bytes = seat->window * seat->slot_bytes;
    void *homes = NULL;
    FT_TRY(executor->driver->alloc(executor, FT_OF_HOST, w->home_bytes, &homes, err));
    w->homes = homes;
    for (int i = 0; i < w->window; i++) {
        micro_state *m = &w->micros[i];
        m->home = w->homes + i * seat->slot_bytes;
        FT_TRY(executor->driver->open_event(&m->mark, executor, err));
        FT_TRY(executor->driver->open_event(&m->moved, executor, err));
    }
    return FT_OK;
}

ft_status swaps_begin(ft_run *run, ft_error *err)
{
    for (int s = 0; s < run->n_seats; s++)
        if (seat_is_here(run, s) && run->blueprint->seats[s].window)
            FT_TRY(open_swaps(run, s, err));
    return FT_OK;
}

static void close_swaps(struct seat_swaps *w, ft_executor *executor)
{
    for (int i = 0; w->micros && i < w->window; i++) {
        if (w->micros[i].mark) executor->driver->close_event(w->micros[i].mark);
        if (w->micros[i].moved) executor->driver->close_event(w->micros[i].moved);
    }
    if (w->homes) executor->driver->release(executor, FT_OF_HOST, w->homes, w->home_bytes);
    ft_free(w->micros);
    ft_free(w);
}

void swaps_end(ft_run *run)
{
    for (int s = 0; s < run->n_seats; s++) {
        struct seat_swaps *swaps = run->seats[s].swaps;
        if (swaps) close_swaps(swaps, run->workers[run->blueprint->seats[s].device].executor);
        run->seats[s].swaps = NULL;
    }
}

/* -- actions ----------------------------------------------------------------------------------- */

static micro_state *micro_of(const ft_run *run, const ft_action *a)
{
    const struct seat_swaps *swaps = run->seats[a->seat].swaps;
    return &swaps->micros[ft_seat_index(&run->blueprint->seating, a) % swaps->window];
}

char *activations_at(const ft_run *run, const ft_action *a)
{
    const ft_blueprint *b = run->blueprint;
    const ft_seat_layout *seat = &b->seats[a->seat];
    char *block = run->workers[seat->device].block;
    if (seat->window) return block + b->stays.of[micro_of(run, a)->stay].at;
    int64_t slot = ft_seat_index(&b->seating, a) % seat->n_slots;
    return block + seat->slots_at + slot * seat->slot_bytes;
}

static ft_status settle(worker *w, const micro_state *m, ft_error *err)
{
    return m->has_moved ? wait_on(w, w->compute, m->moved, err) : FT_OK;
}

ft_status swaps_wait(worker *w, const ft_action *a, ft_error *err)
{
    bool makes = a->kind == FT_ACT_MAKE;
    if (ft_action_moves(a) && !makes) return FT_OK;
    FT_TRY(units_wait(w, a, err));
    if (makes || !w->run->seats[a->seat].swaps || !ft_action_per_micro(a->kind)) return FT_OK;
    micro_state *m = micro_of(w->run, a);
    if (a->kind != FT_ACT_FORWARD) return settle(w, m, err);
    m->has_moved = false;
    m->stay = a->stay;
    return room_wait(w, a->stay, w->compute, err);
}

/* The copy stream waits for what is computed so far and for the last copy of the same. */
static ft_status begin_move(const worker *w, micro_state *m, ft_device_stream *stream,
                            ft_error *err)
{
    const ft_driver *driver = stream->executor->driver;
    FT_TRY(driver->record(w->compute, m->mark, err));
    FT_TRY(driver->wait(stream, m->mark, err));
    return m->has_moved ? driver->wait(stream, m->moved, err) : FT_OK;
}

static ft_status end_move(micro_state *m, ft_device_stream *stream, ft_error *err)
{
    m->has_moved = true;
    return stream->executor->driver->record(stream, m->moved, err);
}

static int64_t room_of(const worker *w, const ft_action *a)
{
    return ft_place_room(w->run->blueprint->seats[a->seat].slot_bytes);
}

static ft_status micro_goes(worker *w, const ft_action *a, ft_error *err)
{
    micro_state *m = micro_of(w->run, a);
    ft_device_stream *stream = stream_of(w, a);
    const ft_location device = {w->executor, activations_at(w->run, a)}, host = {NULL, m->home};
    FT_TRY(begin_move(w, m, stream, err));
    FT_TRY(clock_begins(w, a, err));
    FT_TRY(copy_on(stream, host, device, room_of(w, a), err));
    w->carried = room_of(w, a);
    FT_TRY(clock_ends(w, a, err));
    w->executor->driver->vacate(stream, device.address, room_of(w, a));
    FT_TRY(room_leave(w, m->stay, stream, err));
    return end_move(m, stream, err);
}

static ft_status micro_comes(worker *w, const ft_action *a, ft_error *err)
{
    micro_state *m = micro_of(w->run, a);
    ft_device_stream *stream = stream_of(w, a);
    FT_TRY(begin_move(w, m, stream, err));
    FT_TRY(room_wait(w, a->stay, stream, err));
    m->stay = a->stay;
    const ft_location device = {w->executor, activations_at(w->run, a)}, host = {NULL, m->home};
    w->executor->driver->occupy(stream, device.address, room_of(w, a));
    FT_TRY(clock_begins(w, a, err));
    FT_TRY(copy_on(stream, device, host, room_of(w, a), err));
    w->carried = room_of(w, a);
    FT_TRY(clock_ends(w, a, err));
    return end_move(m, stream, err);
}

ft_status do_swap_out(worker *w, const ft_action *a, ft_error *err)
{
    return a->item == FT_MEMORY_ACTIVATIONS ? micro_goes(w, a, err) : unit_goes(w, a, err);
}

ft_status do_swap_in(worker *w, const ft_action *a, ft_error *err)
{
    return a->item == FT_MEMORY_ACTIVATIONS ? micro_comes(w, a, err) : unit_comes(w, a, err);
}

/* The host's copy is the one that counts again. */
ft_status do_drop(worker *w, const ft_action *a, ft_error *err)
{
    if (a->item != FT_MEMORY_ACTIVATIONS) return unit_is_dropped(w, a, err);
    FT_TRY(settle(w, micro_of(w->run, a), err));
    vacate(w, activations_at(w->run, a), room_of(w, a));
    return FT_OK;
}
