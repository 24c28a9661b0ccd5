/* profile/profile.h - what each node costs, measured.
 *
 * A graph is cut into blocks: runs of nodes of one layer of the model. Blocks that are equal (rows,
 * shapes, attributes, wiring) are measured once. A block runs as it runs in a pipeline: compiled by
 * the engine, all forwards before all backwards, between the other blocks and over weights of its
 * own, so that caches hold what they hold in a training step; and with every other device of the
 * cluster doing the same beside it, each as far from the others as the stages of a cut are, so that
 * memory bandwidth is shared as it will be. Blocks that do not fit in the given memory together are
 * measured one after the other: a big model never needs to be there whole.
 *
 * On a device with memory of its own (cards.c) nodes are measured one by one instead, distinct ones
 * once, by its events.
 *
 * Values are noise, ids lie within the table that they pick from. Medians are over all rounds, all
 * copies of a block and all workers. */
#ifndef FT_PROFILE_H
#define FT_PROFILE_H

#include "optim/optim.h"
#include "program/program.h"

typedef struct ft_measure_options {
    ft_graph *graph; /* with gradients; it is cut, so it must not be used by others meanwhile */
    const ft_device *device; /* of a kind that measures: its threads, and memory for all copies */
    int n_busy;              /* devices that work at once, this one included; >= 1 */
    const ft_optimizer *optimizer;
    const double *hypers;
    bool recompute;  /* also forward nodes that are run again before backward */
    bool accumulate; /* gradients are added to those of earlier micro-batches */
    bool whole;      /* also the graph as a single block, in turn with the others: their judge */
    double seconds;  /* of work, about; two rounds are run in any case */
    /* Asked by the caller's thread between rounds, of a card before every node, update and copy:
     * true ends with FT_CANCELLED. NULL: never. */
    bool (*cancelled)(void *owner);
    void *owner;
} ft_measure_options;

/* Arrays die with the profile. */
typedef struct ft_profile {
    int n_nodes, n_forward, n_params;
    double *node_ns;      /* by node: median, those of a block scaled to the mean of its pass */
    double *node_spread;  /* by node: half of what lies between the quartiles, over the median */
    double *recompute_ns; /* by forward node; NULL unless asked for */
    double *pack_ns;      /* by forward node: the packed copies of its weight, once per update */
    double *update_ns;    /* by parameter: its optimizer step */
    double *norm_ns;      /* by parameter: the squared norm of its gradient */
    int64_t *output_bytes, *workspace_bytes; /* by node */
    int64_t *saved_bytes; /* by forward node: of its outputs, what its block keeps for backward */
    double pass_ns;       /* one forward and one backward of everything, timed by block */
    double whole_ns;      /* the same, as a single block; 0 when it was not measured */
    int64_t whole_bytes;  /* that a worker needs for it beside the blocks; 0 unless asked for */
    double copy_bytes_per_s; /* of a copy between two workers' memory */
    double handoff_ns;       /* from the end of an action to the start of the one waiting for it */
    int n_blocks, n_distinct;
    int64_t n_rounds; /* fewest that a block was measured in */
    struct ft_arena *arena;
} ft_profile;

/* Measures. The whole is left out where it does not fit beside the blocks. FT_NOMEM says
 * how much was asked for; FT_INVALID for a graph without gradients or a device that is not here. */
ft_status ft_profile_measure(ft_profile **out, const ft_measure_options *options, ft_error *err);
void ft_profile_free(ft_profile *profile);

/* What a node is to a profile: row, attributes and specs of inputs, as text. Nodes with equal texts
 * cost the same. */
void ft_profile_describe(const ft_graph *graph, int node, ft_text *text);

/* A digest of the kernels of operators and updates: other kernels have other costs. */
const char *ft_profile_kernels(void);

/* Rates of this machine's CPU devices while `n_busy` of them work: f32 products, and reading and
 * writing memory that no cache holds. Fills flops_per_s, bytes_per_s, link_bytes_per_s and
 * link_latency_ns of the device. */
ft_status ft_profile_rates(ft_device *device, int n_busy, ft_error *err);

#endif
