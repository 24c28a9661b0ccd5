/* io/pickle.h - the tensors that a pickle describes, between the files of this room. */
#ifndef FT_IO_PICKLE_H
#define FT_IO_PICKLE_H

#include "io/internal.h"

/* A tensor of a state dict: where it lies within a storage. */
typedef struct ft_pickled {
    const char *name;
    const char *storage; /* key: the file data/KEY of the zip */
    const ft_file_dtype *dtype;
    int64_t offset; /* elements */
    int n_dims;
    int64_t dims[FT_MAX_DIMS];
    int64_t strides[FT_MAX_DIMS]; /* elements, >= 0 */
} ft_pickled;

/* Reads the pickle of a flat dict of name -> tensor. Nothing is executed: opcodes and names outside
 * what such a dict needs are FT_FORMAT. The result lives in the arena. */
ft_status ft_pickle_read(ft_pickled **out, int *n, ft_arena *arena, const char *bytes, int64_t size,
                         const char *path, ft_error *err);

#endif
