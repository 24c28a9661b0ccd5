/* ops/attention_job.c - what attention and its gradient share: workspace, biases, masks, threads.
 *
 * The bias is one line of numbers per head, indexed by j - i: query i reads a window of it. Keys
 * after the last unmasked one are left out. A thread takes whole heads of samples, and a head's
 * results depend on that head alone, so the team's size does not show in the bits. */
#include "ops/attention.h"

#include <math.h>
#include <stddef.h>

static int64_t take(int64_t *end, int64_t bytes)
{
    int64_t start = *end;
    *end += (bytes + 63) / 64 * 64;
    return start;
}

static int64_t rounded(int64_t n)
{
    return (n + FT_SIMD_ROUND - 1) / FT_SIMD_ROUND * FT_SIMD_ROUND;
}

/* A thread's share. A block has the scores of all keys, the gradient's twice. */
static void layout_share(ft_attention_layout *l, const ft_attention *a, bool grad)
{
    int64_t *end = &l->thread_bytes, rows = a->Tq < FT_ATTENTION_ROWS ? a->Tq : FT_ATTENTION_ROWS;
    int64_t keys = a->Tk * rounded(a->D) * 4, queries = rows * rounded(a->D) * 4;
    bool one = !grad && a->Tq == 1; /* a single query reads keys and values where they are */
    l->scores = take(end, rows * l->ld * 4);
    l->bits = take(end, a->threshold ? rows * l->words * 8 : 0);
    l->kt = take(end, one ? 0 : rounded(a->Tk) * a->D * 4);
    l->v = take(end, grad || one ? 0 : keys);
    if (!grad) return;
    l->grads = take(end, rows * l->ld * 4);
    l->vt = take(end, rounded(a->Tk) * a->D * 4);
    l->k = take(end, keys);
    l->q = take(end, queries);
    l->dy = take(end, queries);
    l->dk = take(end, a->Tk * a->D * 4);
    l->dv = take(end, a->Tk * a->D * 4);
    l->line_grad = take(end, a->R ? l->line * 4 : 0);
}

ft_attention_layout ft_attention_layout_of(const ft_attention *a, bool grad, int n_threads)
{
    ft_attention_layout l = {.line = rounded(a->Tq + a->Tk),
                             .ld = rounded(a->Tk) + FT_SIMD_ROUND,
                             .mask_ld = rounded(a->Tk),
                             .words = a->Tk / 64 + 1};
    int64_t line = a->R ? l.line * 4 : 0;
    l.buckets = take(&l.bytes, line);
    l.lines = take(&l.bytes, line * a->H);
    l.masks = take(&l.bytes, a->B * l.mask_ld * 4);
    l.limits = take(&l.bytes, a->B * 8);
    l.parts = take(&l.bytes, grad ? a->B * a->H * a->R * 4 : 0);
    l.threads = l.bytes;
    layout_share(&l, a, grad);
    l.bytes += l.thread_bytes * n_threads;
    return l;
}

int64_t ft_attention_work(const ft_attention *a, int team_size)
{
    return ft_attention_layout_of(a, false, team_size).bytes;
}

int64_t ft_attention_grad_work(const ft_attention *a, int team_size)
{
    return ft_attention_layout_of(a, true, team_size).bytes;
}

static void *work_at(const ft_attention_job *job, int64_t offset)
{
    return (char *)job->call->work + offset;
}

/* Biases of all heads by distance, and the bucket of each distance. */
static void fill_lines(const ft_attention_job *job)
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
static void fill_masks(const ft_attention_job *job)
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

static ft_attention_head head_of(const ft_attention_job *job, int64_t number, int thread)
{
    const ft_attention *a = &job->a;
    const ft_attention_layout *at = &job->at;
    int64_t b = number / a->H, h = number % a->H;
    ft_attention_head out = {.job = job, .b = b, .h = h, .step = ft_attention_step(a)};
    out.y_step = a->H * a->D;
    out.first_y = b * a->Tq * out.y_step + h * a->D;
    out.first_q = b * a->Tq * out.step + h * a->D;
    out.first_k = b * a->Tk * out.step + h * a->D;
    out.limit = ((const int64_t *)work_at(job, at->limits))[b];
    if (job->mask) out.mask = (const float *)work_at(job, at->masks) + b * at->mask_ld;
    if (job->table) out.line = (const float *)work_at(job, at->lines) + h * at->line;
    out.share = work_at(job, at->threads + thread * at->thread_bytes);
    if (a->threshold)
        out.draw =
            ft_dropout_draw_of(&job->call->key, job->call->key.sample + (uint32_t)b, a->threshold);
    return out;
}

static uint64_t *bits_of(const ft_attention_head *head, int64_t row)
{
    return (uint64_t *)(void *)(head->share + head->job->at.bits) + row * head->job->at.words;
}

ft_attention_row ft_attention_row_of(const ft_attention_head *head, int64_t i, int64_t r, int64_t j)
{
    const ft_attention *a = &head->job->a;
    ft_attention_row row = {.bias = NULL};
    if (head->line) row.bias = head->line + a->Tq - 1 - i + j;
    if (head->mask) row.mask = head->mask + j;
    if (a->threshold) row.bits = bits_of(head, r) + j / 64;
    return row;
}

void ft_attention_draw(const ft_attention_head *head, int64_t first, int64_t rows)
{
    const ft_attention *a = &head->job->a;
    if (!a->threshold) return;
    for (int64_t r = 0; r < rows; r++) {
        uint64_t start = (uint64_t)((head->h * a->Tq + first + r) * a->Tk);
        head->job->simd->random->keep_bits(bits_of(head, r), &head->draw, start,
                                           ft_attention_seen(head, first + r));
    }
}

typedef struct heads_job {
    const ft_attention_job *job;
    void (*work)(const ft_attention_head *head);
} heads_job;

static void heads_share(void *arg, int thread)
{
    const heads_job *heads = arg;
    const ft_attention_job *job = heads->job;
    int64_t n = job->a.B * job->a.H, end = n * (thread + 1) / job->n_threads;
    for (int64_t number = n * thread / job->n_threads; number < end; number++) {
        ft_attention_head head = head_of(job, number, thread);
        heads->work(&head);
    }
}

void ft_attention_run(ft_attention_job *job, void (*work)(const ft_attention_head *head))
{
    heads_job heads = {.job = job, .work = work};
    fill_lines(job);
    fill_masks(job);
    ft_team_run(job->call->team, job->n_threads, heads_share, &heads);
}
