/* profile/worker.c - what one worker does: runs blocks over memory of its own, and notes what
 * everything took. */
#include <string.h>

#include "base/alloc.h"
#include "profile/internal.h"

/* -- samples ----------------------------------------------------------------------------------- */

/* `ns` has one look at the clock in it. */
static ft_status note(const worker *w, samples *s, int64_t ns, ft_error *err)
{
    double cost = w->parts->bench->clock.cost_ns;
    if (!w->noting) return FT_OK;
    if (s->n == s->room) {
        int room = s->room ? 2 * s->room : 16;
        double *grown = ft_realloc(s->ns, room * (int64_t)sizeof *grown);
        if (!grown) return ft_fail(err, FT_NOMEM, "profile: no memory for samples");
        s->ns = grown;
        s->room = room;
    }
    s->ns[s->n++] = (double)ns > cost + 1 ? (double)ns - cost : 1; /* 0 says: no update */
    return FT_OK;
}

/* -- memory ------------------------------------------------------------------------------------ */

/* Rows that pick by id: which input holds ids, which input's axis (0: first, -1: last) they index.
 */
static const struct {
    const char *op;
    int ids, table, axis;
} pickers[] = {{"embedding", 0, 1, 0}, {"cross_entropy", 1, 0, -1}};

int64_t profile_id_limit(const ft_graph *g, ft_value_id ids)
{
    for (int n = 0; n < ft_graph_n_forward(g); n++) {
        const ft_node *node = ft_graph_node(g, n);
        for (size_t i = 0; i < sizeof pickers / sizeof *pickers; i++) {
            if (strcmp(node->op->name, pickers[i].op) != 0 || node->in[pickers[i].ids] != ids)
                continue;
            const ft_shape *s = &ft_graph_value(g, node->in[pickers[i].table])->spec.shape;
            return s->dims[pickers[i].axis < 0 ? s->n_dims - 1 : 0];
        }
    }
    return 0;
}

/* Ids spread over their table; ones for masks and the like; small weights of a loss. */
static void fill_input(const ft_graph *g, ft_value_id v, void *data)
{
    const ft_spec *spec = &ft_graph_value(g, v)->spec;
    int64_t n = ft_shape_count(&spec->shape), limit = profile_id_limit(g, v);
    if (spec->dtype == FT_F32)
        for (int64_t i = 0; i < n; i++) ((float *)data)[i] = 0.01f;
    else if (spec->dtype == FT_I32)
        for (int64_t i = 0; i < n; i++)
            ((int32_t *)data)[i] = limit ? (int32_t)((i * 104729 + 1) % limit) : 1;
}

static ft_status make_inputs(worker *w, ft_error *err)
{
    const ft_graph *g = w->parts->bench->options->graph;
    int n = ft_graph_n_inputs(g);
    for (int i = 0; i < n; i++)
        w->inputs_bytes +=
            ft_memory_round(ft_spec_bytes(&ft_graph_value(g, ft_graph_input_value(g, i))->spec));
    w->inputs_memory = ft_alloc(w->inputs_bytes);
    if (!w->inputs_memory) return ft_fail(err, FT_NOMEM, "profile: no memory for inputs");
    char *at = w->inputs_memory;
    for (int i = 0; i < n; i++) {
        ft_value_id v = ft_graph_input_value(g, i);
        w->inputs[i] = at;
        fill_input(g, v, at);
        at += ft_memory_round(ft_spec_bytes(&ft_graph_value(g, v)->spec));
    }
    return FT_OK;
}

/* Points the member's tables at one copy of a block. */
static void point_at(const worker *w, const bench_block *block, char *copy)
{
    const ft_stage *cut = block->block->cut;
    for (int i = 0; i < cut->n_params; i++) w->params[cut->params[i]] = copy + block->param_at[i];
    for (int i = 0; i < cut->n_grads; i++) w->grads[cut->grads[i]] = copy + block->term_at[i];
    for (int i = 0; i < block->n_packs; i++) w->packed[i] = copy + block->pack_at[i];
}

