/* ops/op_dropout.c - numbers dropped at random, alone and in the company they keep.
 *   x (B, ...)   ->   y (B, ...)
 *
 * Whether an element is kept is a function of the key, the sample it belongs to (axis 0 counts
 * samples) and its index inside the sample: not of the partition, the micro-batch or the team. No
 * mask is stored: the gradient draws again, or, behind a relu, sees in y what was kept.
 *
 * Draws: Philox4x32-10 with key {seed low ^ node * 0x9E3779B9, seed high ^ step} and counter
 * {block low, block high, sample, 0x44524F50} makes a block of 8 elements, 16 bits each: word j / 2
 * of the block for its element j, low half first. An element is dropped if its bits are below
 * p * 65536, rounded. What is kept is scaled by the inverse of the exact probability. */
#include "ops/internal.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum { DRAWS = 4096 }; /* elements of a piece, inside one sample */

typedef struct job {
    const ft_simd_random *simd;
    const ft_rng_key *key;
    float *y;
    const float *x, *residual;
    int64_t per_sample;
    int pieces_per_sample;
    uint32_t threshold;
    float scale;
    bool relu;
} job;

uint32_t ft_dropout_threshold(double p)
{
    return (uint32_t)floor(p * 65536.0 + 0.5);
}

float ft_dropout_scale(uint32_t threshold)
{
    return 65536.0f / (65536.0f - (float)threshold);
}

ft_dropout_draw ft_dropout_draw_of(const ft_rng_key *key, uint32_t sample, uint32_t threshold)
{
    return (ft_dropout_draw){.key = {(uint32_t)key->seed ^ key->node * 0x9E3779B9u,
                                     (uint32_t)(key->seed >> 32) ^ key->step},
                             .sample = sample,
                             .threshold = threshold};
}

bool ft_dropout_keeps(const ft_rng_key *key, uint32_t sample, uint64_t index, uint32_t threshold)
{
    ft_dropout_draw draw = ft_dropout_draw_of(key, sample, threshold);
    uint64_t block = index / 8;
    uint32_t out[4];
    ft_philox(draw.key,
              (const uint32_t[]){(uint32_t)block, (uint32_t)(block >> 32), sample, 0x44524F50u},
              out);
    int j = (int)(index % 8);
    return (out[j / 2] >> (16 * (j % 2)) & 0xffff) >= threshold;
}

/* -- shapes, costs ----------------------------------------------------------------------------- */

static ft_cost cost1(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    (void)attrs;
    return ft_cost_per_element(in, 1, out, 1, 6.0);
}

static ft_cost cost2(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    (void)attrs;
    return ft_cost_per_element(in, 2, out, 1, 6.0);
}

/* -- kernels ----------------------------------------------------------------------------------- */

static void draw_piece(void *arg, int piece)
{
    const job *j = arg;
    uint32_t sample = (uint32_t)(piece / j->pieces_per_sample);
    int64_t from = (int64_t)(piece % j->pieces_per_sample) * DRAWS;
    int64_t n = j->per_sample - from < DRAWS ? j->per_sample - from : DRAWS;
    uint64_t bits[DRAWS / 64];
    ft_dropout_draw draw = ft_dropout_draw_of(j->key, j->key->sample + sample, j->threshold);
    if (j->threshold)
        j->simd->keep_bits(bits, &draw, (uint64_t)from, n);
    else
        memset(bits, 0xff, sizeof bits);
    int64_t at = sample * j->per_sample + from;
    if (j->relu)
        j->simd->apply_relu(j->y + at, j->x + at, bits, j->scale, n);
    else
        j->simd->apply(j->y + at, j->x + at, j->residual ? j->residual + at : NULL, bits, j->scale,
                       n);
}

static ft_status run(const ft_call *call, const float *residual, bool relu)
{
    const ft_shape *shape = &call->in[0].shape;
    int64_t n = ft_shape_count(shape), samples = shape->n_dims ? shape->dims[0] : 1;
    if (n == 0) return FT_OK;
    job j = {.simd = ft_simd_get()->random,
             .key = &call->key,
             .y = ft_out(call, 0),
             .x = ft_in(call, 0),
             .residual = residual,
             .per_sample = n / samples,
             .pieces_per_sample = ft_pieces(n / samples, DRAWS),
             .threshold = ft_dropout_threshold(call->attrs[0]),
             .relu = relu};
    j.scale = ft_dropout_scale(j.threshold);
    ft_team_run(call->team, (int)samples * j.pieces_per_sample, draw_piece, &j);
    return FT_OK;
}

