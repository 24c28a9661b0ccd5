/* engine/ranks.c - several processes: what rank 0 tells the others, and what they tell it.
 *
 * Rank 0 begins, feeds and ends legs; the others hear of it in the same order and do the same with
 * the devices that they have (serve.c). When the stages of a process are done with a batch, rank 0
 * hears what they know of it: losses, norms, failures, outputs, what their devices did. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/ranks.h"

bool leads(const ft_run *run)
{
    return run->world && run->rank == 0;
}

static bool has_stages(const ft_run *run, int rank)
{
    for (int s = 0; s < run->n_stages; s++)
        if (rank_of_stage(run, s) == rank) return true;
    return false;
}

int ranks_parts(const ft_run *run)
{
    int n = 0;
    for (int s = 0; s < run->n_stages; s++) n += stage_is_here(run, s);
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
        if (rank_of_stage(run, out->stage) != rank) continue;
        char *here = run->workers[b->stages[out->stage].device].block + out->at;
        char *at = rank == run->rank ? here + ring * out->slot_bytes : ranks_output(run, i, ring);
        pass(s, at, ft_blueprint_output_bytes(b, out, bucket) * b->cut.micro_batches);
    }
}

/* All that stages of that rank know of the batch: written by the rank, read by rank 0. */
static void pass_batch(ft_run *run, int rank, int64_t number, strip *s)
{
    const ft_blueprint *b = run->blueprint;
    batch_state *batch = batch_of(run, number);
    int64_t order = batch->failure_order, ring = number % b->batch_slots;
    ft_error failure = batch->failure;
    pass(s, &order, sizeof order);
    pass(s, &failure, sizeof failure);
    if (s->reads && s->at) note_failure(run, number, &failure, order);
    for (int i = 0; i < b->cut.n_stages; i++) {
        if (rank_of_stage(run, i) != rank) continue;
        pass(s, &run->stages[i].losses[ring], sizeof(double));
        pass(s, &run->gaps[ring * run->n_stages + i], sizeof(double));
        if (i == b->norm_stage) pass(s, &batch->norm, sizeof batch->norm);
    }
    pass_devices(run, rank, s);
    pass_outputs(run, rank, ring, s->at ? batch->bucket : b->cut.n_graphs - 1, s);
}

char *ranks_output(const ft_run *run, int output, int64_t ring)
{
    return run->ranks->outputs[output] + ring * run->blueprint->outputs[output].slot_bytes;
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
    if (atomic_fetch_sub(&batch_of(r->run, number)->stages_left, 1) == 1)
        complete_batch(r->run, number);
}

/* -- failures ---------------------------------------------------------------------------------- */

static void name_rank(const ft_run *run, int rank, ft_error *error)
{
    ft_error_wrap(error, "rank %d (host %s)", rank, ft_world_host(run->world, rank));
}

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
    (void)from;
    (void)tag;
    (void)bytes;
    return &r->failure;
}

static void hear_failure(void *user, int from, int tag, int64_t bytes)
{
    struct ranks *r = user;
    (void)tag;
    (void)bytes;
    name_rank(r->run, from, &r->failure);
    run_stop(r->run, &r->failure);
}

static void lose(void *user, const ft_error *error)
{
    run_stop(user, error);
}

/* -- telling ----------------------------------------------------------------------------------- */

static void say(const ft_run *run, int rank, control c, const void *data, int64_t bytes)
{
    struct ranks *r = run->ranks;
    if (bytes + (int64_t)sizeof c > r->page_bytes) {
        char *page = ft_realloc(r->page, bytes + (int64_t)sizeof c);
        if (!page) return;
        r->page = page;
        r->page_bytes = bytes + (int64_t)sizeof c;
    }
    c.evaluates = run->trains != NULL;
    memcpy(r->page, &c, sizeof c);
    if (bytes) memcpy(r->page + sizeof c, data, (size_t)bytes);
    ft_world_send(run->world, rank, FT_TAG_CONTROL, r->page, bytes + (int64_t)sizeof c, true);
}

static void say_all(const ft_run *run, control c)
{
    for (int rank = 1; rank < ft_world_size(run->world); rank++) say(run, rank, c, NULL, 0);
}

