/* optim/adamw.c - Adam with decoupled weight decay.
 *
 * Loshchilov and Hutter, arXiv:1711.05101, algorithm 2, in the convention of PyTorch: both moments
 * are corrected for their bias, eps is added to the corrected root, decay is multiplied by the
 * rate. To be kept ahead by so many steps, a parameter also takes the change of the corrected m so
 * many times, from the second step on; of one step, that is nearly NAdam (Dozat, ICLR workshop
 * 2016). One pass: 16 bytes read and 12 written for each number of the parameter. */
#include "optim/internal.h"

#include <math.h>

enum { BETA1, BETA2, EPS, WEIGHT_DECAY };

typedef struct job {
    const ft_optim_simd *simd;
    const ft_update *update;
    float *m, *v;
    ft_adamw_step step;
    int64_t n;
} job;

static int adamw_state(const ft_spec *spec, const double *hypers, ft_state_part *parts,
                       int64_t *bytes)
{
    (void)hypers;
    *bytes = 0;
    ft_state_add(&parts[0], "exp_avg", spec->shape, bytes);
    ft_state_add(&parts[1], "exp_avg_sq", spec->shape, bytes);
    return 2;
}

ft_adamw_step ft_adamw_step_of(const ft_update *u)
{
    const double *h = u->hypers;
    double t = (double)u->step, rest = 1.0 - pow(h[BETA1], t);
    double before = t > 1.0 ? rest / (1.0 - pow(h[BETA1], t - 1.0)) : 0.0;
    return (ft_adamw_step){.grad_scale = u->grad_scale,
                           .beta1 = (float)h[BETA1],
                           .rest1 = (float)(1.0 - h[BETA1]),
                           .beta2 = (float)h[BETA2],
                           .rest2 = (float)(1.0 - h[BETA2]),
                           .keep = (float)(1.0 - u->rate * h[WEIGHT_DECAY]),
                           .size = (float)(u->rate / rest),
                           .root = (float)(1.0 / sqrt(1.0 - pow(h[BETA2], t))),
                           .eps = (float)h[EPS],
                           .ahead = t > 1.0 ? (float)u->ahead : 0.0f,
                           .before = (float)before};
}

static void adamw_block(void *arg, int i)
{
    const job *j = arg;
    int64_t at = (int64_t)i * FT_BLOCK, n = ft_piece_end(j->n, FT_BLOCK, i) - at;
    j->simd->adamw(j->update->param + at, j->m + at, j->v + at, j->update->grad + at, &j->step, n);
}

static void adamw_update(const ft_update *u)
{
    ft_state_part parts[FT_MAX_STATE_PARTS];
    int64_t bytes;
    adamw_state(u->spec, u->hypers, parts, &bytes);
    char *state = u->state;
    job j = {.simd = ft_optim_simd_get(),
             .update = u,
             .m = (float *)(void *)(state + parts[0].offset),
             .v = (float *)(void *)(state + parts[1].offset),
             .step = ft_adamw_step_of(u),
             .n = ft_shape_count(&u->spec->shape)};
    ft_team_run(u->team, ft_pieces(j.n, FT_BLOCK), adamw_block, &j);
}

ft_adamw_step ft_adamw_step_ahead(const ft_prediction *q, int k)
{
    const double *h = q->hypers, t = (double)(q->step + k), rate = q->rates[k - 1];
    return (ft_adamw_step){.keep = (float)(1.0 - rate * h[WEIGHT_DECAY]),
                           .size = (float)(rate * pow(h[BETA1], k) / (1.0 - pow(h[BETA1], t))),
                           .root = (float)(1.0 / sqrt(1.0 - pow(h[BETA2], t))),
                           .eps = (float)h[EPS]};
}

static void predict_block(void *arg, int i)
{
    const ft_prediction *q = arg;
    ft_state_part parts[FT_MAX_STATE_PARTS];
    int64_t bytes, first = (int64_t)i * FT_BLOCK;
    int64_t end = ft_piece_end(ft_shape_count(&q->spec->shape), FT_BLOCK, i);
    adamw_state(q->spec, q->hypers, parts, &bytes);
    const char *state = q->state;
    const float *m = (const float *)(const void *)(state + parts[0].offset);
    const float *v = (const float *)(const void *)(state + parts[1].offset);
    for (int64_t at = first; at < end; at++) q->out[at] = q->param[at];
    for (int k = 1; k <= q->n; k++) {
        const ft_adamw_step s = ft_adamw_step_ahead(q, k);
        for (int64_t at = first; at < end; at++)
            q->out[at] = q->out[at] * s.keep - s.size * m[at] / (sqrtf(v[at]) * s.root + s.eps);
    }
}

/* Each missing update: p -= rate (beta1^k m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) +
 * weight_decay p); squares stay as they are. */
static void adamw_predict(const ft_prediction *q)
{
    int64_t n = ft_shape_count(&q->spec->shape);
    ft_team_run(q->team, ft_pieces(n, FT_BLOCK), predict_block, (void *)(uintptr_t)q);
}

const ft_optimizer ft_optimizer_adamw = {
    .name = "adamw",
    .doc = "p -= rate (m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay p); "
           "m, v: moving means of g, g^2 (arXiv:1711.05101)",
    .hypers =
        (const ft_hyper_rule[]){
            {"beta1", 0.9, 0, 0.9999, "share of the old mean of gradients"},
            {"beta2", 0.999, 0, 0.999999, "share of the old mean of their squares"},
            {"eps", 1e-8, 1e-30, 1, "added to the root of the mean square"},
            {"weight_decay", 0, 0, 10, "times the rate: what the parameter loses in a step"},
            {0},
        },
    .momentum = "beta1",
    .memory = 4,
    .state = adamw_state,
    .update = adamw_update,
    .predict = adamw_predict,
};
