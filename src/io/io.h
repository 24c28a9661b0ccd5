/* io/io.h - tensors on disk.
 *
 * An archive is a set of named tensors in one file, of safetensors or of PyTorch, or in the shards
 * of an index. Opening reads and checks headers only; a tensor's bytes are read when asked for,
 * with pread, so that a file that shrinks meanwhile is an error and not a signal. Thread-safe after
 * opening. */
#ifndef FT_IO_H
#define FT_IO_H

#include <jansson.h>

#include "base/error.h"
#include "tensor/tensor.h"

typedef struct ft_archive ft_archive;

typedef struct ft_entry {
    const char *name;
    ft_spec spec;           /* of one that is not readable: its bytes, as u8 */
    bool readable;          /* the dtype is one of ours, with at most FT_MAX_DIMS dimensions */
    const char *dtype_name; /* as in the file */
} ft_entry;

/* The names that a directory's weights may have, NULL behind the last; the first that is there
 * counts. */
extern const char *const ft_archive_files[];

/* Opens a .safetensors file, a zip of PyTorch (.bin), an index of shards (.index.json), or a
 * directory holding one of ft_archive_files. FT_NOT_FOUND, FT_IO, FT_FORMAT: the message names the
 * file and the rule that is broken. */
ft_status ft_archive_open(ft_archive **out, const char *path, ft_error *err);
/* As ft_archive_open, of a safetensors file that lies in memory; the bytes are copied. `name`
 * stands for the path in messages. */
ft_status ft_archive_load(ft_archive **out, const void *bytes, int64_t size, const char *name,
                          ft_error *err);
void ft_archive_close(ft_archive *archive);

/* Entries in the order of their names. */
int ft_archive_count(const ft_archive *archive);
const ft_entry *ft_archive_entry(const ft_archive *archive, int i);
int ft_archive_find(const ft_archive *archive, const char *name); /* -1: none */
/* The name nearest in spelling, for error messages; NULL for an empty archive. Of many names some
 * thousands are looked at, and the first 255 bytes of each. */
const char *ft_archive_nearest(const ft_archive *archive, const char *name);

/* Reads entry i into dst (contiguous, shapes equal), converting to dst's dtype. FT_SHAPE names both
 * shapes, FT_IO tells of a file that is shorter than its header says, FT_UNSUPPORTED of an entry
 * that is not readable. */
ft_status ft_archive_read(const ft_archive *archive, int i, const ft_view *dst, ft_error *err);
/* Whether entries i and j, both in range, hold the same shape and values (f16, bf16 and f32 compare
 * by value); reads a piece at a time. */
ft_status ft_archive_equal(const ft_archive *archive, int i, int j, bool *out, ft_error *err);

/* A text for which files these are, by their sizes and samples of their bytes, the same wherever
 * they lie: not of two files that differ in most of their tensors. */
enum { FT_MARK_BYTES = 33 };
ft_status ft_archive_mark(const ft_archive *archive, char mark[FT_MARK_BYTES], ft_error *err);

/* A tensor to write. */
typedef struct ft_named_view {
    const char *name;
    ft_view view; /* contiguous */
} ft_named_view;

/* Writes a safetensors file with {"format":"pt"} metadata: beside the target, fsynced, renamed. On
 * failure the target is as it was and nothing is left beside it. Order on disk: dtype alignment
 * (wide first), then name; the header is padded to 8 bytes. */
ft_status ft_safetensors_write(const char *path, const ft_named_view *tensors, int n,
                               ft_error *err);
/* The same file without the bytes of its tensors: by tensor, `at` gets where in it they belong.
 * Views need no data. */
ft_status ft_safetensors_lay_out(const char *path, const ft_named_view *tensors, int n, int64_t *at,
                                 ft_error *err);

/* Writes into a file that is there, at places that nobody else writes meanwhile. Borrows the path.
 * To be closed, also after an error. */
typedef struct ft_filler {
    int fd;
    const char *path;
} ft_filler;
ft_status ft_filler_open(ft_filler *out, const char *path, ft_error *err);
ft_status ft_filler_add(const ft_filler *filler, const void *bytes, int64_t n, int64_t at,
                        ft_error *err);
/* What was added survives a power cut. */
ft_status ft_filler_sync(const ft_filler *filler, ft_error *err);
void ft_filler_close(ft_filler *filler);

/* A random text in a file beside another one, "PATH.mark": who finds it there sees the file that it
 * was set for, and not one that has the same path elsewhere. */
