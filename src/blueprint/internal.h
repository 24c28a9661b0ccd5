/* blueprint/internal.h - what the files of the room share. */
#ifndef FT_BLUEPRINT_INTERNAL_H
#define FT_BLUEPRINT_INTERNAL_H

#include "base/arena.h"
#include "blueprint/actions.h"

static inline ft_status no_memory(ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "no memory for a blueprint");
}

/* The part of a blueprint that needs no plan: seats, parameters and edges. */
ft_status blueprint_cut(ft_blueprint *b, const ft_cut *cut, ft_error *err);
/* halves.c: what every action of a seat computes; then, of a plan, slots between halves. */
ft_status blueprint_find_nodes(ft_blueprint *b, ft_error *err);
void blueprint_count_held(ft_blueprint *b);
/* owners.c: who updates which parameter; whether a seat reads one. */
ft_status blueprint_find_owners(ft_blueprint *b, ft_error *err);
bool blueprint_seat_uses(const ft_blueprint *b, int seat, int param);
/* By stage of the plan: longest path to the last one over what forwards pass on. */
void blueprint_find_depths(const ft_blueprint *b, int *depth);
/* edges.c: edges and their cargo, from splits. */
ft_status blueprint_find_edges(ft_blueprint *b, ft_error *err);
/* Lists every seat's edges by the kind of its actions. */
ft_status blueprint_index_edges(ft_blueprint *b, ft_error *err);
/* Gives the edges slots, for a plan that is yet to be made. */
ft_status blueprint_choose_slots(ft_blueprint *b, ft_error *err);
/* Edges and their slots become those of the plan. FT_INVALID names the one that it lacks. */
ft_status blueprint_take_plan(ft_blueprint *b, const ft_plan *plan, ft_error *err);
/* rows.c: the places of the plan's edges. */
ft_status blueprint_find_rows(ft_blueprint *b, ft_error *err);
/* Whether who makes the values of an edge can make them in the row that it fills: on its device,
 * and of every micro-batch. */
bool blueprint_makes_in_row(const ft_blueprint *b, int edge);
/* versions.c: whether a plan reads older weights; how many versions each seat keeps of them; where
 * they are in a slot. */
bool blueprint_keeps(const ft_plan *plan);
ft_status blueprint_count_versions(ft_blueprint *b, ft_error *err);
ft_status blueprint_place_versions(ft_blueprint *b, int seat, ft_error *err);
/* programs.c: packs, and what the actions of every seat need to run; needs the plan. */
ft_status blueprint_size_programs(ft_blueprint *b, ft_error *err);
/* places.c: blocks. */
ft_status blueprint_lay_out(ft_blueprint *b, ft_error *err);
/* Of training, when that and its evaluation are laid out: offsets become those in blocks. */
void blueprint_finish_layout(ft_blueprint *b);
/* blueprint.c: a blueprint of training (trains NULL), or of evaluation beside one. */
ft_status blueprint_build(ft_blueprint **out, const ft_blueprint_options *options,
                          const ft_blueprint *trains, ft_error *err);
/* evaluation.c: evaluation beside training whose stages are cut; then, of a blueprint of
 * evaluation, its parameters and packed copies in training, and its outputs. */
ft_status blueprint_add_evaluation(ft_blueprint *b, ft_error *err);
ft_status blueprint_find_trained(ft_blueprint *b, ft_error *err);
void blueprint_share_packs(ft_blueprint *b, int seat);
ft_status blueprint_find_outputs(ft_blueprint *b, ft_error *err);
/* visits.c: of evaluation beside training: its plan with loads and drops of weights that training
 * moves; then the bytes of what they bring. */
ft_status blueprint_plan_visits(ft_blueprint *b, ft_error *err);
void blueprint_size_visits(ft_blueprint *b);
/* costs.c */
ft_status blueprint_estimate(ft_blueprint *b, ft_error *err);

#endif
