/* ops/attention_kernel.c - attention and its gradient, a block of queries at a time.
 *
 * A thread takes whole heads of samples; of a head it holds the scores of FT_ATTENTION_ROWS queries
 * against the keys that they may look at, never more. The bias is one line of numbers per head,
 * indexed by j - i: query i reads a window of it. Keys after the last unmasked one are left out.
 * Each head's results depend on that head alone, and the table's gradient is summed over samples in
 * order, so the team's size does not show in the bits. */
#include "ops/attention.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "ops/onednn.h"

/* Where things lie in the call's workspace, in bytes from its start. */
typedef struct layout {
    int64_t line;    /* floats of one head's line of biases: Tq + Tk - 1, rounded up */
    int64_t ld;      /* floats from one query's scores to the next */
    int64_t mask_ld; /* floats of one sample's mask line */
    int64_t buckets, lines, masks, limits, parts, threads;
    int64_t scores, grads, bits, line_grad; /* inside a thread's share */
    int64_t thread_bytes, bytes;
} layout;

static int64_t take(int64_t *end, int64_t bytes)
{
    int64_t start = *end;
    *end += (bytes + 63) / 64 * 64;
    return start;
}

static layout layout_of(const ft_attention *a, bool grad, int n_threads)
{
    layout l = {.line = (a->Tq + a->Tk + 15) / 16 * 16,
                .ld = (a->Tk + 15) / 16 * 16 + 16,
                .mask_ld = (a->Tk + 15) / 16 * 16};
    int64_t block = FT_ATTENTION_ROWS * l.ld * 4, line = a->R ? l.line * 4 : 0;
    l.buckets = take(&l.bytes, line);
    l.lines = take(&l.bytes, line * a->H);
    l.masks = take(&l.bytes, a->B * l.mask_ld * 4);
    l.limits = take(&l.bytes, a->B * 8);
    l.parts = take(&l.bytes, grad ? a->B * a->H * a->R * 4 : 0);
    l.threads = l.bytes;
    l.scores = take(&l.thread_bytes, block);
    l.grads = take(&l.thread_bytes, grad ? block : 0);
    l.bits = take(&l.thread_bytes, a->threshold ? (a->Tk / 64 + 2) * 8 : 0);
    l.line_grad = take(&l.thread_bytes, grad ? line : 0);
    l.bytes += l.thread_bytes * n_threads;
    return l;
}

int64_t ft_attention_work(const ft_attention *a, int team_size)
{
    return layout_of(a, false, team_size).bytes;
}

int64_t ft_attention_grad_work(const ft_attention *a, int team_size)
{
    return layout_of(a, true, team_size).bytes;
}

/* One call. Pointers of the gradient are NULL in the forward row. */
typedef struct attention_job {
    const ft_call *call;
    const ft_simd *simd;
    ft_attention a;
    layout at;
    int n_threads;
    const float *q, *k, *v, *table;
    const int32_t *mask;
    float *y, *lse;
    const float *dy, *y_in, *lse_in;
    float *dq, *dk, *dv;
    _Atomic int failed; /* an ft_status */
} attention_job;

static void *work_at(const attention_job *job, int64_t offset)
{
    return (char *)job->call->work + offset;
}

/* Biases of all heads by distance, and the bucket of each distance. */
static void fill_lines(const attention_job *job)
{
    const ft_attention *a = &job->a;
    if (!job->table) return;
    int32_t *buckets = work_at(job, job->at.buckets);
    float *lines = work_at(job, job->at.lines);
    for (int64_t n = 0; n < a->Tq + a->Tk - 1; n++)
        buckets[n] = ft_relative_bucket(n - (a->Tq - 1) - a->offset, a->R, a->max_distance,
                                        a->bidirectional);
    for (int64_t h = 0; h < a->H; h++)
        for (int64_t n = 0; n < a->Tq + a->Tk - 1; n++)
            lines[h * job->at.line + n] = job->table[buckets[n] * a->H + h];
}

