/* ops/op_rms_norm.c - T5's normalisation: no mean, no bias.
 *   x (..., D)   w (D)   ->   y (..., D)   rstd (...)
 * y = x * rstd * w, rstd = 1 / sqrt(mean(x^2) + eps). Source: Zhang and Sennrich, arXiv:1910.07467.
 * rstd is kept for the gradient. */
#include "ops/internal.h"

#include <math.h>
#include <string.h>

enum { ROWS = 16 }; /* of a piece of the forward pass */

typedef struct job {
    const float *dy, *x, *w, *stats;
    float *y, *rstd, *parts;
    float eps;
    int64_t rows, D, per_part;
} job;

static ft_status norm_shape(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err)
{
    (void)attrs;
    FT_TRY(ft_need_rows("rms_norm", "x", &in[0], err));
    FT_TRY(ft_need_f32("rms_norm", "w", &in[1], ft_shape_back(&in[0].shape, 1), err));
    out[0] = in[0];
    out[1] = ft_spec_of(FT_F32, ft_shape_front(&in[0].shape, 1));
    return FT_OK;
}

static ft_cost norm_cost(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    (void)attrs;
    return ft_cost_of(in, 2, out, 2, 4.0 * ft_spec_size(&in[0]));
}

static void norm_grad_rule(ft_builder *b, const ft_grad_site *site)
{
    const double none[FT_MAX_ATTRS] = {0};
    const ft_value_id in[] = {site->dout[0], site->in[0], site->in[1], site->out[1]};
    ft_value_id dx = b->add(b, &ft_op_rms_norm_grad, in, 4, none);
    if (site->wanted[0]) site->din[0] = dx;
    if (site->wanted[1]) site->din[1] = dx + 1;
}

static void norm_piece(void *arg, int piece)
{
    const job *j = arg;
    const ft_simd_norm *simd = ft_simd_get()->norm;
    for (int64_t i = (int64_t)piece * ROWS; i < ft_piece_end(j->rows, ROWS, piece); i++)
        j->rstd[i] = simd->rms(j->y + i * j->D, j->x + i * j->D, j->w, j->eps, j->D);
}

static ft_status norm_kernel(const ft_call *call, ft_error *err)
{
    (void)err;
    job j = {.x = ft_in(call, 0),
             .w = ft_in(call, 1),
             .y = ft_out(call, 0),
             .rstd = ft_out(call, 1),
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
        double sum = 0.0;
        for (int64_t d = 0; d < D; d++) sum += x[d] * x[d];
        double rstd = 1.0 / sqrt(sum / (double)D + call->attrs[0]);
        for (int64_t d = 0; d < D; d++)
            ft_out64(call, 0)[i * D + d] = x[d] * rstd * ft_in64(call, 1)[d];
        ft_out64(call, 1)[i] = rstd;
    }
    return FT_OK;
}

static ft_status grad_shape(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err)
{
    (void)attrs;
    FT_TRY(ft_need_rows("rms_norm_grad", "dy", &in[0], err));
    FT_TRY(ft_need_spec("rms_norm_grad", "x", &in[1], &in[0], err));
    FT_TRY(ft_need_f32("rms_norm_grad", "w", &in[2], ft_shape_back(&in[0].shape, 1), err));
    FT_TRY(ft_need_f32("rms_norm_grad", "rstd", &in[3], ft_shape_front(&in[0].shape, 1), err));
    out[0] = in[0];
    out[1] = in[2];
    return FT_OK;
}

static ft_cost grad_cost(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    (void)attrs;
    return ft_cost_of(in, 4, out, 2, 10.0 * ft_spec_size(&in[0]));
}

static int64_t grad_workspace(const ft_spec *in, const double *attrs, int team_size)
{
    (void)attrs, (void)team_size;
    return FT_MAX_PARTS * ft_spec_bytes(&in[2]);
}

