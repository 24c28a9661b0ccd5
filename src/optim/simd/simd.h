/* optim/simd/simd.h - the update loops, compiled once per instruction set (cmake/FtKernels.cmake).
 *
 * Each call is one block of a parameter, on one thread. Sums are in a fixed order, in f64 but for
 * short runs. */
#ifndef FT_OPTIM_SIMD_SIMD_H
#define FT_OPTIM_SIMD_SIMD_H

#include <stdbool.h>
#include <stdint.h>

#include "optim/step.h"

enum { FT_SQUARE_ROWS = 8, FT_FACTOR_ROWS = 4 };

typedef struct ft_optim_simd {
    void (*adamw)(float *p, float *m, float *v, const float *g, const ft_adamw_step *s, int64_t n);
    void (*sgd)(float *p, float *m, const float *g, const ft_sgd_step *s, int64_t n);
    /* Sum of x^2; and with products and short runs summed in f32, at the speed of memory. */
    double (*squares)(const float *x, int64_t n);
    double (*rough_squares)(const float *x, int64_t n);
    /* dst += src; whether every sum is finite. */
    bool (*add)(float *dst, const float *src, int64_t n);

    /* Adafactor. (scale g)^2 + eps of FT_SQUARE_ROWS rows of n, and of one: added to the columns,
     * and summed for each row. */
    void (*square_rows)(double *columns, double sums[FT_SQUARE_ROWS], const float *g, float scale,
                        float eps, int64_t n);
    double (*square_row)(double *columns, const float *g, float scale, float eps, int64_t n);
    /* Of at most FT_FACTOR_ROWS rows: the sum of u^2 for u = scale g * row * column; and
     * p = keep p - row_size g * column. */
    double (*factored_squares)(const float *g, const float *column, const float *row, int rows,
                               float scale, int64_t n);
    void (*factored_apply)(float *p, const float *g, const float *column, const float *row_size,
                           int rows, float keep, int64_t n);
    /* Not factored: v = beta v + (1 - beta) ((scale g)^2 + eps); sum of u^2, u = scale g / sqrt(v);
     * then p = keep p - size u / scale. hypers: beta, 1 - beta, scale, eps. */
    double (*plain_squares)(float *v, const float *g, const float hypers[4], int64_t n);
    void (*plain_apply)(float *p, const float *v, const float *g, float size, float keep,
                        int64_t n);
} ft_optim_simd;

/* The loops for this CPU. */
const ft_optim_simd *ft_optim_simd_get(void);
/* Those of one ft_isa (device/device.h), for tests; NULL when it is not built in. */
const ft_optim_simd *ft_optim_simd_of(int isa);

#endif
