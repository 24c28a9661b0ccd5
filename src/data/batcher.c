/* data/batcher.c - batches in a seeded order that can be sought.
 *
 * The samples are one endless stream: epoch after epoch, each in its own order. Batch k is samples
 * [k * batch, (k + 1) * batch) of it, so that a batch is a function of its number and the options
 * alone, and a run that resumes at batch k sees what the first run saw. The order of epoch e is a
 * Fisher-Yates shuffle (Knuth, TAOCP 2, 3.4.2, algorithm P) of generator (seed, e).
 *
 * With prefetch a thread fills a ring of batches ahead of the caller. The lock guards the counters;
 * a slot belongs to the thread until it is counted as made, then to the caller until it is counted
 * as given back. Nothing is allocated after the start. */
#include "data/data.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "base/thread.h"
#include "data/internal.h"

enum { MAX_PREFETCH = 1024 };

/* A column with what its names mean in the dataset. */
typedef struct batcher_column {
    ft_column options;
    char name[FT_MAX_NAME];
    const ft_column_kind *kind;
    int field, group;
} batcher_column;

struct ft_batcher {
    const ft_dataset *dataset;
    ft_batcher_options options; /* lengths are all known, the names in its columns are not used */
    batcher_column columns[FT_MAX_COLUMNS];
    int64_t next; /* number of the next batch to fill */

    int64_t *order; /* of the samples of `epoch`; the filling side's */
    int64_t epoch;  /* -1: none yet */

    ft_batch *slots; /* the ring: batch k is in slot (k - first) % n_slots */
    int n_slots;
    bool threaded;

    pthread_t thread;
    bool running; /* there is a thread to join */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t made, taken, returned; /* batches since the thread started; guarded by lock */
    bool stop, finished;           /* guarded by lock */
};

/* -- filling one batch ------------------------------------------------------------------------ */

static void shuffle(ft_batcher *batcher, int64_t epoch)
{
    ft_rng rng;
    int64_t n = ft_dataset_size(batcher->dataset), *order = batcher->order;
    for (int64_t i = 0; i < n; i++) order[i] = i;
    ft_rng_init(&rng, batcher->options.seed, (uint64_t)epoch);
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = (int64_t)ft_rng_below(&rng, (uint64_t)i + 1);
        int64_t kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    batcher->epoch = epoch;
}

/* The example at a position of the stream, or -1 past its end. */
static int64_t example_at(ft_batcher *batcher, int64_t position)
{
    int64_t n = ft_dataset_size(batcher->dataset), epoch = position / n;
    if (!batcher->options.shuffle) return epoch == 0 ? batcher->order[position] : -1;
    if (epoch != batcher->epoch) shuffle(batcher, epoch);
    return batcher->order[position % n];
}

/* The most ids that an example of the batch has in length group 0. */
static int64_t longest_of(const ft_batcher *batcher, const ft_batch *out)
{
    int64_t longest = 0;
    for (int64_t b = 0; b < out->batch; b++) {
        if (out->index[b] < 0) continue;
        int64_t n = ft_dataset_get(batcher->dataset, out->index[b], 0).n;
        if (n > longest) longest = n;
    }
    return longest;
}

static int find_bucket(const ft_batcher *batcher, const ft_batch *out)
{
    int64_t longest = longest_of(batcher, out);
    int bucket = 0;
    while (batcher->options.buckets[bucket] < longest) bucket++;
    return bucket;
}

/* The length of a column's rows in a batch of some bucket; 1 for a scalar. */
static int64_t row_length(const ft_batcher_options *o, const batcher_column *column, int bucket)
{
    if (column->kind->scalar) return 1;
    return column->group == 0 ? o->buckets[bucket] : o->lengths[column->group];
}

static void fill_column(const ft_batcher *batcher, ft_batch *out, int c)
{
    const batcher_column *column = &batcher->columns[c];
    ft_batch_column *filled = &out->columns[c];
    int64_t length = row_length(&batcher->options, column, out->bucket), counted = 0;
    for (int64_t b = 0; b < out->batch; b++) {
        ft_id_run from = {0};
        if (out->index[b] >= 0)
            from = ft_dataset_get(batcher->dataset, out->index[b], column->field);
        column->kind->fill(filled->ids + b * length, length, from, &column->options);
    }
    for (int64_t i = 0; i < out->batch * length; i++) counted += filled->ids[i] != FT_IGNORED_LABEL;
    filled->length = column->kind->scalar ? 0 : length;
    filled->counted = counted;
}

