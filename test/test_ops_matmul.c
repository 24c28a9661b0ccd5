/* test/test_ops_matmul.c - the products and attention beyond what the walk of the table sees:
 * teams, packed weights, adding to outputs, buckets of real T5, dropout, threads side by side. */
#include "check.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ops/attention.h"
#include "ops/internal.h"

#include "shared.h"

/* One execution with its memory: kernel data in f32, reference data in f64, made alike. */
typedef struct trial {
    const ft_op *op;
    ft_spec in_spec[FT_MAX_IN], out_spec[FT_MAX_OUT];
    double attrs[FT_MAX_ATTRS];
    ft_view in[FT_MAX_IN], out[FT_MAX_OUT];     /* f32 */
    ft_view in64[FT_MAX_IN], out64[FT_MAX_OUT]; /* f64 */
    void *packed;
    ft_call call;
} trial;

static void *block(int64_t bytes)
{
    void *p = NULL;
    if (posix_memalign(&p, 64, (size_t)bytes + 64)) abort();
    memset(p, 0xff, (size_t)bytes + 64); /* NaN: what is not written shows */
    return p;
}

static ft_spec as64(ft_spec spec)
{
    if (spec.dtype == FT_F32) spec.dtype = FT_F64;
    return spec;
}

static void fill(trial *t, int i, ft_rng *rng, int64_t id_limit)
{
    t->in[i] = t->in64[i] = (ft_view){.dtype = FT_F32};
    if (!ft_present(&t->in_spec[i])) return;
    ft_spec wide = as64(t->in_spec[i]);
    t->in[i] = ft_view_of(&t->in_spec[i], block(ft_spec_bytes(&t->in_spec[i])));
    t->in64[i] = ft_view_of(&wide, block(ft_spec_bytes(&wide)));
    for (int64_t n = 0; n < ft_shape_count(&wide.shape); n++) {
        double x = wide.dtype == FT_I32 ? (double)ft_rng_below(rng, (uint64_t)id_limit)
                                        : (double)(float)ft_rng_normal(rng);
        ft_view_set(&t->in[i], n, x);
        ft_view_set(&t->in64[i], n, x);
    }
}

/* Inputs drawn from `seed`, outputs unwritten. specs: FT_MAX_IN entries. */
static trial trial_of(const char *name, const ft_spec *specs, const double *attrs, int64_t id_limit,
                      int seed)
{
    trial t = {.op = ft_op_find(name)};
    ft_rng rng;
    ft_rng_init(&rng, (uint64_t)seed, 7);
    memcpy(t.in_spec, specs, sizeof t.in_spec);
    for (int i = t.op->n_in; i < FT_MAX_IN; i++) t.in_spec[i].shape.n_dims = -1;
    memcpy(t.attrs, attrs, sizeof t.attrs);
    for (int i = 0; i < FT_MAX_IN; i++) fill(&t, i, &rng, id_limit);
    ft_error err = {0};
    if (!CHECK_STATUS(t.op->shape(t.in_spec, t.attrs, t.out_spec, &err), FT_OK))
        fprintf(stderr, "%s\n", err.message);
    for (int i = 0; i < t.op->n_out; i++) {
        ft_spec wide = as64(t.out_spec[i]);
        t.out[i] = ft_view_of(&t.out_spec[i], block(ft_spec_bytes(&t.out_spec[i])));
        t.out64[i] = ft_view_of(&wide, block(ft_spec_bytes(&wide)));
    }
    t.call = (ft_call){.in = t.in, .out = t.out, .attrs = t.attrs};
    t.call.key = (ft_rng_key){.seed = 42, .step = 3, .node = 17, .sample = 5};
    return t;
}

static void trial_free(trial *t)
{
    for (int i = 0; i < FT_MAX_IN; i++) {
        free(t->in[i].data);
        free(t->in64[i].data);
    }
    for (int i = 0; i < FT_MAX_OUT; i++) {
        free(t->out[i].data);
        free(t->out64[i].data);
    }
    free(t->packed);
}

