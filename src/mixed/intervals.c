/* mixed/intervals.c - a placement kept as intervals of a topological order. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mixed/intervals.h"

/* -- from a placement -------------------------------------------------------------------------- */

typedef struct sorting {
    const int *stage, *place; /* by unit */
} sorting;

static int compare_units(const void *left, const void *right, void *context)
{
    const sorting *s = context;
    int a = *(const int *)left, b = *(const int *)right;
    if (s->stage[a] != s->stage[b]) return s->stage[a] < s->stage[b] ? -1 : 1;
    return (s->place[a] > s->place[b]) - (s->place[a] < s->place[b]);
}

/* Halves the longest block. */
static void split_longest(intervals *v)
{
    int longest = 0;
    for (int b = 1; b < v->n; b++)
        if (v->begin[b + 1] - v->begin[b] > v->begin[longest + 1] - v->begin[longest]) longest = b;
    int middle = (v->begin[longest] + v->begin[longest + 1]) / 2;
    size_t behind = (size_t)(v->n - longest);
    memmove(&v->begin[longest + 2], &v->begin[longest + 1], behind * sizeof *v->begin);
    memmove(&v->device[longest + 1], &v->device[longest], behind * sizeof *v->device);
    v->begin[longest + 1] = middle;
    v->n++;
}

/* Blocks of the units in order: one for each stage. */
static void cut_stages(intervals *v, const int *order, const int *stage, const int *unit_device)
{
    for (int i = 0; i < v->n_units; i++) {
        if (i && stage[order[i]] == stage[order[i - 1]]) continue;
        v->begin[v->n] = i;
        v->device[v->n++] = unit_device[order[i]];
    }
    v->begin[v->n] = v->n_units;
}

static bool sum_gains(intervals *v, const ft_ground *g)
{
    int n = v->n_units;
    if (!g->problem->last_ns) return true;
    v->gain_ns = ft_arena_array(g->arena, g->problem->n_kinds * (int64_t)(n + 1), sizeof(double));
    if (!v->gain_ns) return false;
    for (int k = 0; k < g->problem->n_kinds; k++) {
        double *gain = &v->gain_ns[(int64_t)k * (n + 1)];
        for (int i = 0; i < n; i++) {
            const ft_load *w = &g->weight[v->order[i]];
            gain[i + 1] = gain[i] + w->ns[k] - w->last_ns[k];
        }
    }
    return true;
}

bool intervals_new(intervals *v, const ft_ground *g, const int *unit_device, int wanted,
                   uint64_t rule)
{
    int n = g->n_units, room = (wanted > n ? wanted : n) + 2;
    int *order = ft_arena_array(g->arena, 3 * (int64_t)n, sizeof *order);
    int *stage_of = ft_arena_array(g->arena, 2 * (int64_t)g->n, sizeof *stage_of);
    int *space = ft_arena_array(g->arena, 4 * (int64_t)room, sizeof *space);
    if (!order || !stage_of || !space || !order_units(g, rule, order)) return false;
    if (ft_stages_make(g, unit_device, 0, stage_of, stage_of + g->n) < 0) return false;
    int *place = order + n, *stage = order + 2 * n;
    for (int i = 0; i < n; i++) {
        place[order[i]] = i;
        stage[i] = stage_of[g->unit_nodes[g->unit_first[i]]];
    }
    qsort_r(order, (size_t)n, sizeof *order, compare_units, &(sorting){stage, place});
    *v = (intervals){.n_units = n,
                     .order = order,
                     .begin = space,
                     .device = space + room,
                     .old_begin = space + 2 * room,
                     .old_device = space + 3 * room};
    cut_stages(v, order, stage, unit_device);
    while (v->n < wanted) split_longest(v);
    return sum_gains(v, g);
}

/* -- changes ----------------------------------------------------------------------------------- */

static int below(ft_rng *rng, int n)
{
    return (int)ft_rng_below(rng, (uint64_t)n);
}

/* Lengths are uniform in the logarithm. */
static int pick_length(ft_rng *rng, int most)
{
    return most < 2 ? most : (int)exp(ft_rng_uniform(rng) * log(most + 1));
}

