/* actions/internal.h - what the files of the room share. */
#ifndef FT_ACTIONS_INTERNAL_H
#define FT_ACTIONS_INTERNAL_H

#include "actions/actions.h"
#include "blueprint/states.h"
#include "edges/channels.h"
#include "edges/edges.h"
#include "edges/remote.h"
#include "ranks/outputs.h"
#include "state/batches.h"
#include "actions/hearing.h"
#include "state/late.h"
#include "state/ledger.h"
#include "state/here.h"
#include "state/slots.h"

static inline int64_t item_at(const ft_cargo *c, int bucket, int i)
{
    return c->at[bucket * c->n + i];
}

/* Gradients that move are written whole. */
static inline bool moves_gradients(const ft_run *run, int s)
{
    return run->blueprint->seats[s].units[FT_MEMORY_GRADIENTS];
}

/* The slot of an edge that is per batch. */
static inline char *slot_of(const ft_run *run, int e, const ft_action *a)
{
    return row_place(run, (ft_row_end){e, FT_ROW_EDGE}, a);
}

/* actions.c: the seat that is last to update a batch, or to forward it in evaluation, reports it.
 */
ft_status finish_batch(worker *w, const ft_action *action, ft_error *err);

/* compute.c: F; B, or the half of one that adds to gradients; any of these by its program alone. */
ft_status do_forward(worker *w, const ft_action *action, ft_error *err);
ft_status do_backward(worker *w, const ft_action *action, ft_error *err);
ft_status do_nodes(worker *w, const ft_action *action, ft_error *err);

/* reduce.c: X and R. */
ft_status do_exchange(worker *w, const ft_action *action, ft_error *err);
ft_status do_reduce(worker *w, const ft_action *action, ft_error *err);
/* Where the owner of a parameter has the sum of its terms, after R. */
float *sum_of_terms(const ft_run *run, const ft_param_layout *param);
/* Whether an update of its seat changes this parameter. */
bool is_updated(const ft_blueprint *b, const ft_seat_param *param);
/* What one of a seat's edges carries; `stream` is that of begin_sending. */
typedef struct sending {
    const worker *w;
    const ft_action *action;
    ft_device_stream *stream;
    int edge;
} sending;
/* To its place `at` in a slot of the edge, or by the edge's channel. */
ft_status send_item(const sending *sending, int64_t at, const void *own, int64_t bytes,
                    ft_error *err);

/* update.c: U, W and M. */
ft_status do_update(worker *w, const ft_action *action, ft_error *err);
ft_status do_adopt(worker *w, const ft_action *action, ft_error *err);
ft_status do_make(worker *w, const ft_action *action, ft_error *err);
/* Makes one packed copy, by its number in the seat. */
ft_status pack_weight(const worker *w, int seat, int pack, const void *weight, void *packed,
                      ft_error *err);

/* norms.c: action N; the norm of all gradients that an update goes by, NAN where it knows none. */
ft_status do_take_norms(worker *w, const ft_action *action, ft_error *err);
ft_status global_norm(const worker *w, const ft_action *update, double *out, ft_error *err);

/* gap.c: action A; after an update, notes by how much it has moved weights. */
ft_status do_attenuate(worker *w, const ft_action *action, ft_error *err);
ft_status note_steps(worker *w, const ft_action *update, ft_error *err);

/* predict.c: action P. */
ft_status do_predict(worker *w, const ft_action *action, ft_error *err);

/* hear.c: the worker's findings are to be heard later, and those of the next action are others;
 * waits for the device and hears all; where something was not heard. */
ft_status hear_later(worker *w, const ft_action *action, const ft_program *program,
                     const ft_bases *bases, bool makes_loss, ft_error *err);
ft_status hear_all(worker *w, ft_error *err);
ft_status hear_rest(worker *w, ft_error *err);

/* finite.c: finds the node that gave the first number that is not finite, and notes it for the
 * batch. The action was executed, and what it received is in place still. */
ft_status explain_failure(worker *w, const ft_action *action, int bucket, const ft_program *program,
                          const ft_bases *bases, ft_error *err);
/* Notes what was found of an action without looking further, for who hears it later. */
void note_found(worker *w, const ft_action *action, const ft_watch *found);
/* Notes a parameter whose gradient terms are finite, but not their sum. */
void note_bad_sum(worker *w, const ft_action *action, int param);
/* Whether the seat may update: it, or with a synchronous schedule every seat, has seen nothing
 * but finite numbers. */
bool may_update(worker *w, const ft_action *action);

#endif
