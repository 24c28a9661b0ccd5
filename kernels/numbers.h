/* kernels/numbers.h - numbers as they are kept: in f32, bf16 or f16 (cuda/args.h). They are worked
 * on in f32. */
#ifndef FT_NUMBERS_H
#define FT_NUMBERS_H

#include "rounding.h"

/* From and to 16 bits, by the card's own instruction where every card has one. */
FT_INLINE float ft_half_to_float(uint16_t half, bool f16)
{
    if (!f16) return ft_from_bf16(half);
#ifdef __CUDACC__
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(half));
    return x;
#else
    return ft_from_f16(half);
#endif
}
FT_INLINE uint16_t ft_float_to_half(float x, bool f16)
{
    if (!f16) return (uint16_t)ft_to_bf16(x);
#ifdef __CUDACC__
    uint16_t half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
    return half;
#else
    return (uint16_t)ft_to_f16(x);
#endif
}

/* Whether they are f32; else, whether f16. */
FT_INLINE bool ft_is_f32(const ft_numbers &x)
{
    return (int)x.kept == FT_CUDA_F32;
}
FT_INLINE bool ft_is_f16(const ft_numbers &x)
{
    return (int)x.kept == FT_CUDA_F16;
}

FT_INLINE float ft_read(const ft_numbers &x, int64_t i)
{
    if (ft_is_f32(x)) return ((const float *)x.at)[i];
    return ft_half_to_float(((const uint16_t *)x.at)[i], ft_is_f16(x));
}
FT_INLINE void ft_write(const ft_numbers &x, int64_t i, float y)
{
    if (ft_is_f32(x))
        ((float *)x.at)[i] = y;
    else
        ((uint16_t *)x.at)[i] = ft_float_to_half(y, ft_is_f16(x));
}

/* Those from number i on; of nothing, nothing. */
FT_INLINE ft_numbers ft_from(const ft_numbers &x, int64_t i)
{
    ft_numbers y = {x.at ? (char *)x.at + (i << (ft_is_f32(x) ? 2 : 1)) : NULL, x.kept};
    return y;
}

#endif
