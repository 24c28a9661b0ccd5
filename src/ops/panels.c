/* ops/panels.c - large products, cut so that what is read again lies in a cache.
 *
 * The scheme is that of Goto and van de Geijn ("Anatomy of high-performance matrix multiplication",
 * 2008) and of BLIS (Van Zee and van de Geijn, 2015): a chunk of k at a time, of which
 * MOST_COLUMNS of the right side are packed, then some rows of the left side; a panel of the
 * right side (32 KiB with AVX-512) stays in the first cache while the block of the left side (280
 * KiB) comes from the second one. */
#include "ops/panels.h"

#include "ops/internal.h"

enum {
    MOST_COLUMNS = 2048, /* for which a block of rows is packed once */
    LINE = 64,           /* bytes of a line of a cache */
    FAR_BYTES = 1 << 20  /* of c, from which on it would drive the sides out of the second cache */
};

static int64_t round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

const ft_simd_panels *ft_panels_kernels(bool bf16)
{
    const ft_simd *simd = ft_simd_get();
    if (bf16 && ft_cpu_tiles()) return simd->tiles_bf16;
    if (bf16 && simd->pairs) return ft_cpu_slow_bf16() ? simd->widened : simd->pairs;
    return ft_cpu_tiles() ? simd->tiles : simd->panels;
}

ft_status ft_panels_check(bool bf16, ft_error *err)
{
    if (!bf16 || ft_cpu_bf16()) return FT_OK;
    return ft_fail(err, FT_UNSUPPORTED,
                   "a product of bf16 needs a CPU with avx512_bf16 instructions, which this one "
                   "does not have or FTPIPE_KERNELS rules out");
}

/* Those that the right side is packed for. */
static const ft_simd_panels *plain(const ft_simd_panels *kernels)
{
    return kernels->plain ? kernels->plain : kernels;
}

int64_t ft_panels_chunk(int64_t k, const ft_simd_panels *kernels)
{
    const ft_simd_panels *packed = plain(kernels);
    int64_t count = (k + packed->most_k - 1) / packed->most_k;
    return round_up((k + count - 1) / count, packed->step);
}

/* Those that multiply. */
static const ft_simd_panels *used(const ft_simd_panels *kernels, int64_t m, int64_t k)
{
    return m < kernels->least_rows || k < kernels->least_k ? plain(kernels) : kernels;
}

/* Bytes of a row or a column of a panel with that k. */
static int64_t column_bytes(int64_t k, const ft_simd_panels *kernels)
{
    return round_up(k, kernels->step) * kernels->bytes;
}

/* How a product is cut: every thread has `size` columns of c, or rows, with all of k. */
typedef struct cuts {
    bool few;  /* rows: each column is used once, so that packing it would be another pass */
    bool once; /* all rows are one block, which is packed once for each chunk */
    int64_t size, chunk;
    int64_t block_rows, block_columns;
    int64_t left_bytes, spare_bytes, bytes; /* of one thread's memory: two parts of it, all of it */
    bool columns;
} cuts;

static cuts cut_of(int64_t m, int64_t n, int64_t k, const ft_simd_panels *kernels, int team_size)
{
    cuts c = {.chunk = ft_panels_chunk(k, kernels), .columns = n > m};
    c.few = kernels->multiply_few && m <= kernels->rows;
    int64_t extent = c.columns ? n : m, unit = c.columns ? kernels->columns : kernels->rows;
    c.size = round_up((extent + team_size - 1) / team_size, unit);
    int64_t rows = c.columns ? m : smaller(c.size, m);
    c.block_rows = round_up(smaller(kernels->most_rows, rows), kernels->rows);
    c.once = c.block_rows >= rows;
    int64_t columns =
        smaller(c.once ? kernels->near_columns : MOST_COLUMNS, c.columns ? smaller(c.size, n) : n);
    c.block_columns = round_up(columns, kernels->columns);
    c.left_bytes = round_up(c.block_rows * column_bytes(c.few ? k : c.chunk, kernels), LINE);
    c.spare_bytes = kernels->plain ? 2 * kernels->columns * column_bytes(c.chunk, kernels) : 0;
    int64_t right_bytes = round_up(c.block_columns * column_bytes(c.chunk, plain(kernels)), LINE);
    c.bytes = c.left_bytes + c.spare_bytes + (c.few ? 0 : right_bytes);
    return c;
}

