/* state/versions.c - older weights: kept when newer ones are made, and found for who reads them.
 *
 * The newest weights are where they always are, and are updated there; what they were before is
 * copied into a slot of the seat's ring first, packed copies too. Which version an action reads
 * follows from its lag; which one is in a slot was counted when it was put there. */
#include <string.h>

#include "blueprint/states.h"
#include "state/late.h"
#include "state/ledger.h"
#include "state/here.h"

static const ft_version_ring *ring_of(const ft_run *run, int s, int kind)
{
    return &run->blueprint->seats[s].rings[kind];
}

static char *ring_slot(const ft_run *run, int s, int kind, int64_t version)
{
    const ft_version_ring *ring = ring_of(run, s, kind);
    char *block = run->workers[run->blueprint->seats[s].device].block;
    return block + ring->at + version % ring->n * ring->slot_bytes;
}

char *predicted_slot(const ft_run *run, int s, ft_weights_kind kind)
{
    const ft_seat_layout *seat = &run->blueprint->seats[s];
    return run->workers[seat->device].block + seat->predicted[kind].at;
}

char *known_state(const ft_run *run, int s, int param)
{
    char *copy = run->seats[s].state_copies[param];
    return copy ? copy : run->states[param];
}

void keep_state_copy(worker *w, int s, int i)
{
    int param = w->run->blueprint->seats[s].params[i].param;
    ledger_keep(w, s, FT_MEMORY_VERSIONS, &w->run->seats[s].kept_copies[i],
                ft_blueprint_state_bytes(w->run->blueprint, param));
}

static bool is_kind(const ft_seat_param *p, int kind)
{
    return p->old_at >= 0 && p->owned == (kind == FT_WEIGHTS_OWNED);
}

/* -- a run, a leg ------------------------------------------------------------------------------ */

ft_status versions_new(ft_run *run, int s, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    const ft_seat_layout *seat = &b->seats[s];
    seat_state *state = &run->seats[s];
    int n_slots = seat->n_under_way > 0 ? seat->n_under_way : 1;
    state->versions.n_slots = n_slots;
    state->versions.forwards =
        ft_arena_array(run->arena, n_slots, sizeof *state->versions.forwards);
    state->old_params = ft_arena_array(run->arena, b->n_params + 1, sizeof(void *));
    state->rates = ft_arena_array(run->arena, b->batch_slots, sizeof *state->rates);
    state->own_rates = ft_arena_array(run->arena, b->batch_slots, sizeof *state->own_rates);
    state->old_packed = ft_arena_array(run->arena, seat->n_packs + 1, sizeof(void *));
    state->state_copies = ft_arena_array(run->arena, b->n_params + 1, sizeof(char *));
    state->kept_copies = ft_arena_array(run->arena, seat->n_params + 1, sizeof(bool));
    state->marked = ft_arena_array(run->arena, seat->marks.n + 1, sizeof *state->marked);
    state->kept_marks = ft_arena_array(run->arena, seat->marks.n + 1, sizeof(bool));
    if (!state->versions.forwards || !state->old_params || !state->old_packed || !state->rates ||
        !state->own_rates || !state->state_copies || !state->kept_copies || !state->marked ||
        !state->kept_marks)
        return ft_fail(err, FT_NOMEM, "engine: no memory for stage %d", plan_stage(run, s));
    for (int i = 0; i < seat->n_params; i++)
        if (seat->params[i].with_state)
            state->state_copies[seat->params[i].param] =
                run->workers[seat->device].block + seat->params[i].state_at;
    return FT_OK;
}

void versions_begin(ft_run *run)
{
    for (int s = 0; s < run->n_seats; s++) {
        run->seats[s].versions.newest = (ft_versions){{0, 0}};
        run->seats[s].predicted_version = -1;
        run->seats[s].predicted_for = 0;
        for (int i = 0; seat_is_here(run, s) && i < run->blueprint->seats[s].marks.n; i++)
            run->seats[s].marked[i] = 0;
    }
}

void versions_end(ft_run *run)
{
    for (int s = 0; s < run->n_seats; s++)
        for (int k = 0; k < FT_WEIGHTS_KINDS; k++) {
            const ft_version_ring *ring = ring_of(run, s, k);
            const worker *w = &run->workers[run->blueprint->seats[s].device];
            for (int i = 0; seat_is_here(run, s) && i < ring->n; i++)
                vacate(w, ring_slot(run, s, k, i), ft_place_room(ring->slot_bytes));
        }
}

/* -- keeping ----------------------------------------------------------------------------------- */

static ft_status copy_param(worker *w, int s, int i, char *slot, ft_error *err)
{
    const ft_run *run = w->run;
    const ft_seat_layout *seat = &run->blueprint->seats[s];
    int param = seat->params[i].param;
    FT_TRY(copy_on(w->compute, at_device(run, w->device, slot + seat->params[i].old_at),
                   at_device(run, w->device, run->seats[s].params[param]),
                   ft_spec_bytes(&run->blueprint->params[param].spec), err));
    for (int k = 0; seat->reads_old && k < seat->n_packs; k++)
        if (seat->packs[k].param == param)
            FT_TRY(copy_on(w->compute, at_device(run, w->device, slot + seat->pack_old_at[k]),
                           at_device(run, w->device, run->seats[s].packed[k]), seat->packs[k].bytes,
                           err));
    return FT_OK;
}

