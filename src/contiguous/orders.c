/* contiguous/orders.c - topological orders of a graph. */
#include <stdlib.h>
#include <string.h>

#include "contiguous/orders.h"

/* Nodes in turn, as they become ready. `width` may be NULL. */
static bool order_in_turn(ft_arena *arena, const ft_dag *d, int *order, int *width)
{
    int *unmet = ft_arena_array(arena, d->n, sizeof *unmet), n = 0, widest = 0;
    if (!unmet) return false;
    for (int i = 0; i < d->n; i++) {
        unmet[i] = d->back_first[i + 1] - d->back_first[i];
        if (!unmet[i]) order[n++] = i;
    }
    for (int done = 0; done < n; done++) {
        if (n - done > widest) widest = n - done;
        for (int i = d->next_first[order[done]]; i < d->next_first[order[done] + 1]; i++)
            if (--unmet[d->next[i]] == 0) order[n++] = d->next[i];
    }
    if (width) *width = widest;
    return true;
}

int ft_dag_width(ft_arena *arena, const ft_dag *d)
{
    int width = -1, *order = ft_arena_array(arena, d->n, sizeof *order);
    return order && order_in_turn(arena, d, order, &width) ? width : -1;
}

/* -- from what is last ------------------------------------------------------------------------- */

static int compare_keys(const void *left, const void *right, void *context)
{
    const double *key = context;
    int a = *(const int *)left, b = *(const int *)right;
    if (key[a] != key[b]) return key[a] > key[b] ? -1 : 1;
    return (a > b) - (a < b);
}

/* The length of the longest way to each node, by chance up to half as much again. */
static bool find_depths(ft_arena *arena, const ft_dag *d, ft_rng *rng, double *depth)
{
    int *order = ft_arena_array(arena, d->n, sizeof *order);
    if (!order || !order_in_turn(arena, d, order, NULL)) return false;
    for (int at = 0; at < d->n; at++)
        for (int i = d->next_first[order[at]]; i < d->next_first[order[at] + 1]; i++)
            if (depth[d->next[i]] < depth[order[at]] + 1) depth[d->next[i]] = depth[order[at]] + 1;
    for (int i = 0; rng && i < d->n; i++) depth[i] *= 1 + 0.5 * ft_rng_uniform(rng);
    return true;
}

static bool order_back(ft_arena *arena, const ft_dag *d, ft_rng *rng, int *order)
{
    int n_edges = d->back_first[d->n], n = 0, n_roots = 0;
    double *depth = ft_arena_array(arena, d->n, sizeof *depth);
    int *back = ft_arena_array(arena, n_edges + 1, sizeof *back);
    int *at = ft_arena_array(arena, d->n, sizeof *at);
    int *call = ft_arena_array(arena, d->n + 1, sizeof *call);
    int *roots = ft_arena_array(arena, d->n, sizeof *roots);
    bool *seen = ft_arena_array(arena, d->n, sizeof *seen);
    if (!depth || !back || !at || !call || !roots || !seen) return false;
    if (!find_depths(arena, d, rng, depth)) return false;
    memcpy(back, d->back, (size_t)n_edges * sizeof *back);
    for (int i = 0; i < d->n; i++) {
        at[i] = d->back_first[i];
        qsort_r(&back[at[i]], (size_t)(d->back_first[i + 1] - at[i]), sizeof *back, compare_keys,
                depth);
        if (d->next_first[i] == d->next_first[i + 1]) roots[n_roots++] = i;
    }
    for (int r = 0; r < n_roots; r++) {
        int depth_of_call = 0;
        call[0] = roots[r];
        seen[roots[r]] = true;
        while (depth_of_call >= 0) {
            int node = call[depth_of_call];
            if (at[node] == d->back_first[node + 1]) {
                order[n++] = node;
                depth_of_call--;
                continue;
            }
            int before = back[at[node]++];
            if (seen[before]) continue;
            seen[before] = true;
            call[++depth_of_call] = before;
        }
    }
    return true;
}

/* -- from what is first ------------------------------------------------------------------------ */

static bool order_forth(ft_arena *arena, const ft_dag *d, ft_rng *rng, int *order)
{
    int *unmet = ft_arena_array(arena, d->n, sizeof *unmet), n_ready = 0;
    int *ready = ft_arena_array(arena, d->n, sizeof *ready);
    if (!unmet || !ready) return false;
    for (int i = d->n - 1; i >= 0; i--) {
        unmet[i] = d->back_first[i + 1] - d->back_first[i];
        if (!unmet[i]) ready[n_ready++] = i;
    }
    for (int n = 0; n < d->n; n++) {
        int pick = n_ready - 1;
        if (rng && n_ready > 1 && ft_rng_below(rng, 4) == 0)
            pick = (int)ft_rng_below(rng, (uint64_t)n_ready);
        order[n] = ready[pick];
        memmove(&ready[pick], &ready[pick + 1], (size_t)(--n_ready - pick) * sizeof *ready);
        for (int i = d->next_first[order[n] + 1] - 1; i >= d->next_first[order[n]]; i--)
            if (--unmet[d->next[i]] == 0) ready[n_ready++] = d->next[i];
    }
    return true;
}

bool ft_dag_order(ft_arena *arena, const ft_dag *d, uint64_t seed, uint64_t rule, int *order)
{
    ft_rng rng;
    ft_rng_init(&rng, seed, rule);
    ft_rng *chance = rule > 1 ? &rng : NULL;
    return rule % 2 ? order_forth(arena, d, chance, order) : order_back(arena, d, chance, order);
}
