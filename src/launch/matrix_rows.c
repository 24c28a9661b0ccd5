/* launch/matrix_rows.c - rows over the rows and columns of matrices. */
#include "launch/rows.h"

/* -- sums over rows ---------------------------------------------------------------------------- */

/* Parts of the rows, so that there are at most some 1024 blocks. */
static int64_t most_parts(int64_t D)
{
    enum { BLOCKS = 1024, LEAST = 8 };
    int64_t most = BLOCKS * FT_CUDA_SPAN / (D + 1);
    return most < LEAST ? LEAST : most > FT_CUDA_PARTS ? FT_CUDA_PARTS : most;
}

static int64_t column_bytes(int64_t D)
{
    return most_parts(D) * D * (int64_t)sizeof(double);
}

/* sum->y[0] (D) (+)= the column sums of args.dy, and so on, and with two y those for the bias;
 * args without its parts. `work`: column_bytes(D) for each y. */
static ft_status column_sums(const ft_call *call, ft_column_parts_args args, ft_column_sum_args sum,
                             ft_error *err)
{
    int64_t together = args.x.at ? 128 : 256; /* rows of 16 bits that a block reads at once */
    args.per_part = ((args.rows - 1) / (most_parts(args.D) * together) + 1) * together;
    args.n_parts = ft_blocks_of(args.rows, args.per_part);
    args.parts = call->work;
    const ft_grid grid = {ft_blocks_of(args.D, FT_CUDA_SPAN), args.n_parts, 1};
    FT_TRY(ft_cuda_launch(call->stream, FT_CUDA_column_parts, grid, &args, err));
    sum.parts = args.parts;
    sum.D = args.D;
    sum.n_parts = args.n_parts;
    return ft_cuda_launch(call->stream, FT_CUDA_column_sum,
                          (ft_grid){ft_blocks_of(args.D, 32), sum.y[1] ? 2 : 1, 1}, &sum, err);
}

/* Of dy (rows, D) alone, into output 0. */
static ft_status column_sums_alone(const ft_call *call, int64_t rows, int64_t D, ft_error *err)
{
    const ft_column_sum_args sum = {.y = {ft_out(call, 0)}, .add = {ft_adds(call, 0)}};
    const ft_column_parts_args args = {.dy = ft_cuda_in(call, 0), .rows = rows, .D = D};
    const ft_column_few_args few = {args.dy, sum.y[0], rows, D, sum.add[0]};
    if (rows > FT_CUDA_FEW) return column_sums(call, args, sum, err);
    return ft_cuda_launch(call->stream, FT_CUDA_column_few, ft_each_grid(D), &few, err);
}

static ft_status bias_grad_launch(const ft_call *call, ft_error *err)
{
    return column_sums_alone(call, ft_rows_of(&call->in[0].shape, 1), call->out[0].shape.dims[0],
                             err);
}

static int64_t bias_grad_work(const ft_spec *in, const double *attrs)
{
    (void)attrs;
    return column_bytes(ft_dim_back(&in[0].shape, -1));
}

/* -- sum, mean, max ---------------------------------------------------------------------------- */

static ft_status reduce(const ft_call *call, ft_axes at, double factor, bool largest, ft_error *err)
{
    const ft_reduce_args args = {.x = ft_cuda_in(call, 0),
                                 .y = ft_out(call, 0),
                                 .n = at.n,
                                 .inner = at.inner,
                                 .factor = factor,
                                 .add = ft_adds(call, 0),
                                 .largest = largest};
    return ft_cuda_launch(call->stream, FT_CUDA_reduce, (ft_grid){at.outer * at.inner, 1, 1}, &args,
                          err);
}

static ft_status sum_launch(const ft_call *call, ft_error *err)
{
    return reduce(call, ft_axes_of(&call->in[0].shape, (int)call->attrs[0]), 1.0, false, err);
}

static ft_status mean_launch(const ft_call *call, ft_error *err)
{
    ft_axes at = ft_axes_of(&call->in[0].shape, (int)call->attrs[0]);
    return reduce(call, at, 1.0 / (double)at.n, false, err);
}

static ft_status max_launch(const ft_call *call, ft_error *err)
{
    return reduce(call, ft_axes_of(&call->in[0].shape, (int)call->attrs[0]), 1.0, true, err);
}

/* Few numbers are kept: a block for each; many: by columns. */
enum { FEW = 32 };

static ft_status sum_to_launch(const ft_call *call, ft_error *err)
{
    int64_t D = ft_shape_count(&call->out[0].shape);
    int64_t rows = ft_rows_of(&call->in[0].shape, call->out[0].shape.n_dims);
    if (D < FEW) return reduce(call, (ft_axes){1, rows, D}, 1.0, false, err);
    return column_sums_alone(call, rows, D, err);
}

