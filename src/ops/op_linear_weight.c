/* ops/op_linear_weight.c - the gradients of what every row of a linear reads.
 *   linear_grad_weight  dy (...,N)  x (...,K)  ->  dw (N,K) = dy^T x
 *   bias_grad           dy (...,N)             ->  db (N), the sum over the rows of dy
 * Both can be added to what is there. */
#include "ops/internal.h"
#include "ops/panels.h"
#include "ops/rounding.h"

enum { BF16 = 0, TF32 = 1, F16 = 2, BIAS_COLUMNS = 256 };

/* -- linear_grad_weight ----------------------------------------------------------------------- */

static ft_status weight_shape(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err)
{
    (void)attrs;
    FT_TRY(ft_need_dtype("linear_grad_weight", "dy", &in[0], FT_F32, err));
    FT_TRY(ft_need_dtype("linear_grad_weight", "x", &in[1], FT_F32, err));
    FT_TRY(ft_need_dims("linear_grad_weight", "dy", &in[0], 1, err));
    FT_TRY(ft_need_dims("linear_grad_weight", "x", &in[1], 1, err));
    ft_shape x = in[0].shape;
    x.dims[x.n_dims - 1] = ft_dim_back(&in[1].shape, -1);
    FT_TRY(ft_need_shape("linear_grad_weight", "x", &in[1], &x, err));
    int64_t N = ft_dim_back(&in[0].shape, -1), K = ft_dim_back(&in[1].shape, -1);
    out[0] = ft_spec_of(FT_F32, ft_shape_of(N, K));
    return FT_OK;
}

static ft_cost weight_cost(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    ft_cost cost = ft_cost_per_element(in, 2, out, 1, 0.0);
    cost.flops = 2.0 * ft_spec_size(&out[0]) * (double)ft_rows_of(&in[0].shape, 1);
    cost.bf16 = attrs[BF16] != 0.0;
    cost.tf32 = attrs[TF32] != 0.0;
    cost.f16 = attrs[F16] != 0.0;
    return cost;
}

static ft_status weight_kernel(const ft_call *call, ft_error *err)
{
    const bool bf16 = call->attrs[BF16] != 0.0;
    FT_TRY(ft_panels_check(bf16, err));
    const ft_large_product product = {.m = call->out[0].shape.dims[0],
                                      .n = call->out[0].shape.dims[1],
                                      .k = ft_rows_of(&call->in[0].shape, 1),
                                      .a = ft_in(call, 0),
                                      .a_transposed = true,
                                      .b = ft_in(call, 1),
                                      .c = ft_out(call, 0),
                                      .add = ft_adds(call, 0),
                                      .far = true,
                                      .work = call->work};
    ft_panels_multiply(&product, ft_panels_kernels(bf16), call->team);
    return FT_OK;
}

static int64_t weight_work(const ft_spec *in, const double *attrs, int team_size)
{
    return ft_panels_work_bytes(ft_dim_back(&in[0].shape, -1), ft_dim_back(&in[1].shape, -1),
                                ft_rows_of(&in[0].shape, 1), ft_panels_kernels(attrs[BF16] != 0.0),
                                team_size);
}

static ft_status weight_reference(const ft_call *call, ft_error *err)
{
    (void)err;
    const double *dy = ft_in64(call, 0), *x = ft_in64(call, 1);
    double *dw = ft_out64(call, 0);
    int64_t M = ft_rows_of(&call->in[0].shape, 1);
    int64_t N = call->out[0].shape.dims[0], K = call->out[0].shape.dims[1];
    for (int64_t n = 0; n < N; n++)
        for (int64_t k = 0; k < K; k++) {
            double sum = ft_adds(call, 0) ? dw[n * K + k] : 0.0;
            for (int64_t i = 0; i < M; i++) sum += dy[i * N + n] * x[i * K + k];
            dw[n * K + k] = sum;
        }
    return FT_OK;
}

static const ft_sample weight_samples[] = {
    {.in = {FT_F32_OF(3, 2, 3, 4), FT_F32_OF(3, 2, 3, 5)}, .tolerance = 1e-6},
    {.in = {FT_F32_OF(2, 130, 33), FT_F32_OF(2, 130, 7)}, .tolerance = 2e-6},
    {.in = {FT_F32_OF(2, 1, 600), FT_F32_OF(2, 1, 1)}, .tolerance = 1e-6},
    {.in = {FT_F32_OF(2, 0, 3), FT_F32_OF(2, 0, 2)}, .tolerance = 1e-6},
    {.in = {FT_F32_OF(2, 130, 33), FT_F32_OF(2, 130, 7)}, .attrs = {1}, .tolerance = FT_BF16_GAP},
    {.in = {FT_F32_OF(2, 37, 300), FT_F32_OF(2, 37, 130)}, .attrs = {1}, .tolerance = FT_BF16_GAP},
    {.in = {FT_F32_OF(2, 48, 24), FT_F32_OF(2, 48, 40)}, .attrs = {1}, .tolerance = FT_BF16_GAP},
    {.in = {FT_F32_OF(2, 70, 600), FT_F32_OF(2, 70, 64)}, .attrs = {1}, .tolerance = FT_BF16_GAP},
    {.in = {FT_F32_OF(2, 0, 3), FT_F32_OF(2, 0, 2)}, .attrs = {1}, .tolerance = FT_BF16_GAP},
    {.in = {FT_F32_OF(2, 70, 43), FT_F32_OF(2, 70, 8)}, .attrs = {1}, .tolerance = FT_BF16_GAP},
    {.in = {FT_F32_OF(2, 70, 33), FT_F32_OF(2, 70, 7)}, .attrs = {0, 1}, .tolerance = FT_TF32_GAP},
    {.in = {FT_F32_OF(2, 70, 33), FT_F32_OF(2, 70, 7)},
     .attrs = {0, 0, 1},
     .tolerance = FT_TF32_GAP},
};

