/* ops/op_norm.c - normalisation over the last axis: T5's (RMS norm) and that of BERT and GPT-2.
 *   rms_norm     x (..., D)   w (D)           ->   y (..., D)   rstd (...)
 *   layer_norm   x (..., D)   w (D)   b (D)   ->   y (..., D)   stats (..., 2): mean, rstd
 * y = (x - mean) * rstd * w + b, rstd = 1 / sqrt(mean((x - mean)^2) + eps); RMS norm has no mean
 * and no b. What is kept of a row is for the gradient. Sources: Ba, Kiros, Hinton,
 * arXiv:1607.06450; Zhang and Sennrich, arXiv:1910.07467.
 *
 * The two differ in `centred` alone: everything here takes it, and rows are made from both values
 * at the end. */
#include "ops/internal.h"

#include <math.h>
#include <string.h>

enum { ROWS = 16 }; /* of a piece of the forward pass */

typedef struct job {
    bool centred;
    const float *dy, *x, *w, *b, *stats;
    float *y, *stats_out, *parts;
    float eps;
    int64_t rows, D, per_part;
} job;

/* Of a norm: parameters (w, b), and numbers kept of a row (mean, rstd). */
static int n_params(bool centred)
{
    return centred ? 2 : 1;
}
static int n_stats(bool centred)
{
    return centred ? 2 : 1;
}

static ft_shape stats_shape(bool centred, const ft_shape *x)
{
    ft_shape shape = *x;
    if (!centred) return ft_shape_front(x, 1);
    shape.dims[shape.n_dims - 1] = 2;
    return shape;
}

/* -- forward ----------------------------------------------------------------------------------- */

static ft_status norm_shape(bool centred, const ft_spec *in, ft_spec *out, ft_error *err)
{
    static const char *const names[] = {"w", "b"};
    FT_TRY(ft_need_rows(NULL, "x", &in[0], err));
    if (ft_dim_back(&in[0].shape, -1) == 0) /* which have no mean */
        return ft_shape_fail(err, NULL, "x", &in[0], "at least one number along the last axis");
    for (int i = 0; i < n_params(centred); i++)
        FT_TRY(ft_need_f32(NULL, names[i], &in[1 + i], ft_shape_back(&in[0].shape, 1), err));
    out[0] = in[0];
    out[1] = ft_spec_of(FT_F32, stats_shape(centred, &in[0].shape));
    return FT_OK;
}

static ft_cost norm_cost(bool centred, const ft_spec *in, const ft_spec *out)
{
    double flops = centred ? 7.0 : 4.0;
    return ft_cost_of(in, 1 + n_params(centred), out, 2, flops * ft_spec_size(&in[0]));
}

static void norm_rule(bool centred, ft_builder *b, const ft_grad_site *site)
{
    const ft_op *row = centred ? &ft_op_layer_norm_grad : &ft_op_rms_norm_grad;
    const ft_value_id in[] = {site->dout[0], site->in[0], site->in[1], site->out[1]};
    ft_value_id dx = ft_add(b, row, 4, in, NULL);
    for (int i = 0; i < 1 + n_params(centred); i++)
        if (site->wanted[i]) site->din[i] = dx + i;
}

static void norm_piece(void *arg, int piece)
{
    const job *j = arg;
    const ft_simd_norm *simd = ft_simd_get()->norm;
    for (int64_t i = (int64_t)piece * ROWS; i < ft_piece_end(j->rows, ROWS, piece); i++) {
        const float *x = j->x + i * j->D;
        float *y = j->y + i * j->D;
        if (j->centred)
            simd->layer(y, j->stats_out + 2 * i, x, j->w, j->b, j->eps, j->D);
        else
            j->stats_out[i] = simd->rms(y, x, j->w, j->eps, j->D);
    }
}

static ft_status norm_kernel(bool centred, const ft_call *call)
{
    job j = {.centred = centred,
             .x = ft_in(call, 0),
             .w = ft_in(call, 1),
             .b = centred ? ft_in(call, 2) : NULL,
             .y = ft_out(call, 0),
             .stats_out = ft_out(call, 1),
             .eps = (float)call->attrs[0],
             .rows = ft_rows_of(&call->in[0].shape, 1),
             .D = ft_dim_back(&call->in[0].shape, -1)};
    ft_team_run(call->team, ft_pieces(j.rows, ROWS), norm_piece, &j);
    return FT_OK;
}

