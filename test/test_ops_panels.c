/* test/test_ops_panels.c - our own products, with every instruction set that this CPU has, and its
 * matrix unit: each element is, to the bit, the sums that panels.h promises, whatever the tile, the
 * block and the team. */
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

/* x as three numbers of bf16. */
static void split(float x, float parts[3])
{
    for (int i = 0; i < 3; i++) {
        uint32_t bits;
        memcpy(&bits, &x, 4);
        bits = (i < 2 ? bits + 0x8000u : bits) & 0xffff0000u;
        memcpy(&parts[i], &bits, 4);
        x -= parts[i];
    }
}

/* x rounded to bf16, ties to even. */
static float halved(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    bits = (bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u;
    memcpy(&x, &bits, 4);
    return x;
}

/* What the matrix unit makes of 32 products of parts: sums of those with even and of those with odd
 * numbers (Intel's Software Developer's Manual, TDPBF16PS). */
static float unit(float sum, float (*a)[3], float (*b)[3], int left, int right)
{
    float odd = 0.0f, even = 0.0f;
    for (int p = 0; p < 32; p += 2) {
        even = fmaf(a[p][left], b[p][right], even);
        odd = fmaf(a[p + 1][left], b[p + 1][right], odd);
    }
    return sum + (even + odd);
}

/* Who adds: vectors whose products are rounded or not, or the matrix unit, of numbers of f32 or of
 * such as are rounded to bf16. */
typedef enum arithmetic { ROUNDED, FUSED, PAIRS_BF16, UNIT, UNIT_BF16 } arithmetic;

static bool is_bf16(arithmetic how)
{
    return how == PAIRS_BF16 || how == UNIT_BF16;
}

/* How the two sides of a product are given, and what follows it. */
typedef struct variant {
    bool a_transposed, b_transposed, packed, add, bias, relu;
} variant;

static float left_of(const ft_large_product *o, int64_t i, int64_t p, arithmetic how)
{
    float x = o->a[o->a_transposed ? p * o->m + i : i * o->k + p];
    return is_bf16(how) ? halved(x) : x;
}

static float right_of(const ft_large_product *o, int64_t p, int64_t j, arithmetic how)
{
    float x = o->b[o->b_transposed ? j * o->k + p : p * o->n + j];
    return is_bf16(how) ? halved(x) : x;
}

/* The sum over k from `start` to `end`. */
static float chunk_sum(const ft_large_product *o, int64_t i, int64_t j, int64_t start, int64_t end,
                       arithmetic how)
{
    static const int order[6][2] = {{0, 2}, {0, 1}, {1, 1}, {1, 0}, {0, 0}, {2, 0}};
    float sum = 0.0f;
    if (how == ROUNDED || how == FUSED) {
        for (int64_t p = start; p < end; p++)
            sum = chain(sum, left_of(o, i, p, how), right_of(o, p, j, how), how == FUSED);
        return sum;
    }
    /* The second of a pair is added first (the same manual, VDPBF16PS). */
    for (int64_t p = start; p < end && how == PAIRS_BF16; p += 2) {
        if (p + 1 < end) sum = fmaf(left_of(o, i, p + 1, how), right_of(o, p + 1, j, how), sum);
        sum = fmaf(left_of(o, i, p, how), right_of(o, p, j, how), sum);
    }
    for (int64_t p = start; p < end && how != PAIRS_BF16; p += 32) {
        float a[32][3] = {{0}}, b[32][3] = {{0}};
        for (int q = 0; q < 32 && p + q < end; q++) {
            split(left_of(o, i, p + q, how), a[q]);
            split(right_of(o, p + q, j, how), b[q]);
        }
        for (int t = 0; t < 6 && how == UNIT; t++) sum = unit(sum, a, b, order[t][0], order[t][1]);
        if (how == UNIT_BF16) sum = unit(sum, a, b, 0, 0);
    }
    return sum;
}

/* Element (i,j) by the promise; `exact` and `size`: the same in f64, and the sum of magnitudes. */
static float promised(const ft_large_product *o, int64_t i, int64_t j, float c, arithmetic how,
                      double *exact, double *size)
{
    const ft_simd *simd = ft_simd_get();
    int64_t chunk = ft_panels_chunk(o->k, how == UNIT_BF16    ? simd->tiles_bf16
                                          : how == PAIRS_BF16 ? simd->pairs
                                                              : simd->panels);
    *exact = o->add ? (double)c : 0.0;
    *size = fabs(*exact);
    for (int64_t start = 0; start < o->k; start += chunk) {
        int64_t end = start + chunk < o->k ? start + chunk : o->k;
        float sum = chunk_sum(o, i, j, start, end, how);
        for (int64_t p = start; p < end; p++) {
            double product = (double)left_of(o, i, p, how) * (double)right_of(o, p, j, how);
            *exact += product;
            *size += fabs(product);
        }
        c = o->add || start ? c + sum : sum;
    }
    if (o->bias) c += o->bias[j], *exact += (double)o->bias[j];
    if (o->relu) c = c > 0.0f ? c : 0.0f, *exact = fmax(*exact, 0.0);
    return c;
}

/* How many elements of c are not those of the promise. `before` is c as it was. */
static int64_t wrong(const ft_large_product *o, const float *before, arithmetic how)
{
    int64_t count = 0;
    for (int64_t i = 0; i < o->m; i++)
        for (int64_t j = 0; j < o->n; j++) {
            double exact, size;
            float c = promised(o, i, j, before[i * o->n + j], how, &exact, &size);
            float got = o->c[i * o->n + j];
            count += got != c || fabs((double)got - exact) > 1e-6 * (size + 1.0);
        }
    return count;
}

static void one(const ft_simd_panels *kernels, const int64_t mnk[3], variant v, int team_size,
                arithmetic vectors)
{
    int64_t m = mnk[0], n = mnk[1], k = mnk[2];
    bool by_unit =
        kernels == ft_simd_get()->tiles && m >= kernels->least_rows && k >= kernels->least_k;
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
    int64_t n_wrong = wrong(&o, before, by_unit ? UNIT : vectors);
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
    {1, 1, 1},       {5, 3, 7},      {6, 16, 8},    {7, 17, 9},    {13, 31, 64},   {14, 32, 65},
    {15, 33, 255},   {28, 64, 256},  {29, 70, 257}, {300, 9, 513}, {9, 300, 40},   {281, 33, 30},
    {12, 2049, 600}, {561, 40, 520}, {2, 700, 1},   {100, 700, 9}, {3, 1100, 600}, {4, 37, 523},
    {1, 3100, 300},  {97, 300, 100}, {64, 31, 48},  {79, 70, 257},
};

static void each_edge(const ft_simd_panels *kernels, arithmetic vectors)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int team = 1; team <= 3; team++)
            for (int way = 0; way < 6; way++) {
                unsigned other = (unsigned)i + (unsigned)team + (unsigned)way;
                const variant v = {.a_transposed = way % 2,
                                   .b_transposed = way / 2 == 1,
                                   .packed = other % 3 == 0,
                                   .add = other % 2,
                                   .bias = other % 4 > 1,
                                   .relu = other % 5 > 2};
                one(kernels, cases[i], v, team, vectors);
            }
}

