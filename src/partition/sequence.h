/* partition/sequence.h - a weighted DAG cut into stages.
 *
 * Pure: costs in, assignment out. Nodes are numbered in a topological order.
 *
 * The price of a stage: with C the sum of its node_ns, `out` the time to send, forward, every value
 * that is made in it and used elsewhere, and `in` the time to send back the gradients, as large, of
 * the values that it uses and were made elsewhere,
 *     C + max(0, out - C) + max(0, in - C):
 * traffic costs nothing while it hides behind the stage's work (Eliad et al., "FTPipe", USENIX ATC
 * 2021, section 4). A value counts once in `out`, however many stages use it, since every pair of
 * stages has its own link; and once in the `in` of each stage that uses it. */
#ifndef FT_SEQUENCE_H
#define FT_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

typedef struct ft_sequence_problem {
    int n_nodes;
    const double *node_ns;     /* by node: forward + backward (+ recomputed forward), >= 0 */
    const int64_t *node_bytes; /* by node: memory it brings to its stage; NULL: not limited */
    int n_edges;
    const int *edge_from, *edge_to; /* from < to */
    const int64_t *edge_bytes;      /* of the value carried; edges of one value have equal ones */
    const int *edge_value; /* any number that edges of one value, so of one node, share: a value is
                              sent once per destination stage; NULL: no edges share a value */
    int n_stages;
    int64_t stage_memory_bytes; /* limit of each stage; 0: none */
    double link_bytes_per_s;    /* of every link; 0: transfers are free */
} ft_sequence_problem;

typedef struct ft_sequence_result {
    int *stage;        /* by node; caller's array of n_nodes */
    double slowest_ns; /* the objective: the slowest stage's compute plus transfers not hidden */
    double lower_bound_ns; /* max(total / stages, largest node): no partition is below it */
    int64_t cut_bytes;     /* forward bytes that cross stages, once per (value, destination) */
} ft_sequence_result;

/* The exact contiguous optimum in the given order of nodes: minimizes the slowest stage, then the
 * bytes cut, then takes the earliest cuts, from the last one on; every stage gets at least one
 * node. Dynamic programming over (node, stages), O(n^2 P). result->stage may be NULL. FT_INVALID
 * for bad input, FT_INFEASIBLE when memory allows no cut, saying which stage lacks what. */
ft_status ft_sequence_cut(const ft_sequence_problem *problem, ft_sequence_result *result,
                          ft_error *err);

/* Prices a given assignment as above (stages need not be contiguous, and may be empty); copies it
 * to result->stage when that is not NULL. FT_INFEASIBLE, with *result filled, when a stage's nodes
 * need more memory than it has. */
ft_status ft_sequence_price(const ft_sequence_problem *problem, const int *stage,
                            ft_sequence_result *result, ft_error *err);

#endif
