/* base/map.c - open addressing with linear probing, at most half full. */
#include "base/map.h"

#include <string.h>

#include "base/alloc.h"

static uint32_t hash_of(const char *key)
{
    return ft_hash(FT_HASH_START, key, (int64_t)strlen(key));
}

/* The slot of the key, or the free one where it belongs. */
static ft_map_slot *probe(const ft_map *map, const char *key, uint32_t hash)
{
    int64_t mask = map->n_slots - 1;
    for (int64_t i = hash & mask;; i = (i + 1) & mask) {
        ft_map_slot *slot = &map->slots[i];
        if (!slot->key || (slot->hash == hash && !strcmp(slot->key, key))) return slot;
    }
}

void ft_map_fini(ft_map *map)
{
    ft_free(map->slots);
    *map = (ft_map){0};
}

bool ft_map_find(const ft_map *map, const char *key, int32_t *out)
{
    if (!map->n_slots) return false;
    const ft_map_slot *slot = probe(map, key, hash_of(key));
    if (slot->key && out) *out = slot->value;
    return slot->key;
}

static bool grow(ft_map *map)
{
    ft_map bigger = {.n_slots = map->n_slots ? map->n_slots * 2 : 16, .n_keys = map->n_keys};
    bigger.slots = ft_alloc(bigger.n_slots * (int64_t)sizeof *bigger.slots);
    if (!bigger.slots) return false;
    for (int64_t i = 0; i < map->n_slots; i++) {
        const ft_map_slot *slot = &map->slots[i];
        if (slot->key) *probe(&bigger, slot->key, slot->hash) = *slot;
    }
    ft_free(map->slots);
    *map = bigger;
    return true;
}

bool ft_map_set(ft_map *map, const char *key, int32_t value)
{
    if ((map->n_keys + 1) * 2 > map->n_slots && !grow(map)) return false;
    uint32_t hash = hash_of(key);
    ft_map_slot *slot = probe(map, key, hash);
    if (!slot->key) map->n_keys++;
    *slot = (ft_map_slot){slot->key ? slot->key : key, hash, value};
    return true;
}
