/* test/test_optim.c - updates against their formulas in f64, over several steps. */
#include "check.h"

#include <float.h>

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "optim/optim.h"

enum { STEPS = 12, MAX = 1 << 17, GUARD = 16 };

/* A parameter that is trained twice: by the row, and by the formula in f64. */
typedef struct trial {
    const ft_optimizer *optimizer;
    ft_spec spec;
    double hypers[FT_MAX_HYPERS], ahead;
    int64_t n, state_bytes;
    float *param, *grad;
    char *state;
    double *param64, *a64, *b64; /* b64: a second state */
} trial;

static void *zeroed(int64_t bytes)
{
    void *p = calloc(1, (size_t)bytes + 64);
    if (!p) abort();
    return p;
}

static trial trial_new(const char *name, ft_shape shape, double size)
{
    trial t = {.optimizer = ft_optimizer_find(name), .spec = {FT_F32, shape}};
    ft_state_part parts[FT_MAX_STATE_PARTS];
    ft_rng rng;
    ft_rng_init(&rng, 5, 1);
    ft_optimizer_hypers(t.optimizer, NULL, NULL, 0, t.hypers, NULL);
    t.optimizer->state(&t.spec, t.hypers, parts, &t.state_bytes);
    t.n = ft_shape_count(&shape);
    t.param = zeroed((t.n + GUARD) * 4);
    t.grad = zeroed(t.n * 4);
    t.param64 = zeroed(t.n * 8);
    t.a64 = zeroed(t.n * 8);
    t.b64 = zeroed(t.n * 8);
    t.state = aligned_alloc(64, (size_t)(t.state_bytes + 127) / 64 * 64);
    memset(t.state, 0, (size_t)(t.state_bytes + 127) / 64 * 64);
    for (int64_t i = 0; i < t.n; i++) {
        t.param[i] = (float)(size * ft_rng_normal(&rng));
        t.param64[i] = (double)t.param[i];
    }
    return t;
}

static void trial_free(trial *t)
{
    free(t->param);
    free(t->grad);
    free(t->state);
    free(t->param64);
    free(t->a64);
    free(t->b64);
}

/* Gradients of a step: some zero, sizes that differ by row. */
static void draw_grad(trial *t, int64_t step)
{
    ft_rng rng;
    ft_rng_init(&rng, 9, (uint64_t)step);
    for (int64_t i = 0; i < t->n; i++)
        t->grad[i] = (float)(ft_rng_normal(&rng) * (1.0 + (double)(i % 5)));
}

static ft_update update_of(trial *t, int64_t step, ft_team *team)
{
    return (ft_update){.spec = &t->spec,
                       .param = t->param,
                       .grad = t->grad,
                       .grad_scale = 0.5f,
                       .state = t->state,
                       .hypers = t->hypers,
                       .rate = 1e-2,
                       .ahead = t->ahead,
                       .step = step,
                       .team = team};
}

static double worst(const trial *t)
{
    double error = 0.0, size = 0.0;
    for (int64_t i = 0; i < t->n; i++) {
        error = fmax(error, fabs((double)t->param[i] - t->param64[i]));
        size = fmax(size, fabs(t->param64[i]));
    }
    return t->n ? error / size : 0.0;
}

/* -- the formulas ----------------------------------------------------------------------------- */

static void adamw_formula(trial *t, const ft_update *u)
{
    const double *h = t->hypers;
    for (int64_t i = 0; i < t->n; i++) {
        double g = (double)t->grad[i] * (double)u->grad_scale;
        t->a64[i] = h[0] * t->a64[i] + (1 - h[0]) * g;
        t->b64[i] = h[1] * t->b64[i] + (1 - h[1]) * g * g;
        double m = t->a64[i] / (1 - pow(h[0], (double)u->step));
        double v = t->b64[i] / (1 - pow(h[1], (double)u->step));
        double was = u->step > 1 ? (t->a64[i] - (1 - h[0]) * g) / h[0] : 0;
        double before = u->step > 1 ? was / (1 - pow(h[0], (double)(u->step - 1))) : m;
        m += u->ahead * (m - before);
        t->param64[i] -= u->rate * (m / (sqrt(v) + h[2]) + h[3] * t->param64[i]);
    }
}

