/* timeline/trace.c - a timeline as the trace that Perfetto opens. */
#include <stdio.h>

#include "base/alloc.h"
#include "timeline/internal.h"

static int stream_of(const ft_event *e)
{
    return (int)ft_action_stream(e->kind);
}

static bool has_edge(const ft_event *e)
{
    bool passes = ft_action_item(e->kind) == FT_ITEM_EDGE;
    return passes || e->wait == FT_WAIT_DATA || e->wait == FT_WAIT_SLOT;
}

/* Slices of one track must not overlap: events by device and stream, and each after the one before
 * it. */
static ft_status check_events(const ft_timeline *t, const ft_plan *plan, ft_error *err)
{
    for (int64_t i = 0; i < t->n_events; i++) {
        const ft_event *e = &t->events[i];
        if (e->device < 0 || e->device >= t->n_devices || e->stage < 0 || e->stage >= t->n_stages ||
            e->kind >= FT_ACT_COUNT || e->start_ns < 0 || e->end_ns < e->start_ns ||
            (has_edge(e) && (e->edge < 0 || e->edge >= plan->n_edges)))
            return ft_fail(
                err, FT_INVALID,
                "timeline: event %lld (device %d, stage %d, kind %d, edge %d, %lld to %lld ns) is "
                "out of range",
                (long long)i, e->device, e->stage, e->kind, e->edge, (long long)e->start_ns,
                (long long)e->end_ns);
        if (!i || e[-1].device < e->device) continue;
        bool next_stream = e[-1].device == e->device && stream_of(&e[-1]) < stream_of(e);
        bool behind = e[-1].device == e->device && stream_of(&e[-1]) == stream_of(e) &&
                      e[-1].end_ns <= e->start_ns;
        if (!next_stream && !behind)
            return ft_fail(err, FT_INVALID,
                           "timeline: event %lld of device %d begins at %lld ns, before the end of "
                           "event %lld",
                           (long long)i, e->device, (long long)e->start_ns, (long long)(i - 1));
    }
    return FT_OK;
}

/* How far the times of a device can be held against those of others. */
static void write_clock(const ft_timeline *t, int device, ft_text *text)
{
    int64_t error = t->clock_error_ns[device];
    char words[64] = "clock is not known";
    if (!error) return;
    if (error > 0) snprintf(words, sizeof words, "clock to %.3f ms", (double)error / 1e6);
    ft_text_add(text,
                "{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_labels\",\"args\":{\"labels\":\"%s\"}"
                "},\n",
                device, words);
}

/* What a device is called; what JSON cannot have in a text is a blank. */
static void write_device(const ft_holdings *h, int device, ft_text *text)
{
    if (!h || !h->device_names) {
        ft_text_add(text, "device %d", device);
        return;
    }
    for (const char *at = h->device_names[device]; *at; at++) {
        bool is_marked = *at == '"' || *at == '\\';
        ft_text_add(text, "%s%c", is_marked ? "\\" : "", (unsigned char)*at < ' ' ? ' ' : *at);
    }
}

static void write_names(const ft_timeline *t, const ft_holdings *h, bool *placed, ft_text *text)
{
    for (int d = 0; d < t->n_devices; d++) {
        ft_text_add(text,
                    "{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":\"", d);
        write_device(h, d, text);
        ft_text_add(text, "\"}},\n");
        write_clock(t, d, text);
    }
    for (int64_t i = 0; i < t->n_events; i++) {
        int stage = t->events[i].stage, device = t->events[i].device;
        if (placed[stage]) continue;
        placed[stage] = true;
        ft_text_add(
            text,
            "{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":"
            "\"stage %d\"}},\n",
            device, stage, stage);
    }
}

/* Microseconds with three decimals are exact, and independent of the locale. */
static void write_begin(int pid, int tid, int64_t start_ns, int64_t end_ns, ft_text *text)
{
    long long start = start_ns, length = end_ns - start_ns;
    ft_text_add(text, "{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%lld.%03lld,\"dur\":%lld.%03lld,",
                pid, tid, start / 1000, start % 1000, length / 1000, length % 1000);
}

/* What passes over links: one track per edge, beneath the devices. */
static void write_passage(const ft_timeline *t, const ft_passage *p, ft_text *text)
{
    write_begin(t->n_devices, p->edge + 2, p->start_ns, p->end_ns, text);
    ft_text_add(text,
                "\"cat\":\"transfer\",\"name\":\"%d to %d\",\"args\":{\"edge\":%d,\"link\":%d}}",
                p->from, p->to, p->edge, p->link);
}

/* What an event of a swap or a drop moves: "L stage 3 weights"; activations are of a micro-batch.
 */
static void write_move(const ft_timeline *t, const ft_event *e, const ft_holdings *h, ft_text *text)
{
    ft_text_add(text, "\"name\":\"%c stage %d %s", ft_action_letter(e->kind), e->stage,
                ft_memory_classes[e->class].name);
    if (e->class == FT_MEMORY_ACTIVATIONS) ft_text_add(text, " mb %d", e->micro);
    ft_text_add(text, "\",\"args\":{\"batch\":%d,\"class\":\"%s\"", e->batch,
                ft_memory_classes[e->class].name);
    if (h) ft_text_add(text, ",\"bytes\":%lld", (long long)timeline_copied_bytes(t, h, e));
    ft_text_add(text, "}}");
}

static void write_edge(const ft_edge *edge, ft_text *text)
{
    ft_text_add(text, "%c%d>%c%d", ft_action_letter(edge->from_kind), edge->from,
                ft_action_letter(edge->to_kind), edge->to);
}

