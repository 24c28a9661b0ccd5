/* ops/relative_bias.c - the buckets of T5's relative position bias.
 *
 * Half of the buckets (of a direction) hold one distance each, the others hold distances in steps
 * that grow by a constant factor up to max_distance. Source: Raffel et al., arXiv:1910.10683,
 * section 2.1. */
#include "ops/attention.h"

#include <math.h>

int32_t ft_relative_bucket(int64_t key_minus_query, int64_t n_buckets, int64_t max_distance,
                           bool bidirectional)
{
    int64_t base = 0, buckets = n_buckets, distance;
    if (bidirectional) {
        buckets /= 2;
        if (key_minus_query > 0) base = buckets;
        distance = key_minus_query < 0 ? -key_minus_query : key_minus_query;
    } else
        distance = key_minus_query < 0 ? -key_minus_query : 0;
    int64_t exact = buckets / 2;
    if (distance < exact) return (int32_t)(base + distance);
    if (!exact || distance >= max_distance) return (int32_t)(base + buckets - 1);
    /* Distances that fall on a step exactly (16, 32, 64 of 128) are powers of one ratio; the
     * logarithms of those may come out a hair too small. */
    double steps = log((double)distance / (double)exact) /
                   log((double)max_distance / (double)exact) * (double)(buckets - exact);
    int64_t bucket = exact + (int64_t)(steps + 1e-9);
    if (bucket > buckets - 1) bucket = buckets - 1;
    return (int32_t)(base + bucket);
}
