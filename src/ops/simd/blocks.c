/* ops/simd/blocks.c - weights laid out as oneDNN's AVX-512 kernels read them.
 *
 * A block has BLOCK columns of a matrix (k,n): a row of them for each k, in bf16 for each pair of
 * k, whose two numbers lie side by side. */
#include "ops/simd/ends.h"
#include "ops/simd/simd.h"
#include "ops/simd/vec_math.h"

enum { BLOCK = FT_BLOCK_COLUMNS };

INLINE vf pair(vf even, vf odd)
{
    return (vf)(vf_bf16(even) | vf_bf16(odd) << 16);
}

/* FT_LANES columns of a row, as they lie. */
INLINE vf part_of(const ft_panel_source *x, int64_t row, int64_t column)
{
    return row < x->k ? load(x->data + row * x->ld + column, x->count - column) : (vf){0};
}

INLINE void fill_straight(float *to, const ft_panel_source *x, int64_t padded, bool bf16)
{
    for (int64_t row = 0; row < padded; row += 1 + bf16, to += BLOCK)
        for (int column = 0; column < BLOCK; column += FT_LANES) {
            vf part = part_of(x, row, column);
            vf_stream(to + column, bf16 ? pair(part, part_of(x, row + 1, column)) : part);
        }
}

/* FT_LANES columns of as many rows. Each column lies by itself: what is read next of it is asked
 * for, since a core does not follow that many places. */
INLINE void load_square(vf square[FT_LANES], const ft_panel_source *x, int64_t row, int64_t column)
{
    const float *from = x->data + column * x->ld + row;
    for (int i = 0; i < FT_LANES; i++, from += x->ld) {
        const bool here = column + i < x->count;
        if (here && row + FT_LANES < x->k) __builtin_prefetch(from + FT_LANES);
        square[i] = here ? load(from, x->k - row) : (vf){0};
    }
    vf_transpose(square);
}

INLINE void fill_turned(float *to, const ft_panel_source *x, int64_t padded, bool bf16)
{
    const int step = 1 + bf16;
    for (int64_t row = 0; row < padded; row += FT_LANES, to += FT_LANES / step * BLOCK)
        for (int column = 0; column < BLOCK; column += FT_LANES) {
            vf square[FT_LANES];
            load_square(square, x, row, column);
            for (int i = 0; i < FT_LANES; i += step)
                vf_stream(to + i / step * BLOCK + column,
                          bf16 ? pair(square[i], square[i + 1]) : square[i]);
        }
}

INLINE void fill(void *block, const ft_panel_source *x, int64_t padded, bool bf16)
{
    if (x->turned)
        fill_turned(block, x, padded, bf16);
    else
        fill_straight(block, x, padded, bf16);
    vf_streamed();
}

/* Each is compiled by itself. */
static void fill_f32(void *block, const ft_panel_source *x, int64_t padded)
{
    fill(block, x, padded, false);
}

static void fill_bf16(void *block, const ft_panel_source *x, int64_t padded)
{
    fill(block, x, padded, true);
}

const ft_simd_blocks FT_ISA_NAME(ft_simd_blocks) = {.f32 = fill_f32, .bf16 = fill_bf16};
