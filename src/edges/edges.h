/* edges/edges.h - places of edges, waited for and filled. */
#ifndef FT_EDGES_H
#define FT_EDGES_H

#include "state/run.h"

/* Around an action, on its stream: waits for what it reads and may overwrite; what it read is free
 * then, what it wrote is there, or on its way. */
ft_status begin_edges(worker *w, const ft_action *action, ft_error *err);
ft_status end_edges(worker *w, const ft_action *action, ft_error *err);
/* Of what an edge carries in a batch: weights and gradients have one size, and may be sent when the
 * batch is over and another one has its place. */
static inline int cargo_bucket(const ft_run *run, int edge, int batch)
{
    const ft_blueprint *b = run->blueprint;
    if (b->cargoes[edge].kind != FT_CARGO_VALUES) return 0;
    return run->batches[batch % b->batch_slots].bucket;
}
/* S and V: from the row that it takes from to the one that it fills. */
ft_status do_pass(worker *w, const ft_action *action, ft_error *err);
/* What an edge takes from where its seat has it is copied on *out, when all that was computed so
 * far has ended; it stays as it is until that is over. */
ft_status begin_sending(worker *w, int edge, ft_device_stream **out, ft_error *err);

#endif
