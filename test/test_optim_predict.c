/* test/test_optim_predict.c - predictions against their formulas in f64. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "check.h"
#include "optim/optim.h"

/* A parameter that has some updates behind it. */
typedef struct trial {
    const ft_optimizer *optimizer;
    ft_spec spec;
    double hypers[FT_MAX_HYPERS];
    int64_t n, state_bytes;
    float *param, *grad;
    char *state;
} trial;

static void *zeroed(int64_t bytes)
{
    void *p = calloc(1, (size_t)bytes + 64);
    if (!p) abort();
    return p;
}

static trial trial_new(const char *name, ft_shape shape)
{
    trial t = {.optimizer = ft_optimizer_find(name), .spec = {FT_F32, shape}};
    ft_state_part parts[FT_MAX_STATE_PARTS];
    ft_optimizer_hypers(t.optimizer, NULL, NULL, 0, t.hypers, NULL);
    t.optimizer->state(&t.spec, t.hypers, parts, &t.state_bytes);
    t.n = ft_shape_count(&shape);
    t.param = zeroed(t.n * 4);
    t.grad = zeroed(t.n * 4);
    t.state = aligned_alloc(64, (size_t)(t.state_bytes + 127) / 64 * 64);
    if (!t.state) abort();
    memset(t.state, 0, (size_t)(t.state_bytes + 127) / 64 * 64);
    for (int64_t i = 0; i < t.n; i++) t.param[i] = (float)cos((double)(7 * i));
    return t;
}

static void trial_free(trial *t)
{
    free(t->param);
    free(t->grad);
    free(t->state);
}

/* What the rates of Adafactor are multiplied by. */
static double size_of(const trial *t)
{
    double sum = 0;
    if (strcmp(t->optimizer->name, "adafactor") != 0 || t->hypers[5] == 0.0) return 1;
    for (int64_t i = 0; i < t->n; i++) sum += (double)t->param[i] * (double)t->param[i];
    return fmax(t->hypers[1], sqrt(sum / (double)t->n));
}

/* After two updates, a number as it would be after those that are missing, in f64. */
static double predicted(const trial *t, int64_t i, const double *rates, int n, double size)
{
    const double *h = t->hypers;
    bool sgd = !strcmp(t->optimizer->name, "sgd"), adamw = !strcmp(t->optimizer->name, "adamw");
    ft_state_part parts[FT_MAX_STATE_PARTS];
    int64_t bytes;
    t->optimizer->state(&t->spec, h, parts, &bytes);
    double p = (double)t->param[i], m = ((const float *)(const void *)t->state)[i];
    for (int k = 1; k <= n; k++) {
        if (sgd) p -= rates[k - 1] * pow(h[0], k) * m;
        if (adamw) {
            double v = ((const float *)(const void *)(t->state + parts[1].offset))[i];
            double root = sqrt(v / (1 - pow(h[1], 2 + k))) + h[2];
            p -= rates[k - 1] * (h[3] * p + pow(h[0], k) * m / (1 - pow(h[0], 2 + k)) / root);
        }
        if (!sgd && !adamw) p *= 1 - rates[k - 1] * size * h[4];
    }
    return p;
}

static void check_prediction(trial *t, int n, ft_team *team)
{
    const double rates[] = {0.02, 0.01, 0.03};
    size_t bytes = (size_t)t->n * sizeof(float);
    float *one = zeroed((int64_t)bytes), *three = zeroed((int64_t)bytes);
    float *before = zeroed((int64_t)bytes);
    char *state = zeroed(t->state_bytes);
    memcpy(before, t->param, bytes);
    memcpy(state, t->state, (size_t)t->state_bytes);
    ft_prediction q = {&t->spec, t->param, one, t->state, t->hypers, rates, n, 2, NULL};
    t->optimizer->predict(&q);
    q.out = three;
    q.team = team;
    t->optimizer->predict(&q);
    CHECK(!memcmp(one, three, bytes) && !memcmp(before, t->param, bytes));
    CHECK(!memcmp(state, t->state, (size_t)t->state_bytes));
    CHECK((n == 0) == !memcmp(one, t->param, bytes));
    double most = 0, size = size_of(t);
    for (int64_t i = 0; i < t->n; i++)
        most = fmax(most, fabs((double)one[i] - predicted(t, i, rates, n, size)));
    CHECK(most < 1e-6);
    free(one);
    free(three);
    free(before);
    free(state);
}

/* A prediction follows its formula, changes nothing else, and is the same for any team. */
static void test_predictions(void)
{
    static const char *const names[] = {"sgd", "adamw", "adafactor", "adafactor"};
    static const char *const set[] = {"weight_decay", "scale_parameter"};
    ft_error err;
    ft_team *team = NULL;
    CHECK_STATUS(ft_team_new(&team, 3, &err), FT_OK);
    for (int o = 0; o < 4; o++)
        for (int n = 0; n <= 3; n++) {
            trial t = trial_new(names[o], ft_shape_of(40000));
            const double values[] = {0.1, o == 3};
            CHECK_STATUS(
                ft_optimizer_hypers(t.optimizer, set, values, o >= 2 ? 2 : 1, t.hypers, &err),
                FT_OK);
            for (int64_t i = 0; i < t.n; i++) t.grad[i] = (float)sin((double)i);
            for (int step = 1; step <= 2; step++) {
                const ft_update u = {.spec = &t.spec,
                                     .param = t.param,
                                     .grad = t.grad,
                                     .grad_scale = 1,
                                     .state = t.state,
                                     .hypers = t.hypers,
                                     .rate = 0.05,
                                     .step = step};
                t.optimizer->update(&u);
            }
            check_prediction(&t, n, team);
            trial_free(&t);
        }
    ft_team_free(team);
}

int main(void)
{
    RUN(test_predictions);
    CHECK(ft_alloc_live() == 0);
    return check_report();
}
