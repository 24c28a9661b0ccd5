/* optim/simd/update.c - what every element of a parameter goes through in a step. */
#include "optim/simd/simd.h"

#include <math.h>

#define JOIN(name, suffix) name##_##suffix
#define EXPAND(name, suffix) JOIN(name, suffix)

enum { LANES = 16 }; /* partial sums that run side by side */

static void adamw(float *restrict p, float *restrict m, float *restrict v,
                  const float *restrict grad, const ft_adamw_step *s, int64_t n)
{
    const float scale = s->grad_scale, keep = s->keep, size = s->size, root = s->root;
    const float b1 = s->beta1, b2 = s->beta2, r1 = s->rest1, r2 = s->rest2, eps = s->eps;
    for (int64_t i = 0; i < n; i++) {
        float g = grad[i] * scale;
        float m1 = m[i] * b1 + g * r1;
        float v1 = v[i] * b2 + g * g * r2;
        m[i] = m1;
        v[i] = v1;
        p[i] = p[i] * keep - size * m1 / (sqrtf(v1) * root + eps);
    }
}

static void sgd(float *restrict p, float *restrict m, const float *restrict grad,
                const float hypers[4], int64_t n)
{
    const float scale = hypers[0], momentum = hypers[1], decay = hypers[2], rate = hypers[3];
    for (int64_t i = 0; i < n; i++) {
        float m1 = m[i] * momentum + (grad[i] * scale + p[i] * decay);
        m[i] = m1;
        p[i] -= rate * m1;
    }
}

static double fold(const double sums[LANES])
{
    double total = 0.0;
    for (int i = 0; i < LANES; i++) total += sums[i];
    return total;
}

static double squares(const float *x, float scale, int64_t n)
{
    double sums[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            double u = (double)(x[i + k] * scale);
            sums[k] += u * u;
        }
    for (int k = 0; i < n; i++, k++) {
        double u = (double)(x[i] * scale);
        sums[k] += u * u;
    }
    return fold(sums);
}

static void add(float *restrict dst, const float *restrict src, int64_t n)
{
    for (int64_t i = 0; i < n; i++) dst[i] += src[i];
}

static double square_row(double *restrict columns, const float *restrict g, float scale, double eps,
                         int64_t n)
{
    double sums[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            double u = (double)(g[i + k] * scale), square = u * u + eps;
            columns[i + k] += square;
            sums[k] += square;
        }
    for (int k = 0; i < n; i++, k++) {
        double u = (double)(g[i] * scale), square = u * u + eps;
        columns[i] += square;
        sums[k] += square;
    }
    return fold(sums);
}

static double factored_squares(const float *restrict g, const float *restrict column, float row,
                               float scale, int64_t n)
{
    double sums[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            double u = (double)(g[i + k] * scale * (row * column[i + k]));
            sums[k] += u * u;
        }
    for (int k = 0; i < n; i++, k++) {
        double u = (double)(g[i] * scale * (row * column[i]));
        sums[k] += u * u;
    }
    return fold(sums);
}

static void factored_apply(float *restrict p, const float *restrict g,
                           const float *restrict column, float row_size, float keep, int64_t n)
{
    for (int64_t i = 0; i < n; i++) p[i] = p[i] * keep - g[i] * (row_size * column[i]);
}

static double plain_squares(float *restrict v, const float *restrict g, const float hypers[4],
                            int64_t n)
{
    const float beta = hypers[0], rest = hypers[1], scale = hypers[2], eps = hypers[3];
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) {
        float u = g[i] * scale;
        v[i] = beta * v[i] + rest * (u * u + eps);
        u /= sqrtf(v[i]);
        sum += (double)u * (double)u;
    }
    return sum;
}

static void plain_apply(float *restrict p, const float *restrict v, const float *restrict g,
                        float size, float keep, int64_t n)
{
    for (int64_t i = 0; i < n; i++) p[i] = p[i] * keep - size * (g[i] / sqrtf(v[i]));
}

extern const ft_optim_simd EXPAND(ft_optim_simd, FT_ISA_SUFFIX);
const ft_optim_simd EXPAND(ft_optim_simd, FT_ISA_SUFFIX) = {
    .adamw = adamw,
    .sgd = sgd,
    .squares = squares,
    .add = add,
    .square_row = square_row,
    .factored_squares = factored_squares,
    .factored_apply = factored_apply,
    .plain_squares = plain_squares,
    .plain_apply = plain_apply,
};
