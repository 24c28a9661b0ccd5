/* ops/simd/pairs.c - large matrix products of bf16 by vectors (AVX512-BF16).
 *
 * Panels are as those of f32 (panels.c), with a pair of numbers of k in place of one. Both sides
 * come as f32, and are rounded when they are packed. */
#include "ops/simd/pairs.h"

#if defined(__AVX512F__)

#define SUMS_OF_PAIRS
#include "ops/simd/sums.h"

enum {
    MOST_K = 512,
    MOST_ROWS = 280, /* 20 tiles */
    NEAR_COLUMNS = 2048
};

/* -- packing ----------------------------------------------------------------------------------- */

/* 16 rows or columns of a rectangle in 16 lines, one for each pair of k. */
PAIRS INLINE void lines_of(vf lines[FT_LANES], const rectangle *r, bool turned, bool whole)
{
    for (int i = 0; i < FT_LANES; i++)
        lines[i] = turned ? line_of_row(r, i, whole) : line_of_rows(r, i, whole);
    if (turned) vf_transpose(lines);
}

/* SIDE numbers of k of the panel that begins at `at`. */
PAIRS INLINE void pack_side(float *panel, const ft_panel_source *x, int64_t at, int64_t k,
                            int width, bool far)
{
    const int64_t steps = steps_of(x->k) - k / NUMBERS;
    vf lines[VECTORS][FT_LANES];
    for (int v = 0; v * FT_LANES < width; v++) {
        const rectangle r = rectangle_of(x, at + v * FT_LANES, k);
        if (r.whole && x->turned)
            lines_of(lines[v], &r, true, true);
        else if (r.whole)
            lines_of(lines[v], &r, false, true);
        else
            lines_of(lines[v], &r, x->turned, false);
    }
    for (int i = 0; i < FT_LANES && i < steps; i++)
        for (int v = 0; v * FT_LANES < width; v++)
            store(panel + i * width + v * FT_LANES, lines[v][i], width - v * FT_LANES,
                  far             ? FAR
                  : i < steps - 1 ? FOLLOWED
                                  : LAST);
}

/* In the order in which the source lies in memory. */
PAIRS INLINE void pack(float *packed, const ft_panel_source *x, int width, bool far)
{
    const int64_t panels = (x->count + width - 1) / width, sides = (x->k + SIDE - 1) / SIDE;
    for (int64_t i = 0; i < panels * sides; i++) {
        int64_t panel = x->turned ? i / sides : i % panels;
        int64_t side = x->turned ? i % sides : i / panels;
        pack_side(packed + (panel * steps_of(x->k) + side * FT_LANES) * width, x, panel * width,
                  side * SIDE, width, far);
    }
    if (far) vf_streamed();
}

PAIRS static void pack_left(void *packed, const ft_panel_source *x)
{
    pack(packed, x, ROWS, false);
}

/* Each way is compiled by itself. */
PAIRS static void pack_right(void *packed, const ft_panel_source *x)
{
    if (x->far)
        pack(packed, x, COLUMNS, true);
    else
        pack(packed, x, COLUMNS, false);
}

static void multiply(const ft_panel_product *p)
{
    multiply_panels(p);
}

const ft_simd_panels FT_ISA_NAME(ft_simd_pairs) = {
    .rows = ROWS,
    .columns = COLUMNS,
    .step = NUMBERS,
    .bytes = 2,
    .most_k = MOST_K,
    .most_rows = MOST_ROWS,
    .near_columns = NEAR_COLUMNS,
    .pack_left = pack_left,
    .pack_right = pack_right,
    .multiply = multiply,
};

#endif
