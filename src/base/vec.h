/* base/vec.h - the vector of the instruction set that a file is compiled for.
 *
 * Files of folders simd/ are compiled once per instruction set (cmake/FtKernels.cmake). They say
 * `vf` for "as many floats as a register holds" and FT_LANES for how many; arithmetic is written
 * with the operators of GCC's vector extension, and the few things those cannot say are here. There
 * are none wider than a register: these go through memory, part by part. */
#ifndef FT_BASE_VEC_H
#define FT_BASE_VEC_H

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { FT_LANES = 16 };
#elif defined(__AVX2__)
enum { FT_LANES = 8 };
#else
enum { FT_LANES = 4 };
#endif

typedef float vf __attribute__((vector_size(FT_LANES * 4)));
typedef double vdh __attribute__((vector_size(FT_LANES * 4))); /* half the lanes of a vf, in f64 */
typedef int32_t vi __attribute__((vector_size(FT_LANES * 4)));
typedef uint32_t vu __attribute__((vector_size(FT_LANES * 4)));
typedef float vf_memory __attribute__((vector_size(FT_LANES * 4), aligned(4), may_alias));
typedef float half_memory __attribute__((vector_size(FT_LANES * 2), aligned(4), may_alias));

/* x in all lanes. */
static inline vf vf_set(float x)
{
    return x - (vf){0};
}

/* x in all lanes. */
static inline vi vi_set(int32_t x)
{
    return x - (vi){0};
}

/* The numbers of the lanes: 0, 1, 2, ... */
static inline vi vi_lanes(void)
{
#if defined(__AVX512F__)
    return (vi){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#elif defined(__AVX2__)
    return (vi){0, 1, 2, 3, 4, 5, 6, 7};
#else
    return (vi){0, 1, 2, 3};
#endif
}

/* FT_LANES floats of any address. */
static inline vf vf_load(const float *p)
{
    return *(const vf_memory *)p;
}

/* All lanes, to any address. */
static inline void vf_store(float *p, vf x)
{
    *(vf_memory *)p = x;
}

/* FT_LANES / 2 floats in f64. */
static inline vdh vdh_load(const float *p)
{
    return __builtin_convertvector(*(const half_memory *)p, vdh);
}

/* To a whole vector's address, past the caches; vf_streamed before others may read it. */
static inline void vf_stream(float *p, vf x)
{
#if defined(__AVX512F__)
    _mm512_stream_ps(p, (__m512)x);
#elif defined(__AVX2__)
    _mm256_stream_ps(p, (__m256)x);
#elif defined(__x86_64__)
    _mm_stream_ps(p, (__m128)x);
#else
    vf_store(p, x);
#endif
}

/* Waits for what went past the caches. */
static inline void vf_streamed(void)
{
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

/* The first n < FT_LANES elements; the rest is 0, and is not read. */
static inline vf vf_load_part(const float *p, int n)
{
#if defined(__AVX512F__)
    return (vf)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#else
    vf x = {0};
    for (int i = 0; i < n; i++) x[i] = p[i];
    return x;
#endif
}

/* The first n < FT_LANES lanes; no more is written. */
static inline void vf_store_part(float *p, vf x, int n)
{
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)x);
#else
    for (int i = 0; i < n; i++) p[i] = x[i];
#endif
}

/* a * b + c, rounded once where the instruction set can, whatever the compiler may fuse. */
static inline vf vf_fma(vf a, vf b, vf c)
{
#if defined(__AVX512F__)
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

/* The larger and the smaller of each pair; b where one of them is NaN. */
static inline vf vf_max(vf a, vf b)
{
#if defined(__AVX512F__)
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__x86_64__)
    return (vf)_mm_max_ps((__m128)a, (__m128)b);
#else
    vi more = a > b;
    return (vf)((more & (vi)a) | (~more & (vi)b));
#endif
}

/* See vf_max. */
static inline vf vf_min(vf a, vf b)
{
#if defined(__AVX512F__)
    return (vf)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (vf)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__x86_64__)
    return (vf)_mm_min_ps((__m128)a, (__m128)b);
#else
    vi less = a < b;
    return (vf)((less & (vi)a) | (~less & (vi)b));
#endif
}

/* a where the lane of mask is -1, b where it is 0; masks are results of comparisons. */
static inline vf vf_select(vi mask, vf a, vf b)
{
#if defined(__AVX512F__)
    return (vf)_mm512_mask_blend_ps(_mm512_movepi32_mask((__m512i)mask), (__m512)b, (__m512)a);
#elif defined(__AVX2__)
    return (vf)_mm256_blendv_ps((__m256)b, (__m256)a, (__m256)mask);
#else
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
#endif
}

