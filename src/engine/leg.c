/* engine/leg.c - one leg of a run: batches in, results out. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "engine/internal.h"
#include "ranks/outputs.h"

/* -- beginning --------------------------------------------------------------------------------- */

static void reset_gate(ft_gate *gate)
{
    atomic_store(&gate->count, 0);
    atomic_store(&gate->sleepers, 0);
}

/* Rank 0 has the events of all devices. */
static bool tells_of(const ft_run *run, int device)
{
    return run->rank == 0 || is_here(run, device);
}

static void forget_events(ft_run *run)
{
    for (int d = 0; d < run->n_devices; d++)
        for (int k = 0; k < FT_STREAM_COUNT; k++) atomic_store(&run->workers[d].n_events[k], 0);
    ft_timeline_free(run->timeline);
    run->timeline = NULL;
}

static ft_status make_timeline(ft_run *run, ft_error *err)
{
    const ft_cut *o = &run->blueprint->cut;
    int64_t total = 0;
    int n_stages = run->plan->n_stages;
    for (int d = 0; d < o->n_devices; d++)
        if (tells_of(run, d)) total += ft_plan_length(run->plan, d);
    forget_events(run);
    FT_TRY(ft_timeline_new(&run->timeline, o->n_devices, n_stages, total, err));
    int64_t at = 0;
    for (int d = 0; d < o->n_devices; d++) {
        worker *w = &run->workers[d];
        int64_t n = tells_of(run, d) ? ft_plan_length(run->plan, d) : 0;
        int64_t count[FT_STREAM_COUNT] = {0};
        for (int64_t i = 0; i < n; i++) count[ft_action_stream(ft_plan_at(run->plan, d, i).kind)]++;
        for (int k = 0; k < FT_STREAM_COUNT; at += count[k++]) {
            w->events[k] = run->timeline->events + at;
        }
    }
    return FT_OK;
}

/* Rows of gradients may hold what others left there. */
static void forget_rows(const ft_run *run, int s)
{
    const ft_blueprint *b = run->blueprint;
    const ft_graph *g = b->cut.graphs[0];
    for (int t = 0; t < b->n_terms && run->seats[s].rows; t++)
        if (run->seats[s].rows[t])
            memset(run->seats[s].rows[t], 1,
                   (size_t)b->params[ft_graph_grad_term(g, t)->param].spec.shape.dims[0]);
}

/* Legs change what mirrors are of; those of other processes' parameters take no memory meanwhile.
 */
static void forget_mirrors(ft_run *run)
{
    const ft_blueprint *b = run->blueprint;
    for (int p = 0; p < b->n_params; p++) {
        mirror *m = &run->mirrors[p];
        if (m->is_new && !owner_is_here(run, p)) {
            ft_pages_rest(m->param, ft_spec_bytes(&b->params[p].spec));
            ft_pages_rest(m->state, ft_blueprint_state_bytes(b, p));
        }
        forget_mirror(run, p);
    }
}

static void reset(ft_run *run)
{
    const ft_blueprint *b = run->blueprint;
    int64_t now = ft_now_ns();
    versions_begin(run);
    for (int e = 0; e < b->n_edges; e++)
        for (int r = 0; r < FT_ROWS; r++) {
            reset_gate(&run->edges[e].rows[r].filled);
            reset_gate(&run->edges[e].rows[r].freed);
        }
    reset_gate(&run->fed_gate);
    reset_gate(&run->done_gate);
    reset_gate(&run->ended_gate);
    remotes_reset(run);
    for (int s = 0; s < b->seating.n_seats; s++) {
        run->seats[s].spoiled = false;
        forget_rows(run, s);
    }
    forget_mirrors(run);
    memset(run->norms, 0, (size_t)run->norms_bytes);
    for (int d = 0; d < b->cut.n_devices; d++) {
        worker *w = &run->workers[d];
        w->position = w->allocations = w->carried = 0;
        w->length = ft_plan_length(run->plan, d);
        atomic_store(&w->passed, 0);
        atomic_store(&w->busy_ns, 0);
        atomic_store(&w->since_ns, now);
        w->wait = FT_WAIT_NOTHING;
        if (w->hearing) hearing_begin(w);
    }
    run->fed = run->taken = 0;
    atomic_store(&run->n_batches, run->plan->n_batches);
    run->error = (ft_error){FT_OK, ""};
    atomic_store(&run->stop, false);
}

