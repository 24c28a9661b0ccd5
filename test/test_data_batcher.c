/* test/test_data_batcher.c - the order of samples, padding, seeking, the prefetch thread. Run under
 * ThreadSanitizer this also shows that batches cross between threads cleanly. */
#include "data/data.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "check.h"
#include "no_memory.h"

enum { START = 7, NOTHING = 0 }; /* decoder start and pad */

static const ft_data_field fields[] = {{"source", 0}, {"target", 1}};

/* What an encoder-decoder reads. */
enum { INPUT_IDS, MASK, DECODER_IDS, LABELS, N_COLUMNS };
static const ft_column text_columns[] = {
    {"input_ids", "source", "ids", NOTHING, 0},
    {"mask", "source", "mask", 0, 0},
    {"decoder_ids", "target", "shift_right", NOTHING, START},
    {"labels", "target", "ids", FT_IGNORED_LABEL, 0},
};

/* Example i has 1 + i * 5 % 9 source ids 1000 i + s and 1 + i % 3 target ids 1000 i + 500 + t. */
static ft_dataset *examples(int n)
{
    ft_dataset *dataset = NULL;
    ft_error err = {0};
    CHECK_STATUS(ft_dataset_new(&dataset, fields, 2, &err), FT_OK);
    for (int i = 0; i < n; i++) {
        int32_t source[9], target[3];
        for (int s = 0; s < 9; s++) source[s] = 1000 * i + s;
        for (int t = 0; t < 3; t++) target[t] = 1000 * i + 500 + t;
        const ft_id_run row[] = {{source, 1 + i * 5 % 9}, {target, 1 + i % 3}};
        CHECK_STATUS(ft_dataset_add(dataset, row, &err), FT_OK);
    }
    return dataset;
}

