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

/* A product as it is asked for, and as the library takes it, which reads operands that are both in
 * 16 bits, or both f32, and a bias like its result. */
typedef struct request {
    ft_product_args asked, rounded;
    int64_t batch;
    bool library;
} request;

static ft_status ask(const ft_call *call, const ft_product_args *args, int64_t batch, request *out,
                     ft_error *err)
{
    char *room = call->work;
    int rounding = args->rounding;
    *out = (request){*args, *args, batch, false};
    if (!ft_cuda_has_library(call->stream) || !suits(&args->a, rounding) ||
        !suits(&args->b, rounding) || !suits(&args->c, rounding))
        return FT_OK;
    out->library = args->M && args->N && args->K && batch;
    if (!out->library || !is_half(rounding)) return FT_OK;
    ft_product_args *rounded = &out->rounded;
    int64_t rows_of_a = args->transpose_a ? args->K : args->M;
    ft_numbers bias = {(void *)(uintptr_t)args->bias, FT_CUDA_F32};
    FT_TRY(make_half(call, &rounded->a, rows_of_a * args->pitch_a, rounding, &room, err));
    FT_TRY(make_half(call, &rounded->b, args->K * args->N, rounding, &room, err));
    if (bias.at && args->c.kept == rounding)
        FT_TRY(make_half(call, &bias, args->N, rounding, &room, err));
    rounded->bias = bias.at;
    return FT_OK;
}

/* `batch` products, one behind the other. */
static ft_status multiply(const ft_call *call, const request *x, ft_error *err)
{
    const ft_product_args *args = &x->asked;
    bool done = false;
    if (x->library) FT_TRY(ft_cuda_multiply(call->stream, &x->rounded, x->batch, &done, err));
    if (done) return FT_OK;
    const ft_grid grid = {ft_blocks_of(args->N, FT_CUDA_TILE), ft_blocks_of(args->M, FT_CUDA_TILE),
                          x->batch};
    return ft_cuda_launch(call->stream, FT_CUDA_product, grid, args, err);
}

/* -- parts ------------------------------------------------------------------------------------- */

/* cuBLASLt has its fast kernels for rows that are apart by 16 bytes or a multiple, and that have as
 * many numbers as well. Of rows that are only apart so, as 50,257 logits are, the numbers past the
 * last 16 bytes are multiplied by themselves. */
typedef enum { WHOLE, BY_M, BY_N, BY_K } cut;

static int64_t of_16_bytes(const ft_numbers *x)
{
    return x->kept == FT_CUDA_F32 ? 4 : 8;
}

static bool are_aligned(const ft_numbers *rows, int64_t pitch)
{
    return (uintptr_t)rows->at % 16 == 0 && pitch % of_16_bytes(rows) == 0;
}

/* The numbers of M, N or K that are past; 0: there is nothing to cut. Rows of b are never apart. */
static int64_t rest_of(const request *x, cut *by)
{
    const ft_product_args *p = &x->rounded;
    int64_t width_b = p->transpose_b ? p->K : p->N, rest = 0;
    *by = WHOLE;
    if (!x->library || x->batch != 1 || p->rounding == FT_CUDA_F32 ||
        !are_aligned(&p->a, p->pitch_a) || !are_aligned(&p->b, width_b) ||
        !are_aligned(&p->c, p->pitch_c))
        return 0;
    if ((rest = p->N % of_16_bytes(&p->c)) != 0)
        *by = BY_N;
    else if ((rest = (p->transpose_a ? p->M : p->K) % of_16_bytes(&p->a)) != 0)
        *by = p->transpose_a ? BY_M : BY_K;
    int64_t all = *by == BY_M ? p->M : *by == BY_N ? p->N : p->K;
    return rest < all ? rest : 0;
}

/* `bias` is the product's. */
static ft_product_args part_of(ft_product_args x, ft_numbers bias, cut by, int64_t from, int64_t n)
{
    switch (by) {
    case BY_M:
        x.a = ft_cuda_from(x.a, x.transpose_a ? from : from * x.pitch_a);
        x.c = ft_cuda_from(x.c, from * x.pitch_c);
        x.M = n;
        break;
    case BY_N:
        x.b = ft_cuda_from(x.b, from * x.K);
        x.c = ft_cuda_from(x.c, from);
        if (bias.at) x.bias = ft_cuda_from(bias, from).at;
        x.N = n;
        break;
    case BY_K:
        x.a = ft_cuda_from(x.a, from);
        x.b = ft_cuda_from(x.b, from * x.N);
        x.K = n;
        break;
    case WHOLE: break;
    }
    return x;
}

static ft_status multiply_part(const ft_call *call, request x, cut by, int64_t from, int64_t n,
                               ft_error *err)
{
    bool half = is_half(x.rounded.rounding) && x.rounded.c.kept != FT_CUDA_F32;
    const ft_numbers bias = {(void *)(uintptr_t)x.asked.bias, FT_CUDA_F32};
    const ft_numbers rounded = {(void *)(uintptr_t)x.rounded.bias,
                                half ? x.rounded.c.kept : FT_CUDA_F32};
    x.asked = part_of(x.asked, bias, by, from, n);
    x.rounded = part_of(x.rounded, rounded, by, from, n);
    return multiply(call, &x, err);
}

static ft_status product(const ft_call *call, const ft_product_args *args, int64_t batch,
                         ft_error *err)
{
    request x;
    cut by;
    FT_TRY(ask(call, args, batch, &x, err));
    int64_t rest = rest_of(&x, &by);
    if (!rest) return multiply(call, &x, err);
    int64_t all = by == BY_M ? args->M : by == BY_N ? args->N : args->K;
    if (by != BY_K) {
        FT_TRY(multiply_part(call, x, by, 0, all - rest, err));
        return multiply_part(call, x, by, all - rest, rest, err);
    }
    request first = x; /* what few numbers come to is rounded once more than the sum */
    first.asked.bias = first.rounded.bias = NULL;
    first.asked.relu = first.rounded.relu = 0;
    FT_TRY(multiply_part(call, first, by, all - rest, rest, err));
    x.asked.add = x.rounded.add = 1;
    return multiply_part(call, x, by, 0, all - rest, err);
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

ft_dtype ft_cuda_pack_dtype(const ft_op *op, const double *attrs)
{
    return packed_rounding(op, attrs) == FT_CUDA_F16 ? FT_F16 : FT_BF16;
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
