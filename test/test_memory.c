/* test/test_memory.c - layouts: nothing alive overlaps, little is lost. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "memory/memory.h"

static bool is_valid(const ft_interval *v, int n, const int64_t *offsets, int64_t total)
{
    for (int i = 0; i < n; i++) {
        int64_t end = offsets[i] + ft_memory_round(v[i].bytes);
        if (offsets[i] < 0 || offsets[i] % FT_MEMORY_ALIGN || end > total) return false;
        for (int j = 0; j < i; j++) {
            bool together = v[i].begin <= v[j].end && v[j].begin <= v[i].end;
            bool apart =
                end <= offsets[j] || offsets[j] + ft_memory_round(v[j].bytes) <= offsets[i];
            if (together && !apart) return false;
        }
    }
    return total % FT_MEMORY_ALIGN == 0;
}

static void test_rounding_and_names(void)
{
    CHECK(ft_memory_round(0) == 0 && ft_memory_round(1) == 64 && ft_memory_round(64) == 64);
    CHECK(ft_memory_round(65) == 128);
    CHECK(!strcmp(ft_memory_classes[FT_MEMORY_WEIGHTS].name, "weights"));
    CHECK(!strcmp(ft_memory_classes[FT_MEMORY_BUFFERS].name, "buffers"));
    for (int c = 0; c < FT_MEMORY_CLASSES; c++) CHECK(ft_memory_classes[c].doc[0]);
}

/* The first and the third do not meet, the last fits behind the third. */
static void test_a_layout_worked_out_by_hand(void)
{
    const ft_interval v[] = {{256, 0, 2}, {128, 1, 3}, {192, 3, 5}, {0, 0, 9}, {64, 5, 5}};
    int64_t offsets[5], total;
    CHECK_STATUS(ft_memory_layout(v, 5, offsets, &total, NULL), FT_OK);
    CHECK(offsets[0] == 0 && offsets[2] == 0 && offsets[1] == 256 && offsets[3] == 0);
    CHECK(offsets[4] == 192);
    CHECK(total == 384);
    CHECK(ft_memory_lower_bound(v, 5) == 384);
}

/* After step 1 there are holes of 448 and, further up, of 192: the last 64 bytes go into the
 * second. */
static void test_the_smallest_hole_is_taken(void)
{
    const ft_interval v[] = {{512, 0, 9}, {448, 0, 1}, {384, 0, 9}, {320, 0, 9},
                             {192, 0, 1}, {100, 0, 9}, {60, 3, 4}};
    int64_t offsets[7], total;
    CHECK_STATUS(ft_memory_layout(v, 7, offsets, &total, NULL), FT_OK);
    CHECK(is_valid(v, 7, offsets, total));
    CHECK(offsets[1] == 512 && offsets[4] == 1664 && offsets[6] == 1664);
    CHECK(total == 1984 && ft_memory_lower_bound(v, 7) == 1984);
}

/* The same with the smaller hole further down, 192 bytes behind the second tensor, which is alive
 * once the first is gone; the one further up has 448. */
static void test_the_smallest_hole_is_taken_wherever_it_is(void)
{
    const ft_interval v[] = {{704, 0, 1}, {640, 0, 9}, {512, 2, 9},
                             {448, 0, 1}, {384, 0, 9}, {60, 3, 4}};
    int64_t offsets[6], total;
    CHECK_STATUS(ft_memory_layout(v, 6, offsets, &total, NULL), FT_OK);
    CHECK(is_valid(v, 6, offsets, total));
    CHECK(offsets[0] == 0 && offsets[1] == 704 && offsets[2] == 0 && offsets[3] == 1344);
    CHECK(offsets[4] == 1792 && offsets[5] == 512);
    CHECK(total == 2176 && ft_memory_lower_bound(v, 6) == 2176);
}

/* -- the plainest code that does the same --------------------------------------------------------
 */

typedef struct plain {
    int64_t size, offset, life;
    int begin, end, number;
} plain;

static int plain_rule; /* the order: by size, life, both, begin */

