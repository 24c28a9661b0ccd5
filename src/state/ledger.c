/* state/ledger.c - what is live on every device, counted.
 *
 * A tensor that stays becomes live when it is first written. A slot becomes live when the action
 * that fills it starts, and is free again when the one that is done with it has ended; who has it
 * is noted, so that a slot which the plan gives to two at once is found. What a device needed is
 * the most that was live on it at one time. Nothing here reads what the plan says of memory. */
#include <stdio.h>

#include "state/slots.h"
#include "state/ledger.h"

/* -- bytes ------------------------------------------------------------------------------------- */

static void raise_high(const worker *w, int c, int64_t bytes)
{
    int64_t high = atomic_load_explicit(&w->high[c], memory_order_relaxed);
    while (bytes > high && !atomic_compare_exchange_weak(&w->high[c], &high, bytes)) continue;
}

static void add_live(const worker *w, int c, int64_t bytes)
{
    if (!w->executor) return; /* of another process, which counts what it has */
    raise_high(w, c, atomic_fetch_add(&w->live[c], bytes) + bytes);
}

void ledger_unit(const worker *w, ft_memory_class c, int64_t bytes)
{
    add_live(w, LIVE_MOVING + (int)c, bytes);
    add_live(w, LIVE_TOGETHER, bytes);
}

void ledger_keep(worker *w, int seat, ft_memory_class c, bool *kept, int64_t bytes)
{
    if (*kept || w->run->blueprint->seats[seat].units[c]) return;
    *kept = true;
    add_live(w, c, ft_place_bytes(bytes));
}

void ledger_work(worker *w, int64_t bytes)
{
    int64_t lent = ft_place_bytes(w->executor->device->library_bytes);
    raise_high(w, FT_MEMORY_WORKSPACE, lent + ft_place_bytes(bytes));
}

/* -- slots ------------------------------------------------------------------------------------- */

static ft_status pool_new(pool *p, ft_arena *arena, const pool *about, ft_error *err)
{
    *p = *about;
    p->holders = ft_arena_array(arena, p->n + 1, sizeof *p->holders);
    p->bytes = ft_arena_array(arena, p->n + 1, sizeof *p->bytes);
    return p->holders && p->bytes ? FT_OK : ft_fail(err, FT_NOMEM, "engine: no memory for a run");
}

static ft_status report(const pool *p, int64_t index, const char *does, int64_t holder,
                        ft_error *err)
{
    char number[16] = "", other[48] = "nothing";
    if (p->number >= 0) snprintf(number, sizeof number, " %d", p->number);
    if (holder) snprintf(other, sizeof other, "number %lld", (long long)holder - 1);
    return ft_fail(err, FT_INVALID,
                   "engine: slot %lld of %d of %s%s is %s number %lld while %s is in it",
                   (long long)(index % p->n), p->n, p->what, number, does, (long long)index, other);
}

static ft_status hand_out(ft_run *run, pool *p, int64_t index, int64_t bytes, ft_error *err)
{
    int64_t free = 0, slot = index % p->n;
    if (!atomic_compare_exchange_strong(&p->holders[slot], &free, index + 1))
        return report(p, index, "handed out to", free, err);
    p->bytes[slot] = p->at_home ? 0 : ft_place_bytes(bytes);
    if (p->moves)
        ledger_unit(&run->workers[p->device], p->class, p->bytes[slot]);
    else
        add_live(&run->workers[p->device], p->class, p->bytes[slot]);
    return FT_OK;
}

static void take_back(const ft_run *run, const pool *p, int64_t bytes)
{
    const worker *w = &run->workers[p->device];
    if (p->moves)
        ledger_unit(w, p->class, -bytes);
    else if (w->executor)
        atomic_fetch_sub(&w->live[p->class], bytes);
}

static ft_status give_back(ft_run *run, pool *p, int64_t index, ft_error *err)
{
    int64_t mine = index + 1, slot = index % p->n, bytes = p->bytes[slot];
    if (!atomic_compare_exchange_strong(&p->holders[slot], &mine, 0))
        return report(p, index, "given back by", mine, err);
    take_back(run, p, bytes);
    return FT_OK;
}

static ft_status empty(const ft_run *run, pool *p, ft_error *err)
{
    (void)err;
    for (int i = 0; i < p->n; i++)
        if (atomic_exchange(&p->holders[i], 0)) take_back(run, p, p->bytes[i]);
    return FT_OK;
}

static ft_status check_empty(const ft_run *run, pool *p, ft_error *err)
{
    (void)run;
    for (int i = 0; i < p->n; i++) {
        int64_t holder = atomic_load(&p->holders[i]);
        if (holder)
            return ft_fail(err, FT_INVALID,
                           "engine: number %lld is still in slot %d of %s%s%d at the end of a leg",
                           (long long)holder - 1, i, p->what, p->number < 0 ? "" : " ", p->number);
    }
    return FT_OK;
}

