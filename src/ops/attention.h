/* ops/attention.h - what the files of the attention rows share. */
#ifndef FT_OPS_ATTENTION_H
#define FT_OPS_ATTENTION_H

#include "ops/internal.h"

/* Attributes of both rows, in order. */
enum {
    FT_ATTENTION_HEADS,
    FT_ATTENTION_CAUSAL,
    FT_ATTENTION_BIDIRECTIONAL,
    FT_ATTENTION_MAX_DISTANCE,
    FT_ATTENTION_SCALE,
    FT_ATTENTION_DROPOUT
};

/* Queries that are worked on at a time. */
enum { FT_ATTENTION_ROWS = 64 };

/* The problem, out of the specs of q, k, mask and table.
 * B samples, Tq queries, Tk keys, H heads of D numbers, R buckets (0 without a table). */
typedef struct ft_attention {
    int64_t B, Tq, Tk, H, D, R;
    int64_t offset; /* position of the first query */
    bool causal, bidirectional;
    int64_t max_distance;
    double scale;
    uint32_t threshold; /* of dropout, 0: none */
} ft_attention;

ft_attention ft_attention_of(const ft_shape *q, const ft_shape *k, const ft_shape *table,
                             const double *attrs);

/* Keys that query i may look at: those before this one. */
static inline int64_t ft_attention_keys(const ft_attention *a, int64_t i)
{
    int64_t last = i + a->offset + 1;
    if (!a->causal || last > a->Tk) return a->Tk;
    return last < 0 ? 0 : last;
}

/* T5's relative position buckets (relative_bias.c). */
int32_t ft_relative_bucket(int64_t key_minus_query, int64_t n_buckets, int64_t max_distance,
                           bool bidirectional);

ft_status ft_attention_kernel(const ft_call *call, ft_error *err);
ft_status ft_attention_grad_kernel(const ft_call *call, ft_error *err);
int64_t ft_attention_work(const ft_attention *a, int team_size);
int64_t ft_attention_grad_work(const ft_attention *a, int team_size);

ft_status ft_attention_reference(const ft_call *call, ft_error *err);
ft_status ft_attention_grad_reference(const ft_call *call, ft_error *err);

/* The two rows' problems out of their calls; absent inputs have data NULL. */
ft_attention ft_attention_of_call(const ft_call *call);
ft_attention ft_attention_of_grad_call(const ft_call *call);

#endif
