/* data/data.h - text into batches.
 *
 * A tokenizer turns text into ids. A dataset holds tokenised examples: a run of ids for each of its
 * named fields. A batcher draws batches from it, in a seeded order whose position can be sought: a
 * tensor for each column, padded to the smallest length bucket that holds the batch; a prefetch
 * thread keeps some ready. */
#ifndef FT_DATA_H
#define FT_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* -- tokenizer -------------------------------------------------------------------------------- */

/* Text into ids and back, by one of three rules: sentencepiece (T5), WordPiece (BERT), byte-level
 * BPE (GPT-2). What is done with a tokenizer does not depend on which it is; all of it is
 * thread-safe. `name` is for messages: the file that the bytes came from. */
typedef struct ft_tokenizer ft_tokenizer;

enum { FT_NO_ID = -1 };

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
 * FT_FORMAT when it holds no [UNK]. */
ft_status ft_tokenizer_load_wordpiece(ft_tokenizer **out, const char *vocab, int64_t size,
                                      const char *name, const ft_basic_options *options,
                                      ft_error *err);
/* Byte-level BPE from vocab.json and merges.txt. prefix_space: a space is put before text that does
 * not begin with one (GPT-2 itself does not). FT_FORMAT names the line that is wrong. */
ft_status ft_tokenizer_load_byte_bpe(ft_tokenizer **out, ft_slice vocab, ft_slice merges,
                                     bool prefix_space, const char *name, ft_error *err);
/* Any of the three from tokenizer.json. FT_UNSUPPORTED names the part that has another rule. */
ft_status ft_tokenizer_load_json(ft_tokenizer **out, const char *json, int64_t size,
                                 const char *name, ft_error *err);
/* Adds what old checkpoints keep in files beside these: added_tokens.json and
 * special_tokens_map.json of a directory; bytes NULL: it has none. Before the tokenizer is used;
 * after a failure it is for ft_tokenizer_free. FT_FORMAT names the file and the token. */
ft_status ft_tokenizer_add_files(ft_tokenizer *tokenizer, ft_slice added, ft_slice map,
                                 const char *dir, ft_error *err);
/* NULL is accepted. */
void ft_tokenizer_free(ft_tokenizer *tokenizer);

/* "unigram", "wordpiece" or "byte_bpe". */
const char *ft_tokenizer_kind(const ft_tokenizer *tokenizer);
/* The number of ids; they are 0 to size - 1. */
int ft_tokenizer_size(const ft_tokenizer *tokenizer);
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
 * WordPiece [CLS] a [SEP] b [SEP], sentencepiece a </s> b </s> (segments 0), BPE a b (segments 0).
 * Without b (NULL): [CLS] a [SEP], a </s>, a. FT_NOT_FOUND when the vocabulary lacks such a token.
 */
ft_status ft_tokenizer_encode_pair(const ft_tokenizer *tokenizer, ft_slice a, const ft_slice *b,
                                   int32_t **ids, int32_t **segments, int64_t *n, ft_error *err);

/* Text of ids, special tokens left out when skip_special, else printed as they are written in text;
 * *text is NUL-terminated, may hold further NULs in its *size bytes, and is the caller's to
 * ft_free. Pieces of sentencepiece and BPE are joined as they are, sentencepiece drops the first
 * space; pieces of WordPiece are joined by spaces, also before punctuation. Bytes that are not
 * UTF-8 (BPE ids may cut a character) become U+FFFD. FT_INVALID for an id past the vocabulary. */
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

/* -- dataset ---------------------------------------------------------------------------------- */

enum { FT_MAX_FIELDS = 8, FT_MAX_NAME = 32 };

/* What a value is when it does not count: labels that are not scored. */
enum { FT_IGNORED_LABEL = -100 };

/* Fields of one length group have equally many ids in a row ("source" and "segments"). */
typedef struct ft_data_field {
    char name[FT_MAX_NAME];
    int group; /* numbered from 0; the group of the first field is 0 */
} ft_data_field;

/* A run of ids, borrowed. */
typedef struct ft_id_run {
    const int32_t *ids;
    int64_t n;
} ft_id_run;

typedef struct ft_dataset ft_dataset;

/* An empty dataset whose examples have these fields; FT_INVALID for none, too many, names that are
 * empty or there twice, groups that skip a number. ft_dataset_free accepts NULL. */
ft_status ft_dataset_new(ft_dataset **out, const ft_data_field *fields, int n_fields,
                         ft_error *err);
/* Frees it with its examples. */
void ft_dataset_free(ft_dataset *dataset);
/* Appends one example: a run of ids for each field, copied. FT_INVALID for an empty one, and for
 * fields of a group whose lengths differ. */
