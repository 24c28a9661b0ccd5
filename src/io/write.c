/* io/write.c - tensors into a safetensors file.
 *
 * Wide dtypes come first, so that every tensor is aligned to its element size: the data begins at a
 * multiple of 8. Names are compared by bytes, so the file depends on nothing but its tensors. */
#include "io/io.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "base/utf8.h"
#include "io/internal.h"

/* What is left instead of the bytes of tensors: by tensor, where they belong. */
typedef struct room {
    const ft_named_view *tensors;
    int64_t *at;
} room;

static int compare_for_disk(const void *a, const void *b)
{
    const ft_named_view *x = *(const ft_named_view *const *)a;
    const ft_named_view *y = *(const ft_named_view *const *)b;
    int64_t wide = ft_dtype_bytes(y->view.dtype) - ft_dtype_bytes(x->view.dtype);
    return wide ? (wide > 0 ? 1 : -1) : strcmp(x->name, y->name);
}

static int compare_names(const void *a, const void *b)
{
    const ft_named_view *x = *(const ft_named_view *const *)a;
    const ft_named_view *y = *(const ft_named_view *const *)b;
    return strcmp(x->name, y->name);
}

static ft_status check_tensor(const ft_named_view *tensor, const char *path, ft_error *err)
{
    ft_shown name = ft_show(tensor->name);
    if (strcmp(tensor->name, "__metadata__") == 0)
        return ft_fail(err, FT_INVALID, "%s: a tensor cannot be named __metadata__", path);
    if (ft_utf8_check(tensor->name, (int64_t)strlen(tensor->name)) >= 0)
        return ft_fail(err, FT_INVALID, "%s: tensor name '%s' is not UTF-8", path, name.text);
    if (!ft_view_contiguous(&tensor->view))
        return ft_fail(err, FT_INVALID, "%s: tensor '%s' is not contiguous", path, name.text);
    ft_spec spec = ft_view_spec(&tensor->view);
    FT_TRY(ft_spec_check(&spec, err));
    return FT_OK;
}

/* Checks each tensor and that no two share a name; leaves `order` sorted for the disk. */
static ft_status check_all(const ft_named_view **order, int n, const char *path, ft_error *err)
{
    for (int i = 0; i < n; i++) FT_TRY(check_tensor(order[i], path, err));
    qsort(order, (size_t)n, sizeof *order, compare_names);
    for (int i = 1; i < n; i++)
        if (strcmp(order[i - 1]->name, order[i]->name) == 0)
            return ft_fail(err, FT_INVALID, "%s: two tensors are named '%s'", path,
                           ft_show(order[i]->name).text);
    qsort(order, (size_t)n, sizeof *order, compare_for_disk);
    return FT_OK;
}

/* Appends a string as JSON. */
static void add_string(ft_text *text, const char *string)
{
    ft_text_add(text, "\"");
    for (const char *p = string; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\')
            ft_text_add(text, "\\%c", c);
        else if (c < 0x20)
            ft_text_add(text, "\\u%04x", c);
        else
            ft_text_add(text, "%c", c);
    }
    ft_text_add(text, "\"");
}

static void add_tensor(ft_text *text, const ft_named_view *tensor, int64_t begin, int64_t end)
{
    const ft_shape *shape = &tensor->view.shape;
    add_string(text, tensor->name);
    ft_text_add(text, ":{\"dtype\":\"%s\",\"shape\":[", ft_dtype_file_name(tensor->view.dtype));
    for (int i = 0; i < shape->n_dims; i++)
        ft_text_add(text, "%s%lld", i ? "," : "", (long long)shape->dims[i]);
    ft_text_add(text, "],\"data_offsets\":[%lld,%lld]}", (long long)begin, (long long)end);
}

static int64_t tensor_bytes(const ft_named_view *tensor)
{
    ft_spec spec = ft_view_spec(&tensor->view);
    return ft_spec_bytes(&spec);
}

/* The header's JSON, padded so that 8 + its length is a multiple of 8. */
static ft_status make_header(ft_text *text, const ft_named_view *const *order, int n,
                             const char *path, ft_error *err)
{
    int64_t position = 0;
    ft_text_add(text, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (int i = 0; i < n; i++) {
        int64_t end;
        if (__builtin_add_overflow(position, tensor_bytes(order[i]), &end))
            return ft_fail(err, FT_INVALID, "%s: tensors have more than 2^63 bytes", path);
        ft_text_add(text, ",");
        add_tensor(text, order[i], position, end);
        position = end;
    }
    ft_text_add(text, "}");
    while (!text->failed && text->length % 8 != 0) ft_text_add(text, " ");
    if (text->failed) return ft_fail(err, FT_NOMEM, "%s: no memory for its header", path);
    return FT_OK;
}

static ft_status add_tensors(ft_writer *writer, const ft_named_view *const *order, int n,
                             ft_error *err)
{
    for (int i = 0; i < n; i++)
        FT_TRY(ft_writer_add(writer, order[i]->view.data, tensor_bytes(order[i]), err));
    return FT_OK;
}

/* Room for all tensors, the first at `begin`. */
static ft_status leave_room(const ft_writer *writer, const ft_named_view *const *order, int n,
                            int64_t begin, const room *out, ft_error *err)
{
    for (int i = 0; i < n; i++) {
        out->at[order[i] - out->tensors] = begin;
        begin += tensor_bytes(order[i]);
    }
    return ft_writer_extend(writer, begin, err);
}

static ft_status write_file(const char *path, const ft_text *header,
                            const ft_named_view *const *order, int n, const room *out,
                            ft_error *err)
{
    unsigned char length[8];
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)header->length >> (8 * i));
    ft_writer writer;
    FT_TRY(ft_writer_begin(&writer, path, err));
    ft_status status = FT_OK;
    FT_GO(ft_writer_add(&writer, length, sizeof length, err));
    FT_GO(ft_writer_add(&writer, header->data, header->length, err));
    int64_t begin = (int64_t)sizeof length + header->length;
    FT_GO(out ? leave_room(&writer, order, n, begin, out, err)
              : add_tensors(&writer, order, n, err));
    FT_GO(ft_writer_commit(&writer, err));
done:
    ft_writer_fini(&writer);
    return status;
}

static ft_status write_all(const char *path, const ft_named_view *tensors, int n, const room *out,
                           ft_error *err)
{
    ft_text header = {0};
    int64_t bytes = (int64_t)n * (int64_t)sizeof(ft_named_view *);
    const ft_named_view **order = ft_alloc(bytes);
    if (!order) return ft_fail(err, FT_NOMEM, "%s: no memory for its header", path);
    for (int i = 0; i < n; i++) order[i] = &tensors[i];
    ft_status status = FT_OK;
    FT_GO(check_all(order, n, path, err));
    FT_GO(make_header(&header, order, n, path, err));
    FT_GO(write_file(path, &header, order, n, out, err));
done:
    ft_text_fini(&header);
    ft_free(order);
    return status;
}

ft_status ft_safetensors_write(const char *path, const ft_named_view *tensors, int n, ft_error *err)
{
    return write_all(path, tensors, n, NULL, err);
}

ft_status ft_safetensors_lay_out(const char *path, const ft_named_view *tensors, int n, int64_t *at,
                                 ft_error *err)
{
    const room out = {tensors, at};
    return write_all(path, tensors, n, &out, err);
}
