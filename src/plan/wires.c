/* plan/wires.c - edges as first-in first-out queues with a fixed number of slots.
 *
 * Item i of an edge is made by action i of one (stage, kind) and used by action i of another. So
 * two counts per edge say everything: item i is there when the maker has completed more than i
 * actions, and there is room for it when the user has completed more than i - slots. With replicas
 * each of these counts is that of the replica which has the item, and every replica of the receiver
 * has slots of its own; what is per batch concerns all replicas, those of one stage too, where an
 * edge joins it to itself. S and V, where a plan has them, take the places of the maker's end and
 * of the user's. */
#include "plan/wires.h"

#include <stdio.h>
#include <string.h>

static ft_status no_memory(int n_edges, ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "plan: no memory for %d edges", n_edges);
}

/* -- making --------------------------------------------------------------------------------------
 */

static int spot_at(const ft_edge *e, bool incoming)
{
    return incoming ? ft_spot_of(e->to, e->to_kind) : ft_spot_of(e->from, e->from_kind);
}

/* Edges sorted by the spot at one of their ends, with where each spot's begin. */
static bool group_edges(ft_arena *arena, int n_spots, int n_edges, const ft_edge *edges,
                        bool incoming, const int **first_out, const int **list_out)
{
    int *first = ft_arena_array(arena, n_spots + 1, sizeof(int));
    int *list = ft_arena_array(arena, n_edges, sizeof(int));
    if (!first || !list) return false;
    for (int e = 0; e < n_edges; e++) first[spot_at(&edges[e], incoming)]++;
    for (int s = 0, sum = 0; s <= n_spots; s++) {
        sum += first[s];
        first[s] = sum;
    }
    for (int e = n_edges - 1; e >= 0; e--) list[--first[spot_at(&edges[e], incoming)]] = e;
    *first_out = first;
    *list_out = list;
    return true;
}

/* Replicas without an edge from X to R among them have their sum made by somebody else. */
static bool mark_groups(ft_wires *w, ft_arena *arena)
{
    w->is_grouped = ft_arena_array(arena, w->shares->n_stages, sizeof(bool));
    if (!w->is_grouped) return false;
    for (int s = 0; s < w->shares->n_stages; s++) w->is_grouped[s] = w->shares->of[s].n > 1;
    for (int e = 0; e < w->n_edges; e++) {
        const ft_edge *edge = &w->edges[e];
        if (edge->from_kind == FT_ACT_EXCHANGE && edge->from == edge->to)
            w->is_grouped[edge->from] = false;
    }
    return true;
}

/* A list of devices that are in it once. */
typedef struct device_set {
    int *seen; /* by device: the set that it was last put into */
    int number, *list, n;
} device_set;

static void add_stage(device_set *d, const ft_seating *shares, int stage)
{
    const ft_stage_share *s = &shares->of[stage];
    for (int i = 0; i < s->n; i++) {
        int device = shares->seat_device[s->first + i];
        if (d->seen[device] != d->number) d->list[d->n++] = device;
        d->seen[device] = d->number;
    }
}

/* Who makes or uses what passes along the edges of a spot, and replicas that wait for a sum. */
static void find_woken(const ft_wires *w, int spot, device_set *d)
{
    int stage = spot / FT_ACT_COUNT;
    d->number = spot + 1;
    d->n = 0;
    for (int i = w->in_first[spot]; i < w->in_first[spot + 1]; i++)
        add_stage(d, w->shares, w->edges[w->in[i]].from);
    for (int i = w->out_first[spot]; i < w->out_first[spot + 1]; i++)
        add_stage(d, w->shares, w->edges[w->out[i]].to);
    if (spot == ft_spot_of(stage, FT_ACT_REDUCE) && w->is_grouped[stage])
        add_stage(d, w->shares, stage);
}

