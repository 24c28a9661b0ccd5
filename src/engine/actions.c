/* engine/actions.c - what each kind of action does.
 *
 * One function per kind, in a table. An action reads its edges' slots, runs its program or its
 * sums, and writes the slots of the edges out; waiting and counting are the worker's. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "engine/internal.h"

/* -- addresses --------------------------------------------------------------------------------- */

static int64_t item_at(const ft_cargo *c, int bucket, int i)
{
    return c->at[bucket * c->n + i];
}

static batch_state *batch_of(const ft_run *run, int64_t batch)
{
    return &run->batches[batch % run->blueprint->batch_slots];
}

/* Gradients that move are written whole. */
static bool moves_gradients(const ft_run *run, int s)
{
    return run->blueprint->stages[s].units[FT_MEMORY_GRADIENTS];
}

static int64_t value_bytes(const ft_graph *g, ft_value_id v)
{
    return ft_spec_bytes(&ft_graph_value(g, v)->spec);
}

/* The slot of an edge that is per batch. */
static char *slot_of(const ft_run *run, int e, int64_t batch)
{
    return row_place(run, (ft_row_end){e, FT_ROW_EDGE}, batch);
}

/* -- results ----------------------------------------------------------------------------------- */

/* The stage that is last to update a batch, or to forward it in evaluation, reports it. */
static ft_status finish_batch(worker *w, const ft_action *a, double norm, ft_error *err)
{
    ft_run *run = w->run;
    const ft_blueprint *b = run->blueprint;
    batch_state *batch = batch_of(run, a->batch);
    FT_TRY(end_batch(w, a, err));
    if (atomic_fetch_sub(&batch->stages_left, 1) != 1) return FT_OK;
    run->results[a->batch % b->batch_slots] = (ft_result){.step = run->first_step + a->batch,
                                                          .loss = batch->loss,
                                                          .grad_norm = norm,
                                                          .rate = batch->rate,
                                                          .end_ns = ft_now_ns() - run->start_ns};
    atomic_store(&batch->finished, (int64_t)a->batch + 1);
    ft_gate_open(&run->done_gate);
    return FT_OK;
}

/* -- forward and backward ---------------------------------------------------------------------- */

static void set_inputs(const ft_run *run, const ft_action *a, int bucket)
{
    const ft_blueprint *b = run->blueprint;
    void **inputs = run->stages[a->stage].inputs;
    char *slot = run->workers[b->stages[0].device].block + b->batch_at +
                 a->batch % b->batch_slots * b->batch_slot_bytes;
    for (int i = 0; i < b->n_inputs; i++)
        inputs[i] = slot + b->input_at[i] + a->micro * b->input_bytes[bucket * b->n_inputs + i];
}

/* Copies the values of the edges in to where the program expects them. */
static ft_status receive_values(worker *w, const ft_action *a, int bucket,
                                const ft_program *program, const ft_bases *bases, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_graph *g = b->cut.graphs[bucket];
    ft_row_end at;
    for (int i = 0; ft_blueprint_takes(b, a, i, &at); i++) {
        const ft_cargo *c = &b->cargoes[at.edge];
        char *slot = row_place(w->run, at, ft_action_index(w->run->plan, a));
        for (int k = 0; k < c->n; k++) {
            int64_t bytes = value_bytes(g, c->items[k]);
            ft_place place = ft_program_place(program, c->items[k]);
            FT_TRY(copy_on(w->compute, at_device(w->run, w->device, ft_place_address(bases, place)),
                           at_device(w->run, w->device, slot + item_at(c, bucket, k)), bytes, err));
            int64_t end = place.at + ft_memory_round(bytes), *mark = &bases->high_water->work;
            if (place.home == FT_HOME_WORK && end > *mark) *mark = end;
        }
    }
    return FT_OK;
}

/* *finite: whether all that was sent is. */
static ft_status send_values(worker *w, const ft_action *a, int bucket, const ft_program *program,
                             const ft_bases *bases, bool *finite, ft_error *err)
{
    *finite = true;
    const ft_blueprint *b = w->run->blueprint;
    const ft_graph *g = b->cut.graphs[bucket];
    ft_row_end at;
    for (int i = 0; ft_blueprint_fills(b, a, i, &at); i++) {
        const ft_cargo *c = &b->cargoes[at.edge];
        char *slot = row_place(w->run, at, ft_action_index(w->run->plan, a));
        for (int k = 0; k < c->n; k++) {
            const ft_spec *spec = &ft_graph_value(g, c->items[k])->spec;
            const void *data = ft_place_address(bases, ft_program_place(program, c->items[k]));
            FT_TRY(copy_on(w->compute,
                           at_device(w->run, c->rows[at.row].device, slot + item_at(c, bucket, k)),
                           at_device(w->run, w->device, data), ft_spec_bytes(spec), err));
            *finite = *finite && (spec->dtype != FT_F32 ||
                                  ft_all_finite(data, ft_shape_count(&spec->shape), w->team));
        }
    }
    return FT_OK;
}