static void sgd_formula(trial *t, const ft_update *u)
{
    for (int64_t i = 0; i < t->n; i++) {
        double g = (double)t->grad[i] * (double)u->grad_scale + t->hypers[1] * t->param64[i];
        double before = t->a64[i];
        t->a64[i] = t->hypers[0] * before + g;
        t->param64[i] -= u->rate * (t->a64[i] + u->ahead * (t->a64[i] - before));
    }
}

static double rms(const double *x, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    return sqrt(sum / (double)n);
}

/* One (R, C) matrix: statistics in row and col, u out. */
static void factored_direction(double *u, const double *g, double *row, double *col, double beta,
                               int64_t R, int64_t C)
{
    double mean = 0.0;
    for (int64_t r = 0; r < R; r++) {
        double sum = 0.0;
        for (int64_t c = 0; c < C; c++) sum += g[r * C + c] * g[r * C + c] + 1e-30;
        row[r] = beta * row[r] + (1 - beta) * sum / (double)C;
        mean += row[r] / (double)R;
    }
    for (int64_t c = 0; c < C; c++) {
        double sum = 0.0;
        for (int64_t r = 0; r < R; r++) sum += g[r * C + c] * g[r * C + c] + 1e-30;
        col[c] = beta * col[c] + (1 - beta) * sum / (double)R;
    }
    for (int64_t i = 0; i < R * C; i++) u[i] = g[i] / sqrt(row[i / C] / mean) / sqrt(col[i % C]);
}

static void adafactor_formula(trial *t, const ft_update *up)
{
    const ft_shape *shape = &t->spec.shape;
    double beta = 1 - pow((double)up->step, -0.8);
    double *g = zeroed(t->n * 8), *u = zeroed(t->n * 8);
    for (int64_t i = 0; i < t->n; i++) g[i] = (double)t->grad[i] * (double)up->grad_scale;
    if (shape->n_dims < 2) {
        for (int64_t i = 0; i < t->n; i++) {
            t->a64[i] = beta * t->a64[i] + (1 - beta) * (g[i] * g[i] + 1e-30);
            u[i] = g[i] / sqrt(t->a64[i]);
        }
    } else {
        int64_t R = shape->dims[shape->n_dims - 2], C = shape->dims[shape->n_dims - 1];
        for (int64_t k = 0; k < t->n / (R * C); k++)
            factored_direction(u + k * R * C, g + k * R * C, t->a64 + k * R, t->b64 + k * C, beta,
                               R, C);
    }
    double clip = fmax(1.0, rms(u, t->n) / t->hypers[2]);
    double rate = up->rate * fmax(1e-3, rms(t->param64, t->n));
    for (int64_t i = 0; i < t->n; i++)
        t->param64[i] -= rate * (u[i] / clip + t->hypers[4] * t->param64[i]);
    free(g);
    free(u);
}

typedef void (*formula)(trial *t, const ft_update *u);

static void train(trial *t, formula f, double tolerance, const char *what)
{
    for (int step = 1; step <= STEPS; step++) {
        draw_grad(t, step);
        ft_update u = update_of(t, step, NULL);
        int64_t allocations = ft_alloc_count();
        t->optimizer->update(&u);
        CHECK(ft_alloc_count() == allocations);
        f(t, &u);
    }
    bool beyond = false;
    for (int i = 0; i < GUARD; i++) beyond = beyond || t->param[t->n + i] != 0.0f;
    CHECK(!beyond);
    if (!CHECK(worst(t) <= tolerance)) fprintf(stderr, "  %s: error %g\n", what, worst(t));
}