static int plain_order(const void *left, const void *right)
{
    const plain *a = left, *b = right;
    int64_t keys[2][4] = {{-a->size, -a->life, -a->size * (a->life + 1), a->begin},
                          {-b->size, -b->life, -b->size * (b->life + 1), b->begin}};
    int64_t ties[2][3] = {{-a->life, -a->size, a->number}, {-b->life, -b->size, b->number}};
    if (keys[0][plain_rule] != keys[1][plain_rule])
        return keys[0][plain_rule] < keys[1][plain_rule] ? -1 : 1;
    for (int i = plain_rule == 3 ? 0 : 1; i < 3; i++)
        if (ties[0][i] != ties[1][i]) return ties[0][i] < ties[1][i] ? -1 : 1;
    return 0;
}

static bool plain_meet(const plain *a, const plain *b)
{
    return b->size && a->begin <= b->end && b->begin <= a->end;
}

/* The room from byte `at` on for block i, of those before it; -1: somebody is there. */
static int64_t plain_room(const plain *x, int i, int64_t at)
{
    int64_t room = INT64_MAX;
    for (int j = 0; j < i; j++) {
        if (!plain_meet(&x[i], &x[j]) || x[j].offset + x[j].size <= at) continue;
        if (x[j].offset < at + x[i].size) return -1;
        if (x[j].offset - at < room) room = x[j].offset - at;
    }
    return room;
}

static int64_t plain_fit(const plain *x, int i)
{
    int64_t best = 0, best_room = plain_room(x, i, 0);
    for (int j = 0; j < i; j++) {
        if (!plain_meet(&x[i], &x[j])) continue;
        int64_t at = x[j].offset + x[j].size, room = plain_room(x, i, at);
        if (room < 0 || (best_room >= 0 && room > best_room)) continue;
        if (room == best_room && at > best) continue;
        best = at;
        best_room = room;
    }
    return best;
}

static int64_t plain_layout(const ft_interval *v, int n, int64_t *offsets)
{
    int64_t best = INT64_MAX;
    plain x[64];
    for (plain_rule = 0; plain_rule < 4 && best > ft_memory_lower_bound(v, n); plain_rule++) {
        int64_t total = 0;
        for (int i = 0; i < n; i++)
            x[i] = (plain){
                ft_memory_round(v[i].bytes), 0, v[i].end - v[i].begin, v[i].begin, v[i].end, i};
        qsort(x, (size_t)n, sizeof *x, plain_order);
        for (int i = 0; i < n; i++) {
            x[i].offset = x[i].size ? plain_fit(x, i) : 0;
            if (x[i].offset + x[i].size > total) total = x[i].offset + x[i].size;
        }
        if (total >= best) continue;
        best = total;
        for (int i = 0; i < n; i++) offsets[x[i].number] = x[i].offset;
    }
    return best;
}

static void test_random_layouts(void)
{
    enum { MOST = 60 };
    for (int seed = 0; seed < 800; seed++) {
        ft_rng rng;
        ft_interval v[MOST];
        int64_t offsets[MOST], again[MOST], total, total_again, sum = 0;
        ft_rng_init(&rng, 7, (uint64_t)seed);
        int n = (int)ft_rng_below(&rng, MOST + 1);
        for (int i = 0; i < n; i++) {
            int begin = (int)ft_rng_below(&rng, 40) - 10;
            v[i] = (ft_interval){.bytes = (int64_t)ft_rng_below(&rng, 2000),
                                 .begin = begin,
                                 .end = begin + (int)ft_rng_below(&rng, 15)};
            sum += ft_memory_round(v[i].bytes);
        }
        CHECK_STATUS(ft_memory_layout(v, n, offsets, &total, NULL), FT_OK);
        CHECK(is_valid(v, n, offsets, total));
        CHECK(total >= ft_memory_lower_bound(v, n) && total <= sum);
        if (!n) continue;
        CHECK(total == plain_layout(v, n, again));
        CHECK(!memcmp(offsets, again, (size_t)n * sizeof *offsets));
        for (int time = 0; time < 2; time++) { /* made, then remembered */
            CHECK_STATUS(ft_memory_extent(v, n, &total_again, NULL), FT_OK);
            CHECK(total == total_again);
        }
    }
}