static int64_t count_tokens(const ft_batcher *batcher, const ft_batch *out)
{
    int64_t tokens = 0;
    bool counted[FT_MAX_FIELDS] = {false};
    for (int c = 0; c < out->n_columns; c++) {
        const batcher_column *column = &batcher->columns[c];
        if (column->kind->scalar || counted[column->group]) continue;
        counted[column->group] = true;
        for (int64_t b = 0; b < out->batch; b++)
            if (out->index[b] >= 0)
                tokens += ft_dataset_get(batcher->dataset, out->index[b], column->field).n;
    }
    return tokens;
}

/* Fills batch `number`; false past the end. */
static bool fill(ft_batcher *batcher, ft_batch *out, int64_t number)
{
    if (!batcher->options.shuffle && number >= ft_batcher_per_epoch(batcher)) return false;
    out->number = number;
    for (int64_t b = 0; b < out->batch; b++)
        out->index[b] = example_at(batcher, number * out->batch + b);
    out->bucket = find_bucket(batcher, out);
    for (int c = 0; c < out->n_columns; c++) fill_column(batcher, out, c);
    out->tokens = count_tokens(batcher, out);
    return true;
}

/* -- the thread ------------------------------------------------------------------------------- */

/* Waits for a free slot; false when asked to stop. */
static bool wait_for_room(ft_batcher *batcher)
{
    pthread_mutex_lock(&batcher->lock);
    while (!batcher->stop && batcher->made - batcher->returned == batcher->n_slots)
        pthread_cond_wait(&batcher->changed, &batcher->lock);
    bool stop = batcher->stop;
    pthread_mutex_unlock(&batcher->lock);
    return !stop;
}

static void *prefetch(void *context)
{
    ft_batcher *batcher = context;
    int64_t first = batcher->next;
    bool more = true;
    for (int64_t i = 0; more && wait_for_room(batcher); i++) {
        more = fill(batcher, &batcher->slots[i % batcher->n_slots], first + i);
        pthread_mutex_lock(&batcher->lock);
        if (more)
            batcher->made++;
        else
            batcher->finished = true;
        pthread_cond_broadcast(&batcher->changed);
        pthread_mutex_unlock(&batcher->lock);
    }
    return NULL;
}

static ft_status start_thread(ft_batcher *batcher, ft_error *err)
{
    if (!batcher->threaded) return FT_OK;
    batcher->made = batcher->taken = batcher->returned = 0;
    batcher->stop = batcher->finished = false;
    ft_status status = ft_thread_start(&batcher->thread, prefetch, batcher, err);
    if (status != FT_OK) {
        ft_error_wrap(err, "batcher");
        return status;
    }
    batcher->running = true;
    return FT_OK;
}

static void stop_thread(ft_batcher *batcher)
{
    if (!batcher->running) return;
    pthread_mutex_lock(&batcher->lock);
    batcher->stop = true;
    pthread_cond_broadcast(&batcher->changed);
    pthread_mutex_unlock(&batcher->lock);
    pthread_join(batcher->thread, NULL);
    batcher->running = false;
}

/* -- making ----------------------------------------------------------------------------------- */

static ft_status check_buckets(const ft_dataset *dataset, const ft_batcher_options *o,
                               ft_error *err)
{
    if (o->n_buckets < 1 || o->n_buckets > FT_MAX_BUCKETS)
        return ft_fail(err, FT_INVALID, "batcher: %d length buckets, expected 1 to %d",
                       o->n_buckets, FT_MAX_BUCKETS);
    for (int i = 0; i < o->n_buckets; i++) {
        int64_t before = i ? o->buckets[i - 1] : 0;
        if (o->buckets[i] <= before)
            return ft_fail(err, FT_INVALID,
                           "batcher: length bucket %d is %lld, expected more than %lld", i,
                           (long long)o->buckets[i], (long long)before);
    }
    int64_t last = o->buckets[o->n_buckets - 1], longest = ft_dataset_longest(dataset, 0);
    if (longest > last)
        return ft_fail(err, FT_INVALID,
                       "batcher: the longest %s has %lld ids, the last length bucket holds %lld",
                       ft_dataset_field(dataset, 0)->name, (long long)longest, (long long)last);
    return FT_OK;
}

/* Completes the lengths of the groups and checks that the examples fit. */
static ft_status set_lengths(const ft_dataset *dataset, ft_batcher_options *o, ft_error *err)
{
    for (int f = 0; f < ft_dataset_n_fields(dataset); f++) {
        const ft_data_field *field = ft_dataset_field(dataset, f);
        int64_t longest = ft_dataset_longest(dataset, f), *length = &o->lengths[field->group];
        if (field->group == 0) continue;
        if (*length == 0) *length = longest;
        if (*length < longest)
            return ft_fail(err, FT_INVALID,
                           "batcher: the longest %s has %lld ids, the %s length is %lld",
                           field->name, (long long)longest, field->name, (long long)*length);
    }
    return check_buckets(dataset, o, err);
}

