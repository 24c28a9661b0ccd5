/* actions/update.c - gradients into weights: optimizer steps, packed copies, copies of tied
 * weights. */
#include <math.h>

#include "actions/internal.h"

typedef struct packing {
    const ft_graph *graph;
    const ft_pack *pack;
    const void *weight;
    void *packed;
    ft_team *team;
} packing;

static ft_status make_pack(void *arg, ft_error *err)
{
    const packing *p = arg;
    return ft_pack_make(p->graph, p->pack, p->weight, p->packed, &(ft_packer){p->team, NULL}, err);
}

static ft_status give_pack(void *arg, ft_device_stream *stream, ft_error *err)
{
    const packing *p = arg;
    return ft_pack_make(p->graph, p->pack, p->weight, p->packed, &(ft_packer){NULL, stream}, err);
}

ft_status pack_weight(const worker *w, int s, int i, const void *weight, void *packed,
                      ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_pack *pack = &b->seats[s].packs[i];
    packing p = {b->cut.graphs[0], pack, weight, packed, w->team};
    ft_plain_work work = {.run = make_pack, .give = give_pack, .arg = &p};
    touches(&work, weight, ft_spec_bytes(&b->params[pack->param].spec), false);
    touches(&work, packed, pack->bytes, true);
    return compute(w, &work, err);
}

/* The seat's copy of this number; `written`: there it is. */
static ft_status pack_newest(ft_run *run, int s, int i, bool written, ft_error *err)
{
    const ft_seat_layout *seat = &run->blueprint->seats[s];
    const ft_pack *pack = &seat->packs[i];
    worker *w = &run->workers[seat->device];
    if (!written)
        FT_TRY(pack_weight(w, s, i, run->seats[s].params[pack->param],
                           (void *)(uintptr_t)run->seats[s].packed[i], err));
    ledger_keep(w, s, ft_pack_class(seat, i), &run->seats[s].kept_packs[i], pack->bytes);
    return FT_OK;
}

static bool is_of(const ft_seat_layout *seat, int pack, unsigned classes)
{
    return classes >> ft_pack_class(seat, pack) & 1;
}

ft_status pack_weights(ft_run *run, int s, unsigned classes, ft_error *err)
{
    const ft_seat_layout *seat = &run->blueprint->seats[s];
    for (int i = 0; i < seat->n_packs; i++)
        if (is_of(seat, i, classes)) FT_TRY(pack_newest(run, s, i, false, err));
    return FT_OK;
}

/* Likewise, of one parameter; `written`: the one that needs nothing more. */
static ft_status pack_param(ft_run *run, int s, int p, int written, ft_error *err)
{
    const seat_state *state = &run->seats[s];
    unsigned classes = packed_here(run, s);
    for (int i = state->first_pack[p]; i >= 0; i = state->next_pack[i])
        if (is_of(&run->blueprint->seats[s], i, classes))
            FT_TRY(pack_newest(run, s, i, i == written, err));
    return FT_OK;
}

ft_status do_make(worker *w, const ft_action *a, ft_error *err)
{
    FT_TRY(unit_begins(w, a, err));
    return pack_weights(w->run, a->seat, 1U << a->item, err);
}

ft_status pack_made(ft_run *run, ft_error *err)
{
    for (int s = 0; s < run->n_seats; s++) {
        unsigned made = ~packed_here(run, s);
        if (made && seat_is_here(run, s)) FT_TRY(pack_weights(run, s, made, err));
    }
    return FT_OK;
}

typedef struct updating {
    const ft_optimizer *optimizer;
    const ft_update *updates;
    int n;
} updating;

static ft_status run_updates(void *arg, ft_error *err)
{
    const updating *u = arg;
    (void)err;
    for (int i = 0; i < u->n; i++) u->optimizer->update(&u->updates[i]);
    return FT_OK;
}

static ft_status give_updates(void *arg, ft_device_stream *stream, ft_error *err)
{
    const updating *u = arg;
    return ft_steps_of(stream)->update(stream, u->optimizer, u->updates, u->n, err);
}

/* A device of its own is given the updates of a seat together. */
static bool gives_updates(const worker *w, const ft_action *a)
{
    return w->findings && !ft_action_at_home(a);
}

