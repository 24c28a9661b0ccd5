/* engine/moves.c - what the engine asks of devices besides computing: streams, events, copies.
 *
 * The gates of an edge say what was submitted, its events what the streams of devices have to wait
 * for before they touch a slot. An event is recorded before its gate opens, so who has passed the
 * gate may wait for the event. */
#include <string.h>

#include "engine/internal.h"

/* -- streams and events ------------------------------------------------------------------------ */

static ft_status open_events(ft_run *run, ft_executor *executor, int n, ft_device_event ***out,
                             ft_error *err)
{
    *out = ft_arena_array(run->arena, n + 1, sizeof **out);
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
    return ((int64_t)b->batch_slots * b->n_params + 1) * (int64_t)sizeof(norm_cell);
}

ft_status moves_open(ft_run *run, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    for (int e = 0; e < b->n_edges; e++) {
        const ft_edge *edge = &b->edges[e];
        FT_TRY(open_events(run, run->workers[b->stages[edge->from].device].executor, edge->slots,
                           &run->edges[e].full, err));
        FT_TRY(open_events(run, run->workers[b->stages[edge->to].device].executor, edge->slots,
                           &run->edges[e].empty, err));
    }
    for (int s = 0; s < b->cut.n_stages; s++)
        FT_TRY(open_events(run, run->workers[b->stages[s].device].executor, b->batch_slots,
                           &run->stages[s].ended, err));
    ft_executor *first = run->workers[b->stages[0].device].executor;
    FT_TRY(open_events(run, first, b->batch_slots, &run->fed_events, err));
    void *norms = NULL;
    int64_t bytes = norm_bytes(b);
    FT_TRY(first->driver->alloc(first, FT_OF_HOST, bytes, &norms, err));
    run->norms = norms;
    run->norms_at = first;
    run->norms_bytes = bytes;
    return first->driver->open_stream(&run->feeder, first, FT_FOR_COMPUTE, err);
}

void moves_close(ft_run *run)
{
    if (run->feeder) run->feeder->executor->driver->close_stream(run->feeder);
    for (int e = 0; run->edges && e < run->n_edges; e++) {
        close_events(run->edges[e].full);
        close_events(run->edges[e].empty);
    }
    for (int s = 0; run->stages && s < run->n_stages; s++) close_events(run->stages[s].ended);
    close_events(run->fed_events);
    if (run->norms)
        run->norms_at->driver->release(run->norms_at, FT_OF_HOST, run->norms, run->norms_bytes);
}

/* -- orders ------------------------------------------------------------------------------------ */

static ft_status wait_on(ft_device_stream *stream, ft_device_event *event, ft_error *err)
{
    return stream->executor->driver->wait(stream, event, err);
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
    return (ft_location){run->workers[device].executor, (void *)(uintptr_t)address};
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

char *edge_slot(const ft_run *run, int e, int64_t index)
{
    const ft_blueprint *b = run->blueprint;
    const ft_edge *edge = &b->edges[e];
    char *block = run->workers[b->stages[edge->to].device].block;
    return block + b->cargoes[e].base + index % edge->slots * b->cargoes[e].slot_bytes;
}

ft_status begin_edges(worker *w, const ft_action *a, ft_error *err)
{
    ft_run *run = w->run;
    const ft_blueprint *b = run->blueprint;
    const ft_stage_layout *stage = &b->stages[a->stage];
    int64_t index = ft_action_index(run->plan, a);
    if (a->kind == FT_ACT_FORWARD || a->kind == FT_ACT_BACKWARD) /* reads the batch */
        FT_TRY(wait_on(w->compute, run->fed_events[a->batch % b->batch_slots], err));
    for (int i = 0; i < stage->n_in_edges[a->kind]; i++) {
        int e = stage->in_edges[a->kind][i];
        FT_TRY(wait_on(w->compute, run->edges[e].full[index % b->edges[e].slots], err));
    }
    for (int i = 0; i < stage->n_out_edges[a->kind]; i++) {
        int e = stage->out_edges[a->kind][i], slots = b->edges[e].slots;
        if (index >= slots) FT_TRY(wait_on(w->compute, run->edges[e].empty[index % slots], err));
        occupy(w, edge_slot(run, e, index), ft_place_room(b->cargoes[e].slot_bytes));
    }
    return FT_OK;
}

ft_status end_edges(worker *w, const ft_action *a, ft_error *err)
{
    ft_run *run = w->run;
    const ft_blueprint *b = run->blueprint;
    const ft_stage_layout *stage = &b->stages[a->stage];
    int64_t index = ft_action_index(run->plan, a);
    for (int i = 0; i < stage->n_in_edges[a->kind]; i++) {
        int e = stage->in_edges[a->kind][i];
        vacate(w, edge_slot(run, e, index), ft_place_room(b->cargoes[e].slot_bytes));
        FT_TRY(record_on(w->compute, run->edges[e].empty[index % b->edges[e].slots], err));
        ft_gate_open(&run->edges[e].freed);
    }
    for (int i = 0; i < stage->n_out_edges[a->kind]; i++) {
        int e = stage->out_edges[a->kind][i];
        FT_TRY(record_on(w->compute, run->edges[e].full[index % b->edges[e].slots], err));
        ft_gate_open(&run->edges[e].filled);
    }
    return FT_OK;
}

/* -- batches ----------------------------------------------------------------------------------- */

static char *batch_slot(const ft_run *run, int64_t batch)
{
    const ft_blueprint *b = run->blueprint;
    return run->workers[b->stages[0].device].block + b->batch_at +
           batch % b->batch_slots * b->batch_slot_bytes;
}

ft_status load_batch(ft_run *run, const ft_feed *feed, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    char *slot = batch_slot(run, run->fed);
    ft_executor *executor = run->feeder->executor;
    executor->driver->occupy(run->feeder, slot, ft_place_room(b->batch_slot_bytes));
    for (int i = 0; i < b->n_inputs; i++) {
        int64_t bytes = b->input_bytes[feed->bucket * b->n_inputs + i] * b->cut.micro_batches;
        FT_TRY(copy_on(run->feeder, (ft_location){executor, slot + b->input_at[i]},
                       (ft_location){NULL, feed->inputs[i].data}, bytes, err));
    }
    return record_on(run->feeder, run->fed_events[run->fed % b->batch_slots], err);
}

ft_status end_batch(worker *w, const ft_action *a, ft_error *err)
{
    const ft_run *run = w->run;
    return record_on(w->compute,
                     run->stages[a->stage].ended[a->batch % run->blueprint->batch_slots], err);
}

ft_status unload_batch(ft_run *run, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    for (int s = 0; s < b->cut.n_stages; s++) {
        ft_device_event *event = run->stages[s].ended[run->taken % b->batch_slots];
        FT_TRY(event->executor->driver->await(event, err));
    }
    run->feeder->executor->driver->vacate(run->feeder, batch_slot(run, run->taken),
                                          ft_place_room(b->batch_slot_bytes));
    return FT_OK;
}

ft_status finish_streams(ft_run *run, ft_error *err)
{
    FT_TRY(run->feeder->executor->driver->finish(run->feeder, err));
    for (int d = 0; d < run->n_devices; d++) {
        const worker *w = &run->workers[d];
        FT_TRY(w->executor->driver->finish(w->compute, err));
    }
    return FT_OK;
}
