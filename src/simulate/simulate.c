/* simulate/simulate.c - when everything of a plan happens, given what it costs.
 *
 * Discrete events. A device that follows its list knows when its next action starts as soon as all
 * that it waits for has ended, so an action is one moment in the heap: its end. What it leaves on
 * edges takes its way then, in the order of these ends, so that links serve who asked first. */
#include "simulate/internal.h"

#include "base/rng.h"
#include "proof/proof.h"

enum { WHEN_SHIFT = 40 };

void simulation_schedule(simulation *s, int64_t ns, when kind, int64_t number)
{
    ft_moment m = {ns, (int64_t)kind << WHEN_SHIFT | number};
    if (!ft_heap_add(&s->heap, m)) s->out_of_memory = true;
}

void simulation_look_at(void *user, int device)
{
    simulation *s = user;
    if (s->is_dirty[device]) return;
    s->is_dirty[device] = true;
    s->dirty[s->n_dirty++] = device;
}

/* -- events ------------------------------------------------------------------------------------ */

int64_t simulation_delay(const simulation *s, int64_t event)
{
    if (!s->options->delay_ns) return 0;
    const uint32_t key[2] = {(uint32_t)s->options->seed, (uint32_t)(s->options->seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)event, (uint32_t)(event >> 32), 0, 0};
    uint32_t out[4];
    ft_philox(key, counter, out);
    uint64_t number = (uint64_t)out[1] << 32 | out[0];
    return (int64_t)(number % ((uint64_t)s->options->delay_ns + 1));
}

static int item_of(const ft_action *a, ft_item_kind kind)
{
    return ft_action_item(a->kind) == kind ? a->item : 0;
}

int64_t simulation_event(simulation *s, int device, const ft_action *a, int64_t start,
                         int64_t cause)
{
    ft_stream stream = ft_action_stream(a->kind);
    int line = device * FT_STREAM_COUNT + (int)stream;
    int64_t number = s->at[line]++;
    s->timeline->events[number] = (ft_event){.start_ns = start,
                                             .end_ns = start,
                                             .batch = a->batch,
                                             .micro = a->micro,
                                             .device = (int16_t)device,
                                             .stage = a->stage,
                                             .lag = a->lag,
                                             .kind = a->kind,
                                             .class = (uint8_t)item_of(a, FT_ITEM_CLASS),
                                             .edge = item_of(a, FT_ITEM_EDGE)};
    s->timeline->cause[number] = cause;
    s->last[line] = number;
    return number;
}

int simulation_seat(const simulation *s, const ft_meeting *m)
{
    return s->shares.of[m->stage].first + m->replica;
}

static bool is_blocked(const simulation *s, int device, const ft_action *a, const ft_meeting *m)
{
    if (ft_wires_blocking(s->wires, m).reason != FT_STOP_NOTHING) return true;
    bool computes = ft_action_stream(a->kind) == FT_STREAM_COMPUTE;
    return s->copies && computes && simulation_is_moving(s, device, a, m);
}

/* -- starting ---------------------------------------------------------------------------------- */

/* When nothing blocks it: the start, as far as copies before it in its stream do not matter, and
 * the event that it comes from. */
static int64_t start_of(const simulation *s, int device, const ft_meeting *m, int64_t *cause)
{
    int line = device * FT_STREAM_COUNT + (int)ft_action_stream(m->kind);
    int64_t start = ft_wires_start_ns(s->wires, m, cause);
    if (start <= s->free_ns[line]) {
        start = s->free_ns[line];
        *cause = s->last[line];
    }
    if (start >= s->now) return start;
    /* it waited for a copy, or stands behind an action of another stream */
    int64_t compute = s->last[device * FT_STREAM_COUNT];
    int64_t moved = s->moved[device];
    *cause = moved >= 0 && s->timeline->events[moved].end_ns == s->now ? moved : compute;
    return s->now;
}

static void start_compute(simulation *s, int device, const ft_action *a, const ft_meeting *m)
{
    int64_t cause, start = start_of(s, device, m, &cause);
    int64_t event = simulation_event(s, device, a, start, cause);
    int64_t time = s->time_ns[ft_spot_of(simulation_seat(s, m), a->kind)];
    if (a->kind == FT_ACT_FORWARD) time *= ft_share_joint(&s->shares.of[m->stage], m->index);
    int64_t end = start + time + simulation_delay(s, event);
    s->timeline->events[event].end_ns = end;
    s->free_ns[device * FT_STREAM_COUNT] = end;
    s->running[device] = (running){true, *m, event};
    if (s->copies) simulation_note_stay(s, a, m);
    simulation_schedule(s, end, WHEN_ENDS, device);
}

/* It takes its turn in its stream. */
static bool start_copy(simulation *s, int device, const ft_action *a, const ft_meeting *m)
{
    int64_t cause, ready = start_of(s, device, m, &cause);
    return simulation_submit(s, device, a, m, ready, cause);
}

/* As far down the list as it goes: copies until a compute action starts or something waits. */
static void run_list(simulation *s, int device, ft_runner *r)
{
    while (r->cursor.more && !s->running[device].busy) {
        ft_action a = r->cursor.now;
        ft_meeting m = ft_meeting_of(s->plan, &s->shares, device, &a);
        if (is_blocked(s, device, &a, &m)) return;
        if (ft_action_stream(a.kind) == FT_STREAM_COMPUTE)
            start_compute(s, device, &a, &m);
        else if (!start_copy(s, device, &a, &m))
            return;
        ft_runner_step(r);
    }
}