/* Adds the loss to the batch's, in the stage that makes it; returns whether it is finite. */
static bool take_loss(worker *w, const ft_action *a, int bucket, const ft_program *program,
                      const ft_bases *bases)
{
    const ft_blueprint *b = w->run->blueprint;
    int node = ft_graph_value(b->cut.graphs[bucket], b->loss)->source;
    if (a->kind != FT_ACT_FORWARD || b->splits[bucket]->node_stage[node] != a->stage) return true;
    const float *loss = ft_place_address(bases, ft_program_place(program, b->loss));
    batch_of(w->run, a->batch)->loss += (double)*loss;
    return isfinite(*loss);
}

/* Copies the outputs of the stage to where the caller finds them. */
static ft_status hand_out(const worker *w, const ft_action *a, int bucket,
                          const ft_program *program, const ft_bases *bases, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    for (int i = 0; i < b->n_outputs; i++) {
        const ft_output_layout *out = &b->outputs[i];
        if (out->stage != a->stage) continue;
        int64_t bytes = ft_blueprint_output_bytes(b, out, bucket);
        char *slot = w->block + out->at + a->batch % b->batch_slots * out->slot_bytes;
        const void *value = ft_place_address(bases, ft_program_place(program, out->value));
        if (a->micro == 0) occupy(w, slot, ft_place_room(out->slot_bytes));
        FT_TRY(copy_on(w->compute, at_device(w->run, w->device, slot + a->micro * bytes),
                       at_device(w->run, w->device, value), bytes, err));
    }
    return FT_OK;
}

/* What is kept of a micro-batch between the halves of its backward; NULL where none has halves. */
static char *held_slot(const ft_run *run, int s, int64_t index)
{
    const ft_stage_layout *stage = &run->blueprint->stages[s];
    if (!stage->n_held_slots) return NULL;
    return run->workers[stage->device].block + stage->held_at +
           index % stage->n_held_slots * stage->held_slot_bytes;
}

static ft_status run_program(worker *w, const ft_action *a, ft_error *err)
{
    const ft_run *run = w->run;
    const ft_blueprint *b = run->blueprint;
    const ft_stage_layout *stage = &b->stages[a->stage];
    stage_state *state = &run->stages[a->stage];
    int bucket = batch_of(run, a->batch)->bucket;
    bool forward = a->kind == FT_ACT_FORWARD, last = a->micro == b->cut.micro_batches - 1;
    const ft_program *program = stage->programs[a->kind][bucket];
    int64_t index = ft_action_index(run->plan, a);
    int64_t slot_at = stage->slots_at + index % b->plan.in_flight[a->stage] * stage->slot_bytes;
    char *held = held_slot(run, a->stage, index);
    int64_t work_at = b->blocks[w->device].begin[FT_MEMORY_WORKSPACE];
    ft_high_water water = {0, 0};
    ft_watch watch = {0};
    ft_bases bases = {.work = w->block + work_at,
                      .saved = w->block + slot_at,
                      .held = held,
                      .inputs = state->inputs,
                      .grads = state->grads,
                      .rows = moves_gradients(run, a->stage) ? NULL : state->rows,
                      .squares = b->together && last ? state->squares : NULL,
                      .accumulate = a->micro > 0,
                      .key = {.seed = b->options.seed,
                              .step = (uint32_t)(run->first_step + a->batch),
                              .sample = (uint32_t)(a->micro * b->options.micro_batch_size)},
                      .team = w->team,
                      .stream = w->compute,
                      .high_water = &water,
                      .watch = &watch};
    bool sent;
    FT_TRY(find_versions(run, a, &bases, err));
    set_inputs(run, a, bucket);
    if (forward) occupy(w, bases.saved, ft_place_room(stage->slot_bytes));
    if (a->kind == FT_ACT_BACKWARD_INPUT) occupy(w, held, ft_place_room(stage->held_slot_bytes));
    occupy(w, bases.work, ft_program_work_bytes(program));
    FT_TRY(receive_values(w, a, bucket, program, &bases, err));
    FT_TRY(ft_program_run(program, &bases, err));
    FT_TRY(send_values(w, a, bucket, program, &bases, &sent, err));
    bool loss = take_loss(w, a, bucket, program, &bases);
    if (forward) FT_TRY(hand_out(w, a, bucket, program, &bases, err));
    ledger_work(w, water.work);
    if (!sent || !loss || watch.node) {
        FT_TRY(receive_values(w, a, bucket, program, &bases, err)); /* the work area was used */
        FT_TRY(explain_failure(w, a, bucket, program, &bases, err));
    }
    vacate(w, bases.work, ft_program_work_bytes(program));
    if (a->kind != (int)stage->last) return FT_OK;
    vacate(w, bases.saved, ft_place_room(stage->slot_bytes));
    if (a->kind == FT_ACT_BACKWARD_WEIGHT) vacate(w, held, ft_place_room(stage->held_slot_bytes));
    return FT_OK;
}

