/* ops/simd/panels.c - large matrix products of f32 by vectors.
 *
 * Each element is one chain of multiplications and additions in the order of k, whatever tile it
 * falls into. */
#include "ops/simd/sums.h"

enum {
    MOST_K = 256,
    MOST_ROWS = 280,     /* 20 tiles of 14, 47 of 6 */
    NEAR_COLUMNS = 2048, /* rows of a source are read along so many */
    GROUP = 8            /* rows that are packed together */
};

/* -- packing ----------------------------------------------------------------------------------- */

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

static void multiply(const ft_panel_product *p)
{
    multiply_panels(p);
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
