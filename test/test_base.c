/* test/test_base.c - errors, text, memory, maps, random numbers, gates. */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/gate.h"
#include "base/map.h"
#include "base/rng.h"
#include "base/sha256.h"
#include "base/text.h"
#include "check.h"

/* -- errors and text ------------------------------------------------------------------------ */

static void test_errors(void)
{
    ft_error err = {0};
    CHECK_STATUS(ft_fail(&err, FT_SHAPE, "axis %d of %s", 3, "x"), FT_SHAPE);
    CHECK(err.status == FT_SHAPE && !strcmp(err.message, "axis 3 of x"));
    CHECK_STATUS(ft_error_wrap(&err, "stage %d", 2), FT_SHAPE);
    CHECK(!strcmp(err.message, "stage 2: axis 3 of x"));
    CHECK_STATUS(ft_fail(NULL, FT_IO, "nobody listens"), FT_IO);
    CHECK_STATUS(ft_fail(&err, FT_FORMAT, "\x7F\"%s\"", "a\n\x1B[m\t\xC3\xA9"), FT_FORMAT);
    CHECK(!strcmp(err.message, "?\"a??[m?\xC3\xA9\"")); /* one line, as a terminal may show it */
    CHECK_STATUS(ft_error_wrap(&err, "file \r%d", 1), FT_FORMAT);
    CHECK(!strncmp(err.message, "file ?1: ?\"a?", 13));
    CHECK(!strcmp(ft_status_text(FT_NOMEM), "out of memory"));
    CHECK(!strcmp(ft_status_text(FT_STATUS_COUNT), "unknown status"));
    for (int i = 0; i < FT_STATUS_COUNT; i++) CHECK(*ft_status_text((ft_status)i));
    for (int i = 0; i < 200; i++) ft_error_wrap(&err, "layer %d", i);
    CHECK(strlen(err.message) == sizeof err.message - 1 &&
          !strncmp(err.message, "layer 199: ", 11));
}

static void test_text(void)
{
    ft_text text = {0};
    for (int i = 0; i < 1000; i++) ft_text_add(&text, "%d,", i);
    CHECK(!text.failed && text.length == 10 + 90 * 2 + 900 * 3 + 1000);
    CHECK(!strncmp(text.data, "0,1,2,3", 7) && !strcmp(text.data + text.length - 4, "999,"));
    ft_text_fini(&text);
    CHECK(!text.data && !text.length);
    ft_text_add(&text, "short");
    ft_alloc_fail_after(1);
    ft_text_add(&text, "%1000d", 1);
    ft_alloc_fail_after(0);
    CHECK(text.failed && !strcmp(text.data, "short"));
    ft_text_add(&text, "more");
    CHECK(!strcmp(text.data, "short"));
    ft_text_fini(&text);
    CHECK(!strcmp(ft_text_of_bytes(512).text, "512 B"));
    CHECK(!strcmp(ft_text_of_bytes(24046200000).text, "24.0 GB"));
    CHECK(!strcmp(ft_text_of_bytes(INT64_MAX).text, "9223372036.9 GB"));
}

/* -- memory --------------------------------------------------------------------------------- */

static void test_alloc(void)
{
    int64_t live = ft_alloc_live(), count = ft_alloc_count(), product;
    char *block = ft_alloc(100), *empty = ft_alloc(0);
    CHECK(block && empty && block[0] == 0 && block[99] == 0);
    CHECK(ft_alloc_live() == live + 2 && ft_alloc_count() == count + 2);
    block[0] = 7;
    block = ft_realloc(block, 100000);
    CHECK(block && block[0] == 7 && ft_alloc_live() == live + 2);
    ft_alloc_fail_after(2);
    char *other = ft_alloc(1);
    CHECK(other && !ft_realloc(block, 200000) && block[0] == 7);
    char *after = ft_alloc(1);
    CHECK(after);
    ft_free(block);
    ft_free(empty);
    ft_free(other);
    ft_free(after);
    ft_free(NULL);
    CHECK(ft_alloc_live() == live && !ft_alloc(-1));
    char *asked = ft_alloc_for(8, NULL);
    CHECK(asked && asked[7] == 0 && ft_alloc_live() == live + 1 && !ft_alloc_for(SIZE_MAX, NULL));
    ft_free_for(asked, NULL);
    CHECK(ft_alloc_live() == live);
    CHECK(ft_size_mul(3, 4, &product) && product == 12);
    CHECK(!ft_size_mul((int64_t)1 << 40, (int64_t)1 << 40, &product));
    CHECK(!ft_size_mul(-1, 4, &product) && !ft_size_mul(4, -1, &product));
}

