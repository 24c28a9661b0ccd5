/* ops/onednn.c - the only file that calls oneDNN.
 *
 * A product's primitives are made beforehand (ft_onednn_prepare), or for the call, which takes 2 to
 * 3 us when oneDNN has met the same ones: it keeps the last 1024 in a cache of its own, which
 * threads share; the first time costs up to some ms of code generation. Scratch memory is the
 * caller's. The engine is made once and stays, since cached primitives point to it; answers about
 * sizes are kept, since a planner asks for few of them some 100,000 times, at 10 us each. These two
 * are the mutable objects of the room.
 *
 * While oneDNN's generated code runs it may point the stack register into the heap (its issue 4845,
 * mended in 2026): the frame of a signal handler would lie on live data, and an alternate stack
 * does not help. So the library is only called between `enter` and `leave`. */
#include "ops/onednn.h"

#include <oneapi/dnnl/dnnl.h>
#include <omp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/memo.h"
#include "base/thread.h"
#include "ops/blocks.h"
#include "ops/ops.h"

enum {
    GEMM_ROWS = 256, /* least rows, or columns, of a piece of a general product */
    GEMM_FEW = 4,    /* up to so many pieces are made of those, */
    GEMM_MANY = 16,  /* and up to so many of GEMM_FEW times as many rows */
    TILE_ROWS = 128, /* rows of a tile of a product with a weight, if bits depend on them */
    PACK_ROWS = 64,  /* the m for which layouts are asked */
};
#define NO_MACHINE_BYTES (INT64_C(1) << 50)

void ft_ops_thread_init(void)
{
    omp_set_num_threads(1);
}

/* Around every use of the library: its thread is the caller's alone, which takes no signals. */
static void enter(ft_signals *signals)
{
    omp_set_num_threads(1); /* of the calling thread, which may be a helper of a team */
    ft_signals_hold(signals);
}

static void leave(const ft_signals *signals)
{
    ft_signals_release(signals);
}

/* Instruction sets are sets of bits: each has those of the ones that it contains. */
bool ft_ops_have_bf16(void)
{
    const unsigned wanted = dnnl_cpu_isa_avx512_core_bf16;
    return ((unsigned)dnnl_get_effective_cpu_isa() & wanted) == wanted;
}

void ft_ops_library(char *out, int size)
{
    const dnnl_version_t *version = dnnl_version();
    snprintf(out, (size_t)size, "oneDNN %d.%d.%d", version->major, version->minor, version->patch);
}

static ft_status dnnl_failed(ft_error *err, dnnl_status_t status, const char *what)
{
    return ft_fail(err, status == dnnl_out_of_memory ? FT_NOMEM : FT_DEVICE,
                   "oneDNN: %s failed with status %d", what, (int)status);
}

/* The engine of this process, or NULL when oneDNN has none. */
static dnnl_engine_t process_engine(void)
{
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

static void scale_rows(const ft_gemm *g)
{
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++)
            g->c[i * g->ldc + j] = g->beta == 0.0f ? 0.0f : g->beta * g->c[i * g->ldc + j];
}

ft_status ft_onednn_gemm(const ft_gemm *g, ft_error *err)
{
    if (!g->m || !g->n) return FT_OK;
    if (!g->k) {
        scale_rows(g);
        return FT_OK;
    }
    ft_signals signals;
    enter(&signals);
    dnnl_status_t rc =
        dnnl_sgemm(g->transpose_a ? 'T' : 'N', g->transpose_b ? 'T' : 'N', g->m, g->n, g->k,
                   g->alpha, g->a, g->lda, g->b, g->ldb, g->beta, g->c, g->ldc);
    leave(&signals);
    return rc == dnnl_success ? FT_OK : dnnl_failed(err, rc, "sgemm");
}

typedef struct gemm_job {
    const ft_gemm *gemm;
    bool columns; /* are cut, else rows */
    int64_t size; /* rows or columns of c in one piece */
    _Atomic int failed;
} gemm_job;

