/* ops/op_layer_norm.c - the normalisation of BERT and GPT-2.
 *   x (..., D)   w (D)   b (D)   ->   y (..., D)   stats (..., 2)
 * y = (x - mean) * rstd * w + b, rstd = 1 / sqrt(var(x) + eps), the variance over D without
 * correction. Source: Ba, Kiros, Hinton, arXiv:1607.06450. stats holds mean and rstd, kept for the
 * gradient. */
#include "ops/internal.h"

#include <math.h>
#include <string.h>

enum { ROWS = 16 }; /* of a piece of the forward pass */

typedef struct job {
    const float *dy, *x, *w, *b, *stats;
    float *y, *stats_out, *parts;
    float eps;
    int64_t rows, D, per_part;
} job;

static ft_shape stats_shape(const ft_shape *x)
{
    ft_shape shape = *x;
    shape.dims[shape.n_dims - 1] = 2;
    return shape;
}

static ft_status norm_shape(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err)
{
    (void)attrs;
    FT_TRY(ft_need_rows("layer_norm", "x", &in[0], err));
    FT_TRY(ft_need_f32("layer_norm", "w", &in[1], ft_shape_back(&in[0].shape, 1), err));
    FT_TRY(ft_need_f32("layer_norm", "b", &in[2], ft_shape_back(&in[0].shape, 1), err));
    out[0] = in[0];
    out[1] = ft_spec_of(FT_F32, stats_shape(&in[0].shape));
    return FT_OK;
}

static ft_cost norm_cost(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    (void)attrs;
    return ft_cost_of(in, 3, out, 2, 7.0 * ft_spec_size(&in[0]));
}

static void norm_grad_rule(ft_builder *b, const ft_grad_site *site)
{
    const double none[FT_MAX_ATTRS] = {0};
    const ft_value_id in[] = {site->dout[0], site->in[0], site->in[1], site->out[1]};
    ft_value_id dx = b->add(b, &ft_op_layer_norm_grad, in, 4, none);
    for (int i = 0; i < 3; i++)
        if (site->wanted[i]) site->din[i] = dx + i;
}

static void norm_piece(void *arg, int piece)
{
    const job *j = arg;
    const ft_simd_norm *simd = ft_simd_get()->norm;
    for (int64_t i = (int64_t)piece * ROWS; i < ft_piece_end(j->rows, ROWS, piece); i++) {
        int64_t at = i * j->D;
        simd->layer(j->y + at, j->stats_out + 2 * i, j->x + at, j->w, j->b, j->eps, j->D);
    }
}

static ft_status norm_kernel(const ft_call *call, ft_error *err)
{
    (void)err;
    job j = {.x = ft_in(call, 0),
             .w = ft_in(call, 1),
             .b = ft_in(call, 2),
             .y = ft_out(call, 0),
             .stats_out = ft_out(call, 1),
             .eps = (float)call->attrs[0],
             .rows = ft_rows_of(&call->in[0].shape, 1),
             .D = ft_dim_back(&call->in[0].shape, -1)};
    ft_team_run(call->team, ft_pieces(j.rows, ROWS), norm_piece, &j);
    return FT_OK;
}

static ft_status norm_reference(const ft_call *call, ft_error *err)
{
    (void)err;
    int64_t rows = ft_rows_of(&call->in[0].shape, 1), D = ft_dim_back(&call->in[0].shape, -1);
    for (int64_t i = 0; i < rows; i++) {
        const double *x = ft_in64(call, 0) + i * D;
        double mean = 0.0, var = 0.0;
        for (int64_t d = 0; d < D; d++) mean += x[d] / (double)D;
        for (int64_t d = 0; d < D; d++) var += (x[d] - mean) * (x[d] - mean) / (double)D;
        double rstd = 1.0 / sqrt(var + call->attrs[0]);
        for (int64_t d = 0; d < D; d++)
            ft_out64(call, 0)[i * D + d] =
                (x[d] - mean) * rstd * ft_in64(call, 1)[d] + ft_in64(call, 2)[d];
        ft_out64(call, 1)[2 * i] = mean;
        ft_out64(call, 1)[2 * i + 1] = rstd;
    }
    return FT_OK;
}

static ft_status grad_shape(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err)
{
    (void)attrs;
    FT_TRY(ft_need_rows("layer_norm_grad", "dy", &in[0], err));
    FT_TRY(ft_need_spec("layer_norm_grad", "x", &in[1], &in[0], err));
    FT_TRY(ft_need_f32("layer_norm_grad", "w", &in[2], ft_shape_back(&in[0].shape, 1), err));
    FT_TRY(ft_need_f32("layer_norm_grad", "stats", &in[3], stats_shape(&in[0].shape), err));
    out[0] = in[0];
    out[1] = in[2];
    out[2] = in[2];
    return FT_OK;
}

static ft_cost grad_cost(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    (void)attrs;
    return ft_cost_of(in, 4, out, 3, 14.0 * ft_spec_size(&in[0]));
}

static int64_t grad_workspace(const ft_spec *in, const double *attrs, int team_size)
{
    (void)attrs, (void)team_size;
    return (2 * FT_MAX_PARTS + 2) * ft_spec_bytes(&in[2]);
}

static void grad_part(void *arg, int part)
{
    const job *j = arg;
    const ft_simd_norm *simd = ft_simd_get()->norm;
    float *dwb = j->parts + part * 2 * j->D;
    memset(dwb, 0, (size_t)(2 * j->D) * sizeof *dwb);
    for (int64_t i = part * j->per_part; i < ft_piece_end(j->rows, j->per_part, part); i++) {
        int64_t at = i * j->D;
        simd->layer_grad(j->y + at, dwb, j->dy + at, j->x + at, j->w, j->stats + 2 * i, j->D);
    }
}

