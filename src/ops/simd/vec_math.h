/* ops/simd/vec_math.h - exp, log, tanh and the normal distribution on vectors.
 *
 * Polynomials are Chebyshev fits made for these intervals; the errors named are relative, against
 * exact values, over all of f32. NaN gives NaN. */
#ifndef FT_OPS_SIMD_VEC_MATH_H
#define FT_OPS_SIMD_VEC_MATH_H

#include "base/vec.h"

/* x * 2^n for whole n in [-252, 254]; exact but for one rounding below the normal range. */
static inline vf vf_scale2(vf x, vf n)
{
#if defined(__AVX512F__)
    return (vf)_mm512_scalef_ps((__m512)x, (__m512)n);
#else
    vi whole = __builtin_convertvector(n, vi), half = whole >> 1;
    vf low = (vf)((half + 127) << 23), high = (vf)((whole - half + 127) << 23);
    return x * low * high;
#endif
}

/* The whole number nearest to x, |x| < 2^22. */
static inline vf vf_round(vf x)
{
    const vf magic = vf_set(0x1.8p23f);
    return (x + magic) - magic;
}

/* e^x: 2^n e^r with |r| <= ln 2 / 2. Below 1.2e-7. */
static inline vf vf_exp(vf x)
{
    x = vf_min(vf_set(90.0f), vf_max(vf_set(-106.0f), x)); /* this order keeps NaN */
    vf n = vf_round(x * 1.44269504f);
    vf r = x - n * 0.693145752f; /* ln 2 in two pieces: the first has 15 bits */
    r = r - n * 1.42860677e-6f;
    vf p = r * 1.39262508e-3f + 8.36323288e-3f;
    p = p * r + 4.16665542e-2f;
    p = p * r + 1.66665767e-1f;
    p = p * r + 0.5f;
    p = p * (r * r) + r;
    return vf_scale2(p + 1.0f, n);
}

/* Natural logarithm: -inf at 0, NaN below. Below 1.2e-7. */
static inline vf vf_log(vf x)
{
    vi tiny = x < 0x1p-126f;
    vf y = vf_select(tiny, x * 0x1p24f, x);
    /* y = 2^e * m with m in [sqrt(1/2), sqrt(2)) */
    vi bits = (vi)y - 0x3f3504f3;
    vi exponent = bits >> 23;
    vf m = (vf)((bits & 0x007fffff) + 0x3f3504f3);
    vf e = __builtin_convertvector(exponent, vf) - vf_select(tiny, vf_set(24.0f), vf_set(0.0f));
    vf f = m - 1.0f;
    vf p = f * 6.97161147e-2f - 1.14797339e-1f;
    p = p * f + 1.16854199e-1f;
    p = p * f - 1.24256873e-1f;
    p = p * f + 1.42490577e-1f;
    p = p * f - 1.66678023e-1f;
    p = p * f + 2.00007157e-1f;
    p = p * f - 2.49999970e-1f;
    p = p * f + 3.33333312e-1f;
    vf low = f * f * (p * f - 0.5f) + e * 1.42860677e-6f;
    vf result = e * 0.693145752f + (f + low);
    result = vf_select(x == 0.0f, vf_set(-__builtin_inff()), result);
    result = vf_select(x == __builtin_inff(), x, result);
    return vf_select(x >= 0.0f, result, vf_set(__builtin_nanf("")));
}

/* Below 2e-7. */
static inline vf vf_tanh(vf x)
{
    vf size = vf_abs(x), z = x * x;
    vf p = z * -6.04516510e-3f + 2.09613291e-2f;
    p = p * z - 5.38432632e-2f;
    p = p * z + 1.33327188e-1f;
    p = p * z - 3.33333283e-1f;
    vf near = x * z * p + x;
    vf far = 1.0f - 2.0f / (vf_exp(size + size) + 1.0f);
    return vf_select(size < 0.625f, near, vf_with_sign(far, x));
}

/* 1 / (1 + e^-x) */
static inline vf vf_sigmoid(vf x)
{
    return 1.0f / (1.0f + vf_exp(-x));
}

/* Phi(x), the normal distribution, and its density. Q(|x|) = e^(-x^2/2) t P(t) with
 * t = 1 / (1 + 0.3 |x|); below 5e-7 while Phi is a normal number. */
static inline vf vf_normal(vf x, vf *density)
{
    vf size = vf_min(vf_set(20.0f), vf_abs(x));
    vf t = 1.0f / (size * 0.3f + 1.0f);
    vf p = t * 1.64894242e-3f + 2.87015553e-2f;
    p = p * t - 1.44881651e-1f;
    p = p * t + 1.94528758e-1f;
    p = p * t - 4.69749151e-2f;
    p = p * t + 1.26267858e-1f;
    p = p * t + 1.00373344e-1f;
    p = p * t + 1.20704645e-1f;
    p = p * t + 1.19631463e-1f;
    vf e = vf_exp(size * size * -0.5f);
    vf q = e * (p * t);
    *density = e * 0.398942280f;
    return vf_select(x < 0.0f, q, 1.0f - q);
}

/* The tanh form of GELU is x * sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3). */
static inline vf vf_gelu_gate(vf x)
{
    return vf_sigmoid(x * (x * x * 0.0713548163f + 1.59576912f));
}

/* d gelu(x) / dx, given gate = vf_gelu_gate(x). */
static inline vf vf_gelu_slope(vf x, vf gate)
{
    vf slope = x * x * 0.214064449f + 1.59576912f;
    return gate + x * slope * (gate * (1.0f - gate));
}

/* e^x up to where tanh(log(1 + e^x)) is 1 in f32. */
static inline vf vf_mish_exp(vf x)
{
    return vf_exp(vf_min(vf_set(20.0f), x)); /* this order keeps NaN */
}

/* tanh(log(1 + w)) = (w^2 + 2w) / (w^2 + 2w + 2) of w = vf_mish_exp(x). */
static inline vf vf_mish_gate(vf w)
{
    vf n = w * (w + 2.0f);
    return n / (n + 2.0f);
}

#endif