static void test_every_edge(void)
{
    for (int isa = 0; isa <= (int)ft_cpu_isa(); isa++) {
        const ft_simd *simd = ft_simd_of(isa);
        if (simd) each_edge(simd->panels, isa == FT_ISA_BASE ? ROUNDED : FUSED);
    }
}

/* Every way to give the sides and what follows, one team; of many rows and of few. */
static void each_variant(const ft_simd_panels *kernels, arithmetic vectors)
{
    for (unsigned bits = 0; bits < 64; bits++) {
        const variant v = {bits & 1, bits & 2, bits & 4, bits & 8, bits & 16, bits & 32};
        one(kernels, (int64_t[]){70, 50, 300}, v, 1, vectors);
        one(kernels, (int64_t[]){4, 50, 300}, v, 1, vectors);
    }
}

static void test_every_variant(void)
{
    each_variant(ft_simd_get()->panels, ft_cpu_isa() == FT_ISA_BASE ? ROUNDED : FUSED);
}

static void test_pairs_every_way(void)
{
    if (!ft_cpu_bf16()) {
        printf("skipped: this CPU's vectors have no bf16\n");
        return;
    }
    const ft_simd_panels *kernels[] = {ft_simd_get()->pairs, ft_simd_get()->widened};
    for (int i = 0; i < 2; i++) {
        each_edge(kernels[i], PAIRS_BF16);
        each_variant(kernels[i], PAIRS_BF16);
    }
}

