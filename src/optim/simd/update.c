/* optim/simd/update.c - what every element of a parameter goes through in a step. */
#include "optim/element.h"
#include "optim/simd/simd.h"

#include <math.h>

#define JOIN(name, suffix)   name##_##suffix
#define EXPAND(name, suffix) JOIN(name, suffix)

/* Partial sums that run side by side; where registers are narrower, the compiler takes several. */
enum { LANES = 16, RUN = 1024 }; /* RUN: columns whose squares are summed in f32 */
typedef float lanes __attribute__((vector_size(LANES * 4)));
typedef double wide __attribute__((vector_size(LANES * 8)));
typedef float lanes_memory __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef double wide_memory __attribute__((vector_size(LANES * 8), aligned(8), may_alias));

static inline lanes load(const float *p)
{
    return *(const lanes_memory *)p;
}

static void adamw(float *restrict p, float *restrict m, float *restrict v,
                  const float *restrict grad, const ft_adamw_step *s, int64_t n)
{
    const ft_adamw_step step = *s;
    for (int64_t i = 0; i < n; i++) ft_adamw_element(&step, grad[i], &p[i], &m[i], &v[i]);
}

static void sgd(float *restrict p, float *restrict m, const float *restrict grad,
                const ft_sgd_step *s, int64_t n)
{
    const ft_sgd_step step = *s;
    for (int64_t i = 0; i < n; i++) ft_sgd_element(&step, grad[i], &p[i], &m[i]);
}

static double fold(wide sums)
{
    double total = 0.0;
    for (int i = 0; i < LANES; i++) total += sums[i];
    return total;
}

static double fold_f32(lanes sums)
{
    return fold(__builtin_convertvector(sums, wide));
}

static double squares(const float *x, int64_t n)
{
    wide a = {0}, b = {0};
    double rest = 0.0;
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        wide u = __builtin_convertvector(load(x + i), wide);
        wide v = __builtin_convertvector(load(x + i + LANES), wide);
        a += u * u;
        b += v * v;
    }
    for (; i < n; i++) rest += (double)x[i] * (double)x[i];
    return fold(a + b) + rest;
}

static double rough_squares(const float *x, int64_t n)
{
    double sum = 0.0;
    int64_t i = 0;
    while (i + 4 * LANES <= n) {
        int64_t end = i + RUN < n ? i + RUN : n;
        lanes total[4] = {{0}, {0}, {0}, {0}};
        for (; i + 4 * LANES <= end; i += 4 * LANES)
            for (int k = 0; k < 4; k++) {
                lanes u = load(x + i + k * LANES);
                total[k] += u * u;
            }
        sum += fold_f32((total[0] + total[1]) + (total[2] + total[3]));
    }
    for (; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sum;
}

/* 0 times a sum is 0 when it is finite, else NaN, which stays in `odd`. */
static bool add(float *restrict dst, const float *restrict src, int64_t n)
{
    lanes odd = {0};
    float rest = 0.0f;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        lanes sum = load(dst + i) + load(src + i);
        *(lanes_memory *)(dst + i) = sum;
        odd += sum * 0.0f;
    }
    for (; i < n; i++) {
        dst[i] += src[i];
        rest += dst[i] * 0.0f;
    }
    return fold_f32(odd) + (double)rest == 0.0;
}

/* The more rows at a time, the less the traffic of the column sums, which are what takes time. */
static void square_rows(double *restrict columns, double sums[FT_SQUARE_ROWS],
                        const float *restrict g, float scale, float eps, int64_t n)
{
    for (int r = 0; r < FT_SQUARE_ROWS; r++) sums[r] = 0.0;
    int64_t i = 0;
    while (i + LANES <= n) {
        int64_t end = i + RUN < n ? i + RUN : n;
        lanes total[FT_SQUARE_ROWS];
        for (int r = 0; r < FT_SQUARE_ROWS; r++) total[r] = (lanes){0};
        for (; i + LANES <= end; i += LANES) {
            lanes column = {0};
            for (int r = 0; r < FT_SQUARE_ROWS; r++) {
                lanes u = load(g + r * n + i) * scale, square = u * u + eps;
                total[r] += square;
                column += square;
            }
            *(wide_memory *)(columns + i) += __builtin_convertvector(column, wide);
        }
        for (int r = 0; r < FT_SQUARE_ROWS; r++) sums[r] += fold_f32(total[r]);
    }
    for (; i < n; i++)
        for (int r = 0; r < FT_SQUARE_ROWS; r++) {
            float u = g[r * n + i] * scale;
            columns[i] += (double)(u * u + eps);
            sums[r] += (double)(u * u + eps);
        }
}

static double square_row(double *restrict columns, const float *restrict g, float scale, float eps,
                         int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) {
        float u = g[i] * scale, square = u * u + eps;
        columns[i] += (double)square;
        sum += (double)square;
    }
    return sum;
}

static double factored_squares(const float *restrict g, const float *restrict column, float row,
                               float scale, int64_t n)
{
    double sum = 0.0;
    int64_t i = 0;
    while (i + LANES <= n) {
        int64_t end = i + RUN < n ? i + RUN : n;
        lanes a = {0}, b = {0};
        for (; i + 2 * LANES <= end; i += 2 * LANES) {
            lanes u = load(g + i) * scale * (load(column + i) * row);
            lanes v = load(g + i + LANES) * scale * (load(column + i + LANES) * row);
            a += u * u;
            b += v * v;
        }
        if (i + LANES <= end) {
            lanes u = load(g + i) * scale * (load(column + i) * row);
            a += u * u;
            i += LANES;
        }
        sum += fold_f32(a + b);
    }
    for (; i < n; i++) {
        double u = (double)(g[i] * scale * (row * column[i]));
        sum += u * u;
    }
    return sum;
}

static void factored_apply(float *restrict p, const float *restrict g, const float *restrict column,
                           float row_size, float keep, int64_t n)
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
    .rough_squares = rough_squares,
    .add = add,
    .square_rows = square_rows,
    .square_row = square_row,
    .factored_squares = factored_squares,
    .factored_apply = factored_apply,
    .plain_squares = plain_squares,
    .plain_apply = plain_apply,
};