static void test_formulas(void)
{
    const ft_shape shapes[] = {
        ft_shape_of(1),           ft_shape_of(33),    ft_shape_of(7, 33), ft_shape_of(300, 257),
        ft_shape_of(2, 3, 40, 9), ft_shape_of(50000), ft_shape_of(1, 1),  {.n_dims = 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        trial t = trial_new("adamw", shapes[i], 0.5);
        t.hypers[3] = 0.1;
        train(&t, adamw_formula, 1e-6, "adamw");
        trial_free(&t);
        t = trial_new("adamw", shapes[i], 0.5);
        t.ahead = 0.75;
        train(&t, adamw_formula, 1e-6, "adamw, ahead");
        trial_free(&t);
        t = trial_new("sgd", shapes[i], 0.5);
        t.hypers[1] = 0.1;
        train(&t, sgd_formula, 1e-6, "sgd");
        trial_free(&t);
        t = trial_new("sgd", shapes[i], 0.5);
        t.ahead = 1.5;
        train(&t, sgd_formula, 1e-6, "sgd, ahead");
        trial_free(&t);
        t = trial_new("adafactor", shapes[i], 0.5);
        train(&t, adafactor_formula, 1e-6, "adafactor");
        trial_free(&t);
        t = trial_new("adafactor", shapes[i], 1e-5);
        train(&t, adafactor_formula, 1e-6, "adafactor, small parameter");
        trial_free(&t);
        t = trial_new("adafactor", shapes[i], 0.5);
        t.hypers[4] = 0.1;
        train(&t, adafactor_formula, 1e-6, "adafactor, with decay");
        trial_free(&t);
    }
}

/* Step 1 has beta = 0: everything can be written down for two by two. */
static void test_adafactor_by_hand(void)
{
    trial t = trial_new("adafactor", ft_shape_of(2, 2), 1.0);
    const float p[] = {1, 1, 1, -1}, g[] = {3, 4, 0, 5};
    memcpy(t.param, p, sizeof p);
    memcpy(t.grad, g, sizeof g);
    ft_update u = update_of(&t, 1, NULL);
    u.grad_scale = 1.0f;
    u.rate = 0.1;
    t.optimizer->update(&u);
    /* rows 12.5, 12.5 (mean 12.5); columns 4.5, 20.5; u = g / sqrt(column) */
    double u00 = 3 / sqrt(4.5), u01 = 4 / sqrt(20.5), u11 = 5 / sqrt(20.5);
    double size = sqrt((u00 * u00 + u01 * u01 + u11 * u11) / 4); /* 1: no clipping to speak of */
    double clip = fmax(1.0, size);
    CHECK_NEAR(size, 1.0, 1e-12);
    CHECK_NEAR(t.param[0], 1 - 0.1 * u00 / clip, 1e-6);
    CHECK_NEAR(t.param[1], 1 - 0.1 * u01 / clip, 1e-6);
    CHECK_NEAR(t.param[2], 1, 1e-6);
    CHECK_NEAR(t.param[3], -1 - 0.1 * u11 / clip, 1e-6);
    trial_free(&t);
}

/* Gradients of zero leave finite numbers; so does a clipped step after them. */
static void test_zero_gradients(void)
{
    for (const ft_optimizer *const *row = ft_optimizers; *row; row++) {
        trial t = trial_new((*row)->name, ft_shape_of(40, 9), 0.5);
        ft_update u = update_of(&t, 1, NULL);
        (*row)->update(&u);
        for (int64_t i = 0; i < t.n; i++)
            if (!CHECK((double)t.param[i] == t.param64[i])) break;
        t.grad[11] = 2.0f;
        u.step = 2;
        (*row)->update(&u);
        bool finite = true;
        for (int64_t i = 0; i < t.n; i++) finite = finite && isfinite(t.param[i]);
        CHECK(finite && (double)t.param[11] < t.param64[11]);
        trial_free(&t);
    }
}

static void test_teams(void)
{
    ft_team *team = NULL;
    CHECK_STATUS(ft_team_new(&team, 3, NULL), FT_OK);
    const ft_shape shapes[] = {ft_shape_of(300, 257), ft_shape_of(70001), ft_shape_of(3, 90, 20),
                               ft_shape_of(0),        ft_shape_of(0, 4),  ft_shape_of(4, 0)};
    for (const ft_optimizer *const *row = ft_optimizers; *row; row++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            trial a = trial_new((*row)->name, shapes[i], 0.5);
            trial b = trial_new((*row)->name, shapes[i], 0.5);
            for (int step = 1; step <= 3; step++) {
                draw_grad(&a, step);
                draw_grad(&b, step);
                ft_update alone = update_of(&a, step, NULL), together = update_of(&b, step, team);
                (*row)->update(&alone);
                (*row)->update(&together);
            }
            CHECK(memcmp(a.param, b.param, (size_t)a.n * 4) == 0);
            CHECK(memcmp(a.state, b.state, (size_t)a.state_bytes) == 0);
            trial_free(&a);
            trial_free(&b);
        }
    ft_team_free(team);
}

static void test_states(void)
{
    const ft_shape shapes[] = {ft_shape_of(33), ft_shape_of(7, 33), ft_shape_of(2, 5, 3)};
    for (const ft_optimizer *const *row = ft_optimizers; *row; row++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            ft_spec spec = {FT_F32, shapes[i]};
            double hypers[FT_MAX_HYPERS];
            ft_state_part parts[FT_MAX_STATE_PARTS];
            int64_t bytes = 0, end = 0;
            ft_optimizer_hypers(*row, NULL, NULL, 0, hypers, NULL);
            int n = (*row)->state(&spec, hypers, parts, &bytes);
            CHECK((*row)->doc && n >= 1 && n <= FT_MAX_STATE_PARTS);
            for (int k = 0; k < n; k++) {
                CHECK(parts[k].name && parts[k].offset >= end && parts[k].offset % 64 == 0);
                end = parts[k].offset + ft_spec_bytes(&parts[k].spec);
            }
            CHECK(end <= bytes);
        }
    ft_spec spec = {FT_F32, ft_shape_of(2, 5, 3)};
    ft_state_part parts[FT_MAX_STATE_PARTS];
    int64_t bytes;
    CHECK(ft_optimizer_find("adafactor")->state(&spec, NULL, parts, &bytes) == 2);
    CHECK(parts[0].spec.shape.n_dims == 2 && parts[0].spec.shape.dims[1] == 5);
    CHECK(parts[1].spec.shape.n_dims == 2 && parts[1].spec.shape.dims[1] == 3);
}

static void test_hypers(void)
{
    const ft_optimizer *adamw = ft_optimizer_find("adamw");
    double hypers[FT_MAX_HYPERS];
    ft_error err;
    CHECK(adamw && !ft_optimizer_find("adam"));
    const char *name = "beta2";
    CHECK_STATUS(ft_optimizer_hypers(adamw, &name, &(double){0.95}, 1, hypers, &err), FT_OK);
    CHECK(hypers[0] == 0.9 && hypers[1] == 0.95 && hypers[2] == 1e-8 && hypers[3] == 0.0);
    CHECK_STATUS(ft_optimizer_hypers(adamw, &name, &(double){1.5}, 1, hypers, &err), FT_INVALID);
    CHECK(strstr(err.message, "adamw: beta2 is 1.5") != NULL);
    CHECK_STATUS(ft_optimizer_hypers(adamw, &name, &(double){(double)NAN}, 1, hypers, &err),
                 FT_INVALID);
    name = "momentum";
    CHECK_STATUS(ft_optimizer_hypers(adamw, &name, &(double){0.5}, 1, hypers, &err), FT_INVALID);
    CHECK(strstr(err.message, "no setting momentum") != NULL);
}

static void test_sums(void)
{
    static float x[MAX], y[MAX];
    ft_team *team = NULL;
    ft_rng rng;
    ft_rng_init(&rng, 3, 3);
    for (int i = 0; i < MAX; i++) x[i] = (float)ft_rng_normal(&rng);
    CHECK_STATUS(ft_team_new(&team, 3, NULL), FT_OK);
    const int64_t sizes[] = {0, 1, 7, 1000, 16385, MAX - 3};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        double sum = 0.0;
        for (int64_t i = 0; i < sizes[k]; i++) sum += (double)x[i] * (double)x[i];
        double found = ft_squared_norm(x, sizes[k], NULL);
        CHECK_NEAR(found, sum, 1e-12 * sum);
        CHECK(found == ft_squared_norm(x, sizes[k], team));
        memcpy(y, x, sizeof y);
        CHECK(ft_sum_into(y, x, sizes[k], team));
        bool right = true;
        for (int64_t i = 0; i < MAX; i++)
            right = right && y[i] == (i < sizes[k] ? x[i] + x[i] : x[i]);
        CHECK(right);
    }
    x[5] = NAN;
    CHECK(isnan(ft_squared_norm(x, MAX, team)));
    CHECK(ft_sum_into(y, x + 6, 3, team) && !ft_sum_into(y, x + 5, 3, team));
    x[MAX - 1] = y[MAX - 1] = FLT_MAX;
    CHECK(!ft_sum_into(y + 10, x + 10, MAX - 10, team));
    ft_team_free(team);
}