static bool list_woken(ft_wires *w, ft_arena *arena, int n_spots)
{
    int n_devices = 0;
    for (int s = 0; s < w->shares->n_seats; s++)
        if (w->shares->seat_device[s] >= n_devices) n_devices = w->shares->seat_device[s] + 1;
    device_set d = {.seen = ft_arena_array(arena, n_devices + 1, sizeof(int)),
                    .list = ft_arena_array(arena, n_devices + 1, sizeof(int))};
    w->wake_first = ft_arena_array(arena, n_spots + 1, sizeof(int));
    if (!d.seen || !d.list || !w->wake_first) return false;
    for (int spot = 0; spot < n_spots; spot++) {
        find_woken(w, spot, &d);
        w->wake_first[spot + 1] = w->wake_first[spot] + d.n;
    }
    w->wake = ft_arena_array(arena, w->wake_first[n_spots] + 1, sizeof(int));
    memset(d.seen, 0, (size_t)n_devices * sizeof(int));
    for (int spot = 0; w->wake && spot < n_spots; spot++) {
        d.list = &w->wake[w->wake_first[spot]];
        find_woken(w, spot, &d);
    }
    return w->wake;
}

ft_status ft_wires_new(ft_wires **out, ft_arena *arena, const ft_seating *shares, int n_edges,
                       const ft_edge *edges, ft_error *err)
{
    int n_spots = shares->n_stages * FT_ACT_COUNT;
    ft_wires *w = ft_arena_alloc(arena, sizeof *w);
    if (!w || !(w->done = ft_arena_array(arena, shares->n_seats, FT_ACT_COUNT * sizeof(int64_t))) ||
        !(w->least = ft_arena_array(arena, n_spots, sizeof(int64_t))) ||
        !group_edges(arena, n_spots, n_edges, edges, true, &w->in_first, &w->in) ||
        !group_edges(arena, n_spots, n_edges, edges, false, &w->out_first, &w->out))
        return no_memory(n_edges, err);
    w->n_edges = n_edges;
    w->edges = edges;
    w->shares = shares;
    FT_TRY(ft_turns_link(&w->turns, arena, n_edges, edges, err));
    if (!mark_groups(w, arena) || !list_woken(w, arena, n_spots)) return no_memory(n_edges, err);
    *out = w;
    return FT_OK;
}

static void mark_copies(ft_wires *w, const ft_action_list *list)
{
    for (int i = 0; i < list->n; i++) {
        const ft_action *a = &list->actions[i];
        if (ft_action_item(a->kind) != FT_ITEM_EDGE) continue;
        (a->kind == FT_ACT_SEND ? w->is_sent : w->is_received)[a->item] = true;
    }
}

ft_status ft_wires_add_copies(ft_wires *w, ft_arena *arena, const ft_plan *plan, ft_error *err)
{
    w->is_sent = ft_arena_array(arena, w->n_edges, sizeof(bool));
    w->is_received = ft_arena_array(arena, w->n_edges, sizeof(bool));
    for (int s = 0; s < w->shares->n_stages; s++)
        if (w->shares->of[s].n > w->most_replicas) w->most_replicas = w->shares->of[s].n;
    int64_t counts = (int64_t)w->n_edges * w->most_replicas;
    w->sent = ft_arena_array(arena, counts, sizeof(int64_t));
    w->received = ft_arena_array(arena, counts, sizeof(int64_t));
    if (!w->is_sent || !w->is_received || !w->sent || !w->received)
        return no_memory(w->n_edges, err);
    for (int d = 0; d < plan->n_devices; d++) {
        mark_copies(w, &plan->devices[d].warmup);
        mark_copies(w, &plan->devices[d].body);
        mark_copies(w, &plan->devices[d].drain);
    }
    return FT_OK;
}

ft_status ft_wires_add_times(ft_wires *w, ft_arena *arena, const double *transfer_ns,
                             int64_t micros, ft_error *err)
{
    const ft_seating *shares = w->shares;
    int64_t *transfer = ft_arena_array(arena, w->n_edges, sizeof(int64_t));
    w->rings = ft_arena_array(arena, w->n_edges, sizeof *w->rings);
    if (!transfer || !w->rings) return no_memory(w->n_edges, err);
    int64_t n = 0;
    for (int e = 0; e < w->n_edges; e++) {
        int64_t length = w->edges[e].slots < micros ? w->edges[e].slots : micros;
        w->rings[e] = (ft_ring){n, length};
        if (!w->edges[e].after) n += length * shares->of[w->edges[e].to].n;
        if (transfer_ns)
            FT_TRY(ft_cost_round(&transfer[e], transfer_ns[e], "transfer of edge", e, err));
    }
    for (int e = 0; w->turns.first && e < w->n_edges; e++)
        w->rings[e] = w->rings[w->turns.first[e]];
    w->arrival_ns = ft_arena_array(arena, n, 4 * (int64_t)sizeof(int64_t));
    w->group_ns = ft_arena_array(arena, shares->n_stages, 2 * (int64_t)sizeof(int64_t));
    if (!w->arrival_ns || !w->group_ns) return no_memory(w->n_edges, err);
    w->release_ns = w->arrival_ns + n;
    w->maker = w->release_ns + n;
    w->user = w->maker + n;
    w->group_event = w->group_ns + shares->n_stages;
    w->transfer_ns = transfer;
    return FT_OK;
}

