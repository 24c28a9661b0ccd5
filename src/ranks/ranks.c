/* ranks/ranks.c - several processes: what rank 0 tells the others, and what they tell it.
 *
 * Rank 0 begins, feeds and ends legs; the others hear of it in the same order and do the same with
 * the devices that they have (engine/serve.c). When the seats of a process are done with a batch,
 * rank 0 hears what they know of it: losses, norms, failures, outputs, what their devices did. */
#include <stdio.h>
#include <string.h>

#include "blueprint/states.h"
#include "ranks/ranks.h"
#include "state/batches.h"
#include "state/late.h"
#include "ranks/outputs.h"
#include "edges/remote.h"
#include "state/here.h"

struct ranks {
    ft_run *run;
    int n_others; /* processes besides rank 0 that have seats of the run */
    int done_tag, failure_tag;
    char **slips; /* by rank: ring of what is said of batches */
    int64_t *slip_bytes;
    int64_t *placed, *heard; /* by rank: slips so far in this leg */
    /* At rank 0, by rank and parameter: whether it has a copy of what another seat owns; of its
     * state. */
    bool *copies, *state_copies;
    char *page;         /* at rank 0: room for what is said */
    bool begun;         /* others have other parameters than zeros */
    bool is_torn;       /* a leg was ended early, messages of it may be under way */
    bool is_over;       /* the others were told that the run is */
    ft_error *failures; /* by rank */
};

bool leads(const ft_run *run)
{
    return run->world && run->rank == 0;
}

static bool has_seats(const ft_run *run, int rank)
{
    for (int s = 0; s < run->n_seats; s++)
        if (rank_of_seat(run, s) == rank) return true;
    return false;
}

bool reads_input(const ft_run *run, int rank, int input)
{
    const ft_blueprint *b = run->blueprint;
    for (int d = 0; d < b->cut.n_devices; d++)
        if (b->cut.devices[d].rank == rank && b->blocks[d].input_at[input] >= 0) return true;
    return false;
}

int ranks_parts(const ft_run *run)
{
    int n = 0;
    for (int s = 0; s < run->n_seats; s++) n += seat_is_here(run, s);
    return n + (leads(run) ? run->ranks->n_others : 0);
}

/* -- what a process knows of a batch ----------------------------------------------------------- */

/* Bytes that are written or read one after the other; without `at` they are counted. */
typedef struct strip {
    char *at;
    int64_t bytes;
    bool reads; /* out of the strip */
} strip;

static void pass(strip *s, void *x, int64_t bytes)
{
    if (s->at && s->reads) memcpy(x, s->at + s->bytes, (size_t)bytes);
    if (s->at && !s->reads) memcpy(s->at + s->bytes, x, (size_t)bytes);
    s->bytes += bytes;
}

static void pass_number(strip *s, _Atomic int64_t *x)
{
    int64_t value = atomic_load_explicit(x, memory_order_relaxed);
    pass(s, &value, sizeof value);
    if (s->reads) atomic_store_explicit(x, value, memory_order_relaxed);
}

static void pass_devices(ft_run *run, int rank, strip *s)
{
    for (int d = 0; d < run->n_devices; d++) {
        worker *w = &run->workers[d];
        if (run->blueprint->cut.devices[d].rank != rank) continue;
        pass_number(s, &w->busy_ns);
        pass_number(s, &w->passed);
        for (int c = 0; c < LIVE_ROWS; c++) pass_number(s, &w->high[c]);
    }
}

static void pass_outputs(ft_run *run, int rank, int64_t ring, int bucket, strip *s)
{
    const ft_blueprint *b = run->blueprint;
    for (int i = 0; i < b->n_outputs; i++) {
        const ft_output_layout *out = &b->outputs[i];
        if (rank_of_seat(run, out->seat) != rank) continue;
        pass(s, part_at(run, i, ring), ft_blueprint_output_bytes(b, out, bucket) * out->micros);
    }
}

