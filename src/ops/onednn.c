/* ops/onednn.c - the only file that calls oneDNN.
 *
 * A primitive is made for every call. That takes about 3 us when oneDNN has met the same one
 * before: it keeps the last 1024 in a cache of its own, which threads share; the first time costs
 * up to some ms of code generation. Scratch memory is the caller's. The engine is made once and
 * stays: cached primitives point to it. */
#include "ops/onednn.h"

#include <oneapi/dnnl/dnnl.h>
#include <omp.h>
#include <stdatomic.h>
#include <string.h>

#include "ops/ops.h"

enum {
    PANEL_COLUMNS = 256, /* at least so many columns of a weight in one piece, if it has them */
    MAX_PANELS = 16,
    TILE_ROWS = 256,
    PACK_ROWS = 64 /* the m for which layouts are asked: they do not depend on it */
};
#define NO_MACHINE_BYTES (INT64_C(1) << 50)

void ft_ops_thread_init(void) {
    omp_set_num_threads(1);
}

static ft_status dnnl_failed(ft_error *err, dnnl_status_t status, const char *what) {
    return ft_fail(err, status == dnnl_out_of_memory ? FT_NOMEM : FT_DEVICE,
                   "oneDNN: %s failed with status %d", what, (int)status);
}

/* The engine of this process, or NULL when oneDNN has none. */
static dnnl_engine_t process_engine(void) {
    static _Atomic(dnnl_engine_t) shared;
    dnnl_engine_t engine = atomic_load(&shared), none = NULL;
    if (engine) return engine;
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success) return NULL;
    if (atomic_compare_exchange_strong(&shared, &none, engine)) return engine;
    dnnl_engine_destroy(engine);
    return none;
}

/* -- general products ----------------------------------------------------------------------------
 */

static void scale_rows(const ft_gemm *g) {
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++)
            g->c[i * g->ldc + j] = g->beta == 0.0f ? 0.0f : g->beta * g->c[i * g->ldc + j];
}

ft_status ft_onednn_gemm(const ft_gemm *g, ft_error *err) {
    if (!g->m || !g->n) return FT_OK;
    if (!g->k) {
        scale_rows(g);
        return FT_OK;
    }
    omp_set_num_threads(1); /* of the calling thread, which may be a helper of a team */
    dnnl_status_t rc =
        dnnl_sgemm(g->transpose_a ? 'T' : 'N', g->transpose_b ? 'T' : 'N', g->m, g->n, g->k,
                   g->alpha, g->a, g->lda, g->b, g->ldb, g->beta, g->c, g->ldc);
    return rc == dnnl_success ? FT_OK : dnnl_failed(err, rc, "sgemm");
}

typedef struct gemm_job {
    const ft_gemm *gemm;
    int64_t rows; /* of c in one piece */
    _Atomic int failed;
} gemm_job;

static void gemm_piece(void *arg, int i) {
    gemm_job *job = arg;
    ft_gemm g = *job->gemm;
    int64_t start = i * job->rows;
    g.m = g.m - start < job->rows ? g.m - start : job->rows;
    g.a += start * (g.transpose_a ? 1 : g.lda);
    g.c += start * g.ldc;
    ft_status status = ft_onednn_gemm(&g, NULL);
    if (status != FT_OK) atomic_store(&job->failed, (int)status);
}

/* n cut into pieces of at least `least`, at most MAX_PANELS of them, sizes multiples of 64. */
static int64_t piece_size(int64_t n, int64_t least) {
    int64_t pieces = n / least;
    if (pieces < 1) pieces = 1;
    if (pieces > MAX_PANELS) pieces = MAX_PANELS;
    int64_t size = (n + pieces - 1) / pieces;
    return (size + 63) / 64 * 64;
}

static int piece_count(int64_t n, int64_t size) {
    return (int)((n + size - 1) / size);
}