int64_t ft_panels_work_bytes(int64_t m, int64_t n, int64_t k, const ft_simd_panels *kernels,
                             int team_size)
{
    if (!m || !n || !k) return 0;
    return cut_of(m, n, k, used(kernels, m, k), team_size).bytes * team_size;
}

/* Column `column` of the chunk that begins at `start` and has k of them, in a packed matrix. */
static char *panel_at(char *packed, int64_t n, const ft_simd_panels *kernels, int64_t start,
                      int64_t k, int64_t column)
{
    return packed + start * round_up(n, kernels->columns) * kernels->bytes +
           column * column_bytes(k, kernels);
}

typedef struct job {
    const ft_large_product *product;
    const ft_simd_panels *kernels;
    cuts cut;
    char *packed; /* to pack into */
} job;

/* Part of c, with k of a and b from `start` on. */
typedef struct block {
    int64_t row, rows, column, columns, start, k;
} block;

static void pack_rows(const job *j, const block *b, void *left)
{
    const ft_large_product *o = j->product;
    ft_panel_source x = {.k = b->k, .count = b->rows, .turned = !o->a_transposed};
    x.ld = o->a_transposed ? o->m : o->k;
    x.data = o->a + (o->a_transposed ? b->start * x.ld + b->row : b->row * x.ld + b->start);
    j->kernels->pack_left(left, &x);
}

/* The columns of a block, as they lie in b. */
static ft_panel_source columns_of(const ft_large_product *o, const block *b)
{
    ft_panel_source x = {.k = b->k, .count = b->columns, .turned = o->b_transposed};
    x.ld = o->b_transposed ? o->k : o->n;
    x.data = o->b + (o->b_transposed ? b->column * x.ld + b->start : b->start * x.ld + b->column);
    return x;
}

/* Those of all of b that are packed. */
static const char *packed_at(const job *j, const block *b)
{
    return panel_at((char *)(uintptr_t)j->product->packed, j->product->n, plain(j->kernels),
                    b->start, b->k, b->column);
}

/* Whether sums are not read again here, and rows are whole lines. */
static bool goes_far(const ft_large_product *o, const block *b)
{
    return o->far && !o->add && b->k == o->k && o->m * o->n * 4 >= FAR_BYTES &&
           o->n % (LINE / 4) == 0 && (uintptr_t)o->c % LINE == 0;
}

/* A block's product, but for its sides. */
static ft_panel_product product_of(const ft_large_product *o, const block *b)
{
    bool ends = b->start + b->k == o->k;
    return (ft_panel_product){.m = b->rows,
                              .n = b->columns,
                              .k = b->k,
                              .bias = ends && o->bias ? o->bias + b->column : NULL,
                              .c = o->c + b->row * o->n + b->column,
                              .ldc = o->n,
                              .add = o->add || b->start > 0,
                              .far = goes_far(o, b),
                              .relu = ends && o->relu};
}

/* One thread's memory. */
typedef struct memory {
    char *left, *spare, *right;
} memory;

/* The rows of a block, against columns that are packed. */
static void block_rows(const job *j, const block *b, const memory *own, const char *right)
{
    for (int64_t done = 0; done < b->rows; done += j->cut.block_rows) {
        block part = *b;
        part.row = b->row + done;
        part.rows = smaller(j->cut.block_rows, b->rows - done);
        if (!j->cut.once) pack_rows(j, &part, own->left);
        ft_panel_product product = product_of(j->product, &part);
        product.left = own->left;
        product.right = right;
        product.spare = own->spare;
        j->kernels->multiply(&product);
    }
}

