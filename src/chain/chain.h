/* chain/chain.h - text as tokenizer.json has it prepared for its model.
 *
 * A chain has normalizers, which change text, and cutters (the file calls them pre-tokenizers),
 * which cut it into the parts that the model gets. Each is a row of a table (normalizers.c,
 * cutters.c), and gives what the library `tokenizers` gives, also where that is odd. */
#ifndef FT_CHAIN_H
#define FT_CHAIN_H

#include "sentencepiece/lists.h"

/* A stretch of a text. `head`: how many of its bytes come from the text's first character, none
 * when it begins behind that; some parts are prepared differently at the beginning of a text. */
typedef struct ft_stretch {
    const char *bytes; /* valid UTF-8 */
    int64_t size, head;
} ft_stretch;

/* What text[from, to) of a stretch is. */
ft_stretch ft_stretch_part(ft_stretch text, int64_t from, int64_t to);

typedef struct ft_chain ft_chain;
struct json_t;

/* From the parts `normalizer` and `pre_tokenizer` of a tokenizer.json, either of which may be NULL.
 * FT_UNSUPPORTED names what is no row, FT_FORMAT what is no such part; `name` is the file's. */
ft_status ft_chain_new(ft_chain **out, const struct json_t *normalizer, const struct json_t *cutter,
                       const char *name, ft_error *err);
void ft_chain_free(ft_chain *chain); /* NULL is accepted */

/* Appends normalized text to `out`, which is empty; *head is that of the result. Thread-safe.
 * FT_UNSUPPORTED for text that an expression takes too long on. */
ft_status ft_chain_normalize(const ft_chain *chain, ft_stretch text, ft_bytes *out, int64_t *head,
                             ft_error *err);

/* Takes a part of a text, size > 0; what it returns ends the cutting when it is not FT_OK. */
typedef ft_status ft_part_sink(void *context, const char *part, int64_t size, ft_error *err);
/* Gives the parts of normalized text to the sink, in order. Thread-safe. Fails as above. */
ft_status ft_chain_cut(const ft_chain *chain, ft_stretch text, ft_part_sink *sink, void *context,
                       ft_error *err);

/* White space: a code point that has Unicode's property White_Space. */
bool ft_char_is_blank(int32_t c);
/* The same as members of a class in a pattern: PCRE2's \s has U+180E too. */
#define FT_CHAR_BLANKS                                                                             \
    "\\x09-\\x0D\\x20\\x85\\xA0\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}"   \
    "\\x{3000}"
/* \w of Unicode's regular expressions (UTS #18, annex C): letters, marks, digits, connectors and
 * joiners; of other signs letters in circles and squares. */
bool ft_char_is_word(int32_t c);

#endif
