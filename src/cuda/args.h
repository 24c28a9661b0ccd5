/* cuda/args.h - what the kernels of rows are given; of attention: attention_args.h. */
#ifndef FT_CUDA_ARGS_H
#define FT_CUDA_ARGS_H

#include "cuda/kernels.h"
#include "ops/maps.h"

/* y = f(a), f(a, b), factor * a; with `add` y += a. */
typedef enum {
#define NUMBER(row, number, ...) FT_CUDA_##number,
    FT_MAP1_LIST(NUMBER) FT_CUDA_ONE,
    FT_CUDA_SCALE,
    FT_MAP2_LIST(NUMBER)
#undef NUMBER
} ft_cuda_map;

typedef struct ft_map_args {
    ft_numbers y, a, b;
    int64_t n;
    float factor;
    int32_t map, add;
} ft_map_args;

/* y: the bits of x, rounded to bf16 or f16; what is too large for f16 becomes infinite. */
typedef struct ft_to_half_args {
    uint16_t *y;
    const float *x;
    int64_t n;
    int32_t rounding;
} ft_to_half_args;

/* Zeros between rows of `width` numbers that are `pitch` apart. */
typedef struct ft_clear_gaps_args {
    ft_numbers x;
    int64_t rows, width, pitch;
} ft_clear_gaps_args;

/* y[i] = a[i] (+ - * /) b[i % nb] */
typedef enum { FT_CUDA_ADD, FT_CUDA_SUB, FT_CUDA_MUL, FT_CUDA_DIV } ft_cuda_binary;

typedef struct ft_binary_args {
    ft_numbers y, a, b;
    int64_t n, nb;
    int32_t kind;
} ft_binary_args;

/* Without dy: y = gelu(a) * b; else da, db. */
typedef struct ft_gated_gelu_args {
    ft_numbers y, da, db, dy, a, b;
    int64_t n;
} ft_gated_gelu_args;

/* Of the draws of ops/op_dropout.c. */
typedef struct ft_cuda_draw {
    uint32_t key[2], sample, threshold;
    float scale;
} ft_cuda_draw;

/* y = dropout(x), dropout(max(x, 0)), residual + dropout(x); with `seen`, which is y of
 * relu_dropout: scale * x where seen > 0. A thread has 8 elements of one sample. */
typedef struct ft_dropout_args {
    ft_numbers y, x, residual, seen;
    int64_t samples, per_sample;
    ft_cuda_draw draw;
    int32_t relu;
} ft_dropout_args;

/* Rows of n: y = softmax(a); with b, which is y: y = b (a - sum(a b)). A warp a row. */
typedef struct ft_softmax_args {
    ft_numbers y, a, b;
    int64_t rows, n;
} ft_softmax_args;

/* Norms over rows of D; 1 << doubled warps a row. stats: rstd, or mean and rstd. b NULL: RMS. */
typedef struct ft_norm_args {
    ft_numbers y, x;
    float *stats;
    const float *w, *b;
    int64_t rows, D;
    double part; /* 1 / D */
    float eps;
    int32_t centred, doubled;
} ft_norm_args;

typedef struct ft_norm_grad_args {
    ft_numbers dx, dy, x;
    const float *w, *stats;
    int64_t rows, D;
    double part; /* 1 / D */
    int32_t centred, doubled;
} ft_norm_grad_args;

/* parts (n_parts, D) f64: sums over so many rows of x (rows, D). With `x` and `stats`, of dy times
 * the normalised x, for the gradient of a norm's weight; behind those, of a centred norm, what is
 * for its bias. Grid: columns, parts. */
typedef struct ft_column_parts_args {
    ft_numbers dy, x;
    double *parts;
    const float *stats;
    int64_t rows, D, per_part, n_parts;
    int32_t centred;
} ft_column_parts_args;

/* y (D) (+)= the column sums of dy (rows, D): of few rows. Grid: elements of y, by four. */
typedef struct ft_column_few_args {
    ft_numbers dy;
    float *y;
    int64_t rows, D;
    int32_t add;
} ft_column_few_args;

