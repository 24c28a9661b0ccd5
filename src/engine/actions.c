/* engine/actions.c - what each kind of action does.
 *
 * One function per kind, in a table. An action reads its edges' slots, runs its program or its
 * sums, and writes the slots of the edges out; waiting and counting are the worker's. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "engine/internal.h"

/* -- addresses --------------------------------------------------------------------------------- */

static char *edge_slot(const ft_run *run, int e, int64_t index)
{
    const ft_blueprint *b = run->blueprint;
    const ft_edge *edge = &b->edges[e];
    char *block = run->workers[b->stages[edge->to].device].block;
    return block + b->cargoes[e].base + index % edge->slots * b->cargoes[e].slot_bytes;
}

static int64_t item_at(const ft_cargo *c, int bucket, int i)
{
    return c->at[bucket * c->n + i];
}

static batch_state *batch_of(const ft_run *run, int64_t batch)
{
    return &run->batches[batch % run->blueprint->batch_slots];
}

void mark_memory(worker *w, ft_memory_class c, int64_t end)
{
    int64_t high = end - w->run->blueprint->blocks[w->device].begin[c];
    if (high > atomic_load_explicit(&w->high[c], memory_order_relaxed))
        atomic_store_explicit(&w->high[c], high, memory_order_relaxed);
}

static void mark_tensor(worker *w, ft_memory_class c, const void *start, int64_t bytes)
{
    mark_memory(w, c, (const char *)start - w->block + ft_memory_round(bytes));
}

static int64_t value_bytes(const ft_graph *g, ft_value_id v)
{
    return ft_spec_bytes(&ft_graph_value(g, v)->spec);
}

/* -- results ----------------------------------------------------------------------------------- */

/* The stage that is last to update a batch, or to forward it in evaluation, reports it. */
static void finish_batch(ft_run *run, const ft_action *a, double norm)
{
    const ft_blueprint *b = run->blueprint;
    batch_state *batch = batch_of(run, a->batch);
    if (atomic_fetch_sub(&batch->stages_left, 1) != 1) return;
    run->results[a->batch % b->batch_slots] = (ft_result){.step = run->first_step + a->batch,
                                                          .loss = batch->loss,
                                                          .grad_norm = norm,
                                                          .rate = batch->rate,
                                                          .end_ns = ft_now_ns() - run->start_ns};
    atomic_store(&batch->finished, (int64_t)a->batch + 1);
    ft_gate_open(&run->done_gate);
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
static void receive_values(worker *w, const ft_action *a, int bucket, const ft_program *program,
                           const ft_bases *bases)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_stage_layout *stage = &b->stages[a->stage];
    const ft_graph *g = b->cut.graphs[bucket];
    for (int i = 0; i < stage->n_in_edges[a->kind]; i++) {
        int e = stage->in_edges[a->kind][i];
        const ft_cargo *c = &b->cargoes[e];
        char *slot = edge_slot(w->run, e, ft_action_index(w->run->plan, a));
        for (int k = 0; k < c->n; k++) {
            int64_t bytes = value_bytes(g, c->items[k]);
            ft_place place = ft_program_place(program, c->items[k]);
            memcpy(ft_place_address(bases, place), slot + item_at(c, bucket, k), (size_t)bytes);
            int64_t *mark =
                place.home == FT_HOME_SAVED ? &bases->high_water->saved : &bases->high_water->work;
            int64_t end = place.at + ft_memory_round(bytes);
            if (end > *mark) *mark = end;
        }
    }
}

