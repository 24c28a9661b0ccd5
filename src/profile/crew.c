/* profile/crew.c - workers that run blocks side by side, and note what everything took.
 *
 * One thread for each device that works at once, each over memory of its own. The first one leads:
 * it says when a phase has gone on for long enough, the others go on until then. A phase of passes
 * (all forwards, then all backwards) is followed by one of updates. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/gate.h"
#include "profile/internal.h"

enum { LEAST_ROUNDS = 2, MOST_ROUNDS = 64, MOST_UPDATES = 16 };
static const double UPDATE_SHARE = 0.2; /* of the time */

typedef enum { PHASE_PASSES, PHASE_UPDATES, PHASE_DONE } crew_phase;

typedef struct crew {
    const bench *bench;
    int first, n; /* blocks of the bench */
    const float *noise;
    double seconds;
    _Atomic int phase;
    ft_gate came, go; /* how often another one has come to a meeting, and how often they went on */
    int n_others;     /* threads started; read by the leader alone */
    pthread_mutex_t lock;
    ft_error error; /* the first failure, under lock */
} crew;

typedef struct member {
    crew *crew;
    block_samples *notes;
    bool leads, noting;
    ft_team *team;
    pthread_t thread;
    char *memory, *work, *inputs_memory;
    int64_t memory_bytes, work_bytes, inputs_bytes;
    void **inputs, **params, **grads;
    const void **packed;
    int64_t *step_ns;
    int64_t rounds;
} member;

/* -- samples ----------------------------------------------------------------------------------- */

/* `ns` has one look at the clock in it. */
static ft_status note(const member *m, samples *s, int64_t ns, ft_error *err)
{
    double cost = m->crew->bench->clock.cost_ns;
    if (!m->noting) return FT_OK;
    if (s->n == s->room) {
        int room = s->room ? 2 * s->room : 16;
        double *grown = ft_realloc(s->ns, room * (int64_t)sizeof *grown);
        if (!grown) return ft_fail(err, FT_NOMEM, "profile: no memory for samples");
        s->ns = grown;
        s->room = room;
    }
    s->ns[s->n++] = (double)ns > cost ? (double)ns - cost : 0;
    return FT_OK;
}

/* -- memory ------------------------------------------------------------------------------------ */

/* Rows that pick by id: which input holds ids, which input's axis (0: first, -1: last) they index.
 */
static const struct {
    const char *op;
    int ids, table, axis;
} pickers[] = {{"embedding", 0, 1, 0}, {"cross_entropy", 1, 0, -1}};

/* How many ids there are to pick from; 0 when no row picks by this value. */
static int64_t id_limit(const ft_graph *g, ft_value_id ids)
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
    int64_t n = ft_shape_count(&spec->shape), limit = id_limit(g, v);
    if (spec->dtype == FT_F32)
        for (int64_t i = 0; i < n; i++) ((float *)data)[i] = 0.01f;
    else if (spec->dtype == FT_I32)
        for (int64_t i = 0; i < n; i++)
            ((int32_t *)data)[i] = limit ? (int32_t)((i * 104729 + 1) % limit) : 1;
}

static ft_status make_inputs(member *m, ft_error *err)
{
    const ft_graph *g = m->crew->bench->options->graph;
    int n = ft_graph_n_inputs(g);
    for (int i = 0; i < n; i++)
        m->inputs_bytes +=
            ft_memory_round(ft_spec_bytes(&ft_graph_value(g, ft_graph_input_value(g, i))->spec));
    m->inputs_memory = ft_alloc(m->inputs_bytes);
    if (!m->inputs_memory) return ft_fail(err, FT_NOMEM, "profile: no memory for inputs");
    char *at = m->inputs_memory;
    for (int i = 0; i < n; i++) {
        ft_value_id v = ft_graph_input_value(g, i);
        m->inputs[i] = at;
        fill_input(g, v, at);
        at += ft_memory_round(ft_spec_bytes(&ft_graph_value(g, v)->spec));
    }
    return FT_OK;
}

/* Points the member's tables at one copy of a block. */
static void point_at(const member *m, const bench_block *block, char *copy)
{
    const ft_stage *cut = block->block->cut;
    for (int i = 0; i < cut->n_params; i++) m->params[cut->params[i]] = copy + block->param_at[i];
    for (int i = 0; i < cut->n_grads; i++) m->grads[cut->grads[i]] = copy + block->term_at[i];
    for (int i = 0; i < block->n_packs; i++) m->packed[i] = copy + block->pack_at[i];
}

static int64_t param_count(const member *m, int param)
{
    const ft_graph *g = m->crew->bench->options->graph;
    return ft_shape_count(&ft_graph_value(g, ft_graph_param_value(g, param))->spec.shape);
}

