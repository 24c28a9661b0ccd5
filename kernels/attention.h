/* kernels/attention.h - what the kernels of attention share: a head of a sample, its rows. */
#ifndef FT_KERNELS_ATTENTION_H
#define FT_KERNELS_ATTENTION_H

#include "numbers.h"

/* One head of one sample; the number of its first element in q, in k and v. */
struct head {
    int64_t b, h, offset, in_q, in_k;
    const float *line;
    const int32_t *mask;
};

FT_INLINE head head_of(const ft_attention_args &a, int64_t number)
{
    int64_t b = number / a.H, h = number % a.H;
    head x = {b,
              h,
              a.position ? a.position[0] : 0,
              b * a.Tq * a.step + h * a.D,
              b * a.Tk * a.step + h * a.D,
              a.line ? a.line + h * (a.Tq + a.Tk - 1) + a.Tq - 1 : (const float *)0,
              a.mask ? a.mask + b * a.Tk : (const int32_t *)0};
    return x;
}

/* Rows of D numbers of one head: n of them, one every `step`, from number `first` on. */
struct rows {
    ft_numbers of;
    int64_t first, n, step, D;
};

FT_INLINE rows queries_of(const ft_attention_args &a, const head &x)
{
    rows y = {a.q, x.in_q, a.Tq, a.step, a.D};
    return y;
}
FT_INLINE rows keys_of(const ft_attention_args &a, const head &x)
{
    rows y = {a.k, x.in_k, a.Tk, a.step, a.D};
    return y;
}
FT_INLINE rows values_of(const ft_attention_args &a, const head &x)
{
    rows y = {a.v, x.in_k, a.Tk, a.step, a.D};
    return y;
}
/* Of y, or its gradient. */
FT_INLINE rows outputs_of(const ft_attention_args &a, const head &x, const ft_numbers &y)
{
    rows z = {y, (x.b * a.Tq * a.H + x.h) * a.D, a.Tq, a.H * a.D, a.D};
    return z;
}

/* The same rows of another tensor. */
FT_INLINE rows rows_in(const ft_numbers &of, const rows &like)
{
    rows y = {of, like.first, like.n, like.step, like.D};
    return y;
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
