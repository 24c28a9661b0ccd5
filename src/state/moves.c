/* state/moves.c - what the engine asks of devices besides computing: streams, events, copies.
 *
 * The gates of an edge say what was submitted, its events what the streams of devices have to wait
 * for before they touch a slot. An event is recorded before its gate opens, so who has passed the
 * gate may wait for the event. */
#include <string.h>

#include "state/remote.h"

/* -- streams and events ------------------------------------------------------------------------ */

static ft_status open_events(ft_run *run, ft_executor *executor, int n, ft_device_event ***out,
                             ft_error *err)
{
    *out = ft_arena_array(run->arena, n + 1, sizeof **out);
    if (*out && !executor) return FT_OK; /* of another process, which nobody here waits for */
    if (!*out) return ft_fail(err, FT_NOMEM, "engine: no memory for events");
    for (int i = 0; i < n; i++) FT_TRY(executor->driver->open_event(&(*out)[i], executor, err));
    return FT_OK;
}

static void close_events(ft_device_event **events)
{
    for (int i = 0; events && events[i]; i++) events[i]->executor->driver->close_event(events[i]);
}

static int64_t norm_bytes(const ft_blueprint *b)
{
    int64_t rows = (int64_t)b->norm_slots + b->seating.n_seats;
    return (rows * b->n_params + 1) * (int64_t)sizeof(norm_cell);
}

/* Events are of the device that records them. */
static ft_status open_row(ft_run *run, int e, int r, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    ft_executor *from = run->workers[b->seats[b->edges[e].from].device].executor;
    ft_executor *to = run->workers[b->seats[b->edges[e].to].device].executor;
    row_state *row = &run->edges[e].rows[r];
    int n = b->cargoes[e].rows[r].n;
    FT_TRY(open_events(run, r == FT_ROW_USED ? to : from, n, &row->full, err));
    return open_events(run, r == FT_ROW_MADE ? from : to, n, &row->empty, err);
}

/* Of a device: what batches come in by. */
static ft_status open_feeder(ft_run *run, int d, ft_error *err)
{
    worker *w = &run->workers[d];
    if (!is_here(run, d)) return FT_OK;
    FT_TRY(open_events(run, w->executor, run->blueprint->batch_slots, &w->fed, err));
    return w->executor->driver->open_stream(&w->feeder, w->executor, FT_FOR_COMPUTE, err);
}

ft_status moves_open(ft_run *run, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    for (int e = 0; e < b->n_edges; e++)
        for (int r = 0; r < FT_ROWS; r++) FT_TRY(open_row(run, e, r, err));
    for (int s = 0; s < b->seating.n_seats; s++)
        FT_TRY(open_events(run, run->workers[b->seats[s].device].executor, b->batch_slots,
                           &run->seats[s].ended, err));
    ft_executor *first = run->workers[run->home].executor;
    for (int d = 0; d < b->cut.n_devices; d++) FT_TRY(open_feeder(run, d, err));
    void *norms = NULL;
    int64_t bytes = norm_bytes(b);
    FT_TRY(first->driver->alloc(first, FT_OF_HOST, bytes, &norms, err));
    run->norms = norms;
    run->norms_at = first;
    run->norms_bytes = bytes;
    return FT_OK;
}

void moves_close(ft_run *run)
{
    for (int d = 0; run->workers && d < run->n_devices; d++) {
        ft_device_stream *feeder = run->workers[d].feeder;
        if (feeder) feeder->executor->driver->close_stream(feeder);
        close_events(run->workers[d].fed);
    }
    for (int e = 0; run->edges && e < run->n_edges; e++)
        for (int r = 0; r < FT_ROWS; r++) {
            close_events(run->edges[e].rows[r].full);
            close_events(run->edges[e].rows[r].empty);
        }
    for (int s = 0; run->seats && s < run->n_seats; s++) close_events(run->seats[s].ended);
    if (run->norms)
        run->norms_at->driver->release(run->norms_at, FT_OF_HOST, run->norms, run->norms_bytes);
}

/* -- streams of a leg -------------------------------------------------------------------------- */

static bool copies(const ft_action_list *list)
{
    for (int i = 0; i < list->n; i++)
        if (ft_action_stream(list->actions[i].kind) != FT_STREAM_COMPUTE) return true;
    return false;
}

