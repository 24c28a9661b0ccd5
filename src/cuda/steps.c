/* cuda/steps.c - what a step does beside rows: sums, looks at what tensors hold, optimizers. */
#include <math.h>
#include <string.h>

#include "cuda/internal.h"

/* -- sums and looks ---------------------------------------------------------------------------- */

/* Of so many numbers, one of FT_CUDA_LOOKS parts at most. */
static int64_t part_size(int64_t n)
{
    int64_t per_part = ft_blocks_of(n, FT_CUDA_LOOKS);
    return per_part < FT_CUDA_EACH ? FT_CUDA_EACH : per_part;
}

static ft_status look(ft_device_stream *stream, const float *x, int64_t n, ft_look *out,
                      ft_error *err)
{
    int64_t per_part = part_size(n);
    const ft_look_parts_args parts = {ft_cuda_scratch(stream), x, n, per_part};
    _Static_assert(sizeof(ft_look) == sizeof(ft_cuda_look), "the kernels' own");
    const ft_look_args all = {(ft_cuda_look *)out, parts.parts, ft_blocks_of(n, per_part)};
    FT_TRY(ft_cuda_launch(stream, FT_CUDA_look_parts, (ft_grid){all.n_parts, 1, 1}, &parts, err));
    return ft_cuda_launch(stream, FT_CUDA_look, (ft_grid){1, 1, 1}, &all, err);
}

static ft_status sum(ft_device_stream *stream, const ft_summands *s, ft_error *err)
{
    ft_sum_terms_args args = {.n = s->count};
    /* more than one launch takes go on from the sum of those before, which is in x[0]: y may be a
     * term that comes later */
    for (int t = 0; t < s->n;) {
        args.n_terms = 0;
        if (t > 0) args.x[args.n_terms++] = s->x[0];
        while (t < s->n && args.n_terms < FT_CUDA_TERMS) args.x[args.n_terms++] = s->x[t++];
        args.y = t < s->n ? s->x[0] : s->y;
        FT_TRY(ft_cuda_launch(stream, FT_CUDA_sum_terms, ft_each_grid(s->count), &args, err));
    }
    return FT_OK;
}

/* -- optimizers -------------------------------------------------------------------------------- */

static float *part_of(const void *state, const ft_state_part *part)
{
    return (float *)(void *)((char *)(uintptr_t)state + part->offset);
}

static ft_status adamw_update(ft_device_stream *stream, const ft_update *u,
                              const ft_state_part *parts, ft_error *err)
{
    const ft_adamw_args args = {.p = u->param,
                                .m = part_of(u->state, &parts[0]),
                                .v = part_of(u->state, &parts[1]),
                                .g = u->grad,
                                .n = ft_shape_count(&u->spec->shape),
                                .step = ft_adamw_step_of(u)};
    return ft_cuda_launch(stream, FT_CUDA_adamw, ft_each_grid(args.n), &args, err);
}

static ft_status sgd_update(ft_device_stream *stream, const ft_update *u,
                            const ft_state_part *parts, ft_error *err)
{
    enum { MOMENTUM, WEIGHT_DECAY };
    const ft_sgd_args args = {.p = u->param,
                              .m = part_of(u->state, &parts[0]),
                              .g = u->grad,
                              .n = ft_shape_count(&u->spec->shape),
                              .grad_scale = u->grad_scale,
                              .momentum = (float)u->hypers[MOMENTUM],
                              .decay = (float)u->hypers[WEIGHT_DECAY],
                              .rate = (float)u->rate,
                              .ahead = (float)u->ahead};
    return ft_cuda_launch(stream, FT_CUDA_sgd, ft_each_grid(args.n), &args, err);
}

/* Where the numbers of a step of Adafactor lie in a stream's scratch, in f64. */
enum { SQUARES = 0, SIZE = 2 * FT_CUDA_LOOKS, MEANS = SIZE + 1, MOST_MATRICES = 4096 };