/* y (D) (+)= the sum of the parts. Grid: columns, y. */
typedef struct ft_column_sum_args {
    float *y[2];
    const double *parts;
    int64_t D, n_parts;
    int32_t add[2];
} ft_column_sum_args;

/* y[row] = sum of a row of n numbers times factor (+ y), or the largest. A block a row. */
typedef struct ft_reduce_args {
    ft_numbers x;
    float *y;
    int64_t n, inner; /* of (outer, n, inner); a row for each outer and inner */
    double factor;
    int32_t add, largest;
} ft_reduce_args;

/* dx (outer, n, inner) = factor * dy (outer, inner) */
typedef struct ft_spread_args {
    ft_numbers dx, dy;
    int64_t outer, n, inner;
    float factor;
} ft_spread_args;

/* The first of equal largest numbers gets dy; a thread a column. */
typedef struct ft_max_grad_args {
    ft_numbers dx, dy, x, y;
    int64_t outer, n, inner;
} ft_max_grad_args;

/* A warp a row; rows are `pitch` apart. */
typedef struct ft_argmax_args {
    ft_numbers x;
    int32_t *y;
    int64_t rows, n, pitch;
} ft_argmax_args;

/* whole (outer, n, inner), part (outer, count, inner) of it from `from` on. With `back` the whole
 * gets the part, and zeros elsewhere or, with `add`, what it had. */
typedef struct ft_span_args {
    ft_numbers whole, part;
    int64_t outer, n, inner, from, count;
    int32_t back, add;
} ft_span_args;

typedef struct ft_cache_append_args {
    float *out;
    const float *cache, *added;
    const int32_t *position;
    int64_t samples, n, t, width;
    ft_cuda_fault *fault;
} ft_cache_append_args;

/* y[i] = table[ids[i]]; a block an id. */
typedef struct ft_embedding_args {
    ft_numbers y;
    const float *table;
    const int32_t *ids;
    int64_t n, rows, D;
    ft_cuda_fault *fault;
} ft_embedding_args;

/* Adds the rows of dy with one id in their order, FT_CUDA_PIECE of them in the block of the first;
 * ids that come more often have their sums in `parts` (n, D), by the number of that one, and
 * embedding_pieces adds those in their order. A block an id. */
typedef struct ft_embedding_grad_args {
    ft_numbers dy;
    float *dtable, *parts;
    const int32_t *ids;
    int32_t *marks; /* n: 0, FT_CUDA_PART or, of the first one of an id, FT_CUDA_FIRST_PART */
    int64_t n, rows, D, padding;
    ft_cuda_fault *fault;
} ft_embedding_grad_args;
typedef ft_embedding_grad_args ft_embedding_pieces_args;
enum { FT_CUDA_PART = 1, FT_CUDA_FIRST_PART };

/* stats and nll of a row; a block a row. Rows are `pitch` apart. */
typedef struct ft_cross_entropy_args {
    ft_numbers logits;
    float *stats, *nll;
    const int32_t *labels;
    int64_t rows, V, pitch;
    ft_cuda_fault *fault;
} ft_cross_entropy_args;

/* loss = weight * the sum of nll; one block. */
typedef struct ft_loss_args {
    float *loss;
    const float *nll, *weight;
    int64_t rows;
} ft_loss_args;

/* Between rows of dlogits, zeros. */
typedef struct ft_cross_entropy_grad_args {
    ft_numbers dlogits, logits;
    const float *dloss, *weight, *stats;
    const int32_t *labels;
    int64_t rows, V, pitch, pitch_of_dlogits;
} ft_cross_entropy_grad_args;

/* c (M, N) = op(a) op(b) (+ c) (+ bias) (relu), for each of a batch. Transposed, a is (K, M) and b
 * (N, K). Rows of a and c are so far apart; those of several products of a batch follow each other.
 * Operands are rounded first; sums are f32. */
typedef struct ft_product_args {
    ft_numbers c, a, b;
    const void *bias; /* as c is kept, for cuBLASLt; else f32 */
    int64_t M, N, K, pitch_a, pitch_c;
    int16_t transpose_a, transpose_b;
    int32_t add, relu, rounding;
} ft_product_args;

#endif