static ft_status do_forward(worker *w, const ft_action *a, ft_error *err)
{
    FT_TRY(run_program(w, a, err));
    const ft_blueprint *b = w->run->blueprint;
    if (w->run->plan->forward_only && a->micro == b->cut.micro_batches - 1)
        return finish_batch(w, a, NAN, err);
    return FT_OK;
}

/* A backward, or the half of one that adds to gradients. */
static ft_status do_backward(worker *w, const ft_action *a, ft_error *err)
{
    FT_TRY(run_program(w, a, err));
    const ft_stage *cut = w->run->blueprint->stages[a->stage].cut[0];
    for (int i = 0; i < cut->n_grads; i++) {
        int param = ft_graph_grad_term(w->run->blueprint->cut.graphs[0], cut->grads[i])->param;
        ledger_keep(w, a->stage, FT_MEMORY_GRADIENTS, &w->run->kept_terms[cut->grads[i]],
                    ft_spec_bytes(&w->run->blueprint->params[param].spec));
    }
    return FT_OK;
}

/* -- reduce ------------------------------------------------------------------------------------ */

/* Where a term is for its owner: its own accumulator, or the slot of an edge. */
static float *find_term(const ft_run *run, int owner, int term, const ft_action *a)
{
    const ft_blueprint *b = run->blueprint;
    if (b->term_stage[term] == owner) return run->stages[owner].grads[term];
    const ft_stage_layout *stage = &b->stages[owner];
    for (int i = 0; i < stage->n_in_edges[FT_ACT_REDUCE]; i++) {
        int e = stage->in_edges[FT_ACT_REDUCE][i];
        const ft_cargo *c = &b->cargoes[e];
        for (int k = 0; k < c->n; k++)
            if (c->items[k] == term) return (float *)(slot_of(run, e, a->batch) + item_at(c, 0, k));
    }
    return NULL; /* not reached: the edges were made from the terms */
}

static ft_status send_terms(worker *w, const ft_action *a, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_stage_layout *stage = &b->stages[a->stage];
    for (int i = 0; i < stage->n_out_edges[FT_ACT_REDUCE]; i++) {
        int e = stage->out_edges[FT_ACT_REDUCE][i];
        const ft_cargo *c = &b->cargoes[e];
        if (c->kind != FT_CARGO_TERMS) continue;
        char *slot = slot_of(w->run, e, a->batch);
        for (int k = 0; k < c->n; k++) {
            int param = ft_graph_grad_term(b->cut.graphs[0], c->items[k])->param;
            int receiver = b->stages[b->edges[e].to].device;
            FT_TRY(
                copy_on(w->compute, at_device(w->run, receiver, slot + item_at(c, 0, k)),
                        at_device(w->run, w->device, w->run->stages[a->stage].grads[c->items[k]]),
                        ft_spec_bytes(&b->params[param].spec), err));
        }
    }
    return FT_OK;
}

/* The term, by position, in whose accumulator the owner leaves their sum: the first of its own, but
 * rather one that is not by rows, which has something in all of them. */
static int place_of_sum(const ft_run *run, const ft_param_layout *info)
{
    int first = -1;
    for (int t = 0; t < info->n_terms; t++) {
        if (run->blueprint->term_stage[info->terms[t]] != info->owner) continue;
        if (!ft_blueprint_by_rows(run->blueprint, info->terms[t])) return t;
        if (first < 0) first = t;
    }
    return first;
}

