/* stays/stays.c - what a plan moves, and a place for every time that it is on its device. */
#include "stays/stays.h"

#include "stays/internal.h"

static ft_status no_memory(ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "no memory for the places of what moves");
}

/* -- units ------------------------------------------------------------------------------------- */

const ft_unit *stays_unit(const ft_stays *stays, const ft_action *a)
{
    ft_unit *const *units = stays->units[a->seat];
    if (ft_action_moves(a)) return units[a->item];
    if (a->kind == FT_ACT_FORWARD || a->kind == FT_ACT_RECOMPUTE)
        return units[FT_MEMORY_ACTIVATIONS];
    bool first = ft_action_per_micro(a->kind) && ft_seat_is_first(stays->seating, a) &&
                 ft_action_writes(a) >> FT_MEMORY_GRADIENTS & 1;
    return first ? units[FT_MEMORY_GRADIENTS] : NULL;
}

const ft_unit *stays_ended(const ft_stays *stays, const ft_action *a)
{
    bool last = a->kind == (int)stays->last[a->seat];
    return last ? stays->units[a->seat][FT_MEMORY_ACTIVATIONS] : NULL;
}

int stays_stage(const ft_stays *stays, const ft_unit *u)
{
    return stays->seating->seat_stage[u->seat];
}

/* An update in host memory finds the optimizer's state there, which never leaves it. */
static ft_status note_unit(ft_stays *stays, ft_arena *arena, const ft_action *a, ft_error *err)
{
    bool home = ft_action_at_home(a);
    if (!home && !ft_action_moves(a)) return FT_OK;
    ft_memory_class class = home ? FT_MEMORY_OPTIMIZER : (ft_memory_class)a->item;
    ft_unit **unit = &stays->units[a->seat][class];
    if (!*unit) {
        *unit = ft_arena_alloc(arena, sizeof **unit);
        if (!*unit) return no_memory(err);
        bool fresh = home || a->kind == FT_ACT_SWAP_IN || a->kind == FT_ACT_MAKE ||
                     class == FT_MEMORY_GRADIENTS || class == FT_MEMORY_ACTIVATIONS;
        **unit = (ft_unit){.seat = a->seat, .class = class, .starts = !fresh};
    }
    if (a->kind != FT_ACT_DROP || class != FT_MEMORY_GRADIENTS) (*unit)->goes_home = true;
    if (a->kind == FT_ACT_MAKE) (*unit)->is_made = true;
    return FT_OK;
}

/* What is repeated more than twice, is as the second time: a unit is gone before it comes again. */
static int times_of(const ft_plan *plan, int part)
{
    if (part != FT_PART_BODY) return 1;
    return plan->body_repeats < 2 ? plan->body_repeats : 2;
}

static void count_under_way(ft_stays *stays, int *now, const ft_plan *plan, int d)
{
    for (int part = 0; part < FT_PARTS; part++) {
        const ft_action_list *list = ft_plan_list(plan, d, part);
        for (int times = 0; times < times_of(plan, part); times++)
            for (int i = 0; i < list->n; i++) {
                ft_action a = ft_seated(stays->seating, d, list->actions[i]);
                int s = a.seat;
                now[s] += (a.kind == FT_ACT_FORWARD) - (a.kind == (int)stays->last[s]);
                if (now[s] > stays->under_way[s]) stays->under_way[s] = now[s];
            }
    }
}

ft_status ft_stays_find(ft_stays *out, ft_arena *arena, const ft_plan *plan,
                        const ft_seating *seating, ft_error *err)
{
    int n = seating->n_seats;
    int *now = ft_arena_array(arena, n, sizeof *now);
    *out = (ft_stays){.seating = seating};
    out->units = ft_arena_array(arena, n, sizeof *out->units);
    out->last = ft_arena_array(arena, n, sizeof *out->last);
    out->under_way = ft_arena_array(arena, n, sizeof *out->under_way);
    out->window = ft_arena_array(arena, n, sizeof *out->window);
    out->parts = ft_arena_array(arena, plan->n_devices, sizeof *out->parts);
    if (!now || !out->units || !out->last || !out->under_way || !out->window || !out->parts)
        return no_memory(err);
    for (int s = 0; s < n; s++) out->last[s] = ft_plan_last(plan, seating->seat_stage[s]);
    for (int d = 0; d < plan->n_devices; d++) {
        for (int part = 0; part < FT_PARTS; part++) {
            const ft_action_list *list = ft_plan_list(plan, d, part);
            for (int i = 0; i < list->n; i++) {
                ft_action a = ft_seated(seating, d, list->actions[i]);
                FT_TRY(note_unit(out, arena, &a, err));
            }
        }
        count_under_way(out, now, plan, d);
    }
    for (int s = 0; s < n; s++)
        if (out->units[s][FT_MEMORY_ACTIVATIONS]) out->window[s] = out->under_way[s];
    return FT_OK;
}