static void test_pages(void)
{
    int64_t live = ft_alloc_live(), bytes = 3 << 20;
    char *pages = ft_pages_alloc(bytes);
    CHECK(pages && (uintptr_t)pages % (2 << 20) == 0 && pages[0] == 0 && pages[bytes - 1] == 0);
    CHECK(ft_alloc_live() == live + 1);
    memset(pages, 1, (size_t)bytes);
    ft_pages_rest(pages + 1, bytes - 2); /* but for the first page and the last */
    CHECK(pages[0] == 1 && pages[bytes - 1] == 1 && pages[bytes / 2] == 0);
    ft_pages_rest(pages + 1, 100);
    CHECK(pages[1] == 1);
    ft_pages_free(pages, bytes);
    CHECK(ft_alloc_live() == live && !ft_pages_alloc(-1));
}

static void test_arena(void)
{
    int64_t live = ft_alloc_live();
    ft_arena *arena = ft_arena_new();
    bool aligned = true, zeroed = true;
    for (int i = 1; i < 3000; i++) {
        char *block = ft_arena_alloc(arena, i);
        aligned = aligned && (uintptr_t)block % 16 == 0;
        zeroed = zeroed && block[0] == 0 && block[i - 1] == 0;
        memset(block, 0xff, (size_t)i); /* blocks do not overlap: the next one is zero again */
    }
    CHECK(aligned && zeroed);
    CHECK(!strcmp(ft_arena_strdup(arena, "name"), "name"));
    char *large = ft_arena_alloc(arena, 1 << 20);
    bool all_zero = large != NULL;
    for (int i = 0; large && i < 1 << 20; i++) all_zero = all_zero && large[i] == 0;
    memset(large, 0xff, 1 << 20); /* beyond a chunk, this would be seen by the heap */
    CHECK(all_zero);
    CHECK(!ft_arena_array(arena, (int64_t)1 << 40, (int64_t)1 << 40) && !ft_arena_alloc(arena, -1));
    ft_arena_free(arena);
    ft_arena_free(NULL);
    CHECK(ft_alloc_live() == live);
}

/* -- maps ----------------------------------------------------------------------------------- */

enum { N_KEYS = 5000 };

static void test_map(void)
{
    static char keys[N_KEYS][28];
    ft_map map = {0};
    int32_t value = -1;
    CHECK(!ft_map_find(&map, "none", &value));
    for (int i = 0; i < N_KEYS; i++) {
        snprintf(keys[i], sizeof keys[i], "block.%d.weight", i);
        CHECK(ft_map_set(&map, keys[i], i));
    }
    bool good = true;
    for (int i = 0; i < N_KEYS; i++) {
        char same[32];
        snprintf(same, sizeof same, "block.%d.weight", i);
        good = good && ft_map_find(&map, same, &value) && value == i;
    }
    CHECK(good && map.n_keys == N_KEYS);
    CHECK(!ft_map_find(&map, "block.5000.weight", &value) && !ft_map_find(&map, "", NULL));
    CHECK(ft_map_set(&map, "block.7.weight", -7) && map.n_keys == N_KEYS);
    CHECK(ft_map_find(&map, keys[7], &value) && value == -7);
    ft_map_fini(&map);
    CHECK(!ft_map_find(&map, keys[0], NULL));
}

static void test_map_without_memory(void)
{
    int64_t live = ft_alloc_live();
    ft_map map = {0};
    ft_alloc_fail_after(1);
    CHECK(!ft_map_set(&map, "a", 1));
    ft_alloc_fail_after(0);
    CHECK(map.n_keys == 0 && ft_map_set(&map, "a", 1));
    ft_map_fini(&map);
    CHECK(ft_alloc_live() == live);
}

