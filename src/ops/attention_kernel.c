/* ops/attention_kernel.c - attention, a block of queries at a time.
 *
 * Keys (transposed) and values of a head are packed once; of the scores there is one block of
 * queries against the keys that they may look at, never more. A single query, as in decoding, reads
 * keys and values where they are: packing them would be most of the work. */
#include "ops/attention.h"

#include <math.h>
#include <string.h>

/* Turns the scores of query i, in row r of the block, into probabilities, not yet divided by their
 * sum; returns what they are to be multiplied with. */
static float finish_row(const ft_attention_head *head, int64_t i, int64_t r, float *s)
{
    const ft_attention_job *job = head->job;
    const ft_simd_attention *simd = job->simd->attention;
    int64_t n = ft_attention_seen(head, i);
    ft_attention_row row = ft_attention_row_of(head, i, r, 0);
    float *lse = &job->lse[(head->b * job->a.H + head->h) * job->a.Tq + i];
    float most = simd->largest(s, &row, n);
    *lse = 0.0f;
    if (most == -INFINITY) {
        memset(s, 0, (size_t)n * sizeof *s);
        return 0.0f;
    }
    float sum = simd->exps(s, &row, most, n);
    *lse = most + logf(sum);
    return (job->a.threshold ? ft_dropout_scale(job->a.threshold) : 1.0f) / sum;
}

static void forward_block(const ft_attention_head *head, int64_t first, int64_t rows)
{
    const ft_attention_job *job = head->job;
    const ft_attention *a = &job->a;
    const ft_simd_product *simd = job->simd->product;
    float *scores = ft_attention_share(head, job->at.scores), factors[FT_ATTENTION_ROWS];
    float *y = job->y + head->first_y + first * head->y_step;
    int64_t n = ft_attention_seen(head, first + rows - 1);
    simd->multiply(&(ft_small_product){.m = rows,
                                       .n = n,
                                       .k = a->D,
                                       .a = job->q + head->first_q + first * head->step,
                                       .a_row = head->step,
                                       .a_step = 1,
                                       .b = ft_attention_share(head, job->at.kt),
                                       .b_rows = a->D,
                                       .b_columns = head->limit,
                                       .c = scores,
                                       .ldc = job->at.ld,
                                       .alpha = (float)a->scale});
    ft_attention_draw(head, first, rows);
    for (int64_t r = 0; r < rows; r++) {
        float *s = scores + r * job->at.ld;
        int64_t keys = ft_attention_seen(head, first + r);
        factors[r] = finish_row(head, first + r, r, s);
        memset(s + keys, 0, (size_t)(n - keys) * sizeof *s);
    }
    simd->multiply(&(ft_small_product){.m = rows,
                                       .n = a->D,
                                       .k = n,
                                       .a = scores,
                                       .a_row = job->at.ld,
                                       .a_step = 1,
                                       .b = ft_attention_share(head, job->at.v),
                                       .b_rows = head->limit,
                                       .b_columns = a->D,
                                       .c = y,
                                       .ldc = head->y_step,
                                       .alpha = 1.0f});
    for (int64_t r = 0; r < rows; r++)
        job->simd->math->scale(y + r * head->y_step, y + r * head->y_step, factors[r], a->D);
}

static void forward_query(const ft_attention_head *head)
{
    const ft_attention_job *job = head->job;
    const ft_attention *a = &job->a;
    const ft_simd_attention *simd = job->simd->attention;
    float *scores = ft_attention_share(head, job->at.scores), *y = job->y + head->first_y;
    int64_t n = ft_attention_seen(head, 0);
    simd->dots(scores, job->q + head->first_q, job->k + head->first_k, head->step, a->D, n);
    job->simd->math->scale(scores, scores, (float)a->scale, n);
    ft_attention_draw(head, 0, 1);
    float factor = finish_row(head, 0, 0, scores);
    simd->mix(y, scores, job->v + head->first_k, head->step, a->D, n);
    job->simd->math->scale(y, y, factor, a->D);
}

static void forward_head(const ft_attention_head *head)
{
    const ft_attention_job *job = head->job;
    const ft_simd_product *simd = job->simd->product;
    int64_t Tq = job->a.Tq, D = job->a.D, block = ft_attention_block(&job->a);
    if (Tq == 1) {
        forward_query(head);
        return;
    }
    simd->pack_transposed(ft_attention_share(head, job->at.kt), job->k + head->first_k, head->step,
                          D, head->limit);
    simd->pack(ft_attention_share(head, job->at.v), job->v + head->first_k, head->step, head->limit,
               D);
    for (int64_t first = 0; first < Tq; first += block)
        forward_block(head, first, Tq - first < block ? Tq - first : block);
}

ft_status ft_attention_kernel(const ft_call *call, ft_error *err)
{
    (void)err;
    ft_attention_job job = {.call = call,
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
    if (job.a.packed) {
        job.k = job.q + job.a.H * job.a.D;
        job.v = job.k + job.a.H * job.a.D;
    }
    job.at = ft_attention_layout_of(&job.a, false, job.n_threads);
    ft_attention_run(&job, forward_head);
    return FT_OK;
}
