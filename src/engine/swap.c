/* engine/swap.c - tensors that leave a device for host memory and come back: actions O, L and D.
 *
 * What moves is a unit: all weights, all gradients or all optimizer state of a stage, or the slot
 * of one micro-batch's activations. It has a home in host memory of its device and is copied on the
 * device's stream in or out, beside what is computed. A unit's `moved` is passed when its newest
 * copy has ended: what touches the unit waits for it, and nothing else does. */
#include <string.h>

#include "base/alloc.h"
#include "engine/internal.h"

enum { UNITS = FT_MEMORY_OPTIMIZER + 1 }; /* classes that move as a whole */

typedef struct unit {
    ft_device_event *mark;  /* of compute: the unit is as it was when the copy was submitted */
    ft_device_event *moved; /* of a copy */
    bool has_moved;
    bool out; /* the device has it not */
    char *home;
} unit;

/* The home of one micro-batch's activations. */
typedef struct berth {
    char *home;
    ft_device_event *read; /* its newest copy back */
    bool was_read;
    int64_t holder; /* index of the micro-batch, and one more; 0: free */
} berth;

struct stage_swaps {
    unit classes[UNITS];
    unit *slots; /* by slot of activations */
    berth *berths;
    int n_slots, n_berths;
    char *homes; /* all of them */
    int64_t home_bytes;
};

/* -- pieces ------------------------------------------------------------------------------------ */

typedef struct piece {
    char *at;
    int64_t bytes;
} piece;

static int64_t state_bytes(const ft_blueprint *b, const ft_param_layout *info)
{
    ft_state_part parts[FT_MAX_STATE_PARTS];
    int64_t bytes = 0;
    b->options.optimizer->state(&info->spec, b->options.hypers, parts, &bytes);
    return bytes;
}

/* The i-th tensor of a class in a stage; bytes 0 where the stage has none of its own there; false
 * past the last. */
static bool nth_piece(const ft_run *run, int s, int class, int i, piece *out)
{
    const ft_blueprint *b = run->blueprint;
    const ft_stage_layout *stage = &b->stages[s];
    *out = (piece){NULL, 0};
    if (class == FT_MEMORY_GRADIENTS) {
        if (i >= stage->cut[0]->n_grads) return false;
        int term = stage->cut[0]->grads[i];
        int param = ft_graph_grad_term(b->cut.graphs[0], term)->param;
        *out = (piece){run->stages[s].grads[term], ft_spec_bytes(&b->params[param].spec)};
        return true;
    }
    if (i >= stage->n_params) return false;
    const ft_stage_param *sp = &stage->params[i];
    const ft_param_layout *info = &b->params[sp->param];
    if (class == FT_MEMORY_WEIGHTS && (sp->owned || sp->replica))
        *out = (piece){run->stages[s].params[sp->param], ft_spec_bytes(&info->spec)};
    if (class == FT_MEMORY_OPTIMIZER && sp->owned && info->n_terms)
        *out = (piece){run->workers[stage->device].block + info->state_at, state_bytes(b, info)};
    return true;
}

static int64_t class_bytes(const ft_run *run, int s, int class)
{
    int64_t bytes = 0;
    piece p;
    for (int i = 0; nth_piece(run, s, class, i, &p); i++) bytes += ft_memory_round(p.bytes);
    return bytes;
}

/* Copies a class between the device and its home, on a stream of the stage's device. */
static ft_status move_class(const ft_run *run, int s, int class, ft_device_stream *stream, bool out,
                            ft_error *err)
{
    const ft_driver *driver = stream->executor->driver;
    char *home = run->stages[s].swaps->classes[class].home;
    piece p;
    for (int i = 0; nth_piece(run, s, class, i, &p); i++) {
        if (!p.bytes) continue;
        const ft_location device = {stream->executor, p.at}, host = {NULL, home};
        if (!out) driver->occupy(stream, p.at, p.bytes);
        FT_TRY(copy_on(stream, out ? host : device, out ? device : host, p.bytes, err));
        if (out) driver->vacate(stream, p.at, p.bytes);
        home += ft_memory_round(p.bytes);
    }
    return FT_OK;
}

