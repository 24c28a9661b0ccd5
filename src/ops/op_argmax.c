/* ops/op_argmax.c - the place of the largest number along the last axis; the first one when several
 * are equal. What greedy decoding does with logits.
 *   x (..., V)   ->   y (...) i32 */
#include "ops/internal.h"

enum { ROWS = 8 }; /* of a piece */

static ft_status argmax_shape(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err)
{
    (void)attrs;
    FT_TRY(ft_need_dtype("argmax", "x", &in[0], FT_F32, err));
    FT_TRY(ft_need_dims("argmax", "x", &in[0], 1, err));
    if (ft_dim_back(&in[0].shape, -1) < 1)
        return ft_shape_fail(err, "argmax", "x", &in[0], "a last axis that is not empty");
    out[0] = ft_spec_of(FT_I32, ft_shape_front(&in[0].shape, 1));
    return FT_OK;
}

static ft_cost argmax_cost(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    (void)attrs;
    return ft_cost_of(in, 1, out, 1, ft_spec_size(&in[0]));
}

static void find_largest(void *arg, int piece)
{
    const ft_call *call = arg;
    int64_t V = ft_dim_back(&call->in[0].shape, -1), n = ft_rows_of(&call->in[0].shape, 1);
    int32_t *y = call->out[0].data;
    for (int64_t r = (int64_t)piece * ROWS; r < ft_piece_end(n, ROWS, piece); r++) {
        const float *x = ft_in(call, 0) + r * V;
        int64_t best = 0;
        for (int64_t i = 1; i < V; i++)
            if (x[i] > x[best]) best = i;
        y[r] = (int32_t)best;
    }
}

static ft_status argmax_kernel(const ft_call *call, ft_error *err)
{
    (void)err;
    ft_call copy = *call;
    int64_t rows = ft_rows_of(&call->in[0].shape, 1);
    ft_team_run(call->team, ft_pieces(rows, ROWS), find_largest, &copy);
    return FT_OK;
}

static ft_status argmax_reference(const ft_call *call, ft_error *err)
{
    (void)err;
    int64_t V = ft_dim_back(&call->in[0].shape, -1), n = ft_rows_of(&call->in[0].shape, 1);
    for (int64_t r = 0; r < n; r++) {
        const double *x = ft_in64(call, 0) + r * V;
        int32_t best = 0;
        for (int32_t i = 1; i < V; i++)
            if (x[i] > x[best]) best = i;
        ((int32_t *)call->out[0].data)[r] = best;
    }
    return FT_OK;
}

static const ft_sample samples[] = {
    {.in = {FT_F32_OF(2, 3, 7)}},
    {.in = {FT_F32_OF(1, 1)}},
    {.in = {FT_F32_OF(3, 2, 17, 130)}},
    {.in = {FT_F32_OF(2, 0, 5)}},
};

const ft_op ft_op_argmax = {
    .name = "argmax",
    .doc = "y = index of the largest of the last axis, the first if equal; x (..., V) -> (...) i32",
    .min_in = 1,
    .n_in = 1,
    .n_out = 1,
    .half_in = 1u,
    .apart_in = 1u,
    .shape = argmax_shape,
    .cost = argmax_cost,
    .kernel = argmax_kernel,
    .reference = argmax_reference,
    .no_grad_out = 1,
    .samples = samples,
    .n_samples = sizeof samples / sizeof *samples,
};