static ft_status adafactor_args_of(const ft_update *u, const ft_state_part *parts, double *scratch,
                                   ft_adafactor_args *out, ft_error *err)
{
    enum { EPS1, EPS2, CLIP, DECAY_RATE, WEIGHT_DECAY, SCALE_PARAMETER };
    const ft_shape *shape = &u->spec->shape;
    const double *h = u->hypers;
    int64_t n = ft_shape_count(shape), per_part = part_size(n);
    *out = (ft_adafactor_args){.p = u->param,
                               .g = u->grad,
                               .means = scratch + MEANS,
                               .parts = scratch + SQUARES,
                               .size = (float *)(scratch + SIZE),
                               .n = 1,
                               .C = n,
                               .n_parts = ft_blocks_of(n, per_part),
                               .per_part = per_part,
                               .beta = 1.0 - pow((double)u->step, -h[DECAY_RATE]),
                               .eps2 = h[EPS2],
                               .clip = h[CLIP],
                               .rate = u->rate,
                               .decay = h[WEIGHT_DECAY],
                               .eps1 = (float)h[EPS1],
                               .grad_scale = u->grad_scale,
                               .scale_parameter = h[SCALE_PARAMETER] != 0.0};
    if (shape->n_dims < 2) {
        out->v = part_of(u->state, &parts[0]);
        return FT_OK;
    }
    out->row = part_of(u->state, &parts[0]);
    out->col = part_of(u->state, &parts[1]);
    out->R = shape->dims[shape->n_dims - 2];
    out->C = shape->dims[shape->n_dims - 1];
    out->n = n / (out->R * out->C);
    if (out->n <= MOST_MATRICES) return FT_OK;
    return ft_fail(err, FT_UNSUPPORTED, "adafactor: a parameter of %lld matrices, cards take %d",
                   (long long)out->n, MOST_MATRICES);
}

static ft_status adafactor_update(ft_device_stream *stream, const ft_update *u,
                                  const ft_state_part *parts, ft_error *err)
{
    ft_adafactor_args a;
    int64_t n = ft_shape_count(&u->spec->shape);
    if (n == 0) return FT_OK;
    FT_TRY(adafactor_args_of(u, parts, ft_cuda_scratch(stream), &a, err));
    const ft_grid columns = {ft_blocks_of(a.C, FT_CUDA_COLUMNS), a.n, 1}, one = {1, 1, 1};
    if (a.R) {
        FT_TRY(ft_cuda_launch(stream, FT_CUDA_adafactor_rows, ft_warp_grid(a.n * a.R), &a, err));
        FT_TRY(ft_cuda_launch(stream, FT_CUDA_adafactor_columns, columns, &a, err));
        FT_TRY(ft_cuda_launch(stream, FT_CUDA_adafactor_mean, (ft_grid){a.n, 1, 1}, &a, err));
    }
    FT_TRY(ft_cuda_launch(stream, FT_CUDA_adafactor_measure, (ft_grid){a.n_parts, 1, 1}, &a, err));
    FT_TRY(ft_cuda_launch(stream, FT_CUDA_adafactor_size, one, &a, err));
    return ft_cuda_launch(stream, FT_CUDA_adafactor_apply, ft_each_grid(n), &a, err);
}

/* -- predictions ------------------------------------------------------------------------------- */

static ft_status adamw_predict(ft_device_stream *stream, const ft_prediction *q,
                               const ft_state_part *parts, ft_error *err)
{
    enum { BETA1, BETA2, EPS, WEIGHT_DECAY };
    const double *h = q->hypers;
    ft_predict_args args = {.out = q->out,
                            .p = q->param,
                            .m = part_of(q->state, &parts[0]),
                            .v = part_of(q->state, &parts[1]),
                            .n = ft_shape_count(&q->spec->shape),
                            .eps = (float)h[EPS]};
    for (int k = 1; k <= q->n; k++, args.p = NULL) {
        const double t = (double)(q->step + k), rate = q->rates[k - 1];
        args.keep = (float)(1.0 - rate * h[WEIGHT_DECAY]);
        args.size = (float)(rate * pow(h[BETA1], k) / (1.0 - pow(h[BETA1], t)));
        args.root = (float)(1.0 / sqrt(1.0 - pow(h[BETA2], t)));
        FT_TRY(ft_cuda_launch(stream, FT_CUDA_predict, ft_each_grid(args.n), &args, err));
    }
    return FT_OK;
}

