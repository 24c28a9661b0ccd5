/* actions/finite.c - numbers that are not finite stop a step.
 *
 * Every micro-batch's loss, the values that it sends and its gradient terms are looked at as they
 * are made; on CPUs, of a term that others are added to, what it is made of where that is fewer
 * numbers, so that a sum which alone is too large is found in the last micro-batch. What is found
 * does not stop the workers at once, which would leave it to chance which of two stages reports: it
 * is noted with its place in an order that does not depend on timing (micro-batch, forward before
 * backward, along the pipeline), the batch drains without an update, and the first in that order is
 * what ft_run_next gives. Synchronous schedules update when all stages have all their gradients, so
 * no stage has updated by then; asynchronously those stages have not that saw such a number.
 *
 * Gradients of a scaled loss (ft_feed) that are not finite may have been scaled too far: noted as
 * FT_CANCELLED they end no run, but the batch updates nothing. What is wrong in a forward is told
 * before them. */
#include "actions/internal.h"

#include <stdio.h>

/* Place of an action in the order: reductions come after every micro-batch. */
static int64_t order_of(const ft_run *run, const ft_action *a)
{
    const ft_blueprint *b = run->blueprint;
    int64_t seats = b->seating.n_seats, depth = b->plan.depth[b->seats[a->seat].stage];
    bool forward = a->kind == FT_ACT_FORWARD, micro = ft_action_per_micro(a->kind);
    int64_t turn = 2 * (int64_t)(micro ? a->micro : b->cut.micro_batches) + !forward;
    return (turn * (seats + 1) + (forward ? seats - depth : depth)) * seats + a->seat;
}

/* Whether nothing before this action was noted. */
static bool comes_first(ft_run *run, const ft_action *a)
{
    const batch_state *batch = batch_of(run, a->batch);
    pthread_mutex_lock(&run->error_lock);
    bool first = batch->failure.status == FT_OK || batch->failure.status == FT_CANCELLED ||
                 order_of(run, a) < batch->failure_order;
    pthread_mutex_unlock(&run->error_lock);
    return first;
}

/* A forward value kept for the backward program that is not finite: what the gradients suffer from
 * was made earlier. Statistics may be infinite. */
static ft_status watch_saved(const ft_graph *g, const ft_stage *cut, const ft_program *program,
                             const ft_bases *bases, ft_error *err)
{
    for (int i = 0; i < cut->n_saved && !bases->watch->node; i++) {
        const ft_value *value = ft_graph_value(g, cut->saved[i]);
        const ft_node *node = ft_graph_node(g, value->source);
        bool statistic = node->op->no_grad_out >> value->output & 1;
        if (!ft_dtype_is_float(value->spec.dtype) || statistic) continue;
        ft_place place = ft_program_place(program, cut->saved[i]);
        FT_TRY(ft_watch_tensor(bases, node, &value->spec, ft_place_address(bases, place), err));
    }
    return FT_OK;
}

/* *name: of the parameter that the node reads and that is not finite itself, or NULL. */
static ft_status bad_parameter(const ft_graph *g, const ft_node *node, const ft_bases *bases,
                               const char **name, ft_error *err)
{
    *name = NULL;
    for (int i = 0; i < node->n_in; i++) {
        if (node->in[i] == FT_NO_VALUE) continue;
        const ft_value *value = ft_graph_value(g, node->in[i]);
        if (value->kind != FT_VALUE_PARAM || !bases->params[value->source]) continue;
        ft_watch watch = {.every = true};
        ft_bases again = *bases;
        again.watch = &watch;
        FT_TRY(ft_watch_tensor(&again, node, &value->spec, bases->params[value->source], err));
        if (watch.node && !*name) *name = value->name;
    }
    return FT_OK;
}

/* In words: what gave which numbers, and where. Without a node, what is saved, sent or lost is not
 * finite and every node's outputs are. */
