/* io/torch.c - pytorch_model.bin: a zip of data.pkl, the names and shapes, and data/KEY, the bytes.
 *
 * PyTorch stores its entries without compression, so a tensor is a range of the file and is read
 * like one of a safetensors file. Source: PKWARE's APPNOTE.TXT 6.3, sections 4.3 and 4.5.3. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/torch.h"

enum {
    END_BYTES = 22,     /* end of central directory, without its comment */
    END64_BYTES = 56,   /* zip64 end of central directory */
    LOCATOR_BYTES = 20, /* where that is */
    CENTRAL_BYTES = 46, /* entry of the central directory, without names */
    LOCAL_BYTES = 30,   /* header in front of an entry's bytes, without names */
    MAX_COMMENT = 65535,
    MAX_DIRECTORY = 1 << 26, /* some 250 bytes for each of FT_MAX_TENSORS */
};

/* An entry of the directory, by its name behind the directory that all are in. */
typedef struct entry {
    const char *name; /* not terminated */
    int64_t n_name;
    const char *record;
    bool located; /* `where` is known */
    ft_range where;
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
    while (status == FT_OK && i >= 0 && ft_little(tail + i, 4) != 0x06054b50) i--;
    if (status == FT_OK && i < 0) status = bad(z, "it has no end record", err);
    if (status == FT_OK) {
        memcpy(record, tail + i, END_BYTES);
        *at = z->size - n + i;
    }
    ft_free(tail);
    return status;
}

/* Offset and size of the directory; values that do not fit are in the zip64 record. */
static ft_status find_directory(const zip *z, ft_range *out, ft_error *err)
{
    char end[END_BYTES], locator[LOCATOR_BYTES], end64[END64_BYTES];
    int64_t at = 0;
    FT_TRY(find_end(z, end, &at, err));
    *out = (ft_range){(int64_t)ft_little(end + 16, 4), (int64_t)ft_little(end + 12, 4)};
    if (at < LOCATOR_BYTES) return FT_OK;
    FT_TRY(read_at(z, locator, LOCATOR_BYTES, at - LOCATOR_BYTES, err));
    if (ft_little(locator, 4) != 0x07064b50) return FT_OK;
    FT_TRY(read_at(z, end64, END64_BYTES, (int64_t)ft_little(locator + 8, 8), err));
    if (ft_little(end64, 4) != 0x06064b50) return bad(z, "its zip64 end record is missing", err);
    *out = (ft_range){(int64_t)ft_little(end64 + 48, 8), (int64_t)ft_little(end64 + 40, 8)};
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
    *out = CENTRAL_BYTES + (int64_t)ft_little(record + 28, 2) + (int64_t)ft_little(record + 30, 2) +
           (int64_t)ft_little(record + 32, 2);
    if (ft_little(record, 4) != 0x02014b50 || *out > z->directory_bytes - at)
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
        int64_t n_name = (int64_t)ft_little(z->directory + at + 28, 2);
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
    ft_range where;
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
        int64_t size = (int64_t)ft_little(extra + 2, 2);
        if (size > n - 4) return;
        const char *p = extra + 4, *end = p + size;
        for (int i = 0; ft_little(extra, 2) == 1 && i < 3; i++) {
            if (fields[i] != UINT32_MAX || end - p < 8) continue;
            fields[i] = ft_little(p, 8);
            p += 8;
        }
        extra += 4 + size;
        n -= 4 + size;
    }
}

/* Where the bytes of an entry are, given its record in the directory. */
static ft_status locate(const zip *z, const char *record, ft_range *out, ft_error *err)
{
    int64_t n_name = (int64_t)ft_little(record + 28, 2),
            n_extra = (int64_t)ft_little(record + 30, 2);
    uint64_t fields[3] = {ft_little(record + 24, 4), ft_little(record + 20, 4),
                          ft_little(record + 42, 4)};
    char local[LOCAL_BYTES];
    widen(record + CENTRAL_BYTES + n_name, n_extra, fields);
    if (ft_little(record + 10, 2) != 0 || fields[0] != fields[1])
        return bad(z, "an entry is compressed", err);
    FT_TRY(read_at(z, local, LOCAL_BYTES, (int64_t)fields[2], err));
    if (ft_little(local, 4) != 0x04034b50) return bad(z, "an entry has no header", err);
    out->size = (int64_t)fields[0];
    out->begin = (int64_t)fields[2] + LOCAL_BYTES + (int64_t)ft_little(local + 26, 2) +
                 (int64_t)ft_little(local + 28, 2);
    if (out->size < 0 || out->size > z->size || out->begin > z->size - out->size)
        return bad(z, "an entry reaches past its end", err);
    return FT_OK;
}

/* Finds the bytes of an entry by its name. */
static ft_status find_entry(zip *z, const char *name, ft_range *out, ft_error *err)
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

/* The entry of a storage. */
static ft_status find_storage(void *storages, const char *key, ft_range *out, ft_error *err)
{
    zip *z = storages;
    char name[300];
    if (strlen(key) > 255) return bad(z, "the key of a storage is too long", err);
    strcat(strcpy(name, "data/"), key);
    return find_entry(z, name, out, err);
}

ft_status ft_torch_read(ft_header *out, ft_arena *arena, int fd, int64_t size, const char *path,
                        ft_error *err)
{
    zip z = {.arena = arena, .fd = fd, .size = size, .path = path};
    ft_range where;
    ft_pickles pickles;
    ft_pickled *tensors = NULL;
    int n = 0;
    *out = (ft_header){0};
    FT_TRY(read_directory(&z, err));
    FT_TRY(find_entry(&z, "data.pkl", &where, err));
    if (where.size > FT_TORCH_PICKLE)
        return ft_fail(err, FT_FORMAT, "%s: data.pkl of %lld bytes is over the limit of %d", path,
                       (long long)where.size, FT_TORCH_PICKLE);
    if (where.size == 0) return ft_fail(err, FT_FORMAT, "%s: data.pkl is empty", path);
    ft_pickles_of(&pickles, fd, where.begin, where.begin + where.size, path);
    FT_TRY(ft_pickle_tensors(&tensors, &n, arena, &pickles, "data.pkl", err));
    const ft_torch_file file = {path, arena, &z, find_storage};
    return ft_torch_items(out, &file, tensors, n, err);
}

bool ft_torch_is(int fd, int64_t size)
{
    char start[8];
    /* Read as the length of a safetensors header, these bytes are far past the limit. */
    return size >= END_BYTES && ft_pread_all(fd, start, 8, 0, "", NULL) == FT_OK &&
           ft_little(start, 4) == 0x04034b50 && ft_little(start + 4, 4) != 0;
}