/* -- the matrix unit --------------------------------------------------------------------------- */

static bool has_unit(void)
{
    if (!ft_cpu_tiles()) printf("skipped: this CPU has no matrix unit\n");
    return ft_cpu_tiles();
}

static void test_unit_every_way(void)
{
    if (!has_unit()) return;
    each_edge(ft_simd_get()->tiles, FUSED);
    each_variant(ft_simd_get()->tiles, FUSED);
}

static void test_unit_every_way_in_bf16(void)
{
    if (!has_unit()) return;
    each_edge(ft_simd_get()->tiles_bf16, UNIT_BF16);
    each_variant(ft_simd_get()->tiles_bf16, UNIT_BF16);
}

/* c (m,n) = a * b, the sides stored as they are read. */
static void multiply(const ft_simd_panels *kernels, const int64_t mnk[3], const float *a,
                     const float *b, float *c)
{
    const ft_large_product o = {
        .m = mnk[0],
        .n = mnk[1],
        .k = mnk[2],
        .a = a,
        .b = b,
        .c = c,
        .work = guarded_new(ft_panels_work_bytes(mnk[0], mnk[1], mnk[2], kernels, 1))};
    ft_panels_multiply(&o, kernels, NULL);
    guarded_free(o.work);
}

/* The mean square of what products miss, of the sum of magnitudes, with numbers of many sizes. */
static double mean_square_error(const ft_simd_panels *kernels, int64_t k)
{
    enum { M = 64, N = 48 };
    float *a = numbers(M * k, 5), *b = numbers(k * N, 6), *c = numbers((int64_t)M * N, 7);
    for (int64_t i = 0; i < M * k; i++) a[i] = ldexpf(a[i], (int)(i % 41) - 20);
    for (int64_t i = 0; i < k * N; i++) b[i] = ldexpf(b[i], (int)(i % 37) - 18);
    multiply(kernels, (int64_t[]){M, N, k}, a, b, c);
    double total = 0.0;
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++) {
            double exact = 0.0, size = 0.0;
            for (int64_t p = 0; p < k; p++) {
                double product = (double)a[i * k + p] * (double)b[p * N + j];
                exact += product;
                size += fabs(product);
            }
            double miss = ((double)c[i * N + j] - exact) / size;
            total += miss * miss;
        }
    guarded_free(a);
    guarded_free(b);
    guarded_free(c);
    return total / (M * N);
}

static void test_unit_is_as_exact_as_vectors(void)
{
    if (!has_unit()) return;
    for (int64_t k = 64; k <= 4096; k *= 4) {
        double unit = mean_square_error(ft_simd_get()->tiles, k);
        double vectors = mean_square_error(ft_simd_get()->panels, k);
        if (!CHECK(unit <= vectors))
            fprintf(stderr, "k %lld: %g, with vectors %g\n", (long long)k, sqrt(unit),
                    sqrt(vectors));
    }
}

