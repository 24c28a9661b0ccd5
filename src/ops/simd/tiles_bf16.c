/* ops/simd/tiles_bf16.c - products of bf16 by the matrix unit of Intel's CPUs (AMX).
 *
 * Both sides come as f32, and are rounded to bf16 when they are packed, ties to even. What is below
 * 2^-126 counts as 0, for the instruction that rounds and for the unit. The unit adds in f32. */
#include "ops/simd/tiles.h"

#if defined(__AVX512F__)

enum {
    BLOCK = 2 * TILE,
    MOST_K = 512,    /* of a panel: 32 KiB, which stay in the first cache */
    MOST_ROWS = 512, /* 512 KiB, beside as much of the right side in the second cache */
    NEAR_COLUMNS = 512
};

/* -- packing ----------------------------------------------------------------------------------- */

/* A tile of the left side is that of the right side turned, pairs of k being its numbers. */
TILES INLINE void fill_tile(char *tile, const rectangle *r, bool by_rows, bool left, bool whole,
                            bool far)
{
    vf lines[FT_LANES];
    for (int i = 0; i < FT_LANES; i++)
        lines[i] = by_rows ? line_of_row(r, i, whole) : line_of_rows(r, i, whole);
    if (by_rows != left) vf_transpose(lines);
    for (int i = 0; i < FT_LANES; i++) {
        float *line = (float *)(void *)(tile + i * LINE);
        if (far)
            vf_stream(line, lines[i]);
        else
            vf_store(line, lines[i]);
    }
}

/* Both tiles of a block. Each way is compiled by itself. */
TILES INLINE void fill_block(char *block, const ft_panel_source *x, int64_t at, int64_t k,
                             bool left, bool far)
{
    for (int tile = 0; tile < 2; tile++, at += FT_LANES, block += TILE) {
        const rectangle r = rectangle_of(x, at, k);
        if (r.whole && x->turned)
            fill_tile(block, &r, true, left, true, far);
        else if (r.whole)
            fill_tile(block, &r, false, left, true, far);
        else
            fill_tile(block, &r, x->turned, left, false, far);
    }
}

TILES INLINE void pack(char *packed, const ft_panel_source *x, bool left, bool far)
{
    const int64_t blocks = pieces_of(x->k);
    for (int64_t i = 0; i < pieces_of(x->count) * blocks; i++) {
        int64_t panel, block;
        place_of(x, i, &panel, &block);
        fill_block(packed + (panel * blocks + block) * BLOCK, x, panel * SIDE, block * SIDE, left,
                   far);
    }
    if (far) vf_streamed();
}

TILES static void pack_left(void *packed, const ft_panel_source *x)
{
    pack(packed, x, true, false);
}

TILES static void pack_right(void *packed, const ft_panel_source *x)
{
    if (x->far)
        pack(packed, x, false, true);
    else
        pack(packed, x, false, false);
}

/* -- the product ------------------------------------------------------------------------------- */

/* What the vector units do with each block: some rows of the sums before these go to c, and some
 * lines of the next panel of the right side are asked for. */
typedef struct beside {
    square before, asked;
    int64_t rows, lines;
    const char *next, *end;
} beside;

TILES INLINE void multiply_panels(const char *left, const char *right, int64_t blocks, float *sums,
                                  bool whole, beside *b)
{
    clear_sums();
    for (int64_t i = 0; i < blocks; i++, left += BLOCK, right += BLOCK) {
        load_left(left, whole);
        load_right(right);
        multiply_tiles(whole);
        finish_rows(&b->before, b->rows);
        ask_rows(&b->asked, b->rows);
        for (int64_t line = 0; line < b->lines && b->next < b->end; line++, b->next += LINE)
            __builtin_prefetch(b->next, 0, 2);
    }
    store_sums(sums, whole);
}

TILES static void multiply(const ft_panel_product *p)
{
    const int64_t blocks = pieces_of(p->k), panels = pieces_of(p->m);
    const char *right = p->right, *end = right + pieces_of(p->n) * blocks * BLOCK;
    float sums[SIDE * SIDE] __attribute__((aligned(LINE)));
    beside b = {.rows = rows_beside(blocks), .lines = (SIDE + panels - 1) / panels};
    settle(p->c);
    _tile_loadconfig(&shapes);
    for (int64_t column = 0; column < p->n; column += SIDE, right += blocks * BLOCK) {
        b.next = right + blocks * BLOCK;
        b.end = b.next < end ? b.next + blocks * BLOCK : b.next;
        const char *left = p->left;
        for (int64_t row = 0; row < p->m; row += SIDE, left += blocks * BLOCK) {
            const square now = square_of(p, row, column, sums);
            b.asked = now;
            if (p->m - row > FT_LANES)
                multiply_panels(left, right, blocks, sums, true, &b);
            else
                multiply_panels(left, right, blocks, sums, false, &b);
            b.before = now;
        }
    }
    finish_rows(&b.before, SIDE);
    if (p->far) vf_streamed();
    _tile_release();
}

const ft_simd_panels FT_ISA_NAME(ft_simd_tiles_bf16) = {
    .rows = SIDE,
    .columns = SIDE,
    .step = SIDE,
    .bytes = 2,
    .most_k = MOST_K,
    .most_rows = MOST_ROWS,
    .near_columns = NEAR_COLUMNS,
    .pack_left = pack_left,
    .pack_right = pack_right,
    .multiply = multiply,
};

#endif
