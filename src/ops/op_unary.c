/* ops/op_unary.c - functions of every number: y = f(x), and their gradients dx = g(dy, x or y).
 *   x (...)   ->   y (...)
 *
 * Rows are made from the lists in maps.h; scale and copy, which have no function, stand alone. */
#include "ops/internal.h"

#include <math.h>
#include <stddef.h>

typedef struct job {
    ft_map1 map1;
    ft_map2 map2;
    float *y;
    const float *a, *b;
    float factor;
    int64_t n;
} job;

static void piece_of_map1(void *arg, int piece)
{
    const job *j = arg;
    int64_t from = (int64_t)piece * FT_PIECE;
    j->map1(j->y + from, j->a + from, ft_piece_end(j->n, FT_PIECE, piece) - from);
}

static void piece_of_map2(void *arg, int piece)
{
    const job *j = arg;
    int64_t from = (int64_t)piece * FT_PIECE, n = ft_piece_end(j->n, FT_PIECE, piece) - from;
    j->map2(j->y + from, j->a + from, j->b + from, n);
}

static ft_status run1(const ft_call *call, ft_map1_kind kind)
{
    job j = {.map1 = ft_simd_get()->math->map1[kind],
             .y = ft_out(call, 0),
             .a = ft_in(call, 0),
             .n = ft_shape_count(&call->in[0].shape)};
    ft_team_run(call->team, ft_pieces(j.n, FT_PIECE), piece_of_map1, &j);
    return FT_OK;
}

static ft_status run2(const ft_call *call, ft_map2_kind kind)
{
    job j = {.map2 = ft_simd_get()->math->map2[kind],
             .y = ft_out(call, 0),
             .a = ft_in(call, 0),
             .b = ft_in(call, 1),
             .n = ft_shape_count(&call->in[0].shape)};
    ft_team_run(call->team, ft_pieces(j.n, FT_PIECE), piece_of_map2, &j);
    return FT_OK;
}

static ft_status each1(const ft_call *call, double (*f)(double))
{
    int64_t n = ft_shape_count(&call->in[0].shape);
    for (int64_t i = 0; i < n; i++) ft_out64(call, 0)[i] = f(ft_in64(call, 0)[i]);
    return FT_OK;
}

static ft_status each2(const ft_call *call, double (*f)(double, double))
{
    int64_t n = ft_shape_count(&call->in[0].shape);
    for (int64_t i = 0; i < n; i++)
        ft_out64(call, 0)[i] = f(ft_in64(call, 0)[i], ft_in64(call, 1)[i]);
    return FT_OK;
}

/* -- the functions in f64 ---------------------------------------------------------------------- */

static const double ROOT_2_OVER_PI = 0.79788456080286535588;
static const double ROOT_1_OVER_2_PI = 0.39894228040143267794;

static double relu(double x)
{
    return x < 0.0 ? 0.0 : x;
}
static double relu6(double x)
{
    return x > 6.0 ? 6.0 : relu(x);
}
static double relu2(double x)
{
    return relu(x) * relu(x);
}
static double leaky_relu(double x)
{
    return x < 0.0 ? 0.01 * x : x;
}
static double gelu(double x)
{
    return 0.5 * x * (1.0 + tanh(ROOT_2_OVER_PI * (x + 0.044715 * x * x * x)));
}
static double gelu_erf(double x)
{
    return 0.5 * x * erfc(-x / sqrt(2.0));
}
static double gelu_10(double x)
{
    double y = gelu_erf(x);
    return y > 10.0 ? 10.0 : y;
}
static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}
static double silu(double x)
{
    return x * sigmoid(x);
}
static double quick_gelu(double x)
{
    return x * sigmoid(1.702 * x);
}
static double mish(double x)
{
    return x * tanh(log1p(exp(x)));
}
static double negative(double x)
{
    return -x;
}
static double relu_grad(double dy, double y)
{
    return y > 0.0 ? dy : 0.0;
}
static double relu6_grad(double dy, double y)
{
    return y > 0.0 && y < 6.0 ? dy : 0.0;
}
static double relu2_grad(double dy, double x)
{
    return 2.0 * dy * relu(x);
}
static double leaky_relu_grad(double dy, double y)
{
    return y > 0.0 ? dy : 0.01 * dy;
}
static double gelu_grad(double dy, double x)
{
    double t = tanh(ROOT_2_OVER_PI * (x + 0.044715 * x * x * x));
    double inner = ROOT_2_OVER_PI * (1.0 + 3.0 * 0.044715 * x * x);
    return dy * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner);
}
static double gelu_erf_grad(double dy, double x)
{
    double density = exp(-0.5 * x * x) * ROOT_1_OVER_2_PI;
    return dy * (0.5 * erfc(-x / sqrt(2.0)) + x * density);
}
static double gelu_10_grad(double dy, double x)
{
    return gelu_erf(x) > 10.0 ? 0.0 : gelu_erf_grad(dy, x);
}
static double sigmoid_grad(double dy, double y)
{
    return dy * y * (1.0 - y);
}
/* of x sigmoid(k x) */
static double swish_grad(double dy, double x, double k)
{
    double gate = sigmoid(k * x);
    return dy * gate * (1.0 + k * x * (1.0 - gate));
}
static double silu_grad(double dy, double x)
{
    return swish_grad(dy, x, 1.0);
}
static double quick_gelu_grad(double dy, double x)
{
    return swish_grad(dy, x, 1.702);
}
static double mish_grad(double dy, double x)
{
    double t = tanh(log1p(exp(x)));
    return dy * (t + x * (1.0 - t * t) * sigmoid(x));
}
static double tanh_grad(double dy, double y)
{
    return dy * (1.0 - y * y);
}
static double sqrt_grad(double dy, double y)
{
    return 0.5 * dy / y;
}