/* -- counting ------------------------------------------------------------------------------------
 */

/* Whether the (stage, kind) has completed item `index`; what is per batch, at every replica. */
static bool has_done(const ft_wires *w, int stage, ft_action_kind kind, int64_t index)
{
    const ft_stage_share *s = &w->shares->of[stage];
    if (s->n == 1) return w->done[ft_spot_of(s->first, kind)] > index;
    if (ft_action_per_micro(kind))
        return w->done[ft_spot_of(s->first + ft_share_replica(s, index), kind)] >
               ft_share_local(s, index);
    return w->least[ft_spot_of(stage, kind)] > index;
}

/* An action of the replica is completed. */
static void count_done(ft_wires *w, int stage, ft_action_kind kind, int replica)
{
    const ft_stage_share *s = &w->shares->of[stage];
    int64_t *least = &w->least[ft_spot_of(stage, kind)];
    int64_t before = w->done[ft_spot_of(s->first + replica, kind)]++;
    if (s->n == 1 || before > *least) return;
    *least = before + 1;
    for (int i = 0; i < s->n; i++) {
        int64_t done = w->done[ft_spot_of(s->first + i, kind)];
        if (done < *least) *least = done;
    }
}

/* Whether an S, or a V, of the edge has taken item `index`, where the stage at that end has so many
 * of its own behind it. */
static bool has_copied(const ft_wires *w, const int64_t *counts, int edge, int stage, int64_t index,
                       int behind)
{
    const ft_stage_share *s = &w->shares->of[stage];
    int64_t n = counts[(int64_t)edge * w->most_replicas + ft_share_replica(s, index)];
    return n > ft_share_local(s, index) - behind;
}

/* Whether the receiver has a slot for item `index`: it has completed the one `slots` before it, or
 * the one of another edge that lay there before. */
static bool has_slot(const ft_wires *w, int edge, int64_t index)
{
    int before = ft_turns_before(&w->turns, w->edges, edge);
    const ft_edge *e = &w->edges[before];
    if (before != edge) return has_done(w, e->to, e->to_kind, index - !w->edges[edge].after);
    if (w->is_received && w->is_received[edge])
        return has_copied(w, w->received, edge, e->to, index, e->slots);
    const ft_stage_share *s = &w->shares->of[e->to];
    if (s->n == 1) return w->done[ft_spot_of(s->first, e->to_kind)] > index - e->slots;
    if (!ft_action_per_micro(e->to_kind)) return has_done(w, e->to, e->to_kind, index - e->slots);
    int64_t local = ft_share_local(s, index) - e->slots;
    return w->done[ft_spot_of(s->first + ft_share_replica(s, index), e->to_kind)] > local;
}

/* The first behind the items that the action waits for: its own, of a joint forward those of all
 * that it takes. */
static int64_t items_end(const ft_wires *w, const ft_meeting *m)
{
    int joint = m->kind == FT_ACT_FORWARD ? ft_share_joint(&w->shares->of[m->stage], m->index) : 1;
    return m->index + (joint > 1 ? joint : 1);
}

/* Whether item `index` has been put on the edge. */
static bool is_filled(const ft_wires *w, int edge, int64_t index)
{
    const ft_edge *e = &w->edges[edge];
    if (w->is_sent && w->is_sent[edge]) return has_copied(w, w->sent, edge, e->from, index, 0);
    return has_done(w, e->from, e->from_kind, index);
}

