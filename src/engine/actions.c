/* engine/actions.c - what each kind of action does.
 *
 * One function per kind, in a table. Waiting and counting are the worker's. */
#include "base/clock.h"
#include "engine/internal.h"

float *loss_of(const ft_run *run, int s, int64_t batch, int64_t micro)
{
    const ft_blueprint *b = run->blueprint;
    const ft_stage_share *of = &b->seating.of[b->stages[s].origin];
    int64_t slot = batch % b->batch_slots;
    return &run->stages[s].losses[slot * of->per_batch + ft_share_local(of, micro)];
}

/* Over its micro-batches in their order, whichever replica has them. */
static double sum_losses(const ft_run *run, int64_t batch)
{
    const ft_blueprint *b = run->blueprint;
    double sum = 0;
    int s = 0;
    while (!b->stages[s].sums_loss) s++;
    for (int m = 0; m < b->cut.micro_batches; m++) {
        int replica = ft_share_replica(&b->seating.of[b->stages[s].origin], m);
        sum += (double)*loss_of(run, s + replica, batch, m);
    }
    return sum;
}

void complete_batch(ft_run *run, int64_t number)
{
    batch_state *batch = batch_of(run, number);
    run->results[number % run->blueprint->batch_slots] =
        (ft_result){.step = run->first_step + number,
                    .loss = sum_losses(run, number),
                    .grad_norm = batch->norm,
                    .rate = batch->rate,
                    .end_ns = ft_now_ns() - run->start_ns};
    atomic_store(&batch->finished, number + 1);
    ft_gate_open(&run->done_gate);
}

ft_status finish_batch(worker *w, const ft_action *a, ft_error *err)
{
    FT_TRY(end_batch(w, a, err));
    if (atomic_fetch_sub(&batch_of(w->run, a->batch)->stages_left, 1) != 1) return FT_OK;
    if (w->run->rank) ranks_report(w->run, a->batch);
    complete_batch(w->run, a->batch);
    return FT_OK;
}

/* That nothing of the stage is in flight was proven with the plan. */
static ft_status do_drain(worker *w, const ft_action *a, ft_error *err)
{
    (void)w, (void)a, (void)err;
    return FT_OK;
}

/* -- the table --------------------------------------------------------------------------------- */

static ft_status (*const kinds[FT_ACT_COUNT])(worker *, const ft_action *, ft_error *) = {
    [FT_ACT_FORWARD] = do_forward,      [FT_ACT_BACKWARD] = do_backward,
    [FT_ACT_REDUCE] = do_reduce,        [FT_ACT_UPDATE] = do_update,
    [FT_ACT_ADOPT] = do_adopt,          [FT_ACT_SEND] = do_pass,
    [FT_ACT_RECEIVE] = do_pass,         [FT_ACT_SWAP_OUT] = do_swap_out,
    [FT_ACT_SWAP_IN] = do_swap_in,      [FT_ACT_DROP] = do_drop,
    [FT_ACT_BACKWARD_INPUT] = do_stage, [FT_ACT_BACKWARD_WEIGHT] = do_backward,
    [FT_ACT_PREDICT] = do_predict,      [FT_ACT_TAKE_NORMS] = do_take_norms,
    [FT_ACT_ATTENUATE] = do_attenuate,  [FT_ACT_EXCHANGE] = do_exchange,
    [FT_ACT_DRAIN] = do_drain,
};

/* The first action of a kind that has no function here, or NULL. */
static const ft_action *find_unknown(const ft_action_list *list)
{
    for (int i = 0; i < list->n; i++)
        if (!kinds[list->actions[i].kind]) return &list->actions[i];
    return NULL;
}

ft_status ft_run_check_plan(const ft_plan *plan, ft_error *err)
{
    for (int d = 0; d < plan->n_devices; d++) {
        const ft_device_plan *lists = &plan->devices[d];
        const ft_action *a = find_unknown(&lists->warmup);
        if (!a) a = find_unknown(&lists->body);
        if (!a) a = find_unknown(&lists->drain);
        if (a)
            return ft_fail(
                err, FT_UNSUPPORTED,
                "plan: %s actions, as stage %d has on device %d, can be planned and simulated but "
                "not executed yet: expected a schedule without them, as 1f1b",
                ft_action_word(a->kind), a->stage, d);
        if (plan->by_policy[d])
            return ft_fail(err, FT_UNSUPPORTED,
                           "engine: device %d chooses its order by policy, which can be simulated "
                           "but not executed yet",
                           d);
    }
    return FT_OK;
}

ft_status ft_run_check(const ft_blueprint *b, ft_error *err)
{
    return ft_run_check_plan(&b->plan, err);
}

/* The plan says how many updates a micro-batch may be behind; the engine has counted them. */
static ft_status check_lag(const ft_run *run, const ft_action *a, ft_error *err)
{
    int lag = counted_lag(run, a);
    if (lag == a->lag) return FT_OK;
    return ft_fail(err, FT_INVALID, "stage %d is %d updates behind, the plan says %d",
                   run->blueprint->stages[a->stage].origin, lag, a->lag);
}

ft_status execute_action(worker *w, const ft_action *a, ft_error *err)
{
    FT_TRY(check_lag(w->run, a, err));
    FT_TRY(kinds[a->kind](w, a, err));
    ft_versions_pass(&w->run->stages[a->stage].versions,
                     ft_seat_index(&w->run->blueprint->seating, a), a);
    return FT_OK;
}
