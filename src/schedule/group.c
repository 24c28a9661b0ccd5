/* schedule/group.c - orders that a device keeps whatever work takes: all micro-batches of a batch
 * through one of its stages, then through the next, where the schedule groups; else one micro-batch
 * through all of its stages, forward and back, then the next. Where stages make tasks, forward and
 * back different ones, a task takes all micro-batches, each through all of its stages.
 *
 * Grouped, what a stage keeps is needed once for all of its forwards and once for all of its
 * backwards, and its update follows these at once. Forwards go from the stages that are furthest
 * from the loss to it, backwards from there back. An update that has to wait for the gradients of
 * stages whose backwards come later (clipping by the norm of all, some ties) stands at the end of
 * its batch, and so does a sum of such gradients. Source: Li, Phanishayee, Murray, Kim: "Doing more
 * with less: training large DNN models on commodity servers for the masses", HotOS 2021 (Harmony).
 */
#include "schedule/internal.h"

typedef struct group {
    const leg *leg;
    int device;
    int *stages, n_stages; /* of the device, in the order of forwards */
    const bool *late;      /* by stage: its update is at the end */
    const bool *sums_late; /* by stage: its reduce is, too */
    ft_action *list;
    int64_t n;
} group;

static const ft_stage_share *share_of(const group *g, int stage)
{
    return &g->leg->shares.of[stage];
}

static void put(group *g, ft_action_kind kind, int stage, int batch, int64_t micro)
{
    g->list[g->n++] = (ft_action){
        .kind = (uint8_t)kind, .stage = (int16_t)stage, .batch = batch, .micro = (int32_t)micro};
}

/* For the device's m-th micro-batch of a batch. */
static void put_micro(group *g, ft_action_kind kind, int stage, int batch, int m)
{
    int replica = ft_seat_of(&g->leg->shares, stage, g->device) - share_of(g, stage)->first;
    put(g, kind, stage, batch, ft_share_index(share_of(g, stage), replica, m));
}

/* Whether the stage takes over weights of its own replicas alone. */
static bool adopts_own(const group *g, int stage)
{
    const ft_wires *w = g->leg->wires;
    int spot = ft_spot_of(stage, FT_ACT_ADOPT);
    for (int i = w->in_first[spot]; i < w->in_first[spot + 1]; i++)
        if (w->edges[w->in[i]].from != stage) return false;
    return leg_adopts(g->leg, stage);
}

static void put_update(group *g, int stage, int batch)
{
    put(g, FT_ACT_UPDATE, stage, batch, 0);
    if (adopts_own(g, stage)) put(g, FT_ACT_ADOPT, stage, batch, 0);
}

/* Behind a stage's last backward of a batch. */
static void put_steps(group *g, int stage, int batch)
{
    if (leg_exchanges(g->leg, stage)) put(g, FT_ACT_EXCHANGE, stage, batch, 0);
    if (g->leg->reduces && !g->sums_late[stage]) put(g, FT_ACT_REDUCE, stage, batch, 0);
    if (!g->late[stage]) put_update(g, stage, batch);
}

/* Whether a stage is further from the loss than another; of equals the first. */
static bool is_further(const leg *l, int stage, int other)
{
    const int *depth = l->depths.depth;
    return depth[stage] == depth[other] ? stage < other : depth[stage] > depth[other];
}

/* Whose gradients it sums, is nearer to the loss: those go first. */
static void put_late_sums(group *g, int batch)
{
    for (int last = -1, next = 0; next >= 0; last = next) {
        next = -1;
        for (int i = 0; i < g->n_stages; i++) {
            int s = g->stages[i];
            if (!g->sums_late[s] || (last >= 0 && !is_further(g->leg, s, last))) continue;
            if (next < 0 || is_further(g->leg, next, s)) next = s;
        }
        if (next >= 0) put(g, FT_ACT_REDUCE, next, batch, 0);
    }
}

/* What is left of a batch. */
static void put_rest(group *g, int batch)
{
    put_late_sums(g, batch);
    for (int i = g->n_stages - 1; i >= 0; i--)
        if (g->late[g->stages[i]]) put_update(g, g->stages[i], batch);
    for (int i = 0; i < g->n_stages; i++)
        if (leg_adopts(g->leg, g->stages[i]) && !adopts_own(g, g->stages[i]))
            put(g, FT_ACT_ADOPT, g->stages[i], batch, 0);
}