static void gemm_piece(void *arg, int i)
{
    gemm_job *job = arg;
    ft_gemm g = *job->gemm;
    int64_t start = i * job->size, *extent = job->columns ? &g.n : &g.m;
    *extent = *extent - start < job->size ? *extent - start : job->size;
    if (job->columns)
        g.b += start * (g.transpose_b ? g.ldb : 1);
    else
        g.a += start * (g.transpose_a ? 1 : g.lda);
    g.c += start * (job->columns ? 1 : g.ldc);
    ft_status status = ft_onednn_gemm(&g, NULL);
    if (status != FT_OK) atomic_store(&job->failed, (int)status);
}

static int piece_count(int64_t n, int64_t size)
{
    return (int)((n + size - 1) / size);
}

/* Rows or columns of a piece of m, whatever the team. Each piece reads and packs all of the other
 * matrix, so that many small ones cost time, and that one should be the smaller. */
static int64_t gemm_piece_size(int64_t m)
{
    int64_t few = m / GEMM_ROWS, many = m / (GEMM_ROWS * GEMM_FEW);
    int64_t pieces = few < GEMM_FEW ? few : many < GEMM_FEW ? GEMM_FEW : many;
    if (pieces < 1) pieces = 1;
    if (pieces > GEMM_MANY) pieces = GEMM_MANY;
    return ((m + pieces - 1) / pieces + 63) / 64 * 64;
}

ft_status ft_onednn_gemm_team(const ft_gemm *g, ft_team *team, ft_error *err)
{
    gemm_job job = {.gemm = g, .columns = g->n > g->m};
    int64_t extent = job.columns ? g->n : g->m;
    job.size = gemm_piece_size(extent);
    ft_team_run(team, piece_count(extent, job.size), gemm_piece, &job);
    int failed = atomic_load(&job.failed);
    return failed
               ? ft_fail(err, (ft_status)failed, "oneDNN: a product of %lld x %lld x %lld failed",
                         (long long)g->m, (long long)g->n, (long long)g->k)
               : FT_OK;
}

/* -- products with a weight -------------------------------------------------------------------- */

static dnnl_memory_desc_t matrix(dnnl_data_type_t type, int64_t rows, int64_t columns,
                                 int64_t row_step, int64_t column_step)
{
    dnnl_memory_desc_t md;
    dnnl_dims_t dims = {rows, columns}, steps = {row_step, column_step};
    dnnl_memory_desc_init_by_strides(&md, 2, dims, type, steps);
    return md;
}

static dnnl_data_type_t operand_type(const ft_product *p)
{
    return p->bf16 ? dnnl_bf16 : dnnl_f32;
}

/* Our scratch memory; adding to y and relu after the product if asked. */
static dnnl_status_t attributes(dnnl_primitive_attr_t *out, const ft_product *p)
{
    dnnl_post_ops_t after = NULL;
    dnnl_status_t rc = dnnl_primitive_attr_create(out);
    if (rc == dnnl_success)
        rc = dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user);
    if (rc != dnnl_success || !(p->relu || p->add)) return rc;
    rc = dnnl_post_ops_create(&after);
    if (rc == dnnl_success && p->add) rc = dnnl_post_ops_append_sum(after, 1.0f);
    if (rc == dnnl_success && p->relu)
        rc = dnnl_post_ops_append_eltwise(after, 1.0f, dnnl_eltwise_relu, 0.0f, 0.0f);
    if (rc == dnnl_success) rc = dnnl_primitive_attr_set_post_ops(*out, after);
    if (after) dnnl_post_ops_destroy(after);
    return rc;
}