static ft_status pack(const member *m, const bench_block *block, int i, ft_error *err)
{
    return ft_pack_make(m->crew->bench->options->graph, &block->packs[i],
                        m->params[block->packs[i].param], (void *)(uintptr_t)m->packed[i], m->team,
                        err);
}

/* Enough noise to fill a value or a stretch of a parameter with. */
enum { NOISE_FLOATS = 1 << 18 };

static void fill_noise(const member *m, float *data, int64_t n)
{
    for (int64_t i = 0; i < n; i += NOISE_FLOATS)
        memcpy(data + i, m->crew->noise,
               (size_t)(n - i < NOISE_FLOATS ? n - i : NOISE_FLOATS) * sizeof(float));
}

static ft_status fill_copy(const member *m, const bench_block *block, char *copy, ft_error *err)
{
    const ft_stage *cut = block->block->cut;
    point_at(m, block, copy);
    for (int i = 0; i < cut->n_params; i++)
        fill_noise(m, m->params[cut->params[i]], param_count(m, cut->params[i]));
    for (int i = 0; i < block->n_packs; i++) FT_TRY(pack(m, block, i, err));
    return FT_OK;
}

static ft_status make_member(member *m, ft_error *err)
{
    const crew *c = m->crew;
    const ft_graph *g = c->bench->options->graph;
    int most_nodes = 1, most_packs = 1;
    for (int i = c->first; i < c->first + c->n; i++) {
        const bench_block *block = &c->bench->blocks[i];
        m->memory_bytes += block->bytes * block->copies;
        if (block->work_bytes > m->work_bytes) m->work_bytes = block->work_bytes;
        for (int p = 0; p < PASS_COUNT; p++)
            if (block->n_nodes[p] > most_nodes) most_nodes = block->n_nodes[p];
        if (block->n_packs > most_packs) most_packs = block->n_packs;
    }
    m->inputs = ft_alloc((ft_graph_n_inputs(g) + 1) * (int64_t)sizeof(void *));
    m->params = ft_alloc((ft_graph_n_params(g) + 1) * (int64_t)sizeof(void *));
    m->grads = ft_alloc((ft_graph_n_grads(g) + 1) * (int64_t)sizeof(void *));
    m->packed = ft_alloc(most_packs * (int64_t)sizeof(void *));
    m->step_ns = ft_alloc(most_nodes * (int64_t)sizeof(int64_t));
    m->memory = ft_pages_alloc(m->memory_bytes);
    m->work = ft_pages_alloc(m->work_bytes);
    if (!m->inputs || !m->params || !m->grads || !m->packed || !m->step_ns || !m->memory ||
        !m->work)
        return ft_fail(err, FT_NOMEM, "profile: no memory for %.1f MB of blocks",
                       (double)(m->memory_bytes + m->work_bytes) / 1e6);
    FT_TRY(make_inputs(m, err));
    FT_TRY(ft_team_new(&m->team, c->bench->options->device->n_threads, err));
    char *copy = m->memory;
    for (int i = c->first; i < c->first + c->n; i++)
        for (int k = 0; k < c->bench->blocks[i].copies; k++, copy += c->bench->blocks[i].bytes)
            FT_TRY(fill_copy(m, &c->bench->blocks[i], copy, err));
    return FT_OK;
}

static void free_member(member *m)
{
    ft_team_free(m->team);
    ft_pages_free(m->memory, m->memory_bytes);
    ft_pages_free(m->work, m->work_bytes);
    ft_free(m->inputs_memory);
    ft_free(m->inputs);
    ft_free(m->params);
    ft_free(m->grads);
    ft_free(m->packed);
    ft_free(m->step_ns);
}

/* -- passes ------------------------------------------------------------------------------------ */

static void fill_value(const member *m, const ft_bases *bases, const ft_program *program,
                       ft_value_id v)
{
    const ft_spec *spec = &ft_graph_value(m->crew->bench->options->graph, v)->spec;
    ft_place place = ft_program_place(program, v);
    void *data = ft_place_address(bases, place);
    if (place.home != FT_HOME_WORK && place.home != FT_HOME_SAVED) return;
    if (spec->dtype == FT_F32)
        fill_noise(m, data, ft_shape_count(&spec->shape));
    else
        memset(data, 0, (size_t)ft_spec_bytes(spec));
}