static int64_t sum_to_work(const ft_spec *in, const double *attrs)
{
    ft_shape kept = ft_shape_back(&in[0].shape, (int)attrs[0]);
    int64_t D = ft_shape_count(&kept);
    return D < FEW ? 0 : column_bytes(D);
}

static ft_status spread_launch(const ft_call *call, ft_error *err)
{
    ft_axes at = ft_axes_of(&call->in[1].shape, (int)call->attrs[0]);
    const ft_spread_args args = {ft_cuda_out(call, 0),
                                 ft_cuda_in(call, 0),
                                 at.outer,
                                 at.n,
                                 at.inner,
                                 call->attrs[1] != 0.0 ? 1.0f / (float)at.n : 1.0f};
    return ft_cuda_launch(call->stream, FT_CUDA_spread, ft_each_grid(at.outer * at.n * at.inner),
                          &args, err);
}

static ft_status max_grad_launch(const ft_call *call, ft_error *err)
{
    ft_axes at = ft_axes_of(&call->in[1].shape, (int)call->attrs[0]);
    const ft_max_grad_args args = {.dx = ft_cuda_out(call, 0),
                                   .dy = ft_cuda_in(call, 0),
                                   .x = ft_cuda_in(call, 1),
                                   .y = ft_cuda_in(call, 2),
                                   .outer = at.outer,
                                   .n = at.n,
                                   .inner = at.inner};
    return ft_cuda_launch(call->stream, FT_CUDA_max_grad,
                          (ft_grid){ft_blocks_of(at.outer * at.inner, 256), 1, 1}, &args, err);
}

static ft_status argmax_launch(const ft_call *call, ft_error *err)
{
    int64_t rows = ft_rows_of(&call->in[0].shape, 1);
    const ft_argmax_args args = {ft_cuda_in(call, 0), call->out[0].data, rows,
                                 ft_dim_back(&call->in[0].shape, -1), ft_cuda_pitch(&call->in[0])};
    return ft_cuda_launch(call->stream, FT_CUDA_argmax, ft_warp_grid(rows), &args, err);
}

/* -- softmax ----------------------------------------------------------------------------------- */

static ft_status softmax(const ft_call *call, ft_numbers y, ft_error *err)
{
    int64_t rows = ft_rows_of(&call->in[0].shape, 1);
    const ft_softmax_args args = {ft_cuda_out(call, 0), ft_cuda_in(call, 0), y, rows,
                                  ft_dim_back(&call->in[0].shape, -1)};
    return ft_cuda_launch(call->stream, FT_CUDA_softmax, ft_warp_grid(rows), &args, err);
}

static ft_status softmax_launch(const ft_call *call, ft_error *err)
{
    return softmax(call, (ft_numbers){0}, err);
}

static ft_status softmax_grad_launch(const ft_call *call, ft_error *err)
{
    return softmax(call, ft_cuda_in(call, 1), err);
}

/* -- norms ------------------------------------------------------------------------------------- */

/* As few warps for a row as have it in registers, 1 << so many; of longer ones, all of a block. */
static int warps_of(const ft_numbers *x, int64_t D)
{
    int64_t bytes = D * (x->kept == FT_CUDA_F32 ? 4 : 2);
    int doubled = 0;
    while (1 << doubled < FT_CUDA_NORM_WARPS && bytes > (int64_t)FT_CUDA_HELD * 16 * 32 << doubled)
        doubled++;
    return doubled;
}

static ft_grid norm_grid(int64_t rows, int doubled)
{
    return (ft_grid){ft_blocks_of(rows, FT_CUDA_NORM_WARPS >> doubled), 1, 1};
}

static ft_status norm(const ft_call *call, bool centred, ft_error *err)
{
    int64_t rows = ft_rows_of(&call->in[0].shape, 1), D = ft_dim_back(&call->in[0].shape, -1);
    const ft_numbers x = ft_cuda_in(call, 0);
    const ft_norm_args args = {.y = ft_cuda_out(call, 0),
                               .x = x,
                               .stats = ft_out(call, 1),
                               .w = ft_in(call, 1),
                               .b = centred ? ft_in(call, 2) : NULL,
                               .rows = rows,
                               .D = D,
                               .part = 1.0 / (double)D,
                               .eps = (float)call->attrs[0],
                               .centred = centred,
                               .doubled = warps_of(&x, D)};
    return ft_cuda_launch(call->stream, FT_CUDA_norm, norm_grid(rows, args.doubled), &args, err);
}

