/* actions/update.c - gradients into weights: sums of terms, norms, optimizer steps, copies of tied
 * weights. */
#include <math.h>

#include "actions/internal.h"

/* -- reduce ------------------------------------------------------------------------------------ */

/* Where a term of a seat is for its owner: its own accumulator, or the slot of an edge. */
static float *find_term(const ft_run *run, int owner, int term, int seat, const ft_action *a)
{
    const ft_blueprint *b = run->blueprint;
    const ft_seat_layout *own = &b->seats[owner];
    if (seat == owner) return run->seats[owner].grads[term];
    for (int i = 0; i < own->n_in_edges[FT_ACT_REDUCE]; i++) {
        int e = own->in_edges[FT_ACT_REDUCE][i];
        const ft_cargo *c = &b->cargoes[e];
        for (int k = 0; b->edges[e].from == seat && k < c->n; k++)
            if (c->items[k] == term) return (float *)(slot_of(run, e, a) + item_at(c, 0, k));
    }
    return NULL; /* not reached: the edges were made from the terms */
}

/* What one of a seat's edges carries there. */
typedef struct sending {
    const worker *w;
    const ft_action *action;
    ft_device_stream *stream;
    int edge;
} sending;

/* To its place in a slot of the edge, or by the edge's channel. */
static ft_status send_item(const sending *s, int64_t at, const void *own, int64_t bytes,
                           ft_error *err)
{
    const ft_run *run = s->w->run;
    int e = s->edge, receiver = run->blueprint->seats[run->blueprint->edges[e].to].device;
    if (run->edges[e].channel) return channel_send(s->w, s->stream, e, own, bytes, err);
    return copy_on(s->stream, at_device(run, receiver, slot_of(run, e, s->action) + at),
                   at_device(run, s->w->device, own), bytes, err);
}

static ft_status send_terms(worker *w, const ft_action *a, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_seat_layout *seat = &b->seats[a->seat];
    for (int i = 0; i < seat->n_out_edges[a->kind]; i++) {
        sending s = {w, a, NULL, seat->out_edges[a->kind][i]};
        const ft_cargo *c = &b->cargoes[s.edge];
        if (c->kind != FT_CARGO_TERMS) continue;
        FT_TRY(begin_sending(w, s.edge, &s.stream, err));
        for (int k = 0; k < c->n; k++) {
            int param = ft_graph_grad_term(b->cut.graphs[0], c->items[k])->param;
            FT_TRY(send_item(&s, item_at(c, 0, k), w->run->seats[a->seat].grads[c->items[k]],
                             ft_spec_bytes(&b->params[param].spec), err));
        }
    }
    return FT_OK;
}

ft_status do_exchange(worker *w, const ft_action *a, ft_error *err)
{
    return send_terms(w, a, err);
}

/* Whether the owner has an accumulator of the term: its stage makes it. */
static bool makes_term(const ft_blueprint *b, int owner, int term)
{
    return b->term_stage[term] == b->seats[owner].stage;
}

/* The term, by position, in whose accumulator the owner leaves their sum: the first of its own, but
 * rather one that is not by rows, which has something in all of them. */
static int place_of_sum(const ft_run *run, const ft_param_layout *info)
{
    int first = -1;
    for (int t = 0; t < info->n_terms; t++) {
        if (!makes_term(run->blueprint, info->owner, info->terms[t])) continue;
        if (!ft_blueprint_by_rows(run->blueprint, info->terms[t])) return t;
        if (first < 0) first = t;
    }
    return first;
}

static float *sum_of_terms(const ft_run *run, const ft_param_layout *info)
{
    return run->seats[info->owner].grads[info->terms[place_of_sum(run, info)]];
}

/* The sum of a parameter's terms and, where they are clipped, its squared norm. */
typedef struct summing {
    worker *w;
    const ft_action *action;
    const ft_param_layout *info;
    double *norm; /* NULL: not wanted */
    bool finite;
} summing;

/* A matrix has rows, anything else is one. */
static bool add_terms(const summing *s, const ft_sum_term *terms, int n, int into)
{
    const ft_shape *shape = &s->info->spec.shape;
    int64_t rows = shape->n_dims > 1 ? shape->dims[0] : 1;
    int64_t width = rows ? ft_shape_count(shape) / rows : 0;
    return ft_sum_terms(terms, n, into, rows, width, s->w->team);
}

/* One term: what the replicas of its stage have of it, in their order. The sum is where the owner
 * has its own, or the first what it was sent. */
static ft_sum_term join_replicas(summing *s, int term)
{
    const ft_run *run = s->w->run;
    const ft_blueprint *b = run->blueprint;
    int owner = s->info->owner, into = 0;
    const ft_stage_share *of = &b->seating.of[b->term_stage[term]];
    ft_sum_term *parts = run->seats[owner].parts;
    for (int r = 0; r < of->n; r++) {
        bool own = of->first + r == owner;
        if (own) into = r;
        parts[r] = (ft_sum_term){
            .x = find_term(run, owner, term, of->first + r, s->action),
            .by_rows = ft_blueprint_by_rows(b, term),
            .rows = own && !moves_gradients(run, owner) ? run->seats[owner].rows[term] : NULL};
    }
    if (of->n > 1) s->finite = add_terms(s, parts, of->n, into) && s->finite;
    return parts[into];
}

static bool is_alone(const ft_blueprint *b, const ft_param_layout *info)
{
    return info->n_terms == 1 && b->seating.of[b->term_stage[info->terms[0]]].n == 1;
}

/* Whether what the last micro-batch's backward has seen of a single term was changed since. */
static bool looks_again(const ft_blueprint *b, const ft_param_layout *info)
{
    return b->squares && b->seats[info->owner].attenuates;
}

