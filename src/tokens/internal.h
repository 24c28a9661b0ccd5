/* tokens/internal.h - what the files of the tokenizers share.
 *
 * A kind of tokenizer is a row (ft_tokenizer_kind_row) over a model of its own. tokenizer.c does
 * what is the same for all: it looks for special tokens (special.c), gives the stretches of text
 * between them to the kind, and puts texts and pairs together. */
#ifndef FT_TOKENS_INTERNAL_H
#define FT_TOKENS_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "chain/chain.h"
#include "sentencepiece/sentencepiece.h"
#include "tokens/tokens.h"

/* -- vocabularies (vocabulary.c) -------------------------------------------------------------- */

struct ft_arena;

typedef struct ft_piece {
    const char *text; /* NUL-terminated; NULL: no piece has this id */
    int32_t size;
} ft_piece;

/* Pieces by id and ids by piece; starts zeroed. */
typedef struct ft_vocabulary {
    struct ft_arena *arena; /* of the texts */
    ft_piece *pieces;
    int n, capacity; /* ids are 0 to n - 1 */
    int32_t *slots;  /* open addressing; FT_NO_ID: free */
    int64_t n_slots; /* a power of two, more than twice as many as pieces */
    int32_t longest; /* bytes of the longest piece */
} ft_vocabulary;

/* Pieces are copied. A piece that is there already keeps its old id too, and is found by the new
 * one. FT_INVALID for an id that is taken by another piece, negative or past 2^24. */
ft_status ft_vocabulary_add(ft_vocabulary *vocabulary, const char *piece, int64_t size, int32_t id,
                            ft_error *err);
/* A NUL-terminated copy that lives as long as the vocabulary, or NULL. */
char *ft_vocabulary_copy(ft_vocabulary *vocabulary, const char *text, int64_t size);
/* FT_FORMAT when an id below n has no piece. */
ft_status ft_vocabulary_check(const ft_vocabulary *vocabulary, const char *name, ft_error *err);
void ft_vocabulary_fini(ft_vocabulary *vocabulary);
/* The id of prefix and text together, or FT_NO_ID; `hash` is ft_hash of both. */
int32_t ft_vocabulary_probe(const ft_vocabulary *vocabulary, uint32_t hash, ft_piece prefix,
                            const char *text, int64_t size);
int32_t ft_vocabulary_find(const ft_vocabulary *vocabulary, const char *text, int64_t size);

/* -- special tokens (special.c) --------------------------------------------------------------- */

/* How a special token is matched and printed. */
enum {
    FT_SPECIAL_HIDDEN = 1,      /* left out by skip_special */
    FT_SPECIAL_STRIP_LEFT = 2,  /* takes the blanks before it away */
    FT_SPECIAL_STRIP_RIGHT = 4, /* and those behind it */
    FT_SPECIAL_WORD = 8,        /* only where no letter, mark, number or connector is next to it */
    FT_SPECIAL_CASELESS = 16,   /* ASCII letters match whatever their case */
    FT_SPECIAL_NORMALIZED = 32, /* matched behind the others, in text as the kind normalizes it */
    FT_SPECIAL_AS_BEFORE = 64,  /* blanks and words as they were: ft_tokenizer_set_special */
};

enum { FT_SPECIAL_LONGEST = 255 };

/* Texts with ids of their own that are split out before anything else is done; starts zeroed. */
typedef struct ft_specials {
    ft_vocabulary texts; /* by id, with gaps */
    unsigned char *flags;
    int n_flags;
    ft_vocabulary small;                  /* the same of caseless ones, in small letters */
    bool starts[256];                     /* by first byte */
    bool lengths[FT_SPECIAL_LONGEST + 1]; /* by bytes of the text */
} ft_specials;

/* FT_UNSUPPORTED for texts longer than FT_SPECIAL_LONGEST, FT_FORMAT for empty ones. */
ft_status ft_specials_add(ft_specials *specials, const char *text, int64_t size, int32_t id,
                          int flags, ft_error *err);
void ft_specials_fini(ft_specials *specials);
/* The text of an id; .text is NULL when it is not special. */
ft_piece ft_specials_get(const ft_specials *specials, int32_t id);
/* Whether skip_special leaves this id out. */
bool ft_specials_hidden(const ft_specials *specials, int32_t id);