/* All that seats of that rank know of the batch: written by the rank, read by rank 0. */
static void pass_batch(ft_run *run, int rank, int64_t number, strip *s)
{
    const ft_blueprint *b = run->blueprint;
    batch_state *batch = batch_of(run, number);
    int64_t order = batch->failure_order, ring = number % b->batch_slots;
    ft_error failure = batch->failure;
    pass(s, &order, sizeof order);
    pass(s, &failure, sizeof failure);
    if (s->reads && s->at) note_failure(run, number, &failure, order);
    for (int i = 0; i < b->seating.n_seats; i++) {
        if (rank_of_seat(run, i) != rank) continue;
        const ft_stage_share *of = &b->seating.of[b->seats[i].stage];
        pass(s, &run->seats[i].losses[ring * of->per_batch],
             of->per_batch * (int64_t)sizeof(float));
        pass(s, &run->gaps[ring * run->n_seats + i], sizeof(double));
        if (i == b->norm_seat) pass(s, &batch->norm, sizeof batch->norm);
    }
    for (int p = 0; b->squares && !b->norms && p < b->n_params; p++)
        if (rank_of_seat(run, b->params[p].owner) == rank)
            pass(s, &norms_of(run, number)[p].squared, sizeof(double));
    pass_devices(run, rank, s);
    pass_outputs(run, rank, ring, s->at ? batch->bucket : b->cut.n_graphs - 1, s);
}

static char *slip_at(const ft_run *run, int rank, int64_t number)
{
    const struct ranks *r = run->ranks;
    return r->slips[rank] + number % run->blueprint->batch_slots * r->slip_bytes[rank];
}

void ranks_report(ft_run *run, int64_t number)
{
    char *slip = slip_at(run, run->rank, number);
    strip s = {slip, sizeof number, false};
    memcpy(slip, &number, sizeof number);
    pass_batch(run, run->rank, number, &s);
    ft_world_send(run->world, 0, run->ranks->done_tag, slip, s.bytes, false);
}

static void *place_slip(void *user, int from, int tag, int64_t bytes)
{
    struct ranks *r = user;
    (void)tag;
    (void)bytes;
    return slip_at(r->run, from, r->placed[from]++);
}

static void hear_slip(void *user, int from, int tag, int64_t bytes)
{
    struct ranks *r = user;
    int64_t number;
    (void)tag;
    (void)bytes;
    char *slip = slip_at(r->run, from, r->heard[from]++);
    memcpy(&number, slip, sizeof number);
    strip s = {slip, sizeof number, true};
    pass_batch(r->run, from, number, &s);
    if (atomic_fetch_sub(&batch_of(r->run, number)->seats_left, 1) == 1)
        complete_batch(r->run, number);
}

/* -- failures ---------------------------------------------------------------------------------- */

/* What all find in a batch, or are told by rank 0, it knows. */
void ranks_tell(ft_run *run, const ft_error *error)
{
    bool known = error->status == FT_CANCELLED || error->status == FT_DIVERGED;
    if (run->rank == 0 || known || ft_world_health(run->world, NULL) != FT_OK) return;
    ft_world_send(run->world, 0, run->ranks->failure_tag, error, sizeof *error, true);
}

static void *place_failure(void *user, int from, int tag, int64_t bytes)
{
    struct ranks *r = user;
    (void)tag;
    (void)bytes;
    return &r->failures[from];
}

static void hear_failure(void *user, int from, int tag, int64_t bytes)
{
    struct ranks *r = user;
    (void)tag;
    (void)bytes;
    ft_error failure = r->failures[from];
    ft_world_name(r->run->world, from, &failure);
    run_stop(r->run, &failure);
}

/* -- telling ----------------------------------------------------------------------------------- */

/* Room for what is said behind a control. */
static char *page_of(const ft_run *run)
{
    return run->ranks->page + sizeof(control);
}

/* With so many bytes of the page. */
static void say(const ft_run *run, int rank, control c, int64_t bytes)
{
    c.evaluates = run->trains != NULL;
    memcpy(run->ranks->page, &c, sizeof c);
    ft_world_send(run->world, rank, FT_TAG_CONTROL, run->ranks->page, (int64_t)sizeof c + bytes,
                  true);
}

static void say_all(const ft_run *run, control c)
{
    for (int rank = 1; rank < ft_world_size(run->world); rank++) say(run, rank, c, 0);
}

static ft_status hear_all(ft_run *run, void (*hear)(void *run, int rank, char *data), ft_error *err)
{
    return ft_world_take_replies(run->world, FT_TAG_REPLY, hear, run, err);
}

ft_status ranks_meet(ft_run *run, ft_error *err)
{
    ft_error later;
    if (!leads(run) || !remotes_meet_first(run)) return FT_OK;
    say_all(run, (control){.kind = SAY_MEET});
    ft_status status = remotes_meet(run, err);
    ft_status heard = hear_all(run, NULL, status == FT_OK ? err : &later);
    return status == FT_OK ? heard : status;
}

/* -- legs -------------------------------------------------------------------------------------- */

