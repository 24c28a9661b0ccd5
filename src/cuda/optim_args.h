/* cuda/optim_args.h - what the kernels of steps are given: sums, looks, optimizers. */
#ifndef FT_CUDA_OPTIM_ARGS_H
#define FT_CUDA_OPTIM_ARGS_H

#include "cuda/kernels.h"
#include "optim/adamw.h"

/* What was found in a tensor; in host memory. */
typedef struct ft_cuda_look {
    double squares;
    uint32_t finite, nan; /* flags */
} ft_cuda_look;

typedef struct ft_look_parts_args {
    ft_cuda_look *parts;
    const float *x;
    int64_t n, per_part;
} ft_look_parts_args;

/* *out: squares of these alone; the flags join what is there. */
typedef struct ft_look_args {
    ft_cuda_look *out;
    const ft_cuda_look *parts;
    int64_t n_parts;
} ft_look_args;

/* y = x[0] + x[1] + ..., in this order. y may be one of them. */
enum { FT_CUDA_TERMS = 32 };
typedef struct ft_sum_terms_args {
    float *y;
    const float *x[FT_CUDA_TERMS];
    int64_t n;
    int32_t n_terms;
} ft_sum_terms_args;

/* As the formulas of the optimizers' rows. */
typedef struct ft_adamw_args {
    float *p, *m, *v;
    const float *g;
    int64_t n;
    ft_adamw_step step;
} ft_adamw_args;

typedef struct ft_sgd_args {
    float *p, *m;
    const float *g;
    int64_t n;
    float grad_scale, momentum, decay, rate, ahead;
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

/* Adafactor (optim/adafactor.c), in launches one after the other: rows (a warp a row), columns,
 * mean (a block a matrix), measure (blocks of parts), size (one block), apply. Parameters that are
 * not matrices have R = 0 and C numbers, and begin with measure. */
typedef struct ft_adafactor_args {
    float *p, *v, *row, *col;
    const float *g;
    double *means;   /* of the row statistics, by matrix */
    double *parts;   /* sums of squares of u, then of p */
    float *size;     /* size of u, share of p that is kept */
    int64_t n, R, C; /* n matrices */
    int64_t n_parts, per_part;
    double beta, eps2, clip, rate, decay;
    float eps1, grad_scale;
    int32_t scale_parameter;
} ft_adafactor_args;

typedef ft_adafactor_args ft_adafactor_rows_args, ft_adafactor_columns_args, ft_adafactor_mean_args,
    ft_adafactor_measure_args, ft_adafactor_size_args, ft_adafactor_apply_args;

#endif
