/* io/archive.c - named tensors in one file or in shards, of safetensors or of PyTorch.
 *
 * Every shard is opened once and its header checked; the descriptor stays open, so that a file that
 * is replaced meanwhile goes on being read as it was. Tensor bytes go straight to their
 * destination; another dtype is converted piece by piece on the way. */
#include "io/io.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/sha256.h"
#include "io/internal.h"

/* Each shard is an open file; the largest published models have some hundred. */
enum { MAX_SHARDS = 512 };

typedef struct ft_shard {
    const char *file; /* name within the index, or the path */
    const char *path;
    int fd;
    ft_header header;
} ft_shard;

typedef struct ft_record {
    ft_entry entry; /* first: what callers see */
    int shard;
    const ft_item *item;
} ft_record;

struct ft_archive {
    ft_arena *arena; /* owns everything but the descriptors */
    const char *path;
    ft_shard *shards;
    int n_shards;
    ft_record *records; /* by name */
    int n_records;
};

static ft_status no_memory(const ft_archive *archive, ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "%s: no memory for its entries", archive->path);
}

/* directory/file, or the file alone; NULL when out of memory. */
static const char *join(ft_arena *arena, const char *directory, int64_t n_directory,
                        const char *file)
{
    size_t n = strlen(file);
    char *path = ft_arena_alloc(arena, n_directory + (int64_t)n + 1);
    if (!path) return NULL;
    memcpy(path, directory, (size_t)n_directory);
    memcpy(path + n_directory, file, n + 1);
    return path;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Whether a file is what Git LFS leaves in the place of one that was not fetched. */
static bool is_pointer(int fd, int64_t size)
{
    static const char begins[] = "version https://git-lfs.github.com/";
    char start[sizeof begins - 1];
    return size >= (int64_t)sizeof start &&
           ft_pread_all(fd, start, sizeof start, 0, "", NULL) == FT_OK &&
           memcmp(start, begins, sizeof start) == 0;
}

/* Takes over an open file and reads its header. */
static ft_status adopt_shard(ft_archive *archive, const char *file, const char *path, int fd,
                             ft_error *err)
{
    ft_shard *shard = &archive->shards[archive->n_shards];
    struct stat info;
    if (fd < 0) return ft_errno_fail(err, path, "cannot open");
    *shard = (ft_shard){.file = file, .path = path, .fd = fd};
    archive->n_shards++;
    if (fstat(fd, &info) != 0) return ft_errno_fail(err, path, "cannot look at");
    if (!S_ISREG(info.st_mode)) return ft_fail(err, FT_IO, "%s: not a regular file", path);
    if (is_pointer(fd, info.st_size))
        return ft_fail(err, FT_FORMAT,
                       "%s: is a pointer of Git LFS and not the weights; git lfs pull fetches them",
                       path);
    if (ft_torch_is(fd, info.st_size))
        return ft_torch_read(&shard->header, archive->arena, fd, info.st_size, path, err);
    if (ft_torch_old_is(fd, info.st_size))
        return ft_torch_old_read(&shard->header, archive->arena, fd, info.st_size, path, err);
    if (ends_with(path, ".bin"))
        return ft_fail(err, FT_FORMAT,
                       "%s: not a file of PyTorch: neither a zip file, as it writes them since "
                       "version 1.6, nor one of before",
                       path);
    return ft_header_read(&shard->header, archive->arena, fd, info.st_size, path, err);
}

static ft_status open_shard(ft_archive *archive, const char *file, const char *path, ft_error *err)
{
    /* O_NONBLOCK: a pipe in the place of a file must not hang us. */
    return adopt_shard(archive, file, path, open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err);
}

/* Makes the caller's view of an item. An unreadable one is shown as a row of bytes. */
static ft_record make_record(const ft_item *item, int shard)
{
    ft_record record = {.shard = shard, .item = item};
    ft_dtype dtype;
    bool known = ft_dtype_find(item->dtype->name, &dtype);
    record.entry = (ft_entry){.name = item->name, .dtype_name = item->dtype->name};
    record.entry.readable = known && item->n_dims <= FT_MAX_DIMS;
    if (record.entry.readable)
        record.entry.spec = (ft_spec){dtype, ft_shape_make(item->n_dims, item->dims)};
    else
        record.entry.spec = (ft_spec){FT_U8, ft_shape_of(item->end - item->begin)};
    return record;
}

/* Makes the records of an archive whose one shard is the open file fd. */
static ft_status list_single(ft_archive *archive, const char *path, int fd, ft_error *err)
{
    archive->shards = ft_arena_array(archive->arena, 1, sizeof(ft_shard));
    if (!archive->shards) {
        if (fd >= 0) close(fd);
        return no_memory(archive, err);
    }
    FT_TRY(adopt_shard(archive, path, path, fd, err));
    const ft_header *header = &archive->shards[0].header;
    archive->records = ft_arena_array(archive->arena, header->n, sizeof(ft_record));
    if (!archive->records) return no_memory(archive, err);
    for (int i = 0; i < header->n; i++) archive->records[i] = make_record(&header->items[i], 0);
    archive->n_records = header->n;
    return FT_OK;
}

static ft_status open_single(ft_archive *archive, const char *path, ft_error *err)
{
    return list_single(archive, path, open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err);
}

/* An index of shards while it is read. */
typedef struct shard_index {
    ft_archive *archive;
    const char *path;
    json_t *numbers; /* file name -> its shard */
} shard_index;

/* Whether a name is one of a file beside the index, which messages can show as it is. */
static bool is_plain(const char *file)
{
    for (const char *c = file; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7F || *c == '/') return false;
    return file[0] && strcmp(file, ".") != 0 && strcmp(file, "..") != 0;
}

/* Opens the shard of a file name. */
static ft_status add_shard(const shard_index *index, const char *file, ft_error *err)
{
    ft_archive *archive = index->archive;
    if (!is_plain(file))
        return ft_fail(err, FT_FORMAT, "%s: shard '%s' is not a plain file name", index->path,
                       ft_show(file).text);
    if (archive->n_shards == MAX_SHARDS)
        return ft_fail(err, FT_FORMAT, "%s: names more than %d shards", index->path, MAX_SHARDS);
    const char *slash = strrchr(index->path, '/');
    const char *path = join(archive->arena, index->path, slash ? slash - index->path + 1 : 0, file);
    const char *name = ft_arena_strdup(archive->arena, file);
    if (!path || !name ||
        json_object_set_new(index->numbers, file, json_integer(archive->n_shards)) != 0)
        return no_memory(archive, err);
    return open_shard(archive, name, path, err);
}

/* The number of the shard of this file name, opened if it is the first time. */
static ft_status find_shard(const shard_index *index, const char *file, int *out, ft_error *err)
{
    const json_t *known = json_object_get(index->numbers, file);
    *out = known ? (int)json_integer_value(known) : index->archive->n_shards;
    return known ? FT_OK : add_shard(index, file, err);
}

static ft_status add_mapped(const shard_index *index, const char *name, const json_t *file,
                            ft_error *err)
{
    ft_archive *archive = index->archive;
    int shard = 0;
    if (!json_is_string(file))
        return ft_fail(err, FT_FORMAT, "%s: weight_map: '%s' is not mapped to a file name",
                       index->path, ft_show(name).text);
    FT_TRY(find_shard(index, json_string_value(file), &shard, err));
    const ft_item *item = ft_header_find(&archive->shards[shard].header, name);
    if (!item)
        return ft_fail(err, FT_FORMAT, "%s: weight_map: tensor '%s' is not in its shard %s",
                       index->path, ft_show(name).text, archive->shards[shard].path);
    archive->records[archive->n_records++] = make_record(item, shard);
    return FT_OK;
}

static int compare_records(const void *a, const void *b)
{
    const ft_record *x = a, *y = b;
    return strcmp(x->entry.name, y->entry.name);
}

static ft_status open_index(ft_archive *archive, const char *path, ft_error *err)
{
    json_t *root = NULL;
    shard_index index = {.archive = archive, .path = path};
    FT_TRY(ft_json_read(&root, path, err));
    ft_status status = FT_OK;
    json_t *map = json_object_get(root, "weight_map"); /* NULL too when root is no object */
    if (!json_is_object(map)) {
        status = ft_fail(err, FT_FORMAT, "%s: no object named weight_map", path);
        goto done;
    }
    int64_t n = (int64_t)json_object_size(map);
    FT_GO(ft_tensors_check(n, path, err));
    archive->records = ft_arena_array(archive->arena, n, sizeof(ft_record));
    /* at most one a name */
    archive->shards =
        ft_arena_array(archive->arena, n < MAX_SHARDS ? n : MAX_SHARDS, sizeof(ft_shard));
    index.numbers = json_object();
    if (!archive->records || !archive->shards || !index.numbers) {
        status = no_memory(archive, err);
        goto done;
    }
    for (void *i = json_object_iter(map); i; i = json_object_iter_next(map, i))
        FT_GO(add_mapped(&index, json_object_iter_key(i), json_object_iter_value(i), err));
    qsort(archive->records, (size_t)archive->n_records, sizeof(ft_record), compare_records);
done:
    json_decref(index.numbers);
    json_decref(root);
    return status;
}

static ft_status open_file(ft_archive *archive, const char *path, ft_error *err)
{
    return ends_with(path, ".json") ? open_index(archive, path, err)
                                    : open_single(archive, path, err);
}

const char *const ft_archive_files[] = {"model.safetensors", "model.safetensors.index.json",
                                        "pytorch_model.bin", "pytorch_model.bin.index.json", NULL};

/* Finds the file within a directory that holds its tensors. */
static ft_status open_directory(ft_archive *archive, const char *path, ft_error *err)
{
    int64_t n = (int64_t)strlen(path);
    const char *directory = join(archive->arena, path, n, "/");
    if (!directory) return no_memory(archive, err);
    for (int i = 0; ft_archive_files[i]; i++) {
        const char *file = join(archive->arena, directory, n + 1, ft_archive_files[i]);
        if (!file) return no_memory(archive, err);
        if (access(file, F_OK) == 0) return open_file(archive, file, err);
    }
    return ft_fail(err, FT_NOT_FOUND, "%s: holds no weights, expected %s, %s, %s or %s", path,
                   ft_archive_files[0], ft_archive_files[1], ft_archive_files[2],
                   ft_archive_files[3]);
}

static ft_status open_path(ft_archive *archive, const char *path, ft_error *err)
{
    struct stat info;
    if (stat(path, &info) != 0) return ft_errno_fail(err, path, "cannot open");
    if (S_ISDIR(info.st_mode)) return open_directory(archive, path, err);
    return open_file(archive, path, err);
}

/* An archive without shards that knows its name. */
static ft_status new_archive(ft_archive **out, const char *path, ft_error *err)
{
    *out = NULL;
    ft_archive *archive = ft_alloc(sizeof *archive);
    if (!archive) return ft_fail(err, FT_NOMEM, "%s: no memory to open it", path);
    archive->arena = ft_arena_new();
    archive->path = archive->arena ? ft_arena_strdup(archive->arena, path) : NULL;
    if (!archive->path) {
        ft_archive_close(archive);
        return ft_fail(err, FT_NOMEM, "%s: no memory to open it", path);
    }
    *out = archive;
    return FT_OK;
}

/* The outcome of opening: the archive, or nothing. */
static ft_status finish_open(ft_archive **out, ft_status status)
{
    if (status == FT_OK) return FT_OK;
    ft_archive_close(*out);
    *out = NULL;
    return status;
}

ft_status ft_archive_open(ft_archive **out, const char *path, ft_error *err)
{
    FT_TRY(new_archive(out, path, err));
    return finish_open(out, open_path(*out, (*out)->path, err));
}

ft_status ft_archive_load(ft_archive **out, const void *bytes, int64_t size, const char *name,
                          ft_error *err)
{
    FT_TRY(new_archive(out, name, err));
    /* A file without a name, so that reading knows one kind of source only. */
    int fd = memfd_create("ftpipe", MFD_CLOEXEC);
    if (fd < 0) return finish_open(out, ft_errno_fail(err, name, "cannot be held in memory"));
    ft_status status = ft_write_all(fd, bytes, size, name, err);
    if (status == FT_OK)
        status = list_single(*out, (*out)->path, fd, err);
    else
        close(fd);
    return finish_open(out, status);
}

void ft_archive_close(ft_archive *archive)
{
    if (!archive) return;
    for (int i = 0; i < archive->n_shards; i++) close(archive->shards[i].fd);
    ft_arena_free(archive->arena);
    ft_free(archive);
}

int ft_archive_count(const ft_archive *archive)
{
    return archive->n_records;
}

const ft_entry *ft_archive_entry(const ft_archive *archive, int i)
{
    return &archive->records[i].entry;
}

int ft_archive_find(const ft_archive *archive, const char *name)
{
    ft_record key = {.entry = {.name = name}};
    if (archive->n_records == 0) return -1;
    const ft_record *found = bsearch(&key, archive->records, (size_t)archive->n_records,
                                     sizeof(ft_record), compare_records);
    return found ? (int)(found - archive->records) : -1;
}

enum {
    MAX_SPELLING = 255,   /* bytes of a name that are compared in spelling */
    MAX_COMPARED = 10000, /* names, those around the place where a missing one would stand */
};

/* Edits (insert, delete, replace one byte) that turn a into b. */
static int edit_distance(const char *a, const char *b)
{
    int row[MAX_SPELLING + 1];
    int n = (int)strnlen(a, MAX_SPELLING), m = (int)strnlen(b, MAX_SPELLING);
    for (int j = 0; j <= m; j++) row[j] = j;
    for (int i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int replaced = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            int shifted = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
            row[j] = replaced < shifted ? replaced : shifted;
        }
    }
    return row[m];
}

