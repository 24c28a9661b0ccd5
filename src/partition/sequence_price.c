/* partition/sequence_price.c - what an assignment costs; the formula stands in partition.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "partition/sequence_internal.h"

static ft_status no_memory(const ft_sequence_problem *p, ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "partition: no memory for %d nodes and %d edges", p->n_nodes,
                   p->n_edges);
}

/* -- the problem ---------------------------------------------------------------------------------
 */

static ft_status check_nodes(const ft_sequence_problem *p, ft_error *err)
{
    int64_t bytes = 0;
    if (p->n_nodes < 1)
        return ft_fail(err, FT_INVALID, "partition: %d nodes, expected 1 or more", p->n_nodes);
    if (p->n_stages < 1)
        return ft_fail(err, FT_INVALID, "partition: %d stages, expected 1 or more", p->n_stages);
    if (p->n_edges < 0 || p->stage_memory_bytes < 0)
        return ft_fail(err, FT_INVALID,
                       "partition: %d edges, %lld bytes a stage; expected 0 or more", p->n_edges,
                       (long long)p->stage_memory_bytes);
    if (!(p->link_bytes_per_s == 0 || (p->link_bytes_per_s >= 1 && p->link_bytes_per_s <= 1e18)))
        return ft_fail(err, FT_INVALID, "partition: links of %g bytes/s, expected 0 or 1 to 1e18",
                       p->link_bytes_per_s);
    for (int i = 0; i < p->n_nodes; i++) {
        if (!(p->node_ns[i] >= 0 && p->node_ns[i] <= 1e18))
            return ft_fail(err, FT_INVALID, "partition: node %d takes %g ns, expected 0 to 1e18", i,
                           p->node_ns[i]);
        if (p->node_bytes &&
            (p->node_bytes[i] < 0 || __builtin_add_overflow(bytes, p->node_bytes[i], &bytes)))
            return ft_fail(
                err, FT_INVALID,
                "partition: node %d needs %lld bytes, expected 0 or more, and all nodes less "
                "than 2^63",
                i, (long long)p->node_bytes[i]);
    }
    return FT_OK;
}

static ft_status check_edges(const ft_sequence_problem *p, ft_error *err)
{
    int64_t bytes = 0;
    for (int e = 0; e < p->n_edges; e++) {
        int from = p->edge_from[e], to = p->edge_to[e];
        if (from < 0 || from >= to || to >= p->n_nodes)
            return ft_fail(err, FT_INVALID,
                           "partition: edge %d goes from node %d to %d of %d, expected a later one",
                           e, from, to, p->n_nodes);
        if (p->edge_bytes[e] < 0 || __builtin_add_overflow(bytes, p->edge_bytes[e], &bytes))
            return ft_fail(
                err, FT_INVALID,
                "partition: edge %d carries %lld bytes, expected 0 or more, and all edges "
                "less than 2^63",
                e, (long long)p->edge_bytes[e]);
    }
    return FT_OK;
}

static int value_of(const ft_sequence_problem *p, int edge)
{
    return p->edge_value ? p->edge_value[edge] : edge;
}

/* By maker, value, user: edges of one value stand together, unless they have different makers. */
static int compare_edges(const void *left, const void *right, void *problem)
{
    const ft_sequence_problem *p = problem;
    int a = *(const int *)left, b = *(const int *)right;
    if (p->edge_from[a] != p->edge_from[b]) return p->edge_from[a] < p->edge_from[b] ? -1 : 1;
    if (value_of(p, a) != value_of(p, b)) return value_of(p, a) < value_of(p, b) ? -1 : 1;
    if (p->edge_to[a] != p->edge_to[b]) return p->edge_to[a] < p->edge_to[b] ? -1 : 1;
    return (a > b) - (a < b);
}

static int compare_ints(const void *left, const void *right)
{
    int a = *(const int *)left, b = *(const int *)right;
    return (a > b) - (a < b);
}

/* No two values, which have different makers or numbers, may have the same number. */
static ft_status check_makers(const priced *p, const int *numbers, int *scratch, ft_error *err)
{
    int n = p->n_values;
    if (n) memcpy(scratch, numbers, (size_t)n * sizeof *scratch);
    if (n) qsort(scratch, (size_t)n, sizeof *scratch, compare_ints);
    for (int i = 1; i < n; i++)
        if (scratch[i] == scratch[i - 1])
            return ft_fail(err, FT_INVALID, "partition: value %d leaves two nodes, expected one",
                           scratch[i]);
    return FT_OK;
}

