/* device/cpu_driver.c - CPU devices: compute streams are their callers, copy streams are threads.
 *
 * An event counts: a record is submitted with the next number and passed when the count comes to
 * it. Copies cannot fail here, so a CPU device is always healthy. */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/gate.h"
#include "base/thread.h"
#include "device/driver.h"

enum { QUEUE = 256 }; /* submitted to a copy stream and not done; who submits more waits */
/* Copied at once where copies to and from host memory are limited. */
enum { CHUNK = 1 << 18 };

typedef struct event {
    ft_device_event base;
    uint32_t submitted; /* records; read by who waits, after who recorded */
    ft_gate passed;
    _Atomic int64_t passed_ns;
} event;

typedef enum { DO_COPY, DO_RECORD, DO_WAIT, DO_CALL } work_kind;

typedef struct work {
    work_kind kind;
    event *event;
    uint32_t number; /* of a record */
    void *to;
    const void *from;
    int64_t bytes;
    bool is_limited; /* it passes between device and host memory */
    void (*function)(void *);
} work;

typedef struct stream {
    ft_device_stream base;
    bool is_thread; /* else the caller */
    pthread_t thread;
    atomic_bool stop;
    uint32_t submitted;
    ft_gate begun, done; /* submitted so many; done so many */
    work *queue;         /* ring of QUEUE */
    double ns_per_byte;  /* of limited copies; 0: they take what they can */
    int64_t free_ns;     /* when the next limited copy may begin */
    int64_t late_ns;     /* that the last one ended behind this */
} stream;

/* -- executors and memory ---------------------------------------------------------------------- */

static ft_status cpu_open(ft_executor **out, const ft_device *device, ft_error *err)
{
    *out = NULL;
    ft_executor *e = ft_alloc(sizeof *e);
    if (!e) return ft_fail(err, FT_NOMEM, "device %s: no memory to open it", device->name);
    *e = (ft_executor){.driver = device->driver, .device = device};
    ft_status status = ft_team_new(&e->team, device->n_threads, err);
    if (status == FT_OK)
        *out = e;
    else
        ft_free(e);
    return status;
}

static void cpu_close(ft_executor *executor)
{
    if (!executor) return;
    ft_team_free(executor->team);
    ft_free(executor);
}

static ft_status cpu_enter(ft_executor *executor, ft_error *err)
{
    (void)executor;
    (void)err;
    return FT_OK;
}

static void cpu_limits(const ft_executor *executor, ft_limits *out)
{
    int64_t host = ft_cpu_memory_bytes(), budget = executor->device->memory_bytes;
    *out = (ft_limits){budget < host ? budget : host, host, 64};
}

static ft_status cpu_health(ft_executor *executor, ft_error *err)
{
    (void)executor;
    (void)err;
    return FT_OK;
}

static ft_status cpu_alloc(ft_executor *executor, ft_memory_side side, int64_t bytes, void **out,
                           ft_error *err)
{
    *out = ft_pages_alloc(bytes);
    if (*out) return FT_OK;
    return ft_fail(err, FT_NOMEM, "device %s: no memory for its %.1f MB%s", executor->device->name,
                   (double)bytes / 1e6, side == FT_OF_HOST ? " in the host" : "");
}

static void cpu_release(ft_executor *executor, ft_memory_side side, void *memory, int64_t bytes)
{
    (void)executor;
    (void)side;
    ft_pages_free(memory, bytes);
}

static void cpu_occupy(ft_device_stream *on, void *address, int64_t bytes)
{
    (void)on;
    (void)address;
    (void)bytes;
}

/* -- events ------------------------------------------------------------------------------------ */

static ft_status cpu_open_event(ft_device_event **out, ft_executor *executor, ft_error *err)
{
    event *e = ft_alloc(sizeof *e);
    *out = NULL;
    if (!e)
        return ft_fail(err, FT_NOMEM, "device %s: no memory for an event", executor->device->name);
    e->base.executor = executor;
    *out = &e->base;
    return FT_OK;
}

static void cpu_close_event(ft_device_event *which)
{
    ft_free(which);
}

