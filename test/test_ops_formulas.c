/* test/test_ops_formulas.c - what rows compute at the edges of their formulas, written out. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "check.h"
#include "likely_key.h"
#include "ops/attention.h"
#include "ops/internal.h"

/* -- buckets of relative positions ------------------------------------------------------------- */

/* The first distance of each bucket behind the exact ones, with at most 128 as the last: what
 * Raffel et al., arXiv:1910.10683, section 2.1, gives for T5's presets. */
static void check_buckets(const int *first, int n, int exact, int n_buckets, int sign, int base,
                          bool bidirectional)
{
    for (int distance = 0; distance < 300; distance++) {
        int wanted = distance < exact ? distance : exact - 1;
        for (int i = 0; i < n && distance >= first[i]; i++) wanted = exact + i;
        int found = ft_relative_bucket(sign * distance, n_buckets, 128, bidirectional);
        if (!CHECK(found == wanted + (distance ? base : 0)))
            fprintf(stderr, "  distance %d: bucket %d, expected %d\n", sign * distance, found,
                    wanted);
    }
}

static void test_relative_buckets(void)
{
    static const int two_sided[] = {8, 12, 16, 23, 32, 46, 64, 91};
    static const int one_sided[] = {16, 19, 21, 24, 27, 31, 35, 40,
                                    46, 52, 59, 67, 77, 87, 99, 113};
    check_buckets(two_sided, 8, 8, 32, -1, 0, true);
    check_buckets(two_sided, 8, 8, 32, 1, 16, true);
    check_buckets(one_sided, 16, 16, 32, -1, 0, false);
    /* 9 buckets up to 128: the steps are powers of 2, whose logarithms come out a hair too small */
    for (int i = 0; i < 5; i++) CHECK(ft_relative_bucket(-(4 << i), 9, 128, false) == 4 + i);
    for (int ahead = 0; ahead < 200; ahead++) CHECK(ft_relative_bucket(ahead, 32, 128, false) == 0);
}

/* -- dropout ----------------------------------------------------------------------------------- */

/* The 16 bits of a Philox block that an element has: see the top of ops/op_dropout.c. */
static uint32_t draw(const ft_rng_key *key, uint32_t sample, uint64_t index)
{
    uint32_t out[4],
        block[4] = {(uint32_t)(index / 8), (uint32_t)(index / 8 >> 32), sample, 0x44524F50u};
    uint32_t keys[2] = {(uint32_t)key->seed ^ key->node * 0x9E3779B9u,
                        (uint32_t)(key->seed >> 32) ^ key->step};
    ft_philox(keys, block, out);
    return out[index % 8 / 2] >> 16 * (index % 2) & 0xffff;
}

static void test_dropout_draws(void)
{
    const ft_rng_key key = {.seed = 0x123456789abcdefull, .step = 17, .node = 5, .sample = 3};
    int kept = 0, at_threshold = 0;
    enum { N = 200000 };
    uint32_t threshold = ft_dropout_threshold(0.25);
    CHECK(threshold == 16384 && ft_dropout_threshold(0) == 0);
    CHECK_NEAR(ft_dropout_scale(threshold), 4.0 / 3.0, 1e-7);
    for (uint64_t i = 0; i < N; i++) {
        uint32_t bits = draw(&key, 9, i);
        bool keeps = ft_dropout_keeps(&key, 9, i, threshold);
        kept += keeps;
        at_threshold += bits == threshold;
        if (keeps != (bits >= threshold)) CHECK(!"an element is kept by its own bits");
    }
    CHECK(at_threshold > 0); /* those that are just kept */
    CHECK_NEAR(kept / (double)N, 0.75, 5 * sqrt(0.75 * 0.25 / N));
    CHECK(ft_dropout_keeps(&key, 9, (uint64_t)1 << 40, 0));
}

/* Every part of the key counts. */
static void test_dropout_keys(void)
{
    const ft_rng_key key = {.seed = 1, .step = 2, .node = 3};
    ft_rng_key others[] = {key, key, key, key};
    others[0].seed = 2;
    others[1].seed = 1 | (uint64_t)1 << 40;
    others[2].step = 3;
    others[3].node = 4;
    uint32_t half = ft_dropout_threshold(0.5);
    for (int k = 0; k < 5; k++) {
        int same = 0;
        for (uint64_t i = 0; i < 4096; i++) {
            bool other = k < 4 ? ft_dropout_keeps(&others[k], 0, i, half)
                               : ft_dropout_keeps(&key, 1, i, half);
            same += other == ft_dropout_keeps(&key, 0, i, half);
        }
        CHECK_NEAR(same, 2048, 5 * 32);
    }
}