/* -- transformers --------------------------------------------------------------------------------
 */

enum { TRACE = 4096 };

typedef struct trace {
    ft_interval v[TRACE];
    int n;
} trace;

static void alive(trace *t, int64_t bytes, int begin, int end)
{
    t->v[t->n++] = (ft_interval){bytes, begin, end};
}

/* Forward and backward of `layers` layers: 12 values each, some of which the backward needs at its
 * mirrored step, and gradients that live for a step or two. */
static void make_trace(trace *t, int layers, int64_t hidden, int64_t inner, int64_t scores,
                       bool keep)
{
    const int steps = 12, last = 2 * layers * steps;
    const int64_t sizes[] = {hidden, hidden, hidden, hidden, scores, scores,
                             hidden, hidden, hidden, inner,  inner,  hidden};
    const bool saved[] = {true, true,  true, true, false, true,
                          true, false, true, true, true,  false};
    t->n = 0;
    for (int l = 0; l < layers; l++)
        for (int i = 0; i < steps; i++) {
            int step = l * steps + i, mirror = last - 1 - step;
            alive(t, sizes[i], step, keep && saved[i] ? mirror : step + 1 + i % 3);
            alive(t, sizes[i], mirror, mirror + 1 + i % 2);
            if (i % 4 == 0) alive(t, hidden / 7 + 100, step, step); /* workspace */
        }
}

static void test_transformers_lose_little(void)
{
    static const struct {
        int layers;
        int64_t hidden, inner, scores;
        bool keep;
    } rows[] = {
        {6, 128 * 512 * 4, 128 * 2048 * 4, 8 * 128 * 128 * 4, true},
        {6, 128 * 512 * 4, 128 * 2048 * 4, 8 * 128 * 128 * 4, false},
        {12, 512 * 768 * 4, 512 * 3072 * 4, 12 * 512 * 512 * 4, true},
        {24, 512 * 1024 * 4, 512 * 16384 * 4, 32 * 512 * 512 * 4, true},
        {24, 4 * 1024 * 4, 4 * 4096 * 4, 16 * 4 * 512 * 4, true},
        {3, 1000, 3000, 70000, true},
        {1, 128 * 512 * 4, 128 * 2048 * 4, 8 * 128 * 128 * 4, true},
    };
    double worst = 1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static trace t;
        static int64_t offsets[TRACE];
        int64_t total;
        make_trace(&t, rows[i].layers, rows[i].hidden, rows[i].inner, rows[i].scores, rows[i].keep);
        CHECK_STATUS(ft_memory_layout(t.v, t.n, offsets, &total, NULL), FT_OK);
        CHECK(is_valid(t.v, t.n, offsets, total));
        double ratio = (double)total / (double)ft_memory_lower_bound(t.v, t.n);
        CHECK(ratio >= 1 && ratio <= 1.15);
        if (ratio > worst) worst = ratio;
    }
    printf("worst layout of a transformer: %.3f of the lower bound\n", worst);
}

/* -- errors --------------------------------------------------------------------------------------
 */

/* Random items that are there at several times, on a circle of steps cut at its end: no two share a
 * byte at one time, and a place may be another's between two times. */
