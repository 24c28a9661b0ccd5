/* timeline/memory.c - what devices hold over time. */
#include <stdlib.h>

#include "base/alloc.h"
#include "timeline/internal.h"

/* What is known so far of a device. */
typedef struct account {
    const ft_holdings *holdings;
    int device;
    ft_memory_curve *curve; /* whose points are changes yet */
    bool *there;            /* by stage and class: what moves as a whole */
} account;

static void add(account *a, int64_t ns, int64_t bytes)
{
    if (bytes) a->curve->points[a->curve->n++] = (ft_memory_point){ns, bytes};
}

int64_t timeline_moved_bytes(const ft_holdings *h, int device, int stage, int class)
{
    const ft_plan *plan = h->plan;
    if (!h->moved_bytes) return class == FT_MEMORY_ACTIVATIONS ? h->saved_bytes[stage] : 0;
    for (int seat = plan->replica_first[stage]; seat < plan->replica_first[stage + 1]; seat++)
        if (plan->replica_device[seat] == device) return h->moved_bytes[seat][class];
    return 0;
}

bool timeline_passes_home(const ft_plan *plan, const ft_event *e)
{
    return ft_action_item(e->kind) == FT_ITEM_EDGE && ft_edge_stays(plan, &plan->edges[e->edge]);
}

int64_t timeline_copied_bytes(const ft_timeline *t, const ft_holdings *h, const ft_event *e)
{
    bool is_counted = !t->cause && ft_action_stream(e->kind) != FT_STREAM_COMPUTE;
    if (!is_counted && timeline_passes_home(h->plan, e)) return h->plan->edges[e->edge].bytes;
    return is_counted ? e->bytes : timeline_moved_bytes(h, e->device, e->stage, e->class);
}

/* Micro-batches that the event adds to its stage's activations: when it starts, if positive, and
 * when it ends, if negative. */
static int added_by(const ft_event *e)
{
    static const int added[FT_ACT_COUNT] = {
        [FT_ACT_FORWARD] = 1,   [FT_ACT_BACKWARD] = -1,
        [FT_ACT_RECOMPUTE] = 1, [FT_ACT_BACKWARD_WEIGHT] = -1,
        [FT_ACT_SWAP_IN] = 1,   [FT_ACT_SWAP_OUT] = -1,
        [FT_ACT_DROP] = -1,
    };
    bool moves = ft_action_item(e->kind) == FT_ITEM_CLASS;
    return moves && e->class != FT_MEMORY_ACTIVATIONS ? 0 : added[e->kind];
}

/* What moves as a whole comes with its load or where it is made, gradients with the first backward
 * after they left; what leaves first was there from the beginning. */
static void move(account *a, const ft_event *e, int class, bool comes)
{
    bool *there = &a->there[e->stage * FT_MEMORY_CLASSES + class];
    int64_t bytes = timeline_moved_bytes(a->holdings, a->device, e->stage, class);
    if (comes && !*there) add(a, e->start_ns, bytes);
    if (!comes && !*there) add(a, 0, bytes);
    if (!comes) add(a, e->end_ns, -bytes);
    *there = comes;
}

static void pass(account *a, const ft_event *e)
{
    const ft_action action = {.kind = e->kind, .stage = e->stage};
    int added = added_by(e);
    int64_t saved = a->holdings->saved_bytes[e->stage];
    add(a, added > 0 ? e->start_ns : e->end_ns, added * saved);
    if (ft_action_item(e->kind) == FT_ITEM_CLASS) {
        bool comes = e->kind == FT_ACT_SWAP_IN || e->kind == FT_ACT_MAKE;
        if (e->class != FT_MEMORY_ACTIVATIONS) move(a, e, e->class, comes);
    } else if (ft_action_per_micro(e->kind) && ft_action_writes(&action) >> FT_MEMORY_GRADIENTS & 1)
        move(a, e, FT_MEMORY_GRADIENTS, true);
}

static int compare_points(const void *a, const void *b)
{
    const ft_memory_point *p = a, *q = b;
    if (p->ns != q->ns) return p->ns < q->ns ? -1 : 1;
    return (p->bytes > q->bytes) - (p->bytes < q->bytes);
}

/* Changes in the order of time become what is held from then on. */
static void sum_up(ft_memory_curve *curve)
{
    int64_t bytes = 0;
    if (curve->n) qsort(curve->points, (size_t)curve->n, sizeof *curve->points, compare_points);
    for (int64_t i = 0; i < curve->n; i++) {
        bytes = curve->points[i].bytes += bytes;
        if (bytes > curve->peak) curve->peak = bytes;
    }
}

/* -- in the order in which they began ---------------------------------------------------------- */

/* What began at the same time: nothing's work, copies, work. So what a list has behind an action
 * that takes no time is behind it. */
static int rank_of(const ft_event *e)
{
    if (ft_action_stream(e->kind) != FT_STREAM_COMPUTE) return 1;
    return e->end_ns > e->start_ns ? 2 : 0;
}

static bool is_before(const ft_event *e, const ft_event *other)
{
    if (e->start_ns != other->start_ns) return e->start_ns < other->start_ns;
    return rank_of(e) < rank_of(other);
}

/* The next of the streams' events; NULL at the end. */
static const ft_event *next_event(const ft_timeline *t, span streams[FT_STREAM_COUNT])
{
    int first = -1;
    for (int k = 0; k < FT_STREAM_COUNT; k++) {
        if (streams[k].first == streams[k].last) continue;
        if (first < 0 || is_before(&t->events[streams[k].first], &t->events[streams[first].first]))
            first = k;
    }
    return first < 0 ? NULL : &t->events[streams[first].first++];
}

ft_status ft_timeline_memory(ft_memory_curve *out, const ft_timeline *t, int device,
                             const ft_holdings *holdings, ft_error *err)
{
    span streams[FT_STREAM_COUNT];
    int64_t n = 0;
    for (int k = 0; k < FT_STREAM_COUNT; k++) {
        streams[k] = timeline_span(t, device, (ft_stream)k);
        n += streams[k].last - streams[k].first;
    }
    *out = (ft_memory_curve){.points = ft_alloc((2 * n + 1) * (int64_t)sizeof *out->points)};
    account a = {.holdings = holdings, .device = device, .curve = out};
    a.there = ft_alloc((int64_t)t->n_stages * FT_MEMORY_CLASSES);
    if (!out->points || !a.there) {
        ft_free(a.there);
        ft_memory_curve_fini(out);
        return ft_fail(err, FT_NOMEM, "timeline: no memory for %lld events", (long long)n);
    }
    if (holdings->staying_bytes) add(&a, 0, holdings->staying_bytes[device]);
    for (const ft_event *e; (e = next_event(t, streams));) pass(&a, e);
    sum_up(out);
    ft_free(a.there);
    return FT_OK;
}

void ft_memory_curve_fini(ft_memory_curve *curve)
{
    ft_free(curve->points);
    *curve = (ft_memory_curve){.n = 0};
}
