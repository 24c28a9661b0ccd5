/* kernels/numbers.h - numbers as they are kept: in f32, bf16 or f16 (cuda/kernels.h). They are
 * worked on in f32. */
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
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 800
    if (!f16) {
        uint16_t bits;
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
        return bits;
    }
#else
    if (!f16) return (uint16_t)ft_to_bf16(x);
#endif
#ifdef __CUDACC__
    uint16_t half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
    return half;
#else
    return (uint16_t)ft_to_f16(x);
#endif
}

/* Two at once, the first in the lower half. */
FT_INLINE uint32_t ft_floats_to_halves(float first, float second, bool f16)
{
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 800
    uint32_t x;
    if (f16)
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(second), "f"(first));
    else
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(second), "f"(first));
    return x;
#else
    return ft_float_to_half(first, f16) | (uint32_t)ft_float_to_half(second, f16) << 16;
#endif
}

FT_INLINE ft_numbers ft_f32(const float *x)
{
    ft_numbers y = {(void *)x, FT_CUDA_F32};
    return y;
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

/* Whether four of them, from number i on of n, are there and lie so that they come at once. */
FT_INLINE bool ft_four_at_once(const ft_numbers &x, int64_t i, int64_t n)
{
    int size = ft_is_f32(x) ? 4 : 2;
    uintptr_t at = (uintptr_t)x.at + (uintptr_t)(i * size);
    return i + 4 <= n && (at & (uintptr_t)(4 * size - 1)) == 0;
}

struct alignas(8) ft_four_halves {
    uint16_t x[4];
};
/* 16 bytes of numbers. */
struct [[gnu::may_alias]] alignas(16) ft_words {
    uint32_t x[4];
};
struct [[gnu::may_alias]] alignas(8) ft_two_words {
    uint32_t x[2];
};

/* Four of them from number i on, zeros past n. */
FT_INLINE ft_four ft_read_four(const ft_numbers &x, int64_t i, int64_t n)
{
    ft_four y = {{0, 0, 0, 0}};
    if (!ft_four_at_once(x, i, n)) {
FT_UNROLL
        for (int k = 0; k < 4; k++)
            if (i + k < n) y.x[k] = ft_read(x, i + k);
    } else if (ft_is_f32(x)) {
        y = ft_get((const float *)x.at + i);
    } else {
        const ft_four_halves z = *(const ft_four_halves *)((const uint16_t *)x.at + i);
FT_UNROLL
        for (int k = 0; k < 4; k++) y.x[k] = ft_half_to_float(z.x[k], ft_is_f16(x));
    }
    return y;
}
/* Those before n. */
FT_INLINE void ft_write_four(const ft_numbers &x, int64_t i, int64_t n, const ft_four &y)
{
    if (!ft_four_at_once(x, i, n)) {
FT_UNROLL
        for (int k = 0; k < 4; k++)
            if (i + k < n) ft_write(x, i + k, y.x[k]);
    } else if (ft_is_f32(x)) {
        ft_put((float *)x.at + i, y);
    } else {
        ft_two_words z;
FT_UNROLL
        for (int k = 0; k < 2; k++)
            z.x[k] = ft_floats_to_halves(y.x[2 * k], y.x[2 * k + 1], ft_is_f16(x));
        *(ft_two_words *)((uint16_t *)x.at + i) = z;
    }
}

FT_INLINE int64_t ft_bytes_of(const ft_numbers &x, int64_t n)
{
    return n << (ft_is_f32(x) ? 2 : 1);
}

/* Those from number i on; of nothing, nothing. */
FT_INLINE ft_numbers ft_from(const ft_numbers &x, int64_t i)
{
    ft_numbers y = {x.at ? (char *)x.at + ft_bytes_of(x, i) : NULL, x.kept};
    return y;
}

/* -- numbers in 16 bytes ----------------------------------------------------------------------- */

/* How many of them there are. */
template <int kept> struct ft_word_of {
    enum { N = kept == FT_CUDA_F32 ? 4 : 8 };
};

/* Whether rows of n numbers are such, each in its place. */
FT_INLINE bool ft_in_words(const ft_numbers &x, int64_t n)
{
    return (((uintptr_t)x.at | (uintptr_t)ft_bytes_of(x, n)) & 15) == 0;
}

/* From number i on; zeros if it is not there. */
template <int kept> FT_INLINE ft_words ft_take_words(const ft_numbers &x, int64_t i, bool there)
{
    ft_words y = {{0, 0, 0, 0}};
    if (there) y = *(const ft_words *)((const char *)x.at + (i << (kept == FT_CUDA_F32 ? 2 : 1)));
    return y;
}
template <int kept> FT_INLINE void ft_unpack(float *x, const ft_words &from)
{
FT_UNROLL
    for (int k = 0; k < 4; k++) {
        if (kept == FT_CUDA_F32) {
            ft_bits y;
            y.u = from.x[k];
            x[k] = y.f;
            continue;
        }
        x[2 * k] = ft_half_to_float((uint16_t)from.x[k], kept == FT_CUDA_F16);
        x[2 * k + 1] = ft_half_to_float((uint16_t)(from.x[k] >> 16), kept == FT_CUDA_F16);
    }
}
template <int kept> FT_INLINE void ft_put_words(const ft_numbers &y, int64_t i, const float *x)
{
    ft_words z;
FT_UNROLL
    for (int k = 0; k < 4; k++) {
        if (kept == FT_CUDA_F32) {
            const ft_bits bits = {x[k]};
            z.x[k] = bits.u;
            continue;
        }
        z.x[k] = ft_floats_to_halves(x[2 * k], x[2 * k + 1], kept == FT_CUDA_F16);
    }
    *(ft_words *)((char *)y.at + (i << (kept == FT_CUDA_F32 ? 2 : 1))) = z;
}

/* -- eight numbers ----------------------------------------------------------------------------- */

struct ft_eight {
    float x[8];
};
/* As they lie in memory, if all are there and begin at 16 bytes. */
struct ft_eight_kept {
    ft_words x[2];
};

FT_INLINE bool ft_eight_at_once(const ft_numbers &x, int64_t i, int64_t n)
{
    return i + 8 <= n && (((uintptr_t)x.at + (uintptr_t)ft_bytes_of(x, i)) & 15) == 0;
}
/* Of nothing, nothing. */
FT_INLINE ft_eight_kept ft_take_eight(const ft_numbers &x, int64_t i)
{
    const ft_words *at = (const ft_words *)((const char *)x.at + ft_bytes_of(x, i));
    ft_eight_kept y = {{{{0, 0, 0, 0}}, {{0, 0, 0, 0}}}};
    if (x.at) y.x[0] = at[0];
    if (x.at && ft_is_f32(x)) y.x[1] = at[1];
    return y;
}
FT_INLINE ft_eight ft_unpack_eight(const ft_numbers &x, const ft_eight_kept &from)
{
    ft_eight y;
    if (ft_is_f32(x)) {
        ft_unpack<FT_CUDA_F32>(y.x, from.x[0]);
        ft_unpack<FT_CUDA_F32>(y.x + 4, from.x[1]);
    } else if (ft_is_f16(x)) {
        ft_unpack<FT_CUDA_F16>(y.x, from.x[0]);
    } else {
        ft_unpack<FT_CUDA_BF16>(y.x, from.x[0]);
    }
    return y;
}
/* From number i on, zeros past n and of nothing. */
FT_INLINE ft_eight ft_read_eight(const ft_numbers &x, int64_t i, int64_t n)
{
    ft_eight y = {{0, 0, 0, 0, 0, 0, 0, 0}};
    if (!x.at) return y;
    if (ft_eight_at_once(x, i, n)) return ft_unpack_eight(x, ft_take_eight(x, i));
FT_UNROLL
    for (int k = 0; k < 8; k++)
        if (i + k < n) y.x[k] = ft_read(x, i + k);
    return y;
}
/* Those before n. */
FT_INLINE void ft_write_eight(const ft_numbers &x, int64_t i, int64_t n, const ft_eight &y)
{
    if (!ft_eight_at_once(x, i, n)) {
FT_UNROLL
        for (int k = 0; k < 8; k++)
            if (i + k < n) ft_write(x, i + k, y.x[k]);
    } else if (ft_is_f32(x)) {
        ft_put_words<FT_CUDA_F32>(x, i, y.x);
        ft_put_words<FT_CUDA_F32>(x, i + 4, y.x + 4);
    } else if (ft_is_f16(x)) {
        ft_put_words<FT_CUDA_F16>(x, i, y.x);
    } else {
        ft_put_words<FT_CUDA_BF16>(x, i, y.x);
    }
}

/* Of up to three tensors, so that all are asked for before any is unpacked. */
FT_INLINE void ft_read_eights(ft_eight y[3], const ft_numbers x[3], int64_t i, int64_t n)
{
    bool at_once = true;
FT_UNROLL
    for (int t = 0; t < 3; t++) at_once = at_once && (!x[t].at || ft_eight_at_once(x[t], i, n));
    if (at_once) {
        ft_eight_kept kept[3];
FT_UNROLL
        for (int t = 0; t < 3; t++) kept[t] = ft_take_eight(x[t], i);
FT_UNROLL
        for (int t = 0; t < 3; t++) y[t] = ft_unpack_eight(x[t], kept[t]);
        return;
    }
FT_UNROLL
    for (int t = 0; t < 3; t++) y[t] = ft_read_eight(x[t], i, n);
}

#endif
