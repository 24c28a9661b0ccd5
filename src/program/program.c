/* program/program.c - a list of nodes made ready to run. */
#include "program/internal.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "memory/memory.h"

/* One node with its operands. Views hold everything but the address. */
typedef struct step {
    const ft_node *node;
    ft_kernel kernel;
    int n_out;
    ft_view in[FT_MAX_IN];
    ft_view out[FT_MAX_OUT];
    ft_place in_place[FT_MAX_IN];
    ft_place out_place[FT_MAX_OUT];
    int64_t work_at;    /* the row's own workspace */
    int64_t work_bytes; /* 0: none */
    int pack;           /* number in the request's packs, or -1 */
    uint32_t grads;     /* outputs that are gradient terms, written in place */
} step;

/* A gradient term that its row cannot add to by itself: copied or added after the step. */
typedef struct deposit {
    int step; /* -1: before the first, what an earlier program has made */
    int term;
    const ft_node *node;
    ft_value_id value;
    int64_t count; /* elements */
} deposit;

struct ft_program {
    ft_arena *arena;
    const ft_graph *graph;
    step *steps;
    int n_steps;
    ft_place *places;  /* by value */
    deposit *deposits; /* by step */
    int n_deposits;
    int64_t work_bytes;
};

static ft_status no_memory(const ft_program_request *q, ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "program: no memory for %d nodes", q->n_nodes);
}

/* A program that never runs is laid out as on a CPU. */
static int64_t node_workspace(const ft_program_request *q, const ft_node *node)
{
    ft_device_kind kind = q->kind == FT_DEVICE_SIM ? FT_DEVICE_CPU : q->kind;
    ft_spec specs[FT_MAX_IN];
    node_specs(q->graph, node, specs);
    return ft_op_workspace(node->op, kind, FT_F32, specs, node->attrs, q->team_size);
}

/* -- gradient terms -----------------------------------------------------------------------------
 */

static bool read_by_a_node(const ft_program_request *q, ft_value_id value)
{
    for (int s = 0; s < q->n_nodes; s++) {
        const ft_node *node = ft_graph_node(q->graph, q->nodes[s]);
        for (int i = 0; i < node->n_in; i++)
            if (node->in[i] == value) return true;
    }
    return false;
}

static bool shared_term(const ft_program_request *q, ft_value_id value)
{
    int n = 0;
    for (int t = 0; t < q->n_terms; t++)
        n += ft_graph_grad_term(q->graph, q->terms[t])->value == value;
    return n > 1;
}

static int step_of(const ft_program_request *q, int node)
{
    for (int s = 0; s < q->n_nodes; s++)
        if (q->nodes[s] == node) return s;
    return -1;
}

/* A term goes straight into its accumulator when the row can add to it and nobody else reads the
 * value; other terms stay in the work area and are deposited after their step. */
static void place_terms(ft_program *p, const ft_program_request *q)
{
    for (int t = 0; t < q->n_terms; t++) {
        const ft_grad_term *term = ft_graph_grad_term(q->graph, q->terms[t]);
        const ft_value *value = ft_graph_value(q->graph, term->value);
        const ft_node *node = ft_graph_node(q->graph, term->node);
        bool direct = p->places[term->value].home == FT_HOME_WORK &&
                      node->op->accumulates >> value->output & 1 && !shared_term(q, term->value) &&
                      !read_by_a_node(q, term->value);
        if (direct)
            p->places[term->value] = (ft_place){FT_HOME_GRAD, q->terms[t]};
        else
            p->deposits[p->n_deposits++] =
                (deposit){step_of(q, term->node), q->terms[t], node, term->value,
                          ft_shape_count(&value->spec.shape)};
    }
}

/* -- layout of the work area ------------------------------------------------------------------- */

/* Live ranges of WORK values, then of workspaces, over steps 0 .. n_nodes-1. */
typedef struct ranges {
    int *slot;              /* by value: interval number + 1, 0 when it has none */
    ft_interval *intervals; /* WORK values first, then one per node for its workspace */
    ft_value_id *value;     /* by interval; FT_NO_VALUE for workspaces */
    int n;
} ranges;

