/* mixed/merged.c - a problem whose units are blocks of another one's: the coarse graph of
 * multilevel refinement (Hendrickson, Leland, "A multilevel algorithm for partitioning graphs", SC
 * 1995; Walshaw, "Multilevel refinement for combinatorial optimisation problems", Annals of
 * Operations Research 131, 2004). It is the same problem with more ties. */
#include <string.h>

#include "mixed/merged.h"

enum { LEAST_A_DEVICE = 2 }; /* of the largest blocks */

typedef struct block {
    ft_load sums; /* bytes alone */
    double work;
    bool *fits, *now; /* by device: whether it may be there, and with one more unit */
} block;

/* Takes the unit in; false, and nothing is changed, when no device would be left or the block would
 * be more than half of what some device has to do at least. */
static bool join(const ft_ground *g, int unit, block *b)
{
    int n_devices = g->problem->n_devices;
    double work = b->work + g->work[unit];
    ft_load with = {.fixed = b->sums.fixed + g->weight[unit].fixed,
                    .saved = b->sums.saved + g->weight[unit].saved};
    bool any = false;
    if (b->work > 0 && work > g->lower_bound_ns / LEAST_A_DEVICE) return false;
    for (int d = 0; d < n_devices; d++) {
        b->now[d] = b->fits[d] && ft_ground_allows(g, unit, d) && ft_load_fits(g, &with, d, 1);
        any |= b->now[d];
    }
    if (!any) return false;
    b->sums = with;
    b->work = work;
    memcpy(b->fits, b->now, (size_t)n_devices * sizeof *b->fits);
    return true;
}

/* By node, the number of its block. */
static bool tie_blocks(const ft_ground *g, const blocks *list, int *tie)
{
    int n_devices = g->problem->n_devices, number = -1;
    block b = {.fits = ft_arena_array(g->arena, 2 * (int64_t)n_devices, sizeof *b.fits)};
    if (!b.fits) return false;
    b.now = b.fits + n_devices;
    for (int k = 0; k < list->n; k++)
        for (int i = list->first[k]; i < list->first[k + 1]; i++) {
            int unit = list->list[i];
            if (i == list->first[k] || !join(g, unit, &b)) {
                number++;
                b = (block){.fits = b.fits, .now = b.now};
                memset(b.fits, true, (size_t)n_devices * sizeof *b.fits);
                join(g, unit, &b); /* a unit alone is on some device */
            }
            for (int at = g->unit_first[unit]; at < g->unit_first[unit + 1]; at++)
                tie[g->unit_nodes[at]] = number;
        }
    return true;
}

bool merged_new(merged *m, const ft_ground *g, int wanted, uint64_t rule)
{
    ft_ground own = *g; /* what is needed until the blocks are tied */
    ft_error err;
    blocks b;
    *m = (merged){.problem = *g->problem};
    if (wanted > g->n_units / 2) wanted = g->n_units / 2;
    if (wanted < 1) wanted = 1; /* a single unit has no fewer blocks */
    int *tie = NULL;
    if (!(own.arena = ft_arena_new())) return false;
    int *order = ft_arena_array(own.arena, g->n_units, sizeof *order);
    bool ok = order && order_units(&own, rule, order) &&
              coarsen(&own, COARSEN_MATCHING, order, wanted, &b) &&
              (tie = ft_arena_array(own.arena, g->n, sizeof *tie)) && tie_blocks(&own, &b, tie);
    m->problem.tie = tie;
    ok = ok && ft_ground_new(&m->g, &m->problem, g->options, g->cost, &err) == FT_OK;
    ft_arena_free(own.arena);
    m->problem.tie = NULL; /* what units are is in the ground */
    if (!ok) return false;
    m->g.tally = g->tally;
    m->g.deadline = g->deadline;
    m->order = ft_arena_array(m->g.arena, m->g.n_units, sizeof *m->order);
    return m->order && order_units(&m->g, 0, m->order) && placing_new(&m->p, &m->g) &&
           clusters_make(&m->g, &m->groups);
}

void merged_free(merged *m)
{
    ft_ground_free(&m->g);
}