/* Masks as what is added to a score, and one past the last key that any query sees. */
static void fill_masks(const attention_job *job)
{
    const ft_attention *a = &job->a;
    int64_t *limits = work_at(job, job->at.limits);
    for (int64_t b = 0; b < a->B; b++) {
        limits[b] = a->Tk;
        if (!job->mask) continue;
        limits[b] = 0;
        float *line = (float *)work_at(job, job->at.masks) + b * job->at.mask_ld;
        for (int64_t j = 0; j < a->Tk; j++) {
            bool keep = job->mask[b * a->Tk + j] != 0;
            line[j] = keep ? 0.0f : -INFINITY;
            if (keep) limits[b] = j + 1;
        }
    }
}

/* One head of one sample, as a thread works on it. */
typedef struct head {
    const attention_job *job;
    int64_t b, h, step;       /* step: elements from one position to the next */
    int64_t first_q, first_k; /* number of the head's first element in q and in k */
    int64_t limit;
    const float *mask, *line;
    float *scores, *grads, *line_grad;
    uint64_t *bits;
    ft_dropout_draw draw;
} head;

static head head_of(const attention_job *job, int64_t number, int thread)
{
    const ft_attention *a = &job->a;
    const layout *at = &job->at;
    int64_t b = number / a->H, h = number % a->H, share = at->threads + thread * at->thread_bytes;
    head out = {.job = job, .b = b, .h = h, .step = a->H * a->D};
    out.first_q = b * a->Tq * out.step + h * a->D;
    out.first_k = b * a->Tk * out.step + h * a->D;
    out.limit = ((const int64_t *)work_at(job, at->limits))[b];
    if (job->mask) out.mask = (const float *)work_at(job, at->masks) + b * at->mask_ld;
    if (job->table) out.line = (const float *)work_at(job, at->lines) + h * at->line;
    out.scores = work_at(job, share + at->scores);
    out.grads = work_at(job, share + at->grads);
    out.line_grad = work_at(job, share + at->line_grad);
    out.bits = work_at(job, share + at->bits);
    if (a->threshold)
        out.draw =
            ft_dropout_draw_of(&job->call->key, job->call->key.sample + (uint32_t)b, a->threshold);
    return out;
}

/* What is added to query i's scores, or NULL. */
static const float *bias_of(const head *hd, int64_t i)
{
    return hd->line ? hd->line + hd->job->a.Tq - 1 - i : NULL;
}

static int64_t keys_of(const head *hd, int64_t i)
{
    int64_t keys = ft_attention_keys(&hd->job->a, i);
    return keys < hd->limit ? keys : hd->limit;
}

/* Draws which of query i's probabilities are kept. */
static void draw_row(const head *hd, int64_t i, int64_t n)
{
    const ft_attention *a = &hd->job->a;
    uint64_t start = (uint64_t)((hd->h * a->Tq + i) * a->Tk);
    hd->job->simd->random->keep_bits(hd->bits, &hd->draw, start, n);
}

/* out = scale * x y^T, for sizes[0] positions of x against sizes[1] of y. */
static ft_status block_scores(const head *hd, const float *x, const float *y, float scale,
                              float *out, const int64_t sizes[2])
{
    const attention_job *job = hd->job;
    return ft_onednn_gemm(&(ft_gemm){.m = sizes[0],
                                     .n = sizes[1],
                                     .k = job->a.D,
                                     .a = x,
                                     .lda = hd->step,
                                     .b = y,
                                     .ldb = hd->step,
                                     .transpose_b = true,
                                     .c = out,
                                     .ldc = job->at.ld,
                                     .alpha = scale,
                                     .beta = 0.0f},
                          NULL);
}

/* -- forward --------------------------------------------------------------------------------------
 */

