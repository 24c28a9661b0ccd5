/* kernels/attention.h - what the kernels of attention share: a head of a sample, its rows. */
#ifndef FT_KERNELS_ATTENTION_H
#define FT_KERNELS_ATTENTION_H

#include "kernel.h"

/* One head of one sample. */
struct head {
    int64_t b, h, offset;
    const float *q, *k, *v, *line;
    const int32_t *mask;
};

FT_INLINE head head_of(const ft_attention_args &a, int64_t number)
{
    int64_t b = number / a.H, h = number % a.H;
    head x = {b,
              h,
              a.position ? a.position[0] : 0,
              a.q + b * a.Tq * a.step + h * a.D,
              a.k + b * a.Tk * a.step + h * a.D,
              a.v + b * a.Tk * a.step + h * a.D,
              a.line ? a.line + h * (a.Tq + a.Tk - 1) + a.Tq - 1 : (const float *)0,
              a.mask ? a.mask + b * a.Tk : (const int32_t *)0};
    return x;
}

/* Rows of D numbers of one head: n of them, one every `step`. */
struct rows {
    const float *at;
    int64_t n, step, D;
};

FT_INLINE rows queries_of(const ft_attention_args &a, const head &x)
{
    rows y = {x.q, a.Tq, a.step, a.D};
    return y;
}
FT_INLINE rows keys_of(const ft_attention_args &a, const head &x)
{
    rows y = {x.k, a.Tk, a.step, a.D};
    return y;
}
FT_INLINE rows values_of(const ft_attention_args &a, const head &x)
{
    rows y = {x.v, a.Tk, a.step, a.D};
    return y;
}
/* Of y, or its gradient. */
FT_INLINE rows outputs_of(const ft_attention_args &a, const head &x, const float *y)
{
    rows z = {y + (x.b * a.Tq * a.H + x.h) * a.D, a.Tq, a.H * a.D, a.D};
    return z;
}

/* The keys that some of `count` queries from the first on see are before this one. */
FT_INLINE int64_t end_of_keys(const ft_attention_args &a, const head &x, int64_t first,
                              int64_t count)
{
    return a.causal ? ft_least(ft_least(first + count, a.Tq) + x.offset, a.Tk) : a.Tk;
}

/* What is known of a query: the mean of dp under its probabilities, and the logarithm of its sum;
 * of one that is not there, so that its probabilities are 0. */
struct query {
    float delta, lse;
};

FT_INLINE query query_of(const ft_attention_args &a, const float *delta, int64_t number, int64_t i)
{
    query none = {0, INFINITY};
    if (i >= a.Tq) return none;
    query q = {delta[number * a.Tq + i], a.lse[number * a.Tq + i]};
    return q;
}

#endif
