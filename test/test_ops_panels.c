/* test/test_ops_panels.c - our own products, with every instruction set that this CPU has: each
 * element is, to the bit, the sums that panels.h promises, whatever the tile, the block and the
 * team. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "op_case.h"
#include "ops/panels.h"

static float *numbers(int64_t n, uint32_t seed)
{
    float *x = guarded_new(n * 4);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)seed * 0x1p-31f;
    }
    return x;
}

/* The products of SSE are rounded before they are added, where vec.h has no fused ones. */
static float chain(float sum, float a, float b, bool fused)
{
    volatile float product = a * b;
    return fused ? fmaf(a, b, sum) : sum + product;
}

/* How many elements of c are not those of the promise. `before` is c as it was. */
static int64_t wrong(const ft_outer *o, const float *before, bool fused)
{
    int64_t count = 0, chunk = ft_panels_chunk(o->k);
    for (int64_t i = 0; i < o->m; i++)
        for (int64_t j = 0; j < o->n; j++) {
            float c = before[i * o->n + j];
            double exact = o->add ? (double)c : 0.0, size = fabs(exact);
            for (int64_t start = 0; start < o->k; start += chunk) {
                float sum = 0.0f;
                for (int64_t p = start; p < start + chunk && p < o->k; p++) {
                    float a = o->a[p * o->m + i], b = o->b[p * o->n + j];
                    sum = chain(sum, a, b, fused);
                    exact += (double)a * (double)b;
                    size += fabs((double)a * (double)b);
                }
                c = o->add || start ? c + sum : sum;
            }
            float got = o->c[i * o->n + j];
            count += memcmp(&got, &c, 4) != 0 || fabs((double)got - exact) > 1e-6 * size;
        }
    return count;
}

static void one(const ft_simd_panels *kernels, const int64_t mnk[3], bool add, int team_size,
                bool fused)
{
    int64_t m = mnk[0], n = mnk[1], k = mnk[2];
    int64_t work_bytes = ft_panels_work_bytes(m, n, k, kernels, team_size);
    float *a = numbers(m * k, 1), *b = numbers(n * k, 2);
    float *before = numbers(m * n, 3), *c = numbers(m * n, 3);
    ft_outer o = {m, n, k, a, b, c, add, guarded_new(work_bytes)};
    if (!add) memset(c, 0xff, (size_t)(m * n) * 4); /* NaN: it is not read */
    ft_team *team;
    CHECK_STATUS(ft_team_new(&team, team_size, NULL), FT_OK);
    ft_panels_outer(&o, kernels, team);
    int64_t n_wrong = wrong(&o, before, fused);
    if (!CHECK(n_wrong == 0))
        fprintf(stderr, "%lld x %lld x %lld, team of %d\n", (long long)m, (long long)n,
                (long long)k, team_size);
    CHECK(guarded_intact(c, m * n * 4) && guarded_intact(o.work, work_bytes));
    CHECK(guarded_intact(a, m * k * 4) && guarded_intact(b, n * k * 4));
    ft_team_free(team);
    guarded_free(o.work);
    guarded_free(c);
    guarded_free(before);
    guarded_free(b);
    guarded_free(a);
}

/* Around the borders of tiles, of rows packed together, of chunks and of blocks. */
static const int64_t cases[][3] = {
    {1, 1, 1},    {5, 3, 7},     {6, 16, 8},      {7, 17, 9},     {13, 31, 64},
    {14, 32, 65}, {15, 33, 255}, {28, 64, 256},   {29, 70, 257},  {300, 9, 513},
    {9, 300, 40}, {281, 33, 30}, {12, 2049, 600}, {561, 40, 520}, {2, 700, 1},
};

static void test_every_edge(void)
{
    for (int isa = 0; isa <= (int)ft_cpu_isa(); isa++) {
        const ft_simd *simd = ft_simd_of(isa);
        for (size_t i = 0; simd && i < sizeof cases / sizeof *cases; i++)
            for (int team = 1; team <= 3; team++)
                one(simd->panels, cases[i], (i + (size_t)team) % 2 == 0, team, isa != FT_ISA_BASE);
    }
}

/* With and without what was there, one team. */
static void test_adding(void)
{
    const ft_simd_panels *best = ft_simd_get()->panels;
    bool fused = ft_cpu_isa() != FT_ISA_BASE;
    for (int add = 0; add < 2; add++) one(best, (int64_t[]){30, 50, 300}, add, 1, fused);
}

static void test_nothing_needs_nothing(void)
{
    const ft_simd_panels *best = ft_simd_get()->panels;
    CHECK(ft_panels_work_bytes(0, 4, 4, best, 2) == 0);
    CHECK(ft_panels_work_bytes(4, 4, 0, best, 2) == 0);
    ft_panels_outer(&(ft_outer){.m = 0, .n = 3, .k = 2}, best, NULL);
}

int main(void)
{
    RUN(test_every_edge);
    RUN(test_adding);
    RUN(test_nothing_needs_nothing);
    return check_report();
}