/* How many names stand before this one. */
static int count_before(const ft_archive *archive, const char *name)
{
    int from = 0, to = archive->n_records;
    while (from < to) {
        int middle = from + (to - from) / 2;
        if (strcmp(archive->records[middle].entry.name, name) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

const char *ft_archive_nearest(const ft_archive *archive, const char *name)
{
    const char *best = NULL;
    int least = 0, place = count_before(archive, name);
    for (int i = place < MAX_COMPARED / 2 ? 0 : place - MAX_COMPARED / 2;
         i < archive->n_records && i < place + MAX_COMPARED / 2; i++) {
        int distance = edit_distance(name, archive->records[i].entry.name);
        if (best && distance >= least) continue;
        best = archive->records[i].entry.name;
        least = distance;
    }
    return best;
}

/* Reads all elements as the destination's dtype, a piece at a time where that is another one. */
static ft_status read_elements(const ft_elements *elements, const ft_spec *spec, const ft_view *dst,
                               ft_error *err)
{
    _Alignas(64) char piece[1 << 16];
    int64_t from = ft_dtype_bytes(spec->dtype), to = ft_dtype_bytes(dst->dtype);
    int64_t count = ft_shape_count(&spec->shape), step = (int64_t)sizeof piece / from;
    if (spec->dtype == dst->dtype) return ft_elements_read(elements, 0, count, dst->data, err);
    for (int64_t i = 0; i < count; i += step) {
        int64_t n = count - i < step ? count - i : step;
        FT_TRY(ft_elements_read(elements, i, n, piece, err));
        ft_convert((char *)dst->data + i * to, dst->dtype, piece, spec->dtype, n);
    }
    return FT_OK;
}

static ft_status check_readable(const ft_record *record, const char *path, ft_error *err)
{
    if (record->entry.readable) return FT_OK;
    return ft_fail(
        err, FT_UNSUPPORTED,
        "%s: tensor '%s' of dtype %s with %d dimensions cannot be read (at most %d, of f32,"
        " f64, f16, bf16, i32, i64, u8, bool)",
        path, ft_show(record->entry.name).text, record->entry.dtype_name, record->item->n_dims,
        FT_MAX_DIMS);
}

/* To be closed, also after an error. */
static ft_status open_elements(const ft_archive *archive, const ft_record *record, ft_elements *out,
                               ft_error *err)
{
    const ft_shard *shard = &archive->shards[record->shard];
    *out = (ft_elements){0};
    FT_TRY(check_readable(record, shard->path, err));
    return ft_elements_open(out, record->item, shard->fd, shard->header.data_start, shard->path,
                            err);
}

ft_status ft_archive_read(const ft_archive *archive, int i, const ft_view *dst, ft_error *err)
{
    if (i < 0 || i >= archive->n_records)
        return ft_fail(err, FT_INVALID, "%s: no entry %d, it has %d", archive->path, i,
                       archive->n_records);
    const ft_record *record = &archive->records[i];
    const ft_shard *shard = &archive->shards[record->shard];
    const ft_spec *spec = &record->entry.spec;
    FT_TRY(check_readable(record, shard->path, err));
    if (!ft_shape_equal(&spec->shape, &dst->shape)) {
        char has[128], wants[128];
        return ft_fail(err, FT_SHAPE, "%s: tensor '%s' has shape %s, expected %s", shard->path,
                       ft_show(record->entry.name).text,
                       ft_shape_format(&spec->shape, has, sizeof has),
                       ft_shape_format(&dst->shape, wants, sizeof wants));
    }
    if (!ft_view_contiguous(dst))
        return ft_fail(err, FT_INVALID, "%s: tensor '%s' needs a contiguous destination",
                       shard->path, ft_show(record->entry.name).text);
    ft_elements elements;
    ft_status status = open_elements(archive, record, &elements, err);
    if (status == FT_OK) status = read_elements(&elements, spec, dst, err);
    ft_elements_close(&elements);
    if (status != FT_OK) ft_error_wrap(err, "tensor '%s'", ft_show(record->entry.name).text);
    return status;
}

enum { COMPARED = 4096 }; /* elements that are compared at a time */

/* Reads n elements from element i on, as dtype `to`. */
static ft_status read_piece(const ft_elements *elements, ft_dtype from, int64_t i, int64_t n,
                            ft_dtype to, void *out, ft_error *err)
{
    char piece[COMPARED * sizeof(double)];
    FT_TRY(ft_elements_read(elements, i, n, piece, err));
    ft_convert(out, to, piece, from, n);
    return FT_OK;
}

ft_status ft_archive_equal(const ft_archive *archive, int i, int j, bool *out, ft_error *err)
{
    const ft_record *a = &archive->records[i], *b = &archive->records[j];
    ft_dtype of_a = a->entry.spec.dtype, of_b = b->entry.spec.dtype;
    ft_elements first, second = {0};
    double x[COMPARED], y[COMPARED];
    ft_status status = FT_OK;
    FT_GO(open_elements(archive, a, &first, err));
    FT_GO(open_elements(archive, b, &second, err));
    *out = ft_shape_equal(&a->entry.spec.shape, &b->entry.spec.shape);
    int64_t count = ft_shape_count(&a->entry.spec.shape);
    /* f64 holds every value of the dtypes that may differ here, but not every i64. */
    ft_dtype as = of_a == of_b ? of_a : FT_F64;
    for (int64_t k = 0; *out && k < count; k += COMPARED) {
        int64_t n = count - k < COMPARED ? count - k : COMPARED;
        FT_GO(read_piece(&first, of_a, k, n, as, x, err));
        FT_GO(read_piece(&second, of_b, k, n, as, y, err));
        *out = memcmp(x, y, (size_t)(n * ft_dtype_bytes(as))) == 0;
    }
done:
    ft_elements_close(&first);
    ft_elements_close(&second);
    return status;
}

/* -- marks ------------------------------------------------------------------------------------- */

enum { SAMPLES = 64, SAMPLE_BYTES = 1024 };

/* What a digest is made of: the one of the files before, and what is known of one more. */
typedef struct ft_samples {
    uint8_t before[FT_SHA256_BYTES];
    int64_t size;
    char bytes[SAMPLES][SAMPLE_BYTES];
} ft_samples;

/* Samples from all over a file; all of a short one. */
static ft_status take_samples(const ft_shard *shard, ft_samples *out, ft_error *err)
{
    struct stat info;
    if (fstat(shard->fd, &info) != 0) return ft_errno_fail(err, shard->path, "cannot look at");
    memset(out->bytes, 0, sizeof out->bytes);
    out->size = info.st_size;
    if (out->size <= (int64_t)sizeof out->bytes)
        return ft_pread_all(shard->fd, out->bytes, out->size, 0, shard->path, err);
    for (int i = 0; i < SAMPLES; i++)
        FT_TRY(ft_pread_all(shard->fd, out->bytes[i], SAMPLE_BYTES,
                            (out->size - SAMPLE_BYTES) * i / (SAMPLES - 1), shard->path, err));
    return FT_OK;
}

ft_status ft_archive_mark(const ft_archive *archive, char mark[FT_MARK_BYTES], ft_error *err)
{
    uint8_t digest[FT_SHA256_BYTES] = {0};
    ft_samples *samples = ft_alloc(sizeof *samples);
    if (!samples) return no_memory(archive, err);
    ft_status status = FT_OK;
    for (int i = 0; status == FT_OK && i < archive->n_shards; i++) {
        memcpy(samples->before, digest, sizeof digest);
        status = take_samples(&archive->shards[i], samples, err);
        ft_sha256(samples, sizeof *samples, digest);
    }
    ft_free(samples);
    ft_mark_text(digest, mark);
    return status;
}
