/* transport/load.c - the module that knows MPI, opened at run time. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "transport/world.h"

/* Beside the program, or where it is installed. */
static const char *const places[] = {"libftpipe_mpi.so", "../lib/ftpipe/libftpipe_mpi.so"};

/* An opened library's function by its name: POSIX has them as the addresses that they are. */
static ft_mpi_get *find_get(void *library)
{
    ft_mpi_get *get = NULL;
    void *address = dlsym(library, "ftpipe_mpi");
    memcpy(&get, &address, sizeof get);
    return get;
}

ft_status load_mpi(const ft_mpi **out, ft_error *err)
{
    char program[512], path[640];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n < 0) n = 0;
    program[n] = 0;
    char *slash = strrchr(program, '/');
    if (slash) *slash = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s/%s", program, places[i]);
        if (access(path, F_OK) != 0) continue;
        void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL); /* plugins of MPI look for it */
        ft_mpi_get *get = library ? find_get(library) : NULL;
        if (!get) return ft_fail(err, FT_UNSUPPORTED, "MPI cannot be used: %s", dlerror());
        *out = get();
        if ((*out)->version == FT_MPI_VERSION) return FT_OK;
        return ft_fail(err, FT_UNSUPPORTED, "%s is not of this program: build both anew", path);
    }
    return ft_fail(err, FT_UNSUPPORTED,
                   "a launcher started several processes, but this program was built without MPI: "
                   "there is no libftpipe_mpi.so beside it; install libopenmpi-dev and build anew");
}
