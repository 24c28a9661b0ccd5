/* cuda/product_rows.c - rows that are matrix products. */
#include "cuda/rows.h"

/* Numbers in bf16, to begin at 256 bytes. */
static int64_t bf16_room(int64_t n)
{
    return (2 * n + 255) / 256 * 256;
}

static ft_status round_to(ft_device_stream *stream, const float *x, int64_t n, void *to,
                          ft_error *err)
{
    const ft_to_bf16_args args = {to, x, n};
    return ft_cuda_launch(stream, FT_CUDA_to_bf16, ft_each_grid(n), &args, err);
}

/* The library reads operands in bf16 from the call's workspace, and packed weights. */
static ft_status by_library(const ft_call *call, const ft_product_args *args, int64_t batch,
                            bool *done, ft_error *err)
{
    ft_product_args rounded = *args;
    *done = false;
    if (!ft_cuda_has_library(call->stream)) return FT_OK;
    if (!args->bf16) return ft_cuda_multiply(call->stream, args, batch, done, err);
    char *a = call->work, *b = a + bf16_room(args->M * args->K);
    FT_TRY(round_to(call->stream, args->a, args->M * args->K, a, err));
    if (!args->b_bf16) FT_TRY(round_to(call->stream, args->b, args->K * args->N, b, err));
    rounded.a = (const float *)(const void *)a;
    rounded.b =
        args->b_bf16 ? (const float *)(const void *)args->b_bf16 : (const float *)(const void *)b;
    return ft_cuda_multiply(call->stream, &rounded, batch, done, err);
}

/* `batch` products, one behind the other. */
static ft_status product(const ft_call *call, const ft_product_args *args, int64_t batch,
                         ft_error *err)
{
    bool done = false;
    if (args->M && args->N && args->K && batch) FT_TRY(by_library(call, args, batch, &done, err));
    if (done) return FT_OK;
    const ft_grid grid = {ft_blocks_of(args->N, FT_CUDA_TILE), ft_blocks_of(args->M, FT_CUDA_TILE),
                          batch};
    return ft_cuda_launch(call->stream, FT_CUDA_product, grid, args, err);
}

/* Attributes (op_linear.c). */
enum { ACTIVATION = 0, TRANSPOSED = 1, BF16 = 2, TF32 = 3, GRAD_BF16 = 0, GRAD_TF32 = 1 };

static ft_status linear_launch(const ft_call *call, ft_error *err)
{
    const ft_product_args args = {.c = ft_out(call, 0),
                                  .a = ft_in(call, 0),
                                  .b = ft_in(call, 1),
                                  .b_bf16 = call->packed,
                                  .bias = ft_in(call, 2),
                                  .M = ft_rows_of(&call->in[0].shape, 1),
                                  .N = ft_dim_back(&call->out[0].shape, -1),
                                  .K = ft_dim_back(&call->in[0].shape, -1),
                                  .transpose_b = call->attrs[TRANSPOSED] == 0.0,
                                  .relu = call->attrs[ACTIVATION] != 0.0,
                                  .bf16 = call->attrs[BF16] != 0.0,
                                  .tf32 = call->attrs[TF32] != 0.0};
    return product(call, &args, 1, err);
}

static ft_status grad_input_launch(const ft_call *call, ft_error *err)
{
    const ft_product_args args = {.c = ft_out(call, 0),
                                  .a = ft_in(call, 0),
                                  .b = ft_in(call, 1),
                                  .b_bf16 = call->packed,
                                  .M = ft_rows_of(&call->in[0].shape, 1),
                                  .N = call->in[1].shape.dims[1],
                                  .K = call->in[1].shape.dims[0],
                                  .bf16 = call->attrs[GRAD_BF16] != 0.0,
                                  .tf32 = call->attrs[GRAD_TF32] != 0.0};
    return product(call, &args, 1, err);
}

static ft_status grad_weight_launch(const ft_call *call, ft_error *err)
{
    const ft_product_args args = {.c = ft_out(call, 0),
                                  .a = ft_in(call, 0),
                                  .b = ft_in(call, 1),
                                  .M = call->out[0].shape.dims[0],
                                  .N = call->out[0].shape.dims[1],
                                  .K = ft_rows_of(&call->in[0].shape, 1),
                                  .transpose_a = 1,
                                  .add = ft_adds(call, 0),
                                  .bf16 = call->attrs[GRAD_BF16] != 0.0,
                                  .tf32 = call->attrs[GRAD_TF32] != 0.0};
    return product(call, &args, 1, err);
}

static ft_status matmul_launch(const ft_call *call, ft_error *err)
{
    bool ta = call->attrs[0] != 0.0, tb = call->attrs[1] != 0.0;
    const ft_shape *a = &call->in[0].shape;
    const ft_product_args args = {.c = ft_out(call, 0),
                                  .a = ft_in(call, 0),
                                  .b = ft_in(call, 1),
                                  .M = ft_dim_back(&call->out[0].shape, -2),
                                  .N = ft_dim_back(&call->out[0].shape, -1),
                                  .K = ft_dim_back(a, ta ? -2 : -1),
                                  .transpose_a = ta,
                                  .transpose_b = tb};
    return product(call, &args, ft_rows_of(a, 2), err);
}

/* -- packed weights ---------------------------------------------------------------------------- */

int64_t ft_cuda_pack_bytes(const ft_op *op, const ft_spec *in, const double *attrs)
{
    bool gradient = op == ft_op_find("linear_grad_input");
    bool bf16 = attrs[gradient ? GRAD_BF16 : BF16] != 0.0;
    return bf16 ? 2 * ft_shape_count(&in[1].shape) : 0;
}

/* Products read a matrix and its transpose alike. */
const char *ft_cuda_pack_kind(const ft_op *op, const double *attrs)
{
    (void)op, (void)attrs;
    return "bf16";
}

ft_status ft_cuda_pack(const ft_op *op, const ft_spec *in, const double *attrs, const void *weight,
                       void *packed, const ft_packer *by, ft_error *err)
{
    (void)op, (void)attrs;
    return round_to(by->stream, weight, ft_shape_count(&in[1].shape), packed, err);
}

/* -- the table --------------------------------------------------------------------------------- */

/* Of both operands in bf16. */
static int64_t operands(const ft_spec *in)
{
    return bf16_room(ft_shape_count(&in[0].shape)) + bf16_room(ft_shape_count(&in[1].shape));
}

static int64_t linear_work(const ft_spec *in, const double *attrs)
{
    return attrs[BF16] != 0.0 ? operands(in) : 0;
}

static int64_t grad_work(const ft_spec *in, const double *attrs)
{
    return attrs[GRAD_BF16] != 0.0 ? operands(in) : 0;
}

const ft_cuda_row ft_cuda_product_rows[] = {
    {"linear", linear_launch, linear_work},
    {"linear_grad_input", grad_input_launch, grad_work},
    {"linear_grad_weight", grad_weight_launch, grad_work},
    {"matmul", matmul_launch, NULL},
    {NULL, NULL, NULL},
};