static void pack(trial *t, ft_team *team)
{
    int w = t->op->pack_input - 1;
    t->packed = block(t->op->pack_bytes(t->in_spec, t->attrs));
    ft_error err = {0};
    CHECK_STATUS(t->op->pack(t->in_spec, t->attrs, t->in[w].data, t->packed, team, &err), FT_OK);
    t->call.packed = t->packed;
}

static void run_kernel(trial *t, ft_team *team)
{
    ft_error err = {0};
    int64_t bytes =
        t->op->workspace ? t->op->workspace(t->in_spec, t->attrs, ft_team_size(team)) : 0;
    char *work = block(bytes);
    t->call.in = t->in;
    t->call.out = t->out;
    t->call.attrs = t->attrs;
    t->call.team = team;
    t->call.work = work;
    if (!CHECK_STATUS(t->op->kernel(&t->call, &err), FT_OK)) fprintf(stderr, "%s\n", err.message);
    bool kept = true; /* the 64 bytes after the workspace */
    for (int i = 0; i < 64; i++) kept = kept && (unsigned char)work[bytes + i] == 0xff;
    CHECK(kept);
    free(work);
}

/* Largest error of output `i` against the reference, relative to its largest magnitude or 1. */
static double error_of(const trial *t, int i)
{
    double worst = 0.0, most = 1.0; /* inputs are of that size */
    for (int64_t n = 0; n < ft_shape_count(&t->out_spec[i].shape); n++) {
        double got = ft_view_get(&t->out[i], n), want = ft_view_get(&t->out64[i], n);
        if (!(fabs(got - want) <= worst)) worst = fabs(got - want);
        most = fmax(most, fabs(want));
    }
    return worst / most;
}

static void check_against_reference(trial *t, double tolerance)
{
    ft_error err = {0};
    ft_call wide = t->call;
    wide.in = t->in64;
    wide.out = t->out64;
    wide.attrs = t->attrs;
    CHECK_STATUS(t->op->reference(&wide, &err), FT_OK);
    for (int i = 0; i < t->op->n_out; i++)
        if (!CHECK(error_of(t, i) <= tolerance))
            fprintf(stderr, "%s: output %d is off by %g\n", t->op->name, i, error_of(t, i));
}

/* Runs with teams of 1, 2 and 3 threads; the bits must not differ. */
static void check_teams(trial *t)
{
    void *first[FT_MAX_OUT];
    run_kernel(t, NULL);
    for (int i = 0; i < t->op->n_out; i++) {
        first[i] = block(ft_spec_bytes(&t->out_spec[i]));
        memcpy(first[i], t->out[i].data, (size_t)ft_spec_bytes(&t->out_spec[i]));
    }
    for (int size = 1; size <= 3; size++) {
        ft_team *team;
        ft_error err = {0};
        CHECK_STATUS(ft_team_new(&team, size, &err), FT_OK);
        for (int i = 0; i < t->op->n_out; i++)
            memset(t->out[i].data, 0xff, (size_t)ft_spec_bytes(&t->out_spec[i]));
        run_kernel(t, team);
        for (int i = 0; i < t->op->n_out; i++)
            CHECK(!memcmp(first[i], t->out[i].data, (size_t)ft_spec_bytes(&t->out_spec[i])));
        ft_team_free(team);
    }
    for (int i = 0; i < t->op->n_out; i++) free(first[i]);
}

static const double no_attrs[FT_MAX_ATTRS] = {0};

/* -- products -------------------------------------------------------------------------------------
 */

