/* test/check_driver.h - a device that checks those who use it: CHECK_DRIVER(name), for CPU kernels;
 * other entries may follow the name.
 *
 * Compute streams are their callers, as on the CPU. Copies wait in their streams until somebody
 * waits for them, or a number from the seed says that some are done now: any order that events
 * allow. Work that touches memory which holds nothing, or that another stream touches without an
 * event between the two, is refused with FT_DEVICE. Memory that begins or ends to have contents is
 * filled with NaN. One wait can be left out and one allocation, copy or launch can fail, by number.
 * All of it is under one lock. */
#ifndef FT_TEST_CHECK_DRIVER_H
#define FT_TEST_CHECK_DRIVER_H

#include <unistd.h>

#include "check_streams.h"

#define CHECK_LOCKED(expression)                                                                   \
    do {                                                                                           \
        pthread_mutex_lock(&checks.lock);                                                          \
        expression;                                                                                \
        pthread_mutex_unlock(&checks.lock);                                                        \
    } while (0)

/* -- executors and memory ---------------------------------------------------------------------- */

static ft_status check_open(ft_executor **out, const ft_device *device, ft_error *err)
{
    *out = NULL;
    check_executor *x = ft_alloc(sizeof *x);
    if (!x) return ft_fail(err, FT_NOMEM, "device %s: no memory to open it", device->name);
    x->base = (ft_executor){.driver = device->driver, .device = device};
    ft_status status = ft_team_new(&x->base.team, device->n_threads, err);
    if (status == FT_OK)
        *out = &x->base;
    else
        ft_free(x);
    CHECK_LOCKED(checks.open += status == FT_OK);
    return status;
}

static void check_close(ft_executor *executor)
{
    ft_team_free(executor->team);
    ft_free(executor);
    CHECK_LOCKED(checks.open--);
}

static ft_status check_enter(ft_executor *executor, ft_error *err)
{
    return check_failure(executor, err);
}

static void check_limits(const ft_executor *executor, ft_limits *out)
{
    *out = (ft_limits){executor->device->memory_bytes, ft_cpu_memory_bytes(), GRANULE};
}

static ft_status check_health(ft_executor *executor, ft_error *err)
{
    ft_status status;
    CHECK_LOCKED(status = check_failure(executor, err));
    return status;
}

static ft_status check_alloc(ft_executor *executor, ft_memory_side side, int64_t bytes, void **out,
                             ft_error *err)
{
    *out = NULL;
    pthread_mutex_lock(&checks.lock);
    checks.allocs++;
    bool fails = checks.fail_alloc && --checks.fail_alloc == 0;
    if (!fails) *out = ft_pages_alloc(bytes);
    if (*out) {
        checks.open++;
        shadow_new(&checks.memory, *out, bytes);
    }
    pthread_mutex_unlock(&checks.lock);
    if (*out) return FT_OK;
    return ft_fail(err, FT_NOMEM, "device %s: no memory for %lld bytes%s", executor->device->name,
                   (long long)bytes, side == FT_OF_HOST ? " in the host" : "");
}

static void check_release(ft_executor *executor, ft_memory_side side, void *memory, int64_t bytes)
{
    (void)executor;
    (void)side;
    if (!memory) return;
    pthread_mutex_lock(&checks.lock);
    shadow_free(&checks.memory, memory);
    checks.open--;
    pthread_mutex_unlock(&checks.lock);
    ft_pages_free(memory, bytes);
}

static void check_turn(ft_device_stream *on, void *address, int64_t bytes, bool vacant)
{
    check_stream *s = (check_stream *)on;
    const ft_access a = {address, bytes, false, true};
    pthread_mutex_lock(&checks.lock);
    touch now = check_advance(s);
    const char *fault = shadow_turn(checks.memory, address, bytes, vacant, now, &s->clock);
    check_executor *x = (check_executor *)on->executor;
    if (fault && x->failure.status == FT_OK)
        check_refuse(s, vacant ? "vacate" : "occupy", fault, &a, &x->failure);
    check_submit(s, (check_item){.kind = ITEM_POISON, .to = address, .bytes = bytes});
    pthread_mutex_unlock(&checks.lock);
}

static void check_occupy(ft_device_stream *on, void *address, int64_t bytes)
{
    check_turn(on, address, bytes, false);
}

static void check_vacate(ft_device_stream *on, void *address, int64_t bytes)
{
    check_turn(on, address, bytes, true);
}

/* -- streams and events ------------------------------------------------------------------------ */

static ft_status check_open_stream(ft_device_stream **out, ft_executor *executor, ft_stream_use use,
                                   ft_error *err)
{
    *out = NULL;
    check_stream *s = ft_alloc(sizeof *s);
    if (!s)
        return ft_fail(err, FT_NOMEM, "device %s: no memory for a stream", executor->device->name);
    pthread_mutex_lock(&checks.lock);
    int id = 1; /* 0 has no work: it stands for what was there before */
    while (id < SHADOW_STREAMS && checks.used[id]) id++;
    if (id < SHADOW_STREAMS) {
        s->base.executor = executor;
        s->use = use;
        s->id = id;
        s->next = checks.streams;
        checks.streams = s;
        checks.used[id] = true;
        checks.open++;
        *out = &s->base;
    }
    pthread_mutex_unlock(&checks.lock);
    if (*out) return FT_OK;
    ft_free(s);
    return ft_fail(err, FT_DEVICE, "device %s: too many streams", executor->device->name);
}

