/* launch/optimizers.c - steps of optimizers, of several parameters in each launch, and predictions
 * of them (kernels/optimizers.cu). */
#include <math.h>
#include <string.h>

#include "launch/launch.h"

/* Parameters on their way into launches. */
typedef struct group {
    union {
        ft_cuda_blocks blocks; /* each begins with them */
        ft_adamw_args adamw;
        ft_sgd_args sgd;
        ft_adafactor_args adafactor;
    } args;
    double *scratch;
    int64_t used; /* numbers of it */
} group;

/* Drivers before CUDA 12.1 take no more. */
_Static_assert(sizeof(((group *)0)->args) <= 4096, "arguments of a kernel");

static void add_blocks(ft_cuda_blocks *b, int64_t blocks)
{
    b->first[b->n + 1] = b->first[b->n] + (uint32_t)blocks;
    b->n++;
}

static ft_status launch_blocks(ft_device_stream *stream, ft_cuda_kernel kernel, const group *g,
                               ft_error *err)
{
    const ft_grid grid = {g->args.blocks.first[g->args.blocks.n], 1, 1};
    return ft_cuda_launch(stream, kernel, grid, &g->args, err);
}

/* -- AdamW, SGD -------------------------------------------------------------------------------- */

static ft_numbers copy_of(const ft_update *u)
{
    return ft_cuda_numbers(u->copy, u->copy_dtype);
}

static bool put_adamw(group *g, const ft_update *u, const ft_state_part *parts)
{
    ft_adamw_args *a = &g->args.adamw;
    int64_t n = ft_shape_count(&u->spec->shape);
    a->of[a->blocks.n] = (ft_adamw_tensor){.p = u->param,
                                           .m = ft_cuda_part_of(u->state, &parts[0]),
                                           .v = ft_cuda_part_of(u->state, &parts[1]),
                                           .g = u->grad,
                                           .copy = copy_of(u),
                                           .n = n,
                                           .step = ft_adamw_step_of(u)};
    add_blocks(&a->blocks, ft_blocks_of(n, FT_CUDA_EACH));
    return true;
}

static ft_status launch_adamw(ft_device_stream *stream, group *g, ft_error *err)
{
    return launch_blocks(stream, FT_CUDA_adamw, g, err);
}

static bool put_sgd(group *g, const ft_update *u, const ft_state_part *parts)
{
    ft_sgd_args *a = &g->args.sgd;
    int64_t n = ft_shape_count(&u->spec->shape);
    a->of[a->blocks.n] = (ft_sgd_tensor){.p = u->param,
                                         .m = ft_cuda_part_of(u->state, &parts[0]),
                                         .g = u->grad,
                                         .copy = copy_of(u),
                                         .n = n,
                                         .step = ft_sgd_step_of(u)};
    add_blocks(&a->blocks, ft_blocks_of(n, FT_CUDA_EACH));
    return true;
}

static ft_status launch_sgd(ft_device_stream *stream, group *g, ft_error *err)
{
    return launch_blocks(stream, FT_CUDA_sgd, g, err);
}

/* -- Adafactor --------------------------------------------------------------------------------- */

/* Columns of a block that has one for each thread (measure, apply). */
enum { STRIP = 256 };

/* Blocks of matrices of which each has so many rows of a strip. */
static int64_t piece_blocks(const ft_adafactor_tensor *x, int64_t rows)
{
    return x->n * ft_blocks_of(x->C, STRIP) * ft_blocks_of(x->R, rows);
}

static int64_t row_blocks(const ft_adafactor_tensor *x)
{
    return ft_blocks_of(x->n * x->R, FT_CUDA_WARPS);
}

static int64_t column_blocks(const ft_adafactor_tensor *x)
{
    return x->R ? x->n * ft_blocks_of(x->C, FT_CUDA_COLUMNS) : 0;
}

static int64_t mean_blocks(const ft_adafactor_tensor *x)
{
    return x->R ? x->n : 0;
}

static int64_t part_blocks(const ft_adafactor_tensor *x)
{
    return x->n_parts;
}

static int64_t one_block(const ft_adafactor_tensor *x)
{
    (void)x;
    return 1;
}

static int64_t apply_blocks(const ft_adafactor_tensor *x)
{
    return x->R ? piece_blocks(x, FT_CUDA_ROWS) : ft_blocks_of(x->C, FT_CUDA_EACH);
}