static void touch(ranges *r, const ft_graph *g, ft_value_id value, int at)
{
    if (!r->slot[value]) {
        const ft_value *v = ft_graph_value(g, value);
        r->intervals[r->n] = (ft_interval){ft_spec_bytes(&v->spec), at, at};
        r->value[r->n] = value;
        r->slot[value] = ++r->n;
    }
    ft_interval *interval = &r->intervals[r->slot[value] - 1];
    if (at > interval->end) interval->end = at;
}

static bool in_work(const ft_program *p, ft_value_id value)
{
    return p->places[value].home == FT_HOME_WORK;
}

static void collect_ranges(ranges *r, const ft_program *p, const ft_program_request *q)
{
    for (int i = 0; i < q->n_arrive; i++)
        if (in_work(p, q->arrive[i])) touch(r, q->graph, q->arrive[i], 0);
    for (int s = 0; s < q->n_nodes; s++) {
        const ft_node *node = ft_graph_node(q->graph, q->nodes[s]);
        for (int i = 0; i < node->n_in; i++)
            if (node->in[i] != FT_NO_VALUE && in_work(p, node->in[i]))
                touch(r, q->graph, node->in[i], s);
        for (int k = 0; k < node->op->n_out; k++)
            if (in_work(p, node->out + k)) touch(r, q->graph, node->out + k, s);
    }
    for (int i = 0; i < q->n_keep; i++)
        if (in_work(p, q->keep[i])) touch(r, q->graph, q->keep[i], q->n_nodes);
}

/* Without `places` only how large the area is. */
static ft_status lay_out(ft_program *p, const ft_program_request *q, ft_arena *scratch, bool places,
                         ft_error *err)
{
    int n_values = ft_graph_n_values(q->graph);
    int room = n_values + q->n_nodes;
    ranges r = {.slot = ft_arena_array(scratch, n_values + 1, sizeof(int)),
                .intervals = ft_arena_array(scratch, room + 1, sizeof(ft_interval)),
                .value = ft_arena_array(scratch, room + 1, sizeof(ft_value_id))};
    int64_t *offsets = ft_arena_array(scratch, room + 1, sizeof(int64_t));
    int *owner = ft_arena_array(scratch, room + 1, sizeof(int));
    if (!r.slot || !r.intervals || !r.value || !offsets || !owner)
        return ft_fail(err, FT_NOMEM, "program: no memory for the layout of %d values", n_values);
    collect_ranges(&r, p, q);
    int n_values_live = r.n;
    for (int s = 0; s < q->n_nodes; s++) {
        int64_t bytes = node_workspace(q, ft_graph_node(q->graph, q->nodes[s]));
        p->steps[s].work_bytes = bytes;
        if (!bytes) continue;
        r.intervals[r.n] = (ft_interval){bytes, s, s};
        owner[r.n++] = s;
    }
    if (!places) return ft_memory_extent(r.intervals, r.n, &p->work_bytes, err);
    FT_TRY(ft_memory_layout(r.intervals, r.n, offsets, &p->work_bytes, err));
    for (int i = 0; i < n_values_live; i++) p->places[r.value[i]].at = offsets[i];
    for (int i = n_values_live; i < r.n; i++) p->steps[owner[i]].work_at = offsets[i];
    return FT_OK;
}

/* -- compiling --------------------------------------------------------------------------------- */

static int find_pack(const ft_program_request *q, const ft_node *node)
{
    if (!node->op->pack_input) return -1;
    ft_value_id weight = node->in[node->op->pack_input - 1];
    for (int i = 0; i < q->n_packs; i++) {
        const ft_pack *pack = &q->packs[i];
        if (weight == ft_graph_param_value(q->graph, pack->param) &&
            pack_suits(q->graph, pack, node)) {
            ft_spec specs[FT_MAX_IN];
            node_specs(q->graph, node, specs);
            if (pack->kernels->pack_bytes(node->op, specs, node->attrs) == pack->bytes) return i;
        }
    }
    return -1;
}

static ft_status find_kernel(ft_kernel *out, const ft_program_request *q, const ft_node *node,
                             ft_error *err)
{
    *out = ft_op_kernel(node->op, q->kind, FT_F32);
    if (*out == node->op->kernel && is_for_cards(q->graph, node))
        return ft_fail(err, FT_UNSUPPORTED,
                       "'%s' in %s has values as cards keep them, in 16 bits or with rows apart; "
                       "CPUs do not",
                       node->op->name, node->scope);
    if (*out) return FT_OK;
    return ft_fail(err, FT_UNSUPPORTED, "'%s' in %s has no kernel for this kind of device",
                   node->op->name, node->scope);
}

