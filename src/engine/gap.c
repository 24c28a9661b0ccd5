/* engine/gap.c - gradients of older weights: action A, and what it is measured by.
 *
 * An A divides what its stage has summed for the weights that it, or another of its replicas, owns;
 * what it has summed for weights of other stages goes to them as it is, since their optimizer's
 * state is not here. */
#include <math.h>

#include "engine/internal.h"

typedef struct attenuating {
    ft_gap gap;
    ft_attenuation attenuation;
    double squared;      /* of what the parameter has gone */
    const float *before; /* of an update */
    double rate;
} attenuating;

static ft_gap gap_of(const worker *w, int s, int p)
{
    const ft_run *run = w->run;
    const ft_blueprint *b = run->blueprint;
    ft_state_part parts[FT_MAX_STATE_PARTS];
    int64_t bytes = 0;
    const ft_spec *spec = &b->params[p].spec;
    b->options.optimizer->state(spec, b->options.hypers, parts, &bytes);
    return (ft_gap){.spec = spec,
                    .param = run->stages[s].params[p],
                    .state = known_state(run, s, p) + bytes,
                    .team = w->team};
}

/* The gradient terms of the parameter that the stage has summed itself. */
static ft_status attenuate(void *arg, ft_error *err)
{
    attenuating *a = arg;
    (void)err;
    a->squared = ft_gap_attenuate(&a->gap, &a->attenuation);
    return FT_OK;
}

static ft_status note(void *arg, ft_error *err)
{
    attenuating *a = arg;
    (void)err;
    ft_gap_note(&a->gap, a->before, a->rate);
    return FT_OK;
}

/* What both read and write of the parameter. */
static void touches_gap(const worker *w, ft_plain_work *work, const ft_gap *gap, bool writes)
{
    ft_state_part parts[2];
    int64_t bytes = 0;
    (void)w;
    ft_gap_state(gap->spec, parts, &bytes);
    touches(work, gap->param, ft_spec_bytes(gap->spec), false);
    touches(work, gap->state, bytes, writes);
}

static ft_status attenuate_term(worker *w, const ft_action *a, int i, int term, double *squared,
                                ft_error *err)
{
    const ft_run *run = w->run;
    const ft_stage_param *sp = &run->blueprint->stages[a->stage].params[i];
    int64_t bytes = ft_spec_bytes(&run->blueprint->params[sp->param].spec);
    attenuating job = {.gap = gap_of(w, a->stage, sp->param),
                       .attenuation = {.grad = run->stages[a->stage].grads[term]}};
    ft_attenuation *to = &job.attenuation;
    FT_TRY(find_older(run, a->stage, i, a->batch - a->lag, &to->old, err));
    if (a->item) FT_TRY(find_older(run, a->stage, i, a->batch - a->item, &to->next, err));
    ft_plain_work work = {.run = attenuate, .arg = &job};
    touches_gap(w, &work, &job.gap, false);
    touches(&work, to->old, bytes, false);
    if (to->next) touches(&work, to->next, bytes, false);
    touches(&work, to->grad, bytes, true);
    FT_TRY(compute(w, &work, err));
    *squared = job.squared;
    return FT_OK;
}

ft_status do_attenuate(worker *w, const ft_action *a, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_stage_layout *stage = &b->stages[a->stage];
    double sum = 0, *gap = gap_of_batch(w->run, a->stage, a->batch);
    for (int i = 0; i < stage->n_params; i++) {
        const ft_param_layout *info = &b->params[stage->params[i].param];
        double squared = 0;
        bool knows = stage->params[i].owned || stage->params[i].with_state;
        for (int t = 0; knows && t < info->n_terms; t++)
            if (b->term_stage[info->terms[t]] == stage->origin)
                FT_TRY(attenuate_term(w, a, i, info->terms[t], &squared, err));
        sum += squared;
    }
    if (isnan(*gap)) *gap = sqrt(sum);
    return FT_OK;
}

ft_status note_steps(worker *w, const ft_action *a, ft_error *err)
{
    const ft_run *run = w->run;
    const ft_blueprint *b = run->blueprint;
    const ft_stage_layout *stage = &b->stages[a->stage];
    for (int i = 0; i < stage->n_params; i++) {
        const ft_param_layout *info = &b->params[stage->params[i].param];
        if (!stage->params[i].owned || !info->n_terms) continue;
        attenuating job = {.gap = gap_of(w, a->stage, stage->params[i].param),
                           .rate = batch_of(run, a->batch)->rate * info->rate_factor};
        FT_TRY(find_older(run, a->stage, i, a->batch, &job.before, err));
        ft_plain_work work = {.run = note, .arg = &job};
        touches_gap(w, &work, &job.gap, true);
        touches(&work, job.before, ft_spec_bytes(&info->spec), false);
        FT_TRY(compute(w, &work, err));
    }
    return FT_OK;
}