static ft_status group_values(priced *p, ft_error *err)
{
    const ft_sequence_problem *q = p->problem;
    carried *values = ft_arena_array(p->arena, q->n_edges, sizeof *values);
    int *order = ft_arena_array(p->arena, q->n_edges, sizeof *order);
    int *uses = ft_arena_array(p->arena, q->n_edges, sizeof *uses);
    int *numbers = ft_arena_array(p->arena, q->n_edges, sizeof *numbers);
    int *first = ft_arena_array(p->arena, q->n_nodes + 1, sizeof *first);
    if (!values || !order || !uses || !numbers || !first) return no_memory(q, err);
    for (int e = 0; e < q->n_edges; e++) order[e] = e;
    if (q->n_edges) {
        ft_sequence_problem copy = *q;
        qsort_r(order, (size_t)q->n_edges, sizeof *order, compare_edges, &copy);
    }
    for (int i = 0; i < q->n_edges; i++) {
        int e = order[i], before = i ? order[i - 1] : -1;
        uses[i] = q->edge_to[e];
        if (before < 0 || q->edge_from[before] != q->edge_from[e] ||
            value_of(q, before) != value_of(q, e)) {
            numbers[p->n_values] = value_of(q, e);
            first[q->edge_from[e] + 1]++;
            values[p->n_values++] =
                (carried){.maker = q->edge_from[e], .uses = &uses[i], .bytes = q->edge_bytes[e]};
        } else if (q->edge_bytes[before] != q->edge_bytes[e])
            return ft_fail(err, FT_INVALID,
                           "partition: value %d has %lld bytes on edge %d, %lld on %d",
                           value_of(q, e), (long long)q->edge_bytes[before], before,
                           (long long)q->edge_bytes[e], e);
        values[p->n_values - 1].n_uses++;
    }
    for (int i = 0; i < q->n_nodes; i++) first[i + 1] += first[i];
    p->values = values;
    p->value_first = first;
    return check_makers(p, numbers, order, err);
}

ft_status priced_new(priced *out, const ft_sequence_problem *problem, ft_error *err)
{
    *out = (priced){.problem = problem};
    FT_TRY(check_nodes(problem, err));
    FT_TRY(check_edges(problem, err));
    if (!(out->arena = ft_arena_new())) return no_memory(problem, err);
    ft_status status = group_values(out, err);
    if (status != FT_OK) priced_free(out);
    return status;
}

void priced_free(priced *p)
{
    ft_arena_free(p->arena);
    p->arena = NULL;
}

/* -- the price -----------------------------------------------------------------------------------
 */

double stage_price_ns(const ft_sequence_problem *p, double compute_ns, int64_t out_bytes,
                      int64_t in_bytes)
{
    if (p->link_bytes_per_s == 0) return compute_ns;
    double out_ns = (double)out_bytes * 1e9 / p->link_bytes_per_s;
    double in_ns = (double)in_bytes * 1e9 / p->link_bytes_per_s;
    return compute_ns + fmax(0, out_ns - compute_ns) + fmax(0, in_ns - compute_ns);
}

/* Sums of one stage. */
typedef struct stage_sum {
    double compute_ns;
    int64_t out_bytes, in_bytes, memory_bytes;
    int last_value; /* the last value that was counted in in_bytes, plus one */
} stage_sum;

static void sum_values(const priced *p, const int *stage, stage_sum *sums, int64_t *cut_bytes)
{
    for (int v = 0; v < p->n_values; v++) {
        const carried *value = &p->values[v];
        int from = stage[value->maker];
        bool leaves = false;
        for (int i = 0; i < value->n_uses; i++) {
            stage_sum *to = &sums[stage[value->uses[i]]];
            if (stage[value->uses[i]] == from || to->last_value == v + 1) continue;
            to->last_value = v + 1;
            to->in_bytes += value->bytes;
            *cut_bytes += value->bytes;
            leaves = true;
        }
        if (leaves) sums[from].out_bytes += value->bytes;
    }
}

static double lower_bound_ns(const ft_sequence_problem *p)
{
    double total = 0, largest = 0;
    for (int i = 0; i < p->n_nodes; i++) {
        total += p->node_ns[i];
        largest = fmax(largest, p->node_ns[i]);
    }
    return fmax(total / p->n_stages, largest);
}

ft_status price_stages(const priced *p, const int *stage, ft_sequence_result *result, ft_error *err)
{
    const ft_sequence_problem *q = p->problem;
    stage_sum *sums = ft_arena_array(p->arena, q->n_stages, sizeof *sums);
    if (!sums) return no_memory(q, err);
    result->cut_bytes = 0;
    result->slowest_ns = 0;
    result->lower_bound_ns = lower_bound_ns(q);
    for (int i = 0; i < q->n_nodes; i++) {
        sums[stage[i]].compute_ns += q->node_ns[i];
        if (q->node_bytes) sums[stage[i]].memory_bytes += q->node_bytes[i];
    }
    sum_values(p, stage, sums, &result->cut_bytes);
    for (int s = 0; s < q->n_stages; s++)
        result->slowest_ns =
            fmax(result->slowest_ns,
                 stage_price_ns(q, sums[s].compute_ns, sums[s].out_bytes, sums[s].in_bytes));
    for (int s = 0; q->stage_memory_bytes && s < q->n_stages; s++)
        if (sums[s].memory_bytes > q->stage_memory_bytes)
            return ft_fail(err, FT_INFEASIBLE, "partition: stage %d needs %lld bytes, it has %lld",
                           s, (long long)sums[s].memory_bytes, (long long)q->stage_memory_bytes);
    return FT_OK;
}

ft_status ft_sequence_price(const ft_sequence_problem *problem, const int *stage,
                            ft_sequence_result *result, ft_error *err)
{
    priced p;
    FT_TRY(priced_new(&p, problem, err));
    ft_status status = FT_OK;
    for (int i = 0; i < problem->n_nodes; i++)
        if (stage[i] < 0 || stage[i] >= problem->n_stages)
            FT_GO(ft_fail(err, FT_INVALID, "partition: node %d is in stage %d of %d", i, stage[i],
                          problem->n_stages));
    status = price_stages(&p, stage, result, err);
    if (result->stage && result->stage != stage)
        memmove(result->stage, stage, (size_t)problem->n_nodes * sizeof *stage);
done:
    priced_free(&p);
    return status;
}
