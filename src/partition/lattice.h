/* partition/lattice.h - down-sets of a graph, and the best way to cut it along them. */
#ifndef FT_PARTITION_LATTICE_H
#define FT_PARTITION_LATTICE_H

#include "partition/internal.h"
#include "partition/orders.h"

/* Units that a contiguous partition cannot or need not separate, with their order. */
typedef struct elements {
    int n;
    int *of;                                    /* by unit */
    int *first, *list;                          /* units by element, CSR */
    int *next_first, *next, *back_first, *back; /* order among elements, CSR, no doubles */
} elements;

/* Down-sets in an order of growing size: state 0 is empty, the last one is everything. From state s
 * element step_element[i] leads to state step_state[i], for i in step_first[s] ... */
typedef struct lattice {
    int n, n_elements;
    int *step_first, *step_element, *step_state;
    uint64_t *sets; /* bits of set s: sets[s * words ...]; NULL: s is the first s of `place` */
    int words;
    int *place; /* by element, of a chain */
} lattice;

/* Units that are on cycles with each other are one element; so is a unit that costs nothing and
 * has one neighbour, with that neighbour, where memory is no question and no order is asked for. */
bool elements_make(const ground *g, elements *out);
dag elements_dag(const elements *e);
/* All down-sets when there are at most `most`. *too_many when there are more; false: no memory. */
bool lattice_all(const ground *g, const elements *e, int64_t most, lattice *out, bool *too_many);
/* Those that an order of the elements passes. */
bool lattice_chain(const ground *g, const elements *e, const int *order, lattice *out);

/* Whether the element is in set s. */
bool lattice_holds(const lattice *l, int s, int element);

/* The best cut along a lattice that is not slower than limit_ns; unit -> device, and the stage
 * of each unit. Returns HUGE_VAL when there is none,
 * -1 without memory. */
double lattice_cut(const ground *g, const elements *e, const lattice *l, double limit_ns,
                   int *unit_device, int *unit_stage);

#endif
