/* tensor/convert.c - numbers from one dtype to another.
 *
 * Everything can go through f64, which holds every value of every dtype but large i64. Conversions
 * that loading a model does by the gigabyte have loops of their own. Integers saturate, NaN becomes
 * 0 there; bool is "not zero". */
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

static uint32_t f32_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float f32_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* -- f16 and bf16 --------------------------------------------------------------------------- */

static uint32_t bits_from_bf16(uint16_t h)
{
    return (uint32_t)h << 16;
}

/* Adds half of the last kept bit, one less when that bit is even: ties go to even. */
static uint16_t bf16_from_bits(uint32_t x)
{
    if ((x & 0x7fffffffu) > 0x7f800000u) {
        uint32_t payload = x >> 16;
        return (uint16_t)(payload & 0x7f ? payload : payload | 0x40); /* stays a NaN */
    }
    return (uint16_t)((x + 0x7fffu + (x >> 16 & 1)) >> 16);
}

static uint32_t bits_from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff;
    uint32_t subnormal = f32_bits((float)fraction * 0x1p-24f);
    uint32_t normal = (exponent + 112) << 23 | fraction << 13;
    uint32_t special = 0x7f800000u | fraction << 13;
    return sign | (exponent == 0 ? subnormal : exponent == 31 ? special : normal);
}

static uint16_t f16_from_bits(uint32_t x)
{
    uint16_t sign = (uint16_t)(x >> 16 & 0x8000);
    x &= 0x7fffffffu;
    if (x > 0x7f800000u) { /* NaN: the payload's high bits, never all zero */
        uint32_t payload = x >> 13 & 0x3ff;
        return (uint16_t)(sign | 0x7c00 | (payload ? payload : 0x200));
    }
    if (x >= 0x47800000u) return sign | 0x7c00; /* 65536 and more */
    if (x < 0x38800000u) { /* below 2^-14: adding 1/2 leaves the fraction in units of 2^-24 */
        float shifted = f32_of_bits(x) + 0.5f;
        return (uint16_t)(sign | (f32_bits(shifted) - 0x3f000000u));
    }
    return (uint16_t)(sign | (x - 0x38000000u + 0xfffu + (x >> 13 & 1)) >> 13);
}

/* f64 to f32 rounded to odd: rounding the result again to 16 bits then equals rounding once
 * (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008). */
static uint32_t bits_to_odd(double x)
{
    float nearest = (float)x;
    uint32_t bits = f32_bits(nearest);
    if (isnan(x) || (double)nearest == x) return bits;
    if (fabs((double)nearest) > fabs(x)) bits--;
    return bits | 1;
}

/* -- the long way: n <= CHUNK elements through f64 ------------------------------------------- */

enum { CHUNK = 256 };

static void to_f64(double *dst, const void *src, ft_dtype dtype, int64_t n)
{
    const float *f32 = src;
    const double *f64 = src;
    const uint16_t *half = src;
    const int32_t *i32 = src;
    const int64_t *i64 = src;
    const uint8_t *u8 = src;
    switch (dtype) {
    case FT_F32:
        for (int64_t i = 0; i < n; i++) dst[i] = (double)f32[i];
        break;
    case FT_F64: memcpy(dst, f64, (size_t)n * sizeof *dst); break;
    case FT_F16:
        for (int64_t i = 0; i < n; i++) dst[i] = (double)f32_of_bits(bits_from_f16(half[i]));
        break;
    case FT_BF16:
        for (int64_t i = 0; i < n; i++) dst[i] = (double)f32_of_bits(bits_from_bf16(half[i]));
        break;
    case FT_I32:
        for (int64_t i = 0; i < n; i++) dst[i] = i32[i];
        break;
    case FT_I64:
        for (int64_t i = 0; i < n; i++) dst[i] = (double)i64[i];
        break;
    case FT_U8:
        for (int64_t i = 0; i < n; i++) dst[i] = u8[i];
        break;
    case FT_BOOL:
        for (int64_t i = 0; i < n; i++) dst[i] = u8[i] != 0;
        break;
    default: break;
    }
}

/* Towards zero, saturating; NaN gives 0. max is exact or rounded up to a power of two. */
static int64_t to_integer(double x, int64_t min, int64_t max)
{
    if (isnan(x)) return 0;
    if (x <= (double)min) return min;
    if (x >= (double)max) return max;
    return (int64_t)x;
}

static void from_f64(void *dst, ft_dtype dtype, const double *src, int64_t n)
{
    float *f32 = dst;
    uint16_t *half = dst;
    int32_t *i32 = dst;
    int64_t *i64 = dst;
    uint8_t *u8 = dst;
    switch (dtype) {
    case FT_F32:
        for (int64_t i = 0; i < n; i++) f32[i] = (float)src[i];
        break;
    case FT_F64: memcpy(dst, src, (size_t)n * sizeof *src); break;
    case FT_F16:
        for (int64_t i = 0; i < n; i++) half[i] = f16_from_bits(bits_to_odd(src[i]));
        break;
    case FT_BF16:
        for (int64_t i = 0; i < n; i++) half[i] = bf16_from_bits(bits_to_odd(src[i]));
        break;
    case FT_I32:
        for (int64_t i = 0; i < n; i++) i32[i] = (int32_t)to_integer(src[i], INT32_MIN, INT32_MAX);
        break;
    case FT_I64:
        for (int64_t i = 0; i < n; i++) i64[i] = to_integer(src[i], INT64_MIN, INT64_MAX);
        break;
    case FT_U8:
        for (int64_t i = 0; i < n; i++) u8[i] = (uint8_t)to_integer(src[i], 0, UINT8_MAX);
        break;
    case FT_BOOL:
        for (int64_t i = 0; i < n; i++) u8[i] = src[i] != 0;
        break;
    default: break;
    }
}

/* -- the short ways -------------------------------------------------------------------------- */

/* Whether the pair has a loop of its own, after running it. */
static bool convert_fast(void *dst, ft_dtype to, const void *src, ft_dtype from, int64_t n)
{
    const uint32_t *wide = src;
    const uint16_t *half = src;
    uint32_t *wide_out = dst;
    uint16_t *half_out = dst;
    if (to == from)
        memcpy(dst, src, (size_t)(n * ft_dtype_bytes(to)));
    else if (to == FT_F32 && from == FT_BF16)
        for (int64_t i = 0; i < n; i++) wide_out[i] = bits_from_bf16(half[i]);
    else if (to == FT_F32 && from == FT_F16)
        for (int64_t i = 0; i < n; i++) wide_out[i] = bits_from_f16(half[i]);
    else if (to == FT_BF16 && from == FT_F32)
        for (int64_t i = 0; i < n; i++) half_out[i] = bf16_from_bits(wide[i]);
    else if (to == FT_F16 && from == FT_F32)
        for (int64_t i = 0; i < n; i++) half_out[i] = f16_from_bits(wide[i]);
    else
        return false;
    return true;
}

void ft_convert(void *dst, ft_dtype dst_dtype, const void *src, ft_dtype src_dtype, int64_t n)
{
    if (n <= 0 || convert_fast(dst, dst_dtype, src, src_dtype, n)) return;
    double chunk[CHUNK];
    char *to = dst;
    const char *from = src;
    for (int64_t done = 0; done < n; done += CHUNK) {
        int64_t count = n - done < CHUNK ? n - done : CHUNK;
        to_f64(chunk, from + done * ft_dtype_bytes(src_dtype), src_dtype, count);
        from_f64(to + done * ft_dtype_bytes(dst_dtype), dst_dtype, chunk, count);
    }
}
