/* ops/attention_grad_kernel.c - the gradient of attention, in squares of queries and keys.
 *
 * Of a head are packed once: keys and values transposed, for the scores and for dy.v, and the keys
 * as they are, for dq; of a block of queries, q and dy, for dk and dv. The block's scores and dy.v
 * are those of all keys, as the gradient of a score depends on the whole row; products go by
 * squares of FT_ATTENTION_ROWS x FT_ATTENTION_KEYS. Probabilities are computed again from the
 * scores and the saved lse. dk and dv are summed over the blocks of queries in the workspace, and
 * the bias's gradient by distance in a line. */
#include "ops/attention.h"

#include <string.h>

/* A block of queries of a head. */
typedef struct block {
    const ft_attention_head *head;
    int64_t first, rows, at, y_at; /* number of its first element in q, and in y */
} block;

/* Packs the head, and clears what is summed. */
static void backward_begin(const ft_attention_head *head)
{
    const ft_attention_job *job = head->job;
    const ft_attention *a = &job->a;
    const ft_attention_layout *at = &job->at;
    const ft_simd_product *simd = job->simd->product;
    const float *k = job->k + head->first_k, *v = job->v + head->first_k;
    int64_t sums = a->D * head->limit * (int64_t)sizeof(float);
    simd->pack_transposed(ft_attention_share(head, at->kt), k, head->step, a->D, head->limit);
    simd->pack_transposed(ft_attention_share(head, at->vt), v, head->step, a->D, head->limit);
    simd->pack(ft_attention_share(head, at->k), k, head->step, head->limit, a->D);
    memset(ft_attention_share(head, at->dk), 0, (size_t)sums);
    memset(ft_attention_share(head, at->dv), 0, (size_t)sums);
    if (head->line) memset(ft_attention_share(head, at->line_grad), 0, (size_t)at->line * 4);
}

/* Scores of the block against its first n keys, and dy.v, into gradients of scores and kept
 * probabilities; keys that a query does not see have zeros. */
static void finish_rows(const block *b, int64_t n)
{
    const ft_attention_head *head = b->head;
    const ft_attention_job *job = head->job;
    const ft_attention *a = &job->a;
    float *line = ft_attention_share(head, job->at.line_grad);
    const float *lse = job->lse_in + (head->b * a->H + head->h) * a->Tq + b->first;
    ft_attention_row_grad grad = {.keep_scale = 1.0f};
    if (a->threshold) grad.keep_scale = ft_dropout_scale(a->threshold);
    for (int64_t r = 0; r < b->rows; r++) {
        float *s = ft_attention_share(head, job->at.scores) + r * job->at.ld;
        float *dp = ft_attention_share(head, job->at.grads) + r * job->at.ld;
        int64_t i = b->first + r, seen = ft_attention_seen(head, i);
        ft_attention_row row = ft_attention_row_of(head, i, r, 0);
        grad.lse = lse[r];
        if (head->line) grad.bias_grad = line + a->Tq - 1 - i;
        job->simd->attention->grads(s, dp, &row, &grad, seen);
        memset(s + seen, 0, (size_t)(n - seen) * sizeof *s);
        memset(dp + seen, 0, (size_t)(n - seen) * sizeof *dp);
    }
}

/* Rows of the block, of q or dy, `step` apart. */
typedef struct block_rows {
    const float *first;
    int64_t step;
} block_rows;

/* Queries or dy of the block against the keys or values j ... j + n, packed at `packed`, into their
 * place in the rows at `out`. */
static void multiply_keys(const block *b, block_rows x, int64_t packed, float factor, int64_t out,
                          const int64_t square[2])
{
    const ft_attention_head *head = b->head;
    const ft_attention_job *job = head->job;
    int64_t D = job->a.D, j = square[0];
    job->simd->product->multiply(&(ft_small_product){.m = b->rows,
                                                     .n = square[1],
                                                     .k = D,
                                                     .a = x.first,
                                                     .a_row = x.step,
                                                     .a_step = 1,
                                                     .b = ft_attention_share(head, packed) + j * D,
                                                     .b_rows = D,
                                                     .b_columns = head->limit - j,
                                                     .c = ft_attention_share(head, out) + j,
                                                     .ldc = job->at.ld,
                                                     .alpha = factor});
}

