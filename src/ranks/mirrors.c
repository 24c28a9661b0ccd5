/* ranks/mirrors.c - what seats have in memory that is not the host's, copied to host memory and
 * back: for who looks at it between legs, and for other processes. */
#include "base/alloc.h"
#include "blueprint/states.h"
#include "ranks/ranks.h"
#include "state/late.h"
#include "edges/remote.h"
#include "state/here.h"

char *mirrored_param(const ft_run *run, int param)
{
    const mirror *m = &run->mirrors[param];
    return m->param ? m->param : param_at(run, param);
}

char *mirrored_state(const ft_run *run, int param)
{
    const mirror *m = &run->mirrors[param];
    return m->state ? m->state : run->states[param];
}

/* Between the owner's device, here, and the mirror. */
static ft_status copy_mirror(ft_run *run, int param, bool state, bool to_device, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    const mirror *m = &run->mirrors[param];
    int device = b->seats[b->params[param].owner].device;
    const ft_location host = {NULL, state ? m->state : m->param};
    const ft_location there =
        at_device(run, device, state ? run->states[param] : param_at(run, param));
    int64_t bytes =
        state ? ft_blueprint_state_bytes(b, param) : ft_spec_bytes(&b->params[param].spec);
    if (!bytes) return FT_OK;
    return copy_on(run->workers[device].compute, to_device ? there : host, to_device ? host : there,
                   bytes, err);
}

ft_status return_mirror(ft_run *run, int param, ft_error *err)
{
    const mirror *m = &run->mirrors[param];
    if (m->is_new) FT_TRY(copy_mirror(run, param, false, true, err));
    return m->state_is_new ? copy_mirror(run, param, true, true, err) : FT_OK;
}

void forget_mirror(ft_run *run, int param)
{
    run->mirrors[param].is_new = run->mirrors[param].state_is_new = false;
}

/* Memory for it, when it is first asked for. */
static ft_status make_mirror(ft_run *run, int param, bool with_state, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    mirror *m = &run->mirrors[param];
    if (!m->param) m->param = ft_arena_alloc(run->arena, ft_spec_bytes(&b->params[param].spec));
    if (!m->state && with_state)
        m->state = ft_arena_alloc(run->arena, ft_blueprint_state_bytes(b, param) + 64);
    if (m->param && (m->state || !with_state)) return FT_OK;
    return ft_fail(err, FT_NOMEM, "engine: no memory for a copy of '%s'", b->params[param].name);
}

ft_status fetch_mirror(ft_run *run, int param, bool with_state, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    const worker *w = &run->workers[b->seats[b->params[param].owner].device];
    mirror *m = &run->mirrors[param];
    bool away = !owner_is_here(run, param);
    if ((!w->findings && !away) || (m->is_new && (m->state_is_new || !with_state))) return FT_OK;
    if (leg_is_under_way(run))
        return ft_fail(err, FT_INVALID, "engine: '%s' cannot be fetched while a leg is running",
                       b->params[param].name);
    FT_TRY(make_mirror(run, param, with_state || away, err));
    if (away) return ranks_fetch(run, param, err);
    if (!m->is_new) FT_TRY(copy_mirror(run, param, false, false, err));
    if (with_state && !m->state_is_new) FT_TRY(copy_mirror(run, param, true, false, err));
    FT_TRY(w->executor->driver->finish(w->compute, err));
    m->is_new = true;
    m->state_is_new = m->state_is_new || with_state;
    return FT_OK;
}

char *held_at(const ft_run *run, int s, int param, bool state)
{
    const ft_seat_layout *seat = &run->blueprint->seats[s];
    for (int i = 0; seat_is_here(run, s) && i < seat->n_params; i++) {
        const ft_seat_param *p = &seat->params[i];
        if (p->param == param && (p->owned || (state ? p->with_state : p->replica)))
            return state ? known_state(run, s, param) : run->seats[s].params[param];
    }
    return NULL;
}

/* By way of a page, which has what was there: only a part may be written. */
static ft_status write_by_page(const worker *w, char *held, int64_t bytes, held_writer *write,
                               void *arg, ft_error *err)
{
    const ft_location there = at_device(w->run, w->device, held);
    char *page = ft_alloc(bytes);
    ft_status status = FT_OK;
    if (!page) return ft_fail(err, FT_NOMEM, "engine: no memory for a copy of a parameter");
    FT_GO(copy_on(w->compute, (ft_location){NULL, page}, there, bytes, err));
    FT_GO(w->executor->driver->finish(w->compute, err));
    FT_GO(write(arg, page, err));
    FT_GO(copy_on(w->compute, there, (ft_location){NULL, page}, bytes, err));
    FT_GO(w->executor->driver->finish(w->compute, err));
done:
    ft_free(page);
    return status;
}

ft_status write_held(ft_run *run, int param, bool state, held_writer *write, void *arg,
                     ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    int64_t bytes = ft_spec_bytes(&b->params[param].spec);
    if (state) bytes = ft_blueprint_state_bytes(b, param);
    for (int s = 0; s < run->n_seats; s++) {
        char *held = held_at(run, s, param, state);
        const worker *w = &run->workers[b->seats[s].device];
        if (!held) continue;
        FT_TRY(w->findings ? write_by_page(w, held, bytes, write, arg, err)
                           : write(arg, held, err));
    }
    forget_mirror(run, param);
    return FT_OK;
}
