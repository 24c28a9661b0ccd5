/* slots/slots.h - places of edges: those at the ends of an S or V, and those that edges share.
 *
 * Where several stages have their replicas on the same devices, every one has a place for the
 * gradients that the others send it of what it owns, and one for the weights of what they own. Of
 * stages whose gradients are summed one after the other, and whose weights are taken over one after
 * the other, no two such places are full at once: then their edges take turns in one, as large as
 * the largest. Who fills it waits until what lay there was used; plan/wires.h has the rule, which
 * the proof of a plan, simulations and runs follow. */
#ifndef FT_SLOTS_H
#define FT_SLOTS_H

#include "base/arena.h"
#include "plan/plan.h"

/* By edge: how many places an S needs where the value is made, which it takes from there, and a V
 * where it is used; 0 where the plan, which ft_plan_check has passed, has no S or no V for it. */
ft_status ft_plan_holds(const ft_plan *plan, int *sent, int *received, ft_error *err);

/* Lets edges of the plan, of which `edges` is a copy, share places: those between replicas of one
 * stage whose items are used before the next is made, in the order of work. Whatever would wait for
 * ever then has its own. *shared: how many take the place of another. */
ft_status ft_turns_share(const ft_plan *plan, ft_edge *edges, int *shared, ft_error *err);

/* An edge between replicas. */
typedef struct ft_turn {
    int edge;       /* of the plan */
    int from, to;   /* replicas, by their places in the plan's replica_device */
    int64_t bytes;  /* of its place; then of the largest of those that share it */
    int whose;      /* in whose slots it lands; then the first that shares them */
    int number, of; /* its turn in a batch, of so many: 0 of 1 before */
} ft_turn;

/* Gives n edges, those of an edge of the plan together, their turns. */
ft_status ft_turns_take(ft_turn *turns, int n, const ft_plan *plan, ft_arena *arena, ft_error *err);

#endif