static ft_status check_begin(const ft_run *run, const ft_plan *plan, bool threaded, ft_error *err)
{
    if (leg_is_under_way(run)) return ft_fail(err, FT_INVALID, "engine: a leg is running already");
    if (plan->forward_only != run->blueprint->cut.forward_only)
        return ft_fail(err, FT_INVALID, "engine: the leg's plan is of %s, the run is not",
                       plan->forward_only ? "forwards alone" : "training");
    if (run->world && !threaded)
        return ft_fail(err, FT_UNSUPPORTED, "a replay on one thread is of one process");
    return ft_run_check_plan(plan, err);
}

static void lose(void *user, const ft_error *error)
{
    run_stop(user, error);
}

/* Five times a second: channels are looked at, too, whose failure nobody else hears of. */
static void ask(void *user, char out[FT_AT_WORDS])
{
    ft_run *run = user;
    ft_error error;
    if (!atomic_load(&run->stop) && channels_look(run, &error) != FT_OK) run_stop(run, &error);
    tell_work(run, out);
}

/* The loss of another process stops the leg, and others hear what this one is at. */
static void watch_world(ft_run *run)
{
    if (!run->world) return;
    ft_world_on_failure(run->world, lose, run);
    ft_world_on_ask(run->world, ask, run);
}

static void unwatch_world(ft_run *run)
{
    if (!run->world) return;
    ft_world_on_failure(run->world, NULL, NULL);
    ft_world_on_ask(run->world, tell_rest, run);
}

ft_status begin_leg(ft_run *run, const ft_plan *plan, int64_t first_step, bool threaded,
                    ft_error *err)
{
    run->plan = plan;
    run->first_step = first_step;
    run->threaded = threaded;
    FT_TRY(make_timeline(run, err));
    reset(run);
    ledger_reset(run);
    FT_TRY(guards_write(run, false, err));
    ft_status status = copies_open(run, err);
    if (status == FT_OK) status = swaps_begin(run, err);
    if (status == FT_OK) status = units_begin(run, err);
    run->start_ns = ft_now_ns();
    if (status == FT_OK && threaded) status = workers_start(run, err);
    run->active = status == FT_OK;
    if (run->active) watch_world(run);
    if (status != FT_OK) {
        units_end(run, NULL);
        swaps_end(run);
        copies_close(run);
    }
    return status;
}

ft_status ft_run_begin(ft_run *run, const ft_plan *plan, int64_t first_step, bool threaded,
                       ft_error *err)
{
    FT_TRY(check_begin(run, plan, threaded, err));
    if (leads(run)) FT_TRY(ranks_begin(run, plan->n_batches, first_step, err));
    ft_status status = begin_leg(run, plan, first_step, threaded, err);
    if (status == FT_OK || !leads(run)) return status;
    ranks_say_end(run, false);
    ranks_hear_end(run, NULL);
    return status;
}

/* -- feeding ----------------------------------------------------------------------------------- */

bool ft_run_wants(const ft_run *run)
{
    return run->active && run->fed < atomic_load(&run->n_batches) &&
           run->fed - run->taken < run->blueprint->batch_slots;
}

/* run: NULL, or what needs no data of inputs that no seat of this rank reads. */
static ft_status check_feed(const ft_blueprint *b, const ft_run *run, const ft_feed *feed,
                            ft_error *err)
{
    if (feed->bucket < 0 || feed->bucket >= b->cut.n_graphs)
        return ft_fail(err, FT_INVALID, "engine: length bucket %d, there are %d", feed->bucket,
                       b->cut.n_graphs);
    if (feed->n_inputs != b->n_inputs)
        return ft_fail(err, FT_INVALID, "engine: %d inputs fed, the graph has %d", feed->n_inputs,
                       b->n_inputs);
    const ft_graph *g = b->cut.graphs[feed->bucket];
    for (int i = 0; i < b->n_inputs; i++) {
        const ft_value *value = ft_graph_value(g, ft_graph_input_value(g, i));
        if (run && !feed->inputs[i].data && !reads_input(run, run->rank, i)) continue;
        int64_t want = ft_shape_count(&value->spec.shape) * b->cut.micro_batches;
        int64_t have = ft_shape_count(&feed->inputs[i].shape);
        if (feed->inputs[i].dtype != value->spec.dtype || have != want)
            return ft_fail(err, FT_SHAPE,
                           "engine: input '%s' has %lld elements of %s, expected %lld of %s",
                           value->name, (long long)have, ft_dtype_name(feed->inputs[i].dtype),
                           (long long)want, ft_dtype_name(value->spec.dtype));
    }
    return FT_OK;
}

ft_status ft_feed_check(const ft_blueprint *blueprint, const ft_feed *feed, ft_error *err)
{
    return check_feed(blueprint, NULL, feed, err);
}

