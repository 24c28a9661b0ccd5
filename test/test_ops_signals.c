/* test/test_ops_signals.c - a timer's signals, 2000 a second, while products are computed on the
 * thread that takes them: the bits are those of a run without a timer. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "check.h"
#include "ops/onednn.h"
#include "ops/ops.h"

static volatile sig_atomic_t taken;

/* A handler with a frame of its own, which it fills. */
static void on_timer(int number)
{
    volatile char frame[4096];
    for (unsigned i = 0; i < sizeof frame; i++) frame[i] = (char)(0xA5 + number);
    taken = taken + 1;
}

static void set_timer(int microseconds)
{
    const struct timeval every = {0, microseconds};
    const struct itimerval timer = {every, every};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

static float *numbers(int64_t n, uint32_t seed)
{
    float *x = aligned_alloc(64, (size_t)((n * 4 + 63) / 64 * 64));
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)seed * 0x1p-31f;
    }
    return x;
}

enum { N = 768, K = 256, ROUNDS = 12 };

static void product(int layout, int64_t m, const float *a, const float *b, float *c)
{
    bool at = layout & 1, bt = layout & 2;
    const ft_gemm g = {m, N, K, a, b, c, at ? m : K, bt ? K : N, N, at, bt, 1.0f, 0.0f};
    CHECK_STATUS(ft_onednn_gemm_team(&g, NULL, NULL), FT_OK);
}

static void with_weight(int64_t m, const float *x, const float *w, float *y)
{
    const ft_product p = {.m = m, .n = N, .k = K, .transposed = true};
    int64_t bytes = ft_onednn_packed_bytes(&p);
    char *packed = aligned_alloc(64, (size_t)bytes);
    void *work = aligned_alloc(64, (size_t)(ft_onednn_work_bytes(&p, 1) + 63) / 64 * 64 + 64);
    CHECK_STATUS(ft_onednn_pack(&p, w, packed, NULL, NULL), FT_OK);
    const ft_product_data d = {.x = x, .packed = packed, .y = y, .work = work};
    CHECK_STATUS(ft_onednn_product(&p, &d, NULL, NULL), FT_OK);
    free(packed);
    free(work);
}

/* Until the timer has come so often, at least ROUNDS times. */
static void test_products(void)
{
    static const int64_t rows[] = {64, 192, 768};
    float *b = numbers(N * K, 1), *a = numbers(N * K, 2);
    float *expected = numbers(N * N, 3), *c = numbers(N * N, 4);
    for (int layout = 0; layout < 5; layout++)
        for (int i = 0; i < 3; i++) {
            int64_t m = rows[i], bytes = m * N * 4;
            if (layout < 4)
                product(layout, m, a, b, expected);
            else
                with_weight(m, a, b, expected);
            taken = 0;
            set_timer(500);
            int wrong = 0;
            for (int round = 0; round < ROUNDS || taken < 50; round++) {
                memset(c, 0, (size_t)bytes);
                if (layout < 4)
                    product(layout, m, a, b, c);
                else
                    with_weight(m, a, b, c);
                wrong += memcmp(c, expected, (size_t)bytes) != 0;
            }
            set_timer(0);
            CHECK(wrong == 0);
        }
    free(a);
    free(b);
    free(c);
    free(expected);
}

int main(void)
{
    ft_ops_thread_init();
    struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    RUN(test_products);
    return check_report();
}