/* The packed copy of a parameter that its update writes; -1: none. */
static int find_written(const worker *w, const ft_action *a, int p, ft_dtype *dtype)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_seat_layout *seat = &b->seats[a->seat];
    const seat_state *state = &w->run->seats[a->seat];
    unsigned classes = gives_updates(w, a) ? packed_here(w->run, a->seat) : 0;
    for (int i = state->first_pack[p]; i >= 0; i = state->next_pack[i])
        if (is_of(seat, i, classes) && ft_pack_is_written(b->cut.graphs[0], &seat->packs[i], dtype))
            return i;
    return -1;
}

static ft_update update_of(const worker *w, const ft_action *a, int p, float grad_scale)
{
    const ft_param_layout *info = &w->run->blueprint->params[p];
    const seat_state *state = &w->run->seats[a->seat];
    ft_dtype dtype = FT_F32;
    int copy = find_written(w, a, p, &dtype);
    return (ft_update){.spec = &info->spec,
                       .param = state->params[p],
                       .grad = sum_of_terms(w->run, info),
                       .grad_scale = grad_scale,
                       .state = w->run->states[p],
                       .hypers = info->hypers,
                       .rate = batch_of(w->run, a->batch)->rate * info->rate_factor,
                       .ahead = info->ahead,
                       .step = w->run->first_step + a->batch,
                       .team = w->team,
                       .copy = copy < 0 ? NULL : (void *)(uintptr_t)state->packed[copy],
                       .copy_dtype = dtype};
}

static ft_status update_alone(worker *w, const ft_update *update, int64_t state_bytes,
                              ft_error *err)
{
    updating u = {w->run->blueprint->options.optimizer, update, 1};
    ft_plain_work work = {.run = run_updates, .arg = &u};
    touches(&work, update->param, ft_spec_bytes(update->spec), true);
    touches(&work, update->grad, ft_spec_bytes(update->spec), false);
    touches(&work, update->state, state_bytes, true);
    return compute(w, &work, err);
}

/* The packed copies of a parameter that its update has not written. */
static ft_status pack_updated(const worker *w, const ft_action *a, int p, ft_error *err)
{
    ft_dtype dtype;
    return pack_param(w->run, a->seat, p, find_written(w, a, p, &dtype), err);
}

/* Each is packed at once, while what was written of it is in a cache. */
static ft_status update_each(worker *w, const ft_action *a, float grad_scale, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_seat_layout *seat = &b->seats[a->seat];
    for (int i = 0; i < seat->n_params; i++) {
        if (!is_updated(b, &seat->params[i])) continue;
        int p = seat->params[i].param;
        int64_t state_bytes = ft_blueprint_state_bytes(b, p);
        ft_update update = update_of(w, a, p, grad_scale);
        FT_TRY(update_alone(w, &update, state_bytes, err));
        ledger_keep(w, a->seat, FT_MEMORY_OPTIMIZER, &w->run->kept_states[p], state_bytes);
        FT_TRY(pack_updated(w, a, p, err));
    }
    return FT_OK;
}

static ft_status update_together(worker *w, const ft_action *a, float grad_scale, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_seat_layout *seat = &b->seats[a->seat];
    ft_update *updates = w->run->seats[a->seat].updates;
    updating u = {b->options.optimizer, updates, 0};
    ft_plain_work work = {.give = give_updates, .arg = &u};
    for (int i = 0; i < seat->n_params; i++) {
        if (!is_updated(b, &seat->params[i])) continue;
        int p = seat->params[i].param;
        updates[u.n++] = update_of(w, a, p, grad_scale);
        ledger_keep(w, a->seat, FT_MEMORY_OPTIMIZER, &w->run->kept_states[p],
                    ft_blueprint_state_bytes(b, p));
    }
    FT_TRY(compute(w, &work, err));
    for (int i = 0; i < seat->n_params; i++)
        if (is_updated(b, &seat->params[i])) FT_TRY(pack_updated(w, a, seat->params[i].param, err));
    return FT_OK;
}