static ft_status check_finish(ft_device_stream *on, ft_error *err)
{
    check_stream *s = (check_stream *)on;
    ft_status status;
    pthread_mutex_lock(&checks.lock);
    while (s->first < s->end) check_do_one(s);
    clock_join(&checks.host, &s->clock);
    status = check_failure(on->executor, err);
    pthread_mutex_unlock(&checks.lock);
    return status;
}

static void check_close_stream(ft_device_stream *on)
{
    check_stream *s = (check_stream *)on;
    check_finish(on, NULL);
    pthread_mutex_lock(&checks.lock);
    check_heard(s);
    check_stream **link = &checks.streams;
    while (*link != s) link = &(*link)->next;
    *link = s->next;
    checks.used[s->id] = false;
    checks.open--;
    pthread_mutex_unlock(&checks.lock);
    ft_free(s);
}

static ft_status check_open_event(ft_device_event **out, ft_executor *executor, ft_error *err)
{
    check_event *e = ft_alloc(sizeof *e);
    *out = NULL;
    if (!e)
        return ft_fail(err, FT_NOMEM, "device %s: no memory for an event", executor->device->name);
    e->base.executor = executor;
    *out = &e->base;
    CHECK_LOCKED(checks.open++);
    return FT_OK;
}

static void check_close_event(ft_device_event *which)
{
    ft_free(which);
    CHECK_LOCKED(checks.open--);
}

static ft_status check_record(ft_device_stream *on, ft_device_event *which, ft_error *err)
{
    check_stream *s = (check_stream *)on;
    check_event *e = (check_event *)which;
    (void)err;
    pthread_mutex_lock(&checks.lock);
    clock_join(&s->clock, &checks.host);
    e->stream = s;
    e->clock = s->clock;
    e->number++;
    check_submit(s, (check_item){.kind = ITEM_RECORD, .event = e, .number = e->number});
    pthread_mutex_unlock(&checks.lock);
    return FT_OK;
}

static ft_status check_wait(ft_device_stream *on, ft_device_event *which, ft_error *err)
{
    ft_status status;
    CHECK_LOCKED(checks.waits++;
                 status = check_wait_for((check_stream *)on, (check_event *)which, err));
    return status;
}

static ft_status check_await(ft_device_event *which, ft_error *err)
{
    ft_status status;
    CHECK_LOCKED(status = check_wait_for(NULL, (check_event *)which, err));
    return status;
}

static int64_t check_passed_ns(const ft_device_event *which)
{
    const check_event *e = (const check_event *)which;
    int64_t ns;
    CHECK_LOCKED(ns = e->number && e->passed == e->number ? e->passed_ns : -1);
    return ns;
}

/* -- work -------------------------------------------------------------------------------------- */

static ft_status check_copy(ft_device_stream *on, ft_location to, ft_location from, int64_t bytes,
                            ft_error *err)
{
    check_stream *s = (check_stream *)on;
    pthread_mutex_lock(&checks.lock);
    checks.copies++;
    touch now = check_begin(s);
    const ft_access read = {from.address, bytes, true, false};
    const ft_access write = {to.address, bytes, false, true};
    if (to.executor && to.executor != on->executor) ((check_executor *)on->executor)->left = now;
    ft_status status = check_failure(on->executor, err);
    if (status == FT_OK) status = check_access(s, "a copy", &read, now, err);
    if (status == FT_OK) status = check_access(s, "a copy", &write, now, err);
    if (status == FT_OK)
        check_submit(s, (check_item){ITEM_COPY, to.address, from.address, bytes, NULL, 0});
    if (status == FT_OK && s->use == FT_FOR_COMPUTE) status = check_failure(on->executor, err);
    pthread_mutex_unlock(&checks.lock);
    return status;
}

static ft_status check_launch(ft_device_stream *on, const ft_task *task, const void *arg,
                              ft_error *err)
{
    check_stream *s = (check_stream *)on;
    ft_access list[FT_MAX_ACCESSES];
    if (s->use != FT_FOR_COMPUTE)
        return ft_fail(err, FT_INVALID, "device %s: %s was launched on a stream for copies",
                       on->executor->device->name, task->name);
    int n = task->accesses(arg, list);
    pthread_mutex_lock(&checks.lock);
    checks.launches++;
    touch now = check_begin(s), left = ((check_executor *)on->executor)->left;
    checks.beside += s->clock.at[left.stream] < left.tick;
    ft_status status = check_failure(on->executor, err);
    for (int i = 0; i < n && status == FT_OK; i++)
        status = check_access(s, task->name, &list[i], now, err);
    if (status == FT_OK && checks.fail_launch && --checks.fail_launch == 0)
        status = ft_fail(err, FT_DEVICE, "device %s: %s failed, as it was told to",
                         on->executor->device->name, task->name);
    bool stalls = checks.stall_launch && --checks.stall_launch == 0;
    check_let_run();
    pthread_mutex_unlock(&checks.lock);
    while (stalls) pause();
    return status == FT_OK ? task->run(arg, on, err) : status;
}

#define CHECK_DRIVER(...)                                                                          \
    {                                                                                              \
        .name = __VA_ARGS__, .kind = FT_DEVICE_CPU, .open = check_open, .close = check_close,      \
        .enter = check_enter, .limits = check_limits, .health = check_health,                      \
        .alloc = check_alloc, .release = check_release, .occupy = check_occupy,                    \
        .vacate = check_vacate, .open_stream = check_open_stream,                                  \
        .close_stream = check_close_stream, .open_event = check_open_event,                        \
        .close_event = check_close_event, .record = check_record, .wait = check_wait,              \
        .passed_ns = check_passed_ns, .await = check_await, .finish = check_finish,                \
        .copy = check_copy, .launch = check_launch, .call = ft_driver_call,                        \
    }

#endif