ft_status copies_open(ft_run *run, ft_error *err)
{
    for (int d = 0; d < run->n_devices; d++) {
        worker *w = &run->workers[d];
        if (!is_here(run, d)) continue;
        const ft_device_plan *lists = &run->plan->devices[d];
        if (w->findings) FT_TRY(clock_open(w, FT_STREAM_COMPUTE, err));
        if (!copies(&lists->warmup) && !copies(&lists->body) && !copies(&lists->drain)) continue;
        for (int i = 0; i < 2; i++) {
            FT_TRY(
                w->executor->driver->open_stream(&w->copies[i], w->executor, FT_FOR_COPIES, err));
            FT_TRY(clock_open(w, i ? FT_STREAM_OUT : FT_STREAM_IN, err));
        }
    }
    return FT_OK;
}

void copies_close(ft_run *run)
{
    for (int d = 0; d < run->n_devices; d++) {
        if (run->workers[d].executor) clocks_close(&run->workers[d]);
        for (int i = 0; i < 2; i++) {
            ft_device_stream *stream = run->workers[d].copies[i];
            if (stream) stream->executor->driver->close_stream(stream);
            run->workers[d].copies[i] = NULL;
        }
    }
}

ft_device_stream *stream_of(const worker *w, const ft_action *a)
{
    ft_stream stream = ft_action_stream(a->kind);
    return stream == FT_STREAM_COMPUTE ? w->compute : w->copies[stream == FT_STREAM_OUT];
}

/* -- orders ------------------------------------------------------------------------------------ */

/* The stream waits for the event; where it computes, and the event is not over yet, notes what it
 * waits for. */
static ft_status wait_for(worker *w, ft_device_stream *stream, ft_device_event *event, ft_wait what,
                          int edge, ft_error *err)
{
    const ft_driver *driver = stream->executor->driver;
    if (stream == w->compute && driver->passed_ns(event) < 0) {
        w->wait = (uint8_t)what;
        w->wait_edge = edge;
    }
    return driver->wait(stream, event, err);
}

ft_status wait_on(worker *w, ft_device_stream *stream, ft_device_event *event, ft_error *err)
{
    return wait_for(w, stream, event, FT_WAIT_COPY, -1, err);
}

static ft_status record_on(ft_device_stream *stream, ft_device_event *event, ft_error *err)
{
    return stream->executor->driver->record(stream, event, err);
}

ft_status copy_on(ft_device_stream *stream, ft_location to, ft_location from, int64_t bytes,
                  ft_error *err)
{
    return stream->executor->driver->copy(stream, to, from, bytes, err);
}

ft_location at_device(const ft_run *run, int device, const void *address)
{
    const worker *w = &run->workers[device];
    uintptr_t at = (uintptr_t)address, begin = (uintptr_t)w->block;
    bool inside = at >= begin && at < begin + (uintptr_t)w->block_bytes;
    return (ft_location){inside ? w->executor : NULL, (void *)at};
}

void occupy(const worker *w, const void *address, int64_t bytes)
{
    if (bytes) w->executor->driver->occupy(w->compute, (void *)(uintptr_t)address, bytes);
}

void vacate(const worker *w, const void *address, int64_t bytes)
{
    if (bytes) w->executor->driver->vacate(w->compute, (void *)(uintptr_t)address, bytes);
}

ft_status compute(const worker *w, ft_plain_work *work, ft_error *err)
{
    return w->executor->driver->launch(w->compute, &ft_plain_task, work, err);
}

void touches(ft_plain_work *work, const void *address, int64_t bytes, bool writes)
{
    if (work->n_accesses == FT_MAX_ACCESSES || !bytes) return;
    work->accesses[work->n_accesses++] = (ft_access){address, bytes, true, writes};
}

/* -- edges ------------------------------------------------------------------------------------- */

char *row_place(const ft_run *run, ft_row_end at, const ft_action *a)
{
    const ft_cargo *c = &run->blueprint->cargoes[at.edge];
    const ft_row *row = &c->rows[at.row];
    int64_t index = ft_blueprint_slot_index(run->blueprint, at.edge, a);
    char *box = at.row == FT_ROW_EDGE ? run->edges[at.edge].box : NULL;
    char *first = box ? box : run->workers[row->device].block + row->base;
    return first + index % row->n * c->slot_bytes;
}

row_state *slots_row(const ft_run *run, ft_row_end at)
{
    int e = at.row == FT_ROW_EDGE ? run->blueprint->cargoes[at.edge].slots_of : at.edge;
    return &run->edges[e].rows[at.row];
}