static void test_items_that_come_again(void)
{
    enum { ITEMS = 12, TIMES = 3, N = ITEMS * TIMES };
    ft_error err = {0};
    int64_t offsets[ITEMS], total, hulls = 0, extents = 0;
    ft_rng rng;
    ft_rng_init(&rng, 11, 0);
    for (int trial = 0; trial < 200; trial++) {
        ft_interval times[N], hull[ITEMS];
        int item[N];
        for (int i = 0; i < N; i++) {
            int step =
                i / ITEMS * 40 + (int)ft_rng_below(&rng, 30); /* the times of an item do not meet */
            item[i] = i % ITEMS;
            times[i] =
                (ft_interval){64 * (1 + item[i] % 5), step, step + (int)ft_rng_below(&rng, 10)};
        }
        for (int i = 0; i < ITEMS; i++)
            hull[i] = (ft_interval){times[i].bytes, times[i].begin, times[N - ITEMS + i].end};
        CHECK_STATUS(ft_memory_layout(hull, ITEMS, offsets, &total, &err), FT_OK);
        hulls += total;
        CHECK_STATUS(ft_memory_layout_times(times, item, N, ITEMS, offsets, &total, &err), FT_OK);
        extents += total;
        CHECK(total >= ft_memory_lower_bound(times, N));
        for (int i = 0; i < N; i++)
            for (int j = 0; j < i; j++) {
                bool meet = times[i].begin <= times[j].end && times[j].begin <= times[i].end;
                int64_t a = offsets[item[i]], b = offsets[item[j]];
                bool apart = a >= b + times[j].bytes || b >= a + times[i].bytes;
                CHECK(!meet || apart);
            }
    }
    CHECK(extents < hulls * 2 / 3);
    const ft_interval one = {64, 0, 1};
    CHECK_STATUS(ft_memory_layout_times(&one, &(int){3}, 1, 3, offsets, &total, &err), FT_INVALID);
    CHECK(strstr(err.message, "interval 0 is of item 3, there are 3"));
    CHECK_STATUS(ft_memory_layout_times(&one, &(int){2}, 1, 3, offsets, &total, &err), FT_OK);
    CHECK(total == 64);
}

static void test_bad_intervals_are_refused_in_words(void)
{
    const ft_interval backwards[] = {{1, 0, 0}, {1, 5, 4}};
    const ft_interval negative[] = {{-1, 0, 0}};
    const ft_interval huge[] = {
        {INT64_MAX / 2, 0, 0}, {INT64_MAX / 2, 0, 0}, {INT64_MAX / 2, 0, 0}};
    int64_t offsets[3], total;
    ft_error err = {0};
    CHECK_STATUS(ft_memory_layout(backwards, 2, offsets, &total, &err), FT_INVALID);
    CHECK(strstr(err.message, "interval 1 ends at step 4, before it begins at 5"));
    CHECK_STATUS(ft_memory_layout(negative, 1, offsets, &total, &err), FT_INVALID);
    CHECK(strstr(err.message, "interval 0 has -1 bytes"));
    CHECK_STATUS(ft_memory_layout(huge, 3, offsets, &total, &err), FT_INVALID);
    CHECK_STATUS(ft_memory_layout(NULL, -1, offsets, &total, &err), FT_INVALID);
    CHECK_STATUS(ft_memory_extent(backwards, 2, &total, &err), FT_INVALID);
    CHECK_STATUS(ft_memory_extent(backwards, 2, &total, &err), FT_INVALID);
    CHECK_STATUS(ft_memory_extent(NULL, -1, &total, &err), FT_INVALID);
    CHECK_STATUS(ft_memory_extent(NULL, 0, &total, &err), FT_OK);
    CHECK(total == 0);
    for (int n = 1; n < 3; n++) {
        ft_alloc_fail_after(n);
        CHECK_STATUS(ft_memory_layout(backwards, 1, offsets, &total, &err), FT_NOMEM);
        ft_alloc_fail_after(n);
        CHECK_STATUS(ft_memory_extent(backwards, 1, &total, &err), FT_NOMEM);
    }
    ft_alloc_fail_after(0);
    CHECK_STATUS(ft_memory_layout(NULL, 0, NULL, &total, &err), FT_OK);
    CHECK(total == 0 && ft_memory_lower_bound(NULL, 0) == 0);
}

int main(void)
{
    RUN(test_rounding_and_names);
    RUN(test_a_layout_worked_out_by_hand);
    RUN(test_the_smallest_hole_is_taken);
    RUN(test_the_smallest_hole_is_taken_wherever_it_is);
    RUN(test_random_layouts);
    RUN(test_transformers_lose_little);
    RUN(test_items_that_come_again);
    RUN(test_bad_intervals_are_refused_in_words);
    return check_report();
}
