/* mixed/anneal.h - refinement of a placement. */
#ifndef FT_MIXED_ANNEAL_H
#define FT_MIXED_ANNEAL_H

#include "mixed/clusters.h"
#include "mixed/intervals.h"

/* What is known to be best, by price, then bytes moved. */
typedef struct incumbent {
    double price;
    int64_t moved;
    int *device; /* by node, so that searches with other units share it */
    int from;    /* number of the search that found it */
} incumbent;

/* Keeps the placement when it is valid and better. */
bool incumbent_offer(incumbent *best, placing *p, int from);

/* What is changed, and for how long. */
typedef struct cooling {
    const int *order;       /* of units; runs along it are moved together */
    const clusters *groups; /* NULL, or units that are moved together as well */
    intervals *blocks;      /* NULL: any unit may move; else borders and devices of blocks alone */
    const bool *held;       /* NULL: none; by unit: stays where it is */
    int64_t steps;          /* of work, see placing */
    double heat;            /* temperature to start from, times the target */
    double aim;             /* the target is this share below the incumbent */
    int from;               /* number of the search */
} cooling;

/* Moves units between devices, by simulated annealing towards a target just below the incumbent:
 * single units, swaps and runs, or blocks. What the placement knows of its last stage stays, unless
 * blocks say it. False without memory. */
bool anneal(placing *p, const cooling *how, ft_rng *rng, incumbent *best);

/* From the incumbent on, which is what the placement and `how->blocks`, if it is there, say: fewer
 * bytes moved, and nothing slower. */
bool settle(placing *p, const cooling *how, ft_rng *rng, incumbent *best);

#endif
