/* partition/anneal.h - refinement of a placement. */
#ifndef FT_PARTITION_ANNEAL_H
#define FT_PARTITION_ANNEAL_H

#include "partition/placing.h"

/* What is known to be best, by price, then bytes moved. */
typedef struct incumbent {
    double price;
    int64_t moved;
    int *device; /* by unit */
    int from;    /* number of the search that found it */
} incumbent;

/* Keeps the placement when it is valid and better. */
bool incumbent_offer(incumbent *best, const placing *p, int from);

/* Moves units between devices, by simulated annealing towards a target just below the incumbent:
 * single units, swaps, and runs along `order`. `moves` are tried, from temperature `heat` times the
 * target on. */
void anneal(placing *p, const int *order, ft_rng *rng, int64_t moves, double heat, incumbent *best,
            int from);

/* From the incumbent on: fewer bytes moved, and nothing slower. */
void settle(placing *p, const int *order, ft_rng *rng, int64_t moves, incumbent *best);

#endif