/* -- cross-entropy ----------------------------------------------------------------------------- */

/* Equal logits, whose probabilities are 1 / V: the gradient of a label is dloss weight (1 / V - 1),
 * of all others dloss weight / V, and of a row without a label nothing, whatever was there. */
static void test_gradient_of_equal_logits(void)
{
    enum { ROWS = 3, V = 8 };
    const int32_t labels[ROWS] = {5, -100, 0};
    const float dloss = 3, weight = 0.5f, logits[ROWS][V] = {{0}};
    const float stats[ROWS][2] = {{0, V}, {0, V}, {0, V}};
    float dx[ROWS][V];
    const ft_spec scalar = {FT_F32, {0, {0}}}, one = {FT_F32, {1, {1}}};
    const ft_spec rows = {FT_I32, {1, {ROWS}}}, matrix = {FT_F32, ft_shape_of(ROWS, V)};
    const ft_spec pairs = {FT_F32, ft_shape_of(ROWS, 2)};
    const ft_view in[] = {ft_view_of(&scalar, (void *)(uintptr_t)&dloss),
                          ft_view_of(&matrix, (void *)(uintptr_t)logits),
                          ft_view_of(&rows, (void *)(uintptr_t)labels),
                          ft_view_of(&one, (void *)(uintptr_t)&weight),
                          ft_view_of(&pairs, (void *)(uintptr_t)stats)};
    ft_view out = ft_view_of(&matrix, dx);
    const ft_call call = {.in = in, .out = &out};
    for (int i = 0; i < ROWS * V; i++) dx[i / V][i % V] = 77;
    CHECK_STATUS(ft_op_find("cross_entropy_grad")->kernel(&call, NULL), FT_OK);
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < V; i++) {
            double wanted = labels[r] < 0 ? 0 : 1.5 * (1.0 / V - (i == labels[r]));
            CHECK_NEAR(dx[r][i], wanted, labels[r] < 0 ? 0 : 1e-6);
        }
}

/* -- cache_append ------------------------------------------------------------------------------ */

/* Two positions into a cache of four: from 0, 1 or 2 on, and nowhere else. */
static void test_positions_of_a_cache(void)
{
    enum { T = 4, N = 2 };
    const float cache[T] = {1, 2, 3, 4}, added[N] = {8, 9};
    const ft_spec whole = {FT_F32, ft_shape_of(1, T, 1)}, part = {FT_F32, ft_shape_of(1, N, 1)};
    const ft_spec one = {FT_I32, {1, {1}}};
    for (int32_t position = -1; position <= T; position++) {
        float y[T];
        const ft_view in[] = {ft_view_of(&whole, (void *)(uintptr_t)cache),
                              ft_view_of(&part, (void *)(uintptr_t)added),
                              ft_view_of(&one, &position)};
        ft_view out = ft_view_of(&whole, y);
        const ft_call call = {.in = in, .out = &out};
        bool fits = position >= 0 && position <= T - N;
        ft_error err;
        CHECK_STATUS(ft_op_find("cache_append")->kernel(&call, &err), fits ? FT_OK : FT_INVALID);
        for (int i = 0; fits && i < T; i++) {
            bool here = i >= position && i < position + N;
            CHECK_NEAR(y[i], here ? added[i - position] : cache[i], 0);
        }
    }
}

/* -- argmax ------------------------------------------------------------------------------------ */