/* -- what a leg needs -------------------------------------------------------------------------- */

bool is_swap(const ft_action *a)
{
    return a->kind == FT_ACT_SWAP_OUT || a->kind == FT_ACT_SWAP_IN || a->kind == FT_ACT_DROP;
}

/* What the stage's list says of swaps. */
typedef struct needs {
    bool any;
    bool starts_out[UNITS]; /* the first move of the class is a swap-in */
    bool used[UNITS];
    int most_out; /* micro-batches whose activations are in the host at once */
} needs;

static needs find_needs(const ft_plan *plan, int s)
{
    needs n = {0};
    int out = 0, device = plan->device[s];
    for (int64_t i = 0; i < ft_plan_length(plan, device); i++) {
        ft_action a = ft_plan_at(plan, device, i);
        if (a.stage != s || !is_swap(&a)) continue;
        n.any = true;
        if (a.item == FT_MEMORY_ACTIVATIONS) {
            out += a.kind == FT_ACT_SWAP_OUT ? 1 : a.kind == FT_ACT_SWAP_IN ? -1 : 0;
            if (out > n.most_out) n.most_out = out;
            continue;
        }
        if (!n.used[a.item]) n.starts_out[a.item] = a.kind == FT_ACT_SWAP_IN;
        n.used[a.item] = true;
    }
    return n;
}

static ft_status open_unit(unit *u, ft_executor *executor, ft_error *err)
{
    FT_TRY(executor->driver->open_event(&u->mark, executor, err));
    return executor->driver->open_event(&u->moved, executor, err);
}

static ft_status open_swaps(ft_run *run, int s, const needs *n, ft_error *err)
{
    const ft_stage_layout *stage = &run->blueprint->stages[s];
    ft_executor *executor = run->workers[stage->device].executor;
    struct stage_swaps *w = ft_alloc(sizeof *w);
    run->stages[s].swaps = w;
    if (!w) return ft_fail(err, FT_NOMEM, "engine: no memory for the swaps of stage %d", s);
    int64_t slot_bytes = stage->slot_bytes, used = 0;
    int n_slots = run->stages[s].slots.n;
    w->slots = ft_alloc(n_slots * (int64_t)sizeof *w->slots);
    w->berths = ft_alloc((n->most_out + 1) * (int64_t)sizeof *w->berths);
    if (!w->slots || !w->berths)
        return ft_fail(err, FT_NOMEM, "engine: no memory for the swaps of stage %d", s);
    w->n_slots = n_slots;
    w->n_berths = n->most_out;
    w->home_bytes = 1 + n->most_out * slot_bytes;
    for (int c = 0; c < UNITS; c++) w->home_bytes += class_bytes(run, s, c);
    void *homes = NULL;
    FT_TRY(executor->driver->alloc(executor, FT_OF_HOST, w->home_bytes, &homes, err));
    w->homes = homes;
    for (int i = 0; i < n->most_out; i++, used += slot_bytes) {
        w->berths[i].home = w->homes + used;
        FT_TRY(executor->driver->open_event(&w->berths[i].read, executor, err));
    }
    for (int c = 0; c < UNITS; used += class_bytes(run, s, c++)) {
        w->classes[c].home = w->homes + used;
        FT_TRY(open_unit(&w->classes[c], executor, err));
    }
    for (int i = 0; i < n_slots; i++) FT_TRY(open_unit(&w->slots[i], executor, err));
    return FT_OK;
}

/* A class that other stages of the device use in place cannot leave. */
static ft_status check_sharing(const ft_run *run, int s, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    for (int t = 0; t < b->cut.n_stages; t++) {
        const ft_stage_layout *other = &b->stages[t];
        for (int i = 0; t != s && i < other->n_params; i++) {
            const ft_stage_param *sp = &other->params[i];
            if (sp->owned || sp->replica || b->params[sp->param].owner != s) continue;
            return ft_fail(
                err, FT_UNSUPPORTED,
                "engine: the weights of stage %d cannot leave its device: stage %d reads "
                "'%s' there",
                s, t, b->params[sp->param].name);
        }
    }
    return FT_OK;
}

