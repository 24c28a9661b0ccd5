/* ops/simd/panels.c - tiles of large matrix products, both of whose sides are packed.
 *
 * A panel of the left side has the rows of a tile, one of the right side its columns; each holds
 * its numbers in the order of k, so that the innermost loop reads two streams. A tile of sums stays
 * in registers while k goes by: with AVX-512 14 x 2 vectors of sums, two of the right side and one
 * number of the left side spread over a vector are 31 of 32 registers, with AVX2 6 x 2, 2 and 1 are
 * 15 of 16. A step of k loads 16 (AVX2: 8) times for 28 (12) multiplications, fewer than the two
 * a cycle that a CPU can; where a vector of AVX-512 takes two cycles there is twice the time.
 *
 * Each element is one chain of multiplications and additions in the order of k, whatever tile it
 * falls into. */
#include "ops/simd/ends.h"
#include "ops/simd/simd.h"

#include <string.h>

#if defined(__AVX512F__)
enum { ROWS = 14 };
#else
enum { ROWS = 6 };
#endif
enum {
    VECTORS = 2,
    COLUMNS = VECTORS * FT_LANES,
    MOST_K = 256,
    MOST_ROWS = 280,     /* 20 tiles of 14, 47 of 6 */
    NEAR_COLUMNS = 2048, /* rows of a source are read along so many */
    STEPS = 8,           /* of k between requests for memory */
    GROUP = 8,           /* rows that are packed together */
    LINE = 64,           /* bytes of a line of a cache */
    STAYS = 1 << 14      /* bytes of the right side that stay in the first cache */
};

/* -- packing ----------------------------------------------------------------------------------- */

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

/* A row of one panel, of which `count` numbers exist. */
INLINE void pack_row(float *to, int width, const float *x, int64_t count, int how)
{
    for (int v = 0; v < width; v += FT_LANES) store(to + v, load(x + v, count - v), width - v, how);
}

/* A few rows at a time go to all panels: their lines are then read whole, and rows a power of two
 * apart do not drive each other out of the cache. */
INLINE void pack(float *packed, const ft_panel_source *x, int width, bool far)
{
    for (int64_t first = 0; first < x->k; first += GROUP) {
        int64_t end = x->k - first < GROUP ? x->k : first + GROUP;
        float *panel = packed;
        for (int64_t at = 0; at < x->count; at += width, panel += width * x->k)
            for (int64_t p = first; p < end; p++)
                pack_row(panel + p * width, width, x->data + p * x->ld + at, x->count - at,
                         far            ? FAR
                         : p < x->k - 1 ? FOLLOWED
                                        : LAST);
    }
}

/* The panel of columns from `at` on, of x that is turned. A line of it is written at once: what
 * goes past the caches is gathered in a few buffers, and one that has to leave with half a line
 * takes several times as long. */
INLINE void turn_panel(float *panel, const ft_panel_source *x, int64_t at, int width, bool far)
{
    int64_t rows = x->count - at < width ? x->count - at : width, k = x->k;
    const float *data = x->data + at * x->ld;
    for (int64_t p = 0; p < k; p += FT_LANES) {
        vf square[VECTORS][FT_LANES];
        for (int v = 0; v * FT_LANES < width; v++)
            load_turned(square[v], data + v * FT_LANES * x->ld + p, x->ld, rows - v * FT_LANES,
                        k - p);
        for (int i = 0; i < FT_LANES && p + i < k; i++)
            for (int v = 0; v * FT_LANES < width; v++)
                store(panel + (p + i) * width + v * FT_LANES, square[v][i], width - v * FT_LANES,
                      far             ? FAR
                      : p + i < k - 1 ? FOLLOWED
                                      : LAST);
    }
}

INLINE void pack_any(float *packed, const ft_panel_source *x, int width, bool far)
{
    if (!x->turned)
        pack(packed, x, width, far);
    else
        for (int64_t at = 0; at < x->count; at += width)
            turn_panel(packed + at * x->k, x, at, width, far);
    if (far) vf_streamed();
}

static void pack_left(void *packed, const ft_panel_source *x)
{
    pack_any(packed, x, ROWS, false);
}

/* Each way is compiled by itself. */
static void pack_right(void *packed, const ft_panel_source *x)
{
    if (x->far)
        pack_any(packed, x, COLUMNS, true);
    else
        pack_any(packed, x, COLUMNS, false);
}

/* -- the product ------------------------------------------------------------------------------- */

/* What is read after this tile, asked for little by little: all at once would keep the loads of the
 * tile itself waiting. */