ft_status ft_dataset_add(ft_dataset *dataset, const ft_id_run *row, ft_error *err);
int64_t ft_dataset_size(const ft_dataset *dataset);
int ft_dataset_n_fields(const ft_dataset *dataset);
int ft_dataset_n_groups(const ft_dataset *dataset);
/* Field f of [0, n_fields). */
const ft_data_field *ft_dataset_field(const ft_dataset *dataset, int f);
/* The number of a field, or -1. */
int ft_dataset_find(const ft_dataset *dataset, const char *name);
/* The most ids that field f has in a row. */
int64_t ft_dataset_longest(const ft_dataset *dataset, int f);
/* Field f of example i of [0, size); borrowed until the dataset grows. */
ft_id_run ft_dataset_get(const ft_dataset *dataset, int64_t i, int f);

/* The dataset as bytes, for a file; *out is the caller's to ft_free. */
ft_status ft_dataset_pack(const ft_dataset *dataset, uint8_t **out, int64_t *size, ft_error *err);
/* A dataset of such bytes. FT_FORMAT or FT_INVALID for bytes that are not whole or no dataset. */
ft_status ft_dataset_unpack(ft_dataset **out, const uint8_t *bytes, int64_t size, ft_error *err);

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

/* -- batches ---------------------------------------------------------------------------------- */

enum { FT_MAX_BUCKETS = 16, FT_MAX_COLUMNS = 16 };

/* One tensor of a batch, made of one field. `as` is one of
 *   "ids"          the ids
 *   "mask"         1 where there is an id, else 0
 *   "shift_right"  `first`, then the ids without what falls off the end
 *   "shift_left"   the ids from the second on
 *   "scalar"       the single id of the field: no length axis
 * Behind the ids, and in rows that are not there, is `pad`. */
typedef struct ft_column {
    const char *name, *field, *as; /* need not outlive ft_batcher_new */
    int32_t pad, first;
} ft_column;

typedef struct ft_batcher_options {
    int64_t batch; /* samples per batch */
    int n_buckets; /* ascending; the last one holds the longest of length group 0 */
    int64_t buckets[FT_MAX_BUCKETS];
    int64_t lengths[FT_MAX_FIELDS]; /* of group 1 and on, by group; 0: the dataset's longest */
    int n_columns;
    ft_column columns[FT_MAX_COLUMNS];
    uint64_t seed;
    bool shuffle;       /* a new order each epoch; else the dataset's */
    bool longest_first; /* without shuffling: by ids in group 0 instead, so that little is padded */
    int prefetch;       /* batches kept ready by a thread; 0: made when asked for, no thread */
} ft_batcher_options;

typedef struct ft_batch_column {
    const char *name;
    int64_t length;  /* L of this batch; 0 for a scalar */
    int64_t counted; /* values other than FT_IGNORED_LABEL */
    int32_t *ids;    /* (B, L) row-major, (B) for a scalar */
} ft_batch_column;

/* One batch, B samples. The last batch of an epoch is filled from the start of the next one when
 * shuffling; without shuffling it is short and its missing rows are padding, with index -1. */
typedef struct ft_batch {
    int64_t number; /* counts from 0 over epochs: the position to seek to */
    int bucket;
    int64_t batch;  /* B */
    int64_t tokens; /* ids of its examples, without padding: of one field of each length group that
                       a column with a length axis shows */
    int n_columns;
    ft_batch_column columns[FT_MAX_COLUMNS];
    int64_t *index; /* (B): number of the example in the dataset */
} ft_batch;

typedef struct ft_batcher ft_batcher;

/* The dataset must outlive the batcher and not grow meanwhile. FT_INVALID for an empty dataset, for
 * columns that name no field or no way to fill them, for examples longer than the last bucket or
 * than their group's length. */
ft_status ft_batcher_new(ft_batcher **out, const ft_dataset *dataset,
                         const ft_batcher_options *options, ft_error *err);
void ft_batcher_free(ft_batcher *batcher);
/* The next batch; borrowed until the next call on this batcher. NULL (and FT_OK) past the end,
 * which exists only without shuffling. */
ft_status ft_batcher_next(ft_batcher *batcher, const ft_batch **out, ft_error *err);
/* The next batch will be number `number`; the one that was borrowed is no longer valid. FT_INVALID
 * for a negative number. O(dataset). */
ft_status ft_batcher_seek(ft_batcher *batcher, int64_t number, ft_error *err);
/* Batches that show every example once: examples / batch, rounded up. */
int64_t ft_batcher_per_epoch(const ft_batcher *batcher);

/* -- answers ---------------------------------------------------------------------------------- */

/* An answer as SQuAD's official evaluation compares it: lower case, without ASCII punctuation and
 * the words a, an and the, blanks joined. *out, of *n bytes and a NUL, is the caller's to ft_free.
 * FT_FORMAT for text that is not UTF-8, with the byte's position. */
ft_status ft_answer_normal(const char *text, int64_t size, char **out, int64_t *n, ft_error *err);

/* Text with every run of blanks (those of Unicode too) made one space and none at its ends; as
 * ft_answer_normal for the rest. */
ft_status ft_answer_squeeze(const char *text, int64_t size, char **out, int64_t *n, ft_error *err);

#endif