/* -- terms of a sum ---------------------------------------------------------------------------- */

enum { TERMS = 4, ROWS = 301, WIDTH = 70, PICKED = ROWS / 5 + 1, PICKED_BYTES = 1 << 15 };

/* Terms of which some are zero in most rows; row 5 has nothing at all, the last term a -0 there
 * unless it is by rows. maps: NULL, or room for TERMS x ROWS. */
static void draw_terms(ft_sum_term *terms, float *room, uint32_t by_rows, uint8_t *maps)
{
    ft_rng rng;
    ft_rng_init(&rng, 5, 1);
    for (int t = 0; t < TERMS; t++) {
        bool some = by_rows >> t & 1;
        terms[t] = (ft_sum_term){.x = room + (int64_t)t * ROWS * WIDTH,
                                 .by_rows = some,
                                 .rows = some && maps ? maps + (int64_t)t * ROWS : NULL};
        for (int r = 0; r < ROWS; r++) {
            bool here = !some || (r * 7 + t) % 5 == 0;
            for (int d = 0; d < WIDTH; d++) {
                float x = ldexpf((float)ft_rng_normal(&rng), t * 5);
                terms[t].x[r * WIDTH + d] = here && r != 5 ? x : 0.0f;
            }
            if (terms[t].rows) terms[t].rows[r] = here || r % 3 == 0;
        }
    }
    if (!terms[TERMS - 1].by_rows) terms[TERMS - 1].x[5 * WIDTH] = -0.0f;
}

