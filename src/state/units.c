/* state/units.c - classes of seats that come to a device and leave it: actions O, L and D.
 *
 * Where a unit lies is in the plan; here it is only brought there. It has a home in host memory of
 * its device, where it is between legs, and is copied on the device's stream in or out, beside what
 * is computed. Its guard is behind it wherever it is, home or device.
 *
 * What waits for what: a copy waits for all that is computed before it in the list. What touches a
 * unit waits for the copy that brought it. What comes to a place waits for copies from there. */
#include <string.h>

#include "base/alloc.h"
#include "state/disk.h"
#include "state/guard.h"
#include "state/ledger.h"
#include "state/here.h"

/* Streams that bring something to a device. */
typedef enum { BY_COPY, BY_COMPUTE, BRINGERS } bringer;

typedef struct unit_state {
    const ft_unit *unit;
    int device;
    char *home; /* and the guard behind it; the guard alone where the unit never comes home */
    int64_t home_bytes;
    disk_home *disk;       /* NULL: the home is in host memory */
    ft_device_event *mark; /* of compute: the unit is as it was when the copy was submitted */
    ft_device_event *came; /* of the copy that brought it */
    bool is_coming;        /* and compute has not waited for it */
    bool is_there;
    int stay; /* the newest */
} unit_state;

/* A place that copies left from: its newest one, and whether others have waited for it. Its
 * device's worker alone looks at it. */
typedef struct stay_state {
    ft_device_event *left;
    bool is_pending[BRINGERS];
} stay_state;

struct run_units {
    unit_state **of; /* by seat and class; NULL: none */
    stay_state *stays;
    int n, n_stays; /* of both */
};

static unit_state *unit_at(const ft_run *run, int s, int class)
{
    return run->units ? run->units->of[s * FT_MEMORY_CLASSES + class] : NULL;
}

static int64_t place_bytes(const unit_state *u)
{
    return ft_place_bytes(u->unit->bytes);
}

static worker *worker_of(const ft_run *run, const unit_state *u)
{
    return &run->workers[u->device];
}

static char *guard_of(const unit_state *u)
{
    return u->home + u->home_bytes - FT_GUARD_BYTES;
}

static char *place_of(const ft_run *run, const unit_state *u)
{
    return worker_of(run, u)->block + run->blueprint->stays.of[u->stay].at;
}

/* -- addresses --------------------------------------------------------------------------------- */

/* The weights of a seat, in it and in those of its device that use them in place. */
static void point_weights(ft_run *run, int s, char *base)
{
    const ft_blueprint *b = run->blueprint;
    for (int t = 0; t < b->seating.n_seats; t++)
        for (int i = 0; i < b->seats[t].n_params; i++) {
            const ft_seat_param *sp = &b->seats[t].params[i];
            bool own = t == s && (sp->owned || sp->replica);
            bool lent = t != s && !sp->owned && !sp->replica && b->params[sp->param].owner == s;
            if (own) run->seats[t].params[sp->param] = base + sp->at;
            if (lent) run->seats[t].params[sp->param] = base + b->params[sp->param].at;
        }
}

/* What a seat of evaluation reads, of what training moves. */
static void point_visit(ft_run *run, const unit_state *u, char *base)
{
    const ft_seat_layout *seat = &run->blueprint->seats[u->unit->seat];
    seat_state *state = &run->seats[u->unit->seat];
    bool packed = u->unit->class == FT_MEMORY_PACKED;
    for (int i = 0; packed && i < seat->n_packs; i++)
        if (seat->pack_visit[i] >= 0) state->packed[i] = base + seat->pack_visit[i];
    for (int i = 0; !packed && i < seat->n_params; i++)
        if (seat->params[i].at >= 0)
            state->params[seat->params[i].param] = base + seat->params[i].at;
}

static void point_at(ft_run *run, const unit_state *u, char *base)
{
    const ft_blueprint *b = run->blueprint;
    if (u->unit->visits) {
        point_visit(run, u, base);
        return;
    }
    int s = u->unit->seat;
    const ft_seat_layout *seat = &b->seats[s];
    switch (u->unit->class) {
    case FT_MEMORY_WEIGHTS: point_weights(run, s, base); break;
    case FT_MEMORY_GRADIENTS:
        for (int i = 0; i < seat->cut[0]->n_grads; i++)
            run->seats[s].grads[seat->cut[0]->grads[i]] = base + seat->term_at[i];
        break;
    case FT_MEMORY_OPTIMIZER:
        for (int i = 0; i < seat->n_params; i++)
            if (seat->params[i].owned)
                run->states[seat->params[i].param] =
                    base + b->params[seat->params[i].param].state_at;
        break;
    case FT_MEMORY_PACKED:
    case FT_MEMORY_TURNED:
        for (int i = 0; i < seat->n_packs; i++)
            if (ft_pack_class(seat, i) == u->unit->class)
                run->seats[s].packed[i] = base + seat->pack_at[i];
        break;
    default: break;
    }
}

