/* data/data.h - token ids into batches.
 *
 * A dataset holds tokenised examples: a run of ids for each of its
 * named fields. A batcher draws batches from it, in a seeded order whose position can be sought: a
 * tensor for each column, padded to the smallest length bucket that holds the batch; a prefetch
 * thread keeps some ready. What comes out of a model becomes answers again. */
#ifndef FT_DATA_H
#define FT_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

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

/* -- spans ------------------------------------------------------------------------------------ */

enum { FT_BEST_SPANS = 20 }; /* starts and ends of a window that are looked at; answers */

/* Pieces of a context that stand in one sequence: [CLS] question [SEP] pieces [SEP]. */
typedef struct ft_span_window {
    int64_t first, n; /* pieces, from 0 */
} ft_span_window;

/* What a model says of one window of a question. */
typedef struct ft_span_logits {
    const ft_span_window *windows; /* all of the question, in order; borrowed */
    int n_windows, window;         /* this one, from 0 */
    int64_t query;                 /* pieces of the question */
    const float *starts, *ends;    /* (length), from [CLS] on; what is past the window is ignored */
    int64_t length;
} ft_span_logits;

/* A span that may be the answer. */
typedef struct ft_span {
    int64_t first, last; /* pieces of the context */
    float start, stop;   /* logits */
    int window, order;   /* where it was found */
} ft_span;

/* Spans of one question; its answers, when it has all of them. */
typedef struct ft_spans ft_spans;

/* None yet; *out is for ft_spans_free. */
ft_status ft_spans_new(ft_spans **out, ft_error *err);
/* NULL is accepted. */
void ft_spans_free(ft_spans *spans);
/* Adds the best spans of a window. FT_INVALID when there are fewer logits than ids in it. */
ft_status ft_spans_add(ft_spans *spans, const ft_span_logits *logits, ft_error *err);
int64_t ft_spans_size(const ft_spans *spans);
/* Span i of [0, size), in the order in which they were found; borrowed until one is added. */
const ft_span *ft_spans_get(const ft_spans *spans, int64_t i);

typedef struct ft_span_answer {
    const char *text; /* `size` bytes and a NUL */
    int64_t size;
    double probability; /* among the answers */
    float start, stop;  /* logits */
} ft_span_answer;

/* Gives the text of a span, borrowed until the next call. */
typedef ft_status ft_span_text(void *context, const ft_span *span, const char **text, int64_t *size,
                               ft_error *err);

/* Makes the spans answers, and keeps no other: the FT_BEST_SPANS with the greatest sums of logits,
 * each text once; of equal ones that of the first window, the first found there. "empty" when there
 * is no span. Passes on what `text` fails with. */
ft_status ft_spans_answer(ft_spans *spans, ft_span_text *text, void *context, ft_error *err);
int ft_spans_n_answers(const ft_spans *spans);
/* Answer i of [0, n), best first; borrowed. */
ft_span_answer ft_spans_answer_at(const ft_spans *spans, int i);

#endif
