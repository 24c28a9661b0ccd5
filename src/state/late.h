/* state/late.h - weights that are not the newest, what is known to make them (versions.c), and how
 * far they are from the newest (gap.c). */
#ifndef FT_STATE_LATE_H
#define FT_STATE_LATE_H

#include "state/run.h"

/* Of a seat, once; then around a leg. */
ft_status versions_new(ft_run *run, int seat, ft_error *err);
void versions_begin(ft_run *run);
void versions_end(ft_run *run);
/* Before newer ones are made: keeps the weights of that kind, where the plan reads them later. */
ft_status keep_version(worker *w, int seat, ft_weights_kind kind, ft_error *err);
/* Where action P leaves what it makes. */
char *predicted_slot(const ft_run *run, int seat, ft_weights_kind kind);
/* The optimizer's state of a parameter that the seat owns, or knows. */
char *known_state(const ft_run *run, int seat, int param);
/* The seat has taken over the state of a parameter, by its position, or has it from a refresh. */
void keep_state_copy(worker *w, int seat, int i);
/* How many updates the weights that the action finds are behind, as they were counted. */
int counted_lag(const ft_run *run, const ft_action *action);
/* A parameter, by its position in the seat, of an older version; FT_INVALID when it is not there.
 */
ft_status find_older(const ft_run *run, int seat, int i, int64_t version, const float **out,
                     ft_error *err);
/* Points bases at the weights that the action reads; FT_INVALID when they are not there. */
ft_status find_versions(const ft_run *run, const ft_action *action, ft_bases *bases, ft_error *err);

/* The norm of what a seat's weights have gone between the first late forward of a batch and its
 * backward; NAN until it is known. */
double *gap_of_batch(const ft_run *run, int seat, int64_t batch);
/* Before what computes: keeps what a late forward reads by `bases`, where the seat has marks;
 * finds the gap of a backward that reads older weights by `bases`, or the newest with a mark. */
ft_status keep_mark(worker *w, const ft_action *forward, const ft_bases *bases, ft_error *err);
ft_status measure_gap(worker *w, const ft_action *backward, const ft_bases *bases, ft_error *err);

#endif
