/* test/test_cuda_rows.c - the walk of the operator table on cards: every row has a kernel,
 * which gives what the row's reference gives, whole and the same for any order of threads; products
 * with cuBLASLt and without it; in f32, and where a card may keep 16 bits, in those.
 *
 * Usage: test_cuda_rows [NAME | -NAME]...: only rows that begin with a NAME, none with -NAME. */
#include "a_card.h"

#include "likely_key.h"
#include "ops/rounding.h"

/* Runs the row's kernel into outputs that hold garbage, or what is there when it adds. */
static bool run(const card *c, op_case *test, const twin *out, uint32_t accumulate,
                const void *packed)
{
    const ft_op *op = test->op;
    ft_view in[FT_MAX_IN] = {0}, outs[FT_MAX_OUT] = {0};
    ft_error err = {FT_OK, ""};
    for (int i = 0; i < op->n_in; i++) in[i] = twin_view(&test->in[i], false);
    for (int i = 0; i < op->n_out; i++) outs[i] = twin_view(&out[i], false);
    int64_t bytes =
        ft_op_workspace(op, FT_DEVICE_GPU, FT_F32, test->in_specs, test->sample->attrs, 1);
    void *work = guarded_new(bytes);
    memset(work, 0xff, (size_t)bytes);
    ft_call call = {.in = in,
                    .out = outs,
                    .attrs = test->sample->attrs,
                    .packed = packed,
                    .work = bytes ? work : NULL,
                    .key = test->key,
                    .accumulate = accumulate,
                    .stream = c->stream};
    const ft_row_run row = {op, ft_op_kernel(op, FT_DEVICE_GPU, FT_F32), &call, bytes};
    ft_status status = c->device.driver->launch(c->stream, &ft_row_task, &row, &err);
    if (status == FT_OK) status = card_finish(c, &err);
    if (status != FT_OK) fprintf(stderr, "  %s: %s\n", op->name, err.message);
    bool whole = guarded_intact(work, bytes);
    for (int i = 0; i < op->n_out; i++)
        whole = whole && guarded_intact(out[i].fast, ft_spec_bytes(&out[i].spec));
    guarded_free(work);
    return CHECK(status == FT_OK) && CHECK(whole);
}

/* Largest difference, relative to the largest magnitude of the reference; infinite for NaN. */
static double difference(const twin *t)
{
    double most = 0, size = 0;
    for (int64_t i = 0; i < twin_count(t); i++) {
        bool id = t->spec.dtype == FT_I32;
        double x;
        ft_convert(&x, FT_F64, twin_at(t, i), t->spec.dtype, 1);
        double y = id ? ((int32_t *)t->judged)[i] : ((double *)t->judged)[i];
        if (isnan(x) || isinf(x)) return (double)INFINITY;
        most = fmax(most, fabs(x - y));
        size = fmax(size, fabs(y));
    }
    return size > 0 ? most / size : most;
}

/* Whether zeros are between rows. */
static bool clear_between(const twin *t)
{
    int64_t each = ft_dtype_bytes(t->spec.dtype), pitch = ft_spec_pitch(&t->spec) * each;
    bool clear = true;
    for (int64_t at = 0; t->spec.pitch && at < ft_spec_bytes(&t->spec); at += pitch)
        for (int64_t i = t->spec.shape.dims[t->spec.shape.n_dims - 1] * each; i < pitch; i++)
            clear = clear && ((char *)t->fast)[at + i] == 0;
    return clear;
}

static void judge(const op_case *test, const twin *out, const char *what)
{
    for (int i = 0; i < test->op->n_out; i++) {
        CHECK(clear_between(&out[i]));
        double gap = difference(&out[i]);
        double most = test->sample->tolerance > 0 ? 2 * test->sample->tolerance : 1e-7;
        if (test->kept.dtype != FT_F32)
            most += test->kept.dtype == FT_BF16 ? FT_BF16_GAP : FT_TF32_GAP;
        if (!CHECK(gap <= most))
            fprintf(stderr, "  row %s, sample %d, output %d, %s: %.3g, expected at most %.3g\n",
                    test->op->name, (int)(test->sample - test->op->samples), i, what, gap, most);
    }
}