static int64_t param_count(const worker *w, int param)
{
    const ft_graph *g = w->parts->bench->options->graph;
    return ft_shape_count(&ft_graph_value(g, ft_graph_param_value(g, param))->spec.shape);
}

static ft_status pack(const worker *w, const bench_block *block, int i, ft_error *err)
{
    return ft_pack_make(w->parts->bench->options->graph, &block->packs[i],
                        w->params[block->packs[i].param], (void *)(uintptr_t)w->packed[i],
                        &(ft_packer){w->team, NULL}, err);
}

/* Enough noise to fill a value or a stretch of a parameter with. */
enum { NOISE_FLOATS = 1 << 18 };

float *worker_noise(void)
{
    ft_rng rng;
    float *noise = ft_alloc(NOISE_FLOATS * sizeof(float));
    ft_rng_init(&rng, 1, 0);
    for (int i = 0; noise && i < NOISE_FLOATS; i++)
        noise[i] = (float)(0.1 * ft_rng_uniform(&rng) - 0.05);
    return noise;
}

static void fill_noise(const worker *w, float *data, int64_t n)
{
    for (int64_t i = 0; i < n; i += NOISE_FLOATS)
        memcpy(data + i, w->noise,
               (size_t)(n - i < NOISE_FLOATS ? n - i : NOISE_FLOATS) * sizeof(float));
}

static ft_status fill_copy(const worker *w, const bench_block *block, char *copy, ft_error *err)
{
    const ft_stage *cut = block->block->cut;
    point_at(w, block, copy);
    for (int i = 0; i < cut->n_params; i++)
        fill_noise(w, w->params[cut->params[i]], param_count(w, cut->params[i]));
    for (int i = 0; i < block->n_packs; i++) FT_TRY(pack(w, block, i, err));
    return FT_OK;
}

/* Finds out how much memory the blocks of a part take. */
static void count_part(worker *w, int part, int *most_nodes, int *most_packs)
{
    const crew_part *t = &w->parts[part];
    for (int i = t->first; i < t->first + t->n; i++) {
        const bench_block *block = &t->bench->blocks[i];
        w->memory_bytes[part] += block->bytes * block->copies;
        w->tours[part].n += block->copies;
        if (block->work_bytes > w->work_bytes) w->work_bytes = block->work_bytes;
        for (int p = 0; p < PASS_COUNT; p++)
            if (block->n_nodes[p] > *most_nodes) *most_nodes = block->n_nodes[p];
        if (block->n_packs > *most_packs) *most_packs = block->n_packs;
    }
}

static ft_status fill_part(worker *w, int part, ft_error *err)
{
    const crew_part *t = &w->parts[part];
    worker_tour *tour = &w->tours[part];
    char *copy = w->memory[part] = ft_pages_alloc(w->memory_bytes[part]);
    tour->stops = ft_alloc((tour->n + 1) * (int64_t)sizeof *tour->stops);
    if (!copy || !tour->stops)
        return ft_fail(err, FT_NOMEM, "profile: no memory for %.1f MB of blocks",
                       (double)w->memory_bytes[part] / 1e6);
    worker_stop *stop = tour->stops;
    for (int i = t->first; i < t->first + t->n; i++)
        for (int k = 0; k < t->bench->blocks[i].copies; k++, copy += t->bench->blocks[i].bytes) {
            *stop++ = (worker_stop){i, copy, 0};
            FT_TRY(fill_copy(w, &t->bench->blocks[i], copy, err));
        }
    return FT_OK;
}

