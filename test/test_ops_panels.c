/* test/test_ops_panels.c - our own products, with every instruction set that this CPU has: each
 * element is, to the bit, the sums that panels.h promises, whatever the tile, the block and the
 * team. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "op_case.h"
#include "ops/panels.h"
#include "source.h"

static float *numbers(int64_t n, uint32_t seed)
{
    float *x = guarded_new(n * 4);
    draw(x, n, seed);
    return x;
}

/* The products of SSE are rounded before they are added, where vec.h has no fused ones. */
static float chain(float sum, float a, float b, bool fused)
{
    volatile float product = a * b;
    return fused ? fmaf(a, b, sum) : sum + product;
}

/* How the two sides of a product are given, and what follows it. */
typedef struct variant {
    bool a_transposed, b_transposed, packed, add, bias, relu;
} variant;

static float left_of(const ft_large_product *o, int64_t i, int64_t p)
{
    return o->a[o->a_transposed ? p * o->m + i : i * o->k + p];
}

static float right_of(const ft_large_product *o, int64_t p, int64_t j)
{
    return o->b[o->b_transposed ? j * o->k + p : p * o->n + j];
}

/* Element (i,j) by the promise; `exact` and `size`: the same in f64, and the sum of magnitudes. */
static float promised(const ft_large_product *o, int64_t i, int64_t j, float c, bool fused,
                      double *exact, double *size)
{
    int64_t chunk = ft_panels_chunk(o->k);
    *exact = o->add ? (double)c : 0.0;
    *size = fabs(*exact);
    for (int64_t start = 0; start < o->k; start += chunk) {
        float sum = 0.0f;
        for (int64_t p = start; p < start + chunk && p < o->k; p++) {
            float a = left_of(o, i, p), b = right_of(o, p, j);
            sum = chain(sum, a, b, fused);
            *exact += (double)a * (double)b;
            *size += fabs((double)a * (double)b);
        }
        c = o->add || start ? c + sum : sum;
    }
    if (o->bias) c += o->bias[j], *exact += (double)o->bias[j];
    if (o->relu) c = c > 0.0f ? c : 0.0f, *exact = fmax(*exact, 0.0);
    return c;
}

/* How many elements of c are not those of the promise. `before` is c as it was. */
static int64_t wrong(const ft_large_product *o, const float *before, bool fused)
{
    int64_t count = 0;
    for (int64_t i = 0; i < o->m; i++)
        for (int64_t j = 0; j < o->n; j++) {
            double exact, size;
            float c = promised(o, i, j, before[i * o->n + j], fused, &exact, &size);
            float got = o->c[i * o->n + j];
            count += got != c || fabs((double)got - exact) > 1e-6 * (size + 1.0);
        }
    return count;
}

static void one(const ft_simd_panels *kernels, const int64_t mnk[3], variant v, int team_size,
                bool fused)
{
    int64_t m = mnk[0], n = mnk[1], k = mnk[2];
    int64_t work_bytes = ft_panels_work_bytes(m, n, k, kernels, team_size);
    int64_t packed_bytes = ft_panels_packed_bytes(n, k, kernels);
    source a = source_new(m * k, 1), b = source_new(n * k, 2), bias = source_new(n, 4);
    float *before = numbers(m * n, 3), *c = numbers(m * n, 3), *packed = guarded_new(packed_bytes);
    ft_large_product o = {.m = m, .n = n, .k = k, .a = a.x, .b = b.x, .c = c, .add = v.add};
    o.a_transposed = v.a_transposed;
    o.b_transposed = v.b_transposed;
    o.relu = v.relu;
    o.bias = v.bias ? bias.x : NULL;
    o.work = guarded_new(work_bytes);
    if (!v.add) memset(c, 0xff, (size_t)(m * n) * 4); /* NaN: it is not read */
    ft_team *team;
    CHECK_STATUS(ft_team_new(&team, team_size, NULL), FT_OK);
    if (v.packed) {
        ft_panels_pack(&o, packed, kernels, team);
        o.packed = packed;
        o.b = NULL;
    }
    ft_panels_multiply(&o, kernels, team);
    o.b = b.x;
    int64_t n_wrong = wrong(&o, before, fused);
    if (!CHECK(n_wrong == 0))
        fprintf(stderr, "%lld x %lld x %lld, team of %d, a%s, b%s%s\n", (long long)m, (long long)n,
                (long long)k, team_size, v.a_transposed ? " transposed" : "",
                v.b_transposed ? " transposed" : "", v.packed ? " packed" : "");
    CHECK(guarded_intact(c, m * n * 4) && guarded_intact(o.work, work_bytes));
    CHECK(guarded_intact(packed, packed_bytes));
    ft_team_free(team);
    float *all[] = {before, c, packed, o.work};
    for (int i = 0; i < 4; i++) guarded_free(all[i]);
    source_free(a);
    source_free(b);
    source_free(bias);
}

