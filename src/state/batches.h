/* state/batches.h - what is known of a batch while it is under way, and what became of it. */
#ifndef FT_STATE_BATCHES_H
#define FT_STATE_BATCHES_H

#include "state/run.h"

static inline batch_state *batch_of(const ft_run *run, int64_t batch)
{
    return &run->batches[batch % run->blueprint->batch_slots];
}

/* Squared norms of a batch, by parameter. */
static inline norm_cell *norms_of(const ft_run *run, int64_t batch)
{
    const ft_blueprint *b = run->blueprint;
    return run->norms + batch % b->norm_slots * b->n_params;
}

/* Where a seat that makes the loss has that of a micro-batch. */
float *loss_of(const ft_run *run, int seat, int64_t batch, int64_t micro);
/* A failure of a batch, which counts if none before it in the order was noted. */
void note_failure(ft_run *run, int64_t batch, const ft_error *failure, int64_t order);
/* The batch is done, by all seats of this process, and at rank 0 of all others: its result. */
void complete_batch(ft_run *run, int64_t number);

#endif