static void pass(event *e)
{
    atomic_store_explicit(&e->passed_ns, ft_now_ns(), memory_order_relaxed);
    ft_gate_open(&e->passed);
}

static int64_t cpu_passed_ns(const ft_device_event *which)
{
    const event *e = (const event *)which;
    if (!e->submitted || ft_gate_count(&e->passed) != e->submitted) return -1;
    return atomic_load_explicit(&e->passed_ns, memory_order_relaxed);
}

static ft_status cpu_await(ft_device_event *which, ft_error *err)
{
    event *e = (event *)which;
    if (!e->submitted)
        return ft_fail(err, FT_INVALID, "device %s: a wait for an event that was never recorded",
                       which->executor->device->name);
    ft_gate_wait(&e->passed, e->submitted, NULL, -1);
    return FT_OK;
}

/* -- copy streams ------------------------------------------------------------------------------ */

/* Copies at the stream's limit, chunk by chunk: a bucket of tokens that fills at the limit, and
 * holds no more than what passed while the thread was woken later than it asked for. */
static void copy_limited(stream *s, const work *w)
{
    int64_t now = ft_now_ns();
    if (s->free_ns < now - s->late_ns) s->free_ns = now - s->late_ns;
    for (int64_t at = 0; at < w->bytes; at += CHUNK) {
        int64_t bytes = w->bytes - at < CHUNK ? w->bytes - at : CHUNK;
        memcpy((char *)w->to + at, (const char *)w->from + at, (size_t)bytes);
        s->free_ns += (int64_t)(s->ns_per_byte * (double)bytes);
        ft_sleep_until_ns(s->free_ns);
    }
    now = ft_now_ns();
    s->late_ns = now > s->free_ns ? now - s->free_ns : 0;
}

static void *copy_thread(void *arg)
{
    stream *s = arg;
    for (uint32_t n = 0; ft_gate_wait(&s->begun, n + 1, &s->stop, -1); n++) {
        const work *w = &s->queue[n % QUEUE];
        if (w->kind == DO_COPY && w->is_limited && s->ns_per_byte > 0)
            copy_limited(s, w);
        else if (w->kind == DO_COPY)
            memcpy(w->to, w->from, (size_t)w->bytes);
        if (w->kind == DO_CALL) w->function(w->to);
        if (w->kind == DO_RECORD) pass(w->event);
        if (w->kind == DO_WAIT) ft_gate_wait(&w->event->passed, w->number, NULL, -1);
        ft_gate_open(&s->done);
    }
    return NULL;
}

static void submit(stream *s, work w)
{
    if (s->submitted >= QUEUE) ft_gate_wait(&s->done, s->submitted - QUEUE + 1, NULL, -1);
    s->queue[s->submitted % QUEUE] = w;
    s->submitted++;
    ft_gate_open(&s->begun);
}

static ft_status cpu_open_stream(ft_device_stream **out, ft_executor *executor, ft_stream_use use,
                                 ft_error *err)
{
    *out = NULL;
    stream *s = ft_alloc(sizeof *s);
    if (s && use == FT_FOR_COPIES) s->queue = ft_alloc(QUEUE * sizeof *s->queue);
    if (!s || (use == FT_FOR_COPIES && !s->queue)) {
        ft_free(s);
        return ft_fail(err, FT_NOMEM, "device %s: no memory for a stream", executor->device->name);
    }
    s->base.executor = executor;
    s->is_thread = use == FT_FOR_COPIES;
    if (executor->device->host_limit > 0) s->ns_per_byte = 1e9 / executor->device->host_limit;
    ft_status status = FT_OK;
    if (s->is_thread) status = ft_thread_start(&s->thread, copy_thread, s, err);
    if (status == FT_OK) {
        *out = &s->base;
        return FT_OK;
    }
    ft_error_wrap(err, "device %s", executor->device->name);
    ft_free(s->queue);
    ft_free(s);
    return status;
}

