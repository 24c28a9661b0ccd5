/* ops/op_gated_gelu.c - the gate of T5 1.1's feed-forward layers: y = gelu(a) * b.
 *   a (...)   b (...)   ->   y (...)
 * gelu is the tanh form ("gelu_new"). One pass instead of two: these are the widest tensors of the
 * model. Source: Shazeer, arXiv:2002.05202. */
#include "ops/internal.h"

#include <math.h>
#include <stddef.h>

typedef struct job {
    float *da, *db;
    const float *dy, *a, *b;
    int64_t n;
} job;

static ft_cost gate_cost(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    (void)attrs;
    return ft_cost_per_element(in, 2, out, 1, 30.0);
}

static void gate_rule(ft_builder *b, const ft_grad_site *site)
{
    const ft_value_id in[] = {site->dout[0], site->in[0], site->in[1]};
    ft_value_id da = ft_add(b, &ft_op_gated_gelu_grad, 3, in, NULL);
    if (site->wanted[0]) site->din[0] = da;
    if (site->wanted[1]) site->din[1] = da + 1;
}

static void gate_piece(void *arg, int piece)
{
    const job *j = arg;
    int64_t from = (int64_t)piece * FT_PIECE, n = ft_piece_end(j->n, FT_PIECE, piece) - from;
    ft_simd_get()->math->map2[FT_MAP_GATED_GELU](j->da + from, j->a + from, j->b + from, n);
}

static ft_status gate_kernel(const ft_call *call, ft_error *err)
{
    (void)err;
    job j = {.da = ft_out(call, 0),
             .a = ft_in(call, 0),
             .b = ft_in(call, 1),
             .n = ft_shape_count(&call->in[0].shape)};
    ft_team_run(call->team, ft_pieces(j.n, FT_PIECE), gate_piece, &j);
    return FT_OK;
}

/* tanh(u(x)), u = sqrt(2/pi) (x + 0.044715 x^3) */
static double inner(double x)
{
    return tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x));
}

static ft_status gate_reference(const ft_call *call, ft_error *err)
{
    (void)err;
    int64_t n = ft_shape_count(&call->in[0].shape);
    for (int64_t i = 0; i < n; i++) {
        double a = ft_in64(call, 0)[i];
        ft_out64(call, 0)[i] = 0.5 * a * (1.0 + inner(a)) * ft_in64(call, 1)[i];
    }
    return FT_OK;
}

static ft_status grad_shape(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err)
{
    (void)attrs;
    FT_TRY(ft_need_dtype("gated_gelu_grad", "dy", &in[0], FT_F32, err));
    FT_TRY(ft_need_spec("gated_gelu_grad", "a", &in[1], &in[0], err));
    FT_TRY(ft_need_spec("gated_gelu_grad", "b", &in[2], &in[0], err));
    out[0] = out[1] = in[0];
    return FT_OK;
}

static ft_cost grad_cost(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    (void)attrs;
    return ft_cost_per_element(in, 3, out, 2, 40.0);
}

static void grad_piece(void *arg, int piece)
{
    const job *j = arg;
    int64_t at = (int64_t)piece * FT_PIECE, n = ft_piece_end(j->n, FT_PIECE, piece) - at;
    ft_simd_get()->math->gated_gelu_grad(j->da + at, j->db + at, j->dy + at, j->a + at, j->b + at,
                                         n);
}

static ft_status grad_kernel(const ft_call *call, ft_error *err)
{
    (void)err;
    job j = {.da = ft_out(call, 0),
             .db = ft_out(call, 1),
             .dy = ft_in(call, 0),
             .a = ft_in(call, 1),
             .b = ft_in(call, 2),
             .n = ft_shape_count(&call->in[0].shape)};
    ft_team_run(call->team, ft_pieces(j.n, FT_PIECE), grad_piece, &j);
    return FT_OK;
}

static ft_status grad_reference(const ft_call *call, ft_error *err)
{
    (void)err;
    int64_t n = ft_shape_count(&call->in[0].shape);
    for (int64_t i = 0; i < n; i++) {
        double dy = ft_in64(call, 0)[i], a = ft_in64(call, 1)[i], b = ft_in64(call, 2)[i];
        double t = inner(a), slope = 0.79788456080286535588 * (1.0 + 3.0 * 0.044715 * a * a);
        ft_out64(call, 0)[i] = dy * b * (0.5 * (1.0 + t) + 0.5 * a * (1.0 - t * t) * slope);
        ft_out64(call, 1)[i] = dy * 0.5 * a * (1.0 + t);
    }
    return FT_OK;
}

static const ft_sample samples[] = {
    {.in = {{FT_F32, {1, {1}}}, {FT_F32, {1, {1}}}, {FT_F32, {1, {1}}}}, .tolerance = 1e-6},
    {.in = {{FT_F32, {2, {7, 33}}}, {FT_F32, {2, {7, 33}}}, {FT_F32, {2, {7, 33}}}},
     .tolerance = 1e-6},
    {.in = {{FT_F32, {2, {30, 1000}}}, {FT_F32, {2, {30, 1000}}}, {FT_F32, {2, {30, 1000}}}},
     .tolerance = 1e-6},
    {.in = {{FT_F32, {2, {0, 7}}}, {FT_F32, {2, {0, 7}}}, {FT_F32, {2, {0, 7}}}}},
};

const ft_op ft_op_gated_gelu = {
    .name = "gated_gelu",
    .doc = "y = gelu(a) * b, the tanh form of gelu",
    .min_in = 2,
    .n_in = 2,
    .n_out = 1,
    .half_in = 1u | 1u << 1,
    .half_out = 1u,
    .shape = ft_shape_same2,
    .cost = gate_cost,
    .grad = gate_rule,
    .kernel = gate_kernel,
    .reference = gate_reference,
    .samples = samples,
    .n_samples = sizeof samples / sizeof *samples,
};

const ft_op ft_op_gated_gelu_grad = {
    .name = "gated_gelu_grad",
    .doc = "gradients of gated_gelu; (dy, a, b) -> da, db",
    .min_in = 3,
    .n_in = 3,
    .n_out = 2,
    .half_in = 1u | 1u << 1 | 1u << 2,
    .half_out = 1u | 1u << 1,
    .shape = grad_shape,
    .cost = grad_cost,
    .kernel = grad_kernel,
    .reference = grad_reference,
    .samples = samples,
    .n_samples = sizeof samples / sizeof *samples,
};