/* -- a run's pools ----------------------------------------------------------------------------- */

/* Calls `each` for every pool of a run until it fails; those of older weights are full when a leg
 * has ended. */
static ft_status for_pools(const ft_run *run, bool older,
                           ft_status (*each)(const ft_run *run, pool *p, ft_error *err),
                           ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    for (int s = 0; s < b->seating.n_seats; s++) {
        FT_TRY(each(run, &run->seats[s].slots, err));
        FT_TRY(each(run, &run->seats[s].held, err));
        for (int k = 0; older && k < FT_WEIGHTS_KINDS; k++)
            FT_TRY(each(run, &run->seats[s].rings[k], err));
    }
    for (int e = 0; e < b->n_edges; e++)
        for (int r = 0; r < FT_ROWS; r++) FT_TRY(each(run, &run->edges[e].rows[r].slots, err));
    for (int i = 0; i < b->n_outputs; i++) FT_TRY(each(run, &run->output_slots[i], err));
    for (int d = 0; d < run->n_devices; d++) FT_TRY(each(run, &run->workers[d].fed_slots, err));
    return FT_OK;
}

ft_status ledger_new(ft_run *run, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    ft_arena *arena = run->arena;
    run->output_slots = ft_arena_array(arena, b->n_outputs + 1, sizeof *run->output_slots);
    run->kept_states = ft_arena_array(arena, b->n_params + 1, sizeof(bool));
    if (!run->output_slots || !run->kept_states)
        return ft_fail(err, FT_NOMEM, "engine: no memory for a run");
    for (int s = 0; s < b->seating.n_seats; s++) {
        int window = b->seats[s].window, slots = window ? window : b->seats[s].n_slots;
        pool about = {.what = "activations of stage",
                      .number = plan_stage(run, s),
                      .device = b->seats[s].device,
                      .class = FT_MEMORY_ACTIVATIONS,
                      .moves = window > 0,
                      .n = slots > 0 ? slots : 1};
        FT_TRY(pool_new(&run->seats[s].slots, arena, &about, err));
        about.moves = false;
        about.what = "values between the halves of backwards of stage";
        about.n = b->seats[s].n_held_slots;
        FT_TRY(pool_new(&run->seats[s].held, arena, &about, err));
        about.what = "older weights of stage";
        about.class = FT_MEMORY_VERSIONS;
        for (int k = 0; k < FT_WEIGHTS_KINDS; k++) {
            about.n = b->seats[s].rings[k].n;
            FT_TRY(pool_new(&run->seats[s].rings[k], arena, &about, err));
        }
    }
    for (int e = 0; e < b->n_edges; e++)
        for (int r = 0; r < FT_ROWS; r++) {
            static const char *const whats[FT_ROWS] = {"what a send takes, edge", "edge",
                                                       "what a receive brings, edge"};
            const ft_row *row = &b->cargoes[e].rows[r];
            const pool about = {.what = whats[r],
                                .number = b->cargoes[e].edge,
                                .device = row->device,
                                .class = FT_MEMORY_BUFFERS,
                                .at_home = row->at_home,
                                .n = row->n};
            FT_TRY(pool_new(&run->edges[e].rows[r].slots, arena, &about, err));
        }
    pool buffers = {.what = "output", .class = FT_MEMORY_BUFFERS, .n = b->batch_slots};
    for (int i = 0; i < b->n_outputs; i++) {
        buffers.number = i;
        buffers.device = b->seats[b->outputs[i].seat].device;
        FT_TRY(pool_new(&run->output_slots[i], arena, &buffers, err));
    }
    for (int d = 0; d < b->cut.n_devices; d++) {
        buffers.what = "batches on device";
        buffers.number = buffers.device = d;
        FT_TRY(pool_new(&run->workers[d].fed_slots, arena, &buffers, err));
    }
    return FT_OK;
}

void ledger_reset(ft_run *run)
{
    (void)for_pools(run, true, empty, NULL); /* it does not fail */
}

ft_status ledger_close(const ft_run *run, ft_error *err)
{
    return for_pools(run, false, check_empty, err);
}

/* -- what happens ------------------------------------------------------------------------------ */

/* For actions that come before their batch is finished: later, the next one is in its slot. */
static int bucket_of(const ft_run *run, const ft_action *a)
{
    return run->batches[a->batch % run->blueprint->batch_slots].bucket;
}

