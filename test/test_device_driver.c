/* test/test_device_driver.c - what every driver promises, on the drivers of this program: order in
 * a stream, events between streams, memory, failures of those who use it wrongly. */
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/gate.h"
#include "base/thread.h"
#include "check.h"
#include "check_driver.h"

static const ft_driver check_driver = CHECK_DRIVER("check");
const ft_driver *const ft_drivers[] = {&ft_cpu_driver, &check_driver, NULL};

enum { BYTES = 1 << 20, PEERS = 2 };

/* Two devices with a compute stream, two copy streams, and memory on both sides. */
typedef struct rig {
    ft_device devices[PEERS];
    ft_executor *executor[PEERS];
    ft_device_stream *compute[PEERS], *in[PEERS], *out[PEERS];
    void *block[PEERS], *host[PEERS];
} rig;

static bool rig_init(rig *r, const ft_driver *driver)
{
    ft_error err = {FT_OK, ""};
    char text[32];
    int n = 0;
    bool ok = true;
    *r = (rig){0};
    snprintf(text, sizeof text, "%s:%d/16MB", driver->name, PEERS);
    if (!CHECK_STATUS(ft_devices_parse(text, r->devices, &n, &err), FT_OK)) return false;
    for (int d = 0; d < PEERS && ok; d++) {
        ok = driver->open(&r->executor[d], &r->devices[d], &err) == FT_OK &&
             driver->enter(r->executor[d], &err) == FT_OK &&
             driver->alloc(r->executor[d], FT_OF_DEVICE, BYTES, &r->block[d], &err) == FT_OK &&
             driver->alloc(r->executor[d], FT_OF_HOST, BYTES, &r->host[d], &err) == FT_OK;
        ok = ok &&
             driver->open_stream(&r->compute[d], r->executor[d], FT_FOR_COMPUTE, &err) == FT_OK &&
             driver->open_stream(&r->in[d], r->executor[d], FT_FOR_COPIES, &err) == FT_OK &&
             driver->open_stream(&r->out[d], r->executor[d], FT_FOR_COPIES, &err) == FT_OK;
    }
    if (!ok) fprintf(stderr, "%s\n", err.message);
    return CHECK(ok);
}

static void rig_fini(rig *r, const ft_driver *driver)
{
    for (int d = 0; d < PEERS; d++) {
        driver->close_stream(r->compute[d]);
        driver->close_stream(r->in[d]);
        driver->close_stream(r->out[d]);
        driver->release(r->executor[d], FT_OF_DEVICE, r->block[d], BYTES);
        driver->release(r->executor[d], FT_OF_HOST, r->host[d], BYTES);
        driver->close(r->executor[d]);
    }
}

/* -- a task ------------------------------------------------------------------------------------ */

/* y[i] = x[i] + 1; x NULL: y[i] = value. */
typedef struct add_one {
    const int *x;
    int *y;
    int n, value;
} add_one;

static ft_status run_add(const void *arg, ft_device_stream *stream, ft_error *err)
{
    const add_one *a = arg;
    (void)stream;
    if (a->n < 0) return ft_fail(err, FT_INVALID, "a task's own failure");
    for (int i = 0; i < a->n; i++) a->y[i] = a->x ? a->x[i] + 1 : a->value;
    return FT_OK;
}

static int accesses_of_add(const void *arg, ft_access out[FT_MAX_ACCESSES])
{
    const add_one *a = arg;
    int n = 0;
    out[n++] = (ft_access){a->y, a->n * 4, false, true};
    if (a->x) out[n++] = (ft_access){a->x, a->n * 4, true, false};
    return n;
}

static const ft_task add_task = {"add one", run_add, accesses_of_add};

/* -- tests ------------------------------------------------------------------------------------- */