/* -- for a run --------------------------------------------------------------------------------- */

static ft_status open_unit(ft_run *run, unit_state *u, ft_error *err)
{
    ft_executor *executor = worker_of(run, u)->executor;
    const ft_driver *driver = executor->driver;
    void *home = NULL;
    u->home_bytes = (u->unit->goes_home ? ft_memory_round(u->unit->bytes) : 0) + FT_GUARD_BYTES;
    if (disk_has(run, u->unit)) {
        FT_TRY(disk_take(run, u->device, u->home_bytes, &u->disk, err));
        home = disk_address(u->disk);
    } else
        FT_TRY(driver->alloc(executor, FT_OF_HOST, u->home_bytes, &home, err));
    u->home = home;
    memset(guard_of(u), GUARD, FT_GUARD_BYTES);
    if (u->unit->goes_home) point_at(run, u, u->home);
    FT_TRY(driver->open_event(&u->mark, executor, err));
    return driver->open_event(&u->came, executor, err);
}

static ft_status open_all(ft_run *run, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    struct run_units *all = run->units;
    for (int i = 0; i < all->n; i++) {
        const ft_unit *unit = b->seats[i / FT_MEMORY_CLASSES].units[i % FT_MEMORY_CLASSES];
        if (!unit || unit->class == FT_MEMORY_ACTIVATIONS) continue; /* swap.c has those */
        if (!seat_is_here(run, unit->seat)) continue;
        unit_state *u = all->of[i] = ft_arena_alloc(run->arena, sizeof *u);
        if (!u) return ft_fail(err, FT_NOMEM, "engine: no memory for what moves");
        u->unit = unit;
        u->device = b->seats[unit->seat].device;
        FT_TRY(open_unit(run, u, err));
    }
    for (int i = 1; i <= all->n_stays; i++) {
        int seat = b->stays.of[i].unit->seat;
        ft_executor *executor = run->workers[b->seats[seat].device].executor;
        if (executor) FT_TRY(executor->driver->open_event(&all->stays[i].left, executor, err));
    }
    return FT_OK;
}

ft_status units_open(ft_run *run, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    if (!b->stays.n) return FT_OK;
    struct run_units *all = ft_arena_alloc(run->arena, sizeof *all);
    if (!all) return ft_fail(err, FT_NOMEM, "engine: no memory for what moves");
    all->n = b->seating.n_seats * FT_MEMORY_CLASSES;
    all->n_stays = b->stays.n;
    all->of = ft_arena_array(run->arena, all->n, sizeof *all->of);
    all->stays = ft_arena_array(run->arena, all->n_stays + 1, sizeof *all->stays);
    if (!all->of || !all->stays) return ft_fail(err, FT_NOMEM, "engine: no memory for what moves");
    run->units = all;
    FT_TRY(disks_open(run, err));
    return open_all(run, err);
}

static void close_unit(unit_state *u)
{
    if (!u) return;
    ft_executor *executor = u->mark ? u->mark->executor : NULL;
    if (u->came) executor->driver->close_event(u->came);
    if (u->mark) executor->driver->close_event(u->mark);
}

void units_close(ft_run *run)
{
    struct run_units *all = run->units;
    for (int i = 0; all && i < all->n; i++) {
        unit_state *u = all->of[i];
        close_unit(u);
        if (!u || !u->home || u->disk) continue;
        ft_executor *executor = worker_of(run, u)->executor;
        executor->driver->release(executor, FT_OF_HOST, u->home, u->home_bytes);
    }
    for (int i = 1; all && i <= all->n_stays; i++) {
        ft_device_event *left = all->stays[i].left;
        if (left) left->executor->driver->close_event(left);
    }
    disks_close(run);
}

/* -- moves ------------------------------------------------------------------------------------- */

