/* problem/ground.c - checks a problem and puts it into the form that partitioners work on. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "problem/ground.h"

ft_status ft_ground_no_memory(const ft_ground *g, ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "partition: no memory for %d nodes and %d edges",
                   g->problem->n_nodes, g->problem->n_edges);
}

const char *ft_ground_name(const ft_ground *g, int node, char *buffer)
{
    const ft_partition_problem *p = g->problem;
    if (p->names && p->names[node])
        snprintf(buffer, 96, "node %d (%.64s)", node + 1, p->names[node]);
    else
        snprintf(buffer, 96, "node %d", node + 1);
    return buffer;
}

bool ft_ground_allows(const ft_ground *g, int unit, int device)
{
    return !g->allowed || g->allowed[(int64_t)unit * g->problem->n_devices + device];
}

int ft_ground_in_flight(const ft_ground *g, int s, int n)
{
    int most = g->problem->in_flight > 1 ? g->problem->in_flight : 1;
    return g->problem->flat || most < n - s ? most : n - s;
}

bool ft_ground_stopped(const ft_ground *g)
{
    return g->options->stop && *g->options->stop;
}

bool ft_ground_late(const ft_ground *g)
{
    return g->deadline && ft_now_ns() > g->deadline;
}

bool ft_ground_spend(const ft_ground *g, int64_t steps)
{
    g->tally->steps += steps;
    return !g->tally->limit || g->tally->steps <= g->tally->limit;
}

int64_t ft_ground_limit(const ft_ground *g, int64_t steps)
{
    int64_t before = g->tally->limit, own = g->tally->steps + steps;
    if (!before || own < before) g->tally->limit = own;
    return before;
}

ft_status ft_ground_cancelled(ft_error *err)
{
    return ft_fail(err, FT_CANCELLED, "partition: stopped before it was done");
}

ft_status ft_ground_room(const ft_ground *g, ft_error *err)
{
    const ft_partition_problem *p = g->problem;
    int64_t needed = 0, there = 0;
    bool limited = !p->swaps;
    for (int u = 0; u < g->n_units; u++) needed += ft_load_bytes(&g->weight[u], 1);
    for (int d = 0; d < p->n_devices; d++) {
        limited &= p->devices[d].memory_bytes > 0;
        there += p->devices[d].memory_bytes;
    }
    if (limited && needed > there)
        return ft_fail(err, FT_INFEASIBLE,
                       "partition: %d nodes need %s, all devices together have %s", g->n,
                       ft_text_of_bytes(needed).text, ft_text_of_bytes(there).text);
    return FT_OK;
}

ft_status ft_ground_infeasible(const ft_ground *g, const char *what, const char *how, ft_error *err)
{
    static const char *const kept[2][2] = {{"", "pins and "}, {"memory and ", "memory, pins and "}};
    const ft_partition_problem *p = g->problem;
    bool limited = p->swaps, pinned = p->n_forbids > 0;
    for (int d = 0; d < p->n_devices; d++) limited |= p->devices[d].memory_bytes > 0;
    for (int i = 0; p->pin && i < p->n_nodes; i++) pinned |= p->pin[i] >= 0;
    return ft_fail(err, FT_INFEASIBLE,
                   "partition: no %s of %d nodes on %d devices keeps %sthe limits on stages%s",
                   what, g->n, p->n_devices, kept[limited][pinned], how);
}

/* -- checks ------------------------------------------------------------------------------------ */

static ft_status check_sizes(const ft_partition_problem *p, ft_error *err)
{
    if (p->n_nodes < 1)
        return ft_fail(err, FT_INVALID, "partition: %d nodes, expected 1 or more", p->n_nodes);
    if (p->n_devices < 1 || p->n_devices > FT_PARTITION_DEVICES)
        return ft_fail(err, FT_INVALID, "partition: %d devices, expected 1 to %d", p->n_devices,
                       FT_PARTITION_DEVICES);
    if (p->n_kinds < 1 || p->n_kinds > FT_PARTITION_KINDS)
        return ft_fail(err, FT_INVALID, "partition: %d kinds of devices, expected 1 to %d",
                       p->n_kinds, FT_PARTITION_KINDS);
    if (p->n_edges < 0 || p->n_forbids < 0 || p->in_flight < 0)
        return ft_fail(err, FT_INVALID,
                       "partition: %d edges, %d forbids, %d in flight; expected 0 or more",
                       p->n_edges, p->n_forbids, p->in_flight);
    return FT_OK;
}

