/* ops/op_binary.c - arithmetic of two tensors, and the sum that undoes a broadcast.
 *   a (...)   b (same, or a's last dimensions, or ())   ->   y (...) like a
 *
 * b is repeated over the leading dimensions that it lacks; its gradient is summed over them by
 * sum_to. */
#include "ops/internal.h"

#include <stddef.h>
#include <string.h>

enum { COLUMNS = 64, WIDE = 256 }; /* of a piece of sum_to; from WIDE on it is cut by columns */

typedef struct job {
    ft_map2 map;
    float *y;
    const float *a, *b;
    int64_t rows, D, per_piece;
} job;

static ft_status binary_shape(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err)
{
    (void)attrs;
    FT_TRY(ft_need_dtype(NULL, "the first input", &in[0], FT_F32, err));
    FT_TRY(ft_need_dtype(NULL, "the second input", &in[1], FT_F32, err));
    ft_shape back = in[0].shape;
    if (in[1].shape.n_dims < back.n_dims) back = ft_shape_back(&in[0].shape, in[1].shape.n_dims);
    FT_TRY(ft_need_shape(NULL, "the second input", &in[1], &back, err));
    out[0] = in[0];
    return FT_OK;
}

static ft_cost binary_cost(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    (void)attrs;
    return ft_cost_per_element(in, 2, out, 1, 1.0);
}

static void rows_piece(void *arg, int piece)
{
    const job *j = arg;
    for (int64_t i = piece * j->per_piece; i < ft_piece_end(j->rows, j->per_piece, piece); i++)
        j->map(j->y + i * j->D, j->a + i * j->D, j->b, j->D);
}

static void flat_piece(void *arg, int piece)
{
    const job *j = arg;
    int64_t from = (int64_t)piece * FT_PIECE, n = ft_piece_end(j->D, FT_PIECE, piece) - from;
    j->map(j->y + from, j->a + from, j->rows == 1 ? j->b + from : j->b, n);
}

static ft_status run(const ft_call *call, ft_map2_kind kind)
{
    const ft_simd_math *math = ft_simd_get()->math;
    int64_t n = ft_shape_count(&call->in[0].shape), nb = ft_shape_count(&call->in[1].shape);
    job j = {.map = math->map2[kind],
             .y = ft_out(call, 0),
             .a = ft_in(call, 0),
             .b = ft_in(call, 1),
             .rows = 1,
             .D = n};
    if (n == 0) return FT_OK;
    if (nb == n) {
        ft_team_run(call->team, ft_pieces(n, FT_PIECE), flat_piece, &j);
    } else if (nb == 1) {
        j.map = math->scalar_right[kind];
        j.rows = n;
        ft_team_run(call->team, ft_pieces(n, FT_PIECE), flat_piece, &j);
    } else {
        j.rows = n / nb;
        j.D = nb;
        j.per_piece = nb < FT_PIECE ? FT_PIECE / nb : 1;
        ft_team_run(call->team, ft_pieces(j.rows, j.per_piece), rows_piece, &j);
    }
    return FT_OK;
}

static ft_status judge(const ft_call *call, ft_map2_kind kind)
{
    const double *a = ft_in64(call, 0), *b = ft_in64(call, 1);
    double *y = ft_out64(call, 0);
    int64_t n = ft_shape_count(&call->in[0].shape), nb = ft_shape_count(&call->in[1].shape);
    for (int64_t i = 0; i < n; i++) {
        double right = b[i % nb];
        y[i] = kind == FT_MAP_ADD   ? a[i] + right
               : kind == FT_MAP_SUB ? a[i] - right
               : kind == FT_MAP_MUL ? a[i] * right
                                    : a[i] / right;
    }
    return FT_OK;
}

static ft_status add_kernel(const ft_call *c, ft_error *e)
{
    return (void)e, run(c, FT_MAP_ADD);
}
static ft_status sub_kernel(const ft_call *c, ft_error *e)
{
    return (void)e, run(c, FT_MAP_SUB);
}
static ft_status mul_kernel(const ft_call *c, ft_error *e)
{
    return (void)e, run(c, FT_MAP_MUL);
}
static ft_status div_kernel(const ft_call *c, ft_error *e)
{
    return (void)e, run(c, FT_MAP_DIV);
}
static ft_status add_judge(const ft_call *c, ft_error *e)
{
    return (void)e, judge(c, FT_MAP_ADD);
}
static ft_status sub_judge(const ft_call *c, ft_error *e)
{
    return (void)e, judge(c, FT_MAP_SUB);
}
static ft_status mul_judge(const ft_call *c, ft_error *e)
{
    return (void)e, judge(c, FT_MAP_MUL);
}
static ft_status div_judge(const ft_call *c, ft_error *e)
{
    return (void)e, judge(c, FT_MAP_DIV);
}

