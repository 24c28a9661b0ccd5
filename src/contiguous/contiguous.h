/* contiguous/contiguous.h - cuts into stages that nothing leaves and enters again.
 *
 * Each fills a result for a checked problem: see ft_partition_solve for what it returns. */
#ifndef FT_CONTIGUOUS_H
#define FT_CONTIGUOUS_H

#include "problem/ground.h"

/* The optimum, over all down-sets of the graph while there are not too many. */
ft_status ft_solve_seq(ft_ground *g, ft_partition_result *result, ft_error *err);
/* The same with as many down-sets as some seconds suffice for, where the options do not say, and no
 * more work than that. */
ft_status ft_solve_seq_within(ft_ground *g, ft_partition_result *result, ft_error *err);
/* Packs for devices that swap. */
ft_status ft_solve_pack(ft_ground *g, ft_partition_result *result, ft_error *err);
/* Stages with replicas over a hierarchy of links. */
ft_status ft_solve_pipedream(ft_ground *g, ft_partition_result *result, ft_error *err);
/* The price of a split with replicas under pipedream's own model; sets stage_replicas too. */
ft_status ft_price_pipedream(const ft_ground *g, ft_partition_result *result, ft_error *err);

#endif
