/* tokens/special.c - tokens that stand in text as they are written: </s>, [MASK], <|endoftext|>.
 *
 * At each byte that begins one of them the longest text that matches is taken, as an
 * Aho-Corasick automaton for leftmost-longest matches would. */
#include <string.h>

#include <utf8proc.h>

#include "base/alloc.h"
#include "tokens/internal.h"

static void make_small(char *out, const char *text, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] - 'A' + 'a') : text[i];
}

/* Enters a text by its small letters. */
static ft_status add_caseless(ft_specials *specials, const char *text, int64_t size, int32_t id,
                              ft_error *err)
{
    char small[FT_SPECIAL_LONGEST];
    make_small(small, text, size);
    specials->starts[(unsigned char)small[0]] = true;
    if (small[0] >= 'a' && small[0] <= 'z') specials->starts[small[0] - 'a' + 'A'] = true;
    return ft_vocabulary_add(&specials->small, small, size, id, err);
}

ft_status ft_specials_add(ft_specials *specials, const char *text, int64_t size, int32_t id,
                          int flags, ft_error *err)
{
    if (size == 0) return ft_fail(err, FT_FORMAT, "special token %d is empty", (int)id);
    if (size > FT_SPECIAL_LONGEST)
        return ft_fail(err, FT_UNSUPPORTED, "special token %d has %lld bytes, expected at most %d",
                       (int)id, (long long)size, FT_SPECIAL_LONGEST);
    FT_TRY(ft_vocabulary_add(&specials->texts, text, size, id, err));
    if (id >= specials->n_flags) {
        unsigned char *all = ft_realloc(specials->flags, specials->texts.capacity);
        if (!all) return ft_fail(err, FT_NOMEM, "tokenizer: no memory for special tokens");
        specials->flags = all;
        specials->n_flags = specials->texts.capacity;
    }
    specials->flags[id] = (unsigned char)flags;
    specials->starts[(unsigned char)text[0]] = true;
    specials->lengths[size] = true;
    return flags & FT_SPECIAL_CASELESS ? add_caseless(specials, text, size, id, err) : FT_OK;
}

ft_status ft_specials_add_names(ft_specials *specials, const ft_special_name *names,
                                const ft_vocabulary *vocabulary, ft_error *err)
{
    for (; names->name; names++)
        for (int i = 0; i < 3 && names->texts[i]; i++) {
            const char *text = names->texts[i];
            int64_t size = (int64_t)strlen(text);
            int32_t id = ft_vocabulary_find(vocabulary, text, size);
            if (id != FT_NO_ID && !ft_specials_get(specials, id).text)
                FT_TRY(ft_specials_add(specials, text, size, id, FT_SPECIAL_HIDDEN, err));
        }
    return FT_OK;
}

void ft_specials_fini(ft_specials *specials)
{
    ft_vocabulary_fini(&specials->texts);
    ft_vocabulary_fini(&specials->small);
    ft_free(specials->flags);
    *specials = (ft_specials){0};
}

ft_piece ft_specials_get(const ft_specials *specials, int32_t id)
{
    return id >= 0 && id < specials->texts.n ? specials->texts.pieces[id] : (ft_piece){0};
}

bool ft_specials_hidden(const ft_specials *specials, int32_t id)
{
    return ft_specials_get(specials, id).text && (specials->flags[id] & FT_SPECIAL_HIDDEN);
}

/* The code point that begins at text[at]; 0 at the end. */
static int32_t char_at(const char *text, int64_t size, int64_t at)
{
    utf8proc_int32_t c = 0;
    if (at < size) utf8proc_iterate((const utf8proc_uint8_t *)text + at, size - at, &c);
    return c;
}

/* Where the code point before text[at] begins; at > 0. */
static int64_t step_back(const char *text, int64_t at)
{
    do at--;
    while (at > 0 && ((unsigned char)text[at] & 0xC0) == 0x80);
    return at;
}

/* The token whose text these n bytes are, in its own letters before any case, or FT_NO_ID. */
static int32_t find_text(const ft_specials *specials, const char *text, int64_t n)
{
    char small[FT_SPECIAL_LONGEST];
    int32_t id = ft_vocabulary_find(&specials->texts, text, n);
    if (id != FT_NO_ID && specials->flags[id] & FT_SPECIAL_NORMALIZED) return FT_NO_ID;
    if (id != FT_NO_ID || specials->small.n == 0) return id;
    make_small(small, text, n);
    id = ft_vocabulary_find(&specials->small, small, n);
    return id != FT_NO_ID && specials->flags[id] & FT_SPECIAL_CASELESS ? id : FT_NO_ID;
}

/* The longest special token that text[at] begins. */
static ft_match match_at(const ft_specials *specials, const char *text, int64_t size, int64_t at)
{
    int64_t left = size - at, longest = specials->texts.longest;
    for (int64_t n = left < longest ? left : longest; n > 0; n--) {
        if (!specials->lengths[n]) continue;
        int32_t id = find_text(specials, text + at, n);
        if (id != FT_NO_ID) return (ft_match){id, at, at + n};
    }
    return (ft_match){FT_NO_ID, at, at};
}

/* Whether a token that has to be a word of its own is part of a longer one. */
static bool is_inside(const ft_specials *specials, ft_match match, const char *text, int64_t size)
{
    if (!(specials->flags[match.id] & FT_SPECIAL_WORD)) return false;
    int64_t from = match.from, to = match.to;
    return (from > 0 && ft_char_is_word(char_at(text, size, step_back(text, from)))) ||
           ft_char_is_word(char_at(text, size, to));
}

/* With the blanks that the token takes away, back to `from` at most. */
static ft_match widen(const ft_specials *specials, ft_match match, const char *text, int64_t size,
                      int64_t from)
{
    int flags = specials->flags[match.id];
    while (flags & FT_SPECIAL_STRIP_LEFT && match.from > from) {
        int64_t before = step_back(text, match.from);
        if (!ft_char_is_blank(char_at(text, size, before))) break;
        match.from = before;
    }
    while (flags & FT_SPECIAL_STRIP_RIGHT && match.to < size) {
        utf8proc_int32_t c;
        int64_t n =
            utf8proc_iterate((const utf8proc_uint8_t *)text + match.to, size - match.to, &c);
        if (n <= 0 || !ft_char_is_blank(c)) break;
        match.to += n;
    }
    return match;
}

ft_match ft_specials_find(const ft_specials *specials, const char *text, int64_t size, int64_t from)
{
    for (int64_t at = from; at < size; at++) {
        if (!specials->starts[(unsigned char)text[at]]) continue;
        ft_match match = match_at(specials, text, size, at);
        if (match.id == FT_NO_ID) continue;
        if (!is_inside(specials, match, text, size))
            return widen(specials, match, text, size, from);
        at = match.to - 1; /* nor is a token found in its text */
    }
    return (ft_match){FT_NO_ID, size, size};
}
