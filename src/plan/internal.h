/* plan/internal.h - what the files of this room share. */
#ifndef FT_PLAN_INTERNAL_H
#define FT_PLAN_INTERNAL_H

#include "plan/making.h"
#include "plan/owners.h"
#include "plan/wires.h"

/* n items of so many bytes, copied; NULL without memory. */
void *plan_copy(ft_arena *arena, const void *from, int64_t n, int64_t size);

/* The same message with the line of the text, which is not one when it is 0: what began with "plan"
 * begins with "plan, line 7". Gives the error's status. */
ft_status at_line(int line, ft_error *err);

/* check_order.c: all but the ranges; the derived values are compared with what the plan says. */
ft_status plan_check_order(const ft_plan *plan, const ft_seating *shares, ft_arena *arena,
                           ft_error *err);
/* check_ties.c: what a stage takes over is no later than its owner's lags say. */
ft_status plan_check_ties(const ft_plan *plan, const ft_seating *shares, ft_arena *arena,
                          ft_error *err);
/* turns.c: edges that share a place can. */
ft_status plan_check_turns(const ft_plan *plan, const ft_seating *shares, ft_arena *arena,
                           ft_error *err);
/* check_order.c again, without comparing. */
ft_status plan_measure(const ft_plan *plan, const ft_seating *shares, ft_arena *arena,
                       const ft_derived *out, ft_error *err);
#endif