static ft_status begin_filling(worker *w, const ft_action *a, ft_row_end at, ft_error *err)
{
    ft_device_stream *stream = stream_of(w, a);
    int64_t index = ft_blueprint_slot_index(w->run->blueprint, at.edge, a);
    const ft_cargo *c = &w->run->blueprint->cargoes[at.edge];
    int n = c->rows[at.row].n;
    ft_device_event *empty = slots_row(w->run, at)->empty[index % n]; /* NULL: a credit came */
    bool copied = at.row == FT_ROW_MADE || c->rows[FT_ROW_USED].n;    /* out of it */
    ft_wait what = copied ? FT_WAIT_COPY : FT_WAIT_SLOT;
    if (index >= n && empty) FT_TRY(wait_for(w, stream, empty, what, c->edge, err));
    if (c->slot_bytes && !c->rows[at.row].at_home)
        w->executor->driver->occupy(stream, row_place(w->run, at, a), ft_place_room(c->slot_bytes));
    return FT_OK;
}

static ft_status begin_taking(worker *w, const ft_action *a, ft_error *err)
{
    ft_run *run = w->run;
    const ft_blueprint *b = run->blueprint;
    ft_row_end at;
    for (int i = 0; ft_blueprint_takes(b, a, i, &at); i++) {
        const row_state *row = &run->edges[at.edge].rows[at.row];
        const ft_cargo *c = &b->cargoes[at.edge];
        int64_t index = ft_blueprint_slot_index(b, at.edge, a);
        ft_device_event *full = row->full[index % row->slots.n];       /* NULL: a message came */
        bool copied = at.row == FT_ROW_USED || c->rows[FT_ROW_MADE].n; /* into it */
        ft_wait what = copied ? FT_WAIT_COPY : FT_WAIT_DATA;
        if (full) FT_TRY(wait_for(w, stream_of(w, a), full, what, c->edge, err));
    }
    return FT_OK;
}

ft_status begin_edges(worker *w, const ft_action *a, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    ft_row_end at;
    ft_action part = *a;
    if (b->seats[a->seat].nodes[a->kind] && b->blocks[w->device].batch_slot_bytes)
        FT_TRY(wait_for(w, w->compute, w->fed[a->batch % b->batch_slots], FT_WAIT_BATCH, -1, err));
    for (int n = ft_blueprint_joint(b, a); n > 0; n--, part.micro++)
        FT_TRY(begin_taking(w, &part, err));
    for (int i = 0; ft_blueprint_fills(b, a, i, &at); i++) FT_TRY(begin_filling(w, a, at, err));
    return FT_OK;
}

static ft_status await(ft_device_event *event, ft_error *err)
{
    return event->executor->driver->await(event, err);
}

/* A slot is free when what read it has ended. */
static ft_status pass_credit(const ft_run *run, ft_row_end at, ft_device_event *empty,
                             ft_error *err)
{
    int slots_of = run->blueprint->cargoes[at.edge].slots_of;
    if (at.row != FT_ROW_EDGE || !run->edges[slots_of].tells) return FT_OK;
    FT_TRY(await(empty, err));
    remote_free(run, slots_of);
    return FT_OK;
}

ft_status end_edges(worker *w, const ft_action *a, ft_error *err)
{
    ft_run *run = w->run;
    const ft_blueprint *b = run->blueprint;
    ft_device_stream *stream = stream_of(w, a);
    ft_row_end at;
    for (int i = 0; ft_blueprint_takes(b, a, i, &at); i++) {
        row_state *row = slots_row(run, at);
        int64_t index = ft_blueprint_slot_index(b, at.edge, a);
        const ft_cargo *c = &b->cargoes[at.edge];
        int64_t bytes = c->rows[at.row].at_home ? 0 : ft_place_room(c->slot_bytes);
        if (bytes) w->executor->driver->vacate(stream, row_place(run, at, a), bytes);
        FT_TRY(record_on(stream, row->empty[index % row->slots.n], err));
        if (run->world) FT_TRY(pass_credit(run, at, row->empty[index % row->slots.n], err));
        ft_gate_open(&row->freed);
    }
    int bucket = run->batches[a->batch % b->batch_slots].bucket;
    for (int i = 0; ft_blueprint_fills(b, a, i, &at); i++) {
        row_state *row = &run->edges[at.edge].rows[at.row];
        w->carried += ft_blueprint_sent(b, at, bucket);
        int64_t index = ft_blueprint_slot_index(b, at.edge, a);
        FT_TRY(record_on(stream, row->full[index % row->slots.n], err));
        if (at.row == FT_ROW_EDGE && run->edges[at.edge].peer >= 0) {
            FT_TRY(await(row->full[index % row->slots.n], err));
            remote_fill(w, a, at.edge);
        }
        /* one further, or past what other replicas put into the same slots */
        ft_gate_open_by(&row->filled, (uint32_t)index + 1 - ft_gate_count(&row->filled));
    }
    return FT_OK;
}

