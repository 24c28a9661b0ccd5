/* plan/ends.h - edges of a list, found by the actions that they join. */
#ifndef FT_PLAN_ENDS_H
#define FT_PLAN_ENDS_H

#include "base/arena.h"
#include "plan/plan.h"

/* In buckets by the stages, or replicas, at the ends: of every one the newest edge, and by edge the
 * one before it; -1: none. */
typedef struct ft_ends {
    int n_ends, n_buckets;
    int *newest, *before;
} ft_ends;

/* Room for n edges in `before`; for more, whoever adds them makes it longer. From the arena. */
ft_status ft_ends_open(ft_ends *out, ft_arena *arena, int n_ends, int n_edges, ft_error *err);
/* Adds edge e of the list. */
void ft_ends_note(ft_ends *ends, const ft_edge *edges, int e);
/* The number of the edge between those actions, or -1. */
int ft_ends_find(const ft_ends *ends, const ft_edge *edges, const ft_edge *wanted);

#endif
