/* data/answer.c - answers as SQuAD's official evaluation compares them.
 *
 * normal = lower case, without the ASCII punctuation, without the words a, an, the, blanks joined.
 * The official script is Python, so the rules are Python's: str.lower() with its final sigma, \b
 * between alphanumeric and other characters of Unicode, str.split().
 * Source: Rajpurkar et al., arXiv:1606.05250, evaluate-v1.1.py. */
#include "data/data.h"

#include <string.h>
#include <utf8proc.h>

#include "base/alloc.h"
#include "base/utf8.h"

enum {
    MAX_UTF8 = 4,   /* bytes of a code point */
    MAX_GROWTH = 3, /* lower case takes at most this many times the bytes: U+0130, U+023A */
    CAPITAL_I_DOT = 0x0130,
    COMBINING_DOT = 0x0307,
    CAPITAL_SIGMA = 0x03A3,
    FINAL_SIGMA = 0x03C2,
    LAST_ASCII = 0x7F,
};

/* The code point at `text`, which is valid UTF-8, and how many bytes it has. */
static int32_t decode(const char *text, int64_t size, int64_t *bytes)
{
    utf8proc_int32_t c;
    *bytes = utf8proc_iterate((const utf8proc_uint8_t *)text, size, &c);
    return c;
}

static int64_t encode(int32_t c, char *out)
{
    return utf8proc_encode_char(c, (utf8proc_uint8_t *)out);
}

/* What str.isspace() calls blank. */
static bool is_blank(int32_t c)
{
    if (c <= LAST_ASCII) return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
    if (c == 0x85) return true;
    utf8proc_category_t category = utf8proc_category(c);
    return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
           category == UTF8PROC_CATEGORY_ZP;
}

static bool is_ascii_punctuation(int32_t c)
{
    return c > ' ' && c < LAST_ASCII && !(c >= '0' && c <= '9') && !(c >= 'A' && c <= 'Z') &&
           !(c >= 'a' && c <= 'z');
}

static bool in_categories(int32_t c, utf8proc_category_t first, utf8proc_category_t last)
{
    utf8proc_category_t category = utf8proc_category(c);
    return category >= first && category <= last;
}

/* What \w matches, the underscore apart, which is punctuation and already gone. */
static bool is_alphanumeric(int32_t c)
{
    return in_categories(c, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO) ||
           in_categories(c, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO);
}

/* Letters with case; Roman numerals, letters in circles and the ordinal indicators have it too. */
static bool is_cased(int32_t c)
{
    if (c == 0xAA || c == 0xBA || (c >= 0x2160 && c <= 0x217F) || (c >= 0x24B6 && c <= 0x24E9))
        return true;
    return in_categories(c, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LT);
}

/* Marks, format characters, modifiers, and the punctuation inside words: the Unicode Standard,
 * section 3.13, calls them case-ignorable. */
static bool is_case_ignorable(int32_t c)
{
    static const int32_t inside_words[] = {'\'',   '.',    ':',    0xB7,   0x387,  0x55F,
                                           0x5F4,  0x2018, 0x2019, 0x2024, 0x2027, 0xFE13,
                                           0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
    for (size_t i = 0; i < sizeof inside_words / sizeof *inside_words; i++)
        if (c == inside_words[i]) return true;
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK: return true;
    default: return false;
    }
}

/* Whether the first character of a text that is not case-ignorable is a cased letter. */
static bool begins_cased(const char *text, int64_t size)
{
    int64_t bytes;
    for (int64_t i = 0; i < size; i += bytes) {
        int32_t c = decode(text + i, size - i, &bytes);
        if (!is_case_ignorable(c)) return is_cased(c);
    }
    return false;
}

/* Lower case without ASCII punctuation, into `out`; gives the number of bytes. A capital sigma that
 * ends a word, with a cased letter before it and none after, becomes a final sigma. */
static int64_t lower(const char *text, int64_t size, char *out)
{
    int64_t n = 0, bytes;
    bool cased = false; /* the last character that is not case-ignorable */
    for (int64_t i = 0; i < size; i += bytes) {
        int32_t c = decode(text + i, size - i, &bytes);
        bool final =
            c == CAPITAL_SIGMA && cased && !begins_cased(text + i + bytes, size - i - bytes);
        if (!is_case_ignorable(c)) cased = is_cased(c);
        if (is_ascii_punctuation(c)) continue;
        int32_t small = final ? FINAL_SIGMA : c == CAPITAL_I_DOT ? 'i' : utf8proc_tolower(c);
        n += encode(small, out + n);
        if (c == CAPITAL_I_DOT) n += encode(COMBINING_DOT, out + n);
    }
    return n;
}

static bool is_article(const char *word, int64_t size)
{
    return (size == 1 && word[0] == 'a') || (size == 2 && memcmp(word, "an", 2) == 0) ||
           (size == 3 && memcmp(word, "the", 3) == 0);
}

/* The bytes from `text` on that are one run: of letters and digits, else a single character. */
static int64_t run_length(const char *text, int64_t size)
{
    int64_t n, bytes;
    if (!is_alphanumeric(decode(text, size, &n))) return n;
    while (n < size && is_alphanumeric(decode(text + n, size - n, &bytes))) n += bytes;
    return n;
}

/* Articles become blanks, blanks are joined and trimmed; in place. Gives the number of bytes. */
static int64_t drop_articles(char *text, int64_t size)
{
    int64_t n = 0, length;
    bool gap = false;
    for (int64_t i = 0; i < size; i += length) {
        int64_t bytes;
        length = run_length(text + i, size - i);
        if (is_blank(decode(text + i, size - i, &bytes)) || is_article(text + i, length)) {
            gap = true;
            continue;
        }
        if (gap && n > 0) text[n++] = ' '; /* what is skipped was one byte at least */
        gap = false;
        memmove(text + n, text + i, (size_t)length);
        n += length;
    }
    return n;
}

static ft_status check_utf8(const char *text, int64_t size, ft_error *err)
{
    int64_t at = ft_utf8_check(text, size);
    if (at < 0) return FT_OK;
    return ft_fail(err, FT_FORMAT, "answer: byte 0x%02x at position %lld is not UTF-8",
                   (unsigned char)text[at], (long long)at + 1);
}

ft_status ft_answer_normal(const char *text, int64_t size, char **out, int64_t *n, ft_error *err)
{
    *out = NULL;
    FT_TRY(check_utf8(text, size, err));
    int64_t room;
    char *normal = ft_size_mul(size, MAX_GROWTH, &room) ? ft_alloc(room + MAX_UTF8) : NULL;
    if (!normal) return ft_fail(err, FT_NOMEM, "answer: no memory for %lld bytes", (long long)size);
    *n = drop_articles(normal, lower(text, size, normal));
    normal[*n] = 0;
    *out = normal;
    return FT_OK;
}

ft_status ft_answer_squeeze(const char *text, int64_t size, char **out, int64_t *n, ft_error *err)
{
    *out = NULL;
    FT_TRY(check_utf8(text, size, err));
    char *joined = ft_alloc(size + 1);
    if (!joined) return ft_fail(err, FT_NOMEM, "answer: no memory for %lld bytes", (long long)size);
    int64_t length = 0, bytes;
    bool gap = false;
    for (int64_t i = 0; i < size; i += bytes) {
        bool blank = is_blank(decode(text + i, size - i, &bytes));
        if (!blank && gap && length > 0) joined[length++] = ' ';
        gap = blank;
        if (blank) continue;
        memcpy(joined + length, text + i, (size_t)bytes);
        length += bytes;
    }
    joined[length] = 0;
    *out = joined;
    *n = length;
    return FT_OK;
}
