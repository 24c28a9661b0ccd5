/* ops/simd/softmax.c - one row of softmax and its relatives.
 *
 * All subtract the row's largest number first, so that no exponential overflows. A row whose
 * largest number is -inf (everything masked) or +inf or NaN gives NaN. */
#include "ops/simd/simd.h"
#include "ops/simd/vec_math.h"

#include <math.h>

static float row_max(const float *x, int64_t n)
{
    vf top[2] = {vf_set(-INFINITY), vf_set(-INFINITY)};
    int64_t i = 0;
    for (; i + 2 * FT_LANES <= n; i += 2 * FT_LANES) {
        top[0] = vf_max(vf_load(x + i), top[0]);
        top[1] = vf_max(vf_load(x + i + FT_LANES), top[1]);
    }
    float result = vf_largest(vf_max(top[0], top[1]));
    for (; i < n; i++)
        if (x[i] > result) result = x[i];
    return result; /* a NaN may be missed here; the sum of exponentials finds it */
}

/* y (unless NULL) = exp(x - top); returns the sum. */
static inline __attribute__((always_inline)) float exp_sum(float *y, const float *x, float top,
                                                           int64_t n)
{
    vf total[2] = {{0}, {0}};
    int64_t i = 0;
    for (; i + 2 * FT_LANES <= n; i += 2 * FT_LANES) {
        vf a = vf_exp(vf_load(x + i) - top), b = vf_exp(vf_load(x + i + FT_LANES) - top);
        if (y) vf_store(y + i, a);
        if (y) vf_store(y + i + FT_LANES, b);
        total[0] += a;
        total[1] += b;
    }
    for (; i < n; i += FT_LANES) {
        int rest = n - i < FT_LANES ? (int)(n - i) : FT_LANES;
        vf a = rest == FT_LANES ? vf_load(x + i) : vf_load_part(x + i, rest);
        a = vf_exp(a - top);
        for (int j = rest; j < FT_LANES; j++) a[j] = 0.0f;
        if (y && rest == FT_LANES)
            vf_store(y + i, a);
        else if (y)
            vf_store_part(y + i, a, rest);
        total[0] += a;
    }
    return vf_sum(total[0] + total[1]);
}

static void row(float *y, const float *x, int64_t n)
{
    float inverse = 1.0f / exp_sum(y, x, row_max(x, n), n);
    int64_t i = 0;
    for (; i + FT_LANES <= n; i += FT_LANES) vf_store(y + i, vf_load(y + i) * inverse);
    for (; i < n; i++) y[i] *= inverse;
}

static void row_grad(float *dx, const float *dy, const float *y, int64_t n)
{
    vf total[2] = {{0}, {0}};
    int64_t i = 0;
    for (; i + 2 * FT_LANES <= n; i += 2 * FT_LANES) {
        total[0] += vf_load(dy + i) * vf_load(y + i);
        total[1] += vf_load(dy + i + FT_LANES) * vf_load(y + i + FT_LANES);
    }
    float dot = vf_sum(total[0] + total[1]);
    for (; i < n; i++) dot += dy[i] * y[i];
    for (i = 0; i + FT_LANES <= n; i += FT_LANES)
        vf_store(dx + i, vf_load(y + i) * (vf_load(dy + i) - dot));
    for (; i < n; i++) dx[i] = y[i] * (dy[i] - dot);
}

static void sums(float stats[2], const float *x, int64_t n)
{
    stats[0] = row_max(x, n);
    stats[1] = exp_sum(0, x, stats[0], n);
}

static double exp_minus(float *y, const float *x, float top, float scale, int64_t n)
{
    enum { HALF = FT_LANES / 2 };
    vdh total[2] = {{0}, {0}};
    int64_t i = 0;
    for (; i + FT_LANES <= n; i += FT_LANES) {
        vf_store(y + i, vf_exp(vf_load(x + i) - top) * scale);
        total[0] += vdh_load(y + i);
        total[1] += vdh_load(y + i + HALF);
    }
    int rest = (int)(n - i);
    if (rest) vf_store_part(y + i, vf_exp(vf_load_part(x + i, rest) - top) * scale, rest);
    double sum = 0.0;
    for (int lane = 0; lane < FT_LANES; lane++) sum += total[lane / HALF][lane % HALF];
    for (; i < n; i++) sum += (double)y[i];
    return sum;
}

const ft_simd_softmax FT_ISA_NAME(ft_simd_softmax) = {
    .row = row,
    .row_grad = row_grad,
    .sums = sums,
    .exp_minus = exp_minus,
};
