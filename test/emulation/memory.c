/* emulation/memory.c - memory of cards, which is the host's. */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "emulation.h"
#include "runtime.h"
#include "streams.h"

int memory_info(size_t *free_bytes, size_t *total)
{
    BEGIN();
    long taken = atomic_load(&emulated.taken);
    *total = EMULATED_BYTES;
    *free_bytes = taken < EMULATED_BYTES ? EMULATED_BYTES - (size_t)taken : 0;
    return 0;
}

static int take(void **out, size_t bytes)
{
    *out = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (!*out) return CU_OUT_OF_MEMORY;
    memset(*out, 0xff, bytes); /* NaN: nobody may count on what is there */
    atomic_fetch_add(&emulated.open, 1);
    return 0;
}

int alloc(cu_address *out, size_t bytes)
{
    void *memory;
    BEGIN_OUTSIDE();
    int answer = take(&memory, bytes);
    if (!answer) atomic_fetch_add(&emulated.taken, (long)malloc_usable_size(memory));
    *out = (cu_address)(uintptr_t)memory;
    return answer;
}

int host_alloc(void **out, size_t bytes, unsigned flags)
{
    (void)flags;
    BEGIN_OUTSIDE();
    return take(out, bytes);
}

int host_release(void *memory)
{
    free(memory);
    atomic_fetch_sub(&emulated.open, 1);
    return 0;
}

int release(cu_address memory)
{
    void *block = (void *)(uintptr_t)memory;
    atomic_fetch_sub(&emulated.taken, (long)malloc_usable_size(block));
    return host_release(block);
}
