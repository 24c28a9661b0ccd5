/* base/alloc.h - the only door to the heap.
 *
 * Rooms never call malloc themselves, so that tests can count live blocks and make the n-th
 * allocation fail, and so that a training step can be shown to allocate nothing. */
#ifndef FT_BASE_ALLOC_H
#define FT_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed memory for `bytes` (0 gives a valid block), or NULL when there is none. */
void *ft_alloc(int64_t bytes);

/* As realloc; new bytes are not zeroed. On failure NULL, and the old block stays. */
void *ft_realloc(void *block, int64_t bytes);

/* Frees a block of ft_alloc or ft_realloc; NULL is accepted. */
void ft_free(void *block);

/* The same in the form in which libraries call who allocates for them; `context` is ignored. */
void *ft_alloc_for(size_t bytes, void *context);
void ft_free_for(void *block, void *context);

/* n * size in bytes, or false when it does not fit in an int64_t or is negative. */
bool ft_size_mul(int64_t n, int64_t size, int64_t *out);

/* Big, long-lived memory: 2 MiB aligned, huge pages advised, zeroed and touched, so that a page
 * fault never falls into a step. NULL when there is none. Freed with ft_pages_free(same bytes). */
void *ft_pages_alloc(int64_t bytes);
void ft_pages_free(void *pages, int64_t bytes);

/* Gives the memory within a block back to the system, as far as it is whole pages: zeros are there
 * then. */
void ft_pages_rest(void *block, int64_t bytes);

/* Number of blocks alive, and of allocations ever made (any thread). */
int64_t ft_alloc_live(void);
int64_t ft_alloc_count(void);
/* Allocations ever made by the calling thread: what happens between two calls is its own doing. */
int64_t ft_alloc_thread_count(void);

/* Test hook: the n-th allocation from now fails (1 = the next); 0 switches it off. */
void ft_alloc_fail_after(int64_t n);

#endif
