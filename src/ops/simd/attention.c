/* ops/simd/attention.c - the rows of attention.
 *
 * A row is one query against n keys. Its scores are read twice, for their largest and for the
 * exponentials of what they are below it; nothing between is stored. */
#include "ops/simd/ends.h"
#include "ops/simd/simd.h"
#include "ops/simd/vec_math.h"

/* The vector at i, of which `part` lanes exist (FT_LANES: all); 0 without memory. */
INLINE vf vector_at(const float *p, int64_t i, int part)
{
    if (!p) return (vf){0};
    return part == FT_LANES ? vf_load(p + i) : vf_load_part(p + i, part);
}

static inline int lanes_at(int64_t i, int64_t n)
{
    return n - i < FT_LANES ? (int)(n - i) : FT_LANES;
}

INLINE void store_at(float *p, int64_t i, vf x, int part)
{
    if (part == FT_LANES)
        vf_store(p + i, x);
    else
        vf_store_part(p + i, x, part);
}

/* x in the lanes below part, `other` above. */
INLINE vf fill_above(vf x, float other, int part)
{
    if (part == FT_LANES) return x;
    return vf_select(vi_lanes() < vi_set(part), x, vf_set(other));
}

INLINE vf score_at(const float *s, const ft_attention_row *row, int64_t i, int part)
{
    return vector_at(s, i, part) + vector_at(row->bias, i, part) + vector_at(row->mask, i, part);
}

INLINE vf kept_at(const ft_attention_row *row, int64_t i, vf x)
{
    return row->bits ? vf_keep((uint32_t)(row->bits[i / 64] >> (i % 64)), x) : x;
}

static float largest(const float *s, const ft_attention_row *row, int64_t n)
{
    const ft_attention_row r = *row;
    const float low = -__builtin_inff();
    vf most = vf_set(low);
    int64_t i = 0;
    for (; i + FT_LANES <= n; i += FT_LANES) most = vf_max(most, score_at(s, &r, i, FT_LANES));
    if (i < n) {
        int part = lanes_at(i, n);
        most = vf_max(most, fill_above(score_at(s, &r, i, part), low, part));
    }
    return vf_largest(most);
}

INLINE vf exp_at(float *s, const ft_attention_row *row, float most, int64_t i, int part)
{
    vf x = vf_exp(score_at(s, row, i, part) - most);
    store_at(s, i, kept_at(row, i, x), part);
    return fill_above(x, 0.0f, part);
}

static float exps(float *s, const ft_attention_row *row, float most, int64_t n)
{
    const ft_attention_row r = *row;
    vf sum = {0};
    int64_t i = 0;
    for (; i + FT_LANES <= n; i += FT_LANES) sum += exp_at(s, &r, most, i, FT_LANES);
    if (i < n) sum += exp_at(s, &r, most, i, lanes_at(i, n));
    return vf_sum(sum);
}

/* What a row's likeliest key has, lane by lane. */
typedef struct likeliest {
    vf p, kept;
} likeliest;

/* s becomes the probabilities, dp what dropout makes of it. */
INLINE void probabilities_at(float *s, float *dp, const ft_attention_row *row,
                             const ft_attention_row_grad *g, likeliest *most, int64_t i, int part)
{
    vf p = vf_exp(score_at(s, row, i, part) - g->lse);
    vf kept = kept_at(row, i, vector_at(dp, i, part) * g->keep_scale);
    store_at(s, i, p, part);
    store_at(dp, i, kept, part);
    p = fill_above(p, 0.0f, part);
    most->kept = vf_select(p > most->p, kept, most->kept);
    most->p = vf_max(most->p, p);
}

/* What the likeliest of all lanes has. */
static float kept_of_likeliest(likeliest most)
{
    float p[FT_LANES], kept[FT_LANES];
    int best = 0;
    vf_store(p, most.p);
    vf_store(kept, most.kept);
    for (int lane = 1; lane < FT_LANES; lane++)
        if (p[lane] > p[best]) best = lane;
    return kept[best];
}

/* Sums over a row of probabilities and dp less `base`, for its mean. */
typedef struct mean_sums {
    vf p, above;
} mean_sums;

INLINE void mean_at(const float *s, const float *dp, float base, mean_sums *sums, int64_t i,
                    int part)
{
    vf p = vector_at(s, i, part);
    sums->above += p * (vector_at(dp, i, part) - base);
    sums->p += p;
}

/* What dp of a key is above base + mean, times its probability. */
INLINE void grads_at(float *s, float *dp, const ft_attention_row *row,
                     const ft_attention_row_grad *g, const float base_mean[2], int64_t i, int part)
{
    vf p = vector_at(s, i, part);
    vf ds = p * ((vector_at(dp, i, part) - base_mean[0]) - base_mean[1]);
    store_at(s, i, kept_at(row, i, p * g->keep_scale), part);
    store_at(dp, i, ds, part);
    if (g->bias_grad) store_at(g->bias_grad, i, vector_at(g->bias_grad, i, part) + ds, part);
}

/* The mean is taken of what is left of dp after the likeliest key's is taken away: of a key that
 * has all of the probability nothing is, and of one that has nearly all what the others make. In
 * dy . y, which is the mean too, that is below the rounding. */
static void grads(float *s, float *dp, const ft_attention_row *row,
                  const ft_attention_row_grad *grad, int64_t n)
{
    const ft_attention_row r = *row;
    const ft_attention_row_grad g = *grad;
    const int64_t whole = n / FT_LANES * FT_LANES;
    const int part = (int)(n - whole);
    likeliest most = {{0}, {0}};
    mean_sums sums = {{0}, {0}};
    for (int64_t i = 0; i < whole; i += FT_LANES)
        probabilities_at(s, dp, &r, &g, &most, i, FT_LANES);
    if (part) probabilities_at(s, dp, &r, &g, &most, whole, part);
    float base_mean[2] = {kept_of_likeliest(most), 0.0f};
    for (int64_t i = 0; i < whole; i += FT_LANES) mean_at(s, dp, base_mean[0], &sums, i, FT_LANES);
    if (part) mean_at(s, dp, base_mean[0], &sums, whole, part);
    float total = vf_sum(sums.p);
    if (total > 0.0f) base_mean[1] = vf_sum(sums.above) / total;
    for (int64_t i = 0; i < whole; i += FT_LANES) grads_at(s, dp, &r, &g, base_mean, i, FT_LANES);
    if (part) grads_at(s, dp, &r, &g, base_mean, whole, part);
}

static float dot(const float *a, const float *b, int64_t n)
{
    vf sum[2] = {{0}, {0}};
    int64_t i = 0;
    for (; i + 2 * FT_LANES <= n; i += 2 * FT_LANES) {
        sum[0] = vf_fma(vf_load(a + i), vf_load(b + i), sum[0]);
        sum[1] = vf_fma(vf_load(a + i + FT_LANES), vf_load(b + i + FT_LANES), sum[1]);
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
            for (int c = 0; c < 4; c++)
                sum[c] = vf_fma(vf_set(p[j]), vf_load(v + j * step + d + c * FT_LANES), sum[c]);
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
    .largest = largest,
    .exps = exps,
    .grads = grads,
    .dots = dots,
    .mix = mix,
};
