/* kernels/rounding.h - numbers of fewer bits: to the nearest; ties to even, but of tf32 away from
 * zero, as cards round to it. */
#ifndef FT_ROUNDING_H
#define FT_ROUNDING_H

#include "kernel.h"

union ft_bits {
    float f;
    uint32_t u;
};

/* The nearest bf16; nan stays. To and from: its bits. */
FT_INLINE float ft_as_bf16(float x)
{
    ft_bits y = {x};
    if (x != x) return x;
    y.u += 0x7fffu + (y.u >> 16 & 1);
    y.u &= 0xffff0000u;
    return y.f;
}

FT_INLINE uint32_t ft_to_bf16(float x)
{
    ft_bits y = {ft_as_bf16(x)};
    return y.u >> 16 | (x != x ? 0x40 : 0); /* nan stays */
}
FT_INLINE float ft_from_bf16(uint32_t half)
{
    ft_bits y;
    y.u = half << 16;
    return y.f;
}

/* The bits of the nearest f16, likewise; from 65520 on, infinity. */
FT_INLINE uint32_t ft_to_f16(float x)
{
    ft_bits y = {x}, tiny;
    uint32_t sign = y.u >> 16 & 0x8000u, size = y.u & 0x7fffffffu;
    if (x != x) return sign | 0x7e00u;
    if (size >= 0x47800000u) return sign | 0x7c00u; /* 2^16 */
    if (size < 0x38800000u) { /* 2^-14: numbers beside 0.5 are as far apart as the smallest f16 */
        y.u = size;
        tiny.f = y.f + 0.5f;
        return sign | (tiny.u - 0x3f000000u);
    }
    size -= 0x38000000u; /* another exponent's zero */
    return sign | (size + 0xfffu + (size >> 13 & 1)) >> 13;
}

FT_INLINE float ft_from_f16(uint32_t half)
{
    uint32_t sign = (half & 0x8000u) << 16, exponent = half >> 10 & 31, fraction = half & 0x3ffu;
    ft_bits y;
    if (exponent == 0) {
        y.f = (float)fraction * 5.9604644775390625e-8f;
        y.u |= sign;
        return y.f;
    }
    y.u = sign | (exponent == 31 ? 255 : exponent + 112) << 23 | fraction << 13;
    return y.f;
}

/* The nearest with 10 bits of fraction. */
FT_INLINE float ft_as_tf32(float x)
{
    ft_bits y = {x};
    if (x != x) return x;
    y.u += 0x1000u;
    y.u &= 0xffffe000u;
    return y.f;
}

#endif
