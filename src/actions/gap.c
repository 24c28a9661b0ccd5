/* actions/gap.c - gradients of older weights: action A, and what it is measured by.
 *
 * An A divides what its seat has summed for the weights that it, or another of its replicas, owns;
 * what it has summed for weights of other stages goes to them as it is, since their optimizer's
 * state is not here. */
#include <math.h>

#include "actions/internal.h"

typedef struct attenuating {
    ft_gap gap;
    ft_attenuation attenuation;
    double squared;      /* of what the parameter has gone */
    ft_look *found;      /* where a device of its own says that */
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
                    .param = run->seats[s].params[p],
                    .state = known_state(run, s, p) + bytes,
                    .team = w->team};
}

/* The gradient terms of the parameter that the seat has summed itself. */
static ft_status attenuate(void *arg, ft_error *err)
{
    attenuating *a = arg;
    (void)err;
    a->squared = ft_gap_attenuate(&a->gap, &a->attenuation);
    return FT_OK;
}

static ft_status give_attenuation(void *arg, ft_device_stream *stream, ft_error *err)
{
    const attenuating *a = arg;
    *a->found = (ft_look){0, 1, 0};
    return ft_steps_of(stream)->attenuate(stream, &a->gap, &a->attenuation, a->found, err);
}

static ft_status note(void *arg, ft_error *err)
{
    attenuating *a = arg;
    (void)err;
    ft_gap_note(&a->gap, a->before, a->rate);
    return FT_OK;
}

static ft_status give_note(void *arg, ft_device_stream *stream, ft_error *err)
{
    const attenuating *a = arg;
    return ft_steps_of(stream)->note_step(stream, &a->gap, a->before, a->rate, err);
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
    const ft_seat_param *sp = &run->blueprint->seats[a->seat].params[i];
    int64_t bytes = ft_spec_bytes(&run->blueprint->params[sp->param].spec);
    attenuating job = {.gap = gap_of(w, a->seat, sp->param),
                       .attenuation = {.grad = run->seats[a->seat].grads[term]},
                       .found = w->findings ? &w->findings->terms[term] : NULL};
    ft_attenuation *to = &job.attenuation;
    FT_TRY(find_older(run, a->seat, i, a->batch - a->lag, &to->old, err));
    if (a->item) FT_TRY(find_older(run, a->seat, i, a->batch - a->item, &to->next, err));
    ft_plain_work work = {.run = attenuate, .give = give_attenuation, .arg = &job};
    touches_gap(w, &work, &job.gap, false);
    touches(&work, to->old, bytes, false);
    if (to->next) touches(&work, to->next, bytes, false);
    touches(&work, to->grad, bytes, true);
    FT_TRY(compute(w, &work, err));
    *squared = job.squared;
    return FT_OK;
}

/* The terms that an A divides, of parameter i of its seat: the next one from t on, or n_terms. */
static int next_term(const ft_blueprint *b, const ft_seat_layout *seat, int i, int t)
{
    const ft_param_layout *info = &b->params[seat->params[i].param];
    if (!seat->params[i].owned && !seat->params[i].with_state) return info->n_terms;
    while (t < info->n_terms && b->term_stage[info->terms[t]] != seat->stage) t++;
    return t;
}

/* What looks have found: a parameter has one gap, whatever terms. */
static ft_status hear_gaps(worker *w, const ft_action *a, double *sum, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_seat_layout *seat = &b->seats[a->seat];
    FT_TRY(hear_all(w, err));
    for (int i = 0; i < seat->n_params; i++) {
        const ft_param_layout *info = &b->params[seat->params[i].param];
        int t = next_term(b, seat, i, 0);
        if (t < info->n_terms) *sum += w->findings->terms[info->terms[t]].squares;
    }
    return FT_OK;
}

ft_status do_attenuate(worker *w, const ft_action *a, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_seat_layout *seat = &b->seats[a->seat];
    double sum = 0, *gap = gap_of_batch(w->run, a->seat, a->batch);
    for (int i = 0; i < seat->n_params; i++) {
        const ft_param_layout *info = &b->params[seat->params[i].param];
        double squared = 0;
        for (int t = next_term(b, seat, i, 0); t < info->n_terms; t = next_term(b, seat, i, t + 1))
            FT_TRY(attenuate_term(w, a, i, info->terms[t], &squared, err));
        sum += squared;
    }
    if (w->findings) FT_TRY(hear_gaps(w, a, &sum, err));
    if (isnan(*gap)) *gap = sqrt(sum);
    return FT_OK;
}

ft_status note_steps(worker *w, const ft_action *a, ft_error *err)
{
    const ft_run *run = w->run;
    const ft_blueprint *b = run->blueprint;
    const ft_seat_layout *seat = &b->seats[a->seat];
    for (int i = 0; i < seat->n_params; i++) {
        if (!is_updated(b, &seat->params[i])) continue;
        const ft_param_layout *info = &b->params[seat->params[i].param];
        attenuating job = {.gap = gap_of(w, a->seat, seat->params[i].param),
                           .rate = batch_of(run, a->batch)->rate * info->rate_factor};
        FT_TRY(find_older(run, a->seat, i, a->batch, &job.before, err));
        ft_plain_work work = {.run = note, .give = give_note, .arg = &job};
        touches_gap(w, &work, &job.gap, true);
        touches(&work, job.before, ft_spec_bytes(&info->spec), false);
        FT_TRY(compute(w, &work, err));
    }
    return FT_OK;
}
