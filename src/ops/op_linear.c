/* ops/op_linear.c - products with a weight.
 *   linear              x (...,K)   w (N,K)  [bias (N)]  ->  y (...,N) = x w^T + bias, or its relu
 *   linear_grad_input   dy (...,N)  w (N,K)              ->  dx (...,K) = dy w
 * The gradients of the weight and the bias are in op_linear_weight.c.
 * Weights are stored (out, in), as PyTorch and Hugging Face files have them; of a transposed linear
 * (in, out), as GPT-2's files have them, and then its gradients are the other rows with their roles
 * exchanged. Both read a packed copy of w when there is one, with the same bits. */
#include "ops/internal.h"
#include "ops/panels.h"
#include "ops/rounding.h"

#include <stddef.h>

enum { ACTIVATION = 0, TRANSPOSED = 1, BF16 = 2, TF32 = 3, F16 = 4 };
enum { GRAD_BF16 = 0, GRAD_TF32 = 1, GRAD_F16 = 2 }; /* attributes of the gradients */

const ft_attr_rule ft_rounding_attrs[] = {FT_BF16_RULE, FT_TF32_RULE, FT_F16_RULE, {.name = NULL}};

/* -- with packed weights ----------------------------------------------------------------------- */

/* Sizes of a product, and how its weight is stored. */
typedef struct sizes {
    int64_t m, n, k;
    bool turned; /* (n,k) */
    bool bf16;
} sizes;

static ft_large_product product_of(const sizes *s, const float *weight)
{
    return (ft_large_product){
        .m = s->m, .n = s->n, .k = s->k, .b = weight, .b_transposed = s->turned};
}

static ft_status multiply(const sizes *s, const ft_call *call, const float *bias, bool relu,
                          ft_error *err)
{
    FT_TRY(ft_panels_check(s->bf16, err));
    ft_large_product product = product_of(s, ft_in(call, 1));
    product.a = ft_in(call, 0);
    product.packed = call->packed;
    product.bias = bias;
    product.relu = relu;
    product.c = ft_out(call, 0);
    product.work = call->work;
    ft_panels_multiply(&product, ft_panels_kernels(s->bf16), call->team);
    return FT_OK;
}

static int64_t work_bytes(const sizes *s, int team_size)
{
    return ft_panels_work_bytes(s->m, s->n, s->k, ft_panels_kernels(s->bf16), team_size);
}

static int64_t packed_bytes(const sizes *s)
{
    return ft_panels_packed_bytes(s->n, s->k, ft_panels_kernels(s->bf16));
}

static ft_status pack(const sizes *s, const float *weight, void *packed, ft_team *team,
                      ft_error *err)
{
    FT_TRY(ft_panels_check(s->bf16, err));
    const ft_large_product product = product_of(s, weight);
    ft_panels_pack(&product, packed, ft_panels_kernels(s->bf16), team);
    return FT_OK;
}

/* -- linear ------------------------------------------------------------------------------------ */

static const ft_attr_rule linear_attrs[] = {
    {.name = "activation",
     .preset = 0,
     .min = 0,
     .max = 1,
     .integer = true,
     .help = "what follows the product: 0 nothing, 1 relu"},
    {.name = "transposed",
     .preset = 0,
     .min = 0,
     .max = 1,
     .integer = true,
     .help = "1: the weight is (in, out), as in GPT-2's files"},
    FT_BF16_RULE,
    FT_TF32_RULE,
    FT_F16_RULE,
    {.name = NULL},
};

