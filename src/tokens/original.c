/* tokens/original.c - pieces of normalised text as a part of the text that they were made from.
 *
 * Both are compared without their blanks: when the words as the tokenizer sees them have as many
 * characters as the original, characters correspond one to one, and the ends of the pieces are
 * found in the original, with its case, accents and blanks. Source: get_final_text of run_squad.py,
 * the program published with Devlin et al., arXiv:1810.04805. */
#include <string.h>

#include "tokens/internal.h"

#include "base/alloc.h"

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Whether a character that is no space begins with this byte of UTF-8. */
static bool is_solid(char c)
{
    unsigned char byte = (unsigned char)c;
    return byte != ' ' && (byte < 0x80 || byte >= 0xC0);
}

/* How many characters that are no spaces there are. */
static int64_t count_solid(const char *text, int64_t size)
{
    int64_t n = 0;
    for (int64_t i = 0; i < size; i++) n += is_solid(text[i]);
    return n;
}

/* Where the k-th such character is, counted from 0. */
static int64_t find_solid(ft_slice text, int64_t k)
{
    for (int64_t i = 0; i < text.size; i++)
        if (is_solid(text.bytes[i]) && k-- == 0) return i;
    return text.size;
}

/* Position after the character at `at`. */
static int64_t behind(ft_slice text, int64_t at)
{
    do at++;
    while (at < text.size && ((unsigned char)text.bytes[at] & 0xC0) == 0x80);
    return at;
}

/* Takes every `cut` out of a text, in place. */
static void remove_all(ft_bytes *text, const char *cut)
{
    int64_t n = 0, width = (int64_t)strlen(cut);
    for (int64_t i = 0; i < text->n;) {
        bool found = i + width <= text->n && memcmp(text->data + i, cut, (size_t)width) == 0;
        if (found)
            i += width;
        else
            text->data[n++] = text->data[i++];
    }
    text->n = n;
}

/* One space between words, none at the ends, in place. */
static void squeeze(ft_bytes *text)
{
    int64_t n = 0;
    for (int64_t i = 0; i < text->n; i++) {
        if (!is_blank(text->data[i]))
            text->data[n++] = text->data[i];
        else if (n > 0 && text->data[n - 1] != ' ')
            text->data[n++] = ' ';
    }
    text->n = n > 0 && text->data[n - 1] == ' ' ? n - 1 : n;
}

/* Pieces as words: "##" joins a piece to the one before it. */
static ft_status join(const ft_tokenizer *tokenizer, const int32_t *ids, int64_t n, ft_bytes *text,
                      ft_error *err)
{
    for (int64_t i = 0; i < n; i++) {
        const char *piece = ft_tokenizer_piece(tokenizer, ids[i]);
        if (!piece)
            return ft_fail(err, FT_INVALID, "%d is not an id of this tokenizer, expected 0 to %d",
                           (int)ids[i], ft_tokenizer_size(tokenizer) - 1);
        if ((i > 0 && !ft_bytes_add(text, " ", 1)) ||
            !ft_bytes_add(text, piece, (int64_t)strlen(piece)))
            return ft_bytes_no_memory(text, err);
    }
    remove_all(text, " ##");
    remove_all(text, "##");
    squeeze(text);
    return FT_OK;
}

/* A word behind those before it, with a space between. */
static bool add_word(void *context, const char *word, int64_t size, int64_t n_chars)
{
    (void)n_chars;
    ft_bytes *text = context;
    return (text->n == 0 || ft_bytes_add(text, " ", 1)) && ft_bytes_add(text, word, size);
}

/* The part of `original` that `answer` is of `seen`; all of it when it is in none. */
static ft_slice project(const ft_bytes *answer, const ft_bytes *seen, ft_slice original)
{
    int64_t within = count_solid(answer->data, answer->n);
    if (within == 0 || seen->n == 0) return original;
    const char *at = memmem(seen->data, (size_t)seen->n, answer->data, (size_t)answer->n);
    if (!at || count_solid(original.bytes, original.size) != count_solid(seen->data, seen->n))
        return original;
    int64_t before = count_solid(seen->data, at - seen->data);
    int64_t first = find_solid(original, before);
    int64_t end = behind(original, find_solid(original, before + within - 1));
    return (ft_slice){original.bytes + first, end - first};
}

ft_status ft_tokenizer_original(const ft_tokenizer *tokenizer, const int32_t *ids, int64_t n,
                                ft_slice original, ft_slice *part, ft_error *err)
{
    static const ft_basic_options all = {true, true, true};
    const ft_basic_options *own = ft_tokenizer_basic(tokenizer);
    ft_bytes answer = {0}, seen = {0};
    FT_TRY(ft_tokens_check(original.bytes, original.size, err));
    ft_status status = join(tokenizer, ids, n, &answer, err);
    if (status == FT_OK &&
        !ft_basic_words(original.bytes, original.size, own ? own : &all, add_word, &seen))
        status = ft_bytes_no_memory(&seen, err);
    if (status == FT_OK) *part = project(&answer, &seen, original);
    ft_free(answer.data);
    ft_free(seen.data);
    return status;
}
