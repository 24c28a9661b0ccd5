/* mixed/mixed.h - placements that are searched for, at any size.
 *
 * Each fills a result for a checked problem: see ft_partition_solve for what it returns. */
#ifndef FT_MIXED_H
#define FT_MIXED_H

#include "problem/ground.h"

/* Contiguous stages: orders divided at random, and refined. */
ft_status ft_solve_greedy(ft_ground *g, ft_partition_result *result, ft_error *err);
/* Blocks on any device, in any order. */
ft_status ft_solve_mixed(ft_ground *g, ft_partition_result *result, ft_error *err);

#endif
