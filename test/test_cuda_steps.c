/* test/test_cuda_steps.c - what a step does beside rows, on cards: each optimizer and its
 * prediction against the CPU's over some steps, sums, looks. */
#include "a_card.h"

enum { STEPS = 5 };

/* Zeros. Not inlined, where GCC 12 takes the memory for a local variable of card_take. */
static __attribute__((noinline)) char *cleared(int64_t bytes)
{
    return memset(card_take((size_t)bytes), 0, (size_t)bytes);
}

static float *drawn(int64_t n, uint64_t stream)
{
    float *x = card_take((size_t)(n + 1) * sizeof *x);
    ft_rng rng;
    ft_rng_init(&rng, 11, stream);
    for (int64_t i = 0; i < n; i++) x[i] = (float)ft_rng_normal(&rng);
    return x;
}

static void compare(const char *what, const float *x, const float *y, int64_t n)
{
    double most = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        double gap = fabs((double)x[i] - (double)y[i]);
        most = gap <= most ? most : gap; /* NaN is the most */
        size = fmax(size, fabs((double)y[i]));
    }
    if (!CHECK(most <= 2e-6 * size))
        fprintf(stderr, "  %s: off by %.3g of %.3g\n", what, most, size);
}

/* Trains one parameter here and there; `exact`: to the same bits. */
static void try_optimizer(const card *c, const ft_optimizer *o, bool exact, ft_shape shape,
                          double decay)
{
    const ft_spec spec = {FT_F32, shape};
    double hypers[FT_MAX_HYPERS], rates[] = {2e-2, 1e-2};
    ft_state_part parts[FT_MAX_STATE_PARTS];
    int64_t n = ft_shape_count(&shape), bytes;
    ft_error err;
    const char *const names[] = {"weight_decay"};
    CHECK_STATUS(ft_optimizer_hypers(o, names, &decay, 1, hypers, &err), FT_OK);
    o->state(&spec, hypers, parts, &bytes);
    float *p[2] = {drawn(n, 1), drawn(n, 1)}, *ahead[2] = {drawn(n, 2), drawn(n, 2)};
    char *state[2] = {cleared(bytes), cleared(bytes)};
    ft_update u = {.spec = &spec,
                   .grad_scale = 0.5f,
                   .hypers = hypers,
                   .rate = 1e-2,
                   .ahead = o->momentum ? 0.7 : 0};
    for (u.step = 1; u.step <= STEPS; u.step++) {
        float *g = drawn(n, 10 + (uint64_t)u.step);
        u.grad = g;
        u.param = p[0];
        u.state = state[0];
        o->update(&u);
        u.param = p[1];
        u.state = state[1];
        CHECK_STATUS(ft_cuda_steps.update(c->stream, o, &u, 1, &err), FT_OK);
        CHECK_STATUS(card_finish(c, &err), FT_OK);
        card_give(g);
    }
    compare(o->name, p[1], p[0], n);
    CHECK(!exact || memcmp(p[0], p[1], (size_t)n * sizeof(float)) == 0);
    CHECK(!exact || memcmp(state[0], state[1], (size_t)bytes) == 0);
    ft_prediction q = {.spec = &spec, .hypers = hypers, .rates = rates, .n = 2, .step = STEPS};
    q.param = p[0];
    q.state = state[0];
    q.out = ahead[0];
    o->predict(&q);
    q.out = ahead[1];
    CHECK_STATUS(ft_cuda_steps.predict(c->stream, o, &q, &err), FT_OK);
    CHECK_STATUS(card_finish(c, &err), FT_OK);
    compare("a prediction", ahead[1], ahead[0], n);
    for (int i = 0; i < 2; i++) {
        card_give(p[i]);
        card_give(ahead[i]);
        card_give(state[i]);
    }
}

