/* partition/partition.h - a weighted graph placed on devices: who works on what, in which stages.
 *
 * Pure: costs in, assignment out. Every partitioner is a row of a table and every result is priced
 * by one function, under a named cost model, which is a row of another. */
#ifndef FT_PARTITION_H
#define FT_PARTITION_H

#include "problem/problem.h"

/* -- partitioners ------------------------------------------------------------------------------ */

/* Runs a partitioner. Fills *result, which is freed with ft_partition_result_free whatever is
 * returned. FT_INVALID for problems that make no sense, naming the culprit; FT_INFEASIBLE when no
 * placement within memory, pins and limits was found, saying what is in the way. */
ft_status ft_partition_solve(const ft_partition_problem *problem,
                             const ft_partition_options *options, ft_partition_result *result,
                             ft_error *err);

/* Prices a placement by node -> device; stages are made from it, as few as are found. `stage` may
 * be given to be checked instead (NULL: made). FT_INFEASIBLE, with *result filled, when a device's
 * nodes need more memory than it has.
 * Under the cost model `pipedream`, whose transfers count here, a device without nodes is a replica
 * of the stage of the device before it, and memory is counted as pipedream does. */
ft_status ft_partition_evaluate(const ft_partition_problem *problem, const char *cost,
                                const int *device, const int *stage, ft_partition_result *result,
                                ft_error *err);

/* Names and one line about each, for people; NULL past the end. */
const char *ft_partition_method_name(int i);
const char *ft_partition_method_doc(int i);
const char *ft_partition_cost_name(int i);
const char *ft_partition_cost_doc(int i);

#endif
