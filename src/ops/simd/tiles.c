/* ops/simd/tiles.c - f32 products by the matrix unit of Intel's CPUs (AMX), which multiplies bf16.
 *
 * A number of f32 is the sum of three of bf16, to the bit: it rounded to bf16, what that leaves
 * rounded again, and the rest (Henry, Tang and Heinecke, "Leveraging the bfloat16 artificial
 * intelligence datatype for higher-precision computations", 2019). So a product is nine of bf16, of
 * which the three smallest, together at most 2^-24 of it, are left out: no more than a rounding to
 * f32 costs. The unit adds in f32 and does 16 times the multiplications a cycle that vectors of f32
 * do, so that six of them leave 2.7 times as many.
 *
 * A panel has 32 rows, or columns, and its k in blocks of 32; of a block, each part is two tiles. A
 * tile of the left side has 16 rows of 32 numbers, one of the right side 16 rows of pairs of k for
 * 16 columns. Numbers smaller than 2^-110 lose their smallest parts: the unit takes what is below
 * 2^-126 for 0. A product with an infinity is NaN.
 *
 * The right side is packed for panels.c, in f32, and each of its panels is split while the one
 * before it is multiplied: packed weights split already would be half as much again to keep and to
 * read, and few rows are faster by vectors. */
#include "ops/simd/ends.h"
#include "ops/simd/simd.h"

#if defined(__AVX512F__)

#define TILES __attribute__((target("amx-tile,amx-bf16")))

