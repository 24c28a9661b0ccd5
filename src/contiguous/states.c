/* contiguous/states.c - the states of PipeDream's dynamic programme.
 *
 * A state is a down-set D, named in the original by its antichain. The first holds the first source
 * alone; from D, every user y of a value that leaves D gives the state of D with y and all that y
 * depends on. */
#include <stdlib.h>
#include <string.h>

#include "contiguous/states.h"

enum { MOST_STATES = 4096 };

typedef struct explorer {
    const ft_ground *g;
    states *s;
    uint64_t *behind;  /* by node: it and its ancestors */
    int *parent_first; /* steps: to[first[s] ... first[s + 1] - 1], in the order they were found */
    int *to;
    int n_steps, step_room;
    uint64_t *hashes; /* by state, so that most sets need not be compared */
} explorer;

static uint64_t *set_of(const states *s, int state)
{
    return &s->sets[(int64_t)state * s->words];
}

static bool has(const uint64_t *set, int bit)
{
    return set[bit / 64] >> (bit % 64) & 1;
}

static void put(uint64_t *set, int bit)
{
    set[bit / 64] |= (uint64_t)1 << (bit % 64);
}

bool states_hold(const states *s, int state, int node)
{
    return has(set_of(s, state), node);
}

bool states_before(const states *s, int k, int j)
{
    return k != j && has(&s->reached[(int64_t)j * s->reached_words], k);
}

static bool find_ancestors(explorer *x)
{
    const ft_ground *g = x->g;
    int words = x->s->words;
    x->behind = ft_arena_array(g->arena, (int64_t)g->n * words, 8);
    if (!x->behind) return false;
    for (int at = 0; at < g->n_forward; at++) {
        int node = g->order[at];
        uint64_t *own = &x->behind[(int64_t)node * words];
        put(own, node);
        for (int i = g->back_first[node]; i < g->back_first[node + 1]; i++)
            for (int w = 0; w < words; w++) own[w] |= x->behind[(int64_t)g->back[i] * words + w];
    }
    return true;
}

/* The number of the set that stands behind the last state; a new one when it is not known. */
static int number_of(explorer *x)
{
    states *s = x->s;
    const uint64_t *wanted = set_of(s, s->n);
    uint64_t hash = 0;
    for (int w = 0; w < s->words; w++) hash = (hash ^ wanted[w]) * 0x9e3779b97f4a7c15u;
    x->hashes[s->n] = hash;
    for (int i = s->n - 1; i >= 0; i--)
        if (x->hashes[i] == hash && !memcmp(set_of(s, i), wanted, (size_t)s->words * 8)) return i;
    return s->n++;
}

ft_status states_too_much(ft_error *err)
{
    return ft_fail(err, FT_INFEASIBLE,
                   "partition: the graph is too large for pipedream within the work of best");
}

/* FT_INFEASIBLE when there are too many. */
static ft_status explore(explorer *x, ft_error *err)
{
    const ft_ground *g = x->g;
    states *s = x->s;
    memcpy(set_of(s, 0), &x->behind[(int64_t)g->order[0] * s->words], (size_t)s->words * 8);
    s->n = 1;
    for (int state = 0; state < s->n; state++) {
        x->parent_first[state] = x->n_steps;
        for (int at = 0; at < g->n_forward; at++) {
            int y = g->order[at];
            bool next = false;
            for (int i = g->back_first[y]; i < g->back_first[y + 1] && !next; i++)
                next = states_hold(s, state, g->back[i]);
            if (!next || states_hold(s, state, y)) continue;
            if (s->n + 1 >= MOST_STATES || x->n_steps >= x->step_room)
                return ft_fail(err, FT_INFEASIBLE,
                               "partition: the graph has more than %d antichains, too many for "
                               "pipedream",
                               MOST_STATES);
            uint64_t *set = set_of(s, s->n);
            for (int w = 0; w < s->words; w++)
                set[w] = set_of(s, state)[w] | x->behind[(int64_t)y * s->words + w];
            x->to[x->n_steps++] = number_of(x);
            if (!ft_ground_spend(g, s->n / 8)) return states_too_much(err);
        }
        if (!ft_ground_spend(g, g->n_forward)) return states_too_much(err);
        x->parent_first[state + 1] = x->n_steps;
    }
    return FT_OK;
}

