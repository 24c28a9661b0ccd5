/* tensor/tensor.c - views that share storage.
 *
 * A handle counts its own references; a storage counts those of all its handles, and dies with the
 * last. */
#include "tensor/tensor.h"

#include <stdatomic.h>

#include "base/alloc.h"

enum { ALIGNMENT = 64 };

typedef struct storage {
    atomic_llong references;
    void (*release)(void *owner);
    void *owner;
} storage;

struct ft_tensor {
    ft_view view;
    storage *storage;
    atomic_llong references;
};

static ft_status no_memory(ft_error *err, const ft_spec *spec)
{
    char text[160];
    return ft_fail(err, FT_NOMEM, "no memory for a tensor of %s %s, %lld bytes",
                   ft_dtype_name(spec->dtype), ft_shape_format(&spec->shape, text, sizeof text),
                   (long long)ft_spec_bytes(spec));
}

/* A further handle on the storage, with one reference. */
static ft_status new_handle(ft_tensor **out, const ft_view *view, storage *s, ft_error *err)
{
    ft_spec spec = ft_view_spec(view);
    *out = ft_alloc(sizeof **out);
    if (!*out) return no_memory(err, &spec);
    (*out)->view = *view;
    (*out)->storage = s;
    atomic_store(&(*out)->references, 1);
    atomic_fetch_add(&s->references, 1);
    return FT_OK;
}

ft_status ft_tensor_wrap(ft_tensor **out, const ft_view *view, void (*release)(void *owner),
                         void *owner, ft_error *err)
{
    *out = NULL;
    ft_spec spec = ft_view_spec(view);
    FT_TRY(ft_spec_check(&spec, err));
    storage *s = ft_alloc(sizeof *s);
    if (!s) return no_memory(err, &spec);
    s->release = release;
    s->owner = owner;
    ft_status status = new_handle(out, view, s, err);
    if (status != FT_OK) ft_free(s);
    return status;
}

ft_status ft_tensor_new(ft_tensor **out, const ft_spec *spec, ft_error *err)
{
    *out = NULL;
    FT_TRY(ft_spec_check(spec, err));
    int64_t bytes = ft_spec_bytes(spec);
    char *block = bytes <= INT64_MAX - ALIGNMENT ? ft_alloc(bytes + ALIGNMENT) : NULL;
    if (!block) return no_memory(err, spec);
    ft_view view = ft_view_of(spec, block + ALIGNMENT - (uintptr_t)block % ALIGNMENT);
    ft_status status = ft_tensor_wrap(out, &view, ft_free, block, err);
    if (status != FT_OK) ft_free(block);
    return status;
}

ft_tensor *ft_tensor_retain(ft_tensor *tensor)
{
    atomic_fetch_add(&tensor->references, 1);
    atomic_fetch_add(&tensor->storage->references, 1);
    return tensor;
}

void ft_tensor_release(ft_tensor *tensor)
{
    if (!tensor) return;
    storage *s = tensor->storage;
    if (atomic_fetch_sub(&tensor->references, 1) == 1) ft_free(tensor);
    if (atomic_fetch_sub(&s->references, 1) > 1) return;
    if (s->release) s->release(s->owner);
    ft_free(s);
}

const ft_view *ft_tensor_view(const ft_tensor *tensor)
{
    return &tensor->view;
}

int64_t ft_tensor_references(const ft_tensor *tensor)
{
    return atomic_load(&tensor->storage->references);
}

/* -- other views of the same storage -------------------------------------------------------- */

static ft_status check_axis(const ft_tensor *t, const char *what, int axis, ft_error *err)
{
    char text[160];
    if (axis >= 0 && axis < t->view.shape.n_dims) return FT_OK;
    return ft_fail(err, FT_INVALID, "%s: no axis %d in shape %s", what, axis,
                   ft_shape_format(&t->view.shape, text, sizeof text));
}

static void *element_at(const ft_view *view, int axis, int64_t index)
{
    return (char *)view->data + index * view->strides[axis] * ft_dtype_bytes(view->dtype);
}

ft_status ft_tensor_narrow(ft_tensor **out, ft_tensor *t, int axis, int64_t start, int64_t length,
                           ft_error *err)
{
    *out = NULL;
    FT_TRY(check_axis(t, "narrow", axis, err));
    int64_t size = t->view.shape.dims[axis];
    if (start < 0 || length < 0 || start > size || length > size - start)
        return ft_fail(err, FT_INVALID,
                       "narrow: %lld elements from %lld do not lie in axis %d of %lld elements",
                       (long long)length, (long long)start, axis, (long long)size);
    ft_view view = t->view;
    view.shape.dims[axis] = length;
    if (length) view.data = element_at(&t->view, axis, start);
    return new_handle(out, &view, t->storage, err);
}

ft_status ft_tensor_select(ft_tensor **out, ft_tensor *t, int axis, int64_t index, ft_error *err)
{
    *out = NULL;
    FT_TRY(check_axis(t, "select", axis, err));
    if (index < 0 || index >= t->view.shape.dims[axis])
        return ft_fail(err, FT_INVALID, "select: no index %lld in axis %d of %lld elements",
                       (long long)index, axis, (long long)t->view.shape.dims[axis]);
    ft_view view = t->view;
    view.data = element_at(&t->view, axis, index);
    view.shape.n_dims--;
    for (int i = axis; i < view.shape.n_dims; i++) {
        view.shape.dims[i] = t->view.shape.dims[i + 1];
        view.strides[i] = t->view.strides[i + 1];
    }
    return new_handle(out, &view, t->storage, err);
}

ft_status ft_tensor_transpose(ft_tensor **out, ft_tensor *t, int axis, int other, ft_error *err)
{
    *out = NULL;
    FT_TRY(check_axis(t, "transpose", axis, err));
    FT_TRY(check_axis(t, "transpose", other, err));
    ft_view view = t->view;
    view.shape.dims[axis] = t->view.shape.dims[other];
    view.shape.dims[other] = t->view.shape.dims[axis];
    view.strides[axis] = t->view.strides[other];
    view.strides[other] = t->view.strides[axis];
    return new_handle(out, &view, t->storage, err);
}

ft_status ft_tensor_reshape(ft_tensor **out, ft_tensor *t, const ft_shape *shape, ft_error *err)
{
    *out = NULL;
    char from[160], to[160];
    ft_spec spec = {t->view.dtype, *shape};
    FT_TRY(ft_spec_check(&spec, err));
    ft_shape_format(&t->view.shape, from, sizeof from);
    if (ft_shape_count(shape) != ft_shape_count(&t->view.shape))
        return ft_fail(err, FT_SHAPE, "reshape: %s has %lld elements and %s has %lld", from,
                       (long long)ft_shape_count(&t->view.shape),
                       ft_shape_format(shape, to, sizeof to), (long long)ft_shape_count(shape));
    if (!ft_view_contiguous(&t->view))
        return ft_fail(err, FT_INVALID,
                       "reshape: %s is a view with gaps or swapped axes; copy it first", from);
    ft_view view = ft_view_of(&spec, t->view.data);
    return new_handle(out, &view, t->storage, err);
}

ft_status ft_tensor_copy(ft_tensor **out, const ft_tensor *t, ft_dtype dtype, ft_error *err)
{
    ft_spec spec = {dtype, t->view.shape};
    FT_TRY(ft_tensor_new(out, &spec, err));
    return ft_view_copy(&(*out)->view, &t->view, err); /* the shapes are equal: it cannot fail */
}
