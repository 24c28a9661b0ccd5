/* state/here.h - which of a run's devices are of this process; whether they are at work. */
#ifndef FT_STATE_HERE_H
#define FT_STATE_HERE_H

#include "state/run.h"

/* Whether a device, or a seat, is of this process; whose it is. */
bool is_here(const ft_run *run, int device);
bool seat_is_here(const ft_run *run, int seat);
int rank_of_seat(const ft_run *run, int seat);
/* Whether the device of a parameter's owner is of this process; where the parameter is there. */
bool owner_is_here(const ft_run *run, int param);
char *param_at(const ft_run *run, int param);
/* Of the run, or of the one that it evaluates or that evaluates it: they share devices. */
bool leg_is_under_way(const ft_run *run);
/* Stores the first failure, stops everybody here, cuts channels: of these processes no other leg
 * begins. */
void run_stop(ft_run *run, const ft_error *error);

#endif
