/* blueprint/versions.c - older and predicted weights, and marks: how many there are at once, and
 * where. */
#include "blueprint/internal.h"
#include "blueprint/states.h"

static bool computes(ft_action_kind kind)
{
    return kind == FT_ACT_FORWARD || kind == FT_ACT_BACKWARD || kind == FT_ACT_BACKWARD_INPUT ||
           kind == FT_ACT_BACKWARD_WEIGHT;
}

ft_versions ft_versions_read(const ft_version_count *c, int64_t index, const ft_action *a)
{
    int64_t own = (int64_t)a->batch - a->lag, adopted = c->newest.of[FT_WEIGHTS_ADOPTED];
    const ft_versions *forward = &c->forwards[index % c->n_slots];
    if (a->kind != FT_ACT_FORWARD && forward->of[FT_WEIGHTS_OWNED] == own) return *forward;
    return (ft_versions){{own, own < adopted ? own : adopted}};
}

void ft_versions_pass(ft_version_count *c, int64_t index, const ft_action *a)
{
    if (a->kind == FT_ACT_FORWARD) c->forwards[index % c->n_slots] = ft_versions_read(c, index, a);
    c->newest.of[FT_WEIGHTS_OWNED] += a->kind == FT_ACT_UPDATE;
    c->newest.of[FT_WEIGHTS_ADOPTED] += a->kind == FT_ACT_ADOPT;
}

/* -- how many ---------------------------------------------------------------------------------- */

static ft_weights_kind kind_of(const ft_seat_param *p)
{
    return p->owned ? FT_WEIGHTS_OWNED : FT_WEIGHTS_ADOPTED;
}

/* Whether the seat has a copy of its own of a weight that changes. */
static bool changes(const ft_blueprint *b, const ft_seat_param *p)
{
    return (p->owned || p->replica) && b->params[p->param].n_terms;
}

static bool adopts(const ft_blueprint *b, const ft_seat_layout *seat)
{
    for (int i = 0; i < seat->n_params; i++)
        if (!seat->params[i].owned && changes(b, &seat->params[i])) return true;
    return false;
}

/* Whether it has gaps of weights that another replica owns. */
static bool knows_others(const ft_seat_layout *seat)
{
    for (int i = 0; i < seat->n_params; i++)
        if (seat->params[i].with_state) return true;
    return false;
}

/* The oldest adopted version that is read is so many behind the newest, at most; *computes_old:
 * something computes with one. */
static ft_status count_adopted(ft_blueprint *b, int s, bool *computes_old, ft_error *err)
{
    const ft_plan *plan = &b->plan;
    ft_seat_layout *seat = &b->seats[s];
    ft_version_ring *ring = &seat->rings[FT_WEIGHTS_ADOPTED];
    ft_version_count count = {.n_slots = seat->n_under_way};
    count.forwards = ft_arena_array(b->arena, count.n_slots, sizeof *count.forwards);
    if (!count.forwards) return no_memory(err);
    for (int64_t i = 0; i < ft_plan_length(plan, seat->device); i++) {
        ft_action a = ft_seated(&b->seating, seat->device, ft_plan_at(plan, seat->device, i));
        if (a.seat != s) continue;
        int64_t index = ft_seat_index(&b->seating, &a);
        if (computes(a.kind) || (a.kind == FT_ACT_ATTENUATE && knows_others(seat))) {
            int64_t read = ft_versions_read(&count, index, &a).of[FT_WEIGHTS_ADOPTED];
            int64_t behind = count.newest.of[FT_WEIGHTS_ADOPTED] - read;
            if (behind > ring->n) ring->n = (int)behind;
            *computes_old |= behind > 0 && computes(a.kind);
        }
        ft_versions_pass(&count, index, &a);
    }
    return FT_OK;
}

/* Whether an action that computes finds newer weights than it reads. */
static bool finds_newer(const ft_plan *plan, int s)
{
    int64_t updates = 0;
    for (int64_t i = 0; i < ft_plan_length(plan, plan->device[s]); i++) {
        ft_action a = ft_plan_at(plan, plan->device[s], i);
        if (a.seat != s) continue;
        if (computes(a.kind) && updates > (int64_t)a.batch - a.lag) return true;
        updates += a.kind == FT_ACT_UPDATE;
    }
    return false;
}

bool blueprint_keeps(const ft_plan *plan)
{
    for (int s = 0; s < plan->n_stages; s++)
        if (plan->versions[s] > 1) return true;
    return false;
}

/* Batches of which the seat's first forward was late and the first backward has not begun, at
 * most. */
