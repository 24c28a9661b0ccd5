/* blueprint/cut.c - graphs cut into stages, and what a plan for them is made from. */
#include <string.h>

#include "blueprint/internal.h"

/* -- copies ------------------------------------------------------------------------------------ */

/* NULL stays NULL; `ok` turns false without memory. */
static void *copy_given(ft_arena *arena, const void *source, int64_t n, int64_t size, bool *ok)
{
    void *copy = source ? ft_arena_copy(arena, source, n, size) : NULL;
    *ok = *ok && (copy || !source);
    return copy;
}

static ft_status copy_machine(ft_blueprint *b, const ft_machine *m, ft_error *err)
{
    if (!m) return FT_OK;
    ft_machine *c = ft_arena_alloc(b->arena, sizeof *c);
    bool ok = c;
    if (ok) {
        *c = *m;
        c->links = copy_given(b->arena, m->links, m->n_links, sizeof *m->links, &ok);
        c->home = copy_given(b->arena, m->home, m->n_devices, sizeof *m->home, &ok);
        c->copy_bytes_per_s = copy_given(b->arena, m->copy_bytes_per_s, m->n_devices,
                                         sizeof *m->copy_bytes_per_s, &ok);
        c->launch_ns = copy_given(b->arena, m->launch_ns, m->n_devices, sizeof *m->launch_ns, &ok);
    }
    b->cut.machine = c;
    return ok ? FT_OK : no_memory(err);
}

static ft_status copy_cut(ft_blueprint *b, const ft_cut *o, ft_error *err)
{
    ft_cut *c = &b->cut;
    ft_arena *arena = b->arena;
    *c = *o;
    c->graphs = ft_arena_copy(arena, o->graphs, o->n_graphs, sizeof *o->graphs);
    c->node_stage =
        ft_arena_copy(arena, o->node_stage, ft_graph_n_forward(o->graphs[0]), sizeof(int));
    bool ok = true;
    c->joint_graphs = copy_given(arena, o->joint_graphs, o->n_graphs, sizeof *o->graphs, &ok);
    c->recompute = ft_arena_copy(arena, o->recompute, o->n_stages, sizeof(bool));
    c->splits = ft_arena_copy(arena, o->splits, o->n_stages, sizeof(bool));
    c->predicts = ft_arena_copy(arena, o->predicts, o->n_stages, sizeof(bool));
    c->attenuates = ft_arena_copy(arena, o->attenuates, o->n_stages, sizeof(bool));
    c->devices = ft_arena_copy(arena, o->devices, o->n_devices, sizeof *o->devices);
    if (!c->graphs || !c->node_stage || !c->recompute || !c->splits || !c->devices ||
        !c->predicts || !c->attenuates || !ok)
        return no_memory(err);
    return copy_machine(b, o->machine, err);
}

/* -- checks ------------------------------------------------------------------------------------ */

static ft_status check_cut(const ft_cut *o, ft_error *err)
{
    if (o->n_graphs < 1 || o->n_stages < 1 || o->n_devices < 1 || o->micro_batches < 1 ||
        o->n_batches < 1)
        return ft_fail(err, FT_INVALID,
                       "graphs %d, stages %d, devices %d, micro-batches %d, batches %d: each must "
                       "be at least 1",
                       o->n_graphs, o->n_stages, o->n_devices, o->micro_batches, o->n_batches);
    for (int s = 0; s < o->n_stages; s++)
        if (o->stage_device[s] < 0 || o->stage_device[s] >= o->n_devices)
            return ft_fail(err, FT_INVALID, "stage %d is on device %d, there are %d", s,
                           o->stage_device[s], o->n_devices);
    if (o->machine && o->machine->n_devices != o->n_devices)
        return ft_fail(err, FT_INVALID, "a machine of %d devices, there are %d",
                       o->machine->n_devices, o->n_devices);
    return FT_OK;
}

/* The graphs of all buckets, and of joint forwards, are one graph with other shapes. */
static ft_status check_same(const ft_graph *first, const ft_graph *g, const char *whose, int bucket,
                            ft_error *err)
{
    bool same = ft_graph_n_nodes(g) == ft_graph_n_nodes(first) &&
                ft_graph_n_values(g) == ft_graph_n_values(first) &&
                ft_graph_n_params(g) == ft_graph_n_params(first) &&
                ft_graph_n_inputs(g) == ft_graph_n_inputs(first) &&
                ft_graph_n_grads(g) == ft_graph_n_grads(first);
    for (int n = 0; same && n < ft_graph_n_nodes(g); n++)
        same = ft_graph_node(g, n)->op == ft_graph_node(first, n)->op &&
               ft_graph_node(g, n)->out == ft_graph_node(first, n)->out;
    if (same) return FT_OK;
    return ft_fail(err, FT_INVALID, "the %s of length bucket %d has other nodes than the first",
                   whose, bucket);
}

static ft_status check_graphs(const ft_cut *o, ft_error *err)
{
    for (int i = 1; i < o->n_graphs; i++)
        FT_TRY(check_same(o->graphs[0], o->graphs[i], "graph", i, err));
    for (int i = 0; o->joint_graphs && i < o->n_graphs; i++)
        FT_TRY(check_same(o->graphs[0], o->joint_graphs[i], "graph of joint forwards", i, err));
    return FT_OK;
}

static ft_status check_joint(const ft_cut *o, ft_error *err)
{
    for (int s = 0; o->joint && s < o->n_stages; s++) {
        if (o->joint[s] == 1) continue;
        if (o->forward_only || !o->joint_graphs)
            return ft_fail(err, FT_INVALID,
                           "stage %d takes %d micro-batches forward as one: expected %s", s,
                           o->joint[s],
                           o->forward_only ? "each by itself, in a plan of forwards alone"
                                           : "graphs of so many");
    }
    return FT_OK;
}