ft_status keep_version(worker *w, int s, ft_weights_kind kind, ft_error *err)
{
    ft_run *run = w->run;
    const ft_seat_layout *seat = &run->blueprint->seats[s];
    const ft_version_ring *ring = ring_of(run, s, kind);
    int64_t version = run->seats[s].versions.newest.of[kind];
    if (!ring->n) return FT_OK;
    char *slot = ring_slot(run, s, kind, version);
    FT_TRY(ledger_keep_version(w, s, kind, version, err));
    occupy(w, slot, ft_place_room(ring->slot_bytes));
    for (int i = 0; i < seat->n_params; i++)
        if (is_kind(&seat->params[i], kind)) FT_TRY(copy_param(w, s, i, slot, err));
    return FT_OK;
}

/* -- reading ----------------------------------------------------------------------------------- */

/* The version that is where an action finds the one that it asks for: counted, not planned. */
static int64_t version_there(const ft_run *run, int s, int kind, int64_t wanted)
{
    const seat_state *state = &run->seats[s];
    int64_t newest = state->versions.newest.of[kind];
    if (!ring_of(run, s, kind)->n || wanted >= newest || wanted < 0) return newest;
    return ledger_version(run, s, kind, wanted);
}

static ft_status not_kept(const ft_run *run, int s, int64_t version, ft_error *err)
{
    return ft_fail(err, FT_INVALID,
                   "engine: stage %d reads version %lld of its weights, which is not kept any more",
                   plan_stage(run, s), (long long)version);
}

ft_status find_older(const ft_run *run, int s, int i, int64_t version, const float **out,
                     ft_error *err)
{
    const ft_seat_param *p = &run->blueprint->seats[s].params[i];
    int kind = p->owned ? FT_WEIGHTS_OWNED : FT_WEIGHTS_ADOPTED;
    bool kept = p->old_at >= 0 && ring_of(run, s, kind)->n;
    if (!kept || ledger_version(run, s, kind, version) != version)
        return not_kept(run, s, version, err);
    *out = (const float *)(const void *)(ring_slot(run, s, kind, version) + p->old_at);
    return FT_OK;
}

int counted_lag(const ft_run *run, const ft_action *a)
{
    if (a->kind == FT_ACT_ATTENUATE) { /* what its forward has read */
        const ft_version_count *count = &run->seats[a->seat].versions;
        int64_t slot = ft_seat_index(&run->blueprint->seating, a) % count->n_slots;
        return (int)(a->batch - count->forwards[slot].of[FT_WEIGHTS_OWNED]);
    }
    if (a->kind == FT_ACT_PREDICT)
        return (int)(a->batch - run->seats[a->seat].versions.newest.of[FT_WEIGHTS_OWNED]);
    if (run->plan->forward_only || !run->blueprint->seats[a->seat].nodes[a->kind]) return 0;
    int64_t wanted = (int64_t)a->batch - a->lag;
    return (int)(a->batch - version_there(run, a->seat, FT_WEIGHTS_OWNED, wanted));
}

/* Whether a slot of that kind, of older weights or of predicted ones, has the parameter. */
static bool has(const ft_seat_param *p, int kind, bool predicted)
{
    return is_kind(p, kind) && (!predicted || p->owned || p->with_state);
}

/* Makes the action read the slot in place of the newest weights of that kind. */
static void point_at(const ft_run *run, int s, int kind, bool predicted, char *slot,
                     ft_bases *bases)
{
    const ft_seat_layout *seat = &run->blueprint->seats[s];
    seat_state *state = &run->seats[s];
    if (bases->params == state->params) {
        memcpy(state->old_params, state->params, (size_t)run->blueprint->n_params * sizeof(void *));
        memcpy(state->old_packed, state->packed, (size_t)seat->n_packs * sizeof(void *));
        bases->params = state->old_params;
        bases->packed = state->old_packed;
    }
    for (int i = 0; i < seat->n_params; i++)
        if (has(&seat->params[i], kind, predicted))
            state->old_params[seat->params[i].param] = slot + seat->params[i].old_at;
    for (int k = 0; k < seat->n_packs; k++)
        for (int i = 0; i < seat->n_params; i++)
            if (seat->params[i].param == seat->packs[k].param &&
                has(&seat->params[i], kind, predicted))
                state->old_packed[k] = slot + seat->pack_old_at[k];
}

ft_status find_versions(const ft_run *run, const ft_action *a, ft_bases *bases, ft_error *err)
{
    seat_state *state = &run->seats[a->seat];
    bases->params = state->params;
    bases->packed = state->packed;
    if (run->plan->forward_only) return FT_OK;
    int64_t index = ft_seat_index(&run->blueprint->seating, a);
    ft_versions read = ft_versions_read(&state->versions, index, a);
    for (int k = 0; k < FT_WEIGHTS_KINDS; k++) {
        if (!ring_of(run, a->seat, k)->n || read.of[k] == state->versions.newest.of[k]) continue;
        if (version_there(run, a->seat, k, read.of[k]) != read.of[k])
            return not_kept(run, a->seat, read.of[k], err);
        point_at(run, a->seat, k, false, ring_slot(run, a->seat, k, read.of[k]), bases);
    }
    if (a->kind != FT_ACT_FORWARD || state->predicted_for != index + 1) return FT_OK;
    for (int k = 0; k < FT_WEIGHTS_KINDS; k++)
        point_at(run, a->seat, k, true, predicted_slot(run, a->seat, k), bases);
    return FT_OK;
}
