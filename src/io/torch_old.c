/* io/torch_old.c - pytorch_model.bin as PyTorch wrote it before version 1.6: pickles one behind the
 * other, and the bytes of the storages behind them.
 *
 *    the number that such files begin with, the version of the format, what machine wrote it
 *    the state dict: names and shapes
 *    the keys of the storages, in the order in which they follow
 *    of each storage how many elements it has, and these
 *
 * Source: _legacy_save of torch/serialization.py. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/torch.h"

/* The first pickle is the integer 0x1950a86a20f9469cfc6c, the second one 1001. */
static const char magic[] = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
static const char version[] = "\x80\x02M\xe9\x03.";
enum { MAGIC = sizeof magic - 1, VERSION = sizeof version - 1, COUNT = 8 };

typedef struct storage {
    const char *key;
    int64_t element; /* bytes */
    bool found;
    ft_range where;
} storage;

typedef struct old_file {
    int fd;
    int64_t size;
    const char *path;
    storage *storages; /* that tensors lie in, by key */
    int n;
} old_file;

static ft_status bad(const old_file *f, const char *what, const char *key, ft_error *err)
{
    return ft_fail(err, FT_FORMAT, "%s: not a file as PyTorch wrote them before version 1.6: %s%s",
                   f->path, what, ft_show(key).text);
}

static int compare_storages(const void *a, const void *b)
{
    const storage *x = a, *y = b;
    return strcmp(x->key, y->key);
}

static storage *storage_of(const old_file *f, const char *key)
{
    storage wanted = {.key = key};
    return bsearch(&wanted, f->storages, (size_t)f->n, sizeof(storage), compare_storages);
}

/* What tensors say of the storages that they lie in. */
static ft_status list_storages(old_file *f, ft_arena *arena, const ft_pickled *tensors, int n,
                               ft_error *err)
{
    f->storages = ft_arena_array(arena, n + 1, sizeof(storage));
    if (!f->storages) return ft_fail(err, FT_NOMEM, "%s: no memory for its storages", f->path);
    for (int i = 0; i < n; i++)
        f->storages[i] =
            (storage){.key = tensors[i].storage, .element = tensors[i].dtype->bits / 8};
    qsort(f->storages, (size_t)n, sizeof(storage), compare_storages);
    for (int i = 0; i < n; i++) {
        storage *last = f->n ? &f->storages[f->n - 1] : NULL;
        if (!last || compare_storages(last, &f->storages[i]) != 0)
            f->storages[f->n++] = f->storages[i];
        else if (last->element != f->storages[i].element)
            return bad(f, "elements of two sizes in storage ", last->key, err);
    }
    return FT_OK;
}

/* Finds the bytes of the storages, which begin at `at`. */
static ft_status find_storages(const old_file *f, const char *const *keys, int64_t n, int64_t at,
                               ft_error *err)
{
    char count[COUNT];
    for (int64_t i = 0; i < n; i++) {
        storage *s = storage_of(f, keys[i]);
        if (!s) return bad(f, "no tensor is in storage ", keys[i], err);
        if (s->found) return bad(f, "it lists twice storage ", keys[i], err);
        s->where.begin = at + COUNT;
        if (s->where.begin > f->size) return bad(f, "it ends before storage ", keys[i], err);
        FT_TRY(ft_pread_all(f->fd, count, COUNT, at, f->path, err));
        if (!ft_size_mul((int64_t)ft_little(count, COUNT), s->element, &s->where.size) ||
            s->where.size > f->size - s->where.begin)
            return bad(f, "it ends within storage ", keys[i], err);
        s->found = true;
        at = s->where.begin + s->where.size;
    }
    return FT_OK;
}

static ft_status find_storage(void *storages, const char *key, ft_range *out, ft_error *err)
{
    const old_file *f = storages;
    const storage *s = storage_of(f, key);
    if (!s->found) return bad(f, "it does not list storage ", key, err);
    *out = s->where;
    return FT_OK;
}

ft_status ft_torch_old_read(ft_header *out, ft_arena *arena, int fd, int64_t size, const char *path,
                            ft_error *err)
{
    old_file f = {.fd = fd, .size = size, .path = path};
    ft_pickles pickles;
    ft_pickled *tensors = NULL;
    const char **keys = NULL;
    char second[VERSION];
    int n = 0;
    int64_t little_endian = 0, n_keys = 0, end = MAGIC + VERSION;
    *out = (ft_header){0};
    if (size < end) return bad(&f, "it ends within its version", "", err);
    FT_TRY(ft_pread_all(fd, second, VERSION, MAGIC, path, err));
    if (memcmp(second, version, VERSION) != 0) return bad(&f, "its version is not 1001", "", err);
    ft_pickles_of(&pickles, fd, end, size - end > FT_TORCH_PICKLE ? end + FT_TORCH_PICKLE : size,
                  path);
    FT_TRY(ft_pickle_number(&little_endian, "little_endian", arena, &pickles, "its third pickle",
                            err));
    if (!little_endian)
        return ft_fail(err, FT_UNSUPPORTED, "%s: its numbers are big-endian, save it anew", path);
    FT_TRY(ft_pickle_tensors(&tensors, &n, arena, &pickles, "its fourth pickle", err));
    FT_TRY(ft_pickle_texts(&keys, &n_keys, arena, &pickles, "its fifth pickle", err));
    FT_TRY(list_storages(&f, arena, tensors, n, err));
    FT_TRY(find_storages(&f, keys, n_keys, ft_pickles_at(&pickles), err));
    const ft_torch_file file = {path, arena, &f, find_storage};
    return ft_torch_items(out, &file, tensors, n, err);
}

bool ft_torch_old_is(int fd, int64_t size)
{
    char start[MAGIC];
    /* Read as the length of a safetensors header, these bytes are far past the limit. */
    return size >= MAGIC && ft_pread_all(fd, start, MAGIC, 0, "", NULL) == FT_OK &&
           memcmp(start, magic, MAGIC) == 0;
}