/* What is no number stays none, and nothing below 2^128 - 2^119 becomes so. */
static void test_unit_keeps_what_is_no_number(void)
{
    enum { M = 64, N = 32, K = 64 };
    if (!has_unit()) return;
    const float odd[] = {NAN, INFINITY, -INFINITY, 0x1.fefffep127f, 1e-45f};
    for (int i = 0; i < 5; i++) {
        float *a = numbers(M * K, 8), *b = numbers(K * N, 9), *c = numbers((int64_t)M * N, 10);
        a[3 * K + 5] = odd[i];
        memset(b + 5 * N, 0, N * 4);
        b[5 * N + 7] = 0.5f;
        multiply(ft_simd_get()->tiles, (int64_t[]){M, N, K}, a, b, c);
        for (int64_t at = 0; at < (int64_t)M * N; at++)
            if (at / N != 3)
                CHECK(isfinite(c[at]));
            else if (at % N == 7)
                CHECK(!isfinite(c[at]) == !isfinite(odd[i]));
        guarded_free(a);
        guarded_free(b);
        guarded_free(c);
    }
}

/* What the smallest parts of tiny numbers lose is not found in the numbers beside them. */
static void test_unit_keeps_numbers_apart(void)
{
    enum { M = 64, N = 32, K = 64 };
    if (!has_unit()) return;
    float *a = numbers(M * K, 11), *b = numbers(K * N, 12);
    float *c = numbers((int64_t)M * N, 13), *without = numbers((int64_t)M * N, 13);
    for (int64_t i = 0; i < K * N; i++)
        if (i / N % 2) b[i] = ldexpf(b[i], -120);
    multiply(ft_simd_get()->tiles, (int64_t[]){M, N, K}, a, b, c);
    for (int64_t i = 0; i < K * N; i++)
        if (i / N % 2) b[i] = 0.0f;
    multiply(ft_simd_get()->tiles, (int64_t[]){M, N, K}, a, b, without);
    CHECK(!memcmp(c, without, sizeof(float[M * N])));
    float *all[] = {a, b, c, without};
    for (int i = 0; i < 4; i++) guarded_free(all[i]);
}

/* c (m,n), which goes past the caches or not, as two threads make it. */
static float *written(const ft_simd_panels *kernels, int64_t n, const float *a, const float *b,
                      bool far)
{
    enum { M = 530, K = 64, TEAM = 2 };
    const int64_t bytes = M * n * 4;
    ft_large_product o = {.m = M, .n = n, .k = K, .a = a, .b = b, .c = guarded_new(bytes)};
    ft_team *team;
    o.far = far;
    o.work = guarded_new(ft_panels_work_bytes(M, n, K, kernels, TEAM));
    memset(o.c, 0xff, (size_t)bytes);
    CHECK_STATUS(ft_team_new(&team, TEAM, NULL), FT_OK);
    ft_panels_multiply(&o, kernels, team);
    ft_team_free(team);
    guarded_free(o.work);
    CHECK(guarded_intact(o.c, bytes) && isfinite(o.c[M * n - 1]));
    return o.c;
}

/* The same bits; of rows that are whole lines, and of others, which do not. */
static void test_unit_writes_far(void)
{
    enum { M = 530, N = 512, K = 64 };
    if (!has_unit()) return;
    const ft_simd_panels *kernels[] = {ft_simd_get()->tiles, ft_simd_get()->tiles_bf16};
    float *a = numbers(M * K, 14), *b = numbers(K * N, 15);
    for (int i = 0; i < 2; i++)
        for (int64_t n = N; n > N - 24; n -= 12) {
            float *near = written(kernels[i], n, a, b, false);
            float *far = written(kernels[i], n, a, b, true);
            CHECK(!memcmp(near, far, (size_t)(M * n) * 4));
            guarded_free(near);
            guarded_free(far);
        }
    guarded_free(a);
    guarded_free(b);
}

/* Of many rows and of few, by columns as they lie and packed: what is no number is none behind a
 * relu, and what is infinite is so where it is positive. */
