/* actions/reduce.c - gradient terms: sent to who sums them, and summed. */
#include "actions/internal.h"

/* Rows of item k of an edge that pass; 0: all of it. */
static int64_t picked_rows(const ft_run *run, int e, int k)
{
    const ft_blueprint *b = run->blueprint;
    return ft_blueprint_picked_rows(b, b->edges[e].from, b->edges[e].to, b->cargoes[e].items[k]);
}

/* Where a term of a seat is for its owner: its own accumulator, or the slot of an edge; and how
 * many of its rows are there at most, 0: all. */
typedef struct place {
    void *at;
    int64_t picked;
} place;

static place find_place(const ft_run *run, int owner, int term, int seat, const ft_action *a)
{
    const ft_blueprint *b = run->blueprint;
    const ft_seat_layout *own = &b->seats[owner];
    if (seat == owner) return (place){run->seats[owner].grads[term], 0};
    for (int i = 0; i < own->n_in_edges[FT_ACT_REDUCE]; i++) {
        int e = own->in_edges[FT_ACT_REDUCE][i];
        const ft_cargo *c = &b->cargoes[e];
        for (int k = 0; b->edges[e].from == seat && k < c->n; k++)
            if (c->items[k] == term)
                return (place){slot_of(run, e, a) + item_at(c, 0, k), picked_rows(run, e, k)};
    }
    return (place){NULL, 0}; /* not reached: the edges were made from the terms */
}

/* What a seat made of a term. */
static ft_sum_term own_term(const ft_run *run, int seat, int term)
{
    const seat_state *state = &run->seats[seat];
    return (ft_sum_term){.x = state->grads[term],
                         .by_rows = ft_blueprint_by_rows(run->blueprint, term),
                         .rows = moves_gradients(run, seat) ? NULL : state->rows[term]};
}

static ft_sum_term find_term(const ft_run *run, int owner, int term, int seat, const ft_action *a)
{
    if (seat == owner) return own_term(run, owner, term);
    place p = find_place(run, owner, term, seat, a);
    if (p.picked) return ft_picked_term(p.at, p.picked);
    return (ft_sum_term){.x = p.at, .by_rows = ft_blueprint_by_rows(run->blueprint, term)};
}

ft_status send_item(const sending *s, int64_t at, const void *own, int64_t bytes, ft_error *err)
{
    const ft_run *run = s->w->run;
    int e = s->edge, receiver = run->blueprint->seats[run->blueprint->edges[e].to].device;
    if (run->edges[e].channel) return channel_send(s->w, s->stream, e, own, bytes, err);
    return copy_on(s->stream, at_device(run, receiver, slot_of(run, e, s->action) + at),
                   at_device(run, s->w->device, own), bytes, err);
}

/* Rows of a term, put into a slot. */
typedef struct picking {
    ft_sum_term term;
    const ft_param_layout *info;
    void *picked;
    int64_t n;
} picking;

static ft_status pick_rows(void *arg, ft_error *err)
{
    const picking *p = arg;
    const ft_shape *shape = &p->info->spec.shape;
    if (ft_pick_rows(&p->term, ft_shape_rows(shape), ft_shape_width(shape), p->picked, p->n))
        return FT_OK;
    return ft_fail(err, FT_INVALID,
                   "engine: the gradient of '%s' has something in more than %lld rows, and its "
                   "batch has no more ids",
                   p->info->name, (long long)p->n);
}

/* The rows of a term by rows that do not hold zeros, item k of the edge. */
static ft_status send_rows(const sending *s, int k, ft_error *err)
{
    const ft_run *run = s->w->run;
    const ft_cargo *c = &run->blueprint->cargoes[s->edge];
    int param = ft_graph_grad_term(run->blueprint->cut.graphs[0], c->items[k])->param;
    const ft_param_layout *info = &run->blueprint->params[param];
    picking p = {own_term(run, s->action->seat, c->items[k]), info,
                 slot_of(run, s->edge, s->action) + item_at(c, 0, k), picked_rows(run, s->edge, k)};
    ft_plain_work work = {.run = pick_rows, .arg = &p};
    touches(&work, p.term.x, ft_spec_bytes(&info->spec), false);
    touches(&work, p.picked, ft_picked_bytes(p.n, ft_shape_width(&info->spec.shape)), true);
    return compute(s->w, &work, err);
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
            if (picked_rows(w->run, s.edge, k))
                FT_TRY(send_rows(&s, k, err));
            else
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

float *sum_of_terms(const ft_run *run, const ft_param_layout *info)
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

static bool add_terms(const summing *s, const ft_sum_term *terms, int n, int into)
{
    const ft_shape *shape = &s->info->spec.shape;
    return ft_sum_terms(terms, n, into, ft_shape_rows(shape), ft_shape_width(shape), s->w->team);
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
        parts[r] = find_term(run, owner, term, of->first + r, s->action);
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
    int64_t width = ft_shape_width(&info->spec.shape);
    for (int t = 0; t < info->n_terms; t++) {
        const ft_stage_share *of = &b->seating.of[b->term_stage[info->terms[t]]];
        for (int r = 0; r < of->n; r++) {
            const place p =
                find_place(s->w->run, info->owner, info->terms[t], of->first + r, s->action);
            int64_t bytes =
                p.picked ? ft_picked_bytes(p.picked, width) : ft_spec_bytes(&info->spec);
            touches(work, p.at, bytes, !is_alone(b, info));
        }
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
        x[r] = find_place(s->w->run, s->info->owner, term, of->first + r, s->action).at;
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
