/* problem/stages.c - a placement cut into stages.
 *
 * Running one device as far as it goes is one stage; then another one is run. What remains is never
 * made harder by having run more, so that a device is always run as far as it goes, and only the
 * order of devices is to be chosen. */
#include <stdlib.h>
#include <string.h>

#include "problem/ground.h"

enum { EXACT_NODES = 16 };

typedef struct cutter {
    const ft_ground *g;
    const int *unit_device;
    int *unmet;   /* by node: predecessors not run yet */
    int *ready;   /* nodes that can be run, by device: ready[first[d] .. first[d] + n_ready[d]) */
    int *n_ready; /* by device */
    int *first;
    int *trail;     /* nodes run by the present device, for taking them back */
    int64_t visits; /* of nodes that were run, and of edges from them */
} cutter;

static int device_of(const cutter *c, int node)
{
    return c->unit_device[c->g->unit[node]];
}

static bool cutter_new(cutter *c, const ft_ground *g, const int *unit_device)
{
    int n_devices = g->problem->n_devices;
    *c = (cutter){.g = g, .unit_device = unit_device};
    c->unmet = ft_arena_array(g->arena, g->n, sizeof *c->unmet);
    c->ready = ft_arena_array(g->arena, g->n, sizeof *c->ready);
    c->trail = ft_arena_array(g->arena, g->n, sizeof *c->trail);
    c->n_ready = ft_arena_array(g->arena, n_devices, sizeof *c->n_ready);
    c->first = ft_arena_array(g->arena, n_devices + 1, sizeof *c->first);
    if (!c->unmet || !c->ready || !c->trail || !c->n_ready || !c->first) return false;
    for (int i = 0; i < g->n_forward; i++) c->first[device_of(c, g->order[i]) + 1]++;
    for (int d = 0; d < n_devices; d++) c->first[d + 1] += c->first[d];
    for (int i = 0; i < g->n_forward; i++) {
        int node = g->order[i], d = device_of(c, node);
        c->unmet[node] = g->back_first[node + 1] - g->back_first[node];
        if (!c->unmet[node]) c->ready[c->first[d] + c->n_ready[d]++] = node;
    }
    return true;
}

/* Runs device d as far as it goes; returns the number of nodes, which are in the trail. With `keep`
 * the nodes stay run and what they release is ready. */
static int run_device(cutter *c, int d, bool keep)
{
    const ft_ground *g = c->g;
    int n = c->n_ready[d];
    memcpy(c->trail, &c->ready[c->first[d]], (size_t)n * sizeof *c->trail);
    for (int done = 0; done < n; done++)
        for (int i = g->next_first[c->trail[done]]; i < g->next_first[c->trail[done] + 1]; i++) {
            int next = g->next[i], other = device_of(c, next);
            if (--c->unmet[next]) continue;
            if (other == d)
                c->trail[n++] = next;
            else if (keep)
                c->ready[c->first[other] + c->n_ready[other]++] = next;
        }
    for (int i = 0; i < n; i++)
        c->visits += 1 + g->next_first[c->trail[i] + 1] - g->next_first[c->trail[i]];
    if (keep) c->n_ready[d] = 0;
    for (int done = 0; !keep && done < n; done++)
        for (int i = g->next_first[c->trail[done]]; i < g->next_first[c->trail[done] + 1]; i++)
            c->unmet[g->next[i]]++;
    return n;
}

/* Always the device that gets furthest; stops behind `most` stages, if that is not 0. */
static int cut_greedily(cutter *c, int most_stages, int *stage_of, int *stage_device)
{
    const ft_ground *g = c->g;
    int n_stages = 0;
    for (int done = 0; done < g->n_forward; n_stages++) {
        if (most_stages && n_stages == most_stages) return n_stages + 1;
        int best = -1, most = 0;
        for (int d = 0; d < g->problem->n_devices; d++) {
            if (!c->n_ready[d]) continue;
            int n = run_device(c, d, false);
            if (n > most) {
                most = n;
                best = d;
            }
        }
        most = run_device(c, best, true);
        for (int i = 0; i < most; i++) stage_of[c->trail[i]] = n_stages;
        stage_device[n_stages] = best;
        done += most;
    }
    return n_stages;
}