ft_status ft_mark_set(const char *path, char mark[FT_MARK_BYTES], ft_error *err);
void ft_mark_remove(const char *path);
/* Whether the file at that path is the one with this mark, and may be written. */
bool ft_mark_is(const char *path, const char *mark);

/* A whole file into memory, NUL-terminated (*size does not count it); free with ft_free. */
ft_status ft_file_read(const char *path, char **out, int64_t *size, ft_error *err);
/* Replaces a file whole: beside, fsync, rename. */
ft_status ft_file_write(const char *path, const void *bytes, int64_t size, ft_error *err);
/* mkdir -p. */
ft_status ft_dir_make(const char *path, ft_error *err);
/* Puts directory `from` in the place of `to` in one step, on the same file system; what was at
 * `to`, if anything, is at `from` afterwards. */
ft_status ft_dir_exchange(const char *from, const char *to, ft_error *err);

/* Makes the names in a directory survive a power cut. */
ft_status ft_dir_sync(const char *path, ft_error *err);
/* Makes `path` a symbolic link to `target`, in one step: what was there is replaced, if it is no
 * directory. */
ft_status ft_link_set(const char *path, const char *target, ft_error *err);
/* Where a symbolic link points, as it was set; FT_NOT_FOUND when it is not there or no
 * link. */
ft_status ft_link_read(const char *path, char *out, int64_t size, ft_error *err);
/* Bytes that may still be written to the file system of a file or directory that exists. */
ft_status ft_disk_free(const char *path, int64_t *bytes, ft_error *err);

/* n bytes as a gzip file of *n_out bytes, for ft_free. FT_INVALID over 1 GiB, FT_NOMEM. */
ft_status ft_gzip(const void *bytes, int64_t n, void **out, int64_t *n_out, ft_error *err);

typedef struct ft_lock ft_lock;

/* Locks a file for this process, and makes it when it is not there; the lock lasts until it is
 * freed or the process ends. When another process has it, *out is NULL and *holder the number of
 * that process (0: not known). Within a process the file is locked once: whichever lock of it is
 * freed first unlocks it. A file system that has no locks gives one to everybody. */
ft_status ft_lock_take(ft_lock **out, const char *path, int64_t *holder, ft_error *err);
/* Whether it keeps others out: false on a file system without locks. */
bool ft_lock_guards(const ft_lock *lock);
/* Whether another process has a lock of the file, and the number of that process (0: not known).
 * Takes nothing and makes no file. A process that has a lock of the file itself must not ask: it
 * would lose it. */
ft_status ft_lock_look(const char *path, bool *held, int64_t *holder, ft_error *err);
void ft_lock_free(ft_lock *lock);

/* Values of one JSON text; SQuAD has some 800,000. */
enum { FT_MAX_JSON_VALUES = 1 << 23 };

/* JSON through jansson: duplicate keys refused, errors as "file:line:column: what". The text need
 * not be NUL-terminated; `name` is for messages. json_decref the result. */
ft_status ft_json_parse(json_t **out, const char *text, int64_t size, const char *name,
                        ft_error *err);
ft_status ft_json_read(json_t **out, const char *path, ft_error *err);

/* State of a run on disk, in a directory (swap_file.c). A file has no name, and room for all of it
 * from the beginning. FT_NOT_FOUND, FT_IO: the message begins with the directory. */
typedef struct ft_swap_file ft_swap_file;
ft_status ft_swap_file_open(ft_swap_file **out, const char *dir, int64_t bytes, ft_error *err);
/* In the same words, without a file: FT_IO where n files of these sizes together have no room now,
 * or one is larger than this process may write. Quotas are not asked. */
ft_status ft_swap_room(const char *dir, const int64_t *bytes, int n, ft_error *err);
void ft_swap_file_close(ft_swap_file *file); /* NULL is accepted */
/* Its bytes as memory, between reads and writes; zeros at first, or what was written. */
char *ft_swap_file_at(const ft_swap_file *file, int64_t at);
/* Memory in front of the disk may be taken for something else. */
void ft_swap_file_rest(const ft_swap_file *file);
/* Bytes per second that it was written with when it was opened. */
double ft_swap_file_rate(const ft_swap_file *file);
uint64_t ft_swap_file_sum(const void *bytes, int64_t n);
ft_status ft_swap_file_write(const ft_swap_file *file, int64_t at, const void *from, int64_t n,
                             ft_error *err);
/* FT_IO when the file cannot be read, or when what was read has another sum. */
ft_status ft_swap_file_read(const ft_swap_file *file, int64_t at, void *to, int64_t n, uint64_t sum,
                            ft_error *err);

#endif