/* The sums of keys j ... j + n at `sums` += factor * left^T right, where left is a square and right
 * the block's packed dy or q. */
static void add_to_keys(const block *b, const float *left, int64_t right, float factor,
                        int64_t sums, const int64_t square[2])
{
    const ft_attention_head *head = b->head;
    const ft_attention_job *job = head->job;
    int64_t D = job->a.D;
    job->simd->product->multiply(
        &(ft_small_product){.m = square[1],
                            .n = D,
                            .k = b->rows,
                            .a = left,
                            .a_row = 1,
                            .a_step = job->at.ld,
                            .b = ft_attention_share(head, right),
                            .b_rows = b->rows,
                            .b_columns = D,
                            .c = ft_attention_share(head, sums) + square[0] * D,
                            .ldc = D,
                            .alpha = factor,
                            .add = true});
}

/* Scores of one square, and dy.v. */
static void score_square(const block *b, int64_t j, int64_t n)
{
    const ft_attention_head *head = b->head;
    const ft_attention_job *job = head->job;
    const int64_t square[2] = {j, n};
    block_rows q = {job->q + b->at, head->step}, dy = {job->dy + b->y_at, head->y_step};
    multiply_keys(b, q, job->at.kt, (float)job->a.scale, job->at.scores, square);
    multiply_keys(b, dy, job->at.vt, 1.0f, job->at.grads, square);
}

/* What one square adds: dv += p^T dy, dk += ds^T q, dq += ds k. */
static void backward_square(const block *b, int64_t j, int64_t n)
{
    const ft_attention_head *head = b->head;
    const ft_attention_job *job = head->job;
    const ft_attention_layout *at = &job->at;
    const int64_t square[2] = {j, n};
    const float *scores = ft_attention_share(head, at->scores) + j;
    const float *grads = ft_attention_share(head, at->grads) + j;
    float scale = (float)job->a.scale;
    add_to_keys(b, scores, at->dy, 1.0f, at->dv, square);
    add_to_keys(b, grads, at->q, scale, at->dk, square);
    job->simd->product->multiply(&(ft_small_product){.m = b->rows,
                                                     .n = job->a.D,
                                                     .k = n,
                                                     .a = grads,
                                                     .a_row = at->ld,
                                                     .a_step = 1,
                                                     .b = ft_attention_share(head, at->k),
                                                     .b_rows = head->limit,
                                                     .b_columns = job->a.D,
                                                     .b_first = j,
                                                     .c = job->dq + b->at,
                                                     .ldc = head->step,
                                                     .alpha = scale,
                                                     .add = j > 0});
}

/* Keys of a square where so many are left. */
static int64_t square_of(int64_t left)
{
    return left < FT_ATTENTION_KEYS ? left : FT_ATTENTION_KEYS;
}

static void backward_block(const ft_attention_head *head, int64_t first, int64_t rows)
{
    const ft_attention_job *job = head->job;
    const ft_attention *a = &job->a;
    const ft_simd_product *simd = job->simd->product;
    block b = {.head = head, .first = first, .rows = rows};
    b.at = head->first_q + first * head->step;
    b.y_at = head->first_y + first * head->y_step;
    simd->pack(ft_attention_share(head, job->at.q), job->q + b.at, head->step, rows, a->D);
    simd->pack(ft_attention_share(head, job->at.dy), job->dy + b.y_at, head->y_step, rows, a->D);
    ft_attention_draw(head, first, rows);
    int64_t n = ft_attention_seen(head, first + rows - 1);
    for (int64_t r = 0; n == 0 && r < rows; r++)
        memset(job->dq + b.at + r * head->step, 0, (size_t)a->D * sizeof(float));
    for (int64_t j = 0; j < n; j += FT_ATTENTION_KEYS) score_square(&b, j, square_of(n - j));
    finish_rows(&b, n);
    for (int64_t j = 0; j < n; j += FT_ATTENTION_KEYS) backward_square(&b, j, square_of(n - j));
}