ft_status ledger_begin(worker *w, const ft_action *a, ft_error *err)
{
    ft_run *run = w->run;
    const ft_seat_layout *seat = &run->blueprint->seats[a->seat];
    int64_t index = ft_seat_index(&run->blueprint->seating, a);
    bool enters = a->kind == FT_ACT_FORWARD ||
                  (a->kind == FT_ACT_SWAP_IN && a->item == FT_MEMORY_ACTIVATIONS);
    ft_row_end at;
    bool fills = ft_blueprint_fills(run->blueprint, a, 0, &at);
    bool halves = a->kind == FT_ACT_BACKWARD_INPUT;
    int bucket = enters || halves || fills ? bucket_of(run, a) : 0;
    if (enters)
        FT_TRY(hand_out(run, &run->seats[a->seat].slots, index, seat->saved_bytes[bucket], err));
    if (halves)
        FT_TRY(hand_out(run, &run->seats[a->seat].held, index, seat->held_bytes[bucket], err));
    for (int i = 0; ft_blueprint_fills(run->blueprint, a, i, &at); i++) {
        int64_t bytes = run->blueprint->cargoes[at.edge].bytes[bucket];
        ft_row_end made = made_in(run, at);
        FT_TRY(hand_out(run, &slots_row(run, at)->slots, place_number(run, at, a), bytes, err));
        if (made.row == at.row) continue;
        FT_TRY(hand_out(run, &slots_row(run, made)->slots, place_number(run, made, a), bytes, err));
    }
    return FT_OK;
}

ft_status ledger_end(worker *w, const ft_action *a, ft_error *err)
{
    ft_run *run = w->run;
    int64_t index = ft_seat_index(&run->blueprint->seating, a);
    const ft_seat_layout *seat = &run->blueprint->seats[a->seat];
    ft_row_end at;
    for (int i = 0; ft_blueprint_takes(run->blueprint, a, i, &at); i++)
        FT_TRY(give_back(run, &slots_row(run, at)->slots,
                         ft_blueprint_slot_index(run->blueprint, at.edge, a), err));
    for (int i = 0; ft_blueprint_fills(run->blueprint, a, i, &at); i++) {
        ft_row_end made = made_in(run, at); /* from here on it is on its way */
        if (made.row == at.row) continue;
        FT_TRY(give_back(run, &slots_row(run, made)->slots, place_number(run, made, a), err));
    }
    bool leaves = ft_action_leaves(a) && a->item == FT_MEMORY_ACTIVATIONS;
    if (a->kind == FT_ACT_BACKWARD_WEIGHT)
        FT_TRY(give_back(run, &run->seats[a->seat].held, index, err));
    if (a->kind != (int)seat->last && !leaves) return FT_OK;
    return give_back(run, &run->seats[a->seat].slots, index, err);
}

ft_status ledger_arrive(ft_run *run, pool *slots, int64_t index, int64_t bytes, ft_error *err)
{
    return hand_out(run, slots, index, bytes, err);
}

ft_status ledger_hear(ft_run *run, pool *slots, int64_t index, ft_error *err)
{
    if (atomic_load(&slots->holders[index % slots->n]) != index + 1) return FT_OK;
    return give_back(run, slots, index, err);
}

ft_status ledger_keep_version(worker *w, int s, ft_weights_kind kind, int64_t version,
                              ft_error *err)
{
    pool *p = &w->run->seats[s].rings[kind];
    int64_t bytes = ft_place_room(w->run->blueprint->seats[s].rings[kind].slot_bytes);
    if (version >= p->n) FT_TRY(give_back(w->run, p, version - p->n, err));
    return hand_out(w->run, p, version, bytes, err);
}

int64_t ledger_version(const ft_run *run, int s, ft_weights_kind kind, int64_t version)
{
    const pool *p = &run->seats[s].rings[kind];
    return atomic_load(&p->holders[version % p->n]) - 1;
}

ft_status ledger_feed(ft_run *run, int64_t batch, int bucket, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    for (int d = 0; d < b->cut.n_devices; d++) {
        int64_t bytes = 0;
        for (int i = 0; i < b->n_inputs; i++)
            if (b->blocks[d].input_at[i] >= 0)
                bytes += ft_memory_round(b->input_bytes[bucket * b->n_inputs + i] *
                                         b->cut.micro_batches);
        FT_TRY(hand_out(run, &run->workers[d].fed_slots, batch, bytes, err));
    }
    for (int i = 0; i < b->n_outputs; i++)
        FT_TRY(hand_out(run, &run->output_slots[i], batch,
                        ft_blueprint_output_bytes(b, &b->outputs[i], bucket) * b->outputs[i].micros,
                        err));
    return FT_OK;
}

ft_status ledger_take(ft_run *run, int64_t batch, ft_error *err)
{
    for (int d = 0; d < run->n_devices; d++)
        FT_TRY(give_back(run, &run->workers[d].fed_slots, batch, err));
    for (int i = 0; i < run->blueprint->n_outputs; i++)
        FT_TRY(give_back(run, &run->output_slots[i], batch, err));
    return FT_OK;
}
