/* edges/edges.c - edges: who waits for which of their places, and how what passes gets there.
 *
 * The gates of an edge say what was submitted, its events what the streams of devices have to wait
 * for before they touch a slot. An event is recorded before its gate opens, so who has passed the
 * gate may wait for the event.
 *
 * What goes apart is copied on a stream for that alone. Values wait for it in places of their own;
 * gradient terms and weights stay where their seat has them, and what would change them waits. */
#include "edges/edges.h"

#include "edges/channels.h"
#include "edges/remote.h"
#include "state/slots.h"

/* Slots of what goes apart are filled beside the action's own stream. */
static ft_device_stream *filler_of(const worker *w, const ft_action *a, ft_row_end at)
{
    bool apart = at.row == FT_ROW_EDGE && w->run->blueprint->cargoes[at.edge].apart;
    return apart ? w->copies[COPY_APART] : stream_of(w, a);
}

static ft_status begin_filling(worker *w, const ft_action *a, ft_row_end at, ft_error *err)
{
    ft_device_stream *stream = filler_of(w, a, at);
    int64_t number = place_number(w->run, at, a);
    const ft_cargo *c = &w->run->blueprint->cargoes[at.edge];
    int n = c->rows[at.row].n;
    ft_device_event *empty = slots_row(w->run, at)->empty[number % n]; /* NULL: a credit came */
    bool copied = at.row == FT_ROW_MADE || c->rows[FT_ROW_USED].n;     /* out of it */
    ft_wait what = copied ? FT_WAIT_COPY : FT_WAIT_SLOT;
    if (number >= n && empty) FT_TRY(wait_for(w, stream, empty, what, c->edge, err));
    bool passed = at.row == FT_ROW_EDGE && w->run->edges[at.edge].channel; /* to memory elsewhere */
    if (c->slot_bytes && !c->rows[at.row].at_home && !passed)
        w->executor->driver->occupy(stream, row_place(w->run, at, a), ft_place_room(c->slot_bytes));
    return FT_OK;
}

static ft_status begin_taking(worker *w, ft_device_stream *stream, const ft_action *a,
                              ft_row_end at, ft_error *err)
{
    const row_state *row = &w->run->edges[at.edge].rows[at.row];
    const ft_cargo *c = &w->run->blueprint->cargoes[at.edge];
    int64_t number = place_number(w->run, at, a);
    ft_device_event *full = row->full[number % row->slots.n]; /* NULL: a message came */
    bool sent = c->rows[FT_ROW_MADE].n && !c->apart, copied = at.row == FT_ROW_USED || sent;
    ft_wait what = copied ? FT_WAIT_COPY : FT_WAIT_DATA; /* copied into it, by an action */
    if (full) return wait_for(w, stream, full, what, c->edge, err);
    return at.row == FT_ROW_EDGE ? remote_take(w, stream, a, at.edge, err) : FT_OK;
}

ft_status begin_sending(worker *w, int e, ft_device_stream **out, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    const seat_state *seat = &w->run->seats[b->edges[e].from];
    *out = w->compute;
    if (!b->cargoes[e].apart) return FT_OK;
    *out = w->copies[COPY_APART];
    FT_TRY(record_on(w->compute, seat->made, err));
    return wait_for(w, *out, seat->made, FT_WAIT_COPY, -1, err);
}

/* What was sent from where the seat has it is not to be changed yet. */
static ft_status note_leaving(worker *w, const ft_cargo *c, seat_state *seat, ft_error *err)
{
    static const unsigned classes[] = {
        [FT_CARGO_TERMS] = 1U << FT_MEMORY_GRADIENTS,
        [FT_CARGO_WEIGHTS] = 1U << FT_MEMORY_WEIGHTS | 1U << FT_MEMORY_OPTIMIZER,
        [FT_CARGO_NOTHING] = 0,
    };
    seat->leaving |= classes[c->kind];
    return record_on(w->copies[COPY_APART], seat->left, err);
}

/* What leaves is not changed or moved before it has gone. */
static ft_status wait_for_leaving(worker *w, const ft_action *a, ft_error *err)
{
    seat_state *seat = &w->run->seats[a->seat];
    unsigned changes = ft_action_at_home(a) ? ~0U : ft_action_writes(a);
    if (ft_action_item(a->kind) == FT_ITEM_CLASS) changes |= 1U << a->item;
    if (!(changes & seat->leaving)) return FT_OK;
    seat->leaving = 0; /* all of it: it went in one order */
    return wait_on(w, stream_of(w, a), seat->left, err);
}

ft_status begin_edges(worker *w, const ft_action *a, ft_error *err)
{
    const ft_run *run = w->run;
    const ft_blueprint *b = run->blueprint;
    ft_row_end at;
    ft_action part = *a;
    if (b->seats[a->seat].nodes[a->kind] && b->blocks[w->device].batch_slot_bytes)
        FT_TRY(wait_for(w, w->compute, w->fed[a->batch % b->batch_slots], FT_WAIT_BATCH, -1, err));
    FT_TRY(wait_for_leaving(w, a, err));
    for (int n = ft_blueprint_joint(b, a); n > 0; n--, part.micro++)
        for (int i = 0; ft_blueprint_takes(b, &part, i, &at); i++)
            FT_TRY(begin_taking(w, stream_of(w, a), &part, at, err));
    for (int i = 0; ft_blueprint_fills(b, a, i, &at); i++)
        FT_TRY(begin_filling(w, a, made_in(run, at), err));
    return FT_OK;
}