/* The head's sums into dk and dv, zeros for keys that nobody sees, and its part of the table's
 * gradient: gradients by distance into their buckets. */
static void backward_end(const ft_attention_head *head)
{
    const ft_attention_job *job = head->job;
    const ft_attention *a = &job->a;
    const float *dk = ft_attention_share(head, job->at.dk),
                *dv = ft_attention_share(head, job->at.dv);
    size_t bytes = (size_t)a->D * sizeof(float);
    for (int64_t j = 0; j < a->Tk; j++) {
        float *to_k = job->dk + head->first_k + j * head->step;
        float *to_v = job->dv + head->first_k + j * head->step;
        if (j < head->limit) {
            memcpy(to_k, dk + j * a->D, bytes);
            memcpy(to_v, dv + j * a->D, bytes);
        } else {
            memset(to_k, 0, bytes);
            memset(to_v, 0, bytes);
        }
    }
    if (!head->line) return;
    const char *work = job->call->work;
    const int32_t *buckets = (const void *)(work + job->at.buckets);
    float *part = ft_attention_parts(job) + (head->b * a->H + head->h) * a->R;
    const float *line = ft_attention_share(head, job->at.line_grad);
    memset(part, 0, (size_t)a->R * sizeof *part);
    for (int64_t n = 0; n < a->Tq + a->Tk - 1; n++) part[buckets[n]] += line[n];
}

static void backward_head(const ft_attention_head *head)
{
    int64_t Tq = head->job->a.Tq, size = ft_attention_block(&head->job->a);
    backward_begin(head);
    for (int64_t first = 0; first < Tq; first += size)
        backward_block(head, first, Tq - first < size ? Tq - first : size);
    backward_end(head);
}

static void sum_parts(const ft_attention_job *job)
{
    const ft_attention *a = &job->a;
    const float *parts = ft_attention_parts(job);
    float *dtable = ft_out(job->call, 3);
    for (int64_t r = 0; r < a->R; r++)
        for (int64_t h = 0; h < a->H; h++) {
            float sum = 0.0f;
            for (int64_t b = 0; b < a->B; b++) sum += parts[(b * a->H + h) * a->R + r];
            dtable[r * a->H + h] = ft_adds(job->call, 3) ? dtable[r * a->H + h] + sum : sum;
        }
}

ft_status ft_attention_grad_kernel(const ft_call *call, ft_error *err)
{
    (void)err;
    ft_attention_job job = {.call = call,
                            .simd = ft_simd_get(),
                            .a = ft_attention_of_grad_call(call),
                            .n_threads = ft_team_size(call->team),
                            .dy = ft_in(call, 0),
                            .q = ft_in(call, 1),
                            .k = ft_in(call, 2),
                            .v = ft_in(call, 3),
                            .lse_in = ft_in(call, 5),
                            .mask = ft_ids(call, 6),
                            .table = ft_in(call, 7),
                            .dq = ft_out(call, 0),
                            .dk = ft_out(call, 1),
                            .dv = ft_out(call, 2)};
    if (job.a.packed) {
        job.k = job.q + job.a.H * job.a.D;
        job.v = job.k + job.a.H * job.a.D;
        job.dk = job.dq + job.a.H * job.a.D;
        job.dv = job.dk + job.a.H * job.a.D;
    }
    job.at = ft_attention_layout_of(&job.a, true, job.n_threads);
    ft_attention_run(&job, backward_head);
    if (job.table) sum_parts(&job);
    return FT_OK;
}
