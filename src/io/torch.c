/* io/torch.c - pytorch_model.bin: a zip of data.pkl, the names and shapes, and data/KEY, the bytes.
 *
 * PyTorch stores its entries without compression, so a tensor is a range of the file and is read
 * like one of a safetensors file. Source: PKWARE's APPNOTE.TXT 6.3, sections 4.3 and 4.5.3. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/pickle.h"

enum {
    END_BYTES = 22,     /* end of central directory, without its comment */
    END64_BYTES = 56,   /* zip64 end of central directory */
    LOCATOR_BYTES = 20, /* where that is */
    CENTRAL_BYTES = 46, /* entry of the central directory, without names */
    LOCAL_BYTES = 30,   /* header in front of an entry's bytes, without names */
    MAX_COMMENT = 65535,
    MAX_DIRECTORY = 1 << 26, /* some 250 bytes for each of FT_MAX_TENSORS */
    MAX_PICKLE = 1 << 26,
};

/* An entry's bytes within the file. */
typedef struct range {
    int64_t begin, size;
} range;

/* An entry of the directory, by its name behind the directory that all are in. */
typedef struct entry {
    const char *name; /* not terminated */
    int64_t n_name;
    const char *record;
    bool located; /* `where` is known */
    range where;
} entry;

typedef struct zip {
    ft_arena *arena;
    int fd;
    int64_t size;
    const char *path;
    char *directory; /* the central directory */
    int64_t directory_bytes;
    entry *entries; /* by name */
    int64_t n_entries;
} zip;

static uint64_t little(const char *bytes, int n)
{
    uint64_t number = 0;
    for (int i = n - 1; i >= 0; i--) number = number << 8 | (unsigned char)bytes[i];
    return number;
}

static ft_status bad(const zip *z, const char *what, ft_error *err)
{
    return ft_fail(err, FT_FORMAT, "%s: not a zip file as PyTorch writes it: %s", z->path, what);
}

static ft_status read_at(const zip *z, char *out, int64_t n, int64_t offset, ft_error *err)
{
    if (offset < 0 || n > z->size || offset > z->size - n)
        return bad(z, "a position is past its end", err);
    return ft_pread_all(z->fd, out, n, offset, z->path, err);
}

/* -- the directory ---------------------------------------------------------------------------- */

/* Where the end record is; it is followed by a comment of a length that it tells. */
static ft_status find_end(const zip *z, char *record, int64_t *at, ft_error *err)
{
    int64_t n = z->size < END_BYTES + MAX_COMMENT ? z->size : END_BYTES + MAX_COMMENT;
    if (n < END_BYTES) return bad(z, "it is too small", err);
    char *tail = ft_alloc(n);
    if (!tail) return ft_fail(err, FT_NOMEM, "%s: no memory for its end", z->path);
    ft_status status = read_at(z, tail, n, z->size - n, err);
    int64_t i = n - END_BYTES;
    while (status == FT_OK && i >= 0 && little(tail + i, 4) != 0x06054b50) i--;
    if (status == FT_OK && i < 0) status = bad(z, "it has no end record", err);
    if (status == FT_OK) {
        memcpy(record, tail + i, END_BYTES);
        *at = z->size - n + i;
    }
    ft_free(tail);
    return status;
}

/* Offset and size of the directory; values that do not fit are in the zip64 record. */
static ft_status find_directory(const zip *z, range *out, ft_error *err)
{
    char end[END_BYTES], locator[LOCATOR_BYTES], end64[END64_BYTES];
    int64_t at = 0;
    FT_TRY(find_end(z, end, &at, err));
    *out = (range){(int64_t)little(end + 16, 4), (int64_t)little(end + 12, 4)};
    if (at < LOCATOR_BYTES) return FT_OK;
    FT_TRY(read_at(z, locator, LOCATOR_BYTES, at - LOCATOR_BYTES, err));
    if (little(locator, 4) != 0x07064b50) return FT_OK;
    FT_TRY(read_at(z, end64, END64_BYTES, (int64_t)little(locator + 8, 8), err));
    if (little(end64, 4) != 0x06064b50) return bad(z, "its zip64 end record is missing", err);
    *out = (range){(int64_t)little(end64 + 48, 8), (int64_t)little(end64 + 40, 8)};
    return FT_OK;
}

static int compare_entries(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    int order = memcmp(x->name, y->name, (size_t)(x->n_name < y->n_name ? x->n_name : y->n_name));
    return order ? order : (x->n_name > y->n_name) - (x->n_name < y->n_name);
}

