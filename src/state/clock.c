/* state/clock.c - when copies really began and ended.
 *
 * A worker gives a copy to a stream and goes on, so what it sees of the copy is when it did that.
 * Events of the device stand around the newest copies of each stream; their times are noted when
 * their place is needed again, and when the leg has ended. */
#include "base/alloc.h"
#include "state/run.h"

static ft_stream stream_at(int way)
{
    return way ? FT_STREAM_OUT : FT_STREAM_IN;
}

static int way_of(const ft_action *a)
{
    return ft_action_stream(a->kind) == FT_STREAM_OUT;
}

ft_status clocks_open(worker *w, ft_error *err)
{
    const ft_driver *driver = w->executor->driver;
    for (int way = 0; way < 2; way++) {
        copy_clock *c = w->clocks[way] = ft_alloc(sizeof *c);
        if (!c) return ft_fail(err, FT_NOMEM, "engine: no memory for the times of copies");
        for (int i = 0; i < CLOCKED; i++) {
            FT_TRY(driver->open_event(&c->begun[i], w->executor, err));
            FT_TRY(driver->open_event(&c->ended[i], w->executor, err));
        }
    }
    return FT_OK;
}

/* Gives the n-th event of a stream in the leg, whose copy has ended, its times. One that copied
 * nothing has those of who submitted it; none begins before the one before it has ended. */
static ft_status note(const worker *w, int way, int64_t n, ft_error *err)
{
    const ft_driver *driver = w->executor->driver;
    copy_clock *c = w->clocks[way];
    ft_event *e = &w->events[stream_at(way)][n];
    int i = (int)(n % CLOCKED);
    if (c->runs[i]) {
        c->runs[i] = false;
        if (driver->passed_ns(c->ended[i]) < 0) FT_TRY(driver->await(c->ended[i], err));
        e->start_ns = driver->passed_ns(c->begun[i]) - w->run->start_ns;
        e->end_ns = driver->passed_ns(c->ended[i]) - w->run->start_ns;
    }
    if (n && e->start_ns < e[-1].end_ns) e->start_ns = e[-1].end_ns;
    if (e->end_ns < e->start_ns) e->end_ns = e->start_ns;
    return FT_OK;
}

void clocks_close(worker *w)
{
    const ft_driver *driver = w->executor->driver;
    for (int way = 0; way < 2; way++) {
        copy_clock *c = w->clocks[way];
        if (!c) continue;
        int64_t end = atomic_load(&w->n_events[stream_at(way)]);
        for (int64_t n = end > CLOCKED ? end - CLOCKED : 0; n < end; n++)
            (void)note(w, way, n, NULL); /* of a device that fails, whose leg says so */
        for (int i = 0; i < CLOCKED; i++) {
            if (c->begun[i]) driver->close_event(c->begun[i]);
            if (c->ended[i]) driver->close_event(c->ended[i]);
        }
        ft_free(c);
        w->clocks[way] = NULL;
    }
}

ft_status copy_begins(worker *w, const ft_action *a, ft_error *err)
{
    int way = way_of(a);
    int64_t n = atomic_load_explicit(&w->n_events[stream_at(way)], memory_order_relaxed);
    if (n >= CLOCKED) FT_TRY(note(w, way, n - CLOCKED, err));
    return w->executor->driver->record(stream_of(w, a), w->clocks[way]->begun[n % CLOCKED], err);
}

ft_status copy_ends(worker *w, const ft_action *a, ft_error *err)
{
    int way = way_of(a);
    int64_t n = atomic_load_explicit(&w->n_events[stream_at(way)], memory_order_relaxed);
    w->clocks[way]->runs[n % CLOCKED] = true;
    return w->executor->driver->record(stream_of(w, a), w->clocks[way]->ended[n % CLOCKED], err);
}