static void test_linear(void)
{
    static const int64_t sizes[][3] = {{1, 1, 1},      {5, 3, 1},    {7, 1, 9},     {130, 70, 33},
                                       {0, 8, 4},      {3, 4, 0},    {300, 64, 16}, {33, 1000, 130},
                                       {520, 600, 48}, {8, 2100, 20}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int kind = 0; kind < 4; kind++) { /* bit 0: relu, bit 1: bias */
            int64_t M = sizes[s][0], N = sizes[s][1], K = sizes[s][2];
            ft_spec in[FT_MAX_IN] = {FT_F32_OF(2, M, K), FT_F32_OF(2, N, K), FT_F32_OF(1, N)};
            if (!(kind & 2)) in[2].shape.n_dims = -1;
            trial t = trial_of("linear", in, (double[FT_MAX_ATTRS]){kind & 1}, 0, (int)s);
            check_teams(&t);
            check_against_reference(&t, 3e-6);
            pack(&t, NULL);
            check_teams(&t);
            check_against_reference(&t, 3e-6);
            trial_free(&t);
        }
}

static void test_linear_grad_input(void)
{
    static const int64_t sizes[][3] = {
        {1, 1, 1}, {130, 33, 70}, {300, 16, 700}, {9, 600, 5}, {0, 3, 4}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int64_t M = sizes[s][0], N = sizes[s][1], K = sizes[s][2];
        ft_spec in[FT_MAX_IN] = {FT_F32_OF(2, M, N), FT_F32_OF(2, N, K)};
        trial t = trial_of("linear_grad_input", in, no_attrs, 0, (int)s);
        check_teams(&t);
        check_against_reference(&t, 3e-6);
        ft_team *team;
        CHECK_STATUS(ft_team_new(&team, 2, NULL), FT_OK);
        pack(&t, team);
        ft_team_free(team);
        check_teams(&t);
        check_against_reference(&t, 3e-6);
        trial_free(&t);
    }
}

/* A packed copy does not depend on the rows that will be multiplied with it. */
static void test_pack_is_shared_by_row_counts(void)
{
    ft_spec in[FT_MAX_IN] = {FT_F32_OF(2, 1, 96), FT_F32_OF(2, 300, 96), FT_ABSENT};
    const ft_op *op = ft_op_find("linear");
    int64_t bytes = op->pack_bytes(in, no_attrs);
    CHECK(bytes >= 300 * 96 * 4);
    trial one = trial_of("linear", in, no_attrs, 0, 1);
    pack(&one, NULL);
    in[0].shape.dims[0] = 1000;
    CHECK(op->pack_bytes(in, no_attrs) == bytes);
    trial many = trial_of("linear", in, no_attrs, 0, 2);
    memcpy(many.in[1].data, one.in[1].data, 300 * 96 * 4);
    memcpy(many.in64[1].data, one.in64[1].data, 300 * 96 * 8);
    many.call.packed = one.packed;
    run_kernel(&many, NULL);
    check_against_reference(&many, 3e-6);
    trial_free(&one);
    trial_free(&many);
}

static void test_weight_gradients_accumulate(void)
{
    const char *names[] = {"linear_grad_weight", "bias_grad"};
    for (int which = 0; which < 2; which++) {
        ft_spec in[FT_MAX_IN] = {FT_F32_OF(3, 4, 33, 600), FT_F32_OF(3, 4, 33, 50)};
        if (which == 1) in[1].shape.n_dims = -1;
        trial t = trial_of(names[which], in, no_attrs, 0, which);
        check_teams(&t);
        check_against_reference(&t, 3e-6);
        float before = ((float *)t.out[0].data)[11];
        t.call.accumulate = 1;
        run_kernel(&t, NULL);
        check_against_reference(&t, 3e-6); /* the reference adds to its own first result */
        CHECK_NEAR(((float *)t.out[0].data)[11], 2 * before, 1e-5 * fabs((double)before));
        trial_free(&t);
    }
}

static void test_empty_sums(void)
{
    ft_spec in[FT_MAX_IN] = {FT_F32_OF(2, 0, 3), FT_F32_OF(2, 0, 5)};
    trial t = trial_of("linear_grad_weight", in, no_attrs, 0, 1);
    run_kernel(&t, NULL);
    check_against_reference(&t, 0.0);
    trial_free(&t);
}

