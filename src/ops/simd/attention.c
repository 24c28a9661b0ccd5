/* ops/simd/attention.c - the rows of attention.
 *
 * A row is one query against n keys. Scores are finished, turned into probabilities and into their
 * gradients in place; `mask` holds 0 or -inf for each key, `bias` what the head adds to each key;
 * either may be NULL. */
#include "ops/simd/simd.h"
#include "ops/simd/vec.h"
#include "ops/simd/vec_math.h"

/* bias[i] + mask[i] for the vector at i, of which `part` lanes exist (FT_LANES: all). */
static inline vf vector_at(const float *p, int64_t i, int part)
{
    if (!p) return (vf){0};
    return part == FT_LANES ? vf_load(p + i) : vf_load_part(p + i, part);
}

static inline int lanes_at(int64_t i, int64_t n)
{
    return n - i < FT_LANES ? (int)(n - i) : FT_LANES;
}

static inline void store_at(float *p, int64_t i, vf x, int part)
{
    if (part == FT_LANES)
        vf_store(p + i, x);
    else
        vf_store_part(p + i, x, part);
}

/* x in the lanes below part, `other` above. */
static inline vf fill_above(vf x, float other, int part)
{
    if (part == FT_LANES) return x;
    for (int lane = part; lane < FT_LANES; lane++) x[lane] = other;
    return x;
}

static float scores(float *s, const float *bias, const float *mask, int64_t n)
{
    vf most = vf_set(-__builtin_inff());
    for (int64_t i = 0; i < n; i += FT_LANES) {
        int part = lanes_at(i, n);
        vf x = vector_at(s, i, part) + vector_at(bias, i, part) + vector_at(mask, i, part);
        store_at(s, i, x, part);
        most = vf_max(most, fill_above(x, -__builtin_inff(), part));
    }
    return vf_largest(most);
}

static float exps(float *s, float most, int64_t n)
{
    vf sum = {0};
    for (int64_t i = 0; i < n; i += FT_LANES) {
        int part = lanes_at(i, n);
        vf x = vf_exp(vector_at(s, i, part) - most);
        store_at(s, i, x, part);
        sum += fill_above(x, 0.0f, part);
    }
    return vf_sum(sum);
}

static void probabilities(float *s, const float *bias, const float *mask, float lse, int64_t n)
{
    for (int64_t i = 0; i < n; i += FT_LANES) {
        int part = lanes_at(i, n);
        vf x = vector_at(s, i, part) + vector_at(bias, i, part) + vector_at(mask, i, part);
        store_at(s, i, vf_exp(x - lse), part);
    }
}

static void score_grads(float *dp, const float *p, float delta, int64_t n)
{
    for (int64_t i = 0; i < n; i += FT_LANES) {
        int part = lanes_at(i, n);
        store_at(dp, i, vector_at(p, i, part) * (vector_at(dp, i, part) - delta), part);
    }
}

static float dot(const float *a, const float *b, int64_t n)
{
    vf sum[2] = {{0}, {0}};
    int64_t i = 0;
    for (; i + 2 * FT_LANES <= n; i += 2 * FT_LANES) {
        sum[0] += vf_load(a + i) * vf_load(b + i);
        sum[1] += vf_load(a + i + FT_LANES) * vf_load(b + i + FT_LANES);
    }
    for (; i < n; i += FT_LANES) {
        int part = lanes_at(i, n);
        sum[0] += vector_at(a, i, part) * vector_at(b, i, part);
    }
    return vf_sum(sum[0] + sum[1]);
}

static void dots(float *s, const float *q, const float *k, int64_t step, int64_t D, int64_t n)
{
    for (int64_t j = 0; j < n; j++) s[j] = dot(q, k + j * step, D);
}

/* Four vectors of y at a time stay in registers while the values go by. */
static void mix(float *y, const float *p, const float *v, int64_t step, int64_t D, int64_t n)
{
    int64_t d = 0;
    for (; d + 4 * FT_LANES <= D; d += 4 * FT_LANES) {
        vf sum[4] = {{0}, {0}, {0}, {0}};
        for (int64_t j = 0; j < n; j++)
            for (int c = 0; c < 4; c++) sum[c] += p[j] * vf_load(v + j * step + d + c * FT_LANES);
        for (int c = 0; c < 4; c++) vf_store(y + d + c * FT_LANES, sum[c]);
    }
    for (; d < D; d += FT_LANES) {
        int part = lanes_at(d, D);
        vf sum = {0};
        for (int64_t j = 0; j < n; j++) sum += p[j] * vector_at(v + j * step, d, part);
        store_at(y, d, sum, part);
    }
}

const ft_simd_attention FT_ISA_NAME(ft_simd_attention) = {
    .scores = scores,
    .exps = exps,
    .probabilities = probabilities,
    .score_grads = score_grads,
    .dot = dot,
    .dots = dots,
    .mix = mix,
};