/* Returns whether all that was sent is finite. */
static bool send_values(worker *w, const ft_action *a, int bucket, const ft_program *program,
                        const ft_bases *bases)
{
    bool finite = true;
    const ft_blueprint *b = w->run->blueprint;
    const ft_stage_layout *stage = &b->stages[a->stage];
    const ft_graph *g = b->cut.graphs[bucket];
    for (int i = 0; i < stage->n_out_edges[a->kind]; i++) {
        int e = stage->out_edges[a->kind][i];
        const ft_cargo *c = &b->cargoes[e];
        char *slot = edge_slot(w->run, e, ft_action_index(w->run->plan, a));
        for (int k = 0; k < c->n; k++) {
            const ft_spec *spec = &ft_graph_value(g, c->items[k])->spec;
            const void *data = ft_place_address(bases, ft_program_place(program, c->items[k]));
            memcpy(slot + item_at(c, bucket, k), data, (size_t)ft_spec_bytes(spec));
            finite = finite && (spec->dtype != FT_F32 ||
                                ft_all_finite(data, ft_shape_count(&spec->shape), w->team));
        }
    }
    return finite;
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
static void hand_out(const worker *w, const ft_action *a, int bucket, const ft_program *program,
                     const ft_bases *bases)
{
    const ft_blueprint *b = w->run->blueprint;
    for (int i = 0; i < b->n_outputs; i++) {
        const ft_output_layout *out = &b->outputs[i];
        if (out->stage != a->stage) continue;
        int64_t bytes = ft_blueprint_output_bytes(b, out, bucket);
        char *slot = w->block + out->at + a->batch % b->batch_slots * out->slot_bytes;
        memcpy(slot + a->micro * bytes,
               ft_place_address(bases, ft_program_place(program, out->value)), (size_t)bytes);
    }
}

static ft_status run_program(worker *w, const ft_action *a, ft_error *err)
{
    const ft_run *run = w->run;
    const ft_blueprint *b = run->blueprint;
    const ft_stage_layout *stage = &b->stages[a->stage];
    stage_state *state = &run->stages[a->stage];
    int bucket = batch_of(run, a->batch)->bucket;
    bool forward = a->kind == FT_ACT_FORWARD;
    const ft_program *program = (forward ? stage->forward : stage->backward)[bucket];
    int64_t in_flight = ft_action_index(run->plan, a) % b->plan.in_flight[a->stage];
    int64_t slot_at = stage->slots_at + in_flight * stage->slot_bytes;
    int64_t work_at = b->blocks[w->device].begin[FT_MEMORY_WORKSPACE];
    ft_high_water water = {0, 0};
    ft_watch watch = {0};
    ft_bases bases = {.work = w->block + work_at,
                      .saved = w->block + slot_at,
                      .inputs = state->inputs,
                      .params = state->params,
                      .grads = state->grads,
                      .packed = state->packed,
                      .accumulate = a->micro > 0,
                      .key = {.seed = b->options.seed,
                              .step = (uint32_t)(run->first_step + a->batch),
                              .sample = (uint32_t)(a->micro * b->options.micro_batch_size)},
                      .team = w->team,
                      .high_water = &water,
                      .watch = &watch};
    set_inputs(run, a, bucket);
    receive_values(w, a, bucket, program, &bases);
    FT_TRY(ft_program_run(program, &bases, err));
    bool sent = send_values(w, a, bucket, program, &bases);
    bool loss = take_loss(w, a, bucket, program, &bases);
    if (forward) hand_out(w, a, bucket, program, &bases);
    mark_memory(w, FT_MEMORY_WORKSPACE, work_at + water.work);
    if (water.saved) mark_memory(w, FT_MEMORY_ACTIVATIONS, slot_at + water.saved);
    if (sent && loss && !watch.node) return FT_OK;
    receive_values(w, a, bucket, program, &bases); /* the work area was used since */
    return explain_failure(w, a, bucket, program, &bases, err);
}

static ft_status do_forward(worker *w, const ft_action *a, ft_error *err)
{
    FT_TRY(run_program(w, a, err));
    const ft_blueprint *b = w->run->blueprint;
    if (w->run->plan->forward_only && a->micro == b->cut.micro_batches - 1)
        finish_batch(w->run, a, NAN);
    return FT_OK;
}

static ft_status do_backward(worker *w, const ft_action *a, ft_error *err)
{
    FT_TRY(run_program(w, a, err));
    const ft_stage *cut = w->run->blueprint->stages[a->stage].cut[0];
    for (int i = 0; i < cut->n_grads; i++) {
        int param = ft_graph_grad_term(w->run->blueprint->cut.graphs[0], cut->grads[i])->param;
        mark_tensor(w, FT_MEMORY_GRADIENTS, w->run->stages[a->stage].grads[cut->grads[i]],
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
            if (c->items[k] == term)
                return (float *)(edge_slot(run, e, a->batch) + item_at(c, 0, k));
    }
    return NULL; /* not reached: the edges were made from the terms */
}

static void send_terms(worker *w, const ft_action *a)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_stage_layout *stage = &b->stages[a->stage];
    for (int i = 0; i < stage->n_out_edges[FT_ACT_REDUCE]; i++) {
        int e = stage->out_edges[FT_ACT_REDUCE][i];
        const ft_cargo *c = &b->cargoes[e];
        if (c->kind != FT_CARGO_TERMS) continue;
        char *slot = edge_slot(w->run, e, a->batch);
        for (int k = 0; k < c->n; k++) {
            int param = ft_graph_grad_term(b->cut.graphs[0], c->items[k])->param;
            memcpy(slot + item_at(c, 0, k), w->run->stages[a->stage].grads[c->items[k]],
                   (size_t)ft_spec_bytes(&b->params[param].spec));
        }
    }
}

/* The accumulator that the owner has of one of its own terms: where it leaves their sum. */
static float *sum_of_terms(const ft_run *run, const ft_param_layout *info)
{
    const int *term = info->terms;
    while (run->blueprint->term_stage[*term] != info->owner) term++;
    return run->stages[info->owner].grads[*term];
}

/* In the order of the terms, which is that of the graph; the first may be in a slot. */
static bool sum_terms(worker *w, const ft_action *a, const ft_param_layout *info, float *sum)
{
    int64_t count = ft_shape_count(&info->spec.shape);
    float *first = find_term(w->run, a->stage, info->terms[0], a);
    bool finite = true;
    for (int t = 1; t < info->n_terms; t++) {
        const float *term = find_term(w->run, a->stage, info->terms[t], a);
        finite = ft_sum_into(first, term, count, w->team); /* what is not finite stays so */
    }
    if (first != sum) memcpy(sum, first, (size_t)count * sizeof *sum);
    return finite;
}

static ft_status do_reduce(worker *w, const ft_action *a, ft_error *err)
{
    (void)err;
    const ft_blueprint *b = w->run->blueprint;
    const ft_stage_layout *stage = &b->stages[a->stage];
    double *norms = w->run->norms + a->batch % b->batch_slots * b->n_params;
    send_terms(w, a);
    for (int i = 0; i < stage->n_params; i++) {
        int p = stage->params[i].param;
        const ft_param_layout *info = &b->params[p];
        if (!stage->params[i].owned || !info->n_terms) continue;
        float *sum = sum_of_terms(w->run, info);
        bool finite = sum_terms(w, a, info, sum);
        int64_t count = ft_shape_count(&info->spec.shape);
        if (b->together) norms[p] = ft_squared_norm(sum, count, w->team);
        if (!finite) note_bad_sum(w, a, p);
    }
    return FT_OK;
}

/* -- update ------------------------------------------------------------------------------------ */

/* Global norm, summed in the order of the parameters whatever stages they are in. */
static double global_norm(const ft_run *run, int64_t batch)
{
    const ft_blueprint *b = run->blueprint;
    if (!b->together) return NAN;
    const double *norms = run->norms + batch % b->batch_slots * b->n_params;
    double sum = 0;
    for (int p = 0; p < b->n_params; p++) sum += norms[p];
    return sqrt(sum);
}

ft_status pack_weights(ft_run *run, int s, int param, ft_team *team, ft_error *err)
{
    const ft_stage_layout *stage = &run->blueprint->stages[s];
    worker *w = &run->workers[stage->device];
    for (int i = 0; i < stage->n_packs; i++) {
        const ft_pack *pack = &stage->packs[i];
        if (param >= 0 && pack->param != param) continue;
        char *packed = w->block + stage->pack_at[i];
        FT_TRY(ft_pack_make(run->blueprint->cut.graphs[0], pack, run->stages[s].params[pack->param],
                            packed, team, err));
        mark_tensor(w, FT_MEMORY_PACKED, packed, pack->bytes);
    }
    return FT_OK;
}

static void update_param(worker *w, const ft_action *a, int p, float grad_scale)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_param_layout *info = &b->params[p];
    ft_update update = {.spec = &info->spec,
                        .param = w->run->stages[a->stage].params[p],
                        .grad = sum_of_terms(w->run, info),
                        .grad_scale = grad_scale,
                        .state = w->block + info->state_at,
                        .hypers = info->hypers,
                        .rate = batch_of(w->run, a->batch)->rate,
                        .step = w->run->first_step + a->batch,
                        .team = w->team};
    b->options.optimizer->update(&update);
    ft_state_part parts[FT_MAX_STATE_PARTS];
    int64_t state_bytes = 0;
    b->options.optimizer->state(&info->spec, b->options.hypers, parts, &state_bytes);
    if (state_bytes) mark_tensor(w, FT_MEMORY_OPTIMIZER, update.state, state_bytes);
    mark_tensor(w, FT_MEMORY_WEIGHTS, update.param, ft_spec_bytes(&info->spec));
}

