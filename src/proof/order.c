/* proof/order.c - each stage's actions are complete and in the order that training needs.
 *
 * One pass over the lists, with the state of every seat (a stage's replica on a device): what it
 * has done, which weight versions it keeps, and what of its memory is on the device. */
#include "proof/internal.h"
#include "proof/repeats.h"

typedef struct checker {
    const ft_plan *plan;
    const ft_seating *shares;
    progress *seats;
    int64_t *copies;   /* by edge, then S and V, then replica: done */
    int most_replicas; /* of a stage */
    bool reduces, moves_weights;
    ft_owners owners;
    const int *versions; /* by stage: kept; NULL: any that is read */
    bool is_steady;      /* so far: the last repetition of the body leaves what it began with */
} checker;

/* -- versions ---------------------------------------------------------------------------------- */

/* Versions that the stage keeps when the action reads its own: from that one to the newest. */
static int64_t versions_read(const progress *s, const ft_action *a)
{
    return s->done[FT_ACT_UPDATE] - ((int64_t)a->batch - a->lag) + 1;
}

/* Version `batch - lag` is among those that the stage keeps. */
static const char *find_version_fault(const checker *c, const progress *s, const ft_action *a)
{
    int64_t needed = versions_read(s, a);
    int64_t kept = c->versions ? c->versions[a->stage] : needed;
    if (kept == 1 && needed != 1) return "has another lag than the updates before it give";
    if (needed < 1) return "reads a version of the weights that does not exist yet";
    if (a->lag > a->batch)
        return "reads a version from before the first batch: its lag is too large";
    if (needed > kept) return "reads a version of the weights that is not kept any more";
    return NULL;
}

/* -- memory ------------------------------------------------------------------------------------ */

static bool on_device(uint8_t at)
{
    return at == AT_DEVICE || at == AT_BOTH;
}

/* The first backward of a batch writes gradients anew: where there are none, it brings them to the
 * device. */
static bool begins_gradients(const checker *c, const progress *s, const ft_action *a, int64_t local)
{
    bool first = local % c->shares->of[a->stage].per_batch == 0;
    return first && s->are_dead && ft_action_per_micro(a->kind) &&
           ft_action_writes(a) >> FT_MEMORY_GRADIENTS & 1;
}

/* Whether another stage of the device has weights that the stage may use in place, and has them not
 * there: an edge from its updates to the stage's adopts says so. */
static bool lacks_lent(const checker *c, int device, const ft_action *a)
{
    const ft_owners *owners = &c->owners;
    if (!c->moves_weights || a->kind == FT_ACT_UPDATE) return false;
    for (int i = owners->first[a->stage]; i < owners->first[a->stage + 1]; i++) {
        int owner = owners->stages[i];
        int seat = owner == a->stage ? -1 : ft_seat_of(c->shares, owner, device);
        if (seat >= 0 && !on_device(c->seats[seat].at[FT_MEMORY_WEIGHTS])) return true;
    }
    return false;
}

/* Copies that the next M makes: who changes weights leaves those alone that are not there. */
static bool is_made_later(const progress *s, unsigned class)
{
    return s->makes[class] && s->at[class] == AT_NOWHERE;
}

/* What a U in host memory finds is there, and there alone. */
static const char *find_home_fault(const progress *s)
{
    for (unsigned class = 0; class < FT_MEMORY_CLASSES; class ++) {
        bool needed = class == FT_MEMORY_WEIGHTS || class == FT_MEMORY_GRADIENTS ||
                      class == FT_MEMORY_OPTIMIZER ||
                      (ft_memory_classes[class].is_made && s->moved[class]);
        if (needed && !is_made_later(s, class) && s->at[class] != AT_HOST)
            return "works in host memory, where not all that it needs has been brought";
    }
    return s->are_dead ? "works in host memory, where the gradients were not saved" : NULL;
}