/* What an S or V copies along its edge; through host memory it is among the copies of classes. */
static void write_pass(const ft_timeline *t, const ft_plan *plan, const ft_event *e,
                       const ft_holdings *h, ft_text *text)
{
    ft_text_add(text,
                "\"name\":\"%c stage %d mb %d\",\"args\":{\"batch\":%d,\"micro\":%d,\"edge\":\"",
                ft_action_letter(e->kind), e->stage, e->micro, e->batch, e->micro);
    write_edge(&plan->edges[e->edge], text);
    ft_text_add(text, "\"");
    if (h && timeline_passes_home(plan, e))
        ft_text_add(text, ",\"class\":\"%s\",\"bytes\":%lld",
                    ft_memory_classes[FT_MEMORY_BUFFERS].name,
                    (long long)timeline_copied_bytes(t, h, e));
    ft_text_add(text, "}}");
}

static void write_slice(const ft_timeline *t, const ft_plan *plan, const ft_event *e,
                        const ft_holdings *h, ft_text *text)
{
    char letter = ft_action_letter(e->kind);
    int stream = stream_of(e);
    write_begin(e->device, stream ? t->n_stages + stream : e->stage, e->start_ns, e->end_ns, text);
    ft_text_add(text, "\"cat\":\"%s\",", ft_action_word(e->kind));
    if (ft_action_item(e->kind) == FT_ITEM_CLASS)
        write_move(t, e, h, text);
    else if (ft_action_item(e->kind) == FT_ITEM_EDGE)
        write_pass(t, plan, e, h, text);
    else if (ft_action_per_micro(e->kind))
        ft_text_add(text,
                    "\"name\":\"%c stage %d mb %d\",\"args\":{\"batch\":%d,\"micro\":%d,\"lag\":%d,"
                    "\"version\":%d}}",
                    letter, e->stage, e->micro, e->batch, e->micro, e->lag, e->batch - e->lag);
    else
        ft_text_add(text, "\"name\":\"%c stage %d batch %d\",\"args\":{\"batch\":%d}}", letter,
                    e->stage, e->batch, e->batch);
}

/* A slice for the time that a compute stream waited for something: one track per device, beneath
 * its stages and streams. */
static void write_waits(const ft_timeline *t, const ft_plan *plan, ft_text *text)
{
    int64_t last = 0;
    for (int64_t i = 0; i < t->n_events; i++) {
        const ft_event *e = &t->events[i];
        if (!i || e[-1].device != e->device) last = 0;
        if (stream_of(e) != FT_STREAM_COMPUTE) continue;
        if (e->wait != FT_WAIT_NOTHING && e->start_ns > last) {
            write_begin(e->device, t->n_stages + FT_STREAM_COUNT, last, e->start_ns, text);
            ft_text_add(text, "\"cat\":\"wait\",\"name\":\"%s", ft_wait_word(e->wait));
            if (has_edge(e)) {
                ft_text_add(text, " ");
                write_edge(&plan->edges[e->edge], text);
            }
            ft_text_add(text, "\",\"args\":{}},\n");
        }
        last = e->end_ns;
    }
}

/* What a device holds, as a counter: of activations alone where nothing else is known. */
static ft_status write_memory(const ft_timeline *t, int device, const ft_holdings *h, ft_text *text,
                              ft_error *err)
{
    ft_memory_curve curve;
    FT_TRY(ft_timeline_memory(&curve, t, device, h, err));
    for (int64_t i = 0; i < curve.n; i++) {
        long long ns = curve.points[i].ns;
        ft_text_add(text,
                    "{\"ph\":\"C\",\"pid\":%d,\"ts\":%lld.%03lld,\"name\":\"%s\",\"args\":{"
                    "\"bytes\":%lld}},\n",
                    device, ns / 1000, ns % 1000, h->staying_bytes ? "memory" : "activations",
                    (long long)curve.points[i].bytes);
    }
    ft_memory_curve_fini(&curve);
    return FT_OK;
}

ft_status ft_timeline_write_trace(const ft_timeline *timeline, const ft_plan *plan,
                                  const ft_holdings *holdings, ft_text *text, ft_error *err)
{
    FT_TRY(check_events(timeline, plan, err));
    bool *placed = ft_alloc(timeline->n_stages);
    if (!placed) return ft_fail(err, FT_NOMEM, "timeline: no memory for the trace");
    ft_text_add(text, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    write_names(timeline, holdings, placed, text);
    ft_free(placed);
    write_waits(timeline, plan, text);
    for (int d = 0; holdings && timeline->n_events && d < timeline->n_devices; d++)
        FT_TRY(write_memory(timeline, d, holdings, text, err));
    for (int64_t i = 0; i < timeline->n_events; i++) {
        write_slice(timeline, plan, &timeline->events[i], holdings, text);
        ft_text_add(text, i + 1 < timeline->n_events + timeline->n_passages ? ",\n" : "\n");
    }
    for (int64_t i = 0; i < timeline->n_passages; i++) {
        write_passage(timeline, &timeline->passages[i], text);
        ft_text_add(text, i + 1 < timeline->n_passages ? ",\n" : "\n");
    }
    if (!timeline->n_events) /* no comma may stand before the bracket */
        ft_text_add(text, "{\"ph\":\"M\",\"pid\":0,\"name\":\"process_sort_index\",\"args\":"
                          "{\"sort_index\":0}}\n");
    ft_text_add(text, "]}\n");
    if (text->failed) return ft_fail(err, FT_NOMEM, "timeline: no memory for the trace");
    return FT_OK;
}
