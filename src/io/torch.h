/* io/torch.h - what the two forms of PyTorch's files share. */
#ifndef FT_IO_TORCH_H
#define FT_IO_TORCH_H

#include "io/pickle.h"

enum {
    FT_TORCH_PICKLE = 1 << 26
}; /* bytes of a state dict, at most: some 250 for each of
      FT_MAX_TENSORS */

/* Bytes within a file. */
typedef struct ft_range {
    int64_t begin, size;
} ft_range;

/* A little-endian number of n bytes. */
uint64_t ft_little(const char *bytes, int n);

/* A file whose storages are known. */
typedef struct ft_torch_file {
    const char *path;
    ft_arena *arena; /* of what is read of it */
    void *storages;
    /* Finds the bytes of a storage; FT_FORMAT when there is none of that key. */
    ft_status (*find)(void *storages, const char *key, ft_range *out, ft_error *err);
} ft_torch_file;

/* The items of n tensors, in the order of their names, counted from the start of the file. */
ft_status ft_torch_items(ft_header *out, const ft_torch_file *file, const ft_pickled *tensors,
                         int n, ft_error *err);

#endif
