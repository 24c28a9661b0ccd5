/* schedule/order.c - what each stage does, from first to last, by its rule alone.
 *
 * Nothing here depends on time or on other devices: that is why the weights that a micro-batch
 * meets, and so the numbers a run computes, are known before it starts. Nor does it depend on the
 * length of the leg: an order is the endless one of the rule, without what belongs to later
 * batches. So a leg that is drained early computes what a shorter leg does. */
#include "schedule/internal.h"

typedef struct writer {
    const leg *leg;
    int stage, replica;
    const ft_stage_share *share;
    ft_rule_state state;
    int64_t total; /* micro-batches of the leg that are its own */
    stage_order *order;
    int16_t *lags;           /* by local micro-batch: of its forward, where it is asked for again */
    bool keeps;              /* a backward reads what its forward read */
    const int32_t *versions; /* by micro-batch of the leg: what vertical sync reads; or NULL */
    int adopted;             /* W actions written */
    int norms_lag;           /* batches by which norms that N takes are late; -1: there are none */
    int norms;               /* N actions written */
    bool exchanges;          /* an X stands before each R */
    bool publishes;          /* replicas take over each other's updates: W stands behind U */
    int n_owners;
    ft_rule_state *owners; /* of what W takes over, each followed up to our next forward */
    int *owner_stages;
} writer;

static int64_t leg_micros(const leg *l)
{
    return (int64_t)l->n_batches * l->pipeline->micro_batches;
}

static ft_rule_state begin_state(const leg *l, int stage)
{
    const ft_stage_share *s = &l->shares.of[stage];
    return (ft_rule_state){.depth = (l->depths.ahead[stage] + s->n - 1) / s->n,
                           .height = l->depths.height[stage],
                           .micro_batches = s->per_batch,
                           .payload = l->schedule->payload};
}

/* -- asking ------------------------------------------------------------------------------------ */

static const char *find_fault(const ft_schedule *schedule, const ft_rule_state *s,
                              ft_action_kind kind)
{
    bool half = kind == FT_ACT_BACKWARD_INPUT || kind == FT_ACT_BACKWARD_WEIGHT;
    if (kind != FT_ACT_FORWARD && kind != FT_ACT_BACKWARD && !half)
        return "is neither forward nor backward";
    if (kind != FT_ACT_FORWARD && half != schedule->splits)
        return schedule->splits ? "is a whole backward, expected one of its halves"
                                : "is half a backward, expected a whole one";
    if (kind == FT_ACT_BACKWARD_WEIGHT && s->weights >= s->backwards)
        return "is a backward-weight without its backward-input";
    if ((kind == FT_ACT_BACKWARD || kind == FT_ACT_BACKWARD_INPUT) && s->backwards >= s->forwards)
        return "is a backward without its forward";
    if (kind == FT_ACT_FORWARD && schedule->synchronous &&
        s->forwards / s->micro_batches != s->weights / s->micro_batches)
        return "is a forward of the next batch before this one's update";
    if (kind == FT_ACT_FORWARD && (s->forwards - s->weights) / s->micro_batches > INT16_MAX)
        return "is more batches ahead of the backwards than a lag can say";
    return NULL;
}

/* Updates that the stage's newest weights lack for its next forward. */
static int64_t newest_lag(const ft_rule_state *s)
{
    return s->forwards / s->micro_batches - s->weights / s->micro_batches;
}

/* What comes in the place of a forward that would be too late. */
static ft_action_kind catch_up(const leg *l, const ft_rule_state *s)
{
    if (!l->schedule->splits) return FT_ACT_BACKWARD;
    return s->weights < s->backwards ? FT_ACT_BACKWARD_WEIGHT : FT_ACT_BACKWARD_INPUT;
}

/* Asks the rule, and holds it to what can be. */
static ft_status ask_rule(const leg *l, int stage, const ft_rule_state *s, ft_action_kind *kind,
                          ft_error *err)
{
    const ft_pipeline *p = l->pipeline;
    bool waits = l->schedule->splits && p->most_waiting;
    *kind = l->schedule->next(s);
    if (waits && s->backwards - s->weights > p->most_waiting[stage]) *kind = FT_ACT_BACKWARD_WEIGHT;
    if (*kind == FT_ACT_FORWARD && p->is_bounded && newest_lag(s) > p->most_late)
        *kind = catch_up(l, s);
    const char *wrong = find_fault(l->schedule, s, *kind);
    if (!wrong) return FT_OK;
    return ft_fail(err, FT_INVALID,
                   "schedule %s: stage %d, after %lld forwards and %lld backwards: the next "
                   "action %s",
                   l->schedule->name, stage, (long long)s->forwards, (long long)s->backwards,
                   wrong);
}

