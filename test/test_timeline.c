/* test/test_timeline.c - sums, memory and traces of timelines written by hand. */
#include "timeline/timeline.h"

#include <string.h>

#include "check.h"

static ft_timeline *timeline_of(const ft_event *events, int n, int n_devices, int n_stages)
{
    ft_timeline *t = NULL;
    if (!CHECK_STATUS(ft_timeline_new(&t, n_devices, n_stages, n, NULL), FT_OK)) return NULL;
    memcpy(t->events, events, (size_t)n * sizeof *events);
    t->n_events = n;
    return t;
}

/* Copies are no work of the device; activations are there from the start of what makes them to the
 * end of what frees them. */
static void test_a_timeline_worked_out_by_hand(void)
{
    static const ft_event events[] = {
        {.start_ns = 0, .end_ns = 10, .kind = FT_ACT_FORWARD},
        {.start_ns = 10, .end_ns = 30, .kind = FT_ACT_SWAP_OUT, .class = FT_MEMORY_ACTIVATIONS},
        {.start_ns = 12, .end_ns = 20, .kind = FT_ACT_FORWARD, .stage = 1},
        {.start_ns = 15, .end_ns = 25, .kind = FT_ACT_SWAP_OUT, .class = FT_MEMORY_WEIGHTS},
        {.start_ns = 20, .end_ns = 29, .kind = FT_ACT_BACKWARD, .stage = 1},
        {.start_ns = 31, .end_ns = 40, .kind = FT_ACT_SWAP_IN, .class = FT_MEMORY_ACTIVATIONS},
        {.start_ns = 40, .end_ns = 55, .kind = FT_ACT_BACKWARD},
        {.start_ns = 3, .end_ns = 99, .kind = FT_ACT_FORWARD, .device = 1},
    };
    static const struct {
        int64_t ns, bytes;
    } wanted[] = {{0, 100}, {12, 107}, {29, 100}, {30, 0}, {31, 100}, {55, 0}};
    enum { N = sizeof events / sizeof *events, POINTS = sizeof wanted / sizeof *wanted };
    const int64_t saved[] = {100, 7};
    ft_memory_point points[N];
    int64_t peak;
    ft_timeline *t = timeline_of(events, N, 2, 2);
    if (!t) return;
    CHECK(ft_timeline_end_ns(t) == 99);
    CHECK(ft_timeline_busy_ns(t, 0) == 10 + 8 + 9 + 15 && ft_timeline_busy_ns(t, 1) == 96);
    CHECK(ft_timeline_memory(t, 0, saved, points, &peak) == POINTS);
    for (int i = 0; i < POINTS; i++)
        CHECK(points[i].ns == wanted[i].ns && points[i].bytes == wanted[i].bytes);
    CHECK(peak == 107);
    ft_timeline_free(t);
}

static void test_trace_of_a_small_leg(void)
{
    static const char *const wanted =
        "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
        "{\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"device 0\"}},\n"
        "{\"ph\":\"M\",\"pid\":0,\"tid\":0,\"name\":\"thread_name\",\"args\":{\"name\":\"stage "
        "0\"}},\n"
        "{\"ph\":\"X\",\"pid\":0,\"tid\":0,\"ts\":0.000,\"dur\":1.500,\"cat\":\"forward\","
        "\"name\":\"F stage 0 mb 0\",\"args\":{\"batch\":0,\"micro\":0,\"lag\":0}},\n"
        "{\"ph\":\"X\",\"pid\":0,\"tid\":0,\"ts\":1.500,\"dur\":2.000,\"cat\":\"backward\","
        "\"name\":\"B stage 0 mb 0\",\"args\":{\"batch\":0,\"micro\":0,\"lag\":0}},\n"
        "{\"ph\":\"X\",\"pid\":0,\"tid\":0,\"ts\":3.500,\"dur\":0.007,\"cat\":\"update\","
        "\"name\":\"U stage 0 batch 0\",\"args\":{\"batch\":0}}\n"
        "]}\n";
    static const ft_event events[] = {
        {.start_ns = 0, .end_ns = 1500, .kind = FT_ACT_FORWARD},
        {.start_ns = 1500, .end_ns = 3500, .kind = FT_ACT_BACKWARD},
        {.start_ns = 3500, .end_ns = 3507, .kind = FT_ACT_UPDATE},
    };
    ft_error err = {0};
    ft_text text = {0};
    ft_timeline *t = timeline_of(events, 3, 1, 1);
    if (!t) return;
    CHECK_STATUS(ft_timeline_write_trace(t, &text, &err), FT_OK);
    CHECK(!strcmp(text.data, wanted));
    t->events[1].start_ns = 1400;
    CHECK_STATUS(ft_timeline_write_trace(t, &text, &err), FT_INVALID);
    CHECK(strstr(err.message, "event 1 of device 0 begins at 1400 ns, before the end of event 0"));
    ft_text_fini(&text);
    ft_timeline_free(t);
}

int main(void)
{
    RUN(test_a_timeline_worked_out_by_hand);
    RUN(test_trace_of_a_small_leg);
    return check_report();
}
