/* state/moves.c - what the engine asks of devices besides computing: streams, events, copies. */
#include <string.h>

#include "state/here.h"

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

static ft_status open_seat(ft_run *run, int s, ft_error *err)
{
    seat_state *seat = &run->seats[s];
    ft_executor *x = run->workers[run->blueprint->seats[s].device].executor;
    FT_TRY(open_events(run, x, run->blueprint->batch_slots, &seat->ended, err));
    if (!x || !x->driver->passes_apart) return FT_OK;
    FT_TRY(x->driver->open_event(&seat->made, x, err));
    return x->driver->open_event(&seat->left, x, err);
}

static void close_seat(const seat_state *seat)
{
    close_events(seat->ended);
    if (seat->made) seat->made->executor->driver->close_event(seat->made);
    if (seat->left) seat->left->executor->driver->close_event(seat->left);
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
    for (int s = 0; s < b->seating.n_seats; s++) FT_TRY(open_seat(run, s, err));
    ft_executor *first = run->workers[run->home].executor;
    for (int d = 0; d < b->cut.n_devices; d++) FT_TRY(open_feeder(run, d, err));
    void *norms = NULL;
    int64_t rows = (int64_t)b->norm_slots + b->seating.n_seats;
    int64_t bytes = (rows * b->n_params + 1) * (int64_t)sizeof(norm_cell);
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
    for (int s = 0; run->seats && s < run->n_seats; s++) close_seat(&run->seats[s]);
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

static bool passes_apart(const ft_run *run, int d)
{
    const ft_blueprint *b = run->blueprint;
    for (int e = 0; e < b->n_edges; e++)
        if (b->cargoes[e].apart && b->seats[b->edges[e].from].device == d) return true;
    return false;
}

static ft_status open_copier(worker *w, int i, ft_error *err)
{
    return w->executor->driver->open_stream(&w->copies[i], w->executor, FT_FOR_COPIES, err);
}

ft_status copies_open(ft_run *run, ft_error *err)
{
    for (int d = 0; d < run->n_devices; d++) {
        worker *w = &run->workers[d];
        if (!is_here(run, d)) continue;
        const ft_device_plan *lists = &run->plan->devices[d];
        if (w->findings) FT_TRY(clock_open(w, FT_STREAM_COMPUTE, err));
        if (passes_apart(run, d)) FT_TRY(open_copier(w, COPY_APART, err));
        if (!copies(&lists->warmup) && !copies(&lists->body) && !copies(&lists->drain)) continue;
        for (int i = COPY_IN; i <= COPY_OUT; i++) {
            FT_TRY(open_copier(w, i, err));
            FT_TRY(clock_open(w, i == COPY_OUT ? FT_STREAM_OUT : FT_STREAM_IN, err));
        }
    }
    return FT_OK;
}

void copies_close(ft_run *run)
{
    for (int d = 0; d < run->n_devices; d++) {
        if (run->workers[d].executor) clocks_close(&run->workers[d]);
        for (int i = 0; i < COPIERS; i++) {
            ft_device_stream *stream = run->workers[d].copies[i];
            if (stream) stream->executor->driver->close_stream(stream);
            run->workers[d].copies[i] = NULL;
        }
    }
    for (int s = 0; s < run->n_seats; s++) run->seats[s].leaving = 0;
}

ft_device_stream *worker_stream(const worker *w, ft_stream stream)
{
    return stream == FT_STREAM_COMPUTE ? w->compute
                                       : w->copies[stream == FT_STREAM_OUT ? COPY_OUT : COPY_IN];
}

ft_device_stream *stream_of(const worker *w, const ft_action *a)
{
    return worker_stream(w, ft_action_stream(a->kind));
}

/* -- orders ------------------------------------------------------------------------------------ */

ft_status wait_for(worker *w, ft_device_stream *stream, ft_device_event *event, ft_wait what,
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

ft_status record_on(ft_device_stream *stream, ft_device_event *event, ft_error *err)
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
        for (int i = 0; i < COPIERS; i++) finish(w->copies[i], &status, err);
    }
    return status;
}
