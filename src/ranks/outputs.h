/* ranks/outputs.h - what forwards alone hand out, in parts: one of each replica that makes some of
 * it.
 */
#ifndef FT_RANKS_OUTPUTS_H
#define FT_RANKS_OUTPUTS_H

#include "state/run.h"

/* Outputs of the graph; the number, among those of the blueprint, of the first part of one. */
int count_outputs(const ft_blueprint *blueprint);
int first_part(const ft_blueprint *blueprint, int output);
/* Where a part is, of a batch's ring slot: in its device's block, or what another process told. */
char *part_at(const ft_run *run, int part, int64_t ring);
/* Brings the micro-batches of an output together in host memory, in their order. first: its first
 * part; bytes: of one micro-batch. */
ft_status gather_output(ft_run *run, int first, int64_t ring, int64_t bytes, char *to,
                        ft_error *err);

#endif
