/* test/test_data_batcher.c - the order of samples, padding, seeking, the prefetch thread. Run under
 * ThreadSanitizer this also shows that batches cross between threads cleanly. */
#include "data/data.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "check.h"

enum { START = 7, NOTHING = 0 }; /* decoder start and pad */

/* Example i has 1 + i * 5 % 9 source ids 1000 i + s and 1 + i % 3 target ids 1000 i + 500 + t. */
static ft_dataset *examples(int n)
{
    ft_dataset *dataset = NULL;
    ft_error err = {0};
    CHECK_STATUS(ft_dataset_new(&dataset, &err), FT_OK);
    for (int i = 0; i < n; i++) {
        int32_t source[9], target[3];
        for (int s = 0; s < 9; s++) source[s] = 1000 * i + s;
        for (int t = 0; t < 3; t++) target[t] = 1000 * i + 500 + t;
        CHECK_STATUS(ft_dataset_add(dataset, source, 1 + i * 5 % 9, target, 1 + i % 3, &err),
                     FT_OK);
    }
    return dataset;
}

static ft_batcher_options options(int64_t batch, bool shuffle, int prefetch)
{
    return (ft_batcher_options){.batch = batch,
                                .n_buckets = 3,
                                .source_buckets = {2, 5, 9},
                                .target_length = 4,
                                .pad_id = NOTHING,
                                .decoder_start_id = START,
                                .seed = 42,
                                .shuffle = shuffle,
                                .prefetch = prefetch};
}