/* The description of a primitive for `rows` rows of the result. *out is NULL on failure. */
static dnnl_status_t describe(dnnl_primitive_desc_t *out, const ft_product *p, int64_t rows,
                              const dnnl_memory_desc_t *weight)
{
    *out = NULL;
    dnnl_engine_t engine = process_engine();
    if (!engine) return dnnl_runtime_error;
    dnnl_data_type_t type = operand_type(p);
    dnnl_memory_desc_t x =
        p->x_transposed ? matrix(type, rows, p->k, 1, p->m) : matrix(type, rows, p->k, p->k, 1);
    dnnl_memory_desc_t y = matrix(dnnl_f32, rows, p->n, p->y_step ? p->y_step : p->n, 1);
    dnnl_memory_desc_t bias = matrix(dnnl_f32, 1, p->n, p->n, 1);
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t rc = dnnl_matmul_desc_init(&matmul, &x, weight, p->bias ? &bias : NULL, &y);
    if (rc == dnnl_success) rc = attributes(&attr, p);
    if (rc == dnnl_success) rc = dnnl_primitive_desc_create(out, &matmul, attr, engine, NULL);
    if (attr) dnnl_primitive_attr_destroy(attr);
    return rc;
}

static dnnl_memory_desc_t plain_layout(const ft_product *p, dnnl_data_type_t type)
{
    return p->transposed ? matrix(type, p->k, p->n, 1, p->k) : matrix(type, p->k, p->n, p->n, 1);
}

/* A packed weight starts with its layout, so that a product need not ask for it again. */
typedef struct packed_weight {
    _Alignas(64) dnnl_memory_desc_t layout;
    _Alignas(64) char data[];
} packed_weight;

/* The layout of a packed weight: what oneDNN chooses for PACK_ROWS rows without post-operations. */
static dnnl_status_t packed_layout(dnnl_memory_desc_t *out, const ft_product *p)
{
    ft_product bare = {.n = p->n, .k = p->k, .bf16 = p->bf16};
    dnnl_memory_desc_t any;
    dnnl_dims_t dims = {p->k, p->n};
    dnnl_memory_desc_init_by_tag(&any, 2, dims, operand_type(p), dnnl_format_tag_any);
    dnnl_primitive_desc_t pd;
    dnnl_status_t rc = describe(&pd, &bare, PACK_ROWS, &any);
    if (rc != dnnl_success) return rc;
    *out = *dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    dnnl_primitive_desc_destroy(pd);
    return dnnl_success;
}

static int64_t layout_bytes(const dnnl_memory_desc_t *layout)
{
    return ((int64_t)dnnl_memory_desc_get_size(layout) + 63) / 64 * 64;
}

/* Whether rows may be cut anywhere without a change of bits. Seen, not promised by oneDNN: 2.6.3's
 * AVX-512 batch-reduce kernels, f32 and bf16, gave the same bits for every number of rows tried (1
 * to 704); with a transposed x they did not, nor did its AVX2 ones (gemm:jit) and those of AMX. The
 * tests compare teams of 1 to 3. */
static bool rows_are_independent(const_dnnl_primitive_desc_t pd)
{
    const char *name = NULL;
    dnnl_status_t rc = dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    return rc == dnnl_success && strncmp(name, "brg", 3) == 0 && !strstr(name, "amx");
}