static ft_status compile_step(ft_program *p, const ft_program_request *q, int s, ft_error *err)
{
    step *st = &p->steps[s];
    st->node = ft_graph_node(q->graph, q->nodes[s]);
    st->n_out = st->node->op->n_out;
    st->pack = find_pack(q, st->node);
    for (int i = 0; i < FT_MAX_IN; i++) {
        ft_value_id v = st->node->in[i];
        st->in_place[i].home = FT_HOME_COUNT;
        if (v == FT_NO_VALUE) {
            st->in[i] = (ft_view){.shape = {.n_dims = -1}};
            continue;
        }
        st->in[i] = ft_view_of(&ft_graph_value(q->graph, v)->spec, NULL);
        st->in_place[i] = p->places[v];
    }
    for (int k = 0; k < st->n_out; k++) {
        ft_value_id v = st->node->out + k;
        st->out[k] = ft_view_of(&ft_graph_value(q->graph, v)->spec, NULL);
        st->out_place[k] = p->places[v];
        if (p->places[v].home == FT_HOME_GRAD) st->grads |= 1u << k;
    }
    if (q->kind == FT_DEVICE_SIM) return FT_OK;
    return find_kernel(&st->kernel, q, st->node, err);
}

/* All but its steps: where everything is; without `places`, how large the work area is. */
static ft_status arrange(ft_program *p, const ft_program_request *q, ft_arena *arena,
                         ft_arena *scratch, bool places, ft_error *err)
{
    int n_values = ft_graph_n_values(q->graph);
    *p = (ft_program){.arena = arena, .graph = q->graph, .n_steps = q->n_nodes};
    p->steps = ft_arena_array(arena, q->n_nodes + 1, sizeof(step));
    p->places = ft_arena_array(arena, n_values + 1, sizeof(ft_place));
    p->deposits = ft_arena_array(arena, q->n_terms + 1, sizeof(deposit));
    if (!p->steps || !p->places || !p->deposits) return no_memory(q, err);
    memcpy(p->places, q->places, (size_t)n_values * sizeof(ft_place));
    place_terms(p, q);
    return lay_out(p, q, scratch, places, err);
}

ft_status ft_program_measure(int64_t *work_bytes, const ft_program_request *q, ft_error *err)
{
    ft_program p;
    ft_arena *arena = ft_arena_new();
    if (!arena) return no_memory(q, err);
    ft_status status = arrange(&p, q, arena, arena, false, err);
    ft_arena_free(arena);
    if (status == FT_OK) *work_bytes = p.work_bytes;
    for (int s = 0; status == FT_OK && q->kind != FT_DEVICE_SIM && s < q->n_nodes; s++) {
        ft_kernel kernel;
        status = find_kernel(&kernel, q, ft_graph_node(q->graph, q->nodes[s]), err);
    }
    return status;
}

ft_status ft_program_new(ft_program **out, const ft_program_request *q, ft_error *err)
{
    *out = NULL;
    ft_arena *arena = ft_arena_new(), *scratch = ft_arena_new();
    ft_program *p = arena ? ft_arena_alloc(arena, sizeof *p) : NULL;
    ft_status status = p && scratch ? arrange(p, q, arena, scratch, true, err) : no_memory(q, err);
    for (int s = 0; status == FT_OK && s < q->n_nodes; s++) status = compile_step(p, q, s, err);
    ft_arena_free(scratch);
    if (status == FT_OK)
        *out = p;
    else if (p && p->steps)
        ft_program_free(p);
    else
        ft_arena_free(arena);
    return status;
}

void ft_program_free(ft_program *program)
{
    if (program) ft_arena_free(program->arena);
}

int64_t ft_program_work_bytes(const ft_program *program)
{
    return program->work_bytes;
}

ft_place ft_program_place(const ft_program *program, ft_value_id value)
{
    return program->places[value];
}

/* -- running ----------------------------------------------------------------------------------- */

