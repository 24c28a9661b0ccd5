/* contiguous/states.h - the antichains of a graph, as PipeDream's optimizer walks through them. */
#ifndef FT_CONTIGUOUS_STATES_H
#define FT_CONTIGUOUS_STATES_H

#include "problem/ground.h"

typedef struct states {
    int n;
    int words;         /* 64-bit words of a set of nodes */
    uint64_t *sets;    /* nodes of state s: the antichain and its ancestors */
    uint64_t *reached; /* states that lead to state s, a bit each */
    int reached_words;
    double *compute_ns, *activation_bytes, *param_bytes; /* by state, of its set */
    double *cut_bytes; /* by state: outputs that are used outside its set */
} states;

/* The ends of stages as states, in turn. */
ft_status states_of_stages(const ft_ground *g, const int *stage_of, int n_stages, states *out,
                           ft_error *err);
/* In the ground's arena, in a topological order. FT_INFEASIBLE when there are too many, or more
 * work than the limit. */
ft_status states_make(const ft_ground *g, states *out, ft_error *err);
/* FT_INFEASIBLE: the limit of work is passed. */
ft_status states_too_much(ft_error *err);
bool states_hold(const states *s, int state, int node);
/* Whether state k leads to state j. */
bool states_before(const states *s, int k, int j);

#endif
