/* profile/measure.c - medians of what workers noted, by node and parameter. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "profile/internal.h"

static ft_status no_memory(ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "profile: no memory for its arrays");
}

/* -- notes ------------------------------------------------------------------------------------- */

/* Notes of every worker, by worker and block of the bench. */
typedef struct notebook {
    int n_members, n_blocks;
    block_samples **of;
} notebook;

static ft_status make_notes(notebook *book, const bench *b, ft_arena *arena, ft_error *err)
{
    *book = (notebook){b->options->n_busy, b->n_blocks, NULL};
    book->of = ft_arena_array(arena, book->n_members, sizeof *book->of);
    if (!book->of) return no_memory(err);
    for (int m = 0; m < book->n_members; m++) {
        book->of[m] = ft_arena_array(arena, b->n_blocks + 1, sizeof **book->of);
        if (!book->of[m]) return no_memory(err);
        for (int i = 0; i < b->n_blocks; i++) {
            block_samples *notes = &book->of[m][i];
            const bench_block *block = &b->blocks[i];
            int n_params = block->block->cut->n_params;
            for (int p = 0; p < PASS_COUNT; p++) {
                notes->node[p] = ft_arena_array(arena, block->n_nodes[p] + 1, sizeof(samples));
                if (!notes->node[p]) return no_memory(err);
            }
            notes->pack = ft_arena_array(arena, block->n_packs + 1, sizeof(samples));
            notes->update = ft_arena_array(arena, n_params + 1, sizeof(samples));
            notes->norm = ft_arena_array(arena, n_params + 1, sizeof(samples));
            if (!notes->pack || !notes->update || !notes->norm) return no_memory(err);
        }
    }
    return FT_OK;
}

static void free_samples(samples *list, int n)
{
    for (int i = 0; list && i < n; i++) ft_free(list[i].ns);
}

static void free_notes(const notebook *book, const bench *b)
{
    for (int m = 0; book->of && m < book->n_members; m++)
        for (int i = 0; book->of[m] && i < book->n_blocks; i++) {
            const block_samples *notes = &book->of[m][i];
            const bench_block *block = &b->blocks[i];
            for (int p = 0; p < PASS_COUNT; p++) {
                free_samples(notes->node[p], block->n_nodes[p]);
                ft_free(notes->pass[p].ns);
            }
            free_samples(notes->pack, block->n_packs);
            free_samples(notes->update, block->block->cut->n_params);
            free_samples(notes->norm, block->block->cut->n_params);
        }
}

/* -- medians ----------------------------------------------------------------------------------- */

typedef struct summary {
    double median, spread;
    double mean; /* without the slowest tenth: what others caused */
} summary;

