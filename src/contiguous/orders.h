/* contiguous/orders.h - topological orders of a graph. */
#ifndef FT_CONTIGUOUS_ORDERS_H
#define FT_CONTIGUOUS_ORDERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/rng.h"

/* Edges in both directions, CSR. */
typedef struct ft_dag {
    int n;
    const int *next_first, *next, *back_first, *back;
} ft_dag;

/* A topological order of the nodes. Even rules walk back from what is last, the longest way first,
 * so that a node stands where it is needed; odd ones walk depth first from what is first, so that a
 * node stands where it can run. Rules 0 and 1 make no random choices, the others do. In the arena;
 * false without memory. */
bool ft_dag_order(ft_arena *arena, const ft_dag *d, uint64_t seed, uint64_t rule, int *order);
/* The most nodes that are ready together while nodes run in turn: none of them depends on another,
 * so that there are at least 2 to that power down-sets. -1 without memory. */
int ft_dag_width(ft_arena *arena, const ft_dag *d);

#endif