/* -- random numbers ------------------------------------------------------------------------- */

/* Known answers of the authors' Random123 library (kat_vectors, philox4x32 10). */
static void test_philox(void)
{
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } cases[] = {
        {{0}, {0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];
        ft_philox(cases[i].key, cases[i].counter, out);
        CHECK(!memcmp(out, cases[i].out, sizeof out));
    }
}

static void test_rng(void)
{
    enum { N = 200000 };
    ft_rng rng, again, other;
    ft_rng_init(&rng, 1, 2);
    again = rng;
    ft_rng_init(&other, 1, 3);
    int counts[6] = {0}, same = 0;
    double sum = 0, squares = 0, uniform = 0;
    bool in_range = true, repeats = true;
    for (int i = 0; i < N; i++) {
        uint64_t face = ft_rng_below(&rng, 6);
        repeats = repeats && face == ft_rng_below(&again, 6);
        in_range = in_range && face < 6;
        counts[face % 6]++;
        same += ft_rng_below(&other, 1000) == ft_rng_below(&rng, 1000);
        ft_rng_below(&again, 1000);
    }
    for (int i = 0; i < 6; i++) CHECK_NEAR(counts[i], N / 6.0, 5 * sqrt(N / 6.0));
    CHECK(repeats && same < N / 1000 * 2);
    for (int i = 0; i < N; i++) {
        double x = ft_rng_normal(&rng), u = ft_rng_uniform(&rng);
        in_range = in_range && u >= 0 && u < 1;
        sum += x;
        squares += x * x;
        uniform += u;
    }
    CHECK_NEAR(sum / N, 0, 5 / sqrt(N));
    CHECK_NEAR(squares / N, 1, 5 * sqrt(2.0 / N));
    CHECK_NEAR(uniform / N, 0.5, 5 * sqrt(1.0 / 12 / N));
    CHECK(in_range && ft_rng_below(&rng, 1) == 0);
}

/* Two thirds of 2^64: without rejection, the lower half would be drawn twice as often. */
static void test_rng_favours_no_value(void)
{
    enum { N = 20000 };
    uint64_t n = UINT64_MAX / 3 * 2;
    ft_rng rng;
    ft_rng_init(&rng, 5, 0);
    int low = 0;
    for (int i = 0; i < N; i++) low += ft_rng_below(&rng, n) < n / 2;
    CHECK_NEAR(low, N / 2.0, 5 * sqrt(N / 4.0));
}

/* Wherever a sequence is entered, it goes on as if what comes before had been drawn. */
static void test_rng_skips(void)
{
    for (int drawn = 0; drawn < 20; drawn++)
        for (uint64_t words = 0; words < 40; words++) {
            ft_rng step, leap;
            ft_rng_init(&step, 5, 7);
            for (int i = 0; i < drawn; i++) ft_rng_u32(&step);
            leap = step;
            for (uint64_t i = 0; i < words; i++) ft_rng_u32(&step);
            ft_rng_skip(&leap, words);
            CHECK(ft_rng_u32(&leap) == ft_rng_u32(&step));
        }
    ft_rng far, near;
    ft_rng_init(&far, 5, 7);
    near = far;
    ft_rng_skip(&far, (1ull << 34) + 4); /* a carry of the counter */
    near.counter[0] = 1, near.counter[1] = 1;
    CHECK(ft_rng_u32(&far) == ft_rng_u32(&near));
}

/* A stream does not begin anew after 2^32 blocks. */
static void test_rng_carries(void)
{
    ft_rng rng, fresh;
    ft_rng_init(&rng, 5, 0);
    fresh = rng;
    rng.counter[0] = UINT32_MAX;
    for (int i = 0; i < 4; i++) ft_rng_u32(&rng); /* the last block */
    int same = 0;
    for (int i = 0; i < 64; i++) same += ft_rng_u32(&rng) == ft_rng_u32(&fresh);
    CHECK(rng.counter[1] == 1 && same == 0);
}

