/* simulate/setup.c - what a simulation needs before its clock starts. */
#include "simulate/internal.h"

#include <string.h>

static ft_status no_memory(ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "simulate: no memory");
}

/* -- times of actions -------------------------------------------------------------------------- */

/* Copies at both ends of an edge are made by the actions there. */
static ft_status add_edge_copies(simulation *s, int edge, ft_error *err)
{
    const double *rate = s->options->machine->copy_bytes_per_s;
    const ft_edge *e = &s->plan->edges[edge];
    for (int end = 0; rate && end < 2; end++) {
        const ft_stage_share *share = &s->shares.of[end ? e->to : e->from];
        for (int i = 0; i < share->n; i++) {
            double bytes_per_s = rate[s->shares.seat_device[share->first + i]];
            int64_t ns = 0;
            if (bytes_per_s > 0)
                FT_TRY(ft_cost_round(&ns, 1e9 * (double)e->bytes / bytes_per_s, "copy of edge",
                                     edge, err));
            s->time_ns[ft_spot_of(share->first + i, end ? e->to_kind : e->from_kind)] += ns;
        }
    }
    return FT_OK;
}

static ft_status find_times(simulation *s, ft_error *err)
{
    const ft_machine *m = s->options->machine;
    int64_t *cost_ns, *sums = ft_arena_array(s->arena, s->plan->n_stages, sizeof *sums);
    int n = s->shares.n_seats;
    s->time_ns = ft_arena_array(s->arena, n, FT_ACT_COUNT * (int64_t)sizeof(int64_t));
    if (!s->time_ns || !sums) return no_memory(err);
    FT_TRY(ft_costs_round(&cost_ns, s->arena, s->plan->n_stages, s->options->costs, err));
    for (int seat = 0; seat < n; seat++)
        for (int k = 0; k < FT_ACT_COUNT; k++) {
            bool works =
                ft_action_stream(k) == FT_STREAM_COMPUTE && k != FT_ACT_DROP && k != FT_ACT_DRAIN;
            int64_t *time = &s->time_ns[ft_spot_of(seat, k)];
            *time = cost_ns[ft_spot_of(s->shares.seat_stage[seat], k)];
            if (works && m && m->launch_ns) *time += m->launch_ns[s->shares.seat_device[seat]];
        }
    for (int e = 0; m && e < s->plan->n_edges; e++) FT_TRY(add_edge_copies(s, e, err));
    const ft_stage_costs *costs = s->options->costs;
    for (int i = 0; costs && costs->all_reduce_ns && i < s->plan->n_stages; i++)
        FT_TRY(ft_cost_round(&sums[i], costs->all_reduce_ns[i], "all-reduce of stage", i, err));
    s->sum_ns = sums;
    return FT_OK;
}

/* -- ways -------------------------------------------------------------------------------------- */

/* Finds a way, so that it is there when it is taken, and how long that may be. */
static ft_status check_way(simulation *s, int edge, int from, int to, int64_t bytes, ft_error *err)
{
    int64_t ns;
    const ft_way *w = ft_roads_way(&s->roads, from, to);
    if (!w) return no_memory(err);
    if (w->n < 0)
        return ft_fail(err, FT_INVALID, "machine: there is no way from place %d to place %d", from,
                       to);
    FT_TRY(ft_cost_round(&ns, (double)bytes * w->ns_per_byte, "transfer of edge", edge, err));
    ns += ft_roads_latency_ns(&s->roads, w, bytes);
    if (ns > s->longest_ns) s->longest_ns = ns;
    return FT_OK;
}

static ft_status check_edge_ways(simulation *s, int edge, ft_error *err)
{
    const ft_edge *e = &s->plan->edges[edge];
    const ft_stage_share *from = &s->shares.of[e->from], *to = &s->shares.of[e->to];
    for (int i = 0; i < from->n; i++)
        for (int k = 0; k < to->n; k++)
            FT_TRY(check_way(s, edge, s->shares.seat_device[from->first + i],
                             s->shares.seat_device[to->first + k], e->bytes, err));
    return FT_OK;
}

