/* mixed/placing.c - a placement that is changed step by step, and its assignment from blocks.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mixed/placing.h"

enum { USUAL_VISITS = 4 }; /* at most, of nodes and edges, as stages that are few are made */

/* Nets of which more than one copy can be sent, as each of their units sees them. */
static bool index_wide(placing *p)
{
    const ft_ground *g = p->g;
    int n = 0;
    p->wide_first = ft_arena_array(g->arena, g->n_units + 1, sizeof *p->wide_first);
    p->wide = ft_arena_array(g->arena, g->pins_first[g->n_units] + 1, sizeof *p->wide);
    if (!p->wide_first || !p->wide) return false;
    for (int u = 0; u < g->n_units; u++) {
        p->wide_first[u] = n;
        for (int i = g->pins_first[u]; g->cost->each_destination && i < g->pins_first[u + 1]; i++) {
            const ft_pin *pin = &g->pins[i];
            const ft_net *v = &g->nets[pin->net];
            if (v->n_units > 2 && v->bytes) p->wide[n++] = (wide_net){pin->net, v->maker, v->bytes};
        }
    }
    p->wide_first[g->n_units] = n;
    return true;
}

bool placing_new(placing *p, const ft_ground *g)
{
    int64_t n_devices = g->problem->n_devices;
    *p = (placing){.g = g, .last_device = -1};
    p->device = ft_arena_array(g->arena, g->n_units, sizeof *p->device);
    p->sums = ft_arena_array(g->arena, n_devices, sizeof *p->sums);
    p->price = ft_arena_array(g->arena, n_devices, sizeof *p->price);
    p->count = ft_arena_array(g->arena, n_devices, sizeof *p->count);
    p->spread = ft_arena_array(g->arena, g->n_nets + 1, sizeof *p->spread);
    p->touched = ft_arena_array(g->arena, n_devices, sizeof *p->touched);
    p->is_touched = ft_arena_array(g->arena, n_devices, sizeof *p->is_touched);
    p->stale = ft_arena_array(g->arena, n_devices, sizeof *p->stale);
    p->is_stale = ft_arena_array(g->arena, n_devices, sizeof *p->is_stale);
    p->held = ft_arena_array(g->arena, n_devices * (g->n_nets + 1), sizeof *p->held);
    if (!p->device || !p->sums || !p->price || !p->count || !p->held || !p->spread || !p->touched ||
        !p->is_touched || !p->stale || !p->is_stale || !index_wide(p))
        return false;
    for (int u = 0; u < g->n_units; u++) p->device[u] = -1;
    return true;
}

static double price_with(const placing *p, int device, double gain_ns)
{
    ft_load sums = p->sums[device];
    sums.ns[p->g->problem->devices[device].kind] -= gain_ns;
    return ft_load_price(p->g, &sums, device, false);
}

void placing_watch(placing *p)
{
    while (p->n_touched) p->is_touched[p->touched[--p->n_touched]] = false;
}

static void touch(placing *p, int device)
{
    if (!p->is_touched[device]) p->touched[p->n_touched++] = device;
    if (!p->is_stale[device]) p->stale[p->n_stale++] = device;
    p->is_touched[device] = p->is_stale[device] = true;
}

void placing_price(placing *p)
{
    while (p->n_stale) {
        int device = p->stale[--p->n_stale];
        p->is_stale[device] = false;
        p->price[device] = device == p->last_device
                               ? price_with(p, device, p->last_gain_ns)
                               : ft_load_price(p->g, &p->sums[device], device, false);
    }
}

void placing_gain(placing *p, int device, double ns)
{
    int before = p->last_device;
    if (before == device && p->last_gain_ns == ns) return;
    p->last_device = device;
    p->last_gain_ns = ns;
    if (before >= 0) touch(p, before);
    if (device >= 0) touch(p, device);
}

/* Copies of a value beyond the first that its maker's device sends, when so many devices hold some
 * of it. */
static int copies(int spread)
{
    return spread > 2 ? spread - 2 : 0;
}

/* After a unit came to a device or left it: what the makers of its values send. */
static void follow_copies(placing *p, int unit, int device, int sign)
{
    const int *held = p->held + (int64_t)device * (p->g->n_nets + 1);
    for (int i = p->wide_first[unit]; i < p->wide_first[unit + 1]; i++) {
        const wide_net *v = &p->wide[i];
        int at = v->net, before = p->spread[at];
        if (held[at] >> 1 == (sign > 0)) p->spread[at] += sign;
        int from = v->maker == unit ? device : p->device[v->maker];
        int more = copies(p->spread[at]) - copies(before);
        if (v->maker == unit) more = sign * copies(sign > 0 ? p->spread[at] : before);
        if (from < 0 || !more) continue;
        p->sums[from].out += more * v->bytes;
        if (from != device) touch(p, from);
    }
}