static const char *find_class_fault(const checker *c, int device, const progress *s,
                                    const ft_action *a, int64_t local)
{
    static const char *const words[] = {
#define FT_NEEDS_WORDS(name, word, ...) "needs its " word " on the device, where they are not",
        FT_MEMORY_CLASS_LIST(FT_NEEDS_WORDS)
#undef FT_NEEDS_WORDS
    };
    bool again = c->plan->recompute[a->stage] || !s->moved[FT_MEMORY_TURNED];
    unsigned needs = ft_action_needs(a, again), writes = ft_action_writes(a);
    if (ft_action_at_home(a)) return find_home_fault(s);
    for (unsigned class = 0; s->moves && class < FT_MEMORY_CLASSES; class ++) {
        if (!(needs >> class & 1) || on_device(s->at[class])) continue;
        if (writes >> class & 1 && is_made_later(s, class)) continue;
        if (class != FT_MEMORY_GRADIENTS || !begins_gradients(c, s, a, local)) return words[class];
    }
    if (needs >> FT_MEMORY_WEIGHTS & 1 && lacks_lent(c, device, a))
        return "needs weights that it shares on the device, where their owner has them not";
    return NULL;
}

static bool computes_backward(ft_action_kind kind)
{
    return kind == FT_ACT_BACKWARD || kind == FT_ACT_BACKWARD_INPUT ||
           kind == FT_ACT_BACKWARD_WEIGHT;
}

/* O, L, D, C and M change where a tensor is; NULL when they may. */
static const char *move(uint8_t *at, ft_action_kind kind)
{
    switch (kind) {
    case FT_ACT_SWAP_OUT:
        if (!on_device(*at)) return "moves what is not on the device";
        *at = AT_HOST;
        return NULL;
    case FT_ACT_SWAP_IN:
        if (*at != AT_HOST) return "moves what is not in host memory";
        *at = AT_BOTH;
        return NULL;
    case FT_ACT_DROP:
        if (!on_device(*at)) return "drops what is not on the device";
        *at = *at == AT_BOTH ? AT_HOST : AT_NOWHERE;
        return NULL;
    case FT_ACT_RECOMPUTE:
    case FT_ACT_MAKE:
        if (on_device(*at)) return "makes again what is on the device";
        *at = AT_DEVICE;
        return NULL;
    default: return NULL;
    }
}

static const char *move_activations(progress *s, const ft_action *a, int64_t local)
{
    if (local >= s->done[FT_ACT_FORWARD] || local < proof_finished(s))
        return "stands outside the time between its forward and its backward";
    bool before = on_device(s->micros[local]);
    const char *fault = move(&s->micros[local], a->kind);
    s->held += on_device(s->micros[local]) - before;
    return fault;
}

/* Gradients that no backward has written since the last update hold nothing. */
static const char *move_class(progress *s, const ft_action *a)
{
    uint8_t *at = &s->at[a->item];
    if (a->kind == FT_ACT_MAKE && !ft_memory_classes[a->item].is_made)
        return "makes what is not made of others: expected packed or turned";
    const char *fault = move(at, a->kind);
    bool lost =
        *at == AT_NOWHERE && !(a->item == FT_MEMORY_GRADIENTS && s->are_dead) && !s->makes[a->item];
    return !fault && lost ? "drops what is nowhere else" : fault;
}

static const char *find_move_fault(progress *s, const ft_action *a, int64_t local)
{
    if (a->kind == FT_ACT_RECOMPUTE) return move_activations(s, a, local);
    switch (ft_memory_classes[a->item].moves) {
    case FT_MOVES_MICRO: return move_activations(s, a, local);
    case FT_MOVES_STAGE: return move_class(s, a);
    case FT_MOVES_NEVER: break;
    }
    return "moves a class of memory that does not move";
}

/* Forwards alone change nothing: their weights come and are dropped. */
static const char *find_visit_fault(progress *s, const ft_action *a)
{
    bool weights = a->item == FT_MEMORY_WEIGHTS || ft_memory_classes[a->item].is_made;
    if (!weights || a->kind == FT_ACT_SWAP_OUT || a->kind == FT_ACT_MAKE)
        return "is neither a load nor a drop of weights, in a plan of forwards alone";
    return move_class(s, a);
}

/* -- one action -------------------------------------------------------------------------------- */

