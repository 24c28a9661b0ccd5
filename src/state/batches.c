/* state/batches.c - what is known of a batch while it is under way, and what became of it. */
#include "state/batches.h"

#include <math.h>

#include "base/clock.h"

float *loss_of(const ft_run *run, int s, int64_t batch, int64_t micro)
{
    const ft_blueprint *b = run->blueprint;
    const ft_stage_share *of = &b->seating.of[b->seats[s].stage];
    int64_t slot = batch % b->batch_slots;
    return &run->seats[s].losses[slot * of->per_batch + ft_share_local(of, micro)];
}

/* Over its micro-batches in their order, whichever replica has them. */
static double sum_losses(const ft_run *run, int64_t batch)
{
    const ft_blueprint *b = run->blueprint;
    double sum = 0;
    int s = 0;
    while (!b->seats[s].sums_loss) s++;
    for (int m = 0; m < b->cut.micro_batches; m++) {
        int replica = ft_share_replica(&b->seating.of[b->seats[s].stage], m);
        sum += (double)*loss_of(run, s + replica, batch, m);
    }
    return sum;
}

/* Of all gradients: what an update went by, or else their squares, in the order of parameters. */
static double norm_of(const ft_run *run, int64_t number)
{
    const ft_blueprint *b = run->blueprint;
    double sum = 0;
    if (b->norms || !b->squares) return batch_of(run, number)->norm;
    for (int p = 0; p < b->n_params; p++) sum += norms_of(run, number)[p].squared;
    return sqrt(sum);
}

void complete_batch(ft_run *run, int64_t number)
{
    batch_state *batch = batch_of(run, number);
    run->results[number % run->blueprint->batch_slots] =
        (ft_result){.step = run->first_step + number,
                    .loss = sum_losses(run, number) / batch->loss_scale,
                    .grad_norm = norm_of(run, number),
                    .rate = batch->rate,
                    .end_ns = ft_now_ns() - run->start_ns,
                    .skipped = batch->failure.status == FT_CANCELLED};
    atomic_store(&batch->finished, number + 1);
    ft_gate_open(&run->done_gate);
}

void note_failure(ft_run *run, int64_t batch, const ft_error *failure, int64_t order)
{
    batch_state *state = batch_of(run, batch);
    if (failure->status == FT_OK) return;
    pthread_mutex_lock(&run->error_lock);
    bool skipped = state->failure.status == FT_CANCELLED, skips = failure->status == FT_CANCELLED;
    bool first = skipped == skips ? order < state->failure_order : skipped;
    if (state->failure.status == FT_OK || first) {
        state->failure = *failure;
        state->failure_order = order;
    }
    pthread_mutex_unlock(&run->error_lock);
}