static ft_status norm_reference(bool centred, const ft_call *call)
{
    int64_t rows = ft_rows_of(&call->in[0].shape, 1), D = ft_dim_back(&call->in[0].shape, -1);
    const double *w = ft_in64(call, 1), *b = centred ? ft_in64(call, 2) : NULL;
    for (int64_t i = 0; i < rows; i++) {
        const double *x = ft_in64(call, 0) + i * D;
        double *stats = ft_out64(call, 1) + n_stats(centred) * i, mean = 0.0, squares = 0.0;
        for (int64_t d = 0; centred && d < D; d++) mean += x[d] / (double)D;
        for (int64_t d = 0; d < D; d++) squares += (x[d] - mean) * (x[d] - mean) / (double)D;
        double rstd = 1.0 / sqrt(squares + call->attrs[0]);
        for (int64_t d = 0; d < D; d++)
            ft_out64(call, 0)[i * D + d] = (x[d] - mean) * rstd * w[d] + (b ? b[d] : 0.0);
        if (centred) *stats++ = mean;
        *stats = rstd;
    }
    return FT_OK;
}

/* -- gradient: dy, x, w, stats -> dx, dw, db ----------------------------------------------------
 */

static ft_status grad_shape(bool centred, const ft_spec *in, ft_spec *out, ft_error *err)
{
    FT_TRY(ft_need_rows(NULL, "dy", &in[0], err));
    FT_TRY(ft_need_spec(NULL, "x", &in[1], &in[0], err));
    FT_TRY(ft_need_f32(NULL, "w", &in[2], ft_shape_back(&in[0].shape, 1), err));
    ft_shape stats = stats_shape(centred, &in[0].shape);
    FT_TRY(ft_need_f32(NULL, centred ? "stats" : "rstd", &in[3], stats, err));
    out[0] = in[0];
    for (int i = 0; i < n_params(centred); i++) out[1 + i] = in[2];
    return FT_OK;
}

static ft_cost grad_cost(bool centred, const ft_spec *in, const ft_spec *out)
{
    double flops = centred ? 14.0 : 10.0;
    return ft_cost_of(in, 4, out, 1 + n_params(centred), flops * ft_spec_size(&in[0]));
}

/* Partial sums of dw, or of dw and db together and behind them their totals. */
static int64_t grad_workspace(bool centred, const ft_spec *in)
{
    return (centred ? 2 : 1) * (FT_MAX_PARTS + 1) * ft_spec_bytes(&in[2]);
}

static void grad_part(void *arg, int part)
{
    const job *j = arg;
    const ft_simd_norm *simd = ft_simd_get()->norm;
    int64_t sums = n_params(j->centred) * j->D;
    float *dw = j->parts + part * sums;
    memset(dw, 0, (size_t)sums * sizeof *dw);
    for (int64_t i = part * j->per_part; i < ft_piece_end(j->rows, j->per_part, part); i++) {
        int64_t at = i * j->D;
        float *dx = j->y + at;
        if (j->centred)
            simd->layer_grad(dx, dw, j->dy + at, j->x + at, j->w, j->stats + 2 * i, j->D);
        else
            simd->rms_grad(dx, dw, j->dy + at, j->x + at, j->w, j->stats[i], j->D);
    }
}

static ft_status grad_kernel(bool centred, const ft_call *call)
{
    job j = {.centred = centred,
             .dy = ft_in(call, 0),
             .x = ft_in(call, 1),
             .w = ft_in(call, 2),
             .stats = ft_in(call, 3),
             .y = ft_out(call, 0),
             .parts = call->work,
             .rows = ft_rows_of(&call->in[0].shape, 1),
             .D = ft_dim_back(&call->in[0].shape, -1)};
    j.per_part = ft_rows_per_part(j.rows);
    int n_parts = ft_pieces(j.rows, j.per_part);
    int n_sums = centred ? 2 : 1;
    float *total = j.parts + FT_MAX_PARTS * n_sums * j.D;
    ft_team_run(call->team, n_parts, grad_part, &j);
    ft_parts_sum(total, j.parts, n_parts, n_sums * j.D, false);
    for (int i = 0; i < n_sums; i++)
        ft_parts_sum(ft_out(call, 1 + i), total + i * j.D, 1, j.D, ft_adds(call, 1 + i));
    return FT_OK;
}

/* dx = rstd * (g - mean(g) - n * mean(g n)), g = dy * w, n = (x - mean) * rstd. */
static ft_status grad_reference(bool centred, const ft_call *call)
{
    int64_t rows = ft_rows_of(&call->in[0].shape, 1), D = ft_dim_back(&call->in[0].shape, -1);
    const double *w = ft_in64(call, 2);
    double *dw = ft_out64(call, 1), *db = centred ? ft_out64(call, 2) : NULL;
    for (int64_t d = 0; d < D; d++) dw[d] = 0.0;
    for (int64_t d = 0; db && d < D; d++) db[d] = 0.0;
    for (int64_t i = 0; i < rows; i++) {
        const double *dy = ft_in64(call, 0) + i * D, *x = ft_in64(call, 1) + i * D;
        const double *stats = ft_in64(call, 3) + n_stats(centred) * i;
        double mean = centred ? stats[0] : 0.0, rstd = stats[centred];
        double mean_g = 0.0, mean_gn = 0.0;
        for (int64_t d = 0; d < D; d++) {
            double n = (x[d] - mean) * rstd;
            if (centred) mean_g += dy[d] * w[d] / (double)D;
            mean_gn += dy[d] * w[d] * n / (double)D;
            dw[d] += dy[d] * n;
            if (db) db[d] += dy[d];
        }
        for (int64_t d = 0; d < D; d++) {
            double n = (x[d] - mean) * rstd;
            ft_out64(call, 0)[i * D + d] = rstd * (dy[d] * w[d] - mean_g - n * mean_gn);
        }
    }
    return FT_OK;
}

