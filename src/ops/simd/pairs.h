/* ops/simd/pairs.h - numbers of a source, rounded to bf16 and put in pairs.
 *
 * They are rounded ties to even. What is below 2^-126 counts as 0. */
#ifndef FT_OPS_SIMD_PAIRS_H
#define FT_OPS_SIMD_PAIRS_H

#include "ops/simd/ends.h"
#include "ops/simd/simd.h"

#if defined(__AVX512F__)

#define PAIRS __attribute__((target("avx512bf16")))

enum { SIDE = 32 }; /* numbers of 16 pairs */

/* Part of a source, of 16 rows or columns and 32 of k: its rows in memory, `rows` of them by `n`
 * numbers; there are zeros beside them. */
typedef struct rectangle {
    const float *x;
    int64_t ld, rows, n;
    bool whole; /* all of it is there */
} rectangle;

INLINE rectangle rectangle_of(const ft_panel_source *x, int64_t at, int64_t k)
{
    const int64_t count = x->count - at, steps = x->k - k;
    return (rectangle){.x = x->data + (x->turned ? at * x->ld + k : k * x->ld + at),
                       .ld = x->ld,
                       .rows = x->turned ? count : steps,
                       .n = x->turned ? steps : count,
                       .whole = count >= FT_LANES && steps >= SIDE};
}

/* 16 numbers of row i from `from` on. `whole`: the rectangle is. */
INLINE vf piece_of(const rectangle *r, int64_t i, int64_t from, bool whole)
{
    const float *x = r->x + i * r->ld + from;
    if (whole) return vf_load(x);
    return i < r->rows ? load(x, r->n - from) : (vf){0};
}

/* 32 numbers of row i, in their order. */
PAIRS INLINE vf line_of_row(const rectangle *r, int64_t i, bool whole)
{
    const vf first = piece_of(r, i, 0, whole), second = piece_of(r, i, FT_LANES, whole);
    return (vf)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first);
}

/* 16 numbers of row 2 i, each beside that of the next row. */
PAIRS INLINE vf line_of_rows(const rectangle *r, int64_t i, bool whole)
{
    const vu sides = (vu)vi_lanes() * 0x10001u + 0x100000u;
    const vf first = piece_of(r, 2 * i, 0, whole), second = piece_of(r, 2 * i + 1, 0, whole);
    const __m512bh both = _mm512_cvtne2ps_pbh((__m512)second, (__m512)first);
    return (vf)_mm512_permutexvar_epi16((__m512i)sides, (__m512i)both);
}

#endif
#endif
