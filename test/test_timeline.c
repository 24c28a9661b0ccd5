/* test/test_timeline.c - sums, memory and traces of timelines written by hand. */
#include "timeline/timeline.h"

#include <string.h>

#include "base/alloc.h"
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
        {.start_ns = 12, .end_ns = 20, .kind = FT_ACT_FORWARD, .stage = 1},
        {.start_ns = 20, .end_ns = 29, .kind = FT_ACT_BACKWARD, .stage = 1},
        {.start_ns = 40, .end_ns = 55, .kind = FT_ACT_BACKWARD},
        {.start_ns = 31, .end_ns = 40, .kind = FT_ACT_SWAP_IN, .class = FT_MEMORY_ACTIVATIONS},
        {.start_ns = 10, .end_ns = 30, .kind = FT_ACT_SWAP_OUT, .class = FT_MEMORY_ACTIVATIONS},
        {.start_ns = 30, .end_ns = 35, .kind = FT_ACT_SWAP_OUT, .class = FT_MEMORY_WEIGHTS},
        {.start_ns = 3, .end_ns = 99, .kind = FT_ACT_FORWARD, .device = 1},
    };
    static const struct {
        int64_t ns, bytes;
    } wanted[] = {{0, 100}, {12, 107}, {29, 100}, {30, 0}, {31, 100}, {55, 0}};
    enum { N = sizeof events / sizeof *events, POINTS = sizeof wanted / sizeof *wanted };
    const int64_t saved[] = {100, 7};
    const ft_holdings holdings = {.saved_bytes = saved};
    ft_memory_curve curve;
    ft_timeline *t = timeline_of(events, N, 2, 2);
    if (!t) return;
    CHECK(ft_timeline_end_ns(t) == 99);
    CHECK(ft_timeline_busy_ns(t, 0) == 10 + 8 + 9 + 15 && ft_timeline_busy_ns(t, 1) == 96);
    CHECK_STATUS(ft_timeline_memory(&curve, t, 0, &holdings, NULL), FT_OK);
    CHECK(curve.n == POINTS);
    for (int i = 0; i < POINTS && curve.n == POINTS; i++)
        CHECK(curve.points[i].ns == wanted[i].ns && curve.points[i].bytes == wanted[i].bytes);
    CHECK(curve.peak == 107);
    ft_memory_curve_fini(&curve);
    ft_timeline_free(t);
}

/* A stage on one device whose state moves: its optimizer's is there from the beginning, gradients
 * come with the backwards of a batch. */
static const ft_event moving[] = {
    {.start_ns = 5, .end_ns = 10, .kind = FT_ACT_FORWARD, .wait = FT_WAIT_COPY},
    {.start_ns = 10, .end_ns = 15, .kind = FT_ACT_BACKWARD},
    {.start_ns = 20, .end_ns = 24, .kind = FT_ACT_UPDATE},
    {.start_ns = 24, .end_ns = 24, .kind = FT_ACT_DROP, .class = FT_MEMORY_GRADIENTS},
    {.start_ns = 34, .end_ns = 40, .kind = FT_ACT_FORWARD, .batch = 1},
    {.start_ns = 40, .end_ns = 45, .kind = FT_ACT_BACKWARD, .batch = 1},
    {.start_ns = 0, .end_ns = 5, .kind = FT_ACT_SWAP_IN, .class = FT_MEMORY_WEIGHTS, .bytes = 48},
    {.start_ns = 24,
     .end_ns = 30,
     .kind = FT_ACT_SWAP_OUT,
     .class = FT_MEMORY_WEIGHTS,
     .bytes = 50},
    {.start_ns = 30,
     .end_ns = 33,
     .kind = FT_ACT_SWAP_OUT,
     .class = FT_MEMORY_OPTIMIZER,
     .bytes = 30},
};
static const int first_replica[] = {0, 1}, replica_device[] = {0};
static const ft_plan alone = {
    .n_stages = 1, .replica_first = first_replica, .replica_device = replica_device};
static const int64_t saved_bytes[] = {100}, staying_bytes[] = {7};
static const int64_t moved_bytes[1][FT_MEMORY_CLASSES] = {
    {[FT_MEMORY_WEIGHTS] = 50, [FT_MEMORY_GRADIENTS] = 20, [FT_MEMORY_OPTIMIZER] = 30}};