static void test_matmul(void)
{
    for (int kind = 0; kind < 4; kind++) {
        bool ta = kind & 1, tb = kind & 2;
        for (int64_t batch = 1; batch <= 5; batch += 4) {
            int64_t M = batch == 1 ? 700 : 33, N = 21, K = 130;
            ft_spec in[FT_MAX_IN] = {FT_F32_OF(3, batch, ta ? K : M, ta ? M : K),
                                     FT_F32_OF(3, batch, tb ? N : K, tb ? K : N)};
            trial t = trial_of("matmul", in, (double[FT_MAX_ATTRS]){ta, tb}, 0, kind);
            check_teams(&t);
            check_against_reference(&t, 3e-6);
            trial_free(&t);
        }
    }
}

static void test_cache_append(void)
{
    ft_spec in[FT_MAX_IN] = {FT_F32_OF(3, 2, 5, 3), FT_F32_OF(3, 2, 2, 3), FT_I32_OF(1, 1)};
    trial t = trial_of("cache_append", in, no_attrs, 1, 1);
    int32_t *position = t.in[2].data;
    for (*position = 0; *position <= 3; ++*position) {
        memcpy(t.in64[2].data, position, 4);
        run_kernel(&t, NULL);
        check_against_reference(&t, 0.0);
    }
    *position = 4; /* 2 rows from 4 on do not fit into 5 */
    ft_error err = {0};
    CHECK_STATUS(t.op->kernel(&t.call, &err), FT_INVALID);
    *position = -1;
    CHECK_STATUS(t.op->kernel(&t.call, &err), FT_INVALID);
    *position = 1; /* in place: only the new rows are written */
    float *cache = t.in[0].data, last = cache[14];
    memcpy(t.out[0].data, cache, 30 * sizeof *cache);
    t.call.out = t.in;
    CHECK_STATUS(t.op->kernel(&t.call, &err), FT_OK);
    CHECK(cache[3] == ((float *)t.in[1].data)[0] && cache[14] == last);
    trial_free(&t);
}

/* -- attention ------------------------------------------------------------------------------------
 */

/* The published buckets of T5, of positions -160 to 160. */
static void test_buckets(void)
{
    CHECK(ft_relative_bucket(0, 32, 128, true) == 0);
    static const int starts[] = {8, 12, 16, 23, 32, 46, 64, 91};
    for (int i = 0; i < 8; i++) {
        CHECK(ft_relative_bucket(-starts[i], 32, 128, true) == 8 + i);
        CHECK(ft_relative_bucket(starts[i], 32, 128, true) == 24 + i);
        CHECK(ft_relative_bucket(-(starts[i] - 1), 32, 128, true) == 7 + i);
    }
    CHECK(ft_relative_bucket(-113, 32, 128, false) == 31);
    CHECK(ft_relative_bucket(-112, 32, 128, false) == 30);
    CHECK(ft_relative_bucket(5, 32, 128, false) == 0);
    CHECK(ft_relative_bucket(1 << 30, 2, 128, true) == 1);
    CHECK(ft_relative_bucket(-100, 1, 128, false) == 0);
}

/* Reads `"name": {"-160": 15, ...}` out of the file and compares. */
static void check_bucket_file(const char *text, const char *name, bool bidirectional)
{
    const char *at = strstr(text, name);
    if (!CHECK(at != NULL)) return;
    at = strchr(at, '{');
    int n = 0, wrong = 0;
    long relative, bucket;
    int used = 0;
    for (at++; sscanf(at, " \"%ld\" : %ld%n", &relative, &bucket, &used) == 2; n++) {
        wrong += ft_relative_bucket(relative, 32, 128, bidirectional) != bucket;
        at += used;
        if (*at++ != ',') break;
    }
    CHECK(n > 200);
    CHECK(wrong == 0);
}