/* -- gates and clocks ----------------------------------------------------------------------- */

typedef struct relay {
    ft_gate there, back;
    atomic_bool stop;
    int payload;
    bool reached; /* what the waiting thread saw at its end */
} relay;

enum { ROUNDS = 20000 };

static void *answer(void *arg)
{
    relay *r = arg;
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        ft_gate_wait(&r->there, i, NULL, -1);
        r->payload = r->payload * 3 + 1;
        ft_gate_open(&r->back);
    }
    r->reached = ft_gate_wait(&r->there, ROUNDS + 1, &r->stop, -1);
    return NULL;
}

static void test_gate(void)
{
    relay r = {0};
    pthread_t thread;
    if (!CHECK(pthread_create(&thread, NULL, answer, &r) == 0)) return;
    uint32_t expected = 0;
    bool good = true;
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        expected = expected * 3 + 1;
        ft_gate_open(&r.there);
        good = good && ft_gate_wait(&r.back, i, NULL, -1) && (uint32_t)r.payload == expected;
        r.payload = (int)expected;
        expected &= 0xffff;
        r.payload &= 0xffff;
    }
    CHECK(good && ft_gate_count(&r.back) == ROUNDS);
    struct timespec pause = {0, 3000000}; /* let it fall asleep */
    nanosleep(&pause, NULL);
    r.reached = true;
    atomic_store(&r.stop, true);
    ft_gate_wake(&r.there);
    pthread_join(thread, NULL);
    CHECK(!r.reached);
}

static void test_gate_timeout_and_wrap(void)
{
    ft_gate gate = {0};
    int64_t start = ft_now_ns();
    CHECK(!ft_gate_wait(&gate, 1, NULL, 2000000));
    CHECK(ft_now_ns() - start >= 2000000);
    atomic_store(&gate.count, UINT32_MAX); /* the target lies behind the overflow */
    CHECK(!ft_gate_wait(&gate, 0, NULL, 0));
    ft_gate_open(&gate);
    CHECK(ft_gate_wait(&gate, 0, NULL, 0) && ft_gate_wait(&gate, UINT32_MAX, NULL, 0));
}

static void test_clock(void)
{
    int64_t wall = ft_now_ns(), cpu = ft_thread_cpu_ns();
    volatile double sink = 0;
    while (ft_thread_cpu_ns() - cpu < 1000000) sink += 1;
    CHECK(ft_now_ns() - wall >= 900000);
}

/* -- digests ---------------------------------------------------------------------------------- */

/* FIPS 180-4's examples, and lengths around the end of a block. */
static void test_sha256(void)
{
    static const struct {
        int64_t n; /* letters */
        uint8_t first, last;
    } cases[] = {{0, 0xe3, 0x55},  {1, 0xca, 0xbb},   {55, 0x9f, 0x18},
                 {56, 0xb3, 0x8a}, {63, 0x7d, 0x34},  {64, 0xff, 0xeb},
                 {65, 0x63, 0xe0}, {119, 0x31, 0xfb}, {120, 0x2f, 0x1c}};
    char letters[128];
    uint8_t digest[FT_SHA256_BYTES];
    memset(letters, 'a', sizeof letters);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ft_sha256(letters, cases[i].n, digest);
        CHECK(digest[0] == cases[i].first && digest[31] == cases[i].last);
    }
    ft_sha256("abc", 3, digest);
    CHECK(digest[0] == 0xba && digest[1] == 0x78 && digest[30] == 0x15 && digest[31] == 0xad);
}

int main(void)
{
    RUN(test_errors);
    RUN(test_text);
    RUN(test_alloc);
    RUN(test_pages);
    RUN(test_arena);
    RUN(test_map);
    RUN(test_map_without_memory);
    RUN(test_philox);
    RUN(test_rng);
    RUN(test_rng_favours_no_value);
    RUN(test_rng_skips);
    RUN(test_rng_carries);
    RUN(test_gate);
    RUN(test_gate_timeout_and_wrap);
    RUN(test_clock);
    RUN(test_sha256);
    return check_report();
}