typedef struct ahead {
    const char *next, *end; /* of the right side's next panel */
    int lines;              /* of it in STEPS steps */
} ahead;

/* The loops over sums must be unrolled, or they would live in memory. */
#define EACH_ROW    _Pragma("GCC unroll 14") for (int i = 0; i < rows; i++)
#define EACH_VECTOR _Pragma("GCC unroll 2") for (int v = 0; v < VECTORS; v++)

INLINE void step(vf sum[ROWS][VECTORS], const float *a, const float *b, int rows)
{
    vf right[VECTORS];
    EACH_VECTOR right[v] = vf_load(b + v * FT_LANES);
    EACH_ROW
    {
        vf left = vf_set(a[i]);
        EACH_VECTOR sum[i][v] = vf_fma(left, right[v], sum[i][v]);
    }
}

/* Where a tile of c is, of what, and what follows the sums. */
typedef struct tile {
    const float *a, *b, *bias;
    float *c;
    int64_t ldc;
} tile;

/* A tile of c, of which `rows` rows exist: the sums, or c + those. */
INLINE void tile_of(const ft_panel_product *p, const tile *t, ahead *soon, int rows)
{
    const float *a = t->a, *b = t->b;
    float *c = t->c;
    const int64_t ldc = t->ldc;
    vf sum[ROWS][VECTORS];
    EACH_ROW EACH_VECTOR sum[i][v] = (vf){0};
    const char *next = soon->next;
    const float *asked = c;
    int64_t k = p->k;
    for (int row = 0; k >= STEPS; k -= STEPS, row++) {
        if (row < rows) {
            __builtin_prefetch(asked, 1);
            __builtin_prefetch(asked + COLUMNS - 1, 1);
            asked += ldc;
        }
        for (int i = 0; i < soon->lines; i++, next += LINE) __builtin_prefetch(next, 0, 2);
        _Pragma("GCC unroll 8") for (int i = 0; i < STEPS; i++, a += ROWS, b += COLUMNS)
            step(sum, a, b, rows);
    }
    for (; k; k--, a += ROWS, b += COLUMNS) step(sum, a, b, rows);
    soon->next = next < soon->end ? next : soon->end;
    if (p->add) EACH_ROW EACH_VECTOR sum[i][v] += vf_load(c + i * ldc + v * FT_LANES);
    if (t->bias) EACH_ROW EACH_VECTOR sum[i][v] += vf_load(t->bias + v * FT_LANES);
    if (p->relu) EACH_ROW EACH_VECTOR sum[i][v] = vf_max((vf){0}, sum[i][v]);
    EACH_ROW EACH_VECTOR vf_store(c + i * ldc + v * FT_LANES, sum[i][v]);
}

typedef void (*tile_function)(const ft_panel_product *p, const tile *t, ahead *soon);

#define TILE(rows)                                                                                 \
    static void tile_##rows(const ft_panel_product *p, const tile *t, ahead *soon)                 \
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
    const tile t = {.a = (const float *)p->left + row * p->k,
                    .b = (const float *)p->right + column * p->k,
                    .bias = p->bias ? p->bias + column : NULL,
                    .c = p->c + row * p->ldc + column,
                    .ldc = p->ldc};
    int64_t rows = p->m - row < ROWS ? p->m - row : ROWS;
    if (p->n - column >= COLUMNS)
        tiles[rows - 1](p, &t, soon);
    else
        edge_tile(p, t, rows, p->n - column, soon);
}

/* Some panels of the right side, as many as the first cache keeps, against all of the left side:
 * the less is summed, the longer are the rows of c that are gone through, which then take the time.
 */
static void multiply(const ft_panel_product *p)
{
    const int64_t panel_bytes = COLUMNS * p->k * 4, n_tiles = (p->m + ROWS - 1) / ROWS;
    const int64_t width = (panel_bytes < STAYS ? STAYS / panel_bytes : 1) * COLUMNS;
    const int lines = (int)((STEPS * VECTORS + n_tiles - 1) / n_tiles);
    for (int64_t first = 0, end; first < p->n; first = end) {
        end = p->n - first < width ? p->n : first + width;
        int64_t left = p->n - end < width ? p->n - end : width;
        const float *next = (const float *)p->right + end * p->k;
        ahead soon = {(const char *)next, (const char *)(next + left * p->k), left ? lines : 0};
        for (int64_t row = 0; row < p->m; row += ROWS)
            for (int64_t column = first; column < end; column += COLUMNS)
                tile_at(p, row, column, &soon);
    }
}

/* -- few rows ---------------------------------------------------------------------------------- */