/* -- gradient rules ---------------------------------------------------------------------------- */

/* A gradient in a's shape becomes one in b's. */
static ft_value_id like_b(ft_builder *b, const ft_grad_site *site, ft_value_id grad)
{
    int n_dims = b->spec(b, site->in[1])->shape.n_dims;
    if (b->spec(b, site->in[0])->shape.n_dims == n_dims) return grad;
    const double keep[FT_MAX_ATTRS] = {n_dims};
    return ft_add1(b, &ft_op_sum_to, grad, keep);
}

static void add_rule(ft_builder *b, const ft_grad_site *site)
{
    if (site->wanted[0]) site->din[0] = site->dout[0];
    if (site->wanted[1]) site->din[1] = like_b(b, site, site->dout[0]);
}

static void sub_rule(ft_builder *b, const ft_grad_site *site)
{
    if (site->wanted[0]) site->din[0] = site->dout[0];
    if (site->wanted[1])
        site->din[1] = ft_add1(b, &ft_op_neg, like_b(b, site, site->dout[0]), NULL);
}

static void mul_rule(ft_builder *b, const ft_grad_site *site)
{
    ft_value_id dy = site->dout[0];
    if (site->wanted[0]) site->din[0] = ft_add2(b, &ft_op_mul, dy, site->in[1], NULL);
    if (site->wanted[1])
        site->din[1] = like_b(b, site, ft_add2(b, &ft_op_mul, dy, site->in[0], NULL));
}

/* db = -(dy / b) y, summed */
static void div_rule(ft_builder *b, const ft_grad_site *site)
{
    ft_value_id da = ft_add2(b, &ft_op_div, site->dout[0], site->in[1], NULL);
    if (site->wanted[0]) site->din[0] = da;
    if (!site->wanted[1]) return;
    ft_value_id product = ft_add2(b, &ft_op_mul, da, site->out[0], NULL);
    site->din[1] = ft_add1(b, &ft_op_neg, like_b(b, site, product), NULL);
}

/* -- sum_to ------------------------------------------------------------------------------------ */

static ft_status sum_to_shape(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err)
{
    FT_TRY(ft_need_dtype("sum_to", "x", &in[0], FT_F32, err));
    if ((int)attrs[0] > in[0].shape.n_dims)
        return ft_shape_fail(err, "sum_to", "x", &in[0], "as many dimensions as are kept");
    out[0] = ft_spec_of(FT_F32, ft_shape_back(&in[0].shape, (int)attrs[0]));
    return FT_OK;
}

static ft_cost sum_to_cost(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    (void)attrs;
    return ft_cost_of(in, 1, out, 1, ft_spec_size(&in[0]));
}

static int64_t sum_to_workspace(const ft_spec *in, const double *attrs, int team_size)
{
    (void)team_size;
    ft_shape kept = ft_shape_back(&in[0].shape, (int)attrs[0]);
    int64_t D = ft_shape_count(&kept);
    return D < WIDE ? FT_MAX_PARTS * D * (int64_t)sizeof(float) : 0;
}

static void sum_columns(void *arg, int piece)
{
    const job *j = arg;
    int64_t from = (int64_t)piece * COLUMNS, n = ft_piece_end(j->D, COLUMNS, piece) - from;
    for (int64_t i = 0; i < j->rows; i++)
        j->map(j->y + from, j->y + from, j->a + i * j->D + from, n);
}

static void sum_part(void *arg, int part)
{
    const job *j = arg;
    int64_t from = part * j->per_piece, end = ft_piece_end(j->rows, j->per_piece, part);
    float *sum = j->y + part * j->D;
    memset(sum, 0, (size_t)j->D * sizeof *sum);
    if (j->D == 1) {
        sum[0] = ft_simd_get()->math->sum(j->a + from, end - from);
        return;
    }
    for (int64_t i = from; i < end; i++) j->map(sum, sum, j->a + i * j->D, j->D);
}

static ft_status sum_to_kernel(const ft_call *call, ft_error *err)
{
    (void)err;
    int64_t D = ft_shape_count(&call->out[0].shape);
    job j = {.map = ft_simd_get()->math->map2[FT_MAP_ADD],
             .y = ft_out(call, 0),
             .a = ft_in(call, 0),
             .rows = ft_rows_of(&call->in[0].shape, call->out[0].shape.n_dims),
             .D = D};
    if (D >= WIDE) {
        if (!ft_adds(call, 0)) memset(j.y, 0, (size_t)D * sizeof *j.y);
        ft_team_run(call->team, ft_pieces(D, COLUMNS), sum_columns, &j);
        return FT_OK;
    }
    j.y = call->work;
    j.per_piece = ft_rows_per_part(j.rows);
    int n_parts = ft_pieces(j.rows, j.per_piece);
    ft_team_run(call->team, n_parts, sum_part, &j);
    ft_parts_sum(ft_out(call, 0), j.y, n_parts, D, ft_adds(call, 0));
    return FT_OK;
}

