/* partition/internal.h - a checked problem, as partitioners see it.
 *
 * Nodes that have to share a device are one *unit*; a search places units. A *net* is a value with
 * the units that make and use it: a device pays for it when it holds some of them, but not all. */
#ifndef FT_PARTITION_INTERNAL_H
#define FT_PARTITION_INTERNAL_H

#include <stddef.h>

#include "base/arena.h"
#include "base/rng.h"
#include "partition/partition.h"

/* What all functions of one solve share. Everything is in the arena. */
typedef struct ground ground;

/* Sums of a set of units; see partition.h. */
typedef struct load {
    double ns[FT_PARTITION_KINDS], last_ns[FT_PARTITION_KINDS];
    int64_t out, out_grad, in, in_grad;
    int64_t fixed, saved;
} load;

typedef struct cost_model {
    const char *name, *doc;
    /* The price of compute_ns and of transfers, given as ns on the device's link. */
    double (*price)(double compute_ns, double out, double out_grad, double in, double in_grad);
    bool each_destination; /* `out` counts a value for each device it goes to, not once */
    /* NULL, or what prices a whole result, once its stages and sums are there. */
    ft_status (*judge)(const ground *g, ft_partition_result *result, ft_error *err);
} cost_model;

typedef struct net {
    int maker; /* unit */
    int n_units;
    const int *units; /* maker and users, distinct */
    int64_t bytes, grad_bytes;
    int clone; /* node that users clone instead of receiving, or -1 */
} net;

struct ground {
    const ft_partition_problem *problem;
    const ft_partition_options *options;
    const cost_model *cost;
    ft_arena *arena;
    int n;             /* nodes */
    int *order, *rank; /* topological order of the nodes that are not backward, then the others */
    int n_forward;
    int *next_first, *next; /* forward successors by node, CSR */
    int *back_first, *back; /* forward predecessors */
    int n_units;
    int *unit;                    /* by node */
    int *unit_first, *unit_nodes; /* nodes by unit, CSR */
    load *weight;                 /* by unit: ns, last_ns, fixed and saved alone */
    int n_nets;
    net *nets;
    int *nets_first, *unit_nets; /* nets by unit, CSR */
    bool *allowed;               /* [unit][device]; NULL: everything is */
    double lower_bound_ns;
    double *work;                          /* by unit: ns on the device that is fastest for it */
    double *rate;                          /* by device: `work` that it does in a ns, at most */
    double last_gain;                      /* by how much the last stage may be faster, >= 1 */
    int64_t deadline;                      /* on the clock of ft_now_ns; 0: none */
    const ft_partition_result *contiguous; /* that `seq` found before, or NULL */
};

/* Checks the problem and builds its ground; freed with ground_free whatever is returned. */
ft_status ground_new(ground *out, const ft_partition_problem *problem,
                     const ft_partition_options *options, const cost_model *cost, ft_error *err);
void ground_free(ground *g);
ft_status ground_no_memory(const ground *g, ft_error *err);
/* ground_net.c: the values of the problem as nets between units. */
ft_status ground_make_nets(ground *g, ft_error *err);
/* The name of a node for messages, in a buffer of 96 bytes. */
const char *ground_name(const ground *g, int node, char *buffer);
bool ground_allows(const ground *g, int unit, int device);

/* -- sums -------------------------------------------------------------------------------------- */

/* Adds the unit to the set with these sums, or takes it out (sign -1). `out` counts values once:
 * where they go is no matter of the set. `held` has, by net, how many
 * of its units are in the set, and `makes` whether the maker is. */
void load_change(const ground *g, load *sums, int *held, bool *makes, int unit, int sign);
/* Price of a set on a device; last: it is the last stage, at its own profile. */
double load_price(const ground *g, const load *sums, int device, bool last);
/* Bytes of the set when each of its nodes is held for `in_flight` micro-batches. */
int64_t load_bytes(const load *sums, int in_flight);
bool load_fits(const ground *g, const load *sums, int device, int in_flight);
/* Whether the caller wants the search to end. */
bool ground_stopped(const ground *g);
/* Whether the deadline has passed. */
bool ground_late(const ground *g);
ft_status ground_cancelled(ft_error *err);
/* FT_INFEASIBLE where all devices together have less memory than all nodes need. */
ft_status ground_room(const ground *g, ft_error *err);
/* FT_INFEASIBLE: no `what` was found, in words; `how` follows them, "" when all were looked at. */
ft_status ground_infeasible(const ground *g, const char *what, const char *how, ft_error *err);
/* Micro-batches in flight in stage s of n. */
int ground_in_flight(const ground *g, int s, int n);

/* -- stages ------------------------------------------------------------------------------------ */

/* Cuts a placement (unit -> device) into stages, as few as are found: exactly the fewest for up to
 * 16 forward nodes. stage_of by node. Returns the number of stages; -1 without memory. */
int stages_make(const ground *g, const int *unit_device, int *stage_of, int *stage_device);
/* By how much the nodes of stage `last` are faster at its own profile on devices of a kind, ns. */
double stages_gain_ns(const ground *g, const int *stage_of, int last, int kind);
/* Whether the options limit stages at all, and whether the limits hold. */
bool stages_limited(const ground *g);
bool stages_allowed(const ground *g, const int *stage_device, int n_stages);

/* Fills the result for a placement; stage_of NULL: made. */
ft_status result_make(const ground *g, const int *unit_device, const int *stage_of,
                      ft_partition_result *result, ft_error *err);

/* -- partitioners ------------------------------------------------------------------------------ */

typedef enum method_kind {
    PLACES,    /* priced by the cost model, so that `best` can compare it */
    SPLITS,    /* has a price of its own; its stages without replicas are compared */
    STANDS_OUT /* for devices that work in another way; `best` leaves it out */
} method_kind;

typedef struct method {
    const char *name, *doc;
    ft_status (*solve)(ground *g, ft_partition_result *result, ft_error *err);
    method_kind kind;
} method;

ft_status solve_seq(ground *g, ft_partition_result *result, ft_error *err);
/* `seq` with as many down-sets as some seconds suffice for, where the options do not say. */
ft_status solve_seq_within(ground *g, ft_partition_result *result, ft_error *err);
ft_status solve_greedy(ground *g, ft_partition_result *result, ft_error *err);
ft_status solve_pipedream(ground *g, ft_partition_result *result, ft_error *err);
/* The price of a split with replicas under pipedream's own model; sets stage_replicas too. */
ft_status price_pipedream(const ground *g, ft_partition_result *result, ft_error *err);
ft_status solve_pack(ground *g, ft_partition_result *result, ft_error *err);
/* Of each device, the bytes of its largest stage with what enters it; false without memory. */
bool pack_memory(const ground *g, const ft_partition_result *r, int64_t *device_bytes);
ft_status solve_mixed(ground *g, ft_partition_result *result, ft_error *err);

#endif