/* -- scale, copy ------------------------------------------------------------------------------- */

static void piece_of_scale(void *arg, int piece)
{
    const job *j = arg;
    int64_t from = (int64_t)piece * FT_PIECE, n = ft_piece_end(j->n, FT_PIECE, piece) - from;
    ft_simd_get()->math->scale(j->y + from, j->a + from, j->factor, n);
}

static void piece_of_sum(void *arg, int piece)
{
    const job *j = arg;
    int64_t from = (int64_t)piece * FT_PIECE, n = ft_piece_end(j->n, FT_PIECE, piece) - from;
    j->map2(j->y + from, j->y + from, j->a + from, n);
}

static ft_status run_scale(const ft_call *call, float factor)
{
    job j = {.y = ft_out(call, 0),
             .a = ft_in(call, 0),
             .map2 = ft_simd_get()->math->map2[FT_MAP_ADD],
             .factor = factor,
             .n = ft_shape_count(&call->in[0].shape)};
    void (*work)(void *, int) = ft_adds(call, 0) ? piece_of_sum : piece_of_scale;
    ft_team_run(call->team, ft_pieces(j.n, FT_PIECE), work, &j);
    return FT_OK;
}

static ft_status scale_kernel(const ft_call *call, ft_error *err)
{
    (void)err;
    return run_scale(call, (float)call->attrs[0]);
}

static ft_status scale_judge(const ft_call *call, ft_error *err)
{
    (void)err;
    int64_t n = ft_shape_count(&call->in[0].shape);
    for (int64_t i = 0; i < n; i++) ft_out64(call, 0)[i] = call->attrs[0] * ft_in64(call, 0)[i];
    return FT_OK;
}

static double same(double x)
{
    return x;
}

static ft_status copy_kernel(const ft_call *call, ft_error *err)
{
    (void)err;
    return run_scale(call, 1.0f);
}

static ft_status copy_judge(const ft_call *call, ft_error *err)
{
    (void)err;
    return each1(call, same);
}

/* -- gradient rules ---------------------------------------------------------------------------- */

static void from_x(ft_builder *b, const ft_grad_site *site, const ft_op *op)
{
    if (site->wanted[0]) site->din[0] = ft_add2(b, op, site->dout[0], site->in[0], NULL);
}

static void from_y(ft_builder *b, const ft_grad_site *site, const ft_op *op)
{
    if (site->wanted[0]) site->din[0] = ft_add2(b, op, site->dout[0], site->out[0], NULL);
}

static void from_dy(ft_builder *b, const ft_grad_site *site, const ft_op *op)
{
    if (site->wanted[0]) site->din[0] = ft_add1(b, op, site->dout[0], NULL);
}

static void scale_rule(ft_builder *b, const ft_grad_site *s)
{
    if (s->wanted[0]) s->din[0] = ft_add1(b, &ft_op_scale, s->dout[0], s->attrs);
}
static void copy_rule(ft_builder *b, const ft_grad_site *s)
{
    (void)b;
    if (s->wanted[0]) s->din[0] = s->dout[0];
}