const ft_op ft_op_linear_grad_weight = {
    .name = "linear_grad_weight",
    .doc = "dweight (N,K) = dy (...,N)^T x (...,K), summed over all rows; accumulates",
    .min_in = 2,
    .n_in = 2,
    .n_out = 1,
    .half_in = 1u | 1u << 1,
    .apart_in = 1u,
    .attrs = ft_rounding_attrs,
    .shape = weight_shape,
    .cost = weight_cost,
    .kernel = weight_kernel,
    .reference = weight_reference,
    .workspace = weight_work,
    .accumulates = 1,
    .samples = weight_samples,
    .n_samples = sizeof weight_samples / sizeof *weight_samples,
};

/* -- bias_grad -------------------------------------------------------------------------------- */

static ft_status bias_shape(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err)
{
    (void)attrs;
    FT_TRY(ft_need_dtype("bias_grad", "dy", &in[0], FT_F32, err));
    FT_TRY(ft_need_dims("bias_grad", "dy", &in[0], 1, err));
    out[0] = ft_spec_of(FT_F32, ft_shape_of(ft_dim_back(&in[0].shape, -1)));
    return FT_OK;
}

static ft_cost bias_cost(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    (void)attrs;
    ft_cost cost = ft_cost_per_element(in, 1, out, 1, 0.0);
    cost.flops = ft_spec_size(&in[0]);
    return cost;
}

/* A piece of the columns: rows are added in their order, in f64. What rows add to a bias may cancel
 * to nothing (a span head's does), and then the roundings of f32 would be all that is left. */
static void bias_piece(void *arg, int i)
{
    const ft_call *call = arg;
    int64_t M = ft_rows_of(&call->in[0].shape, 1), N = call->out[0].shape.dims[0];
    int64_t start = (int64_t)i * BIAS_COLUMNS;
    int64_t count = ft_piece_end(N, BIAS_COLUMNS, i) - start;
    const float *dy = ft_in(call, 0) + start;
    float *db = ft_out(call, 0) + start;
    double total[BIAS_COLUMNS];
    for (int64_t n = 0; n < count; n++) total[n] = ft_adds(call, 0) ? (double)db[n] : 0.0;
    const ft_simd_math *math = ft_simd_get()->math;
    for (int64_t row = 0; row < M; row++) math->add_to(total, dy + row * N, count);
    for (int64_t n = 0; n < count; n++) db[n] = (float)total[n];
}

static ft_status bias_kernel(const ft_call *call, ft_error *err)
{
    (void)err;
    ft_call copy = *call; /* the team's argument is not const */
    int64_t N = call->out[0].shape.dims[0];
    ft_team_run(call->team, ft_pieces(N, BIAS_COLUMNS), bias_piece, &copy);
    return FT_OK;
}

static ft_status bias_reference(const ft_call *call, ft_error *err)
{
    (void)err;
    const double *dy = ft_in64(call, 0);
    double *db = ft_out64(call, 0);
    int64_t M = ft_rows_of(&call->in[0].shape, 1), N = call->out[0].shape.dims[0];
    for (int64_t n = 0; n < N; n++) {
        double sum = ft_adds(call, 0) ? db[n] : 0.0;
        for (int64_t i = 0; i < M; i++) sum += dy[i * N + n];
        db[n] = sum;
    }
    return FT_OK;
}

static const ft_sample bias_samples[] = {
    {.in = {FT_F32_OF(3, 2, 3, 5)}, .tolerance = 1e-6},
    {.in = {FT_F32_OF(2, 130, 300)}, .tolerance = 2e-6},
    {.in = {FT_F32_OF(1, 7)}, .tolerance = 1e-6},
    {.in = {FT_F32_OF(2, 0, 3)}, .tolerance = 1e-6},
};

const ft_op ft_op_bias_grad = {
    .name = "bias_grad",
    .doc = "dbias (N) = the sum of dy (...,N) over all rows; accumulates",
    .min_in = 1,
    .n_in = 1,
    .n_out = 1,
    .half_in = 1u,
    .shape = bias_shape,
    .cost = bias_cost,
    .kernel = bias_kernel,
    .reference = bias_reference,
    .accumulates = 1,
    .samples = bias_samples,
    .n_samples = sizeof bias_samples / sizeof *bias_samples,
};