static void fill(const twin *out, int n, int byte)
{
    for (int i = 0; i < n; i++) memset(out[i].fast, byte, (size_t)ft_spec_bytes(&out[i].spec));
}

/* Added to what is there: the reference's sum of both. */
static void try_adding(const card *c, op_case *test)
{
    const ft_op *op = test->op;
    twin out[FT_MAX_OUT];
    ft_rng rng;
    ft_rng_init(&rng, 7, 7);
    for (int i = 0; i < op->n_out; i++) {
        out[i] = twin_new(&test->out[i].spec);
        twin_draw(&out[i], &rng, 0, false);
        for (int64_t k = 0; k < twin_count(&out[i]) && out[i].spec.dtype != FT_I32; k++) {
            double had = op->accumulates >> i & 1 ? ((double *)out[i].judged)[k] : 0;
            ((double *)out[i].judged)[k] = had + ((double *)test->out[i].judged)[k];
        }
    }
    if (run(c, test, out, op->accumulates, NULL)) judge(test, out, "added");
    for (int i = 0; i < op->n_out; i++) twin_free(&out[i]);
}

static void try_sample(const card *cards, int n_cards, const ft_op *op, const ft_sample *sample,
                       case_kept kept)
{
    op_case test;
    ft_error err;
    if (!CHECK(case_init_kept(&test, op, sample, kept, &err))) return;
    CHECK_STATUS(case_judge(op, test.in, test.out, sample->attrs, &test.key, &err), FT_OK);
    void *first[FT_MAX_OUT];
    for (int k = 0; k < n_cards; k++) {
        fill(test.out, op->n_out, 0xff);
        if (!run(&cards[k], &test, test.out, 0, NULL)) break;
        if (k == 0) judge(&test, test.out, "alone");
        for (int i = 0; i < op->n_out; i++) {
            size_t bytes = (size_t)ft_spec_bytes(&test.out[i].spec);
            if (k == 0) memcpy(first[i] = guarded_new((int64_t)bytes), test.out[i].fast, bytes);
            if (!CHECK(memcmp(first[i], test.out[i].fast, bytes) == 0))
                fprintf(stderr, "  row %s: card %d gives other bits\n", op->name, k);
        }
    }
    for (int i = 0; i < op->n_out; i++) guarded_free(first[i]);
    if (op->accumulates) try_adding(&cards[0], &test);
    case_free(&test);
}

/* Switches between the threads of a block take ThreadSanitizer long. */
#ifdef __SANITIZE_THREAD__
enum { CARDS = 1, SAMPLES = 1 };
#else
enum { CARDS = 5, SAMPLES = 1000 };
#endif

/* Which rows are walked, by how their names begin. */
typedef struct choice {
    const char *const *names; /* with a dash before it: not those */
    int n;
} choice;

static bool begins(const ft_op *op, const char *name)
{
    return strncmp(op->name, name, strlen(name)) == 0;
}

static bool is_chosen(const choice *rows, const ft_op *op)
{
    bool some = false, named = false;
    for (int i = 0; i < rows->n; i++) {
        const char *name = rows->names[i];
        if (*name == '-' && begins(op, name + 1)) return false;
        some = some || *name != '-';
        named = named || (*name != '-' && begins(op, name));
    }
    return named || !some;
}