static ft_status run_pass(const member *m, int number, char *copy, profile_pass pass, ft_error *err)
{
    const bench_block *block = &m->crew->bench->blocks[number];
    const ft_program *program = block->program[pass];
    block_samples *notes = &m->notes[number];
    ft_bases bases = {.work = m->work,
                      .saved = copy + block->saved_at,
                      .inputs = m->inputs,
                      .params = m->params,
                      .grads = m->grads,
                      .packed = m->packed,
                      .accumulate = m->crew->bench->options->accumulate,
                      .key = {.seed = 1, .step = 1},
                      .team = m->team,
                      .step_ns = m->step_ns,
                      .clock = m->crew->bench->clock.now};
    if (!program) return FT_OK;
    point_at(m, block, copy);
    for (int i = 0; i < block->n_arrive[pass]; i++)
        fill_value(m, &bases, program, block->arrive[pass][i]);
    for (int i = 0; pass == PASS_AGAIN && i < block->block->again->n_saved; i++)
        fill_value(m, &bases, program, block->block->again->saved[i]);
    int64_t start = bases.clock();
    FT_TRY(ft_program_run(program, &bases, err));
    int64_t looks = (int64_t)((double)block->n_nodes[pass] * m->crew->bench->clock.cost_ns);
    FT_TRY(note(m, &notes->pass[pass], bases.clock() - start - looks, err));
    for (int i = 0; i < block->n_nodes[pass]; i++)
        FT_TRY(note(m, &notes->node[pass][i], m->step_ns[i], err));
    return FT_OK;
}

/* All blocks, as a stage goes through them. */
static ft_status run_forward(const member *m, ft_error *err)
{
    const crew *c = m->crew;
    char *copy = m->memory;
    for (int i = c->first; i < c->first + c->n; i++)
        for (int k = 0; k < c->bench->blocks[i].copies; k++, copy += c->bench->blocks[i].bytes)
            FT_TRY(run_pass(m, i, copy, PASS_FORWARD, err));
    return FT_OK;
}

static ft_status run_backward(const member *m, profile_pass pass, ft_error *err)
{
    const crew *c = m->crew;
    char *copy = m->memory + m->memory_bytes;
    for (int i = c->first + c->n - 1; i >= c->first; i--)
        for (int k = 0; k < c->bench->blocks[i].copies; k++) {
            copy -= c->bench->blocks[i].bytes;
            FT_TRY(run_pass(m, i, copy, pass, err));
        }
    return FT_OK;
}

static ft_status round_of_passes(const member *m, ft_error *err)
{
    FT_TRY(run_forward(m, err));
    FT_TRY(run_backward(m, PASS_BACKWARD, err));
    return run_backward(m, PASS_AGAIN, err);
}

/* -- updates ----------------------------------------------------------------------------------- */

static int term_of(const ft_graph *g, const ft_stage *cut, int param)
{
    for (int i = 0; i < cut->n_grads; i++)
        if (ft_graph_grad_term(g, cut->grads[i])->param == param) return cut->grads[i];
    return -1;
}

static ft_status update_param(const member *m, int number, int i, char *copy, ft_error *err)
{
    const ft_measure_options *o = m->crew->bench->options;
    const bench_block *block = &m->crew->bench->blocks[number];
    const ft_stage *cut = block->block->cut;
    int param = cut->params[i], term = term_of(o->graph, cut, param);
    if (term < 0) return FT_OK;
    ft_update update = {.spec =
                            &ft_graph_value(o->graph, ft_graph_param_value(o->graph, param))->spec,
                        .param = m->params[param],
                        .grad = m->grads[term],
                        .grad_scale = 1,
                        .state = copy + block->state_at[i],
                        .hypers = o->hypers,
                        .rate = 1e-9,
                        .step = m->rounds + 1,
                        .team = m->team};
    int64_t (*now)(void) = m->crew->bench->clock.now;
    int64_t start = now();
    double norm = ft_squared_norm(update.grad, param_count(m, param), m->team);
    int64_t middle = now();
    update.grad_scale = norm > 1 ? (float)(1 / norm) : 1.0f;
    o->optimizer->update(&update);
    int64_t end = now();
    FT_TRY(note(m, &m->notes[number].norm[i], middle - start, err));
    return note(m, &m->notes[number].update[i], end - middle, err);
}

static ft_status update_block(const member *m, int number, char *copy, ft_error *err)
{
    const bench_block *block = &m->crew->bench->blocks[number];
    int64_t (*now)(void) = m->crew->bench->clock.now;
    point_at(m, block, copy);
    for (int i = 0; i < block->block->cut->n_params; i++)
        FT_TRY(update_param(m, number, i, copy, err));
    for (int i = 0; i < block->n_packs; i++) {
        int64_t start = now();
        FT_TRY(pack(m, block, i, err));
        FT_TRY(note(m, &m->notes[number].pack[i], now() - start, err));
    }
    return FT_OK;
}

