/* ops/op_cross_entropy.c - the loss of a classifier of tokens.
 *   logits (..., V)   labels (...) i32   weight (1)   ->   loss ()   stats (..., 2)
 *                                                           nll (...)
 * loss = weight * sum over the labels other than -100 of (lse - logits[label]), with
 * lse = log(sum(exp(logits))). weight is one over the tokens of the global batch, so that
 * micro-batches add up to the mean. stats, kept for the gradient, holds the largest logit of a row
 * and sum(exp(logits - largest)). nll is the term of each label, 0 where it is -100, for evaluation
 * by row.
 *
 * The gradient of a row adds up to 0: what its label gets is minus what the others get, as they
 * were rounded. Where that sum is itself a gradient (the bias of a span head), nothing else would
 * be in it. */
#include "ops/internal.h"

#include <math.h>
#include <string.h>

enum { ROWS = 4, IGNORED = -100 }; /* rows of a piece: a row is a vocabulary long */

typedef struct job {
    const float *logits, *stats;
    float *out, *dlogits;
    const int32_t *labels;
    int64_t rows, V;
    float scale;
} job;

static ft_status check_labels(const char *name, const int32_t *labels, int64_t n, int64_t V,
                              ft_error *err)
{
    for (int64_t i = 0; i < n; i++)
        if (labels[i] != IGNORED && (labels[i] < 0 || labels[i] >= V))
            return ft_fail(err, FT_INVALID,
                           "%s: label %d at position %lld, expected 0 <= label < %lld, or %d", name,
                           (int)labels[i], (long long)i, (long long)V, IGNORED);
    return FT_OK;
}

static ft_status need_loss_inputs(const char *op, const ft_spec *logits, const ft_spec *labels,
                                  const ft_spec *weight, ft_error *err)
{
    FT_TRY(ft_need_rows(op, "logits", logits, err));
    ft_spec ids = ft_spec_of(FT_I32, ft_shape_front(&logits->shape, 1));
    FT_TRY(ft_need_spec(op, "labels", labels, &ids, err));
    return ft_need_f32(op, "weight", weight, ft_shape_of(1), err);
}

/* The labels' shape, with two numbers for each. */
static ft_spec stats_spec(const ft_spec *labels)
{
    ft_spec stats = ft_spec_of(FT_F32, labels->shape);
    stats.shape.dims[stats.shape.n_dims++] = 2;
    return stats;
}

static ft_status loss_shape(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err)
{
    (void)attrs;
    FT_TRY(need_loss_inputs("cross_entropy", &in[0], &in[1], &in[2], err));
    out[0] = ft_spec_of(FT_F32, (ft_shape){0});
    out[1] = stats_spec(&in[1]);
    out[2] = ft_spec_of(FT_F32, in[1].shape);
    return FT_OK;
}

static ft_cost loss_cost(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    (void)attrs;
    return ft_cost_of(in, 3, out, 3, 20.0 * ft_spec_size(&in[0]));
}

static void loss_rule(ft_builder *b, const ft_grad_site *site)
{
    const ft_value_id in[] = {site->dout[0], site->in[0], site->in[1], site->in[2], site->out[1]};
    if (site->wanted[0]) site->din[0] = ft_add(b, &ft_op_cross_entropy_grad, 5, in, 0);
}

static void stats_piece(void *arg, int piece)
{
    const job *j = arg;
    const ft_simd_softmax *simd = ft_simd_get()->softmax;
    for (int64_t i = (int64_t)piece * ROWS; i < ft_piece_end(j->rows, ROWS, piece); i++)
        simd->sums(j->out + 2 * i, j->logits + i * j->V, j->V);
}

