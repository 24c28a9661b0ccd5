/* ops/simd/norm.c - one row of the normalisations and of their gradients. */
#include "ops/simd/ends.h"
#include "ops/simd/simd.h"

/* Two sums over a row, in four accumulators each. */
typedef struct sums {
    vf a[4], b[4];
} sums;

static inline float fold(const vf x[4])
{
    return vf_sum((x[0] + x[1]) + (x[2] + x[3]));
}

static inline void store(float *p, vf x, int64_t left)
{
    if (left >= FT_LANES)
        vf_store(p, x);
    else
        vf_store_part(p, x, (int)left);
}

static float rms(float *y, const float *x, const float *w, float eps, int64_t D)
{
    sums s = {0};
    for (int64_t i = 0, k = 0; i < D; i += FT_LANES, k++) {
        vf v = load(x + i, D - i);
        s.a[k & 3] += v * v;
    }
    float rstd = 1.0f / __builtin_sqrtf(fold(s.a) / (float)D + eps);
    for (int64_t i = 0; i < D; i += FT_LANES)
        store(y + i, load(x + i, D - i) * rstd * load(w + i, D - i), D - i);
    return rstd;
}

/* With n = x rstd and g = dy w: dx = rstd (g - n mean(g n)), dw += dy n. */
static void rms_grad(float *dx, float *dw, const float *dy, const float *x, const float *w,
                     float rstd, int64_t D)
{
    sums s = {0};
    for (int64_t i = 0, k = 0; i < D; i += FT_LANES, k++) {
        vf n = load(x + i, D - i) * rstd, g = load(dy + i, D - i);
        store(dw + i, load(dw + i, D - i) + g * n, D - i);
        s.a[k & 3] += g * load(w + i, D - i) * n;
    }
    float mean = fold(s.a) / (float)D;
    for (int64_t i = 0; i < D; i += FT_LANES) {
        vf n = load(x + i, D - i) * rstd, g = load(dy + i, D - i) * load(w + i, D - i);
        store(dx + i, (g - n * mean) * rstd, D - i);
    }
}

static void layer(float *y, float stats[2], const float *x, const float *w, const float *b,
                  float eps, int64_t D)
{
    sums s = {0};
    for (int64_t i = 0, k = 0; i < D; i += FT_LANES, k++) s.a[k & 3] += load(x + i, D - i);
    float mean = fold(s.a) / (float)D;
    for (int64_t i = 0, k = 0; i < D; i += FT_LANES, k++) {
        int64_t left = D - i;
        vf v = load(x + i, left) - mean;
        if (left < FT_LANES)
            for (int64_t j = left; j < FT_LANES; j++) v[j] = 0.0f;
        s.b[k & 3] += v * v;
    }
    float rstd = 1.0f / __builtin_sqrtf(fold(s.b) / (float)D + eps);
    for (int64_t i = 0; i < D; i += FT_LANES) {
        vf n = (load(x + i, D - i) - mean) * rstd;
        store(y + i, n * load(w + i, D - i) + load(b + i, D - i), D - i);
    }
    stats[0] = mean;
    stats[1] = rstd;
}

/* With n = (x - mean) rstd and g = dy w: dx = rstd (g - mean(g) - n mean(g n)). */
static void layer_grad(float *dx, float *dwb, const float *dy, const float *x, const float *w,
                       const float stats[2], int64_t D)
{
    sums s = {0};
    float *db = dwb + D;
    for (int64_t i = 0, k = 0; i < D; i += FT_LANES, k++) {
        int64_t left = D - i;
        vf n = (load(x + i, left) - stats[0]) * stats[1], d = load(dy + i, left);
        vf g = d * load(w + i, left); /* 0 past the end */
        store(dwb + i, load(dwb + i, left) + d * n, left);
        store(db + i, load(db + i, left) + d, left);
        s.a[k & 3] += g;
        s.b[k & 3] += g * n;
    }
    float mean_g = fold(s.a) / (float)D, mean_gn = fold(s.b) / (float)D;
    for (int64_t i = 0; i < D; i += FT_LANES) {
        int64_t left = D - i;
        vf n = (load(x + i, left) - stats[0]) * stats[1];
        vf g = load(dy + i, left) * load(w + i, left);
        store(dx + i, (g - mean_g - n * mean_gn) * stats[1], left);
    }
}

const ft_simd_norm FT_ISA_NAME(ft_simd_norm) = {
    .rms = rms,
    .rms_grad = rms_grad,
    .layer = layer,
    .layer_grad = layer_grad,
};