/* A border takes units from the block on one side of it. */
static bool shift(intervals *v, ft_rng *rng, int slowest, int *from, int *to)
{
    if (v->n < 2) return false;
    int border = 0;
    for (int attempt = 0; attempt < 6; attempt++) {
        border = 1 + below(rng, v->n - 1);
        if (v->device[border] == v->device[border - 1]) continue;
        if (v->device[border] == slowest || v->device[border - 1] == slowest) break;
    }
    int at = v->begin[border], left = at - v->begin[border - 1], right = v->begin[border + 1] - at;
    bool shrink =
        v->device[border - 1] == slowest || (v->device[border] != slowest && below(rng, 2));
    if (below(rng, 8) == 0) shrink = !shrink;
    if (shrink)
        v->begin[border] -= pick_length(rng, left);
    else
        v->begin[border] += pick_length(rng, right);
    *from = at < v->begin[border] ? at : v->begin[border];
    *to = at < v->begin[border] ? v->begin[border] : at;
    return *from < *to && v->device[border] != v->device[border - 1];
}

static bool swap_devices(intervals *v, ft_rng *rng, int *from, int *to)
{
    int a = below(rng, v->n), b = below(rng, v->n);
    int first = a < b ? a : b, last = a < b ? b : a, device = v->device[a];
    if (device == v->device[b]) return false;
    v->device[a] = v->device[b];
    v->device[b] = device;
    *from = v->begin[first];
    *to = v->begin[last + 1];
    return *from < *to;
}

static bool give(intervals *v, ft_rng *rng, int n_devices, int *from, int *to)
{
    int block = below(rng, v->n), device = below(rng, n_devices);
    *from = v->begin[block];
    *to = v->begin[block + 1];
    if (v->device[block] == device || *from == *to) return false;
    v->device[block] = device;
    return true;
}

/* A block joins the one before it, and another one is cut in two. */
static bool relocate(intervals *v, ft_rng *rng, int n_devices, int *from, int *to)
{
    if (v->n < 2) return false;
    int gone = 1 + below(rng, v->n - 1), begin = v->begin[gone], end = v->begin[gone + 1];
    memmove(&v->begin[gone], &v->begin[gone + 1], (size_t)(v->n - gone) * sizeof *v->begin);
    memmove(&v->device[gone], &v->device[gone + 1], (size_t)(v->n - 1 - gone) * sizeof *v->device);
    int at = below(rng, v->n_units), split = 0;
    while (split + 2 < v->n && v->begin[split + 1] <= at) split++;
    memmove(&v->begin[split + 2], &v->begin[split + 1], (size_t)(v->n - 1 - split) * sizeof(int));
    memmove(&v->device[split + 1], &v->device[split], (size_t)(v->n - 1 - split) * sizeof(int));
    v->begin[split + 1] = at;
    v->device[split + below(rng, 2)] = below(rng, n_devices);
    *from = begin < v->begin[split] ? begin : v->begin[split];
    *to = end > v->begin[split + 2] ? end : v->begin[split + 2];
    return true;
}

bool intervals_propose(intervals *v, ft_rng *rng, int slowest, int n_devices, int *from, int *to)
{
    memcpy(v->old_begin, v->begin, (size_t)(v->n + 1) * sizeof *v->begin);
    memcpy(v->old_device, v->device, (size_t)v->n * sizeof *v->device);
    int kind = below(rng, 32);
    bool changed = kind == 0   ? swap_devices(v, rng, from, to)
                   : kind == 1 ? give(v, rng, n_devices, from, to)
                   : kind == 2 ? relocate(v, rng, n_devices, from, to)
                               : shift(v, rng, slowest, from, to);
    if (!changed) intervals_undo(v);
    return changed;
}

void intervals_undo(intervals *v)
{
    int *begin = v->begin, *device = v->device;
    v->begin = v->old_begin;
    v->device = v->old_device;
    v->old_begin = begin;
    v->old_device = device;
}

int intervals_block(const intervals *v, int place)
{
    int low = 0, high = v->n - 1; /* the last block that begins at or before the place */
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (v->begin[middle] <= place)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

void intervals_last(const intervals *v, const ft_ground *g, int *device, double *ns)
{
    int b = v->n - 1, n = v->n_units;
    while (v->begin[b] == n) b--;
    *device = v->device[b];
    while (b > 0 && (v->device[b - 1] == *device || v->begin[b - 1] == v->begin[b])) b--;
    const double *gain = &v->gain_ns[(int64_t)g->problem->devices[*device].kind * (n + 1)];
    *ns = gain[n] - gain[v->begin[b]];
}