/* -- the rows ---------------------------------------------------------------------------------- */

/* Functions of a norm and of its gradient. */
#define PARTS(name, part, centred)                                                                 \
    static ft_status name##_shape(const ft_spec *in, const double *attrs, ft_spec *out,            \
                                  ft_error *err)                                                   \
    {                                                                                              \
        return (void)attrs, part##_shape(centred, in, out, err);                                   \
    }                                                                                              \
    static ft_cost name##_cost(const ft_spec *in, const ft_spec *out, const double *attrs)         \
    {                                                                                              \
        return (void)attrs, part##_cost(centred, in, out);                                         \
    }                                                                                              \
    static ft_status name##_kernel(const ft_call *call, ft_error *err)                             \
    {                                                                                              \
        return (void)err, part##_kernel(centred, call);                                            \
    }                                                                                              \
    static ft_status name##_reference(const ft_call *call, ft_error *err)                          \
    {                                                                                              \
        return (void)err, part##_reference(centred, call);                                         \
    }

#define FUNCTIONS(name, centred)                                                                   \
    PARTS(name, norm, centred)                                                                     \
    PARTS(name##_grad, grad, centred)                                                              \
    static void name##_rule(ft_builder *b, const ft_grad_site *site)                               \
    {                                                                                              \
        norm_rule(centred, b, site);                                                               \
    }                                                                                              \
    static int64_t name##_workspace(const ft_spec *in, const double *attrs, int team_size)         \
    {                                                                                              \
        return (void)attrs, (void)team_size, grad_workspace(centred, in);                          \
    }

FUNCTIONS(rms_norm, false)
FUNCTIONS(layer_norm, true)

/* What rows of a norm and of a gradient have in common. */
#define NORM_ROW(row, inputs, row_samples)                                                         \
    .name = #row, .min_in = inputs, .n_in = inputs, .n_out = 2, .half_in = 1u, .half_out = 1u,     \
    .shape = row##_shape, .cost = row##_cost, .grad = row##_rule, .kernel = row##_kernel,          \
    .reference = row##_reference, .no_grad_out = 1u << 1, .samples = row_samples,                  \
    .n_samples = sizeof row_samples / sizeof *row_samples
#define GRAD_ROW(row, outputs, row_samples)                                                        \
    .name = #row "_grad", .min_in = 4, .n_in = 4, .n_out = outputs, .half_in = 3u, .half_out = 1u, \
    .shape = row##_grad_shape, .cost = row##_grad_cost, .kernel = row##_grad_kernel,               \
    .reference = row##_grad_reference, .workspace = row##_workspace, .samples = row_samples,       \
    .n_samples = sizeof row_samples / sizeof *row_samples

static const ft_sample rms_samples[] = {
    {.in = {{FT_F32, {3, {2, 5, 33}}}, {FT_F32, {1, {33}}}}, .attrs = {1e-6}, .tolerance = 1e-6},
    {.in = {{FT_F32, {1, {7}}}, {FT_F32, {1, {7}}}}, .attrs = {1e-5}, .tolerance = 1e-6},
    {.in = {{FT_F32, {2, {40, 1000}}}, {FT_F32, {1, {1000}}}}, .attrs = {1e-6}, .tolerance = 1e-6},
    {.in = {{FT_F32, {2, {3, 1}}}, {FT_F32, {1, {1}}}}, .attrs = {1e-1}, .tolerance = 1e-6},
    {.in = {{FT_F32, {2, {9, 1600}}}, {FT_F32, {1, {1600}}}}, .attrs = {1e-6}, .tolerance = 1e-6},
    {.in = {{FT_F32, {2, {0, 8}}}, {FT_F32, {1, {8}}}}, .attrs = {1e-6}},
};

static const ft_sample rms_grad_samples[] = {
    {.in = {{FT_F32, {3, {2, 5, 33}}},
            {FT_F32, {3, {2, 5, 33}}},
            {FT_F32, {1, {33}}},
            {FT_F32, {2, {2, 5}}}},
     .tolerance = 1e-6},
    {.in = {{FT_F32, {1, {7}}}, {FT_F32, {1, {7}}}, {FT_F32, {1, {7}}}, {FT_F32, {0, {0}}}},
     .tolerance = 1e-6},
    {.in = {{FT_F32, {2, {300, 1000}}},
            {FT_F32, {2, {300, 1000}}},
            {FT_F32, {1, {1000}}},
            {FT_F32, {1, {300}}}},
     .tolerance = 2e-6},
    {.in = {{FT_F32, {2, {9, 5000}}},
            {FT_F32, {2, {9, 5000}}},
            {FT_F32, {1, {5000}}},
            {FT_F32, {1, {9}}}},
     .tolerance = 2e-6},
    {.in = {{FT_F32, {2, {0, 8}}}, {FT_F32, {2, {0, 8}}}, {FT_F32, {1, {8}}}, {FT_F32, {1, {0}}}}},
};

static const ft_sample layer_samples[] = {
    {.in = {{FT_F32, {3, {2, 5, 33}}}, {FT_F32, {1, {33}}}, {FT_F32, {1, {33}}}},
     .attrs = {1e-5},
     .tolerance = 1e-6},
    {.in = {{FT_F32, {1, {7}}}, {FT_F32, {1, {7}}}, {FT_F32, {1, {7}}}},
     .attrs = {1e-12},
     .tolerance = 1e-6},
    {.in = {{FT_F32, {2, {40, 1000}}}, {FT_F32, {1, {1000}}}, {FT_F32, {1, {1000}}}},
     .attrs = {1e-5},
     .tolerance = 1e-6},
    {.in = {{FT_F32, {2, {7, 1600}}}, {FT_F32, {1, {1600}}}, {FT_F32, {1, {1600}}}},
     .attrs = {1e-5},
     .tolerance = 1e-6},
    {.in = {{FT_F32, {2, {3, 8200}}}, {FT_F32, {1, {8200}}}, {FT_F32, {1, {8200}}}},
     .attrs = {1e-5},
     .tolerance = 1e-6},
    {.in = {{FT_F32, {2, {0, 8}}}, {FT_F32, {1, {8}}}, {FT_F32, {1, {8}}}}, .attrs = {1e-5}},
};

static const ft_sample layer_grad_samples[] = {
    {.in = {{FT_F32, {3, {2, 5, 33}}},
            {FT_F32, {3, {2, 5, 33}}},
            {FT_F32, {1, {33}}},
            {FT_F32, {3, {2, 5, 2}}}},
     .tolerance = 1e-6},
    {.in = {{FT_F32, {1, {7}}}, {FT_F32, {1, {7}}}, {FT_F32, {1, {7}}}, {FT_F32, {1, {2}}}},
     .tolerance = 1e-6},
    {.in = {{FT_F32, {2, {300, 1000}}},
            {FT_F32, {2, {300, 1000}}},
            {FT_F32, {1, {1000}}},
            {FT_F32, {2, {300, 2}}}},
     .tolerance = 2e-6},
    {.in = {{FT_F32, {2, {7, 1600}}},
            {FT_F32, {2, {7, 1600}}},
            {FT_F32, {1, {1600}}},
            {FT_F32, {2, {7, 2}}}},
     .tolerance = 2e-6},
    {.in =
         {{FT_F32, {2, {0, 8}}}, {FT_F32, {2, {0, 8}}}, {FT_F32, {1, {8}}}, {FT_F32, {2, {0, 2}}}}},
};

const ft_op ft_op_rms_norm = {
    NORM_ROW(rms_norm, 2, rms_samples),
    .doc = "y = x * rstd * w, rstd = 1 / sqrt(mean(x^2) + eps); x (..., D), w (D) -> y, rstd (...)",
    .attrs = (const ft_attr_rule[]){{"eps", 1e-6, 0, 1, false, "added to the mean square"}, {0}},
};

const ft_op ft_op_rms_norm_grad = {
    GRAD_ROW(rms_norm, 2, rms_grad_samples),
    .doc = "gradients of rms_norm; dy, x (..., D), w (D), rstd (...) -> dx (..., D), dw (D)",
    .accumulates = 1u << 1,
};

const ft_op ft_op_layer_norm = {
    NORM_ROW(layer_norm, 3, layer_samples),
    .doc = "y = (x - mean) * rstd * w + b over the last axis; x (..., D), w (D), b (D) -> y, "
           "stats (..., 2)",
    .attrs = (const ft_attr_rule[]){{"eps", 1e-5, 0, 1, false, "added to the variance"}, {0}},
};

const ft_op ft_op_layer_norm_grad = {
    GRAD_ROW(layer_norm, 3, layer_grad_samples),
    .doc = "gradients of layer_norm; dy, x (..., D), w (D), stats (..., 2) -> dx, dw (D), db (D)",
    .accumulates = 1u << 1 | 1u << 2,
};
