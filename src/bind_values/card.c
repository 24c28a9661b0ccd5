/* bind_values/card.c - open devices, their streams, events and memory. */
#include "bind_values/card.h"

#include <string.h>

#include "base/alloc.h"

static const ft_driver *driver_of(const card *c)
{
    return c->executor->driver;
}

static ft_status no_memory(const ft_device *device, const char *what, ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "device %s: no memory for %s", device->name, what);
}

/* -- devices ----------------------------------------------------------------------------------- */

static ft_status open_parts(card *c, int64_t pinned_bytes, ft_error *err)
{
    void *pinned;
    FT_TRY(c->device.driver->open(&c->executor, &c->device, err));
    const ft_driver *driver = driver_of(c);
    FT_TRY(driver->enter(c->executor, err));
    FT_TRY(driver->open_stream(&c->own, c->executor, FT_FOR_COMPUTE, err));
    c->now = c->own;
    for (int i = 0; i < 2; i++) FT_TRY(driver->open_event(&c->left[i], c->executor, err));
    FT_TRY(driver->alloc(c->executor, FT_OF_HOST, pinned_bytes, &pinned, err));
    c->pinned = pinned;
    c->pinned_bytes = pinned_bytes;
    return FT_OK;
}

ft_status card_open(card **out, const ft_device *device, int64_t pinned_bytes, ft_error *err)
{
    card *c = ft_alloc(sizeof *c);
    *out = NULL;
    if (!c) return no_memory(device, "opening it", err);
    c->references = 1;
    c->device = *device;
    ft_status status = open_parts(c, pinned_bytes, err);
    if (status == FT_OK)
        *out = c;
    else
        card_release(c);
    return status;
}

void card_release(card *c)
{
    if (!c || --c->references > 0) return;
    if (c->executor) {
        const ft_driver *driver = driver_of(c);
        driver->close_stream(c->own);
        for (int i = 0; i < 2; i++) driver->close_event(c->left[i]);
        driver->release(c->executor, FT_OF_HOST, c->pinned, c->pinned_bytes);
        driver->close(c->executor);
    }
    ft_free(c);
}

ft_status card_finish(card *c, ft_error *err)
{
    ft_status status = driver_of(c)->finish(c->own, err);
    for (const card_stream *s = c->streams; s && status == FT_OK; s = s->next)
        status = driver_of(c)->finish(s->stream, err);
    return status;
}

static card *hold(card *c)
{
    c->references++;
    return c;
}

/* -- streams and events ------------------------------------------------------------------------ */

ft_status card_stream_new(card_stream **out, card *c, ft_error *err)
{
    card_stream *s = ft_alloc(sizeof *s);
    *out = NULL;
    if (!s) return no_memory(&c->device, "a stream", err);
    ft_status status = driver_of(c)->open_stream(&s->stream, c->executor, FT_FOR_COMPUTE, err);
    if (status != FT_OK) {
        ft_free(s);
        return status;
    }
    s->card = hold(c);
    s->next = c->streams;
    c->streams = s;
    *out = s;
    return FT_OK;
}

void card_stream_free(card_stream *s)
{
    if (!s) return;
    card *c = s->card;
    card_stream **at = &c->streams;
    while (*at != s) at = &(*at)->next;
    *at = s->next;
    if (c->now == s->stream) c->now = c->own;
    driver_of(c)->close_stream(s->stream);
    ft_free(s);
    card_release(c);
}

ft_status card_event_new(card_event **out, card *c, ft_error *err)
{
    card_event *e = ft_alloc(sizeof *e);
    *out = NULL;
    if (!e) return no_memory(&c->device, "an event", err);
    ft_status status = driver_of(c)->open_event(&e->event, c->executor, err);
    if (status != FT_OK) {
        ft_free(e);
        return status;
    }
    e->card = hold(c);
    *out = e;
    return FT_OK;
}

/* Streams that wait for it may be at that still. */
void card_event_free(card_event *e)
{
    if (!e) return;
    card_finish(e->card, NULL);
    driver_of(e->card)->close_event(e->event);
    card_release(e->card);
    ft_free(e);
}