/* The size of the record at a place of the directory. */
static ft_status record_size(const zip *z, int64_t at, int64_t *out, ft_error *err)
{
    const char *record = z->directory + at;
    *out = CENTRAL_BYTES + (int64_t)little(record + 28, 2) + (int64_t)little(record + 30, 2) +
           (int64_t)little(record + 32, 2);
    if (little(record, 4) != 0x02014b50 || *out > z->directory_bytes - at)
        return bad(z, "its directory is damaged", err);
    return FT_OK;
}

/* Sorts the entries by their names. */
static ft_status index_entries(zip *z, ft_error *err)
{
    int64_t n = 0, size = 0;
    for (int64_t at = 0; at + CENTRAL_BYTES <= z->directory_bytes; at += size, n++)
        FT_TRY(record_size(z, at, &size, err));
    z->entries = ft_arena_array(z->arena, n + 1, sizeof(entry));
    if (!z->entries) return ft_fail(err, FT_NOMEM, "%s: no memory for its directory", z->path);
    for (int64_t at = 0; at + CENTRAL_BYTES <= z->directory_bytes; at += size) {
        FT_TRY(record_size(z, at, &size, err));
        const char *name = z->directory + at + CENTRAL_BYTES;
        int64_t n_name = (int64_t)little(z->directory + at + 28, 2);
        const char *slash = memchr(name, '/', (size_t)n_name);
        if (!slash) continue;
        z->entries[z->n_entries++] = (entry){
            .name = slash + 1, .n_name = name + n_name - slash - 1, .record = z->directory + at};
    }
    qsort(z->entries, (size_t)z->n_entries, sizeof(entry), compare_entries);
    for (int64_t i = 1; i < z->n_entries; i++)
        if (compare_entries(&z->entries[i - 1], &z->entries[i]) == 0)
            return bad(z, "two entries have one name", err);
    return FT_OK;
}

static ft_status read_directory(zip *z, ft_error *err)
{
    range where;
    FT_TRY(find_directory(z, &where, err));
    if (where.size < 0 || where.size > MAX_DIRECTORY)
        return ft_fail(err, FT_FORMAT, "%s: its directory of %lld bytes is over the limit of %d",
                       z->path, (long long)where.size, MAX_DIRECTORY);
    z->directory = ft_arena_alloc(z->arena, where.size);
    if (!z->directory) return ft_fail(err, FT_NOMEM, "%s: no memory for its directory", z->path);
    z->directory_bytes = where.size;
    FT_TRY(read_at(z, z->directory, where.size, where.begin, err));
    return index_entries(z, err);
}

/* Replaces sizes and offset that are all ones by those of the zip64 extra field. */
static void widen(const char *extra, int64_t n, uint64_t fields[3])
{
    while (n >= 4) {
        int64_t size = (int64_t)little(extra + 2, 2);
        if (size > n - 4) return;
        const char *p = extra + 4, *end = p + size;
        for (int i = 0; little(extra, 2) == 1 && i < 3; i++) {
            if (fields[i] != UINT32_MAX || end - p < 8) continue;
            fields[i] = little(p, 8);
            p += 8;
        }
        extra += 4 + size;
        n -= 4 + size;
    }
}

/* Where the bytes of an entry are, given its record in the directory. */
static ft_status locate(const zip *z, const char *record, range *out, ft_error *err)
{
    int64_t n_name = (int64_t)little(record + 28, 2), n_extra = (int64_t)little(record + 30, 2);
    uint64_t fields[3] = {little(record + 24, 4), little(record + 20, 4), little(record + 42, 4)};
    char local[LOCAL_BYTES];
    widen(record + CENTRAL_BYTES + n_name, n_extra, fields);
    if (little(record + 10, 2) != 0 || fields[0] != fields[1])
        return bad(z, "an entry is compressed", err);
    FT_TRY(read_at(z, local, LOCAL_BYTES, (int64_t)fields[2], err));
    if (little(local, 4) != 0x04034b50) return bad(z, "an entry has no header", err);
    out->size = (int64_t)fields[0];
    out->begin = (int64_t)fields[2] + LOCAL_BYTES + (int64_t)little(local + 26, 2) +
                 (int64_t)little(local + 28, 2);
    if (out->size < 0 || out->size > z->size || out->begin > z->size - out->size)
        return bad(z, "an entry reaches past its end", err);
    return FT_OK;
}