void *ft_place_address(const ft_bases *bases, ft_place place)
{
    switch (place.home) {
    case FT_HOME_WORK: return bases->work + place.at;
    case FT_HOME_SAVED: return bases->saved + place.at;
    case FT_HOME_HELD: return bases->held + place.at;
    case FT_HOME_INPUT: return bases->inputs[place.at];
    case FT_HOME_PARAM: return bases->params[place.at];
    case FT_HOME_GRAD: return bases->grads[place.at];
    case FT_HOME_BOUND: return bases->bound[place.at];
    case FT_HOME_COUNT: break;
    }
    return NULL;
}

static void raise_mark(int64_t *mark, int64_t at, int64_t bytes)
{
    int64_t end = at + ft_memory_round(bytes);
    if (end > *mark) *mark = end;
}

static void record_touch(ft_high_water *water, const step *st)
{
    for (int k = 0; k < st->n_out; k++) {
        ft_spec spec = ft_view_layout(&st->out[k]);
        int64_t bytes = ft_spec_bytes(&spec);
        if (st->out_place[k].home == FT_HOME_WORK)
            raise_mark(&water->work, st->out_place[k].at, bytes);
        if (st->out_place[k].home == FT_HOME_SAVED)
            raise_mark(&water->saved, st->out_place[k].at, bytes);
    }
    if (st->work_bytes) raise_mark(&water->work, st->work_at, st->work_bytes);
}

/* Where the squares of output k go, which is a term made in place; or NULL. */
static double *squares_of(const step *st, int k, const ft_bases *bases)
{
    return bases->squares && st->grads >> k & 1 ? bases->squares[st->out_place[k].at] : NULL;
}

/* Whether the step reads fewer numbers than a term has, and finite ones alone. */
static bool reads_finite(const step *st, const ft_call *call, int64_t n)
{
    for (int i = 0; i < st->node->n_in; i++)
        if (st->node->in[i] != FT_NO_VALUE) n -= ft_shape_count(&st->in[i].shape);
    for (int i = 0; i < st->node->n_in && n > 0; i++)
        if (st->node->in[i] != FT_NO_VALUE && st->in[i].dtype == FT_F32 &&
            !ft_all_finite(call->in[i].data, ft_shape_count(&st->in[i].shape), call->team))
            return false;
    return n > 0;
}

/* Gradient terms that the step made in place; with watch->every all that it made. Squares that are
 * wanted say as well whether a term is finite: its numbers are walked over once, while near. */
static void watch_step(const step *st, const ft_call *call, const ft_bases *bases)
{
    const ft_op *op = st->node->op;
    ft_watch *watch = bases->watch;
    if (watch->node) return;
    bool finite = op->finite && (st->grads || watch->every) && op->finite(call);
    for (int k = 0; k < st->n_out; k++) {
        bool term = st->grads >> k & 1, statistic = op->no_grad_out >> k & 1;
        if (st->out[k].dtype != FT_F32 || !(term || (watch->every && !statistic))) continue;
        const float *x = call->out[k].data;
        int64_t n = ft_shape_count(&st->out[k].shape);
        double *squares = squares_of(st, k, bases);
        if (squares) *squares = ft_squared_norm(x, n, call->team);
        if (finite || (squares && isfinite(*squares))) continue;
        if (watch->growing && term && reads_finite(st, call, n)) continue;
        ft_watch_value(watch, st->node, x, n, call->team);
    }
}

/* With watch->every on a device of its own: at all that the step made, now. */
static ft_status look_at_step(const step *st, const ft_call *call, const ft_bases *bases,
                              ft_error *err)
{
    for (int k = 0; k < st->n_out; k++) {
        const ft_spec spec = ft_view_layout(&st->out[k]);
        if (ft_dtype_is_float(spec.dtype) && !(st->node->op->no_grad_out >> k & 1))
            FT_TRY(ft_watch_tensor(bases, st->node, &spec, call->out[k].data, err));
    }
    return FT_OK;
}

/* Which rows of output 0, a term made in place, may hold something; or NULL. */
static uint8_t *rows_of(const step *st, const ft_bases *bases)
{
    return bases->rows && st->grads & 1 ? bases->rows[st->out_place[0].at] : NULL;
}

static ft_status launch(const ft_bases *bases, const ft_task *task, const void *arg, ft_error *err)
{
    ft_device_stream *stream = bases->stream;
    return stream ? stream->executor->driver->launch(stream, task, arg, err)
                  : task->run(arg, NULL, err);
}