static ft_status check_options(const ft_dataset *dataset, const ft_batcher_options *o,
                               ft_error *err)
{
    if (ft_dataset_size(dataset) == 0)
        return ft_fail(err, FT_INVALID, "batcher: the dataset is empty");
    if (o->batch < 1)
        return ft_fail(err, FT_INVALID, "batcher: batch of %lld, expected at least 1",
                       (long long)o->batch);
    if (o->prefetch < 0 || o->prefetch > MAX_PREFETCH)
        return ft_fail(err, FT_INVALID, "batcher: prefetch of %d, expected 0 to %d", o->prefetch,
                       MAX_PREFETCH);
    if (o->n_columns < 1 || o->n_columns > FT_MAX_COLUMNS)
        return ft_fail(err, FT_INVALID, "batcher: %d columns, expected 1 to %d", o->n_columns,
                       FT_MAX_COLUMNS);
    return FT_OK;
}

static ft_status set_column(const ft_dataset *dataset, const ft_column *o, batcher_column *column,
                            ft_error *err)
{
    char kinds[128];
    size_t size = strlen(o->name);
    if (size == 0 || size >= FT_MAX_NAME)
        return ft_fail(err, FT_INVALID, "batcher: column '%s', expected a name of 1 to %d bytes",
                       o->name, FT_MAX_NAME - 1);
    *column = (batcher_column){.options = *o, .kind = ft_column_kind_find(o->as)};
    memcpy(column->name, o->name, size);
    if (!column->kind) {
        ft_column_kind_names(kinds, sizeof kinds);
        return ft_fail(err, FT_INVALID, "batcher: column '%s' is made as '%s', expected one of: %s",
                       o->name, o->as, kinds);
    }
    column->field = ft_dataset_find(dataset, o->field);
    if (column->field < 0)
        return ft_fail(err, FT_INVALID, "batcher: column '%s': the dataset has no field '%s'",
                       o->name, o->field);
    if (column->kind->scalar && ft_dataset_longest(dataset, column->field) > 1)
        return ft_fail(err, FT_INVALID,
                       "batcher: column '%s' is made as '%s', but field '%s' has "
                       "up to %lld ids",
                       o->name, o->as, o->field,
                       (long long)ft_dataset_longest(dataset, column->field));
    column->group = ft_dataset_field(dataset, column->field)->group;
    return FT_OK;
}

static ft_status set_columns(ft_batcher *batcher, ft_error *err)
{
    for (int c = 0; c < batcher->options.n_columns; c++) {
        batcher_column *column = &batcher->columns[c];
        FT_TRY(set_column(batcher->dataset, &batcher->options.columns[c], column, err));
        for (int before = 0; before < c; before++)
            if (strcmp(batcher->columns[before].name, column->name) == 0)
                return ft_fail(err, FT_INVALID, "batcher: two columns are called '%s'",
                               column->name);
    }
    return FT_OK;
}

/* Gives a column of a slot its array, large enough for the last bucket. */
static bool make_column(const ft_batcher *batcher, int c, ft_batch_column *out)
{
    const ft_batcher_options *o = &batcher->options;
    int64_t bytes = row_length(o, &batcher->columns[c], o->n_buckets - 1);
    out->name = batcher->columns[c].name;
    if (!ft_size_mul(bytes, o->batch, &bytes) ||
        !ft_size_mul(bytes, (int64_t)sizeof *out->ids, &bytes))
        return false;
    out->ids = ft_alloc(bytes);
    return out->ids != NULL;
}

static ft_status make_slot(const ft_batcher *batcher, ft_batch *slot, ft_error *err)
{
    const ft_batcher_options *o = &batcher->options;
    int64_t bytes;
    *slot = (ft_batch){.batch = o->batch, .n_columns = o->n_columns};
    bool made = ft_size_mul(o->batch, (int64_t)sizeof *slot->index, &bytes) &&
                (slot->index = ft_alloc(bytes)) != NULL;
    for (int c = 0; made && c < o->n_columns; c++)
        made = make_column(batcher, c, &slot->columns[c]);
    if (made) return FT_OK;
    return ft_fail(err, FT_NOMEM, "batcher: no memory for batches of %lld samples",
                   (long long)o->batch);
}

/* The order of the one epoch without shuffling: as they are, or by length, the longest first, those
 * of equal length as they are (a counting sort). */
