/* edges/remote.c - edges between devices of two processes.
 *
 * The maker leaves a value in a slot of its own, which is sent from there and lands in the slot of
 * the same number at the receiver; when that slot is free again, the maker is told. So both have
 * the counters of an edge as they are in one process, and the same slots hold the pipeline up.
 * What passes through memory where an edge carries nothing, norms and failures of a batch, is
 * written down in its message. */
#include <string.h>

#include "edges/channels.h"
#include "edges/edges.h"
#include "edges/remote.h"
#include "state/batches.h"
#include "state/here.h"
#include "state/ledger.h"

/* What an edge without cargo brings: the first failure of the batch that the sender knows, and the
 * squared norms of what the sending seat owns. */
typedef struct note {
    int64_t order;
    ft_error failure;
    double squared[];
} note;

static bool sends(const ft_run *run, int e)
{
    return rank_of_seat(run, run->blueprint->edges[e].from) == run->rank;
}

static const ft_stage_share *share_of(const ft_blueprint *b, int seat)
{
    return &b->seating.of[b->seats[seat].stage];
}

/* -- notes ------------------------------------------------------------------------------------- */

static int64_t note_bytes(const ft_blueprint *b, int e)
{
    const ft_seat_layout *from = &b->seats[b->edges[e].from];
    int64_t n = 0;
    for (int i = 0; i < from->n_params; i++) n += from->params[i].owned;
    return (int64_t)sizeof(note) + n * (int64_t)sizeof(double);
}

static void write_note(ft_run *run, int e, int64_t batch, note *out)
{
    const ft_blueprint *b = run->blueprint;
    const ft_seat_layout *from = &b->seats[b->edges[e].from];
    const batch_state *state = batch_of(run, batch);
    int n = 0;
    pthread_mutex_lock(&run->error_lock);
    out->order = state->failure_order;
    out->failure = state->failure;
    pthread_mutex_unlock(&run->error_lock);
    for (int i = 0; b->norms && i < from->n_params; i++)
        if (from->params[i].owned)
            out->squared[n++] = norms_of(run, batch)[from->params[i].param].squared;
}

static void read_note(ft_run *run, int e, int64_t batch, const note *in)
{
    const ft_blueprint *b = run->blueprint;
    const ft_seat_layout *from = &b->seats[b->edges[e].from];
    int n = 0;
    note_failure(run, batch, &in->failure, in->order);
    for (int i = 0; b->norms && i < from->n_params; i++) {
        if (!from->params[i].owned) continue;
        double *at = &norms_of(run, batch)[from->params[i].param].squared;
        const double *said = &in->squared[n++];
        /* The same may be said to a second seat here when the first one reads it. */
        if (memcmp(at, said, sizeof *at) != 0) *at = *said;
    }
}

/* -- slots ------------------------------------------------------------------------------------- */

static bool is_note(const ft_run *run, int e)
{
    return run->blueprint->cargoes[e].kind == FT_CARGO_NOTHING;
}

static int64_t slot_bytes(const ft_run *run, int e)
{
    return is_note(run, e) ? ft_memory_round(note_bytes(run->blueprint, e))
                           : run->blueprint->cargoes[e].slot_bytes;
}

/* Where a slot is, of those that begin there. */
static char *slot_in(const ft_run *run, int e, char *first, int64_t index)
{
    int n = run->blueprint->cargoes[e].rows[FT_ROW_EDGE].n;
    return first + index % n * slot_bytes(run, e);
}

/* The slot's number, of the edge's receiver, that the sender fills next after that one. */
static int64_t next_index(const ft_run *run, int e, int64_t after)
{
    const ft_blueprint *b = run->blueprint;
    const ft_edge *edge = &b->edges[e];
    const ft_stage_share *from = share_of(b, edge->from), *to = share_of(b, edge->to);
    int64_t index = after + b->cargoes[e].turns;
    if (!ft_action_per_micro(edge->to_kind) || from->n == 1) return index;
    int mine = b->seats[edge->from].replica, theirs = b->seats[edge->to].replica;
    while (ft_share_replica(from, ft_share_index(to, theirs, index)) != mine) index++;
    return index;
}