/* Reverse postorder of a depth-first walk from the first state. */
static bool sort_states(const explorer *x, int *order)
{
    int n = x->s->n, depth = 0, at = n;
    int *call = ft_arena_array(x->g->arena, n, sizeof *call);
    int *next = ft_arena_array(x->g->arena, n, sizeof *next);
    bool *seen = ft_arena_array(x->g->arena, n, sizeof *seen);
    if (!call || !next || !seen) return false;
    memcpy(next, x->parent_first, (size_t)n * sizeof *next);
    seen[0] = true;
    while (depth >= 0) {
        int state = call[depth];
        if (next[state] == x->parent_first[state + 1]) {
            order[--at] = state;
            depth--;
            continue;
        }
        int to = x->to[next[state]++];
        if (seen[to]) continue;
        seen[to] = true;
        call[++depth] = to;
    }
    return true;
}

/* Bytes of all values of a node; of one that nobody uses, what it keeps. */
static void find_outputs(const ft_ground *g, double *bytes)
{
    const ft_partition_problem *p = g->problem;
    int from = -1, value = 0;
    for (int i = 0; p->saved_bytes && i < g->n; i++) bytes[i] = (double)p->saved_bytes[i];
    for (int i = 0; i < p->n_edges; i++) {
        int e = g->edge_order[i], before = from, other = value;
        from = p->edge_from[e];
        value = p->edge_value ? p->edge_value[e] : 0;
        if (from != before) bytes[from] = 0; /* it is used: the values say what it makes */
        if (from != before || value != other) bytes[from] += (double)p->edge_bytes[e];
    }
}

/* Whether no node of the state uses a value of this one. */
static bool is_maximal(const ft_ground *g, const states *s, int state, int node)
{
    for (int i = g->next_first[node]; i < g->next_first[node + 1]; i++)
        if (states_hold(s, state, g->next[i])) return false;
    return true;
}

/* Outputs of the antichain, and of every ancestor of one of its nodes with a user that is neither
 * that node nor an ancestor of it: as the original counts them, also where that user is inside the
 * state, on another branch. */
static double sum_cut(const explorer *x, int state, const double *output_bytes, uint64_t *counted)
{
    const ft_ground *g = x->g;
    const states *s = x->s;
    double bytes = 0;
    memset(counted, 0, (size_t)s->words * 8);
    for (int at = 0; at < g->n_forward; at++) {
        int top = g->order[at];
        if (!states_hold(s, state, top) || !is_maximal(g, s, state, top)) continue;
        const uint64_t *behind = &x->behind[(int64_t)top * s->words];
        if (!ft_ground_spend(g, at)) break;
        put(counted, top);
        for (int below = 0; below < at; below++) {
            int node = g->order[below];
            if (!has(behind, node) || has(counted, node)) continue;
            for (int i = g->next_first[node]; i < g->next_first[node + 1]; i++)
                if (!has(behind, g->next[i])) put(counted, node);
        }
    }
    for (int i = 0; i < g->n; i++)
        if (has(counted, i)) bytes += output_bytes[i];
    return bytes;
}

static void sum_state(const ft_ground *g, states *s, int state)
{
    const ft_partition_problem *p = g->problem;
    for (int at = 0; at < g->n_forward; at++) {
        int node = g->order[at];
        if (!states_hold(s, state, node)) continue;
        s->compute_ns[state] += p->node_ns[node];
        if (p->saved_bytes) s->activation_bytes[state] += (double)p->saved_bytes[node];
        if (p->fixed_bytes) s->param_bytes[state] += (double)p->fixed_bytes[node];
    }
}

static bool allocate_sums(const ft_ground *g, states *s)
{
    s->compute_ns = ft_arena_array(g->arena, 4 * (int64_t)s->n, 8);
    if (!s->compute_ns) return false;
    s->activation_bytes = s->compute_ns + s->n;
    s->param_bytes = s->compute_ns + 2 * (int64_t)s->n;
    s->cut_bytes = s->compute_ns + 3 * (int64_t)s->n;
    return true;
}