ft_status worker_make(worker *w, ft_error *err)
{
    const ft_graph *g = w->parts->bench->options->graph;
    int most_nodes = 1, most_packs = 1;
    for (int i = 0; i < w->n_parts; i++) count_part(w, i, &most_nodes, &most_packs);
    w->inputs = ft_alloc((ft_graph_n_inputs(g) + 1) * (int64_t)sizeof(void *));
    w->params = ft_alloc((ft_graph_n_params(g) + 1) * (int64_t)sizeof(void *));
    w->grads = ft_alloc((ft_graph_n_grads(g) + 1) * (int64_t)sizeof(void *));
    w->packed = ft_alloc(most_packs * (int64_t)sizeof(void *));
    w->step_ns = ft_alloc(most_nodes * (int64_t)sizeof(int64_t));
    w->work = ft_pages_alloc(w->work_bytes);
    if (!w->inputs || !w->params || !w->grads || !w->packed || !w->step_ns || !w->work)
        return ft_fail(err, FT_NOMEM, "profile: no memory for %.1f MB of workspace",
                       (double)w->work_bytes / 1e6);
    FT_TRY(make_inputs(w, err));
    FT_TRY(ft_team_new(&w->team, w->parts->bench->options->device->n_threads, err));
    for (int i = 0; i < w->n_parts; i++) FT_TRY(fill_part(w, i, err));
    return FT_OK;
}

void worker_free(worker *w)
{
    ft_team_free(w->team);
    for (int i = 0; i < CREW_PARTS; i++) {
        ft_pages_free(w->memory[i], w->memory_bytes[i]);
        ft_free(w->tours[i].stops);
    }
    ft_pages_free(w->work, w->work_bytes);
    ft_free(w->inputs_memory);
    ft_free(w->inputs);
    ft_free(w->params);
    ft_free(w->grads);
    ft_free(w->packed);
    ft_free(w->step_ns);
}

/* -- passes ------------------------------------------------------------------------------------ */

static void fill_value(const worker *w, const ft_bases *bases, const ft_program *program,
                       ft_value_id v)
{
    const ft_spec *spec = &ft_graph_value(w->parts->bench->options->graph, v)->spec;
    ft_place place = ft_program_place(program, v);
    void *data = ft_place_address(bases, place);
    if (place.home != FT_HOME_WORK && place.home != FT_HOME_SAVED) return;
    if (spec->dtype == FT_F32)
        fill_noise(w, data, ft_shape_count(&spec->shape));
    else
        memset(data, 0, (size_t)ft_spec_bytes(spec));
}

static ft_status run_pass(const worker *w, worker_stop *stop, profile_pass pass, ft_error *err)
{
    int number = stop->block;
    char *copy = stop->copy;
    const bench_block *block = &w->part->bench->blocks[number];
    const ft_program *program = block->program[pass];
    block_samples *notes = &w->part->notes[w->number][number];
    ft_bases bases = {.work = w->work,
                      .saved = copy + block->saved_at,
                      .inputs = w->inputs,
                      .params = w->params,
                      .grads = w->grads,
                      .packed = w->packed,
                      .accumulate = w->parts->bench->options->accumulate,
                      .key = {.seed = 1, .step = 1},
                      .team = w->team,
                      .step_ns = w->step_ns,
                      .clock = w->parts->bench->clock.now};
    if (!program) return FT_OK;
    point_at(w, block, copy);
    for (int i = 0; i < block->n_arrive[pass]; i++)
        fill_value(w, &bases, program, block->arrive[pass][i]);
    for (int i = 0; pass == PASS_AGAIN && i < block->block->again->n_saved; i++)
        fill_value(w, &bases, program, block->block->again->saved[i]);
    int64_t start = bases.clock();
    FT_TRY(ft_program_run(program, &bases, err));
    int64_t looks = (int64_t)((double)block->n_nodes[pass] * w->parts->bench->clock.cost_ns);
    int64_t ns = bases.clock() - start - looks;
    stop->ns += ns;
    FT_TRY(note(w, &notes->pass[pass], ns, err));
    for (int i = 0; i < block->n_nodes[pass]; i++)
        FT_TRY(note(w, &notes->node[pass][i], w->step_ns[i], err));
    return FT_OK;
}

static worker_tour *tour_of(worker *w)
{
    return &w->tours[w->part - w->parts];
}