static ft_status run_step(const step *st, const ft_bases *bases, ft_error *err)
{
    ft_view in[FT_MAX_IN], out[FT_MAX_OUT]; /* of which a row looks at as many as it has */
    memcpy(in, st->in, (size_t)st->node->op->n_in * sizeof *in);
    memcpy(out, st->out, (size_t)st->n_out * sizeof *out);
    for (int i = 0; i < st->node->n_in; i++) in[i].data = ft_place_address(bases, st->in_place[i]);
    for (int k = 0; k < st->n_out; k++) out[k].data = ft_place_address(bases, st->out_place[k]);
    const void *packed = st->pack >= 0 ? bases->packed[st->pack] : NULL;
    ft_call call = {.in = in,
                    .out = out,
                    .attrs = st->node->attrs,
                    .packed = packed,
                    .work = st->work_bytes ? bases->work + st->work_at : NULL,
                    .key = bases->key,
                    .accumulate = bases->accumulate ? st->grads & st->node->op->accumulates : 0,
                    .rows = rows_of(st, bases),
                    .team = bases->team,
                    .stream = bases->stream};
    call.key.node = (uint32_t)st->node->key;
    const ft_row_run run = {st->node->op, st->kernel, &call, st->work_bytes};
    FT_TRY(launch(bases, &ft_row_task, &run, err));
    if (!bases->watch) return FT_OK;
    if (!ft_steps_of(bases->stream))
        watch_step(st, &call, bases);
    else if (bases->watch->every)
        return look_at_step(st, &call, bases, err);
    return FT_OK;
}

/* A term on its way into its sum. */
typedef struct deposit_run {
    const ft_bases *bases;
    float *term, *sum;
    int64_t count;
} deposit_run;

static ft_status run_deposit(void *arg, ft_error *err)
{
    const deposit_run *d = arg;
    (void)err;
    if (d->bases->accumulate)
        ft_sum_into(d->sum, d->term, d->count, d->bases->team);
    else
        memcpy(d->sum, d->term, (size_t)d->count * sizeof(float));
    return FT_OK;
}

static ft_status give_deposit(void *arg, ft_device_stream *stream, ft_error *err)
{
    const deposit_run *d = arg;
    float *const x[] = {d->bases->accumulate ? d->sum : d->term, d->term};
    const ft_summands summands = {d->sum, x, d->bases->accumulate ? 2 : 1, d->count};
    return ft_steps_of(stream)->sum(stream, &summands, err);
}

/* What is to be known of a sum that a term was put into. */
static ft_status watch_deposit(const deposit *d, const deposit_run *run, ft_error *err)
{
    const ft_bases *bases = run->bases;
    if (ft_steps_of(bases->stream)) {
        const ft_spec spec = {FT_F32, {1, {d->count}}};
        bool every = bases->watch && bases->watch->every;
        return every ? ft_watch_tensor(bases, d->node, &spec, run->sum, err) : FT_OK;
    }
    if (bases->squares && bases->squares[d->term])
        *bases->squares[d->term] = ft_squared_norm(run->sum, d->count, bases->team);
    if (bases->watch) ft_watch_value(bases->watch, d->node, run->sum, d->count, bases->team);
    return FT_OK;
}

static ft_status make_deposits(const ft_program *p, const ft_bases *bases, int step_number,
                               ft_error *err)
{
    for (int i = 0; i < p->n_deposits; i++) {
        const deposit *d = &p->deposits[i];
        if (d->step != step_number) continue;
        deposit_run run = {bases, ft_place_address(bases, p->places[d->value]),
                           bases->grads[d->term], d->count};
        int64_t bytes = d->count * (int64_t)sizeof(float);
        const ft_plain_work work = {.run = run_deposit,
                                    .give = give_deposit,
                                    .arg = &run,
                                    .n_accesses = 2,
                                    .accesses = {{run.term, bytes, true, false},
                                                 {run.sum, bytes, bases->accumulate, true}}};
        FT_TRY(launch(bases, &ft_plain_task, &work, err));
        if (bases->rows && bases->rows[d->term])
            memset(bases->rows[d->term], 1,
                   (size_t)ft_graph_value(p->graph, d->value)->spec.shape.dims[0]);
        FT_TRY(watch_deposit(d, &run, err));
    }
    return FT_OK;
}