/* Where the receiver has the slot. */
static char *slot_at(const ft_run *run, int e, int64_t index)
{
    const ft_row *row = &run->blueprint->cargoes[e].rows[FT_ROW_EDGE];
    return slot_in(run, e, run->workers[row->device].block + row->base, index);
}

/* Where a message puts it; that memory of cards is not the host's. */
static char *landing_at(const ft_run *run, int e, int64_t index)
{
    char *first = run->edges[e].landing;
    return first ? slot_in(run, e, first, index) : slot_at(run, e, index);
}

/* Where it puts how much passes by a channel. */
static int64_t *told_at(const ft_run *run, int e, int64_t index)
{
    return &run->edges[e].passes[index % run->blueprint->cargoes[e].rows[FT_ROW_EDGE].n];
}

static bool lands_apart(const ft_run *run, int e)
{
    const ft_blueprint *b = run->blueprint;
    const ft_device *to = &b->cut.devices[b->seats[b->edges[e].to].device];
    return is_note(run, e) || !ft_device_kinds[to->kind].in_host;
}

/* -- messages ---------------------------------------------------------------------------------- */

static int tag_of(const ft_run *run, int e, bool credit)
{
    return run->first_tag + 2 * e + credit;
}

static int64_t bytes_of(const ft_run *run, int e, int batch)
{
    const ft_blueprint *b = run->blueprint;
    const ft_cargo *c = &b->cargoes[e];
    if (is_note(run, e)) return note_bytes(b, e);
    return c->bytes[cargo_bucket(run, e, batch)];
}

/* By a channel the message says how much passes. */
void remote_fill(worker *w, const ft_action *a, int e)
{
    ft_run *run = w->run;
    const edge_state *edge = &run->edges[e];
    int64_t bytes = bytes_of(run, e, a->batch);
    if (edge->channel) {
        ft_world_send(run->world, edge->peer, tag_of(run, e, false), &bytes, sizeof bytes, true);
        return;
    }
    char *box = slot_in(run, e, edge->box, ft_blueprint_slot_index(run->blueprint, e, a));
    if (is_note(run, e)) write_note(run, e, a->batch, (note *)(void *)box);
    ft_world_send(run->world, edge->peer, tag_of(run, e, false), box, bytes, false);
}

ft_status remote_take(const worker *w, ft_device_stream *stream, const ft_action *a, int e,
                      ft_error *err)
{
    const ft_run *run = w->run;
    int64_t index = ft_blueprint_slot_index(run->blueprint, e, a);
    char *slot = slot_at(run, e, index);
    if (!run->edges[e].landing || is_note(run, e)) return FT_OK;
    w->executor->driver->occupy(stream, slot, ft_place_room(slot_bytes(run, e)));
    return copy_on(stream, at_device(run, w->device, slot),
                   (ft_location){NULL, landing_at(run, e, index)}, bytes_of(run, e, a->batch), err);
}

/* The edges to one row's slots are among those of one edge of the plan, which stand together. */
static int end_of_row(const ft_blueprint *b, int slots_of)
{
    int e = slots_of;
    while (e < b->n_edges && b->cargoes[e].edge == b->cargoes[slots_of].edge) e++;
    return e;
}

void remote_free(const ft_run *run, int slots_of)
{
    int end = end_of_row(run->blueprint, slots_of);
    for (int e = slots_of; e < end; e++)
        if (run->edges[e].hears && run->blueprint->cargoes[e].slots_of == slots_of)
            ft_world_send(run->world, run->edges[e].peer, tag_of(run, slots_of, true), NULL, 0,
                          false);
}

static void *place(void *user, int from, int tag, int64_t bytes)
{
    ft_run *run = user;
    int e = (tag - run->first_tag) / 2;
    edge_state *edge = &run->edges[e];
    (void)from;
    (void)bytes;
    if ((tag - run->first_tag) % 2) return run; /* of no bytes */
    edge->placed = next_index(run, e, edge->placed);
    return edge->channel ? (void *)told_at(run, e, edge->placed)
                         : (void *)landing_at(run, e, edge->placed);
}