/* Breadth first over the sets of nodes that have run. */
static uint32_t run_mask(const cutter *c, uint32_t done, int d)
{
    const ft_ground *g = c->g;
    for (int at = 0; at < g->n_forward; at++) { /* in topological order: once is enough */
        int node = g->order[at];
        bool can = device_of(c, node) == d;
        for (int i = g->back_first[node]; can && i < g->back_first[node + 1]; i++)
            can = done >> g->rank[g->back[i]] & 1;
        if (can) done |= 1u << at;
    }
    return done;
}

static int cut_exactly(cutter *c, int *stage_of, int *stage_device)
{
    const ft_ground *g = c->g;
    int n_sets = 1 << g->n_forward, begin = 0, end = 1;
    uint32_t full = (uint32_t)n_sets - 1;
    uint32_t *queue = ft_arena_array(g->arena, n_sets, sizeof *queue);
    uint32_t *before = ft_arena_array(g->arena, n_sets, sizeof *before);
    int *by = ft_arena_array(g->arena, n_sets, sizeof *by);
    if (!queue || !before || !by) return -1;
    for (; begin < end && !by[full]; begin++)
        for (int d = 0; d < g->problem->n_devices; d++) {
            uint32_t after = run_mask(c, queue[begin], d);
            if (after == queue[begin] || by[after]) continue;
            by[after] = d + 1;
            before[after] = queue[begin];
            queue[end++] = after;
        }
    int n_stages = 0, s;
    for (uint32_t set = full; set; set = before[set]) n_stages++;
    s = n_stages;
    for (uint32_t set = full; set; set = before[set]) {
        stage_device[--s] = by[set] - 1;
        for (int at = 0; at < g->n_forward; at++)
            if ((set & ~before[set]) >> at & 1) stage_of[g->order[at]] = s;
    }
    return n_stages;
}

/* Backward nodes are in the stage of the last forward node of their unit; those of units without
 * one in the first stage of their device. */
static int place_backward(const ft_ground *g, const int *unit_device, int *stage_of,
                          int *stage_device, int n_stages)
{
    for (int at = g->n_forward; at < g->n; at++) {
        int node = g->order[at], unit = g->unit[node], found = -1;
        for (int i = g->unit_first[unit]; i < g->unit_first[unit + 1]; i++)
            if (g->rank[g->unit_nodes[i]] < g->n_forward) found = stage_of[g->unit_nodes[i]];
        for (int s = 0; found < 0 && s < n_stages; s++)
            if (stage_device[s] == unit_device[unit]) found = s;
        if (found < 0) {
            found = n_stages++;
            stage_device[found] = unit_device[unit];
        }
        stage_of[node] = found;
    }
    return n_stages;
}

int ft_stages_make(const ft_ground *g, const int *unit_device, int most, int *stage_of,
                   int *stage_device)
{
    cutter c;
    if (!cutter_new(&c, g, unit_device)) return -1;
    int n = g->n_forward <= EXACT_NODES ? cut_exactly(&c, stage_of, stage_device)
                                        : cut_greedily(&c, most, stage_of, stage_device);
    ft_ground_spend(g, c.visits);
    if (n < 0 || (most && n > most)) return n;
    return place_backward(g, unit_device, stage_of, stage_device, n);
}

double ft_stages_gain_ns(const ft_ground *g, const int *stage_of, int last, int kind)
{
    const ft_partition_problem *p = g->problem;
    int64_t row = (int64_t)kind * g->n;
    double gain = 0;
    for (int i = 0; p->last_ns && i < g->n; i++)
        if (stage_of[i] == last) gain += p->node_ns[row + i] - p->last_ns[row + i];
    return gain;
}

bool ft_stages_limited(const ft_ground *g)
{
    const ft_partition_options *o = g->options;
    return o->max_stages_per_device || (o->max_stages && o->max_stages < g->n);
}

bool ft_stages_allowed(const ft_ground *g, const int *stage_device, int n_stages)
{
    const ft_partition_options *o = g->options;
    if (o->max_stages && n_stages > o->max_stages) return false;
    if (!o->max_stages_per_device) return true;
    for (int s = 0; s < n_stages; s++) {
        int count = 0;
        for (int t = 0; t < n_stages; t++) count += stage_device[t] == stage_device[s];
        if (count > o->max_stages_per_device) return false;
    }
    return true;
}
