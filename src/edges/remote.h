/* edges/remote.h - edges to other processes. */
#ifndef FT_EDGES_REMOTE_H
#define FT_EDGES_REMOTE_H

#include "state/run.h"

/* Edges to other processes, of a run; before a leg. */
ft_status remotes_open(ft_run *run, ft_error *err);
/* Whether edges of the run may have channels. Then it is to be called by all processes at the same
 * time, before the first leg: opens those that both ends can. */
bool remotes_meet_first(const ft_run *run);
ft_status remotes_meet(ft_run *run, ft_error *err);
void remotes_close(ft_run *run);
void remotes_reset(ft_run *run);
/* Behind an action that filled a slot of edge e: sends it. */
void remote_fill(worker *w, const ft_action *action, int e);
/* Before an action takes from edge e: on its stream, what a message brought goes to its slot, where
 * messages do not land there. */
ft_status remote_take(const worker *w, ft_device_stream *stream, const ft_action *action, int e,
                      ft_error *err);
/* A slot of the row of that edge was freed: tells those elsewhere who fill some. */
void remote_free(const ft_run *run, int slots_of);
/* After a leg of so many batches: waits until others have freed all that was sent. */
ft_status remotes_settle(ft_run *run, int64_t batches, ft_error *err);

#endif