/* Turns the scores of query i into kept probabilities times the returned factor's inverse. */
static float forward_row(const head *hd, int64_t i, float *s, int64_t n)
{
    const attention_job *job = hd->job;
    const ft_attention *a = &job->a;
    float *lse = &job->lse[(hd->b * a->H + hd->h) * a->Tq + i];
    *lse = 0.0f;
    float most = job->simd->attention->scores(s, bias_of(hd, i), hd->mask, n);
    if (most == -INFINITY) {
        memset(s, 0, (size_t)n * sizeof *s);
        return 0.0f;
    }
    float sum = job->simd->attention->exps(s, most, n);
    *lse = most + logf(sum);
    if (!a->threshold) return 1.0f / sum;
    draw_row(hd, i, n);
    job->simd->random->apply(s, s, NULL, hd->bits, ft_dropout_scale(a->threshold), n);
    return 1.0f / sum;
}

static ft_status forward_block(const head *hd, int64_t first, int64_t rows)
{
    const attention_job *job = hd->job;
    const ft_attention *a = &job->a;
    const ft_simd_attention *simd = job->simd->attention;
    const float *q = job->q + hd->first_q + first * hd->step, *k = job->k + hd->first_k;
    const float *v = job->v + hd->first_k;
    float *y = job->y + hd->first_q + first * hd->step, factors[FT_ATTENTION_ROWS];
    int64_t n = keys_of(hd, first + rows - 1);
    if (rows == 1) {
        simd->dots(hd->scores, q, k, hd->step, a->D, n);
        job->simd->math->scale(hd->scores, hd->scores, (float)a->scale, n);
    } else
        FT_TRY(block_scores(hd, q, k, (float)a->scale, hd->scores, (int64_t[]){rows, n}));
    for (int64_t r = 0; r < rows; r++) {
        float *s = hd->scores + r * job->at.ld;
        int64_t keys = keys_of(hd, first + r);
        factors[r] = forward_row(hd, first + r, s, keys);
        memset(s + keys, 0, (size_t)(n - keys) * sizeof *s);
    }
    if (rows == 1)
        simd->mix(y, hd->scores, v, hd->step, a->D, n);
    else
        FT_TRY(ft_onednn_gemm(&(ft_gemm){.m = rows,
                                         .n = a->D,
                                         .k = n,
                                         .a = hd->scores,
                                         .lda = job->at.ld,
                                         .b = v,
                                         .ldb = hd->step,
                                         .c = y,
                                         .ldc = hd->step,
                                         .alpha = 1.0f,
                                         .beta = 0.0f},
                              NULL));
    for (int64_t r = 0; r < rows; r++)
        job->simd->math->scale(y + r * hd->step, y + r * hd->step, factors[r], a->D);
    return FT_OK;
}

/* Calls `block` for all blocks of the heads that are this thread's. */
static ft_status share_of(const attention_job *job, int thread,
                          ft_status (*block)(const head *hd, int64_t first, int64_t rows),
                          void (*before)(const head *hd), void (*after)(const head *hd))
{
    int64_t heads = job->a.B * job->a.H, Tq = job->a.Tq;
    int64_t end = heads * (thread + 1) / job->n_threads;
    for (int64_t number = heads * thread / job->n_threads; number < end; number++) {
        head hd = head_of(job, number, thread);
        if (before) before(&hd);
        for (int64_t first = 0; first < Tq; first += FT_ATTENTION_ROWS) {
            int64_t rows = Tq - first < FT_ATTENTION_ROWS ? Tq - first : FT_ATTENTION_ROWS;
            FT_TRY(block(&hd, first, rows));
        }
        if (after) after(&hd);
    }
    return FT_OK;
}

static void forward_share(void *arg, int thread)
{
    attention_job *job = arg;
    ft_status status = share_of(job, thread, forward_block, NULL, NULL);
    if (status != FT_OK) atomic_store(&job->failed, (int)status);
}