static const ft_holdings held = {.plan = &alone,
                                 .saved_bytes = saved_bytes,
                                 .moved_bytes = moved_bytes,
                                 .staying_bytes = staying_bytes};

static void test_what_moves_is_there_while_it_is(void)
{
    static const ft_memory_point wanted[] = {{0, 7},    {0, 37},   {0, 87},   {5, 187},
                                             {10, 207}, {15, 107}, {24, 87},  {30, 37},
                                             {33, 7},   {34, 107}, {40, 127}, {45, 27}};
    enum { POINTS = sizeof wanted / sizeof *wanted };
    ft_memory_curve curve;
    ft_timeline *t = timeline_of(moving, sizeof moving / sizeof *moving, 1, 1);
    if (!t) return;
    CHECK_STATUS(ft_timeline_memory(&curve, t, 0, &held, NULL), FT_OK);
    CHECK(curve.n == POINTS && curve.peak == 207);
    for (int i = 0; i < POINTS && curve.n == POINTS; i++)
        CHECK(curve.points[i].ns == wanted[i].ns && curve.points[i].bytes == wanted[i].bytes);
    ft_memory_curve_fini(&curve);
    ft_timeline_free(t);
}

/* What a run has counted, not what its plan says. */
static void test_what_copies_carry(void)
{
    ft_copy_sum sums[FT_MEMORY_CLASSES];
    ft_error err = {0};
    ft_text text = {0};
    ft_timeline *t = timeline_of(moving, sizeof moving / sizeof *moving, 1, 1);
    if (!t) return;
    ft_timeline_copies(t, 0, &held, sums);
    const ft_copy_sum weights = sums[FT_MEMORY_WEIGHTS], optimizer = sums[FT_MEMORY_OPTIMIZER];
    CHECK(weights.bytes_in == 48 && weights.bytes_out == 50 && weights.ns == 5 + 6);
    CHECK(weights.exposed_ns == 5); /* the first forward waits; behind the update nothing does */
    CHECK(optimizer.bytes_in == 0 && optimizer.bytes_out == 30 && optimizer.ns == 3);
    CHECK(optimizer.exposed_ns == 0 && sums[FT_MEMORY_GRADIENTS].ns == 0);
    CHECK_STATUS(ft_timeline_write_trace(t, &alone, &held, &text, &err), FT_OK);
    CHECK(strstr(text.data, "\"tid\":2,\"ts\":0.000,\"dur\":0.005,\"cat\":\"swap-in\",\"name\":"
                            "\"L stage 0 weights\",\"args\":{\"batch\":0,\"class\":\"weights\","
                            "\"bytes\":48}}"));
    CHECK(strstr(text.data, "{\"ph\":\"C\",\"pid\":0,\"ts\":0.010,\"name\":\"memory\",\"args\":{"
                            "\"bytes\":207}},\n"));
    ft_text_fini(&text);
    ft_holdings called = held;
    called.device_names = (const char *const[]){"sim:0 \"a\\b\"\n"};
    CHECK_STATUS(ft_timeline_write_trace(t, &alone, &called, &text, &err), FT_OK);
    CHECK(strstr(text.data, "\"args\":{\"name\":\"sim:0 \\\"a\\\\b\\\" \"}}"));
    ft_text_fini(&text);
    ft_timeline_free(t);
}

static const ft_edge edges[] = {
    {.from = 0, .to = 1, .from_kind = FT_ACT_FORWARD, .to_kind = FT_ACT_FORWARD},
    {.from = 1, .to = 0, .from_kind = FT_ACT_BACKWARD, .to_kind = FT_ACT_BACKWARD},
};
static const int replicas[] = {0, 1, 2}, replicas_at[] = {0, 1};
static const ft_plan plan = {
    .n_edges = 2, .edges = edges, .replica_first = replicas, .replica_device = replicas_at};

/* Two stages on two devices and one micro-batch; the copy on device 1 is its own time. */
static const ft_event waiting[] = {
    {.start_ns = 5, .end_ns = 10, .kind = FT_ACT_FORWARD, .wait = FT_WAIT_BATCH},
    {.start_ns = 40, .end_ns = 60, .kind = FT_ACT_BACKWARD, .wait = FT_WAIT_DATA, .edge = 1},
    {.start_ns = 61, .end_ns = 64, .kind = FT_ACT_UPDATE},
    {.start_ns = 12,
     .end_ns = 20,
     .kind = FT_ACT_FORWARD,
     .stage = 1,
     .device = 1,
     .wait = FT_WAIT_DATA},
    {.start_ns = 23,
     .end_ns = 38,
     .kind = FT_ACT_BACKWARD,
     .stage = 1,
     .device = 1,
     .wait = FT_WAIT_SLOT,
     .edge = 1},
    {.start_ns = 50, .end_ns = 70, .kind = FT_ACT_SWAP_OUT, .stage = 1, .device = 1},
};