static ft_status linear_shape(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err)
{
    int in_axis = attrs[TRANSPOSED] != 0.0 ? 0 : 1, out_axis = 1 - in_axis;
    FT_TRY(ft_need_dtype("linear", "x", &in[0], FT_F32, err));
    FT_TRY(ft_need_dtype("linear", "weight", &in[1], FT_F32, err));
    FT_TRY(ft_need_dims("linear", "x", &in[0], 1, err));
    const ft_shape *x = &in[0].shape, *w = &in[1].shape;
    if (w->n_dims != 2 || w->dims[in_axis] != ft_dim_back(x, -1))
        return ft_shape_fail(err, "linear", "weight", &in[1],
                             in_axis ? "(out, the last dimension of x)"
                                     : "(the last dimension of x, out)");
    if (ft_present(&in[2])) {
        FT_TRY(ft_need_dtype("linear", "bias", &in[2], FT_F32, err));
        ft_shape bias = ft_shape_of(w->dims[out_axis]);
        FT_TRY(ft_need_shape("linear", "bias", &in[2], &bias, err));
    }
    out[0] = in[0];
    out[0].shape.dims[x->n_dims - 1] = w->dims[out_axis];
    return FT_OK;
}

static sizes linear_sizes(const ft_shape *x, const ft_shape *weight, const double *attrs)
{
    bool transposed = attrs[TRANSPOSED] != 0.0; /* stored as the product reads it */
    return (sizes){.m = ft_rows_of(x, 1),
                   .n = weight->dims[transposed ? 1 : 0],
                   .k = weight->dims[transposed ? 0 : 1],
                   .turned = !transposed,
                   .bf16 = attrs[BF16] != 0.0};
}

/* Two flops for each element of x and each column of the weight. */
static ft_cost linear_cost(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    ft_cost cost = ft_cost_per_element(in, 3, out, 1, 1.0);
    cost.flops += 2.0 * ft_spec_size(&out[0]) * (double)ft_dim_back(&in[0].shape, -1);
    cost.bf16 = attrs[BF16] != 0.0;
    cost.tf32 = attrs[TF32] != 0.0;
    cost.f16 = attrs[F16] != 0.0;
    return cost;
}

static ft_status linear_kernel(const ft_call *call, ft_error *err)
{
    const sizes s = linear_sizes(&call->in[0].shape, &call->in[1].shape, call->attrs);
    return multiply(&s, call, ft_in(call, 2), call->attrs[ACTIVATION] != 0.0, err);
}

static ft_status linear_reference(const ft_call *call, ft_error *err)
{
    (void)err;
    const double *x = ft_in64(call, 0), *w = ft_in64(call, 1), *bias = ft_in64(call, 2);
    double *y = ft_out64(call, 0);
    int64_t M = ft_rows_of(&call->in[0].shape, 1);
    int64_t N = ft_dim_back(&call->out[0].shape, -1), K = ft_dim_back(&call->in[0].shape, -1);
    int64_t row = call->attrs[TRANSPOSED] != 0.0 ? 1 : K;    /* from one output's weight */
    int64_t column = call->attrs[TRANSPOSED] != 0.0 ? N : 1; /* and one input's to the next */
    for (int64_t i = 0; i < M; i++)
        for (int64_t n = 0; n < N; n++) {
            double sum = bias ? bias[n] : 0.0;
            for (int64_t k = 0; k < K; k++) sum += x[i * K + k] * w[n * row + k * column];
            y[i * N + n] = call->attrs[ACTIVATION] != 0.0 && sum < 0.0 ? 0.0 : sum;
        }
    return FT_OK;
}

static int64_t linear_work(const ft_spec *in, const double *attrs, int team_size)
{
    const sizes s = linear_sizes(&in[0].shape, &in[1].shape, attrs);
    return work_bytes(&s, team_size);
}

static int64_t linear_pack_bytes(const ft_spec *in, const double *attrs)
{
    const sizes s = linear_sizes(&in[0].shape, &in[1].shape, attrs);
    return packed_bytes(&s);
}

static ft_status linear_pack(const ft_spec *in, const double *attrs, const void *weight,
                             void *packed, ft_team *team, ft_error *err)
{
    const sizes s = linear_sizes(&in[0].shape, &in[1].shape, attrs);
    return pack(&s, weight, packed, team, err);
}

