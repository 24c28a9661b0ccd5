/* ops/op_reduce.c - sum, mean and largest along one axis or over everything; and the scalar one.
 *   x (outer, n, inner)   ->   y (outer, inner)     attribute axis: which is n
 *   x (...)               ->   y ()                 axis -1
 *
 * Sums over everything are cut into parts of a size that follows from the count alone. */
#include "ops/internal.h"

#include <math.h>
#include <string.h>

enum { AXIS, MEAN }; /* attributes */
enum { MAX_SUMS = 64 };

typedef struct job {
    ft_axes at;
    float *y;
    const float *x, *a, *b;
    float factor;
    int64_t per_part;
} job;

static ft_shape without(const ft_shape *shape, int axis)
{
    if (axis < 0) return (ft_shape){0};
    ft_shape result = {0};
    for (int i = 0; i < shape->n_dims; i++)
        if (i != axis) result.dims[result.n_dims++] = shape->dims[i];
    return result;
}

static ft_status reduce_shape(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err)
{
    FT_TRY(ft_need_dtype(NULL, "x", &in[0], FT_F32, err));
    if ((int)attrs[AXIS] >= in[0].shape.n_dims)
        return ft_shape_fail(err, NULL, "x", &in[0], "more dimensions than the number of the axis");
    out[0] = ft_spec_of(FT_F32, without(&in[0].shape, (int)attrs[AXIS]));
    return FT_OK;
}

static ft_status filled_shape(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err)
{
    FT_TRY(reduce_shape(in, attrs, out, err));
    if (ft_axes_of(&in[0].shape, (int)attrs[AXIS]).n == 0)
        return ft_shape_fail(err, NULL, "x", &in[0], "at least one number along the axis");
    return FT_OK;
}

static ft_cost reduce_cost(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    (void)attrs;
    return ft_cost_of(in, 1, out, 1, ft_spec_size(&in[0]));
}

static int64_t per_part(int64_t n)
{
    int64_t size = (n + MAX_SUMS - 1) / MAX_SUMS;
    return size < FT_PIECE ? FT_PIECE : size;
}

static int64_t reduce_workspace(const ft_spec *in, const double *attrs, int team_size)
{
    (void)in, (void)attrs, (void)team_size;
    return MAX_SUMS * (int64_t)sizeof(float);
}

/* -- sum, mean --------------------------------------------------------------------------------- */

static void sum_outer(void *arg, int outer)
{
    const job *j = arg;
    const ft_simd_math *math = ft_simd_get()->math;
    const float *x = j->x + outer * j->at.n * j->at.inner;
    float *y = j->y + outer * j->at.inner;
    if (j->at.inner == 1) {
        y[0] = math->sum(x, j->at.n) * j->factor;
        return;
    }
    memset(y, 0, (size_t)j->at.inner * sizeof *y);
    for (int64_t i = 0; i < j->at.n; i++)
        math->map2[FT_MAP_ADD](y, y, x + i * j->at.inner, j->at.inner);
    math->scale(y, y, j->factor, j->at.inner);
}

static void sum_part(void *arg, int part)
{
    const job *j = arg;
    int64_t from = part * j->per_part;
    j->y[part] =
        ft_simd_get()->math->sum(j->x + from, ft_piece_end(j->at.n, j->per_part, part) - from);
}

static ft_status run_sum(const ft_call *call, bool mean)
{
    job j = {.at = ft_axes_of(&call->in[0].shape, (int)call->attrs[AXIS]),
             .y = ft_out(call, 0),
             .x = ft_in(call, 0)};
    j.factor = mean ? 1.0f / (float)j.at.n : 1.0f;
    if (j.at.outer != 1 || j.at.inner != 1) {
        ft_team_run(call->team, (int)j.at.outer, sum_outer, &j);
        return FT_OK;
    }
    j.y = call->work;
    j.per_part = per_part(j.at.n);
    int n_parts = ft_pieces(j.at.n, j.per_part);
    ft_team_run(call->team, n_parts, sum_part, &j);
    double sum = 0.0;
    for (int i = 0; i < n_parts; i++) sum += (double)j.y[i];
    ft_out(call, 0)[0] = (float)(mean ? sum / (double)j.at.n : sum);
    return FT_OK;
}

static ft_status judge_sum(const ft_call *call, bool mean)
{
    ft_axes a = ft_axes_of(&call->in[0].shape, (int)call->attrs[AXIS]);
    for (int64_t o = 0; o < a.outer; o++)
        for (int64_t k = 0; k < a.inner; k++) {
            double sum = 0.0;
            for (int64_t i = 0; i < a.n; i++) sum += ft_in64(call, 0)[(o * a.n + i) * a.inner + k];
            ft_out64(call, 0)[o * a.inner + k] = mean ? sum / (double)a.n : sum;
        }
    return FT_OK;
}

