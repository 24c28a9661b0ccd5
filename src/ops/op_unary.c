/* ops/op_unary.c - functions of every number: y = f(x), and their gradients dx = g(dy, x or y).
 *   x (...)   ->   y (...)
 *
 * A row here is its function for the reference, its vector kernel by number, and a gradient that is
 * a row of this file or of op_binary.c. */
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

static double relu(double x) { return x < 0.0 ? 0.0 : x; }
static double gelu(double x)
{
    return 0.5 * x * (1.0 + tanh(ROOT_2_OVER_PI * (x + 0.044715 * x * x * x)));
}
static double gelu_erf(double x) { return 0.5 * x * erfc(-x / sqrt(2.0)); }
static double negative(double x) { return -x; }
static double relu_grad(double dy, double y) { return y > 0.0 ? dy : 0.0; }
static double gelu_grad(double dy, double x)
{
    double t = tanh(ROOT_2_OVER_PI * (x + 0.044715 * x * x * x));
    double inner = ROOT_2_OVER_PI * (1.0 + 3.0 * 0.044715 * x * x);
    return dy * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner);
}
static double gelu_erf_grad(double dy, double x)
{
    double density = exp(-0.5 * x * x) * 0.39894228040143267794;
    return dy * (0.5 * erfc(-x / sqrt(2.0)) + x * density);
}
static double tanh_grad(double dy, double y) { return dy * (1.0 - y * y); }
static double sqrt_grad(double dy, double y) { return 0.5 * dy / y; }

/* -- kernels and references of the rows -------------------------------------------------------- */

static ft_status relu_kernel(const ft_call *c, ft_error *e)
{
    return (void)e, run1(c, FT_MAP_RELU);
}
static ft_status gelu_kernel(const ft_call *c, ft_error *e)
{
    return (void)e, run1(c, FT_MAP_GELU);
}
static ft_status gelu_erf_kernel(const ft_call *c, ft_error *e)
{
    return (void)e, run1(c, FT_MAP_GELU_ERF);
}
static ft_status tanh_kernel(const ft_call *c, ft_error *e)
{
    return (void)e, run1(c, FT_MAP_TANH);
}
static ft_status exp_kernel(const ft_call *c, ft_error *e) { return (void)e, run1(c, FT_MAP_EXP); }
static ft_status log_kernel(const ft_call *c, ft_error *e) { return (void)e, run1(c, FT_MAP_LOG); }
static ft_status sqrt_kernel(const ft_call *c, ft_error *e)
{
    return (void)e, run1(c, FT_MAP_SQRT);
}
static ft_status neg_kernel(const ft_call *c, ft_error *e) { return (void)e, run1(c, FT_MAP_NEG); }
static ft_status relu_grad_kernel(const ft_call *c, ft_error *e)
{
    return (void)e, run2(c, FT_MAP_RELU_GRAD);
}
static ft_status gelu_grad_kernel(const ft_call *c, ft_error *e)
{
    return (void)e, run2(c, FT_MAP_GELU_GRAD);
}
static ft_status gelu_erf_grad_kernel(const ft_call *c, ft_error *e)
{
    return (void)e, run2(c, FT_MAP_GELU_ERF_GRAD);
}
static ft_status tanh_grad_kernel(const ft_call *c, ft_error *e)
{
    return (void)e, run2(c, FT_MAP_TANH_GRAD);
}
static ft_status sqrt_grad_kernel(const ft_call *c, ft_error *e)
{
    return (void)e, run2(c, FT_MAP_SQRT_GRAD);
}

