/* timeline/timeline.c - what happened when: sums, the critical path, copies. */
#include <limits.h>

#include "base/alloc.h"
#include "timeline/internal.h"

ft_status ft_timeline_new(ft_timeline **out, int n_devices, int n_stages, int64_t capacity,
                          ft_error *err)
{
    int64_t bytes;
    *out = NULL;
    if (n_devices < 1 || n_stages < 1 || !ft_size_mul(capacity, sizeof(ft_event), &bytes))
        return ft_fail(err, FT_INVALID,
                       "timeline: %d devices, %d stages, %lld events; expected at least 1, 1 and 0",
                       n_devices, n_stages, (long long)capacity);
    ft_timeline *timeline = ft_alloc(sizeof *timeline);
    if (timeline) timeline->events = ft_alloc(bytes);
    if (timeline) timeline->clock_error_ns = ft_alloc(n_devices * (int64_t)sizeof(int64_t));
    if (!timeline || !timeline->events || !timeline->clock_error_ns) {
        ft_timeline_free(timeline);
        return ft_fail(err, FT_NOMEM, "timeline: no memory for %lld events", (long long)capacity);
    }
    timeline->n_devices = n_devices;
    timeline->n_stages = n_stages;
    timeline->capacity = capacity;
    *out = timeline;
    return FT_OK;
}

void ft_timeline_free(ft_timeline *timeline)
{
    if (!timeline) return;
    ft_free(timeline->events);
    ft_free(timeline->passages);
    ft_free(timeline->cause);
    ft_free(timeline->link_ns);
    ft_free(timeline->clock_error_ns);
    ft_free(timeline);
}

void ft_events_shift(ft_event *events, int64_t n, int64_t shift_ns)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t start = events[i].start_ns + shift_ns, end = events[i].end_ns + shift_ns;
        events[i].start_ns = start > 0 ? start : 0;
        events[i].end_ns = end > 0 ? end : 0;
    }
}

int64_t ft_timeline_end_ns(const ft_timeline *timeline)
{
    int64_t end = 0;
    for (int64_t i = 0; i < timeline->n_events; i++)
        if (timeline->events[i].end_ns > end) end = timeline->events[i].end_ns;
    return end;
}