/* -- memory ------------------------------------------------------------------------------------ */

ft_status card_memory_new(card_memory **out, card *c, int64_t bytes, ft_error *err)
{
    card_memory *m = ft_alloc(sizeof *m);
    *out = NULL;
    if (!m) return no_memory(&c->device, "a tensor", err);
    ft_status status = driver_of(c)->open_event(&m->written, c->executor, err);
    if (status == FT_OK)
        status = driver_of(c)->alloc(c->executor, FT_OF_DEVICE, bytes, &m->address, err);
    if (status != FT_OK) {
        driver_of(c)->close_event(m->written);
        ft_free(m);
        return status;
    }
    m->references = 1;
    m->card = hold(c);
    m->bytes = bytes;
    c->taken_bytes += bytes;
    *out = m;
    return FT_OK;
}

void card_memory_release(card_memory *m)
{
    if (!m || --m->references > 0) return;
    card *c = m->card;
    card_finish(c, NULL); /* what failed is said by who asks */
    driver_of(c)->close_event(m->written);
    driver_of(c)->release(c->executor, FT_OF_DEVICE, m->address, m->bytes);
    c->taken_bytes -= m->bytes;
    ft_free(m);
    card_release(c);
}

ft_status card_memory_need(const card_memory *m, ft_device_stream *stream, ft_error *err)
{
    if (!m->by || m->by == stream) return FT_OK;
    return driver_of(m->card)->wait(stream, m->written, err);
}

ft_status card_memory_wrote(card_memory *m, ft_device_stream *stream, ft_error *err)
{
    FT_TRY(driver_of(m->card)->record(stream, m->written, err));
    m->by = stream;
    return FT_OK;
}

/* -- copies ------------------------------------------------------------------------------------ */

ft_status card_memory_fill(card_memory *m, const void *from, ft_error *err)
{
    card *c = m->card;
    const ft_driver *driver = driver_of(c);
    int64_t half = c->pinned_bytes / 2;
    for (int64_t at = 0, i = 0; at < m->bytes; at += half, i = 1 - i) {
        int64_t bytes = m->bytes - at < half ? m->bytes - at : half;
        char *room = c->pinned + i * half;
        if (c->used[i]) FT_TRY(driver->await(c->left[i], err));
        memcpy(room, (const char *)from + at, (size_t)bytes);
        FT_TRY(driver->copy(c->now, (ft_location){c->executor, (char *)m->address + at},
                            (ft_location){NULL, room}, bytes, err));
        FT_TRY(driver->record(c->now, c->left[i], err));
        c->used[i] = true;
    }
    return card_memory_wrote(m, c->now, err);
}

ft_status card_memory_read(const card_memory *m, void *to, ft_error *err)
{
    card *c = m->card;
    const ft_driver *driver = driver_of(c);
    int64_t most = c->pinned_bytes;
    FT_TRY(card_memory_need(m, c->now, err));
    for (int i = 0; i < 2; i++)
        if (c->used[i]) FT_TRY(driver->await(c->left[i], err));
    for (int64_t at = 0; at < m->bytes; at += most) {
        int64_t bytes = m->bytes - at < most ? m->bytes - at : most;
        FT_TRY(driver->copy(c->now, (ft_location){NULL, c->pinned},
                            (ft_location){c->executor, (char *)m->address + at}, bytes, err));
        FT_TRY(driver->finish(c->now, err));
        memcpy((char *)to + at, c->pinned, (size_t)bytes);
    }
    return FT_OK;
}

ft_status card_memory_copy(card_memory *to, const card_memory *from, ft_error *err)
{
    ft_device_stream *stream = to->card->now;
    const ft_driver *driver = driver_of(to->card);
    FT_TRY(card_memory_need(from, stream, err));
    FT_TRY(driver->copy(stream, (ft_location){to->card->executor, to->address},
                        (ft_location){from->card->executor, from->address}, to->bytes, err));
    FT_TRY(driver->finish(stream, err));
    return card_memory_wrote(to, stream, err);
}