/* In the order of the terms, which is that of the graph; others may be in slots. */
static ft_status sum_terms(void *arg, ft_error *err)
{
    summing *s = arg;
    (void)err;
    const ft_param_layout *info = s->info;
    const ft_run *run = s->w->run;
    const seat_state *state = &run->seats[info->owner];
    if (is_alone(run->blueprint, info)) { /* the last micro-batch's backward has looked at it */
        int64_t count = ft_shape_count(&info->spec.shape);
        if (looks_again(run->blueprint, info))
            *s->norm = ft_squared_norm(state->grads[info->terms[0]], count, s->w->team);
        else if (s->norm)
            *s->norm = *state->squares[info->terms[0]];
        return FT_OK;
    }
    ft_sum_term *terms = state->terms;
    int into = place_of_sum(run, info);
    for (int t = 0; t < info->n_terms; t++) terms[t] = join_replicas(s, info->terms[t]);
    s->finite = add_terms(s, terms, info->n_terms, into) && s->finite;
    if (s->norm)
        *s->norm = ft_squared_norm(terms[into].x, ft_shape_count(&info->spec.shape), s->w->team);
    return FT_OK;
}

/* Everything that goes into the sum. */
static void touch_terms(const summing *s, ft_plain_work *work)
{
    const ft_blueprint *b = s->w->run->blueprint;
    const ft_param_layout *info = s->info;
    for (int t = 0; t < info->n_terms; t++) {
        const ft_stage_share *of = &b->seating.of[b->term_stage[info->terms[t]]];
        for (int r = 0; r < of->n; r++)
            touches(work,
                    find_term(s->w->run, info->owner, info->terms[t], of->first + r, s->action),
                    ft_spec_bytes(&info->spec), !is_alone(b, info));
    }
}

/* join_replicas on a device of its own: one term, `x` has room for what its replicas have. */
static ft_status give_term(const summing *s, int term, float **x, float **out,
                           ft_device_stream *stream, ft_error *err)
{
    const ft_blueprint *b = s->w->run->blueprint;
    const ft_stage_share *of = &b->seating.of[b->term_stage[term]];
    int into = 0;
    for (int r = 0; r < of->n; r++) {
        if (of->first + r == s->info->owner) into = r;
        x[r] = find_term(s->w->run, s->info->owner, term, of->first + r, s->action);
    }
    *out = x[into];
    const ft_summands summands = {*out, x, of->n, ft_shape_count(&s->info->spec.shape)};
    return of->n > 1 ? ft_steps_of(stream)->sum(stream, &summands, err) : FT_OK;
}

/* sum_terms on a device of its own, with a look at the sum. */
static ft_status give_sum(void *arg, ft_device_stream *stream, ft_error *err)
{
    const summing *s = arg;
    const ft_param_layout *info = s->info;
    const ft_blueprint *b = s->w->run->blueprint;
    float **x = s->w->run->seats[info->owner].summands;
    ft_look *found = &s->w->findings->terms[info->terms[0]];
    const ft_summands summands = {sum_of_terms(s->w->run, info), x, info->n_terms,
                                  ft_shape_count(&info->spec.shape)};
    if (is_alone(b, info) && !looks_again(b, info)) return FT_OK;
    *found = (ft_look){0, 1, 0};
    if (!is_alone(b, info)) {
        for (int t = 0; t < info->n_terms; t++)
            FT_TRY(give_term(s, info->terms[t], &x[info->n_terms], &x[t], stream, err));
        FT_TRY(ft_steps_of(stream)->sum(stream, &summands, err));
    }
    const ft_looking look = {summands.y, FT_F32, summands.count, found};
    return ft_steps_of(stream)->look(stream, &look, 1, err);
}

bool is_updated(const ft_blueprint *b, const ft_seat_param *param)
{
    return param->owned && b->params[param->param].n_terms;
}

/* What the looks at sums have found, and at what was summed. */
static ft_status hear_sums(worker *w, const ft_action *a, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_seat_layout *seat = &b->seats[a->seat];
    const seat_state *state = &w->run->seats[a->seat];
    norm_cell *norms = norms_of(w->run, a->batch);
    FT_TRY(hear_all(w, err));
    for (int i = 0; i < seat->n_params; i++) {
        if (!is_updated(b, &seat->params[i])) continue;
        int p = seat->params[i].param;
        const ft_param_layout *info = &b->params[p];
        const ft_look *found = &w->findings->terms[info->terms[0]];
        bool summed = !is_alone(b, info), looked = summed || looks_again(b, info);
        if (b->squares)
            norms[p].squared = looked ? found->squares : *state->squares[info->terms[0]];
        if (summed && !found->finite) note_bad_sum(w, a, p);
    }
    return FT_OK;
}

ft_status do_reduce(worker *w, const ft_action *a, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_seat_layout *seat = &b->seats[a->seat];
    norm_cell *norms = norms_of(w->run, a->batch);
    FT_TRY(send_terms(w, a, err));
    for (int i = 0; i < seat->n_params; i++) {
        if (!is_updated(b, &seat->params[i])) continue;
        int p = seat->params[i].param;
        const ft_param_layout *info = &b->params[p];
        summing s = {w, a, info, b->squares ? &norms[p].squared : NULL, true};
        ft_plain_work work = {.run = sum_terms, .give = give_sum, .arg = &s};
        touches(&work, sum_of_terms(w->run, info), ft_spec_bytes(&info->spec), true);
        touches(&work, &norms[p], sizeof *norms, true);
        touch_terms(&s, &work);
        FT_TRY(compute(w, &work, err));
        if (!s.finite) note_bad_sum(w, a, p);
    }
    return w->findings ? hear_sums(w, a, err) : FT_OK;
}

/* -- update ------------------------------------------------------------------------------------ */

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
