/* ops/simd/sums.h - tiles of large matrix products, both of whose sides are packed in panels.
 *
 * A panel of the left side has the rows of a tile, one of the right side its columns; each holds
 * its numbers in the order of k, so that the innermost loop reads two streams. A tile of sums stays
 * in registers while k goes by: with AVX-512 14 x 2 vectors of sums, two of the right side and one
 * number of the left side spread over a vector are 31 of 32 registers, with AVX2 6 x 2, 2 and 1 are
 * 15 of 16. A step of k loads 16 (AVX2: 8) times for 28 (12) multiplications, fewer than the two
 * a cycle that a CPU can; where a vector of AVX-512 takes two cycles there is twice the time.
 *
 * Each element is one chain of steps in the order of k, whatever tile it falls into. A step is of
 * one number of k, or where SUMS_OF_PAIRS is defined of two that are bf16 (pairs.h). */
#ifndef FT_OPS_SIMD_SUMS_H
#define FT_OPS_SIMD_SUMS_H

#include "ops/simd/pairs.h"

#include <string.h>

#if defined(__AVX512F__)
enum { ROWS = 14 };
#else
enum { ROWS = 6 };
#endif
enum {
    VECTORS = 2,
    COLUMNS = VECTORS * FT_LANES,
    STEPS = 8,      /* between requests for memory */
    LINE = 64,      /* bytes of a line of a cache */
    STAYS = 1 << 14 /* bytes of the right side that stay in the first cache */
};

/* sum + what a step of the left and the right side adds to it. */
#ifdef SUMS_OF_PAIRS

#define OF_CPU PAIRS
enum { NUMBERS = 2 };

OF_CPU INLINE vf add_step(vf sum, vf left, vf right)
{
    return (vf)_mm512_dpbf16_ps((__m512)sum, (__m512bh)left, (__m512bh)right);
}

#else

#define OF_CPU
enum { NUMBERS = 1 };

INLINE vf add_step(vf sum, vf left, vf right)
{
    return vf_fma(left, right, sum);
}

#endif

INLINE int64_t steps_of(int64_t k)
{
    return (k + NUMBERS - 1) / NUMBERS;
}

/* -- panels ------------------------------------------------------------------------------------ */

/* How a vector is written. */
enum {
    LAST,     /* nothing past its end */
    FOLLOWED, /* perhaps more than belongs there: rows that are written later follow */
    FAR       /* it is whole, and goes past the caches */
};

INLINE void store(float *p, vf x, int64_t left, int how)
{
    if (how == FAR)
        vf_stream(p, x);
    else if (left >= FT_LANES || how == FOLLOWED)
        vf_store(p, x);
    else
        vf_store_part(p, x, (int)left);
}

/* -- the product ------------------------------------------------------------------------------- */

/* What is read after this tile, asked for little by little: all at once would keep the loads of the
 * tile itself waiting. */
typedef struct ahead {
    const char *next, *end; /* of the right side's next panels */
    int lines;              /* of it in STEPS steps */
    const float *c, *c_end; /* of a tile of c: with little to sum, its way from memory is longer
                               than a tile takes */
    int rows;               /* of it in STEPS steps */
} ahead;

/* What is asked for in STEPS steps. */
INLINE void ask(ahead *soon, int64_t ldc)
{
    for (int i = 0; i < soon->rows && soon->c < soon->c_end; i++, soon->c += ldc) {
        __builtin_prefetch(soon->c, 1);
        __builtin_prefetch(soon->c + COLUMNS - 1, 1);
    }
    for (int i = 0; i < soon->lines; i++, soon->next += LINE) __builtin_prefetch(soon->next, 0, 2);
}

/* The loops over sums must be unrolled, or they would live in memory. */
#define EACH_ROW    _Pragma("GCC unroll 14") for (int i = 0; i < rows; i++)
#define EACH_VECTOR _Pragma("GCC unroll 2") for (int v = 0; v < VECTORS; v++)

OF_CPU INLINE void step(vf sum[ROWS][VECTORS], const float *a, const float *b, int rows)
{
    vf right[VECTORS];
    EACH_VECTOR right[v] = vf_load(b + v * FT_LANES);
    EACH_ROW
    {
        vf left = vf_set(a[i]);
        EACH_VECTOR sum[i][v] = add_step(sum[i][v], left, right[v]);
    }
}

/* Where a tile of c is, of what, and what follows the sums. */
typedef struct tile {
    const float *a, *b, *bias;
    float *c;
    int64_t ldc;
} tile;

/* A tile of c, of which `rows` rows exist: the sums, or c + those. */
OF_CPU INLINE void tile_of(const ft_panel_product *p, const tile *t, ahead *soon, int rows)
{
    const float *a = t->a, *b = t->b;
    float *c = t->c;
    const int64_t ldc = t->ldc;
    vf sum[ROWS][VECTORS];
    EACH_ROW EACH_VECTOR sum[i][v] = (vf){0};
    int64_t k = steps_of(p->k);
    for (; k >= STEPS; k -= STEPS) {
        ask(soon, p->ldc);
        _Pragma("GCC unroll 8") for (int i = 0; i < STEPS; i++, a += ROWS, b += COLUMNS)
            step(sum, a, b, rows);
    }
    if (k) ask(soon, p->ldc);
    for (; k; k--, a += ROWS, b += COLUMNS) step(sum, a, b, rows);
    if (soon->next > soon->end) soon->next = soon->end;
    if (p->add) EACH_ROW EACH_VECTOR sum[i][v] += vf_load(c + i * ldc + v * FT_LANES);
    if (t->bias) EACH_ROW EACH_VECTOR sum[i][v] += vf_load(t->bias + v * FT_LANES);
    if (p->relu) EACH_ROW EACH_VECTOR sum[i][v] = vf_max((vf){0}, sum[i][v]);
    EACH_ROW EACH_VECTOR vf_store(c + i * ldc + v * FT_LANES, sum[i][v]);
}

