/* partition/sequence.c - the best cut of a sequence, exactly.
 *
 * A stage is nodes a ... b-1, and its price depends on a and b alone, so that the best way to cut
 * the first b nodes into k stages is the best over a of (first a nodes into k - 1 stages, then a
 * ... b-1). Done twice: first for the slowest stage, then, with that as the limit of every stage,
 * for the bytes cut. (Taking both at once would be wrong: the best whole may hold a slower part
 * that cuts less.)
 *
 * For each b the prices of all a are made together, from sums that are kept while b grows. */
#include <math.h>
#include <string.h>

#include "partition/sequence_internal.h"

typedef struct search {
    const priced *priced;
    int n, n_stages;
    double *sum_ns;     /* of the first i nodes; n + 1 */
    int64_t *sum_bytes; /* likewise, memory */
    int *user;          /* by value: its last user before b, -1 before there is one */
    int64_t *in_bytes;  /* by a: what stage a ... b-1 receives */
    double *price_ns;   /* by a: price of stage a ... b-1; HUGE_VAL when it cannot be */
    int *using_first, *using_values; /* values used by node i */
    double *best_ns;   /* [stages][b]: slowest of the first b nodes in that many stages */
    int64_t *best_cut; /* [stages][b]: fewest bytes cut, each stage within the limit; -1: none */
    int *best_begin;   /* [stages][b]: where the last of those stages begins */
} search;

/* -- feasibility in memory --------------------------------------------------------------------- */

/* Fills stages from the left as far as memory allows: no cut needs fewer. */
static ft_status check_memory(const ft_sequence_problem *p, ft_error *err)
{
    long long limit = p->stage_memory_bytes;
    if (!limit || !p->node_bytes) return FT_OK;
    int stage = 0, begin = 0;
    int64_t used = 0;
    for (int i = 0; i < p->n_nodes; i++) {
        if (p->node_bytes[i] > limit)
            return ft_fail(err, FT_INFEASIBLE,
                           "partition: node %d alone needs %lld bytes, a stage has %lld", i,
                           (long long)p->node_bytes[i], limit);
        if (used + p->node_bytes[i] > limit && stage < p->n_stages - 1) {
            stage++;
            begin = i;
            used = 0;
        }
        used += p->node_bytes[i];
    }
    if (used <= limit) return FT_OK;
    return ft_fail(
        err, FT_INFEASIBLE,
        "partition: with the %d stages before it full, stage %d is left with nodes %d to "
        "%d, which need %lld bytes, a stage has %lld",
        stage, stage, begin, p->n_nodes - 1, (long long)used, limit);
}

/* -- prices ------------------------------------------------------------------------------------ */

/* Node b - 1 joins: the values it uses are now received by every stage that begins after their last
 * user and holds this one. */
static void add_user(search *s, int node)
{
    for (int i = s->using_first[node]; i < s->using_first[node + 1]; i++) {
        int v = s->using_values[i];
        const carried *value = &s->priced->values[v];
        int from = s->user[v] > value->maker ? s->user[v] : value->maker;
        for (int a = from + 1; a <= node; a++) s->in_bytes[a] += value->bytes;
        s->user[v] = node;
    }
}

/* price_ns[a] for all a < b. */
static void price_column(search *s, int b)
{
    const ft_sequence_problem *p = s->priced->problem;
    int64_t out_bytes = 0;
    add_user(s, b - 1);
    for (int a = b - 1; a >= 0; a--) {
        for (int v = s->priced->value_first[a]; v < s->priced->value_first[a + 1]; v++) {
            const carried *value = &s->priced->values[v];
            if (value->uses[value->n_uses - 1] >= b) out_bytes += value->bytes;
        }
        bool fits =
            !p->stage_memory_bytes || s->sum_bytes[b] - s->sum_bytes[a] <= p->stage_memory_bytes;
        s->price_ns[a] =
            fits ? stage_price_ns(p, s->sum_ns[b] - s->sum_ns[a], out_bytes, s->in_bytes[a])
                 : HUGE_VAL;
    }
}

static void begin_columns(search *s)
{
    memset(s->in_bytes, 0, (size_t)s->n * sizeof *s->in_bytes);
    for (int v = 0; v < s->priced->n_values; v++) s->user[v] = -1;
}

/* -- the two passes ---------------------------------------------------------------------------- */

static int64_t cell(const search *s, int stages, int b)
{
    return (int64_t)stages * (s->n + 1) + b;
}

static double find_slowest(search *s)
{
    int n = s->n, most = s->n_stages;
    begin_columns(s);
    for (int k = 0; k <= most; k++)
        for (int b = 0; b <= n; b++) s->best_ns[cell(s, k, b)] = HUGE_VAL;
    s->best_ns[cell(s, 0, 0)] = 0;
    for (int b = 1; b <= n; b++) {
        price_column(s, b);
        for (int k = 1; k <= most && k <= b; k++) {
            const double *before = &s->best_ns[cell(s, k - 1, 0)];
            double best = HUGE_VAL;
            /* the stage only grows as `a` falls, and its work alone is a bound */
            for (int a = b - 1; a >= k - 1 && s->sum_ns[b] - s->sum_ns[a] <= best; a--) {
                double slowest = before[a] > s->price_ns[a] ? before[a] : s->price_ns[a];
                if (slowest < best) best = slowest;
            }
            s->best_ns[cell(s, k, b)] = best;
        }
    }
    return s->best_ns[cell(s, most, n)];
}

