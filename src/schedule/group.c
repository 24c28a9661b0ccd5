/* schedule/group.c - a device takes all micro-batches of a batch through one of its stages, then
 * through the next: what a stage keeps is needed once for all of its forwards and once for all of
 * its backwards, and its update follows these at once.
 *
 * Forwards go from the stages that are furthest from the loss to it, backwards from there back.
 * An update that has to wait for the gradients of stages whose backwards come later (clipping by
 * the norm of all, some ties) stands at the end of its batch. Source: Li, Phanishayee, Murray, Kim:
 * "Doing more with less: training large DNN models on commodity servers for the masses", HotOS 2021
 * (Harmony). */
#include "schedule/internal.h"

typedef struct group {
    const leg *leg;
    int *stages, n_stages; /* of the device, in the order of forwards */
    const bool *late;      /* by stage: its update is at the end */
    ft_action *list;
    int64_t n;
} group;

static void put(group *g, ft_action_kind kind, int stage, int batch, int64_t micro)
{
    g->list[g->n++] = (ft_action){
        .kind = (uint8_t)kind, .stage = (int16_t)stage, .batch = batch, .micro = (int32_t)micro};
}

static void put_adopts(group *g, int batch)
{
    const ft_wires *w = g->leg->wires;
    for (int i = 0; i < g->n_stages; i++) {
        int spot = ft_spot_of(g->stages[i], FT_ACT_ADOPT);
        if (w->in_first[spot] < w->in_first[spot + 1]) put(g, FT_ACT_ADOPT, g->stages[i], batch, 0);
    }
}

static void put_batch(group *g, int batch)
{
    int64_t micros = g->leg->pipeline->micro_batches;
    for (int i = 0; i < g->n_stages; i++)
        for (int64_t m = 0; m < micros; m++) put(g, FT_ACT_FORWARD, g->stages[i], batch, m);
    for (int i = g->n_stages - 1; i >= 0; i--) {
        int stage = g->stages[i];
        for (int64_t m = 0; m < micros; m++) put(g, FT_ACT_BACKWARD, stage, batch, m);
        if (g->leg->reduces) put(g, FT_ACT_REDUCE, stage, batch, 0);
        if (!g->late[stage]) put(g, FT_ACT_UPDATE, stage, batch, 0);
    }
    for (int i = g->n_stages - 1; i >= 0; i--)
        if (g->late[g->stages[i]]) put(g, FT_ACT_UPDATE, g->stages[i], batch, 0);
    put_adopts(g, batch);
}

/* Stages whose updates wait for reduces of stages that are further from the loss. */
static void find_late(const leg *l, int *waits, bool *late)
{
    const ft_pipeline *p = l->pipeline;
    const int *depth = l->depths.depth;
    for (int s = 0; s < p->n_stages; s++) waits[s] = depth[s]; /* the furthest that R waits for */
    for (bool more = true; more;) {
        more = false;
        for (int e = 0; e < p->n_edges; e++) {
            const ft_edge *edge = &p->edges[e];
            if (edge->to_kind != FT_ACT_REDUCE || waits[edge->from] <= waits[edge->to]) continue;
            waits[edge->to] = waits[edge->from];
            more = true;
        }
    }
    for (int e = 0; e < p->n_edges; e++) {
        const ft_edge *edge = &p->edges[e];
        if (edge->to_kind == FT_ACT_UPDATE && waits[edge->from] > depth[edge->to])
            late[edge->to] = true;
    }
    for (int s = 0; s < p->n_stages; s++) late[s] |= waits[s] > depth[s];
}

/* The device's stages, the furthest from the loss first. */
static void find_stages(group *g, int device)
{
    const int *depth = g->leg->depths.depth;
    g->n_stages = 0;
    for (int s = 0; s < g->leg->pipeline->n_stages; s++) {
        if (g->leg->pipeline->device[s] != device) continue;
        int at = g->n_stages++;
        for (; at > 0 && depth[g->stages[at - 1]] < depth[s]; at--)
            g->stages[at] = g->stages[at - 1];
        g->stages[at] = s;
    }
}

ft_status leg_group(leg *l, ft_error *err)
{
    const ft_pipeline *p = l->pipeline;
    if (l->shares.several)
        return ft_fail(err, FT_INVALID,
                       "schedule %s: a stage has several replicas, expected one device for each",
                       l->schedule->name);
    int *numbers = ft_arena_array(l->arena, 2 * (int64_t)p->n_stages, sizeof *numbers);
    bool *late = ft_arena_array(l->arena, p->n_stages, sizeof *late);
    l->orders = ft_arena_array(l->arena, p->n_stages, sizeof *l->orders);
    l->done = ft_arena_array(l->arena, p->n_devices, sizeof *l->done);
    if (!numbers || !late || !l->orders || !l->done)
        return ft_fail(err, FT_NOMEM, "plan: no memory for %d stages", p->n_stages);
    find_late(l, numbers, late);
    for (int s = 0; s < p->n_stages; s++)
        l->orders[s] = (stage_order){.versions = 1, .in_flight = p->micro_batches};
    for (int d = 0; d < p->n_devices; d++) {
        group g = {.leg = l, .stages = numbers + p->n_stages, .late = late};
        find_stages(&g, d);
        int64_t length = (2 * (int64_t)p->micro_batches + 3) * g.n_stages * l->n_batches;
        g.list = ft_arena_array(l->arena, length + 1, sizeof *g.list);
        if (!g.list) return ft_fail(err, FT_NOMEM, "plan: no memory for device %d", d);
        for (int batch = 0; batch < l->n_batches; batch++) put_batch(&g, batch);
        l->done[d] = (ft_action_list){.n = (int)g.n, .actions = g.list};
    }
    return FT_OK;
}