/* A stretch of text[from, to) that is a special token, blanks that it takes included; id FT_NO_ID:
 * there is none, and from = to = the end of the text. */
typedef struct ft_match {
    int32_t id;
    int64_t from, to;
} ft_match;

/* The first special token at or after text[from], the longest of those that begin there. */
ft_match ft_specials_find(const ft_specials *specials, const char *text, int64_t size,
                          int64_t from);

/* -- kinds ------------------------------------------------------------------------------------ */

/* What ids are put around texts: names of special tokens, NULL for none. */
typedef struct ft_pair_form {
    const char *first, *between, *last;
    int second_segment;
} ft_pair_form;

/* A name ("pad") and the texts that a vocabulary may have for it. */
typedef struct ft_special_name {
    const char *name;
    const char *texts[3];
} ft_special_name;

/* A kind of tokenizer; `model` is its own. Functions append to their lists. */
typedef struct ft_tokenizer_kind_row {
    const char *name;
    ft_pair_form pair;
    const ft_special_name *specials; /* ends with a NULL name */
    const char *separator;           /* between special tokens and their neighbours when decoding */
    int (*size)(const void *model);
    const char *(*piece)(const void *model, int32_t id);                 /* id is in [0, size) */
    int32_t (*find)(const void *model, const char *piece, int64_t size); /* its id, or FT_NO_ID */
    /* Appends text as it is before it is cut, to an empty `out`; *head is that of the result. NULL:
     * it stays as it is. */
    ft_status (*normalize)(const void *model, ft_stretch text, ft_bytes *out, int64_t *head,
                           ft_error *err);
    bool encodes_normalized; /* encode takes what normalize gave; else it normalizes by itself */
    /* Ids of valid UTF-8 text that holds no special tokens. */
    ft_status (*encode)(const void *model, ft_stretch text, ft_ids *ids, ft_error *err);
    /* Appends the text of n > 0 ids that are not special. */
    ft_status (*decode)(const void *model, const int32_t *ids, int64_t n, ft_bytes *text,
                        ft_error *err);
    void (*free)(void *model); /* NULL is accepted */
} ft_tokenizer_kind_row;

extern const ft_tokenizer_kind_row ft_kind_unigram, ft_kind_unigram_json, ft_kind_wordpiece,
    ft_kind_byte_bpe, ft_kind_bytes;

/* Puts a tokenizer together. Takes over model and specials, also when it fails. */
ft_status ft_tokenizer_new(ft_tokenizer **out, const ft_tokenizer_kind_row *kind, void *model,
                           ft_specials *specials, ft_error *err);
/* A text with an id of its own, that of an equal piece or one past all pieces; `flags` as of
 * ft_specials_add. One that has that id already keeps its flags. */
ft_status ft_tokenizer_add_text(ft_tokenizer *tokenizer, ft_slice text, int32_t id, int flags,
                                ft_error *err);
/* Makes a text special that has an id, whatever it was before, in letters as they are; one that has
 * none is passed over.
 * `role` is what ft_tokenizer_special finds it by from now on, if that is a name that it knows. */
ft_status ft_tokenizer_set_special(ft_tokenizer *tokenizer, ft_slice text, int flags,
                                   const char *role, ft_error *err);
/* FT_FORMAT when an id has neither a piece nor a text. */
ft_status ft_tokenizer_check(const ft_tokenizer *tokenizer, ft_error *err);
/* Adds those of the kind's special names that the vocabulary has. */
ft_status ft_specials_add_names(ft_specials *specials, const ft_special_name *names,
                                const ft_vocabulary *vocabulary, ft_error *err);

/* -- unigram (unigram.c): libsentencepiece ---------------------------------------------------- */

/* FT_FORMAT when the bytes are no model. The model is for ft_kind_unigram.free. */
ft_status ft_unigram_new(void **out, const void *bytes, int64_t size, ft_error *err);

struct json_t;

/* Special tokens of unigram models; ends with a NULL name. */
extern const ft_special_name ft_unigram_specials[];

/* What a Unigram tokenizer.json says, executed as the library `tokenizers` does (unigram_json.c).
 * FT_UNSUPPORTED names a part that is not executed. The model is for ft_kind_unigram_json.free. */
