/* engine/internal.h - what the files of the engine share. */
#ifndef FT_ENGINE_INTERNAL_H
#define FT_ENGINE_INTERNAL_H

#include <stdio.h>

#include "actions/actions.h"
#include "blueprint/states.h"
#include "edges/channels.h"
#include "edges/edges.h"
#include "edges/remote.h"
#include "engine/engine.h"
#include "ranks/ranks.h"
#include "state/batches.h"
#include "state/guard.h"
#include "actions/hearing.h"
#include "state/late.h"
#include "state/ledger.h"
#include "state/here.h"
#include "state/slots.h"

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
 * meanwhile, or was before. */
ft_status wait_for_action(worker *w, const ft_action *action, ft_error *err);
/* True when the action would not wait. */
bool action_is_ready(const worker *w, const ft_action *action);

/* The edge of the plan that one of the blueprint is part of. */
static inline int edge_of_plan(const ft_run *run, int e)
{
    return run->blueprint->cargoes[e].edge;
}

/* describe.c: for others who ask, what the first device here with work left is at; what its stage
 * is without. Of a run. */
void tell_work(void *run, char out[FT_AT_WORDS]);
void tell_rest(void *run, char out[FT_AT_WORDS]);

/* leg.c: a leg of the devices here; what is there of it when its workers are gone. */
ft_status begin_leg(ft_run *run, const ft_plan *plan, int64_t first_step, bool threaded,
                    ft_error *err);
ft_status close_leg(ft_run *run, ft_error *err);

/* again.c: of a batch that has failed by numbers that are not finite, in a leg that was stopped:
 * where devices ran ahead, the run's error becomes what gave the first of them. */
void look_closer(ft_run *run, int64_t batch);

/* save.c: FT_INVALID for what is neither a parameter of the run nor a part of its state. */
ft_status check_saved(const ft_run *run, const ft_saved *saved, ft_error *err);

/* worker.c: one thread per device, or none. */
ft_status workers_start(ft_run *run, ft_error *err);
void workers_join(ft_run *run);
/* Without threads: executes actions that are ready until batch `wanted` is done or nothing can
 * move; returns whether it moved. */
ft_status workers_replay(ft_run *run, int64_t wanted, ft_error *err);
/* Stores the first failure, stops everybody. */
void run_fail(ft_run *run, const ft_error *error);

#endif