static ft_status dropout_kernel(const ft_call *call, ft_error *err)
{
    (void)err;
    return run(call, NULL, false);
}

static ft_status dropout_add_kernel(const ft_call *call, ft_error *err)
{
    (void)err;
    return run(call, ft_in(call, 1), false);
}

static ft_status relu_dropout_kernel(const ft_call *call, ft_error *err)
{
    (void)err;
    return run(call, NULL, true);
}

static void relu_grad_piece(void *arg, int piece)
{
    const job *j = arg; /* per_sample: all elements; residual: y of the forward row */
    int64_t from = (int64_t)piece * FT_PIECE;
    int64_t n = ft_piece_end(j->per_sample, FT_PIECE, piece) - from;
    j->simd->relu_grad(j->y + from, j->x + from, j->residual + from, j->scale, n);
}

static ft_status relu_dropout_grad_kernel(const ft_call *call, ft_error *err)
{
    (void)err;
    job j = {.simd = ft_simd_get()->random,
             .y = ft_out(call, 0),
             .x = ft_in(call, 0),
             .residual = ft_in(call, 1),
             .per_sample = ft_shape_count(&call->in[0].shape),
             .scale = ft_dropout_scale(ft_dropout_threshold(call->attrs[0]))};
    ft_team_run(call->team, ft_pieces(j.per_sample, FT_PIECE), relu_grad_piece, &j);
    return FT_OK;
}

/* -- references -------------------------------------------------------------------------------- */

/* 0 for element i of all if it is dropped, the scale if it is kept. */
static double factor(const ft_call *call, int64_t i)
{
    const ft_shape *shape = &call->in[0].shape;
    int64_t per_sample = ft_shape_count(shape) / (shape->n_dims ? shape->dims[0] : 1);
    uint32_t threshold = ft_dropout_threshold(call->attrs[0]);
    bool keeps = ft_dropout_keeps(&call->key, call->key.sample + (uint32_t)(i / per_sample),
                                  (uint64_t)(i % per_sample), threshold);
    return keeps ? 65536.0 / (65536.0 - threshold) : 0.0;
}

static ft_status dropout_judge(const ft_call *call, ft_error *err)
{
    (void)err;
    int64_t n = ft_shape_count(&call->in[0].shape);
    for (int64_t i = 0; i < n; i++) ft_out64(call, 0)[i] = factor(call, i) * ft_in64(call, 0)[i];
    return FT_OK;
}

static ft_status dropout_add_judge(const ft_call *call, ft_error *err)
{
    (void)err;
    int64_t n = ft_shape_count(&call->in[0].shape);
    for (int64_t i = 0; i < n; i++)
        ft_out64(call, 0)[i] = ft_in64(call, 1)[i] + factor(call, i) * ft_in64(call, 0)[i];
    return FT_OK;
}

static ft_status relu_dropout_judge(const ft_call *call, ft_error *err)
{
    (void)err;
    int64_t n = ft_shape_count(&call->in[0].shape);
    for (int64_t i = 0; i < n; i++)
        ft_out64(call, 0)[i] = factor(call, i) * fmax(ft_in64(call, 0)[i], 0.0);
    return FT_OK;
}

static ft_status relu_dropout_grad_judge(const ft_call *call, ft_error *err)
{
    (void)err;
    int64_t n = ft_shape_count(&call->in[0].shape);
    double scale = 65536.0 / (65536.0 - ft_dropout_threshold(call->attrs[0]));
    for (int64_t i = 0; i < n; i++)
        ft_out64(call, 0)[i] = ft_in64(call, 1)[i] > 0.0 ? scale * ft_in64(call, 0)[i] : 0.0;
    return FT_OK;
}

/* -- gradient rules ---------------------------------------------------------------------------- */

