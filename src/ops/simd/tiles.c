/* ops/simd/tiles.c - f32 products by the matrix unit of Intel's CPUs (AMX), which multiplies bf16.
 *
 * A number of f32 is the sum of three of bf16, to the bit: it rounded to bf16, what that leaves
 * rounded again, and the rest (Henry, Tang and Heinecke, "Leveraging the bfloat16 artificial
 * intelligence datatype for higher-precision computations", 2019). So a product is nine of bf16, of
 * which the three smallest, together at most 2^-24 of it, are left out: no more than a rounding to
 * f32 costs. The unit adds in f32 and does 16 times the multiplications a cycle that vectors of f32
 * do, so that six of them leave 2.7 times as many.
 *
 * The unit takes what is below 2^-126 for 0, parts and their products: a product below 2^-102
 * loses some of its bits, and one below 2^-126 all. A product with an infinity is NaN, and so is
 * one with a number that rounds to an infinity of bf16, from 2^128 - 2^119 on.
 *
 * The right side is packed for panels.c, in f32, and each of its panels is split while the one
 * before it is multiplied: packed weights split already would be half as much again to keep and to
 * read, and few rows are faster by vectors. */
#include "ops/simd/tiles.h"

#if defined(__AVX512F__)

enum {
    PARTS = 3,
    PART = 2 * TILE,
    BLOCK = PARTS * PART,
    LEAST_ROWS = 64, /* below which, and below so much k, vectors are faster */
    LEAST_K = 48,
    MOST_ROWS = 256, /* 384 KiB, beside 512 of the right side in the second cache */
    NEAR_COLUMNS = 512
};

/* -- packing ----------------------------------------------------------------------------------- */

/* Of the numbers of a vector, each in the upper half of its lane. */
typedef struct parts {
    vu part[PARTS];
} parts;

/* x rounded to bf16, ties away from 0. */
INLINE vu rounded(vf x)
{
    return ((vu)x + 0x8000u) & 0xffff0000u;
}

INLINE parts split(vf x)
{
    parts s;
    s.part[0] = rounded(x);
    x -= (vf)s.part[0];
    s.part[1] = rounded(x);
    s.part[2] = (vu)(x - (vf)s.part[1]);
    return s;
}

INLINE void put(char *line, vu x)
{
    vf_store((float *)(void *)line, (vf)x);
}

/* A line of the left side: one row's 32 numbers of k. */
INLINE void put_row(char *line, vf first, vf second)
{
    const vu odd = 4u * (vu)vi_lanes() * 0x10001u + 0x30001u; /* halves of lanes */
    const parts a = split(first), b = split(second);
    for (int p = 0; p < PARTS; p++)
        put(line + p * PART,
            (vu)_mm512_permutex2var_epi16((__m512i)a.part[p], (__m512i)odd, (__m512i)b.part[p]));
}

/* A line of the right side: 16 columns' numbers of one k and of the next. */
INLINE void put_pair(char *line, vf first, vf second)
{
    const parts a = split(first), b = split(second);
    for (int p = 0; p < PARTS; p++)
        put(line + p * PART, a.part[p] >> 16 | (b.part[p] & 0xffff0000u));
}

/* The source has 16 rows by 32 of k, or 32 of k by 16 rows. */
INLINE void left_tile(char *tile, const rectangle *r, bool by_rows, bool whole)
{
    vf first[FT_LANES], second[FT_LANES];
    if (!by_rows) {
        const float *lower = r->x + FT_LANES * r->ld;
        const int64_t n = whole ? FT_LANES : r->n;
        load_turned(first, r->x, r->ld, whole ? FT_LANES : r->rows, n);
        load_turned(second, lower, r->ld, whole ? FT_LANES : r->rows - FT_LANES, n);
    }
    for (int i = 0; i < FT_LANES; i++)
        put_row(tile + i * LINE, by_rows ? piece_of(r, i, 0, whole) : first[i],
                by_rows ? piece_of(r, i, FT_LANES, whole) : second[i]);
}

/* Both tiles of a block. Each way is compiled by itself. */
INLINE void left_block(char *block, const ft_panel_source *x, int64_t at, int64_t k)
{
    for (int tile = 0; tile < 2; tile++, at += FT_LANES, block += TILE) {
        const rectangle r = rectangle_of(x, at, k);
        if (r.whole && x->turned)
            left_tile(block, &r, true, true);
        else if (r.whole)
            left_tile(block, &r, false, true);
        else
            left_tile(block, &r, x->turned, false);
    }
}