/* What nothing is summed for has the CPU's bits, so that either may update it (--update host). */
static void test_optimizers(const card *c)
{
    static const struct {
        const char *name;
        bool exact;
    } rows[] = {{"adamw", true}, {"sgd", true}, {"adafactor", false}};
    const ft_shape shapes[] = {ft_shape_of(1), ft_shape_of(5000), ft_shape_of(37, 51),
                               ft_shape_of(3, 40, 33)};
    int n = 0;
    while (ft_optimizers[n]) n++;
    CHECK(n == sizeof rows / sizeof *rows);
    for (int i = 0; i < n; i++)
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
            const ft_optimizer *o = ft_optimizer_find(rows[i].name);
            try_optimizer(c, o, rows[i].exact, shapes[k], 0);
            try_optimizer(c, o, rows[i].exact, shapes[k], 0.1);
        }
}

enum { TOGETHER = 2 * FT_CUDA_TENSORS + 3 };

/* Shapes of parameters that are updated together: vectors and matrices, an empty one, those of more
 * than one block. */
static ft_spec spec_of(int i)
{
    static const int64_t sizes[][3] = {{7}, {40, 33}, {0}, {1500}, {3, 5, 300}, {70, 520}, {1, 1}};
    static const int dims[] = {1, 2, 1, 1, 3, 2, 2};
    int k = i % (int)(sizeof dims / sizeof *dims);
    ft_spec spec = {FT_F32, {.n_dims = dims[k]}};
    memcpy(spec.shape.dims, sizes[k], (size_t)dims[k] * sizeof(int64_t));
    return spec;
}

enum { BEHIND = 0x1234 };   /* what is behind a copy */
enum { BF16 = 2, F16 = 4 }; /* attributes of linear */

/* Every third update writes none; every other copy does not lie for four numbers at once. */
static void ask_for_copy(ft_update *u, int i)
{
    if (i % 3 == 0) return;
    int64_t n = ft_shape_count(&u->spec->shape);
    uint16_t *copy = (uint16_t *)(void *)cleared(2 * (n + 2)) + i % 2;
    copy[n] = BEHIND;
    u->copy = copy;
    u->copy_dtype = i % 3 == 1 ? FT_BF16 : FT_F16;
}

/* What an update has written beside a parameter has the bits that are packed of it. */
static void check_copy(const card *c, const ft_update *u, int i)
{
    int64_t n = ft_shape_count(&u->spec->shape);
    if (!u->copy) return;
    const double attrs[FT_MAX_ATTRS] = {[BF16] = u->copy_dtype == FT_BF16, [F16] = 1};
    const ft_spec in[FT_MAX_IN] = {[1] = *u->spec};
    const ft_op *linear = ft_op_find("linear");
    const ft_packer by = {NULL, c->stream};
    uint16_t *copy = u->copy, *packed = (uint16_t *)(void *)cleared(2 * (n + 1));
    CHECK(ft_cuda_kernels.pack_dtype(linear, attrs) == u->copy_dtype);
    if (n)
        CHECK_STATUS(ft_cuda_kernels.pack(linear, in, attrs, u->param, packed, &by, NULL), FT_OK);
    CHECK_STATUS(card_finish(c, NULL), FT_OK);
    CHECK(memcmp(copy, packed, (size_t)(2 * n)) == 0);
    CHECK(copy[n] == BEHIND);
    card_give(packed);
    card_give(copy - i % 2);
}

/* Many parameters in one call get the bits that each gets alone, in as many launches as there are
 * groups of FT_CUDA_TENSORS. */
