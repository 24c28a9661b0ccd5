/* mixed/intervals.h - a placement kept as intervals of a topological order. */
#ifndef FT_MIXED_INTERVALS_H
#define FT_MIXED_INTERVALS_H

#include "mixed/placing.h"

/* Block b is the units order[begin[b]] ... order[begin[b + 1] - 1], on device[b]; blocks may be
 * empty. A placement of n blocks has at most n stages, where no unit has nodes of several blocks,
 * so that moving borders asks for no search for cycles. */
typedef struct intervals {
    int n, n_units;
    const int *order;
    int *begin, *device;         /* begin has n + 1 */
    int *old_begin, *old_device; /* before the last change */
    double *gain_ns; /* [kind][place]: what the places before it save in the last stage */
} intervals;

/* `wanted` blocks, at least as many as the placement has stages, from a placement: its stages, the
 * longest of them halved until there are enough. Units of a stage stand in the order of `rule`
 * (order_units). In the ground's arena; false without memory. */
bool intervals_new(intervals *v, const ft_ground *g, const int *unit_device, int wanted,
                   uint64_t rule);

/* Proposes a change of a border, or of the device of a block; what it means for units is what
 * differs between intervals_device before and after. `slowest` is a device whose blocks are tried
 * more often. Returns the range of places that it concerns in *from, *to; false: nothing changed.
 */
bool intervals_propose(intervals *v, ft_rng *rng, int slowest, int n_devices, int *from, int *to);
void intervals_undo(intervals *v);
/* The block that holds a place in the order. */
int intervals_block(const intervals *v, int place);

/* The device of the last stage and what running at its own profile saves there. */
void intervals_last(const intervals *v, const ft_ground *g, int *device, double *ns);

#endif
