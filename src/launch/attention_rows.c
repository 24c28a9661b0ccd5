/* launch/attention_rows.c - attention and its gradient. */
#include "launch/rows.h"
#include "ops/attention.h"

enum { MASK = 3, TABLE = 4, POSITION = 5, GRAD_MASK = 6, GRAD_TABLE = 7, MAX_D = 256 };

/* Of what a call keeps in its workspace; from its start, in bytes. */
typedef struct layout {
    int64_t line, kept, delta, lines, bytes;
} layout;

static int64_t room(int64_t floats)
{
    return (floats * (int64_t)sizeof(float) + 255) / 256 * 256;
}

/* On tensor cores one kernel says what dropout keeps, a bit each, for those that multiply. */
static bool draws_first(const ft_attention *a)
{
    return a->threshold && a->rounding != FT_ATTENTION_F32;
}

static int64_t words_of(const ft_attention *a)
{
    return a->B * a->H * a->Tq * ft_blocks_of(a->Tk, 32);
}

static layout layout_of(const ft_attention *a, bool grad)
{
    int64_t strips = a->B * a->H * ft_blocks_of(a->Tq, FT_CUDA_TOGETHER);
    int64_t words = draws_first(a) ? words_of(a) : 0;
    layout at = {.kept = a->R ? room(a->H * (a->Tq + a->Tk - 1)) : 0};
    at.delta = at.kept + room(words);
    at.lines = at.delta + (grad ? room(2 * a->B * a->H * a->Tq) : 0);
    at.bytes = at.lines + (grad && a->R ? room(strips * (a->Tk + FT_CUDA_TOGETHER - 1)) : 0);
    return at;
}

static void *in_work(const ft_call *call, int64_t offset)
{
    return (char *)call->work + offset;
}

static ft_status check_width(const ft_attention *a, ft_error *err)
{
    if (a->D <= MAX_D) return FT_OK;
    return ft_fail(err, FT_UNSUPPORTED, "attention: heads of %lld numbers, a card has at most %d",
                   (long long)a->D, MAX_D);
}

/* Kernels of one way to multiply, and the queries or keys of their blocks. */
typedef struct way {
    ft_cuda_kernel forward, queries, keys;
    int64_t rows, grad_rows;
    bool exact; /* operands are not rounded */
} way;

#define ON_CORES(kind, sharers)                                                                    \
    {                                                                                              \
        FT_CUDA_attention_##kind, FT_CUDA_attention_queries_##kind, FT_CUDA_attention_keys_##kind, \
            FT_CUDA_WIDE, FT_CUDA_WIDE / (sharers), false                                          \
    }

/* In what the first n_in inputs and n_out outputs are all kept, but those that are absent or empty;
 * -1: not all in the same. */
static int64_t kept_in(const ft_call *call, int n_in, int n_out)
{
    int64_t kept = ft_cuda_in(call, 0).kept;
    for (int i = 0; i < n_in + n_out; i++) {
        const ft_view *x = i < n_in ? &call->in[i] : &call->out[i - n_in];
        bool there = x->data && ft_shape_count(&x->shape) > 0;
        if (there && ft_cuda_numbers(x->data, x->dtype).kept != kept) return -1;
    }
    return kept;
}

/* Whether what a head has can be counted in 32 bits, as kernels for tensor cores do. */
static bool is_countable(const ft_attention *a)
{
    int64_t most = (a->Tq > a->Tk ? a->Tq : a->Tk) + FT_CUDA_WIDE; /* rows that are looked for */
    return most * ft_attention_step(a) <= INT32_MAX && a->Tq * ft_blocks_of(a->Tk, 32) <= INT32_MAX;
}

/* Tensor cores, where the call asks for them and the card has them for such numbers, and rows are
 * all f32 or all as the cores read them. */
static way way_of(const ft_call *call, const ft_attention *a, int64_t kept)
{
    static const way ordinary = {FT_CUDA_attention,      FT_CUDA_attention_queries,
                                 FT_CUDA_attention_keys, FT_CUDA_TOGETHER,
                                 FT_CUDA_TOGETHER,       true};
    static const way cores[][2][2] = {
        [FT_ATTENTION_BF16] = {{ON_CORES(bf16_64, 1), ON_CORES(bf16_128, 1)},
                               {ON_CORES(kept_bf16_64, 1), ON_CORES(kept_bf16_128, 1)}},
        [FT_ATTENTION_F16] = {{ON_CORES(f16_64, 1)}, {ON_CORES(kept_f16_64, 1)}},
        [FT_ATTENTION_TF32] = {{ON_CORES(tf32_64, 1), ON_CORES(tf32_128, 2)}},
    };
    static const int64_t halves[] = {[FT_ATTENTION_BF16] = FT_CUDA_BF16,
                                     [FT_ATTENTION_F16] = FT_CUDA_F16,
                                     [FT_ATTENTION_TF32] = FT_CUDA_F32};
    const ft_device *device = call->stream->executor->device;
    const double rates[] = {[FT_ATTENTION_BF16] = device->bf16_flops_per_s,
                            [FT_ATTENTION_F16] = device->f16_flops_per_s,
                            [FT_ATTENTION_TF32] = device->tf32_flops_per_s};
    bool half = kept == halves[a->rounding] && kept != FT_CUDA_F32;
    if (rates[a->rounding] == 0 || (kept != FT_CUDA_F32 && !half)) return ordinary;
    if (!is_countable(a)) return ordinary;
    return cores[a->rounding][half][a->D > 64];
}