ft_status swaps_begin(ft_run *run, ft_error *err)
{
    const ft_plan *plan = run->plan;
    for (int s = 0; s < plan->n_stages; s++) {
        worker *w = &run->workers[plan->device[s]];
        needs n = find_needs(plan, s);
        if (!n.any) continue;
        if (n.used[FT_MEMORY_WEIGHTS]) FT_TRY(check_sharing(run, s, err));
        FT_TRY(open_swaps(run, s, &n, err));
        for (int c = 0; c < UNITS; c++) {
            if (!n.starts_out[c]) continue;
            FT_TRY(move_class(run, s, c, w->compute, true, err));
            run->stages[s].swaps->classes[c].out = true;
        }
        FT_TRY(w->executor->driver->finish(w->compute, err));
    }
    return FT_OK;
}

static void close_unit(unit *u)
{
    if (u->mark) u->mark->executor->driver->close_event(u->mark);
    if (u->moved) u->moved->executor->driver->close_event(u->moved);
}

static void close_swaps(struct stage_swaps *w, ft_executor *executor)
{
    for (int c = 0; c < UNITS; c++) close_unit(&w->classes[c]);
    for (int i = 0; i < w->n_slots; i++) close_unit(&w->slots[i]);
    for (int i = 0; i < w->n_berths; i++)
        if (w->berths[i].read) executor->driver->close_event(w->berths[i].read);
    if (w->homes) executor->driver->release(executor, FT_OF_HOST, w->homes, w->home_bytes);
    ft_free(w->slots);
    ft_free(w->berths);
    ft_free(w);
}

ft_status swaps_end(ft_run *run, ft_error *err)
{
    ft_status status = FT_OK;
    for (int s = 0; s < run->blueprint->cut.n_stages; s++) {
        struct stage_swaps *swaps = run->stages[s].swaps;
        worker *w = &run->workers[run->blueprint->stages[s].device];
        if (!swaps) continue;
        for (int c = 0; c < UNITS && status == FT_OK; c++)
            if (swaps->classes[c].out) status = move_class(run, s, c, w->compute, false, err);
        if (status == FT_OK) status = w->executor->driver->finish(w->compute, err);
        close_swaps(swaps, w->executor);
        run->stages[s].swaps = NULL;
    }
    return status;
}

/* -- actions ----------------------------------------------------------------------------------- */

static unit *slot_unit(const worker *w, const ft_action *a)
{
    struct stage_swaps *swaps = w->run->stages[a->stage].swaps;
    return &swaps->slots[ft_action_index(w->run->plan, a) % swaps->n_slots];
}

static ft_status settle(const worker *w, const unit *u, ft_error *err)
{
    return u->has_moved ? w->executor->driver->wait(w->compute, u->moved, err) : FT_OK;
}

ft_status swaps_wait(worker *w, const ft_action *a, ft_error *err)
{
    enum { WEIGHTS = 1 << FT_MEMORY_WEIGHTS, GRADIENTS = 1 << FT_MEMORY_GRADIENTS };
    static const unsigned touched[FT_ACT_COUNT] = {
        [FT_ACT_FORWARD] = WEIGHTS,
        [FT_ACT_BACKWARD] = WEIGHTS | GRADIENTS,
        [FT_ACT_BACKWARD_INPUT] = WEIGHTS,
        [FT_ACT_BACKWARD_WEIGHT] = WEIGHTS | GRADIENTS,
        [FT_ACT_REDUCE] = GRADIENTS,
        [FT_ACT_UPDATE] = WEIGHTS | GRADIENTS | 1 << FT_MEMORY_OPTIMIZER,
        [FT_ACT_ADOPT] = WEIGHTS,
    };
    struct stage_swaps *swaps = w->run->stages[a->stage].swaps;
    if (!swaps || is_swap(a)) return FT_OK;
    for (int c = 0; c < UNITS; c++)
        if (touched[a->kind] >> c & 1) FT_TRY(settle(w, &swaps->classes[c], err));
    return ft_action_per_micro(a->kind) ? settle(w, slot_unit(w, a), err) : FT_OK;
}