static void test_bucket_files(void)
{
    char *text = shared_read("data/tokvec/derived/t5_relative_buckets.json");
    if (!text) return;
    check_bucket_file(text, "\"bidirectional\"", true);
    check_bucket_file(text, "\"causal\"", false);
    ft_free(text);
}

typedef struct attention_case {
    int64_t B, Tq, Tk, H, D, R;
    int masked, position; /* position < 0: none */
    double causal, bidirectional, max_distance, scale, dropout;
    bool packed;
} attention_case;

static const attention_case attention_cases[] = {
    {2, 7, 7, 1, 8, 0, 0, -1, 0, 1, 128, 1, 0, false},
    {1, 1, 1, 3, 15, 4, 1, -1, 0, 1, 128, 1, 0, false},
    {2, 130, 130, 3, 15, 32, 1, -1, 0, 1, 128, 0.3, 0, false},
    {2, 130, 130, 2, 64, 32, 0, -1, 1, 0, 128, 0.1, 0.1, false},
    {2, 33, 130, 6, 8, 0, 1, -1, 0, 1, 128, 0.3, 0.5, false},
    {1, 130, 33, 1, 64, 7, 1, -1, 1, 1, 10, 0.1, 0.1, false},
    {3, 1, 33, 6, 64, 32, 0, 12, 1, 0, 128, 0.1, 0, false},
    {2, 3, 33, 3, 15, 9, 1, 30, 1, 0, 40, 0.3, 0, false},
    {0, 4, 4, 2, 8, 8, 1, -1, 0, 1, 128, 1, 0, false},
    {2, 130, 130, 2, 64, 32, 1, -1, 1, 0, 128, 0.1, 0.1, true},
    {3, 1, 1, 6, 64, 0, 0, -1, 1, 0, 128, 0.1, 0, true},
    {2, 70, 70, 3, 15, 0, 1, -1, 0, 1, 128, 0.3, 0, true},
};
enum { N_ATTENTION_CASES = sizeof attention_cases / sizeof *attention_cases };

static trial attention_trial(const attention_case *c, int seed)
{
    int64_t I = c->H * c->D;
    ft_spec in[FT_MAX_IN] = {FT_F32_OF(3, c->B, c->Tq, I), FT_F32_OF(3, c->B, c->Tk, I),
                             FT_F32_OF(3, c->B, c->Tk, I), FT_I32_OF(2, c->B, c->Tk),
                             FT_F32_OF(2, c->R, c->H),     FT_I32_OF(1, 1)};
    if (c->packed) {
        in[0].shape.dims[2] *= 3;
        in[1].shape.n_dims = in[2].shape.n_dims = -1;
    }
    if (!c->masked) in[3].shape.n_dims = -1;
    if (!c->R) in[4].shape.n_dims = -1;
    if (c->position < 0) in[5].shape.n_dims = -1;
    const double attrs[FT_MAX_ATTRS] = {(double)c->H,    c->causal, c->bidirectional,
                                        c->max_distance, c->scale,  c->dropout};
    trial t = trial_of("attention", in, attrs, 2, seed);
    if (c->position >= 0) *(int32_t *)t.in[5].data = *(int32_t *)t.in64[5].data = c->position;
    for (int64_t j = 0; c->masked && c->B > 1 && j < c->Tk; j++) /* sample 1 sees nothing */
        ((int32_t *)t.in[3].data)[c->Tk + j] = ((int32_t *)t.in64[3].data)[c->Tk + j] = 0;
    return t;
}

static void test_attention(void)
{
    for (int c = 0; c < N_ATTENTION_CASES; c++) {
        trial t = attention_trial(&attention_cases[c], c);
        check_teams(&t);
        check_against_reference(&t, 5e-6);
        trial_free(&t);
    }
}

