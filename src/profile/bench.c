/* profile/bench.c - blocks made ready to run, alone.
 *
 * Each distinct block is compiled as a stage of its own. One copy of its memory holds parameters,
 * gradient terms, optimizer state, packed weights and what forward saves; several copies stand for
 * the equal blocks that a step would touch between two uses of this one, where that matters: while
 * everything together is smaller than caches are. */
#include <string.h>

#include "base/clock.h"
#include "profile/internal.h"

/* Together, blocks take at least so much memory where the model does: several times the last cache
 * of the machines at hand. */
static const int64_t COLD_BYTES = 128 << 20;

static ft_status no_memory(ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "profile: no memory to compile blocks");
}

static const ft_stage *cut_of(const bench_block *block, profile_pass pass)
{
    return pass == PASS_AGAIN ? block->block->again : block->block->cut;
}

static int64_t value_bytes(const ft_graph *g, ft_value_id v)
{
    return ft_memory_round(ft_spec_bytes(&ft_graph_value(g, v)->spec));
}

/* -- programs ---------------------------------------------------------------------------------- */

static ft_place *place_values(bench *b, const ft_stage *cut, int64_t *saved_bytes)
{
    const ft_graph *g = b->options->graph;
    int n = ft_graph_n_values(g);
    ft_place *places = ft_arena_array(b->arena, n + 1, sizeof *places);
    if (!places) return NULL;
    for (int v = 0; v < n; v++) {
        const ft_value *value = ft_graph_value(g, v);
        places[v] = (ft_place){FT_HOME_WORK, 0};
        if (value->kind == FT_VALUE_INPUT) places[v] = (ft_place){FT_HOME_INPUT, value->source};
        if (value->kind == FT_VALUE_PARAM) places[v] = (ft_place){FT_HOME_PARAM, value->source};
    }
    *saved_bytes = 0;
    for (int i = 0; i < cut->n_saved; i++) {
        places[cut->saved[i]] = (ft_place){FT_HOME_SAVED, *saved_bytes};
        *saved_bytes += value_bytes(g, cut->saved[i]);
    }
    return places;
}

/* What crosses the block's border in one phase: in (to = number) or out (from = number). */
static int crossing(const ft_split *split, ft_phase phase, int from, int to, ft_value_id *values)
{
    int n = 0;
    for (int i = 0; i < split->n_transfers; i++) {
        const ft_transfer *t = &split->transfers[i];
        if (t->phase == phase && (t->from == from || t->to == to)) values[n++] = t->value;
    }
    return n;
}

static ft_status compile_pass(bench *b, bench_block *block, int number, profile_pass pass,
                              const ft_place *places, ft_error *err)
{
    const ft_split *split = pass == PASS_AGAIN ? b->cut->again : b->cut->split;
    const ft_stage *cut = cut_of(block, pass);
    bool forward = pass == PASS_FORWARD;
    ft_phase phase = forward ? FT_FORWARD : FT_BACKWARD;
    ft_value_id *arrive = ft_arena_array(b->arena, split->n_transfers + 1, sizeof *arrive);
    ft_value_id *keep = ft_arena_array(b->arena, split->n_transfers + 1, sizeof *keep);
    if (!arrive || !keep) return no_memory(err);
    ft_program_request q = {.graph = b->options->graph,
                            .nodes = forward ? cut->forward : cut->backward,
                            .n_nodes = forward ? cut->n_forward : cut->n_backward,
                            .places = places,
                            .arrive = arrive,
                            .n_arrive = crossing(split, phase, -1, number, arrive),
                            .keep = keep,
                            .n_keep = crossing(split, phase, number, -1, keep),
                            .terms = forward ? NULL : cut->grads,
                            .n_terms = forward ? 0 : cut->n_grads,
                            .packs = block->packs,
                            .n_packs = block->n_packs,
                            .team_size = b->options->device->n_threads};
    FT_TRY(ft_program_new(&block->program[pass], &q, err));
    block->n_nodes[pass] = q.n_nodes;
    block->arrive[pass] = arrive;
    block->n_arrive[pass] = q.n_arrive;
    int64_t work = ft_program_work_bytes(block->program[pass]);
    if (work > block->work_bytes) block->work_bytes = work;
    return FT_OK;
}

/* Packed copies of weights that the block's products read, as a stage of it would have. */
static ft_status find_packs(bench *b, bench_block *block, ft_error *err)
{
    const ft_stage *cut = block->block->cut;
    int n = cut->n_forward + cut->n_backward;
    int *nodes = ft_arena_array(b->arena, n + 1, sizeof(int));
    block->packs = ft_arena_array(b->arena, n + 1, sizeof *block->packs);
    if (!nodes || !block->packs) return no_memory(err);
    memcpy(nodes, cut->forward, (size_t)cut->n_forward * sizeof(int));
    memcpy(nodes + cut->n_forward, cut->backward, (size_t)cut->n_backward * sizeof(int));
    if (b->options->device->unpacked) n = 0;
    block->n_packs = ft_program_packs(b->options->graph, nodes, n, &ft_cpu_kernels, block->packs);
    return FT_OK;
}

