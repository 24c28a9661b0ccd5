/* tokens/basic.c - text into words, as BERT's "basic tokenizer" does it.
 *
 * Control characters go, blanks separate, Chinese characters and punctuation stand alone; then
 * canonical decomposition without combining marks, and lower case. Code points that this version of
 * Unicode does not have yet, as a new emoji, are letters. Most text is ASCII, which a
 * table answers for; the rest asks utf8proc.
 *
 * Decomposition goes character by character. Only the order of several combining characters behind
 * one letter could differ from that of a whole text; those that stay (class Mc with a combining
 * class: musical signs, Hangul tone marks) are in no vocabulary. */
#include <string.h>

#include <utf8proc.h>

#include "base/alloc.h"
#include "tokens/internal.h"

enum { MAX_DECOMPOSED = 32 }; /* code points of one; the longest canonical one has 4 */
enum { I_WITH_DOT = 0x130, DOT_ABOVE = 0x307, REPLACEMENT = 0xFFFD };

typedef enum { LETTER, BLANK, PUNCTUATION, HAN, MARK, DROPPED } char_class;

typedef struct splitter {
    const ft_basic_options *options;
    bool whole; /* all of the text is one word, with its blanks and punctuation */
    ft_word_sink *sink;
    void *context;
    ft_bytes word;
    int64_t n_chars; /* of word */
} splitter;

/* Chinese characters, by block: the list of BERT's own tokenizer. Not kana, not Hangul. */
static bool is_han(int32_t c)
{
    static const int32_t blocks[][2] = {
        {0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
        {0x2B740, 0x2B81F}, {0x2B820, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F},
    };
    if (c < blocks[1][0]) return false;
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (c >= blocks[i][0] && c <= blocks[i][1]) return true;
    return false;
}

static char_class ascii_class(unsigned char c)
{
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') return BLANK;
    if (c < 0x20 || c == 0x7F) return DROPPED;
    bool alphanumeric = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
    return alphanumeric ? LETTER : PUNCTUATION;
}

static char_class class_of(int32_t c)
{
    if (c < 0x80) return ascii_class((unsigned char)c);
    if (c == REPLACEMENT) return DROPPED;
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO: return DROPPED;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return BLANK;
    case UTF8PROC_CATEGORY_MN: return MARK;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO: return PUNCTUATION;
    default: return LETTER;
    }
}

/* Gives the word so far, if any, to the sink. */
static bool end_word(splitter *s)
{
    if (s->whole || s->word.n == 0) return true;
    bool wanted = s->sink(s->context, s->word.data, s->word.n, s->n_chars);
    s->word.n = s->n_chars = 0;
    return wanted;
}

static bool add_char(splitter *s, int32_t c)
{
    char bytes[4];
    int64_t n = utf8proc_encode_char(c, (utf8proc_uint8_t *)bytes);
    s->n_chars++;
    return ft_bytes_add(&s->word, bytes, n);
}

static bool add_blank(splitter *s)
{
    return s->whole ? add_char(s, ' ') : end_word(s);
}

/* Adds one code point of a cleaned, decomposed text. */
static bool add_cleaned(splitter *s, int32_t c)
{
    char_class class = class_of(c);
    if (class == MARK && s->options->strip_accents) return true;
    if (s->options->lower && c == I_WITH_DOT) /* the one lower case of two characters */
        return add_char(s, 'i') && add_char(s, DOT_ABOVE);
    if (s->options->lower) c = utf8proc_tolower(c);
    if (class != PUNCTUATION) return add_char(s, c);
    return end_word(s) && add_char(s, c) && end_word(s);
}

static bool add_decomposed(splitter *s, int32_t c)
{
    if (!s->options->strip_accents) return add_cleaned(s, c);
    utf8proc_int32_t parts[MAX_DECOMPOSED];
    int boundary = UTF8PROC_BOUNDCLASS_START;
    int64_t n = utf8proc_decompose_char(c, parts, MAX_DECOMPOSED, UTF8PROC_DECOMPOSE, &boundary);
    for (int64_t i = 0; i < n; i++)
        if (!add_cleaned(s, parts[i])) return false;
    return true;
}

static bool add_wide(splitter *s, int32_t c)
{
    char_class class = class_of(c);
    if (class == DROPPED) return true;
    if (class == BLANK) return add_blank(s);
    if (!s->options->split_han || !is_han(c)) return add_decomposed(s, c);
    return add_blank(s) && add_decomposed(s, c) && add_blank(s);
}

/* Letters and digits from text[at], which are a word or go on with one; *at moves past them. */
static bool add_ascii_run(splitter *s, const char *text, int64_t size, int64_t *at)
{
    char run[64];
    int n = 0;
    for (; *at < size && n < (int)sizeof run; ++*at) {
        unsigned char c = (unsigned char)text[*at];
        if (c >= 0x80 || ascii_class(c) != LETTER) break;
        bool upper = s->options->lower && c >= 'A' && c <= 'Z';
        run[n++] = (char)(upper ? c | 0x20 : c);
    }
    s->n_chars += n;
    return ft_bytes_add(&s->word, run, n);
}

static bool add_ascii(splitter *s, const char *text, int64_t size, int64_t *at)
{
    char_class class = ascii_class((unsigned char)text[*at]);
    if (class == LETTER) return add_ascii_run(s, text, size, at);
    int32_t c = text[(*at)++];
    if (class == DROPPED) return true;
    if (class == BLANK) return add_blank(s);
    return end_word(s) && add_char(s, c) && end_word(s);
}

static bool add_text(splitter *s, const char *text, int64_t size)
{
    bool going = true;
    for (int64_t at = 0; going && at < size;) {
        if ((unsigned char)text[at] < 0x80) {
            going = add_ascii(s, text, size, &at);
            continue;
        }
        utf8proc_int32_t c;
        at += utf8proc_iterate((const utf8proc_uint8_t *)text + at, size - at, &c);
        going = add_wide(s, c);
    }
    return going;
}

bool ft_basic_words(const char *text, int64_t size, const ft_basic_options *options,
                    ft_word_sink *sink, void *context)
{
    splitter s = {.options = options, .sink = sink, .context = context};
    bool going = add_text(&s, text, size) && end_word(&s);
    ft_free(s.word.data);
    return going;
}

bool ft_basic_normalize(const char *text, int64_t size, const ft_basic_options *options,
                        ft_bytes *out)
{
    splitter s = {.options = options, .whole = true};
    bool fits = add_text(&s, text, size) && ft_bytes_add(out, s.word.data, s.word.n);
    ft_free(s.word.data);
    return fits;
}