static ft_status norm_grad(const ft_call *call, bool centred, ft_error *err)
{
    int64_t rows = ft_rows_of(&call->in[0].shape, 1), D = ft_dim_back(&call->in[0].shape, -1);
    const ft_numbers x = ft_cuda_in(call, 1);
    const ft_norm_grad_args args = {.dx = ft_cuda_out(call, 0),
                                    .dy = ft_cuda_in(call, 0),
                                    .x = x,
                                    .w = ft_in(call, 2),
                                    .stats = ft_in(call, 3),
                                    .rows = rows,
                                    .D = D,
                                    .part = 1.0 / (double)D,
                                    .centred = centred,
                                    .doubled = warps_of(&x, D)};
    FT_TRY(
        ft_cuda_launch(call->stream, FT_CUDA_norm_grad, norm_grid(rows, args.doubled), &args, err));
    const ft_column_parts_args columns = {
        .dy = args.dy, .x = args.x, .stats = args.stats, .rows = rows, .D = D, .centred = centred};
    const ft_column_sum_args sum = {
        .y = {ft_out(call, 1), centred ? ft_out(call, 2) : NULL},
        .add = {ft_adds(call, 1), centred && ft_adds(call, 2)},
    };
    return column_sums(call, columns, sum, err);
}

static int64_t rms_norm_grad_work(const ft_spec *in, const double *attrs)
{
    (void)attrs;
    return column_bytes(ft_dim_back(&in[0].shape, -1));
}

static int64_t layer_norm_grad_work(const ft_spec *in, const double *attrs)
{
    return 2 * rms_norm_grad_work(in, attrs);
}

static ft_status rms_norm_launch(const ft_call *call, ft_error *err)
{
    return norm(call, false, err);
}

static ft_status layer_norm_launch(const ft_call *call, ft_error *err)
{
    return norm(call, true, err);
}

static ft_status rms_norm_grad_launch(const ft_call *call, ft_error *err)
{
    return norm_grad(call, false, err);
}

static ft_status layer_norm_grad_launch(const ft_call *call, ft_error *err)
{
    return norm_grad(call, true, err);
}

/* -- cross-entropy ----------------------------------------------------------------------------- */

static ft_status cross_entropy_launch(const ft_call *call, ft_error *err)
{
    int64_t rows = ft_shape_count(&call->in[1].shape);
    const ft_cross_entropy_args args = {.logits = ft_cuda_in(call, 0),
                                        .stats = ft_out(call, 1),
                                        .nll = ft_out(call, 2),
                                        .labels = ft_ids(call, 1),
                                        .rows = rows,
                                        .V = ft_dim_back(&call->in[0].shape, -1),
                                        .pitch = ft_cuda_pitch(&call->in[0]),
                                        .fault = ft_cuda_fault_of(call->stream)};
    FT_TRY(ft_cuda_launch(call->stream, FT_CUDA_cross_entropy, (ft_grid){rows, 1, 1}, &args, err));
    const ft_loss_args loss = {ft_out(call, 0), args.nll, ft_in(call, 2), rows};
    return ft_cuda_launch(call->stream, FT_CUDA_loss, (ft_grid){1, 1, 1}, &loss, err);
}

static ft_status cross_entropy_grad_launch(const ft_call *call, ft_error *err)
{
    int64_t rows = ft_shape_count(&call->in[2].shape);
    const ft_cross_entropy_grad_args args = {.dlogits = ft_cuda_out(call, 0),
                                             .logits = ft_cuda_in(call, 1),
                                             .dloss = ft_in(call, 0),
                                             .labels = ft_ids(call, 2),
                                             .weight = ft_in(call, 3),
                                             .stats = ft_in(call, 4),
                                             .rows = rows,
                                             .V = ft_dim_back(&call->in[1].shape, -1),
                                             .pitch = ft_cuda_pitch(&call->in[1]),
                                             .pitch_of_dlogits = ft_cuda_pitch(&call->out[0])};
    return ft_cuda_launch(call->stream, FT_CUDA_cross_entropy_grad, (ft_grid){rows, 1, 1}, &args,
                          err);
}

const ft_cuda_row ft_cuda_matrix_rows[] = {
    {"bias_grad", bias_grad_launch, bias_grad_work},
    {"sum_to", sum_to_launch, sum_to_work},
    {"sum", sum_launch, NULL},
    {"mean", mean_launch, NULL},
    {"max", max_launch, NULL},
    {"spread", spread_launch, NULL},
    {"max_grad", max_grad_launch, NULL},
    {"argmax", argmax_launch, NULL},
    {"softmax", softmax_launch, NULL},
    {"softmax_grad", softmax_grad_launch, NULL},
    {"rms_norm", rms_norm_launch, NULL},
    {"layer_norm", layer_norm_launch, NULL},
    {"rms_norm_grad", rms_norm_grad_launch, rms_norm_grad_work},
    {"layer_norm_grad", layer_norm_grad_launch, layer_norm_grad_work},
    {"cross_entropy", cross_entropy_launch, NULL},
    {"cross_entropy_grad", cross_entropy_grad_launch, NULL},
    {NULL, NULL, NULL},
};