static const char *find_backward_fault(const checker *c, const progress *s, const ft_action *a,
                                       int64_t local)
{
    if ((s->last == FT_ACT_BACKWARD_WEIGHT) == (a->kind == FT_ACT_BACKWARD))
        return "and backward-input stand in one stage: whole or in halves, not both";
    if (s->done[FT_ACT_FORWARD] <= local) return "stands before its forward";
    if (a->kind == FT_ACT_BACKWARD_WEIGHT && s->done[FT_ACT_BACKWARD_INPUT] <= local)
        return "stands before its backward-input";
    if (a->kind != FT_ACT_BACKWARD_INPUT && a->batch != s->done[FT_ACT_UPDATE])
        return "stands before the update of the batch before: gradients of two batches do not mix";
    if (s->micros && !on_device(s->micros[local]))
        return "needs its activations, which are not on the device";
    return find_version_fault(c, s, a);
}

static const char *find_attenuate_fault(const checker *c, const progress *s, const ft_action *a,
                                        int64_t local)
{
    if (proof_finished(s) != local + 1 || s->attenuated > local ||
        a->batch != s->done[FT_ACT_UPDATE])
        return "does not stand behind the backward of its micro-batch, once";
    if (a->lag < 1) return "is of gradients that are not late: expected a lag";
    if (a->item < 0 || a->item >= a->lag)
        return "goes on to gradients that are no less late than its own";
    if (a->lag != s->lags[local]) return "has another lag than the forward of its micro-batch";
    return find_version_fault(c, s, a);
}

static const char *find_forward_fault(const checker *c, const progress *s, const ft_action *a)
{
    if (s->predicted && s->predicted != a->lag) return "has another lag than its predict";
    return find_version_fault(c, s, a);
}

static const char *find_batch_fault(const checker *c, const progress *s, const ft_action *a)
{
    int64_t batches = proof_finished(s) / c->shares->of[a->stage].per_batch;
    if (a->lag) return "has a lag";
    if (a->kind == FT_ACT_ADOPT)
        return s->adopts ? NULL : "has nothing to adopt: no edge U to W ends at its stage";
    if (a->kind == FT_ACT_TAKE_NORMS)
        return s->takes_norms ? NULL : "has no norms to take: no edge R to N ends at its stage";
    if (a->kind == FT_ACT_DRAIN)
        return proof_finished(s) == s->done[FT_ACT_FORWARD] ? NULL
                                                            : "stands where something is in flight";
    if (batches <= a->batch) return "stands before the last backward of its batch";
    if (a->kind == FT_ACT_EXCHANGE)
        return s->exchanges ? NULL : "has nothing to send: no edge X to R begins at its stage";
    if (a->kind == FT_ACT_REDUCE && s->exchanges && s->done[FT_ACT_EXCHANGE] <= a->batch)
        return "stands before its exchange";
    if (a->kind == FT_ACT_UPDATE && c->reduces && s->done[FT_ACT_REDUCE] <= a->batch)
        return "stands before its reduce";
    if (a->kind == FT_ACT_UPDATE && s->takes_norms && !s->done[FT_ACT_TAKE_NORMS])
        return "stands before the first take-norms of its stage";
    return NULL;
}

/* Kinds that stand once for every index, in its order. */
static bool counts_up(ft_action_kind kind)
{
    return (ft_action_item(kind) == FT_ITEM_NOTHING || kind == FT_ACT_UPDATE) &&
           kind != FT_ACT_RECOMPUTE && kind != FT_ACT_PREDICT && kind != FT_ACT_DRAIN;
}