static void pack_left(void *packed, const ft_panel_source *x)
{
    const int64_t blocks = pieces_of(x->k);
    for (int64_t i = 0; i < pieces_of(x->count) * blocks; i++) {
        int64_t panel, block;
        place_of(x, i, &panel, &block);
        left_block((char *)packed + (panel * blocks + block) * BLOCK, x, panel * SIDE,
                   block * SIDE);
    }
}

/* A panel of the right side, in f32, that is being split, a pair of k at a time. */
typedef struct splitting {
    const float *from;
    char *to;
    int64_t k, done, end; /* pairs */
} splitting;

INLINE void split_pair(splitting *s)
{
    const int64_t k = 2 * s->done;
    const float *first = s->from + k * SIDE;
    char *line = s->to + s->done / FT_LANES * BLOCK + s->done % FT_LANES * LINE;
    for (int tile = 0; tile < 2; tile++, first += FT_LANES, line += TILE)
        put_pair(line, k < s->k ? vf_load(first) : (vf){0},
                 k + 1 < s->k ? vf_load(first + SIDE) : (vf){0});
    s->done++;
}

INLINE void split_pairs(splitting *s, int64_t most)
{
    for (int64_t i = 0; i < most && s->done < s->end; i++) split_pair(s);
}

/* -- the product ------------------------------------------------------------------------------- */

/* The six products of parts, each beside one with which it shares a side. */
TILES INLINE void multiply_block(const char *left, const char *right, bool whole)
{
    load_left(left, whole);
    load_right(right + 2 * PART);
    multiply_tiles(whole);
    load_right(right + PART);
    multiply_tiles(whole);
    load_left(left + PART, whole);
    multiply_tiles(whole);
    load_right(right);
    multiply_tiles(whole);
    load_left(left, whole);
    multiply_tiles(whole);
    load_left(left + 2 * PART, whole);
    multiply_tiles(whole);
}

/* What the vector units do with each block: some rows of the sums before these go to c, and some
 * pairs of the next panel of the right side are split. */
typedef struct beside {
    square before, asked;
    splitting next;
    int64_t rows, pairs;
} beside;

TILES INLINE void multiply_panels(const char *left, const char *right, int64_t blocks, float *sums,
                                  bool whole, beside *b)
{
    clear_sums();
    for (int64_t i = 0; i < blocks; i++, left += BLOCK, right += BLOCK) {
        multiply_block(left, right, whole);
        finish_rows(&b->before, b->rows);
        ask_rows(&b->asked, b->rows);
        split_pairs(&b->next, b->pairs);
    }
    store_sums(sums, whole);
}

/* A panel of the right side against all of the left side, while the next one is split. */
TILES static void multiply(const ft_panel_product *p)
{
    const int64_t blocks = pieces_of(p->k), panels = pieces_of(p->m);
    char *panel = p->spare, *other = panel + blocks * BLOCK;
    float sums[SIDE * SIDE] __attribute__((aligned(LINE)));
    beside b = {.rows = rows_beside(blocks),
                .pairs = (FT_LANES + panels - 1) / panels,
                .next = {p->right, panel, p->k, 0, blocks * FT_LANES}};
    split_pairs(&b.next, b.next.end);
    settle(p->c);
    _tile_loadconfig(&shapes);
    for (int64_t column = 0; column < p->n; column += SIDE) {
        const char *left = p->left;
        b.next.from += p->k * SIDE;
        b.next.to = other;
        b.next.done = column + SIDE < p->n ? 0 : b.next.end;
        for (int64_t row = 0; row < p->m; row += SIDE, left += blocks * BLOCK) {
            const square now = square_of(p, row, column, sums);
            b.asked = now;
            if (p->m - row > FT_LANES)
                multiply_panels(left, panel, blocks, sums, true, &b);
            else
                multiply_panels(left, panel, blocks, sums, false, &b);
            b.before = now;
        }
        settle(other);
        other = panel;
        panel = b.next.to;
    }
    finish_rows(&b.before, SIDE);
    if (p->far) vf_streamed();
    _tile_release();
}

const ft_simd_panels FT_ISA_NAME(ft_simd_tiles) = {
    .rows = SIDE,
    .columns = SIDE,
    .step = SIDE,
    .bytes = PARTS * 2,
    .most_rows = MOST_ROWS,
    .near_columns = NEAR_COLUMNS,
    .plain = &FT_ISA_NAME(ft_simd_panels),
    .least_rows = LEAST_ROWS,
    .least_k = LEAST_K,
    .pack_left = pack_left,
    .multiply = multiply,
};

#endif
