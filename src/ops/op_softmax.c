/* ops/op_softmax.c - softmax over the last axis.
 *   x (..., n)   ->   y (..., n)
 * A row of nothing but -inf gives NaN; masks of models are large finite numbers. */
#include "ops/internal.h"

#include <math.h>
#include <stddef.h>

enum { ROWS = 16 }; /* of a piece */

typedef struct job {
    float *y;
    const float *a, *b;
    int64_t rows, n;
} job;

static ft_status softmax_shape(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err)
{
    (void)attrs;
    FT_TRY(ft_need_rows("softmax", "x", &in[0], err));
    out[0] = in[0];
    return FT_OK;
}

static ft_cost softmax_cost(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    (void)attrs;
    return ft_cost_per_element(in, 1, out, 1, 20.0);
}

static void softmax_rule(ft_builder *b, const ft_grad_site *site)
{
    if (site->wanted[0])
        site->din[0] = ft_add2(b, &ft_op_softmax_grad, site->dout[0], site->out[0], NULL);
}

static void softmax_piece(void *arg, int piece)
{
    const job *j = arg;
    const ft_simd_softmax *simd = ft_simd_get()->softmax;
    for (int64_t i = (int64_t)piece * ROWS; i < ft_piece_end(j->rows, ROWS, piece); i++) {
        int64_t at = i * j->n;
        if (j->b)
            simd->row_grad(j->y + at, j->a + at, j->b + at, j->n);
        else
            simd->row(j->y + at, j->a + at, j->n);
    }
}

static ft_status run(const ft_call *call, const float *b)
{
    job j = {.y = ft_out(call, 0),
             .a = ft_in(call, 0),
             .b = b,
             .rows = ft_rows_of(&call->in[0].shape, 1),
             .n = ft_dim_back(&call->in[0].shape, -1)};
    ft_team_run(call->team, ft_pieces(j.rows, ROWS), softmax_piece, &j);
    return FT_OK;
}

static ft_status softmax_kernel(const ft_call *call, ft_error *err)
{
    (void)err;
    return run(call, NULL);
}

static ft_status softmax_reference(const ft_call *call, ft_error *err)
{
    (void)err;
    int64_t rows = ft_rows_of(&call->in[0].shape, 1), n = ft_dim_back(&call->in[0].shape, -1);
    for (int64_t i = 0; i < rows; i++) {
        const double *x = ft_in64(call, 0) + i * n;
        double *y = ft_out64(call, 0) + i * n, top = -INFINITY, sum = 0.0;
        for (int64_t k = 0; k < n; k++) top = fmax(top, x[k]);
        for (int64_t k = 0; k < n; k++) sum += exp(x[k] - top);
        for (int64_t k = 0; k < n; k++) y[k] = exp(x[k] - top) / sum;
    }
    return FT_OK;
}

static ft_status grad_shape(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err)
{
    (void)attrs;
    FT_TRY(ft_need_rows("softmax_grad", "dy", &in[0], err));
    FT_TRY(ft_need_spec("softmax_grad", "y", &in[1], &in[0], err));
    out[0] = in[0];
    return FT_OK;
}

static ft_cost grad_cost(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    (void)attrs;
    return ft_cost_per_element(in, 2, out, 1, 4.0);
}

static ft_status grad_kernel(const ft_call *call, ft_error *err)
{
    (void)err;
    return run(call, ft_in(call, 1));
}

static ft_status grad_reference(const ft_call *call, ft_error *err)
{
    (void)err;
    int64_t rows = ft_rows_of(&call->in[0].shape, 1), n = ft_dim_back(&call->in[0].shape, -1);
    for (int64_t i = 0; i < rows; i++) {
        const double *dy = ft_in64(call, 0) + i * n, *y = ft_in64(call, 1) + i * n;
        double dot = 0.0;
        for (int64_t k = 0; k < n; k++) dot += dy[k] * y[k];
        for (int64_t k = 0; k < n; k++) ft_out64(call, 0)[i * n + k] = y[k] * (dy[k] - dot);
    }
    return FT_OK;
}

static const ft_sample samples[] = {
    {.in = {{FT_F32, {3, {2, 5, 33}}}, {FT_F32, {3, {2, 5, 33}}}}, .tolerance = 1e-6},
    {.in = {{FT_F32, {1, {7}}}, {FT_F32, {1, {7}}}}, .tolerance = 1e-6},
    {.in = {{FT_F32, {2, {4, 1}}}, {FT_F32, {2, {4, 1}}}}, .tolerance = 1e-6},
    {.in = {{FT_F32, {2, {40, 1000}}}, {FT_F32, {2, {40, 1000}}}}, .tolerance = 1e-6},
    {.in = {{FT_F32, {2, {0, 8}}}, {FT_F32, {2, {0, 8}}}}},
};

const ft_op ft_op_softmax = {
    .name = "softmax",
    .doc = "y = exp(x) / sum(exp(x)) over the last axis; x (..., n) -> (..., n)",
    .min_in = 1,
    .n_in = 1,
    .n_out = 1,
    .half_in = 1u,
    .half_out = 1u,
    .shape = softmax_shape,
    .cost = softmax_cost,
    .grad = softmax_rule,
    .kernel = softmax_kernel,
    .reference = softmax_reference,
    .samples = samples,
    .n_samples = sizeof samples / sizeof *samples,
};

const ft_op ft_op_softmax_grad = {
    .name = "softmax_grad",
    .doc = "dx = y (dy - sum(dy y)); (dy, y)",
    .min_in = 2,
    .n_in = 2,
    .n_out = 1,
    .half_in = 1u | 1u << 1,
    .half_out = 1u,
    .shape = grad_shape,
    .cost = grad_cost,
    .kernel = grad_kernel,
    .reference = grad_reference,
    .samples = samples,
    .n_samples = sizeof samples / sizeof *samples,
};