/* How its squares are summed: FT_CUDA_LOOKS parts about. */
static void set_parts(ft_adafactor_tensor *x)
{
    if (!x->R) {
        x->per_part = ft_cuda_part_size(x->C);
        x->n_parts = ft_blocks_of(x->C, x->per_part);
        return;
    }
    int64_t down = FT_CUDA_LOOKS / (x->n * ft_blocks_of(x->C, STRIP));
    x->per_part = down > 1 ? ft_blocks_of(x->R, down) : x->R;
    if (x->per_part < FT_CUDA_ROWS) x->per_part = FT_CUDA_ROWS;
    x->n_parts = piece_blocks(x, x->per_part);
}

static ft_adafactor_tensor adafactor_tensor(const ft_update *u, const ft_state_part *parts)
{
    enum { EPS1, EPS2, CLIP, DECAY_RATE, WEIGHT_DECAY, SCALE_PARAMETER };
    const ft_shape *shape = &u->spec->shape;
    const double *h = u->hypers;
    ft_adafactor_tensor x = {.p = u->param,
                             .row = ft_cuda_part_of(u->state, &parts[0]),
                             .g = u->grad,
                             .copy = u->copy,
                             .n = 1,
                             .C = ft_shape_count(shape),
                             .beta = 1.0 - pow((double)u->step, -h[DECAY_RATE]),
                             .eps2 = h[EPS2],
                             .clip = h[CLIP],
                             .rate = u->rate,
                             .decay = h[WEIGHT_DECAY],
                             .eps1 = (float)h[EPS1],
                             .grad_scale = u->grad_scale,
                             .scale_parameter = h[SCALE_PARAMETER] != 0.0,
                             .copy_kept = (int32_t)copy_of(u).kept};
    if (shape->n_dims > 1) {
        x.col = ft_cuda_part_of(u->state, &parts[1]);
        x.R = shape->dims[shape->n_dims - 2];
        x.n = x.C / (x.R * shape->dims[shape->n_dims - 1]);
        x.C = shape->dims[shape->n_dims - 1];
    }
    set_parts(&x);
    return x;
}

static bool put_adafactor(group *g, const ft_update *u, const ft_state_part *parts)
{
    ft_adafactor_args *a = &g->args.adafactor;
    ft_adafactor_tensor x = adafactor_tensor(u, parts);
    int64_t needs = x.n + 2 * x.n_parts + 1;
    if (g->used + needs > FT_CUDA_SCRATCH / (int64_t)sizeof(double)) return false;
    x.means = g->scratch + g->used;
    x.parts = x.means + x.n;
    x.size = (float *)(x.parts + 2 * x.n_parts);
    g->used += needs;
    a->of[a->blocks.n++] = x;
    return true;
}

static ft_status launch_adafactor(ft_device_stream *stream, group *g, ft_error *err)
{
    static const struct {
        ft_cuda_kernel kernel;
        int64_t (*blocks)(const ft_adafactor_tensor *x);
    } launches[] = {
        {FT_CUDA_adafactor_rows, row_blocks},  {FT_CUDA_adafactor_columns, column_blocks},
        {FT_CUDA_adafactor_mean, mean_blocks}, {FT_CUDA_adafactor_measure, part_blocks},
        {FT_CUDA_adafactor_size, one_block},   {FT_CUDA_adafactor_apply, apply_blocks},
    };
    ft_adafactor_args *a = &g->args.adafactor;
    int n = a->blocks.n;
    for (size_t k = 0; k < sizeof launches / sizeof *launches; k++) {
        a->blocks.n = 0;
        for (int t = 0; t < n; t++) add_blocks(&a->blocks, launches[k].blocks(&a->of[t]));
        FT_TRY(launch_blocks(stream, launches[k].kernel, g, err));
    }
    return FT_OK;
}

/* -- predictions ------------------------------------------------------------------------------- */

static ft_status adamw_predict(ft_device_stream *stream, const ft_prediction *q,
                               const ft_state_part *parts, ft_error *err)
{
    ft_predict_args args = {.out = q->out,
                            .p = q->param,
                            .m = ft_cuda_part_of(q->state, &parts[0]),
                            .v = ft_cuda_part_of(q->state, &parts[1]),
                            .n = ft_shape_count(&q->spec->shape)};
    for (int k = 1; k <= q->n; k++, args.p = NULL) {
        const ft_adamw_step s = ft_adamw_step_ahead(q, k);
        args.keep = s.keep;
        args.size = s.size;
        args.root = s.root;
        args.eps = s.eps;
        FT_TRY(ft_cuda_launch(stream, FT_CUDA_predict, ft_each_grid(args.n), &args, err));
    }
    return FT_OK;
}

static ft_status sgd_predict(ft_device_stream *stream, const ft_prediction *q,
                             const ft_state_part *parts, ft_error *err)
{
    const ft_predict_args args = {.out = q->out,
                                  .p = q->param,
                                  .m = ft_cuda_part_of(q->state, &parts[0]),
                                  .n = ft_shape_count(&q->spec->shape),
                                  .keep = 1.0f,
                                  .size = ft_sgd_rate_ahead(q)};
    return ft_cuda_launch(stream, FT_CUDA_predict, ft_each_grid(args.n), &args, err);
}

