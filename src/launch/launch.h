/* launch/launch.h - what kernels of cards are launched for: rows, sums, looks, optimizers. */
#ifndef FT_LAUNCH_H
#define FT_LAUNCH_H

#include "cuda/args.h"
#include "cuda/attention_args.h"
#include "cuda/given.h"
#include "cuda/optim_args.h"

/* The kernels of rows; for the list of kernels of a program (ops/ops.h). */
extern const ft_kernel_list ft_cuda_kernels;
/* Sums, looks and optimizers; for the list of steps of a program (optim/optim.h). */
extern const ft_step_kernels ft_cuda_steps;

/* Entries of ft_cuda_steps. */
ft_status ft_cuda_look_at(ft_device_stream *stream, const ft_looking *at, int n, ft_error *err);
ft_status ft_cuda_update(ft_device_stream *stream, const ft_optimizer *optimizer,
                         const ft_update *updates, int n, ft_error *err);
ft_status ft_cuda_predict(ft_device_stream *stream, const ft_optimizer *optimizer,
                          const ft_prediction *prediction, ft_error *err);

/* A part of an optimizer's state. */
static inline float *ft_cuda_part_of(const void *state, const ft_state_part *part)
{
    return (float *)(void *)((char *)(uintptr_t)state + part->offset);
}

/* Blocks of so many pieces for n of them. */
static inline int64_t ft_blocks_of(int64_t n, int64_t per_block)
{
    return (n + per_block - 1) / per_block;
}

/* Numbers of a part where n are summed: FT_CUDA_LOOKS parts at most. */
static inline int64_t ft_cuda_part_size(int64_t n)
{
    return (ft_blocks_of(n, (int64_t)FT_CUDA_LOOKS * FT_CUDA_EACH) + !n) * FT_CUDA_EACH;
}

/* A grid over elements, and one over rows with a warp each. */
static inline ft_grid ft_each_grid(int64_t n)
{
    return (ft_grid){ft_blocks_of(n, FT_CUDA_EACH), 1, 1};
}
static inline ft_grid ft_warp_grid(int64_t rows)
{
    return (ft_grid){ft_blocks_of(rows, FT_CUDA_WARPS), 1, 1};
}

#endif