/* The way of a call of either row. */
static way forward_way(const ft_call *call, const ft_attention *a)
{
    return way_of(call, a, kept_in(call, 3, 1));
}

static way grad_way(const ft_call *call, const ft_attention *a)
{
    return way_of(call, a, kept_in(call, 4, 3));
}

/* Blocks over n queries or keys of each head, which have so many of them. */
static ft_grid over(const ft_attention *a, int64_t n, int64_t rows)
{
    return (ft_grid){a->B * a->H * ft_blocks_of(n, rows), 1, 1};
}

/* What both rows have: q is input `q`, mask and table follow each other. */
static ft_attention_args args_of(const ft_call *call, const ft_attention *a, int q, int mask)
{
    ft_attention_args args = {.q = ft_cuda_in(call, q),
                              .k = ft_cuda_in(call, q + 1),
                              .v = ft_cuda_in(call, q + 2),
                              .line = a->R ? in_work(call, 0) : NULL,
                              .mask = ft_ids(call, mask),
                              .B = a->B,
                              .Tq = a->Tq,
                              .Tk = a->Tk,
                              .H = a->H,
                              .D = a->D,
                              .step = ft_attention_step(a),
                              .scale = (float)a->scale,
                              .causal = a->causal,
                              .draw =
                                  ft_cuda_draw_of(&call->key, call->attrs[FT_ATTENTION_DROPOUT])};
    if (a->packed) {
        args.k = ft_cuda_from(args.q, a->H * a->D);
        args.v = ft_cuda_from(args.k, a->H * a->D);
    }
    return args;
}

static ft_status make_line(const ft_call *call, const ft_attention *a, const float *table,
                           const int32_t *position, ft_error *err)
{
    if (!a->R) return FT_OK;
    const ft_attention_line_args args = {.line = in_work(call, 0),
                                         .table = table,
                                         .position = position,
                                         .Tq = a->Tq,
                                         .Tk = a->Tk,
                                         .H = a->H,
                                         .R = a->R,
                                         .max_distance = a->max_distance,
                                         .bidirectional = a->bidirectional};
    return ft_cuda_launch(call->stream, FT_CUDA_attention_line,
                          ft_each_grid(a->H * (a->Tq + a->Tk - 1)), &args, err);
}

/* *of learns what dropout keeps, where the way is by tensor cores. */
static ft_status draw(const ft_call *call, const ft_attention *a, const way *by,
                      ft_attention_args *of, ft_error *err)
{
    if (by->exact || !draws_first(a)) return FT_OK;
    const ft_attention_dropout_args args = {.kept = in_work(call, layout_of(a, false).kept),
                                            .position = of->position,
                                            .B = a->B,
                                            .Tq = a->Tq,
                                            .Tk = a->Tk,
                                            .H = a->H,
                                            .causal = of->causal,
                                            .draw = of->draw};
    of->kept = args.kept;
    return ft_cuda_launch(
        call->stream, FT_CUDA_attention_dropout,
        (ft_grid){a->B * a->H * ft_blocks_of(a->Tk, 32), ft_blocks_of(a->Tq, 128), 1}, &args, err);
}

static ft_attention problem_of(const ft_view *q, const ft_view *k, const ft_view *table,
                               const double *attrs)
{
    return ft_attention_of(&q->shape, k->data ? &k->shape : NULL,
                           table->data ? &table->shape : NULL, attrs);
}

/* -- forward ----------------------------------------------------------------------------------- */

static ft_status attention_launch(const ft_call *call, ft_error *err)
{
    ft_attention a = problem_of(&call->in[0], &call->in[1], &call->in[TABLE], call->attrs);
    FT_TRY(check_width(&a, err));
    FT_TRY(make_line(call, &a, ft_in(call, TABLE), ft_ids(call, POSITION), err));
    ft_attention_args args = args_of(call, &a, 0, MASK);
    args.position = ft_ids(call, POSITION);
    args.y = ft_cuda_out(call, 0);
    args.lse = ft_out(call, 1);
    const way by = forward_way(call, &a);
    FT_TRY(draw(call, &a, &by, &args, err));
    return ft_cuda_launch(call->stream, by.forward, over(&a, a.Tq, by.rows), &args, err);
}

