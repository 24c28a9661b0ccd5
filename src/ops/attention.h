/* ops/attention.h - what the files of the attention rows share. */
#ifndef FT_OPS_ATTENTION_H
#define FT_OPS_ATTENTION_H

#include "ops/internal.h"

/* Attributes of both rows, in order. */
enum {
    FT_ATTENTION_HEADS,
    FT_ATTENTION_CAUSAL,
    FT_ATTENTION_BIDIRECTIONAL,
    FT_ATTENTION_MAX_DISTANCE,
    FT_ATTENTION_SCALE,
    FT_ATTENTION_DROPOUT,
    FT_ATTENTION_ROUNDING
};

/* What cards round operands of products to. */
typedef enum {
    FT_ATTENTION_F32,
    FT_ATTENTION_BF16,
    FT_ATTENTION_F16,
    FT_ATTENTION_TF32
} ft_attention_rounding;

/* Queries and keys that are worked on at a time: their products stay in the caches. */
enum { FT_ATTENTION_ROWS = 64, FT_ATTENTION_KEYS = 64 };

/* The problem, out of the specs of q, k, mask and table.
 * B samples, Tq queries, Tk keys, H heads of D numbers, R buckets (0 without a table).
 * `packed`: q is (B, T, 3 * H * D), q, k and v of a position one after the other. */
typedef struct ft_attention {
    int64_t B, Tq, Tk, H, D, R;
    int64_t offset; /* position of the first query */
    bool causal, bidirectional, packed;
    int64_t max_distance;
    double scale;
    uint32_t threshold;             /* of dropout, 0: none */
    ft_attention_rounding rounding; /* F32 where heads are not of a size for it */
} ft_attention;

/* k NULL: packed; table NULL: none. */
ft_attention ft_attention_of(const ft_shape *q, const ft_shape *k, const ft_shape *table,
                             const double *attrs);

/* Elements from one position of q, k and v to the next; those of y are H * D apart. */
static inline int64_t ft_attention_step(const ft_attention *a)
{
    return a->H * a->D * (a->packed ? 3 : 1);
}

/* Keys that query i may look at: those before this one. */
static inline int64_t ft_attention_keys(const ft_attention *a, int64_t i)
{
    int64_t last = i + a->offset + 1;
    if (!a->causal || last > a->Tk) return a->Tk;
    return last < 0 ? 0 : last;
}

/* T5's relative position buckets (relative_bias.c). */
int32_t ft_relative_bucket(int64_t key_minus_query, int64_t n_buckets, int64_t max_distance,
                           bool bidirectional);

ft_status ft_attention_kernel(const ft_call *call, ft_error *err);
ft_status ft_attention_grad_kernel(const ft_call *call, ft_error *err);
int64_t ft_attention_work(const ft_attention *a, int team_size);
int64_t ft_attention_grad_work(const ft_attention *a, int team_size);

ft_status ft_attention_reference(const ft_call *call, ft_error *err);
ft_status ft_attention_grad_reference(const ft_call *call, ft_error *err);

/* The two rows' problems out of their calls; absent inputs have data NULL. */
ft_attention ft_attention_of_call(const ft_call *call);
ft_attention ft_attention_of_grad_call(const ft_call *call);

/* -- what the two kernels share (attention_job.c) ---------------------------------------------- */

/* Where things lie in the call's workspace, in bytes from its start; of the second group, from the
 * start of a thread's share. Packed matrices are those of simd/product.c. */
typedef struct ft_attention_layout {
    int64_t line;    /* floats of one head's line of biases: Tq + Tk - 1, rounded up */
    int64_t ld;      /* floats from one query's scores to the next */
    int64_t mask_ld; /* floats of one sample's mask line */
    int64_t words;   /* of one query's keep bits */
    int64_t buckets, lines, masks, limits, parts, threads;
    int64_t scores, bits, kt, v;                    /* kt: k transposed, packed; v: packed */
    int64_t grads, vt, k, q, dy, dk, dv, line_grad; /* the gradient's; v is not */
    int64_t thread_bytes, bytes;
} ft_attention_layout;

/* One call. Pointers of the gradient are NULL in the forward row. */
typedef struct ft_attention_job {
    const ft_call *call;
    const ft_simd *simd;
    ft_attention a;
    ft_attention_layout at;
    int n_threads;
    const float *q, *k, *v, *table;
    const int32_t *mask;
    float *y, *lse;
    const float *dy, *lse_in;
    float *dq, *dk, *dv;
} ft_attention_job;

/* One head of one sample, as a thread works on it. */
typedef struct ft_attention_head {
    const ft_attention_job *job;
    int64_t b, h;
    int64_t step, y_step; /* elements from one position to the next in q, k and v, and in y */
    int64_t first_q, first_k, first_y; /* number of the head's first element in q, k and v, y */
    int64_t limit;                     /* one past the last key that any query sees */
    const float *mask, *line; /* what is added to scores, by key and by distance; or NULL */
    char *share;              /* the thread's part of the workspace */
    ft_dropout_draw draw;
} ft_attention_head;

ft_attention_layout ft_attention_layout_of(const ft_attention *a, bool grad, int n_threads);

static inline float *ft_attention_share(const ft_attention_head *head, int64_t offset)
{
    return (float *)(void *)(head->share + offset);
}

/* The gradient's sums for the table: B * H * R numbers. */
static inline float *ft_attention_parts(const ft_attention_job *job)
{
    return (float *)(void *)((char *)job->call->work + job->at.parts);
}

/* Queries of a block: fewer where a block's last query sees keys that its first one does not. */
static inline int64_t ft_attention_block(const ft_attention *a)
{
    return a->causal ? FT_ATTENTION_ROWS / 2 : FT_ATTENTION_ROWS;
}

/* Keys before this one may have a probability for query i. */
static inline int64_t ft_attention_seen(const ft_attention_head *head, int64_t i)
{
    int64_t keys = ft_attention_keys(&head->job->a, i);
    return keys < head->limit ? keys : head->limit;
}

/* What is added to query i's scores from key j on, and its keep bits from there, of block row r;
 * j is a multiple of 64. */
ft_attention_row ft_attention_row_of(const ft_attention_head *head, int64_t i, int64_t r,
                                     int64_t j);

/* Draws the keep bits of `rows` queries from `first` on, if the row has dropout. */
void ft_attention_draw(const ft_attention_head *head, int64_t first, int64_t rows);

/* Prepares what threads share, then calls `work` for each head, on the thread that has it. */
void ft_attention_run(ft_attention_job *job, void (*work)(const ft_attention_head *head));

#endif
