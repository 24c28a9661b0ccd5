/* proof/proof.h - what is proven of a plan before it is executed, and what follows from its lists.
 *
 * Pure. */
#ifndef FT_PROOF_H
#define FT_PROOF_H

#include "base/arena.h"
#include "plan/shares.h"

/* Proves the plan: every F, B, R, U, W exactly once and in an order that respects the edges, with
 * the real numbers of slots and in-flight buffers, on any timing (strict lists and FIFO edges make
 * one untimed run a proof; where a policy chooses, stages that meet in queues only); every version
 * that is read is kept, what is needed is on the device; depths, in-flight counts and versions are
 * those that edges and lists give. FT_INFEASIBLE names the devices, actions and edges that wait for
 * each other; FT_INVALID what is missing or wrong; both the line of a plan that was read. */
ft_status ft_plan_check(const ft_plan *plan, ft_error *err);

/* check.c: everything but waiting: ranges, counts, each stage's order, lags, in-flight numbers. */
ft_status ft_plan_check_lists(const ft_plan *plan, ft_error *err);
/* walk.c: runs the lists to the end; FT_INFEASIBLE with who waits for what. A batch begins when the
 * one batch_slots before it has ended; 0: none waits for that. */
ft_status ft_plan_walk(const ft_plan *plan, const ft_seating *shares, int batch_slots,
                       ft_arena *arena, ft_error *err);

/* How many batches have to be there at once, `least` or more, where a batch may begin when the one
 * so many before it has ended in every stage: with fewer the plan, which ft_plan_check has passed,
 * might wait for ever. At most its batches, and less than twice what would do. */
ft_status ft_plan_batch_slots(const ft_plan *plan, int least, int *out, ft_error *err);

/* The plan of a leg of n_batches, at most the plan's, which ft_plan_check has passed: every list
 * without the actions of the batches after them. In-flight numbers and versions are those that the
 * shorter lists need; everything else is the plan's, copied. Of a plan by ft_plan_make each stage's
 * order is that of a plan made for n_batches, and so is each device's, where it has one stage. */
ft_status ft_plan_cut(ft_plan **out, const ft_plan *plan, int n_batches, ft_error *err);

/* Takes from the plan's edges, of which `edges` is a copy, the slots that can never be full at
 * once, on any timing, so that nothing waits longer without them: of edges that are filled once per
 * batch, with 64 KiB or more, in a plan that ft_plan_check has passed. */
ft_status ft_plan_trim(const ft_plan *plan, ft_edge *edges, ft_error *err);

/* What a plan says of its stages that follows from its edges and lists; by stage. */
typedef struct ft_derived {
    int *depth, *in_flight, *versions;
} ft_derived;

/* Finds what follows from a plan that need not say it. */
ft_status ft_plan_derive(const ft_plan *plan, const ft_derived *out, ft_error *err);

#endif