/* Replies of all others, one each: `hear` gets what comes behind the error, if it is none. */
static ft_status hear_all(ft_run *run, void (*hear)(ft_run *run, int rank, strip *s), ft_error *err)
{
    ft_status status = FT_OK;
    for (int i = 1; i < ft_world_size(run->world); i++) {
        ft_letter letter;
        ft_error error;
        bool got;
        FT_TRY(ft_world_take(run->world, FT_TAG_REPLY, -1, &letter, &got, err));
        strip s = {letter.data, 0, true};
        pass(&s, &error, sizeof error);
        if (error.status == FT_OK && hear) hear(run, letter.peer, &s);
        if (error.status != FT_OK && status == FT_OK) {
            name_rank(run, letter.peer, &error);
            status = error.status;
            if (err) *err = error;
        }
        ft_world_drop(run->world, &letter);
    }
    return status;
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
static void hear_events(ft_run *run, int rank, strip *s)
{
    int64_t shift = 0, start_ns = 0;
    pass(s, &start_ns, sizeof start_ns);
    if (ft_world_is_near(run->world, rank)) shift = start_ns - run->start_ns;
    pass_devices(run, rank, s);
    for (int d = 0; d < run->n_devices; d++) {
        worker *w = &run->workers[d];
        if (run->blueprint->cut.devices[d].rank != rank) continue;
        pass(s, &w->allocations, sizeof w->allocations);
        for (int k = 0; k < FT_STREAM_COUNT; k++) {
            pass_number(s, &w->n_events[k]);
            int64_t n = atomic_load(&w->n_events[k]);
            pass(s, w->events[k], n * (int64_t)sizeof(ft_event));
            for (int64_t i = 0; i < n; i++) {
                w->events[k][i].start_ns += shift;
                w->events[k][i].end_ns += shift;
            }
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
    return hear_all(run, run->plan ? hear_events : NULL, err);
}

void ranks_feed(ft_run *run, const ft_feed *feed)
{
    const ft_blueprint *b = run->blueprint;
    struct ranks *r = run->ranks;
    for (int rank = 1; rank < ft_world_size(run->world); rank++) {
        int64_t at = 0;
        if (!has_stages(run, rank)) continue;
        for (int i = 0; i < b->n_inputs; i++) {
            int64_t bytes = b->input_bytes[feed->bucket * b->n_inputs + i] * b->cut.micro_batches;
            if (!r->reads[rank * b->n_inputs + i]) continue;
            memcpy(r->batch + at, feed->inputs[i].data, (size_t)bytes);
            at += bytes;
        }
        say(run, rank, (control){.kind = SAY_FEED, .number = feed->bucket, .rate = feed->rate},
            r->batch, at);
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
    ft_error error;
    bool got;
    m->is_new = true;
    if (!run->ranks->begun) return FT_OK; /* nobody has written anything yet */
    int rank = rank_of_stage(run, b->params[param].owner);
    say(run, rank, (control){.kind = SAY_FETCH, .number = param}, NULL, 0);
    FT_TRY(ft_world_take(run->world, FT_TAG_REPLY, -1, &letter, &got, err));
    strip s = {letter.data, 0, true};
    pass(&s, &error, sizeof error);
    pass(&s, m->param, ft_spec_bytes(&b->params[param].spec));
    pass(&s, m->state, ft_blueprint_state_bytes(run->blueprint, param));
    ft_world_drop(run->world, &letter);
    return FT_OK;
}

/* Whether a stage of that rank has a copy of a parameter that another stage owns, or of its state.
 */
static bool copies_param(const ft_run *run, int rank, int param, bool state)
{
    const ft_blueprint *b = run->blueprint;
    for (int s = 0; s < b->cut.n_stages; s++)
        for (int i = 0; rank_of_stage(run, s) == rank && i < b->stages[s].n_params; i++) {
            const ft_stage_param *p = &b->stages[s].params[i];
            if (p->param == param && (state ? p->with_state : p->replica)) return true;
        }
    return false;
}

void ranks_store(ft_run *run, int param)
{
    const ft_blueprint *b = run->blueprint;
    const mirror *m = &run->mirrors[param];
    int owner = rank_of_stage(run, b->params[param].owner);
    bool here = owner == run->rank;
    if (!here && !m->is_new) return;
    const char *weights = here ? param_at(run, param) : m->param;
    const char *state = here ? run->states[param] : m->state;
    int64_t bytes = ft_spec_bytes(&b->params[param].spec);
    int64_t state_bytes = ft_blueprint_state_bytes(b, param);
    const control all = {.kind = SAY_STORE, .number = param};
    const control rest = {.kind = SAY_STORE_STATE, .number = param};
    for (int rank = 1; rank < ft_world_size(run->world); rank++) {
        if (rank == owner || copies_param(run, rank, param, false))
            say(run, rank, all, weights, bytes);
        if (state_bytes && (rank == owner || copies_param(run, rank, param, true)))
            say(run, rank, rest, state, state_bytes);
    }
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
        bool mine = run->rank ? rank == run->rank : rank > 0 && has_stages(run, rank);
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

static ft_status open_outputs(ft_run *run, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    for (int i = 0; leads(run) && i < b->n_outputs; i++) {
        if (stage_is_here(run, b->outputs[i].stage)) continue;
        run->ranks->outputs[i] =
            ft_arena_array(run->arena, b->batch_slots, b->outputs[i].slot_bytes);
        if (!run->ranks->outputs[i]) return no_memory(err);
    }
    return FT_OK;
}

static ft_status open_feeds(ft_run *run, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    int64_t bytes = 0;
    for (int bucket = 0; bucket < b->cut.n_graphs; bucket++) {
        int64_t sum = 0;
        for (int i = 0; i < b->n_inputs; i++)
            sum += b->input_bytes[bucket * b->n_inputs + i] * b->cut.micro_batches;
        if (sum > bytes) bytes = sum;
    }
    run->ranks->batch = ft_arena_alloc(run->arena, bytes + 1);
    if (!run->ranks->batch) return no_memory(err);
    for (int rank = 0; rank < ft_world_size(run->world); rank++)
        for (int i = 0; i < b->n_inputs; i++)
            run->ranks->reads[rank * b->n_inputs + i] = reads_input(run, rank, i);
    return FT_OK;
}

/* Between legs. */
static void rests(void *user, char out[FT_AT_WORDS])
{
    const ft_run *run = user;
    for (int s = 0; s < run->n_stages; s++)
        if (stage_is_here(run, s)) {
            const ft_stage_layout *stage = &run->blueprint->stages[s];
            snprintf(out, FT_AT_WORDS, "stage %d on %s: nothing, between legs", stage->origin,
                     run->blueprint->cut.devices[stage->device].name);
            return;
        }
}

ft_status ranks_open(ft_run *run, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
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
                        .outputs = ft_arena_array(run->arena, b->n_outputs + 1, sizeof(char *)),
                        .reads = ft_arena_array(run->arena, (int64_t)size * b->n_inputs + 1, 1)};
    if (!r->slips || !r->slip_bytes || !r->placed || !r->heard || !r->outputs || !r->reads)
        return no_memory(err);
    FT_TRY(open_slips(run, err));
    FT_TRY(open_outputs(run, err));
    FT_TRY(open_feeds(run, err));
    ft_world_on_ask(run->world, rests, run);
    const ft_receiver done = {r->done_tag, 1, r, place_slip, hear_slip};
    const ft_receiver failure = {r->failure_tag, 1, r, place_failure, hear_failure};
    if (run->rank) return FT_OK;
    FT_TRY(ft_world_listen(run->world, &done, err));
    return ft_world_listen(run->world, &failure, err);
}

void ranks_watch(ft_run *run)
{
    if (run->world) ft_world_on_failure(run->world, lose, run);
    if (run->world) ft_world_on_ask(run->world, ranks_are_at, run);
}

void ranks_unwatch(ft_run *run)
{
    if (run->world) ft_world_on_failure(run->world, NULL, NULL);
    if (run->world) ft_world_on_ask(run->world, rests, run);
}

void ranks_free(ft_world *world)
{
    const control c = {.kind = SAY_FREE};
    for (int rank = 1; rank < ft_world_size(world); rank++)
        ft_world_send(world, rank, FT_TAG_CONTROL, &c, sizeof c, true);
}

void ranks_close(ft_run *run)
{
    if (!run->ranks) return;
    ft_world_on_ask(run->world, NULL, NULL);
    ft_world_forget(run->world, run->ranks);
    ft_free(run->ranks->page);
}
