/* state/remote.h - edges to other processes, and whose a device is. */
#ifndef FT_STATE_REMOTE_H
#define FT_STATE_REMOTE_H

#include "state/run.h"

/* Whether a device, or a seat, is of this process; whose it is. */
bool is_here(const ft_run *run, int device);
bool seat_is_here(const ft_run *run, int seat);
int rank_of_seat(const ft_run *run, int seat);
/* Whether the device of a parameter's owner is of this process; where the parameter is there. */
bool owner_is_here(const ft_run *run, int param);
char *param_at(const ft_run *run, int param);
/* Whether a seat of that rank reads an input. */
bool reads_input(const ft_run *run, int rank, int input);
/* Edges to other processes, of a run; before a leg. */
ft_status remotes_open(ft_run *run, ft_error *err);
void remotes_close(ft_run *run);
void remotes_reset(ft_run *run);
/* Behind an action that filled a slot of edge e: sends it. */
void remote_fill(worker *w, const ft_action *action, int e);
/* A slot of the row of that edge was freed: tells those elsewhere who fill some. */
void remote_free(const ft_run *run, int slots_of);
/* After a leg of so many batches: waits until others have freed all that was sent. */
ft_status remotes_settle(ft_run *run, int64_t batches, ft_error *err);
/* Stores the first failure, stops everybody here. */
void run_stop(ft_run *run, const ft_error *error);

#endif