/* Finds the bytes of an entry by its name. */
static ft_status find_entry(zip *z, const char *name, range *out, ft_error *err)
{
    entry key = {.name = name, .n_name = (int64_t)strlen(name)};
    entry *found = bsearch(&key, z->entries, (size_t)z->n_entries, sizeof(entry), compare_entries);
    if (!found)
        return ft_fail(err, FT_FORMAT, "%s: not a file of PyTorch: it has no entry %s", z->path,
                       ft_show(name).text);
    if (!found->located) FT_TRY(locate(z, found->record, &found->where, err));
    found->located = true;
    *out = found->where;
    return FT_OK;
}

/* -- tensors ---------------------------------------------------------------------------------- */

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

static ft_status make_item(zip *z, const ft_pickled *tensor, ft_item *item, ft_error *err)
{
    char file[300];
    range storage;
    int64_t bytes = tensor->dtype->bits / 8, span = 0, size = 0, all = 0, first = 0;
    if (strlen(tensor->storage) > 255) return bad(z, "the key of a storage is too long", err);
    strcat(strcpy(file, "data/"), tensor->storage);
    FT_TRY(find_entry(z, file, &storage, err));
    *item = (ft_item){.name = tensor->name, .dtype = tensor->dtype, .n_dims = tensor->n_dims};
    item->count = 1;
    bool fits = find_span(tensor, &span);
    for (int i = 0; i < tensor->n_dims; i++) {
        item->dims[i] = tensor->dims[i];
        fits = fits && ft_size_mul(item->count, tensor->dims[i], &item->count);
    }
    /* One that repeats its elements is no weight: such a one could be larger than any file. */
    fits = fits && ft_size_mul(item->count, bytes, &all) && all <= storage.size &&
           ft_size_mul(span, bytes, &size) && ft_size_mul(tensor->offset, bytes, &first) &&
           size <= storage.size && first <= storage.size - size;
    if (!fits)
        return ft_fail(err, FT_FORMAT, "%s: tensor '%s' reaches past its storage of %lld bytes",
                       z->path, ft_show(tensor->name).text, (long long)storage.size);
    item->begin = storage.begin + first;
    item->end = item->begin + size;
    if (!is_contiguous(tensor, item->count)) item->strides = tensor->strides;
    return FT_OK;
}

static int compare_names(const void *a, const void *b)
{
    const ft_item *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static ft_status make_header(zip *z, const ft_pickled *tensors, int n, ft_header *out,
                             ft_error *err)
{
    FT_TRY(ft_tensors_check(n, z->path, err));
    out->items = ft_arena_array(z->arena, n + 1, sizeof(ft_item));
    if (!out->items) return ft_fail(err, FT_NOMEM, "%s: no memory for its tensors", z->path);
    for (; out->n < n; out->n++) FT_TRY(make_item(z, &tensors[out->n], &out->items[out->n], err));
    qsort(out->items, (size_t)n, sizeof(ft_item), compare_names);
    for (int i = 1; i < n; i++)
        if (strcmp(out->items[i - 1].name, out->items[i].name) == 0)
            return ft_fail(err, FT_FORMAT, "%s: two tensors are named '%s'", z->path,
                           ft_show(out->items[i].name).text);
    return FT_OK;
}

ft_status ft_torch_read(ft_header *out, ft_arena *arena, int fd, int64_t size, const char *path,
                        ft_error *err)
{
    zip z = {.arena = arena, .fd = fd, .size = size, .path = path};
    range pickle;
    ft_pickled *tensors = NULL;
    int n = 0;
    *out = (ft_header){0};
    FT_TRY(read_directory(&z, err));
    FT_TRY(find_entry(&z, "data.pkl", &pickle, err));
    if (pickle.size > MAX_PICKLE)
        return ft_fail(err, FT_FORMAT, "%s: data.pkl of %lld bytes is over the limit of %d", path,
                       (long long)pickle.size, MAX_PICKLE);
    char *bytes = ft_alloc(pickle.size);
    if (!bytes) return ft_fail(err, FT_NOMEM, "%s: no memory for data.pkl", path);
    ft_status status = FT_OK;
    FT_GO(ft_pread_all(fd, bytes, pickle.size, pickle.begin, path, err));
    FT_GO(ft_pickle_read(&tensors, &n, arena, bytes, pickle.size, path, err));
    FT_GO(make_header(&z, tensors, n, out, err));
done:
    ft_free(bytes);
    return status;
}

bool ft_torch_is(int fd, int64_t size)
{
    char start[8];
    /* Read as the length of a safetensors header, these bytes are far past the limit. */
    return size >= END_BYTES && ft_pread_all(fd, start, 8, 0, "", NULL) == FT_OK &&
           little(start, 4) == 0x04034b50 && little(start + 4, 4) != 0;
}
