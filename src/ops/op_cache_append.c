/* ops/op_cache_append.c - new positions into the key/value cache of a decoder.
 *   cache (B,T,I)   new (B,t,I)   position i32 (1)   ->   cache' (B,T,I)
 * cache' is cache with its rows position ... position + t - 1 of each sample replaced by new. The
 * output may be the same memory as cache: then only those rows are written. */
#include "ops/internal.h"

#include <string.h>

static ft_status append_shape(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err)
{
    (void)attrs;
    FT_TRY(ft_need_dtype("cache_append", "cache", &in[0], FT_F32, err));
    FT_TRY(ft_need_dtype("cache_append", "new", &in[1], FT_F32, err));
    FT_TRY(ft_need_dtype("cache_append", "position", &in[2], FT_I32, err));
    const ft_shape *cache = &in[0].shape, *added = &in[1].shape;
    if (cache->n_dims != 3)
        return ft_shape_fail(err, "cache_append", "cache", &in[0], "(samples, positions, width)");
    if (added->n_dims != 3 || added->dims[0] != cache->dims[0] ||
        added->dims[2] != cache->dims[2] || added->dims[1] > cache->dims[1])
        return ft_shape_fail(err, "cache_append", "new", &in[1],
                             "the cache's shape with at most as many positions");
    ft_shape one = ft_shape_of(1);
    FT_TRY(ft_need_shape("cache_append", "position", &in[2], &one, err));
    out[0] = in[0];
    return FT_OK;
}

static ft_cost append_cost(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    (void)attrs;
    return ft_cost_per_element(in, 3, out, 1, 0.0);
}

/* Both the kernel and the reference: a copy of elements of `size` bytes. */
static ft_status append(const ft_call *call, int64_t size, ft_error *err)
{
    const ft_shape *cache = &call->in[0].shape;
    int64_t B = cache->dims[0], T = cache->dims[1], row = cache->dims[2] * size;
    int64_t t = call->in[1].shape.dims[1], position = ft_ids(call, 2)[0];
    if (position < 0 || position + t > T)
        return ft_fail(err, FT_INVALID,
                       "cache_append: %lld positions from %lld on do not fit into "
                       "a cache of %lld",
                       (long long)t, (long long)position, (long long)T);
    char *out = call->out[0].data;
    const char *added = call->in[1].data;
    if (out != call->in[0].data && B * T * row > 0)
        memcpy(out, call->in[0].data, (size_t)(B * T * row));
    for (int64_t b = 0; b < B && t * row > 0; b++)
        memcpy(out + (b * T + position) * row, added + b * t * row, (size_t)(t * row));
    return FT_OK;
}

static ft_status append_kernel(const ft_call *call, ft_error *err)
{
    return append(call, 4, err);
}

static ft_status append_reference(const ft_call *call, ft_error *err)
{
    return append(call, 8, err);
}

static const ft_sample append_samples[] = {
    {.in = {FT_F32_OF(3, 2, 7, 5), FT_F32_OF(3, 2, 2, 5), FT_I32_OF(1, 1)},
     .tolerance = 0,
     .id_limit = 6},
    {.in = {FT_F32_OF(3, 1, 1, 3), FT_F32_OF(3, 1, 1, 3), FT_I32_OF(1, 1)},
     .tolerance = 0,
     .id_limit = 1},
};

const ft_op ft_op_cache_append = {
    .name = "cache_append",
    .doc = "cache' (B,T,I) = cache with its rows from position on replaced by new (B,t,I)",
    .min_in = 3,
    .n_in = 3,
    .n_out = 1,
    .shape = append_shape,
    .cost = append_cost,
    .kernel = append_kernel,
    .reference = append_reference,
    .samples = append_samples,
    .n_samples = sizeof append_samples / sizeof *append_samples,
};