ft_status ranks_begin(ft_run *run, int64_t batches, int64_t first_step, ft_error *err)
{
    struct ranks *r = run->ranks;
    if (r->is_torn)
        return ft_fail(err, FT_INVALID, "a leg of several processes was ended early: begin anew");
    r->begun = true;
    for (int k = 0; k < ft_world_size(run->world); k++) r->placed[k] = r->heard[k] = 0;
    say_all(run, (control){.kind = SAY_BEGIN, .number = batches, .first_step = first_step});
    ft_status status = hear_all(run, NULL, err);
    if (status != FT_OK) {
        ranks_say_end(run, false);
        ranks_hear_end(run, NULL);
    }
    return status;
}

void ranks_say_end(ft_run *run, bool complete)
{
    run->ranks->is_torn = run->ranks->is_torn || !complete;
    if (run->trains) run->trains->ranks->is_torn = run->ranks->is_torn;
    if (run->evaluation) run->evaluation->ranks->is_torn = run->ranks->is_torn;
    say_all(run, (control){.kind = SAY_END, .number = complete});
}

/* Events, with times since rank 0 began. */
static void hear_events(void *user, int rank, char *data)
{
    ft_run *run = user;
    strip s = {data, 0, true};
    int64_t shift = 0, start_ns = 0, offset, error;
    pass(&s, &start_ns, sizeof start_ns);
    if (ft_world_clock(run->world, rank, &offset, &error))
        shift = start_ns - offset - run->start_ns;
    else
        error = -1;
    pass_devices(run, rank, &s);
    for (int d = 0; d < run->n_devices; d++) {
        worker *w = &run->workers[d];
        if (run->blueprint->cut.devices[d].rank != rank) continue;
        pass(&s, &w->allocations, sizeof w->allocations);
        run->timeline->clock_error_ns[d] = error;
        for (int k = 0; k < FT_STREAM_COUNT; k++) {
            pass_number(&s, &w->n_events[k]);
            int64_t n = atomic_load(&w->n_events[k]);
            pass(&s, w->events[k], n * (int64_t)sizeof(ft_event));
            ft_events_shift(w->events[k], n, shift);
        }
    }
}

void ranks_write_events(ft_run *run, char *out, int64_t *bytes)
{
    strip s = {out, 0, false};
    pass(&s, &run->start_ns, sizeof run->start_ns);
    pass_devices(run, run->rank, &s);
    for (int d = 0; d < run->n_devices; d++) {
        worker *w = &run->workers[d];
        if (!is_here(run, d)) continue;
        pass(&s, &w->allocations, sizeof w->allocations);
        for (int k = 0; k < FT_STREAM_COUNT; k++) {
            pass_number(&s, &w->n_events[k]);
            pass(&s, w->events[k], atomic_load(&w->n_events[k]) * (int64_t)sizeof(ft_event));
        }
    }
    *bytes = s.bytes;
}

ft_status ranks_hear_end(ft_run *run, ft_error *err)
{
    return hear_all(run, run->timeline ? hear_events : NULL, err);
}

void ranks_feed(ft_run *run, const ft_feed *feed)
{
    const ft_blueprint *b = run->blueprint;
    struct ranks *r = run->ranks;
    for (int rank = 1; rank < ft_world_size(run->world); rank++) {
        int64_t at = 0;
        if (!r->slips[rank]) continue; /* it has no seats */
        for (int i = 0; i < b->n_inputs; i++) {
            int64_t bytes = b->input_bytes[feed->bucket * b->n_inputs + i] * b->cut.micro_batches;
            if (!reads_input(run, rank, i)) continue;
            memcpy(page_of(run) + at, feed->inputs[i].data, (size_t)bytes);
            at += bytes;
        }
        say(run, rank, (control){.kind = SAY_FEED, .number = feed->bucket, .rate = feed->rate}, at);
    }
}

void ranks_drain(ft_run *run)
{
    say_all(run, (control){.kind = SAY_DRAIN});
}

/* -- parameters -------------------------------------------------------------------------------- */