/* -- what was found -----------------------------------------------------------------------------
 */

/* Looks that are not given to the stream yet. */
typedef struct looking {
    const ft_bases *bases;
    int n;
    ft_looking at[24];
} looking;

static ft_status give_looks(looking *l, ft_error *err)
{
    int n = l->n;
    l->n = 0;
    return ft_steps_of(l->bases->stream)->look(l->bases->stream, l->at, n, err);
}

static ft_status look_at_term(looking *l, int64_t term, int64_t count, ft_error *err)
{
    ft_look *found = &l->bases->looks[term];
    if (l->n == sizeof l->at / sizeof *l->at) FT_TRY(give_looks(l, err));
    *found = (ft_look){0, 1, 0};
    l->at[l->n++] = (ft_looking){l->bases->grads[term], FT_F32, count, found};
    return FT_OK;
}

/* On a device of its own: at the terms that the program made, together. */
static ft_status look_at_terms(const ft_program *program, const ft_bases *bases, ft_error *err)
{
    looking l = {.bases = bases};
    for (int s = 0; s < program->n_steps; s++) {
        const step *st = &program->steps[s];
        for (int k = 0; st->grads && k < st->n_out; k++)
            if (st->grads >> k & 1)
                FT_TRY(
                    look_at_term(&l, st->out_place[k].at, ft_shape_count(&st->out[k].shape), err));
    }
    for (int i = 0; i < program->n_deposits; i++)
        FT_TRY(look_at_term(&l, program->deposits[i].term, program->deposits[i].count, err));
    return give_looks(&l, err);
}

static void judge(const ft_bases *bases, int64_t term, const ft_node *node)
{
    const ft_look *found = &bases->looks[term];
    if (bases->squares && bases->squares[term]) *bases->squares[term] = found->squares;
    if (found->finite || bases->watch->node) return;
    bases->watch->node = node;
    bases->watch->nan = found->nan;
}

void ft_program_judge(const ft_program *program, const ft_bases *bases)
{
    for (int s = -1; s < program->n_steps; s++) {
        const step *st = s < 0 ? NULL : &program->steps[s];
        for (int k = 0; st && k < st->n_out; k++)
            if (st->grads >> k & 1) judge(bases, st->out_place[k].at, st->node);
        for (int i = 0; i < program->n_deposits; i++)
            if (program->deposits[i].step == s)
                judge(bases, program->deposits[i].term, program->deposits[i].node);
    }
}

static ft_status run_all(const ft_program *program, const ft_bases *bases, ft_error *err)
{
    int64_t before = bases->step_ns ? bases->clock() : 0;
    FT_TRY(make_deposits(program, bases, -1, err));
    if (bases->watch && bases->watch->every && bases->watch->node) return FT_OK;
    for (int s = 0; s < program->n_steps; s++) {
        const step *st = &program->steps[s];
        ft_status status = run_step(st, bases, err);
        if (status != FT_OK) {
            ft_error_wrap(err, "%s in %s", st->node->op->name, st->node->scope);
            return status;
        }
        if (program->n_deposits) FT_TRY(make_deposits(program, bases, s, err));
        if (bases->high_water) record_touch(bases->high_water, st);
        if (bases->watch && bases->watch->every && bases->watch->node) break;
        if (!bases->step_ns) continue;
        int64_t now = bases->clock();
        bases->step_ns[s] = now - before;
        before = now;
    }
    bool looks = bases->watch && !bases->watch->every && ft_steps_of(bases->stream);
    return looks ? look_at_terms(program, bases, err) : FT_OK;
}

/* Launches come again with each micro-batch: in series, unless somebody looks between them. */
ft_status ft_program_run(const ft_program *program, const ft_bases *bases, ft_error *err)
{
    ft_device_stream *stream = bases->stream;
    const ft_driver *driver = stream ? stream->executor->driver : NULL;
    bool looks = bases->step_ns || (bases->watch && bases->watch->every);
    if (!driver || !driver->begin_series || looks) return run_all(program, bases, err);
    driver->begin_series(stream);
    return driver->end_series(stream, run_all(program, bases, err), err);
}
