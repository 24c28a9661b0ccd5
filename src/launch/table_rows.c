/* launch/table_rows.c - rows that move rows: embeddings, slices, the cache of a decoder. */
#include "launch/rows.h"

static ft_status embedding_launch(const ft_call *call, ft_error *err)
{
    int64_t n = ft_shape_count(&call->in[0].shape);
    const ft_embedding_args args = {.y = ft_cuda_out(call, 0),
                                    .table = ft_in(call, 1),
                                    .ids = ft_ids(call, 0),
                                    .n = n,
                                    .rows = call->in[1].shape.dims[0],
                                    .D = call->in[1].shape.dims[1],
                                    .fault = ft_cuda_fault_of(call->stream)};
    return ft_cuda_launch(call->stream, FT_CUDA_embedding, (ft_grid){n, 1, 1}, &args, err);
}

/* Behind the sums of pieces. */
static int32_t *marks_of(const ft_call *call, int64_t n)
{
    return (int32_t *)call->work + n * call->out[0].shape.dims[1];
}

static ft_status embedding_grad_launch(const ft_call *call, ft_error *err)
{
    int64_t n = ft_shape_count(&call->in[1].shape), rows = call->out[0].shape.dims[0];
    bool pieces = n > FT_CUDA_PIECE;
    const ft_embedding_grad_args args = {.dy = ft_cuda_in(call, 0),
                                         .dtable = ft_out(call, 0),
                                         .ids = ft_ids(call, 1),
                                         .n = n,
                                         .rows = rows,
                                         .D = call->out[0].shape.dims[1],
                                         .parts = pieces ? call->work : NULL,
                                         .marks = pieces ? marks_of(call, n) : NULL,
                                         .padding = (int64_t)call->attrs[0],
                                         .fault = ft_cuda_fault_of(call->stream)};
    if (!ft_adds(call, 0))
        FT_TRY(
            ft_cuda_clear(call->stream, args.dtable, rows * args.D * (int64_t)sizeof(float), err));
    FT_TRY(ft_cuda_launch(call->stream, FT_CUDA_embedding_grad, (ft_grid){n, 1, 1}, &args, err));
    const ft_grid all = {pieces ? n : 0, 1, 1};
    return ft_cuda_launch(call->stream, FT_CUDA_embedding_pieces, all, &args, err);
}

static int64_t embedding_grad_work(const ft_spec *in, const double *attrs)
{
    int64_t n = ft_shape_count(&in[1].shape), D = ft_dim_back(&in[0].shape, -1);
    (void)attrs;
    return n > FT_CUDA_PIECE ? n * (D * (int64_t)sizeof(float) + (int64_t)sizeof(int32_t)) : 0;
}

/* -- slices ------------------------------------------------------------------------------------ */

enum { AXIS, FROM, COUNT, DROP }; /* attributes of both rows; of the gradient COUNT is a size */

static ft_span_args span_args(const ft_shape *x, const double *attrs, int64_t count)
{
    ft_axes at = ft_axes_of(x, (int)attrs[AXIS]);
    return (ft_span_args){.outer = at.outer,
                          .n = at.n,
                          .inner = at.inner,
                          .from = (int64_t)attrs[FROM],
                          .count = count};
}

static ft_status slice_launch(const ft_call *call, ft_error *err)
{
    ft_span_args args = span_args(&call->in[0].shape, call->attrs, (int64_t)call->attrs[COUNT]);
    args.whole = ft_cuda_in(call, 0);
    args.part = ft_cuda_out(call, 0);
    return ft_cuda_launch(call->stream, FT_CUDA_span,
                          ft_each_grid(args.outer * args.count * args.inner), &args, err);
}

static ft_status slice_grad_launch(const ft_call *call, ft_error *err)
{
    bool dropped = call->attrs[DROP] != 0.0;
    int64_t count = dropped ? 1 : call->in[0].shape.dims[(int)call->attrs[AXIS]];
    ft_span_args args = span_args(&call->out[0].shape, call->attrs, count);
    args.whole = ft_cuda_out(call, 0);
    args.part = ft_cuda_in(call, 0);
    args.back = 1;
    args.add = ft_adds(call, 0);
    int64_t n = args.outer * (args.add ? count : args.n) * args.inner;
    return ft_cuda_launch(call->stream, FT_CUDA_span, ft_each_grid(n), &args, err);
}

static ft_status cache_append_launch(const ft_call *call, ft_error *err)
{
    const ft_shape *cache = &call->in[0].shape;
    const ft_cache_append_args args = {.out = ft_out(call, 0),
                                       .cache = ft_in(call, 0),
                                       .added = ft_in(call, 1),
                                       .position = ft_ids(call, 2),
                                       .samples = cache->dims[0],
                                       .n = cache->dims[1],
                                       .t = call->in[1].shape.dims[1],
                                       .width = cache->dims[2],
                                       .fault = ft_cuda_fault_of(call->stream)};
    return ft_cuda_launch(call->stream, FT_CUDA_cache_append, ft_each_grid(ft_shape_count(cache)),
                          &args, err);
}

const ft_cuda_row ft_cuda_table_rows[] = {
    {"embedding", embedding_launch, NULL},
    {"embedding_grad", embedding_grad_launch, embedding_grad_work},
    {"slice", slice_launch, NULL},
    {"slice_grad", slice_grad_launch, NULL},
    {"cache_append", cache_append_launch, NULL},
    {NULL, NULL, NULL},
};
