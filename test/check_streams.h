/* test/check_streams.h - streams of the device that checks: what is queued, what happened before
 * what, what is refused. */
#ifndef FT_TEST_CHECK_STREAMS_H
#define FT_TEST_CHECK_STREAMS_H

#include <pthread.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "check_shadow.h"
#include "device/driver.h"

enum { CHECK_QUEUE = 256 };

typedef struct check_event {
    ft_device_event base;
    struct check_stream *stream; /* of the newest record; NULL: never recorded */
    clock_of clock;
    uint64_t number, passed; /* records submitted, passed */
    int64_t passed_ns;
} check_event;

typedef struct check_item {
    enum { ITEM_COPY, ITEM_POISON, ITEM_RECORD, ITEM_WAIT } kind;
    void *to;
    const void *from;
    int64_t bytes;
    check_event *event;
    uint64_t number;
} check_item;

typedef struct check_stream {
    ft_device_stream base;
    ft_stream_use use;
    int id;
    clock_of clock; /* of its newest work */
    check_item queue[CHECK_QUEUE];
    int64_t first, end; /* queued: [first, end) */
    struct check_stream *next;
} check_stream;

typedef struct check_executor {
    ft_executor base;
    ft_error failure; /* of what was submitted */
    touch left;       /* its newest copy to another executor */
} check_executor;

/* What a test sets (fail_*, drop_wait: the n-th from now, of waits that are needed; stall_launch:
 * that launch never returns; 0: none) and reads. */
static struct {
    pthread_mutex_t lock;
    uint32_t seed;
    int64_t drop_wait, fail_alloc, fail_copy, fail_launch, stall_launch;
    int64_t waits, needed; /* needed: of these, those that order what nothing else orders */
    int64_t implied;       /* waits left out that later ones, or those of the host, stood for */
    clock_of dropped;      /* what the wait that was left out would have brought to this stream: */
    struct check_stream *dropper;
    int64_t allocs, copies, launches, touches, refused; /* so far */
    int64_t beside; /* launches that may run while the newest copy to another executor does */
    int64_t open;   /* executors, streams, events and blocks that are not closed */
    shadow *memory;
    check_stream *streams;
    bool used[SHADOW_STREAMS];
    uint32_t ticks[SHADOW_STREAMS];
    clock_of host; /* what the host has waited for */
} checks = {.lock = PTHREAD_MUTEX_INITIALIZER, .seed = 1};

static inline uint32_t check_random(void)
{
    checks.seed = checks.seed * 1664525u + 1013904223u;
    return checks.seed >> 8;
}

/* -- time -------------------------------------------------------------------------------------- */

/* The next piece of work of a stream: its clock becomes that of the stream. */
static inline touch check_advance(check_stream *s)
{
    clock_join(&s->clock, &checks.host);
    s->clock.at[s->id] = ++checks.ticks[s->id];
    return (touch){s->clock.at[s->id], (uint8_t)s->id};
}

/* Whether the stream has heard by now what the wait that was left out would have told it. */
static inline void check_heard(const check_stream *s)
{
    if (checks.dropper != s) return;
    clock_of clock = s->clock;
    clock_join(&clock, &checks.host);
    bool is_there = !clock_join(&clock, &checks.dropped);
    checks.implied += is_there;
    if (is_there) checks.dropper = NULL;
}

/* As check_advance, for work that needs what was waited for. */
static inline touch check_begin(check_stream *s)
{
    check_heard(s);
    return check_advance(s);
}

static inline ft_status check_refuse(const check_stream *s, const char *what, const char *fault,
                                     const ft_access *access, ft_error *err)
{
    checks.refused++;
    return ft_fail(err, FT_DEVICE, "device %s: %s %s: %lld bytes at %p",
                   s->base.executor->device->name, what, fault, (long long)access->bytes,
                   access->address);
}

static inline ft_status check_access(check_stream *s, const char *what, const ft_access *a,
                                     touch now, ft_error *err)
{
    checks.touches++;
    const char *fault =
        shadow_touch(checks.memory, a->address, a->bytes, a->reads, a->writes, now, &s->clock);
    return fault ? check_refuse(s, what, fault, a, err) : FT_OK;
}

/* -- streams that are behind --------------------------------------------------------------------
 */

static inline void check_pass(check_event *e, uint64_t number)
{
    if (e->passed < number) e->passed = number;
    e->passed_ns = ft_now_ns();
}

static inline void check_do(check_stream *s, const check_item *item);

/* Does the oldest queued item, and first what it waits for. */
static inline void check_do_one(check_stream *s)
{
    check_item item = s->queue[s->first++ % CHECK_QUEUE];
    check_do(s, &item);
}

static inline void check_catch_up(const check_event *e, uint64_t number)
{
    while (e->passed < number && e->stream->first < e->stream->end) check_do_one(e->stream);
}

static inline void check_do(check_stream *s, const check_item *item)
{
    check_executor *x = (check_executor *)s->base.executor;
    bool works = x->failure.status == FT_OK;
    if (item->kind == ITEM_WAIT) check_catch_up(item->event, item->number);
    if (item->kind == ITEM_RECORD) check_pass(item->event, item->number);
    if (item->kind == ITEM_POISON && works) memset(item->to, POISON, (size_t)item->bytes);
    if (item->kind != ITEM_COPY || !works) return;
    if (checks.fail_copy && --checks.fail_copy == 0)
        ft_fail(&x->failure, FT_DEVICE, "device %s: a copy of %lld bytes failed, as it was told to",
                x->base.device->name, (long long)item->bytes);
    else
        memcpy(item->to, item->from, (size_t)item->bytes);
}

/* Some of what is queued anywhere, as the seed has it. */
static inline void check_let_run(void)
{
    for (check_stream *s = checks.streams; s; s = s->next)
        for (uint32_t n = check_random() % 3; n && s->first < s->end; n--) check_do_one(s);
}

static inline void check_submit(check_stream *s, check_item item)
{
    if (s->use == FT_FOR_COMPUTE) {
        check_do(s, &item);
    } else {
        if (s->end - s->first == CHECK_QUEUE) check_do_one(s);
        s->queue[s->end++ % CHECK_QUEUE] = item;
    }
    check_let_run();
}

static inline ft_status check_failure(const ft_executor *executor, ft_error *err)
{
    const check_executor *x = (const check_executor *)executor;
    if (x->failure.status != FT_OK && err) *err = x->failure;
    return x->failure.status;
}

/* s NULL: the host waits. */
static inline ft_status check_wait_for(check_stream *s, check_event *e, ft_error *err)
{
    if (!e->stream)
        return ft_fail(err, FT_INVALID, "device %s: a wait for an event that was never recorded",
                       e->base.executor->device->name);
    clock_of before = s ? s->clock : checks.host;
    bool news = clock_join(s ? &s->clock : &checks.host, &e->clock);
    if (s && news) checks.needed++;
    if (s && news && checks.drop_wait && --checks.drop_wait == 0) {
        s->clock = before;
        checks.dropped = e->clock;
        checks.dropper = s;
        return FT_OK;
    }
    if (s && s->use == FT_FOR_COPIES)
        check_submit(s, (check_item){.kind = ITEM_WAIT, .event = e, .number = e->number});
    else
        check_catch_up(e, e->number);
    return check_failure(s ? s->base.executor : e->base.executor, err);
}

#endif
