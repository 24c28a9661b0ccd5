/* mixed/anneal.c - simulated annealing of placements (Kirkpatrick, Gelatt, Vecchi, Science 220,
 * 1983).
 *
 * The energy is by how much devices are above a target, summed, and by how much they are over
 * their memory. Once it is zero the placement is better than any before, and the target falls. */
#include <math.h>
#include <string.h>

#include "mixed/anneal.h"

enum { LONGEST_RUN = 512, CHECKED_EVERY = 512 };
static const double BETTER = 1e-4; /* by which a placement is faster than the one before it */

typedef struct change {
    int unit, device; /* the device it was on */
} change;

typedef struct annealing {
    placing *p;
    const cooling *how;
    ft_rng *rng;
    double target, energy;
    double *excess, *after; /* by device: as it is, and after the changes */
    bool limited;           /* stages are limited: placements have to stay valid */
    change *changes;
    int n_changes, room;
} annealing;

bool incumbent_offer(incumbent *best, placing *p, int from)
{
    double price = placing_slowest(p);
    int64_t moved = placing_moved(p);
    bool guessed = p->g->problem->last_ns && p->last_device < 0; /* the last stage may save some */
    if (!guessed && (price > best->price || (price == best->price && moved >= best->moved)))
        return false;
    if (!placing_valid(p, &price)) return false;
    if (price > best->price || (price == best->price && moved >= best->moved)) return false;
    best->price = price;
    best->moved = moved;
    best->from = from;
    for (int i = 0; i < p->g->n; i++) best->device[i] = p->device[p->g->unit[i]];
    return true;
}

/* Memory weighs as much as time, each relative to its limit, twice over. */
static double excess_of(const annealing *a, int device)
{
    const ft_ground *g = a->p->g;
    double above = a->p->price[device] - a->target, excess = above > 0 ? above : 0;
    int64_t limit = g->problem->devices[device].memory_bytes;
    int64_t bytes = ft_load_bytes(&a->p->sums[device], 1);
    if (limit && bytes > limit)
        excess += a->target * (0.02 + 2 * (double)(bytes - limit) / (double)limit);
    return excess;
}

static void sum_energy(annealing *a)
{
    a->energy = 0;
    placing_price(a->p);
    for (int d = 0; d < a->p->g->problem->n_devices; d++)
        a->energy += a->excess[d] = excess_of(a, d);
}

static bool move(annealing *a, int unit, int device)
{
    if (a->n_changes == a->room || a->p->device[unit] == device ||
        (a->how->held && a->how->held[unit]) || !ft_ground_allows(a->p->g, unit, device))
        return false;
    a->changes[a->n_changes++] = (change){unit, a->p->device[unit]};
    placing_move(a->p, unit, device);
    return true;
}

static int below(annealing *a, int n)
{
    return (int)ft_rng_below(a->rng, (uint64_t)n);
}

/* A device where a neighbour of the unit is, or any. */
static int pick_device(annealing *a, int unit)
{
    const ft_ground *g = a->p->g;
    int n_nets = g->pins_first[unit + 1] - g->pins_first[unit];
    if (n_nets == 0 || below(a, 2)) return below(a, g->problem->n_devices);
    const ft_net *v = &g->nets[g->pins[g->pins_first[unit] + below(a, n_nets)].net];
    return a->p->device[v->units[below(a, v->n_units)]];
}

/* Runs of all sizes: their lengths are uniform in the logarithm. */
static void move_run(annealing *a)
{
    int n = a->p->g->n_units, most = n / 3 + 2 < LONGEST_RUN ? n / 3 + 2 : LONGEST_RUN;
    int begin = below(a, n), length = (int)(2 * exp(ft_rng_uniform(a->rng) * log(most / 2.0)));
    int from = a->p->device[a->how->order[begin]], to = pick_device(a, a->how->order[begin]);
    bool only_from = below(a, 2);
    for (int i = begin; i < n && i < begin + length; i++)
        if (!only_from || a->p->device[a->how->order[i]] == from) move(a, a->how->order[i], to);
}

/* Moves units of one device, from a place in the order on, until they are so many or so much work
 * has moved; returns the work. */
