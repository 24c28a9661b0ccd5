/* test/test_optim_simd.c - the loops of the optimizers, one copy for each instruction set. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "check.h"
#include "device/device.h"
#include "optim/simd/simd.h"

/* What every loop of the optimizers makes of the same numbers. */
typedef struct worked {
    float p[3][1500], m[2][1500], v[2][1500]; /* AdamW, SGD and Adafactor's matrix; its vector */
    double columns[500], sums[FT_SQUARE_ROWS + 5];
} worked;

static void work_through(const ft_optim_simd *simd, worked *w)
{
    enum { N = 1500, C = 77 }; /* no multiple of what registers hold */
    static const ft_adamw_step step = {0.7f, 0.9f, 0.1f,  0.99f, 0.01f, 0.999f,
                                       0.1f, 1.5f, 1e-8f, 0.4f,  0.8f};
    static const float hypers[] = {0.7f, 0.9f, 0.01f, 0.1f, 0.3f};
    static float g[N];
    ft_rng rng;
    ft_rng_init(&rng, 5, 6);
    memset(w, 0, sizeof *w);
    for (int i = 0; i < N; i++) {
        g[i] = (float)ft_rng_normal(&rng);
        for (int k = 0; k < 3; k++) w->p[k][i] = (float)ft_rng_normal(&rng);
        for (int k = 0; k < 2; k++) w->m[k][i] = w->v[k][i] = w->p[k][i] * w->p[k][i];
    }
    simd->adamw(w->p[0], w->m[0], w->v[0], g, &step, N);
    simd->sgd(w->p[1], w->m[1], g, hypers, N);
    simd->square_rows(w->columns, w->sums, g, 0.3f, 1e-3f, C);
    w->sums[FT_SQUARE_ROWS] = simd->square_row(w->columns, g + C, 0.3f, 1e-3f, C);
    w->sums[FT_SQUARE_ROWS + 1] = simd->factored_squares(g, w->m[0], 0.3f, 0.7f, N);
    simd->factored_apply(w->p[2], g, w->m[0], 0.3f, 0.99f, N);
    w->sums[FT_SQUARE_ROWS + 2] = simd->plain_squares(w->v[1], g, hypers, N);
    simd->plain_apply(w->p[2], w->v[1], g, 0.1f, 0.99f, N);
    w->sums[FT_SQUARE_ROWS + 3] = simd->squares(g, N);
    w->sums[FT_SQUARE_ROWS + 4] = simd->rough_squares(g, N);
}

/* The copies for all instruction sets of this CPU give the same bits: where a parameter is updated
 * does not matter. */
static void test_isas(void)
{
    static worked first, other;
    work_through(ft_optim_simd_of(0), &first);
    CHECK_NEAR(first.sums[FT_SQUARE_ROWS + 3], 1500, 150); /* of normal numbers */
    for (int isa = 1; isa <= (int)ft_cpu_isa(); isa++) {
        work_through(ft_optim_simd_of(isa), &other);
        CHECK(memcmp(&first, &other, sizeof first) == 0);
    }
}

/* The sum at the speed of memory, beside the exact one, at ends of all lengths. */
static void test_rough_squares(void)
{
    static float x[5000];
    ft_rng rng;
    ft_rng_init(&rng, 3, 4);
    for (int i = 0; i < 5000; i++) x[i] = (float)ft_rng_normal(&rng);
    for (int isa = 0; isa <= (int)ft_cpu_isa(); isa++)
        for (int64_t n = 0; n <= 5000; n += n < 1100 ? 1 : 397) {
            double sum = ft_optim_simd_of(isa)->squares(x, n);
            CHECK_NEAR(ft_optim_simd_of(isa)->rough_squares(x, n), sum, 3e-7 * sum);
        }
}

int main(void)
{
    RUN(test_isas);
    RUN(test_rough_squares);
    return check_report();
}
