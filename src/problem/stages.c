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
    int *unmet;     /* by node: predecessors that neither ran nor can be run by its device */
    int *order;     /* nodes as their device runs them: order[first[d] .. first[d + 1]) */
    int *first;     /* by device */
    int *begin;     /* by device, in order: what it can run now begins here */
    int *end;       /* and ends here */
    int64_t *size;  /* by device: what it can run now, in nodes and edges from them */
    int64_t visits; /* nodes and edges that devices could run, added up over stages */
} cutter;

static int device_of(const cutter *c, int node)
{
    return c->unit_device[c->g->unit[node]];
}

/* Device d can run this node, and then all that waits for that alone. */
static void can_run(cutter *c, int d, int node)
{
    const ft_ground *g = c->g;
    int done = c->end[d];
    c->order[c->end[d]++] = node;
    for (; done < c->end[d]; done++) {
        int from = c->order[done];
        c->size[d] += 1 + g->next_first[from + 1] - g->next_first[from];
        for (int i = g->next_first[from]; i < g->next_first[from + 1]; i++)
            if (device_of(c, g->next[i]) == d && !--c->unmet[g->next[i]])
                c->order[c->end[d]++] = g->next[i];
    }
}

static bool cutter_start(cutter *c)
{
    const ft_ground *g = c->g;
    int n_devices = g->problem->n_devices;
    c->unmet = ft_arena_array(g->arena, g->n, sizeof *c->unmet);
    c->order = ft_arena_array(g->arena, g->n, sizeof *c->order);
    c->first = ft_arena_array(g->arena, n_devices + 1, sizeof *c->first);
    c->begin = ft_arena_array(g->arena, n_devices, sizeof *c->begin);
    c->end = ft_arena_array(g->arena, n_devices, sizeof *c->end);
    c->size = ft_arena_array(g->arena, n_devices, sizeof *c->size);
    if (!c->unmet || !c->order || !c->first || !c->begin || !c->end || !c->size) return false;
    for (int i = 0; i < g->n_forward; i++) c->first[device_of(c, g->order[i]) + 1]++;
    for (int d = 0; d < n_devices; d++) {
        c->begin[d] = c->end[d] = c->first[d];
        c->first[d + 1] += c->first[d];
    }
    for (int i = 0; i < g->n_forward; i++) {
        int node = g->order[i];
        c->unmet[node] = g->back_first[node + 1] - g->back_first[node];
    }
    for (int i = 0; i < g->n_forward; i++) {
        int node = g->order[i];
        if (g->back_first[node + 1] == g->back_first[node]) can_run(c, device_of(c, node), node);
    }
    return true;
}

/* What device d can run has run: others can run what waited for it. */
static void has_run(cutter *c, int d)
{
    const ft_ground *g = c->g;
    int n = c->end[d];
    for (int done = c->begin[d]; done < n; done++) {
        int from = c->order[done];
        for (int i = g->next_first[from]; i < g->next_first[from + 1]; i++) {
            int other = device_of(c, g->next[i]);
            if (other != d && !--c->unmet[g->next[i]]) can_run(c, other, g->next[i]);
        }
    }
    c->begin[d] = n;
    c->size[d] = 0;
}

/* Always the device that gets furthest; stops behind `most` stages, if that is not 0. */
static int cut_greedily(cutter *c, int most_stages, int *stage_of, int *stage_device)
{
    const ft_ground *g = c->g;
    if (!cutter_start(c)) return -1;
    int n_stages = 0;
    for (int done = 0; done < g->n_forward; n_stages++) {
        if (most_stages && n_stages == most_stages) return n_stages + 1;
        int best = 0;
        for (int d = 0; d < g->problem->n_devices; d++) {
            c->visits += c->size[d];
            if (c->end[d] - c->begin[d] > c->end[best] - c->begin[best]) best = d;
        }
        c->visits += c->size[best];
        for (int i = c->begin[best]; i < c->end[best]; i++) stage_of[c->order[i]] = n_stages;
        stage_device[n_stages] = best;
        done += c->end[best] - c->begin[best];
        has_run(c, best);
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

/* A set of nodes that have run, and how it came to be: by running `device` behind found[from]. */
typedef struct reached {
    uint32_t set;
    int from, device;
} reached;

static int cut_exactly(cutter *c, int *stage_of, int *stage_device)
{
    const ft_ground *g = c->g;
    uint32_t full = (1u << g->n_forward) - 1;
    /* of all sets a few are reached: a bit for each, and a list of those */
    uint8_t *is_reached = ft_arena_array(g->arena, full / 8 + 1, sizeof *is_reached);
    reached *found = ft_arena_room(g->arena, NULL, 0, sizeof *found);
    if (!is_reached || !found) return -1;
    int last = 0, end = 1;
    for (int begin = 0; found[last].set != full; begin++)
        for (int d = 0; d < g->problem->n_devices && found[last].set != full; d++) {
            uint32_t set = run_mask(c, found[begin].set, d);
            if (set == found[begin].set || is_reached[set / 8] >> set % 8 & 1) continue;
            if (!(found = ft_arena_room(g->arena, found, end, sizeof *found))) return -1;
            is_reached[set / 8] |= (uint8_t)(1 << set % 8);
            last = end++;
            found[last] = (reached){.set = set, .from = begin, .device = d};
        }
    int n_stages = 0;
    for (int i = last; i; i = found[i].from) n_stages++;
    for (int i = last, s = n_stages; i; i = found[i].from) {
        stage_device[--s] = found[i].device;
        for (int at = 0; at < g->n_forward; at++)
            if ((found[i].set & ~found[found[i].from].set) >> at & 1) stage_of[g->order[at]] = s;
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
    cutter c = {.g = g, .unit_device = unit_device};
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
