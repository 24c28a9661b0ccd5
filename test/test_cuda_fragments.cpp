/* test/test_cuda_fragments.cpp - fragments of tensor cores: what a warp loads and multiplies by
 * them, laid out as kernels/fragments.h says, is the plain product. */
#include "check.h"

#include <cmath>
#include <string.h>

#include "emulated.h"
#include "fragments.h"

enum { N = 16 };

/* e = a b d, all (N, N); b is read by its columns, which `columns` has as rows, and by its rows. */
struct problem {
    float a[N][N], b[N][N], d[N][N], by_columns[N][N], by_rows[N][N];
};

/* The bits of each number, row by row; or column by column. */
template <typename kind>
static void put(typename kind::number *tile, const float (*x)[N], bool columns)
{
    for (int i = ft_lane(); i < N * N; i += FT_WARP) {
        const typename kind::two pair = kind::pair(columns ? x[i % N][i / N] : x[i / N][i % N], 0);
        memcpy(&tile[i], &pair, sizeof tile[i]);
    }
    FT_WARP_BARRIER();
}

/* Where this lane's row of four matrices side by side begins: two below each other, then two right
 * of them; or two beside each other first. */
static const uint16_t *row_of(const uint16_t *tile, bool beside_first)
{
    int matrix = ft_lane() / 8, row = ft_lane() % 8;
    int below = beside_first ? matrix / 2 : matrix % 2;
    int beside = beside_first ? matrix % 2 : matrix / 2;
    return tile + (8 * below + row) * N + 8 * beside;
}

/* The pairs of four matrices of the tile; transposed, of their columns. */
static void load(uint32_t x[4], const uint16_t *tile, bool beside_first, bool transposed)
{
    if (transposed)
        ft_load_transposed(x, ft_at(row_of(tile, beside_first)));
    else
        ft_load_matrices(x, ft_at(row_of(tile, beside_first)));
}
static void load(ft_two x[4], const float *tile, bool beside_first, bool transposed)
{
    int g = ft_lane() / 4, t = ft_lane() % 4;
    for (int m = 0; m < 4; m++)
        for (int e = 0; e < 2; e++) {
            int below = (beside_first ? m / 2 : m % 2) * 8,
                beside = (beside_first ? m % 2 : m / 2) * 8;
            int row = transposed ? 2 * t + e : g, column = transposed ? g : 2 * t + e;
            x[m].x[e] = tile[(below + row) * N + beside + column];
        }
}

/* The two halves of a product, as the header lays them out. */
static void take(float (*y)[N], const float c[2][4])
{
    int g = ft_lane() / 4, t = ft_lane() % 4;
    for (int half = 0; half < 2; half++)
        for (int e = 0; e < 4; e++) y[g + e / 2 * 8][8 * half + 2 * t + e % 2] = c[half][e];
}

/* From columns, or, transposed, from rows. */
template <typename kind>
static void multiply_twice(const problem &p, float (*y)[N], typename kind::number *tile,
                           bool columns)
{
    typename kind::two a[4], b[4];
    float c[2][4] = {{0}}, e[2][4] = {{0}};
    put<kind>(tile, p.a, false);
    load(a, tile, false, false);
    for (int k = 0; k < 2; k++) {
        FT_WARP_BARRIER();
        put<kind>(tile, k ? p.d : p.b, columns);
        load(b, tile, columns, !columns);
        for (int half = 0; half < 2; half++) kind::multiply(k ? e[half] : c[half], a, b + 2 * half);
        for (int half = 0; half < 2; half++)
            for (int row = 0; row < 2; row++)
                a[2 * half + row] = kind::pair(c[half][2 * row], c[half][2 * row + 1]);
    }
    take(y, e);
}

template <typename kind> static void kernel(const void *args)
{
    problem *p = (problem *)args;
    FT_SHARED(typename kind::number, tile, N * N);
    multiply_twice<kind>(*p, p->by_columns, tile, true);
    FT_WARP_BARRIER();
    multiply_twice<kind>(*p, p->by_rows, tile, false);
}

/* A whole number in -most .. most. */
static float draw(uint32_t *state, int most)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)((int)(*state >> 8) % (2 * most + 1) - most);
}

static void product(float (*y)[N], const float (*a)[N], const float (*b)[N])
{
    for (int i = 0; i < N * N; i++) {
        y[i / N][i % N] = 0;
        for (int k = 0; k < N; k++) y[i / N][i % N] += a[i / N][k] * b[k][i % N];
    }
}

/* Numbers so small that no sum is rounded. */
static void test_kind(void (*run)(const void *), uint32_t seed)
{
    const unsigned one[3] = {1, 1, 1};
    problem p;
    uint32_t state = seed + 1;
    float first[N][N], whole[N][N];
    for (int i = 0; i < N * N; i++) {
        p.a[i / N][i % N] = draw(&state, 1);
        p.b[i / N][i % N] = draw(&state, 2);
        p.d[i / N][i % N] = draw(&state, 8);
    }
    product(first, p.a, p.b);
    product(whole, first, p.d);
    CHECK(emu_run_grid(run, &p, one, FT_WARP, 0, seed) == 0);
    CHECK(memcmp(whole, p.by_columns, sizeof whole) == 0);
    CHECK(memcmp(whole, p.by_rows, sizeof whole) == 0);
}

/* To the nearest, ties to even or, of tf32, away from zero; what is too large is infinite, and nan
 * stays. */
static void test_rounding()
{
    CHECK(ft_to_bf16(0x1.01p0f) == 0x3f80 && ft_to_bf16(0x1.03p0f) == 0x3f82);
    CHECK(ft_to_bf16(0x1.010002p0f) == 0x3f81 && ft_to_bf16(-0x1.03p0f) == 0xbf82);
    CHECK(ft_to_f16(0x1.002p0f) == 0x3c00 && ft_to_f16(0x1.006p0f) == 0x3c02);
    CHECK(ft_to_f16(65519) == 0x7bff && ft_to_f16(65520) == 0x7c00);
    CHECK(ft_to_f16(0x1p-25f) == 0 && ft_to_f16(0x1.8p-24f) == 2);
    CHECK(ft_as_tf32(0x1.001ffep0f) == 1 && ft_as_tf32(-0x1.002p0f) == -0x1.004p0f);
    CHECK(std::isnan(ft_as_bf16(NAN)) && std::isnan(ft_as_tf32(NAN)));
    CHECK(std::isnan(ft_from_bf16(ft_to_bf16(NAN))) && std::isnan(ft_from_f16(ft_to_f16(NAN))));
}

int main()
{
    for (uint32_t seed = 0; seed < 4; seed++) {
        test_kind(kernel<ft_f16>, seed);
        test_kind(kernel<ft_bf16>, seed);
        test_kind(kernel<ft_tf32>, seed);
    }
    test_rounding();
    return check_report();
}