/* Prepares what threads share, lets the team work, and reports. */
static ft_status run_job(attention_job *job, void (*share)(void *arg, int thread), ft_error *err)
{
    fill_lines(job);
    fill_masks(job);
    ft_team_run(job->call->team, job->n_threads, share, job);
    int failed = atomic_load(&job->failed);
    return failed ? ft_fail(err, (ft_status)failed,
                            "attention: a product of %lld queries and %lld keys failed",
                            (long long)job->a.Tq, (long long)job->a.Tk)
                  : FT_OK;
}

ft_status ft_attention_kernel(const ft_call *call, ft_error *err)
{
    attention_job job = {.call = call,
                         .simd = ft_simd_get(),
                         .a = ft_attention_of_call(call),
                         .n_threads = ft_team_size(call->team),
                         .q = ft_in(call, 0),
                         .k = ft_in(call, 1),
                         .v = ft_in(call, 2),
                         .mask = ft_ids(call, 3),
                         .table = ft_in(call, 4),
                         .y = ft_out(call, 0),
                         .lse = ft_out(call, 1)};
    job.at = layout_of(&job.a, false, job.n_threads);
    return run_job(&job, forward_share, err);
}

/* -- gradient --------------------------------------------------------------------------------- */

/* dk and dv are summed over blocks of queries, which need not reach all keys. */
static void backward_begin(const head *hd)
{
    const ft_attention *a = &hd->job->a;
    for (int64_t j = 0; j < a->Tk; j++) {
        memset(hd->job->dk + hd->first_k + j * hd->step, 0, (size_t)a->D * sizeof(float));
        memset(hd->job->dv + hd->first_k + j * hd->step, 0, (size_t)a->D * sizeof(float));
    }
    if (hd->line) memset(hd->line_grad, 0, (size_t)hd->job->at.line * sizeof(float));
}

/* From scores s and dy.v products dp of query i: kept probabilities in s, gradients of scores in
 * dp. */
static void backward_row(const head *hd, int64_t i, float *s, float *dp, int64_t n)
{
    const attention_job *job = hd->job;
    const ft_attention *a = &job->a;
    const ft_simd *simd = job->simd;
    int64_t at = hd->first_q + i * hd->step;
    float lse = job->lse_in[(hd->b * a->H + hd->h) * a->Tq + i];
    float delta = simd->attention->dot(job->dy + at, job->y_in + at, a->D);
    simd->attention->probabilities(s, bias_of(hd, i), hd->mask, lse, n);
    if (a->threshold) {
        draw_row(hd, i, n);
        simd->random->apply(dp, dp, NULL, hd->bits, ft_dropout_scale(a->threshold), n);
    }
    simd->attention->score_grads(dp, s, delta, n);
    if (a->threshold) simd->random->apply(s, s, NULL, hd->bits, ft_dropout_scale(a->threshold), n);
    if (!hd->line) return;
    float *window = hd->line_grad + a->Tq - 1 - i;
    simd->math->map2[FT_MAP_ADD](window, window, dp, n);
}

/* The three products of a block with finished rows: dv += p^T dy, dq = ds k, dk += ds^T q. */
static ft_status backward_products(const head *hd, int64_t first, int64_t rows, int64_t n)
{
    const attention_job *job = hd->job;
    int64_t at = hd->first_q + first * hd->step, D = job->a.D;
    float scale = (float)job->a.scale;
    FT_TRY(ft_onednn_gemm(&(ft_gemm){.m = n,
                                     .n = D,
                                     .k = rows,
                                     .a = hd->scores,
                                     .lda = job->at.ld,
                                     .transpose_a = true,
                                     .b = job->dy + at,
                                     .ldb = hd->step,
                                     .c = job->dv + hd->first_k,
                                     .ldc = hd->step,
                                     .alpha = 1.0f,
                                     .beta = 1.0f},
                          NULL));
    FT_TRY(ft_onednn_gemm(&(ft_gemm){.m = rows,
                                     .n = D,
                                     .k = n,
                                     .a = hd->grads,
                                     .lda = job->at.ld,
                                     .b = job->k + hd->first_k,
                                     .ldb = hd->step,
                                     .c = job->dq + at,
                                     .ldc = hd->step,
                                     .alpha = scale,
                                     .beta = 0.0f},
                          NULL));
    return ft_onednn_gemm(&(ft_gemm){.m = n,
                                     .n = D,
                                     .k = rows,
                                     .a = hd->grads,
                                     .lda = job->at.ld,
                                     .transpose_a = true,
                                     .b = job->q + at,
                                     .ldb = hd->step,
                                     .c = job->dk + hd->first_k,
                                     .ldc = hd->step,
                                     .alpha = scale,
                                     .beta = 1.0f},
                          NULL);
}

