/* blueprint/stays.c - places of what comes and goes.
 *
 * A class of a stage that the plan moves is a unit: its tensors lie one behind the other, and it is
 * brought to the device and leaves it as a whole. From an action that brings it to the one with
 * which it leaves, it stays in one place. Another unit may have that place at another time: all
 * stays of a device share one part of its block, laid out by when they are. An action of the body
 * brings its unit to the same place in every repetition. */
#include <string.h>

#include "blueprint/internal.h"

static ft_status no_memory(ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "no memory for the places of what moves");
}

/* -- units ------------------------------------------------------------------------------------- */

static bool moves_class(const ft_action *a)
{
    return a->kind == FT_ACT_SWAP_OUT || a->kind == FT_ACT_SWAP_IN || a->kind == FT_ACT_DROP;
}

/* The unit that the action moves, or may be the first to write: activations of a forward, or of a
 * micro-batch whose were dropped, gradients of a batch's first backward; else NULL. */
static ft_unit *unit_of(const ft_blueprint *b, const ft_action *a)
{
    if (moves_class(a)) return b->stages[a->stage].units[a->item];
    if (a->kind == FT_ACT_FORWARD || a->kind == FT_ACT_RECOMPUTE)
        return b->stages[a->stage].units[FT_MEMORY_ACTIVATIONS];
    bool first = ft_action_per_micro(a->kind) && ft_blueprint_is_first(b, a) &&
                 ft_action_writes(a) >> FT_MEMORY_GRADIENTS & 1;
    return first ? b->stages[a->stage].units[FT_MEMORY_GRADIENTS] : NULL;
}

static bool leaves(const ft_action *a)
{
    return a->kind == FT_ACT_SWAP_OUT || a->kind == FT_ACT_DROP;
}

/* Activations whose last use the action is; else NULL. */
static ft_unit *ended_by(const ft_blueprint *b, const ft_action *a)
{
    const ft_stage_layout *stage = &b->stages[a->stage];
    return a->kind == (int)stage->last ? stage->units[FT_MEMORY_ACTIVATIONS] : NULL;
}

/* a: of a stage here, as everywhere below. An update in host memory finds the optimizer's state
 * there, which never leaves it. */
static ft_status note_unit(ft_blueprint *b, const ft_action *a, ft_error *err)
{
    bool home = ft_action_at_home(a);
    if (!home && !moves_class(a)) return FT_OK;
    ft_memory_class class = home ? FT_MEMORY_OPTIMIZER : (ft_memory_class)a->item;
    int versions = b->plan.versions[b->stages[a->stage].origin];
    ft_unit **place = &b->stages[a->stage].units[class];
    if (!*place) {
        *place = ft_arena_alloc(b->arena, sizeof **place);
        if (!*place) return no_memory(err);
        bool fresh = home || a->kind == FT_ACT_SWAP_IN || class == FT_MEMORY_GRADIENTS ||
                     class == FT_MEMORY_ACTIVATIONS;
        **place = (ft_unit){.stage = a->stage, .class = class, .starts = !fresh};
    }
    if (a->kind != FT_ACT_DROP || class != FT_MEMORY_GRADIENTS) (*place)->goes_home = true;
    bool weights = class == FT_MEMORY_WEIGHTS || class == FT_MEMORY_PACKED;
    if (weights && versions > 1)
        return ft_fail(err, FT_UNSUPPORTED,
                       "stage %d keeps %d versions of its weights: they cannot leave its device",
                       b->stages[a->stage].origin, versions);
    if (weights && b->evaluation)
        return ft_fail(err, FT_UNSUPPORTED,
                       "evaluation reads weights on the devices of training, where the plan has "
                       "those of stage %d not always: evaluate in a run of its own",
                       b->stages[a->stage].origin);
    return FT_OK;
}

static ft_action_list *list_of(const ft_device_plan *plan, int part)
{
    const ft_action_list *lists[] = {&plan->warmup, &plan->body, &plan->drain};
    return (ft_action_list *)(uintptr_t)lists[part];
}

/* Micro-batches between their forward and the end of their backward, at most. */
static ft_status count_windows(ft_blueprint *b, int d, ft_error *err)
{
    const ft_device_plan *plan = &b->plan.devices[d];
    int *under_way = ft_arena_array(b->arena, b->cut.n_stages, sizeof *under_way);
    if (!under_way) return no_memory(err);
    for (int part = 0; part < 3; part++)
        for (int times = 0; times < (part == 1 ? b->plan.body_repeats : 1) && times < 2; times++)
            for (int i = 0; i < list_of(plan, part)->n; i++) {
                ft_action a = ft_blueprint_here(b, d, list_of(plan, part)->actions[i]);
                ft_stage_layout *stage = &b->stages[a.stage];
                int *n = &under_way[a.stage];
                *n += (a.kind == FT_ACT_FORWARD) - (a.kind == (int)stage->last);
                if (*n > stage->n_under_way) stage->n_under_way = *n;
                if (stage->units[FT_MEMORY_ACTIVATIONS]) stage->window = stage->n_under_way;
            }
    return FT_OK;
}