/* A value goes from device 0 through its host memory to device 1, over four streams. */
static void test_a_way_around(const ft_driver *d)
{
    rig r;
    enum { N = BYTES / 8 };
    if (!rig_init(&r, d)) return;
    ft_device_event *made, *out, *in;
    CHECK_STATUS(d->open_event(&made, r.executor[0], NULL), FT_OK);
    CHECK_STATUS(d->open_event(&out, r.executor[0], NULL), FT_OK);
    CHECK_STATUS(d->open_event(&in, r.executor[1], NULL), FT_OK);
    CHECK(d->passed_ns(made) < 0);
    int64_t start = ft_now_ns();
    int wrong = 0;
    for (int round = 0; round < 20; round++) {
        int *x = r.block[0], *y = r.block[1], *z = y + N;
        if (round) CHECK_STATUS(d->wait(r.compute[0], in, NULL), FT_OK);
        d->occupy(r.compute[0], x, N * 4);
        add_one fill = {.y = x, .n = N, .value = round};
        CHECK_STATUS(d->launch(r.compute[0], &add_task, &fill, NULL), FT_OK);
        CHECK_STATUS(d->record(r.compute[0], made, NULL), FT_OK);
        CHECK_STATUS(d->wait(r.out[0], made, NULL), FT_OK);
        CHECK_STATUS(d->copy(r.out[0], (ft_location){NULL, r.host[0]},
                             (ft_location){r.executor[0], x}, N * 4, NULL),
                     FT_OK);
        d->vacate(r.out[0], x, N * 4);
        CHECK_STATUS(d->record(r.out[0], out, NULL), FT_OK);
        CHECK_STATUS(d->wait(r.in[1], out, NULL), FT_OK);
        d->occupy(r.in[1], y, 2 * N * 4);
        CHECK_STATUS(d->copy(r.in[1], (ft_location){r.executor[1], y},
                             (ft_location){NULL, r.host[0]}, N * 4, NULL),
                     FT_OK);
        CHECK_STATUS(d->record(r.in[1], in, NULL), FT_OK);
        CHECK_STATUS(d->wait(r.compute[1], in, NULL), FT_OK);
        add_one add = {.x = y, .y = z, .n = N};
        CHECK_STATUS(d->launch(r.compute[1], &add_task, &add, NULL), FT_OK);
        CHECK_STATUS(d->record(r.compute[1], in, NULL), FT_OK);
        CHECK_STATUS(d->await(in, NULL), FT_OK);
        for (int i = 0; i < N; i++) wrong += z[i] != round + 1;
        CHECK_STATUS(d->wait(r.in[1], in, NULL), FT_OK);
        d->vacate(r.in[1], y, 2 * N * 4);
        CHECK_STATUS(d->record(r.in[1], in, NULL), FT_OK);
    }
    for (int k = 0; k < PEERS; k++) CHECK_STATUS(d->finish(r.in[k], NULL), FT_OK);
    for (int k = 0; k < PEERS; k++) CHECK_STATUS(d->finish(r.out[k], NULL), FT_OK);
    CHECK(wrong == 0);
    CHECK(d->passed_ns(out) >= start && d->passed_ns(in) <= ft_now_ns());
    CHECK(d->passed_ns(in) >= d->passed_ns(out));
    for (int k = 0; k < PEERS; k++) CHECK_STATUS(d->health(r.executor[k], NULL), FT_OK);
    d->close_event(made);
    d->close_event(out);
    d->close_event(in);
    rig_fini(&r, d);
}

/* Peer to peer, and within a device; more copies than any queue holds, in the stream's order. */
static void test_many_copies(const ft_driver *d)
{
    rig r;
    enum { COPIES = 2000 };
    if (!rig_init(&r, d)) return;
    int *host = r.host[0], *there = r.block[1];
    for (int i = 0; i < COPIES; i++) host[i] = i;
    d->occupy(r.out[0], r.block[0], COPIES * 4);
    d->occupy(r.out[0], there, COPIES * 8);
    for (int i = 0; i < COPIES; i++)
        CHECK_STATUS(d->copy(r.out[0], (ft_location){r.executor[0], (int *)r.block[0] + i},
                             (ft_location){NULL, host + i}, 4, NULL),
                     FT_OK);
    CHECK_STATUS(d->copy(r.out[0], (ft_location){r.executor[1], there},
                         (ft_location){r.executor[0], r.block[0]}, COPIES * 4, NULL),
                 FT_OK);
    CHECK_STATUS(d->copy(r.out[0], (ft_location){r.executor[1], there + COPIES},
                         (ft_location){r.executor[1], there}, COPIES * 4, NULL),
                 FT_OK);
    CHECK_STATUS(d->copy(r.out[0], (ft_location){NULL, r.host[1]},
                         (ft_location){r.executor[1], there + COPIES}, COPIES * 4, NULL),
                 FT_OK);
    CHECK_STATUS(d->finish(r.out[0], NULL), FT_OK);
    CHECK(memcmp(r.host[1], host, COPIES * 4) == 0);
    rig_fini(&r, d);
}

