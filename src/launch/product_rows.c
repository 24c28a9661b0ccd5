/* launch/product_rows.c - rows that are matrix products. */
#include "launch/rows.h"

/* Numbers in 16 bits, to begin at 256 bytes. */
static int64_t half_room(int64_t n)
{
    return (2 * n + 255) / 256 * 256;
}

static bool is_half(int rounding)
{
    return rounding == FT_CUDA_BF16 || rounding == FT_CUDA_F16;
}

static ft_status round_to(ft_device_stream *stream, const float *x, int64_t n, int rounding,
                          void *to, ft_error *err)
{
    const ft_to_half_args args = {to, x, n, rounding};
    return ft_cuda_launch(stream, FT_CUDA_to_half, ft_each_grid(n), &args, err);
}

/* Makes n numbers of `x`, which is f32, those in 16 bits that the library reads, in the workspace
 * from *room on. */
static ft_status make_half(const ft_call *call, ft_numbers *x, int64_t n, int rounding, char **room,
                           ft_error *err)
{
    if (x->kept == rounding) return FT_OK;
    FT_TRY(round_to(call->stream, x->at, n, rounding, *room, err));
    *x = (ft_numbers){*room, rounding};
    *room += half_room(n);
    return FT_OK;
}

/* Numbers of 16 bits are those of the rounding, as a precision has them. */
static bool suits(const ft_numbers *x, int rounding)
{
    return x->kept == FT_CUDA_F32 || (is_half(rounding) && x->kept == rounding);
}