static ft_status cpu_finish(ft_device_stream *on, ft_error *err)
{
    stream *s = (stream *)on;
    (void)err;
    if (s->is_thread) ft_gate_wait(&s->done, s->submitted, NULL, -1);
    return FT_OK;
}

static void cpu_close_stream(ft_device_stream *on)
{
    stream *s = (stream *)on;
    if (!s) return;
    if (s->is_thread) {
        cpu_finish(on, NULL);
        atomic_store(&s->stop, true);
        ft_gate_wake(&s->begun);
        pthread_join(s->thread, NULL);
    }
    ft_free(s->queue);
    ft_free(s);
}

/* -- work -------------------------------------------------------------------------------------- */

static ft_status cpu_record(ft_device_stream *on, ft_device_event *which, ft_error *err)
{
    stream *s = (stream *)on;
    event *e = (event *)which;
    (void)err;
    e->submitted++;
    if (s->is_thread)
        submit(s, (work){.kind = DO_RECORD, .event = e});
    else
        pass(e);
    return FT_OK;
}

static ft_status cpu_wait(ft_device_stream *on, ft_device_event *which, ft_error *err)
{
    stream *s = (stream *)on;
    event *e = (event *)which;
    if (!s->is_thread || !e->submitted) return cpu_await(which, err);
    submit(s, (work){.kind = DO_WAIT, .event = e, .number = e->submitted});
    return FT_OK;
}

static ft_status cpu_copy(ft_device_stream *on, ft_location to, ft_location from, int64_t bytes,
                          ft_error *err)
{
    stream *s = (stream *)on;
    (void)err;
    if (s->is_thread)
        submit(s, (work){.kind = DO_COPY,
                         .to = to.address,
                         .from = from.address,
                         .bytes = bytes,
                         .is_limited = !to.executor || !from.executor});
    else
        memcpy(to.address, from.address, (size_t)bytes);
    return FT_OK;
}

static ft_status cpu_launch(ft_device_stream *on, const ft_task *task, const void *arg,
                            ft_error *err)
{
    if (((stream *)on)->is_thread)
        return ft_fail(err, FT_INVALID, "device %s: %s was launched on a stream for copies",
                       on->executor->device->name, task->name);
    return task->run(arg, on, err);
}

static ft_status cpu_call(ft_device_stream *on, void (*function)(void *), void *arg, ft_error *err)
{
    stream *s = (stream *)on;
    (void)err;
    if (s->is_thread)
        submit(s, (work){.kind = DO_CALL, .to = arg, .function = function});
    else
        function(arg);
    return FT_OK;
}

static ft_status run_plain(const void *arg, ft_device_stream *on, ft_error *err)
{
    const ft_plain_work *w = arg;
    (void)on;
    return w->run(w->arg, err);
}

static int plain_accesses(const void *arg, ft_access out[FT_MAX_ACCESSES])
{
    const ft_plain_work *w = arg;
    memcpy(out, w->accesses, (size_t)w->n_accesses * sizeof *out);
    return w->n_accesses;
}

ft_status ft_driver_call(ft_device_stream *on, void (*function)(void *), void *arg, ft_error *err)
{
    FT_TRY(on->executor->driver->finish(on, err));
    function(arg);
    return FT_OK;
}

const ft_task ft_plain_task = {"a function", run_plain, plain_accesses};

const ft_driver ft_cpu_driver = {
    .name = "cpu",
    .kind = FT_DEVICE_CPU,
    .open = cpu_open,
    .close = cpu_close,
    .enter = cpu_enter,
    .limits = cpu_limits,
    .health = cpu_health,
    .alloc = cpu_alloc,
    .release = cpu_release,
    .occupy = cpu_occupy,
    .vacate = cpu_occupy,
    .open_stream = cpu_open_stream,
    .close_stream = cpu_close_stream,
    .open_event = cpu_open_event,
    .close_event = cpu_close_event,
    .record = cpu_record,
    .wait = cpu_wait,
    .passed_ns = cpu_passed_ns,
    .await = cpu_await,
    .finish = cpu_finish,
    .copy = cpu_copy,
    .launch = cpu_launch,
    .call = cpu_call,
};
