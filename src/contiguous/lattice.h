/* contiguous/lattice.h - down-sets of a graph, and the best way to cut it along them. */
#ifndef FT_CONTIGUOUS_LATTICE_H
#define FT_CONTIGUOUS_LATTICE_H

#include "contiguous/elements.h"

/* Down-sets in an order of growing size: state 0 is empty, the last one is everything. From state s
 * element step_element[i] leads to state step_state[i], for i in step_first[s] ... */
typedef struct lattice {
    int n, n_elements;
    int *step_first, *step_element, *step_state;
    uint64_t *sets; /* bits of set s: sets[s * words ...]; NULL: s is the first s of `place` */
    int words;
    int *place; /* by element, of a chain */
} lattice;

/* All down-sets when there are at most `most`. *too_many when there are more; false: no memory. */
bool lattice_all(const ft_ground *g, const ft_elements *e, int64_t most, lattice *out,
                 bool *too_many);
/* Those that an order of the elements passes. */
bool lattice_chain(const ft_ground *g, const ft_elements *e, const int *order, lattice *out);

/* Whether the element is in set s. */
bool lattice_holds(const lattice *l, int s, int element);

/* The best cut along a lattice that is not slower than limit_ns; unit -> device, and the stage
 * of each unit. *all_orders: whether unequal devices were tried in every order, and not only in the
 * one given, as where that is asked for or where there are too many combinations of them. Returns
 * HUGE_VAL when there is none, or none within the limit of work; -1 without memory. */
double lattice_cut(const ft_ground *g, const ft_elements *e, const lattice *l, double limit_ns,
                   int *unit_device, int *unit_stage, bool *all_orders);

#endif