static ft_status check_ways(simulation *s, ft_error *err)
{
    const ft_machine *m = s->options->machine;
    for (int e = 0; e < s->plan->n_edges; e++) FT_TRY(check_edge_ways(s, e, err));
    for (int stage = 0; stage < s->plan->n_stages; stage++) {
        const ft_stage_share *share = &s->shares.of[stage];
        const int *devices = &s->shares.seat_device[share->first];
        for (int i = 0; share->n > 1 && i < share->n; i++)
            FT_TRY(check_way(s, -1, devices[i], devices[(i + 1) % share->n],
                             s->plan->reduce_bytes[stage], err));
        for (int c = 0; s->options->swap_bytes && c < FT_MEMORY_CLASSES; c++)
            for (int i = 0; i < share->n; i++) {
                int64_t bytes = s->options->swap_bytes[share->first + i][c];
                if (!bytes) continue;
                if (bytes < 0 || !m->home)
                    return ft_fail(err, FT_INVALID,
                                   "simulate: stage %d swaps %lld bytes, expected 0 or more, and a "
                                   "home of device %d",
                                   stage, (long long)bytes, devices[i]);
                FT_TRY(check_way(s, -1, devices[i], m->home[devices[i]], bytes, err));
                FT_TRY(check_way(s, -1, m->home[devices[i]], devices[i], bytes, err));
            }
    }
    return FT_OK;
}

/* -- events ------------------------------------------------------------------------------------ */

static void count_list(simulation *s, int device, const ft_action_list *list, int64_t repeats)
{
    for (int i = 0; i < list->n; i++) {
        ft_stream stream = ft_action_stream(list->actions[i].kind);
        s->at[device * FT_STREAM_COUNT + (int)stream] += repeats;
        if (stream != FT_STREAM_COMPUTE) s->copies = true;
    }
}

/* Where the events of each device and stream begin. */
static void place_events(simulation *s)
{
    const ft_plan *p = s->plan;
    for (int d = 0; d < p->n_devices; d++) {
        count_list(s, d, &p->devices[d].warmup, 1);
        count_list(s, d, &p->devices[d].body, p->body_repeats);
        count_list(s, d, &p->devices[d].drain, 1);
    }
    int64_t sum = 0;
    for (int i = 0; i < p->n_devices * FT_STREAM_COUNT; i++) {
        int64_t n = s->at[i];
        s->at[i] = sum;
        sum += n;
    }
}

/* More passages than there can be, of which nothing is known beforehand. */
static int64_t count_passages(const simulation *s)
{
    const ft_plan *p = s->plan;
    int64_t n = 0, batches = p->n_batches;
    if (!s->options->machine) return 0;
    for (int e = 0; e < p->n_edges; e++) {
        const ft_stage_share *from = &s->shares.of[p->edges[e].from],
                             *to = &s->shares.of[p->edges[e].to];
        bool micro = ft_action_per_micro(p->edges[e].from_kind);
        n += micro ? batches * p->micro_batches : batches * from->n * to->n;
    }
    for (int stage = 0; stage < p->n_stages; stage++)
        if (s->shares.of[stage].n > 1) n += batches;
    for (int d = 0; s->copies && d < p->n_devices; d++) n += ft_plan_length(p, d);
    return n;
}

static ft_status make_timeline(simulation *s, ft_error *err)
{
    int64_t n = 0;
    for (int d = 0; d < s->plan->n_devices; d++) n += ft_plan_length(s->plan, d);
    FT_TRY(ft_timeline_new(&s->timeline, s->plan->n_devices, s->plan->n_stages, n, err));
    int n_links = s->options->machine ? s->options->machine->n_links : 0;
    return ft_timeline_add_causes(s->timeline, count_passages(s), n_links, err);
}

/* -- all of it --------------------------------------------------------------------------------- */

static ft_status make_arrays(simulation *s, ft_error *err)
{
    int64_t devices = s->plan->n_devices, seats = s->shares.n_seats;
    int64_t *numbers = ft_arena_array(s->arena, 11 * devices, sizeof *numbers);
    s->running = ft_arena_array(s->arena, devices, sizeof *s->running);
    s->coming = ft_arena_array(s->arena, 2 * seats, FT_MEMORY_CLASSES * (int64_t)sizeof(int));
    s->queues = ft_arena_array(s->arena, FT_STREAM_COUNT * devices, sizeof *s->queues);
    s->moving_micros = ft_arena_array(s->arena, seats, sizeof *s->moving_micros);
    s->micro_open = ft_arena_array(s->arena, seats, sizeof *s->micro_open);
    s->dirty = ft_arena_array(s->arena, devices, sizeof *s->dirty);
    s->is_dirty = ft_arena_array(s->arena, devices, sizeof *s->is_dirty);
    if (!numbers || !s->running || !s->coming || !s->queues || !s->moving_micros ||
        !s->micro_open || !s->dirty || !s->is_dirty)
        return no_memory(err);
    s->open = s->coming + FT_MEMORY_CLASSES * seats;
    s->free_ns = numbers;
    s->last = s->free_ns + FT_STREAM_COUNT * devices;
    s->at = s->last + FT_STREAM_COUNT * devices;
    s->look_ns = s->at + FT_STREAM_COUNT * devices;
    s->moved = s->look_ns + devices;
    s->heap.arena = s->arena;
    for (int64_t i = 0; i < FT_STREAM_COUNT * devices; i++) {
        s->last[i] = -1;
        s->queues[i] = (queue){-1, -1};
    }
    for (int64_t i = 0; i < devices; i++) s->look_ns[i] = s->moved[i] = -1;
    return FT_OK;
}

