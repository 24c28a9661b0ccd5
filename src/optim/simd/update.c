/* optim/simd/update.c - what every element of a parameter goes through in a step. */
#include "base/vec.h"
#include "optim/element.h"
#include "optim/simd/simd.h"

#include <math.h>

#define JOIN(name, suffix)   name##_##suffix
#define EXPAND(name, suffix) JOIN(name, suffix)

enum {
    RUN = 1024, /* columns whose squares are summed in f32 */
    HALF = FT_LANES / 2,
    STREAMS = 4 /* places that a sum reads at once */
};

/* Asks for what is read next, into the second cache: several rows at once are too short for a core
 * to see in time where they go on. What is asked for behind the last row is not read. */
#define SOON(p) __builtin_prefetch(p, 0, 2)

/* Sums of streams and rows stay in registers where their loops are unrolled. */
#define EACH(k, n) _Pragma("GCC unroll 8") for (int k = 0; k < (n); k++)

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

typedef double vdh_memory __attribute__((vector_size(FT_LANES * 4), aligned(8), may_alias));

/* The sum of the lanes, in their order. */
static double fold(vf sums)
{
    double total = 0.0;
    for (int i = 0; i < FT_LANES; i++) total += (double)sums[i];
    return total;
}

/* The part of n, in whole vectors, that each of the STREAMS places has. A core asks memory for more
 * when it reads at several of them: on Zen 2 for half as much again. */
static int64_t stream_of(int64_t n)
{
    return n / (STREAMS * FT_LANES) * FT_LANES;
}

static double squares(const float *x, int64_t n)
{
    const int64_t part = stream_of(n);
    vdh sums[STREAMS][2] = {{{0}}};
    double total = 0.0;
    for (int64_t i = 0; i < part; i += FT_LANES) EACH(k, STREAMS)
    EACH(h, 2)
    {
        vdh u = vdh_load(x + k * part + i + h * HALF);
        sums[k][h] += u * u;
    }
    for (int k = 0; k < STREAMS; k++)
        for (int i = 0; i < FT_LANES; i++) total += sums[k][i / HALF][i % HALF];
    for (int64_t i = STREAMS * part; i < n; i++) total += (double)x[i] * (double)x[i];
    return total;
}

static double rough_squares(const float *x, int64_t n)
{
    const int64_t part = stream_of(n);
    double sum = 0.0;
    for (int64_t i = 0; i < part;) {
        int64_t end = i + RUN < part ? i + RUN : part;
        vf total[STREAMS];
        EACH(k, STREAMS) total[k] = (vf){0};
        for (; i < end; i += FT_LANES) EACH(k, STREAMS)
            {
                vf u = vf_load(x + k * part + i);
                total[k] += u * u;
            }
        EACH(k, STREAMS) sum += fold(total[k]);
    }
    for (int64_t i = STREAMS * part; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sum;
}

/* 0 times a sum is 0 when it is finite, else NaN, which stays in `odd`. */
static bool add(float *restrict dst, const float *restrict src, int64_t n)
{
    vf odd = {0};
    float rest = 0.0f;
    int64_t i = 0;
    for (; i + FT_LANES <= n; i += FT_LANES) {
        vf sum = vf_load(dst + i) + vf_load(src + i);
        vf_store(dst + i, sum);
        odd += sum * 0.0f;
    }
    for (; i < n; i++) {
        dst[i] += src[i];
        rest += dst[i] * 0.0f;
    }
    return fold(odd) + (double)rest == 0.0;
}

/* The more rows at a time, the less the traffic of the column sums, which are what takes time. */
static void square_rows(double *restrict columns, double sums[FT_SQUARE_ROWS],
                        const float *restrict g, float scale, float eps, int64_t n)
{
    for (int r = 0; r < FT_SQUARE_ROWS; r++) sums[r] = 0.0;
    int64_t i = 0;
    while (i + FT_LANES <= n) {
        int64_t end = i + RUN < n ? i + RUN : n;
        vf total[FT_SQUARE_ROWS];
        EACH(r, FT_SQUARE_ROWS) total[r] = (vf){0};
        for (; i + FT_LANES <= end; i += FT_LANES) {
            vf column = {0};
            EACH(r, FT_SQUARE_ROWS)
            {
                vf u = vf_load(g + r * n + i) * scale, square = u * u + eps;
                SOON(g + (r + FT_SQUARE_ROWS) * n + i);
                total[r] += square;
                column += square;
            }
            float over_rows[FT_LANES];
            vf_store(over_rows, column);
            EACH(h, 2)
            {
                vdh_memory *sum = (vdh_memory *)(columns + i + h * HALF);
                *sum += vdh_load(over_rows + h * HALF);
            }
        }
        EACH(r, FT_SQUARE_ROWS) sums[r] += fold(total[r]);
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

/* The same of `rows` rows, a constant where this is put in line. */
static inline double squares_of_rows(const float *restrict g, const float *restrict column,
                                     const float *row, int rows, float scale, int64_t n)
{
    double sum = 0.0;
    int64_t i = 0;
    while (i + FT_LANES <= n) {
        int64_t end = i + RUN < n ? i + RUN : n;
        vf total[FT_FACTOR_ROWS];
        EACH(r, rows) total[r] = (vf){0};
        for (; i + FT_LANES <= end; i += FT_LANES) {
            vf factor = vf_load(column + i);
            EACH(r, rows)
            {
                vf u = vf_load(g + r * n + i) * scale * (factor * row[r]);
                SOON(g + (r + rows) * n + i);
                total[r] += u * u;
            }
        }
        EACH(r, rows) sum += fold(total[r]);
    }
    for (; i < n; i++)
        for (int r = 0; r < rows; r++) {
            double u = (double)(g[r * n + i] * scale * (row[r] * column[i]));
            sum += u * u;
        }
    return sum;
}

static double factored_squares(const float *restrict g, const float *restrict column,
                               const float *row, int rows, float scale, int64_t n)
{
    double sum = 0.0;
    if (rows == FT_FACTOR_ROWS) return squares_of_rows(g, column, row, FT_FACTOR_ROWS, scale, n);
    for (int r = 0; r < rows; r++) sum += squares_of_rows(g + r * n, column, row + r, 1, scale, n);
    return sum;
}

static inline void apply_rows(float *restrict p, const float *restrict g,
                              const float *restrict column, const float *row_size, int rows,
                              float keep, int64_t n)
{
    int64_t i = 0;
    for (; i + FT_LANES <= n; i += FT_LANES) {
        vf factor = vf_load(column + i);
        EACH(r, rows)
        {
            float *to = p + r * n + i;
            vf u = vf_load(g + r * n + i) * (factor * row_size[r]);
            SOON(g + (r + rows) * n + i);
            SOON(to + rows * n);
            vf_store(to, vf_load(to) * keep - u);
        }
    }
    for (; i < n; i++)
        for (int r = 0; r < rows; r++)
            p[r * n + i] = p[r * n + i] * keep - g[r * n + i] * (row_size[r] * column[i]);
}

static void factored_apply(float *restrict p, const float *restrict g, const float *restrict column,
                           const float *row_size, int rows, float keep, int64_t n)
{
    if (rows == FT_FACTOR_ROWS)
        apply_rows(p, g, column, row_size, FT_FACTOR_ROWS, keep, n);
    else
        for (int r = 0; r < rows; r++)
            apply_rows(p + r * n, g + r * n, column, row_size + r, 1, keep, n);
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
