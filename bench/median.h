/* bench/median.h - the median of times. */
#ifndef FT_BENCH_MEDIAN_H
#define FT_BENCH_MEDIAN_H

#include <stdlib.h>

static inline int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of n > 0 values, the upper one of two; sorts them. */
static inline double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    return values[n / 2];
}

#endif
