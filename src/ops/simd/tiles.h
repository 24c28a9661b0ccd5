/* ops/simd/tiles.h - what both kinds of products by Intel's matrix unit (AMX) share.
 *
 * A panel has 32 rows, or columns, and its k in blocks of 32; of a block, bf16 numbers are two
 * tiles. A tile of the left side has 16 rows of 32 numbers, one of the right side 16 rows of pairs
 * of k for 16 columns. */
#ifndef FT_OPS_SIMD_TILES_H
#define FT_OPS_SIMD_TILES_H

#include "ops/simd/pairs.h"

#if defined(__AVX512F__)

#define TILES __attribute__((target("amx-tile,amx-bf16,avx512bf16")))

/* SIDE: rows, or columns, of two tiles; k of a block. */
enum {
    TILE = 1024, /* bytes */
    LINE = 64
};

INLINE int64_t pieces_of(int64_t n)
{
    return (n + SIDE - 1) / SIDE;
}

/* -- sources ----------------------------------------------------------------------------------- */

/* Where block i of `panels` by `blocks` lies, in the order in which the source lies in memory. */
INLINE void place_of(const ft_panel_source *x, int64_t i, int64_t *panel, int64_t *block)
{
    const int64_t panels = pieces_of(x->count), blocks = pieces_of(x->k);
    *panel = x->turned ? i / blocks : i % panels;
    *block = x->turned ? i % blocks : i / panels;
}

/* -- the product ------------------------------------------------------------------------------- */

/* What the unit is told of its registers: eight tiles, of 16 lines each. */
typedef struct tile_shapes {
    uint8_t palette, start, none[14];
    uint16_t bytes[16];
    uint8_t lines[16];
} tile_shapes;

static const tile_shapes shapes = {
    .palette = 1,
    .bytes = {LINE, LINE, LINE, LINE, LINE, LINE, LINE, LINE},
    .lines = {16, 16, 16, 16, 16, 16, 16, 16},
};

/* The compiler does not see what the unit reads and writes. */
INLINE void settle(void *memory)
{
    __asm__ volatile("" : : "r"(memory) : "memory");
}

/* Sums of 32 columns go to a row of c that has so many of them; `far`: past the caches. */
INLINE void finish(float *c, const float *sums, const float *bias, int64_t columns, bool add,
                   bool relu, bool far)
{
    for (int64_t j = 0; j < columns; j += FT_LANES) {
        vf sum = vf_load(sums + j);
        if (add) sum += load(c + j, columns - j);
        if (bias) sum += load(bias + j, columns - j);
        if (relu) sum = vf_max((vf){0}, sum);
        if (far) /* rows are whole lines */
            vf_stream(c + j, sum);
        else if (columns - j >= FT_LANES)
            vf_store(c + j, sum);
        else
            vf_store_part(c + j, sum, (int)(columns - j));
    }
}

/* Sums of 32 rows by 32 columns on their way to c. What the unit stores is read back late, so that
 * it is done beside the next sums. */
typedef struct square {
    const float *sums, *bias;
    float *c;
    int64_t ldc, rows, columns; /* that are left */
    bool add, relu, far;
} square;

/* Those of the part of c that begins there. */
INLINE square square_of(const ft_panel_product *p, int64_t row, int64_t column, const float *sums)
{
    return (square){.sums = sums,
                    .bias = p->bias ? p->bias + column : NULL,
                    .c = p->c + row * p->ldc + column,
                    .ldc = p->ldc,
                    .rows = p->m - row < SIDE ? p->m - row : SIDE,
                    .columns = p->n - column < SIDE ? p->n - column : SIDE,
                    .add = p->add,
                    .relu = p->relu,
                    .far = p->far};
}

INLINE void finish_rows(square *s, int64_t most)
{
    for (; most && s->rows; most--, s->rows--, s->sums += SIDE, s->c += s->ldc)
        if (s->columns == SIDE)
            finish(s->c, s->sums, s->bias, SIDE, s->add, s->relu, s->far);
        else
            finish(s->c, s->sums, s->bias, s->columns, s->add, s->relu, s->far);
}

/* What will be finished is asked for meanwhile: a load that waited for memory would keep the unit
 * waiting. */
INLINE void ask_rows(square *s, int64_t most)
{
    for (; most && s->rows && !s->far; most--, s->rows--, s->c += s->ldc) {
        __builtin_prefetch(s->c, 1);
        __builtin_prefetch(s->c + s->columns - 1, 1);
    }
}

/* As many at a time as leave none when so many blocks are done, and the next sums are stored. */
INLINE int64_t rows_beside(int64_t blocks)
{
    return (SIDE + blocks - 1) / blocks;
}

/* Registers 0 to 3 hold the sums of 32 rows by 32 columns, 4 and 5 some of the left side's rows, 6
 * and 7 of the right side's columns. Of 16 rows or fewer the second half is left out. */

TILES INLINE void clear_sums(void)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

TILES INLINE void load_left(const char *tiles, bool whole)
{
    _tile_loadd(4, tiles, LINE);
    if (whole) _tile_loadd(5, tiles + TILE, LINE);
}

TILES INLINE void load_right(const char *tiles)
{
    _tile_loadd(6, tiles, LINE);
    _tile_loadd(7, tiles + TILE, LINE);
}

TILES INLINE void multiply_tiles(bool whole)
{
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if (whole) {
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
}

TILES INLINE void store_sums(float *sums, bool whole)
{
    const int64_t line = SIDE * (int64_t)sizeof *sums;
    float *lower = sums + FT_LANES * SIDE;
    _tile_stored(0, sums, line);
    _tile_stored(1, sums + FT_LANES, line);
    if (whole) {
        _tile_stored(2, lower, line);
        _tile_stored(3, lower + FT_LANES, line);
    }
    settle(sums);
}

#endif
#endif