static ft_status relu_judge(const ft_call *c, ft_error *e) { return (void)e, each1(c, relu); }
static ft_status gelu_judge(const ft_call *c, ft_error *e) { return (void)e, each1(c, gelu); }
static ft_status gelu_erf_judge(const ft_call *c, ft_error *e)
{
    return (void)e, each1(c, gelu_erf);
}
static ft_status tanh_judge(const ft_call *c, ft_error *e) { return (void)e, each1(c, tanh); }
static ft_status exp_judge(const ft_call *c, ft_error *e) { return (void)e, each1(c, exp); }
static ft_status log_judge(const ft_call *c, ft_error *e) { return (void)e, each1(c, log); }
static ft_status sqrt_judge(const ft_call *c, ft_error *e) { return (void)e, each1(c, sqrt); }
static ft_status neg_judge(const ft_call *c, ft_error *e) { return (void)e, each1(c, negative); }
static ft_status relu_grad_judge(const ft_call *c, ft_error *e)
{
    return (void)e, each2(c, relu_grad);
}
static ft_status gelu_grad_judge(const ft_call *c, ft_error *e)
{
    return (void)e, each2(c, gelu_grad);
}
static ft_status gelu_erf_grad_judge(const ft_call *c, ft_error *e)
{
    return (void)e, each2(c, gelu_erf_grad);
}
static ft_status tanh_grad_judge(const ft_call *c, ft_error *e)
{
    return (void)e, each2(c, tanh_grad);
}
static ft_status sqrt_grad_judge(const ft_call *c, ft_error *e)
{
    return (void)e, each2(c, sqrt_grad);
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

static double same(double x) { return x; }

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

static void relu_rule(ft_builder *b, const ft_grad_site *s) { from_y(b, s, &ft_op_relu_grad); }
static void gelu_rule(ft_builder *b, const ft_grad_site *s) { from_x(b, s, &ft_op_gelu_grad); }
static void gelu_erf_rule(ft_builder *b, const ft_grad_site *s)
{
    from_x(b, s, &ft_op_gelu_erf_grad);
}
static void tanh_rule(ft_builder *b, const ft_grad_site *s) { from_y(b, s, &ft_op_tanh_grad); }
static void exp_rule(ft_builder *b, const ft_grad_site *s) { from_y(b, s, &ft_op_mul); }
static void log_rule(ft_builder *b, const ft_grad_site *s) { from_x(b, s, &ft_op_div); }
static void sqrt_rule(ft_builder *b, const ft_grad_site *s) { from_y(b, s, &ft_op_sqrt_grad); }
static void neg_rule(ft_builder *b, const ft_grad_site *s)
{
    if (s->wanted[0]) s->din[0] = ft_add1(b, &ft_op_neg, s->dout[0], NULL);
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

/* -- costs: operations for one number ---------------------------------------------------------- */

static ft_cost cheap1(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    (void)attrs;
    return ft_cost_of(in, 1, out, 1, ft_spec_size(out));
}

static ft_cost dear1(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    (void)attrs;
    return ft_cost_of(in, 1, out, 1, 25.0 * ft_spec_size(out));
}

static ft_cost cheap2(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    (void)attrs;
    return ft_cost_of(in, 2, out, 1, 2.0 * ft_spec_size(out));
}

static ft_cost dear2(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    (void)attrs;
    return ft_cost_of(in, 2, out, 1, 35.0 * ft_spec_size(out));
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

#define UNARY(row_shape, row_cost, row_samples, inputs)                                            \
    .min_in = inputs, .n_in = inputs, .n_out = 1, .shape = row_shape, .cost = row_cost,            \
    .samples = row_samples, .n_samples = sizeof row_samples / sizeof *row_samples
#define CHEAP1 UNARY(ft_shape_same1, cheap1, samples1, 1)
#define DEAR1 UNARY(ft_shape_same1, dear1, samples1, 1)
#define CHEAP2 UNARY(ft_shape_same2, cheap2, samples2, 2)
#define DEAR2 UNARY(ft_shape_same2, dear2, samples2, 2)

const ft_op ft_op_relu = {CHEAP1,
                          .name = "relu",
                          .doc = "y = max(x, 0)",
                          .grad = relu_rule,
                          .kernel = relu_kernel,
                          .reference = relu_judge};
const ft_op ft_op_relu_grad = {CHEAP2,
                               .name = "relu_grad",
                               .doc = "dx = dy where y > 0, else 0; (dy, y)",
                               .kernel = relu_grad_kernel,
                               .reference = relu_grad_judge};
const ft_op ft_op_gelu = {DEAR1,
                          .name = "gelu",
                          .doc = "y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), \"gelu_new\"",
                          .grad = gelu_rule,
                          .kernel = gelu_kernel,
                          .reference = gelu_judge};
const ft_op ft_op_gelu_grad = {DEAR2,
                               .name = "gelu_grad",
                               .doc = "gradient of gelu; (dy, x)",
                               .kernel = gelu_grad_kernel,
                               .reference = gelu_grad_judge};
const ft_op ft_op_gelu_erf = {DEAR1,
                              .name = "gelu_erf",
                              .doc = "y = x/2 (1 + erf(x / sqrt(2)))",
                              .grad = gelu_erf_rule,
                              .kernel = gelu_erf_kernel,
                              .reference = gelu_erf_judge};
const ft_op ft_op_gelu_erf_grad = {DEAR2,
                                   .name = "gelu_erf_grad",
                                   .doc = "gradient of gelu_erf; (dy, x)",
                                   .kernel = gelu_erf_grad_kernel,
                                   .reference = gelu_erf_grad_judge};
const ft_op ft_op_tanh = {DEAR1,
                          .name = "tanh",
                          .doc = "y = tanh(x)",
                          .grad = tanh_rule,
                          .kernel = tanh_kernel,
                          .reference = tanh_judge};
const ft_op ft_op_tanh_grad = {CHEAP2,
                               .name = "tanh_grad",
                               .doc = "dx = dy (1 - y^2); (dy, y)",
                               .kernel = tanh_grad_kernel,
                               .reference = tanh_grad_judge};
const ft_op ft_op_exp = {DEAR1,
                         .name = "exp",
                         .doc = "y = e^x",
                         .grad = exp_rule,
                         .kernel = exp_kernel,
                         .reference = exp_judge};
const ft_op ft_op_log = {DEAR1,
                         .name = "log",
                         .doc = "y = natural logarithm of x",
                         .grad = log_rule,
                         .kernel = log_kernel,
                         .reference = log_judge};
const ft_op ft_op_sqrt = {CHEAP1,
                          .name = "sqrt",
                          .doc = "y = square root of x",
                          .grad = sqrt_rule,
                          .kernel = sqrt_kernel,
                          .reference = sqrt_judge};
const ft_op ft_op_sqrt_grad = {CHEAP2,
                               .name = "sqrt_grad",
                               .doc = "dx = dy / (2 y); (dy, y)",
                               .kernel = sqrt_grad_kernel,
                               .reference = sqrt_grad_judge};
const ft_op ft_op_neg = {CHEAP1,
                         .name = "neg",
                         .doc = "y = -x",
                         .grad = neg_rule,
                         .kernel = neg_kernel,
                         .reference = neg_judge};
const ft_op ft_op_scale = {
    CHEAP1,
    .name = "scale",
    .doc = "y = factor * x",
    .attrs = (const ft_attr_rule[]){{"factor", 1, -1e30, 1e30, false, "multiplies"}, {0}},
    .grad = scale_rule,
    .kernel = scale_kernel,
    .reference = scale_judge};
const ft_op ft_op_copy = {CHEAP1,
                          .name = "copy",
                          .doc = "y = x",
                          .grad = copy_rule,
                          .kernel = copy_kernel,
                          .reference = copy_judge,
                          .accumulates = 1};