static bool check_sum(const float *sum, const ft_sum_term *terms, const float *before)
{
    bool right = true;
    for (int r = 0; r < ROWS; r++)
        for (int d = 0; d < WIDTH; d++) {
            float wanted = 0.0f;
            bool any = false;
            for (int t = 0; t < TERMS; t++) {
                const float *row = before + ((int64_t)t * ROWS + r) * WIDTH;
                bool zeros = true;
                for (int k = 0; k < WIDTH; k++) zeros = zeros && row[k] == 0.0f;
                if (terms[t].by_rows && zeros) continue;
                wanted = any ? wanted + row[d] : row[d];
                any = true;
            }
            right = right && memcmp(&sum[r * WIDTH + d], &wanted, sizeof wanted) == 0;
        }
    return right;
}

/* Those by rows as they pass, but the one that the sum is left in. */
static void pick_terms(ft_sum_term *terms, int into, char *room)
{
    for (int t = 0; t < TERMS; t++) {
        if (!terms[t].by_rows || t == into) continue;
        char *picked = room + (int64_t)t * PICKED_BYTES;
        CHECK(ft_picked_bytes(PICKED, WIDTH) <= PICKED_BYTES);
        CHECK(ft_pick_rows(&terms[t], ROWS, WIDTH, picked, PICKED));
        CHECK(!ft_pick_rows(&terms[t], ROWS, WIDTH, room + TERMS * PICKED_BYTES, ROWS / 5 - 1));
        terms[t] = ft_picked_term(picked, PICKED);
        CHECK(terms[t].by_rows && terms[t].n_picked <= PICKED && terms[t].n_picked >= ROWS / 5 - 1);
    }
}