static int64_t scratch_of(const_dnnl_primitive_desc_t pd)
{
    return layout_bytes(dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
}

/* Tiles of one number of rows. */
typedef struct tile_kind {
    dnnl_primitive_desc_t described;
    dnnl_primitive_t primitive;
} tile_kind;

/* The rows are cut into n_tiles of `rows` rows; the last one may have fewer. */
struct ft_prepared {
    dnnl_memory_desc_t weight;
    int64_t rows, last_rows;
    int n_tiles, n_threads;
    int64_t scratch_bytes; /* of one thread */
    tile_kind usual, last; /* last: when it has fewer rows than the others */
};

static void prepared_fini(ft_prepared *t)
{
    tile_kind *kinds[] = {&t->usual, &t->last};
    for (int i = 0; i < 2; i++) {
        if (kinds[i]->primitive) dnnl_primitive_destroy(kinds[i]->primitive);
        if (kinds[i]->described) dnnl_primitive_desc_destroy(kinds[i]->described);
    }
}

static dnnl_status_t describe_tiles(ft_prepared *t, const ft_product *p)
{
    dnnl_status_t rc = dnnl_success;
    if (!t->usual.described) rc = describe(&t->usual.described, p, t->rows, &t->weight);
    if (rc == dnnl_success && t->last_rows != t->rows)
        rc = describe(&t->last.described, p, t->last_rows, &t->weight);
    if (rc != dnnl_success) return rc;
    t->scratch_bytes = scratch_of(t->usual.described);
    if (t->last.described && scratch_of(t->last.described) > t->scratch_bytes)
        t->scratch_bytes = scratch_of(t->last.described);
    return dnnl_success;
}

/* Describes the tiles of a product with a weight in t->weight's layout; prepared_fini frees what
 * was made, also after a failure. */
static dnnl_status_t cut_rows(ft_prepared *t, const ft_product *p, int n_threads)
{
    dnnl_primitive_desc_t whole;
    dnnl_status_t rc = describe(&whole, p, p->m, &t->weight);
    if (rc != dnnl_success) return rc;
    t->n_threads = n_threads;
    t->rows = TILE_ROWS;
    if (p->x_transposed)
        t->rows = gemm_piece_size(p->m);
    else if (rows_are_independent(whole))
        t->rows = (p->m + n_threads - 1) / n_threads;
    t->n_tiles = piece_count(p->m, t->rows);
    t->last_rows = p->m - (t->n_tiles - 1) * t->rows;
    if (t->n_tiles == 1) {
        t->rows = t->last_rows;
        t->usual.described = whole;
    } else {
        dnnl_primitive_desc_destroy(whole);
    }
    return describe_tiles(t, p);
}

/* As cut_rows, ready to run. */
static dnnl_status_t prepare(ft_prepared *t, const ft_product *p, int n_threads)
{
    dnnl_status_t rc = cut_rows(t, p, n_threads);
    if (rc == dnnl_success) rc = dnnl_primitive_create(&t->usual.primitive, t->usual.described);
    if (rc == dnnl_success && t->last.described)
        rc = dnnl_primitive_create(&t->last.primitive, t->last.described);
    return rc;
}

/* -- sizes --------------------------------------------------------------------------------------
 */

/* All that a size depends on; fields of one type, so that it can be compared as bytes. */
typedef struct size_key {
    int64_t m, n, k, y_step, flags, threads; /* threads 0: of the packed weight, whatever m is */
} size_key;

_Static_assert(sizeof(size_key) <= FT_MEMO_KEY, "sizes are remembered by their keys");

static ft_memo *known_sizes(void)
{
    static ft_memo sizes = FT_MEMO_EMPTY;
    return &sizes;
}

/* Of the scratch memory of a team, or of the packed weight (threads 0); -1 when oneDNN failed. */
static int64_t ask_size(const ft_product *p, int threads)
{
    int64_t most = 0;
    dnnl_memory_desc_t layout;
    dnnl_status_t rc = packed_layout(&layout, p);
    if (!threads)
        return rc == dnnl_success ? (int64_t)sizeof(packed_weight) + layout_bytes(&layout) : -1;
    for (int packed = 0; packed < 2; packed++) {
        ft_prepared t = {.weight = packed ? layout : plain_layout(p, operand_type(p))};
        if (rc == dnnl_success) rc = cut_rows(&t, p, threads);
        prepared_fini(&t);
        if (rc != dnnl_success) return -1;
        if (t.scratch_bytes > most) most = t.scratch_bytes;
    }
    return most < NO_MACHINE_BYTES / threads ? most * threads : -1;
}

static int64_t find_size(const ft_product *p, int threads)
{
    int64_t flags = p->transposed | p->bias << 1 | p->relu << 2 | p->bf16 << 3 |
                    p->x_transposed << 4 | p->add << 5;
    const size_key all = {p->m, p->n, p->k, p->y_step, flags, threads};
    const ft_memo_key key = ft_memo_key_of(&all, sizeof all);
    ft_signals signals;
    int64_t bytes = -1;
    enter(&signals);
    if (!ft_memo_find(known_sizes(), &key, &bytes)) {
        bytes = ask_size(p, threads);
        if (bytes >= 0) ft_memo_keep(known_sizes(), &key, bytes);
    }
    leave(&signals);
    return bytes < 0 ? NO_MACHINE_BYTES : bytes;
}

int64_t ft_onednn_packed_bytes(const ft_product *p)
{
    const ft_product bare = {.n = p->n, .k = p->k, .bf16 = p->bf16};
    return p->n && p->k ? find_size(&bare, 0) : 0;
}

int64_t ft_onednn_work_bytes(const ft_product *p, int team_size)
{
    return p->m && p->n && p->k ? find_size(p, team_size) : 0;
}

static ft_status product_failed(const ft_product *p, dnnl_status_t rc, ft_error *err)
{
    dnnl_failed(err, rc, "matmul");
    return ft_error_wrap(err, "product of %lld x %lld x %lld", (long long)p->m, (long long)p->n,
                         (long long)p->k);
}

ft_status ft_onednn_prepare(ft_prepared **out, const ft_product *p, bool packed, int team_size,
                            ft_error *err)
{
    *out = NULL;
    if (!p->m || !p->n || !p->k) return FT_OK;
    ft_prepared *t = ft_alloc(sizeof *t);
    if (!t) return ft_fail(err, FT_NOMEM, "oneDNN: no memory for a product");
    ft_signals signals;
    enter(&signals);
    t->weight = plain_layout(p, operand_type(p));
    dnnl_status_t rc = packed ? packed_layout(&t->weight, p) : dnnl_success;
    if (rc == dnnl_success) rc = prepare(t, p, team_size);
    leave(&signals);
    if (rc == dnnl_success) {
        *out = t;
        return FT_OK;
    }
    ft_onednn_forget(t);
    return product_failed(p, rc, err);
}

void ft_onednn_forget(ft_prepared *prepared)
{
    if (!prepared) return;
    prepared_fini(prepared);
    ft_free(prepared);
}

typedef struct product_job {
    const ft_product *product;
    const ft_product_data *data;
    const void *weight; /* packed or plain, as prepared->weight says */
    const ft_prepared *prepared;
    _Atomic int failed; /* a dnnl_status_t */
} product_job;

typedef struct argument {
    int name;
    const void *data;
} argument;

static dnnl_status_t execute(const tile_kind *kind, dnnl_stream_t stream, const argument *arguments,
                             int n)
{
    dnnl_exec_arg_t list[5];
    dnnl_status_t rc = dnnl_success;
    int made = 0;
    for (int i = 0; i < n && rc == dnnl_success; i++) {
        const dnnl_memory_desc_t *md = dnnl_primitive_desc_query_md(
            kind->described, dnnl_query_exec_arg_md, arguments[i].name);
        list[i].arg = arguments[i].name;
        rc = dnnl_memory_create(&list[i].memory, md, process_engine(),
                                (void *)(uintptr_t)arguments[i].data);
        made += rc == dnnl_success;
    }
    if (rc == dnnl_success) rc = dnnl_primitive_execute(kind->primitive, stream, n, list);
    while (made) dnnl_memory_destroy(list[--made].memory);
    return rc;
}

static dnnl_status_t run_tile(const product_job *job, int tile, dnnl_stream_t stream, void *scratch)
{
    const ft_product *p = job->product;
    const ft_product_data *d = job->data;
    const ft_prepared *t = job->prepared;
    bool short_one = t->last.primitive && tile == t->n_tiles - 1;
    int64_t row = tile * t->rows, x_bytes = p->bf16 ? 2 : 4;
    const argument arguments[] = {
        {DNNL_ARG_SRC, (const char *)d->x + row * x_bytes * (p->x_transposed ? 1 : p->k)},
        {DNNL_ARG_WEIGHTS, job->weight},
        {DNNL_ARG_DST, d->y + row * (p->y_step ? p->y_step : p->n)},
        {DNNL_ARG_SCRATCHPAD, scratch},
        {DNNL_ARG_BIAS, d->bias},
    };
    return execute(short_one ? &t->last : &t->usual, stream, arguments, p->bias ? 5 : 4);
}

/* Thread i of the team does a range of the tiles. Thread 0 has entered, the others take no signals.
 */
static void product_share(void *arg, int i)
{
    product_job *job = arg;
    const ft_prepared *t = job->prepared;
    int start = (int)((int64_t)t->n_tiles * i / t->n_threads);
    int end = (int)((int64_t)t->n_tiles * (i + 1) / t->n_threads);
    if (start == end) return;
    char *scratch = (char *)job->data->work + i * t->scratch_bytes;
    dnnl_stream_t stream = NULL;
    omp_set_num_threads(1);
    dnnl_status_t rc = dnnl_stream_create(&stream, process_engine(), dnnl_stream_default_flags);
    for (int tile = start; tile < end && rc == dnnl_success; tile++)
        rc = run_tile(job, tile, stream, scratch);
    if (stream) dnnl_stream_destroy(stream);
    if (rc != dnnl_success) atomic_store(&job->failed, (int)rc);
}

/* The result when there is nothing to sum. */
static void product_of_nothing(const ft_product *p, const ft_product_data *d)
{
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            float y = p->bias ? d->bias[j] : 0.0f;
            d->y[i * p->n + j] = p->relu && y < 0.0f ? 0.0f : y;
        }
}