/* S and V look at their own edge alone. */
static ft_stop copy_blocking(const ft_wires *w, const ft_meeting *m)
{
    const ft_edge *e = &w->edges[m->item];
    if (m->kind == FT_ACT_RECEIVE) {
        if (is_filled(w, m->item, m->index)) return (ft_stop){0};
        return (ft_stop){FT_STOP_UNFILLED, m->item};
    }
    if (!has_done(w, e->from, e->from_kind, m->index)) return (ft_stop){FT_STOP_UNFILLED, m->item};
    if (!has_slot(w, m->item, m->index)) return (ft_stop){FT_STOP_FULL, m->item};
    return (ft_stop){0};
}

/* An edge's own number for the action: its batch, where the other end is per batch. */
ft_stop ft_wires_blocking(const ft_wires *w, const ft_meeting *m)
{
    if (ft_action_item(m->kind) == FT_ITEM_EDGE) return copy_blocking(w, m);
    int spot = ft_spot_of(m->stage, m->kind);
    int64_t end = items_end(w, m);
    for (int i = w->in_first[spot]; i < w->in_first[spot + 1]; i++)
        for (int64_t k = m->index; k < end; k++) {
            int e = w->in[i];
            bool there = w->is_received && w->is_received[e]
                             ? has_copied(w, w->received, e, m->stage, k, 0)
                             : is_filled(w, e, k);
            if (!there) return (ft_stop){FT_STOP_UNFILLED, e};
        }
    for (int i = w->out_first[spot]; i < w->out_first[spot + 1]; i++) {
        int e = w->out[i];
        if (w->is_sent && w->is_sent[e]) continue;
        if (!has_slot(w, e, m->index)) return (ft_stop){FT_STOP_FULL, e};
    }
    if (m->kind == FT_ACT_UPDATE && w->is_grouped[m->stage] &&
        !has_done(w, m->stage, FT_ACT_REDUCE, m->index))
        return (ft_stop){FT_STOP_GROUP, -1};
    return (ft_stop){0};
}

/* -- timing ------------------------------------------------------------------------------------ */

/* The item's place in the ring of its receiver; of what is per batch, at one replica. */
static int64_t ring_place(const ft_wires *w, int edge, int64_t index, int replica)
{
    const ft_edge *e = &w->edges[edge];
    const ft_stage_share *s = &w->shares->of[e->to];
    ft_ring ring = w->rings[edge];
    int64_t local = index;
    if (s->n > 1 && ft_action_per_micro(e->to_kind)) {
        replica = ft_share_replica(s, index);
        local = ft_share_local(s, index);
    }
    return ring.first + replica * ring.length + local % ring.length;
}

static void later(int64_t *start, int64_t *cause, int64_t ns, int64_t event)
{
    if (ns <= *start) return;
    *start = ns;
    *cause = event;
}

/* Into the replica of the action, or out to every one of what is per batch. */
static void wait_for_items(const ft_wires *w, const ft_meeting *m, int64_t *start, int64_t *cause)
{
    int spot = ft_spot_of(m->stage, m->kind);
    int64_t end = items_end(w, m);
    for (int i = w->in_first[spot]; i < w->in_first[spot + 1]; i++)
        for (int64_t k = m->index; k < end; k++) {
            int64_t at = ring_place(w, w->in[i], k, m->replica);
            later(start, cause, w->arrival_ns[at], w->maker[at]);
        }
    for (int i = w->out_first[spot]; i < w->out_first[spot + 1]; i++) {
        const ft_edge *e = &w->edges[w->out[i]];
        int n = ft_action_per_micro(e->to_kind) ? 1 : w->shares->of[e->to].n;
        for (int r = 0; r < n; r++) {
            /* zero until the ring has gone round once, then the release of item index - slots */
            int64_t at = ring_place(w, w->out[i], m->index, r);
            later(start, cause, w->release_ns[at], w->user[at]);
        }
    }
}

int64_t ft_wires_start_ns(const ft_wires *w, const ft_meeting *m, int64_t *cause)
{
    int64_t start = 0;
    *cause = -1;
    if (ft_action_item(m->kind) == FT_ITEM_EDGE) {
        int64_t at = ring_place(w, m->item, m->index, 0);
        if (m->kind == FT_ACT_RECEIVE)
            later(&start, cause, w->arrival_ns[at], w->maker[at]);
        else
            later(&start, cause, w->release_ns[at], w->user[at]);
        return start;
    }
    wait_for_items(w, m, &start, cause);
    if (m->kind == FT_ACT_UPDATE && w->is_grouped[m->stage])
        later(&start, cause, w->group_ns[m->stage], w->group_event[m->stage]);
    return start;
}

