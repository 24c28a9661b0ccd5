/* test/preload/count_malloc.c - counts the allocations that the program's threads make.
 *
 * Preloaded (LD_PRELOAD) into ftpipe, it stands before malloc, calloc, realloc, aligned_alloc,
 * memalign, posix_memalign and mmap. A call of any thread counts as the program's own when the code
 * that called lies in the program, as a library's otherwise (Lua's own memory is one's). At exit it
 * writes both numbers to the file that COUNT_MALLOC names. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The allocator itself; glibc exports it under these names too, so that no look-up allocates. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *block, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

static atomic_llong own, libraries;
static uintptr_t program_begin, program_end;

static int find_program(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t end = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
        if (info->dlpi_phdr[i].p_type == PT_LOAD && end > program_end) program_end = end;
    }
    program_begin = info->dlpi_addr;
    return 1; /* the first one is the program */
}

__attribute__((constructor)) static void begin(void)
{
    dl_iterate_phdr(find_program, NULL);
}

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("COUNT_MALLOC");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) return;
    fprintf(file, "%lld %lld\n", atomic_load(&own), atomic_load(&libraries));
    fclose(file);
}

static void count(const void *caller)
{
    if (!program_end) return;
    uintptr_t at = (uintptr_t)caller;
    atomic_fetch_add(at >= program_begin && at < program_end ? &own : &libraries, 1);
}

void *malloc(size_t bytes)
{
    count(__builtin_return_address(0));
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    count(__builtin_return_address(0));
    return __libc_calloc(n, bytes);
}

void *realloc(void *block, size_t bytes)
{
    count(__builtin_return_address(0));
    return __libc_realloc(block, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    count(__builtin_return_address(0));
    return __libc_memalign(alignment, bytes);
}

void *memalign(size_t alignment, size_t bytes)
{
    count(__builtin_return_address(0));
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **block, size_t alignment, size_t bytes)
{
    count(__builtin_return_address(0));
    *block = __libc_memalign(alignment, bytes);
    return *block ? 0 : ENOMEM;
}

void *mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset)
{
    count(__builtin_return_address(0));
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, file, offset);
}

void *mmap64(void *at, size_t bytes, int protection, int flags, int file, off_t offset)
{
    count(__builtin_return_address(0));
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, file, offset);
}
