/* io/elements.c - the elements of a tensor in a file, in row-major order.
 *
 * PyTorch stores a transposed tensor as its strides over the bytes of the other order, so that
 * weights which were converted from TensorFlow lie across their rows. Such a tensor is read whole
 * and gathered; any other one is read where its elements are. */
#include <string.h>

#include "base/alloc.h"
#include "io/internal.h"

ft_status ft_elements_open(ft_elements *out, const ft_item *item, int fd, int64_t data_start,
                           const char *path, ft_error *err)
{
    int64_t bytes = item->end - item->begin;
    *out = (ft_elements){.item = item,
                         .fd = fd,
                         .path = path,
                         .offset = data_start + item->begin,
                         .bytes = item->dtype->bits / 8};
    if (!item->strides) return FT_OK;
    out->all = ft_alloc(bytes);
    if (!out->all)
        return ft_fail(err, FT_NOMEM, "%s: no memory for %lld bytes", path, (long long)bytes);
    return ft_pread_all(fd, out->all, bytes, out->offset, path, err);
}

/* Copies n elements from element i on out of the bytes that are there. */
static void gather(const ft_elements *e, int64_t i, int64_t n, char *out)
{
    const ft_item *item = e->item;
    int64_t at[FT_MAX_DIMS] = {0}, place = 0, rest = i;
    for (int d = item->n_dims - 1; d >= 0; d--) {
        at[d] = rest % item->dims[d];
        rest /= item->dims[d];
        place += at[d] * item->strides[d];
    }
    for (; n > 0; n--, out += e->bytes) {
        memcpy(out, e->all + place * e->bytes, (size_t)e->bytes);
        for (int d = item->n_dims - 1; d >= 0; d--) {
            place += item->strides[d];
            if (++at[d] < item->dims[d]) break;
            place -= item->dims[d] * item->strides[d];
            at[d] = 0;
        }
    }
}

ft_status ft_elements_read(const ft_elements *e, int64_t i, int64_t n, void *out, ft_error *err)
{
    if (!e->all)
        return ft_pread_all(e->fd, out, n * e->bytes, e->offset + i * e->bytes, e->path, err);
    gather(e, i, n, out);
    return FT_OK;
}

void ft_elements_close(ft_elements *elements)
{
    ft_free(elements->all);
    elements->all = NULL;
}