/* -- the rows ---------------------------------------------------------------------------------- */

static const ft_sample samples1[] = {
    {.in = {{FT_F32, {1, {1}}}}, .attrs = {0.25}, .tolerance = 4e-7},
    {.in = {{FT_F32, {2, {7, 33}}}}, .attrs = {-3}, .tolerance = 4e-7},
    {.in = {{FT_F32, {0, {0}}}}, .attrs = {1e-3}, .tolerance = 4e-7},
    {.in = {{FT_F32, {3, {3, 10, 1000}}}}, .attrs = {0.125}, .tolerance = 4e-7},
    {.in = {{FT_F32, {2, {0, 5}}}}, .attrs = {1}},
};

/* One number alone has no larger ones beside it to measure a cancellation by. */
static const ft_sample samples2[] = {
    {.in = {{FT_F32, {1, {1}}}, {FT_F32, {1, {1}}}}, .tolerance = 5e-6},
    {.in = {{FT_F32, {2, {7, 33}}}, {FT_F32, {2, {7, 33}}}}, .tolerance = 1e-6},
    {.in = {{FT_F32, {0, {0}}}, {FT_F32, {0, {0}}}}, .tolerance = 5e-6},
    {.in = {{FT_F32, {3, {3, 10, 1000}}}, {FT_F32, {3, {3, 10, 1000}}}}, .tolerance = 1e-6},
    {.in = {{FT_F32, {2, {0, 5}}}, {FT_F32, {2, {0, 5}}}}},
};

#define ROW(inputs, row_name, row_doc, row_shape, row_samples)                                     \
    .name = row_name, .doc = row_doc, .min_in = inputs, .n_in = inputs, .n_out = 1,                \
    .half_in = (1u << (inputs)) - 1, .half_out = 1u, .shape = row_shape, .samples = row_samples,   \
    .n_samples = sizeof row_samples / sizeof *row_samples

/* Kernel, reference and cost of a row with `inputs` inputs. */
#define PARTS(row, number, f, inputs, flops)                                                       \
    static ft_status row##_kernel(const ft_call *call, ft_error *err)                              \
    {                                                                                              \
        return (void)err, run##inputs(call, FT_MAP_##number);                                      \
    }                                                                                              \
    static ft_status row##_reference(const ft_call *call, ft_error *err)                           \
    {                                                                                              \
        return (void)err, each##inputs(call, f);                                                   \
    }                                                                                              \
    static ft_cost row##_cost(const ft_spec *in, const ft_spec *out, const double *attrs)          \
    {                                                                                              \
        return (void)attrs, ft_cost_of(in, inputs, out, 1, (flops)*ft_spec_size(out));             \
    }

#define MAP1(row, number, f, flops, rule, grad_row, text)                                          \
    PARTS(row, number, f, 1, flops)                                                                \
    static void row##_rule(ft_builder *b, const ft_grad_site *s)                                   \
    {                                                                                              \
        rule(b, s, &ft_op_##grad_row);                                                             \
    }                                                                                              \
    const ft_op ft_op_##row = {ROW(1, #row, text, ft_shape_same1, samples1), .cost = row##_cost,   \
                               .grad = row##_rule, .kernel = row##_kernel,                         \
                               .reference = row##_reference};

#define MAP2(row, number, f, flops, text)                                                          \
    PARTS(row, number, f, 2, flops)                                                                \
    const ft_op ft_op_##row = {ROW(2, #row, text, ft_shape_same2, samples2), .cost = row##_cost,   \
                               .kernel = row##_kernel, .reference = row##_reference};

FT_MAP1_LIST(MAP1)
FT_MAP2_LIST(MAP2)

static ft_cost one_each(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    (void)attrs;
    return ft_cost_of(in, 1, out, 1, ft_spec_size(out));
}

const ft_op ft_op_scale = {
    ROW(1, "scale", "y = factor * x", ft_shape_same1, samples1),
    .cost = one_each,
    .attrs = (const ft_attr_rule[]){{"factor", 1, -1e30, 1e30, false, "multiplies"}, {0}},
    .grad = scale_rule,
    .kernel = scale_kernel,
    .reference = scale_judge};
const ft_op ft_op_copy = {ROW(1, "copy", "y = x", ft_shape_same1, samples1),
                          .cost = one_each,
                          .grad = copy_rule,
                          .kernel = copy_kernel,
                          .reference = copy_judge,
                          .accumulates = 1};
