/* base/map.h - names to numbers.
 *
 * An open hash table; keys are borrowed and have to live as long as the map. */
#ifndef FT_BASE_MAP_H
#define FT_BASE_MAP_H

#include <stdbool.h>
#include <stdint.h>

enum { FT_HASH_PRIME = 16777619 };
#define FT_HASH_START UINT32_C(2166136261)

/* The hash of what `hash` is the hash of (FT_HASH_START: nothing) and then these bytes. FNV-1a, 32
 * bits: http://www.isthe.com/chongo/tech/comp/fnv/ */
static inline uint32_t ft_hash(uint32_t hash, const char *bytes, int64_t n)
{
    for (int64_t i = 0; i < n; i++) hash = (hash ^ (unsigned char)bytes[i]) * FT_HASH_PRIME;
    return hash;
}

typedef struct ft_map_slot {
    const char *key; /* NULL: free */
    uint32_t hash;
    int32_t value;
} ft_map_slot;

/* Starts zeroed. */
typedef struct ft_map {
    ft_map_slot *slots;
    int64_t n_slots; /* a power of two, or 0 */
    int64_t n_keys;
} ft_map;

/* Frees the table, not the keys; the map is empty then. */
void ft_map_fini(ft_map *map);

/* Whether the key is there; its number goes to *out (when not NULL). */
bool ft_map_find(const ft_map *map, const char *key, int32_t *out);

/* Adds the key, or changes its number; false when there is no memory, and then nothing changed. */
bool ft_map_set(ft_map *map, const char *key, int32_t value);

#endif