static ft_status backward_block(const head *hd, int64_t first, int64_t rows)
{
    const attention_job *job = hd->job;
    int64_t at = hd->first_q + first * hd->step, n = keys_of(hd, first + rows - 1);
    const int64_t sizes[2] = {rows, n};
    FT_TRY(block_scores(hd, job->q + at, job->k + hd->first_k, (float)job->a.scale, hd->scores,
                        sizes));
    FT_TRY(block_scores(hd, job->dy + at, job->v + hd->first_k, 1.0f, hd->grads, sizes));
    for (int64_t r = 0; r < rows; r++) {
        float *s = hd->scores + r * job->at.ld, *dp = hd->grads + r * job->at.ld;
        int64_t keys = keys_of(hd, first + r);
        backward_row(hd, first + r, s, dp, keys);
        memset(s + keys, 0, (size_t)(n - keys) * sizeof *s);
        memset(dp + keys, 0, (size_t)(n - keys) * sizeof *dp);
    }
    return backward_products(hd, first, rows, n);
}

/* This head's part of the table's gradient: gradients by distance into their buckets. */
static void backward_end(const head *hd)
{
    const attention_job *job = hd->job;
    const ft_attention *a = &job->a;
    if (!hd->line) return;
    const int32_t *buckets = work_at(job, job->at.buckets);
    float *part = (float *)work_at(job, job->at.parts) + (hd->b * a->H + hd->h) * a->R;
    memset(part, 0, (size_t)a->R * sizeof *part);
    for (int64_t n = 0; n < a->Tq + a->Tk - 1; n++) part[buckets[n]] += hd->line_grad[n];
}

static void backward_share(void *arg, int thread)
{
    attention_job *job = arg;
    ft_status status = share_of(job, thread, backward_block, backward_begin, backward_end);
    if (status != FT_OK) atomic_store(&job->failed, (int)status);
}

static void sum_parts(const attention_job *job)
{
    const ft_attention *a = &job->a;
    const float *parts = work_at(job, job->at.parts);
    float *dtable = ft_out(job->call, 3);
    for (int64_t r = 0; r < a->R; r++)
        for (int64_t h = 0; h < a->H; h++) {
            float sum = ft_adds(job->call, 3) ? dtable[r * a->H + h] : 0.0f;
            for (int64_t b = 0; b < a->B; b++) sum += parts[(b * a->H + h) * a->R + r];
            dtable[r * a->H + h] = sum;
        }
}

ft_status ft_attention_grad_kernel(const ft_call *call, ft_error *err)
{
    attention_job job = {.call = call,
                         .simd = ft_simd_get(),
                         .a = ft_attention_of_grad_call(call),
                         .n_threads = ft_team_size(call->team),
                         .dy = ft_in(call, 0),
                         .q = ft_in(call, 1),
                         .k = ft_in(call, 2),
                         .v = ft_in(call, 3),
                         .y_in = ft_in(call, 4),
                         .lse_in = ft_in(call, 5),
                         .mask = ft_ids(call, 6),
                         .table = ft_in(call, 7),
                         .dq = ft_out(call, 0),
                         .dk = ft_out(call, 1),
                         .dv = ft_out(call, 2)};
    job.at = layout_of(&job.a, true, job.n_threads);
    FT_TRY(run_job(&job, backward_share, err));
    if (job.table) sum_parts(&job);
    return FT_OK;
}
