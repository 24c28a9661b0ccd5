/* state/clock.c - when what was given to streams really began and ended.
 *
 * A worker gives a copy to a stream, or work to a device that runs ahead, and goes on, so what it
 * sees of that is when it gave it. Events of the device stand around the newest actions of each
 * such stream; their times are noted when they have passed, at the latest when their place is
 * needed again or the leg has ended. */
#include "base/alloc.h"
#include "base/clock.h"
#include "state/run.h"

static int64_t events_of(const worker *w, ft_stream stream)
{
    return atomic_load_explicit(&w->n_events[stream], memory_order_relaxed);
}

/* Finds how far the device's clock is off: by the least that puts an event between two looks at the
 * host's clock, around its record and the wait for it. A clock that is right stays as it is. */
static ft_status compare(const worker *w, ft_stream stream, ft_error *err)
{
    const ft_driver *driver = w->executor->driver;
    stream_clock *c = w->clocks[stream];
    int64_t before = ft_now_ns();
    FT_TRY(driver->record(worker_stream(w, stream), c->begun[0], err));
    FT_TRY(driver->await(c->begun[0], err));
    int64_t after = ft_now_ns(), passed = driver->passed_ns(c->begun[0]);
    c->ahead_ns = passed < before ? passed - before : passed > after ? passed - after : 0;
    return FT_OK;
}

ft_status clock_open(worker *w, ft_stream stream, ft_error *err)
{
    const ft_driver *driver = w->executor->driver;
    stream_clock *c = w->clocks[stream] = ft_alloc(sizeof *c);
    if (!c) return ft_fail(err, FT_NOMEM, "engine: no memory for the times of actions");
    for (int i = 0; i < CLOCKED; i++) {
        FT_TRY(driver->open_event(&c->begun[i], w->executor, err));
        FT_TRY(driver->open_event(&c->ended[i], w->executor, err));
    }
    return compare(w, stream, err);
}

/* Gives the n-th event of a stream in the leg, which has ended, its times. One for which nothing
 * was given has those of who submitted it; none begins before the leg, which a device's clock may
 * be a little off from, or before the one before it has ended. */
static ft_status note(worker *w, ft_stream stream, int64_t n, ft_error *err)
{
    const ft_driver *driver = w->executor->driver;
    stream_clock *c = w->clocks[stream];
    ft_event *e = &w->events[stream][n];
    int i = (int)(n % CLOCKED);
    if (c->runs[i]) {
        c->runs[i] = false;
        if (driver->passed_ns(c->ended[i]) < 0) FT_TRY(driver->await(c->ended[i], err));
        int64_t start_ns = w->run->start_ns + c->ahead_ns; /* as the device's clock says */
        e->start_ns = driver->passed_ns(c->begun[i]) - start_ns;
        e->end_ns = driver->passed_ns(c->ended[i]) - start_ns;
    }
    int64_t least = n ? e[-1].end_ns : 0;
    if (e->start_ns < least) e->start_ns = least;
    if (e->end_ns < e->start_ns) e->end_ns = e->start_ns;
    if (stream == FT_STREAM_COMPUTE)
        atomic_fetch_add_explicit(&w->busy_ns, e->end_ns - e->start_ns, memory_order_relaxed);
    return FT_OK;
}

/* Notes those before number `least`, and as many behind as have passed. */
static ft_status catch_up(worker *w, ft_stream stream, int64_t least, ft_error *err)
{
    const ft_driver *driver = w->executor->driver;
    stream_clock *c = w->clocks[stream];
    for (int64_t end = events_of(w, stream); c->noted < end; c->noted++) {
        int i = (int)(c->noted % CLOCKED);
        bool passed = !c->runs[i] || driver->passed_ns(c->ended[i]) >= 0;
        if (!passed && c->noted >= least) return FT_OK;
        FT_TRY(note(w, stream, c->noted, err));
    }
    return FT_OK;
}

void clock_looks(worker *w, ft_stream stream)
{
    if (w->clocks[stream]) (void)catch_up(w, stream, 0, NULL);
}

static void close_clock(worker *w, ft_stream stream)
{
    const ft_driver *driver = w->executor->driver;
    stream_clock *c = w->clocks[stream];
    for (; c->noted < events_of(w, stream); c->noted++)
        (void)note(w, stream, c->noted, NULL); /* of a device that fails, whose leg says so */
    for (int i = 0; i < CLOCKED; i++) {
        if (c->begun[i]) driver->close_event(c->begun[i]);
        if (c->ended[i]) driver->close_event(c->ended[i]);
    }
    ft_free(c);
    w->clocks[stream] = NULL;
}

void clocks_close(worker *w)
{
    for (int k = 0; k < FT_STREAM_COUNT; k++)
        if (w->clocks[k]) close_clock(w, (ft_stream)k);
}

ft_status clock_begins(worker *w, const ft_action *a, ft_error *err)
{
    ft_stream stream = ft_action_stream(a->kind);
    int64_t n = events_of(w, stream);
    FT_TRY(catch_up(w, stream, n - CLOCKED + 1, err));
    return w->executor->driver->record(stream_of(w, a), w->clocks[stream]->begun[n % CLOCKED], err);
}

ft_status clock_ends(worker *w, const ft_action *a, ft_error *err)
{
    ft_stream stream = ft_action_stream(a->kind);
    int64_t n = events_of(w, stream);
    w->clocks[stream]->runs[n % CLOCKED] = true;
    return w->executor->driver->record(stream_of(w, a), w->clocks[stream]->ended[n % CLOCKED], err);
}