/* By how the weight is stored against how the product reads it. */
static const char *linear_pack_kind(const double *attrs)
{
    if (attrs[BF16] != 0.0) return attrs[TRANSPOSED] != 0.0 ? "bf16" : "bf16_transposed";
    return attrs[TRANSPOSED] != 0.0 ? "weight" : "weight_transposed";
}

static void linear_grad(ft_builder *b, const ft_grad_site *site)
{
    ft_value_id dy = site->dout[0];
    if (site->attrs[ACTIVATION] != 0.0) dy = ft_add2(b, &ft_op_relu_grad, dy, site->out[0], NULL);
    bool transposed = site->attrs[TRANSPOSED] != 0.0;
    const double plain[FT_MAX_ATTRS] = {
        [BF16] = site->attrs[BF16], [TF32] = site->attrs[TF32], [F16] = site->attrs[F16]};
    const double grad[FT_MAX_ATTRS] = {[GRAD_BF16] = site->attrs[BF16],
                                       [GRAD_TF32] = site->attrs[TF32],
                                       [GRAD_F16] = site->attrs[F16]};
    ft_value_id x = site->in[0], w = site->in[1];
    if (site->wanted[0])
        site->din[0] = transposed ? ft_add2(b, &ft_op_linear, dy, w, plain)
                                  : ft_add2(b, &ft_op_linear_grad_input, dy, w, grad);
    if (site->wanted[1])
        site->din[1] = transposed ? ft_add2(b, &ft_op_linear_grad_weight, x, dy, grad)
                                  : ft_add2(b, &ft_op_linear_grad_weight, dy, x, grad);
    if (site->in[2] != FT_NO_VALUE && site->wanted[2])
        site->din[2] = ft_add1(b, &ft_op_bias_grad, dy, NULL);
}

static const ft_sample linear_samples[] = {
    {.in = {FT_F32_OF(3, 2, 3, 5), FT_F32_OF(2, 4, 5), FT_F32_OF(1, 4)},
     .attrs = {0},
     .tolerance = 1e-6},
    {.in = {FT_F32_OF(2, 3, 7), FT_F32_OF(2, 33, 7), FT_F32_OF(1, 33)},
     .attrs = {1},
     .tolerance = 1e-6},
    {.in = {FT_F32_OF(2, 1, 130), FT_F32_OF(2, 1, 130), FT_ABSENT},
     .attrs = {0},
     .tolerance = 2e-6},
    {.in = {FT_F32_OF(2, 9, 1), FT_F32_OF(2, 70, 1), FT_ABSENT}, .attrs = {1}, .tolerance = 1e-6},
    {.in = {FT_F32_OF(2, 300, 40), FT_F32_OF(2, 20, 40), FT_F32_OF(1, 20)},
     .attrs = {0},
     .tolerance = 2e-6},
    {.in = {FT_F32_OF(2, 5, 24), FT_F32_OF(2, 600, 24), FT_F32_OF(1, 600)},
     .attrs = {0},
     .tolerance = 2e-6},
    {.in = {FT_F32_OF(2, 0, 4), FT_F32_OF(2, 3, 4), FT_F32_OF(1, 3)},
     .attrs = {0},
     .tolerance = 1e-6},
    {.in = {FT_F32_OF(3, 2, 3, 5), FT_F32_OF(2, 5, 4), FT_F32_OF(1, 4)},
     .attrs = {1, 1},
     .tolerance = 1e-6},
    {.in = {FT_F32_OF(2, 200, 33), FT_F32_OF(2, 33, 130), FT_F32_OF(1, 130)},
     .attrs = {0, 1},
     .tolerance = 2e-6},
    {.in = {FT_F32_OF(2, 7, 24), FT_F32_OF(2, 24, 24), FT_ABSENT},
     .attrs = {0, 1},
     .tolerance = 2e-6},
    {.in = {FT_F32_OF(2, 300, 40), FT_F32_OF(2, 620, 40), FT_F32_OF(1, 620)},
     .attrs = {1, 0, 1},
     .tolerance = FT_BF16_GAP},
    {.in = {FT_F32_OF(3, 2, 3, 33), FT_F32_OF(2, 33, 270), FT_ABSENT},
     .attrs = {0, 1, 1},
     .tolerance = FT_BF16_GAP},
    {.in = {FT_F32_OF(2, 1, 1), FT_F32_OF(2, 1, 1), FT_F32_OF(1, 1)},
     .attrs = {0, 0, 1},
     .tolerance = FT_BF16_GAP},
    {.in = {FT_F32_OF(2, 0, 4), FT_F32_OF(2, 3, 4), FT_F32_OF(1, 3)},
     .attrs = {0, 0, 1},
     .tolerance = FT_BF16_GAP},
    {.in = {FT_F32_OF(2, 70, 40), FT_F32_OF(2, 33, 40), FT_F32_OF(1, 33)},
     .attrs = {1, 0, 0, 1},
     .tolerance = FT_TF32_GAP},
    {.in = {FT_F32_OF(3, 2, 3, 33), FT_F32_OF(2, 33, 70), FT_ABSENT},
     .attrs = {0, 1, 0, 1},
     .tolerance = FT_TF32_GAP},
    {.in = {FT_F32_OF(2, 70, 40), FT_F32_OF(2, 33, 40), FT_F32_OF(1, 33)},
     .attrs = {1, 0, 0, 0, 1},
     .tolerance = FT_TF32_GAP},
    {.in = {FT_F32_OF(3, 2, 3, 33), FT_F32_OF(2, 33, 70), FT_ABSENT},
     .attrs = {0, 1, 0, 0, 1},
     .tolerance = FT_TF32_GAP},
};

