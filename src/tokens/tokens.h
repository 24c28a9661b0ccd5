/* tokens/tokens.h - text into token ids, and back. */
#ifndef FT_TOKENS_H
#define FT_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "sentencepiece/lists.h"

/* Text into ids and back, by one of four rules: unigram pieces (T5), WordPiece (BERT), byte-level
 * BPE (GPT-2), bytes (ByT5). What is done with a tokenizer does not depend on which it is; all of
 * it is thread-safe. `name` is for messages: the file that the bytes came from. */
typedef struct ft_tokenizer ft_tokenizer;

/* Bytes of somebody else: of a text, of a file. */
typedef struct ft_slice {
    const char *bytes;
    int64_t size;
} ft_slice;

/* How BERT cuts text into words before it looks at its vocabulary. */
typedef struct ft_basic_options {
    bool lower;         /* letters to lower case */
    bool strip_accents; /* canonical decomposition, then without combining marks */
    bool split_han;     /* each Chinese character is a word */
} ft_basic_options;

/* A sentencepiece model from a file or from memory (spiece.model), plus `extra_ids` sentinels
 * <extra_id_0> ... that are numbered downwards from pieces + extra_ids - 1. */
ft_status ft_tokenizer_open(ft_tokenizer **out, const char *path, int extra_ids, ft_error *err);
ft_status ft_tokenizer_load(ft_tokenizer **out, const void *bytes, int64_t size, int extra_ids,
                            ft_error *err);
/* WordPiece from vocab.txt: a piece a line, numbered from 0; of equal lines the last one counts.
 * unknown: the piece that unknown words become, NULL for [UNK]; FT_FORMAT when there is none. */
ft_status ft_tokenizer_load_wordpiece(ft_tokenizer **out, const char *vocab, int64_t size,
                                      const char *name, const ft_basic_options *options,
                                      const char *unknown, ft_error *err);
/* Byte-level BPE from vocab.json and merges.txt. prefix_space: a space is put before text that does
 * not begin with one (GPT-2 itself does not). FT_FORMAT names the line that is wrong. */
ft_status ft_tokenizer_load_byte_bpe(ft_tokenizer **out, ft_slice vocab, ft_slice merges,
                                     bool prefix_space, const char *name, ft_error *err);
/* Bytes, from id 3 on, behind <pad>, </s> and <unk>; then `extra_ids` sentinels <extra_id_0> ...
 * upwards. The three take the blanks around them away. */
ft_status ft_tokenizer_load_bytes(ft_tokenizer **out, int extra_ids, ft_error *err);
/* What stands beside a tokenizer.json and goes before what that says: 0 or 1, -1 where nothing is
 * said. The first three are those of ft_basic_options, for WordPiece; the last is for BPE. */
typedef struct ft_json_settings {
    int lower, strip_accents, split_han, prefix_space;
} ft_json_settings;

/* Any of the first three from tokenizer.json, whose post-processor, if it is a template, says what
 * ft_tokenizer_encode_pair puts around texts. settings NULL: the file alone counts. FT_UNSUPPORTED
 * names the part that has another rule. */
ft_status ft_tokenizer_load_json(ft_tokenizer **out, const char *json, int64_t size,
                                 const ft_json_settings *settings, const char *name, ft_error *err);
/* What a directory has beside a vocabulary: tokenizer_config.json, added_tokens.json and
 * special_tokens_map.json; bytes NULL: not that one. */
typedef struct ft_token_files {
    ft_slice settings, added, map;
} ft_token_files;

/* Adds the tokens that these files name. Before the tokenizer is used; after a failure it is for
 * ft_tokenizer_free. FT_FORMAT names the file and the token. */
ft_status ft_tokenizer_add_files(ft_tokenizer *tokenizer, const ft_token_files *files,
                                 const char *dir, ft_error *err);
/* NULL is accepted. */
void ft_tokenizer_free(ft_tokenizer *tokenizer);

/* "unigram", "wordpiece", "byte_bpe" or "bytes". */
const char *ft_tokenizer_kind(const ft_tokenizer *tokenizer);
/* The number of ids; they are 0 to size - 1. */
int ft_tokenizer_size(const ft_tokenizer *tokenizer);
/* Makes ids up to n - 1 known that no piece has: models have more rows than their tokenizer has
 * ids, so that their number is a round one. Such an id is no text. Before the tokenizer is used. */