/* Each number of the right side is used by one tile: it is read as it lies, once, and memory is all
 * that counts. */

enum { SUMS = 3 << 10 }; /* that stay in the first cache, beside what is read */

/* Columns of the right side, and a chunk of k. */
typedef struct part {
    int64_t at, columns, k, end;
} part;

/* `steps` of k, of which b has the right side's numbers in some columns: sums of those, a row of
 * them every `ld` numbers. */
INLINE void add_steps(float *sums, int64_t ld, int64_t rows, const float *a, const vf *b, int steps)
{
    for (int64_t i = 0; i < rows; i++, sums += ld) {
        vf sum = vf_load(sums);
        for (int s = 0; s < steps; s++) sum = vf_fma(vf_set(a[s * ROWS + i]), b[s], sum);
        vf_store(sums, sum);
    }
}

/* The sums of a part go to c. */
static void finish(const ft_panel_product *p, const float *sums, int64_t ld, const part *x)
{
    const bool add = p->add || x->k > 0, ends = x->end == p->k;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < x->columns; j += FT_LANES) {
            float *c = p->c + i * p->ldc + x->at + j;
            vf sum = vf_load(sums + i * ld + j);
            if (add) sum += load(c, x->columns - j);
            if (ends && p->bias) sum += load(p->bias + x->at + j, x->columns - j);
            if (ends && p->relu) sum = vf_max((vf){0}, sum);
            store(c, sum, x->columns - j, LAST);
        }
}

/* A group of rows of the right side, along all columns of the part. */
INLINE void along_rows(const ft_panel_product *p, const ft_panel_source *right, const part *x,
                       float *sums, int64_t ld, int64_t k, int steps)
{
    for (int64_t j = 0; j < x->columns; j += FT_LANES) {
        vf b[GROUP];
        for (int s = 0; s < steps; s++)
            b[s] = load(right->data + (k + s) * right->ld + x->at + j, x->columns - j);
        add_steps(sums + j, ld, p->m, (const float *)p->left + k * ROWS, b, steps);
    }
}

static void part_straight(const ft_panel_product *p, const ft_panel_source *right, const part *x,
                          float *sums, int64_t ld)
{
    int64_t k = x->k;
    for (; k + GROUP <= x->end; k += GROUP) along_rows(p, right, x, sums, ld, k, GROUP);
    if (k < x->end) along_rows(p, right, x, sums, ld, k, (int)(x->end - k));
}

/* Squares of the right side, turned; the next part's are asked for. */
static void part_turned(const ft_panel_product *p, const ft_panel_source *right, const part *x,
                        float *sums, int64_t ld)
{
    for (int64_t k = x->k; k < x->end; k += FT_LANES)
        for (int64_t j = 0; j < x->columns; j += FT_LANES) {
            vf square[FT_LANES];
            int steps = x->end - k < FT_LANES ? (int)(x->end - k) : FT_LANES;
            const float *corner = right->data + (x->at + j) * right->ld + k;
            if (x->at + j + COLUMNS + FT_LANES <= p->n)
                for (int i = 0; i < FT_LANES; i++)
                    __builtin_prefetch(corner + (COLUMNS + i) * right->ld, 0, 2);
            load_turned(square, corner, right->ld, x->columns - j, steps);
            add_steps(sums + j, ld, p->m, (const float *)p->left + k * ROWS, square, steps);
        }
}

static void multiply_few(const ft_panel_product *p, const ft_panel_source *right, int64_t chunk)
{
    float sums[SUMS];
    const int64_t most = right->turned ? COLUMNS : SUMS / p->m / FT_LANES * FT_LANES;
    for (part x = {0}; x.at < p->n; x.at += most)
        for (x.k = 0; x.k < p->k; x.k = x.end) {
            x.columns = p->n - x.at < most ? p->n - x.at : most;
            x.end = p->k - x.k < chunk ? p->k : x.k + chunk;
            memset(sums, 0, (size_t)(p->m * most) * sizeof *sums);
            (right->turned ? part_turned : part_straight)(p, right, &x, sums, most);
            finish(p, sums, most, &x);
        }
}

const ft_simd_panels FT_ISA_NAME(ft_simd_panels) = {
    .rows = ROWS,
    .columns = COLUMNS,
    .step = 1,
    .bytes = sizeof(float),
    .most_k = MOST_K,
    .most_rows = MOST_ROWS,
    .near_columns = NEAR_COLUMNS,
    .pack_left = pack_left,
    .pack_right = pack_right,
    .multiply = multiply,
    .multiply_few = multiply_few,
};