/* A slot of a row that some device here fills is free again. */
static void hear_credit(ft_run *run, int slots_of)
{
    ft_error error;
    edge_state *edge = &run->edges[slots_of];
    row_state *row = &edge->rows[FT_ROW_EDGE];
    if (ledger_hear(run, &row->slots, edge->credits++, &error) != FT_OK) run_stop(run, &error);
    ft_gate_open(&row->freed);
}

static void arrived(void *user, int from, int tag, int64_t bytes)
{
    ft_run *run = user;
    ft_error error;
    int e = (tag - run->first_tag) / 2;
    edge_state *edge = &run->edges[e];
    row_state *row = &edge->rows[FT_ROW_EDGE];
    (void)from;
    if ((tag - run->first_tag) % 2) {
        hear_credit(run, e);
        return;
    }
    edge->arrived = next_index(run, e, edge->arrived);
    if (is_note(run, e)) {
        read_note(run, e, edge->arrived, (const note *)(void *)landing_at(run, e, edge->arrived));
        bytes = 0;
    }
    pool *slots = &run->edges[run->blueprint->cargoes[e].slots_of].rows[FT_ROW_EDGE].slots;
    ft_status status = FT_OK;
    if (edge->channel) {
        bytes = *told_at(run, e, edge->arrived);
        char *slot = slot_at(run, e, edge->arrived);
        status = channel_receive(run, e, edge->arrived, slot, bytes, &error);
    }
    if (status == FT_OK) status = ledger_arrive(run, slots, edge->arrived, bytes, &error);
    if (status != FT_OK) run_stop(run, &error); /* and nobody takes it */
    if (status != FT_OK) return;
    ft_gate_open_by(&row->filled, (uint32_t)edge->arrived + 1 - ft_gate_count(&row->filled));
}

/* -- a run, a leg ------------------------------------------------------------------------------ */

/* Slots of the sender, and where messages land; slots in host memory. */
static int64_t box_bytes(const ft_run *run, int e)
{
    const ft_row *row = &run->blueprint->cargoes[e].rows[FT_ROW_EDGE];
    if (run->edges[e].channel) return 0;
    bool here = run->edges[e].peer >= 0 ? sends(run, e) || lands_apart(run, e)
                                        : row->at_home && is_here(run, row->device);
    return here ? ft_memory_round(row->n * slot_bytes(run, e)) : 0;
}

/* Edges that share a place share its boxes, where the first of them has some. */
static bool has_own_box(const ft_run *run, int e)
{
    const ft_cargo *c = &run->blueprint->cargoes[e];
    return c->turns == 1 || c->slots_of == e || !box_bytes(run, c->slots_of);
}

/* All boxes in one piece of host memory. */
static ft_status open_boxes(ft_run *run, ft_error *err)
{
    ft_executor *executor = run->workers[run->home].executor;
    void *boxes = NULL;
    int64_t at = 0;
    for (int e = 0; e < run->n_edges; e++)
        if (has_own_box(run, e)) run->boxes_bytes += box_bytes(run, e);
    if (!run->boxes_bytes) return FT_OK;
    FT_TRY(executor->driver->alloc(executor, FT_OF_HOST, run->boxes_bytes, &boxes, err));
    run->boxes = boxes;
    for (int e = 0; e < run->n_edges; e++) {
        int64_t bytes = box_bytes(run, e);
        edge_state *edge = &run->edges[e],
                   *first = &run->edges[run->blueprint->cargoes[e].slots_of];
        bool lands = edge->peer >= 0 && !sends(run, e), own = has_own_box(run, e);
        char *box = own ? run->boxes + at : lands ? first->landing : first->box;
        if (bytes) *(lands ? &edge->landing : &edge->box) = box;
        if (own) at += bytes;
    }
    return FT_OK;
}

/* Whether no edge before e is from the same process to the same row. */
static bool is_first_of_maker(const ft_run *run, int e)
{
    int slots_of = run->blueprint->cargoes[e].slots_of;
    for (int k = slots_of; k < e; k++)
        if (run->blueprint->cargoes[k].slots_of == slots_of && run->edges[k].hears &&
            run->edges[k].peer == run->edges[e].peer)
            return false;
    return true;
}