/* What is wrong with `a` as the seat's next action; NULL when nothing. */
static const char *find_fault(const checker *c, int device, progress *s, const ft_action *a)
{
    const ft_stage_share *share = &c->shares->of[a->stage];
    int64_t local = a->batch, index = ft_action_index(c->plan, a);
    if (ft_action_per_micro(a->kind)) local = ft_share_local(share, index);
    if (counts_up(a->kind) && local != s->done[a->kind])
        return "is out of its order, missing or twice";
    const char *fault = find_class_fault(c, device, s, a, local);
    if (c->plan->forward_only && ft_action_item(a->kind) == FT_ITEM_CLASS)
        return find_visit_fault(s, a);
    if (c->plan->forward_only)
        return a->kind != FT_ACT_FORWARD ? "is not a forward, in a plan of forwards alone"
               : a->lag                  ? "has a lag"
                                         : fault;
    if (fault) return fault;
    if (a->kind == FT_ACT_FORWARD) return find_forward_fault(c, s, a);
    if (computes_backward(a->kind)) return find_backward_fault(c, s, a, local);
    if (a->kind == FT_ACT_PREDICT) {
        if (local != s->done[FT_ACT_FORWARD] || s->predicted) return "is not for the next forward";
        return a->lag > 0 ? NULL : "predicts nothing, expected a lag";
    }
    if (a->kind == FT_ACT_ATTENUATE) return find_attenuate_fault(c, s, a, local);
    if (a->lag && !ft_action_per_micro(a->kind)) return "has a lag";
    if (ft_action_item(a->kind) == FT_ITEM_EDGE) {
        int64_t at = 2 * (int64_t)a->item + (a->kind == FT_ACT_RECEIVE);
        int64_t *done = &c->copies[at * c->most_replicas + ft_share_replica(share, index)];
        return local == (*done)++ ? NULL : "is out of its order, missing or twice";
    }
    if (ft_action_item(a->kind) == FT_ITEM_CLASS || a->kind == FT_ACT_RECOMPUTE)
        return find_move_fault(s, a, local);
    return find_batch_fault(c, s, a);
}

static bool reads_weights(ft_action_kind kind)
{
    return kind == FT_ACT_FORWARD || kind == FT_ACT_ATTENUATE || computes_backward(kind);
}

/* What the action does to the seat. */
static void apply(progress *s, const ft_action *a)
{
    int64_t versions = reads_weights(a->kind) ? versions_read(s, a) : 1;
    if (versions > s->versions) s->versions = versions;
    s->done[a->kind]++;
    switch ((ft_action_kind)a->kind) {
    case FT_ACT_FORWARD:
        if (s->lags) s->lags[s->done[FT_ACT_FORWARD] - 1] = a->lag;
        s->held++;
        s->predicted = 0;
        break;
    case FT_ACT_BACKWARD:
    case FT_ACT_BACKWARD_WEIGHT: s->held--; break;
    case FT_ACT_PREDICT: s->predicted = a->lag; break;
    case FT_ACT_ATTENUATE: s->attenuated = proof_finished(s); break;
    default: break;
    }
    unsigned writes = ft_action_writes(a);
    for (int class = 0; s->moves && class < FT_MEMORY_CLASSES; class ++)
        if (writes >> class & 1 && !is_made_later(s, (unsigned)class))
            s->at[class] = AT_DEVICE; /* the host's is old */
    if (a->kind == FT_ACT_UPDATE)
        s->are_dead = true;
    else if (writes >> FT_MEMORY_GRADIENTS & 1)
        s->are_dead = false;
    if (s->held > s->in_flight) s->in_flight = s->held;
}

/* -- lists and totals -------------------------------------------------------------------------- */

/* What a joint forward has made waits in the workspace for those that it takes: `left` more. */
typedef struct joint_pass {
    ft_action first;
    int left;
} joint_pass;

static const char *find_joint_fault(const checker *c, int device, const ft_action *a, joint_pass *j)
{
    if (ft_action_stream(a->kind) != FT_STREAM_COMPUTE || ft_action_moves(a)) return NULL;
    bool forward = a->kind == FT_ACT_FORWARD;
    if (j->left && !(forward && a->stage == j->first.stage))
        return "stands between forwards that are one: nothing else is computed there";
    if (!forward) return NULL;
    int joint = ft_share_joint(&c->shares->of[a->stage], ft_action_index(c->plan, a));
    if (joint) *j = (joint_pass){*a, joint};
    j->left--;
    if (a->lag != j->first.lag) return "has another lag than the forward that it is part of";
    return c->plan->by_policy[device] && joint > 1
               ? "is a joint forward, on a device that chooses: expected one that follows its list"
               : NULL;
}

static ft_status check_action(const checker *c, const ft_cursor *at, int device, joint_pass *pass,
                              ft_error *err)
{
    const ft_action *a = &at->now;
    progress *s = &c->seats[ft_seat_of(c->shares, a->stage, device)];
    const char *fault = find_fault(c, device, s, a);
    if (!fault) fault = find_joint_fault(c, device, a, pass);
    if (fault) {
        char name[FT_ACTION_TEXT];
        ft_fail(err, FT_INVALID, "plan: device %d: %s %s", device, ft_action_text(name, a), fault);
        return ft_plan_at_line(at->line, err);
    }
    apply(s, a);
    if (c->plan->forward_only) s->held = s->in_flight = s->versions = 1;
    return FT_OK;
}

