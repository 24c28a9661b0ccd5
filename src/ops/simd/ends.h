/* ops/simd/ends.h - vectors at the ends of rows. */
#ifndef FT_OPS_SIMD_ENDS_H
#define FT_OPS_SIMD_ENDS_H

#include "base/vec.h"

/* What must become one function with its callers, whose constants unroll its loops. */
#define INLINE static inline __attribute__((always_inline))

/* The first `left` numbers, at most a vector of them; the rest is 0, and is not read. */
INLINE vf load(const float *p, int64_t left)
{
    return left >= FT_LANES ? vf_load(p) : left > 0 ? vf_load_part(p, (int)left) : (vf){0};
}

/* The first n numbers of rows of x, of which `rows` exist, turned. */
INLINE void load_turned(vf square[FT_LANES], const float *x, int64_t ld, int64_t rows, int64_t n)
{
    for (int i = 0; i < FT_LANES; i++) square[i] = i < rows ? load(x + i * ld, n) : (vf){0};
    vf_transpose(square);
}

#endif
