/* mixed/clusters.h - units that are moved together. */
#ifndef FT_MIXED_CLUSTERS_H
#define FT_MIXED_CLUSTERS_H

#include "problem/ground.h"

enum { MOST_LEVELS = 12 };

/* Levels of clusters, each of pairs of the one before: units of cluster c of level l are
 * list[l][first[l][c]] ... list[l][first[l][c + 1] - 1]. */
typedef struct clusters {
    int n_levels;
    int *of[MOST_LEVELS], *first[MOST_LEVELS], *list[MOST_LEVELS];
} clusters;

/* Matches neighbours, heavy values between light clusters first, whether or not that makes cycles,
 * until few are left. In the ground's arena; false without memory. */
bool clusters_make(const ft_ground *g, clusters *out);

#endif