/* The order of an epoch, from its definition. */
static void expected_order(int64_t *order, int64_t n, uint64_t seed, uint64_t epoch)
{
    ft_rng rng;
    ft_rng_init(&rng, seed, epoch);
    for (int64_t i = 0; i < n; i++) order[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = (int64_t)ft_rng_below(&rng, (uint64_t)i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

/* Whether a row holds example i, padded as the header says. */
static bool row_holds(const ft_batch *batch, int64_t row, int64_t i)
{
    const int64_t S = batch->source_length, T = batch->target_length;
    int64_t n = 1 + i * 5 % 9, m = 1 + i % 3;
    bool good = batch->index[row] == i;
    for (int64_t s = 0; s < S; s++) {
        good &= batch->input_ids[row * S + s] == (s < n ? 1000 * i + s : NOTHING);
        good &= batch->mask[row * S + s] == (s < n);
    }
    for (int64_t t = 0; t < T; t++) {
        good &= batch->labels[row * T + t] == (t < m ? 1000 * i + 500 + t : -100);
        int64_t before = t == 0 ? START : t <= m ? 1000 * i + 499 + t : NOTHING;
        good &= batch->decoder_ids[row * T + t] == before;
    }
    return good;
}

static void order_and_padding(int prefetch, int64_t n_batch)
{
    enum { N = 10, EPOCHS = 5 };
    int64_t stream[N * EPOCHS];
    for (int e = 0; e < EPOCHS; e++) expected_order(stream + N * e, N, 42, (uint64_t)e);
    CHECK(memcmp(stream, stream + N, N * sizeof *stream) != 0); /* a new order each epoch */
    ft_dataset *dataset = examples(N);
    ft_batcher *batcher;
    ft_error err = {0};
    ft_batcher_options o = options(n_batch, true, prefetch);
    CHECK_STATUS(ft_batcher_new(&batcher, dataset, &o, &err), FT_OK);
    for (int64_t k = 0; (k + 1) * n_batch <= N * EPOCHS; k++) {
        const ft_batch *batch;
        CHECK_STATUS(ft_batcher_next(batcher, &batch, &err), FT_OK);
        if (!CHECK(batch && batch->number == k && batch->batch == n_batch)) break;
        int64_t longest = 0, tokens = 0;
        for (int64_t b = 0; b < n_batch; b++) {
            int64_t i = stream[k * n_batch + b];
            CHECK(row_holds(batch, b, i));
            if (1 + i * 5 % 9 > longest) longest = 1 + i * 5 % 9;
            tokens += 1 + i % 3;
        }
        int bucket = longest <= 2 ? 0 : longest <= 5 ? 1 : 2;
        CHECK(batch->bucket == bucket && batch->source_length == o.source_buckets[bucket]);
        CHECK(batch->n_tokens == tokens && batch->target_length == 4);
    }
    ft_batcher_free(batcher);
    ft_dataset_free(dataset);
}

static void shuffled(void)
{
    static const int prefetch[] = {0, 1, 4};
    static const int64_t batch[] = {1, 3, 10, 25};
    for (int p = 0; p < 3; p++)
        for (int b = 0; b < 4; b++) order_and_padding(prefetch[p], batch[b]);
}

static void in_order(int prefetch)
{
    ft_dataset *dataset = examples(7);
    ft_batcher *batcher;
    ft_error err = {0};
    const ft_batch *batch = NULL;
    ft_batcher_options o = options(3, false, prefetch);
    CHECK_STATUS(ft_batcher_new(&batcher, dataset, &o, &err), FT_OK);
    CHECK(ft_batcher_per_epoch(batcher) == 3);
    for (int round = 0; round < 2; round++) {
        for (int k = 0; k < 3; k++) {
            CHECK_STATUS(ft_batcher_next(batcher, &batch, &err), FT_OK);
            for (int b = 0; batch && b < (k < 2 ? 3 : 1); b++)
                CHECK(row_holds(batch, b, 3 * k + b));
        }
        /* The last one is short: two rows are missing. */
        CHECK(batch && batch->batch == 3 && batch->n_tokens == 1 && batch->bucket == 1);
        for (int b = 1; batch && b < 3; b++) {
            CHECK(batch->index[b] == -1 && batch->decoder_ids[4 * b] == START);
            for (int s = 0; s < 5; s++)
                CHECK(batch->mask[5 * b + s] == 0 && batch->input_ids[5 * b + s] == NOTHING);
            for (int t = 0; t < 4; t++) CHECK(batch->labels[4 * b + t] == -100);
        }
        for (int i = 0; i < 2; i++) {
            CHECK_STATUS(ft_batcher_next(batcher, &batch, &err), FT_OK);
            CHECK(!batch);
        }
        CHECK_STATUS(ft_batcher_seek(batcher, 0, &err), FT_OK);
    }
    CHECK_STATUS(ft_batcher_seek(batcher, 17, &err), FT_OK);
    CHECK_STATUS(ft_batcher_next(batcher, &batch, &err), FT_OK);
    CHECK(!batch);
    ft_batcher_free(batcher);
    ft_dataset_free(dataset);
}

static void unshuffled(void)
{
    in_order(0);
    in_order(1);
    in_order(5);
}

/* A batch after a seek equals the same batch reached by drawing. */
static void seeking(void)
{
    enum { N = 11, BATCH = 4, BATCHES = 40 };
    int64_t drawn[BATCHES][BATCH];
    ft_dataset *dataset = examples(N);
    ft_error err = {0};
    const ft_batch *batch;
    for (int prefetch = 0; prefetch <= 3; prefetch += 3) {
        ft_batcher *batcher;
        ft_batcher_options o = options(BATCH, true, prefetch);
        CHECK_STATUS(ft_batcher_new(&batcher, dataset, &o, &err), FT_OK);
        for (int k = 0; k < BATCHES; k++) {
            CHECK_STATUS(ft_batcher_next(batcher, &batch, &err), FT_OK);
            memcpy(drawn[k], batch->index, sizeof drawn[k]);
        }
        ft_rng rng;
        ft_rng_init(&rng, 1, 0);
        for (int i = 0; i < 60; i++) {
            int64_t k = (int64_t)ft_rng_below(&rng, BATCHES);
            CHECK_STATUS(ft_batcher_seek(batcher, k, &err), FT_OK);
            for (int64_t j = k; j < k + i % 4 && j < BATCHES; j++) {
                CHECK_STATUS(ft_batcher_next(batcher, &batch, &err), FT_OK);
                CHECK(batch->number == j);
                CHECK(memcmp(batch->index, drawn[j], sizeof drawn[j]) == 0);
            }
        }
        CHECK_STATUS(ft_batcher_seek(batcher, -1, &err), FT_INVALID);
        CHECK_STATUS(ft_batcher_seek(batcher, INT64_MAX, &err), FT_INVALID);
        CHECK_STATUS(ft_batcher_seek(batcher, 1000000000000, &err), FT_OK);
        CHECK_STATUS(ft_batcher_next(batcher, &batch, &err), FT_OK);
        CHECK(batch->number == 1000000000000);
        ft_batcher_free(batcher);
    }
    ft_dataset_free(dataset);
}

/* A batch that the caller holds is left alone, however far the thread runs ahead. */
static void borrowed(void)
{
    ft_dataset *dataset = examples(10);
    ft_batcher *batcher;
    ft_error err = {0};
    const ft_batch *batch;
    ft_batcher_options o = options(2, true, 1);
    CHECK_STATUS(ft_batcher_new(&batcher, dataset, &o, &err), FT_OK);
    int64_t allocations = ft_alloc_count();
    for (int k = 0; k < 300; k++) {
        int64_t index[2];
        CHECK_STATUS(ft_batcher_next(batcher, &batch, &err), FT_OK);
        memcpy(index, batch->index, sizeof index);
        for (volatile int i = 0; i < 2000; i++) continue; /* lets the thread run */
        CHECK(batch->number == k && memcmp(index, batch->index, sizeof index) == 0);
        CHECK(row_holds(batch, 0, index[0]) && row_holds(batch, 1, index[1]));
    }
    CHECK(ft_alloc_count() == allocations); /* nothing is allocated per batch */
    ft_batcher_free(batcher);
    ft_dataset_free(dataset);
}

static void bad_options(void)
{
    static const struct {
        const char *words;
        ft_batcher_options o;
    } cases[] = {
        {"batch of 0", {.batch = 0, .n_buckets = 1, .source_buckets = {9}, .target_length = 4}},
        {"0 length buckets", {.batch = 1, .n_buckets = 0, .target_length = 4}},
        {"17 length buckets", {.batch = 1, .n_buckets = 17, .target_length = 4}},
        {"bucket 0 is 0", {.batch = 1, .n_buckets = 1, .source_buckets = {0}, .target_length = 4}},
        {"bucket 1 is 9",
         {.batch = 1, .n_buckets = 2, .source_buckets = {9, 9}, .target_length = 4}},
        {"source has 9 ids, the last length bucket holds 8",
         {.batch = 1, .n_buckets = 1, .source_buckets = {8}, .target_length = 4}},
        {"target has 3 ids, the target length is 2",
         {.batch = 1, .n_buckets = 1, .source_buckets = {9}, .target_length = 2}},
        {"prefetch of -1",
         {.batch = 1, .n_buckets = 1, .source_buckets = {9}, .target_length = 4, .prefetch = -1}},
    };
    ft_dataset *dataset = examples(10), *empty = NULL;
    ft_batcher *batcher;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ft_error err = {0};
        CHECK_STATUS(ft_batcher_new(&batcher, dataset, &cases[i].o, &err), FT_INVALID);
        if (!CHECK(!batcher && strstr(err.message, cases[i].words)))
            fprintf(stderr, "'%s'\n", err.message);
    }
    ft_error err = {0};
    ft_batcher_options o = options(3, true, 0);
    CHECK_STATUS(ft_dataset_new(&empty, &err), FT_OK);
    CHECK_STATUS(ft_batcher_new(&batcher, empty, &o, &err), FT_INVALID);
    o.batch = INT64_MAX / 8;
    CHECK_STATUS(ft_batcher_new(&batcher, dataset, &o, &err), FT_NOMEM);
    ft_dataset_free(empty);
    ft_dataset_free(dataset);
}

static void no_memory(void)
{
    ft_dataset *dataset = examples(10);
    ft_batcher_options o = options(3, true, 2);
    int64_t live = ft_alloc_live();
    ft_status status = FT_NOMEM;
    int n = 0;
    while (status == FT_NOMEM && n < 1000) {
        ft_batcher *batcher;
        ft_error err = {0};
        ft_alloc_fail_after(++n);
        status = ft_batcher_new(&batcher, dataset, &o, &err);
        ft_alloc_fail_after(0);
        ft_batcher_free(batcher);
        CHECK(ft_alloc_live() == live);
    }
    CHECK_STATUS(status, FT_OK);
    CHECK(n > 15);
    ft_dataset_free(dataset);
}

int main(void)
{
    RUN(shuffled);
    RUN(unshuffled);
    RUN(seeking);
    RUN(borrowed);
    RUN(bad_options);
    RUN(no_memory);
    return check_report();
}
