/* fit/fit.c - moves for a plan whose state is larger than its devices. */
#include "fit/fit.h"

#include "base/arena.h"
#include "blueprint/states.h"

/* Bytes of a class of a seat: as places of its tensors, and as a unit. */
typedef struct extent {
    int64_t apart, together;
} extent;

static void add(extent *e, int64_t bytes)
{
    e->apart += ft_place_bytes(bytes);
    e->together += ft_memory_round(bytes);
}

/* What may move of a seat, by class. Weights of which older versions are kept stay, and
 * activations that wait for their backward longer than a batch. */
static void measure(const ft_blueprint *b, int s, extent out[FT_MEMORY_CLASSES])
{
    const ft_seat_layout *seat = &b->seats[s];
    const ft_stage *cut = seat->cut[0];
    bool stay = b->plan.versions[seat->stage] > 1;
    for (int i = 0; i < seat->n_params; i++) {
        const ft_seat_param *sp = &seat->params[i];
        const ft_param_layout *p = &b->params[sp->param];
        if (!stay && (sp->owned || sp->replica))
            add(&out[FT_MEMORY_WEIGHTS], ft_spec_bytes(&p->spec));
        if (sp->owned) add(&out[FT_MEMORY_OPTIMIZER], ft_blueprint_state_bytes(b, sp->param));
    }
    for (int i = 0; i < cut->n_grads; i++) {
        int param = ft_graph_grad_term(b->cut.graphs[0], cut->grads[i])->param;
        add(&out[FT_MEMORY_GRADIENTS], ft_spec_bytes(&b->params[param].spec));
    }
    for (int i = 0; i < seat->n_packs && !stay; i++)
        add(&out[ft_pack_class(seat, i)], seat->packs[i].bytes);
    int in_flight = seat->n_slots;
    if (!seat->slot_bytes || in_flight > b->cut.micro_batches) return;
    out[FT_MEMORY_ACTIVATIONS] =
        (extent){in_flight * seat->slot_bytes, ft_place_room(seat->slot_bytes)};
}

/* Whether it takes less to make copies of one direction than to bring them. */
static bool is_made(const ft_blueprint *b, int s, const int64_t bytes_of[FT_MEMORY_CLASSES])
{
    const ft_seat_layout *seat = &b->seats[s];
    int64_t bytes = bytes_of[FT_MEMORY_PACKED];
    double rate = ft_blueprint_copy_rate(b, seat->device);
    return bytes && b->costs.make_ns[seat->stage] < 1e9 * (double)bytes / rate;
}

static ft_status prepare(const ft_blueprint *b, const ft_fit *fit, ft_residency *out,
                         ft_arena *arena, ft_error *err)
{
    int n = b->seating.n_seats, n_devices = b->cut.n_devices;
    int64_t(*bytes)[FT_MEMORY_CLASSES] = ft_arena_array(arena, n, sizeof *bytes);
    int64_t *capacity = ft_arena_array(arena, n_devices, sizeof *capacity);
    bool *makes = ft_arena_array(arena, n, sizeof *makes);
    int64_t *least = ft_arena_array(arena, n_devices, sizeof *least);
    bool *early = ft_arena_array(arena, n_devices, sizeof *early);
    const char **names = ft_arena_array(arena, n_devices, sizeof *names);
    if (!bytes || !capacity || !makes || !least || !early || !names)
        return ft_fail(err, FT_NOMEM, "no memory to fit a plan");
    for (int d = 0; d < n_devices; d++) {
        names[d] = b->cut.devices[d].name;
        early[d] = fit->spare[d] < 0;
        capacity[d] = b->cut.devices[d].memory_bytes - b->blocks[d].total;
        if (!early[d]) capacity[d] -= fit->spare[d];
    }
    for (int s = 0; s < n; s++) {
        extent extents[FT_MEMORY_CLASSES] = {{0, 0}};
        measure(b, s, extents);
        for (int c = 0; c < FT_MEMORY_CLASSES; c++) {
            if (!(fit->classes >> c & 1)) continue;
            bytes[s][c] = ft_place_bytes(extents[c].together);
            capacity[b->seats[s].device] += extents[c].apart;
        }
        makes[s] = fit->makes && is_made(b, s, bytes[s]);
    }
    int ahead = fit->least ? 0 : fit->far_ahead ? FT_LOADS_FAR_AHEAD : FT_LOADS_AHEAD;
    *out = (ft_residency){.plan = &b->plan,
                          .bytes = (const int64_t(*)[FT_MEMORY_CLASSES])bytes,
                          .capacity = capacity,
                          .names = names,
                          .tasks = fit->tasks,
                          .ahead = ahead,
                          .room = fit->room,
                          .spreads = fit->spreads,
                          .scope = fit->scope,
                          .early = early,
                          .writes_back = fit->writes_back,
                          .updates_at_home = fit->updates_at_home,
                          .makes = makes};
    if (fit->least) return ft_residency_least(out, capacity, err);
    FT_TRY(ft_residency_least(out, least, err));
    for (int d = 0; d < n_devices; d++)
        if (early[d]) capacity[d] = least[d];
    for (int d = 0; d < n_devices; d++)
        if (capacity[d] < 0)
            return ft_fail(err, FT_INFEASIBLE,
                           "what does not move on device %s is %.1f MB over its budget already "
                           "(buffers, workspace, what may not move)",
                           b->cut.devices[d].name, -(double)capacity[d] / 1e6);
    return FT_OK;
}

ft_status ft_fit_plan(ft_plan **out, const ft_blueprint *b, const ft_fit *fit, ft_error *err)
{
    ft_residency q;
    *out = NULL;
    for (int s = 0; s < b->seating.n_seats; s++)
        for (int c = 0; c < FT_MEMORY_CLASSES; c++)
            if (b->seats[s].units[c])
                return ft_fail(err, FT_INVALID, "the plan moves the %s of stage %d already",
                               ft_memory_classes[c].name, b->seats[s].stage);
    ft_arena *arena = ft_arena_new();
    if (!arena) return ft_fail(err, FT_NOMEM, "no memory to fit a plan");
    ft_status status = prepare(b, fit, &q, arena, err);
    ft_volume *volumes = ft_arena_array(arena, b->cut.n_devices, sizeof *volumes);
    if (status == FT_OK && !volumes) status = ft_fail(err, FT_NOMEM, "no memory to fit a plan");
    if (status == FT_OK) status = ft_residency_plan(out, &q, volumes, err);
    ft_arena_free(arena);
    return status;
}