/* It waits for the copy that took the unit home, too. */
ft_status room_wait(worker *w, int stay, ft_device_stream *stream, ft_error *err)
{
    const ft_stays_part *here = &w->run->blueprint->stays.parts[w->device];
    const ft_stay *stays = w->run->blueprint->stays.of, *to = &stays[stay];
    bringer by = stream == w->compute ? BY_COMPUTE : BY_COPY;
    bool whole = to->unit->class != FT_MEMORY_ACTIVATIONS;
    for (int i = here->first; i < here->first + here->n; i++) {
        stay_state *from = &w->run->units->stays[i];
        const ft_unit *other = stays[i].unit;
        if (!from->is_pending[by]) continue;
        bool meet = stays[i].at < to->at + ft_place_bytes(to->unit->bytes) &&
                    to->at < stays[i].at + ft_place_bytes(other->bytes);
        if (!(whole && other == to->unit) && !meet) continue;
        FT_TRY(wait_on(w, stream, from->left, err));
        from->is_pending[by] = false;
    }
    return FT_OK;
}

ft_status room_leave(const worker *w, int stay, ft_device_stream *stream, ft_error *err)
{
    stay_state *from = &w->run->units->stays[stay];
    from->is_pending[BY_COPY] = from->is_pending[BY_COMPUTE] = true;
    return w->executor->driver->record(stream, from->left, err);
}

static void arrive(const worker *w, unit_state *u, int stay)
{
    u->stay = stay;
    u->is_there = true;
    point_at(w->run, u, place_of(w->run, u));
    ledger_unit(w, u->unit->class, place_bytes(u));
}

static void leave(const worker *w, unit_state *u)
{
    u->is_there = false;
    ledger_unit(w, u->unit->class, -place_bytes(u));
}

/* copy_on, counted. */
static ft_status copy_bytes(ft_device_stream *stream, ft_location to, ft_location from,
                            int64_t bytes, int64_t *copied, ft_error *err)
{
    *copied += bytes;
    return copy_on(stream, to, from, bytes, err);
}

/* Copies what a seat of evaluation reads out of its homes, where training has it between legs. */
static ft_status copy_visit(const worker *w, const unit_state *u, ft_device_stream *stream,
                            int64_t *copied, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_seat_layout *seat = &b->seats[u->unit->seat];
    const seat_state *trained = w->run->trains->seats;
    bool packed = u->unit->class == FT_MEMORY_PACKED;
    char *base = place_of(w->run, u);
    w->executor->driver->occupy(stream, base, place_bytes(u));
    for (int i = 0; packed && i < seat->n_packs; i++) {
        if (seat->pack_visit[i] < 0) continue;
        const void *kept = trained[seat->pack_seat[i]].packed[seat->pack_at[i]];
        FT_TRY(copy_bytes(stream, (ft_location){w->executor, base + seat->pack_visit[i]},
                          (ft_location){NULL, (void *)(uintptr_t)kept}, seat->packs[i].bytes,
                          copied, err));
    }
    for (int i = 0; !packed && i < seat->n_params; i++) {
        const ft_seat_param *sp = &seat->params[i];
        const ft_param_layout *info = &b->params[sp->param];
        if (sp->at >= 0)
            FT_TRY(copy_bytes(stream, (ft_location){w->executor, base + sp->at},
                              (ft_location){NULL, trained[sp->trained].params[info->trained]},
                              ft_spec_bytes(&info->spec), copied, err));
    }
    const ft_location guard = {w->executor, base + place_bytes(u) - FT_GUARD_BYTES};
    return copy_bytes(stream, guard, (ft_location){NULL, guard_of(u)}, FT_GUARD_BYTES, copied, err);
}

/* Copies a unit, with its guard, between its home and where it stays; adds its bytes to *copied. */
static ft_status copy_unit(const worker *w, const unit_state *u, ft_device_stream *stream, bool out,
                           int64_t *copied, ft_error *err)
{
    const ft_location device = {w->executor, place_of(w->run, u)}, host = {NULL, u->home};
    int64_t bytes = place_bytes(u);
    if (!bytes) return FT_OK;
    if (u->unit->visits) return copy_visit(w, u, stream, copied, err);
    if (!out) w->executor->driver->occupy(stream, device.address, bytes);
    if (u->disk) {
        *copied += bytes;
        FT_TRY(out ? disk_save(u->disk, stream, device, err)
                   : disk_load(u->disk, stream, device, err));
    } else
        FT_TRY(copy_bytes(stream, out ? host : device, out ? device : host, bytes, copied, err));
    if (out) w->executor->driver->vacate(stream, device.address, bytes);
    return FT_OK;
}