/* Where the first event of a device and stream, or of one behind them, is. */
static int64_t first_of(const ft_timeline *t, int device, int stream)
{
    int64_t low = 0, high = t->n_events;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        const ft_event *e = &t->events[middle];
        bool is_before =
            e->device < device || (e->device == device && (int)ft_action_stream(e->kind) < stream);
        if (is_before)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

span timeline_span(const ft_timeline *t, int device, ft_stream stream)
{
    return (span){first_of(t, device, (int)stream), first_of(t, device, (int)stream + 1)};
}

int64_t ft_timeline_busy_ns(const ft_timeline *timeline, int device)
{
    span s = timeline_span(timeline, device, FT_STREAM_COMPUTE);
    int64_t busy = 0;
    for (int64_t i = s.first; i < s.last; i++)
        busy += timeline->events[i].end_ns - timeline->events[i].start_ns;
    return busy;
}

void ft_timeline_staleness(const ft_timeline *timeline, ft_lag_range *by_stage)
{
    int last = 0;
    for (int64_t i = 0; i < timeline->n_events; i++)
        if (timeline->events[i].batch > last) last = timeline->events[i].batch;
    for (int s = 0; s < timeline->n_stages; s++) by_stage[s] = (ft_lag_range){INT_MAX, INT_MIN};
    for (int64_t i = 0; i < timeline->n_events; i++) {
        const ft_event *e = &timeline->events[i];
        ft_lag_range *lags = &by_stage[e->stage];
        if (e->kind != FT_ACT_FORWARD || e->batch < (last + 1) / 2) continue;
        if (e->lag < lags->least) lags->least = e->lag;
        if (e->lag > lags->most) lags->most = e->lag;
    }
    for (int s = 0; s < timeline->n_stages; s++)
        if (by_stage[s].least > by_stage[s].most) by_stage[s] = (ft_lag_range){0, 0};
}

ft_status ft_timeline_add_causes(ft_timeline *t, int64_t n_passages, int n_links, ft_error *err)
{
    int64_t causes, passages;
    if (ft_size_mul(t->capacity, sizeof *t->cause, &causes) &&
        ft_size_mul(n_passages, sizeof *t->passages, &passages)) {
        t->cause = ft_alloc(causes);
        t->passages = ft_alloc(passages);
        t->link_ns = ft_alloc(n_links * (int64_t)sizeof *t->link_ns);
    }
    if (!t->cause || !t->passages || !t->link_ns)
        return ft_fail(err, FT_NOMEM, "timeline: no memory for %lld passages",
                       (long long)n_passages);
    t->passage_capacity = n_passages;
    t->n_links = n_links;
    return FT_OK;
}

int64_t ft_timeline_critical_path(const ft_timeline *t, int64_t *events, int64_t n)
{
    int64_t at = -1, length = 0;
    for (int64_t i = 0; t->cause && i < t->n_events; i++)
        if (at < 0 || t->events[i].end_ns > t->events[at].end_ns) at = i;
    for (; at >= 0 && length < t->n_events; at = t->cause[at], length++)
        if (length < n) events[length] = at;
    return length;
}

/* -- stalls ------------------------------------------------------------------------------------ */

/* Times at which a device computes nothing, in their order: [begin, end) is before event i. */
typedef struct gap_walk {
    const ft_timeline *timeline;
    int64_t i, last, ended, begin, end;
} gap_walk;

static gap_walk begin_gaps(const ft_timeline *t, int device)
{
    span s = timeline_span(t, device, FT_STREAM_COMPUTE);
    return (gap_walk){.timeline = t, .i = s.first - 1, .last = s.last};
}

static bool next_gap(gap_walk *g)
{
    while (++g->i < g->last) {
        const ft_event *e = &g->timeline->events[g->i];
        g->begin = g->ended;
        g->end = e->start_ns;
        g->ended = e->end_ns;
        if (g->end > g->begin) return true;
    }
    return false;
}

/* The kind of what the event waited for; its own where that is not known. */
static int cause_kind(const ft_timeline *t, int64_t event)
{
    int64_t cause = t->cause[event];
    return cause < 0 ? t->events[event].kind : t->events[cause].kind;
}

void ft_timeline_stalls(const ft_timeline *t, int device, int64_t by_kind[FT_ACT_COUNT])
{
    for (int k = 0; k < FT_ACT_COUNT; k++) by_kind[k] = 0;
    if (!t->cause) return;
    for (gap_walk g = begin_gaps(t, device); next_gap(&g);)
        by_kind[cause_kind(t, g.i)] += g.end - g.begin;
}

/* Adds a stream's copies; both they and the gaps are in the order of time. */
static void add_copies(const ft_timeline *t, int device, ft_stream stream, const ft_holdings *h,
                       ft_copy_sum by_class[FT_MEMORY_CLASSES])
{
    span s = timeline_span(t, device, stream);
    gap_walk g = begin_gaps(t, device);
    bool more = next_gap(&g);
    for (int64_t i = s.first; i < s.last; i++) {
        const ft_event *e = &t->events[i];
        bool passes = timeline_passes_home(h->plan, e);
        if (ft_action_item(e->kind) != FT_ITEM_CLASS && !passes) continue;
        ft_copy_sum *sum = &by_class[passes ? FT_MEMORY_BUFFERS : e->class];
        int64_t bytes = timeline_copied_bytes(t, h, e);
        *(stream == FT_STREAM_IN ? &sum->bytes_in : &sum->bytes_out) += bytes;
        sum->ns += e->end_ns - e->start_ns;
        for (; more && g.begin < e->end_ns; more = next_gap(&g)) {
            int64_t from = g.begin > e->start_ns ? g.begin : e->start_ns;
            int64_t to = g.end < e->end_ns ? g.end : e->end_ns;
            bool by_copy = t->events[g.i].wait == FT_WAIT_COPY;
            if (by_copy && to > from) sum->exposed_ns += to - from;
            if (g.end > e->end_ns) break; /* the next copy may be in it too */
        }
    }
}

void ft_timeline_copies(const ft_timeline *t, int device, const ft_holdings *holdings,
                        ft_copy_sum by_class[FT_MEMORY_CLASSES])
{
    for (int c = 0; c < FT_MEMORY_CLASSES; c++) by_class[c] = (ft_copy_sum){.ns = 0};
    add_copies(t, device, FT_STREAM_IN, holdings, by_class);
    add_copies(t, device, FT_STREAM_OUT, holdings, by_class);
}

void ft_timeline_sent(const ft_timeline *t, const ft_plan *plan, int device,
                      int64_t by_kind[FT_ACT_COUNT])
{
    for (int k = 0; k < FT_ACT_COUNT; k++) by_kind[k] = 0;
    int64_t last = first_of(t, device + 1, 0);
    for (int64_t i = first_of(t, device, 0); i < last; i++) {
        const ft_event *e = &t->events[i];
        if (ft_action_item(e->kind) == FT_ITEM_CLASS || timeline_passes_home(plan, e)) continue;
        by_kind[e->kind == FT_ACT_SEND ? plan->edges[e->edge].from_kind : e->kind] += e->bytes;
    }
}