static void try_together(const card *c, const ft_optimizer *o, long launches)
{
    ft_spec specs[TOGETHER];
    ft_update all[2][TOGETHER];
    double hypers[FT_MAX_HYPERS];
    ft_state_part parts[FT_MAX_STATE_PARTS];
    int64_t bytes;
    CHECK_STATUS(ft_optimizer_hypers(o, NULL, NULL, 0, hypers, NULL), FT_OK);
    for (int i = 0; i < TOGETHER; i++)
        for (int k = 0; k < 2; k++) {
            specs[i] = spec_of(i);
            int64_t n = ft_shape_count(&specs[i].shape);
            o->state(&specs[i], hypers, parts, &bytes);
            ft_update *u = &all[k][i];
            *u = (ft_update){.spec = &specs[i], .grad_scale = 0.5f, .hypers = hypers, .step = 1};
            u->param = drawn(n, (uint64_t)i);
            u->grad = drawn(n, 100 + (uint64_t)i);
            u->state = cleared(bytes);
            u->rate = 1e-2 * (1 + i % 3);
            ask_for_copy(u, i);
        }
    for (int i = 0; i < TOGETHER; i++)
        CHECK_STATUS(ft_cuda_steps.update(c->stream, o, &all[0][i], 1, NULL), FT_OK);
    long before = card_launches();
    CHECK_STATUS(ft_cuda_steps.update(c->stream, o, all[1], TOGETHER, NULL), FT_OK);
    if (before >= 0) CHECK(card_launches() - before == launches);
    CHECK_STATUS(card_finish(c, NULL), FT_OK);
    for (int i = 0; i < TOGETHER; i++) {
        o->state(&specs[i], hypers, parts, &bytes);
        CHECK(memcmp(all[0][i].param, all[1][i].param, (size_t)ft_spec_bytes(&specs[i])) == 0);
        CHECK(memcmp(all[0][i].state, all[1][i].state, (size_t)bytes) == 0);
        for (int k = 0; k < 2; k++) {
            check_copy(c, &all[k][i], i);
            card_give(all[k][i].param);
            card_give((void *)(uintptr_t)all[k][i].grad);
            card_give(all[k][i].state);
        }
    }
}

static void test_together(const card *c)
{
    static const struct {
        const char *name;
        long launches;
    } rows[] = {{"adamw", 2}, {"sgd", 2}, {"adafactor", 12}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        try_together(c, ft_optimizer_find(rows[i].name), rows[i].launches);
}

/* Each of many tensors is told what is in it. */
static void test_looks_together(const card *c)
{
    ft_looking at[TOGETHER];
    ft_look *found = card_take(TOGETHER * sizeof *found);
    float *x[TOGETHER];
    for (int i = 0; i < TOGETHER; i++) {
        int64_t n = 700 * i;
        x[i] = drawn(n, 200 + (uint64_t)i);
        if (i % 5 == 4) x[i][n / 2] = NAN;
        found[i] = (ft_look){-1, 1, 0};
        at[i] = (ft_looking){x[i], FT_F32, n, &found[i]};
    }
    CHECK_STATUS(ft_cuda_steps.look(c->stream, at, TOGETHER, NULL), FT_OK);
    CHECK_STATUS(card_finish(c, NULL), FT_OK);
    for (int i = 0; i < TOGETHER; i++) {
        double squares = ft_squared_norm(x[i], at[i].n, NULL);
        bool odd = i % 5 == 4;
        CHECK(found[i].finite == !odd && found[i].nan == odd);
        CHECK(odd || fabs(found[i].squares - squares) <= 1e-12 * squares);
        card_give(x[i]);
    }
    card_give(found);
}

static void test_looks(const card *c)
{
    static const int64_t sizes[] = {0, 1, 1000, 300000};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        int64_t n = sizes[k];
        float *x = drawn(n, 3);
        ft_look *found = card_take(sizeof *found);
        *found = (ft_look){-1, 1, 0};
        const ft_looking at = {x, FT_F32, n, found};
        CHECK_STATUS(ft_cuda_steps.look(c->stream, &at, 1, NULL), FT_OK);
        CHECK_STATUS(card_finish(c, NULL), FT_OK);
        double squares = ft_squared_norm(x, n, NULL);
        CHECK(found->finite && !found->nan && fabs(found->squares - squares) <= 1e-12 * squares);
        const float odd[] = {INFINITY, NAN};
        for (int i = 0; i < 2 && n; i++) {
            x[n - 1] = odd[i];
            *found = (ft_look){0, 1, 0};
            CHECK_STATUS(ft_cuda_steps.look(c->stream, &at, 1, NULL), FT_OK);
            CHECK_STATUS(card_finish(c, NULL), FT_OK);
            CHECK(!found->finite && found->nan == (uint32_t)i);
        }
        card_give(found);
        card_give(x);
    }
}

