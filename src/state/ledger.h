/* state/ledger.h - what is live, counted where places are handed out and given back, not by the
 * plan.
 */
#ifndef FT_STATE_LEDGER_H
#define FT_STATE_LEDGER_H

#include "state/run.h"

/* Pools of a run; nothing is in them. */
ft_status ledger_new(ft_run *run, ft_error *err);
/* Before a leg: empties every pool. */
void ledger_reset(ft_run *run);
/* A tensor of the seat is written; the first time it becomes live. Not where its class moves. */
void ledger_keep(worker *w, int seat, ft_memory_class c, bool *kept, int64_t bytes);
/* A unit comes (bytes above 0) or goes. */
void ledger_unit(const worker *w, ft_memory_class c, int64_t bytes);
/* So much of the workspace was used at once, beside what was lent to the library. */
void ledger_work(worker *w, int64_t bytes);
/* Around an action: slots that it fills are handed out, those that it is done with are given back.
 * FT_INVALID when a slot is in use by another, or not by this one. */
ft_status ledger_begin(worker *w, const ft_action *action, ft_error *err);
ft_status ledger_end(worker *w, const ft_action *action, ft_error *err);
/* A version of a seat's weights gets the place of the one that is a ring older. */
ft_status ledger_keep_version(worker *w, int seat, ft_weights_kind kind, int64_t version,
                              ft_error *err);
/* Which version is where this one belongs; -1: none. */
int64_t ledger_version(const ft_run *run, int seat, ft_weights_kind kind, int64_t version);
/* A batch is fed, or was taken. */
ft_status ledger_feed(ft_run *run, int64_t batch, int bucket, ft_error *err);
ft_status ledger_take(ft_run *run, int64_t batch, ft_error *err);
/* Slots of edges to other processes: one was filled from there; number `index` of those that are
 * handed out here, if it was, is free again. */
ft_status ledger_arrive(ft_run *run, pool *slots, int64_t index, int64_t bytes, ft_error *err);
ft_status ledger_hear(ft_run *run, pool *slots, int64_t index, ft_error *err);
/* At the end of a leg: FT_INVALID when something is still handed out. */
ft_status ledger_close(const ft_run *run, ft_error *err);

#endif