static void test_wrong_use(const ft_driver *d)
{
    rig r;
    ft_error err = {FT_OK, ""};
    if (!rig_init(&r, d)) return;
    ft_device_event *event;
    add_one fails = {.n = -1};
    CHECK_STATUS(d->open_event(&event, r.executor[0], &err), FT_OK);
    CHECK_STATUS(d->wait(r.compute[0], event, &err), FT_INVALID);
    CHECK(strstr(err.message, "never recorded") != NULL);
    CHECK_STATUS(d->wait(r.in[0], event, &err), FT_INVALID);
    CHECK_STATUS(d->await(event, &err), FT_INVALID);
    CHECK_STATUS(d->launch(r.in[0], &add_task, &fails, &err), FT_INVALID);
    CHECK(strstr(err.message, "add one") && strstr(err.message, "for copies"));
    CHECK_STATUS(d->launch(r.compute[0], &add_task, &fails, &err), FT_INVALID);
    CHECK(strcmp(err.message, "a task's own failure") == 0);
    void *all = NULL;
    ft_alloc_fail_after(1);
    CHECK_STATUS(d->alloc(r.executor[0], FT_OF_DEVICE, BYTES, &all, &err), FT_NOMEM);
    ft_alloc_fail_after(0);
    CHECK(!all && strstr(err.message, r.devices[0].name) != NULL);
    d->close_event(event);
    rig_fini(&r, d);
}

static void test_limits(const ft_driver *d)
{
    rig r;
    ft_limits limits;
    if (!rig_init(&r, d)) return;
    d->limits(r.executor[0], &limits);
    CHECK(limits.device_bytes > 0 && limits.device_bytes <= 16000000 && limits.host_bytes > 0);
    CHECK((uintptr_t)r.block[0] % (uintptr_t)limits.align == 0);
    rig_fini(&r, d);
}

/* Every allocation of a driver fails once: FT_NOMEM, and nothing is left. */
static void test_out_of_memory(const ft_driver *d)
{
    ft_device device;
    ft_error err;
    char text[32];
    int n;
    snprintf(text, sizeof text, "%s:1x2", d->name);
    CHECK_STATUS(ft_devices_parse(text, &device, &n, &err), FT_OK);
    int64_t alive = ft_alloc_live();
    for (int64_t after = 1;; after++) {
        ft_executor *executor = NULL;
        ft_device_stream *stream = NULL;
        ft_device_event *event = NULL;
        ft_alloc_fail_after(after);
        ft_status status = d->open(&executor, &device, &err);
        if (status == FT_OK) status = d->open_stream(&stream, executor, FT_FOR_COPIES, &err);
        if (status == FT_OK) status = d->open_event(&event, executor, &err);
        ft_alloc_fail_after(0);
        if (event) d->close_event(event);
        if (stream) d->close_stream(stream);
        if (executor) d->close(executor);
        CHECK(ft_alloc_live() == alive);
        if (status == FT_OK) break;
        if (!CHECK(status == FT_NOMEM && err.message[0])) break;
    }
}

/* Computes until an event of another stream has passed. */
static ft_status run_until(const void *arg, ft_device_stream *stream, ft_error *err)
{
    const ft_device_event *event = *(ft_device_event *const *)arg;
    int64_t start = ft_now_ns();
    while (stream->executor->driver->passed_ns(event) < 0)
        if (ft_now_ns() - start > (int64_t)600e9)
            return ft_fail(err, FT_HANG, "the copy waits for the computation");
    return FT_OK;
}

static int touches_nothing(const void *arg, ft_access out[FT_MAX_ACCESSES])
{
    (void)arg;
    (void)out;
    return 0;
}

/* On the CPU a copy is done while its device computes. */
static void test_copies_beside_compute(void)
{
    static const ft_task until = {"until an event", run_until, touches_nothing};
    const ft_driver *d = &ft_cpu_driver;
    rig r;
    ft_device_event *event;
    if (!rig_init(&r, d)) return;
    CHECK_STATUS(d->open_event(&event, r.executor[0], NULL), FT_OK);
    for (int i = 0; i < 20; i++) {
        CHECK_STATUS(d->copy(r.in[0], (ft_location){r.executor[0], r.block[0]},
                             (ft_location){NULL, r.host[0]}, BYTES, NULL),
                     FT_OK);
        CHECK_STATUS(d->record(r.in[0], event, NULL), FT_OK);
        CHECK_STATUS(d->launch(r.compute[0], &until, &event, NULL), FT_OK);
    }
    CHECK_STATUS(d->finish(r.in[0], NULL), FT_OK);
    d->close_event(event);
    rig_fini(&r, d);
}