ft_status ranks_fetch(ft_run *run, int param, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    mirror *m = &run->mirrors[param];
    ft_letter letter;
    ft_error theirs;
    if (run->ranks->begun) { /* else nobody has written anything yet */
        say(run, rank_of_seat(run, b->params[param].owner),
            (control){.kind = SAY_FETCH, .number = param}, 0);
        FT_TRY(ft_world_take_reply(run->world, FT_TAG_REPLY, &letter, &theirs, err));
        strip s = {letter.data, sizeof theirs, true};
        if (theirs.status == FT_OK) {
            pass(&s, m->param, ft_spec_bytes(&b->params[param].spec));
            pass(&s, m->state, ft_blueprint_state_bytes(b, param));
        }
        ft_world_drop(run->world, &letter);
        if (theirs.status != FT_OK && err) *err = theirs;
        if (theirs.status != FT_OK) return theirs.status;
    }
    m->is_new = m->state_is_new = true;
    return FT_OK;
}

/* To the owner of c.number and to those who have copies, unless they are here. */
static void tell_holders(ft_run *run, const control *c, const void *data, int64_t bytes)
{
    const ft_blueprint *b = run->blueprint;
    const struct ranks *r = run->ranks;
    int param = (int)c->number, owner = rank_of_seat(run, b->params[param].owner);
    const bool *copies = c->kind == SAY_STORE_STATE ? r->state_copies : r->copies;
    memcpy(page_of(run), data, (size_t)bytes);
    for (int rank = 1; rank < ft_world_size(run->world); rank++)
        if (rank == owner || copies[rank * b->n_params + param]) say(run, rank, *c, bytes);
}

/* Whether a process besides rank 0 has a parameter. */
static bool is_elsewhere(const ft_run *run, int param)
{
    const ft_blueprint *b = run->blueprint;
    const struct ranks *r = run->ranks;
    for (int rank = 1; rank < ft_world_size(run->world); rank++) {
        int64_t at = (int64_t)rank * b->n_params + param;
        if (r->copies[at] || r->state_copies[at]) return true;
    }
    return !owner_is_here(run, param);
}

ft_status ranks_store(ft_run *run, int param, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    bool here = owner_is_here(run, param);
    if (!is_elsewhere(run, param) || (!here && !run->mirrors[param].is_new)) return FT_OK;
    if (here) FT_TRY(fetch_mirror(run, param, true, err));
    int64_t state_bytes = ft_blueprint_state_bytes(b, param);
    const control weights = {.kind = SAY_STORE, .number = param};
    const control state = {.kind = SAY_STORE_STATE, .number = param};
    tell_holders(run, &weights, mirrored_param(run, param), ft_spec_bytes(&b->params[param].spec));
    if (state_bytes) tell_holders(run, &state, mirrored_state(run, param), state_bytes);
    return FT_OK;
}

void ranks_draw(ft_run *run, int param, const ft_draw *draw, uint64_t seed)
{
    const control c = {.kind = SAY_DRAW, .number = param, .first_step = (int64_t)seed};
    forget_mirror(run, param);
    run->ranks->begun = true;
    tell_holders(run, &c, draw, sizeof *draw);
}

void ranks_note_read(ft_run *run)
{
    run->ranks->begun = true;
}

bool ranks_all_have(const ft_run *run, const piece *p, const bool *ranks)
{
    const ft_blueprint *b = run->blueprint;
    const bool *copies = p->part < 0 ? run->ranks->copies : run->ranks->state_copies;
    int owner = rank_of_seat(run, b->params[p->param].owner);
    for (int rank = 0; rank < ft_world_size(run->world); rank++)
        if ((rank == owner || copies[rank * b->n_params + p->param]) && !ranks[rank]) return false;
    return true;
}

ft_status ranks_refresh(ft_run *run, ft_error *err)
{
    say_all(run, (control){.kind = SAY_REFRESH});
    run->ranks->begun = true;
    return hear_all(run, NULL, err);
}

/* -- of a run ---------------------------------------------------------------------------------- */

static ft_status no_memory(ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "engine: no memory for a run of several processes");
}

/* Room for what is heard of batches, at rank 0 by rank; for what is said of them elsewhere. */
static ft_status open_slips(ft_run *run, ft_error *err)
{
    struct ranks *r = run->ranks;
    for (int rank = 0; rank < ft_world_size(run->world); rank++) {
        bool mine = run->rank ? rank == run->rank : rank > 0 && has_seats(run, rank);
        if (!mine) continue;
        strip s = {NULL, sizeof(int64_t), false};
        pass_batch(run, rank, 0, &s);
        r->slip_bytes[rank] = s.bytes;
        r->slips[rank] = ft_arena_array(run->arena, run->blueprint->batch_slots, s.bytes);
        if (!r->slips[rank]) return no_memory(err);
        if (!run->rank) r->n_others++;
    }
    return FT_OK;
}

