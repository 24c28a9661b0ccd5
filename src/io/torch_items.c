/* io/torch_items.c - the tensors of a state dict as items of a file. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/torch.h"

uint64_t ft_little(const char *bytes, int n)
{
    uint64_t number = 0;
    for (int i = n - 1; i >= 0; i--) number = number << 8 | (unsigned char)bytes[i];
    return number;
}

/* Elements from the first of a tensor to its last; false when they are too many to count. */
static bool find_span(const ft_pickled *tensor, int64_t *out)
{
    int64_t span = 1, along;
    for (int i = 0; i < tensor->n_dims; i++) {
        if (tensor->dims[i] == 0) {
            *out = 0;
            return true;
        }
        if (!ft_size_mul(tensor->dims[i] - 1, tensor->strides[i], &along) ||
            along > INT64_MAX - span)
            return false;
        span += along;
    }
    *out = span;
    return true;
}

/* Whether elements lie one behind the other; axes of one element may have any stride. */
static bool is_contiguous(const ft_pickled *tensor, int64_t count)
{
    int64_t expected = 1;
    for (int i = tensor->n_dims - 1; i >= 0 && count > 0; i--) {
        if (tensor->dims[i] != 1 && tensor->strides[i] != expected) return false;
        expected *= tensor->dims[i];
    }
    return true;
}

/* The item of a tensor whose storage is there. */
static ft_status make_item(const ft_pickled *tensor, const ft_range *storage, ft_item *item,
                           const char *path, ft_error *err)
{
    int64_t bytes = tensor->dtype->bits / 8, span = 0, size = 0, all = 0, first = 0;
    *item = (ft_item){.name = tensor->name, .dtype = tensor->dtype, .n_dims = tensor->n_dims};
    item->count = 1;
    bool fits = find_span(tensor, &span);
    for (int i = 0; i < tensor->n_dims; i++) {
        item->dims[i] = tensor->dims[i];
        fits = fits && ft_size_mul(item->count, tensor->dims[i], &item->count);
    }
    /* One that repeats its elements is no weight: such a one could be larger than any file. */
    fits = fits && ft_size_mul(item->count, bytes, &all) && all <= storage->size &&
           ft_size_mul(span, bytes, &size) && ft_size_mul(tensor->offset, bytes, &first) &&
           size <= storage->size && first <= storage->size - size;
    if (!fits)
        return ft_fail(err, FT_FORMAT, "%s: tensor '%s' reaches past its storage of %lld bytes",
                       path, ft_show(tensor->name).text, (long long)storage->size);
    item->begin = storage->begin + first;
    item->end = item->begin + size;
    if (!is_contiguous(tensor, item->count)) item->strides = tensor->strides;
    return FT_OK;
}

static int compare_names(const void *a, const void *b)
{
    const ft_item *x = a, *y = b;
    return strcmp(x->name, y->name);
}

ft_status ft_torch_items(ft_header *out, const ft_torch_file *file, const ft_pickled *tensors,
                         int n, ft_error *err)
{
    ft_range storage;
    const char *path = file->path;
    FT_TRY(ft_tensors_check(n, path, err));
    out->items = ft_arena_array(file->arena, n + 1, sizeof(ft_item));
    if (!out->items) return ft_fail(err, FT_NOMEM, "%s: no memory for its tensors", path);
    for (; out->n < n; out->n++) {
        FT_TRY(file->find(file->storages, tensors[out->n].storage, &storage, err));
        FT_TRY(make_item(&tensors[out->n], &storage, &out->items[out->n], path, err));
    }
    qsort(out->items, (size_t)n, sizeof(ft_item), compare_names);
    for (int i = 1; i < n; i++)
        if (strcmp(out->items[i - 1].name, out->items[i].name) == 0)
            return ft_fail(err, FT_FORMAT, "%s: two tensors are named '%s'", path,
                           ft_show(out->items[i].name).text);
    return FT_OK;
}
