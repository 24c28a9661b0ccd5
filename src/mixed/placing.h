/* mixed/placing.h - a placement that is changed step by step. */
#ifndef FT_MIXED_PLACING_H
#define FT_MIXED_PLACING_H

#include "problem/ground.h"

/* A value that copies are made of where devices enough use it. */
typedef struct wide_net {
    int net, maker;
    int64_t bytes;
} wide_net;

/* Units on devices, with the sums of every device kept up to date, and prices when asked for. */
typedef struct placing {
    const ft_ground *g;
    int64_t steps;   /* work done: values of units that moved */
    int *device;     /* by unit; -1: nowhere yet */
    ft_load *sums;   /* by device */
    double *price;   /* as placing_price left it */
    int *count;      /* of units, by device */
    int *spread;     /* by net: devices that hold some of it */
    int *wide_first; /* by unit, CSR: nets of three units and more that carry something */
    wide_net *wide;
    int *touched, n_touched; /* devices whose sums changed, each once; see placing_watch */
    int *stale, n_stale;     /* devices whose price is not that of their sums, each once */
    bool *is_touched, *is_stale;
    int *held;           /* [device][net], see ft_load_change */
    int last_device;     /* that is known to have the last stage, or -1 */
    double last_gain_ns; /* by which that stage is faster than elsewhere, before the slowdown */
} placing;

/* Blocks that are placed as one: units of block b are list[first[b]] ... */
typedef struct blocks {
    int n;
    const int *first, *list;
} blocks;

/* An empty placement in the ground's arena; false without memory. */
bool placing_new(placing *p, const ft_ground *g);
/* Puts the unit on a device (or nowhere, -1). */
void placing_move(placing *p, int unit, int device);
/* Begins the list of touched devices anew. */
void placing_watch(placing *p);
/* Prices the devices whose sums changed. */
void placing_price(placing *p);
/* Prices all devices anew, without the rounding that moves leave behind. */
void placing_set(placing *p, const int *device);
double placing_slowest(placing *p);
/* Says what the last stage saves its device; -1: nothing is known. */
void placing_gain(placing *p, int device, double ns);
/* Whether memory, pins and the limits on stages hold. *slowest_ns, if not NULL and they do: the
 * slowest device, with the last stage at its own profile. */
bool placing_valid(placing *p, double *slowest_ns);
int64_t placing_moved(const placing *p);

/* Largest first, then branch and bound over all placements of the blocks, at most `budget` steps:
 * the placement with the fastest slowest device into `device` by unit. Returns its price, HUGE_VAL
 * when none was found, -1 without memory; *whole: all were considered. */
double assign_blocks(const ft_ground *g, const blocks *b, int64_t budget, int *device, bool *whole);

/* A topological order cut into intervals. Merging neighbours never makes a cycle. */
typedef struct sequence {
    const ft_ground *g;
    int n;          /* intervals */
    int wanted;     /* that are wanted in the end */
    double *ns;     /* by interval: its work */
    double *cut_ns; /* by interval: the time to send what crosses its end */
    int *count;     /* units */
    int *begin;     /* place of its first unit in the order */
    int n_units;
} sequence;

/* Rules that cut an order of units into blocks. */
int coarsen_rules(void);
enum { COARSEN_MATCHING = 5 }; /* heavy cuts between light blocks go first */
/* Cuts the order of units by rule i into `wanted`; blocks are in the ground's arena. */
bool coarsen(const ft_ground *g, int rule, const int *order, int wanted, blocks *out);
/* An order of units, topological where ties allow one; the rules are those of ft_dag_order. */
bool order_units(const ft_ground *g, uint64_t rule, int *order);

#endif