static ft_status check_device(checker *c, int device, ft_arena *arena, ft_error *err)
{
    ft_cursor at;
    joint_pass pass = {.left = 0};
    seats_then then = {0};
    ft_cursor_begin(&at, c->plan, device);
    while (at.more) {
        if (ft_cursor_begins_last(&at)) {
            FT_TRY(proof_keep_seats(&then, arena, c->shares, device, c->seats, err));
            c->is_steady &= !pass.left;
        }
        FT_TRY(check_action(c, &at, device, &pass, err));
        bool in_body = at.part == FT_PART_BODY;
        ft_cursor_step(&at);
        if (in_body && !(at.more && at.part == FT_PART_BODY))
            c->is_steady &= !pass.left && proof_is_steady(&then, c->shares, device, c->seats);
    }
    return FT_OK;
}

static int64_t wanted_count(const checker *c, int stage, const progress *s, ft_action_kind kind)
{
    int64_t batches = c->plan->n_batches;
    if (ft_action_per_micro(kind)) batches *= c->shares->of[stage].per_batch;
    bool half = kind == FT_ACT_BACKWARD_INPUT || kind == FT_ACT_BACKWARD_WEIGHT;
    bool splits = s->last == FT_ACT_BACKWARD_WEIGHT;
    if (c->plan->forward_only && kind != FT_ACT_FORWARD) return 0;
    if ((kind == FT_ACT_REDUCE && !c->reduces) || (kind == FT_ACT_ADOPT && !s->adopts) ||
        (kind == FT_ACT_EXCHANGE && !s->exchanges) ||
        (kind == FT_ACT_TAKE_NORMS && !s->takes_norms) || (kind == FT_ACT_BACKWARD && splits) ||
        (half && !splits))
        return 0;
    return batches;
}

static ft_status check_seat(const checker *c, int seat, ft_error *err)
{
    int stage = c->shares->seat_stage[seat];
    const progress *s = &c->seats[seat];
    for (int k = 0; k < FT_ACT_COUNT; k++)
        if (counts_up(k) && s->done[k] != wanted_count(c, stage, s, k)) {
            ft_fail(err, FT_INVALID, "plan: stage %d has %lld %s actions, expected %lld", stage,
                    (long long)s->done[k], ft_action_word(k),
                    (long long)wanted_count(c, stage, s, k));
            return ft_plan_at_line(c->plan->stage_line ? c->plan->stage_line[stage] : 0, err);
        }
    return FT_OK;
}

/* What a stage's replicas need at most; depths from the edges. */
static ft_status derive(const checker *c, ft_arena *arena, const ft_derived *out, ft_error *err)
{
    const ft_plan *p = c->plan;
    ft_wires *w;
    ft_depths far;
    FT_TRY(ft_wires_new(&w, arena, c->shares, p->n_edges, p->edges, err));
    FT_TRY(ft_depths_find(&far, arena, w, err));
    for (int stage = 0; stage < p->n_stages; stage++) {
        const ft_stage_share *share = &c->shares->of[stage];
        out->depth[stage] = far.depth[stage];
        out->in_flight[stage] = 0;
        out->versions[stage] = 1;
        for (int i = 0; i < share->n; i++) {
            const progress *s = &c->seats[share->first + i];
            if (s->in_flight > out->in_flight[stage]) out->in_flight[stage] = (int)s->in_flight;
            if (s->versions > out->versions[stage]) out->versions[stage] = (int)s->versions;
        }
    }
    return FT_OK;
}