/* The gradient row on what the forward row made, in both precisions. */
static void test_attention_grad(void)
{
    for (int c = 0; c < N_ATTENTION_CASES; c++) {
        if (attention_cases[c].position >= 0) continue;
        trial f = attention_trial(&attention_cases[c], c);
        run_kernel(&f, NULL);
        check_against_reference(&f, 5e-6);
        const ft_spec in[FT_MAX_IN] = {f.out_spec[0], f.in_spec[0],  f.in_spec[1], f.in_spec[2],
                                       f.out_spec[0], f.out_spec[1], f.in_spec[3], f.in_spec[4]};
        trial g = trial_of("attention_grad", in, f.attrs, 2, 100 + c);
        static const int from[] = {0, 1, 2, -1, -1, 3, 4}; /* inputs of g past dy, in f */
        for (int i = 1; i < 8; i++) {
            int k = from[i - 1], out = i - 4;
            if (!g.in[i].data) continue;
            memcpy(g.in[i].data, k < 0 ? f.out[out].data : f.in[k].data,
                   (size_t)ft_spec_bytes(&in[i]));
            ft_spec wide = as64(in[i]);
            memcpy(g.in64[i].data, k < 0 ? f.out64[out].data : f.in64[k].data,
                   (size_t)ft_spec_bytes(&wide));
        }
        check_teams(&g);
        check_against_reference(&g, 2e-5);
        g.call.accumulate = 8;
        run_kernel(&g, NULL);
        check_against_reference(&g, 2e-5);
        trial_free(&f);
        trial_free(&g);
    }
}

/* A sample alone draws and computes what it does within a batch: the key carries its number. */
static void test_attention_of_one_sample(void)
{
    attention_case c = {2, 33, 33, 2, 16, 8, 0, -1, 1, 0, 20, 0.2, 0.3, false};
    trial both = attention_trial(&c, 1);
    run_kernel(&both, NULL);
    c.B = 1;
    trial second = attention_trial(&c, 2);
    size_t bytes = 33 * 32 * sizeof(float);
    for (int i = 0; i < 3; i++) memcpy(second.in[i].data, (char *)both.in[i].data + bytes, bytes);
    memcpy(second.in[4].data, both.in[4].data, 8 * 2 * sizeof(float));
    second.call.key.sample += 1;
    run_kernel(&second, NULL);
    CHECK(!memcmp(second.out[0].data, (char *)both.out[0].data + bytes, bytes));
    second.call.key.step += 1;
    run_kernel(&second, NULL);
    CHECK(memcmp(second.out[0].data, (char *)both.out[0].data + bytes, bytes) != 0);
    trial_free(&both);
    trial_free(&second);
}

static void test_masked_keys_do_not_matter(void)
{
    attention_case c = {2, 9, 40, 2, 16, 0, 1, -1, 0, 1, 128, 0.3, 0, false};
    trial t = attention_trial(&c, 3);
    run_kernel(&t, NULL);
    float y = ((float *)t.out[0].data)[5], *v = t.in[2].data;
    for (int j = 0; j < 40; j++)
        if (!((int32_t *)t.in[3].data)[j])
            for (int d = 0; d < 32; d++) v[j * 32 + d] = 1e30f;
    run_kernel(&t, NULL);
    CHECK(((float *)t.out[0].data)[5] == y);
    const float *nothing = (float *)t.out[0].data + 9 * 32; /* sample 1 has no key */
    bool zero = true;
    for (int i = 0; i < 9 * 32; i++) zero = zero && nothing[i] == 0.0f;
    CHECK(zero);
    trial_free(&t);
}