/* -- memory of a copy -------------------------------------------------------------------------- */

static int64_t take(bench_block *block, int64_t bytes)
{
    int64_t at = block->bytes;
    block->bytes += ft_memory_round(bytes);
    return at;
}

static ft_status lay_out(bench *b, bench_block *block, int64_t saved_bytes, ft_error *err)
{
    const ft_graph *g = b->options->graph;
    const ft_stage *cut = block->block->cut;
    block->param_at = ft_arena_array(b->arena, cut->n_params + 1, sizeof(int64_t));
    block->state_at = ft_arena_array(b->arena, cut->n_params + 1, sizeof(int64_t));
    block->term_at = ft_arena_array(b->arena, cut->n_grads + 1, sizeof(int64_t));
    block->pack_at = ft_arena_array(b->arena, block->n_packs + 1, sizeof(int64_t));
    if (!block->param_at || !block->state_at || !block->term_at || !block->pack_at)
        return no_memory(err);
    for (int i = 0; i < cut->n_params; i++) {
        const ft_spec *spec = &ft_graph_value(g, ft_graph_param_value(g, cut->params[i]))->spec;
        ft_state_part parts[FT_MAX_STATE_PARTS];
        int64_t state = 0;
        block->param_at[i] = take(block, ft_spec_bytes(spec));
        b->options->optimizer->state(spec, b->options->hypers, parts, &state);
        block->state_at[i] = take(block, state);
    }
    for (int i = 0; i < cut->n_grads; i++)
        block->term_at[i] =
            take(block, value_bytes(g, ft_graph_grad_term(g, cut->grads[i])->value));
    for (int i = 0; i < block->n_packs; i++) block->pack_at[i] = take(block, block->packs[i].bytes);
    block->saved_at = take(block, saved_bytes);
    return FT_OK;
}

static ft_status prepare(bench *b, bench_block *block, int number, ft_error *err)
{
    int64_t saved_bytes, again_bytes = 0;
    ft_place *places = place_values(b, block->block->cut, &saved_bytes), *again = NULL;
    if (block->block->again) again = place_values(b, block->block->again, &again_bytes);
    if (!places || (block->block->again && !again)) return no_memory(err);
    FT_TRY(find_packs(b, block, err));
    FT_TRY(compile_pass(b, block, number, PASS_FORWARD, places, err));
    FT_TRY(compile_pass(b, block, number, PASS_BACKWARD, places, err));
    if (again) FT_TRY(compile_pass(b, block, number, PASS_AGAIN, again, err));
    return lay_out(b, block, saved_bytes > again_bytes ? saved_bytes : again_bytes, err);
}

/* -- the clock --------------------------------------------------------------------------------- */

static bench_clock choose_clock(const ft_device *device)
{
    enum { TIMES = 200 };
    bench_clock clock = {device->n_threads == 1 ? ft_thread_cpu_ns : ft_now_ns, 0};
    int64_t least = INT64_MAX;
    for (int i = 0; i < TIMES; i++) {
        int64_t before = clock.now(), passed = clock.now() - before;
        if (passed < least) least = passed;
    }
    clock.cost_ns = (double)least;
    return clock;
}

/* -- the bench --------------------------------------------------------------------------------- */

/* As many copies of each block as COLD_BYTES asks for, at most as many as the model has. */
static void choose_copies(bench *b)
{
    int64_t once = 0;
    for (int i = 0; i < b->n_blocks; i++) once += b->blocks[i].bytes;
    int64_t wanted = once ? (COLD_BYTES + once - 1) / once : 1;
    for (int i = 0; i < b->n_blocks; i++) {
        int repeats = b->blocks[i].block->repeats;
        int64_t fit = b->options->device->memory_bytes / (b->blocks[i].bytes + 1) + 1;
        int64_t copies = wanted < fit ? wanted : fit;
        b->blocks[i].copies = copies < repeats ? (int)copies : repeats;
    }
}

ft_status bench_new(bench *out, const ft_measure_options *options, const profile_cut *cut,
                    ft_arena *arena, ft_error *err)
{
    *out = (bench){
        .options = options, .clock = choose_clock(options->device), .cut = cut, .arena = arena};
    out->blocks = ft_arena_array(arena, cut->n_distinct + 1, sizeof *out->blocks);
    if (!out->blocks) return no_memory(err);
    for (int i = 0; i < cut->n_blocks; i++) {
        if (cut->blocks[i].like != i) continue;
        bench_block *block = &out->blocks[out->n_blocks++];
        block->block = &cut->blocks[i];
        FT_TRY(prepare(out, block, i, err));
    }
    choose_copies(out);
    return FT_OK;
}

void bench_free(bench *b)
{
    for (int i = 0; i < b->n_blocks; i++)
        for (int p = 0; p < PASS_COUNT; p++) ft_program_free(b->blocks[i].program[p]);
    b->n_blocks = 0;
}
