/* actions/hearing.c - room for what actions have found on devices that run ahead of their workers.
 */
#include "actions/hearing.h"

#include "base/alloc.h"

static int64_t findings_bytes(const ft_blueprint *b)
{
    int64_t bytes = (int64_t)sizeof(findings) + b->n_terms * (int64_t)sizeof(ft_look);
    return (bytes + 63) / 64 * 64;
}

ft_status hearing_open(worker *w, ft_error *err)
{
    ft_executor *x = w->executor;
    int64_t each = findings_bytes(w->run->blueprint);
    if (!x || !ft_steps_of(w->compute)) return FT_OK;
    hearing *h = w->hearing = ft_arena_alloc(w->run->arena, sizeof *h);
    if (!h) return ft_fail(err, FT_NOMEM, "engine: no memory for what actions find");
    h->bytes = AHEAD * each;
    FT_TRY(x->driver->alloc(x, FT_OF_HOST, h->bytes, &h->memory, err));
    for (int i = 0; i < AHEAD; i++) {
        h->of[i].found = (findings *)(void *)((char *)h->memory + i * each);
        FT_TRY(x->driver->open_event(&h->of[i].told, x, err));
    }
    hearing_begin(w);
    return FT_OK;
}

void hearing_close(worker *w)
{
    hearing *h = w->hearing;
    if (!h) return;
    const ft_driver *driver = w->executor->driver;
    for (int i = 0; i < AHEAD; i++)
        if (h->of[i].told) driver->close_event(h->of[i].told);
    if (h->memory) driver->release(w->executor, FT_OF_HOST, h->memory, h->bytes);
}

void hearing_begin(worker *w)
{
    w->hearing->first = w->hearing->end = 0;
    w->findings = w->hearing->of[0].found;
}
