/* schedule/timeline.c - what happened when: sums, and the trace that Perfetto opens. */
#include <string.h>

#include "base/alloc.h"
#include "schedule/schedule.h"

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
    if (!timeline || !timeline->events) {
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
    ft_free(timeline);
}

int64_t ft_timeline_end_ns(const ft_timeline *timeline)
{
    int64_t end = 0;
    for (int64_t i = 0; i < timeline->n_events; i++)
        if (timeline->events[i].end_ns > end) end = timeline->events[i].end_ns;
    return end;
}

int64_t ft_timeline_busy_ns(const ft_timeline *timeline, int device)
{
    int64_t busy = 0;
    for (int64_t i = 0; i < timeline->n_events; i++) {
        const ft_event *e = &timeline->events[i];
        if (e->device == device) busy += e->end_ns - e->start_ns;
    }
    return busy;
}

/* -- trace ------------------------------------------------------------------------------------- */

/* Slices of one track must not overlap: events by device, and each after the one before it. */
static ft_status check_events(const ft_timeline *t, ft_error *err)
{
    for (int64_t i = 0; i < t->n_events; i++) {
        const ft_event *e = &t->events[i];
        if (e->device < 0 || e->device >= t->n_devices || e->stage < 0 || e->stage >= t->n_stages ||
            e->kind >= FT_ACT_COUNT || e->start_ns < 0 || e->end_ns < e->start_ns)
            return ft_fail(
                err, FT_INVALID,
                "timeline: event %lld (device %d, stage %d, kind %d, %lld to %lld ns) is "
                "out of range",
                (long long)i, e->device, e->stage, e->kind, (long long)e->start_ns,
                (long long)e->end_ns);
        const ft_event *before = i ? e - 1 : NULL;
        if (before && (before->device > e->device ||
                       (before->device == e->device && before->end_ns > e->start_ns)))
            return ft_fail(err, FT_INVALID,
                           "timeline: event %lld of device %d begins at %lld ns, before the end of "
                           "event %lld",
                           (long long)i, e->device, (long long)e->start_ns, (long long)(i - 1));
    }
    return FT_OK;
}

static void write_names(const ft_timeline *t, bool *placed, ft_text *text)
{
    for (int d = 0; d < t->n_devices; d++)
        ft_text_add(
            text,
            "{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":\"device "
            "%d\"}},\n",
            d, d);
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
static void write_slice(const ft_event *e, ft_text *text)
{
    char letter = ft_action_letter(e->kind);
    long long start = e->start_ns, length = e->end_ns - e->start_ns;
    ft_text_add(text, "{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%lld.%03lld,\"dur\":%lld.%03lld,",
                e->device, e->stage, start / 1000, start % 1000, length / 1000, length % 1000);
    ft_text_add(text, "\"cat\":\"%s\",", ft_action_word(e->kind));
    if (ft_action_per_micro(e->kind))
        ft_text_add(
            text, "\"name\":\"%c stage %d mb %d\",\"args\":{\"batch\":%d,\"micro\":%d,\"lag\":%d}}",
            letter, e->stage, e->micro, e->batch, e->micro, e->lag);
    else
        ft_text_add(text, "\"name\":\"%c stage %d batch %d\",\"args\":{\"batch\":%d}}", letter,
                    e->stage, e->batch, e->batch);
}

ft_status ft_timeline_write_trace(const ft_timeline *timeline, ft_text *text, ft_error *err)
{
    FT_TRY(check_events(timeline, err));
    bool *placed = ft_alloc(timeline->n_stages);
    if (!placed) return ft_fail(err, FT_NOMEM, "timeline: no memory for the trace");
    ft_text_add(text, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    write_names(timeline, placed, text);
    ft_free(placed);
    for (int64_t i = 0; i < timeline->n_events; i++) {
        write_slice(&timeline->events[i], text);
        ft_text_add(text, i + 1 < timeline->n_events ? ",\n" : "\n");
    }
    if (!timeline->n_events) /* no comma may stand before the bracket */
        ft_text_add(text, "{\"ph\":\"M\",\"pid\":0,\"name\":\"process_sort_index\",\"args\":"
                          "{\"sort_index\":0}}\n");
    ft_text_add(text, "]}\n");
    if (text->failed) return ft_fail(err, FT_NOMEM, "timeline: no memory for the trace");
    return FT_OK;
}