static void test_sums(const card *c)
{
    enum { MOST = 70, N = 3000 };
    float *terms[MOST], *there[MOST];
    for (int n = 1, into = 0; n <= MOST; n += 23, into = n - 1) {
        for (int t = 0; t < n; t++) {
            terms[t] = drawn(N, 100 + (uint64_t)t);
            there[t] = drawn(N, 100 + (uint64_t)t);
        }
        for (int t = 1; t < n; t++) ft_sum_into(terms[0], terms[t], N, NULL);
        float *x[MOST];
        for (int t = 0; t < n; t++) x[t] = there[t];
        const ft_summands summands = {there[into], x, n, N};
        CHECK_STATUS(ft_cuda_steps.sum(c->stream, &summands, NULL), FT_OK);
        CHECK_STATUS(card_finish(c, NULL), FT_OK);
        CHECK(memcmp(there[into], terms[0], N * sizeof(float)) == 0);
        for (int t = 0; t < n; t++) {
            card_give(terms[t]);
            card_give(there[t]);
        }
    }
}

/* Steps of a parameter are noted, then a gradient is divided by gaps, here and there. One of many
 * numbers never moves; the largest rate is not that of the last step. */
static void try_gap(const card *c, int64_t n, bool next)
{
    const ft_spec spec = {FT_F32, ft_shape_of(n)};
    ft_state_part parts[2];
    int64_t bytes = 0;
    ft_gap_state(&spec, parts, &bytes);
    float *g[2] = {drawn(n, 4), drawn(n, 4)}, *w[5];
    char *state[2] = {cleared(bytes), cleared(bytes)};
    static const double rates[] = {1e-2, 0, 2e-2, 1.5e-2};
    for (int k = 0; k < 5; k++) {
        w[k] = drawn(n, 5 + (uint64_t)k);
        if (n > 1) w[k][n - 1] = 0.5f;
    }
    ft_gap gap[2];
    for (int k = 0; k < 2; k++) gap[k] = (ft_gap){.spec = &spec, .state = state[k]};
    for (int step = 0; step < 4; step++) {
        gap[0].param = gap[1].param = w[step + 1];
        ft_gap_note(&gap[0], w[step], rates[step]);
        CHECK_STATUS(ft_cuda_steps.note_step(c->stream, &gap[1], w[step], rates[step], NULL),
                     FT_OK);
    }
    ft_attenuation work = {.old = w[0], .next = next ? w[1] : NULL, .grad = g[0]};
    double squares = ft_gap_attenuate(&gap[0], &work);
    ft_look *found = card_take(sizeof *found);
    *found = (ft_look){0, 1, 0};
    work.grad = g[1];
    CHECK_STATUS(ft_cuda_steps.attenuate(c->stream, &gap[1], &work, found, NULL), FT_OK);
    CHECK_STATUS(card_finish(c, NULL), FT_OK);
    for (int k = 0; k < 2; k++) {
        int64_t numbers = ft_shape_count(&parts[k].spec.shape);
        compare("the size of steps", (float *)(void *)(state[1] + parts[k].offset),
                (float *)(void *)(state[0] + parts[k].offset), numbers);
    }
    compare("a gradient of older weights", g[1], g[0], n);
    CHECK(fabs(found->squares - squares) <= 1e-12 * squares);
    card_give(found);
    for (int k = 0; k < 5; k++) card_give(w[k]);
    for (int k = 0; k < 2; k++) {
        card_give(g[k]);
        card_give(state[k]);
    }
}

static void test_gaps(const card *c)
{
    static const int64_t sizes[] = {1, 5000, 200000};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (int next = 0; next < 2; next++) try_gap(c, sizes[k], next);
}

int main(void)
{
    card c;
    if (card_open(&c) && CHECK(ft_steps_of(c.stream) == &ft_cuda_steps && !ft_steps_of(NULL))) {
        test_optimizers(&c);
        test_together(&c);
        test_looks(&c);
        test_looks_together(&c);
        test_sums(&c);
        test_gaps(&c);
    }
    card_close(&c);
    CHECK(card_left_nothing());
    return check_report();
}
