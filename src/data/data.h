/* data/data.h - text into batches.
 *
 * A tokenizer turns text into ids. A dataset holds tokenised examples (source ids, target ids). A
 * batcher draws batches from it, in a seeded order whose position can be sought, padded to the
 * smallest length bucket that holds them; a prefetch thread keeps some ready. */
#ifndef FT_DATA_H
#define FT_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* -- tokenizer -------------------------------------------------------------------------------- */

typedef struct ft_tokenizer ft_tokenizer;

/* T5's tokenizer: a sentencepiece model from a file or from memory, plus `extra_ids` sentinels
 * <extra_id_0> ... that are numbered downwards from pieces + extra_ids - 1. */
ft_status ft_tokenizer_open(ft_tokenizer **out, const char *path, int extra_ids, ft_error *err);
ft_status ft_tokenizer_load(ft_tokenizer **out, const void *bytes, int64_t size, int extra_ids,
                            ft_error *err);
void ft_tokenizer_free(ft_tokenizer *tokenizer);

int ft_tokenizer_size(const ft_tokenizer *tokenizer); /* pieces + extra ids */

/* Ids of valid UTF-8 text of `size` bytes; </s> is not appended. Special tokens (</s>, <unk>,
 * <pad>, the sentinels) in the text are split out first. *ids is the caller's to ft_free. FT_FORMAT
 * for text that is not UTF-8, with the byte's position. Thread-safe. */
ft_status ft_tokenizer_encode(const ft_tokenizer *tokenizer, const char *text, int64_t size,
                              int32_t **ids, int64_t *n, ft_error *err);

/* Text of ids, special tokens left out when skip_special, else printed as they are written in text;
 * *text is the caller's to ft_free. Pieces are joined as sentencepiece does: the space before the
 * first one is dropped, and none is put around special tokens. FT_INVALID for an id past the
 * vocabulary. */
ft_status ft_tokenizer_decode(const ft_tokenizer *tokenizer, const int32_t *ids, int64_t n,
                              bool skip_special, char **text, ft_error *err);

/* The piece of an id, or NULL. */
const char *ft_tokenizer_piece(const ft_tokenizer *tokenizer, int32_t id);

/* -- dataset ---------------------------------------------------------------------------------- */

typedef struct ft_dataset ft_dataset;

/* An empty dataset; ft_dataset_free accepts NULL. */
ft_status ft_dataset_new(ft_dataset **out, ft_error *err);
/* Frees it with its examples. */
void ft_dataset_free(ft_dataset *dataset);
/* Appends one example; ids are copied; source and target are not empty. */
ft_status ft_dataset_add(ft_dataset *dataset, const int32_t *source, int64_t n_source,
                         const int32_t *target, int64_t n_target, ft_error *err);
int64_t ft_dataset_size(const ft_dataset *dataset);
int64_t ft_dataset_longest_source(const ft_dataset *dataset);
int64_t ft_dataset_longest_target(const ft_dataset *dataset);

/* -- batches ---------------------------------------------------------------------------------- */

enum { FT_MAX_BUCKETS = 16 };

typedef struct ft_batcher_options {
    int64_t batch; /* samples per batch */
    int n_buckets; /* ascending; the last one holds the longest example */
    int64_t source_buckets[FT_MAX_BUCKETS];
    int64_t target_length; /* of every batch */
    int32_t pad_id, decoder_start_id;
    uint64_t seed;
    bool shuffle; /* a new order each epoch; else the dataset's */
    int prefetch; /* batches kept ready by a thread; 0: made when asked for, no thread */
} ft_batcher_options;

/* One batch, B samples. Arrays are row-major. The last batch of an epoch is filled from the start
 * of the next one when shuffling; without shuffling it is short and its missing rows have mask 0,
 * labels -100 and index -1. */
typedef struct ft_batch {
    int64_t number; /* counts from 0 over epochs: the position to seek to */
    int bucket;
    int64_t batch, source_length, target_length; /* B, S, T */
    int32_t *input_ids;                          /* (B, S), padded with pad_id */
    int32_t *mask;        /* (B, S): 1 where there is a source token, else 0 */
    int32_t *decoder_ids; /* (B, T): labels shifted right */
    int32_t *labels;      /* (B, T): -100 where padded */
    int64_t *index;       /* (B): number of the example in the dataset */
    int64_t n_tokens;     /* labels that count */
} ft_batch;

typedef struct ft_batcher ft_batcher;

/* The dataset must outlive the batcher and not grow meanwhile. FT_INVALID for an empty dataset, for
 * examples longer than the last bucket or the target length. */
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

#endif