static float *sum_of_terms(const ft_run *run, const ft_param_layout *info)
{
    return run->stages[info->owner].grads[info->terms[place_of_sum(run, info)]];
}

/* The sum of a parameter's terms and, where they are clipped, its squared norm. */
typedef struct summing {
    worker *w;
    const ft_action *action;
    const ft_param_layout *info;
    double *norm; /* NULL: not wanted */
    bool finite;
} summing;

/* In the order of the terms, which is that of the graph; others may be in slots. */
static ft_status sum_terms(void *arg, ft_error *err)
{
    summing *s = arg;
    (void)err;
    const ft_param_layout *info = s->info;
    const ft_run *run = s->w->run;
    const stage_state *state = &run->stages[info->owner];
    int64_t count = ft_shape_count(&info->spec.shape);
    if (info->n_terms == 1) { /* the last micro-batch's backward has looked at it */
        if (s->norm) *s->norm = *state->squares[info->terms[0]];
        return FT_OK;
    }
    ft_sum_term *terms = state->terms;
    int into = place_of_sum(run, info);
    for (int t = 0; t < info->n_terms; t++) {
        int term = info->terms[t];
        bool own =
            run->blueprint->term_stage[term] == info->owner && !moves_gradients(run, info->owner);
        terms[t] = (ft_sum_term){.x = find_term(run, info->owner, term, s->action),
                                 .by_rows = ft_blueprint_by_rows(run->blueprint, term),
                                 .rows = own ? state->rows[term] : NULL};
    }
    int64_t rows = info->spec.shape.n_dims > 1 ? info->spec.shape.dims[0] : 1;
    s->finite = ft_sum_terms(terms, info->n_terms, into, rows, rows ? count / rows : 0, s->w->team);
    if (s->norm) *s->norm = ft_squared_norm(terms[into].x, count, s->w->team);
    return FT_OK;
}

static ft_status do_reduce(worker *w, const ft_action *a, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_stage_layout *stage = &b->stages[a->stage];
    norm_cell *norms = w->run->norms + a->batch % b->batch_slots * b->n_params;
    FT_TRY(send_terms(w, a, err));
    for (int i = 0; i < stage->n_params; i++) {
        int p = stage->params[i].param;
        const ft_param_layout *info = &b->params[p];
        if (!stage->params[i].owned || !info->n_terms) continue;
        summing s = {w, a, info, b->together ? &norms[p].squared : NULL, true};
        ft_plain_work work = {.run = sum_terms, .arg = &s};
        touches(&work, sum_of_terms(w->run, info), ft_spec_bytes(&info->spec), true);
        touches(&work, &norms[p], sizeof *norms, true);
        for (int t = 0; t < info->n_terms; t++)
            touches(&work, find_term(w->run, a->stage, info->terms[t], a),
                    ft_spec_bytes(&info->spec), info->n_terms > 1);
        FT_TRY(compute(w, &work, err));
        if (!s.finite) note_bad_sum(w, a, p);
    }
    return FT_OK;
}

/* -- update ------------------------------------------------------------------------------------ */

/* Global norm, summed in the order of the parameters whatever stages they are in. */
typedef struct norming {
    const norm_cell *norms;
    int n;
    double norm;
} norming;

static ft_status sum_norms(void *arg, ft_error *err)
{
    norming *s = arg;
    double sum = 0;
    (void)err;
    for (int p = 0; p < s->n; p++) sum += s->norms[p].squared;
    s->norm = sqrt(sum);
    return FT_OK;
}

/* NAN where stages do not update together. */
static ft_status global_norm(const worker *w, int64_t batch, double *out, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    norming s = {w->run->norms + batch % b->batch_slots * b->n_params, b->n_params, NAN};
    ft_plain_work work = {.run = sum_norms, .arg = &s};
    touches(&work, s.norms, s.n * (int64_t)sizeof *s.norms, false);
    if (b->together) FT_TRY(compute(w, &work, err));
    *out = s.norm;
    return FT_OK;
}

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
    return ft_pack_make(p->graph, p->pack, p->weight, p->packed, p->team, err);
}

