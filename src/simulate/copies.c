/* simulate/copies.c - copies of a device: two streams beside what is computed.
 *
 * A copy is submitted when the device's list comes to it, and begins when the one before it in its
 * stream has ended and nothing that was submitted earlier is still moving what it moves or leaving
 * the place that it comes to. So a list goes on past copies until something has to be computed
 * that needs what they bring. */
#include "simulate/internal.h"

/* -- what meets -------------------------------------------------------------------------------- */

static int64_t local_of(const simulation *s, const ft_meeting *m)
{
    return ft_share_local(&s->shares.of[m->stage], m->index);
}

static bool is_of_class(const ft_meeting *m)
{
    return ft_action_item(m->kind) == FT_ITEM_CLASS;
}

/* Whether two copies move the same. */
static bool is_same(const simulation *s, const ft_meeting *a, const ft_meeting *b)
{
    if (!is_of_class(a) || !is_of_class(b) || a->item != b->item ||
        simulation_seat(s, a) != simulation_seat(s, b))
        return false;
    return a->item != FT_MEMORY_ACTIVATIONS || local_of(s, a) == local_of(s, b);
}

static bool places_meet(const simulation *s, int a, int b)
{
    const ft_lot *lots = s->options->lots;
    if (!lots || !a || !b) return false;
    return lots[a].at < lots[b].at + lots[b].bytes && lots[b].at < lots[a].at + lots[a].bytes;
}

/* A save of the device that has not ended takes something away from the place of the stay; of those
 * that were submitted before `order`. */
static bool is_left_later(const simulation *s, int device, int stay, int64_t order)
{
    int64_t i = s->queues[device * FT_STREAM_COUNT + FT_STREAM_OUT].first;
    for (; i >= 0 && s->copying[i].order < order; i = s->copying[i].next)
        if (s->copying[i].meeting.kind == FT_ACT_SWAP_OUT &&
            places_meet(s, s->copying[i].stay, stay))
            return true;
    return false;
}

static bool is_moved_before(const simulation *s, const copy *c)
{
    for (int stream = FT_STREAM_IN; stream <= FT_STREAM_OUT; stream++) {
        int64_t i = s->queues[c->device * FT_STREAM_COUNT + stream].first;
        for (; i >= 0 && s->copying[i].order < c->order; i = s->copying[i].next)
            if (is_same(s, &s->copying[i].meeting, &c->meeting)) return true;
    }
    return false;
}

/* -- what computes ----------------------------------------------------------------------------- */

/* Weights that another stage of the device lends are on their way. */
static bool is_lent_later(const simulation *s, int device, const ft_action *a)
{
    for (int i = s->owners.first[a->stage]; i < s->owners.first[a->stage + 1]; i++) {
        int owner = s->owners.stages[i], seat = ft_seat_of(&s->shares, owner, device);
        if (owner != a->stage && seat >= 0 &&
            s->coming[seat * FT_MEMORY_CLASSES + FT_MEMORY_WEIGHTS])
            return true;
    }
    return false;
}

/* Something of the stage that is no micro-batch's is on its way home. */
static bool is_saved_later(const simulation *s, int device, const ft_meeting *m)
{
    int64_t i = s->queues[device * FT_STREAM_COUNT + FT_STREAM_OUT].first;
    for (; i >= 0; i = s->copying[i].next) {
        const ft_meeting *other = &s->copying[i].meeting;
        if (is_of_class(other) && other->item != FT_MEMORY_ACTIVATIONS &&
            simulation_seat(s, other) == simulation_seat(s, m))
            return true;
    }
    return false;
}

