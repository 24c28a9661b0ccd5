/* base/alloc.c - counted allocation with a test hook for failures.
 * The counters are the room's only mutable state. */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static atomic_llong live_blocks;
static atomic_llong total_blocks;
static atomic_llong fail_countdown;
static _Thread_local int64_t thread_blocks;

static void count_block(bool is_new)
{
    if (is_new) atomic_fetch_add(&live_blocks, 1);
    atomic_fetch_add(&total_blocks, 1);
    thread_blocks++;
}

static bool fails_now(void)
{
    if (atomic_load_explicit(&fail_countdown, memory_order_relaxed) == 0) return false;
    return atomic_fetch_sub(&fail_countdown, 1) == 1;
}

void *ft_alloc(int64_t bytes)
{
    if (bytes < 0 || fails_now()) return NULL;
    void *block = calloc(1, bytes ? (size_t)bytes : 1);
    if (block) count_block(true);
    return block;
}

void *ft_realloc(void *block, int64_t bytes)
{
    if (!block) return ft_alloc(bytes);
    if (bytes < 0 || fails_now()) return NULL;
    void *moved = realloc(block, bytes ? (size_t)bytes : 1);
    if (moved) count_block(false);
    return moved;
}

void ft_free(void *block)
{
    if (!block) return;
    atomic_fetch_sub(&live_blocks, 1);
    free(block);
}

void *ft_alloc_for(size_t bytes, void *context)
{
    (void)context;
    return ft_alloc((int64_t)bytes);
}

void ft_free_for(void *block, void *context)
{
    (void)context;
    ft_free(block);
}

bool ft_size_mul(int64_t n, int64_t size, int64_t *out)
{
    return n >= 0 && size >= 0 && !__builtin_mul_overflow(n, size, out);
}

enum { HUGE_PAGE = 2 << 20 };

static int64_t page_round(int64_t bytes)
{
    return (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

void *ft_pages_alloc(int64_t bytes)
{
    if (bytes < 0 || bytes > INT64_MAX - HUGE_PAGE || fails_now()) return NULL;
    size_t size = (size_t)page_round(bytes ? bytes : 1);
    void *pages = aligned_alloc(HUGE_PAGE, size);
    if (!pages) return NULL;
    (void)madvise(pages, size, MADV_HUGEPAGE); /* advice only: small pages work as well */
    memset(pages, 0, size);
    count_block(true);
    return pages;
}

void ft_pages_rest(void *block, int64_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)block;
    uintptr_t begin = (at + page - 1) / page * page, end = (at + (uintptr_t)bytes) / page * page;
    if (begin < end) (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
}

void ft_pages_free(void *pages, int64_t bytes)
{
    (void)bytes;
    if (!pages) return;
    atomic_fetch_sub(&live_blocks, 1);
    free(pages);
}

int64_t ft_alloc_live(void)
{
    return atomic_load(&live_blocks);
}

int64_t ft_alloc_count(void)
{
    return atomic_load(&total_blocks);
}

int64_t ft_alloc_thread_count(void)
{
    return thread_blocks;
}

void ft_alloc_fail_after(int64_t n)
{
    atomic_store(&fail_countdown, n);
}
