/* schedule/order.c - what each stage does, from first to last, by its rule alone.
 *
 * Nothing here depends on time or on other devices: that is why the weights that a micro-batch
 * meets, and so the numbers a run computes, are known before it starts. */
#include "schedule/internal.h"

typedef struct writer {
    const leg *leg;
    int stage;
    ft_stage_state state;
    stage_order *order;
    int adopted;                 /* W actions written */
    const int32_t *adopt_before; /* by micro-batch: W actions that stand before its F; NULL: no W */
} writer;

static int64_t leg_micros(const leg *l)
{
    return (int64_t)l->n_batches * l->pipeline->micro_batches;
}

static ft_stage_state begin_state(const leg *l, int stage)
{
    return (ft_stage_state){.depth = l->depth[stage],
                            .micro_batches = l->pipeline->micro_batches,
                            .total = leg_micros(l)};
}

/* Asks the rule, and holds it to what can be. */
static ft_status ask_rule(const leg *l, int stage, const ft_stage_state *s, ft_action_kind *kind,
                          ft_error *err)
{
    *kind = l->schedule->next(s);
    const char *wrong = NULL;
    if (*kind != FT_ACT_FORWARD && *kind != FT_ACT_BACKWARD)
        wrong = "is neither forward nor backward";
    else if (*kind == FT_ACT_BACKWARD && s->backwards >= s->forwards)
        wrong = "is a backward without its forward";
    else if (*kind == FT_ACT_FORWARD && s->forwards >= s->total)
        wrong = "is a forward after the last";
    else if (*kind == FT_ACT_FORWARD && l->schedule->synchronous &&
             s->forwards / s->micro_batches != s->backwards / s->micro_batches)
        wrong = "is a forward of the next batch before this one's update";
    if (!wrong) return FT_OK;
    return ft_fail(
        err, FT_INVALID,
        "schedule %s: stage %d, after %lld forwards and %lld backwards of %lld: the next "
        "action %s",
        l->schedule->name, stage, (long long)s->forwards, (long long)s->backwards,
        (long long)s->total, wrong);
}

/* Raises at[i] to the updates that the owner has done before its forward i... */
static ft_status count_updates(const leg *l, int owner, int32_t *at, ft_error *err)
{
    ft_stage_state s = begin_state(l, owner);
    while (s.forwards < s.total) {
        ft_action_kind kind;
        FT_TRY(ask_rule(l, owner, &s, &kind, err));
        if (kind == FT_ACT_BACKWARD) {
            s.backwards++;
            continue;
        }
        int32_t updates = (int32_t)(s.backwards / s.micro_batches);
        if (updates < at[s.forwards]) at[s.forwards] = updates; /* ...the least of all owners' */
        s.forwards++;
    }
    return FT_OK;
}

/* How many W actions stand before each forward of the stage; NULL when no edge U->W ends at it. */
static ft_status place_adopts(const leg *l, int stage, const int32_t **out, ft_error *err)
{
    const wires *w = l->wires;
    int spot = spot_of(stage, FT_ACT_ADOPT);
    *out = NULL;
    if (w->in_first[spot] == w->in_first[spot + 1]) return FT_OK;
    int32_t *at = ft_arena_array(l->arena, leg_micros(l), sizeof *at);
    if (!at) return ft_fail(err, FT_NOMEM, "plan: no memory for the order of stage %d", stage);
    for (int64_t i = 0; i < leg_micros(l); i++) at[i] = l->n_batches;
    for (int i = w->in_first[spot]; i < w->in_first[spot + 1]; i++)
        FT_TRY(count_updates(l, w->edges[w->in[i]].from, at, err));
    *out = at;
    return FT_OK;
}

static void put(writer *w, ft_action_kind kind, int64_t batch, int64_t micro, int64_t lag)
{
    w->order->actions[w->order->n++] = (ft_action){.kind = (uint8_t)kind,
                                                   .stage = (int16_t)w->stage,
                                                   .lag = (int16_t)lag,
                                                   .batch = (int32_t)batch,
                                                   .micro = (int32_t)micro};
}

static void put_adopts(writer *w, int before)
{
    while (w->adopt_before && w->adopted < before) put(w, FT_ACT_ADOPT, w->adopted++, 0, 0);
}

static ft_status put_forward(writer *w, ft_error *err)
{
    ft_stage_state *s = &w->state;
    int64_t batch = s->forwards / s->micro_batches;
    int64_t lag = batch - s->backwards / s->micro_batches;
    if (lag > INT16_MAX)
        return ft_fail(err, FT_INVALID,
                       "schedule %s: stage %d works %lld batches ahead, at most %d",
                       w->leg->schedule->name, w->stage, (long long)lag, INT16_MAX);
    if (w->adopt_before) put_adopts(w, w->adopt_before[s->forwards]);
    put(w, FT_ACT_FORWARD, batch, s->forwards % s->micro_batches, lag);
    s->forwards++;
    int64_t in_flight = s->forwards - s->backwards;
    if (in_flight > w->order->in_flight) w->order->in_flight = (int)in_flight;
    return FT_OK;
}

static void put_backward(writer *w)
{
    ft_stage_state *s = &w->state;
    int64_t batch = s->backwards / s->micro_batches;
    put(w, FT_ACT_BACKWARD, batch, s->backwards % s->micro_batches, 0);
    s->backwards++;
    if (s->backwards % s->micro_batches) return;
    if (w->leg->pipeline->reduces) put(w, FT_ACT_REDUCE, batch, 0, 0);
    put(w, FT_ACT_UPDATE, batch, 0, 0);
}

static ft_status order_stage(const leg *l, int stage, ft_error *err)
{
    writer w = {
        .leg = l, .stage = stage, .state = begin_state(l, stage), .order = &l->orders[stage]};
    FT_TRY(place_adopts(l, stage, &w.adopt_before, err));
    int64_t per_batch = 2 * (int64_t)l->pipeline->micro_batches + 3;
    w.order->actions = ft_arena_array(l->arena, per_batch * l->n_batches, sizeof(ft_action));
    if (!w.order->actions)
        return ft_fail(err, FT_NOMEM, "plan: no memory for the order of stage %d", stage);
    while (w.state.backwards < w.state.total) {
        ft_action_kind kind;
        FT_TRY(ask_rule(l, stage, &w.state, &kind, err));
        if (kind == FT_ACT_FORWARD)
            FT_TRY(put_forward(&w, err));
        else
            put_backward(&w);
    }
    put_adopts(&w, l->n_batches);
    return FT_OK;
}

ft_status leg_order(leg *l, ft_error *err)
{
    int n = l->pipeline->n_stages;
    l->orders = ft_arena_array(l->arena, n, sizeof *l->orders);
    if (!l->orders) return ft_fail(err, FT_NOMEM, "plan: no memory for %d stages", n);
    for (int s = 0; s < n; s++) FT_TRY(order_stage(l, s, err));
    return FT_OK;
}