static void change(placing *p, int unit, int device, int sign)
{
    int64_t row = (int64_t)device * (p->g->n_nets + 1);
    ft_load_change(p->g, &p->sums[device], p->held + row, unit, sign);
    p->steps += 1 + p->g->pins_first[unit + 1] - p->g->pins_first[unit];
    follow_copies(p, unit, device, sign);
    p->count[device] += sign;
    if (!p->count[device]) p->sums[device] = (ft_load){.out = 0};
    touch(p, device);
}

void placing_move(placing *p, int unit, int device)
{
    if (p->device[unit] >= 0) change(p, unit, p->device[unit], -1);
    p->device[unit] = device;
    if (device >= 0) change(p, unit, device, 1);
}

void placing_set(placing *p, const int *device)
{
    placing_gain(p, -1, 0);
    for (int u = 0; u < p->g->n_units; u++) placing_move(p, u, -1);
    memset(p->sums, 0, (size_t)p->g->problem->n_devices * sizeof *p->sums);
    for (int d = 0; d < p->g->problem->n_devices; d++) touch(p, d);
    for (int u = 0; u < p->g->n_units; u++) placing_move(p, u, device[u]);
}

double placing_slowest(placing *p)
{
    double slowest = 0;
    placing_price(p);
    for (int d = 0; d < p->g->problem->n_devices; d++)
        if (p->price[d] > slowest) slowest = p->price[d];
    return slowest;
}

int64_t placing_moved(const placing *p)
{
    int64_t bytes = 0;
    for (int d = 0; d < p->g->problem->n_devices; d++) bytes += p->sums[d].in + p->sums[d].out_grad;
    return bytes;
}

/* Memory of a device with its stages where they are in the pipeline. */
static bool fits_in_flight(const placing *p, const int *stage_of, int n_stages, int64_t *bytes)
{
    const ft_ground *g = p->g;
    for (int d = 0; d < g->problem->n_devices; d++) bytes[d] = p->sums[d].fixed;
    for (int i = 0; i < g->n; i++)
        bytes[p->device[g->unit[i]]] +=
            ft_ground_in_flight(g, stage_of[i], n_stages) * g->problem->saved_bytes[i];
    for (int d = 0; d < g->problem->n_devices; d++)
        if (g->problem->devices[d].memory_bytes && bytes[d] > g->problem->devices[d].memory_bytes)
            return false;
    return true;
}

/* The slowest device when the last stage runs at its own profile. */
static double slowest_with_gain(const placing *p, const int *stage_of, int last, int device)
{
    const ft_ground *g = p->g;
    double slowest = 0,
           gain = ft_stages_gain_ns(g, stage_of, last, g->problem->devices[device].kind);
    for (int d = 0; d < g->problem->n_devices; d++)
        slowest = fmax(slowest, price_with(p, d, d == device ? gain : 0));
    return slowest;
}

bool placing_valid(placing *p, double *slowest_ns)
{
    const ft_ground *g = p->g;
    bool gains = slowest_ns && g->problem->last_ns;
    for (int u = 0; u < g->n_units; u++)
        if (!ft_ground_allows(g, u, p->device[u])) return false;
    for (int d = 0; d < g->problem->n_devices; d++)
        if (!ft_load_fits(g, &p->sums[d], d, 1)) return false;
    bool flight = g->problem->saved_bytes && g->problem->in_flight > 1;
    if (slowest_ns) *slowest_ns = placing_slowest(p);
    if (!flight && !gains && !ft_stages_limited(g)) return true;
    int64_t before = g->tally->steps, whole = g->n + g->problem->n_edges;
    ft_ground probe = *g;
    if (!(probe.arena = ft_arena_new())) return false;
    int *space = ft_arena_array(probe.arena, 2 * (int64_t)g->n, sizeof *space);
    int64_t *bytes = ft_arena_array(probe.arena, g->problem->n_devices, sizeof *bytes);
    int most = g->options->max_stages; /* more are not looked for */
    int n = space && bytes ? ft_stages_make(&probe, p->device, most, space, space + g->n) : -1;
    /* a measure of effort, not of time: what devices can run counts again for each stage */
    int64_t visits = (g->tally->steps - before) / USUAL_VISITS;
    p->steps += visits > whole ? visits : whole;
    bool valid = n >= 0 && ft_stages_allowed(g, space + g->n, n) &&
                 (!flight || fits_in_flight(p, space, n, bytes));
    if (valid && gains) *slowest_ns = slowest_with_gain(p, space, n - 1, space[g->n + n - 1]);
    ft_arena_free(probe.arena);
    return valid;
}

