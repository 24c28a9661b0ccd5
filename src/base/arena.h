/* base/arena.h - memory that is freed together.
 *
 * A graph, a split, a plan: each owns an arena; nothing inside is freed alone. */
#ifndef FT_BASE_ARENA_H
#define FT_BASE_ARENA_H

#include <stdint.h>

typedef struct ft_arena ft_arena;

/* A new empty arena, or NULL when there is no memory. */
ft_arena *ft_arena_new(void);
void ft_arena_free(ft_arena *arena);

/* Zeroed memory aligned to 16 bytes that lives as long as the arena, or NULL. */
void *ft_arena_alloc(ft_arena *arena, int64_t bytes);

/* As ft_arena_alloc for n things of `size` bytes; NULL too when the product overflows. */
void *ft_arena_array(ft_arena *arena, int64_t n, int64_t size);

/* The same, with a copy of these n things (of NULL: zeros), and room for one more. */
void *ft_arena_copy(ft_arena *arena, const void *from, int64_t n, int64_t size);

/* The list of n things with room for one more, in a place that is new when n is 0 or a power of
 * two; NULL when there is no memory. */
void *ft_arena_room(ft_arena *arena, void *list, int64_t n, int64_t size);

/* A copy of the string, or NULL. */
char *ft_arena_strdup(ft_arena *arena, const char *text);

#endif
