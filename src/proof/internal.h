/* proof/internal.h - what the files of this room share. */
#ifndef FT_PROOF_INTERNAL_H
#define FT_PROOF_INTERNAL_H

#include "plan/making.h"
#include "plan/owners.h"
#include "plan/wires.h"
#include "proof/proof.h"

/* order.c: all but the ranges; the derived values are compared with what the plan says.
 * is_steady: what holds of the last repetition of the body would hold of any number of them. */
ft_status proof_check_order(const ft_plan *plan, const ft_seating *shares, bool *is_steady,
                            ft_arena *arena, ft_error *err);
/* ties.c: what a stage takes over is no later than its owner's lags say. */
ft_status proof_check_ties(const ft_plan *plan, const ft_seating *shares, ft_arena *arena,
                           ft_error *err);
/* order.c again, without comparing. */
ft_status proof_measure(const ft_plan *plan, const ft_seating *shares, bool *is_steady,
                        ft_arena *arena, const ft_derived *out, ft_error *err);

#endif