/* All that a device did and did not do is the timeline's length. */
static void test_what_devices_waited_for(void)
{
    static const struct {
        int64_t by_wait[FT_WAIT_COUNT], data[2], slots[2], over;
    } wanted[2] = {
        {{[FT_WAIT_NOTHING] = 1, [FT_WAIT_BATCH] = 5, [FT_WAIT_DATA] = 30}, {0, 30}, {0, 0}, 6},
        {{[FT_WAIT_DATA] = 12, [FT_WAIT_SLOT] = 3}, {12, 0}, {0, 3}, 32},
    };
    ft_timeline *t = timeline_of(waiting, 6, 2, 2);
    if (!t) return;
    for (int d = 0; d < 2; d++) {
        int64_t by_wait[FT_WAIT_COUNT], data[2] = {0}, slots[2] = {0}, sum = 0, n = 0;
        int64_t last = ft_timeline_idle_ns(t, d, by_wait);
        ft_edge_wait *waits = NULL;
        CHECK_STATUS(ft_timeline_edge_waits(&waits, &n, t, d, NULL), FT_OK);
        for (int64_t i = 0; i < n; i++) {
            CHECK(!i || waits[i - 1].edge < waits[i].edge);
            data[waits[i].edge] = waits[i].data_ns;
            slots[waits[i].edge] = waits[i].slot_ns;
        }
        ft_free(waits);
        CHECK(ft_timeline_end_ns(t) - last == wanted[d].over);
        for (int i = 0; i < FT_WAIT_COUNT; i++) {
            CHECK(by_wait[i] == wanted[d].by_wait[i]);
            sum += by_wait[i];
        }
        for (int e = 0; e < 2; e++)
            CHECK(data[e] == wanted[d].data[e] && slots[e] == wanted[d].slots[e]);
        CHECK(sum + ft_timeline_busy_ns(t, d) == last);
    }
    ft_timeline_free(t);
}

/* By what made it, also where a send brought it; what went to host memory is none of it. */
static void test_what_was_sent(void)
{
    static const ft_event sending[] = {
        {.start_ns = 0, .end_ns = 5, .kind = FT_ACT_FORWARD, .bytes = 10},
        {.start_ns = 5, .end_ns = 9, .kind = FT_ACT_BACKWARD},
        {.start_ns = 9, .end_ns = 12, .kind = FT_ACT_SEND, .edge = 1, .bytes = 5},
        {.start_ns = 12, .end_ns = 20, .kind = FT_ACT_SWAP_OUT, .bytes = 50},
        {.start_ns = 6, .end_ns = 9, .kind = FT_ACT_FORWARD, .stage = 1, .device = 1, .bytes = 3},
    };
    int64_t by_kind[FT_ACT_COUNT];
    ft_error err = {0};
    ft_text text = {0};
    ft_timeline *t = timeline_of(sending, 5, 2, 2);
    if (!t) return;
    CHECK_STATUS(ft_timeline_write_trace(t, &plan, NULL, &text, &err), FT_OK);
    CHECK(strstr(text.data, "\"cat\":\"send\",\"name\":\"S stage 0 mb 0\",\"args\":{\"batch\":0,"
                            "\"micro\":0,\"edge\":\"B1>B0\"}}"));
    ft_text_fini(&text);
    ft_timeline_sent(t, &plan, 0, by_kind);
    for (int k = 0; k < FT_ACT_COUNT; k++)
        CHECK(by_kind[k] == (k == FT_ACT_FORWARD ? 10 : k == FT_ACT_BACKWARD ? 5 : 0));
    ft_timeline_sent(t, &plan, 1, by_kind);
    CHECK(by_kind[FT_ACT_FORWARD] == 3 && by_kind[FT_ACT_BACKWARD] == 0);
    ft_timeline_free(t);
}