static ft_status loss_kernel(const ft_call *call, ft_error *err)
{
    job j = {.logits = ft_in(call, 0),
             .labels = ft_ids(call, 1),
             .out = ft_out(call, 1),
             .rows = ft_shape_count(&call->in[1].shape),
             .V = ft_dim_back(&call->in[0].shape, -1)};
    FT_TRY(check_labels("cross_entropy", j.labels, j.rows, j.V, err));
    ft_team_run(call->team, ft_pieces(j.rows, ROWS), stats_piece, &j);
    float *nll = ft_out(call, 2);
    double sum = 0.0;
    for (int64_t i = 0; i < j.rows; i++) {
        nll[i] = 0;
        if (j.labels[i] == IGNORED) continue;
        double term = log((double)j.out[2 * i + 1]) +
                      ((double)j.out[2 * i] - (double)j.logits[i * j.V + j.labels[i]]);
        nll[i] = (float)term;
        sum += term;
    }
    ft_out(call, 0)[0] = (float)(sum * (double)ft_in(call, 2)[0]);
    return FT_OK;
}

static void sums64(double stats[2], const double *x, int64_t n)
{
    stats[0] = -INFINITY;
    stats[1] = 0.0;
    for (int64_t k = 0; k < n; k++) stats[0] = fmax(stats[0], x[k]);
    for (int64_t k = 0; k < n; k++) stats[1] += exp(x[k] - stats[0]);
}

static ft_status loss_reference(const ft_call *call, ft_error *err)
{
    const int32_t *labels = ft_ids(call, 1);
    int64_t rows = ft_shape_count(&call->in[1].shape), V = ft_dim_back(&call->in[0].shape, -1);
    FT_TRY(check_labels("cross_entropy", labels, rows, V, err));
    double sum = 0.0;
    for (int64_t i = 0; i < rows; i++) {
        double *stats = ft_out64(call, 1) + 2 * i;
        sums64(stats, ft_in64(call, 0) + i * V, V);
        double nll = labels[i] == IGNORED
                         ? 0.0
                         : log(stats[1]) + stats[0] - ft_in64(call, 0)[i * V + labels[i]];
        ft_out64(call, 2)[i] = nll;
        sum += nll;
    }
    ft_out64(call, 0)[0] = sum * ft_in64(call, 2)[0];
    return FT_OK;
}

static ft_status grad_shape(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err)
{
    (void)attrs;
    FT_TRY(ft_need_f32("cross_entropy_grad", "dloss", &in[0], (ft_shape){0}, err));
    FT_TRY(need_loss_inputs("cross_entropy_grad", &in[1], &in[2], &in[3], err));
    FT_TRY(ft_need_f32("cross_entropy_grad", "stats", &in[4], stats_spec(&in[2]).shape, err));
    out[0] = in[1];
    return FT_OK;
}

static ft_cost grad_cost(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    (void)attrs;
    return ft_cost_per_element(in, 5, out, 1, 18.0);
}

static void grad_piece(void *arg, int piece)
{
    const job *j = arg;
    const ft_simd_softmax *simd = ft_simd_get()->softmax;
    for (int64_t i = (int64_t)piece * ROWS; i < ft_piece_end(j->rows, ROWS, piece); i++) {
        float *dx = j->dlogits + i * j->V;
        if (j->labels[i] == IGNORED) {
            memset(dx, 0, (size_t)j->V * sizeof *dx);
            continue;
        }
        const float *stats = j->stats + 2 * i;
        double sum = simd->exp_minus(dx, j->logits + i * j->V, stats[0], j->scale / stats[1], j->V);
        dx[j->labels[i]] = (float)((double)dx[j->labels[i]] - sum);
    }
}

static ft_status grad_kernel(const ft_call *call, ft_error *err)
{
    job j = {.logits = ft_in(call, 1),
             .labels = ft_ids(call, 2),
             .stats = ft_in(call, 4),
             .dlogits = ft_out(call, 0),
             .rows = ft_shape_count(&call->in[2].shape),
             .V = ft_dim_back(&call->in[1].shape, -1),
             .scale = ft_in(call, 0)[0] * ft_in(call, 3)[0]};
    FT_TRY(check_labels("cross_entropy_grad", j.labels, j.rows, j.V, err));
    ft_team_run(call->team, ft_pieces(j.rows, ROWS), grad_piece, &j);
    return FT_OK;
}