ft_status blueprint_find_units(ft_blueprint *b, ft_error *err)
{
    for (int d = 0; d < b->cut.n_devices; d++)
        for (int part = 0; part < 3; part++) {
            const ft_action_list *list = list_of(&b->plan.devices[d], part);
            for (int i = 0; i < list->n; i++) {
                ft_action a = ft_blueprint_here(b, d, list->actions[i]);
                FT_TRY(note_unit(b, &a, err));
            }
        }
    for (int d = 0; d < b->cut.n_devices; d++) FT_TRY(count_windows(b, d, err));
    return FT_OK;
}

/* Numbers of what is on devices at once: units by stage and class, but activations by stage and
 * micro-batch, those behind the others. first: by stage. Returns how many. */
static int count_spots(const ft_blueprint *b, int *first)
{
    int n = b->cut.n_stages * FT_MEMORY_CLASSES;
    for (int s = 0; s < b->cut.n_stages; s++) {
        first[s] = n;
        n += b->stages[s].window;
    }
    return n;
}

static int spot_of(const ft_blueprint *b, const int *first, const ft_unit *u, int64_t micro)
{
    if (u->class != FT_MEMORY_ACTIVATIONS) return u->stage * FT_MEMORY_CLASSES + (int)u->class;
    return first[u->stage] + (int)(micro % b->stages[u->stage].window);
}

/* -- when they are there ----------------------------------------------------------------------- */

typedef struct replay {
    ft_blueprint *b;
    int device;
    int first;    /* stay of the device */
    int position; /* in its list */
    int n_spots, *first_spot;
    int *open;             /* by spot: the stay; 0: none */
    int *since;            /* likewise: position */
    bool *is_taken;        /* by stay, from `first`: by what came in an earlier repetition */
    int64_t later_batches; /* in this repetition */
    ft_interval *times;
    int *item; /* of each time: its stay, from `first` */
    int n_times;
    int64_t live[FT_MEMORY_CLASSES];
    ft_block_layout *block;
} replay;

static int new_stay(ft_blueprint *b, const ft_unit *u)
{
    b->stays[++b->n_stays] = (ft_stay){.unit = u};
    return b->n_stays;
}

static ft_status begin_stay(replay *r, const ft_unit *u, int spot, int stay, ft_error *err)
{
    if (r->is_taken[stay - r->first])
        return ft_fail(err, FT_UNSUPPORTED,
                       "micro-batches of stage %d wait for their backwards past a repetition of "
                       "the plan's body: their activations cannot move",
                       u->stage);
    r->is_taken[stay - r->first] = true;
    r->open[spot] = stay;
    r->since[spot] = r->position;
    int64_t live = r->live[u->class] += ft_place_bytes(u->bytes);
    if (live > r->block->moving[u->class]) r->block->moving[u->class] = live;
    return FT_OK;
}

static void end_stay(replay *r, const ft_unit *u, int spot)
{
    int64_t bytes = ft_place_bytes(u->bytes);
    r->times[r->n_times] = (ft_interval){bytes, r->since[spot], r->position};
    r->item[r->n_times++] = r->open[spot] - r->first;
    r->is_taken[r->open[spot] - r->first] = false;
    r->open[spot] = 0;
    r->live[u->class] -= bytes;
}

/* `own`: the action of the list, which gets its stay. */
static ft_status pass(replay *r, ft_action *own, ft_error *err)
{
    ft_action here = ft_blueprint_here(r->b, r->device, *own), *a = &here;
    const ft_unit *u = unit_of(r->b, a), *ended = ended_by(r->b, a);
    int64_t per_batch = r->b->seating.of[own->stage].per_batch;
    int64_t micro = r->later_batches * per_batch + ft_blueprint_index(r->b, a);
    int spot = u ? spot_of(r->b, r->first_spot, u, micro) : 0;
    r->position++;
    if (u && leaves(a)) {
        end_stay(r, u, spot);
    } else if (u && !r->open[spot]) {
        if (!own->stay) own->stay = new_stay(r->b, u);
        FT_TRY(begin_stay(r, u, spot, own->stay, err));
    }
    if (ended) end_stay(r, ended, spot_of(r->b, r->first_spot, ended, micro));
    return FT_OK;
}