static ft_status sum_kernel(const ft_call *c, ft_error *e)
{
    return (void)e, run_sum(c, false);
}
static ft_status mean_kernel(const ft_call *c, ft_error *e)
{
    return (void)e, run_sum(c, true);
}
static ft_status sum_judge(const ft_call *c, ft_error *e)
{
    return (void)e, judge_sum(c, false);
}
static ft_status mean_judge(const ft_call *c, ft_error *e)
{
    return (void)e, judge_sum(c, true);
}

static void spread_rule(ft_builder *b, const ft_grad_site *site, bool mean)
{
    const double attrs[FT_MAX_ATTRS] = {[AXIS] = site->attrs[AXIS], [MEAN] = mean};
    if (site->wanted[0])
        site->din[0] = ft_add2(b, &ft_op_spread, site->dout[0], site->in[0], attrs);
}

static void sum_rule(ft_builder *b, const ft_grad_site *site)
{
    spread_rule(b, site, false);
}
static void mean_rule(ft_builder *b, const ft_grad_site *site)
{
    spread_rule(b, site, true);
}

/* -- spread: the gradient of both -------------------------------------------------------------- */

static ft_status spread_shape(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err)
{
    FT_TRY((attrs[MEAN] != 0.0 ? filled_shape : reduce_shape)(&in[1], attrs, out, err));
    FT_TRY(ft_need_spec("spread", "dy", &in[0], &out[0], err));
    out[0] = in[1];
    return FT_OK;
}

static ft_cost spread_cost(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    (void)attrs;
    return ft_cost_per_element(in, 1, out, 1, 1.0);
}

static void spread_outer(void *arg, int outer)
{
    const job *j = arg;
    const float *dy = j->x + outer * j->at.inner;
    float *dx = j->y + outer * j->at.n * j->at.inner;
    if (j->at.inner == 1)
        for (int64_t i = 0; i < j->at.n; i++) dx[i] = dy[0] * j->factor;
    else
        for (int64_t i = 0; i < j->at.n; i++)
            ft_simd_get()->math->scale(dx + i * j->at.inner, dy, j->factor, j->at.inner);
}

static ft_status spread_kernel(const ft_call *call, ft_error *err)
{
    (void)err;
    job j = {.at = ft_axes_of(&call->in[1].shape, (int)call->attrs[AXIS]),
             .y = ft_out(call, 0),
             .x = ft_in(call, 0)};
    j.factor = call->attrs[MEAN] != 0.0 ? 1.0f / (float)j.at.n : 1.0f;
    ft_team_run(call->team, (int)j.at.outer, spread_outer, &j);
    return FT_OK;
}

static ft_status spread_judge(const ft_call *call, ft_error *err)
{
    (void)err;
    ft_axes a = ft_axes_of(&call->in[1].shape, (int)call->attrs[AXIS]);
    double factor = call->attrs[MEAN] != 0.0 ? 1.0 / (double)a.n : 1.0;
    for (int64_t i = 0; i < a.outer * a.n * a.inner; i++)
        ft_out64(call, 0)[i] =
            factor * ft_in64(call, 0)[i / (a.n * a.inner) * a.inner + i % a.inner];
    return FT_OK;
}

/* -- max --------------------------------------------------------------------------------------- */

static void max_rule(ft_builder *b, const ft_grad_site *site)
{
    const ft_value_id in[] = {site->dout[0], site->in[0], site->out[0]};
    if (site->wanted[0]) site->din[0] = ft_add(b, &ft_op_max_grad, 3, in, site->attrs);
}

static void max_outer(void *arg, int outer)
{
    const job *j = arg;
    const float *x = j->x + outer * j->at.n * j->at.inner;
    float *y = j->y + outer * j->at.inner;
    if (j->at.inner == 1) {
        y[0] = ft_simd_get()->math->largest(x, j->at.n);
        return;
    }
    memcpy(y, x, (size_t)j->at.inner * sizeof *y);
    for (int64_t i = 1; i < j->at.n; i++)
        for (int64_t k = 0; k < j->at.inner; k++) {
            float v = x[i * j->at.inner + k];
            y[k] = v > y[k] || v != v ? v : y[k];
        }
}

static ft_status max_kernel(const ft_call *call, ft_error *err)
{
    (void)err;
    job j = {.at = ft_axes_of(&call->in[0].shape, (int)call->attrs[AXIS]),
             .y = ft_out(call, 0),
             .x = ft_in(call, 0)};
    ft_team_run(call->team, (int)j.at.outer, max_outer, &j);
    return FT_OK;
}