static ft_status round_of_updates(const member *m, ft_error *err)
{
    const crew *c = m->crew;
    char *copy = m->memory;
    for (int i = c->first; i < c->first + c->n; i++)
        for (int k = 0; k < c->bench->blocks[i].copies; k++, copy += c->bench->blocks[i].bytes)
            FT_TRY(update_block(m, i, copy, err));
    return FT_OK;
}

/* -- the crew ---------------------------------------------------------------------------------- */

static void fail(crew *c, const ft_error *error)
{
    pthread_mutex_lock(&c->lock);
    if (c->error.status == FT_OK) c->error = *error;
    pthread_mutex_unlock(&c->lock);
    atomic_store(&c->phase, PHASE_DONE);
}

/* Rounds until the leader ends the phase. The first round warms up, unless there is no time for a
 * third. */
static int64_t run_phase(member *m, crew_phase phase, double seconds, int most,
                         ft_status (*round)(const member *, ft_error *))
{
    ft_error error = {FT_OK, ""};
    int64_t start = ft_now_ns(), noted = 0;
    int going_on = phase;
    for (m->rounds = 0; atomic_load(&m->crew->phase) == (int)phase; m->rounds++) {
        m->noting = m->rounds > 0;
        if (round(m, &error) != FT_OK) {
            fail(m->crew, &error);
            return 0;
        }
        noted += m->noting;
        double passed = (double)(ft_now_ns() - start) * 1e-9;
        bool enough = noted >= most || (noted >= LEAST_ROUNDS - 1 && passed >= seconds);
        if (m->leads && enough)
            atomic_compare_exchange_strong(&m->crew->phase, &going_on, (int)phase + 1);
    }
    return noted;
}

/* Waits until all have come so far for the n-th time; the leader opens the way. */
static void meet(member *m, uint32_t n)
{
    crew *c = m->crew;
    if (m->leads) {
        ft_gate_wait(&c->came, n * (uint32_t)c->n_others, NULL, -1);
        ft_gate_open(&c->go);
    } else {
        ft_gate_open(&c->came);
        ft_gate_wait(&c->go, n, NULL, -1);
    }
}

static void *work(void *arg)
{
    member *m = arg;
    crew *c = m->crew;
    ft_error error = {FT_OK, ""};
    ft_ops_thread_init();
    if (make_member(m, &error) != FT_OK) fail(c, &error);
    meet(m, 1);
    int64_t noted =
        run_phase(m, PHASE_PASSES, c->seconds * (1 - UPDATE_SHARE), MOST_ROUNDS, round_of_passes);
    meet(m, 2);
    run_phase(m, PHASE_UPDATES, c->seconds * UPDATE_SHARE, MOST_UPDATES, round_of_updates);
    m->rounds = noted;
    return NULL;
}

static float *make_noise(void)
{
    ft_rng rng;
    float *noise = ft_alloc(NOISE_FLOATS * sizeof(float));
    ft_rng_init(&rng, 1, 0);
    for (int i = 0; noise && i < NOISE_FLOATS; i++)
        noise[i] = (float)(0.1 * ft_rng_uniform(&rng) - 0.05);
    return noise;
}

/* Starts the others, leads them, and waits for them. */
static ft_status run_crew(crew *c, member *members, int n, ft_error *err)
{
    while (c->n_others < n - 1 && pthread_create(&members[c->n_others + 1].thread, NULL, work,
                                                 &members[c->n_others + 1]) == 0)
        c->n_others++;
    if (c->n_others < n - 1) {
        ft_error error;
        ft_fail(&error, FT_DEVICE, "profile: cannot start %d threads", n);
        fail(c, &error);
    }
    work(&members[0]);
    for (int i = 1; i <= c->n_others; i++) pthread_join(members[i].thread, NULL);
    if (c->error.status != FT_OK && err) *err = c->error;
    return c->error.status;
}

ft_status crew_measure(const bench *b, int first, int n, double seconds,
                       block_samples *const *notes, int64_t *rounds, ft_error *err)
{
    int n_members = b->options->n_busy;
    float *noise = make_noise();
    member *members = ft_alloc(n_members * (int64_t)sizeof *members);
    crew c = {.bench = b, .first = first, .n = n, .noise = noise, .seconds = seconds};
    ft_status status = FT_NOMEM;
    if (!noise || !members) {
        ft_fail(err, FT_NOMEM, "profile: no memory for %d workers", n_members);
        goto done;
    }
    pthread_mutex_init(&c.lock, NULL);
    for (int i = 0; i < n_members; i++)
        members[i] = (member){.crew = &c, .notes = notes[i], .leads = i == 0};
    status = run_crew(&c, members, n_members, err);
    *rounds = members[0].rounds;
    for (int i = 0; i < n_members; i++) free_member(&members[i]);
    pthread_mutex_destroy(&c.lock);
done:
    ft_free(members);
    ft_free(noise);
    return status;
}