static void odd_behind_relu(const ft_simd_panels *kernels, int64_t m, bool packs)
{
    enum { N = 50, K = 300 };
    const float odd[] = {NAN, INFINITY, -INFINITY};
    float *a = numbers(m * K, 16), *b = numbers((int64_t)K * N, 17), *c = numbers(m * N, 18);
    ft_large_product o = {.m = m, .n = N, .k = K, .a = a, .b = b, .c = c, .relu = true};
    o.work = guarded_new(ft_panels_work_bytes(m, N, K, kernels, 1));
    void *packed = guarded_new(ft_panels_packed_bytes(N, K, kernels));
    for (int64_t j = 0; j < N; j++) b[5 * N + j] = 0.5f;
    for (int i = 0; i < 3; i++) a[i * K + 5] = odd[i];
    if (packs) ft_panels_pack(&o, packed, kernels, NULL);
    o.packed = packs ? packed : NULL;
    ft_panels_multiply(&o, kernels, NULL);
    for (int64_t j = 0; j < N; j++) {
        CHECK(isnan(c[j]));
        CHECK(c[N + j] > 0.0f && isinf(c[N + j]));
        CHECK(c[2 * N + j] == 0.0f);
        CHECK(c[3 * N + j] >= 0.0f && isfinite(c[3 * N + j]));
    }
    void *all[] = {a, b, c, o.work, packed};
    for (int i = 0; i < 5; i++) guarded_free(all[i]);
}

static void test_odd_behind_relu(void)
{
    for (int isa = 0; isa <= (int)ft_cpu_isa(); isa++) {
        const ft_simd *simd = ft_simd_of(isa);
        for (int packs = 0; simd && packs < 2; packs++) {
            odd_behind_relu(simd->panels, 4, packs);
            odd_behind_relu(simd->panels, 70, packs);
            if (ft_cpu_bf16() && simd->pairs) {
                odd_behind_relu(simd->pairs, 70, packs);
                odd_behind_relu(simd->widened, 70, packs);
            }
        }
    }
    float c = 7;
    const float bias = NAN;
    const ft_large_product of_nothing = {.m = 1, .n = 1, .bias = &bias, .c = &c, .relu = true};
    ft_panels_multiply(&of_nothing, ft_simd_get()->panels, NULL);
    CHECK(isnan(c));
}

static void test_nothing_needs_nothing(void)
{
    const ft_simd_panels *best = ft_simd_get()->panels;
    const ft_large_product nothing = {.m = 0, .n = 3, .k = 2};
    CHECK(ft_panels_work_bytes(0, 4, 4, best, 2) == 0);
    CHECK(ft_panels_work_bytes(4, 4, 0, best, 2) == 0);
    CHECK(ft_panels_packed_bytes(0, 4, best) == 0 && ft_panels_packed_bytes(4, 0, best) == 0);
    ft_panels_multiply(&nothing, best, NULL);
    float c[2] = {5, -7};
    const ft_large_product sums_of_nothing = {
        .m = 1, .n = 2, .bias = (const float[]){1, 2}, .c = c, .add = true, .relu = true};
    ft_panels_multiply(&sums_of_nothing, best, NULL);
    CHECK(c[0] == 6 && c[1] == 0);
    ft_panels_pack(&(ft_large_product){.n = 0, .k = 2}, NULL, best, NULL);
}

int main(void)
{
    RUN(test_every_edge);
    RUN(test_every_variant);
    RUN(test_pairs_every_way);
    RUN(test_unit_every_way);
    RUN(test_unit_every_way_in_bf16);
    RUN(test_unit_is_as_exact_as_vectors);
    RUN(test_unit_keeps_what_is_no_number);
    RUN(test_unit_keeps_numbers_apart);
    RUN(test_unit_writes_far);
    RUN(test_odd_behind_relu);
    RUN(test_nothing_needs_nothing);
    return check_report();
}
