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
#include <signal.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "data/internal.h"

enum { IGNORED_LABEL = -100, MAX_PREFETCH = 1024 };

struct ft_batcher {
    const ft_dataset *dataset;
    ft_batcher_options options;
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
    if (batcher->options.shuffle) ft_rng_init(&rng, batcher->options.seed, (uint64_t)epoch);
    for (int64_t i = n - 1; batcher->options.shuffle && i > 0; i--) {
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
    if (!batcher->options.shuffle) return epoch == 0 ? position : -1;
    if (epoch != batcher->epoch) shuffle(batcher, epoch);
    return batcher->order[position % n];
}

/* The smallest bucket that holds the longest source of the batch. */
static int find_bucket(const ft_batcher *batcher, const ft_batch *out)
{
    int64_t longest = 0;
    for (int64_t b = 0; b < out->batch; b++) {
        if (out->index[b] < 0) continue;
        int64_t n = ft_dataset_get(batcher->dataset, out->index[b]).n_source;
        if (n > longest) longest = n;
    }
    int bucket = 0;
    while (batcher->options.source_buckets[bucket] < longest) bucket++;
    return bucket;
}

static void fill_source(const ft_batch *out, int64_t row, const ft_example *example, int32_t pad)
{
    int64_t S = out->source_length;
    int32_t *ids = out->input_ids + row * S, *mask = out->mask + row * S;
    for (int64_t s = 0; s < S; s++) {
        ids[s] = s < example->n_source ? example->source[s] : pad;
        mask[s] = s < example->n_source;
    }
}

/* Labels, and the decoder's input: the labels one to the right behind the start id. */
static void fill_target(const ft_batch *out, int64_t row, const ft_example *example,
                        const ft_batcher_options *options)
{
    int64_t T = out->target_length;
    int32_t *labels = out->labels + row * T, *decoder = out->decoder_ids + row * T;
    for (int64_t t = 0; t < T; t++) {
        labels[t] = t < example->n_target ? example->target[t] : IGNORED_LABEL;
        decoder[t] = t == 0                      ? options->decoder_start_id
                     : t - 1 < example->n_target ? example->target[t - 1]
                                                 : options->pad_id;
    }
}

/* Fills batch `number`; false past the end. */
static bool fill(ft_batcher *batcher, ft_batch *out, int64_t number)
{
    const ft_batcher_options *options = &batcher->options;
    if (!options->shuffle && number >= ft_batcher_per_epoch(batcher)) return false;
    out->number = number;
    for (int64_t b = 0; b < out->batch; b++)
        out->index[b] = example_at(batcher, number * out->batch + b);
    out->bucket = find_bucket(batcher, out);
    out->source_length = options->source_buckets[out->bucket];
    out->n_tokens = 0;
    for (int64_t b = 0; b < out->batch; b++) {
        ft_example example = {0};
        if (out->index[b] >= 0) example = ft_dataset_get(batcher->dataset, out->index[b]);
        fill_source(out, b, &example, options->pad_id);
        fill_target(out, b, &example, options);
        out->n_tokens += example.n_target;
    }
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

/* Signals are for the main thread, so the new thread starts with all of them blocked. */
static ft_status start_thread(ft_batcher *batcher, ft_error *err)
{
    if (!batcher->threaded) return FT_OK;
    sigset_t all, old;
    sigfillset(&all);
    batcher->made = batcher->taken = batcher->returned = 0;
    batcher->stop = batcher->finished = false;
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int code = pthread_create(&batcher->thread, NULL, prefetch, batcher);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (code != 0) {
        char reason[128];
        return ft_fail(err, FT_NOMEM, "batcher: cannot start its thread: %s",
                       strerror_r(code, reason, sizeof reason));
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

static ft_status check_buckets(const ft_batcher_options *o, int64_t longest, ft_error *err)
{
    if (o->n_buckets < 1 || o->n_buckets > FT_MAX_BUCKETS)
        return ft_fail(err, FT_INVALID, "batcher: %d length buckets, expected 1 to %d",
                       o->n_buckets, FT_MAX_BUCKETS);
    for (int i = 0; i < o->n_buckets; i++) {
        int64_t before = i ? o->source_buckets[i - 1] : 0;
        if (o->source_buckets[i] <= before)
            return ft_fail(err, FT_INVALID,
                           "batcher: length bucket %d is %lld, expected more than %lld", i,
                           (long long)o->source_buckets[i], (long long)before);
    }
    int64_t last = o->source_buckets[o->n_buckets - 1];
    if (longest > last)
        return ft_fail(
            err, FT_INVALID,
            "batcher: the longest source has %lld ids, the last length bucket holds %lld",
            (long long)longest, (long long)last);
    return FT_OK;
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
    if (o->target_length < 1 || ft_dataset_longest_target(dataset) > o->target_length)
        return ft_fail(err, FT_INVALID,
                       "batcher: the longest target has %lld ids, the target length is %lld",
                       (long long)ft_dataset_longest_target(dataset), (long long)o->target_length);
    return check_buckets(o, ft_dataset_longest_source(dataset), err);
}

/* Gives a slot its arrays, large enough for the last bucket. */
static ft_status make_slot(ft_batch *slot, const ft_batcher_options *o, ft_error *err)
{
    int64_t source, target, index, id = (int64_t)sizeof(int32_t);
    *slot = (ft_batch){.batch = o->batch, .target_length = o->target_length};
    bool fits =
        ft_size_mul(o->batch, o->source_buckets[o->n_buckets - 1], &source) &&
        ft_size_mul(source, id, &source) && ft_size_mul(o->batch, o->target_length, &target) &&
        ft_size_mul(target, id, &target) && ft_size_mul(o->batch, (int64_t)sizeof(int64_t), &index);
    if (fits) {
        slot->input_ids = ft_alloc(source);
        slot->mask = ft_alloc(source);
        slot->decoder_ids = ft_alloc(target);
        slot->labels = ft_alloc(target);
        slot->index = ft_alloc(index);
    }
    if (slot->input_ids && slot->mask && slot->decoder_ids && slot->labels && slot->index)
        return FT_OK;
    return ft_fail(err, FT_NOMEM, "batcher: no memory for batches of %lld samples",
                   (long long)o->batch);
}

static ft_status init(ft_batcher *batcher, ft_error *err)
{
    const ft_batcher_options *o = &batcher->options;
    batcher->epoch = -1;
    batcher->threaded = o->prefetch > 0;
    batcher->n_slots = o->prefetch + 1; /* one is the caller's */
    batcher->order = ft_alloc(ft_dataset_size(batcher->dataset) * (int64_t)sizeof *batcher->order);
    batcher->slots = ft_alloc(batcher->n_slots * (int64_t)sizeof *batcher->slots);
    if (!batcher->order || !batcher->slots) return ft_fail(err, FT_NOMEM, "batcher: no memory");
    for (int i = 0; i < batcher->n_slots; i++) FT_TRY(make_slot(&batcher->slots[i], o, err));
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
        ft_free(slot->input_ids);
        ft_free(slot->mask);
        ft_free(slot->decoder_ids);
        ft_free(slot->labels);
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