/* Few rows, against columns as they lie. */
static void few_rows(const job *j, const block *b, void *left)
{
    pack_rows(j, b, left);
    ft_panel_product product = product_of(j->product, b);
    product.left = left;
    const ft_panel_source columns = columns_of(j->product, b);
    j->kernels->multiply_few(&product, &columns, j->cut.chunk);
}

/* What thread i has of c. */
static void piece(void *arg, int i)
{
    const job *j = arg;
    const ft_large_product *o = j->product;
    const cuts *cut = &j->cut;
    int64_t from = i * cut->size, size = smaller(cut->size, (cut->columns ? o->n : o->m) - from);
    int64_t column = cut->columns ? from : 0, end = column + (cut->columns ? size : o->n);
    char *work = (char *)o->work + i * cut->bytes;
    const memory own = {.left = work,
                        .spare = work + cut->left_bytes,
                        .right = work + cut->left_bytes + cut->spare_bytes};
    const int64_t most = o->packed && cut->once ? end - column : cut->block_columns;
    block b = {.row = cut->columns ? 0 : from, .rows = cut->columns ? o->m : size};
    if (cut->few && !o->packed) {
        b.column = column;
        b.columns = end - column;
        b.k = o->k;
        few_rows(j, &b, own.left);
        return;
    }
    for (b.start = 0; b.start < o->k; b.start += cut->chunk) {
        b.k = smaller(cut->chunk, o->k - b.start);
        if (cut->once) pack_rows(j, &b, own.left);
        for (b.column = column; b.column < end; b.column += most) {
            b.columns = smaller(most, end - b.column);
            if (!o->packed) {
                const ft_panel_source columns = columns_of(o, &b);
                plain(j->kernels)->pack_right(own.right, &columns);
            }
            block_rows(j, &b, &own, o->packed ? packed_at(j, &b) : own.right);
        }
    }
}

/* Nothing is summed. */
static void without_k(const ft_large_product *o)
{
    for (int64_t i = 0; i < o->m; i++)
        for (int64_t j = 0; j < o->n; j++) {
            float *c = o->c + i * o->n + j, sum = o->add ? *c : 0.0f;
            if (o->bias) sum += o->bias[j];
            *c = o->relu && sum < 0.0f ? 0.0f : sum;
        }
}

void ft_panels_multiply(const ft_large_product *o, const ft_simd_panels *kernels, ft_team *team)
{
    if (!o->m || !o->n) return;
    if (!o->k) {
        without_k(o);
        return;
    }
    job j = {.product = o, .kernels = used(kernels, o->m, o->k)};
    j.cut = cut_of(o->m, o->n, o->k, j.kernels, ft_team_size(team));
    ft_team_run(team, ft_pieces(j.cut.columns ? o->n : o->m, j.cut.size), piece, &j);
}

/* -- packed beforehand ------------------------------------------------------------------------- */

int64_t ft_panels_packed_bytes(int64_t n, int64_t k, const ft_simd_panels *kernels)
{
    return round_up(round_up(n, kernels->columns) * column_bytes(k, plain(kernels)), LINE);
}

/* One chunk of k. */
static void pack_chunk(void *arg, int i)
{
    const job *j = arg;
    int64_t n = j->product->n, start = i * j->cut.chunk;
    block b = {.columns = n, .start = start, .k = smaller(j->cut.chunk, j->product->k - start)};
    ft_panel_source x = columns_of(j->product, &b);
    x.far = true;
    j->kernels->pack_right(panel_at(j->packed, n, j->kernels, start, b.k, 0), &x);
}

void ft_panels_pack(const ft_large_product *o, void *packed, const ft_simd_panels *kernels,
                    ft_team *team)
{
    if (!o->n || !o->k) return;
    job j = {.product = o, .kernels = plain(kernels), .packed = packed};
    j.cut.chunk = ft_panels_chunk(o->k, kernels);
    ft_team_run(team, ft_pieces(o->k, j.cut.chunk), pack_chunk, &j);
}
