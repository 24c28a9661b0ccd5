/* io/internal.h - what the files of this room share. */
#ifndef FT_IO_INTERNAL_H
#define FT_IO_INTERNAL_H

#include "base/arena.h"
#include "io/io.h"

/* -- files ------------------------------------------------------------------------------------ */

/* Fails with "path: what: reason of errno": FT_NOT_FOUND when a part of the path is missing,
 * FT_NOMEM, else FT_IO. */
ft_status ft_errno_fail(ft_error *err, const char *path, const char *what);

/* The hexadecimal digits of as many bytes as a mark has. */
void ft_mark_text(const unsigned char bytes[(FT_MARK_BYTES - 1) / 2], char mark[FT_MARK_BYTES]);

/* A copy for ft_free; NULL without memory. */
char *ft_copy_text(const char *text);

/* Makes a rename, or a new name, survive a power cut. */
ft_status ft_sync_parent(const char *path, ft_error *err);

/* A name from a file, fit for a one-line message: control bytes are replaced, a long one is cut. */
typedef struct ft_shown {
    char text[160];
} ft_shown;
ft_shown ft_show(const char *name);

/* Reads exactly n bytes at an offset. FT_IO when the file ends before them. */
ft_status ft_pread_all(int fd, void *out, int64_t n, int64_t offset, const char *path,
                       ft_error *err);

/* Writes n bytes where fd stands. */
ft_status ft_write_all(int fd, const void *bytes, int64_t n, const char *path, ft_error *err);

/* A file being written beside its target, which it replaces on commit. Zeroed memory with fd -1 is
 * a writer that fini accepts. */
typedef struct ft_writer {
    int fd;
    char *path; /* the target */
    char *temp; /* exists while fd >= 0 */
} ft_writer;

ft_status ft_writer_begin(ft_writer *writer, const char *path, ft_error *err);
ft_status ft_writer_add(ft_writer *writer, const void *bytes, int64_t size, ft_error *err);
/* So many bytes in all, those that were not added zeros. */
ft_status ft_writer_extend(const ft_writer *writer, int64_t size, ft_error *err);
/* fsync, rename, fsync of the directory. */
ft_status ft_writer_commit(ft_writer *writer, ft_error *err);
/* Removes what was not committed. */
void ft_writer_fini(ft_writer *writer);

/* -- safetensors headers ---------------------------------------------------------------------- */

/* A dtype that files may have. */
typedef struct ft_file_dtype {
    const char *name;
    int bits;
} ft_file_dtype;

/* One tensor of a header. */
typedef struct ft_item {
    const char *name;
    const ft_file_dtype *dtype;
    int n_dims;                /* may be past FT_MAX_DIMS; dims then holds the first ones */
    int64_t dims[FT_MAX_DIMS]; /* each >= 0 */
    int64_t count;             /* elements */
    int64_t begin, end;        /* bytes, from the start of the data */
    const int64_t *strides;    /* elements from one to the next of each axis, all of them between
                                  begin and end; NULL: one behind the other, the last axis first */
} ft_item;

typedef struct ft_header {
    ft_item *items; /* in the order of their names */
    int n;
    int64_t data_start; /* bytes, from the start of the file */
} ft_header;

/* Tensors that an archive may hold; the largest published models have a hundred thousand. */
enum { FT_MAX_TENSORS = 1 << 18 };
/* FT_FORMAT for more than that. */
ft_status ft_tensors_check(int64_t n, const char *path, ft_error *err);

/* Reads and checks the header of an open file of `size` bytes; names and items live in the arena.
 * FT_FORMAT names the path and the broken rule. */
ft_status ft_header_read(ft_header *out, ft_arena *arena, int fd, int64_t size, const char *path,
                         ft_error *err);

/* The dtype of that name, or NULL. */
const ft_file_dtype *ft_file_dtype_find(const char *name);

/* Whether an open file begins as PyTorch's zip files do, and the header of such a file: the same
 * items, counted from the start of the file. */
bool ft_torch_is(int fd, int64_t size);
ft_status ft_torch_read(ft_header *out, ft_arena *arena, int fd, int64_t size, const char *path,
                        ft_error *err);
/* The same of its files before version 1.6, which are no zip files. */
bool ft_torch_old_is(int fd, int64_t size);
ft_status ft_torch_old_read(ft_header *out, ft_arena *arena, int fd, int64_t size, const char *path,
                            ft_error *err);

/* The elements of an item in row-major order, wherever they lie between its begin and its end. */
typedef struct ft_elements {
    const ft_item *item;
    int fd;
    const char *path;
    int64_t offset; /* of the item, in the file */
    int64_t bytes;  /* of an element */
    char *all;      /* all bytes of the item; NULL where they are in row-major order in the file */
} ft_elements;

/* The item has a dtype of whole bytes; `data_start` is that of its header. To be closed, also after
 * an error. */
ft_status ft_elements_open(ft_elements *out, const ft_item *item, int fd, int64_t data_start,
                           const char *path, ft_error *err);
/* Reads n elements from element i on; both are within the item. */
ft_status ft_elements_read(const ft_elements *elements, int64_t i, int64_t n, void *out,
                           ft_error *err);
void ft_elements_close(ft_elements *elements);

/* The item of a name, or NULL. */
const ft_item *ft_header_find(const ft_header *header, const char *name);

#endif