/* Room to remember which micro-batches' activations are on their way, where some ever are. */
static ft_status add_moving_micros(simulation *s, ft_error *err)
{
    for (int seat = 0; s->copies && seat < s->shares.n_seats; seat++) {
        int64_t n = s->shares.of[s->shares.seat_stage[seat]].per_batch * s->plan->n_batches;
        if (!(s->moving_micros[seat] = ft_arena_array(s->arena, n, 1))) return no_memory(err);
        if (!s->options->lots) continue;
        s->micro_open[seat] = ft_arena_array(s->arena, n, sizeof(int));
        if (!s->micro_open[seat]) return no_memory(err);
    }
    return FT_OK;
}

/* A leg's end stays far inside an int64_t: nothing is later than everything one after the other. */
static ft_status check_length(const simulation *s, ft_error *err)
{
    int64_t most = s->options->delay_ns, transfer = 0, rounds = 1;
    for (int i = 0; i < s->shares.n_seats * FT_ACT_COUNT; i++)
        if (s->time_ns[i] > most) most = s->time_ns[i];
    for (int e = 0; e < s->plan->n_edges; e++)
        if (s->wires->transfer_ns[e] > transfer) transfer = s->wires->transfer_ns[e];
    if (s->options->machine) transfer = s->longest_ns + s->options->machine->hand_off_ns;
    for (int stage = 0; s->options->machine && stage < s->plan->n_stages; stage++) {
        int64_t n = s->shares.of[stage].n;
        if (n > 1 && 2 * n > rounds) rounds = 2 * n; /* of a ring */
    }
    int64_t things = s->timeline->capacity + s->timeline->passage_capacity;
    double longest = (double)most + (double)transfer * (double)rounds + 1;
    if ((double)things * longest <= (double)(INT64_MAX / 4)) return FT_OK;
    return ft_fail(err, FT_INVALID, "simulate: %lld actions of up to %lld ns are too long a leg",
                   (long long)s->timeline->capacity, (long long)longest);
}

ft_status simulation_begin(simulation *s, const ft_plan *plan, const ft_simulation *options,
                           ft_arena *arena, ft_error *err)
{
    *s = (simulation){.plan = plan, .options = options, .arena = arena};
    if (options->delay_ns < 0 || options->delay_ns > 1000000000000)
        return ft_fail(err, FT_INVALID, "simulate: delays of %lld ns, expected 0 to 1e12",
                       (long long)options->delay_ns);
    FT_TRY(ft_seating_of_plan(&s->shares, arena, plan, err));
    FT_TRY(ft_owners_find(&s->owners, arena, plan, err));
    FT_TRY(ft_wires_new(&s->wires, arena, &s->shares, plan->n_edges, plan->edges, err));
    FT_TRY(make_arrays(s, err));
    place_events(s);
    if (s->copies) FT_TRY(ft_wires_add_copies(s->wires, arena, plan, err));
    FT_TRY(add_moving_micros(s, err));
    FT_TRY(ft_wires_add_times(s->wires, arena, options->costs ? options->costs->transfer_ns : NULL,
                              (int64_t)plan->n_batches * plan->micro_batches, err));
    if (options->machine)
        FT_TRY(ft_roads_new(&s->roads, arena, options->machine, plan->n_devices, err));
    FT_TRY(find_times(s, err));
    if (options->machine) FT_TRY(check_ways(s, err));
    FT_TRY(ft_runners_new(&s->runners, arena, plan, &s->shares, err));
    FT_TRY(make_timeline(s, err));
    return check_length(s, err);
}
