/* ops/op_slice.c - a range of one axis, and its gradient.
 *   x (..., n, ...)   ->   y (..., count, ...), or (..., ...) when a range of one drops its axis
 *
 * The positions that a sequence has out of a table of more; one column of a narrow product. */
#include "ops/internal.h"

#include <string.h>

enum { AXIS, FROM, COUNT, DROP, SIZE = COUNT }; /* slice_grad has the size of x instead of count */

/* x seen as (outer, n, inner), of which the range [from, from + count) of n is meant. */
typedef struct span {
    int64_t outer, n, inner, from, count;
} span;

typedef struct job {
    span at;
    float *y;
    const float *x;
    bool adds;
} job;

static const ft_attr_rule slice_attrs[] = {
    {"axis", 0, 0, FT_MAX_DIMS - 1, true, "the axis, counted from 0"},
    {"from", 0, 0, 1e15, true, "the first index of the range"},
    {"count", 1, 0, 1e15, true, "how many indices"},
    {"drop", 0, 0, 1, true, "1: the axis goes; count must be 1"},
    {.name = NULL},
};

static const ft_attr_rule grad_attrs[] = {
    {"axis", 0, 0, FT_MAX_DIMS - 1, true, "the axis of x, counted from 0"},
    {"from", 0, 0, 1e15, true, "the first index of the range"},
    {"size", 1, 0, 1e15, true, "the size of the axis in x"},
    {"drop", 0, 0, 1, true, "1: dy lacks the axis"},
    {.name = NULL},
};

static span span_of(const ft_shape *x, const double *attrs, int64_t count)
{
    ft_axes at = ft_axes_of(x, (int)attrs[AXIS]);
    return (span){at.outer, at.n, at.inner, (int64_t)attrs[FROM], count};
}

static ft_status slice_shape(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err)
{
    const ft_shape *x = &in[0].shape;
    int axis = (int)attrs[AXIS];
    FT_TRY(ft_need_dtype("slice", "x", &in[0], FT_F32, err));
    if (axis >= x->n_dims)
        return ft_shape_fail(err, "slice", "x", &in[0], "more dimensions than the axis");
    if (attrs[FROM] + attrs[COUNT] > (double)x->dims[axis])
        return ft_fail(err, FT_SHAPE, "slice: %.0f from %.0f on of axis %d, which has %lld",
                       attrs[COUNT], attrs[FROM], axis, (long long)x->dims[axis]);
    if (attrs[DROP] != 0.0 && attrs[COUNT] != 1.0)
        return ft_fail(err, FT_SHAPE, "slice: a range of %.0f cannot drop its axis, expected 1",
                       attrs[COUNT]);
    out[0] = in[0];
    out[0].shape.dims[axis] = (int64_t)attrs[COUNT];
    if (attrs[DROP] == 0.0) return FT_OK;
    for (int d = axis; d + 1 < x->n_dims; d++) out[0].shape.dims[d] = x->dims[d + 1];
    out[0].shape.n_dims--;
    return FT_OK;
}

/* Only the range is read. */
static ft_cost slice_cost(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    (void)in, (void)attrs;
    return ft_cost_of(out, 1, out, 1, 0.0);
}

static void slice_rule(ft_builder *b, const ft_grad_site *site)
{
    const ft_shape *x = &b->spec(b, site->in[0])->shape;
    const double attrs[FT_MAX_ATTRS] = {[AXIS] = site->attrs[AXIS],
                                        [FROM] = site->attrs[FROM],
                                        [SIZE] = (double)x->dims[(int)site->attrs[AXIS]],
                                        [DROP] = site->attrs[DROP]};
    if (site->wanted[0]) site->din[0] = ft_add1(b, &ft_op_slice_grad, site->dout[0], attrs);
}

/* Column out of a narrow matrix, or whole runs of memory. */
static void slice_outer(void *arg, int outer)
{
    const job *j = arg;
    const span *at = &j->at;
    memcpy(j->y + outer * at->count * at->inner, j->x + (outer * at->n + at->from) * at->inner,
           (size_t)(at->count * at->inner) * sizeof(float));
}

static void column_piece(void *arg, int piece)
{
    const job *j = arg;
    for (int64_t o = (int64_t)piece * FT_PIECE; o < ft_piece_end(j->at.outer, FT_PIECE, piece); o++)
        j->y[o] = j->x[o * j->at.n + j->at.from];
}

static ft_status slice_kernel(const ft_call *call, ft_error *err)
{
    (void)err;
    job j = {.at = span_of(&call->in[0].shape, call->attrs, (int64_t)call->attrs[COUNT]),
             .y = ft_out(call, 0),
             .x = ft_in(call, 0)};
    if (j.at.count * j.at.inner == 1)
        ft_team_run(call->team, ft_pieces(j.at.outer, FT_PIECE), column_piece, &j);
    else
        ft_team_run(call->team, (int)j.at.outer, slice_outer, &j);
    return FT_OK;
}

static ft_status slice_reference(const ft_call *call, ft_error *err)
{
    (void)err;
    span at = span_of(&call->in[0].shape, call->attrs, (int64_t)call->attrs[COUNT]);
    for (int64_t o = 0; o < at.outer; o++)
        for (int64_t i = 0; i < at.count * at.inner; i++)
            ft_out64(call, 0)[o * at.count * at.inner + i] =
                ft_in64(call, 0)[(o * at.n + at.from) * at.inner + i];
    return FT_OK;
}

/* -- slice_grad ------------------------------------------------------------------------------- */

