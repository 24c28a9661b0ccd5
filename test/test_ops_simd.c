/* test/test_ops_simd.c - the vector kernels of every instruction set of this CPU, and what the walk
 * of the table does not draw: wide ranges, NaN and infinity, wrong ids, the dropout generator. */
#include "check.h"

#include <string.h>

#include "ops/internal.h"

enum { N = 4096 };

static double gelu64(double x)
{
    return 0.5 * x * (1.0 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

static double gelu_erf64(double x)
{
    return 0.5 * x * erfc(-x / sqrt(2.0));
}

static double relu6_64(double x)
{
    return fmin(fmax(x, 0.0), 6.0);
}
static double relu2_64(double x)
{
    return fmax(x, 0.0) * fmax(x, 0.0);
}
static double leaky_relu64(double x)
{
    return fmax(x, 0.01 * x);
}
static double gelu_10_64(double x)
{
    return fmin(gelu_erf64(x), 10.0);
}
static double sigmoid64(double x)
{
    return 1.0 / (1.0 + exp(-x));
}
static double silu64(double x)
{
    return x / (1.0 + exp(-x));
}
static double quick_gelu64(double x)
{
    return x / (1.0 + exp(-1.702 * x));
}
static double mish64(double x)
{
    return x * tanh(log(1.0 + exp(x)));
}

/* Activations with their gradients, of which some are functions of the output. */
static const struct activation {
    ft_map1_kind map;
    ft_map2_kind grad;
    double (*f)(double);
    bool of_output;
} activations[] = {
    {FT_MAP_RELU6, FT_MAP_RELU6_GRAD, relu6_64, true},
    {FT_MAP_RELU2, FT_MAP_RELU2_GRAD, relu2_64, false},
    {FT_MAP_LEAKY_RELU, FT_MAP_LEAKY_RELU_GRAD, leaky_relu64, true},
    {FT_MAP_GELU, FT_MAP_GELU_GRAD, gelu64, false},
    {FT_MAP_GELU_ERF, FT_MAP_GELU_ERF_GRAD, gelu_erf64, false},
    {FT_MAP_GELU_10, FT_MAP_GELU_10_GRAD, gelu_10_64, false},
    {FT_MAP_SIGMOID, FT_MAP_SIGMOID_GRAD, sigmoid64, true},
    {FT_MAP_SILU, FT_MAP_SILU_GRAD, silu64, false},
    {FT_MAP_QUICK_GELU, FT_MAP_QUICK_GELU_GRAD, quick_gelu64, false},
    {FT_MAP_MISH, FT_MAP_MISH_GRAD, mish64, false},
    {FT_MAP_TANH, FT_MAP_TANH_GRAD, tanh, true},
};

/* The larger error; NaN, which fmax passes over, is the largest. */
static double worse(double worst, double error)
{
    return isnan(error) ? (double)INFINITY : fmax(worst, error);
}

/* Largest |y - f(x)| relative to |f(x)| + floor over N points of [low, high]. */
static double error_of(ft_map1 map, double (*f)(double), double low, double high, double floor)
{
    static float x[N], y[N];
    double worst = 0.0;
    for (int i = 0; i < N; i++) x[i] = (float)(low + (high - low) * (i + 0.37) / N);
    map(y, x, N);
    for (int i = 0; i < N; i++) {
        double wanted = f((double)x[i]);
        worst = worse(worst, fabs((double)y[i] - wanted) / (fabs(wanted) + floor));
    }
    return worst;
}

/* The same of a gradient, against central differences of f. */
static double slope_error(const struct activation *a, ft_map2 map, double low, double high)
{
    static float dy[N], v[N], dx[N];
    double worst = 0.0;
    for (int i = 0; i < N; i++) {
        double x = low + (high - low) * (i + 0.37) / N;
        dy[i] = 2.0f;
        v[i] = (float)(a->of_output ? a->f(x) : x);
    }
    map(dx, dy, v, N);
    for (int i = 0; i < N; i++) {
        double x = a->of_output ? low + (high - low) * (i + 0.37) / N : (double)v[i];
        double wanted = (a->f(x + 1e-5) - a->f(x - 1e-5)) / 1e-5;
        worst = worse(worst, fabs((double)dx[i] - wanted) / (fabs(wanted) + 1.0));
    }
    return worst;
}

/* Past both ends of what is clipped, and where every function is flat or straight. */
static void test_activations(void)
{
    for (int isa = 0; isa <= (int)ft_cpu_isa(); isa++)
        for (size_t k = 0; k < sizeof activations / sizeof *activations; k++) {
            const struct activation *a = &activations[k];
            const ft_simd_math *math = ft_simd_of(isa)->math;
            CHECK(error_of(math->map1[a->map], a->f, -15, 15, 1e-3) < 2e-6);
            CHECK(error_of(math->map1[a->map], a->f, -80, 80, 1e-3) < 2e-6);
            CHECK(slope_error(a, math->map2[a->grad], -15, 15) < 2e-6);
            CHECK(slope_error(a, math->map2[a->grad], -80, 80) < 2e-6);
        }
}

static void test_accuracy(void)
{
    for (int isa = 0; isa <= (int)ft_cpu_isa(); isa++) {
        const ft_map1 *map = ft_simd_of(isa)->math->map1;
        CHECK(error_of(map[FT_MAP_EXP], exp, -87, 88.5, 0) < 2e-7);
        CHECK(error_of(map[FT_MAP_EXP], exp, -1, 1, 0) < 2e-7);
        CHECK(error_of(map[FT_MAP_EXP], exp, -103, -87, 1e-38) < 1e-6); /* below normal */
        CHECK(error_of(map[FT_MAP_TANH], tanh, -10, 10, 0) < 2.5e-7);
        CHECK(error_of(map[FT_MAP_TANH], tanh, -1e-3, 1e-3, 0) < 2e-7);
        CHECK(error_of(map[FT_MAP_LOG], log, 1e-3, 0.9, 0) < 2e-7);
        CHECK(error_of(map[FT_MAP_LOG], log, 0.9, 1.1, 1e-5) < 2e-7);
        CHECK(error_of(map[FT_MAP_LOG], log, 2, 3e38, 0) < 2e-7);
        CHECK(error_of(map[FT_MAP_LOG], log, 1e-44, 1e-38, 0) < 2e-7);
        CHECK(error_of(map[FT_MAP_GELU], gelu64, -4, 10, 1e-4) < 2e-6);
        CHECK(error_of(map[FT_MAP_GELU_ERF], gelu_erf64, -4, 10, 1e-4) < 2e-6);
    }
}

static void test_odd_numbers(void)
{
    for (int isa = 0; isa <= (int)ft_cpu_isa(); isa++) {
        const ft_simd *simd = ft_simd_of(isa);
        float x[19], y[19];
        for (int kind = 0; kind < FT_MAP1_COUNT; kind++)
            for (int at = 0; at < 19; at += 18) { /* in the body and in the tail */
                for (int i = 0; i < 19; i++) x[i] = 1.5f;
                x[at] = NAN;
                simd->math->map1[kind](y, x, 19);
                CHECK(isnan(y[at]) && !isnan(y[9]));
            }
        const float ends[] = {INFINITY, -INFINITY, 1000.0f, -1000.0f, 0.0f, -1.0f};
        simd->math->map1[FT_MAP_EXP](y, ends, 6);
        CHECK(isinf(y[0]) && y[1] == 0.0f && isinf(y[2]) && y[3] == 0.0f && y[4] == 1.0f);
        simd->math->map1[FT_MAP_LOG](y, ends, 6);
        CHECK(isinf(y[0]) && isnan(y[1]) && y[4] == -INFINITY && isnan(y[5]));
        simd->math->map1[FT_MAP_TANH](y, ends, 6);
        CHECK(y[0] == 1.0f && y[1] == -1.0f && y[2] == 1.0f && y[3] == -1.0f && y[4] == 0.0f);
        x[3] = NAN;
        CHECK(isnan(simd->math->largest(x, 19)) && isnan(simd->math->sum(x, 19)));
        float wide[70] = {0};
        for (int at = 0; at < 70; at++) { /* in every lane of bodies and tails */
            wide[at] = at % 2 ? NAN : -INFINITY;
            for (int n = 0; n <= 70; n++) CHECK(simd->math->finite(wide, n) == (n <= at));
            wide[at] = 1.0f;
        }
        simd->softmax->row(y, x, 19);
        CHECK(isnan(y[0]));
        simd->softmax->sums(y, x, 19);
        CHECK(isnan(y[1]));
        const float masked[] = {-1e9f, 100.0f, 101.0f, -INFINITY};
        simd->softmax->row(y, masked, 4);
        CHECK(y[0] == 0.0f && y[3] == 0.0f);
        CHECK_NEAR(y[2], 1.0 / (1.0 + exp(-1.0)), 1e-6);
    }
}

/* Any start and length gives the bits of the scalar definition. */
static void test_keep_bits(void)
{
    const ft_rng_key key = {.seed = 0xfedcba9876543210u, .step = 12, .node = 345, .sample = 0};
    const uint64_t starts[] = {0, 1, 7, 8, 63, 1000003, (1ull << 35) - 5};
    uint64_t bits[32];
    for (int isa = 0; isa <= (int)ft_cpu_isa(); isa++)
        for (int k = 0; k < 7; k++)
            for (int n = 1; n < 300; n += 37) {
                ft_dropout_draw draw = ft_dropout_draw_of(&key, 6, 20000);
                ft_simd_of(isa)->random->keep_bits(bits, &draw, starts[k], n);
                bool same = true;
                for (int i = 0; i < n; i++)
                    same = same && (bits[i / 64] >> (i % 64) & 1) ==
                                       ft_dropout_keeps(&key, 6, starts[k] + (uint64_t)i, 20000);
                CHECK(same);
            }
}

enum { ROWS = 70, COLUMNS = 150, SUMS = 35 };

/* c (m,n) of a small product against plain sums: a as it is or transposed, b from row `first`. */
static void check_product(const ft_simd_product *simd, int64_t m, int64_t n, int64_t k, int kind)
{
    static float a[ROWS * COLUMNS], b[COLUMNS * COLUMNS], packed[COLUMNS * 160], c[ROWS * COLUMNS];
    const int64_t columns = COLUMNS - 6, rows = SUMS + 3, first = kind & 4 ? 3 : 0;
    bool across = kind & 1, transposed = kind & 2, add = kind & 4;
    for (int i = 0; i < ROWS * COLUMNS; i++) a[i] = (float)(i * 7 % 31 - 15) / 16.0f;
    for (int i = 0; i < COLUMNS * COLUMNS; i++) b[i] = (float)(i * 11 % 37 - 18) / 16.0f;
    for (int i = 0; i < ROWS * COLUMNS; i++) c[i] = 1.0f;
    (transposed ? simd->pack_transposed : simd->pack)(packed, b, COLUMNS, rows, columns);
    ft_small_product p = {.m = m,
                          .n = n,
                          .k = k,
                          .a = a,
                          .a_row = across ? 1 : COLUMNS,
                          .a_step = across ? COLUMNS : 1,
                          .b = packed,
                          .b_rows = rows,
                          .b_columns = columns,
                          .b_first = first,
                          .c = c,
                          .ldc = COLUMNS,
                          .alpha = 0.5f,
                          .add = add};
    simd->multiply(&p);
    double worst = 0.0;
    for (int64_t i = 0; i < ROWS; i++)
        for (int64_t j = 0; j < COLUMNS; j++) {
            bool inside = i < m && j < n;
            double want = inside && !add ? 0.0 : 1.0;
            for (int64_t l = 0; inside && l < k; l++)
                want += 0.5 * (double)a[i * p.a_row + l * p.a_step] *
                        (double)(transposed ? b[j * COLUMNS + l + first]
                                            : b[(l + first) * COLUMNS + j]);
            worst = fmax(worst, fabs((double)c[i * COLUMNS + j] - want));
        }
    CHECK(worst < 1e-5);
}

static void test_products(void)
{
    static const int64_t sizes[][3] = {{1, 1, 1},    {6, 64, 35},  {7, 65, 3},   {64, 144, 35},
                                       {5, 100, 16}, {70, 17, 35}, {11, 33, 34}, {4, 2, 0}};
    for (int isa = 0; isa <= (int)ft_cpu_isa(); isa++)
        for (int s = 0; s < 8; s++)
            for (int kind = 0; kind < 8; kind++)
                check_product(ft_simd_of(isa)->product, sizes[s][0], sizes[s][1], sizes[s][2],
                              kind);
}

static ft_status dropout(float *y, const float *x, ft_shape shape, uint32_t sample, double p)
{
    const ft_spec spec = {FT_F32, shape};
    float input[N];
    memcpy(input, x, (size_t)ft_spec_bytes(&spec));
    ft_view in = ft_view_of(&spec, input), out = ft_view_of(&spec, y);
    ft_call call = {.in = &in,
                    .out = &out,
                    .attrs = &p,
                    .key = {.seed = 77, .step = 1, .node = 2, .sample = sample}};
    return ft_op_dropout.kernel(&call, NULL);
}

/* A micro-batch draws what the same samples draw in the whole batch; the share kept is 1 - p. */
static void test_dropout(void)
{
    static float x[N], whole[N], part[N];
    int kept = 0, changed = 0;
    for (int i = 0; i < N; i++) x[i] = 1.0f;
    CHECK_STATUS(dropout(whole, x, ft_shape_of(4, N / 4), 8, 0.25), FT_OK);
    CHECK_STATUS(dropout(part, x, ft_shape_of(2, N / 4), 10, 0.25), FT_OK);
    CHECK(memcmp(whole + N / 2, part, N / 2 * sizeof *part) == 0);
    CHECK(memcmp(whole, part, N / 2 * sizeof *part) != 0);
    for (int i = 0; i < N; i++) {
        kept += whole[i] != 0.0f;
        changed += whole[i] != 0.0f && fabsf(whole[i] - 4.0f / 3.0f) > 1e-6f;
    }
    CHECK(changed == 0);
    CHECK_NEAR(kept, 0.75 * N, 4 * sqrt(N * 0.25 * 0.75));
    CHECK_STATUS(dropout(whole, x, ft_shape_of(4, N / 4), 8, 0.0), FT_OK);
    CHECK(memcmp(whole, x, sizeof x) == 0);
}

static void test_wrong_ids(void)
{
    float table[10] = {0}, y[4];
    int32_t ids[] = {1, 5};
    const ft_spec id_spec = {FT_I32, ft_shape_of(2)}, table_spec = {FT_F32, ft_shape_of(5, 2)};
    const ft_spec y_spec = {FT_F32, ft_shape_of(2, 2)};
    const ft_view in[] = {ft_view_of(&id_spec, ids), ft_view_of(&table_spec, table)};
    const ft_view out = ft_view_of(&y_spec, y);
    ft_call call = {.in = in, .out = &out};
    ft_error err;
    CHECK_STATUS(ft_op_embedding.kernel(&call, &err), FT_INVALID);
    CHECK(strstr(err.message, "embedding: id 5 at position 1, expected 0 <= id < 5") != NULL);
    ids[1] = -1;
    CHECK_STATUS(ft_op_embedding.kernel(&call, &err), FT_INVALID);
    ids[1] = 4;
    CHECK_STATUS(ft_op_embedding.kernel(&call, &err), FT_OK);
}

/* -100 adds nothing to the loss and has no gradient; other labels outside are errors. */
static void test_ignored_labels(void)
{
    float logits[] = {0, 0, 1, 2, 3, 4}, weight = 0.5f, loss, stats[4], nll[2], dloss = 2.0f;
    float grad[6];
    int32_t labels[] = {-100, 1};
    const ft_spec x = {FT_F32, ft_shape_of(2, 3)}, rows = {FT_F32, ft_shape_of(2, 2)};
    const ft_spec ids = {FT_I32, ft_shape_of(2)}, one = {FT_F32, ft_shape_of(1)};
    const ft_spec scalar = {FT_F32, {0}};
    const ft_view in[] = {ft_view_of(&x, logits), ft_view_of(&ids, labels),
                          ft_view_of(&one, &weight)};
    const ft_spec labelled = {FT_F32, ft_shape_of(2)};
    const ft_view out[] = {ft_view_of(&scalar, &loss), ft_view_of(&rows, stats),
                           ft_view_of(&labelled, nll)};
    ft_call call = {.in = in, .out = out};
    ft_error err;
    CHECK_STATUS(ft_op_cross_entropy.kernel(&call, &err), FT_OK);
    double sum = exp(2.0) + exp(3.0) + exp(4.0);
    CHECK_NEAR(loss, 0.5 * (log(sum) - 3.0), 1e-6);
    CHECK(nll[0] == 0.0f);
    CHECK_NEAR(nll[1], log(sum) - 3.0, 1e-6);
    const ft_view grad_in[] = {ft_view_of(&scalar, &dloss), in[0], in[1], in[2], out[1]};
    const ft_view grad_out = ft_view_of(&x, grad);
    ft_call back = {.in = grad_in, .out = &grad_out};
    CHECK_STATUS(ft_op_cross_entropy_grad.kernel(&back, &err), FT_OK);
    CHECK(grad[0] == 0.0f && grad[1] == 0.0f && grad[2] == 0.0f);
    CHECK_NEAR(grad[3], exp(2.0) / sum, 1e-6);
    CHECK_NEAR(grad[4], exp(3.0) / sum - 1.0, 1e-6);
    labels[0] = -99;
    CHECK_STATUS(ft_op_cross_entropy.kernel(&call, &err), FT_INVALID);
    CHECK(strstr(err.message, "label -99 at position 0") != NULL);
    labels[0] = 3;
    CHECK_STATUS(ft_op_cross_entropy_grad.kernel(&back, &err), FT_INVALID);
}

int main(void)
{
    RUN(test_accuracy);
    RUN(test_activations);
    RUN(test_odd_numbers);
    RUN(test_keep_bits);
    RUN(test_products);
    RUN(test_dropout);
    RUN(test_wrong_ids);
    RUN(test_ignored_labels);
    return check_report();
}
