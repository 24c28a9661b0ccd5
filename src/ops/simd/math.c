/* ops/simd/math.c - functions of one or two numbers along contiguous memory, and reductions.
 *
 * The two loops below are always inlined into the short functions that name what they compute, so
 * that each becomes its own vector loop. */
#include "ops/simd/ends.h"
#include "ops/simd/simd.h"
#include "ops/simd/vec_math.h"

INLINE void map1(float *y, const float *x, int64_t n, vf (*f)(vf))
{
    int64_t i = 0;
    for (; i + FT_LANES <= n; i += FT_LANES) vf_store(y + i, f(vf_load(x + i)));
    if (i < n) vf_store_part(y + i, f(vf_load_part(x + i, (int)(n - i))), (int)(n - i));
}

INLINE void map2(float *y, const float *a, const float *b, int64_t n, vf (*f)(vf, vf))
{
    int64_t i = 0;
    for (; i + FT_LANES <= n; i += FT_LANES) vf_store(y + i, f(vf_load(a + i), vf_load(b + i)));
    if (i < n) {
        int rest = (int)(n - i);
        vf_store_part(y + i, f(vf_load_part(a + i, rest), vf_load_part(b + i, rest)), rest);
    }
}

INLINE void map2_number(float *y, const float *a, float b, int64_t n, vf (*f)(vf, vf))
{
    vf right = vf_set(b);
    int64_t i = 0;
    for (; i + FT_LANES <= n; i += FT_LANES) vf_store(y + i, f(vf_load(a + i), right));
    if (i < n) {
        int rest = (int)(n - i);
        vf_store_part(y + i, f(vf_load_part(a + i, rest), right), rest);
    }
}

/* NaN is kept: it is not below 0. */
static inline vf vf_relu(vf x)
{
    return vf_select(x < 0.0f, vf_set(0.0f), x);
}
static inline vf vf_relu6(vf x)
{
    return vf_select(x > 6.0f, vf_set(6.0f), vf_relu(x));
}
static inline vf vf_relu2(vf x)
{
    return vf_relu(x) * vf_relu(x);
}
static inline vf vf_leaky_relu(vf x)
{
    return vf_select(x < 0.0f, x * 0.01f, x);
}
static inline vf vf_gelu(vf x)
{
    return x * vf_gelu_gate(x);
}
static inline vf vf_neg(vf x)
{
    return -x;
}
static inline vf vf_gelu_erf(vf x)
{
    vf density;
    return x * vf_normal(x, &density);
}
static inline vf vf_gelu_10(vf x)
{
    vf y = vf_gelu_erf(x);
    return vf_select(y > 10.0f, vf_set(10.0f), y);
}
static inline vf vf_silu(vf x)
{
    return x * vf_sigmoid(x);
}
static inline vf vf_quick_gelu(vf x)
{
    return x * vf_sigmoid(x * 1.702f);
}
static inline vf vf_mish(vf x)
{
    return x * vf_mish_gate(vf_mish_exp(x));
}

static inline vf add(vf a, vf b)
{
    return a + b;
}
static inline vf sub(vf a, vf b)
{
    return a - b;
}
static inline vf mul(vf a, vf b)
{
    return a * b;
}
static inline vf divide(vf a, vf b)
{
    return a / b;
}
static inline vf vf_relu_grad(vf dy, vf y)
{
    return vf_select(y > 0.0f, dy, vf_set(0.0f));
}
static inline vf vf_relu6_grad(vf dy, vf y)
{
    return vf_select(y < 6.0f, vf_relu_grad(dy, y), vf_set(0.0f));
}
static inline vf vf_relu2_grad(vf dy, vf x)
{
    return dy * 2.0f * vf_relu(x);
}
static inline vf vf_leaky_relu_grad(vf dy, vf y)
{
    return vf_select(y > 0.0f, dy, dy * 0.01f);
}
static inline vf vf_gelu_grad(vf dy, vf x)
{
    return dy * vf_gelu_slope(x, vf_gelu_gate(x));
}
static inline vf vf_tanh_grad(vf dy, vf y)
{
    return dy * ((1.0f - y) * (1.0f + y));
}
static inline vf vf_sqrt_grad(vf dy, vf y)
{
    return dy * 0.5f / y;
}
static inline vf gated_gelu(vf a, vf b)
{
    return vf_gelu(a) * b;
}
static inline vf vf_gelu_erf_grad(vf dy, vf x)
{
    vf density, normal = vf_normal(x, &density);
    return dy * (x * density + normal);
}
static inline vf vf_gelu_10_grad(vf dy, vf x)
{
    return vf_select(vf_gelu_erf(x) > 10.0f, vf_set(0.0f), vf_gelu_erf_grad(dy, x));
}
static inline vf vf_sigmoid_grad(vf dy, vf y)
{
    return dy * (y * (1.0f - y));
}
/* of x sigmoid(k x) */
static inline vf swish_grad(vf dy, vf x, float k)
{
    vf z = x * k, gate = vf_sigmoid(z);
    return dy * (gate * (z * (1.0f - gate) + 1.0f));
}
static inline vf vf_silu_grad(vf dy, vf x)
{
    return swish_grad(dy, x, 1.0f);
}
static inline vf vf_quick_gelu_grad(vf dy, vf x)
{
    return swish_grad(dy, x, 1.702f);
}
static inline vf vf_mish_grad(vf dy, vf x)
{
    vf w = vf_mish_exp(x), gate = vf_mish_gate(w);
    return dy * (gate + x * (1.0f - gate) * (1.0f + gate) * (w / (1.0f + w)));
}

