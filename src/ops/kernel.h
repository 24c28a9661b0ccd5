/* ops/kernel.h - what kernels of rows are written with, those of other kinds of devices too. */
#ifndef FT_OPS_KERNEL_H
#define FT_OPS_KERNEL_H

#include "ops/ops.h"
#include "ops/simd/simd.h"

/* -- specs (rules.c) --------------------------------------------------------------------------- */

/* Whether an optional input is there. */
static inline bool ft_present(const ft_spec *spec)
{
    return spec->shape.n_dims >= 0;
}

/* Size of axis -1, -2, ... counted from the end. */
static inline int64_t ft_dim_back(const ft_shape *shape, int back)
{
    return shape->dims[shape->n_dims + back];
}

/* Product of all dimensions but the last `n`: the rows of a matrix of vectors (n = 1). */
int64_t ft_rows_of(const ft_shape *shape, int n);

/* A shape without its last n dimensions, and its last n dimensions. */
ft_shape ft_shape_front(const ft_shape *shape, int n);
ft_shape ft_shape_back(const ft_shape *shape, int n);

ft_spec ft_spec_of(ft_dtype dtype, ft_shape shape);

/* x seen as (outer, n, inner), n along an axis; of axis -1 n is all of it. */
typedef struct ft_axes {
    int64_t outer, n, inner;
} ft_axes;

ft_axes ft_axes_of(const ft_shape *shape, int axis);

/* -- data -------------------------------------------------------------------------------------- */

/* Data of input or output i, as the kernel (f32) and the reference (f64) see it. */
static inline const float *ft_in(const ft_call *call, int i)
{
    return call->in[i].data;
}
static inline float *ft_out(const ft_call *call, int i)
{
    return call->out[i].data;
}
static inline const double *ft_in64(const ft_call *call, int i)
{
    return call->in[i].data;
}
static inline double *ft_out64(const ft_call *call, int i)
{
    return call->out[i].data;
}
static inline const int32_t *ft_ids(const ft_call *call, int i)
{
    return call->in[i].data;
}
static inline bool ft_adds(const ft_call *call, int out)
{
    return call->accumulate >> out & 1;
}

/* -- dropout (op_dropout.c) -------------------------------------------------------------------- */

uint32_t ft_dropout_threshold(double p); /* p * 65536, rounded */
float ft_dropout_scale(uint32_t threshold);
ft_dropout_draw ft_dropout_draw_of(const ft_rng_key *key, uint32_t sample, uint32_t threshold);

#endif