/* The device's stages from `first` to before `end`, that are next to each other, are one task. */
static bool is_task(const group *g, const int *task, int first, int end)
{
    if (end > g->n_stages || first < 0) return false;
    return end == first + 1 || (task && task[g->stages[first]] == task[g->stages[end - 1]]);
}

/* Of a task, the stages whose micro-batches go back at once, or the others: so many from m on,
 * which a stage takes before the next one does. */
static void put_forwards(group *g, int first, int end, bool at_once, int batch, int m, int n)
{
    for (int i = first; i < end; i++)
        for (int k = m; k < m + n; k++)
            if (ft_tasks_go_back(&g->leg->pipeline->tasks, g->stages[i]) == at_once)
                put_micro(g, FT_ACT_FORWARD, g->stages[i], batch, k);
}

/* The most that forwards of a stage of the task take as one: of each a divisor. */
static int joint_of(const group *g, int first, int end)
{
    int most = 1;
    for (int i = first; i < end; i++)
        if (share_of(g, g->stages[i])->joint > most) most = share_of(g, g->stages[i])->joint;
    return most;
}

static void put_grouped(group *g, int batch)
{
    const ft_tasks *tasks = &g->leg->pipeline->tasks;
    for (int first = 0, end = 0; first < g->n_stages; first = end) {
        while (is_task(g, tasks->forward, first, end + 1)) end++;
        int n = share_of(g, g->stages[first])->per_batch, joint = joint_of(g, first, end);
        for (int m = 0; m < n; m += joint) put_forwards(g, first, end, false, batch, m, joint);
    }
    for (int first = g->n_stages, end = first; end > 0; end = first) {
        while (is_task(g, tasks->backward, first - 1, end)) first--;
        int n = share_of(g, g->stages[first])->per_batch;
        for (int m = 0; m < n; m++) {
            put_forwards(g, first, end, true, batch, m, 1);
            for (int i = end - 1; i >= first; i--)
                put_micro(g, FT_ACT_BACKWARD, g->stages[i], batch, m);
        }
        for (int i = end - 1; i >= first; i--) put_steps(g, g->stages[i], batch);
    }
    put_rest(g, batch);
}

/* All stages have as many micro-batches on the device: each is on every one. */
static void put_in_turn(group *g, int batch)
{
    for (int m = 0; m < share_of(g, g->stages[0])->per_batch; m++) {
        for (int i = 0; i < g->n_stages; i++) put_micro(g, FT_ACT_FORWARD, g->stages[i], batch, m);
        for (int i = g->n_stages - 1; i >= 0; i--)
            put_micro(g, FT_ACT_BACKWARD, g->stages[i], batch, m);
    }
    for (int i = g->n_stages - 1; i >= 0; i--) put_steps(g, g->stages[i], batch);
    put_rest(g, batch);
}

/* Whether a stage stands before another in forwards, and behind it in backwards: the one that is
 * further from the loss, of equals the first; those that make tasks follow each other. */
static bool is_before(const leg *l, int stage, int other)
{
    return l->pipeline->tasks.forward ? stage < other : is_further(l, stage, other);
}

/* Stages whose updates, or sums, wait for reduces of stages that go back behind them. */
static void find_late(const leg *l, int *rank, int *waits, bool *late, bool *sums_late)
{
    const ft_pipeline *p = l->pipeline;
    for (int s = 0; s < p->n_stages; s++) { /* the rank of the last whose R it waits for */
        for (int other = 0; other < p->n_stages; other++) rank[s] += is_before(l, s, other);
        waits[s] = rank[s];
    }
    for (bool more = true; more;) {
        more = false;
        for (int e = 0; e < p->n_edges; e++) {
            const ft_edge *edge = &p->edges[e];
            if (edge->to_kind != FT_ACT_REDUCE || waits[edge->from] <= waits[edge->to]) continue;
            waits[edge->to] = waits[edge->from];
            more = true;
        }
    }
    for (int s = 0; s < p->n_stages; s++) {
        sums_late[s] = waits[s] > rank[s];
        late[s] = sums_late[s];
    }
    for (int e = 0; e < p->n_edges; e++) {
        const ft_edge *edge = &p->edges[e];
        if (edge->to_kind == FT_ACT_UPDATE)
            late[edge->to] |= sums_late[edge->from] || waits[edge->from] > rank[edge->to];
    }
}