/* The first of equals, also of zeros of both signs, by the kernel and by the reference. */
static void test_argmax_of_equals(void)
{
    enum { ROWS = 4, V = 5 };
    static const float x[ROWS][V] = {
        {1, 3, 2, 3, 3}, {7, 7, 7, 7, 7}, {-2, -1, -3, -9, -1}, {-0.0f, 0.0f, -1, 0.0f, -0.0f}};
    static const int32_t wanted[ROWS] = {1, 0, 1, 0};
    const ft_op *op = ft_op_find("argmax");
    const ft_spec in = {FT_F32, ft_shape_of(ROWS, V)}, out = {FT_I32, {1, {ROWS}}};
    const ft_spec judged = {FT_F64, in.shape};
    double wide[ROWS * V];
    int32_t fast[ROWS], reference[ROWS];
    for (int i = 0; i < ROWS * V; i++) wide[i] = (double)x[i / V][i % V];
    ft_view view = ft_view_of(&in, (void *)(uintptr_t)x), wide_view = ft_view_of(&judged, wide);
    ft_view fast_view = ft_view_of(&out, fast), reference_view = ft_view_of(&out, reference);
    ft_call call = {.in = &view, .out = &fast_view};
    CHECK_STATUS(op->kernel(&call, NULL), FT_OK);
    call.in = &wide_view;
    call.out = &reference_view;
    CHECK_STATUS(op->reference(&call, NULL), FT_OK);
    for (int r = 0; r < ROWS; r++) CHECK(fast[r] == wanted[r] && reference[r] == wanted[r]);
}

static void try_likely_key(double gap, int64_t keys)
{
    likely_key l = {.gap = gap, .keys = keys};
    if (!likely_key_init(&l)) return;
    const ft_op *op = l.test.op;
    ft_view in[FT_MAX_IN] = {0}, out[FT_MAX_OUT] = {0};
    for (int i = 0; i < op->n_in; i++) in[i] = twin_view(&l.test.in[i], false);
    for (int i = 0; i < op->n_out; i++) out[i] = twin_view(&l.test.out[i], false);
    void *work = ft_alloc((size_t)op->workspace(l.test.in_specs, l.sample.attrs, 1));
    ft_call call = {.in = in, .out = out, .attrs = l.sample.attrs, .work = work};
    CHECK_STATUS(op->kernel(&call, NULL), FT_OK);
    likely_key_judge(&l);
    ft_free(work);
    case_free(&l.test);
}

static void test_gradient_of_a_likely_key(void)
{
    for (int gap = 4; gap <= 20; gap += 8) {
        try_likely_key(gap, 2);
        try_likely_key(gap, 20);
        try_likely_key(gap, 150);
    }
}

/* Operations of attention: three samples, two heads of 8 numbers. */
static double operations(int64_t queries, int64_t keys, bool causal)
{
    const ft_op *op = ft_op_find("attention");
    const double attrs[FT_MAX_ATTRS] = {[FT_ATTENTION_HEADS] = 2, [FT_ATTENTION_CAUSAL] = causal};
    const ft_spec q = {FT_F32, {3, {3, queries, 16}}}, k = {FT_F32, {3, {3, keys, 16}}};
    const ft_spec in[FT_MAX_IN] = {q, k, k, FT_ABSENT, FT_ABSENT, FT_ABSENT};
    ft_spec out[FT_MAX_OUT];
    ft_error err = {FT_OK, ""};
    return CHECK_STATUS(op->shape(in, attrs, out, &err), FT_OK) ? op->cost(in, out, attrs).flops
                                                                : -1;
}

/* Each pair that is computed takes so many, and a length that no memory could hold is counted at
 * once. */
static void test_pairs_of_attention(void)
{
    const double each = 3 * 2 * (2 * 2 * 8 + 10);
    for (int64_t queries = 1; queries <= 5; queries++)
        for (int64_t keys = 1; keys <= 5; keys++) {
            double seen = 0;
            for (int64_t i = 0; i < queries; i++) seen += (double)(i < keys ? i + 1 : keys);
            CHECK(operations(queries, keys, true) == seen * each);
            CHECK(operations(queries, keys, false) == (double)(queries * keys) * each);
        }
    CHECK_NEAR(operations((int64_t)1 << 50, (int64_t)1 << 50, true) / each, pow(2, 99), pow(2, 50));
}

int main(void)
{
    RUN(test_relative_buckets);
    RUN(test_dropout_draws);
    RUN(test_dropout_keys);
    RUN(test_gradient_of_equal_logits);
    RUN(test_positions_of_a_cache);
    RUN(test_argmax_of_equals);
    RUN(test_gradient_of_a_likely_key);
    RUN(test_pairs_of_attention);
    return check_report();
}