void ft_tokenizer_reserve(ft_tokenizer *tokenizer, int n);
/* The piece of an id as vocabularies write it ("##ing", U+0120 for a space), or NULL. */
const char *ft_tokenizer_piece(const ft_tokenizer *tokenizer, int32_t id);
/* The id of pad, unk, bos, eos, cls, sep or mask; FT_NO_ID when the vocabulary has none. */
int32_t ft_tokenizer_special(const ft_tokenizer *tokenizer, const char *name);
/* How it cuts words, NULL when it is not WordPiece. */
const ft_basic_options *ft_tokenizer_basic(const ft_tokenizer *tokenizer);

/* Ids of valid UTF-8 text of `size` bytes; nothing is put around them. Special tokens in the text
 * ("</s>", "[MASK]", "<|endoftext|>") are split out first. *ids is the caller's to ft_free.
 * FT_FORMAT for text that is not UTF-8, with the byte's position. */
ft_status ft_tokenizer_encode(const ft_tokenizer *tokenizer, const char *text, int64_t size,
                              int32_t **ids, int64_t *n, ft_error *err);

/* Two texts as the models take them, and the segment (0, 1) of each id, to ft_free both:
 * WordPiece [CLS] a [SEP] b [SEP], unigram and bytes a </s> b </s> (segments 0), BPE a b (segments
 * 0). Without b (NULL): [CLS] a [SEP], a </s>, a. FT_NOT_FOUND when the vocabulary lacks such a
 * token.
 */
ft_status ft_tokenizer_encode_pair(const ft_tokenizer *tokenizer, ft_slice a, const ft_slice *b,
                                   int32_t **ids, int32_t **segments, int64_t *n, ft_error *err);

/* Text of ids, special tokens left out when skip_special, else printed as they are written in text;
 * *text is NUL-terminated, may hold further NULs in its *size bytes, and is the caller's to
 * ft_free. Pieces of sentencepiece and BPE are joined as they are, sentencepiece drops the first
 * space; pieces of WordPiece are joined by spaces, also before punctuation. Bytes that are not
 * UTF-8 (BPE ids may cut a character) become U+FFFD. FT_INVALID for an id past the vocabulary and
 * what is reserved. */
ft_status ft_tokenizer_decode(const ft_tokenizer *tokenizer, const int32_t *ids, int64_t n,
                              bool skip_special, char **text, int64_t *size, ft_error *err);

/* Strings one behind the other: string i is bytes[ends[i - 1]] to bytes[ends[i] - 1], from 0. */
typedef struct ft_strings {
    char *bytes;
    int64_t *ends;
    int64_t n;
} ft_strings;

/* Frees them and zeroes the struct. */
void ft_strings_fini(ft_strings *strings);

/* The words into which BERT cuts valid UTF-8 text, before pieces: white space, control characters,
 * case and accents as the options say, each punctuation character alone. Special tokens are not
 * kept together. FT_FORMAT as ft_tokenizer_encode. */
ft_status ft_basic_split(const char *text, int64_t size, const ft_basic_options *options,
                         ft_strings *out, ft_error *err);

/* The part of `original` that the n ids mean: pieces are normalised text, and the
 * original has its own case, accents and blanks. All of it where its characters do not correspond
 * to those of its words (ft_basic_split), or the pieces are not in them. *part is borrowed from
 * `original`. FT_INVALID for an id past the vocabulary, FT_FORMAT as ft_tokenizer_encode. */
ft_status ft_tokenizer_original(const ft_tokenizer *tokenizer, const int32_t *ids, int64_t n,
                                ft_slice original, ft_slice *part, ft_error *err);

/* -- many texts at once ----------------------------------------------------------------------- */

/* One text and, once encoded, its ids. */
typedef struct ft_encoding {
    const char *text; /* `size` bytes of UTF-8 */
    int64_t size;
    int32_t *ids; /* to ft_free */
    int64_t n;
} ft_encoding;

/* Encodes n texts, each as ft_tokenizer_encode does, on up to n_threads threads. Of several that
 * fail the first is reported; the ids of the others are there all the same. */
ft_status ft_encode_texts(const ft_tokenizer *tokenizer, ft_encoding *texts, int64_t n,
                          int n_threads, ft_error *err);

#endif
