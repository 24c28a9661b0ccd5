/* test/test_optim_loops.c - what every element of a parameter goes through in a step, with each
 * instruction set that this CPU has. */
#include <string.h>

#include "base/rng.h"
#include "check.h"
#include "device/device.h"
#include "optim/simd/simd.h"

/* The copies for all instruction sets of this CPU agree. */
static void test_isas(void)
{
    enum { N = 77 };
    float g[N], p[N], m[N], v[N], first[N] = {0};
    const ft_adamw_step step = {.grad_scale = 1,
                                .beta1 = 0.9f,
                                .rest1 = 0.1f,
                                .beta2 = 0.99f,
                                .rest2 = 0.01f,
                                .keep = 0.999f,
                                .size = 0.1f,
                                .root = 1,
                                .eps = 1e-8f};
    for (int isa = 0; isa <= (int)ft_cpu_isa(); isa++) {
        for (int i = 0; i < N; i++) {
            g[i] = (float)(i % 7) - 3.5f;
            p[i] = m[i] = (float)i / N;
            v[i] = p[i] * p[i];
        }
        ft_optim_simd_of(isa)->adamw(p, m, v, g, &step, N);
        if (isa == 0) memcpy(first, p, sizeof p);
        for (int i = 0; i < N; i++) CHECK_NEAR(p[i], first[i], 1e-6);
        CHECK_NEAR(ft_optim_simd_of(isa)->squares(g, N),
                   11 * (12.25 + 6.25 + 2.25 + 0.25 + 0.25 + 2.25 + 6.25), 1e-12);
    }
}

/* The exact sum, and beside it the one at the speed of memory, at ends of all lengths. */
static void test_squares(void)
{
    static float x[5000];
    ft_rng rng;
    ft_rng_init(&rng, 3, 4);
    for (int i = 0; i < 5000; i++) x[i] = (float)ft_rng_normal(&rng);
    for (int isa = 0; isa <= (int)ft_cpu_isa(); isa++)
        for (int64_t n = 0; n <= 5000; n += n < 1100 ? 1 : 397) {
            double sum = 0.0;
            for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
            CHECK_NEAR(ft_optim_simd_of(isa)->squares(x, n), sum, 1e-12 * sum);
            CHECK_NEAR(ft_optim_simd_of(isa)->rough_squares(x, n), sum, 3e-7 * sum);
        }
}

static double squared(double x)
{
    return x * x;
}

/* Adafactor's passes over rows, as many as there are at a time and fewer, against f64. */
static void check_rows(const ft_optim_simd *simd, const float *x, int rows, int64_t n)
{
    enum { R = FT_SQUARE_ROWS };
    static float p[R * 2100];
    static double columns[2100];
    double sums[R], sum = 0.0;
    const float row[R] = {1, 0.5f, 2, 3, 0.25f, 1.5f, 4, 0.125f}, *column = x + n, scale = 0.5f;
    for (int64_t i = 0; i < n; i++) columns[i] = 1.0;
    simd->square_rows(columns, sums, x, scale, 1e-3f, n);
    for (int64_t i = 0; i < n; i++) {
        double want = 1.0;
        for (int r = 0; r < R; r++) want += squared(0.5 * (double)x[r * n + i]) + 1e-3;
        CHECK_NEAR(columns[i], want, 1e-6 * want);
    }
    for (int r = 0; r < R; r++) {
        double want = 0.0;
        for (int64_t i = 0; i < n; i++) want += squared(0.5 * (double)x[r * n + i]) + 1e-3;
        CHECK_NEAR(sums[r], want, 1e-6 * want);
    }
    for (int64_t i = 0; i < rows * n; i++) {
        sum += squared(0.5 * (double)x[i] * (double)row[i / n] * (double)column[i % n]);
        p[i] = 1.0f;
    }
    CHECK_NEAR(simd->factored_squares(x, column, row, rows, scale, n), sum, 1e-6 * sum);
    p[rows * n] = 7.0f;
    simd->factored_apply(p, x, column, row, rows, 0.75f, n);
    for (int64_t i = 0; i < rows * n; i++)
        CHECK_NEAR(p[i], 0.75 - (double)(x[i] * row[i / n] * column[i % n]), 1e-5);
    CHECK(p[rows * n] == 7.0f);
}

static void test_rows(void)
{
    static float x[FT_SQUARE_ROWS * 2100];
    static const int64_t widths[] = {1, 3, 4, 8, 15, 16, 17, 31, 32, 33, 100, 1024, 1025, 2087};
    ft_rng rng;
    ft_rng_init(&rng, 5, 6);
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)ft_rng_normal(&rng);
    for (int isa = 0; isa <= (int)ft_cpu_isa(); isa++)
        for (size_t k = 0; k < sizeof widths / sizeof *widths; k++)
            for (int rows = 1; rows <= FT_FACTOR_ROWS; rows++)
                check_rows(ft_optim_simd_of(isa), x, rows, widths[k]);
}

int main(void)
{
    RUN(test_isas);
    RUN(test_squares);
    RUN(test_rows);
    return check_report();
}