static ft_status max_judge(const ft_call *call, ft_error *err)
{
    (void)err;
    ft_axes a = ft_axes_of(&call->in[0].shape, (int)call->attrs[AXIS]);
    for (int64_t o = 0; o < a.outer; o++)
        for (int64_t k = 0; k < a.inner; k++) {
            double top = -INFINITY;
            for (int64_t i = 0; i < a.n; i++)
                top = fmax(top, ft_in64(call, 0)[(o * a.n + i) * a.inner + k]);
            ft_out64(call, 0)[o * a.inner + k] = top;
        }
    return FT_OK;
}

static ft_status max_grad_shape(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err)
{
    FT_TRY(filled_shape(&in[1], attrs, out, err));
    FT_TRY(ft_need_spec("max_grad", "dy", &in[0], &out[0], err));
    FT_TRY(ft_need_spec("max_grad", "y", &in[2], &out[0], err));
    out[0] = in[1];
    return FT_OK;
}

static ft_cost max_grad_cost(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    (void)attrs;
    return ft_cost_per_element(in, 3, out, 1, 1.0);
}

/* The first of equal largest numbers gets the gradient. */
static void max_grad_outer(void *arg, int outer)
{
    const job *j = arg;
    int64_t at = outer * j->at.n * j->at.inner;
    for (int64_t k = 0; k < j->at.inner; k++) {
        int64_t column = outer * j->at.inner + k;
        bool given = false;
        for (int64_t i = 0; i < j->at.n; i++) {
            int64_t e = at + i * j->at.inner + k;
            bool here = !given && j->x[e] == j->b[column];
            j->y[e] = here ? j->a[column] : 0.0f;
            given = given || here;
        }
    }
}

static ft_status max_grad_kernel(const ft_call *call, ft_error *err)
{
    (void)err;
    job j = {.at = ft_axes_of(&call->in[1].shape, (int)call->attrs[AXIS]),
             .y = ft_out(call, 0),
             .a = ft_in(call, 0),
             .x = ft_in(call, 1),
             .b = ft_in(call, 2)};
    ft_team_run(call->team, (int)j.at.outer, max_grad_outer, &j);
    return FT_OK;
}

static ft_status max_grad_judge(const ft_call *call, ft_error *err)
{
    (void)err;
    ft_axes a = ft_axes_of(&call->in[1].shape, (int)call->attrs[AXIS]);
    double *dx = ft_out64(call, 0);
    for (int64_t i = 0; i < a.outer * a.n * a.inner; i++) dx[i] = 0.0;
    for (int64_t column = 0; column < a.outer * a.inner; column++) {
        int64_t at = column / a.inner * a.n * a.inner + column % a.inner, i = 0;
        while (i < a.n && ft_in64(call, 1)[at + i * a.inner] != ft_in64(call, 2)[column]) i++;
        if (i < a.n) dx[at + i * a.inner] = ft_in64(call, 0)[column];
    }
    return FT_OK;
}

/* -- one --------------------------------------------------------------------------------------- */

static ft_status one_shape(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err)
{
    (void)in, (void)attrs, (void)err;
    out[0] = ft_spec_of(FT_F32, (ft_shape){0});
    return FT_OK;
}

static ft_cost one_cost(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    (void)in, (void)attrs;
    return ft_cost_of(NULL, 0, out, 1, 0.0);
}

static ft_status one_kernel(const ft_call *call, ft_error *err)
{
    (void)err;
    ft_out(call, 0)[0] = 1.0f;
    return FT_OK;
}

static ft_status one_judge(const ft_call *call, ft_error *err)
{
    (void)err;
    ft_out64(call, 0)[0] = 1.0;
    return FT_OK;
}

/* -- the rows ---------------------------------------------------------------------------------- */

static const ft_attr_rule axis_rule[] = {
    {"axis", -1, -1, FT_MAX_DIMS - 1, true, "counted from 0; -1: all"},
    {0},
};
static const ft_attr_rule spread_rules[] = {
    {"axis", -1, -1, FT_MAX_DIMS - 1, true, "counted from 0; -1: all"},
    {"mean", 0, 0, 1, true, "1: divide by the numbers along the axis"},
    {0},
};