ft_status ft_run_feed(ft_run *run, const ft_feed *feed, ft_error *err)
{
    if (!ft_run_wants(run))
        return ft_fail(err, FT_INVALID, "engine: no room for another batch in this leg");
    FT_TRY(check_feed(run->blueprint, run, feed, err));
    if (feed->loss_scale > 1 && (!run->blueprint->together || run->world))
        return ft_fail(err, FT_UNSUPPORTED,
                       "engine: losses are scaled where all stages of one process update together");
    FT_TRY(ledger_feed(run, run->fed, feed->bucket, err));
    const ft_blueprint *b = run->blueprint;
    FT_TRY(load_batch(run, feed, err));
    batch_state *batch = &run->batches[run->fed % b->batch_slots];
    batch->bucket = feed->bucket;
    batch->rate = feed->rate;
    batch->loss_scale = feed->loss_scale > 0 ? feed->loss_scale : 1;
    batch->norm = NAN;
    for (int s = 0; s < run->n_seats; s++) *gap_of_batch(run, s, run->fed) = NAN;
    batch->failure = (ft_error){FT_OK, ""};
    atomic_store(&batch->finished, 0);
    atomic_store(&batch->seats_left, ranks_parts(run));
    if (leads(run)) ranks_feed(run, feed);
    run->fed++;
    ft_gate_open(&run->fed_gate);
    return FT_OK;
}

/* A worker that waits for a batch is past every batch that was fed: the gate opens as far as the
 * plan goes, and whoever comes through finds that the rest is left out. */
void ft_run_drain(ft_run *run)
{
    if (!run->active || run->fed == atomic_load(&run->n_batches)) return;
    atomic_store(&run->n_batches, run->fed);
    if (leads(run)) ranks_drain(run);
    ft_gate_open_by(&run->fed_gate, (uint32_t)(run->plan->n_batches - run->fed));
}

/* -- results ----------------------------------------------------------------------------------- */

static ft_status first_failure(ft_run *run, ft_error *err)
{
    pthread_mutex_lock(&run->error_lock);
    ft_error failure = run->error;
    pthread_mutex_unlock(&run->error_lock);
    if (failure.status != FT_OK && err) *err = failure;
    return failure.status;
}

ft_status ft_run_next(ft_run *run, ft_result *out, int64_t timeout_ns, ft_error *err)
{
    if (!run->active || run->taken >= run->fed)
        return ft_fail(err, FT_INVALID, "engine: no batch is under way");
    if (!run->threaded) {
        ft_error error = {FT_OK, ""};
        if (workers_replay(run, run->taken, &error) != FT_OK) run_fail(run, &error);
    }
    const batch_state *batch = &run->batches[run->taken % run->blueprint->batch_slots];
    bool done = ft_gate_wait(&run->done_gate, (uint32_t)run->taken + 1, &run->stop,
                             run->threaded ? timeout_ns : 0);
    FT_TRY(first_failure(run, err));
    if (!done) return ft_fail(err, FT_CANCELLED, "no batch was finished yet");
    /* Two seats may finish two batches at once; the count can be ahead of the older result. */
    while (atomic_load(&batch->finished) != run->taken + 1) continue;
    ft_status found = batch->failure.status;
    if (found != FT_OK && found != FT_CANCELLED) { /* by every seat's doing: nobody writes more */
        run_fail(run, &batch->failure);
        look_closer(run, run->taken);
        return first_failure(run, err);
    }
    FT_TRY(unload_batch(run, err));
    FT_TRY(ledger_take(run, run->taken, err));
    *out = run->results[run->taken % run->blueprint->batch_slots];
    run->taken++;
    return FT_OK;
}

int ft_run_n_outputs(const ft_run *run)
{
    return count_outputs(run->blueprint);
}

double ft_run_gap(const ft_run *run, int stage)
{
    const ft_stage_share *of = &run->blueprint->seating.of[stage];
    double norm = NAN;
    for (int r = 0; run->taken && r < of->n; r++) {
        double gap = *gap_of_batch(run, of->first + r, run->taken - 1);
        if (!isnan(gap)) norm = isnan(norm) ? gap : hypot(norm, gap);
    }
    return norm;
}

int ft_run_n_stages(const ft_run *run)
{
    return run->blueprint->plan.n_stages;
}