/* Every mixture of terms, place of the sum and kind of map: the bits of the terms' order. */
static void test_sums_of_terms(void)
{
    static float room[TERMS * ROWS * WIDTH], before[TERMS * ROWS * WIDTH];
    static uint8_t maps[TERMS * ROWS];
    static _Alignas(64) char picked[(TERMS + 1) * PICKED_BYTES];
    ft_team *team = NULL;
    ft_sum_term terms[TERMS];
    CHECK_STATUS(ft_team_new(&team, 3, NULL), FT_OK);
    for (uint32_t by_rows = 0; by_rows < 1u << TERMS; by_rows++)
        for (int k = 0; k < 4 * TERMS; k++) {
            int into = k / 2 % TERMS;
            draw_terms(terms, room, by_rows, k % 2 ? maps : NULL);
            memcpy(before, room, sizeof room);
            if (k >= 2 * TERMS) pick_terms(terms, into, picked);
            CHECK(ft_sum_terms(terms, TERMS, into, ROWS, WIDTH, k % 4 < 2 ? team : NULL));
            CHECK(check_sum(terms[into].x, terms, before));
            for (int r = 0; terms[into].rows && r < ROWS; r++)
                for (int d = 0; d < WIDTH; d++)
                    CHECK(terms[into].rows[r] || terms[into].x[r * WIDTH + d] == 0.0f);
        }
    draw_terms(terms, room, 3, NULL);
    terms[1].x[10 * WIDTH + 3] = INFINITY;
    CHECK(!ft_sum_terms(terms, TERMS, 2, ROWS, WIDTH, team));
    memcpy(before, room, sizeof room);
    CHECK(ft_sum_terms(terms, 1, 0, ROWS, WIDTH, team)); /* what it is already */
    CHECK(memcmp(before, room, sizeof room) == 0);
    ft_team_free(team);
}

/* At a constant rate, what is stored is ahead of the plain run by so many of its next steps: by the
 * share of a step that its momentum is. */
static void test_ahead_of_the_plain_run(void)
{
    trial plain = trial_new("sgd", ft_shape_of(33), 0.5),
          ahead = trial_new("sgd", ft_shape_of(33), 0.5);
    ahead.ahead = 2;
    for (int step = 1; step <= STEPS; step++) {
        draw_grad(&plain, step);
        draw_grad(&ahead, step);
        ft_update u = update_of(&plain, step, NULL), v = update_of(&ahead, step, NULL);
        plain.optimizer->update(&u);
        ahead.optimizer->update(&v);
    }
    const float *momentum = (const float *)(const void *)plain.state;
    for (int i = 0; i < 33; i++)
        CHECK_NEAR(ahead.param[i], plain.param[i] - 2 * 1e-2f * momentum[i], 1e-5);
    trial_free(&plain);
    trial_free(&ahead);
}