/* -- branch and bound -------------------------------------------------------------------------- */

typedef struct branching {
    placing p;
    const blocks *b;
    int *order; /* blocks, the largest first */
    double *work;
    int64_t steps, budget;
    int64_t counted; /* of p.steps, as work */
    bool spent;      /* the limit of work is passed */
    double best;
    int64_t best_moved;
    int *device; /* the best, by unit */
} branching;

static int compare_work(const void *left, const void *right, void *context)
{
    const double *work = context;
    int a = *(const int *)left, b = *(const int *)right;
    if (work[a] != work[b]) return work[a] > work[b] ? -1 : 1;
    return (a > b) - (a < b);
}

static bool same_and_empty(const branching *x, int a, int b)
{
    const ft_ground *g = x->p.g;
    const ft_partition_device *m = &g->problem->devices[a], *n = &g->problem->devices[b];
    return !x->p.count[a] && !x->p.count[b] && !g->problem->pin && !g->problem->n_forbids &&
           m->kind == n->kind && m->slowdown == n->slowdown && m->memory_bytes == n->memory_bytes &&
           m->bytes_per_s == n->bytes_per_s;
}

/* What the devices have to do alone can only grow as more is placed. */
static bool may_place(const branching *x, int block, int d)
{
    const ft_ground *g = x->p.g;
    const ft_partition_device *device = &g->problem->devices[d];
    for (int i = x->b->first[block]; i < x->b->first[block + 1]; i++)
        if (!ft_ground_allows(g, x->b->list[i], d)) return false;
    return ft_load_fits(g, &x->p.sums[d], d, 1) &&
           x->p.sums[d].ns[device->kind] * device->slowdown <= x->best;
}

static void move_block(branching *x, int block, int device)
{
    for (int i = x->b->first[block]; i < x->b->first[block + 1]; i++)
        placing_move(&x->p, x->b->list[i], device);
}

static void keep_best(branching *x)
{
    double slowest = placing_slowest(&x->p);
    int64_t moved = placing_moved(&x->p);
    if (slowest > x->best || (slowest == x->best && moved >= x->best_moved)) return;
    if (!placing_valid(&x->p, NULL)) return;
    x->best = slowest;
    x->best_moved = moved;
    memcpy(x->device, x->p.device, (size_t)x->p.g->n_units * sizeof *x->device);
}

static void count_work(branching *x)
{
    x->spent |= !ft_ground_spend(x->p.g, x->p.steps - x->counted);
    x->counted = x->p.steps;
}

/* As deep as there are blocks. */
static void branch(branching *x, int depth)
{
    int n_devices = x->p.g->problem->n_devices;
    if (depth == x->b->n) {
        keep_best(x);
        return;
    }
    int block = x->order[depth];
    bool tried[FT_PARTITION_DEVICES] = {false};
    for (int turn = 0; turn < n_devices && x->steps < x->budget && !x->spent; turn++) {
        int least = -1; /* devices by increasing price */
        placing_price(&x->p);
        for (int d = 0; d < n_devices; d++)
            if (!tried[d] && (least < 0 || x->p.price[d] < x->p.price[least])) least = d;
        tried[least] = true;
        bool same = false;
        for (int d = 0; d < n_devices && !same; d++)
            same = d != least && tried[d] && same_and_empty(x, d, least);
        if (same) continue;
        x->steps++;
        move_block(x, block, least);
        if (may_place(x, block, least)) branch(x, depth + 1);
        move_block(x, block, -1);
        count_work(x);
    }
}

double assign_blocks(const ft_ground *g, const blocks *b, int64_t budget, int *device, bool *whole)
{
    branching x = {
        .b = b, .budget = budget, .best = HUGE_VAL, .best_moved = INT64_MAX, .device = device};
    x.order = ft_arena_array(g->arena, b->n, sizeof *x.order);
    x.work = ft_arena_array(g->arena, b->n, sizeof *x.work);
    if (!x.order || !x.work || !placing_new(&x.p, g)) return -1;
    for (int i = 0; i < b->n; i++) {
        x.order[i] = i;
        for (int j = b->first[i]; j < b->first[i + 1]; j++)
            x.work[i] += g->weight[b->list[j]].ns[0];
    }
    qsort_r(x.order, (size_t)b->n, sizeof *x.order, compare_work, x.work);
    branch(&x, 0);
    *whole = x.steps < x.budget && !x.spent;
    return x.best;
}
