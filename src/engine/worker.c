/* engine/worker.c - one thread per device, walking through the device's list.
 *
 * A worker waits for what its next action needs, executes it, and goes on; the order is the plan's.
 * Without threads the same lists are walked in turns by the caller, which is the judge of every
 * parallel run. */
#include "engine/internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"

void run_fail(ft_run *run, const ft_error *error)
{
    run_stop(run, error);
    ranks_tell(run, error);
}

static void record(worker *w, const ft_action *a, int lag, int64_t start, int64_t end)
{
    ft_stream stream = ft_action_stream(a->kind);
    int64_t n = atomic_load_explicit(&w->n_events[stream], memory_order_relaxed);
    bool computes = stream == FT_STREAM_COMPUTE;
    w->events[stream][n] = (ft_event){.start_ns = start - w->run->start_ns,
                                      .end_ns = end - w->run->start_ns,
                                      .batch = a->batch,
                                      .micro = a->micro,
                                      .device = (int16_t)w->device,
                                      .stage = (int16_t)w->run->blueprint->seats[a->seat].stage,
                                      .lag = (int16_t)lag,
                                      .kind = a->kind,
                                      .class = ft_action_moves(a) ? (uint8_t)a->item : 0,
                                      .wait = computes ? w->wait : 0,
                                      .edge = computes             ? w->wait_edge
                                              : ft_action_moves(a) ? 0
                                                                   : a->item,
                                      .bytes = w->carried};
    w->carried = 0;
    atomic_store_explicit(&w->n_events[stream], n + 1, memory_order_release);
    if (computes) w->wait = FT_WAIT_NOTHING;
    atomic_store_explicit(&w->since_ns, end, memory_order_relaxed);
    if (!computes || !w->clocks[stream]) /* else its clock knows */
        atomic_fetch_add_explicit(&w->busy_ns, end - start, memory_order_relaxed);
}

/* Whether what the action computes goes on when the worker has given it to its device. Copies have
 * clocks around them where they are made. */
static bool has_clock(const worker *w, const ft_action *a)
{
    return ft_action_stream(a->kind) == FT_STREAM_COMPUTE && w->clocks[FT_STREAM_COMPUTE];
}

static void pass_action(worker *w)
{
    w->position++;
    atomic_fetch_add(&w->passed, 1);
}

/* The action at the worker's position, past those that are left out, as its seat here has it;
 * false at the end. */
static bool next_action(worker *w, ft_action *a)
{
    for (; w->position < w->length; pass_action(w)) {
        ft_action said = ft_plan_at(w->run->plan, w->device, w->position);
        *a = ft_seated(&w->run->blueprint->seating, w->device, said);
        if (!action_is_left_out(w->run, a)) return true;
    }
    return false;
}

/* Puts the device and the action in front of what went wrong. */
static ft_status fail_at(const worker *w, const ft_action *a, ft_status status, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    char micro[32] = "";
    if (ft_action_per_micro(a->kind)) snprintf(micro, sizeof micro, ", micro-batch %d", a->micro);
    ft_error_wrap(err, "device %s: %s of stage %d, batch %d%s", b->cut.devices[w->device].name,
                  ft_action_word(a->kind), b->seats[a->seat].stage, a->batch, micro);
    return status;
}

/* Executes the action at the worker's position, which does not have to wait any more. */
static ft_status step(worker *w, const ft_action *a, ft_error *err)
{
    int64_t blocks = ft_alloc_thread_count();
    int lag = counted_lag(w->run, a);
    ft_status status = ledger_begin(w, a, err);
    if (status == FT_OK) status = swaps_wait(w, a, err);
    if (status == FT_OK) status = begin_edges(w, a, err);
    int64_t start = ft_now_ns();
    if (status == FT_OK && has_clock(w, a)) status = clock_begins(w, a, err);
    if (status == FT_OK) status = execute_action(w, a, err);
    if (status == FT_OK && has_clock(w, a)) status = clock_ends(w, a, err);
    if (status == FT_OK) status = ledger_end(w, a, err); /* before others hear of it */
    if (status == FT_OK) status = end_edges(w, a, err);
    if (status != FT_OK) return fail_at(w, a, status, err);
    w->allocations += ft_alloc_thread_count() - blocks;
    record(w, a, lag, start, ft_now_ns());
    pass_action(w);
    return FT_OK;
}

/* Threads that carry messages stop a run without telling rank 0 why. */
static void tell_stop(ft_run *run)
{
    pthread_mutex_lock(&run->error_lock);
    ft_error error = run->error;
    pthread_mutex_unlock(&run->error_lock);
    ranks_tell(run, &error);
}

static void *work(void *arg)
{
    worker *w = arg;
    ft_error error = {FT_OK, ""};
    ft_action a;
    if (w->run->world) ft_world_works(w->run->world, true);
    ft_status status = w->executor->driver->enter(w->executor, &error);
    while (status == FT_OK && next_action(w, &a)) {
        status = wait_for_action(w, &a, &error);
        if (status == FT_OK && !action_is_left_out(w->run, &a)) status = step(w, &a, &error);
    }
    if (status == FT_CANCELLED)
        tell_stop(w->run);
    else if (status != FT_OK)
        run_fail(w->run, &error);
    atomic_store(&w->ended, true);
    ft_gate_open(&w->run->ended_gate);
    if (w->run->world) ft_world_works(w->run->world, false);
    return NULL;
}

ft_status workers_start(ft_run *run, ft_error *err)
{
    for (int d = 0; d < run->blueprint->cut.n_devices; d++) {
        worker *w = &run->workers[d];
        if (!is_here(run, d)) continue;
        atomic_store(&w->ended, false);
        ft_error error;
        w->started = ft_thread_start(&w->thread, work, w, &error) == FT_OK;
        if (w->started) continue;
        ft_error_wrap(&error, "engine: device %s", run->blueprint->cut.devices[d].name);
        run_fail(run, &error); /* those that did start end by it, and have nothing else to tell */
        workers_join(run);
        if (err) *err = error;
        return error.status;
    }
    return FT_OK;
}

void workers_join(ft_run *run)
{
    for (int d = 0; d < run->blueprint->cut.n_devices; d++) {
        worker *w = &run->workers[d];
        if (w->started) pthread_join(w->thread, NULL);
        w->started = false;
    }
}

ft_status workers_replay(ft_run *run, int64_t wanted, ft_error *err)
{
    bool moved = true;
    while (moved && ft_gate_count(&run->done_gate) <= (uint32_t)wanted) {
        moved = false;
        for (int d = 0; d < run->blueprint->cut.n_devices; d++) {
            worker *w = &run->workers[d];
            ft_action a;
            if (!next_action(w, &a) || !action_is_ready(w, &a)) continue;
            FT_TRY(step(w, &a, err));
            moved = true;
        }
    }
    return FT_OK;
}