const ft_op ft_op_linear = {
    .name = "linear",
    .doc = "y (...,N) = x (...,K) weight (N,K)^T + bias (N), then relu if asked",
    .min_in = 2,
    .n_in = 3,
    .n_out = 1,
    .half_in = 1u,
    .half_out = 1u,
    .apart_out = 1u,
    .attrs = linear_attrs,
    .shape = linear_shape,
    .cost = linear_cost,
    .grad = linear_grad,
    .kernel = linear_kernel,
    .reference = linear_reference,
    .workspace = linear_work,
    .pack_input = 2,
    .pack_bytes = linear_pack_bytes,
    .pack = linear_pack,
    .pack_kind = linear_pack_kind,
    .samples = linear_samples,
    .n_samples = sizeof linear_samples / sizeof *linear_samples,
};

/* -- linear_grad_input ------------------------------------------------------------------------ */

static ft_status input_shape(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err)
{
    (void)attrs;
    FT_TRY(ft_need_dtype("linear_grad_input", "dy", &in[0], FT_F32, err));
    FT_TRY(ft_need_dtype("linear_grad_input", "weight", &in[1], FT_F32, err));
    FT_TRY(ft_need_dims("linear_grad_input", "dy", &in[0], 1, err));
    const ft_shape *dy = &in[0].shape, *w = &in[1].shape;
    if (w->n_dims != 2 || w->dims[0] != ft_dim_back(dy, -1))
        return ft_shape_fail(err, "linear_grad_input", "weight", &in[1],
                             "(the last dimension of dy, in)");
    out[0] = in[0];
    out[0].shape.dims[dy->n_dims - 1] = w->dims[1];
    return FT_OK;
}

static sizes input_sizes(const ft_shape *dy, const ft_shape *weight, const double *attrs)
{
    return (sizes){.m = ft_rows_of(dy, 1),
                   .n = weight->dims[1],
                   .k = weight->dims[0],
                   .bf16 = attrs[GRAD_BF16] != 0.0};
}

static ft_cost input_cost(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    ft_cost cost = ft_cost_per_element(in, 2, out, 1, 0.0);
    cost.flops = 2.0 * ft_spec_size(&out[0]) * (double)in[1].shape.dims[0];
    cost.bf16 = attrs[GRAD_BF16] != 0.0;
    cost.tf32 = attrs[GRAD_TF32] != 0.0;
    cost.f16 = attrs[GRAD_F16] != 0.0;
    return cost;
}

