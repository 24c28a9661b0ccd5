/* io/header.c - the header of a safetensors file, with every rule of the format.
 *
 * A file is: u64 little-endian N, N bytes of UTF-8 JSON, data to the end. The JSON is an object of
 * name -> {dtype, shape, data_offsets}, plus __metadata__. The rules are checked in the order of
 * the reference reader (huggingface/safetensors, safetensors/src/tensor.rs), so that a file that
 * breaks several is refused with the same one. Data must cover the rest of the file without a hole,
 * an overlap or a byte left over: a file has no place to hide anything in. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "io/internal.h"

enum { LENGTH_BYTES = 8, MAX_HEADER = 100000000 };

/* Legal dtypes and their bits; those of FT_DTYPE_LIST can be read. */
static const ft_file_dtype dtypes[] = {
    {"BOOL", 8},    {"U8", 8},          {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8},
    {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},
    {"F16", 16},    {"BF16", 16},       {"I32", 32},        {"U32", 32},    {"F32", 32},
    {"I64", 64},    {"U64", 64},        {"F64", 64},        {"C64", 64},    {"F4", 4},
    {"F6_E2M3", 6}, {"F6_E3M2", 6},
};

const ft_file_dtype *ft_file_dtype_find(const char *name)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (strcmp(dtypes[i].name, name) == 0) return &dtypes[i];
    return NULL;
}

ft_status ft_tensors_check(int64_t n, const char *path, ft_error *err)
{
    if (n <= FT_MAX_TENSORS) return FT_OK;
    return ft_fail(err, FT_FORMAT, "%s: names %lld tensors, over the limit of %d", path,
                   (long long)n, FT_MAX_TENSORS);
}

/* Where a message is about: the file and, within it, the tensor. */
typedef struct ft_where {
    const char *path;
    ft_shown tensor;
} ft_where;

static ft_status read_dtype(ft_item *item, const json_t *value, const ft_where *at, ft_error *err)
{
    if (!json_is_string(value))
        return ft_fail(err, FT_FORMAT, "%s: tensor '%s': dtype is missing or not a string",
                       at->path, at->tensor.text);
    item->dtype = ft_file_dtype_find(json_string_value(value));
    if (item->dtype) return FT_OK;
    return ft_fail(err, FT_FORMAT, "%s: tensor '%s': unknown dtype '%s'", at->path, at->tensor.text,
                   ft_show(json_string_value(value)).text);
}