ft_status do_pass(worker *w, const ft_action *a, ft_error *err)
{
    const ft_run *run = w->run;
    const ft_blueprint *b = run->blueprint;
    int bucket = run->batches[a->batch % b->batch_slots].bucket;
    ft_row_end from, to;
    ft_blueprint_takes(b, a, 0, &from);
    ft_blueprint_fills(b, a, 0, &to);
    const ft_cargo *c = &b->cargoes[to.edge];
    if (!c->bytes[bucket]) return FT_OK;
    if (c->rows[FT_ROW_EDGE].at_home) w->carried = c->load[bucket];
    FT_TRY(clock_begins(w, a, err));
    FT_TRY(copy_on(stream_of(w, a), at_device(run, c->rows[to.row].device, row_place(run, to, a)),
                   at_device(run, c->rows[from.row].device, row_place(run, from, a)),
                   c->bytes[bucket], err));
    return clock_ends(w, a, err);
}

/* -- batches ----------------------------------------------------------------------------------- */

char *batch_slot(const worker *w, int64_t batch)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_block_layout *block = &b->blocks[w->device];
    return w->block + block->batch_at + batch % b->batch_slots * block->batch_slot_bytes;
}

/* What seats on the device read of it. */
static ft_status load_inputs(const worker *w, const ft_feed *feed, ft_error *err)
{
    const ft_run *run = w->run;
    const ft_blueprint *b = run->blueprint;
    const ft_block_layout *block = &b->blocks[w->device];
    char *slot = batch_slot(w, run->fed);
    w->executor->driver->occupy(w->feeder, slot, ft_place_room(block->batch_slot_bytes));
    for (int i = 0; i < b->n_inputs; i++) {
        int64_t bytes = b->input_bytes[feed->bucket * b->n_inputs + i] * b->cut.micro_batches;
        if (block->input_at[i] < 0) continue;
        FT_TRY(copy_on(w->feeder, (ft_location){w->executor, slot + block->input_at[i]},
                       (ft_location){NULL, feed->inputs[i].data}, bytes, err));
    }
    return record_on(w->feeder, w->fed[run->fed % b->batch_slots], err);
}

/* Whether a device of this process has inputs. */
static bool is_fed(const ft_run *run, int d)
{
    return is_here(run, d) && run->blueprint->blocks[d].batch_slot_bytes;
}

ft_status load_batch(ft_run *run, const ft_feed *feed, ft_error *err)
{
    for (int d = 0; d < run->n_devices; d++)
        if (is_fed(run, d)) FT_TRY(load_inputs(&run->workers[d], feed, err));
    return FT_OK;
}

ft_status end_batch(worker *w, const ft_action *a, ft_error *err)
{
    const ft_run *run = w->run;
    return record_on(w->compute, run->seats[a->seat].ended[a->batch % run->blueprint->batch_slots],
                     err);
}

ft_status unload_batch(ft_run *run, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    for (int s = 0; s < b->seating.n_seats; s++) {
        ft_device_event *event = run->seats[s].ended[run->taken % b->batch_slots];
        if (!event) continue; /* of another process */
        FT_TRY(event->executor->driver->await(event, err));
    }
    for (int d = 0; d < run->n_devices; d++) {
        const worker *w = &run->workers[d];
        if (!is_fed(run, d)) continue;
        w->executor->driver->vacate(w->feeder, batch_slot(w, run->taken),
                                    ft_place_room(b->blocks[d].batch_slot_bytes));
    }
    return FT_OK;
}

static void finish(ft_device_stream *stream, ft_status *status, ft_error *err)
{
    if (!stream) return;
    ft_status now = stream->executor->driver->finish(stream, *status == FT_OK ? err : NULL);
    if (*status == FT_OK) *status = now;
}

ft_status finish_streams(ft_run *run, ft_error *err)
{
    ft_status status = FT_OK;
    for (int d = 0; d < run->n_devices; d++) {
        const worker *w = &run->workers[d];
        finish(w->feeder, &status, err);
        finish(w->compute, &status, err);
        finish(w->copies[0], &status, err);
        finish(w->copies[1], &status, err);
    }
    return status;
}
