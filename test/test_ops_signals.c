/* test/test_ops_signals.c - a timer's signals, 2000 a second, while products are computed on the
 * thread that takes them: the bits are those of a run without a timer. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "check.h"
#include "ops/panels.h"

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

/* Layout 4: with a weight that is packed. */
static void product(int layout, int64_t m, const float *a, const float *b, float *c)
{
    const ft_simd_panels *kernels = ft_panels_kernels(false);
    ft_large_product p = {
        .m = m, .n = N, .k = K, .a = a, .b = b, .a_transposed = layout & 1, .c = c};
    p.b_transposed = layout & 6;
    p.work = aligned_alloc(64, (size_t)(ft_panels_work_bytes(m, N, K, kernels, 1) + 64) / 64 * 64);
    void *packed = aligned_alloc(64, (size_t)ft_panels_packed_bytes(N, K, kernels));
    ft_panels_pack(&p, packed, kernels, NULL);
    if (layout == 4) p.packed = packed;
    ft_panels_multiply(&p, kernels, NULL);
    free(packed);
    free(p.work);
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
            product(layout, m, a, b, expected);
            taken = 0;
            set_timer(500);
            int wrong = 0;
            for (int round = 0; round < ROUNDS || taken < 50; round++) {
                memset(c, 0, (size_t)bytes);
                product(layout, m, a, b, c);
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
    struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    RUN(test_products);
    return check_report();
}
