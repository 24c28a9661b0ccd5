/* blueprint/actions.h - how the actions of a plan meet a blueprint: its stages, slots and edges. */
#ifndef FT_BLUEPRINT_ACTIONS_H
#define FT_BLUEPRINT_ACTIONS_H

#include "blueprint/blueprint.h"

/* Actions name stages of the plan. The same action with the number of the stage here, as everything
 * below is asked with, of a device that has the stage. */
ft_action ft_blueprint_here(const ft_blueprint *blueprint, int device, ft_action action);
/* The number, among those of its stage, of the action's micro-batch or batch in the leg; and that
 * in the slots of an edge. */
int64_t ft_blueprint_index(const ft_blueprint *blueprint, const ft_action *action);
int64_t ft_blueprint_slot_index(const ft_blueprint *blueprint, int edge, const ft_action *action);
/* Whether the action is the first, or the last, of its batch in its stage. */
bool ft_blueprint_is_first(const ft_blueprint *blueprint, const ft_action *action);
bool ft_blueprint_is_last(const ft_blueprint *blueprint, const ft_action *action);

/* The i-th row that the action takes from, or fills; false past the last. */
bool ft_blueprint_takes(const ft_blueprint *blueprint, const ft_action *action, int i,
                        ft_row_end *out);
bool ft_blueprint_fills(const ft_blueprint *blueprint, const ft_action *action, int i,
                        ft_row_end *out);

#endif