static bool is_size(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

static ft_status read_offsets(ft_item *item, const json_t *value, const ft_where *at, ft_error *err)
{
    if (!json_is_array(value) || json_array_size(value) != 2 ||
        !is_size(json_array_get(value, 0)) || !is_size(json_array_get(value, 1)))
        return ft_fail(err, FT_FORMAT,
                       "%s: tensor '%s': data_offsets is not an array of two integers >= 0",
                       at->path, at->tensor.text);
    item->begin = json_integer_value(json_array_get(value, 0));
    item->end = json_integer_value(json_array_get(value, 1));
    return FT_OK;
}

/* Reads the dimensions; count becomes -1 when their product overflows, which is a later rule. */
static ft_status read_shape(ft_item *item, const json_t *value, const ft_where *at, ft_error *err)
{
    if (!json_is_array(value))
        return ft_fail(err, FT_FORMAT, "%s: tensor '%s': shape is missing or not an array",
                       at->path, at->tensor.text);
    item->n_dims = (int)json_array_size(value);
    item->count = 1;
    for (int i = 0; i < item->n_dims; i++) {
        const json_t *dim = json_array_get(value, (size_t)i);
        if (!is_size(dim))
            return ft_fail(err, FT_FORMAT, "%s: tensor '%s': dimension %d is not an integer >= 0",
                           at->path, at->tensor.text, i);
        int64_t size = json_integer_value(dim);
        if (i < FT_MAX_DIMS) item->dims[i] = size;
        if (item->count >= 0 && !ft_size_mul(item->count, size, &item->count)) item->count = -1;
    }
    return FT_OK;
}

static ft_status read_item(ft_item *item, ft_arena *arena, const char *name, const json_t *value,
                           const char *path, ft_error *err)
{
    ft_where at = {path, ft_show(name)};
    if (!json_is_object(value))
        return ft_fail(err, FT_FORMAT, "%s: tensor '%s': not an object", path, at.tensor.text);
    item->name = ft_arena_strdup(arena, name);
    if (!item->name) return ft_fail(err, FT_NOMEM, "%s: no memory for its header", path);
    FT_TRY(read_dtype(item, json_object_get(value, "dtype"), &at, err));
    FT_TRY(read_shape(item, json_object_get(value, "shape"), &at, err));
    return read_offsets(item, json_object_get(value, "data_offsets"), &at, err);
}

static ft_status check_metadata(json_t *metadata, const char *path, ft_error *err)
{
    if (!json_is_object(metadata))
        return ft_fail(err, FT_FORMAT, "%s: __metadata__ is not an object", path);
    for (void *i = json_object_iter(metadata); i; i = json_object_iter_next(metadata, i))
        if (!json_is_string(json_object_iter_value(i)))
            return ft_fail(err, FT_FORMAT, "%s: __metadata__: '%s' is not a string", path,
                           ft_show(json_object_iter_key(i)).text);
    return FT_OK;
}

/* Turns the JSON object into items. */
static ft_status read_items(ft_header *out, ft_arena *arena, json_t *root, const char *path,
                            ft_error *err)
{
    if (!json_is_object(root))
        return ft_fail(err, FT_FORMAT, "%s: header is not a JSON object", path);
    int64_t size = (int64_t)json_object_size(root);
    FT_TRY(ft_tensors_check(size, path, err));
    out->items = ft_arena_array(arena, size, sizeof(ft_item));
    if (!out->items)
        return ft_fail(err, FT_NOMEM, "%s: no memory for %lld tensors", path, (long long)size);
    for (void *i = json_object_iter(root); i; i = json_object_iter_next(root, i)) {
        const char *name = json_object_iter_key(i);
        json_t *value = json_object_iter_value(i);
        if (strcmp(name, "__metadata__") == 0)
            FT_TRY(check_metadata(value, path, err));
        else
            FT_TRY(read_item(&out->items[out->n++], arena, name, value, path, err));
    }
    return FT_OK;
}

static int compare_offsets(const void *a, const void *b)
{
    const ft_item *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static int compare_names(const void *a, const void *b)
{
    const ft_item *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static ft_status check_bytes(const ft_item *item, const char *path, ft_error *err)
{
    int64_t bits;
    const char *dtype = item->dtype->name;
    ft_shown name = ft_show(item->name);
    if (item->count < 0 || !ft_size_mul(item->count, item->dtype->bits, &bits))
        return ft_fail(err, FT_FORMAT, "%s: tensor '%s': its shape overflows 64 bits", path,
                       name.text);
    if (bits % 8 != 0)
        return ft_fail(err, FT_FORMAT,
                       "%s: tensor '%s': %lld elements of %s do not fill whole bytes", path,
                       name.text, (long long)item->count, dtype);
    if (bits / 8 != item->end - item->begin)
        return ft_fail(
            err, FT_FORMAT,
            "%s: tensor '%s': data_offsets hold %lld bytes, its shape and dtype %s need %lld", path,
            name.text, (long long)(item->end - item->begin), dtype, (long long)(bits / 8));
    return FT_OK;
}

/* The data is covered from its first byte to the last, each byte once. */
static ft_status check_layout(ft_header *header, int64_t file_size, const char *path, ft_error *err)
{
    int64_t position = 0;
    qsort(header->items, (size_t)header->n, sizeof(ft_item), compare_offsets);
    for (int i = 0; i < header->n; i++) {
        const ft_item *item = &header->items[i];
        if (item->begin != position || item->end < item->begin)
            return ft_fail(
                err, FT_FORMAT,
                "%s: tensor '%s': data_offsets [%lld, %lld] do not continue at byte %lld", path,
                ft_show(item->name).text, (long long)item->begin, (long long)item->end,
                (long long)position);
        FT_TRY(check_bytes(item, path, err));
        position = item->end;
    }
    if (position != file_size - header->data_start)
        return ft_fail(err, FT_FORMAT, "%s: tensors cover %lld bytes of data, the file holds %lld",
                       path, (long long)position, (long long)(file_size - header->data_start));
    qsort(header->items, (size_t)header->n, sizeof(ft_item), compare_names);
    return FT_OK;
}

/* The length that the file begins with. */
static ft_status read_length(int64_t *out, int fd, int64_t size, const char *path, ft_error *err)
{
    unsigned char bytes[LENGTH_BYTES];
    uint64_t length = 0;
    if (size < LENGTH_BYTES)
        return ft_fail(err, FT_FORMAT,
                       "%s: file of %lld bytes is too small for a header length of 8 bytes", path,
                       (long long)size);
    FT_TRY(ft_pread_all(fd, bytes, LENGTH_BYTES, 0, path, err));
    for (int i = LENGTH_BYTES - 1; i >= 0; i--) length = length << 8 | bytes[i];
    if (length > MAX_HEADER)
        return ft_fail(err, FT_FORMAT, "%s: header length %llu is over the limit of %d bytes", path,
                       (unsigned long long)length, MAX_HEADER);
    if ((int64_t)length > size - LENGTH_BYTES)
        return ft_fail(err, FT_FORMAT,
                       "%s: header length %llu reaches past the end of the file of %lld bytes",
                       path, (unsigned long long)length, (long long)size);
    *out = (int64_t)length;
    return FT_OK;
}

static ft_status parse_text(json_t **out, const char *text, int64_t length, const char *path,
                            ft_error *err)
{
    int64_t bad = ft_utf8_check(text, length);
    if (bad >= 0)
        return ft_fail(err, FT_FORMAT, "%s: header is not UTF-8 at its byte %lld", path,
                       (long long)bad);
    ft_status status = ft_json_parse(out, text, length, "header", err);
    if (status != FT_OK) ft_error_wrap(err, "%s", path);
    return status;
}

ft_status ft_header_read(ft_header *out, ft_arena *arena, int fd, int64_t size, const char *path,
                         ft_error *err)
{
    int64_t length = 0;
    json_t *root = NULL;
    *out = (ft_header){0};
    FT_TRY(read_length(&length, fd, size, path, err));
    out->data_start = LENGTH_BYTES + length;
    char *text = ft_alloc(length);
    if (!text)
        return ft_fail(err, FT_NOMEM, "%s: no memory for a header of %lld bytes", path,
                       (long long)length);
    ft_status status = FT_OK;
    FT_GO(ft_pread_all(fd, text, length, LENGTH_BYTES, path, err));
    FT_GO(parse_text(&root, text, length, path, err));
    FT_GO(read_items(out, arena, root, path, err));
    FT_GO(check_layout(out, size, path, err));
done:
    ft_free(text);
    json_decref(root);
    return status;
}

const ft_item *ft_header_find(const ft_header *header, const char *name)
{
    if (header->n == 0) return NULL;
    ft_item key = {.name = name};
    return bsearch(&key, header->items, (size_t)header->n, sizeof(ft_item), compare_names);
}