static ft_status sgd_predict(ft_device_stream *stream, const ft_prediction *q,
                             const ft_state_part *parts, ft_error *err)
{
    double factor = 0, share = 1;
    for (int k = 0; k < q->n; k++) factor += q->rates[k] * (share *= q->hypers[0]);
    const ft_predict_args args = {.out = q->out,
                                  .p = q->param,
                                  .m = part_of(q->state, &parts[0]),
                                  .n = ft_shape_count(&q->spec->shape),
                                  .keep = 1.0f,
                                  .size = (float)factor};
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
        ft_cuda_look *found = (ft_cuda_look *)ft_cuda_scratch(stream) + FT_CUDA_LOOKS;
        FT_TRY(look(stream, q->param, n, (ft_look *)found, err));
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

/* -- gradients of older weights ---------------------------------------------------------------- */

static ft_status note_step(ft_device_stream *stream, const ft_gap *gap, const float *before,
                           double rate, ft_error *err)
{
    ft_state_part parts[2];
    int64_t bytes = 0;
    ft_gap_state(gap->spec, parts, &bytes);
    const ft_note_step_args args = {.mean = part_of(gap->state, &parts[0]),
                                    .scales = part_of(gap->state, &parts[1]),
                                    .p = gap->param,
                                    .before = before,
                                    .n = ft_shape_count(&gap->spec->shape),
                                    .rate = (float)rate};
    if (!(args.rate > 0.0f)) return FT_OK; /* nothing was moved */
    return ft_cuda_launch(stream, FT_CUDA_note_step, ft_each_grid(args.n), &args, err);
}

static ft_status attenuate(ft_device_stream *stream, const ft_gap *gap, const ft_attenuation *work,
                           ft_look *out, ft_error *err)
{
    ft_state_part parts[2];
    int64_t bytes = 0, n = ft_shape_count(&gap->spec->shape), per_part = part_size(n);
    ft_gap_state(gap->spec, parts, &bytes);
    const ft_attenuate_args args = {.parts = ft_cuda_scratch(stream),
                                    .g = work->grad,
                                    .p = gap->param,
                                    .old = work->old,
                                    .next = work->next,
                                    .mean = part_of(gap->state, &parts[0]),
                                    .scales = part_of(gap->state, &parts[1]),
                                    .n = n,
                                    .per_part = per_part};
    const ft_look_args all = {(ft_cuda_look *)out, args.parts, ft_blocks_of(n, per_part)};
    const ft_grid blocks = {all.n_parts, 1, 1}, one = {1, 1, 1};
    FT_TRY(ft_cuda_launch(stream, FT_CUDA_attenuate, blocks, &args, err));
    return ft_cuda_launch(stream, FT_CUDA_look, one, &all, err);
}

typedef struct optimizer {
    const char *name;
    ft_status (*update)(ft_device_stream *, const ft_update *, const ft_state_part *, ft_error *);
    ft_status (*predict)(ft_device_stream *, const ft_prediction *, const ft_state_part *,
                         ft_error *);
} optimizer;

static const optimizer optimizers[] = {
    {"adamw", adamw_update, adamw_predict},
    {"sgd", sgd_update, sgd_predict},
    {"adafactor", adafactor_update, adafactor_predict},
};

/* The row's kernels; parts gets those of a parameter's state. */
static ft_status find(const optimizer **out, const ft_optimizer *o, const ft_spec *spec,
                      const double *hypers, ft_state_part *parts, ft_error *err)
{
    int64_t bytes;
    for (unsigned i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
        if (strcmp(optimizers[i].name, o->name) != 0) continue;
        *out = &optimizers[i];
        o->state(spec, hypers, parts, &bytes);
        return FT_OK;
    }
    return ft_fail(err, FT_UNSUPPORTED, "%s has no kernels for cards", o->name);
}

static ft_status update(ft_device_stream *stream, const ft_optimizer *o, const ft_update *u,
                        ft_error *err)
{
    const optimizer *row;
    ft_state_part parts[FT_MAX_STATE_PARTS];
    FT_TRY(find(&row, o, u->spec, u->hypers, parts, err));
    return row->update(stream, u, parts, err);
}

static ft_status predict(ft_device_stream *stream, const ft_optimizer *o, const ft_prediction *q,
                         ft_error *err)
{
    const optimizer *row;
    ft_state_part parts[FT_MAX_STATE_PARTS];
    FT_TRY(find(&row, o, q->spec, q->hypers, parts, err));
    return row->predict(stream, q, parts, err);
}

const ft_step_kernels ft_cuda_steps = {FT_DEVICE_GPU, look,      sum,      update,
                                       predict,       note_step, attenuate};
