/* partition/seq.c - the contiguous optimum: every device gets one stage that nothing leaves and
 * enters again. Exact over the down-sets of the graph while there are not too many; beyond that the
 * best over several topological orders. */
#include <math.h>
#include <string.h>

#include "partition/lattice.h"
#include "partition/orders.h"
#include "partition/table.h"

enum { N_ORDERS = 8, MOST_DOWN_SETS = 60000, ORDERED_ELEMENTS = 12000 };

static const double FIRST_STEP = 0.004; /* from the lower bound on, relatively */

typedef struct seq {
    ground *g;
    elements e;
    int *device, *stage, *best_device, *best_stage; /* by unit */
    double best_ns;
    int64_t states;
} seq;

static bool seq_new(seq *s, ground *g)
{
    *s = (seq){.g = g, .best_ns = HUGE_VAL};
    if (!elements_make(g, &s->e)) return false;
    int *space = ft_arena_array(g->arena, 4 * (int64_t)g->n_units, sizeof *space);
    s->device = space;
    if (!space) return false;
    s->stage = space + g->n_units;
    s->best_device = space + 2 * g->n_units;
    s->best_stage = space + 3 * g->n_units;
    return true;
}

/* Cuts along the lattice; false without memory. */
static bool cut(seq *s, const lattice *l, double limit_ns)
{
    double ns = lattice_cut(s->g, &s->e, l, limit_ns, s->device, s->stage);
    if (ns < 0) return false;
    s->states += l->n;
    if (ns >= s->best_ns) return true;
    s->best_ns = ns;
    memcpy(s->best_device, s->device, (size_t)s->g->n_units * sizeof(int));
    memcpy(s->best_stage, s->stage, (size_t)s->g->n_units * sizeof(int));
    return true;
}

static dag dag_of(const elements *e)
{
    return (dag){e->n, e->next_first, e->next, e->back_first, e->back};
}

/* Nothing is slower than everything in one place, and every transfer besides. */
static double most_ns(const ground *g)
{
    double most = 0;
    for (int d = 0; d < g->problem->n_devices; d++) {
        const ft_partition_device *device = &g->problem->devices[d];
        double ns = 0, bytes = 0;
        for (int u = 0; u < g->n_units; u++) ns += g->weight[u].ns[device->kind];
        for (int v = 0; v < g->n_nets; v++)
            bytes += (double)(g->nets[v].bytes + g->nets[v].grad_bytes);
        if (device->bytes_per_s > 0) bytes *= 1e9 / device->bytes_per_s;
        most = fmax(most, ns * device->slowdown + (device->bytes_per_s > 0 ? bytes : 0));
    }
    return most;
}

/* Widens the limit from the lower bound on until an order can be cut within it. */
static bool cut_order(seq *s, int rule)
{
    lattice l;
    int *order = ft_arena_array(s->g->arena, s->e.n, sizeof *order);
    const dag d = dag_of(&s->e);
    if (!order || !dag_order(s->g->arena, &d, s->g->options->seed, (uint64_t)rule, order) ||
        !lattice_chain(s->g, &s->e, order, &l))
        return false;
    if (s->best_ns < HUGE_VAL) return cut(s, &l, s->best_ns);
    double step = s->g->lower_bound_ns * FIRST_STEP;
    for (double limit = s->g->lower_bound_ns + step; step > 0 && s->best_ns == HUGE_VAL;
         limit += step *= 2) {
        if (!cut(s, &l, limit)) return false;
        if (limit > most_ns(s->g)) break;
    }
    return s->best_ns < HUGE_VAL || cut(s, &l, HUGE_VAL);
}

static ft_status say_infeasible(const ground *g, ft_error *err)
{
    int64_t needed = 0, there = 0;
    for (int u = 0; u < g->n_units; u++) needed += load_bytes(&g->weight[u], 1);
    for (int d = 0; d < g->problem->n_devices; d++) {
        if (!g->problem->devices[d].memory_bytes) there = INT64_MAX / 2;
        if (there < INT64_MAX / 2) there += g->problem->devices[d].memory_bytes;
    }
    return ft_fail(err, FT_INFEASIBLE,
                   "partition: no contiguous cut of %d nodes on %d devices keeps memory and pins: "
                   "nodes need %lld bytes, devices have %lld%s",
                   g->n, g->problem->n_devices, (long long)needed, (long long)there,
                   there >= INT64_MAX / 2 ? " or no limit" : "");
}

ft_status solve_seq(ground *g, ft_partition_result *result, ft_error *err)
{
    seq s;
    lattice all;
    bool too_many = false;
    int64_t most = g->options->max_down_sets ? g->options->max_down_sets : MOST_DOWN_SETS;
    if (!seq_new(&s, g) || !cut_order(&s, 0)) return ground_no_memory(g, err);
    const dag d = dag_of(&s.e);
    int width = dag_width(g->arena, &d);
    if (width < 0) return ground_no_memory(g, err);
    if (width >= 24 || 1 << width > most)
        too_many = true;
    else if (!lattice_all(g, &s.e, most, &all, &too_many))
        return ground_no_memory(g, err);
    if (!too_many && !cut(&s, &all, s.best_ns)) return ground_no_memory(g, err);
    for (int rule = 1; too_many && rule < N_ORDERS && rule * s.e.n <= ORDERED_ELEMENTS; rule++)
        if (!cut_order(&s, rule)) return ground_no_memory(g, err);
    if (ground_stopped(g)) return ground_cancelled(err);
    if (s.best_ns == HUGE_VAL) return say_infeasible(g, err);
    int *stage_of = ft_arena_array(g->arena, g->n, sizeof *stage_of);
    if (!stage_of) return ground_no_memory(g, err);
    for (int i = 0; i < g->n; i++) stage_of[i] = s.best_stage[g->unit[i]];
    FT_TRY(result_make(g, s.best_device, stage_of, result, err));
    result->proved = !too_many;
    result->down_sets = s.states;
    return FT_OK;
}
