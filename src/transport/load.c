/* transport/load.c - the module that knows MPI, opened at run time; which program this is. */
#include <dlfcn.h>
#include <link.h>
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

bool ft_world_module(char *path, int size)
{
    char program[512];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n < 0) n = 0;
    program[n] = 0;
    char *slash = strrchr(program, '/');
    if (slash) *slash = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, (size_t)size, "%s/%s", program, places[i]);
        if (access(path, F_OK) == 0) return true;
    }
    return false;
}

ft_status load_mpi(const ft_mpi **out, ft_error *err)
{
    char path[640];
    if (!ft_world_module(path, sizeof path))
        return ft_fail(err, FT_UNSUPPORTED,
                       "a launcher started several processes, but this program was built without "
                       "MPI: there is no libftpipe_mpi.so beside it; install libopenmpi-dev and "
                       "build anew");
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL); /* plugins of MPI look for it */
    ft_mpi_get *get = library ? find_get(library) : NULL;
    if (!get) return ft_fail(err, FT_UNSUPPORTED, "MPI cannot be used: %s", dlerror());
    *out = get();
    if ((*out)->version == FT_MPI_VERSION) return FT_OK;
    return ft_fail(err, FT_UNSUPPORTED, "%s is not of this program: build both anew", path);
}

/* -- which program ----------------------------------------------------------------------------- */

enum { BUILD_ID_BYTES = 8 }; /* of it, that are told apart */

/* What the linker wrote into the program: a digest of all of it. */
static int find_build_id(struct dl_phdr_info *info, size_t size, void *out)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        const char *at = (const char *)(info->dlpi_addr + part->p_vaddr);
        const char *end = part->p_type == PT_NOTE ? at + part->p_memsz : at;
        while (at < end) {
            const ElfW(Nhdr) *note = (const void *)at;
            const char *name = at + sizeof *note;
            const char *digest = name + (note->n_namesz + 3) / 4 * 4;
            bool ours = note->n_type == NT_GNU_BUILD_ID && note->n_descsz >= BUILD_ID_BYTES;
            if (ours && note->n_namesz == 4 && !memcmp(name, "GNU", 4)) {
                memcpy(out, digest, BUILD_ID_BYTES);
                return 1;
            }
            at = digest + (note->n_descsz + 3) / 4 * 4;
        }
    }
    return 1; /* the first object is the program; libraries are not asked */
}

void describe_build(const char *version, char *out, size_t size)
{
    unsigned char id[BUILD_ID_BYTES] = {0};
    dl_iterate_phdr(find_build_id, id);
    int used = snprintf(out, size, "%s, build ", version);
    for (int i = 0; i < BUILD_ID_BYTES && used > 0 && used < (int)size; i++)
        used += snprintf(out + used, size - (size_t)used, "%02x", id[i]);
}