static void find_least_cut(search *s, double limit_ns)
{
    int n = s->n, most = s->n_stages;
    begin_columns(s);
    for (int64_t i = 0; i < cell(s, most + 1, 0); i++) s->best_cut[i] = -1;
    s->best_cut[cell(s, 0, 0)] = 0;
    for (int b = 1; b <= n; b++) {
        price_column(s, b);
        for (int k = 1; k <= most && k <= b; k++) {
            const int64_t *before = &s->best_cut[cell(s, k - 1, 0)];
            int64_t best = -1;
            for (int a = b - 1; a >= k - 1 && s->sum_ns[b] - s->sum_ns[a] <= limit_ns; a--) {
                if (before[a] < 0 || s->price_ns[a] > limit_ns) continue;
                int64_t cut = before[a] + s->in_bytes[a];
                if (best >= 0 && cut > best) continue;
                best = cut;
                s->best_begin[cell(s, k, b)] = a;
            }
            s->best_cut[cell(s, k, b)] = best;
        }
    }
}

/* -- setting up -------------------------------------------------------------------------------- */

static bool make_arrays(search *s)
{
    ft_arena *arena = s->priced->arena;
    int64_t cells = (int64_t)(s->n_stages + 1) * (s->n + 1);
    int values = s->priced->n_values;
    return (s->sum_ns = ft_arena_array(arena, s->n + 1, sizeof(double))) &&
           (s->sum_bytes = ft_arena_array(arena, s->n + 1, sizeof(int64_t))) &&
           (s->user = ft_arena_array(arena, values, sizeof(int))) &&
           (s->in_bytes = ft_arena_array(arena, s->n, sizeof(int64_t))) &&
           (s->price_ns = ft_arena_array(arena, s->n, sizeof(double))) &&
           (s->using_first = ft_arena_array(arena, s->n + 1, sizeof(int))) &&
           (s->using_values = ft_arena_array(arena, s->priced->problem->n_edges, sizeof(int))) &&
           (s->best_ns = ft_arena_array(arena, cells, sizeof(double))) &&
           (s->best_cut = ft_arena_array(arena, cells, sizeof(int64_t))) &&
           (s->best_begin = ft_arena_array(arena, cells, sizeof(int)));
}

static void fill_sums(search *s)
{
    const ft_sequence_problem *p = s->priced->problem;
    for (int i = 0; i < s->n; i++) {
        s->sum_ns[i + 1] = s->sum_ns[i] + p->node_ns[i];
        s->sum_bytes[i + 1] = s->sum_bytes[i] + (p->node_bytes ? p->node_bytes[i] : 0);
    }
    int *first = s->using_first;
    for (int v = 0; v < s->priced->n_values; v++)
        for (int i = 0; i < s->priced->values[v].n_uses; i++) first[s->priced->values[v].uses[i]]++;
    for (int i = 0, sum = 0; i <= s->n; i++) {
        sum += first[i];
        first[i] = sum;
    }
    for (int v = 0; v < s->priced->n_values; v++)
        for (int i = 0; i < s->priced->values[v].n_uses; i++)
            s->using_values[--first[s->priced->values[v].uses[i]]] = v;
}

static ft_status run_search(const priced *p, ft_sequence_result *result, ft_error *err)
{
    search s = {.priced = p, .n = p->problem->n_nodes, .n_stages = p->problem->n_stages};
    int *stage = result->stage ? result->stage : ft_arena_array(p->arena, s.n, sizeof(int));
    if (!stage || !make_arrays(&s))
        return ft_fail(err, FT_NOMEM, "partition: no memory for %d nodes and %d stages", s.n,
                       s.n_stages);
    fill_sums(&s);
    find_least_cut(&s, find_slowest(&s));
    for (int k = s.n_stages, b = s.n; k; k--) {
        int a = s.best_begin[cell(&s, k, b)];
        for (int i = a; i < b; i++) stage[i] = k - 1;
        b = a;
    }
    return price_stages(p, stage, result, err);
}

ft_status ft_sequence_cut(const ft_sequence_problem *problem, ft_sequence_result *result,
                          ft_error *err)
{
    priced p;
    FT_TRY(priced_new(&p, problem, err));
    ft_status status = FT_OK;
    if (problem->n_stages > problem->n_nodes)
        FT_GO(ft_fail(err, FT_INVALID,
                      "partition: %d stages for %d nodes, expected at most as many",
                      problem->n_stages, problem->n_nodes));
    FT_GO(check_memory(problem, err));
    FT_GO(run_search(&p, result, err));
done:
    priced_free(&p);
    return status;
}