/* What is repeated more than twice, is as the second time: a unit is gone before it comes again. */
static ft_status replay_device(replay *r, ft_error *err)
{
    int d = r->device;
    const ft_device_plan *plan = &r->b->plan.devices[d];
    int n_units = r->b->cut.n_stages * FT_MEMORY_CLASSES;
    for (int i = 0; i < n_units; i++) {
        ft_unit *u = r->b->stages[i / FT_MEMORY_CLASSES].units[i % FT_MEMORY_CLASSES];
        if (!u || !u->starts || r->b->stages[u->stage].device != d) continue;
        u->first_stay = new_stay(r->b, u);
        FT_TRY(begin_stay(r, u, i, u->first_stay, err));
    }
    int64_t later = r->b->plan.body_batches;
    int repeats = r->b->plan.body_repeats;
    for (int part = 0; part < 3; part++)
        for (int times = 0; times < (part == 1 ? repeats : 1) && times < 2; times++) {
            /* the drain's are those behind all repetitions */
            r->later_batches = part == 1                  ? times * later
                               : part == 2 && repeats > 2 ? (2 - repeats) * later
                                                          : 0;
            for (int i = 0; i < list_of(plan, part)->n; i++)
                FT_TRY(pass(r, (ft_action *)(uintptr_t)&list_of(plan, part)->actions[i], err));
        }
    for (int i = 0; i < n_units; i++)
        if (r->open[i])
            end_stay(r, r->b->stages[i / FT_MEMORY_CLASSES].units[i % FT_MEMORY_CLASSES], i);
    return FT_OK;
}

/* -- places ------------------------------------------------------------------------------------ */

static int64_t stored(const ft_device_plan *plan)
{
    return (int64_t)plan->warmup.n + 2 * (int64_t)plan->body.n + plan->drain.n;
}

static ft_status place_device(ft_blueprint *b, int d, ft_error *err)
{
    replay r = {.b = b, .device = d, .first = b->n_stays + 1, .block = &b->blocks[d]};
    r.first_spot = ft_arena_array(b->arena, b->cut.n_stages, sizeof *r.first_spot);
    if (!r.first_spot) return no_memory(err);
    int n_spots = count_spots(b, r.first_spot);
    int64_t most = stored(&b->plan.devices[d]) + n_spots;
    r.open = ft_arena_array(b->arena, n_spots, sizeof *r.open);
    r.since = ft_arena_array(b->arena, n_spots, sizeof *r.since);
    r.is_taken = ft_arena_array(b->arena, most + 1, sizeof *r.is_taken);
    r.times = ft_arena_array(b->arena, most, sizeof *r.times);
    r.item = ft_arena_array(b->arena, most, sizeof *r.item);
    if (!r.open || !r.since || !r.is_taken || !r.times || !r.item) return no_memory(err);
    FT_TRY(replay_device(&r, err));
    int n = b->n_stays + 1 - r.first;
    int64_t *offsets = ft_arena_array(b->arena, n + 1, sizeof *offsets);
    if (!offsets) return no_memory(err);
    FT_TRY(ft_memory_layout_times(r.times, r.item, r.n_times, n, offsets, &r.block->moving_bytes,
                                  err));
    for (int i = 0; i < n; i++) b->stays[r.first + i].at = offsets[i];
    return FT_OK;
}

/* Lists of the blueprint's own, for the numbers of stays. */
static ft_status copy_lists(ft_blueprint *b, ft_error *err)
{
    int n = b->cut.n_devices;
    ft_device_plan *devices = blueprint_copy(b->arena, b->plan.devices, n, sizeof *devices);
    if (!devices) return no_memory(err);
    for (int d = 0; d < n; d++)
        for (int part = 0; part < 3; part++) {
            ft_action_list *list = list_of(&devices[d], part);
            ft_action *own = blueprint_copy(b->arena, list->actions, list->n, sizeof *own);
            if (!own) return no_memory(err);
            for (int i = 0; i < list->n; i++) own[i].stay = 0;
            list->actions = own;
        }
    b->plan.devices = devices;
    return FT_OK;
}

ft_status blueprint_place_stays(ft_blueprint *b, ft_error *err)
{
    bool any = false;
    int64_t most = 1;
    for (int s = 0; s < b->cut.n_stages; s++)
        for (int c = 0; c < FT_MEMORY_CLASSES; c++) any = any || b->stages[s].units[c];
    if (!any) return FT_OK;
    FT_TRY(copy_lists(b, err));
    for (int d = 0; d < b->cut.n_devices; d++) most += stored(&b->plan.devices[d]);
    most += (int64_t)b->cut.n_stages * FT_MEMORY_CLASSES;
    b->stays = ft_arena_array(b->arena, most, sizeof *b->stays);
    if (!b->stays) return no_memory(err);
    for (int d = 0; d < b->cut.n_devices; d++) FT_TRY(place_device(b, d, err));
    return FT_OK;
}

