/* tensor/shape.c - dtypes by name, shapes, specs. */
#include "tensor/tensor.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* -- dtypes --------------------------------------------------------------------------------- */

static const char *const dtype_file_names[] = {
#define DTYPE_FILE_NAME(name, bytes, file) file,
    FT_DTYPE_LIST(DTYPE_FILE_NAME)
#undef DTYPE_FILE_NAME
};

static const int64_t dtype_bytes[] = {
#define DTYPE_BYTES(name, bytes, file) bytes,
    FT_DTYPE_LIST(DTYPE_BYTES)
#undef DTYPE_BYTES
};

int64_t ft_dtype_bytes(ft_dtype dtype)
{
    return dtype_bytes[dtype];
}

const char *ft_dtype_name(ft_dtype dtype)
{
    static const char *const names[] = {"f32", "f64", "f16", "bf16", "i32", "i64", "u8", "bool"};
    _Static_assert(sizeof names / sizeof *names == FT_DTYPE_COUNT, "a name for every dtype");
    return (unsigned)dtype < FT_DTYPE_COUNT ? names[dtype] : "unknown dtype";
}

const char *ft_dtype_file_name(ft_dtype dtype)
{
    return dtype_file_names[dtype];
}

bool ft_dtype_find(const char *name, ft_dtype *out)
{
    for (int i = 0; i < FT_DTYPE_COUNT; i++)
        if (!strcmp(name, dtype_file_names[i]) || !strcmp(name, ft_dtype_name((ft_dtype)i))) {
            *out = (ft_dtype)i;
            return true;
        }
    return false;
}

bool ft_dtype_is_float(ft_dtype dtype)
{
    return dtype == FT_F32 || dtype == FT_F64 || dtype == FT_F16 || dtype == FT_BF16;
}

/* -- shapes --------------------------------------------------------------------------------- */

ft_shape ft_shape_make(int n_dims, const int64_t *dims)
{
    assert(n_dims >= 0 && n_dims <= FT_MAX_DIMS);
    ft_shape shape = {.n_dims = n_dims};
    for (int i = 0; i < n_dims; i++) shape.dims[i] = dims[i];
    return shape;
}

bool ft_shape_equal(const ft_shape *a, const ft_shape *b)
{
    if (a->n_dims != b->n_dims) return false;
    for (int i = 0; i < a->n_dims; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return true;
}

int64_t ft_shape_count(const ft_shape *shape)
{
    int64_t count = 1;
    for (int i = 0; i < shape->n_dims; i++) count *= shape->dims[i];
    return count;
}

int64_t ft_shape_rows(const ft_shape *shape)
{
    return shape->n_dims > 1 ? shape->dims[0] : 1;
}

int64_t ft_shape_width(const ft_shape *shape)
{
    int64_t rows = ft_shape_rows(shape);
    return rows ? ft_shape_count(shape) / rows : 0;
}

char *ft_shape_format(const ft_shape *shape, char *text, int size)
{
    int used = snprintf(text, (size_t)size, "(");
    for (int i = 0; i < shape->n_dims && used < size; i++)
        used += snprintf(text + used, (size_t)(size - used), "%s%lld", i ? ", " : "",
                         (long long)shape->dims[i]);
    if (used < size) snprintf(text + used, (size_t)(size - used), ")");
    return text;
}

/* -- specs ---------------------------------------------------------------------------------- */

/* The product of the non-zero dimensions has to fit too, so that no partial product overflows. */
ft_status ft_spec_check(const ft_spec *spec, ft_error *err)
{
    const ft_shape *shape = &spec->shape;
    if ((unsigned)spec->dtype >= FT_DTYPE_COUNT)
        return ft_fail(err, FT_INVALID, "%d is not a dtype", (int)spec->dtype);
    if (shape->n_dims < 0 || shape->n_dims > FT_MAX_DIMS)
        return ft_fail(err, FT_SHAPE, "a shape has 0 to %d dimensions, not %d", FT_MAX_DIMS,
                       shape->n_dims);
    char text[160];
    int64_t bytes = dtype_bytes[spec->dtype];
    for (int i = 0; i < shape->n_dims; i++) {
        if (shape->dims[i] < 0)
            return ft_fail(err, FT_SHAPE, "shape %s has a negative dimension",
                           ft_shape_format(shape, text, sizeof text));
        if (shape->dims[i] && __builtin_mul_overflow(bytes, shape->dims[i], &bytes))
            return ft_fail(err, FT_SHAPE, "shape %s of %s is larger than any memory",
                           ft_shape_format(shape, text, sizeof text), ft_dtype_name(spec->dtype));
    }
    return FT_OK;
}

int64_t ft_spec_bytes(const ft_spec *spec)
{
    int64_t n = ft_shape_count(&spec->shape);
    if (spec->pitch) n = n / spec->shape.dims[spec->shape.n_dims - 1] * spec->pitch;
    return n * dtype_bytes[spec->dtype];
}

int64_t ft_spec_pitch(const ft_spec *spec)
{
    int n = spec->shape.n_dims;
    return spec->pitch ? spec->pitch : n > 0 ? spec->shape.dims[n - 1] : 1;
}