/* The size of the parameter, by which its decay goes, is measured where its steps are. */
static ft_status adafactor_predict(ft_device_stream *stream, const ft_prediction *q,
                                   const ft_state_part *parts, ft_error *err)
{
    enum { EPS2 = 1, WEIGHT_DECAY = 4, SCALE_PARAMETER = 5 };
    const double *h = q->hypers;
    int64_t n = ft_shape_count(&q->spec->shape);
    (void)parts;
    ft_predict_args args = {.out = q->out, .p = q->param, .n = n, .keep = 1.0f, .eps2 = h[EPS2]};
    double keep = 1;
    if (h[SCALE_PARAMETER] != 0.0 && h[WEIGHT_DECAY] != 0.0 && n) {
        ft_look *found = (ft_look *)ft_cuda_scratch(stream) + FT_CUDA_LOOKS;
        FT_TRY(ft_cuda_look_at(stream, &(ft_looking){q->param, FT_F32, n, found}, 1, err));
        args.squares = &found->squares;
        for (int k = 0; k < q->n; k++) {
            args.keep = (float)(q->rates[k] * h[WEIGHT_DECAY]);
            FT_TRY(ft_cuda_launch(stream, FT_CUDA_predict, ft_each_grid(n), &args, err));
            args.p = NULL;
        }
        return FT_OK;
    }
    for (int k = 0; k < q->n; k++) keep *= 1.0 - q->rates[k] * h[WEIGHT_DECAY];
    args.keep = (float)keep;
    return ft_cuda_launch(stream, FT_CUDA_predict, ft_each_grid(n), &args, err);
}

/* -- all of them ------------------------------------------------------------------------------- */

typedef struct optimizer {
    const char *name;
    /* Adds a parameter; false: there is no room for it. */
    bool (*put)(group *g, const ft_update *u, const ft_state_part *parts);
    ft_status (*launch)(ft_device_stream *stream, group *g, ft_error *err);
    ft_status (*predict)(ft_device_stream *stream, const ft_prediction *q,
                         const ft_state_part *parts, ft_error *err);
} optimizer;

static const optimizer optimizers[] = {
    {"adamw", put_adamw, launch_adamw, adamw_predict},
    {"sgd", put_sgd, launch_sgd, sgd_predict},
    {"adafactor", put_adafactor, launch_adafactor, adafactor_predict},
};

static ft_status find(const optimizer **out, const ft_optimizer *o, ft_error *err)
{
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
        *out = &optimizers[i];
        if (strcmp(optimizers[i].name, o->name) == 0) return FT_OK;
    }
    return ft_fail(err, FT_UNSUPPORTED, "%s has no kernels for cards", o->name);
}

static ft_status launch_updates(ft_device_stream *stream, const ft_optimizer *o,
                                const ft_update *updates, int n, ft_error *err)
{
    const optimizer *row;
    ft_state_part parts[FT_MAX_STATE_PARTS];
    int64_t bytes;
    group g = {.scratch = ft_cuda_scratch(stream)};
    FT_TRY(find(&row, o, err));
    for (int i = 0; i < n; i++) {
        const ft_update *u = &updates[i];
        if (ft_shape_count(&u->spec->shape) == 0) continue;
        o->state(u->spec, u->hypers, parts, &bytes);
        if (g.args.blocks.n < FT_CUDA_TENSORS && row->put(&g, u, parts)) continue;
        FT_TRY(row->launch(stream, &g, err));
        g.args.blocks.n = 0;
        g.used = 0;
        if (!row->put(&g, u, parts))
            return ft_fail(err, FT_UNSUPPORTED, "%s: a parameter of more matrices than cards take",
                           o->name);
    }
    return row->launch(stream, &g, err);
}

ft_status ft_cuda_update(ft_device_stream *stream, const ft_optimizer *o, const ft_update *updates,
                         int n, ft_error *err)
{
    ft_cuda_begin_series(stream);
    return ft_cuda_end_series(stream, launch_updates(stream, o, updates, n, err), err);
}

ft_status ft_cuda_predict(ft_device_stream *stream, const ft_optimizer *o, const ft_prediction *q,
                          ft_error *err)
{
    const optimizer *row;
    ft_state_part parts[FT_MAX_STATE_PARTS];
    int64_t bytes;
    FT_TRY(find(&row, o, err));
    o->state(q->spec, q->hypers, parts, &bytes);
    return row->predict(stream, q, parts, err);
}
