/* engine/internal.h - what the files of the engine share. */
#ifndef FT_ENGINE_INTERNAL_H
#define FT_ENGINE_INTERNAL_H

#include <stdio.h>

#include "blueprint/states.h"
#include "engine/engine.h"
#include "state/guard.h"
#include "state/late.h"
#include "state/ledger.h"
#include "state/remote.h"

/* What an action needs before it may begin: a gate that is open so far. */
typedef struct need {
    ft_gate *gate;
    uint32_t target;
    ft_wait what;
    ft_row_end at; /* of data and slots */
} need;

/* wait.c: the i-th need of an action: its batch, its edges in, a free slot of its edges out; false
 * past the last. */
bool nth_need(const ft_run *run, const ft_action *action, int i, need *out);
bool is_met(const need *n);
/* Waits for all of them, or until the action is left out. FT_CANCELLED when the run is stopped
 * meanwhile. */
ft_status wait_for_action(worker *w, const ft_action *action, ft_error *err);
/* True when the action would not wait. */
bool action_is_ready(const worker *w, const ft_action *action);

static inline int64_t item_at(const ft_cargo *c, int bucket, int i)
{
    return c->at[bucket * c->n + i];
}

static inline batch_state *batch_of(const ft_run *run, int64_t batch)
{
    return &run->batches[batch % run->blueprint->batch_slots];
}

/* Gradients that move are written whole. */
static inline bool moves_gradients(const ft_run *run, int s)
{
    return run->blueprint->stages[s].units[FT_MEMORY_GRADIENTS];
}

/* The edge of the plan that one of the blueprint is part of. */
static inline int edge_of_plan(const ft_run *run, int e)
{
    return run->blueprint->cargoes[e].edge;
}

/* The slot of an edge that is per batch. */
static inline char *slot_of(const ft_run *run, int e, const ft_action *a)
{
    return row_place(run, (ft_row_end){e, FT_ROW_EDGE}, a);
}

/* actions.c: executes one action; everything it needs is there. */
ft_status execute_action(worker *w, const ft_action *action, ft_error *err);
/* The stage that is last to update a batch, or to forward it in evaluation, reports it. */
ft_status finish_batch(worker *w, const ft_action *action, ft_error *err);

/* Where a stage that makes the loss has that of a micro-batch. */
float *loss_of(const ft_run *run, int stage, int64_t batch, int64_t micro);

/* The batch is done, by all stages of this process, and at rank 0 of all others: its result. */
void complete_batch(ft_run *run, int64_t number);

/* ranks.c: what rank 0 of several processes tells the others, who do the same. Of a run. */
ft_status ranks_open(ft_run *run, ft_error *err);
void ranks_close(ft_run *run);
/* The others free theirs. */
void ranks_free(ft_world *world);
/* Whether the run has other processes do what it does. */
bool leads(const ft_run *run);
/* Parts of a batch that end apart: stages here and, at rank 0, other processes with stages. */
int ranks_parts(const ft_run *run);
/* Around a leg; at its end with what happened there. */
ft_status ranks_begin(ft_run *run, int64_t batches, int64_t first_step, ft_error *err);
void ranks_say_end(ft_run *run, bool complete);
ft_status ranks_hear_end(ft_run *run, ft_error *err);
void ranks_feed(ft_run *run, const ft_feed *feed);
void ranks_drain(ft_run *run);
/* Tells rank 0 that a batch is done here, and with what; a failure of this process. */
void ranks_report(ft_run *run, int64_t batch);
void ranks_tell(ft_run *run, const ft_error *error);
/* Parameters with their state, from their owner into the mirror; and to those who have them, with
 * a refresh there. */
ft_status ranks_fetch(ft_run *run, int param, ft_error *err);
void ranks_store(ft_run *run, int param);
ft_status ranks_refresh(ft_run *run, ft_error *err);

/* run.c: where a parameter is at its owner. */
char *param_at(const ft_run *run, int param);
/* Whether the parameter's owner is a device of this process. */
bool owner_is_here(const ft_run *run, int param);

/* compute.c: F; B, or the half of one that adds to gradients; any of these by its program alone. */
ft_status do_forward(worker *w, const ft_action *action, ft_error *err);
ft_status do_backward(worker *w, const ft_action *action, ft_error *err);
ft_status do_stage(worker *w, const ft_action *action, ft_error *err);

/* update.c: R, U, and A of tied weights. */
ft_status do_exchange(worker *w, const ft_action *action, ft_error *err);
ft_status do_reduce(worker *w, const ft_action *action, ft_error *err);
ft_status do_update(worker *w, const ft_action *action, ft_error *err);
ft_status do_adopt(worker *w, const ft_action *action, ft_error *err);
/* Packs the weights of a stage again; param >= 0: only copies of that one. */
ft_status pack_weights(ft_run *run, int stage, int param, ft_error *err);
/* Makes one packed copy, by its number in the stage. */
ft_status pack_weight(const worker *w, int stage, int pack, const void *weight, void *packed,
                      ft_error *err);

/* norms.c: action N; the norm of all gradients that an update goes by, NAN where it knows none. */
ft_status do_take_norms(worker *w, const ft_action *action, ft_error *err);
ft_status global_norm(const worker *w, const ft_action *update, double *out, ft_error *err);

/* gap.c: action A; after an update, notes by how much it has moved weights. */
ft_status do_attenuate(worker *w, const ft_action *action, ft_error *err);
ft_status note_steps(worker *w, const ft_action *update, ft_error *err);

/* predict.c: action P. */
ft_status do_predict(worker *w, const ft_action *action, ft_error *err);

/* finite.c: finds the node that gave the first number that is not finite, and notes it for the
 * batch. The action was executed, and what it received is in place again. */
ft_status explain_failure(worker *w, const ft_action *action, int bucket, const ft_program *program,
                          const ft_bases *bases, ft_error *err);
/* Notes a parameter whose gradient terms are finite, but not their sum. */
void note_bad_sum(worker *w, const ft_action *action, int param);
/* Whether the stage may update: it, or with a synchronous schedule every stage, has seen nothing
 * but finite numbers. */
bool may_update(worker *w, const ft_action *action);

/* worker.c: one thread per device, or none. */
ft_status workers_start(ft_run *run, ft_error *err);
void workers_join(ft_run *run);
/* Without threads: executes actions that are ready until batch `wanted` is done or nothing can
 * move; returns whether it moved. */
ft_status workers_replay(ft_run *run, int64_t wanted, ft_error *err);
/* Stores the first failure, stops everybody. */
void run_fail(ft_run *run, const ft_error *error);

#endif