static ft_status update_params(worker *w, const ft_action *a, float grad_scale, ft_error *err)
{
    return gives_updates(w, a) ? update_together(w, a, grad_scale, err)
                               : update_each(w, a, grad_scale, err);
}

/* Where in a slot of an edge the state of a parameter is that it carries behind it. */
static int64_t state_at(const ft_blueprint *b, const ft_cargo *c, int k)
{
    return item_at(c, 0, k) + ft_memory_round(ft_spec_bytes(&b->params[c->items[k]].spec));
}

static ft_status send_weights(worker *w, const ft_action *a, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_seat_layout *seat = &b->seats[a->seat];
    for (int i = 0; i < seat->n_out_edges[FT_ACT_UPDATE]; i++) {
        sending s = {w, a, NULL, seat->out_edges[FT_ACT_UPDATE][i]};
        const ft_cargo *c = &b->cargoes[s.edge];
        if (c->kind != FT_CARGO_WEIGHTS) continue;
        FT_TRY(begin_sending(w, s.edge, &s.stream, err));
        for (int k = 0; k < c->n; k++) {
            int p = c->items[k];
            FT_TRY(send_item(&s, item_at(c, 0, k), w->run->seats[a->seat].params[p],
                             ft_spec_bytes(&b->params[p].spec), err));
            if (ft_blueprint_with_state(b, s.edge))
                FT_TRY(send_item(&s, state_at(b, c, k), known_state(w->run, a->seat, p),
                                 ft_blueprint_state_bytes(b, p), err));
        }
    }
    return FT_OK;
}

ft_status do_update(worker *w, const ft_action *a, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_seat_layout *seat = &b->seats[a->seat];
    double norm, clip = b->options.clip, loss_scale = batch_of(w->run, a->batch)->loss_scale;
    FT_TRY(hear_rest(w, err));
    FT_TRY(global_norm(w, a, &norm, err));
    norm /= loss_scale;
    float scale = clip > 0 && norm > clip ? (float)(clip / (norm + 1e-6)) : 1.0f;
    scale /= (float)loss_scale;
    bool updates = may_update(w, a);
    FT_TRY(keep_version(w, a->seat, FT_WEIGHTS_OWNED, err));
    if (updates) FT_TRY(update_params(w, a, scale, err));
    if (updates && seat->attenuates) FT_TRY(note_steps(w, a, err));
    FT_TRY(send_weights(w, a, err));
    if (a->seat == b->norm_seat) batch_of(w->run, a->batch)->norm = norm;
    return finish_batch(w, a, err);
}

static ft_status adopt_item(const worker *w, const void *own, const char *passed, int64_t bytes,
                            ft_error *err)
{
    return copy_on(w->compute, at_device(w->run, w->device, own),
                   at_device(w->run, w->device, passed), bytes, err);
}

ft_status do_adopt(worker *w, const ft_action *a, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_seat_layout *seat = &b->seats[a->seat];
    FT_TRY(keep_version(w, a->seat, FT_WEIGHTS_ADOPTED, err));
    for (int i = 0; i < seat->n_in_edges[FT_ACT_ADOPT]; i++) {
        int e = seat->in_edges[FT_ACT_ADOPT][i];
        const ft_cargo *c = &b->cargoes[e];
        char *slot = slot_of(w->run, e, a);
        for (int k = 0; c->kind == FT_CARGO_WEIGHTS && k < c->n; k++) {
            int p = c->items[k];
            FT_TRY(adopt_item(w, w->run->seats[a->seat].params[p], slot + item_at(c, 0, k),
                              ft_spec_bytes(&b->params[p].spec), err));
            if (ft_blueprint_with_state(b, e))
                FT_TRY(adopt_item(w, known_state(w->run, a->seat, p), slot + state_at(b, c, k),
                                  ft_blueprint_state_bytes(b, p), err));
        }
    }
    for (int i = 0; i < seat->n_params; i++)
        if (seat->params[i].with_state) keep_state_copy(w, a->seat, i);
    for (int i = 0; i < seat->n_params; i++)
        if (!seat->params[i].owned && b->params[seat->params[i].param].n_terms)
            FT_TRY(pack_param(w->run, a->seat, seat->params[i].param, -1, err));
    return FT_OK;
}