/* Of other processes, at rank 0; elsewhere of cards, which leave them in host memory. */
static ft_status open_outputs(ft_run *run, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    for (int i = 0; i < b->n_outputs; i++) {
        bool here = seat_is_here(run, b->outputs[i].seat);
        bool of_card = run->workers[b->seats[b->outputs[i].seat].device].findings;
        if (leads(run) ? here : !here || !of_card) continue;
        run->told_outputs[i] = ft_arena_array(run->arena, b->batch_slots, b->outputs[i].slot_bytes);
        if (!run->told_outputs[i]) return no_memory(err);
    }
    return FT_OK;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The page has room for the largest that rank 0 says: a batch, a parameter, its state. */
static ft_status open_page(ft_run *run, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    int64_t most = 0;
    for (int bucket = 0; bucket < b->cut.n_graphs; bucket++) {
        int64_t sum = 0;
        for (int i = 0; i < b->n_inputs; i++)
            sum += b->input_bytes[bucket * b->n_inputs + i] * b->cut.micro_batches;
        most = larger(most, sum);
    }
    for (int p = 0; !run->trains && p < b->n_params; p++)
        most =
            larger(most, larger(ft_spec_bytes(&b->params[p].spec), ft_blueprint_state_bytes(b, p)));
    run->ranks->page = ft_arena_alloc(run->arena, (int64_t)sizeof(control) + most);
    return run->ranks->page ? FT_OK : no_memory(err);
}

static ft_status note_copies(ft_run *run, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    struct ranks *r = run->ranks;
    int64_t n = (int64_t)ft_world_size(run->world) * b->n_params;
    r->copies = ft_arena_array(run->arena, 2 * n + 1, sizeof *r->copies);
    if (!r->copies) return no_memory(err);
    r->state_copies = r->copies + n;
    for (int s = 0; s < b->seating.n_seats; s++)
        for (int i = 0; i < b->seats[s].n_params; i++) {
            const ft_seat_param *p = &b->seats[s].params[i];
            int64_t at = (int64_t)rank_of_seat(run, s) * b->n_params + p->param;
            r->copies[at] = r->copies[at] || p->replica;
            r->state_copies[at] = r->state_copies[at] || p->with_state;
        }
    return FT_OK;
}

ft_status ranks_open(ft_run *run, ft_error *err)
{
    int second = run->trains != NULL;
    if (!run->world) return FT_OK;
    int size = ft_world_size(run->world);
    struct ranks *r = run->ranks = ft_arena_alloc(run->arena, sizeof *r);
    if (!r) return no_memory(err);
    *r = (struct ranks){.run = run,
                        .done_tag = FT_TAG_DONE + second,
                        .failure_tag = FT_TAG_FAILURE + second,
                        .slips = ft_arena_array(run->arena, size, sizeof *r->slips),
                        .slip_bytes = ft_arena_array(run->arena, size, sizeof *r->slip_bytes),
                        .placed = ft_arena_array(run->arena, size, sizeof *r->placed),
                        .heard = ft_arena_array(run->arena, size, sizeof *r->heard),
                        .failures = ft_arena_array(run->arena, size, sizeof *r->failures)};
    if (!r->slips || !r->slip_bytes || !r->placed || !r->heard || !r->failures)
        return no_memory(err);
    FT_TRY(open_slips(run, err));
    FT_TRY(open_outputs(run, err));
    if (leads(run)) FT_TRY(open_page(run, err));
    if (leads(run)) FT_TRY(note_copies(run, err));
    const ft_receiver done = {r->done_tag, 1, r, place_slip, hear_slip};
    const ft_receiver failure = {r->failure_tag, 1, r, place_failure, hear_failure};
    if (run->rank) return FT_OK;
    FT_TRY(ft_world_listen(run->world, &done, err));
    return ft_world_listen(run->world, &failure, err);
}

void ranks_free(ft_world *world)
{
    const control c = {.kind = SAY_FREE};
    for (int rank = 1; rank < ft_world_size(world); rank++)
        ft_world_send(world, rank, FT_TAG_CONTROL, &c, sizeof c, true);
}

void ranks_end(ft_run *run)
{
    if (!run->ranks) return;
    ft_world_off_ask(run->world, run);
    if (!leads(run) || run->trains || run->ranks->is_over) return;
    run->ranks->is_over = true;
    ranks_free(run->world);
}

void ranks_close(ft_run *run)
{
    if (!run->ranks) return;
    ft_world_off_ask(run->world, run);
    ft_world_forget(run->world, run->ranks);
}