#define MAP1(row, ...)                                                                             \
    static void row##_map(float *y, const float *x, int64_t n)                                     \
    {                                                                                              \
        map1(y, x, n, vf_##row);                                                                   \
    }
#define MAP2(row, ...)                                                                             \
    static void row##_map(float *dx, const float *dy, const float *v, int64_t n)                   \
    {                                                                                              \
        map2(dx, dy, v, n, vf_##row);                                                              \
    }
FT_MAP1_LIST(MAP1)
FT_MAP2_LIST(MAP2)

static void add_map(float *y, const float *a, const float *b, int64_t n)
{
    map2(y, a, b, n, add);
}
static void sub_map(float *y, const float *a, const float *b, int64_t n)
{
    map2(y, a, b, n, sub);
}
static void mul_map(float *y, const float *a, const float *b, int64_t n)
{
    map2(y, a, b, n, mul);
}
static void div_map(float *y, const float *a, const float *b, int64_t n)
{
    map2(y, a, b, n, divide);
}

static void gated_gelu_map(float *y, const float *a, const float *b, int64_t n)
{
    map2(y, a, b, n, gated_gelu);
}

static void add_number(float *y, const float *a, const float *b, int64_t n)
{
    map2_number(y, a, b[0], n, add);
}

static void sub_number(float *y, const float *a, const float *b, int64_t n)
{
    map2_number(y, a, b[0], n, sub);
}

static void mul_number(float *y, const float *a, const float *b, int64_t n)
{
    map2_number(y, a, b[0], n, mul);
}

static void div_number(float *y, const float *a, const float *b, int64_t n)
{
    map2_number(y, a, b[0], n, divide);
}

static void scale(float *y, const float *x, float factor, int64_t n)
{
    map2_number(y, x, factor, n, mul);
}

static inline void gated_grad_step(vf *da, vf *db, vf dy, vf a, vf b)
{
    vf gate = vf_gelu_gate(a);
    *da = dy * b * vf_gelu_slope(a, gate);
    *db = dy * (a * gate);
}

static void gated_gelu_grad(float *da, float *db, const float *dy, const float *a, const float *b,
                            int64_t n)
{
    vf left, right;
    int64_t i = 0;
    for (; i + FT_LANES <= n; i += FT_LANES) {
        gated_grad_step(&left, &right, vf_load(dy + i), vf_load(a + i), vf_load(b + i));
        vf_store(da + i, left);
        vf_store(db + i, right);
    }
    if (i < n) {
        int rest = (int)(n - i);
        gated_grad_step(&left, &right, vf_load_part(dy + i, rest), vf_load_part(a + i, rest),
                        vf_load_part(b + i, rest));
        vf_store_part(da + i, left, rest);
        vf_store_part(db + i, right, rest);
    }
}

static float sum(const float *x, int64_t n)
{
    vf total[4] = {{0}, {0}, {0}, {0}};
    int64_t i = 0;
    for (; i + 4 * FT_LANES <= n; i += 4 * FT_LANES)
        for (int j = 0; j < 4; j++) total[j] += vf_load(x + i + j * FT_LANES);
    for (; i + FT_LANES <= n; i += FT_LANES) total[0] += vf_load(x + i);
    if (i < n) total[1] += vf_load_part(x + i, (int)(n - i));
    return vf_sum((total[0] + total[1]) + (total[2] + total[3]));
}

static void add_to(double *restrict total, const float *restrict x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) total[i] += (double)x[i];
}

static float largest(const float *x, int64_t n)
{
    vf top = vf_set(x[0]), odd = {0}; /* odd becomes NaN with the first NaN */
    int64_t i = 0;
    for (; i + FT_LANES <= n; i += FT_LANES) {
        vf v = vf_load(x + i);
        top = vf_max(top, v);
        odd += vf_select(v != v, v, vf_set(0.0f));
    }
    float result = vf_largest(top), nan = vf_sum(odd);
    for (; i < n; i++) {
        if (x[i] > result) result = x[i];
        if (x[i] != x[i]) nan = x[i];
    }
    return nan != nan || x[0] != x[0] ? __builtin_nanf("") : result;
}

/* 0 times a finite number is 0, of either sign; of any other it is NaN, which stays in a sum. */
static bool all_finite(const float *x, int64_t n)
{
    vf total[4] = {{0}, {0}, {0}, {0}}, zero = {0};
    int64_t i = 0;
    for (; i + 4 * FT_LANES <= n; i += 4 * FT_LANES)
        for (int j = 0; j < 4; j++)
            total[j] = vf_fma(vf_load(x + i + j * FT_LANES), zero, total[j]);
    for (; i + FT_LANES <= n; i += FT_LANES) total[0] = vf_fma(vf_load(x + i), zero, total[0]);
    if (i < n) total[1] = vf_fma(vf_load_part(x + i, (int)(n - i)), zero, total[1]);
    return vf_sum((total[0] + total[1]) + (total[2] + total[3])) == 0.0f;
}

const ft_simd_math FT_ISA_NAME(ft_simd_math) = {
#define AT(row, number, ...) [FT_MAP_##number] = row##_map,
    .map1 = {FT_MAP1_LIST(AT)},
    .map2 = {FT_MAP2_LIST(AT)[FT_MAP_ADD] = add_map, [FT_MAP_SUB] = sub_map, [FT_MAP_MUL] = mul_map,
             [FT_MAP_DIV] = div_map, [FT_MAP_GATED_GELU] = gated_gelu_map},
#undef AT
    .scalar_right = {[FT_MAP_ADD] = add_number,
                     [FT_MAP_SUB] = sub_number,
                     [FT_MAP_MUL] = mul_number,
                     [FT_MAP_DIV] = div_number},
    .scale = scale,
    .gated_gelu_grad = gated_gelu_grad,
    .sum = sum,
    .add_to = add_to,
    .largest = largest,
    .finite = all_finite,
};
