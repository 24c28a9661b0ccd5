/* actions/actions.h - what each action of a plan does, with all that it needs in place.
 *
 * Waiting, counting and the order of actions are the engine's. */
#ifndef FT_ACTIONS_H
#define FT_ACTIONS_H

#include "state/run.h"

/* Whether actions of the kind can be executed, and not only be simulated. */
bool can_execute(ft_action_kind kind);
/* Executes one action of a seat; everything that it needs is there. FT_INVALID where its weights
 * are not as old as the plan says; errors of kernels and devices. */
ft_status execute_action(worker *w, const ft_action *action, ft_error *err);
/* Packs the weights of a seat again: copies of these classes, as bits. */
ft_status pack_weights(ft_run *run, int seat, unsigned classes, ft_error *err);
/* Behind a leg: in host memory, copies that its plan has made on devices alone. */
ft_status pack_made(ft_run *run, ft_error *err);

#endif