/* Puts states into the order and fills what leads to what. */
static ft_status finish(explorer *x, ft_error *err)
{
    const ft_ground *g = x->g;
    states *s = x->s;
    int n = s->n;
    int *order = ft_arena_array(g->arena, n, sizeof *order);
    int *place = ft_arena_array(g->arena, n, sizeof *place);
    uint64_t *sets = ft_arena_array(g->arena, (int64_t)n * s->words, 8);
    double *output_bytes = ft_arena_array(g->arena, g->n, 8);
    uint64_t *counted = ft_arena_array(g->arena, s->words, 8);
    s->reached_words = n / 64 + 1;
    s->reached = ft_arena_array(g->arena, (int64_t)n * s->reached_words, 8);
    if (!order || !place || !sets || !output_bytes || !counted || !s->reached)
        return ft_ground_no_memory(g, err);
    if (!allocate_sums(g, s) || !sort_states(x, order)) return ft_ground_no_memory(g, err);
    find_outputs(g, output_bytes);
    for (int i = 0; i < n; i++) {
        place[order[i]] = i;
        memcpy(&sets[(int64_t)i * s->words], set_of(s, order[i]), (size_t)s->words * 8);
    }
    s->sets = sets;
    for (int i = 0; i < n; i++) {
        uint64_t *own = &s->reached[(int64_t)i * s->reached_words];
        put(own, i);
        for (int e = x->parent_first[order[i]]; e < x->parent_first[order[i] + 1]; e++)
            for (int w = 0; w < s->reached_words; w++)
                s->reached[(int64_t)place[x->to[e]] * s->reached_words + w] |= own[w];
        sum_state(g, s, i);
        s->cut_bytes[i] = sum_cut(x, i, output_bytes, counted);
        if (!ft_ground_spend(g, g->n_forward)) return states_too_much(err);
    }
    return FT_OK;
}

static ft_status check_forward(const ft_ground *g, ft_error *err)
{
    if (g->n_forward == g->n) return FT_OK;
    return ft_fail(err, FT_INVALID,
                   "partition: pipedream takes forward nodes with their backward times, not "
                   "backward nodes");
}

ft_status states_of_stages(const ft_ground *g, const int *stage_of, int n_stages, states *out,
                           ft_error *err)
{
    explorer x = {.g = g, .s = out};
    *out = (states){.n = n_stages, .words = g->n / 64 + 1};
    FT_TRY(check_forward(g, err));
    out->sets = ft_arena_array(g->arena, (int64_t)n_stages * out->words, 8);
    double *output_bytes = ft_arena_array(g->arena, g->n, 8);
    uint64_t *counted = ft_arena_array(g->arena, out->words, 8);
    if (!out->sets || !output_bytes || !counted || !allocate_sums(g, out) || !find_ancestors(&x))
        return ft_ground_no_memory(g, err);
    find_outputs(g, output_bytes);
    for (int s = 0; s < n_stages; s++) {
        for (int i = 0; i < g->n; i++)
            if (stage_of[i] <= s) put(set_of(out, s), i);
        sum_state(g, out, s);
        out->cut_bytes[s] = sum_cut(&x, s, output_bytes, counted);
    }
    return FT_OK;
}

ft_status states_make(const ft_ground *g, states *out, ft_error *err)
{
    explorer x = {.g = g, .s = out, .step_room = 64 * MOST_STATES};
    *out = (states){.words = g->n / 64 + 1};
    FT_TRY(check_forward(g, err));
    out->sets = ft_arena_array(g->arena, (int64_t)MOST_STATES * out->words, 8);
    x.parent_first = ft_arena_array(g->arena, MOST_STATES + 1, sizeof *x.parent_first);
    x.to = ft_arena_array(g->arena, x.step_room, sizeof *x.to);
    x.hashes = ft_arena_array(g->arena, MOST_STATES, 8);
    if (!out->sets || !x.parent_first || !x.to || !x.hashes || !find_ancestors(&x))
        return ft_ground_no_memory(g, err);
    FT_TRY(explore(&x, err));
    return finish(&x, err);
}
