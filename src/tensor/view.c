/* tensor/view.c - reading, writing and copying through strides. */
#include "tensor/internal.h"

#include <string.h>

ft_view ft_view_of(const ft_spec *spec, void *data)
{
    ft_view view = {.dtype = spec->dtype, .shape = spec->shape, .data = data};
    int64_t stride = 1;
    for (int i = spec->shape.n_dims - 1; i >= 0; i--) {
        view.strides[i] = stride;
        stride *= stride == 1 && spec->pitch ? spec->pitch : spec->shape.dims[i];
    }
    return view;
}

ft_spec ft_view_spec(const ft_view *view)
{
    return (ft_spec){.dtype = view->dtype, .shape = view->shape};
}

ft_spec ft_view_layout(const ft_view *view)
{
    ft_spec spec = ft_view_spec(view);
    int n = view->shape.n_dims;
    if (n > 1 && view->strides[n - 2] != view->shape.dims[n - 1]) spec.pitch = view->strides[n - 2];
    return spec;
}

/* The stride of an axis of one element does not matter, and nothing matters when there are none. */
bool ft_view_contiguous(const ft_view *view)
{
    if (ft_shape_count(&view->shape) == 0) return true;
    int64_t stride = 1;
    for (int i = view->shape.n_dims - 1; i >= 0; i--) {
        int64_t length = view->shape.dims[i];
        if (length > 1 && view->strides[i] != stride) return false;
        stride *= length;
    }
    return true;
}

char *ft_view_address(const ft_view *view, int64_t index)
{
    int64_t offset = 0;
    for (int i = view->shape.n_dims - 1; i >= 0; i--) {
        offset += index % view->shape.dims[i] * view->strides[i];
        index /= view->shape.dims[i];
    }
    return (char *)view->data + offset * ft_dtype_bytes(view->dtype);
}

/* Strides are never negative: the last element is the farthest one. */
static const char *end_of(const ft_view *view, int64_t count)
{
    return ft_view_address(view, count - 1) + ft_dtype_bytes(view->dtype);
}

bool ft_view_overlaps(const ft_view *a, const ft_view *b)
{
    int64_t n_a = ft_shape_count(&a->shape), n_b = ft_shape_count(&b->shape);
    return n_a > 0 && n_b > 0 && (const char *)a->data < end_of(b, n_b) &&
           (const char *)b->data < end_of(a, n_a);
}

double ft_view_get(const ft_view *view, int64_t index)
{
    double value;
    ft_convert(&value, FT_F64, ft_view_address(view, index), view->dtype, 1);
    return value;
}

void ft_view_set(const ft_view *view, int64_t index, double value)
{
    ft_convert(ft_view_address(view, index), view->dtype, &value, FT_F64, 1);
}

/* -- copying -------------------------------------------------------------------------------- */

enum { CHUNK = 256 };

/* n elements of `bytes` each between places `step` bytes apart and a dense buffer. */
static void gather(char *dense, const char *from, int64_t step, int64_t bytes, int64_t n)
{
    for (int64_t i = 0; i < n; i++) memcpy(dense + i * bytes, from + i * step, (size_t)bytes);
}

static void scatter(char *to, int64_t step, const char *dense, int64_t bytes, int64_t n)
{
    for (int64_t i = 0; i < n; i++) memcpy(to + i * step, dense + i * bytes, (size_t)bytes);
}

/* One row of n elements, steps in elements; rows that are dense on both sides convert at once. */
static void copy_row(const ft_view *dst, char *to, int64_t to_step, const ft_view *src, char *from,
                     int64_t from_step, int64_t n)
{
    if (to_step == 1 && from_step == 1) {
        ft_convert(to, dst->dtype, from, src->dtype, n);
        return;
    }
    int64_t to_bytes = ft_dtype_bytes(dst->dtype), from_bytes = ft_dtype_bytes(src->dtype);
    _Alignas(8) char in[CHUNK * 8], out[CHUNK * 8];
    for (int64_t done = 0; done < n; done += CHUNK) {
        int64_t count = n - done < CHUNK ? n - done : CHUNK;
        gather(in, from + done * from_step * from_bytes, from_step * from_bytes, from_bytes, count);
        ft_convert(out, dst->dtype, in, src->dtype, count);
        scatter(to + done * to_step * to_bytes, to_step * to_bytes, out, to_bytes, count);
    }
}

ft_status ft_view_copy(const ft_view *dst, const ft_view *src, ft_error *err)
{
    if (!ft_shape_equal(&dst->shape, &src->shape)) {
        char to[160], from[160];
        return ft_fail(err, FT_SHAPE, "cannot copy shape %s into shape %s",
                       ft_shape_format(&src->shape, from, sizeof from),
                       ft_shape_format(&dst->shape, to, sizeof to));
    }
    int64_t count = ft_shape_count(&src->shape);
    if (count == 0) return FT_OK;
    int last = src->shape.n_dims - 1;
    if (ft_view_contiguous(dst) && ft_view_contiguous(src)) {
        ft_convert(dst->data, dst->dtype, src->data, src->dtype, count);
        return FT_OK;
    }
    int64_t row = src->shape.dims[last]; /* a scalar is contiguous: last >= 0 here */
    for (int64_t i = 0; i < count; i += row)
        copy_row(dst, ft_view_address(dst, i), dst->strides[last], src, ft_view_address(src, i),
                 src->strides[last], row);
    return FT_OK;
}