/* x where bit `lane` of bits is set, 0 elsewhere. */
static inline vf vf_keep(uint32_t bits, vf x)
{
#if defined(__AVX512F__)
    return (vf)_mm512_maskz_mov_ps((__mmask16)bits, (__m512)x);
#else
    vi lane_bit = vi_set(1);
    for (int i = 0; i < FT_LANES; i++) lane_bit[i] = 1 << i;
    return (vf)((vi)x & ((vi_set((int32_t)bits) & lane_bit) == lane_bit));
#endif
}

/* The magnitude of each lane. */
static inline vf vf_abs(vf x)
{
    return (vf)((vi)x & vi_set(0x7fffffff));
}

/* The magnitude of x with the sign of s. */
static inline vf vf_with_sign(vf x, vf s)
{
    return (vf)(((vi)x & vi_set(0x7fffffff)) | ((vi)s & vi_set(INT32_MIN)));
}

/* Rounded once. */
static inline vf vf_sqrt(vf x)
{
#if defined(__AVX512F__)
    return (vf)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX2__)
    return (vf)_mm256_sqrt_ps((__m256)x);
#elif defined(__x86_64__)
    return (vf)_mm_sqrt_ps((__m128)x);
#else
    for (int i = 0; i < FT_LANES; i++) x[i] = __builtin_sqrtf(x[i]);
    return x;
#endif
}

/* Lane i gets number from[i] of the lanes of a, then those of b; from is known when compiling. */
static inline __attribute__((always_inline)) vf vf_pick(vf a, vf b, vi from)
{
#if defined(__clang__)
    vf x;
    for (int i = 0; i < FT_LANES; i++)
        x[i] = from[i] < FT_LANES ? a[from[i]] : b[from[i] - FT_LANES];
    return x;
#else
    return __builtin_shuffle(a, b, from);
#endif
}

/* Lane i gets lane i + half of x, for i < half; half is known when compiling. */
static inline __attribute__((always_inline)) vf vf_upper(vf x, int half)
{
    return vf_pick(x, x, (vi_lanes() + half) & (FT_LANES - 1));
}

#if defined(__AVX2__) && !defined(__AVX512F__)
/* rows[i][j] becomes rows[j][i]: squares of four by four inside the halves of vectors, where
 * numbers move at once, then whole halves. */
static inline __attribute__((always_inline)) void vf_transpose(vf rows[FT_LANES])
{
    const vi low = {0, 8, 1, 9, 4, 12, 5, 13}, low_pair = {0, 1, 8, 9, 4, 5, 12, 13};
    const vi lower = {0, 1, 2, 3, 8, 9, 10, 11};
    vf pairs[FT_LANES], fours[FT_LANES];
    for (int i = 0; i < 8; i += 2) {
        pairs[i] = vf_pick(rows[i], rows[i + 1], low);
        pairs[i + 1] = vf_pick(rows[i], rows[i + 1], low + 2);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            fours[i + 2 * j] = vf_pick(pairs[i + j], pairs[i + j + 2], low_pair);
            fours[i + 2 * j + 1] = vf_pick(pairs[i + j], pairs[i + j + 2], low_pair + 2);
        }
    for (int i = 0; i < 4; i++) {
        rows[i] = vf_pick(fours[i], fours[i + 4], lower);
        rows[i + 4] = vf_pick(fours[i], fours[i + 4], lower + 4);
    }
}
#else
/* rows[i][j] becomes rows[j][i]: each round deals the first and the second half of the rows out in
 * turns, which moves one bit of the number of the row into that of the lane. */
static inline __attribute__((always_inline)) void vf_transpose(vf rows[FT_LANES])
{
    const vi low = vi_lanes() / 2 + (vi_lanes() & 1) * FT_LANES, high = low + FT_LANES / 2;
    for (int round = 1; round < FT_LANES; round *= 2) {
        vf next[FT_LANES];
        for (int i = 0; i < FT_LANES / 2; i++) {
            next[2 * i] = vf_pick(rows[i], rows[i + FT_LANES / 2], low);
            next[2 * i + 1] = vf_pick(rows[i], rows[i + FT_LANES / 2], high);
        }
        for (int i = 0; i < FT_LANES; i++) rows[i] = next[i];
    }
}
#endif

/* Sum and maximum of the lanes, halves first: a fixed order. */
static inline float vf_sum(vf x)
{
#if defined(__AVX512F__)
    x += vf_upper(x, 8);
#endif
#if defined(__AVX2__)
    x += vf_upper(x, 4);
#endif
    x += vf_upper(x, 2);
    x += vf_upper(x, 1);
    return x[0];
}

/* The largest lane. */
static inline float vf_largest(vf x)
{
#if defined(__AVX512F__)
    x = vf_max(x, vf_upper(x, 8));
#endif
#if defined(__AVX2__)
    x = vf_max(x, vf_upper(x, 4));
#endif
    x = vf_max(x, vf_upper(x, 2));
    x = vf_max(x, vf_upper(x, 1));
    return x[0];
}

#endif