typedef void (*tile_function)(const ft_panel_product *p, const tile *t, ahead *soon);

#define TILE(rows)                                                                                 \
    OF_CPU static void tile_##rows(const ft_panel_product *p, const tile *t, ahead *soon)          \
    {                                                                                              \
        tile_of(p, t, soon, rows);                                                                 \
    }
#if defined(__AVX512F__)
#define EACH_TILE(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#else
#define EACH_TILE(X) X(1) X(2) X(3) X(4) X(5) X(6)
#endif
EACH_TILE(TILE)
#define TILE_NAME(rows) tile_##rows,
static const tile_function tiles[] = {EACH_TILE(TILE_NAME)};

/* A tile with `columns` columns, fewer than COLUMNS: with a whole one between, of the same bits. */
static void edge_tile(const ft_panel_product *p, tile t, int64_t rows, int64_t columns, ahead *soon)
{
    float whole[ROWS * COLUMNS], bias[COLUMNS] = {0}, *c = t.c;
    if (p->add)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < COLUMNS; j++)
                whole[i * COLUMNS + j] = j < columns ? c[i * p->ldc + j] : 0.0f;
    if (t.bias) {
        memcpy(bias, t.bias, (size_t)columns * sizeof *bias);
        t.bias = bias;
    }
    t.c = whole;
    t.ldc = COLUMNS;
    tiles[rows - 1](p, &t, soon);
    for (int64_t i = 0; i < rows; i++)
        memcpy(c + i * p->ldc, whole + i * COLUMNS, (size_t)columns * sizeof *c);
}

/* The tile of c that begins there. */
static void tile_at(const ft_panel_product *p, int64_t row, int64_t column, ahead *soon)
{
    const int64_t steps = steps_of(p->k);
    const tile t = {.a = (const float *)p->left + row * steps,
                    .b = (const float *)p->right + column * steps,
                    .bias = p->bias ? p->bias + column : NULL,
                    .c = p->c + row * p->ldc + column,
                    .ldc = p->ldc};
    int64_t rows = p->m - row < ROWS ? p->m - row : ROWS;
    if (p->n - column >= COLUMNS)
        tiles[rows - 1](p, &t, soon);
    else
        edge_tile(p, t, rows, p->n - column, soon);
}

/* The tile of c that is asked for while the one that begins there, in columns first to end - 1, is
 * summed: itself where that takes long enough, else the one behind it. */
static void ask_for(const ft_panel_product *p, ahead *soon, int64_t row, int64_t column,
                    int64_t first, int64_t end)
{
    if (steps_of(p->k) < 2 * ROWS * STEPS) column += COLUMNS;
    if (column >= end) {
        row += ROWS;
        column = first;
    }
    if (row >= p->m) {
        row = 0;
        column = end;
    }
    const int64_t rows = p->m - row < ROWS ? p->m - row : ROWS;
    soon->c = p->c + row * p->ldc + column;
    soon->c_end = soon->c + (column < p->n ? rows * p->ldc : 0);
}

/* The panels of columns first to end - 1 against all of the left side, while others are asked for.
 */
static void sum_panels(const ft_panel_product *p, int64_t first, int64_t end, ahead *soon)
{
    const bool more = soon->next < soon->end;
    const int64_t asks = (steps_of(p->k) + STEPS - 1) / STEPS;
    soon->rows = (int)((ROWS + asks - 1) / asks);
    for (int64_t row = 0; row < p->m; row += ROWS) {
        const int64_t rows = p->m - row < ROWS ? p->m - row : ROWS;
        soon->lines = more ? (int)((STEPS * VECTORS * rows + p->m - 1) / p->m) : 0;
        for (int64_t column = first; column < end; column += COLUMNS) {
            ask_for(p, soon, row, column, first, end);
            tile_at(p, row, column, soon);
        }
    }
}

/* Some panels of the right side, as many as the first cache keeps, against all of the left side:
 * the less is summed, the longer are the rows of c that are gone through, which then take the time.
 */
INLINE void multiply_panels(const ft_panel_product *p)
{
    const int64_t steps = steps_of(p->k), panel_bytes = COLUMNS * steps * 4;
    const int64_t width = (panel_bytes < STAYS ? STAYS / panel_bytes : 1) * COLUMNS;
    for (int64_t first = 0, end; first < p->n; first = end) {
        end = p->n - first < width ? p->n : first + width;
        int64_t left = p->n - end < width ? p->n - end : width;
        const float *next = (const float *)p->right + end * steps;
        ahead soon = {.next = (const char *)next, .end = (const char *)(next + left * steps)};
        sum_panels(p, first, end, &soon);
    }
}

#endif
