/* ops/simd/widened.c - large matrix products of bf16 by vectors of f32.
 *
 * Intel's cores with a matrix unit multiply pairs of bf16 (pairs.c) at half the rate of f32, so
 * where the unit may not be used f32 is the faster way. The right side is packed for pairs.c, half
 * as much to keep and to read; each of its panels is widened to f32 once for a block of rows. Sums
 * are those of pairs: of a pair the second product is added first. */
#include "ops/simd/pairs.h"

#if defined(__AVX512F__)

#include "ops/simd/sums.h"

enum {
    PAIR = 2,
    GROUP = 8,       /* rows that are packed together */
    MOST_ROWS = 140, /* 10 tiles, of twice as much k as in panels.c */
    NEAR_COLUMNS = 2048,
    LEAST_ROWS = 12, /* below which, and below so much k, memory is what counts */
    LEAST_K = 24
};

/* -- packing ----------------------------------------------------------------------------------- */

PAIRS INLINE vf rounded(vf x)
{
    const __m256i halves = (__m256i)_mm512_cvtneps_pbh((__m512)x);
    return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16);
}

/* Numbers k and k + 1 of a panel's rows; `ends`: nothing is written behind them later. */
PAIRS INLINE void put_pair(float *panel, int64_t k, vf first, vf second, bool ends)
{
    store(panel + k * ROWS, rounded(second), ROWS, FOLLOWED);
    store(panel + (k + 1) * ROWS, rounded(first), ROWS, ends ? LAST : FOLLOWED);
}

PAIRS static void pack_straight(float *packed, const ft_panel_source *x)
{
    const int64_t tall = (x->k + 1) / PAIR * PAIR;
    for (int64_t from = 0; from < x->k; from += GROUP) {
        float *panel = packed;
        for (int64_t at = 0; at < x->count; at += ROWS, panel += ROWS * tall)
            for (int64_t k = from; k < x->k && k < from + GROUP; k += PAIR) {
                const float *row = x->data + k * x->ld + at;
                const bool alone = k + 1 == x->k;
                put_pair(panel, k, load(row, x->count - at),
                         alone ? (vf){0} : load(row + x->ld, x->count - at), k + PAIR >= x->k);
            }
    }
}

PAIRS static void pack_turned(float *panel, const ft_panel_source *x)
{
    const int64_t tall = (x->k + 1) / PAIR * PAIR;
    for (int64_t at = 0; at < x->count; at += ROWS, panel += ROWS * tall)
        for (int64_t k = 0; k < x->k; k += FT_LANES) {
            vf square[FT_LANES];
            const int64_t rows = x->count - at < ROWS ? x->count - at : ROWS;
            load_turned(square, x->data + at * x->ld + k, x->ld, rows, x->k - k);
            for (int i = 0; i < FT_LANES && k + i < x->k; i += PAIR)
                put_pair(panel, k + i, square[i], square[i + 1], k + i + PAIR >= x->k);
        }
}

static void pack_left(void *packed, const ft_panel_source *x)
{
    (x->turned ? pack_turned : pack_straight)(packed, x);
}

/* -- the product ------------------------------------------------------------------------------- */

/* A panel of pairs, each number in the upper half of a lane. */
static void widen(float *to, const float *pairs, int64_t n)
{
    for (int64_t i = 0; i < n; i++, pairs += COLUMNS, to += PAIR * COLUMNS) EACH_VECTOR
        {
            const vu both = (vu)vf_load(pairs + v * FT_LANES);
            vf_store(to + v * FT_LANES, (vf)(both & 0xffff0000u));
            vf_store(to + COLUMNS + v * FT_LANES, (vf)(both << 16));
        }
}

static void multiply(const ft_panel_product *p)
{
    const int64_t pairs = (p->k + 1) / PAIR;
    const float *right = p->right;
    for (int64_t column = 0; column < p->n; column += COLUMNS) {
        ft_panel_product panel = *p;
        panel.n = p->n - column < COLUMNS ? p->n - column : COLUMNS;
        panel.k = PAIR * pairs;
        panel.right = p->spare;
        panel.c = p->c + column;
        panel.bias = p->bias ? p->bias + column : NULL;
        widen(p->spare, right, pairs);
        right += COLUMNS * pairs;
        const bool more = column + COLUMNS < p->n;
        ahead soon = {.next = (const char *)right,
                      .end = (const char *)(right + (more ? COLUMNS * pairs : 0))};
        sum_panels(&panel, 0, panel.n, &soon);
    }
}

const ft_simd_panels FT_ISA_NAME(ft_simd_widened) = {
    .rows = ROWS,
    .columns = COLUMNS,
    .step = PAIR,
    .bytes = sizeof(float),
    .most_rows = MOST_ROWS,
    .near_columns = NEAR_COLUMNS,
    .plain = &FT_ISA_NAME(ft_simd_pairs),
    .least_rows = LEAST_ROWS,
    .least_k = LEAST_K,
    .pack_left = pack_left,
    .multiply = multiply,
};

#endif