ft_status ft_onednn_product(const ft_product *p, const ft_product_data *data, ft_team *team,
                            ft_error *err)
{
    if (!p->m || !p->n) return FT_OK;
    if (!p->k) {
        product_of_nothing(p, data);
        return FT_OK;
    }
    ft_signals signals;
    enter(&signals);
    const packed_weight *packed = data->packed;
    ft_prepared own = {.n_threads = 0};
    product_job job = {.product = p, .data = data, .prepared = data->prepared};
    dnnl_status_t rc = dnnl_success;
    job.weight = packed ? (const void *)packed->data : data->weight;
    if (!job.prepared) {
        own.weight = packed ? packed->layout : plain_layout(p, operand_type(p));
        rc = prepare(&own, p, ft_team_size(team));
        job.prepared = &own;
    }
    if (rc == dnnl_success) {
        ft_team_run(team, job.prepared->n_threads, product_share, &job);
        rc = (dnnl_status_t)atomic_load(&job.failed);
    }
    prepared_fini(&own);
    leave(&signals);
    return rc == dnnl_success ? FT_OK : product_failed(p, rc, err);
}

/* -- packing ----------------------------------------------------------------------------------- */

static dnnl_status_t reorder(const dnnl_memory_desc_t *from, const float *weight,
                             const dnnl_memory_desc_t *to, void *packed)
{
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

/* Whether we pack it ourselves (ops/blocks.h). */
static bool is_in_blocks(const dnnl_memory_desc_t *layout)
{
    dnnl_memory_desc_t blocks;
    const dnnl_format_tag_t tag = layout->data_type == dnnl_bf16 ? dnnl_BA16a64b2a : dnnl_BA16a64b;
    return dnnl_memory_desc_init_by_tag(&blocks, 2, layout->dims, layout->data_type, tag) ==
               dnnl_success &&
           dnnl_memory_desc_equal(layout, &blocks);
}

ft_status ft_onednn_pack(const ft_product *p, const float *weight, void *packed, ft_team *team,
                         ft_error *err)
{
    if (!p->n || !p->k) return FT_OK;
    ft_signals signals;
    enter(&signals);
    packed_weight *target = packed;
    dnnl_memory_desc_t from = plain_layout(p, dnnl_f32);
    dnnl_status_t rc = packed_layout(&target->layout, p);
    bool in_blocks = rc == dnnl_success && is_in_blocks(&target->layout);
    if (rc == dnnl_success && !in_blocks)
        rc = reorder(&from, weight, &target->layout, target->data);
    leave(&signals);
    if (in_blocks) ft_blocks_pack(p, weight, target->data, team);
    return rc == dnnl_success ? FT_OK : dnnl_failed(err, rc, "packing a weight");
}