static ft_status check_devices(const ft_partition_problem *p, ft_error *err)
{
    for (int d = 0; d < p->n_devices; d++) {
        const ft_partition_device *device = &p->devices[d];
        if (device->kind < 0 || device->kind >= p->n_kinds)
            return ft_fail(err, FT_INVALID, "partition: device %d is of kind %d of %d", d,
                           device->kind + 1, p->n_kinds);
        if (!(device->slowdown > 0 && device->slowdown <= 1e6))
            return ft_fail(err, FT_INVALID,
                           "partition: device %d is slower by %g, expected more than 0, to 1e6", d,
                           device->slowdown);
        if (device->memory_bytes < 0)
            return ft_fail(err, FT_INVALID, "partition: device %d has %lld bytes", d,
                           (long long)device->memory_bytes);
        if (!(device->bytes_per_s == 0 ||
              (device->bytes_per_s >= 1 && device->bytes_per_s <= 1e18)))
            return ft_fail(err, FT_INVALID,
                           "partition: the link of device %d has %g bytes/s, expected 0 or 1 to "
                           "1e18",
                           d, device->bytes_per_s);
    }
    return FT_OK;
}

static ft_status check_nodes(const ft_ground *g, ft_error *err)
{
    const ft_partition_problem *p = g->problem;
    const int64_t *const bytes[2] = {p->saved_bytes, p->fixed_bytes};
    int64_t sum = 0, saved = 0, held;
    char name[96];
    for (int row = 0; row < p->n_kinds * 2; row++) {
        const double *times = row < p->n_kinds ? p->node_ns : p->last_ns;
        for (int i = 0; times && i < p->n_nodes; i++) {
            double ns = times[(int64_t)(row % p->n_kinds) * p->n_nodes + i];
            if (!(ns >= 0 && ns <= 1e18))
                return ft_fail(err, FT_INVALID, "partition: %s takes %g ns, expected 0 to 1e18",
                               ft_ground_name(g, i, name), ns);
        }
    }
    for (int row = 0; row < 2; row++) {
        saved = sum;
        for (int i = 0; bytes[row] && i < p->n_nodes; i++)
            if (bytes[row][i] < 0 || __builtin_add_overflow(sum, bytes[row][i], &sum) ||
                sum > INT64_MAX / 4096)
                return ft_fail(err, FT_INVALID,
                               "partition: %s needs %lld bytes, expected 0 or more, and all nodes "
                               "less than 2^51",
                               ft_ground_name(g, i, name), (long long)bytes[row][i]);
    }
    /* then no sum of what devices hold wraps */
    if (__builtin_mul_overflow(saved, p->in_flight, &held) || held > INT64_MAX / 2)
        return ft_fail(err, FT_INVALID,
                       "partition: nodes save %lld bytes for each of %d micro-batches in flight, "
                       "expected less than 2^62 for all",
                       (long long)saved, p->in_flight);
    return FT_OK;
}

static ft_status check_edges(const ft_ground *g, ft_error *err)
{
    const ft_partition_problem *p = g->problem;
    int64_t sum = 0;
    char name[96];
    for (int e = 0; e < p->n_edges; e++) {
        int from = p->edge_from[e], to = p->edge_to[e];
        if (from < 0 || from >= p->n_nodes || to < 0 || to >= p->n_nodes)
            return ft_fail(err, FT_INVALID,
                           "partition: edge %d goes from node %d to node %d, there are %d", e + 1,
                           from + 1, to + 1, p->n_nodes);
        if (from == to)
            return ft_fail(err, FT_INVALID, "partition: edge %d goes from %s to itself", e + 1,
                           ft_ground_name(g, from, name));
        int64_t grad = p->edge_grad_bytes ? p->edge_grad_bytes[e] : 0;
        if (p->edge_bytes[e] < 0 || grad < 0 ||
            __builtin_add_overflow(sum, p->edge_bytes[e], &sum) ||
            __builtin_add_overflow(sum, grad, &sum) || sum > INT64_MAX / 4096)
            return ft_fail(err, FT_INVALID,
                           "partition: edge %d carries %lld bytes and %lld back, expected 0 or "
                           "more, and all edges less than 2^51",
                           e + 1, (long long)p->edge_bytes[e], (long long)grad);
    }
    return FT_OK;
}

/* -- order ------------------------------------------------------------------------------------- */

static bool is_backward(const ft_partition_problem *p, int node)
{
    return p->backward && p->backward[node];
}