/* Without a momentum there is nothing to look ahead by: the change of m is the gradient itself. */
static void test_who_looks_ahead(void)
{
    const struct {
        const char *optimizer, *name;
        double value;
        bool looks_ahead;
    } cases[] = {
        {"sgd", "momentum", 0.9, true},
        {"sgd", "momentum", 0, false},
        {"sgd", "weight_decay", 1, true},
        {"adamw", "beta1", 0.9, true},
        {"adamw", "beta1", 0, false},
        {"adamw", "beta2", 0, true},
        {"adafactor", "weight_decay", 1, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ft_optimizer *optimizer = ft_optimizer_find(cases[i].optimizer);
        double hypers[FT_MAX_HYPERS];
        ft_error err;
        CHECK_STATUS(
            ft_optimizer_hypers(optimizer, &cases[i].name, &cases[i].value, 1, hypers, &err),
            FT_OK);
        CHECK(ft_optimizer_looks_ahead(optimizer, hypers) == cases[i].looks_ahead);
    }
}

static void test_rates(void)
{
    ft_error err;
    ft_rate rate = {"linear", 2.0, 10, 110};
    CHECK_STATUS(ft_rate_check(&rate, &err), FT_OK);
    CHECK_NEAR(ft_rate_at(&rate, 1), 0.2, 1e-15);
    CHECK_NEAR(ft_rate_at(&rate, 10), 2.0, 1e-15);
    CHECK_NEAR(ft_rate_at(&rate, 60), 1.0, 1e-15);
    CHECK_NEAR(ft_rate_at(&rate, 110), 0.0, 1e-15);
    CHECK_NEAR(ft_rate_at(&rate, 500), 0.0, 1e-15);
    rate.schedule = "cooldown";
    CHECK_NEAR(ft_rate_at(&rate, 5), 1.0, 1e-15);
    CHECK_NEAR(ft_rate_at(&rate, 89), 2.0, 1e-15);
    CHECK_NEAR(ft_rate_at(&rate, 100), 1.0, 1e-12);
    CHECK_NEAR(ft_rate_at(&rate, 110), 0.0, 1e-15);
    rate.schedule = "cosine";
    CHECK_NEAR(ft_rate_at(&rate, 35), 2.0 * (0.5 + 0.5 * sqrt(0.5)), 1e-12);
    CHECK_NEAR(ft_rate_at(&rate, 60), 1.0, 1e-12);
    CHECK_NEAR(ft_rate_at(&rate, 110), 0.0, 1e-12);
    rate.schedule = "inverse-sqrt";
    CHECK_NEAR(ft_rate_at(&rate, 5), 1.0, 1e-15);
    CHECK_NEAR(ft_rate_at(&rate, 10), 2.0, 1e-15);
    CHECK_NEAR(ft_rate_at(&rate, 40), 1.0, 1e-15);
    CHECK_NEAR(ft_rate_at(&rate, 1000), 0.2, 1e-15);
    rate.warmup = 0;
    CHECK_NEAR(ft_rate_at(&rate, 1), 2.0, 1e-15);
    CHECK_NEAR(ft_rate_at(&rate, 16), 0.5, 1e-15);
    rate = (ft_rate){"warmup-stable-decay", 2.0, 10, 110};
    CHECK_NEAR(ft_rate_at(&rate, 5), 1.0, 1e-15);
    CHECK_NEAR(ft_rate_at(&rate, 99), 2.0, 1e-15);
    CHECK_NEAR(ft_rate_at(&rate, 105), 2.0 * (1.0 - sqrt(0.5)), 1e-12);
    CHECK_NEAR(ft_rate_at(&rate, 110), 0.0, 0.0);
    CHECK_NEAR(ft_rate_at(&rate, 200), 0.0, 0.0);
    rate = (ft_rate){"constant", 2.0, 0, 0};
    CHECK_STATUS(ft_rate_check(&rate, &err), FT_OK);
    CHECK_NEAR(ft_rate_at(&rate, 1), 2.0, 0.0);
    CHECK_NEAR(ft_rate_at(&rate, 1000000), 2.0, 0.0);
    rate.schedule = "sawtooth";
    CHECK_STATUS(ft_rate_check(&rate, &err), FT_INVALID);
    CHECK(strstr(err.message, "sawtooth") && strstr(err.message, "cosine"));
    rate = (ft_rate){"linear", -1.0, 0, 10};
    CHECK_STATUS(ft_rate_check(&rate, &err), FT_INVALID);
    rate.peak = (double)INFINITY;
    CHECK_STATUS(ft_rate_check(&rate, &err), FT_INVALID);
    rate = (ft_rate){"linear", 1.0, -1, 10};
    CHECK_STATUS(ft_rate_check(&rate, &err), FT_INVALID);
    rate = (ft_rate){NULL, 1.0, 0, 10};
    CHECK_STATUS(ft_rate_check(&rate, &err), FT_INVALID);
}

int main(void)
{
    RUN(test_formulas);
    RUN(test_adafactor_by_hand);
    RUN(test_zero_gradients);
    RUN(test_teams);
    RUN(test_states);
    RUN(test_hypers);
    RUN(test_sums);
    RUN(test_sums_of_terms);
    RUN(test_ahead_of_the_plain_run);
    RUN(test_who_looks_ahead);
    RUN(test_rates);
    return check_report();
}
