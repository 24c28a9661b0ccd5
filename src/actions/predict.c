/* actions/predict.c - weights as they will be when the updates that are missing are done: action P.
 *
 * A forward that comes before the updates of earlier batches reads a prediction of them; backwards
 * read the newest weights (Chen and others, SpecTrain, arXiv:1809.02839; Guan and others, XPipe,
 * arXiv:1911.04610; Eliad and others, FTPipe, USENIX ATC 2021). The rule is that of the optimizer's
 * row. Rates of the missing updates are known: their batches were fed before. A replica knows the
 * optimizer's state of what others of its stage own: it comes with their weights. Weights that a
 * stage takes over from another one are not predicted: their state is not here. */
#include "actions/internal.h"

typedef struct predicting {
    const ft_optimizer *optimizer;
    ft_prediction prediction;
} predicting;

static ft_status run_prediction(void *arg, ft_error *err)
{
    const predicting *p = arg;
    (void)err;
    p->optimizer->predict(&p->prediction);
    return FT_OK;
}

static ft_status give_prediction(void *arg, ft_device_stream *stream, ft_error *err)
{
    const predicting *p = arg;
    return ft_steps_of(stream)->predict(stream, p->optimizer, &p->prediction, err);
}

static ft_status predict_param(worker *w, const ft_action *a, const ft_seat_param *sp,
                               ft_error *err)
{
    const ft_run *run = w->run;
    const ft_blueprint *b = run->blueprint;
    const ft_seat_layout *seat = &b->seats[a->seat];
    const seat_state *state = &run->seats[a->seat];
    const ft_param_layout *info = &b->params[sp->param];
    char *slot = predicted_slot(run, a->seat, sp->owned ? FT_WEIGHTS_OWNED : FT_WEIGHTS_ADOPTED);
    predicting p = {b->options.optimizer,
                    {.spec = &info->spec,
                     .param = state->params[sp->param],
                     .out = (float *)(void *)(slot + sp->old_at),
                     .state = known_state(run, a->seat, sp->param),
                     .hypers = info->hypers,
                     .rates = state->own_rates,
                     .n = a->lag,
                     .step = run->first_step - 1 + state->versions.newest.of[FT_WEIGHTS_OWNED],
                     .team = w->team}};
    for (int k = 0; k < a->lag; k++) state->own_rates[k] = state->rates[k] * info->rate_factor;
    int64_t bytes = ft_spec_bytes(&info->spec);
    int64_t state_bytes = ft_blueprint_state_bytes(b, sp->param);
    ft_plain_work work = {.run = run_prediction, .give = give_prediction, .arg = &p};
    touches(&work, p.prediction.param, bytes, false);
    touches(&work, p.prediction.state, state_bytes, false);
    touches(&work, p.prediction.out, bytes, true);
    FT_TRY(compute(w, &work, err));
    for (int k = 0; k < seat->n_packs; k++)
        if (seat->packs[k].param == sp->param)
            FT_TRY(pack_weight(w, a->seat, k, p.prediction.out, slot + seat->pack_old_at[k], err));
    return FT_OK;
}

/* Micro-batches that miss the same updates share what was predicted for the first of them. */
ft_status do_predict(worker *w, const ft_action *a, ft_error *err)
{
    ft_run *run = w->run;
    const ft_seat_layout *seat = &run->blueprint->seats[a->seat];
    seat_state *state = &run->seats[a->seat];
    int64_t newest = state->versions.newest.of[FT_WEIGHTS_OWNED];
    state->predicted_for = ft_seat_index(&run->blueprint->seating, a) + 1;
    if (state->predicted_version == newest && state->predicted_lag == a->lag) return FT_OK;
    for (int k = 0; k < a->lag; k++)
        state->rates[k] = run->batches[(newest + k) % run->blueprint->batch_slots].rate;
    for (int i = 0; i < seat->n_params; i++)
        if ((seat->params[i].owned || seat->params[i].with_state) && seat->params[i].old_at >= 0)
            FT_TRY(predict_param(w, a, &seat->params[i], err));
    for (int k = 0; k < FT_WEIGHTS_KINDS; k++)
        if (seat->predicted[k].n)
            ledger_keep(w, a->seat, FT_MEMORY_VERSIONS, &state->kept_predicted[k],
                        ft_place_room(seat->predicted[k].slot_bytes));
    state->predicted_version = newest;
    state->predicted_lag = a->lag;
    return FT_OK;
}