static ft_status await(ft_device_event *event, ft_error *err)
{
    return event->executor->driver->await(event, err);
}

/* A slot is free when what read it has ended; by a channel, what fills it waits for that. */
static ft_status pass_credit(const ft_run *run, ft_row_end at, ft_device_event *empty,
                             ft_error *err)
{
    int slots_of = run->blueprint->cargoes[at.edge].slots_of;
    if (at.row != FT_ROW_EDGE || !run->edges[slots_of].tells) return FT_OK;
    if (run->edges[slots_of].awaits) FT_TRY(await(empty, err));
    remote_free(run, slots_of);
    return FT_OK;
}

static ft_status end_taking(worker *w, ft_device_stream *stream, const ft_action *a, ft_row_end at,
                            ft_error *err)
{
    const ft_run *run = w->run;
    row_state *row = slots_row(run, at);
    const ft_cargo *c = &run->blueprint->cargoes[at.edge];
    int64_t bytes = c->rows[at.row].at_home ? 0 : ft_place_room(c->slot_bytes);
    ft_device_event *empty = row->empty[place_number(run, at, a) % row->slots.n];
    if (bytes) w->executor->driver->vacate(stream, row_place(run, at, a), bytes);
    FT_TRY(record_on(stream, empty, err));
    if (run->world) FT_TRY(pass_credit(run, at, empty, err));
    ft_gate_open(&row->freed);
    return FT_OK;
}

static ft_status end_filling(worker *w, const ft_action *a, ft_row_end at, ft_error *err)
{
    ft_run *run = w->run;
    row_state *row = &run->edges[at.edge].rows[at.row];
    w->carried += ft_blueprint_sent(run->blueprint, at, cargo_bucket(run, at.edge, a->batch));
    int64_t number = place_number(run, at, a);
    ft_device_event *full = row->full[number % row->slots.n];
    FT_TRY(record_on(filler_of(w, a, at), full, err));
    if (at.row == FT_ROW_EDGE && run->edges[at.edge].peer >= 0) {
        if (!run->edges[at.edge].channel) FT_TRY(await(full, err));
        remote_fill(w, a, at.edge);
    }
    /* one further, or past what other replicas put into the same slots */
    ft_gate_open_by(&row->filled, (uint32_t)number + 1 - ft_gate_count(&row->filled));
    return FT_OK;
}

/* The bytes of a row's place to that of another row of the edge. */
static ft_status copy_row(const worker *w, ft_device_stream *stream, const ft_action *a,
                          ft_row_end from, ft_row_end to, ft_error *err)
{
    const ft_run *run = w->run;
    const ft_cargo *c = &run->blueprint->cargoes[to.edge];
    return copy_on(stream, at_device(run, c->rows[to.row].device, row_place(run, to, a)),
                   at_device(run, c->rows[from.row].device, row_place(run, from, a)),
                   c->bytes[cargo_bucket(run, to.edge, a->batch)], err);
}

static ft_status send_row(const worker *w, ft_device_stream *stream, const ft_action *a,
                          ft_row_end from, ft_error *err)
{
    const ft_run *run = w->run;
    int bucket = cargo_bucket(run, from.edge, a->batch);
    int64_t bytes = run->blueprint->cargoes[from.edge].bytes[bucket];
    return channel_send(w, stream, from.edge, row_place(run, from, a), bytes, err);
}

/* What was made for another device goes there, beside what is computed next. */
static ft_status pass_on(worker *w, const ft_action *a, ft_row_end from, ft_row_end to,
                         ft_error *err)
{
    ft_device_stream *stream = w->copies[COPY_APART];
    FT_TRY(begin_taking(w, stream, a, from, err));
    FT_TRY(begin_filling(w, a, to, err));
    if (w->run->edges[to.edge].channel)
        FT_TRY(send_row(w, stream, a, from, err));
    else
        FT_TRY(copy_row(w, stream, a, from, to, err));
    return end_taking(w, stream, a, from, err);
}

ft_status end_edges(worker *w, const ft_action *a, ft_error *err)
{
    const ft_run *run = w->run;
    const ft_blueprint *b = run->blueprint;
    ft_row_end at;
    for (int i = 0; ft_blueprint_takes(b, a, i, &at); i++)
        FT_TRY(end_taking(w, stream_of(w, a), a, at, err));
    for (int i = 0; ft_blueprint_fills(b, a, i, &at); i++) {
        ft_row_end made = made_in(run, at);
        if (made.row != at.row) {
            FT_TRY(end_filling(w, a, made, err));
            FT_TRY(pass_on(w, a, made, at, err));
        } else if (b->cargoes[at.edge].apart)
            FT_TRY(note_leaving(w, &b->cargoes[at.edge], &w->run->seats[a->seat], err));
        FT_TRY(end_filling(w, a, at, err));
    }
    return FT_OK;
}

ft_status do_pass(worker *w, const ft_action *a, ft_error *err)
{
    const ft_run *run = w->run;
    const ft_blueprint *b = run->blueprint;
    ft_row_end from, to;
    ft_blueprint_takes(b, a, 0, &from);
    ft_blueprint_fills(b, a, 0, &to);
    int bucket = cargo_bucket(run, to.edge, a->batch);
    const ft_cargo *c = &b->cargoes[to.edge];
    if (!c->bytes[bucket]) return FT_OK;
    if (c->rows[FT_ROW_EDGE].at_home) w->carried = c->load[bucket];
    FT_TRY(clock_begins(w, a, err));
    FT_TRY(copy_row(w, stream_of(w, a), a, from, to, err));
    return clock_ends(w, a, err);
}