static ft_status set_order(ft_batcher *batcher, ft_error *err)
{
    const ft_dataset *dataset = batcher->dataset;
    int64_t n = ft_dataset_size(dataset), longest = ft_dataset_longest(dataset, 0);
    for (int64_t i = 0; i < n; i++) batcher->order[i] = i;
    if (batcher->options.shuffle || !batcher->options.longest_first) return FT_OK;
    int64_t *from =
        ft_alloc((longest + 1) * (int64_t)sizeof *from); /* by ids less than `longest` */
    if (!from) return ft_fail(err, FT_NOMEM, "batcher: no memory");
    for (int64_t i = 0; i < n; i++) {
        int64_t fewer = longest - ft_dataset_get(dataset, i, 0).n;
        if (fewer < longest) from[fewer + 1]++;
    }
    for (int64_t fewer = 0; fewer < longest; fewer++) from[fewer + 1] += from[fewer];
    for (int64_t i = 0; i < n; i++)
        batcher->order[from[longest - ft_dataset_get(dataset, i, 0).n]++] = i;
    ft_free(from);
    return FT_OK;
}

static ft_status init(ft_batcher *batcher, ft_error *err)
{
    ft_batcher_options *o = &batcher->options;
    FT_TRY(set_columns(batcher, err));
    FT_TRY(set_lengths(batcher->dataset, o, err));
    batcher->epoch = -1;
    batcher->threaded = o->prefetch > 0;
    batcher->n_slots = o->prefetch + 1; /* one is the caller's */
    batcher->order = ft_alloc(ft_dataset_size(batcher->dataset) * (int64_t)sizeof *batcher->order);
    batcher->slots = ft_alloc(batcher->n_slots * (int64_t)sizeof *batcher->slots);
    if (!batcher->order || !batcher->slots) return ft_fail(err, FT_NOMEM, "batcher: no memory");
    FT_TRY(set_order(batcher, err));
    for (int i = 0; i < batcher->n_slots; i++) FT_TRY(make_slot(batcher, &batcher->slots[i], err));
    return start_thread(batcher, err);
}

ft_status ft_batcher_new(ft_batcher **out, const ft_dataset *dataset,
                         const ft_batcher_options *options, ft_error *err)
{
    *out = NULL;
    FT_TRY(check_options(dataset, options, err));
    ft_batcher *batcher = ft_alloc(sizeof *batcher);
    if (!batcher) return ft_fail(err, FT_NOMEM, "batcher: no memory");
    batcher->dataset = dataset;
    batcher->options = *options;
    pthread_mutex_init(&batcher->lock, NULL);
    pthread_cond_init(&batcher->changed, NULL);
    ft_status status = init(batcher, err);
    if (status == FT_OK)
        *out = batcher;
    else
        ft_batcher_free(batcher);
    return status;
}

void ft_batcher_free(ft_batcher *batcher)
{
    if (!batcher) return;
    stop_thread(batcher);
    for (int i = 0; batcher->slots && i < batcher->n_slots; i++) {
        ft_batch *slot = &batcher->slots[i];
        for (int c = 0; c < slot->n_columns; c++) ft_free(slot->columns[c].ids);
        ft_free(slot->index);
    }
    pthread_cond_destroy(&batcher->changed);
    pthread_mutex_destroy(&batcher->lock);
    ft_free(batcher->slots);
    ft_free(batcher->order);
    ft_free(batcher);
}

/* -- drawing ---------------------------------------------------------------------------------- */

/* Gives back the batch that the caller held and waits for the next one. */
static const ft_batch *take(ft_batcher *batcher)
{
    pthread_mutex_lock(&batcher->lock);
    batcher->returned = batcher->taken;
    pthread_cond_broadcast(&batcher->changed);
    while (batcher->made == batcher->taken && !batcher->finished)
        pthread_cond_wait(&batcher->changed, &batcher->lock);
    const ft_batch *batch = NULL;
    if (batcher->made > batcher->taken)
        batch = &batcher->slots[batcher->taken++ % batcher->n_slots];
    pthread_mutex_unlock(&batcher->lock);
    return batch;
}

ft_status ft_batcher_next(ft_batcher *batcher, const ft_batch **out, ft_error *err)
{
    *out = NULL;
    if (batcher->threaded) {
        if (!batcher->running) FT_TRY(start_thread(batcher, err));
        *out = take(batcher);
        return FT_OK;
    }
    if (fill(batcher, &batcher->slots[0], batcher->next)) {
        *out = &batcher->slots[0];
        batcher->next++;
    }
    return FT_OK;
}

ft_status ft_batcher_seek(ft_batcher *batcher, int64_t number, ft_error *err)
{
    /* Far below the position at which number * batch overflows, and far above any run. */
    int64_t limit = (INT64_MAX >> 2) / batcher->options.batch;
    if (number < 0 || number > limit)
        return ft_fail(err, FT_INVALID, "batcher: cannot seek to batch %lld, expected 0 to %lld",
                       (long long)number, (long long)limit);
    stop_thread(batcher);
    batcher->next = number;
    return start_thread(batcher, err);
}

int64_t ft_batcher_per_epoch(const ft_batcher *batcher)
{
    int64_t n = ft_dataset_size(batcher->dataset), batch = batcher->options.batch;
    return n / batch + (n % batch != 0);
}
