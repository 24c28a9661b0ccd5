/* engine/again.c - a batch with numbers that are not finite, once more.
 *
 * A device that runs ahead tells of such a number when what the action read may be gone. Weights
 * are as they were: no stage that has seen one updates. So the batch is executed again, in a leg of
 * its own on the calling thread, which hears each action before it gives the next, and finds what
 * gave the first of them (actions/finite.c). Stages that update at their own times have other
 * weights by then where they are healthy: what makes no such number the second time, or makes it
 * somewhere else, leaves the error as it was; so it stays in a run of several processes, none of
 * which has all stages. */
#include "base/alloc.h"
#include "engine/internal.h"

static bool runs_ahead(const ft_run *run)
{
    for (int d = 0; d < run->n_devices; d++)
        if (run->workers[d].hearing) return true;
    return false;
}

/* One input of a batch, as a device that reads it has it. */
static ft_status read_input(const ft_run *run, int64_t batch, int i, char *to, int64_t bytes,
                            ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    int d = 0;
    while (d < run->n_devices && b->blocks[d].input_at[i] < 0) d++;
    if (d == run->n_devices) return FT_OK; /* nobody reads it */
    const worker *w = &run->workers[d];
    const char *at = batch_slot(w, batch) + b->blocks[d].input_at[i];
    FT_TRY(copy_on(w->feeder, (ft_location){NULL, to}, at_device(run, d, at), bytes, err));
    return w->executor->driver->finish(w->feeder, err);
}

/* What was fed as the batch; inputs has room for those of the graph, *memory is the caller's. */
static ft_status read_batch(const ft_run *run, int64_t number, ft_feed *feed, ft_view *inputs,
                            char **memory, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    const batch_state *batch = batch_of(run, number);
    const ft_graph *g = b->cut.graphs[batch->bucket];
    const int64_t *each = &b->input_bytes[batch->bucket * b->n_inputs];
    int64_t micros = b->cut.micro_batches, all = 0;
    for (int i = 0; i < b->n_inputs; i++) all += each[i] * micros;
    char *at = *memory = ft_alloc(all);
    if (!at) return ft_fail(err, FT_NOMEM, "engine: no memory for a batch");
    for (int i = 0; i < b->n_inputs; at += each[i++] * micros) {
        ft_spec spec = ft_graph_value(g, ft_graph_input_value(g, i))->spec;
        spec.shape = ft_shape_of(ft_shape_count(&spec.shape) * micros);
        inputs[i] = ft_view_of(&spec, at);
        FT_TRY(read_input(run, number, i, at, each[i] * micros, err));
    }
    *feed = (ft_feed){batch->bucket, b->n_inputs, inputs, batch->rate, batch->loss_scale};
    return FT_OK;
}

/* The batch as the only one of a leg; *found: what it is noted for there, if that is at this place
 * in the order of actions. */
static ft_status run_again(ft_run *run, int64_t first_step, const ft_feed *feed, int64_t order,
                           ft_error *found, ft_error *err)
{
    FT_TRY(begin_leg(run, run->plan, first_step, false, err));
    for (int s = 0; s < run->n_seats; s++) run->seats[s].spoiled = true; /* updates nothing */
    FT_TRY(ft_run_feed(run, feed, err));
    ft_run_drain(run);
    FT_TRY(workers_replay(run, 0, err));
    const batch_state *batch = &run->batches[0];
    if (batch->failure.status == FT_DIVERGED && batch->failure_order == order)
        *found = batch->failure;
    return FT_OK;
}

void look_closer(ft_run *run, int64_t number)
{
    const batch_state *batch = batch_of(run, number);
    ft_error found = batch->failure, ignored;
    int64_t order = batch->failure_order;
    char *memory = NULL;
    ft_feed feed = {0};
    if (!runs_ahead(run) || run->world) return;
    ft_view *inputs = ft_alloc((run->blueprint->n_inputs + 1) * (int64_t)sizeof *inputs);
    workers_join(run);
    ft_status status =
        inputs ? read_batch(run, number, &feed, inputs, &memory, &ignored) : FT_NOMEM;
    if (status == FT_OK) status = close_leg(run, &ignored);
    run->attentive = true;
    if (status == FT_OK) run_again(run, run->first_step + number, &feed, order, &found, &ignored);
    run->attentive = false;
    run_fail(run, &found);
    ft_free(memory);
    ft_free(inputs);
}