static ft_batcher_options options(int64_t batch, bool shuffle, int prefetch)
{
    ft_batcher_options o = {.batch = batch,
                            .n_buckets = 3,
                            .buckets = {2, 5, 9},
                            .lengths = {0, 4},
                            .n_columns = N_COLUMNS,
                            .seed = 42,
                            .shuffle = shuffle,
                            .prefetch = prefetch};
    memcpy(o.columns, text_columns, sizeof text_columns);
    return o;
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
    const ft_batch_column *c = batch->columns;
    const int64_t S = c[INPUT_IDS].length, T = c[LABELS].length;
    int64_t n = 1 + i * 5 % 9, m = 1 + i % 3;
    bool good = batch->index[row] == i;
    for (int64_t s = 0; s < S; s++) {
        good &= c[INPUT_IDS].ids[row * S + s] == (s < n ? 1000 * i + s : NOTHING);
        good &= c[MASK].ids[row * S + s] == (s < n);
    }
    for (int64_t t = 0; t < T; t++) {
        good &= c[LABELS].ids[row * T + t] == (t < m ? 1000 * i + 500 + t : -100);
        int64_t before = t == 0 ? START : t <= m ? 1000 * i + 499 + t : NOTHING;
        good &= c[DECODER_IDS].ids[row * T + t] == before;
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
        const ft_batch_column *c = batch->columns;
        CHECK(batch->bucket == bucket && c[INPUT_IDS].length == o.buckets[bucket]);
        CHECK(c[LABELS].counted == tokens && c[LABELS].length == 4);
        CHECK(strcmp(c[MASK].name, "mask") == 0 && c[MASK].counted == n_batch * c[MASK].length);
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
        const ft_batch_column *c = batch->columns;
        CHECK(batch->batch == 3 && c[LABELS].counted == 1 && batch->bucket == 1);
        for (int b = 1; b < 3; b++) {
            CHECK(batch->index[b] == -1 && c[DECODER_IDS].ids[4 * b] == START);
            for (int s = 0; s < 5; s++)
                CHECK(c[MASK].ids[5 * b + s] == 0 && c[INPUT_IDS].ids[5 * b + s] == NOTHING);
            for (int t = 0; t < 4; t++) CHECK(c[LABELS].ids[4 * b + t] == FT_IGNORED_LABEL);
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

/* Every example once, by length; those of equal length in the dataset's order. */
static void longest_first(void)
{
    enum { N = 23, BATCH = 4 };
    ft_dataset *dataset = examples(N);
    ft_error err = {0};
    ft_batcher *batcher;
    ft_batcher_options o = options(BATCH, false, 0);
    o.longest_first = true;
    CHECK_STATUS(ft_batcher_new(&batcher, dataset, &o, &err), FT_OK);
    const ft_batch *batch;
    int64_t seen = 0, before = -1, length = 9;
    while (ft_batcher_next(batcher, &batch, &err) == FT_OK && batch)
        for (int b = 0; b < BATCH; b++) {
            int64_t i = batch->index[b], n = i < 0 ? 0 : ft_dataset_get(dataset, i, 0).n;
            if (i < 0) continue;
            CHECK(n < length || (n == length && i > before));
            CHECK(o.buckets[batch->bucket] >= n);
            length = n;
            before = i;
            seen++;
        }
    CHECK(seen == N && length == 1);
    ft_batcher_free(batcher);
    ft_dataset_free(dataset);
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

/* Sources with segments, a scalar label, and what a language model is to say. */
static void other_columns(void)
{
    static const ft_data_field span[] = {{"source", 0}, {"segments", 0}, {"start", 1}};
    static const ft_column columns[] = {{"labels", "source", "shift_left", FT_IGNORED_LABEL, 0},
                                        {"types", "segments", "ids", 3, 0},
                                        {"start", "start", "scalar", FT_IGNORED_LABEL, 0}};
    static const int32_t ids[] = {5, 6, 7}, zero = 0, skipped = FT_IGNORED_LABEL;
    const ft_id_run rows[2][3] = {{{ids, 3}, {ids, 3}, {&zero, 1}},
                                  {{ids, 1}, {ids, 1}, {&skipped, 1}}};
    static const int32_t labels[12] = {6,    7,    -100, -100, -100, -100,
                                       -100, -100, -100, -100, -100, -100};
    static const int32_t types[12] = {5, 6, 7, 3, 5, 3, 3, 3, 3, 3, 3, 3};
    static const int32_t starts[3] = {0, -100, -100};
    ft_dataset *dataset;
    ft_batcher *batcher;
    const ft_batch *batch;
    ft_error err = {0};
    ft_batcher_options o = {.batch = 3, .n_buckets = 1, .buckets = {4}, .n_columns = 3};
    memcpy(o.columns, columns, sizeof columns);
    CHECK_STATUS(ft_dataset_new(&dataset, span, 3, &err), FT_OK);
    for (int i = 0; i < 2; i++) CHECK_STATUS(ft_dataset_add(dataset, rows[i], &err), FT_OK);
    CHECK_STATUS(ft_batcher_new(&batcher, dataset, &o, &err), FT_OK);
    CHECK_STATUS(ft_batcher_next(batcher, &batch, &err), FT_OK);
    const ft_batch_column *c = batch->columns;
    CHECK(c[0].length == 4 && c[1].length == 4 && c[2].length == 0);
    CHECK(memcmp(c[0].ids, labels, sizeof labels) == 0 && c[0].counted == 2);
    CHECK(memcmp(c[1].ids, types, sizeof types) == 0);
    CHECK(memcmp(c[2].ids, starts, sizeof starts) == 0 && c[2].counted == 1);
    ft_batcher_free(batcher);
    ft_dataset_free(dataset);
}

static void check_refused(const ft_dataset *dataset, const ft_batcher_options *o, const char *words)
{
    ft_batcher *batcher;
    ft_error err = {0};
    CHECK_STATUS(ft_batcher_new(&batcher, dataset, o, &err), FT_INVALID);
    if (!CHECK(!batcher && strstr(err.message, words))) fprintf(stderr, "'%s'\n", err.message);
}

static void bad_lengths(void)
{
    static const struct {
        const char *words;
        int64_t buckets[3], target;
        int n_buckets;
    } cases[] = {
        {"0 length buckets", {0}, 4, 0},
        {"17 length buckets", {0}, 4, 17},
        {"bucket 0 is 0", {0}, 4, 1},
        {"bucket 1 is 9", {9, 9}, 4, 2},
        {"source has 9 ids, the last length bucket holds 8", {8}, 4, 1},
        {"target has 3 ids, the target length is 2", {9}, 2, 1},
    };
    ft_dataset *dataset = examples(10);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ft_batcher_options o = options(1, true, 0);
        memcpy(o.buckets, cases[i].buckets, sizeof cases[i].buckets);
        o.n_buckets = cases[i].n_buckets;
        o.lengths[1] = cases[i].target;
        check_refused(dataset, &o, cases[i].words);
    }
    ft_dataset_free(dataset);
}

static void bad_columns(void)
{
    static const struct {
        const char *words;
        ft_column column;
    } cases[] = {
        {"two columns are called 'mask'", {"mask", "source", "ids", 0, 0}},
        {"column '', expected a name", {"", "source", "ids", 0, 0}},
        {"'x' is made as 'y', expected one of: ids, mask, shift_right, shift_left, scalar",
         {"x", "source", "y", 0, 0}},
        {"column 'x': the dataset has no field 'y'", {"x", "y", "ids", 0, 0}},
        {"column 'x' is made as 'scalar', but field 'target' has up to 3 ids",
         {"x", "target", "scalar", 0, 0}},
    };
    ft_dataset *dataset = examples(10);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ft_batcher_options o = options(1, true, 0);
        o.columns[LABELS] = cases[i].column;
        check_refused(dataset, &o, cases[i].words);
    }
    ft_batcher_options o = options(1, true, 0);
    o.n_columns = 0;
    check_refused(dataset, &o, "0 columns");
    ft_dataset_free(dataset);
}

static void bad_options(void)
{
    ft_dataset *dataset = examples(10), *empty = NULL;
    ft_batcher *batcher;
    ft_error err = {0};
    ft_batcher_options o = options(0, true, 0);
    check_refused(dataset, &o, "batch of 0");
    o = options(3, true, -1);
    check_refused(dataset, &o, "prefetch of -1");
    o = options(3, true, 0);
    CHECK_STATUS(ft_dataset_new(&empty, fields, 2, &err), FT_OK);
    check_refused(empty, &o, "the dataset is empty");
    o.batch = INT64_MAX / 8;
    CHECK_STATUS(ft_batcher_new(&batcher, dataset, &o, &err), FT_NOMEM);
    ft_dataset_free(empty);
    ft_dataset_free(dataset);
}

static ft_status try_batcher(void *dataset, ft_error *err)
{
    ft_batcher_options o = options(3, true, 2);
    ft_batcher *batcher;
    ft_status status = ft_batcher_new(&batcher, dataset, &o, err);
    ft_batcher_free(batcher);
    return status;
}

static void no_memory(void)
{
    ft_dataset *dataset = examples(10);
    check_without_memory(try_batcher, dataset, 15);
    ft_dataset_free(dataset);
}

int main(void)
{
    RUN(shuffled);
    RUN(unshuffled);
    RUN(longest_first);
    RUN(seeking);
    RUN(borrowed);
    RUN(other_columns);
    RUN(bad_options);
    RUN(bad_lengths);
    RUN(bad_columns);
    RUN(no_memory);
    return check_report();
}
