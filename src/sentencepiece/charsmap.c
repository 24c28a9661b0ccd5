/* sentencepiece/charsmap.c - text as sentencepiece normalises it, in T5's way.
 *
 * Some stretches of text stand for others, by a map that comes with the model: the longest key that
 * begins at a place is replaced, a character that begins none stays. Runs of spaces become one,
 * outer ones go, each is written U+2581, and there is one in front. Source: the normaliser of
 * sentencepiece (Kudo and Richardson, EMNLP 2018), whose results these are to the byte. */
#include <string.h>

#include "base/alloc.h"
#include "sentencepiece/spm_file.h"
#include "sentencepiece/sentencepiece.h"

static const char mark[] = "\xE2\x96\x81"; /* U+2581 */
enum { MARK_BYTES = sizeof mark - 1 };

/* The text of the longest key that begins text[0, size), or of the shortest, and the key's bytes; 0
 * bytes: there is none. */
static const char *find_key(const ft_charmap *map, const char *text, int64_t size, bool shortest,
                            int64_t *bytes)
{
    const char *found = NULL;
    int64_t node = 0;
    *bytes = 0;
    if (!map->trie.size) return NULL;
    for (int64_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        node = ft_trie_base(ft_trie_unit(map->trie, node), node) ^ c;
        uint32_t unit = ft_trie_unit(map->trie, node);
        if ((unit & (FT_SPM_TRIE_LEAF | 0xFF)) != c) break;
        if (!(unit & FT_SPM_TRIE_ENDS)) continue;
        uint32_t leaf = ft_trie_unit(map->trie, ft_trie_base(unit, node));
        found = map->texts + (leaf & ~FT_SPM_TRIE_LEAF);
        *bytes = i + 1;
        if (shortest) break;
    }
    return found;
}

/* Appends bytes with U+2581 for each space; false when out of memory. */
static bool put(ft_bytes *out, const char *text, int64_t n)
{
    for (int64_t from = 0; from < n;) {
        const char *space = memchr(text + from, ' ', (size_t)(n - from));
        int64_t to = space ? space - text : n;
        if (!ft_bytes_add(out, text + from, to - from) ||
            (space && !ft_bytes_add(out, mark, MARK_BYTES)))
            return false;
        from = to + 1;
    }
    return true;
}

/* Bytes of the character that begins text[0, size). A key may end within one, and what is left of
 * it says nothing of its length. */
static int64_t char_bytes(const char *text, int64_t size)
{
    unsigned char c = (unsigned char)text[0];
    int64_t n = c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
    return n < size ? n : size;
}

bool ft_charmap_apply(const ft_charmap *map, const char *text, int64_t size, ft_bytes *out)
{
    bool after_space = true;
    for (int64_t at = 0, step; at < size; at += step) {
        const char *part = find_key(map, text + at, size - at, false, &step);
        int64_t n = part ? (int64_t)strlen(part) : 0;
        if (!step) {
            part = text + at;
            n = step = char_bytes(part, size - at);
        }
        while (after_space && n > 0 && *part == ' ') part++, n--;
        if (n == 0) continue;
        if ((out->n == 0 && !ft_bytes_add(out, mark, MARK_BYTES)) || !put(out, part, n))
            return false;
        after_space = part[n - 1] == ' ';
    }
    while (out->n >= MARK_BYTES && memcmp(out->data + out->n - MARK_BYTES, mark, MARK_BYTES) == 0)
        out->n -= MARK_BYTES;
    return true;
}

/* -- maps of their own ------------------------------------------------------------------------ */

bool ft_charmap_copy(ft_charmap *map, const char *bytes, int64_t size)
{
    uint32_t trie;
    map->bytes = ft_alloc(size);
    if (!map->bytes) return false;
    memcpy(map->bytes, bytes, (size_t)size);
    memcpy(&trie, map->bytes, FT_SPM_TRIE_AT);
    map->trie = (ft_span){(unsigned char *)map->bytes + FT_SPM_TRIE_AT, trie};
    map->texts = map->bytes + FT_SPM_TRIE_AT + trie;
    return true;
}

ft_status ft_charmap_new(ft_charmap **out, const char *bytes, int64_t size, ft_error *err)
{
    *out = NULL;
    FT_TRY(ft_charmap_check((ft_span){(const unsigned char *)bytes, size}, err));
    ft_charmap *map = ft_alloc(sizeof *map);
    if (!map || !ft_charmap_copy(map, bytes, size)) {
        ft_free(map);
        return ft_fail(err, FT_NOMEM, "tokenizer: no memory for a character map");
    }
    *out = map;
    return FT_OK;
}

void ft_charmap_free(ft_charmap *map)
{
    if (!map) return;
    ft_free(map->bytes);
    ft_free(map);
}

const char *ft_charmap_shortest(const ft_charmap *map, const char *text, int64_t size)
{
    int64_t bytes;
    const char *found = find_key(map, text, size, true, &bytes);
    /* one that begins within a character stands for nothing */
    return found && ((unsigned char)found[0] & 0xC0) == 0x80 ? NULL : found;
}
