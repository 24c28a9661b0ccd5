/* base/arena.c - chunks in a list, each twice as large as the one before it, up to a limit, for
 * what is small is to be had often; a request larger than a chunk gets one of its own. */
#include "base/arena.h"

#include <stddef.h>
#include <string.h>

#include "base/alloc.h"

/* AddressSanitizer, of GCC or clang, knows nothing of arrays in a chunk: it is told where each
 * ends. */
#ifdef __SANITIZE_ADDRESS__
#define WATCHED 1
#elif defined(__has_feature)
#define WATCHED __has_feature(address_sanitizer)
#else
#define WATCHED 0
#endif

#if WATCHED
#include <sanitizer/asan_interface.h>
enum { GUARD_BYTES = 16 };
#define guard(at, bytes)   ASAN_POISON_MEMORY_REGION(at, (size_t)(bytes))
#define open_up(at, bytes) ASAN_UNPOISON_MEMORY_REGION(at, (size_t)(bytes))
#else
enum { GUARD_BYTES = 0 };
#define guard(at, bytes)   ((void)0)
#define open_up(at, bytes) ((void)0)
#endif

typedef struct chunk {
    struct chunk *next;
    int64_t used;
    int64_t size;
    _Alignas(16) char bytes[];
} chunk;

struct ft_arena {
    chunk *head;
};

enum { FIRST_BYTES = 4 << 10, MOST_BYTES = 64 << 10 };

ft_arena *ft_arena_new(void)
{
    return ft_alloc(sizeof(ft_arena));
}

void ft_arena_free(ft_arena *arena)
{
    if (!arena) return;
    for (chunk *c = arena->head; c;) {
        chunk *next = c->next;
        open_up(c->bytes, c->size);
        ft_free(c);
        c = next;
    }
    ft_free(arena);
}

static chunk *add_chunk(ft_arena *arena, int64_t bytes)
{
    int64_t size = arena->head ? 2 * arena->head->size : FIRST_BYTES;
    if (size > MOST_BYTES) size = MOST_BYTES;
    if (size < bytes) size = bytes;
    chunk *c = ft_alloc((int64_t)sizeof(chunk) + size);
    if (!c) return NULL;
    guard(c->bytes, size);
    c->size = size;
    c->next = arena->head;
    arena->head = c;
    return c;
}

void *ft_arena_alloc(ft_arena *arena, int64_t bytes)
{
    if (bytes < 0 || bytes > INT64_MAX / 2) return NULL;
    int64_t taken = ((bytes + 15) & ~(int64_t)15) + GUARD_BYTES;
    chunk *c = arena->head;
    if (!c || c->size - c->used < taken) c = add_chunk(arena, taken);
    if (!c) return NULL;
    void *block = c->bytes + c->used;
    c->used += taken;
    open_up(block, bytes);
    return block;
}

void *ft_arena_array(ft_arena *arena, int64_t n, int64_t size)
{
    int64_t bytes;
    return ft_size_mul(n, size, &bytes) ? ft_arena_alloc(arena, bytes) : NULL;
}

void *ft_arena_copy(ft_arena *arena, const void *from, int64_t n, int64_t size)
{
    void *to = ft_arena_array(arena, n + 1, size);
    if (to && from && n) memcpy(to, from, (size_t)(n * size));
    return to;
}

void *ft_arena_room(ft_arena *arena, void *list, int64_t n, int64_t size)
{
    if (n & (n - 1)) return list;
    void *more = ft_arena_array(arena, n ? 2 * n : 1, size);
    if (more && n) memcpy(more, list, (size_t)(n * size));
    return more;
}

char *ft_arena_strdup(ft_arena *arena, const char *text)
{
    int64_t bytes = (int64_t)strlen(text) + 1;
    char *copy = ft_arena_alloc(arena, bytes);
    if (copy) memcpy(copy, text, (size_t)bytes);
    return copy;
}