/* The shape of x from that of dy: the axis has its size again. */
static ft_status grad_shape(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err)
{
    int axis = (int)attrs[AXIS], dropped = attrs[DROP] != 0.0;
    const ft_shape *dy = &in[0].shape;
    FT_TRY(ft_need_dtype("slice_grad", "dy", &in[0], FT_F32, err));
    if (axis >= dy->n_dims + dropped || dy->n_dims + dropped > FT_MAX_DIMS)
        return ft_shape_fail(err, "slice_grad", "dy", &in[0], "more dimensions than the axis");
    double count = dropped ? 1.0 : (double)dy->dims[axis];
    if (attrs[FROM] + count > attrs[SIZE])
        return ft_fail(err, FT_SHAPE, "slice_grad: %.0f from %.0f on of an axis of %.0f", count,
                       attrs[FROM], attrs[SIZE]);
    out[0] = in[0];
    if (dropped) {
        out[0].shape.n_dims++;
        for (int d = axis; d < dy->n_dims; d++) out[0].shape.dims[d + 1] = dy->dims[d];
    }
    out[0].shape.dims[axis] = (int64_t)attrs[SIZE];
    return FT_OK;
}

static ft_cost grad_cost(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    (void)attrs;
    return ft_cost_of(in, 1, out, 1, 0.0);
}

static span grad_span(const ft_call *call)
{
    bool dropped = call->attrs[DROP] != 0.0;
    return span_of(&call->out[0].shape, call->attrs,
                   dropped ? 1 : call->in[0].shape.dims[(int)call->attrs[AXIS]]);
}

static void grad_outer(void *arg, int outer)
{
    const job *j = arg;
    const span *at = &j->at;
    const float *dy = j->x + outer * at->count * at->inner;
    float *dx = j->y + outer * at->n * at->inner, *range = dx + at->from * at->inner;
    if (j->adds) {
        ft_simd_get()->math->map2[FT_MAP_ADD](range, range, dy, at->count * at->inner);
        return;
    }
    memset(dx, 0, (size_t)(at->n * at->inner) * sizeof *dx);
    memcpy(range, dy, (size_t)(at->count * at->inner) * sizeof *dx);
}

static ft_status grad_kernel(const ft_call *call, ft_error *err)
{
    (void)err;
    job j = {
        .at = grad_span(call), .y = ft_out(call, 0), .x = ft_in(call, 0), .adds = ft_adds(call, 0)};
    ft_team_run(call->team, (int)j.at.outer, grad_outer, &j);
    return FT_OK;
}

static ft_status grad_reference(const ft_call *call, ft_error *err)
{
    (void)err;
    span at = grad_span(call);
    double *dx = ft_out64(call, 0);
    for (int64_t i = 0; i < at.outer * at.n * at.inner; i++) dx[i] = 0.0;
    for (int64_t o = 0; o < at.outer; o++)
        for (int64_t i = 0; i < at.count * at.inner; i++)
            dx[(o * at.n + at.from) * at.inner + i] = ft_in64(call, 0)[o * at.count * at.inner + i];
    return FT_OK;
}

static const ft_sample slice_samples[] = {
    {.in = {FT_F32_OF(2, 9, 5)}, .attrs = {0, 2, 4, 0}},
    {.in = {FT_F32_OF(3, 3, 7, 2)}, .attrs = {2, 1, 1, 1}},
    {.in = {FT_F32_OF(3, 2, 5, 33)}, .attrs = {1, 4, 1, 1}},
    {.in = {FT_F32_OF(2, 4, 12)}, .attrs = {1, 8, 4, 0}},
    {.in = {FT_F32_OF(1, 3)}, .attrs = {0, 0, 3, 0}},
    {.in = {FT_F32_OF(1, 3)}, .attrs = {0, 2, 1, 1}},
    {.in = {FT_F32_OF(2, 0, 4)}, .attrs = {1, 1, 2, 0}},
};

static const ft_sample grad_samples[] = {
    {.in = {FT_F32_OF(2, 4, 5)}, .attrs = {0, 2, 9, 0}},
    {.in = {FT_F32_OF(2, 3, 7)}, .attrs = {2, 1, 2, 1}},
    {.in = {FT_F32_OF(2, 2, 33)}, .attrs = {1, 4, 5, 1}},
    {.in = {FT_F32_OF(2, 4, 4)}, .attrs = {1, 8, 12, 0}},
    {.in = {FT_F32_OF(0, 0)}, .attrs = {0, 2, 3, 1}},
    {.in = {FT_F32_OF(2, 0, 2)}, .attrs = {1, 1, 4, 0}},
};

const ft_op ft_op_slice = {
    .name = "slice",
    .doc = "y = x[from : from + count] of one axis, which `drop` takes away when count is 1",
    .min_in = 1,
    .n_in = 1,
    .n_out = 1,
    .half_in = 1u,
    .half_out = 1u,
    .attrs = slice_attrs,
    .shape = slice_shape,
    .cost = slice_cost,
    .grad = slice_rule,
    .kernel = slice_kernel,
    .reference = slice_reference,
    .samples = slice_samples,
    .n_samples = sizeof slice_samples / sizeof *slice_samples,
};

const ft_op ft_op_slice_grad = {
    .name = "slice_grad",
    .doc = "dx = dy in its range of the axis and 0 elsewhere; accumulates",
    .min_in = 1,
    .n_in = 1,
    .n_out = 1,
    .half_in = 1u,
    .half_out = 1u,
    .attrs = grad_attrs,
    .shape = grad_shape,
    .cost = grad_cost,
    .kernel = grad_kernel,
    .reference = grad_reference,
    .accumulates = 1,
    .samples = grad_samples,
    .n_samples = sizeof grad_samples / sizeof *grad_samples,
};
