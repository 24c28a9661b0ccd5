/* blueprint/visits.c - evaluation with weights that training moves.
 *
 * Between legs what training moves is at home, in host memory. A seat of evaluation has units of
 * its own then: of the weights and packed copies that it reads, those that have a home. A load
 * copies them out of their homes, one behind the other, into the part of the block in which
 * training has what moves; nothing of them changes, so they are dropped. What is brought when
 * follows from the order of forwards and from how large that part is. */
#include <string.h>

#include "blueprint/internal.h"
#include "residency/residency.h"

/* Whether training moves the parameter, where a seat of evaluation reads it. */
static bool moves_param(const ft_blueprint *b, const ft_seat_param *sp)
{
    const ft_blueprint *t = b->trains;
    int param = b->params[sp->param].trained;
    const ft_seat_layout *holder = &t->seats[sp->trained];
    for (int i = 0; i < holder->n_params; i++) {
        const ft_seat_param *trained = &holder->params[i];
        if (trained->param != param) continue;
        bool own = trained->owned || trained->replica;
        const ft_seat_layout *of = own ? holder : &t->seats[t->params[param].owner];
        return of->units[FT_MEMORY_WEIGHTS] != NULL;
    }
    return false;
}

static bool moves_pack(const ft_blueprint *b, const ft_seat_layout *seat, int pack)
{
    const ft_seat_layout *trained = &b->trains->seats[seat->pack_seat[pack]];
    return trained->units[ft_pack_class(trained, (int)seat->pack_at[pack])] != NULL;
}

/* Places of what moves, in its unit; -1 of the rest. Adds its bytes to those of the class. */
static void place_seat(ft_blueprint *b, int s, int64_t bytes[FT_MEMORY_CLASSES])
{
    ft_seat_layout *seat = &b->seats[s];
    for (int i = 0; i < seat->n_params; i++) {
        ft_seat_param *sp = &seat->params[i];
        sp->at = moves_param(b, sp) ? bytes[FT_MEMORY_WEIGHTS] : -1;
        if (sp->at >= 0)
            bytes[FT_MEMORY_WEIGHTS] += ft_memory_round(ft_spec_bytes(&b->params[sp->param].spec));
    }
    for (int i = 0; i < seat->n_packs; i++) {
        seat->pack_visit[i] = moves_pack(b, seat, i) ? bytes[FT_MEMORY_PACKED] : -1;
        if (seat->pack_visit[i] >= 0)
            bytes[FT_MEMORY_PACKED] += ft_memory_round(seat->packs[i].bytes);
    }
}

/* The lists of the plan become those of another one, which dies. */
static ft_status take_lists(ft_blueprint *b, const ft_plan *from, ft_error *err)
{
    int n = b->cut.n_devices;
    ft_device_plan *devices = ft_arena_copy(b->arena, from->devices, n, sizeof *devices);
    if (!devices) return no_memory(err);
    for (int d = 0; d < n; d++) {
        ft_action_list *lists[] = {&devices[d].warmup, &devices[d].body, &devices[d].drain};
        for (int i = 0; i < 3; i++) {
            lists[i]->actions =
                ft_arena_copy(b->arena, lists[i]->actions, lists[i]->n, sizeof(ft_action));
            lists[i]->lines = NULL;
            if (!lists[i]->actions) return no_memory(err);
        }
    }
    b->plan.devices = devices;
    b->plan.body_batches = from->body_batches;
    b->plan.body_repeats = from->body_repeats;
    return FT_OK;
}

static ft_status plan_visits(ft_blueprint *b, const int64_t (*bytes)[FT_MEMORY_CLASSES],
                             ft_error *err)
{
    int n = b->cut.n_devices;
    ft_plan *plan = NULL;
    int64_t *capacity = ft_arena_array(b->arena, n, sizeof *capacity);
    ft_volume *volumes = ft_arena_array(b->arena, n, sizeof *volumes);
    if (!capacity || !volumes) return no_memory(err);
    const ft_residency q = {
        .plan = &b->plan, .bytes = bytes, .capacity = capacity, .ahead = FT_LOADS_AHEAD};
    FT_TRY(ft_residency_least(&q, capacity, err));
    for (int d = 0; d < n; d++)
        if (b->trains->stays.parts[d].bytes > capacity[d])
            capacity[d] = b->trains->stays.parts[d].bytes;
    FT_TRY(ft_residency_plan(&plan, &q, volumes, err));
    ft_status status = take_lists(b, plan, err);
    ft_plan_free(plan);
    return status;
}

ft_status blueprint_plan_visits(ft_blueprint *b, ft_error *err)
{
    int n = b->seating.n_seats;
    bool any = false;
    int64_t(*bytes)[FT_MEMORY_CLASSES] = ft_arena_array(b->arena, n, sizeof *bytes);
    if (!bytes) return no_memory(err);
    for (int s = 0; s < n; s++) {
        place_seat(b, s, bytes[s]);
        for (int c = 0; c < FT_MEMORY_CLASSES; c++) {
            bytes[s][c] = ft_place_bytes(bytes[s][c]);
            any = any || bytes[s][c];
        }
    }
    return any ? plan_visits(b, (const int64_t(*)[FT_MEMORY_CLASSES])bytes, err) : FT_OK;
}

void blueprint_size_visits(ft_blueprint *b)
{
    for (int s = 0; s < b->seating.n_seats; s++) {
        int64_t bytes[FT_MEMORY_CLASSES] = {0};
        place_seat(b, s, bytes); /* where it is already */
        for (int c = 0; c < FT_MEMORY_CLASSES; c++) {
            ft_unit *unit = bytes[c] ? b->seats[s].units[c] : NULL;
            if (!unit) continue;
            unit->bytes = bytes[c];
            unit->visits = true;
            unit->goes_home = false;
        }
    }
}