static void test_rows(const card *cards, int n_cards, const choice *rows)
{
    int few = n_cards < 2 ? n_cards : 2, walked = 0;
    for (const ft_op *const *row = ft_ops; *row; row++) {
        if (!is_chosen(rows, *row)) continue;
        walked++;
        if (!CHECK(ft_op_kernel(*row, FT_DEVICE_GPU, FT_F32) != NULL)) {
            fprintf(stderr, "  row %s has no kernel\n", (*row)->name);
            continue;
        }
        for (int i = 0; i < (*row)->n_samples && i < SAMPLES; i++) {
            const ft_sample *sample = &(*row)->samples[i];
            try_sample(cards, n_cards, *row, sample, case_all_kept(FT_F32));
            if ((*row)->apart_in || (*row)->apart_out) {
                try_sample(cards, n_cards, *row, sample, (case_kept){FT_F32, 0, 0, 3});
                try_sample(cards, few, *row, sample, (case_kept){FT_BF16, ~0u, ~0u, 5});
                try_sample(cards, few, *row, sample, (case_kept){FT_BF16, 0x2, 0x1, 7});
            }
            if (!(*row)->half_in && !(*row)->half_out) continue;
            try_sample(cards, few, *row, sample, case_all_kept(FT_BF16));
            try_sample(cards, few, *row, sample, case_all_kept(FT_F16));
            try_sample(cards, 1, *row, sample, (case_kept){FT_BF16, 0x5, 0x1});
            try_sample(cards, 1, *row, sample, (case_kept){FT_F16, 0, 0x2});
        }
    }
    CHECK(walked > 0);
}

/* A weight that is packed is the one that is read, with the bits of one that is not. */
static void try_packed(const card *c, const ft_op *op, const ft_sample *sample, ft_dtype kept)
{
    op_case test;
    ft_error err;
    if (!CHECK(case_init_kept(&test, op, sample, case_all_kept(kept), &err))) return;
    int64_t bytes = ft_cuda_kernels.pack_bytes(op, test.in_specs, sample->attrs);
    int64_t size = ft_spec_bytes(&test.out[0].spec), weight = ft_spec_bytes(&test.in[1].spec);
    void *first = guarded_new(size), *packed = guarded_new(bytes);
    if (bytes && run(c, &test, test.out, 0, NULL)) {
        memcpy(first, test.out[0].fast, (size_t)size);
        CHECK_STATUS(ft_cuda_kernels.pack(op, test.in_specs, sample->attrs, test.in[1].fast, packed,
                                          &(ft_packer){NULL, c->stream}, &err),
                     FT_OK);
        CHECK_STATUS(card_finish(c, &err), FT_OK);
        CHECK(guarded_intact(packed, bytes));
        memset(test.in[1].fast, 0xff, (size_t)weight);
        fill(test.out, op->n_out, 0xff);
        CHECK(run(c, &test, test.out, 0, packed) && !memcmp(first, test.out[0].fast, (size_t)size));
    }
    guarded_free(first);
    guarded_free(packed);
    case_free(&test);
}

static void test_packed(const card *c)
{
    static const char *const rows[] = {"linear", "linear_grad_input"};
    static const ft_dtype kept[] = {FT_F32, FT_BF16, FT_F16};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const ft_op *op = ft_op_find(rows[k]);
        for (int i = 0; i < op->n_samples; i++)
            for (size_t d = 0; d < sizeof kept / sizeof *kept; d++)
                try_packed(c, op, &op->samples[i], kept[d]);
    }
}

enum { HEADS = 0, ROUNDING = 6 }; /* attributes of both rows of attention */

/* Whether operands that are rounded make other bits than those of f32. */
static bool rounding_shows(const card *c, const ft_op *op, const ft_sample *sample, ft_dtype kept)
{
    op_case test;
    ft_error err;
    bool shows = false;
    ft_sample plain = *sample;
    plain.attrs[ROUNDING] = 0;
    if (!CHECK(case_init_kept(&test, op, sample, case_all_kept(kept), &err))) return false;
    int64_t size = ft_spec_bytes(&test.out[0].spec);
    void *rounded = guarded_new(size);
    if (CHECK(run(c, &test, test.out, 0, NULL))) {
        memcpy(rounded, test.out[0].fast, (size_t)size);
        test.sample = &plain;
        CHECK(run(c, &test, test.out, 0, NULL));
        shows = memcmp(rounded, test.out[0].fast, (size_t)size) != 0;
    }
    guarded_free(rounded);
    case_free(&test);
    return shows;
}