static ft_status grad_reference(const ft_call *call, ft_error *err)
{
    const int32_t *labels = ft_ids(call, 2);
    int64_t rows = ft_shape_count(&call->in[2].shape), V = ft_dim_back(&call->in[1].shape, -1);
    double scale = ft_in64(call, 0)[0] * ft_in64(call, 3)[0];
    FT_TRY(check_labels("cross_entropy_grad", labels, rows, V, err));
    for (int64_t i = 0; i < rows; i++) {
        const double *x = ft_in64(call, 1) + i * V, *stats = ft_in64(call, 4) + 2 * i;
        double *dx = ft_out64(call, 0) + i * V, sum = 0.0;
        for (int64_t k = 0; k < V; k++) {
            dx[k] = labels[i] == IGNORED ? 0.0 : scale * exp(x[k] - stats[0]) / stats[1];
            sum += dx[k];
        }
        if (labels[i] != IGNORED) dx[labels[i]] -= sum;
    }
    return FT_OK;
}

static const ft_sample samples[] = {
    {.in = {{FT_F32, {3, {2, 3, 33}}}, {FT_I32, {2, {2, 3}}}, {FT_F32, {1, {1}}}},
     .tolerance = 1e-6,
     .id_limit = 33},
    {.in = {{FT_F32, {1, {7}}}, {FT_I32, {0, {0}}}, {FT_F32, {1, {1}}}},
     .tolerance = 1e-6,
     .id_limit = 7},
    {.in = {{FT_F32, {2, {9, 1000}}}, {FT_I32, {1, {9}}}, {FT_F32, {1, {1}}}},
     .tolerance = 1e-6,
     .id_limit = 1000},
    {.in = {{FT_F32, {2, {0, 5}}}, {FT_I32, {1, {0}}}, {FT_F32, {1, {1}}}}, .id_limit = 5},
};

static const ft_sample grad_samples[] = {
    {.in = {{FT_F32, {0, {0}}},
            {FT_F32, {3, {2, 3, 33}}},
            {FT_I32, {2, {2, 3}}},
            {FT_F32, {1, {1}}},
            {FT_F32, {3, {2, 3, 2}}}},
     .tolerance = 1e-6,
     .id_limit = 33},
    {.in = {{FT_F32, {0, {0}}},
            {FT_F32, {1, {7}}},
            {FT_I32, {0, {0}}},
            {FT_F32, {1, {1}}},
            {FT_F32, {1, {2}}}},
     .tolerance = 1e-6,
     .id_limit = 7},
    {.in = {{FT_F32, {0, {0}}},
            {FT_F32, {2, {9, 1000}}},
            {FT_I32, {1, {9}}},
            {FT_F32, {1, {1}}},
            {FT_F32, {2, {9, 2}}}},
     .tolerance = 1e-6,
     .id_limit = 1000},
    {.in = {{FT_F32, {0, {0}}},
            {FT_F32, {2, {0, 5}}},
            {FT_I32, {1, {0}}},
            {FT_F32, {1, {1}}},
            {FT_F32, {2, {0, 2}}}},
     .id_limit = 5},
};

const ft_op ft_op_cross_entropy = {
    .name = "cross_entropy",
    .doc = "loss = weight * sum of (lse - logits[label]) over labels other than -100; logits "
           "(..., V), labels (...) i32, weight (1) -> loss (), stats (..., 2), nll (...): by label",
    .min_in = 3,
    .n_in = 3,
    .n_out = 3,
    .half_in = 1u,
    .apart_in = 1u,
    .shape = loss_shape,
    .cost = loss_cost,
    .grad = loss_rule,
    .kernel = loss_kernel,
    .reference = loss_reference,
    .no_grad_out = 1u << 1 | 1u << 2,
    .samples = samples,
    .n_samples = sizeof samples / sizeof *samples,
};

const ft_op ft_op_cross_entropy_grad = {
    .name = "cross_entropy_grad",
    .doc = "dlogits = dloss weight (p - the sum of p at the label), p = softmax(logits); "
           "(dloss (), logits, labels, weight, stats)",
    .min_in = 5,
    .n_in = 5,
    .n_out = 1,
    .half_in = 1u << 1,
    .half_out = 1u,
    .apart_in = 1u << 1,
    .apart_out = 1u,
    .shape = grad_shape,
    .cost = grad_cost,
    .kernel = grad_kernel,
    .reference = grad_reference,
    .samples = grad_samples,
    .n_samples = sizeof grad_samples / sizeof *grad_samples,
};