ft_status ft_onednn_gemm_team(const ft_gemm *g, ft_team *team, ft_error *err) {
    gemm_job job = {.gemm = g, .rows = piece_size(g->m, PANEL_COLUMNS)};
    ft_team_run(team, piece_count(g->m, job.rows), gemm_piece, &job);
    int failed = atomic_load(&job.failed);
    return failed
               ? ft_fail(err, (ft_status)failed, "oneDNN: a product of %lld x %lld x %lld failed",
                         (long long)g->m, (long long)g->n, (long long)g->k)
               : FT_OK;
}

/* -- products with a weight
 * ------------------------------------------------------------------------ */

/* How a product is cut: panels of columns, tiles of rows; the last of each may be smaller. */
typedef struct tiling {
    int64_t columns, rows;
    int panels, tiles;
} tiling;

static tiling tiling_of(const ft_product *p) {
    tiling t;
    t.columns = piece_size(p->n, PANEL_COLUMNS);
    t.panels = piece_count(p->n, t.columns);
    t.tiles = piece_count(p->m, TILE_ROWS);
    int64_t rows = t.tiles ? (p->m + t.tiles - 1) / t.tiles : 1;
    t.rows = (rows + 7) / 8 * 8;
    t.tiles = piece_count(p->m, t.rows);
    return t;
}

static int64_t piece_at(int64_t n, int64_t size, int i) {
    return n - i * size < size ? n - i * size : size;
}

static dnnl_memory_desc_t matrix(int64_t rows, int64_t columns, int64_t row_step,
                                 int64_t column_step) {
    dnnl_memory_desc_t md;
    dnnl_dims_t dims = {rows, columns}, steps = {row_step, column_step};
    dnnl_memory_desc_init_by_strides(&md, 2, dims, dnnl_f32, steps);
    return md;
}

/* The description of a primitive for `rows` x `columns` of the result, with these weights. */
static dnnl_status_t describe(dnnl_primitive_desc_t *out, const ft_product *p, int64_t rows,
                              int64_t columns, const dnnl_memory_desc_t *weight) {
    *out = NULL;
    dnnl_engine_t engine = process_engine();
    if (!engine) return dnnl_runtime_error;
    dnnl_memory_desc_t x = matrix(rows, p->k, p->k, 1), y = matrix(rows, columns, p->n, 1);
    dnnl_memory_desc_t bias = matrix(1, columns, columns, 1);
    dnnl_matmul_desc_t matmul;
    dnnl_status_t rc = dnnl_matmul_desc_init(&matmul, &x, weight, p->bias ? &bias : NULL, &y);
    if (rc != dnnl_success) return rc;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t after = NULL;
    rc = dnnl_primitive_attr_create(&attr);
    if (rc == dnnl_success)
        rc = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (rc == dnnl_success && p->relu) {
        rc = dnnl_post_ops_create(&after);
        if (rc == dnnl_success)
            rc = dnnl_post_ops_append_eltwise(after, 1.0f, dnnl_eltwise_relu, 0.0f, 0.0f);
        if (rc == dnnl_success) rc = dnnl_primitive_attr_set_post_ops(attr, after);
    }
    if (rc == dnnl_success) rc = dnnl_primitive_desc_create(out, &matmul, attr, engine, NULL);
    if (after) dnnl_post_ops_destroy(after);
    if (attr) dnnl_primitive_attr_destroy(attr);
    return rc;
}

/* The layout of a packed panel: what oneDNN chooses for PACK_ROWS rows. */
static dnnl_status_t packed_layout(dnnl_memory_desc_t *out, int64_t k, int64_t columns) {
    ft_product plain = {.m = PACK_ROWS, .n = columns, .k = k};
    dnnl_memory_desc_t any;
    dnnl_dims_t dims = {k, columns};
    dnnl_memory_desc_init_by_tag(&any, 2, dims, dnnl_f32, dnnl_format_tag_any);
    dnnl_primitive_desc_t pd;
    dnnl_status_t rc = describe(&pd, &plain, PACK_ROWS, columns, &any);
    if (rc != dnnl_success) return rc;
    *out = *dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    dnnl_primitive_desc_destroy(pd);
    return dnnl_success;
}

static dnnl_memory_desc_t plain_layout(const ft_product *p, int64_t columns) {
    return p->transposed ? matrix(p->k, columns, 1, p->k) : matrix(p->k, columns, p->n, 1);
}