static berth *find_berth(struct stage_swaps *swaps, int64_t holder)
{
    for (int i = 0; i < swaps->n_berths; i++)
        if (swaps->berths[i].holder == holder) return &swaps->berths[i];
    return NULL;
}

/* The copy stream waits for what is computed so far and for the unit's last copy. */
static ft_status begin_move(const worker *w, unit *u, ft_device_stream *stream, ft_error *err)
{
    const ft_driver *driver = stream->executor->driver;
    FT_TRY(driver->record(w->compute, u->mark, err));
    FT_TRY(driver->wait(stream, u->mark, err));
    return u->has_moved ? driver->wait(stream, u->moved, err) : FT_OK;
}

static ft_status end_move(unit *u, ft_device_stream *stream, ft_error *err)
{
    u->has_moved = true;
    return stream->executor->driver->record(stream, u->moved, err);
}

static char *slot_at(const worker *w, const ft_action *a)
{
    const ft_run *run = w->run;
    const ft_stage_layout *stage = &run->blueprint->stages[a->stage];
    int64_t slot = ft_action_index(run->plan, a) % run->stages[a->stage].slots.n;
    return w->block + stage->slots_at + slot * stage->slot_bytes;
}

static ft_status move_slot(worker *w, const ft_action *a, bool out, ft_error *err)
{
    struct stage_swaps *swaps = w->run->stages[a->stage].swaps;
    const ft_driver *driver = w->executor->driver;
    int64_t bytes = ft_place_room(w->run->blueprint->stages[a->stage].slot_bytes);
    int64_t holder = ft_action_index(w->run->plan, a) + 1;
    ft_device_stream *stream = w->copies[out];
    unit *u = slot_unit(w, a);
    berth *b = find_berth(swaps, out ? 0 : holder);
    if (!b)
        return ft_fail(err, FT_INVALID, "engine: stage %d has no home for activations", a->stage);
    const ft_location device = {w->executor, slot_at(w, a)}, host = {NULL, b->home};
    FT_TRY(begin_move(w, u, stream, err));
    if (out && b->was_read) FT_TRY(driver->wait(stream, b->read, err));
    if (!out) driver->occupy(stream, device.address, bytes);
    FT_TRY(copy_on(stream, out ? host : device, out ? device : host, bytes, err));
    if (out) driver->vacate(stream, device.address, bytes);
    if (!out) FT_TRY(driver->record(stream, b->read, err));
    b->was_read = b->was_read || !out;
    b->holder = out ? holder : 0;
    return end_move(u, stream, err);
}

static ft_status move(worker *w, const ft_action *a, bool out, ft_error *err)
{
    if (a->item == FT_MEMORY_ACTIVATIONS) return move_slot(w, a, out, err);
    unit *u = &w->run->stages[a->stage].swaps->classes[a->item];
    FT_TRY(begin_move(w, u, w->copies[out], err));
    FT_TRY(move_class(w->run, a->stage, a->item, w->copies[out], out, err));
    u->out = out;
    return end_move(u, w->copies[out], err);
}

ft_status do_swap_out(worker *w, const ft_action *a, ft_error *err)
{
    return move(w, a, true, err);
}

ft_status do_swap_in(worker *w, const ft_action *a, ft_error *err)
{
    return move(w, a, false, err);
}

/* The host's copy is the one that counts again. */
ft_status do_drop(worker *w, const ft_action *a, ft_error *err)
{
    struct stage_swaps *swaps = w->run->stages[a->stage].swaps;
    piece p;
    if (a->item == FT_MEMORY_ACTIVATIONS) {
        FT_TRY(settle(w, slot_unit(w, a), err));
        vacate(w, slot_at(w, a), ft_place_room(w->run->blueprint->stages[a->stage].slot_bytes));
        return FT_OK;
    }
    unit *u = &swaps->classes[a->item];
    FT_TRY(settle(w, u, err));
    for (int i = 0; nth_piece(w->run, a->stage, a->item, i, &p); i++) vacate(w, p.at, p.bytes);
    u->out = true;
    return FT_OK;
}
