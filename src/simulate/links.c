/* simulate/links.c - data on its way between devices. */
#include "simulate/internal.h"

enum { EDGE_SWAP = -1, EDGE_REDUCE = -2, HOST = -1 };

static void record(simulation *s, ft_passage passage)
{
    ft_timeline *t = s->timeline;
    if (t->n_passages < t->passage_capacity) t->passages[t->n_passages++] = passage;
}

/* When `bytes` from one device are at the other; they leave now. */
static int64_t pass(simulation *s, int edge, int from, int to, int64_t event)
{
    if (!s->options->machine) return s->now + s->wires->transfer_ns[edge];
    if (from == to) return s->now;
    int64_t start, bytes = s->plan->edges[edge].bytes;
    const ft_way *w = ft_roads_way(&s->roads, from, to);
    int64_t end = ft_roads_pass(&s->roads, w, s->now, bytes, &start);
    record(s, (ft_passage){.start_ns = start,
                           .end_ns = end,
                           .edge = edge,
                           .link = w->narrowest,
                           .from = (int16_t)from,
                           .to = (int16_t)to,
                           .event = (int32_t)event});
    return end + s->options->machine->hand_off_ns;
}

/* To the replica that the item is for; of what is per batch, to all of them. */
static void send_item(simulation *s, int edge, int from, int64_t index, int64_t event)
{
    const ft_edge *e = &s->plan->edges[edge];
    const ft_stage_share *to = &s->shares.of[e->to];
    if (to->n == 1 || ft_action_per_micro(e->to_kind)) {
        int device = s->shares.seat_device[to->first + ft_share_replica(to, index)];
        ft_wires_arrive(s->wires, edge, index, pass(s, edge, from, device, event), event);
        return;
    }
    int64_t last = 0;
    for (int i = 0; i < to->n; i++) {
        int device = s->shares.seat_device[to->first + i];
        if (e->from == e->to && device == from) continue; /* to the other replicas */
        int64_t ns = pass(s, edge, from, device, event);
        if (ns > last) last = ns;
    }
    ft_wires_arrive(s->wires, edge, index, last, event);
}

/* The replicas' gradients become their sum. */
static void reduce(simulation *s, int stage, int64_t event)
{
    const ft_stage_share *share = &s->shares.of[stage];
    int64_t start = s->now, end = s->now + s->sum_ns[stage];
    if (s->options->machine) {
        const int *devices = &s->shares.seat_device[share->first];
        int64_t bytes = s->plan->reduce_bytes[stage];
        end = ft_roads_reduce(&s->roads, devices, share->n, s->now, bytes, &start);
        record(s, (ft_passage){.start_ns = start,
                               .end_ns = end,
                               .edge = EDGE_REDUCE,
                               .link = -1,
                               .from = (int16_t)devices[0],
                               .to = (int16_t)devices[share->n - 1],
                               .event = (int32_t)event});
        end += s->options->machine->hand_off_ns;
    }
    s->wires->group_ns[stage] = end;
    s->wires->group_event[stage] = event;
}

void simulation_send(simulation *s, const ft_meeting *m, int64_t event)
{
    const ft_wires *w = s->wires;
    int spot = ft_spot_of(m->stage, m->kind);
    int device = s->shares.seat_device[s->shares.of[m->stage].first + m->replica];
    for (int i = w->out_first[spot]; i < w->out_first[spot + 1]; i++)
        if (!w->is_sent || !w->is_sent[w->out[i]]) send_item(s, w->out[i], device, m->index, event);
    if (ft_wires_join(w, m)) reduce(s, m->stage, event);
}

static int64_t swapped_bytes(const simulation *s, const ft_meeting *m)
{
    if (ft_action_item(m->kind) == FT_ITEM_EDGE) return s->plan->edges[m->item].bytes;
    return s->options->swap_bytes[s->shares.of[m->stage].first + m->replica][m->item];
}

static int64_t swap(simulation *s, const ft_meeting *m, int device, int64_t event)
{
    const ft_machine *machine = s->options->machine;
    if (!s->options->swap_bytes) return s->now;
    if (!machine) {
        const double *rate = s->options->swap_ns_per_byte;
        double ns = rate ? rate[device] * (double)swapped_bytes(s, m) : 0;
        return s->now + (int64_t)(ns + .5);
    }
    bool out = ft_action_stream(m->kind) == FT_STREAM_OUT;
    int home = machine->home[device];
    const ft_way *w = ft_roads_way(&s->roads, out ? device : home, out ? home : device);
    int64_t start, bytes = swapped_bytes(s, m);
    int64_t end = ft_roads_pass(&s->roads, w, s->now, bytes, &start);
    record(s, (ft_passage){.start_ns = start,
                           .end_ns = end,
                           .edge = EDGE_SWAP,
                           .link = w->narrowest,
                           .from = (int16_t)(out ? device : HOST),
                           .to = (int16_t)(out ? HOST : device),
                           .event = (int32_t)event});
    return end;
}

int64_t simulation_copy(simulation *s, const ft_meeting *m, int device, int64_t event)
{
    if (ft_action_item(m->kind) == FT_ITEM_CLASS) return swap(s, m, device, event);
    const ft_edge *e = &s->plan->edges[m->item];
    bool stays = ft_edge_stays(s->plan, e); /* through host memory */
    if (m->kind == FT_ACT_RECEIVE) return stays ? swap(s, m, device, event) : s->now;
    int to = s->shares.seat_device[s->shares.of[e->to].first];
    int64_t there = stays ? swap(s, m, device, event) : pass(s, m->item, device, to, event);
    ft_wires_arrive(s->wires, m->item, m->index, there, event);
    return there;
}