/* Whether an edge may have a channel: it is to another process, and they are allowed. */
static bool may_pass(const ft_run *run, int e)
{
    const ft_blueprint *b = run->blueprint;
    const ft_driver *from = b->cut.devices[b->seats[b->edges[e].from].device].driver;
    const ft_driver *to = b->cut.devices[b->seats[b->edges[e].to].device].driver;
    return run->transport != FT_NO_CHANNELS &&
           rank_of_seat(run, b->edges[e].from) != rank_of_seat(run, b->edges[e].to) &&
           !is_note(run, e) && from && from == to && from->name_channel;
}

bool remotes_meet_first(const ft_run *run)
{
    bool some = false;
    for (int e = 0; run->world && e < run->n_edges; e++) some = some || may_pass(run, e);
    return some;
}

static ft_status open_edges(ft_run *run, ft_error *err)
{
    for (int e = 0; e < run->n_edges; e++)
        if (run->edges[e].peer >= 0 && !run->edges[e].channel)
            run->edges[run->blueprint->cargoes[e].slots_of].awaits = true;
    FT_TRY(open_boxes(run, err));
    remotes_reset(run);
    if (!run->world) return FT_OK;
    const ft_receiver receiver = {run->first_tag, 2 * run->n_edges, run, place, arrived};
    return ft_world_listen(run->world, &receiver, err);
}

ft_status remotes_open(ft_run *run, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    for (int e = 0; e < b->n_edges; e++) {
        int from = rank_of_seat(run, b->edges[e].from), to = rank_of_seat(run, b->edges[e].to);
        run->edges[e].peer = -1;
        if (from == to || (from != run->rank && to != run->rank)) continue;
        run->edges[e].peer = from == run->rank ? to : from;
        if (to != run->rank) continue;
        run->edges[b->cargoes[e].slots_of].tells = true;
        run->edges[e].hears = is_first_of_maker(run, e);
    }
    run->first_tag = FT_EDGE_TAGS + (run->trains ? 2 * run->trains->n_edges : 0);
    return remotes_meet_first(run) ? FT_OK : open_edges(run, err);
}

/* In the order of the edges, which all processes have; after a failure, too, of which the others
 * hear. */
ft_status remotes_meet(ft_run *run, ft_error *err)
{
    ft_error failure = {FT_OK, ""};
    for (int e = 0; e < run->n_edges; e++)
        if (run->edges[e].peer >= 0 && may_pass(run, e))
            FT_TRY(channel_open(run, e, tag_of(run, e, true), sends(run, e), &failure, err));
    if (failure.status == FT_OK) return open_edges(run, err);
    *err = failure;
    return failure.status;
}

void remotes_close(ft_run *run)
{
    if (run->world) ft_world_forget(run->world, run);
    for (int e = 0; run->edges && e < run->n_edges; e++) channel_close(&run->edges[e]);
    if (!run->boxes) return;
    ft_executor *executor = run->workers[run->home].executor;
    executor->driver->release(executor, FT_OF_HOST, run->boxes, run->boxes_bytes);
}

void remotes_reset(ft_run *run)
{
    for (int e = 0; e < run->n_edges; e++) {
        const ft_cargo *c = &run->blueprint->cargoes[e];
        run->edges[e].placed = run->edges[e].arrived = c->turn - c->turns;
        run->edges[e].credits = 0;
    }
}

/* Slots that the receiver of an edge hands out in so many batches. */
static int64_t fills_of(const ft_blueprint *b, int e, int64_t batches)
{
    if (!ft_action_per_micro(b->edges[e].to_kind)) return batches * b->cargoes[e].turns;
    return batches * share_of(b, b->edges[e].to)->per_batch;
}

ft_status remotes_settle(ft_run *run, int64_t batches, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    for (int e = 0; run->world && e < b->n_edges; e++) {
        if (run->edges[e].peer < 0 || !sends(run, e)) continue;
        ft_gate *freed = &run->edges[b->cargoes[e].slots_of].rows[FT_ROW_EDGE].freed;
        uint32_t wanted = (uint32_t)fills_of(b, e, batches);
        bool met;
        FT_TRY(ft_world_await(run->world, freed, wanted, &run->stop, -1, &met, err));
        if (!met) return FT_OK; /* slots of a leg that failed stay taken */
    }
    return FT_OK;
}