/* -- when they are there ----------------------------------------------------------------------- */

/* Numbers of what is on devices at once: units by seat and class, but activations by seat and
 * micro-batch, those behind the others. first: by seat. Returns how many. */
static int count_spots(const ft_stays *stays, int *first)
{
    int n = stays->seating->n_seats * FT_MEMORY_CLASSES;
    for (int s = 0; s < stays->seating->n_seats; s++) {
        first[s] = n;
        n += stays->window[s];
    }
    return n;
}

typedef struct replay {
    ft_stays *stays;
    const ft_plan *plan;
    int device;
    ft_action *own[FT_PARTS]; /* the actions of its lists, which get their stays */
    ft_stays_part *part;
    int position; /* in its list */
    int *first_spot;
    int *open;             /* by spot: the stay; 0: none */
    int *since;            /* likewise: position */
    bool *is_taken;        /* by stay of the part: by what came in an earlier repetition */
    int64_t later_batches; /* in this repetition */
    ft_interval *times;
    int *item; /* of each time: its stay, of the part */
    int n_times;
    int64_t live[FT_MEMORY_CLASSES];
} replay;

static int spot_of(const replay *r, const ft_unit *u, int64_t micro)
{
    if (u->class != FT_MEMORY_ACTIVATIONS) return u->seat * FT_MEMORY_CLASSES + (int)u->class;
    return r->first_spot[u->seat] + (int)(micro % r->stays->window[u->seat]);
}

static int new_stay(replay *r, const ft_unit *u)
{
    r->stays->of[++r->stays->n] = (ft_stay){.unit = u};
    r->part->n++;
    return r->stays->n;
}

static ft_status begin_stay(replay *r, const ft_unit *u, int spot, int stay, ft_error *err)
{
    if (r->is_taken[stay - r->part->first])
        return ft_fail(err, FT_UNSUPPORTED,
                       "micro-batches of stage %d wait for their backwards past a repetition of "
                       "the plan's body: their activations cannot move",
                       stays_stage(r->stays, u));
    r->is_taken[stay - r->part->first] = true;
    r->open[spot] = stay;
    r->since[spot] = r->position;
    int64_t live = r->live[u->class] += ft_place_bytes(u->bytes);
    if (live > r->part->most[u->class]) r->part->most[u->class] = live;
    return FT_OK;
}

static void end_stay(replay *r, const ft_unit *u, int spot)
{
    int64_t bytes = ft_place_bytes(u->bytes);
    r->times[r->n_times] = (ft_interval){bytes, r->since[spot], r->position};
    r->item[r->n_times++] = r->open[spot] - r->part->first;
    r->is_taken[r->open[spot] - r->part->first] = false;
    r->open[spot] = 0;
    r->live[u->class] -= bytes;
}

/* `own`: the action of the list, which gets its stay. */
static ft_status pass(replay *r, ft_action *own, ft_error *err)
{
    const ft_seating *seating = r->stays->seating;
    const ft_action here = ft_seated(seating, r->device, *own), *a = &here;
    const ft_unit *u = stays_unit(r->stays, a), *ended = stays_ended(r->stays, a);
    int64_t per_batch = seating->of[own->stage].per_batch;
    int64_t micro = r->later_batches * per_batch + ft_seat_index(seating, a);
    int spot = u ? spot_of(r, u, micro) : 0;
    r->position++;
    if (u && ft_action_leaves(a)) {
        end_stay(r, u, spot);
    } else if (u && !r->open[spot]) {
        if (!own->stay) own->stay = new_stay(r, u);
        FT_TRY(begin_stay(r, u, spot, own->stay, err));
    }
    if (ended) end_stay(r, ended, spot_of(r, ended, micro));
    return FT_OK;
}

/* How much later the batches of a part are than it says; those of the drain are behind all
 * repetitions. */
static int64_t later_batches(const ft_plan *plan, int part, int times)
{
    int64_t later = part == FT_PART_BODY ? times : 0;
    if (part == FT_PART_DRAIN) later = times_of(plan, FT_PART_BODY) - plan->body_repeats;
    return later * plan->body_batches;
}

static ft_unit *unit_at(const ft_stays *stays, int spot)
{
    return stays->units[spot / FT_MEMORY_CLASSES][spot % FT_MEMORY_CLASSES];
}

