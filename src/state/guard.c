/* state/guard.c - guards of places, written and looked at. */
#include "state/guard.h"

#include <stdio.h>
#include <string.h>

#include "state/places.h"
#include "state/here.h"

/* Of those classes whose places come and go, which evaluation has elsewhere. */
static bool moves(ft_memory_class c)
{
    return c >= FT_MEMORY_ACTIVATIONS;
}

typedef struct pass {
    const ft_run *run;
    bool all;
    unsigned char line[FT_GUARD_BYTES];
    ft_status status;
    bool broken;
    ft_guard first; /* that is broken */
    ft_error *err;
} pass;

static void write_guard(void *user, const ft_guard *guard)
{
    pass *p = user;
    const worker *w = &p->run->workers[guard->device];
    char *at = w->block + guard->at;
    if (p->status != FT_OK || (!p->all && !moves(guard->class))) return;
    if (!is_here(p->run, guard->device)) return;
    if (moves(guard->class)) occupy(w, at, FT_GUARD_BYTES);
    p->status = copy_on(w->compute, at_device(p->run, guard->device, at),
                        (ft_location){NULL, p->line}, FT_GUARD_BYTES, p->err);
}

static void check_guard(void *user, const ft_guard *guard)
{
    pass *p = user;
    const worker *w = &p->run->workers[guard->device];
    char *at = w->block + guard->at;
    unsigned char found[FT_GUARD_BYTES];
    if (p->status != FT_OK || !is_here(p->run, guard->device)) return;
    p->status = copy_on(w->compute, (ft_location){NULL, found},
                        at_device(p->run, guard->device, at), FT_GUARD_BYTES, p->err);
    if (p->status == FT_OK) p->status = w->executor->driver->finish(w->compute, p->err);
    if (moves(guard->class)) vacate(w, at, FT_GUARD_BYTES);
    if (p->status != FT_OK || p->broken || !memcmp(found, p->line, FT_GUARD_BYTES)) return;
    p->broken = true;
    p->first = *guard;
}

ft_status guards_write(ft_run *run, bool all, ft_error *err)
{
    pass p = {.run = run, .all = all, .err = err};
    memset(p.line, GUARD, sizeof p.line);
    places_visit(run->blueprint, write_guard, &p);
    if (p.status != FT_OK) return p.status;
    return finish_streams(run, err);
}

ft_status guards_check(ft_run *run, ft_error *err)
{
    pass p = {.run = run, .err = err};
    char stage[48] = "", slot[48] = "", name[128] = "";
    memset(p.line, GUARD, sizeof p.line);
    places_visit(run->blueprint, check_guard, &p);
    if (p.status != FT_OK || !p.broken) return p.status;
    if (p.first.seat >= 0)
        snprintf(stage, sizeof stage, " in stage %d", plan_stage(run, p.first.seat));
    if (p.first.slot >= 0) snprintf(slot, sizeof slot, ", slot %d", p.first.slot);
    if (p.first.name) snprintf(name, sizeof name, " of '%s'", p.first.name);
    return ft_fail(err, FT_INVALID, "device %s: something wrote past the end of %s%s%s%s",
                   run->blueprint->cut.devices[p.first.device].name,
                   ft_memory_classes[p.first.class].name, name, stage, slot);
}