/* The device's stages, in the order of forwards. */
static void find_stages(group *g)
{
    for (int s = 0; s < g->leg->pipeline->n_stages; s++) {
        if (ft_seat_of(&g->leg->shares, s, g->device) < 0) continue;
        int at = g->n_stages++;
        for (; at > 0 && is_before(g->leg, s, g->stages[at - 1]); at--)
            g->stages[at] = g->stages[at - 1];
        g->stages[at] = s;
    }
}

bool leg_has_group(const leg *l)
{
    for (int s = 0; l->schedule->replicates && s < l->pipeline->n_stages; s++)
        if (l->shares.of[s].n != l->pipeline->n_devices) return l->schedule->groups;
    return l->schedule->groups || l->schedule->replicates;
}

static bool are_together(const leg *l, int a, int b)
{
    return l->shares.of[a].rule == l->shares.of[b].rule && ft_seats_together(&l->shares, a, b);
}

/* Stages of a task have the same micro-batches on the same devices. */
static ft_status check_tasks(const leg *l, ft_error *err)
{
    const ft_tasks *tasks = &l->pipeline->tasks;
    for (int s = 1; tasks->forward && s < l->pipeline->n_stages; s++)
        for (int before = 0; before < s; before++) {
            bool one = tasks->forward[s] == tasks->forward[before] ||
                       tasks->backward[s] == tasks->backward[before];
            if (one && !are_together(l, before, s))
                return ft_fail(err, FT_INVALID,
                               "schedule %s: stages %d and %d are in one task, expected them on "
                               "the same devices",
                               l->schedule->name, before, s);
        }
    return FT_OK;
}

static ft_status check_places(const leg *l, ft_error *err)
{
    FT_TRY(check_tasks(l, err));
    for (int s = 0; l->schedule->replicates && s < l->pipeline->n_stages; s++) {
        int n = l->shares.of[s].n, wanted = l->pipeline->n_devices;
        if (n != wanted)
            return ft_fail(err, FT_INVALID,
                           "schedule %s: stage %d has %d replicas, expected %d: every stage on "
                           "every device",
                           l->schedule->name, s, n, wanted);
    }
    return FT_OK;
}

static ft_status order_device(leg *l, group *g, ft_error *err)
{
    find_stages(g);
    int64_t length = (2 * (int64_t)l->pipeline->micro_batches + 4) * g->n_stages * l->n_batches;
    g->list = ft_arena_array(l->arena, length + 1, sizeof *g->list);
    if (!g->list) return ft_fail(err, FT_NOMEM, "plan: no memory for device %d", g->device);
    for (int batch = 0; batch < l->n_batches && g->n_stages; batch++)
        if (l->schedule->groups)
            put_grouped(g, batch);
        else
            put_in_turn(g, batch);
    l->done[g->device] = (ft_action_list){.n = (int)g->n, .actions = g->list};
    return FT_OK;
}

ft_status leg_group(leg *l, ft_error *err)
{
    const ft_pipeline *p = l->pipeline;
    FT_TRY(check_places(l, err));
    int *numbers = ft_arena_array(l->arena, 3 * (int64_t)p->n_stages, sizeof *numbers);
    bool *late = ft_arena_array(l->arena, 2 * (int64_t)p->n_stages, sizeof *late);
    l->orders = ft_arena_array(l->arena, l->shares.n_seats, sizeof *l->orders);
    l->done = ft_arena_array(l->arena, p->n_devices, sizeof *l->done);
    if (!numbers || !late || !l->orders || !l->done)
        return ft_fail(err, FT_NOMEM, "plan: no memory for %d stages", p->n_stages);
    bool *sums_late = late + p->n_stages;
    find_late(l, numbers, numbers + p->n_stages, late, sums_late);
    for (int seat = 0; seat < l->shares.n_seats; seat++) {
        int stage = l->shares.seat_stage[seat], per_batch = l->shares.of[stage].per_batch;
        bool holds_all = l->schedule->groups && !ft_tasks_go_back(&p->tasks, stage);
        l->orders[seat] = (stage_order){.versions = 1, .in_flight = holds_all ? per_batch : 1};
    }
    for (int d = 0; d < p->n_devices; d++) {
        group g = {.leg = l,
                   .device = d,
                   .stages = numbers + 2 * (int64_t)p->n_stages,
                   .late = late,
                   .sums_late = sums_late};
        FT_TRY(order_device(l, &g, err));
    }
    return FT_OK;
}