static void advance(ft_rule_state *s, ft_action_kind kind)
{
    s->forwards += kind == FT_ACT_FORWARD;
    s->backwards += kind == FT_ACT_BACKWARD || kind == FT_ACT_BACKWARD_INPUT;
    s->weights += kind == FT_ACT_BACKWARD || kind == FT_ACT_BACKWARD_WEIGHT;
}

/* The owners of what the stage takes over: where the edges U->W that end at it begin. Replicas that
 * take over from each other have to go on with the same weights, so they wait for all owners. */
static ft_status find_owners(writer *w, ft_error *err)
{
    const ft_wires *net = w->leg->wires;
    int spot = ft_spot_of(w->stage, FT_ACT_ADOPT), out = ft_spot_of(w->stage, FT_ACT_EXCHANGE);
    int first = net->in_first[spot], n = net->in_first[spot + 1] - first;
    w->exchanges = net->out_first[out] < net->out_first[out + 1];
    for (int i = 0; i < n; i++) w->publishes |= net->edges[net->in[first + i]].from == w->stage;
    if (w->publishes) n = 0;
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

/* How late norms have to be so that a stage does not wait for them: a batch's backwards reach the
 * stages before it, `far` of them, by as many micro-batches later; where all stages are held
 * together more closely, no later than that. */
static int find_norms_lag(const writer *w)
{
    const leg *l = w->leg;
    const ft_wires *net = l->wires;
    int spot = ft_spot_of(w->stage, FT_ACT_TAKE_NORMS), far = -1;
    for (int i = net->in_first[spot]; i < net->in_first[spot + 1]; i++) {
        int ahead = l->depths.depth[net->edges[net->in[i]].from] - l->depths.depth[w->stage];
        if (ahead > far) far = ahead;
    }
    if (net->in_first[spot] == net->in_first[spot + 1]) return -1;
    int micros = l->pipeline->micro_batches, lag = far < 0 ? 0 : (far + micros - 1) / micros;
    bool held = l->pipeline->is_bounded && l->pipeline->most_late < lag;
    return held ? l->pipeline->most_late : lag;
}

/* Updates that every owner has done before its forward of our next micro-batch. */
static ft_status count_updates(writer *w, int64_t *updates, ft_error *err)
{
    int64_t index = ft_share_index(w->share, w->replica, w->state.forwards);
    *updates = w->leg->n_batches;
    for (int i = 0; i < w->n_owners; i++) {
        ft_rule_state *s = &w->owners[i];
        int64_t theirs = ft_share_local(&w->leg->shares.of[w->owner_stages[i]], index);
        for (;;) {
            ft_action_kind kind;
            FT_TRY(ask_rule(w->leg, w->owner_stages[i], s, &kind, err));
            if (kind == FT_ACT_FORWARD && s->forwards >= theirs) break;
            advance(s, kind);
        }
        int64_t done = s->weights / s->micro_batches;
        if (done < *updates) *updates = done;
    }
    return FT_OK;
}

/* Lowers at[i] to the updates that the stage has done before its forward of micro-batch i. */
static ft_status follow_versions(const leg *l, int stage, int32_t *at, ft_error *err)
{
    const ft_stage_share *share = &l->shares.of[stage];
    ft_rule_state s = begin_state(l, stage);
    while (s.forwards < (int64_t)l->n_batches * share->per_batch) {
        ft_action_kind kind;
        FT_TRY(ask_rule(l, stage, &s, &kind, err));
        int32_t updates = (int32_t)(s.weights / s.micro_batches);
        for (int r = 0; kind == FT_ACT_FORWARD && r < share->n; r++) {
            int64_t i = ft_share_index(share, r, s.forwards);
            if (updates < at[i]) at[i] = updates;
        }
        advance(&s, kind);
    }
    return FT_OK;
}

/* The versions that vertical sync reads: those of the stages that run furthest ahead. */
static ft_status find_versions(const leg *l, const int32_t **out, ft_error *err)
{
    *out = NULL;
    if (l->weights != FT_WEIGHTS_VERTICAL && l->weights != FT_WEIGHTS_VERTICAL_GAP) return FT_OK;
    int32_t *at = ft_arena_array(l->arena, leg_micros(l), sizeof *at);
    if (!at) return ft_fail(err, FT_NOMEM, "plan: no memory for the order of stages");
    for (int64_t i = 0; i < leg_micros(l); i++) at[i] = l->n_batches;
    for (int s = 0; s < l->pipeline->n_stages; s++)
        if (!l->depths.height[s]) FT_TRY(follow_versions(l, s, at, err));
    *out = at;
    return FT_OK;
}

/* -- writing ----------------------------------------------------------------------------------- */

static ft_action *put(writer *w, ft_action_kind kind, int64_t batch, int64_t micro, int64_t lag)
{
    ft_action *a = &w->order->actions[w->order->n++];
    *a = (ft_action){.kind = (uint8_t)kind,
                     .stage = (int16_t)w->stage,
                     .lag = (int16_t)lag,
                     .batch = (int32_t)batch,
                     .micro = (int32_t)micro};
    return a;
}

static void put_adopts(writer *w, int64_t before)
{
    while (w->n_owners && w->adopted < before) put(w, FT_ACT_ADOPT, w->adopted++, 0, 0);
}

/* What the update of a batch takes over: norms that are as late as they are, but none before the
 * first. */
static void put_norms(writer *w, int64_t batch)
{
    int64_t before = batch - w->norms_lag < 0 ? 1 : batch - w->norms_lag + 1;
    if (before > w->leg->n_batches) before = w->leg->n_batches;
    while (w->norms_lag >= 0 && w->norms < before) put(w, FT_ACT_TAKE_NORMS, w->norms++, 0, 0);
}

/* Whether norms are left that only updates after the leg would take. */
static bool lacks_norms(const writer *w)
{
    return w->norms_lag >= 0 && w->norms < w->leg->n_batches;
}

/* Versions that must be kept for one of `batch - lag` to be read now. */
static void need_version(writer *w, int64_t batch, int64_t lag)
{
    int64_t kept = w->state.weights / w->state.micro_batches - (batch - lag) + 1;
    if (kept > w->order->versions) w->order->versions = (int)kept;
}

/* The lag of the next forward, whose newest weights have `newest`. */
static int64_t forward_lag(const writer *w, int64_t batch, int64_t newest, int64_t index)
{
    if (w->versions) return batch - w->versions[index];
    if (w->leg->weights == FT_WEIGHTS_DOUBLE && batch > 0 && newest < 1) return 1;
    return newest;
}

static ft_status write_forward(writer *w, ft_error *err)
{
    ft_rule_state *s = &w->state;
    int64_t batch = s->forwards / s->micro_batches;
    int64_t index = ft_share_index(w->share, w->replica, s->forwards);
    int64_t newest = newest_lag(s);
    int64_t lag = forward_lag(w, batch, newest, index), most = INT16_MAX;
    if (w->leg->weights == FT_WEIGHTS_DOUBLE) most = 1;
    if (lag > most || lag < newest)
        return ft_fail(err, FT_INFEASIBLE,
                       "schedule %s: stage %d works %lld batches ahead, at most %lld: expected "
                       "more micro-batches or fewer stages",
                       w->leg->schedule->name, w->stage, (long long)newest, (long long)most);
    int64_t micro = index % w->share->micros;
    if (w->leg->weights == FT_WEIGHTS_PREDICT && lag) put(w, FT_ACT_PREDICT, batch, micro, lag);
    need_version(w, batch, lag);
    put(w, FT_ACT_FORWARD, batch, micro, lag);
    if (w->lags) w->lags[s->forwards] = (int16_t)lag;
    int64_t in_flight = s->forwards + 1 - s->weights;
    if (in_flight > w->order->in_flight) w->order->in_flight = (int)in_flight;
    return FT_OK;
}

/* Of a forward that comes after the leg's batches only the W before it are written. */
static ft_status put_forward(writer *w, ft_error *err)
{
    int64_t updates, own = w->state.weights / w->state.micro_batches;
    FT_TRY(count_updates(w, &updates, err));
    put_adopts(w, updates < own ? updates : own); /* the owner waits for this stage's R */
    if (w->state.forwards < w->total) FT_TRY(write_forward(w, err));
    w->state.forwards++;
    return FT_OK;
}

/* Of a backward that comes after the leg's batches only the N behind it are written. */
static void pass_backward(writer *w, ft_action_kind kind)
{
    ft_rule_state *s = &w->state;
    advance(s, kind);
    if (kind != FT_ACT_BACKWARD_INPUT && s->weights % s->micro_batches == 0)
        put_norms(w, s->weights / s->micro_batches - 1);
}

/* The lag of a forward of the batch whose gradients are being summed. One that has not come yet
 * will read the newest, since no update stands between, or what vertical sync says. */
static int lag_of(const writer *w, int64_t local, int64_t batch)
{
    if (w->versions) return (int)(batch - w->versions[ft_share_index(w->share, w->replica, local)]);
    return w->state.forwards > local ? w->lags[local] : 0;
}

/* Behind the last backward of a batch whose forward read a version that was not the newest. */
static void put_attenuate(writer *w, int64_t local, int64_t batch, int64_t micro)
{
    const ft_rule_state *s = &w->state;
    bool last = s->weights % s->micro_batches == 0;
    int lag = lag_of(w, local, batch), next = last ? 0 : lag_of(w, local + 1, batch);
    if (!lag || (!last && next == lag)) return;
    put(w, FT_ACT_ATTENUATE, batch, micro, lag)->item = (int16_t)next;
    if (lag >= w->order->versions) w->order->versions = lag + 1;
}

/* A backward, or one of its halves; behind the last of a batch, what is per batch. */
static void put_backward(writer *w, ft_action_kind kind)
{
    ft_rule_state *s = &w->state;
    int64_t local = kind == FT_ACT_BACKWARD_WEIGHT ? s->weights : s->backwards;
    if (local >= w->total) {
        pass_backward(w, kind);
        return;
    }
    int64_t index = ft_share_index(w->share, w->replica, local), micros = w->share->micros;
    int64_t batch = index / micros;
    /* without older versions a backward reads the newest, whichever its batch */
    int64_t lag = w->keeps ? w->lags[local] : batch - s->weights / s->micro_batches;
    need_version(w, batch, lag);
    put(w, kind, batch, index % micros, lag);
    advance(s, kind);
    if (kind != FT_ACT_BACKWARD_INPUT && ft_weights_rows[w->leg->weights].attenuates)
        put_attenuate(w, local, batch, index % micros);
    if (kind == FT_ACT_BACKWARD_INPUT || s->weights % s->micro_batches) return;
    if (w->exchanges) put(w, FT_ACT_EXCHANGE, batch, 0, 0);
    if (w->leg->reduces) put(w, FT_ACT_REDUCE, batch, 0, 0);
    put_norms(w, batch);
    put(w, FT_ACT_UPDATE, batch, 0, 0);
    if (w->publishes) put(w, FT_ACT_ADOPT, batch, 0, 0);
}

static ft_status order_seat(writer *w, ft_error *err)
{
    const leg *l = w->leg;
    int64_t per_batch = 5 * (int64_t)w->share->per_batch + 4;
    bool asks = ft_weights_keep(l->weights);
    w->keeps = ft_weights_rows[l->weights].reads == FT_READS_KEPT;
    w->state = begin_state(l, w->stage);
    w->total = (int64_t)l->n_batches * w->share->per_batch;
    FT_TRY(find_owners(w, err));
    w->norms_lag = find_norms_lag(w);
    w->order->versions = 1;
    w->order->actions = ft_arena_array(l->arena, per_batch * l->n_batches, sizeof(ft_action));
    if (asks) w->lags = ft_arena_array(l->arena, w->total, sizeof *w->lags);
    if (!w->order->actions || (asks && !w->lags))
        return ft_fail(err, FT_NOMEM, "plan: no memory for the order of stage %d", w->stage);
    while (w->state.weights < w->total || lacks_norms(w)) {
        ft_action_kind kind;
        FT_TRY(ask_rule(l, w->stage, &w->state, &kind, err));
        if (kind == FT_ACT_FORWARD)
            FT_TRY(put_forward(w, err));
        else
            put_backward(w, kind);
    }
    put_adopts(w, l->n_batches);
    return FT_OK;
}

/* The one order of a schedule of forwards alone. */
static ft_status order_forwards(writer *w, ft_error *err)
{
    int64_t total = (int64_t)w->leg->n_batches * w->share->per_batch;
    w->order->actions = ft_arena_array(w->leg->arena, total, sizeof(ft_action));
    if (!w->order->actions)
        return ft_fail(err, FT_NOMEM, "plan: no memory for the order of stage %d", w->stage);
    for (int64_t i = 0; i < total; i++) {
        int64_t index = ft_share_index(w->share, w->replica, i), micros = w->share->micros;
        put(w, FT_ACT_FORWARD, index / micros, index % micros, 0);
    }
    w->order->in_flight = w->order->versions = 1;
    return FT_OK;
}

ft_status leg_order(leg *l, ft_error *err)
{
    l->orders = ft_arena_array(l->arena, l->shares.n_seats, sizeof *l->orders);
    if (!l->orders) return ft_fail(err, FT_NOMEM, "plan: no memory for the order of stages");
    const int32_t *versions;
    FT_TRY(find_versions(l, &versions, err));
    for (int stage = 0; stage < l->pipeline->n_stages; stage++) {
        const ft_stage_share *share = &l->shares.of[stage];
        for (int r = 0; r < share->n; r++) {
            writer w = {.leg = l, .stage = stage, .replica = r, .share = share};
            w.order = &l->orders[share->first + r];
            w.versions = versions;
            FT_TRY(l->schedule->forward_only ? order_forwards(&w, err) : order_seat(&w, err));
        }
    }
    return FT_OK;
}