/* The guard alone. */
static ft_status copy_guard(const worker *w, const unit_state *u, bool out, ft_error *err)
{
    char *behind = place_of(w->run, u) + place_bytes(u) - FT_GUARD_BYTES;
    const ft_location device = {w->executor, behind}, host = {NULL, guard_of(u)};
    if (!place_bytes(u) || u->disk) return FT_OK; /* looked at when it is read again */
    return copy_on(w->compute, out ? host : device, out ? device : host, FT_GUARD_BYTES, err);
}

/* Compute waits for the copy that brought it. */
static ft_status settle(worker *w, unit_state *u, ft_error *err)
{
    if (!u->is_coming) return FT_OK;
    u->is_coming = false;
    return wait_on(w, w->compute, u->came, err);
}

/* The stream waits for what is computed so far. */
static ft_status mark(const worker *w, unit_state *u, ft_device_stream *stream, ft_error *err)
{
    FT_TRY(w->executor->driver->record(w->compute, u->mark, err));
    return w->executor->driver->wait(stream, u->mark, err);
}

ft_status unit_comes(worker *w, const ft_action *a, ft_error *err)
{
    unit_state *u = unit_at(w->run, a->seat, a->item);
    ft_device_stream *stream = stream_of(w, a);
    FT_TRY(mark(w, u, stream, err));
    FT_TRY(room_wait(w, a->stay, stream, err));
    arrive(w, u, a->stay);
    FT_TRY(clock_begins(w, a, err));
    FT_TRY(copy_unit(w, u, stream, false, &w->carried, err));
    FT_TRY(clock_ends(w, a, err));
    u->is_coming = true;
    return w->executor->driver->record(stream, u->came, err);
}

ft_status unit_goes(worker *w, const ft_action *a, ft_error *err)
{
    unit_state *u = unit_at(w->run, a->seat, a->item);
    ft_device_stream *stream = stream_of(w, a);
    FT_TRY(mark(w, u, stream, err));
    if (u->is_coming) FT_TRY(w->executor->driver->wait(stream, u->came, err));
    u->is_coming = false;
    FT_TRY(clock_begins(w, a, err));
    FT_TRY(copy_unit(w, u, stream, true, &w->carried, err));
    FT_TRY(clock_ends(w, a, err));
    leave(w, u);
    return room_leave(w, u->stay, stream, err);
}

ft_status unit_is_dropped(worker *w, const ft_action *a, ft_error *err)
{
    unit_state *u = unit_at(w->run, a->seat, a->item);
    FT_TRY(settle(w, u, err));
    FT_TRY(copy_guard(w, u, true, err));
    vacate(w, place_of(w->run, u), place_bytes(u));
    leave(w, u);
    return FT_OK;
}

/* What the device's work is about to write has its place. */
static ft_status begin_unit(worker *w, unit_state *u, int stay, ft_error *err)
{
    FT_TRY(room_wait(w, stay, w->compute, err));
    arrive(w, u, stay);
    occupy(w, place_of(w->run, u), place_bytes(u));
    return copy_guard(w, u, false, err);
}

ft_status unit_begins(worker *w, const ft_action *a, ft_error *err)
{
    return begin_unit(w, unit_at(w->run, a->seat, a->item), a->stay, err);
}

/* Gradients that the action is the first to write. */
static ft_status begin_gradients(worker *w, const ft_action *a, ft_error *err)
{
    unit_state *u = unit_at(w->run, a->seat, FT_MEMORY_GRADIENTS);
    bool writes = ft_action_writes(a) >> FT_MEMORY_GRADIENTS & 1;
    if (!a->stay || ft_action_moves(a) || !writes || u->is_there) return FT_OK;
    return begin_unit(w, u, a->stay, err);
}

/* What the update works on is in host memory when the copies there have ended. */
static ft_status settle_home(worker *w, const ft_action *a, ft_error *err)
{
    for (int c = 0; c < FT_MEMORY_CLASSES; c++) {
        unit_state *u = unit_at(w->run, a->seat, c);
        if (!u) continue;
        stay_state *from = &w->run->units->stays[u->stay]; /* of no device: it never came to one */
        if (u->stay && from->is_pending[BY_COMPUTE]) {
            FT_TRY(wait_on(w, w->compute, from->left, err));
            from->is_pending[BY_COMPUTE] = false;
        }
        point_at(w->run, u, u->home);
    }
    return FT_OK;
}