static double move_from(annealing *a, int place, int to, int most, double work)
{
    const ft_ground *g = a->p->g;
    const int *order = a->how->order;
    int from = a->p->device[order[place]];
    double moved = 0;
    for (int i = place; i < g->n_units && i < place + most && moved < work; i++)
        if (a->p->device[order[i]] == from && move(a, order[i], to)) moved += g->work[order[i]];
    return moved;
}

/* Runs of two devices change places; the second is about as much work as the first. */
static void exchange(annealing *a)
{
    int n = a->p->g->n_units, most = n / 3 + 2 < LONGEST_RUN ? n / 3 + 2 : LONGEST_RUN;
    int x = below(a, n), y = below(a, n);
    int from = a->p->device[a->how->order[x]], to = a->p->device[a->how->order[y]];
    if (from == to) return;
    int length = (int)(2 * exp(ft_rng_uniform(a->rng) * log(most / 2.0)));
    double work = move_from(a, x, to, length, HUGE_VAL);
    if (a->p->device[a->how->order[y]] == to && work > 0 && (y < x || y >= x + length))
        move_from(a, y, from, most, work);
}

/* All that make and use a value come to one device: bringing some of them gains nothing. */
static void gather(annealing *a)
{
    const ft_ground *g = a->p->g;
    if (!g->n_nets) return;
    const ft_net *v = &g->nets[below(a, g->n_nets)];
    int to = below(a, 2) ? a->p->device[v->maker] : below(a, g->problem->n_devices);
    for (int i = 0; i < v->n_units; i++) move(a, v->units[i], to);
}

static void swap(annealing *a)
{
    int n = a->p->g->n_units, x = below(a, n), y = below(a, n);
    int dx = a->p->device[x], dy = a->p->device[y];
    if (dx != dy && ft_ground_allows(a->p->g, x, dy) && ft_ground_allows(a->p->g, y, dx)) {
        move(a, x, dy);
        move(a, y, dx);
    }
}

/* The stage of the last block saves its device some time. */
static void follow_last(annealing *a)
{
    int device;
    double ns;
    if (!a->p->g->problem->last_ns) return;
    intervals_last(a->how->blocks, a->p->g, &device, &ns);
    placing_gain(a->p, device, ns);
}

static void undo(annealing *a)
{
    while (a->n_changes) {
        const change *c = &a->changes[--a->n_changes];
        placing_move(a->p, c->unit, c->device);
    }
    if (!a->how->blocks) return;
    intervals_undo(a->how->blocks);
    follow_last(a);
}

/* Units go where their blocks are; nothing is changed when one of them may not. */
static void propose_blocks(annealing *a)
{
    intervals *v = a->how->blocks;
    int slowest = 0, n_devices = a->p->g->problem->n_devices, from, to;
    placing_price(a->p);
    for (int d = 1; d < n_devices; d++)
        if (a->p->price[d] > a->p->price[slowest]) slowest = d;
    if (!intervals_propose(v, a->rng, slowest, n_devices, &from, &to)) return;
    int block = intervals_block(v, from);
    for (int i = from; i < to; i++) {
        while (v->begin[block + 1] <= i) block++;
        int unit = v->order[i], device = v->device[block];
        if (a->p->device[unit] == device || move(a, unit, device)) continue;
        undo(a);
        return;
    }
    follow_last(a);
}

/* A cluster of any level goes where a neighbour of one of its units is; two may change places. */
static void move_cluster(annealing *a)
{
    const clusters *c = a->how->groups;
    int level = below(a, c->n_levels), unit = below(a, a->p->g->n_units);
    int from = a->p->device[unit], to = pick_device(a, unit);
    bool only_from = below(a, 2);
    const int *first = &c->first[level][c->of[level][unit]];
    for (int i = first[0]; i < first[1]; i++)
        if (!only_from || a->p->device[c->list[level][i]] == from) move(a, c->list[level][i], to);
    if (below(a, 4)) return;
    int other = below(a, a->p->g->n_units);
    first = &c->first[level][c->of[level][other]];
    if (c->of[level][other] == c->of[level][unit] || a->p->device[other] != to) return;
    for (int i = first[0]; i < first[1]; i++)
        if (a->p->device[c->list[level][i]] == to) move(a, c->list[level][i], from);
}