/* Numbers of a head. */
static int64_t width_of(const ft_op *op, const ft_sample *sample)
{
    const ft_shape *y = &sample->in[0].shape; /* q, perhaps with k and v, or dy */
    bool packed = strcmp(op->name, "attention") == 0 && sample->in[1].shape.n_dims < 0;
    return y->dims[2] / (packed ? 3 : 1) / (int64_t)sample->attrs[HEADS];
}

/* It shows in f32 where heads are of a size for it, and else not: only so the walk has looked at
 * the kernels for tensor cores. What is rounded to 16 bits in the end shows it only here and there.
 */
static void test_rounding(const card *c)
{
    static const char *const rows[] = {"attention", "attention_grad"};
    static const ft_dtype halves[] = {FT_F32, FT_BF16, FT_F16};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const ft_op *op = ft_op_find(rows[k]);
        int shown[3] = {0};
        for (int i = 0; i < op->n_samples; i++) {
            const ft_sample *sample = &op->samples[i];
            int rounding = (int)sample->attrs[ROUNDING]; /* bf16 1, f16 2, tf32 3 */
            bool wide = width_of(op, sample) % 4 == 0;
            if (rounding == 0) continue;
            CHECK(rounding_shows(c, op, sample, FT_F32) == wide);
            if (rounding < 3) shown[rounding] += rounding_shows(c, op, sample, halves[rounding]);
        }
        CHECK(shown[1] > 0 && shown[2] > 0);
    }
}

/* In f32 nothing of it is lost; rounded operands have no such digits. */
static void try_likely_key(const card *c, double gap, int64_t keys)
{
    likely_key l = {.gap = gap, .keys = keys};
    if (!likely_key_init(&l)) return;
    if (run(c, &l.test, l.test.out, 0, NULL)) likely_key_judge(&l);
    case_free(&l.test);
}

static void test_likely_key(const card *c)
{
    for (int gap = 4; gap <= 20; gap += 8) {
        try_likely_key(c, gap, 2);
        try_likely_key(c, gap, 20);
        try_likely_key(c, gap, 150);
    }
}

/* Attention by groups of warps, in two orders. */
static void test_groups(void)
{
    enum { ORDERS = CARDS < 2 ? CARDS : 2 };
    static const char *const names[] = {"attention"};
    card cards[ORDERS];
    bool ok = true;
    for (int i = 0; i < ORDERS; i++) {
        card_order((unsigned)i * 2654435761u);
        ok = card_open(&cards[i]) && ok;
    }
    if (ok) test_rows(cards, ORDERS, &(choice){names, 1});
    if (ok) test_likely_key(&cards[0]);
    for (int i = 0; i < ORDERS; i++) card_close(&cards[i]);
}

/* What is not the walk itself. */
static void test_others(const card cards[CARDS])
{
    for (int i = 0; i < CARDS; i++) test_packed(&cards[i]);
    test_rounding(&cards[0]);
    test_likely_key(&cards[0]);
}

int main(int argc, char **argv)
{
    const choice rows = {(const char *const *)argv + 1, argc - 1};
    card cards[CARDS];
    bool ok = true;
    for (int i = 0; i < CARDS; i++) {
        card_order(i ? (unsigned)i * 2654435761u : 0);
        card_library(i < 3 ? 0 : i - 2);
        ok = card_open(&cards[i]) && ok;
    }
    long products = card_products();
    if (ok) test_rows(cards, CARDS, &rows);
    if (ok && !rows.n) test_others(cards);
    CHECK(products < 0 || rows.n || card_products() > products);
    for (int i = 0; i < CARDS; i++) card_close(&cards[i]);
    if (ok && !rows.n && card_capability(FT_CUDA_GROUPS)) test_groups();
    CHECK(card_left_nothing());
    return check_report();
}
