/* test/fuzz/fuzz_pickle.c - any bytes as the data.pkl of a PyTorch file: what is accepted describes
 * tensors that can be named and counted. */
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "io/pickle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ft_error err;
    ft_pickled *tensors = NULL;
    int n = 0;
    ft_pickles pickles;
    ft_arena *arena = ft_arena_new();
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (!arena || fd < 0 || write(fd, data, size) != (ssize_t)size) __builtin_trap();
    ft_pickles_of(&pickles, fd, 0, (int64_t)size, "x");
    if (ft_pickle_tensors(&tensors, &n, arena, &pickles, "y", &err) == FT_OK)
        for (int i = 0; i < n; i++) {
            if (!tensors[i].name || !tensors[i].storage || !tensors[i].dtype) __builtin_trap();
            if (tensors[i].offset < 0 || tensors[i].n_dims > FT_MAX_DIMS) __builtin_trap();
            for (int d = 0; d < tensors[i].n_dims; d++)
                if (tensors[i].dims[d] < 0) __builtin_trap();
        }
    ft_arena_free(arena);
    close(fd);
    return 0;
}