static int64_t layout_bytes(const dnnl_memory_desc_t *layout) {
    return ((int64_t)dnnl_memory_desc_get_size(layout) + 63) / 64 * 64;
}

/* The cut of a product with the layouts of its panels: [0] all but the last, [1] the last. */
typedef struct layouts {
    tiling tiling;
    dnnl_memory_desc_t weight[2];
} layouts;

static dnnl_status_t choose_layouts(layouts *out, const ft_product *p, bool packed) {
    omp_set_num_threads(1);
    tiling t = out->tiling = tiling_of(p);
    int64_t last = piece_at(p->n, t.columns, t.panels - 1);
    if (!packed) {
        out->weight[0] = plain_layout(p, t.columns);
        out->weight[1] = plain_layout(p, last);
        return dnnl_success;
    }
    dnnl_status_t rc = packed_layout(&out->weight[1], p->k, last);
    out->weight[0] = out->weight[1];
    if (rc == dnnl_success && t.columns != last)
        rc = packed_layout(&out->weight[0], p->k, t.columns);
    return rc;
}

int64_t ft_onednn_packed_bytes(const ft_product *p) {
    if (!p->n || !p->k) return 0;
    layouts l;
    if (choose_layouts(&l, p, true) != dnnl_success) return NO_MACHINE_BYTES;
    return layout_bytes(&l.weight[0]) * (l.tiling.panels - 1) + layout_bytes(&l.weight[1]);
}

/* A piece of a product: its size, and which of the (at most four) sizes of pieces that is. */
typedef struct piece {
    int64_t row, column, rows, columns;
    int kind; /* bit 0: a smaller last tile, bit 1: a smaller last panel */
} piece;

static piece piece_of(const ft_product *p, const tiling *t, int panel, int tile) {
    piece out = {.row = tile * t->rows, .column = panel * t->columns};
    out.rows = piece_at(p->m, t->rows, tile);
    out.columns = piece_at(p->n, t->columns, panel);
    out.kind = (out.rows != t->rows) + 2 * (out.columns != t->columns);
    return out;
}

