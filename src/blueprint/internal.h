/* blueprint/internal.h - what the files of the room share. */
#ifndef FT_BLUEPRINT_INTERNAL_H
#define FT_BLUEPRINT_INTERNAL_H

#include "base/arena.h"
#include "blueprint/blueprint.h"

/* edges.c: ties, edges and their cargo, from splits. */
ft_status blueprint_find_owners(ft_blueprint *b, ft_error *err);
ft_status blueprint_find_edges(ft_blueprint *b, ft_error *err);
/* places.c: programs, places, packs, blocks; needs b->plan for in-flight counts. */
ft_status blueprint_compile(ft_blueprint *b, ft_error *err);
ft_status blueprint_lay_out(ft_blueprint *b, ft_error *err);
/* blueprint.c: a blueprint of training (trains NULL), or of evaluation beside one; trained_stage is
 * borrowed. */
ft_status blueprint_build(ft_blueprint **out, const ft_blueprint_options *options,
                          const ft_blueprint *trains, int *trained_stage, ft_error *err);
/* evaluation.c: evaluation beside training whose stages are cut; then, of a blueprint of
 * evaluation, its parameters and packed copies in training, and its outputs. */
ft_status blueprint_add_evaluation(ft_blueprint *b, ft_error *err);
ft_status blueprint_find_trained(ft_blueprint *b, ft_error *err);
void blueprint_share_packs(ft_blueprint *b, int stage);
ft_status blueprint_find_outputs(ft_blueprint *b, ft_error *err);
/* costs.c */
ft_status blueprint_estimate(ft_blueprint *b, ft_error *err);

#endif