ft_status ft_run_output(ft_run *run, int i, const char **name, ft_view *out, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    if (!run->taken) return ft_fail(err, FT_INVALID, "engine: no batch was taken yet");
    int part = first_part(b, i);
    const ft_output_layout *info = &b->outputs[part];
    int64_t ring = (run->taken - 1) % b->batch_slots;
    int bucket = run->batches[ring].bucket, n = b->cut.micro_batches;
    ft_spec spec = ft_graph_value(b->cut.graphs[bucket], info->value)->spec;
    int64_t bytes = ft_spec_bytes(&spec);
    if (spec.shape.n_dims == 0)
        spec.shape = ft_shape_of(n);
    else
        spec.shape.dims[0] *= n;
    char *data = part_at(run, part, ring), **host = &run->output_mirrors[i];
    *name = info->name;
    if (info->micros < n || run->workers[b->seats[info->seat].device].findings) {
        if (!*host) *host = ft_arena_alloc(run->arena, n / info->micros * info->slot_bytes);
        if (!*host) return ft_fail(err, FT_NOMEM, "engine: no memory for the output '%s'", *name);
        FT_TRY(gather_output(run, part, ring, bytes, *host, err));
        data = *host;
    }
    *out = ft_view_of(&spec, data);
    return FT_OK;
}

int64_t ft_run_progress(const ft_run *run)
{
    int64_t n = 0;
    for (int d = 0; d < run->blueprint->cut.n_devices; d++)
        n += atomic_load(&run->workers[d].passed);
    return n;
}

int64_t ft_run_busy_ns(const ft_run *run, int device)
{
    return atomic_load_explicit(&run->workers[device].busy_ns, memory_order_relaxed);
}

/* -- ending ------------------------------------------------------------------------------------ */

static ft_status fail_lost(const ft_run *run, ft_error *err)
{
    int device = 0;
    while (device + 1 < run->n_devices && atomic_load(&run->workers[device].ended)) device++;
    return ft_fail(err, FT_HANG, "engine: device %s does not come back from what it does",
                   run->blueprint->cut.devices[device].name);
}

ft_status ft_run_give_up(ft_run *run, int64_t timeout_ns, ft_error *err)
{
    if (!run->active) return FT_OK;
    ft_error stopped = {FT_CANCELLED, "the leg was given up"};
    run_fail(run, &stopped);
    uint32_t started = 0;
    for (int d = 0; d < run->n_devices; d++) started += run->workers[d].started;
    run->lost = !ft_gate_wait(&run->ended_gate, started, NULL, timeout_ns);
    return run->lost ? fail_lost(run, err) : FT_OK;
}

/* Moves the workers' events together. */
static void gather_events(ft_run *run)
{
    for (int d = 0; d < run->blueprint->cut.n_devices; d++)
        for (int k = 0; k < FT_STREAM_COUNT; k++) {
            const worker *w = &run->workers[d];
            int64_t n = atomic_load(&w->n_events[k]);
            memmove(run->timeline->events + run->timeline->n_events, w->events[k],
                    (size_t)n * sizeof(ft_event));
            run->timeline->n_events += n;
        }
}

ft_status close_leg(ft_run *run, ft_error *err)
{
    ft_status finished = finish_streams(run, err);
    ft_status back = units_end(run, finished == FT_OK ? err : NULL);
    swaps_end(run);
    copies_close(run);
    run->active = false;
    versions_end(run);
    return finished == FT_OK ? back : finished;
}

/* Of weights that are at home again. */
static ft_status make_packs(ft_run *run, ft_error *err)
{
    FT_TRY(pack_made(run, err));
    return finish_streams(run, err);
}

ft_status ft_run_end(ft_run *run, ft_error *err)
{
    if (!run->active) return FT_OK;
    if (run->lost) return fail_lost(run, err);
    ft_status status = FT_OK;
    bool complete = run->taken == atomic_load(&run->n_batches);
    if (leads(run)) ranks_say_end(run, complete);
    if (complete && !run->threaded) /* what stands after the last update: tied weights adopted */
        status = workers_replay(run, run->taken, err);
    if (!complete) {
        ft_error stopped = {FT_CANCELLED, "the leg was ended early"};
        run_fail(run, &stopped);
    }
    workers_join(run);
    unwatch_world(run);
    if (complete && status == FT_OK) status = remotes_settle(run, run->taken, err);
    if (leads(run)) {
        ft_status heard = ranks_hear_end(run, complete && status == FT_OK ? err : NULL);
        if (status == FT_OK && complete) status = heard;
    }
    ft_status finished = close_leg(run, complete && status == FT_OK ? err : NULL);
    if (finished == FT_OK && status == FT_OK && complete) finished = make_packs(run, err);
    gather_events(run);
    if (status == FT_OK && complete) status = first_failure(run, err);
    if (status == FT_OK && complete) status = finished;
    if (status == FT_OK && complete) status = ledger_close(run, err);
    if (status == FT_OK && complete) status = guards_check(run, err);
    if (status == FT_OK && complete) status = units_check(run, err);
    return status;
}