/* Scratch of one thread: the largest over the sizes of pieces. */
static int64_t thread_scratch(const ft_product *p, const layouts *l) {
    int64_t most = 0;
    bool seen[4] = {false};
    for (int corner = 0; corner < 4; corner++) {
        piece at = piece_of(p, &l->tiling, corner & 1 ? l->tiling.panels - 1 : 0,
                            corner & 2 ? l->tiling.tiles - 1 : 0);
        if (seen[at.kind]) continue;
        seen[at.kind] = true;
        dnnl_primitive_desc_t pd;
        if (describe(&pd, p, at.rows, at.columns, &l->weight[at.kind >> 1]) != dnnl_success)
            return NO_MACHINE_BYTES;
        int64_t bytes = layout_bytes(dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
        dnnl_primitive_desc_destroy(pd);
        if (bytes > most) most = bytes;
    }
    return most;
}

int64_t ft_onednn_work_bytes(const ft_product *p, int team_size) {
    if (!p->m || !p->n || !p->k) return 0;
    int64_t most = 0;
    for (int packed = 0; packed < 2; packed++) {
        layouts l;
        if (choose_layouts(&l, p, packed) != dnnl_success) return NO_MACHINE_BYTES;
        int64_t bytes = thread_scratch(p, &l);
        if (bytes > most) most = bytes;
    }
    return most >= NO_MACHINE_BYTES / team_size ? NO_MACHINE_BYTES : most * team_size;
}

typedef struct product_job {
    const ft_product *product;
    const ft_product_data *data;
    layouts layouts;
    int64_t panel_bytes;  /* of a packed panel that is not the last */
    int64_t thread_bytes; /* of scratch, when there are several threads */
    int n_threads;
    _Atomic int failed; /* a dnnl_status_t */
} product_job;

/* What one thread keeps while it works through its pieces: a primitive for each kind of piece. */
typedef struct worker {
    dnnl_primitive_t primitive[4];
    dnnl_primitive_desc_t described[4];
    dnnl_stream_t stream;
    void *scratch;
} worker;

static void worker_free(worker *w) {
    for (int i = 0; i < 4; i++) {
        if (w->primitive[i]) dnnl_primitive_destroy(w->primitive[i]);
        if (w->described[i]) dnnl_primitive_desc_destroy(w->described[i]);
    }
    if (w->stream) dnnl_stream_destroy(w->stream);
}

static dnnl_status_t worker_prepare(worker *w, const product_job *job, const piece *at) {
    dnnl_status_t rc = dnnl_success;
    if (!w->stream)
        rc = dnnl_stream_create(&w->stream, process_engine(), dnnl_stream_default_flags);
    if (rc != dnnl_success || w->primitive[at->kind]) return rc;
    rc = describe(&w->described[at->kind], job->product, at->rows, at->columns,
                  &job->layouts.weight[at->kind >> 1]);
    if (rc != dnnl_success) return rc;
    return dnnl_primitive_create(&w->primitive[at->kind], w->described[at->kind]);
}

typedef struct argument {
    int name;
    const void *data;
} argument;

/* Runs the primitive on raw memory. */
static dnnl_status_t execute(const worker *w, int kind, const argument *arguments, int n) {
    dnnl_exec_arg_t list[5];
    dnnl_status_t rc = dnnl_success;
    int made = 0;
    for (int i = 0; i < n && rc == dnnl_success; i++) {
        const dnnl_memory_desc_t *md = dnnl_primitive_desc_query_md(
            w->described[kind], dnnl_query_exec_arg_md, arguments[i].name);
        list[i].arg = arguments[i].name;
        rc = dnnl_memory_create(&list[i].memory, md, process_engine(),
                                (void *)(uintptr_t)arguments[i].data);
        made += rc == dnnl_success;
    }
    if (rc == dnnl_success) rc = dnnl_primitive_execute(w->primitive[kind], w->stream, n, list);
    while (made) dnnl_memory_destroy(list[--made].memory);
    return rc;
}

static dnnl_status_t product_piece(worker *w, const product_job *job, int panel, int tile) {
    const ft_product *p = job->product;
    const ft_product_data *d = job->data;
    piece at = piece_of(p, &job->layouts.tiling, panel, tile);
    dnnl_status_t rc = worker_prepare(w, job, &at);
    if (rc != dnnl_success) return rc;
    const void *weight;
    if (d->packed)
        weight = (const char *)d->packed + panel * job->panel_bytes;
    else
        weight = d->weight + (p->transposed ? at.column * p->k : at.column);
    argument arguments[] = {
        {DNNL_ARG_SRC, d->x + at.row * p->k},
        {DNNL_ARG_WEIGHTS, weight},
        {DNNL_ARG_DST, d->y + at.row * p->n + at.column},
        {DNNL_ARG_SCRATCHPAD, w->scratch},
        {DNNL_ARG_BIAS, p->bias ? d->bias + at.column : NULL},
    };
    return execute(w, at.kind, arguments, p->bias ? 5 : 4);
}

/* Thread i of the team does a range of the pieces, panel by panel. */
static void product_share(void *arg, int i) {
    product_job *job = arg;
    const tiling *t = &job->layouts.tiling;
    int64_t pieces = (int64_t)t->panels * t->tiles;
    int64_t start = pieces * i / job->n_threads, end = pieces * (i + 1) / job->n_threads;
    worker w = {.scratch = (char *)job->data->work + i * job->thread_bytes};
    dnnl_status_t rc = dnnl_success;
    omp_set_num_threads(1);
    for (int64_t at = start; at < end && rc == dnnl_success; at++)
        rc = product_piece(&w, job, (int)(at / t->tiles), (int)(at % t->tiles));
    if (rc != dnnl_success) atomic_store(&job->failed, (int)rc);
    worker_free(&w);
}

/* The result when there is nothing to sum. */
static void product_of_nothing(const ft_product *p, const ft_product_data *d) {
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            float y = p->bias ? d->bias[j] : 0.0f;
            d->y[i * p->n + j] = p->relu && y < 0.0f ? 0.0f : y;
        }
}