static int count_marks(const ft_blueprint *b, int s)
{
    const ft_plan *plan = &b->plan;
    int device = b->seats[s].device;
    int64_t begun = 0, most = 0; /* batches whose backward has begun */
    for (int64_t i = 0; i < ft_plan_length(plan, device); i++) {
        ft_action a = ft_seated(&b->seating, device, ft_plan_at(plan, device, i));
        if (a.seat != s || !computes(a.kind) || !ft_seat_is_first(&b->seating, &a)) continue;
        if (a.kind != FT_ACT_FORWARD)
            begun = (int64_t)a.batch + 1;
        else if (a.lag && (int64_t)a.batch + 1 - begun > most)
            most = (int64_t)a.batch + 1 - begun;
    }
    return (int)most;
}

ft_status blueprint_count_versions(ft_blueprint *b, ft_error *err)
{
    for (int s = 0; s < b->seating.n_seats; s++) {
        ft_seat_layout *seat = &b->seats[s];
        bool computes_old = false;
        seat->predicted[FT_WEIGHTS_OWNED].n = seat->predicts; /* one slot */
        seat->predicted[FT_WEIGHTS_ADOPTED].n = seat->predicts && knows_others(seat);
        seat->rings[FT_WEIGHTS_OWNED].n = b->plan.versions[seat->stage] - 1;
        if (b->cut.keeps && adopts(b, seat)) FT_TRY(count_adopted(b, s, &computes_old, err));
        if (b->options.gaps && !seat->rings[FT_WEIGHTS_OWNED].n && !seat->attenuates)
            seat->marks.n = count_marks(b, s);
        seat->reads_old = !seat->attenuates || computes_old || finds_newer(&b->plan, seat->stage);
    }
    return FT_OK;
}

int ft_blueprint_state(const ft_blueprint *b, int param, ft_state_part parts[FT_MAX_STATE_PARTS],
                       int64_t *bytes)
{
    const ft_param_layout *p = &b->params[param];
    int n = b->options.optimizer->state(&p->spec, b->options.hypers, parts, bytes);
    return b->seats[p->owner].attenuates ? n + ft_gap_state(&p->spec, &parts[n], bytes) : n;
}

int64_t ft_blueprint_state_bytes(const ft_blueprint *b, int param)
{
    ft_state_part parts[FT_MAX_STATE_PARTS];
    int64_t bytes = 0;
    if (b->options.optimizer && b->params[param].n_terms)
        ft_blueprint_state(b, param, parts, &bytes);
    return bytes;
}

bool ft_blueprint_with_state(const ft_blueprint *b, int e)
{
    const ft_seat_layout *from = &b->seats[b->edges[e].from], *to = &b->seats[b->edges[e].to];
    return from->stage == to->stage && (to->predicts || to->attenuates);
}

/* -- places ------------------------------------------------------------------------------------ */

/* Packed copies of the parameter, behind it in its slot, where something computes with them. */
static int64_t place_packs(ft_seat_layout *seat, int param, int64_t at)
{
    if (!seat->reads_old && !seat->predicts) return at;
    for (int i = 0; i < seat->n_packs; i++) {
        if (seat->packs[i].param != param) continue;
        seat->pack_old_at[i] = at;
        at += ft_memory_round(seat->packs[i].bytes);
    }
    return at;
}

static void place_marks(const ft_blueprint *b, ft_seat_layout *seat)
{
    int64_t bytes = 0;
    for (int i = 0; i < seat->n_params; i++) {
        ft_seat_param *p = &seat->params[i];
        p->mark_at = -1;
        if (!seat->marks.n || !p->owned || !changes(b, p)) continue;
        p->mark_at = bytes;
        bytes += ft_memory_round(ft_spec_bytes(&b->params[p->param].spec));
    }
    seat->marks.slot_bytes = ft_place_bytes(bytes);
    if (!bytes) seat->marks.n = 0; /* its weights change elsewhere, or not at all */
}

ft_status blueprint_place_versions(ft_blueprint *b, int s, ft_error *err)
{
    ft_seat_layout *seat = &b->seats[s];
    int64_t bytes[FT_WEIGHTS_KINDS] = {0};
    seat->pack_old_at = ft_arena_array(b->arena, seat->n_packs + 1, sizeof(int64_t));
    if (!seat->pack_old_at) return no_memory(err);
    for (int i = 0; i < seat->n_params; i++) {
        ft_seat_param *p = &seat->params[i];
        int64_t *at = &bytes[kind_of(p)];
        p->old_at = -1;
        bool predicted = (p->owned || p->with_state) && seat->predicts;
        if (!changes(b, p) || !(seat->rings[kind_of(p)].n || predicted)) continue;
        p->old_at = *at;
        *at += ft_memory_round(ft_spec_bytes(&b->params[p->param].spec));
        *at = place_packs(seat, p->param, *at);
    }
    for (int k = 0; k < FT_WEIGHTS_KINDS; k++) /* of weights that all change elsewhere: nothing */
        seat->rings[k].slot_bytes = seat->predicted[k].slot_bytes = ft_place_bytes(bytes[k]);
    place_marks(b, seat);
    return FT_OK;
}