static ft_status sum_to_judge(const ft_call *call, ft_error *err)
{
    (void)err;
    int64_t n = ft_shape_count(&call->in[0].shape), D = ft_shape_count(&call->out[0].shape);
    for (int64_t i = 0; i < D; i++) ft_out64(call, 0)[i] = 0.0;
    for (int64_t i = 0; i < n; i++) ft_out64(call, 0)[i % D] += ft_in64(call, 0)[i];
    return FT_OK;
}

/* -- the rows ---------------------------------------------------------------------------------- */

static const ft_sample samples[] = {
    {.in = {{FT_F32, {2, {7, 33}}}, {FT_F32, {2, {7, 33}}}}, .tolerance = 2e-7},
    {.in = {{FT_F32, {1, {1}}}, {FT_F32, {1, {1}}}}, .tolerance = 2e-7},
    {.in = {{FT_F32, {2, {7, 33}}}, {FT_F32, {0, {0}}}}, .tolerance = 2e-7},
    {.in = {{FT_F32, {3, {2, 3, 33}}}, {FT_F32, {1, {33}}}}, .tolerance = 2e-7},
    {.in = {{FT_F32, {3, {5, 7, 1000}}}, {FT_F32, {2, {7, 1000}}}}, .tolerance = 2e-7},
    {.in = {{FT_F32, {2, {0, 5}}}, {FT_F32, {1, {5}}}}},
    {.in = {{FT_F32, {0, {0}}}, {FT_F32, {0, {0}}}}, .tolerance = 2e-7},
};

static const ft_sample sum_to_samples[] = {
    {.in = {{FT_F32, {3, {2, 7, 33}}}}, .attrs = {1}, .tolerance = 1e-6},
    {.in = {{FT_F32, {2, {40, 1000}}}}, .attrs = {0}, .tolerance = 1e-5},
    {.in = {{FT_F32, {2, {40, 1000}}}}, .attrs = {1}, .tolerance = 1e-6},
    {.in = {{FT_F32, {2, {400, 33}}}}, .attrs = {1}, .tolerance = 1e-6},
    {.in = {{FT_F32, {1, {7}}}}, .attrs = {1}, .tolerance = 1e-6},
    {.in = {{FT_F32, {2, {0, 5}}}}, .attrs = {1}},
};

#define BINARY                                                                                     \
    .min_in = 2, .n_in = 2, .n_out = 1, .half_in = 3u, .half_out = 1u, .shape = binary_shape,      \
    .cost = binary_cost, .samples = samples, .n_samples = sizeof samples / sizeof *samples

const ft_op ft_op_add = {BINARY,
                         .name = "add",
                         .doc = "y = a + b; b like a, or a's last dimensions, or ()",
                         .grad = add_rule,
                         .kernel = add_kernel,
                         .reference = add_judge};
const ft_op ft_op_sub = {BINARY,
                         .name = "sub",
                         .doc = "y = a - b; b like a, or a's last dimensions, or ()",
                         .grad = sub_rule,
                         .kernel = sub_kernel,
                         .reference = sub_judge};
const ft_op ft_op_mul = {BINARY,
                         .name = "mul",
                         .doc = "y = a * b; b like a, or a's last dimensions, or ()",
                         .grad = mul_rule,
                         .kernel = mul_kernel,
                         .reference = mul_judge};
const ft_op ft_op_div = {BINARY,
                         .name = "div",
                         .doc = "y = a / b; b like a, or a's last dimensions, or ()",
                         .grad = div_rule,
                         .kernel = div_kernel,
                         .reference = div_judge};

const ft_op ft_op_sum_to = {
    .name = "sum_to",
    .doc = "y = x summed over all but its last `keep` dimensions",
    .min_in = 1,
    .n_in = 1,
    .n_out = 1,
    .half_in = 1u,
    .attrs = (const ft_attr_rule[]){{"keep", 0, 0, FT_MAX_DIMS, true, "dimensions kept"}, {0}},
    .shape = sum_to_shape,
    .cost = sum_to_cost,
    .kernel = sum_to_kernel,
    .reference = sum_to_judge,
    .workspace = sum_to_workspace,
    .accumulates = 1,
    .samples = sum_to_samples,
    .n_samples = sizeof sum_to_samples / sizeof *sum_to_samples,
};