/* Compares what stages need with what the plan says. */
static ft_status check_stages(const ft_plan *p, const ft_derived *found, ft_error *err)
{
    const struct {
        const int *found, *said;
        const char *what;
    } rows[] = {{found->depth, p->depth, "stages behind it (depth)"},
                {found->in_flight, p->in_flight, "micro-batches in flight"},
                {found->versions, p->versions, "versions of its weights"}};
    for (int s = 0; s < p->n_stages; s++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            if (rows[i].found[s] != rows[i].said[s]) {
                ft_fail(err, FT_INVALID, "plan: stage %d has %d %s, the plan says %d", s,
                        rows[i].found[s], rows[i].what, rows[i].said[s]);
                return ft_plan_at_line(p->stage_line ? p->stage_line[s] : 0, err);
            }
    return FT_OK;
}

/* S or V of an edge, of all replicas. */
static int64_t copied(const checker *c, int64_t i)
{
    int64_t sum = 0;
    for (int r = 0; r < c->most_replicas; r++) sum += c->copies[i * c->most_replicas + r];
    return sum;
}

static ft_status check_copies(const checker *c, ft_error *err)
{
    int64_t micros = (int64_t)c->plan->n_batches * c->plan->micro_batches;
    for (int i = 0; i < 2 * c->plan->n_edges; i++) {
        /* what stays on its device goes to host memory, where nobody finds it without a V */
        bool needs_both = ft_edge_stays(c->plan, &c->plan->edges[i / 2]) && copied(c, i ^ 1);
        if ((!copied(c, i) && !needs_both) || copied(c, i) == micros) continue;
        ft_fail(err, FT_INVALID, "plan: edge %d has %lld %s actions, expected %lld", i / 2,
                (long long)copied(c, i), ft_action_word(i % 2 ? FT_ACT_RECEIVE : FT_ACT_SEND),
                (long long)micros);
        return ft_plan_at_line(c->plan->edge_line ? c->plan->edge_line[i / 2] : 0, err);
    }
    return FT_OK;
}

/* -- before ------------------------------------------------------------------------------------ */

/* Where a class is before the leg: in host memory when it is brought first, else it was brought
 * before; gradients come with their first backward. What does not move is on the device. */
static void look_at_move(checker *c, progress *s, const ft_action *a)
{
    if (s->moved[a->item] || a->item == FT_MEMORY_ACTIVATIONS) return;
    s->moved[a->item] = true;
    bool made = a->item == FT_MEMORY_GRADIENTS || a->kind == FT_ACT_MAKE;
    s->at[a->item] = a->kind == FT_ACT_SWAP_IN ? AT_HOST : made ? AT_NOWHERE : AT_BOTH;
    c->moves_weights |= a->item == FT_MEMORY_WEIGHTS;
}

static void look_at_list(checker *c, const ft_action_list *list, int device)
{
    for (int i = 0; i < list->n; i++) {
        const ft_action *a = &list->actions[i];
        progress *s = &c->seats[ft_seat_of(c->shares, a->stage, device)];
        if (a->kind == FT_ACT_REDUCE) c->reduces = true;
        if (a->kind == FT_ACT_BACKWARD_INPUT || a->kind == FT_ACT_BACKWARD_WEIGHT)
            s->last = FT_ACT_BACKWARD_WEIGHT;
        if (ft_action_item(a->kind) == FT_ITEM_CLASS || a->kind == FT_ACT_RECOMPUTE ||
            ft_action_at_home(a))
            s->moves = true;
        if (a->kind == FT_ACT_ATTENUATE) s->attenuates = true;
        if (a->kind == FT_ACT_MAKE) s->makes[a->item] = true;
        if (ft_action_item(a->kind) == FT_ITEM_CLASS) look_at_move(c, s, a);
        if (ft_action_at_home(a) && !s->moved[FT_MEMORY_OPTIMIZER]) { /* it never leaves it */
            s->moved[FT_MEMORY_OPTIMIZER] = true;
            s->at[FT_MEMORY_OPTIMIZER] = AT_HOST;
        }
    }
}

/* Some list or edge has a reduce: then every stage has one per batch. */
static void look_ahead(checker *c)
{
    const ft_plan *p = c->plan;
    for (int e = 0; e < p->n_edges; e++) {
        const ft_edge *edge = &p->edges[e];
        if (edge->from_kind == FT_ACT_REDUCE || edge->to_kind == FT_ACT_REDUCE) c->reduces = true;
        const ft_stage_share *from = &c->shares->of[edge->from], *to = &c->shares->of[edge->to];
        for (int i = 0; i < from->n; i++)
            c->seats[from->first + i].exchanges |= edge->from_kind == FT_ACT_EXCHANGE;
        for (int i = 0; i < to->n; i++) {
            c->seats[to->first + i].adopts |= edge->to_kind == FT_ACT_ADOPT;
            c->seats[to->first + i].takes_norms |= edge->to_kind == FT_ACT_TAKE_NORMS;
        }
    }
    c->reduces = c->reduces || c->shares->several;
    for (int d = 0; d < p->n_devices; d++) {
        look_at_list(c, &p->devices[d].warmup, d);
        look_at_list(c, &p->devices[d].body, d);
        look_at_list(c, &p->devices[d].drain, d);
    }
}

/* Room for where each micro-batch's activations are, of the seats that move some, and for lags. No
 * more than the lists are long: an index above that is out of its order. */
static ft_status add_micros(checker *c, ft_arena *arena, ft_error *err)
{
    for (int seat = 0; seat < c->shares->n_seats; seat++) {
        progress *s = &c->seats[seat];
        int64_t n = c->shares->of[c->shares->seat_stage[seat]].per_batch;
        int64_t length = ft_plan_length(c->plan, c->shares->seat_device[seat]);
        n = n * c->plan->n_batches < length ? n * c->plan->n_batches : length;
        if (s->moves) s->micros = ft_arena_array(arena, n + 1, sizeof *s->micros);
        if (s->attenuates) s->lags = ft_arena_array(arena, n + 1, sizeof *s->lags);
        if ((s->moves && !s->micros) || (s->attenuates && !s->lags))
            return ft_fail(err, FT_NOMEM, "plan: no memory for %lld micro-batches", (long long)n);
    }
    return FT_OK;
}

/* One pass over all lists. */
static ft_status pass(checker *c, const ft_plan *p, const ft_seating *shares, const int *versions,
                      ft_arena *arena, ft_error *err)
{
    *c = (checker){.plan = p, .shares = shares, .versions = versions, .is_steady = true};
    c->seats = ft_arena_array(arena, shares->n_seats, sizeof *c->seats);
    for (int s = 0; s < shares->n_stages; s++)
        if (shares->of[s].n > c->most_replicas) c->most_replicas = shares->of[s].n;
    int64_t counts = 2 * (int64_t)p->n_edges * c->most_replicas;
    c->copies = ft_arena_array(arena, counts, sizeof *c->copies);
    if (!c->seats || !c->copies)
        return ft_fail(err, FT_NOMEM, "plan: no memory for %d stages", p->n_stages);
    for (int seat = 0; seat < shares->n_seats; seat++) {
        c->seats[seat].are_dead = true;
        c->seats[seat].last = p->forward_only ? FT_ACT_FORWARD : FT_ACT_BACKWARD;
    }
    FT_TRY(ft_owners_find(&c->owners, arena, p, err));
    look_ahead(c);
    FT_TRY(add_micros(c, arena, err));
    for (int d = 0; d < p->n_devices; d++) FT_TRY(check_device(c, d, arena, err));
    return FT_OK;
}

ft_status proof_check_order(const ft_plan *p, const ft_seating *shares, bool *is_steady,
                            ft_arena *arena, ft_error *err)
{
    checker c;
    int *numbers = ft_arena_array(arena, 3 * (int64_t)p->n_stages, sizeof *numbers);
    if (!numbers) return ft_fail(err, FT_NOMEM, "plan: no memory for %d stages", p->n_stages);
    ft_derived found = {numbers, numbers + p->n_stages, numbers + 2 * (int64_t)p->n_stages};
    FT_TRY(pass(&c, p, shares, p->versions, arena, err));
    for (int seat = 0; seat < shares->n_seats; seat++) FT_TRY(check_seat(&c, seat, err));
    FT_TRY(derive(&c, arena, &found, err));
    FT_TRY(check_stages(p, &found, err));
    *is_steady = c.is_steady;
    return check_copies(&c, err);
}

ft_status proof_measure(const ft_plan *p, const ft_seating *shares, bool *is_steady,
                        ft_arena *arena, const ft_derived *out, ft_error *err)
{
    checker c;
    FT_TRY(pass(&c, p, shares, NULL, arena, err));
    *is_steady = c.is_steady;
    return derive(&c, arena, out, err);
}