static ft_status do_update(worker *w, const ft_action *a, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_stage_layout *stage = &b->stages[a->stage];
    double norm = global_norm(w->run, a->batch), clip = b->options.clip;
    float scale = clip > 0 && norm > clip ? (float)(clip / (norm + 1e-6)) : 1.0f;
    bool updates = may_update(w, a);
    for (int i = 0; updates && i < stage->n_params; i++)
        if (stage->params[i].owned && b->params[stage->params[i].param].n_terms)
            update_param(w, a, stage->params[i].param, scale);
    for (int i = 0; updates && i < stage->n_params; i++)
        if (stage->params[i].owned)
            FT_TRY(pack_weights(w->run, a->stage, stage->params[i].param, w->team, err));
    for (int i = 0; i < stage->n_out_edges[FT_ACT_UPDATE]; i++) {
        int e = stage->out_edges[FT_ACT_UPDATE][i];
        const ft_cargo *c = &b->cargoes[e];
        char *slot = edge_slot(w->run, e, a->batch);
        for (int k = 0; c->kind == FT_CARGO_WEIGHTS && k < c->n; k++)
            memcpy(slot + item_at(c, 0, k), w->run->stages[a->stage].params[c->items[k]],
                   (size_t)ft_spec_bytes(&b->params[c->items[k]].spec));
    }
    w->run->stages[a->stage].updates++;
    finish_batch(w->run, a, norm);
    return FT_OK;
}