/* Copies that stand next in the list of a stage that is not computing itself. */
static void run_copies(simulation *s, int device, ft_runner *r)
{
    const running *now = &s->running[device];
    while (r->cursor.more && ft_action_stream(r->cursor.now.kind) != FT_STREAM_COMPUTE) {
        ft_action a = r->cursor.now;
        ft_meeting m = ft_meeting_of(s->plan, &s->shares, device, &a);
        if (now->busy && now->meeting.stage == a.stage) return;
        if (is_blocked(s, device, &a, &m) || !start_copy(s, device, &a, &m)) return;
        ft_runner_step(r);
    }
}

/* The stages' next actions: the policy's choice among those that can start now, else a look at the
 * time when the first of them can. */
static void choose(simulation *s, int device)
{
    ft_runner *best = NULL;
    int64_t first = INT64_MAX, cause;
    for (int i = s->runners.first[device]; i < s->runners.first[device + 1]; i++) {
        ft_runner *r = &s->runners.list[i];
        run_copies(s, device, r);
        if (s->running[device].busy || !r->cursor.more) continue;
        ft_meeting m = ft_meeting_of(s->plan, &s->shares, device, &r->cursor.now);
        if (ft_action_stream(m.kind) != FT_STREAM_COMPUTE ||
            is_blocked(s, device, &r->cursor.now, &m))
            continue;
        int64_t start = start_of(s, device, &m, &cause);
        if (start > s->now && start < first) first = start;
        if (start > s->now) continue;
        if (!best || ft_policy_goes_before(s->plan->depth, &r->cursor.now, &best->cursor.now))
            best = r;
    }
    if (best) {
        ft_meeting m = ft_meeting_of(s->plan, &s->shares, device, &best->cursor.now);
        start_compute(s, device, &best->cursor.now, &m);
        ft_runner_step(best);
    } else if (first < INT64_MAX && s->look_ns[device] != first) {
        s->look_ns[device] = first;
        simulation_schedule(s, first, WHEN_LOOKED_AT, device);
    }
}

/* -- ending ------------------------------------------------------------------------------------ */

static void end_compute(simulation *s, int device)
{
    running *r = &s->running[device];
    r->busy = false;
    ft_wires_complete(s->wires, &r->meeting, s->now, r->event);
    simulation_send(s, &r->meeting, r->event);
    simulation_look_at(s, device);
    ft_wires_wake(s->wires, &r->meeting, simulation_look_at, s);
}

static void happen(simulation *s, ft_moment m)
{
    int64_t number = m.what & (((int64_t)1 << WHEN_SHIFT) - 1);
    switch ((when)(m.what >> WHEN_SHIFT)) {
    case WHEN_ENDS: end_compute(s, (int)number); break;
    case WHEN_COPY_STARTS: simulation_begin_copy(s, number); break;
    case WHEN_COPY_ENDS: simulation_end_copy(s, number); break;
    case WHEN_LOOKED_AT:
        s->look_ns[number] = -1;
        simulation_look_at(s, (int)number);
        break;
    }
}

static void run(simulation *s)
{
    for (int d = 0; d < s->plan->n_devices; d++) simulation_look_at(s, d);
    for (;;) {
        while (s->n_dirty) {
            int d = s->dirty[--s->n_dirty];
            s->is_dirty[d] = false;
            if (s->plan->by_policy[d])
                choose(s, d);
            else
                run_list(s, d, &s->runners.list[s->runners.first[d]]);
        }
        if (!s->heap.n || s->out_of_memory) return;
        s->now = s->heap.at[0].ns;
        while (s->heap.n && s->heap.at[0].ns == s->now) happen(s, ft_heap_pop(&s->heap));
    }
}

/* -- all of it --------------------------------------------------------------------------------- */

static bool is_complete(const simulation *s)
{
    for (int i = 0; i < s->runners.n; i++)
        if (s->runners.list[i].cursor.more) return false;
    return true;
}

/* The walk says who waits for what. */
static ft_status report_stuck(const simulation *s, ft_error *err)
{
    ft_status status = ft_plan_walk(s->plan, &s->shares, 0, s->arena, err);
    return status != FT_OK ? status
                           : ft_fail(err, FT_INFEASIBLE, "simulate: actions wait for ever");
}

ft_status ft_plan_simulate_on(ft_timeline **out, const ft_plan *plan, const ft_simulation *options,
                              ft_error *err)
{
    simulation s = {0};
    *out = NULL;
    ft_status status = ft_plan_check_lists(plan, err);
    if (status != FT_OK) return status;
    ft_arena *arena = ft_arena_new();
    if (!arena) return ft_fail(err, FT_NOMEM, "simulate: no memory");
    FT_GO(simulation_begin(&s, plan, options, arena, err));
    run(&s);
    if (s.out_of_memory) FT_GO(ft_fail(err, FT_NOMEM, "simulate: no memory"));
    if (!is_complete(&s)) FT_GO(report_stuck(&s, err));
    s.timeline->n_events = s.timeline->capacity;
    for (int i = 0; i < s.timeline->n_links; i++) {
        const int64_t *lanes = &s.roads.taken_ns[2 * (int64_t)i];
        s.timeline->link_ns[i] = lanes[0] > lanes[1] ? lanes[0] : lanes[1];
    }
    *out = s.timeline;
    s.timeline = NULL;
done:
    ft_timeline_free(s.timeline);
    ft_arena_free(arena);
    return status;
}

ft_status ft_plan_simulate(ft_timeline **out, const ft_plan *plan, const ft_stage_costs *costs,
                           ft_error *err)
{
    return ft_plan_simulate_on(out, plan, &(ft_simulation){.costs = costs}, err);
}