static void propose(annealing *a)
{
    int kind = below(a, a->how->groups ? 13 : 9);
    a->n_changes = 0;
    if (a->how->blocks) {
        propose_blocks(a);
    } else if (kind < 4) {
        int unit = below(a, a->p->g->n_units);
        move(a, unit, pick_device(a, unit));
    } else if (kind == 8) {
        exchange(a);
    } else if (kind > 8) {
        move_cluster(a);
    } else if (kind < 6) {
        swap(a);
    } else if (kind == 6) {
        gather(a);
    } else {
        move_run(a);
    }
}

/* By how much the changes raise the energy; only devices whose price they touched are looked at. */
static double energy_rise(annealing *a)
{
    double rise = 0;
    placing_price(a->p);
    for (int t = 0; t < a->p->n_touched; t++) {
        int d = a->p->touched[t];
        a->after[d] = excess_of(a, d);
        rise += a->after[d] - a->excess[d];
    }
    return rise;
}

static void accept_rise(annealing *a, double rise)
{
    for (int t = 0; t < a->p->n_touched; t++) {
        int d = a->p->touched[t];
        a->excess[d] = a->after[d];
    }
    a->energy += rise;
}

static bool step(annealing *a, double temperature)
{
    placing_watch(a->p);
    propose(a);
    if (!a->n_changes) return false;
    double rise = energy_rise(a);
    bool accept = rise <= 0 || ft_rng_uniform(a->rng) < exp(-rise / temperature);
    if (accept && a->limited) accept = placing_valid(a->p, NULL);
    if (!accept) {
        undo(a);
        return false;
    }
    accept_rise(a, rise);
    return true;
}

static bool annealing_new(annealing *a, placing *p, const cooling *how, ft_rng *rng)
{
    const ft_ground *g = p->g;
    *a = (annealing){.p = p, .how = how, .rng = rng, .room = g->n_units + 2};
    a->excess = ft_arena_array(g->arena, g->problem->n_devices, sizeof *a->excess);
    a->after = ft_arena_array(g->arena, g->problem->n_devices, sizeof *a->after);
    a->changes = ft_arena_array(g->arena, a->room, sizeof *a->changes);
    return a->excess && a->after && a->changes;
}

bool anneal(placing *p, const cooling *how, ft_rng *rng, incumbent *best)
{
    const ft_ground *g = p->g;
    annealing a;
    if (!annealing_new(&a, p, how, rng)) return false;
    if (how->blocks) follow_last(&a);
    a.limited = !how->blocks && ft_stages_limited(g) && placing_valid(p, NULL);
    double known = fmin(best->price, placing_slowest(p)), floor_ns = g->lower_bound_ns;
    a.target = fmax(floor_ns, known * (1 - how->aim));
    sum_energy(&a);
    int64_t begin = p->steps;
    for (int64_t i = 0; p->steps - begin < how->steps; i++, p->steps++) {
        double left = 1 - (double)(p->steps - begin) / (double)how->steps;
        double temperature = a.target * (how->heat * left * left + 1e-7);
        if (i % CHECKED_EVERY == 0) {
            if (ft_ground_stopped(g) || ft_ground_late(g)) break;
            if (best->price <= floor_ns * (1 + 1e-12)) break;
            sum_energy(&a); /* without what rounding has left */
        }
        if (!step(&a, temperature) || placing_slowest(p) > best->price * (1 - BETTER)) continue;
        if (!incumbent_offer(best, p, how->from)) continue;
        a.target = fmax(floor_ns, best->price * (1 - how->aim));
        sum_energy(&a);
    }
    ft_ground_spend(g, p->steps - begin);
    return true;
}

bool settle(placing *p, const cooling *how, ft_rng *rng, incumbent *best)
{
    annealing a;
    int64_t moved = best->moved;
    if (!annealing_new(&a, p, how, rng)) return false;
    a.target = best->price;
    if (how->blocks) follow_last(&a);
    sum_energy(&a);
    int64_t begin = p->steps;
    for (int64_t i = 0; p->steps - begin < how->steps; i++, p->steps++) {
        if (i % CHECKED_EVERY == 0 && ft_ground_stopped(p->g)) break;
        placing_watch(p);
        propose(&a);
        if (!a.n_changes) continue;
        double rise = energy_rise(&a);
        int64_t now = placing_moved(p);
        bool keep = rise <= a.target * 1e-12 && now <= moved;
        if (keep && now < moved) keep = incumbent_offer(best, p, best->from);
        if (!keep) {
            undo(&a);
            continue;
        }
        accept_rise(&a, rise);
        moved = now;
    }
    return true;
}
