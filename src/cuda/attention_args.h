/* cuda/attention_args.h - what the kernels of attention are given. */
#ifndef FT_CUDA_ATTENTION_ARGS_H
#define FT_CUDA_ATTENTION_ARGS_H

#include "cuda/args.h"

/* line (H, Tq + Tk - 1): table[bucket of key - query][h], by key - query + Tq - 1. */
typedef struct ft_attention_line_args {
    float *line;
    const float *table;      /* (R, H) */
    const int32_t *position; /* of the first query; NULL: 0 */
    int64_t Tq, Tk, H, R, max_distance;
    int32_t bidirectional;
} ft_attention_line_args;

/* ops/op_attention.c says what is computed; a block FT_CUDA_TOGETHER queries of a head. k and v of
 * packed inputs lie behind q. line NULL: nothing is added to scores. */
typedef struct ft_attention_args {
    ft_numbers q, k, v, y;
    const float *line;
    float *lse;
    const int32_t *mask, *position;
    int64_t B, Tq, Tk, H, D;
    int64_t step; /* from one position to the next, in q, k and v */
    float scale;
    int32_t causal;
    ft_cuda_draw draw;
    const uint32_t *kept; /* on tensor cores: attention_dropout's; NULL: there is no dropout */
} ft_attention_args;

/* Whether dropout keeps a probability, a bit each: kept (B, H, words of 32 keys, Tq), the first key
 * in the lowest bit; of causal calls those that a query looks at. Blocks are (B * H * words, of
 * queries): a thread a word. */
typedef struct ft_attention_dropout_args {
    uint32_t *kept;
    const int32_t *position;
    int64_t B, Tq, Tk, H;
    int32_t causal;
    ft_cuda_draw draw;
} ft_attention_dropout_args;

/* The mean under its probabilities of what a query's dp are, dp of a key being dy . v after
 * dropout. It is dy . y as well: delta (B, H, Tq), `lanes` of a warp a query of a head. That is
 * enough for products of rounded operands. */
typedef struct ft_attention_delta_args {
    ft_numbers dy, y;
    float *delta;
    int64_t B, Tq, H, D, lanes;
} ft_attention_delta_args;

/* The same out of the dp themselves, so that nothing is lost where one key has nearly all of the
 * probability: delta (2, B, H, Tq), to be added; a block FT_CUDA_TOGETHER queries of a head. */
typedef struct ft_attention_mean_args {
    ft_attention_args of; /* y is not written; lse is read */
    ft_numbers dy;
    float *delta;
} ft_attention_mean_args;

/* dq, and where there is a table, lines (B, H, strips of FT_CUDA_TOGETHER queries, Tk +
 * FT_CUDA_TOGETHER - 1): the sums of the gradients of a strip's scores by key - query, from the
 * least of the strip on. */
typedef struct ft_attention_queries_args {
    ft_attention_args of; /* y is not written; lse is read */
    ft_numbers dy, dq;
    const float *delta;
    float *lines;
} ft_attention_queries_args;

/* dk and dv; a block FT_CUDA_TOGETHER keys of a head. */
typedef struct ft_attention_keys_args {
    ft_attention_args of;
    ft_numbers dy, dk, dv;
    const float *delta;
} ft_attention_keys_args;

/* Products by tensor cores, of operands in bf16, f16 or tf32; a block FT_CUDA_WIDE queries or keys
 * of a head. D is a multiple of 4 and at most 64, or 128. All rows are f32, or in those called
 * `kept` in the 16 bits of the operands; four numbers of one begin at a multiple of their bytes. */
#define FT_CUDA_ON_CORES(args, name)                                                               \
    typedef args name##_bf16_64_args, name##_bf16_128_args, name##_f16_64_args,                    \
        name##_tf32_64_args, name##_tf32_128_args, name##_kept_bf16_64_args,                       \
        name##_kept_bf16_128_args, name##_kept_f16_64_args
FT_CUDA_ON_CORES(ft_attention_args, ft_attention);
FT_CUDA_ON_CORES(ft_attention_queries_args, ft_attention_queries);
FT_CUDA_ON_CORES(ft_attention_keys_args, ft_attention_keys);
#undef FT_CUDA_ON_CORES

/* dtable (R, H) (+)= the lines; a block a bucket of a head. */
typedef struct ft_attention_table_args {
    float *dtable;
    const float *lines;
    int64_t B, Tq, Tk, H, R, max_distance;
    int32_t bidirectional, add;
} ft_attention_table_args;

#endif
