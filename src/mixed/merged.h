/* mixed/merged.h - a problem whose units are blocks of another one's. */
#ifndef FT_MIXED_MERGED_H
#define FT_MIXED_MERGED_H

#include "mixed/clusters.h"
#include "mixed/placing.h"

/* Nodes are those of the other problem, and so are all prices: a placement here is one there. */
typedef struct merged {
    ft_partition_problem problem;
    ft_ground g;
    placing p; /* empty at first */
    int *order;
    clusters groups;
} merged;

/* Merges units along a topological order, by that rule of order_units, to `wanted` blocks or half
 * as many as there are units, and some more where pins or memory keep a block from every device.
 * False without memory; freed with merged_free whatever is returned. */
bool merged_new(merged *m, const ft_ground *g, int wanted, uint64_t rule);
void merged_free(merged *m);

#endif