ft_status ft_onednn_product(const ft_product *p, const ft_product_data *data, ft_team *team,
                            ft_error *err) {
    if (!p->m || !p->n) return FT_OK;
    if (!p->k) {
        product_of_nothing(p, data);
        return FT_OK;
    }
    product_job job = {.product = p, .data = data, .n_threads = ft_team_size(team)};
    dnnl_status_t rc = choose_layouts(&job.layouts, p, data->packed);
    if (rc == dnnl_success) {
        if (data->packed) job.panel_bytes = layout_bytes(&job.layouts.weight[0]);
        if (job.n_threads > 1) job.thread_bytes = thread_scratch(p, &job.layouts);
        ft_team_run(team, job.n_threads, product_share, &job);
        rc = (dnnl_status_t)atomic_load(&job.failed);
    }
    if (rc == dnnl_success) return FT_OK;
    dnnl_failed(err, rc, "matmul");
    return ft_error_wrap(err, "product of %lld x %lld x %lld", (long long)p->m, (long long)p->n,
                         (long long)p->k);
}

/* -- packing
 * ------------------------------------------------------------------------------------------- */

typedef struct pack_job {
    const ft_product *product;
    const float *weight;
    char *packed;
    layouts layouts;
    _Atomic int failed; /* a dnnl_status_t */
} pack_job;

static dnnl_status_t reorder(const dnnl_memory_desc_t *from, const float *weight,
                             const dnnl_memory_desc_t *to, void *packed) {
    dnnl_engine_t engine = process_engine();
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t primitive = NULL;
    dnnl_stream_t stream = NULL;
    dnnl_memory_t source = NULL, target = NULL;
    dnnl_status_t rc = dnnl_reorder_primitive_desc_create(&pd, from, engine, to, engine, NULL);
    if (rc == dnnl_success) rc = dnnl_primitive_create(&primitive, pd);
    if (rc == dnnl_success) rc = dnnl_stream_create(&stream, engine, dnnl_stream_default_flags);
    if (rc == dnnl_success)
        rc = dnnl_memory_create(&source, from, engine, (void *)(uintptr_t)weight);
    if (rc == dnnl_success) rc = dnnl_memory_create(&target, to, engine, packed);
    if (rc == dnnl_success) {
        dnnl_exec_arg_t list[] = {{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, target}};
        rc = dnnl_primitive_execute(primitive, stream, 2, list);
    }
    if (target) dnnl_memory_destroy(target);
    if (source) dnnl_memory_destroy(source);
    if (stream) dnnl_stream_destroy(stream);
    if (primitive) dnnl_primitive_destroy(primitive);
    if (pd) dnnl_primitive_desc_destroy(pd);
    return rc;
}

static void pack_panel(void *arg, int i) {
    pack_job *job = arg;
    const ft_product *p = job->product;
    piece at = piece_of(p, &job->layouts.tiling, i, 0);
    omp_set_num_threads(1);
    dnnl_memory_desc_t from = plain_layout(p, at.columns);
    dnnl_status_t rc = reorder(&from, job->weight + (p->transposed ? at.column * p->k : at.column),
                               &job->layouts.weight[at.kind >> 1],
                               job->packed + i * layout_bytes(&job->layouts.weight[0]));
    if (rc != dnnl_success) atomic_store(&job->failed, (int)rc);
}

ft_status ft_onednn_pack(const ft_product *p, const float *weight, void *packed, ft_team *team,
                         ft_error *err) {
    if (!p->n || !p->k) return FT_OK;
    pack_job job = {.product = p, .weight = weight, .packed = packed};
    dnnl_status_t rc = choose_layouts(&job.layouts, p, true);
    if (rc == dnnl_success) {
        ft_team_run(team, job.layouts.tiling.panels, pack_panel, &job);
        rc = (dnnl_status_t)atomic_load(&job.failed);
    }
    return rc == dnnl_success ? FT_OK : dnnl_failed(err, rc, "packing a weight");
}
