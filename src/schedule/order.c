/* schedule/order.c - what each stage does, from first to last, by its rule alone.
 *
 * Nothing here depends on time or on other devices: that is why the weights that a micro-batch
 * meets, and so the numbers a run computes, are known before it starts. Nor does it depend on the
 * length of the leg: an order is the endless one of the rule, without what belongs to later
 * batches. So a leg that is drained early computes what a shorter leg does. */
#include "schedule/internal.h"

typedef struct writer {
    const leg *leg;
    int stage;
    ft_stage_state state;
    stage_order *order;
    int adopted; /* W actions written */
    int n_owners;
    ft_stage_state *owners; /* of what W takes over, each followed up to our next forward */
    int *owner_stages;
} writer;

static int64_t leg_micros(const leg *l)
{
    return (int64_t)l->n_batches * l->pipeline->micro_batches;
}

static ft_stage_state begin_state(const leg *l, int stage)
{
    return (ft_stage_state){.depth = l->depth[stage], .micro_batches = l->pipeline->micro_batches};
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
    else if (*kind == FT_ACT_FORWARD && l->schedule->synchronous &&
             s->forwards / s->micro_batches != s->backwards / s->micro_batches)
        wrong = "is a forward of the next batch before this one's update";
    else if (*kind == FT_ACT_FORWARD && (s->forwards - s->backwards) / s->micro_batches > INT16_MAX)
        wrong = "is more batches ahead of the backwards than a lag can say";
    if (!wrong) return FT_OK;
    return ft_fail(err, FT_INVALID,
                   "schedule %s: stage %d, after %lld forwards and %lld backwards: the next "
                   "action %s",
                   l->schedule->name, stage, (long long)s->forwards, (long long)s->backwards,
                   wrong);
}

/* The owners of what the stage takes over: where the edges U->W that end at it begin. */
static ft_status find_owners(writer *w, ft_error *err)
{
    const wires *net = w->leg->wires;
    int spot = spot_of(w->stage, FT_ACT_ADOPT);
    int first = net->in_first[spot], n = net->in_first[spot + 1] - first;
    w->n_owners = n;
    if (!n) return FT_OK;
    w->owners = ft_arena_array(w->leg->arena, n, sizeof *w->owners);
    w->owner_stages = ft_arena_array(w->leg->arena, n, sizeof *w->owner_stages);
    if (!w->owners || !w->owner_stages)
        return ft_fail(err, FT_NOMEM, "plan: no memory for the order of stage %d", w->stage);
    for (int i = 0; i < n; i++) {
        w->owner_stages[i] = net->edges[net->in[first + i]].from;
        w->owners[i] = begin_state(w->leg, w->owner_stages[i]);
    }
    return FT_OK;
}

/* Updates that every owner has done before its forward of our next micro-batch. */
static ft_status count_updates(writer *w, int64_t *updates, ft_error *err)
{
    *updates = w->leg->n_batches;
    for (int i = 0; i < w->n_owners; i++) {
        ft_stage_state *s = &w->owners[i];
        for (;;) {
            ft_action_kind kind;
            FT_TRY(ask_rule(w->leg, w->owner_stages[i], s, &kind, err));
            if (kind == FT_ACT_FORWARD && s->forwards == w->state.forwards) break;
            (*(kind == FT_ACT_FORWARD ? &s->forwards : &s->backwards))++;
        }
        int64_t done = s->backwards / s->micro_batches;
        if (done < *updates) *updates = done;
    }
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

static void put_adopts(writer *w, int64_t before)
{
    while (w->n_owners && w->adopted < before) put(w, FT_ACT_ADOPT, w->adopted++, 0, 0);
}

/* Of a forward that comes after the leg's batches only the W before it are written. */
static ft_status put_forward(writer *w, ft_error *err)
{
    ft_stage_state *s = &w->state;
    int64_t updates, batch = s->forwards / s->micro_batches;
    FT_TRY(count_updates(w, &updates, err));
    put_adopts(w, updates);
    if (s->forwards < leg_micros(w->leg)) {
        put(w, FT_ACT_FORWARD, batch, s->forwards % s->micro_batches,
            batch - s->backwards / s->micro_batches);
        int64_t in_flight = s->forwards + 1 - s->backwards;
        if (in_flight > w->order->in_flight) w->order->in_flight = (int)in_flight;
    }
    s->forwards++;
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
    FT_TRY(find_owners(&w, err));
    int64_t per_batch = 2 * (int64_t)l->pipeline->micro_batches + 3;
    w.order->actions = ft_arena_array(l->arena, per_batch * l->n_batches, sizeof(ft_action));
    if (!w.order->actions)
        return ft_fail(err, FT_NOMEM, "plan: no memory for the order of stage %d", stage);
    while (w.state.backwards < leg_micros(l)) {
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

/* The one order of a schedule of forwards alone. */
static ft_status order_forwards(const leg *l, int stage, ft_error *err)
{
    stage_order *order = &l->orders[stage];
    int micros = l->pipeline->micro_batches;
    order->actions = ft_arena_array(l->arena, leg_micros(l), sizeof(ft_action));
    if (!order->actions)
        return ft_fail(err, FT_NOMEM, "plan: no memory for the order of stage %d", stage);
    for (int batch = 0; batch < l->n_batches; batch++)
        for (int micro = 0; micro < micros; micro++)
            order->actions[order->n++] = (ft_action){.kind = FT_ACT_FORWARD,
                                                     .stage = (int16_t)stage,
                                                     .batch = batch,
                                                     .micro = micro};
    order->in_flight = 1;
    return FT_OK;
}

ft_status leg_order(leg *l, ft_error *err)
{
    int n = l->pipeline->n_stages;
    l->orders = ft_arena_array(l->arena, n, sizeof *l->orders);
    if (!l->orders) return ft_fail(err, FT_NOMEM, "plan: no memory for %d stages", n);
    for (int s = 0; s < n; s++)
        FT_TRY(l->schedule->forward_only ? order_forwards(l, s, err) : order_stage(l, s, err));
    return FT_OK;
}
