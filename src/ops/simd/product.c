/* ops/simd/product.c - small matrix products whose right side is packed.
 *
 * B lies in panels as wide as the columns of a tile of the result, which stays in registers while k
 * goes by: TILE_ROWS x TILE_VECTORS vectors of sums, the vectors of one row of B, and one number of
 * A spread over a vector fill the registers of each instruction set. Each element is one chain of
 * multiplications and additions in the order of k, whatever tile it falls into. */
#include "ops/simd/ends.h"
#include "ops/simd/simd.h"

#if defined(__AVX512F__)
enum { TILE_ROWS = 6, TILE_VECTORS = 4 };
#else
enum { TILE_ROWS = 6, TILE_VECTORS = 2 };
#endif
enum { PANEL = TILE_VECTORS * FT_LANES };

/* -- packing ----------------------------------------------------------------------------------- */

/* Vectors that hold the columns of a panel, of which `left` exist. */
static inline int vectors_of(int64_t left)
{
    return left >= PANEL ? TILE_VECTORS : (int)((left + FT_LANES - 1) / FT_LANES);
}

static void pack(float *packed, const float *b, int64_t ld, int64_t k, int64_t n)
{
    for (int64_t first = 0; first < n; first += PANEL) {
        int vectors = vectors_of(n - first);
        for (int64_t p = 0; p < k; p++)
            for (int v = 0; v < vectors; v++, packed += FT_LANES) {
                int64_t column = first + v * FT_LANES;
                vf_store(packed, load(b + p * ld + column, n - column));
            }
    }
}

/* Columns first ... first + FT_LANES of B^T, of which `columns` exist, into one vector of each row
 * of a panel whose rows are `width` numbers. */
static void pack_columns(float *packed, int64_t width, const float *b, int64_t ld, int64_t k,
                         int64_t columns)
{
    for (int64_t p = 0; p < k; p += FT_LANES) {
        vf rows[FT_LANES];
        for (int i = 0; i < FT_LANES; i++)
            rows[i] = i < columns ? load(b + i * ld + p, k - p) : (vf){0};
        vf_transpose(rows);
        int64_t n = k - p < FT_LANES ? k - p : FT_LANES;
        for (int i = 0; i < n; i++) vf_store(packed + (p + i) * width, rows[i]);
    }
}

static void pack_transposed(float *packed, const float *b, int64_t ld, int64_t k, int64_t n)
{
    for (int64_t first = 0; first < n; first += PANEL) {
        int vectors = vectors_of(n - first);
        for (int v = 0; v < vectors; v++) {
            int64_t column = first + v * FT_LANES;
            pack_columns(packed + v * FT_LANES, vectors * FT_LANES, b + column * ld, ld, k,
                         n - column);
        }
        packed += k * vectors * FT_LANES;
    }
}

/* -- the product ------------------------------------------------------------------------------- */

/* A tile of the result: its corner in a, in the panel of b and in c; the numbers in a row of the
 * panel; `left` columns exist. */
typedef struct tile {
    const float *a, *b;
    float *c;
    int64_t width, left;
} tile;

INLINE void finish(const ft_small_product *p, const tile *t, int row, int v, vf sum)
{
    float *c = t->c + row * p->ldc + v * FT_LANES;
    int64_t left = t->left - v * FT_LANES;
    sum *= p->alpha;
    if (p->add) sum += load(c, left);
    if (left >= FT_LANES)
        vf_store(c, sum);
    else
        vf_store_part(c, sum, (int)left);
}

INLINE void tile_of(const ft_small_product *p, const tile *t, int rows, int vectors)
{
    vf sum[TILE_ROWS][TILE_VECTORS];
    const float *a = t->a, *b = t->b;
    const int64_t a_row = p->a_row, a_step = p->a_step, width = t->width;
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++) sum[i][v] = (vf){0};
    for (int64_t k = p->k; k; k--, a += a_step, b += width) {
        vf right[TILE_VECTORS];
        for (int v = 0; v < vectors; v++) right[v] = vf_load(b + v * FT_LANES);
        for (int i = 0; i < rows; i++) {
            vf left = vf_set(a[i * a_row]);
            for (int v = 0; v < vectors; v++) sum[i][v] = vf_fma(left, right[v], sum[i][v]);
        }
    }
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++) finish(p, t, i, v, sum[i][v]);
}

INLINE void panel_of(const ft_small_product *p, tile t, int vectors)
{
    int64_t i = 0;
    for (; i + 6 <= p->m; i += 6, t.a += 6 * p->a_row, t.c += 6 * p->ldc)
        tile_of(p, &t, 6, vectors);
    switch (p->m - i) {
    case 5: tile_of(p, &t, 5, vectors); break;
    case 4: tile_of(p, &t, 4, vectors); break;
    case 3: tile_of(p, &t, 3, vectors); break;
    case 2: tile_of(p, &t, 2, vectors); break;
    case 1: tile_of(p, &t, 1, vectors); break;
    default: break;
    }
}

static void panel_1(const ft_small_product *p, const tile *t)
{
    panel_of(p, *t, 1);
}
static void panel_2(const ft_small_product *p, const tile *t)
{
    panel_of(p, *t, 2);
}
#if defined(__AVX512F__)
static void panel_3(const ft_small_product *p, const tile *t)
{
    panel_of(p, *t, 3);
}
static void panel_4(const ft_small_product *p, const tile *t)
{
    panel_of(p, *t, 4);
}
#endif

static void product(const ft_small_product *p)
{
    static void (*const panels[])(const ft_small_product *, const tile *) = {
        panel_1,
        panel_2,
#if defined(__AVX512F__)
        panel_3,
        panel_4,
#endif
    };
    const float *panel = p->b;
    tile t = {.a = p->a, .c = p->c};
    for (t.left = p->n; t.left > 0; t.left -= PANEL, t.c += PANEL) {
        t.width = vectors_of(p->b_columns - p->n + t.left) * FT_LANES;
        t.b = panel + p->b_first * t.width;
        panels[vectors_of(t.left) - 1](p, &t);
        panel += p->b_rows * t.width;
    }
}

const ft_simd_product FT_ISA_NAME(ft_simd_product) = {
    .pack = pack,
    .pack_transposed = pack_transposed,
    .multiply = product,
};