static void test_waits_in_a_trace(void)
{
    ft_error err = {0};
    ft_text text = {0};
    ft_timeline *t = timeline_of(waiting, 6, 2, 2);
    if (!t) return;
    CHECK_STATUS(ft_timeline_write_trace(t, &plan, NULL, &text, &err), FT_OK);
    CHECK(strstr(text.data, "{\"ph\":\"X\",\"pid\":0,\"tid\":5,\"ts\":0.000,\"dur\":0.005,"
                            "\"cat\":\"wait\",\"name\":\"batches\",\"args\":{}},\n"));
    CHECK(strstr(text.data, "\"pid\":0,\"tid\":5,\"ts\":0.010,\"dur\":0.030,\"cat\":\"wait\","
                            "\"name\":\"data B1>B0\""));
    CHECK(strstr(text.data, "\"pid\":1,\"tid\":5,\"ts\":0.000,\"dur\":0.012,\"cat\":\"wait\","
                            "\"name\":\"data F0>F1\""));
    CHECK(strstr(text.data, "\"name\":\"slots B1>B0\""));
    t->events[1].edge = 2;
    CHECK_STATUS(ft_timeline_write_trace(t, &plan, NULL, &text, &err), FT_INVALID);
    CHECK(strstr(err.message, "edge 2"));
    ft_text_fini(&text);
    ft_timeline_free(t);
}

static void test_clocks_of_other_machines(void)
{
    ft_event events[] = {{.start_ns = 10, .end_ns = 20},
                         {.start_ns = 20, .end_ns = 40},
                         {.start_ns = 50, .end_ns = 60}};
    ft_events_shift(events, 3, 5);
    CHECK(events[0].start_ns == 15 && events[0].end_ns == 25 && events[2].end_ns == 65);
    ft_events_shift(events, 3, -35); /* none begins before the leg does */
    CHECK(events[0].start_ns == 0 && events[0].end_ns == 0);
    CHECK(events[1].start_ns == 0 && events[1].end_ns == 10);
    CHECK(events[2].start_ns == 20 && events[2].end_ns == 30);
    ft_error err = {0};
    ft_text text = {0};
    ft_timeline *t = timeline_of(events, 0, 3, 1);
    if (!t) return;
    t->clock_error_ns[1] = 1234567;
    t->clock_error_ns[2] = -1;
    CHECK_STATUS(ft_timeline_write_trace(t, &plan, NULL, &text, &err), FT_OK);
    CHECK(strstr(text.data, "\"pid\":1,\"name\":\"process_labels\",\"args\":{\"labels\":\"clock to "
                            "1.235 ms\"}}") != NULL);
    CHECK(strstr(text.data, "\"pid\":2,\"name\":\"process_labels\",\"args\":{\"labels\":\"clock is "
                            "not known\"}}") != NULL);
    CHECK(strstr(text.data, "\"pid\":0,\"name\":\"process_labels\"") == NULL);
    ft_text_fini(&text);
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
        "\"name\":\"F stage 0 mb 0\",\"args\":{\"batch\":0,\"micro\":0,\"lag\":0,"
        "\"version\":0}},\n"
        "{\"ph\":\"X\",\"pid\":0,\"tid\":0,\"ts\":1.500,\"dur\":2.000,\"cat\":\"backward\","
        "\"name\":\"B stage 0 mb 0\",\"args\":{\"batch\":0,\"micro\":0,\"lag\":0,"
        "\"version\":0}},\n"
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
    CHECK_STATUS(ft_timeline_write_trace(t, &plan, NULL, &text, &err), FT_OK);
    CHECK(!strcmp(text.data, wanted));
    t->events[1].start_ns = 1400;
    CHECK_STATUS(ft_timeline_write_trace(t, &plan, NULL, &text, &err), FT_INVALID);
    CHECK(strstr(err.message, "event 1 of device 0 begins at 1400 ns, before the end of event 0"));
    ft_text_fini(&text);
    ft_timeline_free(t);
}

int main(void)
{
    RUN(test_a_timeline_worked_out_by_hand);
    RUN(test_what_moves_is_there_while_it_is);
    RUN(test_what_copies_carry);
    RUN(test_what_was_sent);
    RUN(test_what_devices_waited_for);
    RUN(test_waits_in_a_trace);
    RUN(test_clocks_of_other_machines);
    RUN(test_trace_of_a_small_leg);
    return check_report();
}