/* The library reads operands that are both in 16 bits, or both f32, and a bias like its result. */
static ft_status by_library(const ft_call *call, const ft_product_args *args, int64_t batch,
                            bool *done, ft_error *err)
{
    ft_product_args rounded = *args;
    char *room = call->work;
    int rounding = args->rounding;
    *done = false;
    if (!ft_cuda_has_library(call->stream) || !suits(&args->a, rounding) ||
        !suits(&args->b, rounding) || !suits(&args->c, rounding))
        return FT_OK;
    if (is_half(rounding)) {
        int64_t rows_of_a = args->transpose_a ? args->K : args->M;
        ft_numbers bias = {(void *)(uintptr_t)args->bias, FT_CUDA_F32};
        FT_TRY(make_half(call, &rounded.a, rows_of_a * args->pitch_a, rounding, &room, err));
        FT_TRY(make_half(call, &rounded.b, args->K * args->N, rounding, &room, err));
        if (bias.at && args->c.kept == rounding)
            FT_TRY(make_half(call, &bias, args->N, rounding, &room, err));
        rounded.bias = bias.at;
    }
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

/* Attributes (ops/op_linear.c). */
enum { ACTIVATION = 0, TRANSPOSED = 1, LINEAR_ROUNDING = 2, GRAD_ROUNDING = 0 };

/* The weight of a call, or its copy in 16 bits. */
static ft_numbers weight_of(const ft_call *call, int rounding)
{
    if (!call->packed) return ft_cuda_in(call, 1);
    return (ft_numbers){(void *)(uintptr_t)call->packed, rounding};
}

/* Of the attributes bf16, tf32, f16, which follow each other. */
static int rounding_of(const double *attrs)
{
    return attrs[0] != 0.0   ? FT_CUDA_BF16
           : attrs[1] != 0.0 ? FT_CUDA_TF32
           : attrs[2] != 0.0 ? FT_CUDA_F16
                             : FT_CUDA_F32;
}

static ft_status linear_launch(const ft_call *call, ft_error *err)
{
    int rounding = rounding_of(call->attrs + LINEAR_ROUNDING);
    const ft_product_args args = {.c = ft_cuda_out(call, 0),
                                  .a = ft_cuda_in(call, 0),
                                  .b = weight_of(call, rounding),
                                  .bias = ft_in(call, 2),
                                  .M = ft_rows_of(&call->in[0].shape, 1),
                                  .N = ft_dim_back(&call->out[0].shape, -1),
                                  .K = ft_dim_back(&call->in[0].shape, -1),
                                  .pitch_a = ft_cuda_pitch(&call->in[0]),
                                  .pitch_c = ft_cuda_pitch(&call->out[0]),
                                  .transpose_b = call->attrs[TRANSPOSED] == 0.0,
                                  .relu = call->attrs[ACTIVATION] != 0.0,
                                  .rounding = rounding};
    const ft_clear_gaps_args gaps = {args.c, args.M, args.N, args.pitch_c};
    FT_TRY(product(call, &args, 1, err));
    return ft_cuda_launch(call->stream, FT_CUDA_clear_gaps,
                          ft_each_grid(args.M * (args.pitch_c - args.N)), &gaps, err);
}

static ft_status grad_input_launch(const ft_call *call, ft_error *err)
{
    int rounding = rounding_of(call->attrs + GRAD_ROUNDING);
    const ft_product_args args = {.c = ft_cuda_out(call, 0),
                                  .a = ft_cuda_in(call, 0),
                                  .b = weight_of(call, rounding),
                                  .M = ft_rows_of(&call->in[0].shape, 1),
                                  .N = call->in[1].shape.dims[1],
                                  .K = call->in[1].shape.dims[0],
                                  .pitch_a = ft_cuda_pitch(&call->in[0]),
                                  .pitch_c = call->in[1].shape.dims[1],
                                  .rounding = rounding};
    return product(call, &args, 1, err);
}

static ft_status grad_weight_launch(const ft_call *call, ft_error *err)
{
    const ft_product_args args = {.c = ft_cuda_out(call, 0),
                                  .a = ft_cuda_in(call, 0),
                                  .b = ft_cuda_in(call, 1),
                                  .M = call->out[0].shape.dims[0],
                                  .N = call->out[0].shape.dims[1],
                                  .K = ft_rows_of(&call->in[0].shape, 1),
                                  .pitch_a = ft_cuda_pitch(&call->in[0]),
                                  .pitch_c = call->out[0].shape.dims[1],
                                  .transpose_a = 1,
                                  .add = ft_adds(call, 0),
                                  .rounding = rounding_of(call->attrs + GRAD_ROUNDING)};
    return product(call, &args, 1, err);
}

static ft_status matmul_launch(const ft_call *call, ft_error *err)
{
    bool ta = call->attrs[0] != 0.0, tb = call->attrs[1] != 0.0;
    const ft_shape *a = &call->in[0].shape;
    const ft_product_args args = {.c = ft_cuda_out(call, 0),
                                  .a = ft_cuda_in(call, 0),
                                  .b = ft_cuda_in(call, 1),
                                  .pitch_a = ft_dim_back(a, -1),
                                  .pitch_c = ft_dim_back(&call->out[0].shape, -1),
                                  .M = ft_dim_back(&call->out[0].shape, -2),
                                  .N = ft_dim_back(&call->out[0].shape, -1),
                                  .K = ft_dim_back(a, ta ? -2 : -1),
                                  .transpose_a = ta,
                                  .transpose_b = tb};
    return product(call, &args, ft_rows_of(a, 2), err);
}

/* -- packed weights ---------------------------------------------------------------------------- */

static int packed_rounding(const ft_op *op, const double *attrs)
{
    bool gradient = op == ft_op_find("linear_grad_input");
    return rounding_of(attrs + (gradient ? GRAD_ROUNDING : LINEAR_ROUNDING));
}

int64_t ft_cuda_pack_bytes(const ft_op *op, const ft_spec *in, const double *attrs)
{
    return is_half(packed_rounding(op, attrs)) ? 2 * ft_shape_count(&in[1].shape) : 0;
}

/* Products read a matrix and its transpose alike. */
const char *ft_cuda_pack_kind(const ft_op *op, const double *attrs)
{
    return packed_rounding(op, attrs) == FT_CUDA_F16 ? "f16" : "bf16";
}

ft_status ft_cuda_pack(const ft_op *op, const ft_spec *in, const double *attrs, const void *weight,
                       void *packed, const ft_packer *by, ft_error *err)
{
    return round_to(by->stream, weight, ft_shape_count(&in[1].shape), packed_rounding(op, attrs),
                    packed, err);
}

/* -- the table --------------------------------------------------------------------------------- */

/* Of the first n inputs in 16 bits, where they are not kept so. */
static int64_t halves(const ft_spec *in, int n, int rounding)
{
    int64_t bytes = 0;
    for (int i = 0; i < n && is_half(rounding); i++)
        if (ft_present(&in[i]) && in[i].dtype == FT_F32)
            bytes += half_room(ft_spec_bytes(&in[i]) / (int64_t)sizeof(float));
    return bytes;
}

static int64_t linear_work(const ft_spec *in, const double *attrs)
{
    return halves(in, 3, rounding_of(attrs + LINEAR_ROUNDING));
}

static int64_t grad_work(const ft_spec *in, const double *attrs)
{
    return halves(in, 2, rounding_of(attrs + GRAD_ROUNDING));
}

const ft_cuda_row ft_cuda_product_rows[] = {
    {"linear", linear_launch, linear_work},
    {"linear_grad_input", grad_input_launch, grad_work},
    {"linear_grad_weight", grad_weight_launch, grad_work},
    {"matmul", matmul_launch, NULL},
    {NULL, NULL, NULL},
};
