/* launch/element_rows.c - rows that look at every number by itself. */
#include "launch/rows.h"

static const ft_numbers NONE; /* no tensor */

static ft_status map(const ft_call *call, ft_cuda_map kind, float factor, ft_error *err)
{
    int64_t n = ft_shape_count(&call->out[0].shape);
    const ft_map_args args = {.y = ft_cuda_out(call, 0),
                              .a = kind == FT_CUDA_ONE ? NONE : ft_cuda_in(call, 0),
                              .b = kind > FT_CUDA_SCALE ? ft_cuda_in(call, 1) : NONE,
                              .n = n,
                              .factor = factor,
                              .map = kind,
                              .add = ft_adds(call, 0)};
    return ft_cuda_launch(call->stream, FT_CUDA_map, ft_each_grid(n), &args, err);
}

#define MAP(row, number, ...)                                                                      \
    static ft_status row##_launch(const ft_call *call, ft_error *err)                              \
    {                                                                                              \
        return map(call, FT_CUDA_##number, 1.0f, err);                                             \
    }
FT_MAP1_LIST(MAP)
FT_MAP2_LIST(MAP)
#undef MAP

static ft_status scale_launch(const ft_call *call, ft_error *err)
{
    return map(call, FT_CUDA_SCALE, (float)call->attrs[0], err);
}

static ft_status copy_launch(const ft_call *call, ft_error *err)
{
    return map(call, FT_CUDA_SCALE, 1.0f, err);
}

static ft_status one_launch(const ft_call *call, ft_error *err)
{
    return map(call, FT_CUDA_ONE, 1.0f, err);
}

/* -- two tensors ------------------------------------------------------------------------------- */

static ft_status binary(const ft_call *call, ft_cuda_binary kind, ft_error *err)
{
    int64_t n = ft_shape_count(&call->in[0].shape);
    const ft_binary_args args = {ft_cuda_out(call, 0),
                                 ft_cuda_in(call, 0),
                                 ft_cuda_in(call, 1),
                                 n,
                                 ft_shape_count(&call->in[1].shape),
                                 kind};
    return ft_cuda_launch(call->stream, FT_CUDA_binary, ft_each_grid(n), &args, err);
}

static ft_status add_launch(const ft_call *call, ft_error *err)
{
    return binary(call, FT_CUDA_ADD, err);
}

static ft_status sub_launch(const ft_call *call, ft_error *err)
{
    return binary(call, FT_CUDA_SUB, err);
}

static ft_status mul_launch(const ft_call *call, ft_error *err)
{
    return binary(call, FT_CUDA_MUL, err);
}

static ft_status div_launch(const ft_call *call, ft_error *err)
{
    return binary(call, FT_CUDA_DIV, err);
}

static ft_status gated_gelu_launch(const ft_call *call, ft_error *err)
{
    int64_t n = ft_shape_count(&call->out[0].shape);
    const ft_gated_gelu_args args = {
        .y = ft_cuda_out(call, 0), .a = ft_cuda_in(call, 0), .b = ft_cuda_in(call, 1), .n = n};
    return ft_cuda_launch(call->stream, FT_CUDA_gated_gelu, ft_each_grid(n), &args, err);
}

static ft_status gated_gelu_grad_launch(const ft_call *call, ft_error *err)
{
    int64_t n = ft_shape_count(&call->out[0].shape);
    const ft_gated_gelu_args args = {.da = ft_cuda_out(call, 0),
                                     .db = ft_cuda_out(call, 1),
                                     .dy = ft_cuda_in(call, 0),
                                     .a = ft_cuda_in(call, 1),
                                     .b = ft_cuda_in(call, 2),
                                     .n = n};
    return ft_cuda_launch(call->stream, FT_CUDA_gated_gelu, ft_each_grid(n), &args, err);
}

/* -- dropout ----------------------------------------------------------------------------------- */

ft_cuda_draw ft_cuda_draw_of(const ft_rng_key *key, double p)
{
    uint32_t threshold = ft_dropout_threshold(p);
    ft_dropout_draw draw = ft_dropout_draw_of(key, key->sample, threshold);
    return (ft_cuda_draw){
        {draw.key[0], draw.key[1]}, draw.sample, threshold, ft_dropout_scale(threshold)};
}

static ft_status dropout(const ft_call *call, ft_numbers residual, ft_numbers seen, bool relu,
                         ft_error *err)
{
    const ft_shape *shape = &call->in[0].shape;
    int64_t n = ft_shape_count(shape), samples = shape->n_dims ? shape->dims[0] : 1;
    if (n == 0) return FT_OK;
    const ft_dropout_args args = {.y = ft_cuda_out(call, 0),
                                  .x = ft_cuda_in(call, 0),
                                  .residual = residual,
                                  .seen = seen,
                                  .samples = samples,
                                  .per_sample = n / samples,
                                  .draw = ft_cuda_draw_of(&call->key, call->attrs[0]),
                                  .relu = relu};
    int64_t threads = samples * ft_blocks_of(n / samples, 8);
    return ft_cuda_launch(call->stream, FT_CUDA_dropout,
                          (ft_grid){ft_blocks_of(threads, 256), 1, 1}, &args, err);
}

static ft_status dropout_launch(const ft_call *call, ft_error *err)
{
    return dropout(call, NONE, NONE, false, err);
}

static ft_status dropout_add_launch(const ft_call *call, ft_error *err)
{
    return dropout(call, ft_cuda_in(call, 1), NONE, false, err);
}

static ft_status relu_dropout_launch(const ft_call *call, ft_error *err)
{
    return dropout(call, NONE, NONE, true, err);
}

static ft_status relu_dropout_grad_launch(const ft_call *call, ft_error *err)
{
    return dropout(call, NONE, ft_cuda_in(call, 1), false, err);
}

const ft_cuda_row ft_cuda_element_rows[] = {
#define ROW(row, ...) {#row, row##_launch, NULL},
    FT_MAP1_LIST(ROW) FT_MAP2_LIST(ROW)
#undef ROW
        {"scale", scale_launch, NULL},
    {"copy", copy_launch, NULL},
    {"one", one_launch, NULL},
    {"add", add_launch, NULL},
    {"sub", sub_launch, NULL},
    {"mul", mul_launch, NULL},
    {"div", div_launch, NULL},
    {"gated_gelu", gated_gelu_launch, NULL},
    {"gated_gelu_grad", gated_gelu_grad_launch, NULL},
    {"dropout", dropout_launch, NULL},
    {"dropout_grad", dropout_launch, NULL},
    {"dropout_add", dropout_add_launch, NULL},
    {"relu_dropout", relu_dropout_launch, NULL},
    {"relu_dropout_grad", relu_dropout_grad_launch, NULL},
    {NULL, NULL, NULL},
};