/* Neighbours by node, among nodes that are not backward. */
static bool make_neighbours(ft_ground *g, const int *from, const int *to, int **first_out,
                            int **out)
{
    const ft_partition_problem *p = g->problem;
    int *first = ft_arena_array(g->arena, g->n + 2, sizeof *first);
    int *list = ft_arena_array(g->arena, p->n_edges + 1, sizeof *list);
    if (!first || !list) return false;
    for (int pass = 0; pass < 2; pass++) {
        for (int e = 0; e < p->n_edges; e++) {
            if (is_backward(p, from[e]) || is_backward(p, to[e])) continue;
            if (pass)
                list[first[from[e] + 1]++] = to[e];
            else
                first[from[e] + 2]++;
        }
        if (!pass)
            for (int i = 2; i <= g->n; i++) first[i] += first[i - 1];
    }
    *first_out = first;
    *out = list;
    return true;
}

/* A node of a cycle: from a node with unmet predecessors, backwards through such nodes. */
static int find_cycle(const ft_ground *g, const int *unmet)
{
    int node = 0;
    while (unmet[node] <= 0) node++;
    for (int step = 0; step < g->n; step++)
        for (int i = g->back_first[node]; i < g->back_first[node + 1]; i++)
            if (unmet[g->back[i]] > 0) {
                node = g->back[i];
                break;
            }
    return node;
}

static ft_status make_order(ft_ground *g, ft_error *err)
{
    const ft_partition_problem *p = g->problem;
    int *unmet = ft_arena_array(g->arena, g->n, sizeof *unmet);
    g->order = ft_arena_array(g->arena, g->n, sizeof *g->order);
    g->rank = ft_arena_array(g->arena, g->n, sizeof *g->rank);
    if (!unmet || !g->order || !g->rank ||
        !make_neighbours(g, p->edge_from, p->edge_to, &g->next_first, &g->next) ||
        !make_neighbours(g, p->edge_to, p->edge_from, &g->back_first, &g->back))
        return ft_ground_no_memory(g, err);
    int n = 0, done = 0;
    for (int i = 0; i < g->n; i++) {
        g->n_forward += !is_backward(p, i);
        unmet[i] = g->back_first[i + 1] - g->back_first[i];
        if (!is_backward(p, i) && !unmet[i]) g->order[n++] = i;
    }
    for (; done < n; done++)
        for (int i = g->next_first[g->order[done]]; i < g->next_first[g->order[done] + 1]; i++)
            if (--unmet[g->next[i]] == 0) g->order[n++] = g->next[i];
    char name[96];
    if (n < g->n_forward)
        return ft_fail(err, FT_INVALID, "partition: %s is on a cycle of edges",
                       ft_ground_name(g, find_cycle(g, unmet), name));
    for (int i = 0; i < g->n; i++)
        if (is_backward(p, i)) g->order[n++] = i;
    for (int i = 0; i < g->n; i++) g->rank[g->order[i]] = i;
    return FT_OK;
}

/* -- units ------------------------------------------------------------------------------------- */

static int compare_ints(const void *left, const void *right)
{
    int a = *(const int *)left, b = *(const int *)right;
    return (a > b) - (a < b);
}

static int tie_of(const ft_partition_problem *p, int node)
{
    return p->tie ? p->tie[node] : -1;
}

/* Units in the order of their first nodes. */
static ft_status make_units(ft_ground *g, ft_error *err)
{
    const ft_partition_problem *p = g->problem;
    int *ties = ft_arena_array(g->arena, g->n, sizeof *ties);
    int *unit_of_tie = ft_arena_array(g->arena, g->n, sizeof *unit_of_tie);
    g->unit = ft_arena_array(g->arena, g->n, sizeof *g->unit);
    g->unit_first = ft_arena_array(g->arena, g->n + 2, sizeof *g->unit_first);
    g->unit_nodes = ft_arena_array(g->arena, g->n, sizeof *g->unit_nodes);
    if (!ties || !unit_of_tie || !g->unit || !g->unit_first || !g->unit_nodes)
        return ft_ground_no_memory(g, err);
    int n_ties = 0;
    for (int i = 0; i < g->n; i++)
        if (tie_of(p, i) >= 0) ties[n_ties++] = p->tie[i];
    qsort(ties, (size_t)n_ties, sizeof *ties, compare_ints);
    for (int at = 0; at < g->n; at++) {
        int node = g->order[at], *known = NULL;
        if (tie_of(p, node) >= 0) {
            int *found = bsearch(&p->tie[node], ties, (size_t)n_ties, sizeof *ties, compare_ints);
            while (found > ties && found[-1] == *found) found--;
            known = &unit_of_tie[found - ties];
        }
        g->unit[node] = known && *known ? *known - 1 : g->n_units++;
        if (known) *known = g->unit[node] + 1;
        g->unit_first[g->unit[node] + 2]++;
    }
    for (int u = 2; u <= g->n_units; u++) g->unit_first[u] += g->unit_first[u - 1];
    for (int at = 0; at < g->n; at++)
        g->unit_nodes[g->unit_first[g->unit[g->order[at]] + 1]++] = g->order[at];
    return FT_OK;
}