static worker_stop *stop_at(const worker_tour *tour, int i)
{
    return &tour->stops[(tour->first + i) % tour->n];
}

static ft_status run_backward(worker *w, profile_pass pass, ft_error *err)
{
    const worker_tour *tour = tour_of(w);
    for (int i = tour->n - 1; i >= 0; i--) FT_TRY(run_pass(w, stop_at(tour, i), pass, err));
    return FT_OK;
}

/* Workers stay as far from each other as the stages of a cut: each begins where its share of a
 * round would. Side by side all would wait for memory in the same blocks. */
static void choose_first(const worker *w, worker_tour *tour)
{
    double all = 0, before = 0;
    for (int i = 0; i < tour->n; i++) all += (double)tour->stops[i].ns;
    double wanted = all * w->number / w->parts->bench->options->n_busy;
    while (before < wanted) before += (double)tour->stops[tour->first++].ns;
    tour->first %= tour->n;
    tour->chosen = true;
}

ft_status worker_passes(worker *w, ft_error *err)
{
    worker_tour *tour = tour_of(w);
    for (int i = 0; i < tour->n; i++) FT_TRY(run_pass(w, stop_at(tour, i), PASS_FORWARD, err));
    FT_TRY(run_backward(w, PASS_BACKWARD, err));
    FT_TRY(run_backward(w, PASS_AGAIN, err));
    if (!tour->chosen) choose_first(w, tour);
    return FT_OK;
}

/* -- updates ----------------------------------------------------------------------------------- */

static int term_of(const ft_graph *g, const ft_stage *cut, int param)
{
    for (int i = 0; i < cut->n_grads; i++)
        if (ft_graph_grad_term(g, cut->grads[i])->param == param) return cut->grads[i];
    return -1;
}

static ft_status update_param(const worker *w, int number, int i, char *copy, ft_error *err)
{
    const ft_measure_options *o = w->parts->bench->options;
    const bench_block *block = &w->part->bench->blocks[number];
    const block_samples *notes = &w->part->notes[w->number][number];
    const ft_stage *cut = block->block->cut;
    int param = cut->params[i], term = term_of(o->graph, cut, param);
    if (term < 0) return FT_OK;
    ft_update update = {.spec =
                            &ft_graph_value(o->graph, ft_graph_param_value(o->graph, param))->spec,
                        .param = w->params[param],
                        .grad = w->grads[term],
                        .grad_scale = 1,
                        .state = copy + block->state_at[i],
                        .hypers = o->hypers,
                        .rate = 1e-9,
                        .step = w->rounds + 1,
                        .team = w->team};
    int64_t (*now)(void) = w->parts->bench->clock.now;
    int64_t start = now();
    double norm = ft_squared_norm(update.grad, param_count(w, param), w->team);
    int64_t middle = now();
    update.grad_scale = norm > 1 ? (float)(1 / norm) : 1.0f;
    o->optimizer->update(&update);
    int64_t end = now();
    FT_TRY(note(w, &notes->norm[i], middle - start, err));
    return note(w, &notes->update[i], end - middle, err);
}

static ft_status update_block(const worker *w, int number, char *copy, ft_error *err)
{
    const bench_block *block = &w->part->bench->blocks[number];
    int64_t (*now)(void) = w->parts->bench->clock.now;
    point_at(w, block, copy);
    for (int i = 0; i < block->block->cut->n_params; i++)
        FT_TRY(update_param(w, number, i, copy, err));
    for (int i = 0; i < block->n_packs; i++) {
        int64_t start = now();
        FT_TRY(pack(w, block, i, err));
        FT_TRY(note(w, &w->part->notes[w->number][number].pack[i], now() - start, err));
    }
    return FT_OK;
}

ft_status worker_updates(worker *w, ft_error *err)
{
    const worker_tour *tour = tour_of(w);
    for (int i = 0; i < tour->n; i++)
        FT_TRY(update_block(w, stop_at(tour, i)->block, stop_at(tour, i)->copy, err));
    return FT_OK;
}