/* Two threads, each of which records what the other waits for. */
typedef struct player {
    rig *rig;
    const ft_driver *driver;
    int side;
    ft_device_event **events;
    ft_gate *turn;
    int wrong;
} player;

static void *play(void *arg)
{
    player *p = arg;
    const ft_driver *d = p->driver;
    rig *r = p->rig;
    int *mine = r->block[p->side], *theirs = r->block[1 - p->side];
    p->wrong += d->enter(r->executor[p->side], NULL) != FT_OK;
    for (uint32_t round = (uint32_t)p->side; round < 200; round += 2) {
        ft_gate_wait(p->turn, round, NULL, -1);
        if (round) p->wrong += d->wait(r->compute[p->side], p->events[1 - p->side], NULL) != FT_OK;
        add_one fill = {.y = mine, .n = 100, .value = (int)round};
        if (round) p->wrong += theirs[99] != (int)round - 1;
        p->wrong += d->launch(r->compute[p->side], &add_task, &fill, NULL) != FT_OK;
        p->wrong += d->record(r->compute[p->side], p->events[p->side], NULL) != FT_OK;
        ft_gate_open(p->turn);
    }
    return NULL;
}

static void test_two_threads(const ft_driver *d)
{
    rig r;
    pthread_t other;
    ft_gate turn = {0};
    ft_device_event *events[PEERS];
    if (!rig_init(&r, d)) return;
    for (int k = 0; k < PEERS; k++) {
        CHECK_STATUS(d->open_event(&events[k], r.executor[k], NULL), FT_OK);
        d->occupy(r.compute[k], r.block[k], BYTES);
    }
    player players[PEERS] = {{&r, d, 0, events, &turn, 0}, {&r, d, 1, events, &turn, 0}};
    CHECK_STATUS(ft_thread_start(&other, play, &players[1], NULL), FT_OK);
    play(&players[0]);
    pthread_join(other, NULL);
    CHECK(players[0].wrong == 0 && players[1].wrong == 0);
    for (int k = 0; k < PEERS; k++) d->close_event(events[k]);
    rig_fini(&r, d);
}

/* -- what the checking device refuses -----------------------------------------------------------
 */

/* Ends the test of one fault: the device is not asked any more. */
static bool refused(ft_status status, const ft_error *err, const char *words)
{
    if (status == FT_DEVICE && strstr(err->message, words)) return true;
    fprintf(stderr, "expected '%s', got status %d: %s\n", words, status, err->message);
    return false;
}

static ft_status set(rig *r, ft_device_stream *on, int *y, ft_error *err)
{
    const add_one fill = {.y = y, .n = 16, .value = 1};
    return r->executor[0]->driver->launch(on, &add_task, &fill, err);
}

static void test_refusals(void)
{
    const ft_driver *d = &check_driver;
    ft_error err = {FT_OK, ""};
    rig r;
    ft_device_event *event;
    if (!rig_init(&r, d)) return;
    CHECK_STATUS(d->open_event(&event, r.executor[0], &err), FT_OK);
    int *x = r.block[0], *y = x + 64, *z = x + 128;
    const ft_location at_x = {r.executor[0], x}, at_y = {r.executor[0], y};
    const ft_location host = {NULL, r.host[0]};

    CHECK_STATUS(set(&r, r.compute[0], x, &err), FT_OK);
    CHECK(refused(d->copy(r.out[0], host, at_x, 64, &err), &err, "reads without an event"));
    CHECK(refused(set(&r, r.compute[1], x, &err), &err, "without an event after the write before"));
    CHECK_STATUS(d->record(r.compute[0], event, &err), FT_OK);
    CHECK_STATUS(d->wait(r.out[0], event, &err), FT_OK);
    CHECK_STATUS(d->copy(r.out[0], host, at_x, 64, &err), FT_OK);
    CHECK(refused(set(&r, r.compute[0], x, &err), &err, "without an event after a read"));
    CHECK_STATUS(d->record(r.out[0], event, &err), FT_OK);
    CHECK_STATUS(d->wait(r.compute[0], event, &err), FT_OK);
    CHECK_STATUS(set(&r, r.compute[0], x, &err), FT_OK);

    d->vacate(r.compute[0], y, 64);
    CHECK(refused(d->copy(r.compute[0], at_x, at_y, 64, &err), &err, "reads what holds nothing"));
    CHECK(refused(set(&r, r.compute[0], y, &err), &err, "writes what holds nothing"));
    d->occupy(r.compute[0], y, 64);
    CHECK_STATUS(set(&r, r.compute[0], y, &err), FT_OK);
    CHECK(refused(set(&r, r.compute[0], (int *)r.block[0] + BYTES / 4 - 4, &err), &err,
                  "is past the end"));
    *z = 5; /* stands for numbers that are left there */
    d->occupy(r.compute[0], z, 64);
    CHECK(*z == -1);
    CHECK_STATUS(d->health(r.executor[0], &err), FT_OK);

    checks.fail_copy = 1; /* a copy that fails later, told by whoever waits */
    CHECK_STATUS(d->record(r.compute[0], event, &err), FT_OK);
    CHECK_STATUS(d->wait(r.out[0], event, &err), FT_OK);
    ft_status first = d->copy(r.out[0], host, at_x, 64, &err);
    CHECK(first == FT_OK || first == FT_DEVICE);
    CHECK(refused(d->finish(r.out[0], &err), &err, "failed, as it was told to"));
    CHECK(refused(d->health(r.executor[0], &err), &err, "failed, as it was told to"));
    CHECK(refused(set(&r, r.compute[0], x, &err), &err, "failed, as it was told to"));
    d->close_event(event);
    rig_fini(&r, d);
}