static ft_status do_adopt(worker *w, const ft_action *a, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_stage_layout *stage = &b->stages[a->stage];
    for (int i = 0; i < stage->n_in_edges[FT_ACT_ADOPT]; i++) {
        int e = stage->in_edges[FT_ACT_ADOPT][i];
        const ft_cargo *c = &b->cargoes[e];
        char *slot = edge_slot(w->run, e, a->batch);
        for (int k = 0; c->kind == FT_CARGO_WEIGHTS && k < c->n; k++) {
            void *param = w->run->stages[a->stage].params[c->items[k]];
            int64_t bytes = ft_spec_bytes(&b->params[c->items[k]].spec);
            memcpy(param, slot + item_at(c, 0, k), (size_t)bytes);
            mark_tensor(w, FT_MEMORY_WEIGHTS, param, bytes);
        }
    }
    for (int i = 0; i < stage->n_params; i++)
        if (!stage->params[i].owned)
            FT_TRY(pack_weights(w->run, a->stage, stage->params[i].param, w->team, err));
    return FT_OK;
}

/* -- the table --------------------------------------------------------------------------------- */

static ft_status (*const kinds[FT_ACT_COUNT])(worker *, const ft_action *, ft_error *) = {
    [FT_ACT_FORWARD] = do_forward, [FT_ACT_BACKWARD] = do_backward, [FT_ACT_REDUCE] = do_reduce,
    [FT_ACT_UPDATE] = do_update,   [FT_ACT_ADOPT] = do_adopt,
};

/* The first action of a kind that has no function here, or NULL. */
static const ft_action *find_unknown(const ft_action_list *list)
{
    for (int i = 0; i < list->n; i++)
        if (!kinds[list->actions[i].kind]) return &list->actions[i];
    return NULL;
}

ft_status check_executable(const ft_plan *plan, ft_error *err)
{
    for (int d = 0; d < plan->n_devices; d++) {
        const ft_device_plan *lists = &plan->devices[d];
        const ft_action *a = find_unknown(&lists->warmup);
        if (!a) a = find_unknown(&lists->body);
        if (!a) a = find_unknown(&lists->drain);
        if (a)
            return ft_fail(
                err, FT_UNSUPPORTED,
                "engine: device %d has a %s action of stage %d, which can be planned and "
                "simulated but not executed yet",
                d, ft_action_word(a->kind), a->stage);
        if (plan->by_policy[d])
            return ft_fail(err, FT_UNSUPPORTED,
                           "engine: device %d chooses its order by policy, which can be simulated "
                           "but not executed yet",
                           d);
    }
    for (int s = 0; s < plan->n_stages; s++) {
        int n = plan->replica_first[s + 1] - plan->replica_first[s];
        if (n > 1 || plan->versions[s] > 1)
            return ft_fail(err, FT_UNSUPPORTED,
                           "engine: stage %d has %d %s, which can be planned and simulated but not "
                           "executed yet",
                           s, n > 1 ? n : plan->versions[s],
                           n > 1 ? "replicas" : "weight versions");
    }
    return FT_OK;
}

ft_status ft_run_check(const ft_blueprint *b, ft_error *err)
{
    return check_executable(&b->plan, err);
}

/* The plan says how many updates a micro-batch may be behind; the engine has counted them. */
static ft_status check_lag(const ft_run *run, const ft_action *a, ft_error *err)
{
    if (run->plan->forward_only || !ft_action_per_micro(a->kind)) return FT_OK;
    int64_t lag = a->batch - run->stages[a->stage].updates;
    if (lag == a->lag) return FT_OK;
    return ft_fail(err, FT_INVALID, "stage %d is %lld updates behind, the plan says %d", a->stage,
                   (long long)lag, a->lag);
}

ft_status execute_action(worker *w, const ft_action *a, ft_error *err)
{
    FT_TRY(check_lag(w->run, a, err));
    return kinds[a->kind](w, a, err);
}