ft_status pack_weight(const worker *w, int s, int i, const void *weight, void *packed,
                      ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_pack *pack = &b->stages[s].packs[i];
    packing p = {b->cut.graphs[0], pack, weight, packed, w->team};
    ft_plain_work work = {.run = make_pack, .arg = &p};
    touches(&work, weight, ft_spec_bytes(&b->params[pack->param].spec), false);
    touches(&work, packed, pack->bytes, true);
    return compute(w, &work, err);
}

ft_status pack_weights(ft_run *run, int s, int param, ft_error *err)
{
    const ft_stage_layout *stage = &run->blueprint->stages[s];
    worker *w = &run->workers[stage->device];
    for (int i = 0; i < stage->n_packs; i++) {
        const ft_pack *pack = &stage->packs[i];
        if (param >= 0 && pack->param != param) continue;
        FT_TRY(pack_weight(w, s, i, run->stages[s].params[pack->param],
                           (void *)(uintptr_t)run->stages[s].packed[i], err));
        ledger_keep(w, s, FT_MEMORY_PACKED, &run->stages[s].kept_packs[i], pack->bytes);
    }
    return FT_OK;
}

typedef struct updating {
    const ft_optimizer *optimizer;
    ft_update update;
} updating;

static ft_status run_update(void *arg, ft_error *err)
{
    const updating *u = arg;
    (void)err;
    u->optimizer->update(&u->update);
    return FT_OK;
}

static ft_status update_param(worker *w, const ft_action *a, int p, float grad_scale, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_param_layout *info = &b->params[p];
    updating u = {b->options.optimizer,
                  {.spec = &info->spec,
                   .param = w->run->stages[a->stage].params[p],
                   .grad = sum_of_terms(w->run, info),
                   .grad_scale = grad_scale,
                   .state = w->run->states[p],
                   .hypers = info->hypers,
                   .rate = batch_of(w->run, a->batch)->rate,
                   .ahead = info->ahead,
                   .step = w->run->first_step + a->batch,
                   .team = w->team}};
    ft_state_part parts[FT_MAX_STATE_PARTS];
    int64_t bytes = ft_spec_bytes(&info->spec), state_bytes = 0;
    b->options.optimizer->state(&info->spec, b->options.hypers, parts, &state_bytes);
    ft_plain_work work = {.run = run_update, .arg = &u};
    touches(&work, u.update.param, bytes, true);
    touches(&work, u.update.grad, bytes, false);
    touches(&work, u.update.state, state_bytes, true);
    FT_TRY(compute(w, &work, err));
    ledger_keep(w, a->stage, FT_MEMORY_OPTIMIZER, &w->run->kept_states[p], state_bytes);
    return FT_OK;
}

static ft_status send_weights(worker *w, const ft_action *a, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_stage_layout *stage = &b->stages[a->stage];
    for (int i = 0; i < stage->n_out_edges[FT_ACT_UPDATE]; i++) {
        int e = stage->out_edges[FT_ACT_UPDATE][i], to = b->stages[b->edges[e].to].device;
        const ft_cargo *c = &b->cargoes[e];
        char *slot = slot_of(w->run, e, a->batch);
        for (int k = 0; c->kind == FT_CARGO_WEIGHTS && k < c->n; k++)
            FT_TRY(
                copy_on(w->compute, at_device(w->run, to, slot + item_at(c, 0, k)),
                        at_device(w->run, w->device, w->run->stages[a->stage].params[c->items[k]]),
                        ft_spec_bytes(&b->params[c->items[k]].spec), err));
    }
    return FT_OK;
}

static ft_status do_update(worker *w, const ft_action *a, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_stage_layout *stage = &b->stages[a->stage];
    double norm, clip = b->options.clip;
    FT_TRY(global_norm(w, a->batch, &norm, err));
    float scale = clip > 0 && norm > clip ? (float)(clip / (norm + 1e-6)) : 1.0f;
    bool updates = may_update(w, a);
    FT_TRY(keep_version(w, a->stage, FT_WEIGHTS_OWNED, err));
    for (int i = 0; updates && i < stage->n_params; i++)
        if (stage->params[i].owned && b->params[stage->params[i].param].n_terms)
            FT_TRY(update_param(w, a, stage->params[i].param, scale, err));
    for (int i = 0; updates && i < stage->n_params; i++)
        if (stage->params[i].owned)
            FT_TRY(pack_weights(w->run, a->stage, stage->params[i].param, err));
    FT_TRY(send_weights(w, a, err));
    return finish_batch(w, a, norm, err);
}

