/* partition/sequence_internal.h - the problem as the search and the evaluation see it. */
#ifndef FT_SEQUENCE_INTERNAL_H
#define FT_SEQUENCE_INTERNAL_H

#include <stddef.h>

#include "base/arena.h"
#include "partition/sequence.h"

/* A value that passes between nodes: made by one, used by uses[0 .. n_uses), ascending. */
typedef struct carried {
    int maker, n_uses;
    const int *uses;
    int64_t bytes;
} carried;

/* A checked problem. Everything is in the arena. */
typedef struct priced {
    const ft_sequence_problem *problem;
    ft_arena *arena;
    int n_values;
    const carried *values;  /* by maker */
    const int *value_first; /* values of node i: value_first[i] ... value_first[i + 1] - 1 */
} priced;

/* Checks the problem and groups its edges into values. *out is freed by priced_free. */
ft_status priced_new(priced *out, const ft_sequence_problem *problem, ft_error *err);
void priced_free(priced *p);

/* The price of a stage that computes for compute_ns and sends and receives as many bytes. */
double stage_price_ns(const ft_sequence_problem *problem, double compute_ns, int64_t out_bytes,
                      int64_t in_bytes);

/* Fills *result for an assignment; memory is looked at last. */
ft_status price_stages(const priced *p, const int *stage, ft_sequence_result *result,
                       ft_error *err);

#endif
