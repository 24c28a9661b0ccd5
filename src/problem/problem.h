/* problem/problem.h - a weighted graph to be placed on devices, and what a placement of it is.
 *
 * A problem is nodes with times and bytes, the values that pass between them, and devices. Results
 * are priced by one function, under a cost model.
 *
 * The sums of a device, of the nodes placed on it:
 *     C     time of its nodes (and of the cheap nodes cloned to it), by the device's kind and rate;
 *     out   bytes of the values made on it and used elsewhere; in_grad their gradients, each once;
 *     in    bytes of the values used on it and made elsewhere, each once; out_grad their gradients.
 * `out` counts a value for each device that it goes to under cost model `overlap`, and once under
 * `sum`, where a price depends on what its own device holds alone. `seq` searches by such prices:
 * under `overlap` its result is proved where sending one value twice makes no stage slower. */
#ifndef FT_PROBLEM_H
#define FT_PROBLEM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum {
    FT_PARTITION_KINDS = 4,
    FT_PARTITION_DEVICES = 1024,
    FT_PARTITION_LEVELS = 4,
    FT_PARTITION_EFFORT = 300000000 /* steps: some seconds of one core */
};

/* -- the problem ------------------------------------------------------------------------------- */

typedef struct ft_partition_device {
    int kind;             /* which row of node_ns */
    double slowdown;      /* multiplies the times of that row; > 0 */
    int64_t memory_bytes; /* 0: no limit */
    double bytes_per_s;   /* of its link, each way; 0: transfers cost it nothing */
} ft_partition_device;

typedef struct ft_partition_problem {
    int n_nodes;
    const char *const *names; /* by node, for messages; NULL: numbers */
    int n_kinds;
    const double *node_ns;      /* [kind][node], forward + backward (+ recomputed forward), >= 0 */
    const double *last_ns;      /* [kind][node], in the last stage; NULL: as node_ns */
    const int64_t *fixed_bytes; /* by node: parameters and what training adds to them; NULL: 0 */
    const int64_t *saved_bytes; /* by node: held for each micro-batch in flight; NULL: 0 */
    const int *tie;       /* by node: nodes of one number >= 0 share a device; NULL: no ties */
    const bool *backward; /* by node: it follows its tie and asks for no order; NULL: none */
    const bool *cheap;    /* by node: cloned to where it is used instead of sent; NULL: none */
    const int *pin;       /* by node: the only device it may be on, or -1; NULL: no pins */
    int n_forbids;        /* pairs that may not be */
    const int *forbid_node, *forbid_device;
    int n_edges; /* in any order; they may not make a cycle among nodes that are not `backward` */
    const int *edge_from, *edge_to;
    const int64_t *edge_bytes;      /* of the value carried */
    const int64_t *edge_grad_bytes; /* of the gradient sent back; NULL: 0 */
    const int *edge_value; /* edges of one maker and one number carry one value, of equal bytes and
                              gradients; NULL: a node makes one value */
    int n_devices;
    const ft_partition_device *devices;
    /* Micro-batches in flight in stage s of S: min(in_flight, S - s), as 1F1B and asynchronous
     * pipelines have, or in_flight in every stage when `flat`, as GPipe has. 0 is 1. */
    int in_flight;
    bool flat;
    /* A device holds one stage at a time, with the values that enter it, and the others are in host
     * memory: what has to fit is its largest stage, of one micro-batch. Moving stages to and from
     * the host is in no price. */
    bool swaps;
    /* PipeDream's hierarchy, innermost level first; 0 levels: all devices on one level. Used by
     * the partitioner `pipedream` only. */
    int n_levels;
    int level_devices[FT_PARTITION_LEVELS];
    double level_bytes_per_s[FT_PARTITION_LEVELS];
} ft_partition_problem;

typedef struct ft_partition_options {
    const char *method;  /* NULL: "best" */
    const char *cost;    /* NULL: "overlap" */
    uint64_t seed;       /* the same problem, options and seed give the same result */
    int64_t effort;      /* budget of `mixed`, in steps: values of a node that are looked at as it
                            moves. 0: 2000000 for each node, at most FT_PARTITION_EFFORT. It is work
                            and no time, so that results are the same on all machines */
    int64_t deadline_ns; /* no restart is kept that ends later than this after the call, nor does,
                            once there is a placement, what comes before them begin; 0: none. The
                            result says what effort was spent, and that effort gives the same */
    int max_stages;      /* 0: `blocks`; without them no limit */
    int max_stages_per_device; /* 0: no limit */
    int blocks; /* L of `mixed`; 0: swept from 1 to 8 times the devices. Packs of `pack`; 0: as few
                   as fit */
    int64_t max_down_sets; /* `seq` is exact while the graph has no more; 0: 60000 */
    bool in_order; /* `seq` cuts the nodes in the order they are numbered in, which has to be a
                      topological one: stage s on device s, and none is empty */
    const volatile int *stop; /* not 0: give up, FT_CANCELLED; NULL: never */
    /* `pipedream`: whether transfers between stages count, whether replicas are allowed. */
    bool free_transfers, straight;
} ft_partition_options;

/* -- the result -------------------------------------------------------------------------------- */

typedef struct ft_partition_load {
    double compute_ns;
    int64_t out_bytes, out_grad_bytes, in_bytes, in_grad_bytes;
    int64_t memory_bytes;
    double price_ns; /* under the cost model */
    int n_stages;
} ft_partition_load;

typedef struct ft_partition_result {
    int *stage;  /* by node; stages are numbered in an order in which they can run */
    int *device; /* by node */
    int n_stages;
    int *stage_device, *stage_replicas; /* by stage; replicas follow stage_device in the list */
    ft_partition_load *loads;           /* by device */
    double objective_ns;                /* the slowest device */
    int64_t moved_bytes;   /* values and gradients, once for each (value, device that lacks it) */
    double lower_bound_ns; /* no placement is below it */
    /* No placement that the method considers is below it; 0: it knows no bound of its own. `seq`
     * has one where it went through all contiguous cuts, under `overlap` too. */
    double method_bound_ns;
    bool proved;        /* optimal among the placements that the method considers */
    int64_t effort;     /* spent by methods that search, in steps */
    int64_t work;       /* of the whole solve, in steps: what may grow faster than the problem */
    int64_t down_sets;  /* looked at by `seq` */
    const char *method; /* that found it, "seq" under "best"; a name of the table */
    void *memory;
} ft_partition_result;

/* Frees what the result holds; a zeroed one is accepted. */
void ft_partition_result_free(ft_partition_result *result);

#endif