static void test_wrong_shapes(void)
{
    ft_error err = {0};
    ft_spec out[FT_MAX_OUT], in[FT_MAX_IN] = {FT_F32_OF(2, 3, 4), FT_F32_OF(2, 5, 6), FT_ABSENT};
    CHECK_STATUS(ft_op_find("linear")->shape(in, no_attrs, out, &err), FT_SHAPE);
    CHECK(strstr(err.message, "linear") && strstr(err.message, "(5, 6)"));
    CHECK_STATUS(ft_op_find("matmul")->shape(in, no_attrs, out, &err), FT_SHAPE);
    ft_spec q[FT_MAX_IN] = {FT_F32_OF(3, 1, 4, 6),
                            FT_F32_OF(3, 1, 5, 6),
                            FT_F32_OF(3, 1, 5, 6),
                            FT_ABSENT,
                            FT_ABSENT,
                            FT_ABSENT};
    double attrs[FT_MAX_ATTRS] = {4, 0, 1, 128, 1, 0};
    CHECK_STATUS(ft_op_find("attention")->shape(q, attrs, out, &err), FT_SHAPE);
    CHECK(strstr(err.message, "heads = 4") != NULL);
    attrs[0] = 1;
    q[2].shape.n_dims = -1;
    CHECK_STATUS(ft_op_find("attention")->shape(q, attrs, out, &err), FT_SHAPE);
    CHECK(strstr(err.message, "k without v, expected both or, packed in q, neither") != NULL);
    attrs[0] = 3;
    q[1].shape.n_dims = -1;
    CHECK_STATUS(ft_op_find("attention")->shape(q, attrs, out, &err), FT_SHAPE);
    CHECK(strstr(err.message, "of q, 6, is not a multiple of 3 * heads = 3") != NULL);
}

/* -- threads --------------------------------------------------------------------------------------
 */

enum { N_TURNS = 6 };

/* Products of one thread, made ready by the main one. */
typedef struct turns {
    trial trials[N_TURNS];
    void *work[N_TURNS];
    int failed;
} turns;

static void *take_turns(void *arg)
{
    turns *own = arg;
    for (int round = 0; round < 20; round++)
        for (int i = 0; i < N_TURNS; i++)
            own->failed += own->trials[i].op->kernel(&own->trials[i].call, NULL) != FT_OK;
    return NULL;
}

static void turns_init(turns *own, int number)
{
    own->failed = 0;
    for (int i = 0; i < N_TURNS; i++) {
        int64_t M = 40 + 90 * number + 7 * i, N = number ? 300 : 64;
        ft_spec in[FT_MAX_IN] = {FT_F32_OF(2, M, 96), FT_F32_OF(2, N, 96), FT_F32_OF(1, N)};
        trial *t = &own->trials[i];
        *t = trial_of("linear", in, (double[FT_MAX_ATTRS]){1}, 0, i);
        if (i % 2) pack(t, NULL);
        own->work[i] = block(t->op->workspace(in, t->attrs, 1));
        t->call.in = t->in;
        t->call.out = t->out;
        t->call.attrs = t->attrs;
        t->call.work = own->work[i];
    }
}

/* Two threads with products of their own, some sizes in common. */
static void test_threads(void)
{
    pthread_t threads[2];
    static turns all[2];
    for (int i = 0; i < 2; i++) turns_init(&all[i], i);
    for (int i = 0; i < 2; i++) CHECK(!pthread_create(&threads[i], NULL, take_turns, &all[i]));
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) {
        CHECK(!all[i].failed);
        for (int n = 0; n < N_TURNS; n++) {
            check_against_reference(&all[i].trials[n], 3e-6);
            free(all[i].work[n]);
            trial_free(&all[i].trials[n]);
        }
    }
}

int main(void)
{
    RUN(test_linear);
    RUN(test_linear_grad_input);
    RUN(test_pack_is_shared_by_row_counts);
    RUN(test_weight_gradients_accumulate);
    RUN(test_empty_sums);
    RUN(test_matmul);
    RUN(test_cache_append);
    RUN(test_buckets);
    RUN(test_bucket_files);
    RUN(test_attention);
    RUN(test_attention_grad);
    RUN(test_attention_of_one_sample);
    RUN(test_masked_keys_do_not_matter);
    RUN(test_wrong_shapes);
    RUN(test_threads);
    return check_report();
}