static double mean_of(const double *sorted, int64_t n)
{
    int64_t kept = n - n / 10;
    double sum = 0;
    for (int64_t i = 0; i < kept; i++) sum += sorted[i];
    return sum / (double)kept;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of the samples of all members: `pick` finds them in a member's notes. */
static ft_status summarize(const notebook *book, int block, profile_pass pass, int i,
                           const samples *(*pick)(const block_samples *, profile_pass, int),
                           summary *out, ft_error *err)
{
    int64_t n = 0;
    for (int m = 0; m < book->n_members; m++) n += pick(&book->of[m][block], pass, i)->n;
    *out = (summary){0};
    if (!n) return FT_OK; /* a parameter without a gradient has no update */
    double *all = ft_alloc(n * (int64_t)sizeof *all);
    if (!all) return no_memory(err);
    n = 0;
    for (int m = 0; m < book->n_members; m++) {
        const samples *s = pick(&book->of[m][block], pass, i);
        if (s->n) memcpy(all + n, s->ns, (size_t)s->n * sizeof *all);
        n += s->n;
    }
    qsort(all, (size_t)n, sizeof *all, compare);
    out->median = n % 2 ? all[n / 2] : (all[n / 2 - 1] + all[n / 2]) / 2;
    out->mean = mean_of(all, n);
    if (out->median > 0) out->spread = (all[n * 3 / 4] - all[n / 4]) / 2 / out->median;
    ft_free(all);
    return FT_OK;
}

static const samples *pick_node(const block_samples *s, profile_pass pass, int i)
{
    return &s->node[pass][i];
}

static const samples *pick_pass(const block_samples *s, profile_pass pass, int i)
{
    (void)i;
    return &s->pass[pass];
}

static const samples *pick_pack(const block_samples *s, profile_pass pass, int i)
{
    (void)pass;
    return &s->pack[i];
}

static const samples *pick_update(const block_samples *s, profile_pass pass, int i)
{
    (void)pass;
    return &s->update[i];
}

static const samples *pick_norm(const block_samples *s, profile_pass pass, int i)
{
    (void)pass;
    return &s->norm[i];
}

/* -- from blocks to nodes ---------------------------------------------------------------------- */

/* What medians of a pass's n nodes are scaled by to add up to the mean of the pass: medians do not
 * add up, since what slows each node down now and then is in none of them. */
static ft_status pass_scale(const notebook *book, int distinct, profile_pass pass, int n,
                            double *scale, double *mean, ft_error *err)
{
    summary s;
    double sum = 0;
    for (int i = 0; i < n; i++) {
        FT_TRY(summarize(book, distinct, pass, i, pick_node, &s, err));
        sum += s.median;
    }
    FT_TRY(summarize(book, distinct, pass, 0, pick_pass, &s, err));
    *mean = s.mean;
    *scale = sum > 0 ? s.mean / sum : 1;
    return FT_OK;
}

static ft_status fill_pass(ft_profile *p, const notebook *book, int distinct, profile_pass pass,
                           const int *nodes, int n, ft_error *err)
{
    summary s;
    double scale, mean;
    FT_TRY(pass_scale(book, distinct, pass, n, &scale, &mean, err));
    p->pass_ns += mean;
    for (int i = 0; i < n; i++) {
        FT_TRY(summarize(book, distinct, pass, i, pick_node, &s, err));
        p->node_ns[nodes[i]] = s.median * scale;
        p->node_spread[nodes[i]] = s.spread;
    }
    return FT_OK;
}

static ft_status fill_nodes(ft_profile *p, const notebook *book, const bench *b, int distinct,
                            const ft_stage *cut, ft_error *err)
{
    summary s;
    FT_TRY(fill_pass(p, book, distinct, PASS_FORWARD, cut->forward, cut->n_forward, err));
    FT_TRY(fill_pass(p, book, distinct, PASS_BACKWARD, cut->backward, cut->n_backward, err));
    const bench_block *block = &b->blocks[distinct];
    for (int i = 0; i < block->n_packs; i++) {
        /* The node that packs, by its position: this block may be another than the one measured. */
        const ft_stage *measured = block->block->cut;
        int position = 0;
        int origin = ft_graph_node(b->options->graph, block->packs[i].node)->origin;
        while (measured->forward[position] != origin) position++;
        FT_TRY(summarize(book, distinct, 0, i, pick_pack, &s, err));
        p->pack_ns[cut->forward[position]] += s.median;
    }
    return FT_OK;
}

/* What only a neighbouring block's backward needs (a block's last nodes) is not run again within
 * the block; in a stage of several blocks it is, and takes as long as it took forward. */
static ft_status fill_again(ft_profile *p, const notebook *book, int distinct, const ft_stage *cut,
                            ft_error *err)
{
    summary s;
    double scale, mean;
    FT_TRY(pass_scale(book, distinct, PASS_AGAIN, cut->n_backward, &scale, &mean, err));
    for (int i = 0; i < cut->n_forward; i++)
        p->recompute_ns[cut->forward[i]] = p->node_ns[cut->forward[i]];
    for (int i = 0; i < cut->n_recompute; i++) {
        FT_TRY(summarize(book, distinct, PASS_AGAIN, i, pick_node, &s, err));
        p->recompute_ns[cut->backward[i]] = s.median * scale;
    }
    return FT_OK;
}

/* A tied parameter is in several blocks; the first one that measured it counts. */
static ft_status fill_params(ft_profile *p, const notebook *book, int distinct, const ft_stage *cut,
                             ft_error *err)
{
    summary s;
    for (int i = 0; i < cut->n_params; i++) {
        int param = cut->params[i];
        if (p->update_ns[param] > 0) continue;
        FT_TRY(summarize(book, distinct, 0, i, pick_update, &s, err));
        p->update_ns[param] = s.median;
        FT_TRY(summarize(book, distinct, 0, i, pick_norm, &s, err));
        p->norm_ns[param] = s.median;
    }
    return FT_OK;
}

static ft_status fill_profile(ft_profile *p, const notebook *book, const bench *b, ft_error *err)
{
    const profile_cut *cut = b->cut;
    for (int i = 0; i < cut->n_blocks; i++) {
        int distinct = 0;
        while (b->blocks[distinct].block != &cut->blocks[cut->blocks[i].like]) distinct++;
        FT_TRY(fill_nodes(p, book, b, distinct, cut->blocks[i].cut, err));
        FT_TRY(fill_params(p, book, distinct, cut->blocks[i].cut, err));
        if (cut->again) FT_TRY(fill_again(p, book, distinct, cut->blocks[i].again, err));
    }
    return FT_OK;
}

/* -- bytes ------------------------------------------------------------------------------------- */

static void fill_bytes(ft_profile *p, const ft_measure_options *o, const profile_cut *cut)
{
    const ft_graph *g = o->graph;
    for (int n = 0; n < p->n_nodes; n++) {
        const ft_node *node = ft_graph_node(g, n);
        ft_spec in[FT_MAX_IN];
        for (int i = 0; i < FT_MAX_IN; i++)
            in[i] = node->in[i] == FT_NO_VALUE ? (ft_spec){.shape = {.n_dims = -1}}
                                               : ft_graph_value(g, node->in[i])->spec;
        for (int k = 0; k < node->op->n_out; k++)
            p->output_bytes[n] += ft_spec_bytes(&ft_graph_value(g, node->out + k)->spec);
        if (node->op->workspace)
            p->workspace_bytes[n] = node->op->workspace(in, node->attrs, o->device->n_threads);
    }
    for (int i = 0; i < cut->n_blocks; i++)
        for (int k = 0; k < cut->blocks[i].cut->n_saved; k++) {
            const ft_value *v = ft_graph_value(g, cut->blocks[i].cut->saved[k]);
            if (v->kind == FT_VALUE_NODE && cut->node_block[v->source] == i)
                p->saved_bytes[v->source] += ft_spec_bytes(&v->spec);
        }
}

/* -- measuring --------------------------------------------------------------------------------- */

/* Blocks, or the whole, with what was noted of them. */
typedef struct bench_notes {
    bench bench;
    notebook book;
} bench_notes;

static int64_t bench_bytes(const bench *b)
{
    int64_t bytes = 0;
    for (int i = 0; i < b->n_blocks; i++) bytes += b->blocks[i].bytes * b->blocks[i].copies;
    return bytes;
}

/* Everything together and in turn with the whole, where there is memory for both. */
static ft_status measure_beside(ft_profile *p, const bench_notes *blocks, const bench_notes *whole,
                                ft_error *err)
{
    const crew_part parts[] = {{&blocks->bench, 0, blocks->bench.n_blocks, blocks->book.of},
                               {&whole->bench, 0, whole->bench.n_blocks, whole->book.of}};
    summary s;
    FT_TRY(crew_measure(parts, 2, blocks->bench.options->seconds, &p->n_rounds, err));
    for (profile_pass pass = PASS_FORWARD; pass <= PASS_BACKWARD; pass++) {
        FT_TRY(summarize(&whole->book, 0, pass, 0, pick_pass, &s, err));
        p->whole_ns += s.mean;
    }
    return FT_OK;
}

/* Blocks that fit in memory together are measured together, the others one group after another. */
static ft_status measure_groups(ft_profile *p, const bench_notes *blocks, ft_error *err)
{
    const bench *b = &blocks->bench;
    int64_t budget = b->options->device->memory_bytes;
    for (int first = 0, n; first < b->n_blocks; first += n) {
        int64_t bytes = 0, rounds = 0;
        for (n = 0; first + n < b->n_blocks; n++) {
            const bench_block *block = &b->blocks[first + n];
            bytes += block->bytes * block->copies;
            if (n > 0 && bytes > budget) break;
        }
        if (n == 0 || (n == 1 && b->blocks[first].bytes > budget))
            return ft_fail(
                err, FT_NOMEM,
                "profile: block '%s' takes %.1f MB, there are %.1f MB for each worker",
                ft_graph_node(b->options->graph, b->blocks[first].block->cut->forward[0])->scope,
                (double)b->blocks[first].bytes / 1e6, (double)budget / 1e6);
        double share = b->options->seconds * n / b->n_blocks;
        const crew_part part = {b, first, n, blocks->book.of};
        FT_TRY(crew_measure(&part, 1, share, &rounds, err));
        if (first == 0 || rounds < p->n_rounds) p->n_rounds = rounds;
    }
    return FT_OK;
}

static ft_status make_arrays(ft_profile *p, const ft_measure_options *o, ft_error *err)
{
    p->n_nodes = ft_graph_n_nodes(o->graph);
    p->n_forward = ft_graph_n_forward(o->graph);
    p->n_params = ft_graph_n_params(o->graph);
    double **by_node[] = {&p->node_ns, &p->node_spread, &p->recompute_ns, &p->pack_ns};
    double **by_param[] = {&p->update_ns, &p->norm_ns};
    int64_t **bytes[] = {&p->output_bytes, &p->workspace_bytes, &p->saved_bytes};
    bool ok = true;
    for (int i = 0; i < 4; i++)
        ok = (*by_node[i] = ft_arena_array(p->arena, p->n_nodes + 1, sizeof(double))) && ok;
    for (int i = 0; i < 2; i++)
        ok = (*by_param[i] = ft_arena_array(p->arena, p->n_params + 1, sizeof(double))) && ok;
    for (int i = 0; i < 3; i++)
        ok = (*bytes[i] = ft_arena_array(p->arena, p->n_nodes + 1, sizeof(int64_t))) && ok;
    if (!o->recompute) p->recompute_ns = NULL;
    return ok ? FT_OK : no_memory(err);
}

static ft_status make_bench(bench_notes *b, profile_cut *cut, const ft_measure_options *o,
                            bool whole, ft_arena *arena, ft_error *err)
{
    FT_TRY(profile_cut_graph(cut, o, whole, arena, err));
    FT_TRY(bench_new(&b->bench, o, cut, arena, err));
    return make_notes(&b->book, &b->bench, arena, err);
}

static void free_bench(bench_notes *b)
{
    free_notes(&b->book, &b->bench);
    bench_free(&b->bench);
}

static ft_status measure_all(ft_profile *p, profile_cut cuts[2], bench_notes *blocks,
                             bench_notes *whole, const ft_measure_options *o, ft_error *err)
{
    FT_TRY(make_bench(blocks, &cuts[0], o, false, p->arena, err));
    if (o->whole) FT_TRY(make_bench(whole, &cuts[1], o, true, p->arena, err));
    p->n_blocks = cuts[0].n_blocks;
    p->n_distinct = cuts[0].n_distinct;
    p->whole_bytes = bench_bytes(&whole->bench);
    if (o->whole && bench_bytes(&blocks->bench) + p->whole_bytes <= o->device->memory_bytes)
        FT_TRY(measure_beside(p, blocks, whole, err));
    else
        FT_TRY(measure_groups(p, blocks, err));
    return fill_profile(p, &blocks->book, &blocks->bench, err);
}

static ft_status measure(ft_profile *p, const ft_measure_options *o, ft_error *err)
{
    profile_cut cuts[2];
    bench_notes blocks = {0}, whole = {0};
    FT_TRY(make_arrays(p, o, err));
    if (!ft_device_kinds[o->device->kind].in_host) return profile_measure_card(p, o, err);
    ft_status status = measure_all(p, cuts, &blocks, &whole, o, err);
    free_bench(&blocks);
    free_bench(&whole);
    FT_TRY(status);
    fill_bytes(p, o, &cuts[0]);
    p->copy_bytes_per_s = crew_copy_rate();
    p->handoff_ns = crew_handoff_ns();
    return FT_OK;
}

ft_status ft_profile_measure(ft_profile **out, const ft_measure_options *o, ft_error *err)
{
    *out = NULL;
    if (!ft_device_kinds[o->device->kind].measures)
        return ft_fail(err, FT_INVALID, "profile: device %s cannot be measured: it is not here",
                       o->device->name);
    if (ft_graph_n_nodes(o->graph) == ft_graph_n_forward(o->graph))
        return ft_fail(err, FT_INVALID, "profile: the graph has no gradients");
    if (o->n_busy < 1 || !(o->seconds >= 0))
        return ft_fail(err, FT_INVALID, "profile: %d busy devices for %g s, expected 1 or more",
                       o->n_busy, o->seconds);
    ft_arena *arena = ft_arena_new();
    ft_profile *p = arena ? ft_arena_alloc(arena, sizeof *p) : NULL;
    if (!p) {
        ft_arena_free(arena);
        return no_memory(err);
    }
    p->arena = arena;
    ft_status status = measure(p, o, err);
    if (status == FT_OK)
        *out = p;
    else
        ft_profile_free(p);
    return status;
}

void ft_profile_free(ft_profile *profile)
{
    if (profile) ft_arena_free(profile->arena);
}
