/* tokens/vocabulary.c - pieces by id, ids by piece.
 * Open addressing with linear probing, at most half full. */
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/map.h"
#include "tokens/internal.h"

enum { MAX_ID = 1 << 24 };

int32_t ft_vocabulary_probe(const ft_vocabulary *vocabulary, uint32_t hash, ft_piece prefix,
                            const char *text, int64_t size)
{
    if (!vocabulary->n_slots) return FT_NO_ID;
    int64_t mask = vocabulary->n_slots - 1;
    for (int64_t i = hash & mask;; i = (i + 1) & mask) {
        int32_t id = vocabulary->slots[i];
        if (id == FT_NO_ID) return FT_NO_ID;
        ft_piece piece = vocabulary->pieces[id];
        if (piece.size == prefix.size + size &&
            memcmp(piece.text, prefix.text, (size_t)prefix.size) == 0 &&
            memcmp(piece.text + prefix.size, text, (size_t)size) == 0)
            return id;
    }
}

int32_t ft_vocabulary_find(const ft_vocabulary *vocabulary, const char *text, int64_t size)
{
    return ft_vocabulary_probe(vocabulary, ft_hash(FT_HASH_START, text, size), (ft_piece){"", 0},
                               text, size);
}

/* Makes the piece found by its text. There is a free slot. */
static void enter(ft_vocabulary *vocabulary, int32_t id)
{
    ft_piece piece = vocabulary->pieces[id];
    int64_t mask = vocabulary->n_slots - 1;
    int64_t i = ft_hash(FT_HASH_START, piece.text, piece.size) & mask;
    while (vocabulary->slots[i] != FT_NO_ID) {
        ft_piece other = vocabulary->pieces[vocabulary->slots[i]];
        if (other.size == piece.size && memcmp(other.text, piece.text, (size_t)piece.size) == 0)
            break;
        i = (i + 1) & mask;
    }
    vocabulary->slots[i] = id;
}

/* Room for ids below n; pieces that are there are entered into a larger table, in order. */
static bool grow(ft_vocabulary *vocabulary, int n)
{
    int capacity = n < 128 ? 256 : 2 * n;
    ft_piece *pieces = ft_realloc(vocabulary->pieces, capacity * (int64_t)sizeof *pieces);
    if (!pieces) return false;
    vocabulary->pieces = pieces;
    int64_t n_slots = 512;
    while (n_slots < 2 * (int64_t)capacity) n_slots *= 2;
    int32_t *slots = ft_realloc(vocabulary->slots, n_slots * (int64_t)sizeof *slots);
    if (!slots) return false;
    memset(slots, 0xFF, (size_t)n_slots * sizeof *slots);
    vocabulary->slots = slots;
    vocabulary->n_slots = n_slots;
    vocabulary->capacity = capacity;
    for (int id = 0; id < vocabulary->n; id++)
        if (pieces[id].text) enter(vocabulary, id);
    return true;
}

char *ft_vocabulary_copy(ft_vocabulary *vocabulary, const char *text, int64_t size)
{
    if (!vocabulary->arena) vocabulary->arena = ft_arena_new();
    char *copy = vocabulary->arena ? ft_arena_alloc(vocabulary->arena, size + 1) : NULL;
    if (copy) memcpy(copy, text, (size_t)size);
    return copy;
}

ft_status ft_vocabulary_add(ft_vocabulary *vocabulary, const char *piece, int64_t size, int32_t id,
                            ft_error *err)
{
    if (id < 0 || id >= MAX_ID)
        return ft_fail(err, FT_FORMAT, "piece '%.*s' has id %d, expected 0 to %d",
                       (int)(size < 64 ? size : 64), piece, (int)id, MAX_ID - 1);
    char *text = ft_vocabulary_copy(vocabulary, piece, size);
    if (!text || (id >= vocabulary->capacity && !grow(vocabulary, id + 1)))
        return ft_fail(err, FT_NOMEM, "tokenizer: no memory for a vocabulary of %d", (int)id + 1);
    for (; vocabulary->n <= id; vocabulary->n++) vocabulary->pieces[vocabulary->n].text = NULL;
    if (vocabulary->pieces[id].text)
        return ft_fail(err, FT_FORMAT, "id %d is that of '%.64s' and of '%.*s'", (int)id,
                       vocabulary->pieces[id].text, (int)(size < 64 ? size : 64), piece);
    vocabulary->pieces[id] = (ft_piece){text, (int32_t)size};
    if (size > vocabulary->longest) vocabulary->longest = (int32_t)size;
    enter(vocabulary, id);
    return FT_OK;
}

ft_status ft_vocabulary_check(const ft_vocabulary *vocabulary, const char *name, ft_error *err)
{
    for (int id = 0; id < vocabulary->n; id++)
        if (!vocabulary->pieces[id].text)
            return ft_fail(err, FT_FORMAT, "%s: no piece has id %d, and another one has %d", name,
                           id, vocabulary->n - 1);
    return FT_OK;
}

void ft_vocabulary_fini(ft_vocabulary *vocabulary)
{
    if (vocabulary->arena) ft_arena_free(vocabulary->arena);
    ft_free(vocabulary->pieces);
    ft_free(vocabulary->slots);
    *vocabulary = (ft_vocabulary){0};
}