static ft_status make_weights(ft_ground *g, ft_error *err)
{
    const ft_partition_problem *p = g->problem;
    g->weight = ft_arena_array(g->arena, g->n_units, sizeof *g->weight);
    if (!g->weight) return ft_ground_no_memory(g, err);
    for (int i = 0; i < g->n; i++) {
        ft_load *w = &g->weight[g->unit[i]];
        for (int k = 0; k < p->n_kinds; k++) {
            int64_t at = (int64_t)k * g->n + i;
            w->ns[k] += p->node_ns[at];
            w->last_ns[k] += p->last_ns ? p->last_ns[at] : p->node_ns[at];
        }
        if (p->fixed_bytes) w->fixed += p->fixed_bytes[i];
        if (p->saved_bytes) w->saved += p->saved_bytes[i];
    }
    return FT_OK;
}

/* -- pins, forbids, memory --------------------------------------------------------------------- */

static ft_status apply_pins(ft_ground *g, ft_error *err)
{
    const ft_partition_problem *p = g->problem;
    char name[96], other[96];
    for (int i = 0; p->pin && i < g->n; i++) {
        if (p->pin[i] < -1 || p->pin[i] >= p->n_devices)
            return ft_fail(err, FT_INVALID,
                           "partition: %s is pinned to device %d, expected 0 to %d",
                           ft_ground_name(g, i, name), p->pin[i], p->n_devices - 1);
        if (p->pin[i] < 0) continue;
        for (int at = g->unit_first[g->unit[i]]; at < g->unit_first[g->unit[i] + 1]; at++) {
            int tied = g->unit_nodes[at];
            if (p->pin[tied] >= 0 && p->pin[tied] != p->pin[i])
                return ft_fail(err, FT_INVALID,
                               "partition: %s is pinned to device %d, %s, which is tied to it, to "
                               "device %d",
                               ft_ground_name(g, i, name), p->pin[i],
                               ft_ground_name(g, tied, other), p->pin[tied]);
        }
        bool *row = &g->allowed[(int64_t)g->unit[i] * p->n_devices];
        for (int d = 0; d < p->n_devices; d++) row[d] = d == p->pin[i];
    }
    for (int f = 0; f < p->n_forbids; f++) {
        int node = p->forbid_node[f], device = p->forbid_device[f];
        if (node < 0 || node >= g->n || device < 0 || device >= p->n_devices)
            return ft_fail(
                err, FT_INVALID,
                "partition: forbid %d is of node %d of %d on device %d, expected 0 to %d", f + 1,
                node + 1, g->n, device, p->n_devices - 1);
        if (p->pin && p->pin[node] == device)
            return ft_fail(err, FT_INVALID, "partition: %s is pinned to device %d and forbidden it",
                           ft_ground_name(g, node, name), device);
        g->allowed[(int64_t)g->unit[node] * p->n_devices + device] = false;
    }
    return FT_OK;
}

static ft_status limit_devices(ft_ground *g, ft_error *err)
{
    const ft_partition_problem *p = g->problem;
    bool limited = p->pin || p->n_forbids;
    for (int d = 0; d < p->n_devices; d++) limited |= p->devices[d].memory_bytes > 0;
    if (!limited) return FT_OK;
    g->allowed = ft_arena_array(g->arena, g->n_units, p->n_devices);
    if (!g->allowed) return ft_ground_no_memory(g, err);
    memset(g->allowed, true, (size_t)g->n_units * (size_t)p->n_devices);
    FT_TRY(apply_pins(g, err));
    char name[96];
    for (int u = 0; u < g->n_units; u++) {
        bool *row = &g->allowed[(int64_t)u * p->n_devices], any = false, wanted = false;
        int64_t most = 0;
        for (int d = 0; d < p->n_devices; d++) {
            wanted |= row[d];
            if (row[d] && p->devices[d].memory_bytes > most) most = p->devices[d].memory_bytes;
            row[d] = row[d] && ft_load_fits(g, &g->weight[u], d, 1);
            any |= row[d];
        }
        if (any) continue;
        ft_ground_name(g, g->unit_nodes[g->unit_first[u]], name);
        if (!wanted)
            return ft_fail(err, FT_INVALID, "partition: %s is forbidden every device", name);
        return ft_fail(
            err, FT_INFEASIBLE, "partition: %s%s needs %s, the largest device it may be on has %s",
            name, g->unit_first[u + 1] - g->unit_first[u] > 1 ? " with what is tied to it" : "",
            ft_text_of_bytes(ft_load_bytes(&g->weight[u], 1)).text, ft_text_of_bytes(most).text);
    }
    return FT_OK;
}