static const ft_shape *shape_if(const ft_spec *spec)
{
    return ft_present(spec) ? &spec->shape : NULL;
}

static int64_t attention_work(const ft_spec *in, const double *attrs)
{
    ft_attention a = ft_attention_of(&in[0].shape, shape_if(&in[1]), shape_if(&in[TABLE]), attrs);
    return layout_of(&a, false).bytes;
}

/* -- gradient ---------------------------------------------------------------------------------- */

static ft_status make_delta(const ft_call *call, const ft_attention *a, const ft_attention_args *of,
                            float *delta, ft_error *err)
{
    if (grad_way(call, a).exact) {
        const ft_attention_mean_args args = {.of = *of, .dy = ft_cuda_in(call, 0), .delta = delta};
        return ft_cuda_launch(call->stream, FT_CUDA_attention_mean,
                              over(a, a->Tq, FT_CUDA_TOGETHER), &args, err);
    }
    const ft_attention_delta_args args = {.dy = ft_cuda_in(call, 0),
                                          .y = ft_cuda_in(call, 4),
                                          .delta = delta,
                                          .B = a->B,
                                          .Tq = a->Tq,
                                          .H = a->H,
                                          .D = a->D,
                                          .lanes = a->D > 64   ? 16
                                                   : a->D > 32 ? 8
                                                               : 4};
    int64_t queries = a->B * a->H * a->Tq;
    return ft_cuda_launch(call->stream, FT_CUDA_attention_delta,
                          ft_warp_grid(ft_blocks_of(queries * args.lanes, 32)), &args, err);
}

static ft_status sum_lines(const ft_call *call, const ft_attention *a, const layout *at,
                           ft_error *err)
{
    const ft_attention_table_args args = {.dtable = ft_out(call, 3),
                                          .lines = in_work(call, at->lines),
                                          .B = a->B,
                                          .Tq = a->Tq,
                                          .Tk = a->Tk,
                                          .H = a->H,
                                          .R = a->R,
                                          .max_distance = a->max_distance,
                                          .bidirectional = a->bidirectional,
                                          .add = ft_adds(call, 3)};
    return ft_cuda_launch(call->stream, FT_CUDA_attention_table, (ft_grid){a->R * a->H, 1, 1},
                          &args, err);
}

static ft_status attention_grad_launch(const ft_call *call, ft_error *err)
{
    ft_attention a = problem_of(&call->in[1], &call->in[2], &call->in[GRAD_TABLE], call->attrs);
    layout at = layout_of(&a, true);
    int64_t inner = a.H * a.D;
    FT_TRY(check_width(&a, err));
    FT_TRY(make_line(call, &a, ft_in(call, GRAD_TABLE), NULL, err));
    ft_attention_args of = args_of(call, &a, 1, GRAD_MASK);
    of.lse = call->in[5].data;
    const way by = grad_way(call, &a);
    FT_TRY(draw(call, &a, &by, &of, err));
    FT_TRY(make_delta(call, &a, &of, in_work(call, at.delta), err));
    const ft_attention_queries_args queries = {.of = of,
                                               .dy = ft_cuda_in(call, 0),
                                               .dq = ft_cuda_out(call, 0),
                                               .delta = in_work(call, at.delta),
                                               .lines = a.R ? in_work(call, at.lines) : NULL};
    FT_TRY(ft_cuda_launch(call->stream, by.queries, over(&a, a.Tq, by.grad_rows), &queries, err));
    const ft_attention_keys_args keys = {
        .of = of,
        .dy = queries.dy,
        .dk = a.packed ? ft_cuda_from(queries.dq, inner) : ft_cuda_out(call, 1),
        .dv = a.packed ? ft_cuda_from(queries.dq, 2 * inner) : ft_cuda_out(call, 2),
        .delta = queries.delta};
    FT_TRY(ft_cuda_launch(call->stream, by.keys, over(&a, a.Tk, by.grad_rows), &keys, err));
    return a.R ? sum_lines(call, &a, &at, err) : FT_OK;
}

static int64_t attention_grad_work(const ft_spec *in, const double *attrs)
{
    ft_attention a =
        ft_attention_of(&in[1].shape, shape_if(&in[2]), shape_if(&in[GRAD_TABLE]), attrs);
    return layout_of(&a, true).bytes;
}

const ft_cuda_row ft_cuda_attention_rows[] = {
    {"attention", attention_launch, attention_work},
    {"attention_grad", attention_grad_launch, attention_grad_work},
    {NULL, NULL, NULL},
};