static ft_status replay_device(replay *r, ft_error *err)
{
    const ft_seating *seating = r->stays->seating;
    int n_units = seating->n_seats * FT_MEMORY_CLASSES;
    for (int i = 0; i < n_units; i++) {
        ft_unit *u = unit_at(r->stays, i);
        if (!u || !u->starts || seating->seat_device[u->seat] != r->device) continue;
        u->first_stay = new_stay(r, u);
        FT_TRY(begin_stay(r, u, i, u->first_stay, err));
    }
    for (int part = 0; part < FT_PARTS; part++)
        for (int times = 0; times < times_of(r->plan, part); times++) {
            r->later_batches = later_batches(r->plan, part, times);
            for (int i = 0; i < ft_plan_list(r->plan, r->device, part)->n; i++)
                FT_TRY(pass(r, &r->own[part][i], err));
        }
    for (int i = 0; i < n_units; i++)
        if (r->open[i]) end_stay(r, unit_at(r->stays, i), i);
    return FT_OK;
}

/* -- places ------------------------------------------------------------------------------------ */

/* At most so many stays begin in a device's lists. */
static int64_t begun_in(const ft_plan *plan, int d)
{
    const ft_device_plan *lists = &plan->devices[d];
    return (int64_t)lists->warmup.n + 2 * (int64_t)lists->body.n + lists->drain.n;
}

static ft_status place_device(replay *r, ft_arena *arena, ft_error *err)
{
    r->first_spot = ft_arena_array(arena, r->stays->seating->n_seats, sizeof *r->first_spot);
    if (!r->first_spot) return no_memory(err);
    int n_spots = count_spots(r->stays, r->first_spot);
    int64_t most = begun_in(r->plan, r->device) + n_spots;
    r->open = ft_arena_array(arena, n_spots, sizeof *r->open);
    r->since = ft_arena_array(arena, n_spots, sizeof *r->since);
    r->is_taken = ft_arena_array(arena, most + 1, sizeof *r->is_taken);
    r->times = ft_arena_array(arena, most, sizeof *r->times);
    r->item = ft_arena_array(arena, most, sizeof *r->item);
    if (!r->open || !r->since || !r->is_taken || !r->times || !r->item) return no_memory(err);
    FT_TRY(replay_device(r, err));
    int n = r->part->n;
    int64_t *offsets = ft_arena_array(arena, n + 1, sizeof *offsets);
    if (!offsets) return no_memory(err);
    FT_TRY(ft_memory_layout_times(r->times, r->item, r->n_times, n, offsets, &r->part->bytes, err));
    for (int i = 0; i < n; i++) r->stays->of[r->part->first + i].at = offsets[i];
    return FT_OK;
}

/* A list of the plan's own, for the numbers of stays. */
static ft_status copy_list(ft_action_list *list, ft_action **own, ft_arena *arena, ft_error *err)
{
    *own = ft_arena_array(arena, list->n + 1, sizeof **own);
    if (!*own) return no_memory(err);
    for (int i = 0; i < list->n; i++) {
        (*own)[i] = list->actions[i];
        (*own)[i].stay = 0;
    }
    list->actions = *own;
    return FT_OK;
}

ft_status ft_stays_place(ft_stays *stays, ft_arena *arena, ft_plan *plan, ft_error *err)
{
    int n_devices = plan->n_devices, n_units = stays->seating->n_seats * FT_MEMORY_CLASSES;
    int64_t most = 1 + (int64_t)n_units;
    bool any = false;
    for (int i = 0; i < n_units; i++) any = any || unit_at(stays, i);
    if (!any) return FT_OK;
    for (int d = 0; d < n_devices; d++) most += begun_in(plan, d);
    stays->of = ft_arena_array(arena, most, sizeof *stays->of);
    ft_device_plan *devices = ft_arena_array(arena, n_devices, sizeof *devices);
    if (!stays->of || !devices) return no_memory(err);
    for (int d = 0; d < n_devices; d++) {
        replay r = {.stays = stays, .plan = plan, .device = d, .part = &stays->parts[d]};
        r.part->first = stays->n + 1;
        devices[d] = plan->devices[d];
        FT_TRY(copy_list(&devices[d].warmup, &r.own[FT_PART_WARMUP], arena, err));
        FT_TRY(copy_list(&devices[d].body, &r.own[FT_PART_BODY], arena, err));
        FT_TRY(copy_list(&devices[d].drain, &r.own[FT_PART_DRAIN], arena, err));
        FT_TRY(place_device(&r, arena, err));
    }
    plan->devices = devices;
    return FT_OK;
}

void ft_stays_shift(ft_stays *stays, int device, int64_t begin)
{
    ft_stays_part *part = &stays->parts[device];
    part->begin += begin;
    for (int i = 0; i < part->n; i++) stays->of[part->first + i].at += begin;
}