/* A copy is done at different times with different seeds, and not later than it is waited for. */
static void test_orders(void)
{
    const ft_driver *d = &check_driver;
    int early = 0, late = 0;
    for (uint32_t seed = 1; seed <= 40; seed++) {
        rig r;
        if (!rig_init(&r, d)) return;
        checks.seed = seed;
        *(int *)r.host[0] = 7;
        CHECK_STATUS(d->copy(r.in[0], (ft_location){r.executor[0], r.block[0]},
                             (ft_location){NULL, r.host[0]}, 4, NULL),
                     FT_OK);
        *(*(int *)r.block[0] == 7 ? &early : &late) += 1;
        CHECK_STATUS(d->finish(r.in[0], NULL), FT_OK);
        CHECK(*(int *)r.block[0] == 7);
        rig_fini(&r, d);
    }
    CHECK(early > 0 && late > 0);
}

/* What passes between a limited device and host memory takes its time, each way; the rest does not.
 */
static void test_limited_copies(void)
{
    ft_error err = {FT_OK, ""};
    ft_device device[1];
    ft_executor *executor;
    ft_device_stream *in;
    void *block, *host;
    int n;
    const ft_driver *d = &ft_cpu_driver;
    CHECK_STATUS(ft_devices_parse("cpu:1@100MB/s", device, &n, &err), FT_OK);
    CHECK_STATUS(d->open(&executor, device, &err), FT_OK);
    CHECK_STATUS(d->alloc(executor, FT_OF_DEVICE, BYTES, &block, &err), FT_OK);
    CHECK_STATUS(d->alloc(executor, FT_OF_HOST, BYTES, &host, &err), FT_OK);
    CHECK_STATUS(d->open_stream(&in, executor, FT_FOR_COPIES, &err), FT_OK);
    int64_t least = INT64_MAX; /* of copies within the device */
    for (int i = 0; i < 20; i++) {
        bool limited = i % 2;
        char *to = (char *)block, *from = limited ? host : to + BYTES / 2;
        memset(from, i, BYTES / 2);
        int64_t start = ft_now_ns();
        CHECK_STATUS(d->copy(in, (ft_location){executor, to},
                             (ft_location){limited ? NULL : executor, from}, BYTES / 2, &err),
                     FT_OK);
        CHECK_STATUS(d->finish(in, &err), FT_OK);
        int64_t ns = ft_now_ns() - start;
        CHECK(to[0] == i && to[BYTES / 2 - 1] == i);
        /* less by no more than the one before was late */
        if (limited && i < 2) CHECK(ns >= 10 * (int64_t)BYTES / 2);
        if (!limited && ns < least) least = ns;
    }
    CHECK(least < 10 * (int64_t)BYTES / 2);
    d->close_stream(in);
    d->release(executor, FT_OF_DEVICE, block, BYTES);
    d->release(executor, FT_OF_HOST, host, BYTES);
    d->close(executor);
}

int main(void)
{
    for (int i = 0; ft_drivers[i]; i++) {
        const ft_driver *d = ft_drivers[i];
        test_a_way_around(d);
        test_many_copies(d);
        test_wrong_use(d);
        test_limits(d);
        test_out_of_memory(d);
        test_two_threads(d);
    }
    CHECK(checks.refused == 0 && checks.touches > 0);
    test_copies_beside_compute();
    test_limited_copies();
    test_refusals();
    test_orders();
    CHECK(checks.open == 0);
    return check_report();
}
