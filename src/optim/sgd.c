/* optim/sgd.c - gradient descent with momentum, without dampening:
 * m = momentum m + g + weight_decay p; p -= rate m; and, for a parameter that is kept ahead by so
 * many steps, so many times the change of m. */
#include "optim/internal.h"

enum { MOMENTUM, WEIGHT_DECAY };

typedef struct job {
    const ft_optim_simd *simd;
    const ft_update *update;
    float *m;
    ft_sgd_step step;
    int64_t n;
} job;

static int sgd_state(const ft_spec *spec, const double *hypers, ft_state_part *parts,
                     int64_t *bytes)
{
    (void)hypers;
    *bytes = 0;
    ft_state_add(&parts[0], "momentum_buffer", spec->shape, bytes);
    return 1;
}

ft_sgd_step ft_sgd_step_of(const ft_update *u)
{
    return (ft_sgd_step){.grad_scale = u->grad_scale,
                         .momentum = (float)u->hypers[MOMENTUM],
                         .decay = (float)u->hypers[WEIGHT_DECAY],
                         .rate = (float)u->rate,
                         .ahead = (float)u->ahead};
}

static void sgd_block(void *arg, int i)
{
    const job *j = arg;
    int64_t at = (int64_t)i * FT_BLOCK, n = ft_piece_end(j->n, FT_BLOCK, i) - at;
    j->simd->sgd(j->update->param + at, j->m + at, j->update->grad + at, &j->step, n);
}

static void sgd_update(const ft_update *u)
{
    job j = {.simd = ft_optim_simd_get(),
             .update = u,
             .m = u->state,
             .step = ft_sgd_step_of(u),
             .n = ft_shape_count(&u->spec->shape)};
    ft_team_run(u->team, ft_pieces(j.n, FT_BLOCK), sgd_block, &j);
}

float ft_sgd_rate_ahead(const ft_prediction *q)
{
    double rate = 0, share = 1;
    for (int k = 0; k < q->n; k++) rate += q->rates[k] * (share *= q->hypers[MOMENTUM]);
    return (float)rate;
}

static void predict_block(void *arg, int i)
{
    const ft_prediction *q = arg;
    const float *m = q->state, rate = ft_sgd_rate_ahead(q);
    int64_t at = (int64_t)i * FT_BLOCK;
    int64_t end = ft_piece_end(ft_shape_count(&q->spec->shape), FT_BLOCK, i);
    for (; at < end; at++) q->out[at] = q->param[at] - rate * m[at];
}

/* p - m (rate_1 momentum + rate_2 momentum^2 + ...): decay waits for the update. */
static void sgd_predict(const ft_prediction *q)
{
    int64_t n = ft_shape_count(&q->spec->shape);
    ft_team_run(q->team, ft_pieces(n, FT_BLOCK), predict_block, (void *)(uintptr_t)q);
}

const ft_optimizer ft_optimizer_sgd = {
    .name = "sgd",
    .doc = "m = momentum m + g + weight_decay p; p -= rate m",
    .hypers =
        (const ft_hyper_rule[]){
            {"momentum", 0.9, 0, 0.9999, "share of the old step"},
            {"weight_decay", 0, 0, 10, "added to the gradient, times the parameter"},
            {0},
        },
    .momentum = "momentum",
    .memory = 3,
    .state = sgd_state,
    .update = sgd_update,
    .predict = sgd_predict,
};