ft_status units_wait(worker *w, const ft_action *a, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_seat_layout *seat = &b->seats[a->seat];
    bool again = b->plan.recompute[seat->stage] || !seat->units[FT_MEMORY_TURNED];
    unsigned needs = ft_action_needs(a, again);
    if (!w->run->units) return FT_OK;
    if (ft_action_at_home(a)) return settle_home(w, a, err);
    FT_TRY(begin_gradients(w, a, err));
    for (int c = 0; c < FT_MEMORY_CLASSES; c++) {
        unit_state *u = needs >> c & 1 ? unit_at(w->run, a->seat, c) : NULL;
        if (u) FT_TRY(settle(w, u, err));
    }
    if (!(needs >> FT_MEMORY_WEIGHTS & 1)) return FT_OK;
    if (w->run->trains) return FT_OK;          /* a seat of evaluation has all that it reads */
    for (int i = 0; i < seat->n_params; i++) { /* those that another seat lends */
        const ft_seat_param *sp = &seat->params[i];
        bool lent = !sp->owned && !sp->replica;
        unit_state *u =
            lent ? unit_at(w->run, b->params[sp->param].owner, FT_MEMORY_WEIGHTS) : NULL;
        if (u) FT_TRY(settle(w, u, err));
    }
    return FT_OK;
}

unsigned packed_here(const ft_run *run, int s)
{
    unsigned classes = ~0U;
    for (int c = 0; c < FT_MEMORY_CLASSES; c++) {
        const unit_state *u = unit_at(run, s, c);
        if (u && u->unit->is_made && !u->is_there) classes &= ~(1U << c);
    }
    return classes;
}

/* -- around a leg ------------------------------------------------------------------------------ */

ft_status units_begin(ft_run *run, ft_error *err)
{
    struct run_units *all = run->units;
    int64_t copied = 0; /* not the work of an action */
    if (!all) return FT_OK;
    FT_TRY(ft_stays_prove(&run->blueprint->stays, run->plan, err));
    for (int i = 1; i <= all->n_stays; i++)
        all->stays[i].is_pending[BY_COPY] = all->stays[i].is_pending[BY_COMPUTE] = false;
    for (int i = 0; i < all->n; i++) {
        unit_state *u = all->of[i];
        if (!u) continue;
        const worker *w = worker_of(run, u);
        u->is_coming = false;
        if (u->disk) disk_begin(u->disk);
        if (!u->unit->starts) continue;
        arrive(w, u, u->unit->first_stay);
        FT_TRY(copy_unit(w, u, w->compute, false, &copied, err));
    }
    return finish_streams(run, err);
}

static ft_status check_guard(const ft_run *run, const unit_state *u, const char *guard,
                             ft_error *err)
{
    for (int k = 0; k < FT_GUARD_BYTES; k++)
        if ((unsigned char)guard[k] != GUARD)
            return ft_fail(err, FT_INVALID,
                           "device %s: something wrote past the end of %s, which move, in stage %d",
                           worker_of(run, u)->executor->device->name,
                           ft_memory_classes[u->unit->class].name, plan_stage(run, u->unit->seat));
    return FT_OK;
}

/* What is on disk at the end of a leg is what was written there. */
static ft_status end_disk(const ft_run *run, const unit_state *u, ft_error *err)
{
    const char *bytes;
    FT_TRY(disk_end(u->disk, &bytes, err));
    return check_guard(run, u, bytes + u->home_bytes - FT_GUARD_BYTES, err);
}

ft_status units_end(ft_run *run, ft_error *err)
{
    struct run_units *all = run->units;
    int64_t copied = 0;
    ft_status status = FT_OK;
    for (int i = 0; all && i < all->n; i++) {
        unit_state *u = all->of[i];
        if (!u) continue;
        const worker *w = worker_of(run, u);
        bool returns = u->unit->goes_home && !u->unit->is_made;
        if (u->is_there) {
            if (status == FT_OK)
                status = returns ? copy_unit(w, u, w->compute, true, &copied, err)
                                 : copy_guard(w, u, true, err);
            if (!returns) vacate(w, place_of(run, u), place_bytes(u));
            leave(w, u);
        }
        if (u->unit->goes_home) point_at(run, u, u->home);
    }
    ft_status finished = all ? finish_streams(run, status == FT_OK ? err : NULL) : FT_OK;
    if (status == FT_OK) status = finished;
    for (int i = 0; all && status == FT_OK && !atomic_load(&run->stop) && i < all->n; i++)
        if (all->of[i] && all->of[i]->disk) status = end_disk(run, all->of[i], err);
    return status;
}

ft_status units_check(const ft_run *run, ft_error *err)
{
    for (int i = 0; run->units && i < run->units->n; i++) {
        const unit_state *u = run->units->of[i];
        if (u && !u->disk) FT_TRY(check_guard(run, u, guard_of(u), err));
    }
    return FT_OK;
}
