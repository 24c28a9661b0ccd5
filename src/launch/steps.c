/* launch/steps.c - what a step does beside rows and optimizers: sums, looks at what tensors hold,
 * gradients of older weights. */
#include "launch/launch.h"

/* -- sums and looks ---------------------------------------------------------------------------- */

static ft_status launch_looks(ft_device_stream *stream, const ft_look_args *args, ft_error *err)
{
    const ft_grid parts = {args->blocks.first[args->blocks.n], 1, 1};
    FT_TRY(ft_cuda_launch(stream, FT_CUDA_look_parts, parts, args, err));
    return ft_cuda_launch(stream, FT_CUDA_look, (ft_grid){args->blocks.n, 1, 1}, args, err);
}

ft_status ft_cuda_look_at(ft_device_stream *stream, const ft_looking *at, int n, ft_error *err)
{
    ft_look_args args = {.parts = ft_cuda_scratch(stream)};
    ft_cuda_blocks *b = &args.blocks;
    _Static_assert(sizeof(ft_look) == sizeof(ft_cuda_look), "the kernels' own");
    _Static_assert(FT_CUDA_TENSORS * FT_CUDA_LOOKS * sizeof(ft_look) <= FT_CUDA_SCRATCH, "room");
    for (int i = 0; i < n;) {
        for (b->n = 0; i < n && b->n < FT_CUDA_TENSORS; i++) {
            int64_t per_part = ft_cuda_part_size(at[i].n);
            args.of[b->n] =
                (ft_look_tensor){(ft_cuda_look *)at[i].found, ft_cuda_numbers(at[i].x, at[i].dtype),
                                 at[i].n, per_part};
            b->first[b->n + 1] = b->first[b->n] + (uint32_t)ft_blocks_of(at[i].n, per_part);
            b->n++;
        }
        FT_TRY(launch_looks(stream, &args, err));
    }
    return FT_OK;
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

/* -- gradients of older weights ---------------------------------------------------------------- */

static ft_status note_step(ft_device_stream *stream, const ft_gap *gap, const float *before,
                           double rate, ft_error *err)
{
    ft_state_part parts[2];
    int64_t bytes = 0;
    ft_gap_state(gap->spec, parts, &bytes);
    const ft_note_step_args args = {.mean = ft_cuda_part_of(gap->state, &parts[0]),
                                    .scales = ft_cuda_part_of(gap->state, &parts[1]),
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
    int64_t bytes = 0, n = ft_shape_count(&gap->spec->shape), per_part = ft_cuda_part_size(n);
    ft_gap_state(gap->spec, parts, &bytes);
    const ft_attenuate_args args = {.parts = ft_cuda_scratch(stream),
                                    .g = work->grad,
                                    .p = gap->param,
                                    .old = work->old,
                                    .next = work->next,
                                    .mean = ft_cuda_part_of(gap->state, &parts[0]),
                                    .scales = ft_cuda_part_of(gap->state, &parts[1]),
                                    .n = n,
                                    .per_part = per_part};
    const ft_look_args all = {.blocks = {1, {0, (uint32_t)ft_blocks_of(n, per_part)}},
                              .parts = args.parts,
                              .of = {{.out = (ft_cuda_look *)out}}};
    const ft_grid blocks = {all.blocks.first[1], 1, 1}, one = {1, 1, 1};
    FT_TRY(ft_cuda_launch(stream, FT_CUDA_attenuate, blocks, &args, err));
    return ft_cuda_launch(stream, FT_CUDA_look, one, &all, err);
}

const ft_step_kernels ft_cuda_steps = {FT_DEVICE_GPU,   ft_cuda_look_at, sum,      ft_cuda_update,
                                       ft_cuda_predict, note_step,       attenuate};
