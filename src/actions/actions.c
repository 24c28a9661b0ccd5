/* actions/actions.c - what each kind of action does.
 *
 * One function per kind, in a table. Waiting and counting are the worker's. */
#include "actions/internal.h"
#include "ranks/ranks.h"

ft_status finish_batch(worker *w, const ft_action *a, ft_error *err)
{
    FT_TRY(end_batch(w, a, err));
    if (atomic_fetch_sub(&batch_of(w->run, a->batch)->seats_left, 1) != 1) return FT_OK;
    if (w->run->rank) ranks_report(w->run, a->batch);
    complete_batch(w->run, a->batch);
    return FT_OK;
}

/* That nothing of the seat is in flight was proven with the plan. */
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
    [FT_ACT_BACKWARD_INPUT] = do_nodes, [FT_ACT_BACKWARD_WEIGHT] = do_backward,
    [FT_ACT_PREDICT] = do_predict,      [FT_ACT_TAKE_NORMS] = do_take_norms,
    [FT_ACT_ATTENUATE] = do_attenuate,  [FT_ACT_EXCHANGE] = do_exchange,
    [FT_ACT_DRAIN] = do_drain,          [FT_ACT_MAKE] = do_make,
};

bool can_execute(ft_action_kind kind)
{
    return kinds[kind];
}

/* The plan says how many updates a micro-batch may be behind; the engine has counted them. */
static ft_status check_lag(const ft_run *run, const ft_action *a, ft_error *err)
{
    int lag = counted_lag(run, a);
    if (lag == a->lag) return FT_OK;
    return ft_fail(err, FT_INVALID, "stage %d is %d updates behind, the plan says %d",
                   run->blueprint->seats[a->seat].stage, lag, a->lag);
}

ft_status execute_action(worker *w, const ft_action *a, ft_error *err)
{
    FT_TRY(check_lag(w->run, a, err));
    FT_TRY(kinds[a->kind](w, a, err));
    ft_versions_pass(&w->run->seats[a->seat].versions,
                     ft_seat_index(&w->run->blueprint->seating, a), a);
    return FT_OK;
}