static ft_value_id drawn_again(ft_builder *b, const ft_grad_site *site)
{
    if (ft_dropout_threshold(site->attrs[0]) == 0) return site->dout[0];
    return ft_add1(b, &ft_op_dropout_grad, site->dout[0], site->attrs);
}

static void dropout_rule(ft_builder *b, const ft_grad_site *site)
{
    if (site->wanted[0]) site->din[0] = drawn_again(b, site);
}

static void dropout_add_rule(ft_builder *b, const ft_grad_site *site)
{
    if (site->wanted[0]) site->din[0] = drawn_again(b, site);
    if (site->wanted[1]) site->din[1] = site->dout[0];
}

static void relu_dropout_rule(ft_builder *b, const ft_grad_site *site)
{
    if (site->wanted[0])
        site->din[0] =
            ft_add2(b, &ft_op_relu_dropout_grad, site->dout[0], site->out[0], site->attrs);
}

/* -- the rows ---------------------------------------------------------------------------------- */

static const ft_attr_rule attr_rules[] = {
    {"p", 0.1, 0, 0.99, false, "probability that a number is dropped"},
    {0},
};

static const ft_sample samples[] = {
    {.in = {{FT_F32, {3, {3, 7, 33}}}, {FT_F32, {3, {3, 7, 33}}}},
     .attrs = {0.1},
     .tolerance = 2e-7},
    {.in = {{FT_F32, {1, {7}}}, {FT_F32, {1, {7}}}}, .attrs = {0.5}, .tolerance = 2e-7},
    {.in = {{FT_F32, {3, {2, 11, 1000}}}, {FT_F32, {3, {2, 11, 1000}}}},
     .attrs = {0.3},
     .tolerance = 2e-7},
    {.in = {{FT_F32, {2, {5, 33}}}, {FT_F32, {2, {5, 33}}}}, .attrs = {0}, .tolerance = 2e-7},
    {.in = {{FT_F32, {0, {0}}}, {FT_F32, {0, {0}}}}, .attrs = {0.2}, .tolerance = 2e-7},
    {.in = {{FT_F32, {2, {0, 5}}}, {FT_F32, {2, {0, 5}}}}, .attrs = {0.1}},
};

#define DROPOUT(inputs, row_shape, row_cost)                                                       \
    .min_in = inputs, .n_in = inputs, .n_out = 1, .half_in = (1u << (inputs)) - 1, .half_out = 1u, \
    .shape = row_shape, .cost = row_cost, .attrs = attr_rules, .samples = samples,                 \
    .n_samples = sizeof samples / sizeof *samples

const ft_op ft_op_dropout = {DROPOUT(1, ft_shape_same1, cost1),
                             .name = "dropout",
                             .doc = "y = x / (1 - p) where kept, else 0; axis 0 counts samples",
                             .grad = dropout_rule,
                             .kernel = dropout_kernel,
                             .reference = dropout_judge,
                             .random = true};
const ft_op ft_op_dropout_grad = {DROPOUT(1, ft_shape_same1, cost1),
                                  .name = "dropout_grad",
                                  .doc = "dx = dy / (1 - p) where dropout kept x, else 0; same key",
                                  .kernel = dropout_kernel,
                                  .reference = dropout_judge,
                                  .random = true};
const ft_op ft_op_dropout_add = {DROPOUT(2, ft_shape_same2, cost2),
                                 .name = "dropout_add",
                                 .doc = "y = residual + dropout(x); (x, residual)",
                                 .grad = dropout_add_rule,
                                 .kernel = dropout_add_kernel,
                                 .reference = dropout_add_judge,
                                 .random = true};
const ft_op ft_op_relu_dropout = {DROPOUT(1, ft_shape_same1, cost1),
                                  .name = "relu_dropout",
                                  .doc = "y = dropout(max(x, 0))",
                                  .grad = relu_dropout_rule,
                                  .kernel = relu_dropout_kernel,
                                  .reference = relu_dropout_judge,
                                  .random = true};
const ft_op ft_op_relu_dropout_grad = {
    DROPOUT(2, ft_shape_same2, cost2), .name = "relu_dropout_grad",
    .doc = "dx = dy / (1 - p) where y > 0, else 0; (dy, y)", .kernel = relu_dropout_grad_kernel,
    .reference = relu_dropout_grad_judge};
