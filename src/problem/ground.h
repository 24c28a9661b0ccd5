/* problem/ground.h - a checked problem, as partitioners see it.
 *
 * Nodes that have to share a device are one *unit*; a search places units. A *net* is a value with
 * the units that make and use it: a device pays for it when it holds some of them, but not all. */
#ifndef FT_PROBLEM_GROUND_H
#define FT_PROBLEM_GROUND_H

#include <stddef.h>

#include "base/arena.h"
#include "base/rng.h"
#include "problem/problem.h"

/* What all functions of one solve share. Everything is in the arena. */
typedef struct ft_ground ft_ground;

/* Work that was done, and that may be: steps of some operations each, counted where it can grow
 * faster than the problem does. Counted and not timed, so that results are the same everywhere. */
typedef struct ft_tally {
    int64_t steps, limit; /* limit 0: none */
} ft_tally;

/* Sums of a set of units; see problem.h. */
typedef struct ft_load {
    double ns[FT_PARTITION_KINDS], last_ns[FT_PARTITION_KINDS];
    int64_t out, out_grad, in, in_grad;
    int64_t fixed, saved;
} ft_load;

typedef struct ft_cost_model {
    const char *name, *doc;
    /* The price of compute_ns and of transfers, given as ns on the device's link. */
    double (*price)(double compute_ns, double out, double out_grad, double in, double in_grad);
    bool each_destination; /* `out` counts a value for each device it goes to, not once */
    /* NULL, or what prices a whole result, once its stages and sums are there. */
    ft_status (*judge)(const ft_ground *g, ft_partition_result *result, ft_error *err);
} ft_cost_model;

typedef struct ft_net {
    int maker; /* unit */
    int n_units;
    const int *units; /* maker and users, distinct */
    int64_t bytes, grad_bytes;
    int clone; /* node that users clone instead of receiving, or -1 */
} ft_net;

/* A net as one of its units sees it: what sums need of it, side by side for all nets of a unit. */
typedef struct ft_pin {
    int net, clone;
    int weight; /* of the unit in what is held: 2, and 1 more for the maker */
    int whole;  /* what is held when all units are */
    int64_t bytes, grad_bytes;
} ft_pin;

struct ft_ground {
    const ft_partition_problem *problem;
    const ft_partition_options *options;
    const ft_cost_model *cost;
    ft_arena *arena;
    int n;             /* nodes */
    int *order, *rank; /* topological order of the nodes that are not backward, then the others */
    int n_forward;
    int *next_first, *next; /* forward successors by node, CSR */
    int *back_first, *back; /* forward predecessors */
    int n_units;
    int *unit;                    /* by node */
    int *unit_first, *unit_nodes; /* nodes by unit, CSR */
    ft_load *weight;              /* by unit: ns, last_ns, fixed and saved alone */
    int *edge_order;              /* edges by maker, value, user */
    int n_nets;
    ft_net *nets;
    int *pins_first; /* by unit, CSR */
    ft_pin *pins;
    bool *allowed; /* [unit][device]; NULL: everything is */
    double lower_bound_ns;
    double *work;                          /* by unit: ns on the device that is fastest for it */
    double *rate;                          /* by device: `work` that it does in a ns, at most */
    double *byte_ns;                       /* by device: of its link; 0: transfers cost nothing */
    double last_gain;                      /* by how much the last stage may be faster, >= 1 */
    ft_tally *tally;                       /* of the solve: copies of a ground share it */
    int64_t deadline;                      /* on the clock of ft_now_ns; 0: none */
    const ft_partition_result *contiguous; /* that `seq` found before, or NULL */
};

/* Checks the problem and builds its ground; freed with ft_ground_free whatever is returned. */
ft_status ft_ground_new(ft_ground *out, const ft_partition_problem *problem,
                        const ft_partition_options *options, const ft_cost_model *cost,
                        ft_error *err);
void ft_ground_free(ft_ground *g);
ft_status ft_ground_no_memory(const ft_ground *g, ft_error *err);
/* ground_net.c: the values of the problem as nets between units. */
ft_status ground_make_nets(ft_ground *g, ft_error *err);
/* The name of a node for messages, in a buffer of 96 bytes. */
const char *ft_ground_name(const ft_ground *g, int node, char *buffer);
bool ft_ground_allows(const ft_ground *g, int unit, int device);

/* -- sums -------------------------------------------------------------------------------------- */

/* Adds the unit to the set with these sums, or takes it out (sign -1). `out` counts values once:
 * where they go is no matter of the set. `held` has, by net, twice the number of its units that are
 * in the set, and 1 more when the maker is among them. */
void ft_load_change(const ft_ground *g, ft_load *sums, int *held, int unit, int sign);
/* Price of a set on a device; last: it is the last stage, at its own profile. */
double ft_load_price(const ft_ground *g, const ft_load *sums, int device, bool last);
/* Bytes of the set when each of its nodes is held for `in_flight` micro-batches. */
int64_t ft_load_bytes(const ft_load *sums, int in_flight);
bool ft_load_fits(const ft_ground *g, const ft_load *sums, int device, int in_flight);
/* Whether the caller wants the search to end. */
bool ft_ground_stopped(const ft_ground *g);
/* Whether the deadline has passed. */
bool ft_ground_late(const ft_ground *g);
/* Counts steps of work; false once the limit is passed. */
bool ft_ground_spend(const ft_ground *g, int64_t steps);
/* Limits the work from here on, within the limit that there is; returns that one, for the caller to
 * set again. */
int64_t ft_ground_limit(const ft_ground *g, int64_t steps);
ft_status ft_ground_cancelled(ft_error *err);
/* FT_INFEASIBLE where all devices together have less memory than all nodes need. */
ft_status ft_ground_room(const ft_ground *g, ft_error *err);
/* FT_INFEASIBLE: no `what` was found, in words; `how` follows them, "" when all were looked at. */
ft_status ft_ground_infeasible(const ft_ground *g, const char *what, const char *how,
                               ft_error *err);
/* Micro-batches in flight in stage s of n. */
int ft_ground_in_flight(const ft_ground *g, int s, int n);

/* -- stages ------------------------------------------------------------------------------------ */

/* Cuts a placement (unit -> device) into stages, as few as are found: exactly the fewest for up to
 * 16 forward nodes. stage_of by node. Returns the number of stages; -1 without memory; more than
 * `most`, if that is not 0, without having filled anything, where there are more. */
int ft_stages_make(const ft_ground *g, const int *unit_device, int most, int *stage_of,
                   int *stage_device);
/* By how much the nodes of stage `last` are faster at its own profile on devices of a kind, ns. */
double ft_stages_gain_ns(const ft_ground *g, const int *stage_of, int last, int kind);
/* Whether the options limit stages at all, and whether the limits hold. */
bool ft_stages_limited(const ft_ground *g);
bool ft_stages_allowed(const ft_ground *g, const int *stage_device, int n_stages);

/* Fills the result for a placement; stage_of NULL: made. */
ft_status ft_result_make(const ft_ground *g, const int *unit_device, const int *stage_of,
                         ft_partition_result *result, ft_error *err);

/* -- devices that swap ------------------------------------------------------------------------- */

/* Bytes of a stage of one micro-batch, with the values that enter it (swapped.c). */
int64_t ft_pack_bytes(const ft_load *sums);
/* Of each device, the bytes of its largest stage with what enters it; false without memory. */
bool ft_pack_memory(const ft_ground *g, const ft_partition_result *r, int64_t *device_bytes);

#endif