static ft_status grad_kernel(const ft_call *call, ft_error *err)
{
    (void)err;
    job j = {.dy = ft_in(call, 0),
             .x = ft_in(call, 1),
             .w = ft_in(call, 2),
             .stats = ft_in(call, 3),
             .y = ft_out(call, 0),
             .parts = call->work,
             .rows = ft_rows_of(&call->in[0].shape, 1),
             .D = ft_dim_back(&call->in[0].shape, -1)};
    j.per_part = ft_rows_per_part(j.rows);
    int n_parts = ft_pieces(j.rows, j.per_part);
    ft_team_run(call->team, n_parts, grad_part, &j);
    float *sum = j.parts + FT_MAX_PARTS * 2 * j.D;
    ft_parts_sum(sum, j.parts, n_parts, 2 * j.D, false);
    ft_parts_sum(ft_out(call, 1), sum, 1, j.D, ft_adds(call, 1));
    ft_parts_sum(ft_out(call, 2), sum + j.D, 1, j.D, ft_adds(call, 2));
    return FT_OK;
}

static ft_status grad_reference(const ft_call *call, ft_error *err)
{
    (void)err;
    int64_t rows = ft_rows_of(&call->in[0].shape, 1), D = ft_dim_back(&call->in[0].shape, -1);
    const double *w = ft_in64(call, 2);
    double *dw = ft_out64(call, 1), *db = ft_out64(call, 2);
    for (int64_t d = 0; d < D; d++) dw[d] = db[d] = 0.0;
    for (int64_t i = 0; i < rows; i++) {
        const double *dy = ft_in64(call, 0) + i * D, *x = ft_in64(call, 1) + i * D;
        double mean = ft_in64(call, 3)[2 * i], rstd = ft_in64(call, 3)[2 * i + 1];
        double mean_g = 0.0, mean_gn = 0.0;
        for (int64_t d = 0; d < D; d++) {
            double n = (x[d] - mean) * rstd;
            mean_g += dy[d] * w[d] / (double)D;
            mean_gn += dy[d] * w[d] * n / (double)D;
            dw[d] += dy[d] * n;
            db[d] += dy[d];
        }
        for (int64_t d = 0; d < D; d++) {
            double n = (x[d] - mean) * rstd;
            ft_out64(call, 0)[i * D + d] = rstd * (dy[d] * w[d] - mean_g - n * mean_gn);
        }
    }
    return FT_OK;
}

static const ft_sample samples[] = {
    {.in = {{FT_F32, {3, {2, 5, 33}}}, {FT_F32, {1, {33}}}, {FT_F32, {1, {33}}}},
     .attrs = {1e-5},
     .tolerance = 1e-6},
    {.in = {{FT_F32, {1, {7}}}, {FT_F32, {1, {7}}}, {FT_F32, {1, {7}}}},
     .attrs = {1e-12},
     .tolerance = 1e-6},
    {.in = {{FT_F32, {2, {40, 1000}}}, {FT_F32, {1, {1000}}}, {FT_F32, {1, {1000}}}},
     .attrs = {1e-5},
     .tolerance = 1e-6},
    {.in = {{FT_F32, {2, {0, 8}}}, {FT_F32, {1, {8}}}, {FT_F32, {1, {8}}}}, .attrs = {1e-5}},
};

static const ft_sample grad_samples[] = {
    {.in = {{FT_F32, {3, {2, 5, 33}}}, {FT_F32, {3, {2, 5, 33}}}, {FT_F32, {1, {33}}},
            {FT_F32, {3, {2, 5, 2}}}},
     .tolerance = 1e-6},
    {.in = {{FT_F32, {1, {7}}}, {FT_F32, {1, {7}}}, {FT_F32, {1, {7}}}, {FT_F32, {1, {2}}}},
     .tolerance = 1e-6},
    {.in = {{FT_F32, {2, {300, 1000}}}, {FT_F32, {2, {300, 1000}}}, {FT_F32, {1, {1000}}},
            {FT_F32, {2, {300, 2}}}},
     .tolerance = 2e-6},
    {.in = {{FT_F32, {2, {0, 8}}}, {FT_F32, {2, {0, 8}}}, {FT_F32, {1, {8}}},
            {FT_F32, {2, {0, 2}}}}},
};

const ft_op ft_op_layer_norm = {
    .name = "layer_norm",
    .doc = "y = (x - mean) * rstd * w + b over the last axis; x (..., D), w (D), b (D) -> y, "
           "stats (..., 2)",
    .min_in = 3,
    .n_in = 3,
    .n_out = 2,
    .attrs = (const ft_attr_rule[]){{"eps", 1e-5, 0, 1, false, "added to the variance"}, {0}},
    .shape = norm_shape,
    .cost = norm_cost,
    .grad = norm_grad_rule,
    .kernel = norm_kernel,
    .reference = norm_reference,
    .no_grad_out = 1u << 1,
    .samples = samples,
    .n_samples = sizeof samples / sizeof *samples,
};

const ft_op ft_op_layer_norm_grad = {
    .name = "layer_norm_grad",
    .doc = "gradients of layer_norm; dy, x (..., D), w (D), stats (..., 2) -> dx, dw (D), db (D)",
    .min_in = 4,
    .n_in = 4,
    .n_out = 3,
    .shape = grad_shape,
    .cost = grad_cost,
    .kernel = grad_kernel,
    .reference = grad_reference,
    .workspace = grad_workspace,
    .accumulates = 1u << 1 | 1u << 2,
    .samples = grad_samples,
    .n_samples = sizeof grad_samples / sizeof *grad_samples,
};