/* -- the bound --------------------------------------------------------------------------------- */

static double unit_ns(const ft_ground *g, int unit, int device, bool last)
{
    const ft_partition_device *d = &g->problem->devices[device];
    const ft_load *w = &g->weight[unit];
    double ns = w->ns[d->kind], at_last = w->last_ns[d->kind];
    return (last && at_last < ns ? at_last : ns) * d->slowdown;
}

/* In units of the fastest device for each unit, device d does at most T / s_d of work, where s_d is
 * its least disadvantage; and the device with the last stage some factor more. */
static bool bound(ft_ground *g)
{
    int n_devices = g->problem->n_devices;
    double total = 0, largest = 0, rate = 0, fastest = 0;
    g->work = ft_arena_array(g->arena, g->n_units, sizeof *g->work);
    g->rate = ft_arena_array(g->arena, n_devices, sizeof *g->rate);
    g->byte_ns = ft_arena_array(g->arena, n_devices, sizeof *g->byte_ns);
    if (!g->work || !g->rate || !g->byte_ns) return false;
    g->last_gain = 1;
    for (int u = 0; u < g->n_units; u++) {
        double best = HUGE_VAL, indivisible = HUGE_VAL;
        for (int d = 0; d < n_devices; d++) best = fmin(best, unit_ns(g, u, d, false));
        for (int d = 0; d < n_devices; d++) {
            double ns = unit_ns(g, u, d, false), at_last = unit_ns(g, u, d, true);
            if (ft_ground_allows(g, u, d)) indivisible = fmin(indivisible, at_last);
            if (best > 0) g->rate[d] = fmax(g->rate[d], best / ns);
            if (at_last < ns) g->last_gain = fmax(g->last_gain, ns / at_last);
        }
        g->work[u] = best;
        total += best;
        largest = fmax(largest, indivisible);
    }
    for (int d = 0; d < n_devices; d++) {
        rate += g->rate[d];
        fastest = fmax(fastest, g->rate[d]);
    }
    for (int d = 0; d < n_devices; d++) {
        double bytes_per_s = g->problem->devices[d].bytes_per_s;
        g->byte_ns[d] = bytes_per_s > 0 ? 1e9 / bytes_per_s : 0;
    }
    double balanced = rate > 0 ? total / (rate + (g->last_gain - 1) * fastest) : 0;
    g->lower_bound_ns = fmax(balanced, largest);
    return true;
}

ft_status ft_ground_new(ft_ground *out, const ft_partition_problem *problem,
                        const ft_partition_options *options, const ft_cost_model *cost,
                        ft_error *err)
{
    *out = (ft_ground){.problem = problem, .options = options, .cost = cost, .n = problem->n_nodes};
    if (options->deadline_ns) out->deadline = ft_now_ns() + options->deadline_ns;
    FT_TRY(check_sizes(problem, err));
    FT_TRY(check_devices(problem, err));
    FT_TRY(check_nodes(out, err));
    FT_TRY(check_edges(out, err));
    if (!(out->arena = ft_arena_new())) return ft_ground_no_memory(out, err);
    if (!(out->tally = ft_arena_array(out->arena, 1, sizeof *out->tally)))
        return ft_ground_no_memory(out, err);
    FT_TRY(make_order(out, err));
    FT_TRY(make_units(out, err));
    FT_TRY(make_weights(out, err));
    FT_TRY(limit_devices(out, err));
    FT_TRY(ground_make_nets(out, err));
    return bound(out) ? FT_OK : ft_ground_no_memory(out, err);
}

void ft_ground_free(ft_ground *g)
{
    ft_arena_free(g->arena);
    g->arena = NULL;
}