static ft_status do_adopt(worker *w, const ft_action *a, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_stage_layout *stage = &b->stages[a->stage];
    FT_TRY(keep_version(w, a->stage, FT_WEIGHTS_ADOPTED, err));
    for (int i = 0; i < stage->n_in_edges[FT_ACT_ADOPT]; i++) {
        int e = stage->in_edges[FT_ACT_ADOPT][i];
        const ft_cargo *c = &b->cargoes[e];
        char *slot = slot_of(w->run, e, a->batch);
        for (int k = 0; c->kind == FT_CARGO_WEIGHTS && k < c->n; k++) {
            void *param = w->run->stages[a->stage].params[c->items[k]];
            int64_t bytes = ft_spec_bytes(&b->params[c->items[k]].spec);
            FT_TRY(copy_on(w->compute, at_device(w->run, w->device, param),
                           at_device(w->run, w->device, slot + item_at(c, 0, k)), bytes, err));
        }
    }
    for (int i = 0; i < stage->n_params; i++)
        if (!stage->params[i].owned)
            FT_TRY(pack_weights(w->run, a->stage, stage->params[i].param, err));
    return FT_OK;
}

/* -- the table --------------------------------------------------------------------------------- */

static ft_status (*const kinds[FT_ACT_COUNT])(worker *, const ft_action *, ft_error *) = {
    [FT_ACT_FORWARD] = do_forward,
    [FT_ACT_BACKWARD] = do_backward,
    [FT_ACT_REDUCE] = do_reduce,
    [FT_ACT_UPDATE] = do_update,
    [FT_ACT_ADOPT] = do_adopt,
    [FT_ACT_SEND] = do_pass,
    [FT_ACT_RECEIVE] = do_pass,
    [FT_ACT_SWAP_OUT] = do_swap_out,
    [FT_ACT_SWAP_IN] = do_swap_in,
    [FT_ACT_DROP] = do_drop,
    [FT_ACT_BACKWARD_INPUT] = run_program,
    [FT_ACT_BACKWARD_WEIGHT] = do_backward,
    [FT_ACT_PREDICT] = do_predict,
};

/* The first action of a kind that has no function here, or NULL. */
static const ft_action *find_unknown(const ft_action_list *list)
{
    for (int i = 0; i < list->n; i++)
        if (!kinds[list->actions[i].kind]) return &list->actions[i];
    return NULL;
}

ft_status ft_run_check_plan(const ft_plan *plan, ft_error *err)
{
    for (int d = 0; d < plan->n_devices; d++) {
        const ft_device_plan *lists = &plan->devices[d];
        const ft_action *a = find_unknown(&lists->warmup);
        if (!a) a = find_unknown(&lists->body);
        if (!a) a = find_unknown(&lists->drain);
        if (a)
            return ft_fail(
                err, FT_UNSUPPORTED,
                "plan: %s actions, as stage %d has on device %d, can be planned and simulated but "
                "not executed yet: expected a schedule without them, as 1f1b",
                ft_action_word(a->kind), a->stage, d);
        if (plan->by_policy[d])
            return ft_fail(err, FT_UNSUPPORTED,
                           "engine: device %d chooses its order by policy, which can be simulated "
                           "but not executed yet",
                           d);
    }
    for (int s = 0; s < plan->n_stages; s++) {
        int n = plan->replica_first[s + 1] - plan->replica_first[s];
        if (n > 1)
            return ft_fail(err, FT_UNSUPPORTED,
                           "plan: %d replicas, as stage %d has, can be planned and simulated but "
                           "not executed yet: expected one device for each stage",
                           n, s);
    }
    return FT_OK;
}

ft_status ft_run_check(const ft_blueprint *b, ft_error *err)
{
    return ft_run_check_plan(&b->plan, err);
}

/* The plan says how many updates a micro-batch may be behind; the engine has counted them. */
static ft_status check_lag(const ft_run *run, const ft_action *a, ft_error *err)
{
    int lag = counted_lag(run, a);
    if (lag == a->lag) return FT_OK;
    return ft_fail(err, FT_INVALID, "stage %d is %d updates behind, the plan says %d", a->stage,
                   lag, a->lag);
}

ft_status execute_action(worker *w, const ft_action *a, ft_error *err)
{
    FT_TRY(check_lag(w->run, a, err));
    FT_TRY(kinds[a->kind](w, a, err));
    ft_versions_pass(&w->run->stages[a->stage].versions, w->run->plan, a);
    return FT_OK;
}