/* -- stages ------------------------------------------------------------------------------------ */

/* Where stages are, which the seating has from here on. */
static ft_status seat(ft_blueprint *b, ft_error *err)
{
    ft_cut *o = &b->cut;
    const ft_seat_request q = {.n_stages = o->n_stages,
                               .n_devices = o->n_devices,
                               .micro_batches = o->micro_batches,
                               .device = o->stage_device,
                               .replica_first = o->replica_first,
                               .replica_device = o->replica_device,
                               .replica_rule = o->replica_rule,
                               .joint = o->joint};
    o->stage_device = o->replica_first = o->replica_device = NULL; /* the caller's */
    o->replica_rule = NULL;
    o->joint = NULL;
    return ft_seating_new(&b->seating, b->arena, &q, err);
}

/* A layout for every replica. */
static ft_status lay_seats(ft_blueprint *b, ft_error *err)
{
    const ft_cut *o = &b->cut;
    const ft_seating *all = &b->seating;
    b->seats = ft_arena_array(b->arena, all->n_seats, sizeof *b->seats);
    if (!b->seats) return no_memory(err);
    for (int s = 0; s < all->n_seats; s++) {
        ft_seat_layout *seat = &b->seats[s];
        seat->stage = all->seat_stage[s];
        seat->replica = s - all->of[seat->stage].first;
        seat->device = all->seat_device[s];
        seat->splits = o->splits[seat->stage];
        seat->predicts = o->predicts[seat->stage];
        seat->attenuates = o->attenuates[seat->stage];
        seat->cut = ft_arena_array(b->arena, o->n_graphs, sizeof *seat->cut);
        if (!seat->cut) return no_memory(err);
        for (int i = 0; i < o->n_graphs; i++) seat->cut[i] = &b->splits[i]->stages[seat->stage];
    }
    return FT_OK;
}

static ft_status cut_graphs(ft_blueprint *b, ft_error *err)
{
    const ft_cut *o = &b->cut;
    b->splits = ft_arena_array(b->arena, o->n_graphs, sizeof *b->splits);
    if (!b->splits) return no_memory(err);
    for (int i = 0; i < o->n_graphs; i++)
        FT_TRY(ft_graph_split(o->graphs[i], o->node_stage, o->recompute, o->n_stages, &b->splits[i],
                              err));
    FT_TRY(seat(b, err));
    return lay_seats(b, err);
}

static ft_status find_loss(ft_blueprint *b, ft_error *err)
{
    const ft_graph *g = b->cut.graphs[0];
    b->loss = ft_graph_find(g, "loss");
    if (b->loss == FT_NO_VALUE || ft_graph_value(g, b->loss)->spec.shape.n_dims != 0)
        return ft_fail(err, FT_INVALID, "the graph has no scalar output named 'loss'");
    int stage = b->splits[0]->node_stage[ft_graph_value(g, b->loss)->source];
    for (int s = 0; s < b->seating.n_seats; s++) b->seats[s].sums_loss = b->seats[s].stage == stage;
    if (b->seating.of[stage].joint > 1)
        return ft_fail(
            err, FT_UNSUPPORTED,
            "stage %d makes the loss, of each micro-batch by itself: its forwards cannot "
            "be joint",
            stage);
    return FT_OK;
}

ft_status blueprint_cut(ft_blueprint *b, const ft_cut *cut, ft_error *err)
{
    FT_TRY(check_cut(cut, err));
    FT_TRY(check_graphs(cut, err));
    FT_TRY(check_joint(cut, err));
    FT_TRY(copy_cut(b, cut, err));
    const ft_graph *g = cut->graphs[0];
    b->n_params = ft_graph_n_params(g);
    b->n_inputs = ft_graph_n_inputs(g);
    b->n_terms = ft_graph_n_grads(g);
    b->together = cut->together;
    b->norms = cut->together || cut->late_norms;
    b->squares = b->norms;
    FT_TRY(cut_graphs(b, err));
    FT_TRY(find_loss(b, err));
    FT_TRY(blueprint_find_owners(b, err));
    FT_TRY(blueprint_find_edges(b, err));
    FT_TRY(blueprint_index_edges(b, err));
    return blueprint_find_nodes(b, err);
}

/* -- for a plan -------------------------------------------------------------------------------- */

static ft_status wire(ft_blueprint *draft, const ft_cut *cut, ft_wiring *wiring, ft_error *err)
{
    FT_TRY(blueprint_cut(draft, cut, err));
    FT_TRY(blueprint_choose_slots(draft, err));
    FT_TRY(blueprint_estimate(draft, err));
    wiring->n_edges = draft->n_plan_edges;
    wiring->edges = draft->plan_edges;
    wiring->costs = draft->costs;
    return FT_OK;
}

ft_status ft_wiring_new(ft_wiring **out, const ft_cut *cut, ft_error *err)
{
    *out = NULL;
    ft_arena *arena = ft_arena_new();
    ft_wiring *wiring = arena ? ft_arena_alloc(arena, sizeof *wiring) : NULL;
    ft_blueprint *draft = arena ? ft_arena_alloc(arena, sizeof *draft) : NULL;
    ft_status status = FT_NOMEM;
    if (!wiring || !draft)
        no_memory(err);
    else {
        wiring->arena = draft->arena = arena;
        status = wire(draft, cut, wiring, err);
    }
    if (status == FT_OK)
        *out = wiring;
    else
        ft_arena_free(arena);
    return status;
}

void ft_wiring_free(ft_wiring *wiring)
{
    if (wiring) ft_arena_free(wiring->arena);
}