bool simulation_is_moving(const simulation *s, int device, const ft_action *a, const ft_meeting *m)
{
    const queue *queues = &s->queues[device * FT_STREAM_COUNT];
    if (queues[FT_STREAM_IN].first < 0 && queues[FT_STREAM_OUT].first < 0) return false;
    if (ft_action_at_home(a)) return is_saved_later(s, device, m);
    int seat = simulation_seat(s, m);
    bool makes = m->kind == FT_ACT_MAKE, drops = is_of_class(m) && !makes;
    const int *coming = &s->coming[seat * FT_MEMORY_CLASSES];
    const int64_t(*bytes)[FT_MEMORY_CLASSES] = s->options->swap_bytes;
    bool again = s->plan->recompute[m->stage] || !bytes || !bytes[seat][FT_MEMORY_TURNED];
    unsigned needs = drops ? 1U << m->item : ft_action_needs(a, again);
    for (int c = 0; c < FT_MEMORY_CLASSES; c++)
        if (c != FT_MEMORY_ACTIVATIONS && needs >> c & 1 && coming[c]) return true;
    bool of_micro =
        is_of_class(m) ? m->item == FT_MEMORY_ACTIVATIONS : ft_action_per_micro(a->kind);
    if (of_micro && s->moving_micros[seat] && s->moving_micros[seat][local_of(s, m)]) return true;
    if (!drops && needs >> FT_MEMORY_WEIGHTS & 1 && is_lent_later(s, device, a)) return true;
    bool comes = a->stay && !drops; /* gradients that are there, or activations */
    if (comes && !makes && a->kind != FT_ACT_FORWARD)
        comes = !s->open[seat * FT_MEMORY_CLASSES + FT_MEMORY_GRADIENTS];
    return comes && is_left_later(s, device, a->stay, INT64_MAX);
}

/* The stay of the class, or of the micro-batch's activations. */
static int *stay_of(const simulation *s, const ft_meeting *m, int class)
{
    int seat = simulation_seat(s, m);
    if (class != FT_MEMORY_ACTIVATIONS) return &s->open[seat * FT_MEMORY_CLASSES + class];
    return s->micro_open[seat] ? &s->micro_open[seat][local_of(s, m)] : NULL;
}

void simulation_note_stay(simulation *s, const ft_action *a, const ft_meeting *m)
{
    bool forward = a->kind == FT_ACT_FORWARD;
    int class = is_of_class(m) ? m->item : forward ? FT_MEMORY_ACTIVATIONS : FT_MEMORY_GRADIENTS;
    int *open = stay_of(s, m, class);
    if (open && is_of_class(m))
        *open = m->kind == FT_ACT_MAKE ? a->stay : 0; /* a drop */
    else if (open && a->stay && (forward || !*open))
        *open = a->stay;
}

/* -- submitting -------------------------------------------------------------------------------- */

/* A number for the copy, of those that are free. */
static int64_t new_copy(simulation *s)
{
    if (s->n_idle) return s->idle_copies[--s->n_idle];
    if (s->n_copying == s->copy_capacity) {
        int64_t capacity = s->copy_capacity ? 2 * s->copy_capacity : 64;
        copy *bigger = ft_arena_array(s->arena, capacity, sizeof *bigger);
        int64_t *idle = ft_arena_array(s->arena, capacity, sizeof *idle);
        if (!bigger || !idle) {
            s->out_of_memory = true;
            return -1;
        }
        for (int64_t i = 0; i < s->n_copying; i++) bigger[i] = s->copying[i];
        s->copying = bigger;
        s->idle_copies = idle; /* none is idle now */
        s->copy_capacity = capacity;
    }
    return s->n_copying++;
}

/* Counts what the copy of a class moves, and where that lies. */
static void count_moving(simulation *s, copy *c, const ft_action *a)
{
    const ft_meeting *m = &c->meeting;
    if (!is_of_class(m)) return;
    int seat = simulation_seat(s, m), *open = stay_of(s, m, m->item);
    bool comes = m->kind == FT_ACT_SWAP_IN;
    if (m->item == FT_MEMORY_ACTIVATIONS)
        s->moving_micros[seat][local_of(s, m)]++;
    else if (comes)
        s->coming[seat * FT_MEMORY_CLASSES + m->item]++;
    if (!open) return;
    c->stay = comes ? a->stay : *open;
    *open = comes ? a->stay : 0;
}