ft_status ft_unigram_json_new(void **out, const struct json_t *root, const char *name,
                              ft_error *err);

/* -- what is put around texts (template.c) ---------------------------------------------------- */

enum { FT_TEMPLATE_ITEMS = 32, FT_TEMPLATE_A = -2, FT_TEMPLATE_B = -3 };

/* Texts and ids, in order. */
typedef struct ft_template {
    struct {
        int32_t id; /* or FT_TEMPLATE_A, FT_TEMPLATE_B for a text */
        int32_t segment;
    } items[FT_TEMPLATE_ITEMS];
    int n;
} ft_template;

/* A text alone, and a pair. */
typedef struct ft_templates {
    ft_template single, pair;
} ft_templates;

/* From the post_processor of a tokenizer.json, of n ids: single.n is 0 where it is no template, and
 * the kind's own form counts. FT_UNSUPPORTED and FT_FORMAT name the part. */
ft_status ft_templates_read(ft_templates *out, const struct json_t *processor, int n,
                            const char *name, ft_error *err);
/* From now on texts are put together so. */
void ft_tokenizer_set_templates(ft_tokenizer *tokenizer, const ft_templates *templates);

/* -- WordPiece (wordpiece.c, basic.c) --------------------------------------------------------- */

enum { FT_WORDPIECE_LONGEST_WORD = 100 };

typedef struct ft_wordpiece_options {
    ft_basic_options basic;
    const char *unknown;  /* the piece of words that cannot be put together */
    const char *prefix;   /* of pieces that go on within a word */
    int64_t longest_word; /* in code points; longer ones are unknown */
} ft_wordpiece_options;

/* Takes the vocabulary over, also when it fails. */
ft_status ft_wordpiece_new(void **out, ft_vocabulary *vocabulary,
                           const ft_wordpiece_options *options, const char *name, ft_error *err);

/* Borrowed from the model. */
const ft_basic_options *ft_wordpiece_basic(const void *model);

/* FT_FORMAT for text that is not UTF-8, with the byte's position. */
ft_status ft_tokens_check(const char *text, int64_t size, ft_error *err);

/* Takes a word of n bytes and so many code points; false ends the splitting. */
typedef bool ft_word_sink(void *context, const char *word, int64_t n, int64_t n_chars);

/* Gives each word of valid UTF-8 text to the sink; false when out of memory or the sink said so. */
bool ft_basic_words(const char *text, int64_t size, const ft_basic_options *options,
                    ft_word_sink *sink, void *context);

/* Appends valid UTF-8 text as words are taken from it: without control characters, a space for each
 * blank and around Chinese characters, case and accents as the options say. False when out of
 * memory. */
bool ft_basic_normalize(const char *text, int64_t size, const ft_basic_options *options,
                        ft_bytes *out);

/* -- byte-level BPE (byte_bpe.c, merges.c) ---------------------------------------------------- */

/* Pairs of ids that are put together, in order of rank. */
typedef struct ft_merge {
    int32_t left, right, rank, whole; /* left FT_NO_ID: a free slot */
} ft_merge;

typedef struct ft_merges {
    ft_merge *slots; /* open addressing by left and right */
    int64_t n_slots; /* a power of two, or 0 */
    int32_t n;
} ft_merges;

/* Adds the next rank; the first of two equal pairs counts. False when out of memory. */
bool ft_merges_add(ft_merges *merges, int32_t left, int32_t right, int32_t whole);
void ft_merges_fini(ft_merges *merges);

/* What merging works in; starts zeroed, and is used again by the next word. */
typedef struct ft_merge_space {
    struct ft_symbol *symbols;
    uint64_t *heap;
    int64_t n_heap, room_symbols, room_heap;
} ft_merge_space;

void ft_merge_space_fini(ft_merge_space *space);
/* Puts together, again and again, the leftmost pair of the lowest rank; returns how many of the ids
 * are left, in place, or -1 when out of memory. O(n log n). */
int64_t ft_merges_apply(const ft_merges *merges, ft_merge_space *space, int32_t *ids, int64_t n);

/* Takes the vocabulary and the merges over, also when it fails. */
ft_status ft_byte_bpe_new(void **out, ft_vocabulary *vocabulary, ft_merges *merges,
                          bool prefix_space, ft_error *err);

#endif