static const ft_sample samples[] = {
    {.in = {{FT_F32, {3, {3, 7, 33}}}}, .attrs = {0}, .tolerance = 1e-6},
    {.in = {{FT_F32, {3, {3, 7, 33}}}}, .attrs = {1}, .tolerance = 1e-6},
    {.in = {{FT_F32, {3, {3, 7, 1000}}}}, .attrs = {2}, .tolerance = 1e-5},
    {.in = {{FT_F32, {3, {3, 7, 1000}}}}, .attrs = {-1}, .tolerance = 1e-5},
    {.in = {{FT_F32, {0, {0}}}}, .attrs = {-1}, .tolerance = 1e-6},
    {.in = {{FT_F32, {1, {1}}}}, .attrs = {0}, .tolerance = 1e-6},
    {.in = {{FT_F32, {2, {0, 7}}}}, .attrs = {1}},
};

static const ft_sample spread_samples[] = {
    {.in = {{FT_F32, {2, {7, 33}}}, {FT_F32, {3, {3, 7, 33}}}}, .attrs = {0, 1}, .tolerance = 1e-6},
    {.in = {{FT_F32, {2, {3, 33}}}, {FT_F32, {3, {3, 7, 33}}}}, .attrs = {1, 0}, .tolerance = 1e-6},
    {.in = {{FT_F32, {2, {3, 7}}}, {FT_F32, {3, {3, 7, 33}}}}, .attrs = {2, 1}, .tolerance = 1e-6},
    {.in = {{FT_F32, {0, {0}}}, {FT_F32, {2, {7, 1000}}}}, .attrs = {-1, 1}, .tolerance = 1e-6},
    {.in = {{FT_F32, {1, {3}}}, {FT_F32, {2, {3, 0}}}}, .attrs = {1, 0}},
};

static const ft_sample max_grad_samples[] = {
    {.in = {{FT_F32, {1, {33}}}, {FT_F32, {2, {7, 33}}}, {FT_F32, {1, {33}}}}, .attrs = {0}},
    {.in = {{FT_F32, {1, {7}}}, {FT_F32, {2, {7, 33}}}, {FT_F32, {1, {7}}}}, .attrs = {1}},
    {.in = {{FT_F32, {0, {0}}}, {FT_F32, {1, {1000}}}, {FT_F32, {0, {0}}}}, .attrs = {-1}},
};

#define REDUCTION                                                                                  \
    .min_in = 1, .n_in = 1, .n_out = 1, .half_in = 1u, .attrs = axis_rule, .cost = reduce_cost,    \
    .samples = samples, .n_samples = sizeof samples / sizeof *samples

const ft_op ft_op_sum = {REDUCTION,
                         .name = "sum",
                         .doc = "y = sum of x along an axis, which goes, or of all of it",
                         .shape = reduce_shape,
                         .grad = sum_rule,
                         .kernel = sum_kernel,
                         .reference = sum_judge,
                         .workspace = reduce_workspace};
const ft_op ft_op_mean = {REDUCTION,
                          .name = "mean",
                          .doc = "y = mean of x along an axis, which goes, or of all of it",
                          .shape = filled_shape,
                          .grad = mean_rule,
                          .kernel = mean_kernel,
                          .reference = mean_judge,
                          .workspace = reduce_workspace};
const ft_op ft_op_max = {REDUCTION,
                         .name = "max",
                         .doc = "y = largest of x along an axis, which goes, or of all of it",
                         .shape = filled_shape,
                         .grad = max_rule,
                         .kernel = max_kernel,
                         .reference = max_judge};

const ft_op ft_op_spread = {
    .name = "spread",
    .doc = "dx = dy (or dy / n) repeated along the axis that sum or mean took away; (dy, x)",
    .min_in = 2,
    .n_in = 2,
    .n_out = 1,
    .half_in = 3u,
    .half_out = 1u,
    .attrs = spread_rules,
    .shape = spread_shape,
    .cost = spread_cost,
    .kernel = spread_kernel,
    .reference = spread_judge,
    .samples = spread_samples,
    .n_samples = sizeof spread_samples / sizeof *spread_samples,
};

const ft_op ft_op_max_grad = {
    .name = "max_grad",
    .doc = "dx = dy at the first of the largest numbers, else 0; (dy, x, y)",
    .min_in = 3,
    .n_in = 3,
    .n_out = 1,
    .half_in = 7u,
    .half_out = 1u,
    .attrs = axis_rule,
    .shape = max_grad_shape,
    .cost = max_grad_cost,
    .kernel = max_grad_kernel,
    .reference = max_grad_judge,
    .samples = max_grad_samples,
    .n_samples = sizeof max_grad_samples / sizeof *max_grad_samples,
};

static const ft_sample one_samples[] = {{.tolerance = 0.0}};

const ft_op ft_op_one = {
    .name = "one",
    .doc = "y = 1, a scalar",
    .shape = one_shape,
    .n_out = 1,
    .cost = one_cost,
    .kernel = one_kernel,
    .reference = one_judge,
    .samples = one_samples,
    .n_samples = 1,
};