static void release(ft_wires *w, int edge, const ft_meeting *m, int64_t end_ns, int64_t event)
{
    int64_t at = ring_place(w, edge, m->index, m->replica);
    w->release_ns[at] = end_ns;
    w->user[at] = event;
}

void ft_wires_complete(ft_wires *w, const ft_meeting *m, int64_t end_ns, int64_t event)
{
    if (ft_action_item(m->kind) == FT_ITEM_EDGE) {
        int64_t counted = (int64_t)m->item * w->most_replicas + m->replica;
        (m->kind == FT_ACT_SEND ? w->sent : w->received)[counted]++;
        if (w->transfer_ns && m->kind == FT_ACT_RECEIVE) release(w, m->item, m, end_ns, event);
        return;
    }
    count_done(w, m->stage, (ft_action_kind)m->kind, m->replica);
    if (!w->transfer_ns) return;
    int spot = ft_spot_of(m->stage, m->kind);
    for (int i = w->in_first[spot]; i < w->in_first[spot + 1]; i++)
        if (!w->is_received || !w->is_received[w->in[i]]) release(w, w->in[i], m, end_ns, event);
}

void ft_wires_arrive(ft_wires *w, int edge, int64_t index, int64_t ns, int64_t event)
{
    const ft_edge *e = &w->edges[edge];
    int n = ft_action_per_micro(e->to_kind) ? 1 : w->shares->of[e->to].n;
    for (int r = 0; r < n; r++) {
        int64_t at = ring_place(w, edge, index, r);
        if (w->arrival_ns[at] > ns) continue; /* a part from another replica comes later */
        w->arrival_ns[at] = ns;
        w->maker[at] = event;
    }
}

bool ft_wires_join(const ft_wires *w, const ft_meeting *m)
{
    if (m->kind != FT_ACT_REDUCE || !w->is_grouped[m->stage]) return false;
    return has_done(w, m->stage, FT_ACT_REDUCE, m->index);
}

/* -- waking and telling --------------------------------------------------------------------------
 */

static void wake_stage(const ft_wires *w, int stage, ft_wake_fn *look, void *user)
{
    const ft_stage_share *s = &w->shares->of[stage];
    for (int i = 0; i < s->n; i++) look(user, w->shares->seat_device[s->first + i]);
}

void ft_wires_wake(const ft_wires *w, const ft_meeting *m, ft_wake_fn *look, void *user)
{
    if (ft_action_item(m->kind) == FT_ITEM_EDGE) {
        wake_stage(w, w->edges[m->item].from, look, user);
        wake_stage(w, w->edges[m->item].to, look, user);
        return;
    }
    int spot = ft_spot_of(m->stage, m->kind);
    for (int i = w->wake_first[spot]; i < w->wake_first[spot + 1]; i++) look(user, w->wake[i]);
}

void ft_wires_explain(const ft_wires *w, const ft_action *action, const ft_meeting *m, char *text,
                      int size)
{
    char name[FT_ACTION_TEXT];
    ft_stop why = ft_wires_blocking(w, m);
    ft_action_text(name, action);
    if (why.reason == FT_STOP_NOTHING) {
        snprintf(text, (size_t)size, "%s could start", name);
        return;
    }
    if (why.reason == FT_STOP_GROUP) {
        snprintf(text, (size_t)size, "%s waits for the reduce of every replica of stage %d", name,
                 m->stage);
        return;
    }
    const ft_edge *e = &w->edges[why.edge];
    char from = ft_action_letter(e->from_kind), to = ft_action_letter(e->to_kind);
    if (why.reason == FT_STOP_FULL)
        snprintf(text, (size_t)size, "%s waits for a free slot of edge %d, %c%d>%c%d (%d slot%s)",
                 name, why.edge, from, e->from, to, e->to, e->slots, e->slots == 1 ? "" : "s");
    else
        snprintf(text, (size_t)size, "%s waits for edge %d, %c%d>%c%d, to be filled", name,
                 why.edge, from, e->from, to, e->to);
}