/* -- proof ------------------------------------------------------------------------------------- */

/* What is on a device. */
typedef struct resident {
    const ft_unit *unit;
    int64_t micro; /* in the leg; of activations alone */
    int64_t at;
} resident;

static ft_status arrive(const ft_blueprint *b, resident *there, int *n, const ft_unit *u,
                        int64_t micro, int stay, ft_error *err)
{
    const ft_block_layout *block = &b->blocks[b->stages[u->stage].device];
    int64_t bytes = ft_place_bytes(u->bytes);
    if (stay < 1 || stay > b->n_stays || b->stays[stay].unit != u)
        return ft_fail(err, FT_INVALID,
                       "the %s of stage %d have no place: the leg is of another "
                       "plan",
                       ft_memory_classes[u->class].name, u->stage);
    int64_t at = b->stays[stay].at;
    if (at < block->moving_at || at + bytes > block->moving_at + block->moving_bytes)
        return ft_fail(err, FT_INVALID, "the %s of stage %d lie outside their part of the block",
                       ft_memory_classes[u->class].name, u->stage);
    for (int i = 0; i < *n; i++) {
        const ft_unit *other = there[i].unit;
        if (at >= there[i].at + ft_place_bytes(other->bytes) || there[i].at >= at + bytes) continue;
        return ft_fail(err, FT_INVALID,
                       "the %s of stage %d would come to where the %s of stage %d are: in a leg "
                       "of %d batches they have not left; give what leaves the number of the batch "
                       "that needs it last",
                       ft_memory_classes[u->class].name, u->stage,
                       ft_memory_classes[other->class].name, other->stage, b->plan.n_batches);
    }
    there[(*n)++] = (resident){u, micro, at};
    return FT_OK;
}

static int find_resident(const resident *there, int n, const ft_unit *u, int64_t micro)
{
    int i = 0;
    while (i < n && (there[i].unit != u || there[i].micro != micro)) i++;
    return i;
}

static void depart(resident *there, int *n, const ft_unit *u, int64_t micro)
{
    int k = find_resident(there, *n, u, micro);
    if (k < *n) there[k] = there[--*n];
}

static int64_t micro_of(const ft_blueprint *b, const ft_unit *u, const ft_action *a)
{
    return u->class == FT_MEMORY_ACTIVATIONS ? ft_blueprint_index(b, a) : 0;
}

static ft_status prove_device(const ft_blueprint *b, const ft_plan *plan, int d, resident *there,
                              ft_error *err)
{
    int n = 0;
    for (int s = 0; s < b->cut.n_stages; s++)
        for (int c = 0; b->stages[s].device == d && c < FT_MEMORY_CLASSES; c++) {
            const ft_unit *u = b->stages[s].units[c];
            if (u && u->starts) FT_TRY(arrive(b, there, &n, u, 0, u->first_stay, err));
        }
    for (int64_t i = 0; i < ft_plan_length(plan, d); i++) {
        ft_action a = ft_blueprint_here(b, d, ft_plan_at(plan, d, i));
        const ft_unit *u = unit_of(b, &a), *ended = ended_by(b, &a);
        int64_t micro = u ? micro_of(b, u, &a) : 0;
        if (u && leaves(&a))
            depart(there, &n, u, micro);
        else if (u && find_resident(there, n, u, micro) == n)
            FT_TRY(arrive(b, there, &n, u, micro, a.stay, err));
        if (ended) depart(there, &n, ended, ft_blueprint_index(b, &a));
    }
    return FT_OK;
}

ft_status ft_blueprint_prove(const ft_blueprint *b, const ft_plan *leg, ft_error *err)
{
    if (!b->n_stays) return FT_OK;
    int64_t most = (int64_t)b->cut.n_stages * FT_MEMORY_CLASSES;
    for (int s = 0; s < b->cut.n_stages; s++) most += b->stages[s].window;
    ft_arena *arena = ft_arena_new();
    resident *there = arena ? ft_arena_array(arena, most, sizeof *there) : NULL;
    ft_status status = there ? FT_OK : no_memory(err);
    for (int d = 0; status == FT_OK && d < b->cut.n_devices; d++)
        status = prove_device(b, leg, d, there, err);
    ft_arena_free(arena);
    return status;
}
