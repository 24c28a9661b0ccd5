/* cuda/optim_args.h - what the kernels of steps are given: sums, looks, optimizers. */
#ifndef FT_CUDA_OPTIM_ARGS_H
#define FT_CUDA_OPTIM_ARGS_H

#include "cuda/kernels.h"
#include "optim/step.h"

/* A launch over several tensors: the blocks of tensor t are first[t] to first[t + 1]. */
enum { FT_CUDA_TENSORS = 24 };
typedef struct ft_cuda_blocks {
    int32_t n;
    uint32_t first[FT_CUDA_TENSORS + 1];
} ft_cuda_blocks;

/* What was found in a tensor; in host memory. */
typedef struct ft_cuda_look {
    double squares;
    uint32_t finite, nan; /* flags */
} ft_cuda_look;

/* look_parts: a block a part of so many numbers; look: a block a tensor. *out: squares of its
 * tensor alone; the flags join what is there. */
typedef struct ft_look_tensor {
    ft_cuda_look *out;
    ft_numbers x;
    int64_t n, per_part;
} ft_look_tensor;

typedef struct ft_look_args {
    ft_cuda_blocks blocks; /* of look_parts */
    ft_cuda_look *parts;   /* by block */
    ft_look_tensor of[FT_CUDA_TENSORS];
} ft_look_args;

typedef ft_look_args ft_look_parts_args;

/* y = x[0] + x[1] + ..., in this order. y may be one of them. */
enum { FT_CUDA_TERMS = 32 };
typedef struct ft_sum_terms_args {
    float *y;
    const float *x[FT_CUDA_TERMS];
    int64_t n;
    int32_t n_terms;
} ft_sum_terms_args;

/* As the formulas of the optimizers' rows. copy: gets the new p as well, in 16 bits; of nothing:
 * none is wanted. */
typedef struct ft_adamw_tensor {
    float *p, *m, *v;
    const float *g;
    ft_numbers copy;
    int64_t n;
    ft_adamw_step step;
} ft_adamw_tensor;

typedef struct ft_adamw_args {
    ft_cuda_blocks blocks;
    ft_adamw_tensor of[FT_CUDA_TENSORS];
} ft_adamw_args;

typedef struct ft_sgd_tensor {
    float *p, *m;
    const float *g;
    ft_numbers copy;
    int64_t n;
    ft_sgd_step step;
} ft_sgd_tensor;

typedef struct ft_sgd_args {
    ft_cuda_blocks blocks;
    ft_sgd_tensor of[FT_CUDA_TENSORS];
} ft_sgd_args;

/* out = p keep - size m / (sqrt(v) root + eps), or without v: p keep - size m; without m: p keep.
 * NULL p: out is read and written. */
typedef struct ft_predict_args {
    float *out;
    const float *p, *m, *v;
    const double *squares; /* NULL; else keep is 1 - keep * max(eps2, sqrt(*squares / n)) */
    int64_t n;
    float keep, size, root, eps;
    double eps2;
} ft_predict_args;

/* Of a step that moved p from `before` (optim/gap.c); scales: the largest rate, the weight of all
 * steps in the mean. */
typedef struct ft_note_step_args {
    float *mean, *scales;
    const float *p, *before;
    int64_t n;
    float rate;
} ft_note_step_args;

/* Divides g by the gap between p and `old`, and bears `next`, which may be NULL; parts: squares of
 * the gap. */
typedef struct ft_attenuate_args {
    ft_cuda_look *parts;
    float *g;
    const float *p, *old, *next, *mean, *scales;
    int64_t n, per_part;
} ft_attenuate_args;

/* A parameter of Adafactor (optim/adafactor.c): n matrices of R rows and C columns, or, with R = 0,
 * C numbers, of which `row` has a statistic each. */
typedef struct ft_adafactor_tensor {
    float *p, *row, *col;
    const float *g;
    void *copy;    /* as above; in copy_kept */
    double *means; /* of the row statistics, by matrix */
    double *parts; /* sums of squares of u and of p, by block of adafactor_measure */
    float *size;   /* size of u, share of p that is kept */
    int64_t n, R, C;
    int64_t n_parts, per_part; /* parts, of so many rows of a matrix or of so many numbers */
    double beta, eps2, clip, rate, decay;
    float eps1, grad_scale;
    int32_t scale_parameter, copy_kept;
} ft_adafactor_tensor;

/* Its launches, one after the other: rows (a warp a row), columns, mean (a block a matrix), measure
 * (a block a part), size (a block a tensor), apply. The first three are of matrices alone. */
typedef struct ft_adafactor_args {
    ft_cuda_blocks blocks;
    ft_adafactor_tensor of[FT_CUDA_TENSORS];
} ft_adafactor_args;

typedef ft_adafactor_args ft_adafactor_rows_args, ft_adafactor_columns_args, ft_adafactor_mean_args,
    ft_adafactor_measure_args, ft_adafactor_size_args, ft_adafactor_apply_args;

#endif