/* Around the borders of tiles, of rows packed together, of chunks and of blocks. */
static const int64_t cases[][3] = {
    {1, 1, 1},     {5, 3, 7},      {6, 16, 8},      {7, 17, 9},     {13, 31, 64},
    {14, 32, 65},  {15, 33, 255},  {28, 64, 256},   {29, 70, 257},  {300, 9, 513},
    {9, 300, 40},  {281, 33, 30},  {12, 2049, 600}, {561, 40, 520}, {2, 700, 1},
    {100, 700, 9}, {3, 1100, 600}, {4, 37, 523},    {1, 3100, 300},
};

static void test_every_edge(void)
{
    for (int isa = 0; isa <= (int)ft_cpu_isa(); isa++) {
        const ft_simd *simd = ft_simd_of(isa);
        for (size_t i = 0; simd && i < sizeof cases / sizeof *cases; i++)
            for (int team = 1; team <= 3; team++)
                for (int way = 0; way < 6; way++) {
                    unsigned other = (unsigned)i + (unsigned)team + (unsigned)way;
                    const variant v = {.a_transposed = way % 2,
                                       .b_transposed = way / 2 == 1,
                                       .packed = other % 3 == 0,
                                       .add = other % 2,
                                       .bias = other % 4 > 1,
                                       .relu = other % 5 > 2};
                    one(simd->panels, cases[i], v, team, isa != FT_ISA_BASE);
                }
    }
}

/* Every way to give the sides and what follows, one team; of many rows and of few. */
static void test_every_variant(void)
{
    const ft_simd_panels *best = ft_simd_get()->panels;
    bool fused = ft_cpu_isa() != FT_ISA_BASE;
    for (unsigned bits = 0; bits < 64; bits++) {
        const variant v = {bits & 1, bits & 2, bits & 4, bits & 8, bits & 16, bits & 32};
        one(best, (int64_t[]){30, 50, 300}, v, 1, fused);
        one(best, (int64_t[]){4, 50, 300}, v, 1, fused);
    }
}

static void test_nothing_needs_nothing(void)
{
    const ft_simd_panels *best = ft_simd_get()->panels;
    const ft_large_product nothing = {.m = 0, .n = 3, .k = 2};
    CHECK(ft_panels_work_bytes(0, 4, 4, best, 2) == 0);
    CHECK(ft_panels_work_bytes(4, 4, 0, best, 2) == 0);
    CHECK(ft_panels_packed_bytes(0, 4, best) == 0 && ft_panels_packed_bytes(4, 0, best) == 0);
    ft_panels_multiply(&nothing, best, NULL);
    ft_panels_pack(&(ft_large_product){.n = 0, .k = 2}, NULL, best, NULL);
}

int main(void)
{
    RUN(test_every_edge);
    RUN(test_every_variant);
    RUN(test_nothing_needs_nothing);
    return check_report();
}
