/* io/pickle.h - what pickles describe, between the files of this room. */
#ifndef FT_IO_PICKLE_H
#define FT_IO_PICKLE_H

#include "io/internal.h"

/* A tensor of a state dict: where it lies within a storage. */
typedef struct ft_pickled {
    const char *name;
    const char *storage; /* its key */
    const ft_file_dtype *dtype;
    int64_t offset; /* elements */
    int n_dims;
    int64_t dims[FT_MAX_DIMS];
    int64_t strides[FT_MAX_DIMS]; /* elements, >= 0 */
} ft_pickled;

enum { FT_PICKLE_OPERAND = 1 << 15 }; /* bytes of a text, at most */

/* Bytes of a file that are read as pickles, one behind the other. */
typedef struct ft_pickles {
    int fd;
    const char *path;
    int64_t next, end; /* of the file: what is read next, and where the bytes end */
    int used, n;       /* of the window: bytes that were taken, and that were read */
    unsigned char window[FT_PICKLE_OPERAND];
} ft_pickles;

/* Bytes `begin` to `end` of an open file. */
void ft_pickles_of(ft_pickles *out, int fd, int64_t begin, int64_t end, const char *path);
/* Where the next pickle begins in the file. */
int64_t ft_pickles_at(const ft_pickles *pickles);

/* These read the next pickle; `what` names it in messages. Nothing is executed: opcodes and names
 * outside what weights need are FT_FORMAT. Results live in the arena. */

/* A flat dict of name -> tensor. */
ft_status ft_pickle_tensors(ft_pickled **out, int *n, ft_arena *arena, ft_pickles *pickles,
                            const char *what, ft_error *err);
/* A list of texts. */
ft_status ft_pickle_texts(const char ***out, int64_t *n, ft_arena *arena, ft_pickles *pickles,
                          const char *what, ft_error *err);
/* The number, or the flag as 0 or 1, of a key of a dict. */
ft_status ft_pickle_number(int64_t *out, const char *key, ft_arena *arena, ft_pickles *pickles,
                           const char *what, ft_error *err);

#endif