static void grad_part(void *arg, int part)
{
    const job *j = arg;
    const ft_simd_norm *simd = ft_simd_get()->norm;
    float *dw = j->parts + part * j->D;
    memset(dw, 0, (size_t)j->D * sizeof *dw);
    for (int64_t i = part * j->per_part; i < ft_piece_end(j->rows, j->per_part, part); i++) {
        int64_t at = i * j->D;
        simd->rms_grad(j->y + at, dw, j->dy + at, j->x + at, j->w, j->stats[i], j->D);
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
    ft_parts_sum(ft_out(call, 1), j.parts, n_parts, j.D, ft_adds(call, 1));
    return FT_OK;
}

static ft_status grad_reference(const ft_call *call, ft_error *err)
{
    (void)err;
    int64_t rows = ft_rows_of(&call->in[0].shape, 1), D = ft_dim_back(&call->in[0].shape, -1);
    const double *w = ft_in64(call, 2);
    double *dw = ft_out64(call, 1);
    for (int64_t d = 0; d < D; d++) dw[d] = 0.0;
    for (int64_t i = 0; i < rows; i++) {
        const double *dy = ft_in64(call, 0) + i * D, *x = ft_in64(call, 1) + i * D;
        double rstd = ft_in64(call, 3)[i], mean = 0.0;
        for (int64_t d = 0; d < D; d++) {
            mean += dy[d] * w[d] * x[d] * rstd / (double)D;
            dw[d] += dy[d] * x[d] * rstd;
        }
        for (int64_t d = 0; d < D; d++)
            ft_out64(call, 0)[i * D + d] = rstd * (dy[d] * w[d] - x[d] * rstd * mean);
    }
    return FT_OK;
}

static const ft_sample samples[] = {
    {.in = {{FT_F32, {3, {2, 5, 33}}}, {FT_F32, {1, {33}}}}, .attrs = {1e-6}, .tolerance = 1e-6},
    {.in = {{FT_F32, {1, {7}}}, {FT_F32, {1, {7}}}}, .attrs = {1e-5}, .tolerance = 1e-6},
    {.in = {{FT_F32, {2, {40, 1000}}}, {FT_F32, {1, {1000}}}}, .attrs = {1e-6}, .tolerance = 1e-6},
    {.in = {{FT_F32, {2, {3, 1}}}, {FT_F32, {1, {1}}}}, .attrs = {1e-1}, .tolerance = 1e-6},
    {.in = {{FT_F32, {2, {0, 8}}}, {FT_F32, {1, {8}}}}, .attrs = {1e-6}},
};

static const ft_sample grad_samples[] = {
    {.in = {{FT_F32, {3, {2, 5, 33}}}, {FT_F32, {3, {2, 5, 33}}}, {FT_F32, {1, {33}}},
            {FT_F32, {2, {2, 5}}}},
     .tolerance = 1e-6},
    {.in = {{FT_F32, {1, {7}}}, {FT_F32, {1, {7}}}, {FT_F32, {1, {7}}}, {FT_F32, {0, {0}}}},
     .tolerance = 1e-6},
    {.in = {{FT_F32, {2, {300, 1000}}}, {FT_F32, {2, {300, 1000}}}, {FT_F32, {1, {1000}}},
            {FT_F32, {1, {300}}}},
     .tolerance = 2e-6},
    {.in = {{FT_F32, {2, {0, 8}}}, {FT_F32, {2, {0, 8}}}, {FT_F32, {1, {8}}}, {FT_F32, {1, {0}}}}},
};

const ft_op ft_op_rms_norm = {
    .name = "rms_norm",
    .doc = "y = x * rstd * w, rstd = 1 / sqrt(mean(x^2) + eps); x (..., D), w (D) -> y, rstd (...)",
    .min_in = 2,
    .n_in = 2,
    .n_out = 2,
    .attrs = (const ft_attr_rule[]){{"eps", 1e-6, 0, 1, false, "added to the mean square"}, {0}},
    .shape = norm_shape,
    .cost = norm_cost,
    .grad = norm_grad_rule,
    .kernel = norm_kernel,
    .reference = norm_reference,
    .no_grad_out = 1u << 1,
    .samples = samples,
    .n_samples = sizeof samples / sizeof *samples,
};

const ft_op ft_op_rms_norm_grad = {
    .name = "rms_norm_grad",
    .doc = "gradients of rms_norm; dy, x (..., D), w (D), rstd (...) -> dx (..., D), dw (D)",
    .min_in = 4,
    .n_in = 4,
    .n_out = 2,
    .shape = grad_shape,
    .cost = grad_cost,
    .kernel = grad_kernel,
    .reference = grad_reference,
    .workspace = grad_workspace,
    .accumulates = 1u << 1,
    .samples = grad_samples,
    .n_samples = sizeof grad_samples / sizeof *grad_samples,
};