bool simulation_submit(simulation *s, int device, const ft_action *a, const ft_meeting *m,
                       int64_t ready_ns, int64_t cause)
{
    int line = device * FT_STREAM_COUNT + (int)ft_action_stream(a->kind);
    queue *q = &s->queues[line];
    int64_t number = new_copy(s);
    if (number < 0) return false;
    int64_t event = simulation_event(s, device, a, ready_ns, cause);
    s->copying[number] = (copy){.meeting = *m,
                                .device = device,
                                .line = line,
                                .event = event,
                                .ready_ns = ready_ns,
                                .cause = cause,
                                .order = s->n_submitted++,
                                .next = -1};
    count_moving(s, &s->copying[number], a);
    if (q->last >= 0)
        s->copying[q->last].next = number;
    else
        q->first = number;
    q->last = number;
    if (q->first == number) simulation_begin_copy(s, number);
    return true;
}

/* -- beginning and ending ---------------------------------------------------------------------- */

void simulation_begin_copy(simulation *s, int64_t number)
{
    copy *c = &s->copying[number];
    if (c->has_begun || s->queues[c->line].first != number) return;
    if (c->ready_ns > s->now) {
        if (!c->is_awaited) simulation_schedule(s, c->ready_ns, WHEN_COPY_STARTS, number);
        c->is_awaited = true;
        return;
    }
    if (is_moved_before(s, c) ||
        (c->meeting.kind == FT_ACT_SWAP_IN && is_left_later(s, c->device, c->stay, c->order)))
        return; /* the end of that copy looks at this one */
    ft_event *e = &s->timeline->events[c->event];
    c->has_begun = true;
    e->start_ns = s->now;
    s->timeline->cause[c->event] = c->cause;
    e->end_ns =
        simulation_copy(s, &c->meeting, c->device, c->event) + simulation_delay(s, c->event);
    simulation_schedule(s, e->end_ns, WHEN_COPY_ENDS, number);
}

/* Those that waited for the copy which has just ended. */
static void begin_waiting(simulation *s, int device, int64_t event)
{
    for (int stream = FT_STREAM_IN; stream <= FT_STREAM_OUT; stream++) {
        int64_t number = s->queues[device * FT_STREAM_COUNT + stream].first;
        if (number < 0 || s->copying[number].has_begun) continue;
        if (s->copying[number].ready_ns < s->now) s->copying[number].cause = event;
        simulation_begin_copy(s, number);
    }
}

void simulation_end_copy(simulation *s, int64_t number)
{
    copy c = s->copying[number];
    int seat = simulation_seat(s, &c.meeting);
    queue *q = &s->queues[c.line];
    q->first = c.next;
    if (c.next < 0) q->last = -1;
    s->idle_copies[s->n_idle++] = number;
    if (c.meeting.kind == FT_ACT_SEND) /* no later than a delay of its end */
        ft_wires_arrive(s->wires, c.meeting.item, c.meeting.index, s->now, c.event);
    if (!is_of_class(&c.meeting))
        ft_wires_complete(s->wires, &c.meeting, s->now, c.event);
    else if (c.meeting.item == FT_MEMORY_ACTIVATIONS)
        s->moving_micros[seat][local_of(s, &c.meeting)]--;
    else if (c.meeting.kind == FT_ACT_SWAP_IN)
        s->coming[seat * FT_MEMORY_CLASSES + c.meeting.item]--;
    s->moved[c.device] = c.event;
    begin_waiting(s, c.device, c.event);
    simulation_look_at(s, c.device);
    if (!is_of_class(&c.meeting)) ft_wires_wake(s->wires, &c.meeting, simulation_look_at, s);
}