static ft_status input_kernel(const ft_call *call, ft_error *err)
{
    const sizes s = input_sizes(&call->in[0].shape, &call->in[1].shape, call->attrs);
    return multiply(&s, call, NULL, false, err);
}

static ft_status input_reference(const ft_call *call, ft_error *err)
{
    (void)err;
    const double *dy = ft_in64(call, 0), *w = ft_in64(call, 1);
    double *dx = ft_out64(call, 0);
    int64_t M = ft_rows_of(&call->in[0].shape, 1);
    int64_t N = call->in[1].shape.dims[0], K = call->in[1].shape.dims[1];
    for (int64_t i = 0; i < M; i++)
        for (int64_t k = 0; k < K; k++) {
            double sum = 0.0;
            for (int64_t n = 0; n < N; n++) sum += dy[i * N + n] * w[n * K + k];
            dx[i * K + k] = sum;
        }
    return FT_OK;
}

static int64_t input_work(const ft_spec *in, const double *attrs, int team_size)
{
    const sizes s = input_sizes(&in[0].shape, &in[1].shape, attrs);
    return work_bytes(&s, team_size);
}

static int64_t input_pack_bytes(const ft_spec *in, const double *attrs)
{
    const sizes s = input_sizes(&in[0].shape, &in[1].shape, attrs);
    return packed_bytes(&s);
}

static ft_status input_pack(const ft_spec *in, const double *attrs, const void *weight,
                            void *packed, ft_team *team, ft_error *err)
{
    const sizes s = input_sizes(&in[0].shape, &in[1].shape, attrs);
    return pack(&s, weight, packed, team, err);
}

static const char *input_pack_kind(const double *attrs)
{
    return attrs[GRAD_BF16] != 0.0 ? "bf16" : "weight";
}

static const ft_sample input_samples[] = {
    {.in = {FT_F32_OF(3, 2, 3, 4), FT_F32_OF(2, 4, 5)}, .tolerance = 1e-6},
    {.in = {FT_F32_OF(2, 7, 33), FT_F32_OF(2, 33, 130)}, .tolerance = 2e-6},
    {.in = {FT_F32_OF(2, 1, 1), FT_F32_OF(2, 1, 9)}, .tolerance = 1e-6},
    {.in = {FT_F32_OF(2, 270, 16), FT_F32_OF(2, 16, 1)}, .tolerance = 2e-6},
    {.in = {FT_F32_OF(2, 3, 5), FT_F32_OF(2, 5, 600)}, .tolerance = 1e-6},
    {.in = {FT_F32_OF(2, 200, 33), FT_F32_OF(2, 33, 600)}, .attrs = {1}, .tolerance = FT_BF16_GAP},
    {.in = {FT_F32_OF(2, 70, 33), FT_F32_OF(2, 33, 40)}, .attrs = {0, 1}, .tolerance = FT_TF32_GAP},
    {.in = {FT_F32_OF(2, 70, 33), FT_F32_OF(2, 33, 40)},
     .attrs = {0, 0, 1},
     .tolerance = FT_TF32_GAP},
};

const ft_op ft_op_linear_grad_input = {
    .name = "linear_grad_input",
    .doc = "dx (...,K) = dy (...,N) weight (N,K)",
    .min_in = 2,
    .n_in = 2,
    .n_out = 1,
    .half_in = 1u,
    .half_out = 1u,
    .apart_in = 1u,
    .attrs = ft_rounding_attrs,
    .shape = input_shape,
    .cost = input_cost,
    .kernel = input_kernel,
    .reference = input_reference,
    .workspace = input_work,
    .pack_input = 2,
    .pack_bytes = input_pack_bytes,
    .pack = input_pack,
    .pack_kind = input_pack_kind,
    .samples = input_samples,
    .n_samples = sizeof input_samples / sizeof *input_samples,
};