static ft_error describe(const worker *w, const ft_action *a, const ft_watch *found,
                         const char *param)
{
    const ft_run *run = w->run;
    const ft_blueprint *b = run->blueprint;
    char what[256], from[256] = "";
    ft_watch_words(found, what, sizeof what);
    if (param) snprintf(from, sizeof from, " from the parameter '%s', which is not finite", param);
    ft_error failure;
    ft_fail(&failure, FT_DIVERGED, "%s %lld: %s%s; stage %d of %d, micro-batch %d of %d",
            run->plan->forward_only ? "evaluation batch" : "step",
            (long long)(run->first_step + a->batch), what, from, b->seats[a->seat].stage,
            b->plan.n_stages, a->micro, b->cut.micro_batches);
    return failure;
}

/* Whether the action's gradients may have been scaled too far, which is noted then. */
static bool is_overflow(worker *w, const ft_action *a)
{
    ft_error failure;
    if (a->kind == FT_ACT_FORWARD || batch_of(w->run, a->batch)->loss_scale <= 1) return false;
    ft_fail(&failure, FT_CANCELLED, "scaled gradients are not finite");
    note_failure(w->run, a->batch, &failure, order_of(w->run, a));
    return true;
}

ft_status explain_failure(worker *w, const ft_action *a, int bucket, const ft_program *program,
                          const ft_bases *bases, ft_error *err)
{
    const ft_seat_layout *seat = &w->run->blueprint->seats[a->seat];
    const ft_graph *g = w->run->blueprint->cut.graphs[bucket];
    ft_watch every = {.every = true}, *found = &every;
    ft_bases again = *bases;
    if (is_overflow(w, a)) return FT_OK;
    w->run->seats[a->seat].spoiled = true;
    if (!comes_first(w->run, a)) return FT_OK;
    again.watch = &every;
    again.accumulate = false; /* sums may hold what earlier micro-batches left there */
    if (a->kind != FT_ACT_FORWARD) FT_TRY(watch_saved(g, seat->cut[bucket], program, &again, err));
    if (!every.node) FT_TRY(ft_program_run(program, &again, err));
    if (!every.node) found = bases->watch; /* finite by itself, too large when added */
    const char *param = NULL;
    if (found->node) FT_TRY(bad_parameter(g, found->node, bases, &param, err));
    ft_error failure = describe(w, a, found, param);
    note_failure(w->run, a->batch, &failure, order_of(w->run, a));
    return FT_OK;
}

void note_found(worker *w, const ft_action *a, const ft_watch *found)
{
    if (is_overflow(w, a)) return;
    w->run->seats[a->seat].spoiled = true;
    if (!comes_first(w->run, a)) return;
    ft_error failure = describe(w, a, found, NULL);
    note_failure(w->run, a->batch, &failure, order_of(w->run, a));
}

void note_bad_sum(worker *w, const ft_action *a, int param)
{
    const ft_blueprint *b = w->run->blueprint;
    ft_error failure;
    if (is_overflow(w, a)) return;
    w->run->seats[a->seat].spoiled = true;
    ft_fail(&failure, FT_DIVERGED,
            "step %lld: the gradient of '%s', summed over its %d uses, is not finite; stage %d of "
            "%d",
            (long long)(w->run->first_step + a->batch), b->params[param].name,
            b->params[param].n_terms, b->seats[a->seat].stage, b->plan.n_stages);
    note_failure(w->run, a->batch, &failure, order_of(w->run, a));
}

bool may_update(worker *w, const ft_action *a)
{
    seat_state *seat = &w->run->seats[a->seat];
    ft_status found = FT_OK;
    if (w->run->blueprint->together) {
        pthread_mutex_lock(&w->run->error_lock);
        found = batch_of(w->run, a->batch)->failure.status;
        pthread_mutex_unlock(&w->run->error_lock);
    }
    if (found != FT_OK && found != FT_CANCELLED) seat->spoiled = true;
    return !seat->spoiled && found == FT_OK;
}