enum {
    SIDE = 32, /* rows, or columns, of two tiles; k of a block */
    PARTS = 3,
    TILE = 1024, /* bytes */
    PART = 2 * TILE,
    BLOCK = PARTS * PART,
    LINE = 64,
    LEAST_ROWS = 64, /* below which, and below so much k, vectors are faster */
    LEAST_K = 48,
    NEAR_COLUMNS = 512 /* 512 KiB, beside 384 of the left side in the second cache */
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

/* Rows of a source, `rows` of them by `n` numbers; there are zeros beside them. */
typedef struct rectangle {
    const float *x;
    int64_t ld, rows, n;
} rectangle;

/* 16 numbers of row i from `from` on. `whole`: all that is asked for is there. */
INLINE vf piece_of(const rectangle *r, int64_t i, int64_t from, bool whole)
{
    const float *x = r->x + i * r->ld + from;
    if (whole) return vf_load(x);
    return i < r->rows ? load(x, r->n - from) : (vf){0};
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

INLINE int64_t pieces_of(int64_t n)
{
    return (n + SIDE - 1) / SIDE;
}

/* Both tiles of a block. Each way is compiled by itself. */
INLINE void left_block(char *block, const ft_panel_source *x, int64_t at, int64_t k)
{
    for (int tile = 0; tile < 2; tile++, at += FT_LANES, block += TILE) {
        const int64_t count = x->count - at, steps = x->k - k;
        const bool whole = count >= FT_LANES && steps >= SIDE;
        rectangle r = {.ld = x->ld};
        r.x = x->data + (x->turned ? at * x->ld + k : k * x->ld + at);
        r.rows = x->turned ? count : steps;
        r.n = x->turned ? steps : count;
        if (whole && x->turned)
            left_tile(block, &r, true, true);
        else if (whole)
            left_tile(block, &r, false, true);
        else
            left_tile(block, &r, x->turned, false);
    }
}

/* In the order in which the source lies in memory. */
static void pack_left(void *packed, const ft_panel_source *x)
{
    const int64_t panels = pieces_of(x->count), blocks = pieces_of(x->k);
    for (int64_t i = 0; i < panels * blocks; i++) {
        const int64_t panel = x->turned ? i / blocks : i % panels;
        const int64_t block = x->turned ? i % blocks : i / panels;
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

/* Registers 0 to 3 hold the sums of 32 rows by 32 columns, 4 and 5 a part of the left side's rows,
 * 6 and 7 one of the right side's columns. Of 16 rows or fewer the second half is left out. */
#define LEFT(part)                                                                                 \
    _tile_loadd(4, left + (part)*PART, LINE);                                                      \
    if (whole) _tile_loadd(5, left + (part)*PART + TILE, LINE)
#define RIGHT(part)                                                                                \
    _tile_loadd(6, right + (part)*PART, LINE);                                                     \
    _tile_loadd(7, right + (part)*PART + TILE, LINE)
#define MULTIPLY                                                                                   \
    _tile_dpbf16ps(0, 4, 6);                                                                       \
    _tile_dpbf16ps(1, 4, 7);                                                                       \
    if (whole) {                                                                                   \
        _tile_dpbf16ps(2, 5, 6);                                                                   \
        _tile_dpbf16ps(3, 5, 7);                                                                   \
    }

/* The six products of parts, each beside one with which it shares a side. */
TILES INLINE void multiply_block(const char *left, const char *right, bool whole)
{
    LEFT(0);
    RIGHT(2);
    MULTIPLY
    RIGHT(1);
    MULTIPLY
    LEFT(1);
    MULTIPLY
    RIGHT(0);
    MULTIPLY
    LEFT(0);
    MULTIPLY
    LEFT(2);
    MULTIPLY
}

/* The sums of two panels. With each block some pairs of the next panel are split, by the vector
 * units, which have nothing else to do. */
TILES INLINE void multiply_panels(const char *left, const char *right, int64_t blocks, float *sums,
                                  bool whole, splitting *next, int64_t pairs)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t i = 0; i < blocks; i++, left += BLOCK, right += BLOCK) {
        multiply_block(left, right, whole);
        split_pairs(next, pairs);
    }
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

/* Sums of 32 columns go to a row of c that has so many of them. */
INLINE void finish(float *c, const float *sums, const float *bias, int64_t columns, bool add,
                   bool relu)
{
    for (int64_t j = 0; j < columns; j += FT_LANES) {
        vf sum = vf_load(sums + j);
        if (add) sum += load(c + j, columns - j);
        if (bias) sum += load(bias + j, columns - j);
        if (relu) sum = vf_max((vf){0}, sum);
        if (columns - j >= FT_LANES)
            vf_store(c + j, sum);
        else
            vf_store_part(c + j, sum, (int)(columns - j));
    }
}

/* The part of c that begins there; `right` is that panel, split. */
TILES static void square_at(const ft_panel_product *p, int64_t row, int64_t column,
                            const char *right, splitting *next, int64_t pairs)
{
    const int64_t blocks = pieces_of(p->k);
    const int64_t rows = p->m - row < SIDE ? p->m - row : SIDE;
    const int64_t columns = p->n - column < SIDE ? p->n - column : SIDE;
    const char *left = (const char *)p->left + row / SIDE * blocks * BLOCK;
    float sums[SIDE * SIDE] __attribute__((aligned(LINE)));
    if (rows > FT_LANES)
        multiply_panels(left, right, blocks, sums, true, next, pairs);
    else
        multiply_panels(left, right, blocks, sums, false, next, pairs);
    const float *bias = p->bias ? p->bias + column : NULL;
    float *c = p->c + row * p->ldc + column;
    if (columns == SIDE)
        for (int64_t i = 0; i < rows; i++)
            finish(c + i * p->ldc, sums + i * SIDE, bias, SIDE, p->add, p->relu);
    else
        for (int64_t i = 0; i < rows; i++)
            finish(c + i * p->ldc, sums + i * SIDE, bias, columns, p->add, p->relu);
}

/* A panel of the right side against all of the left side, while the next one is split. */
TILES static void multiply(const ft_panel_product *p)
{
    const int64_t blocks = pieces_of(p->k),
                  pairs = (FT_LANES + pieces_of(p->m) - 1) / pieces_of(p->m);
    char *panel = p->spare, *other = panel + blocks * BLOCK;
    splitting next = {p->right, panel, p->k, 0, blocks * FT_LANES};
    split_pairs(&next, next.end);
    settle(p->c);
    _tile_loadconfig(&shapes);
    for (int64_t column = 0; column < p->n; column += SIDE) {
        const bool last = column + SIDE >= p->n;
        next.from += p->k * SIDE;
        next.to = other;
        next.done = last ? next.end : 0;
        for (int64_t row = 0; row < p->m; row += SIDE)
            square_at(p, row, column, panel, &next, pairs);
        settle(other);
        other = panel;
        panel = next.to;
    }
    _tile_release();
}

const ft_simd_panels FT_ISA_NAME(ft_simd_tiles) = {
    .rows = SIDE,
    .columns = SIDE,
    .step = SIDE,
    .bytes = PARTS * 2,
    .near_columns = NEAR_COLUMNS,
    .plain = &FT_ISA_NAME(ft_simd_panels),
    .least_rows = LEAST_ROWS,
    .least_k = LEAST_K,
    .pack_left = pack_left,
    .multiply = multiply,
};

#endif
