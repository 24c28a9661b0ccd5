/* blueprint/actions.h - how the actions of a plan meet a blueprint: its seats, slots and edges. */
#ifndef FT_BLUEPRINT_ACTIONS_H
#define FT_BLUEPRINT_ACTIONS_H

#include "blueprint/blueprint.h"

/* All of these are asked with actions of seats (ft_seated). */

/* The number of the action's micro-batch or batch among those that pass through slots of the edge.
 */
int64_t ft_blueprint_slot_index(const ft_blueprint *blueprint, int edge, const ft_action *action);

/* The i-th row that the action takes from, or fills; false past the last. */
bool ft_blueprint_takes(const ft_blueprint *blueprint, const ft_action *action, int i,
                        ft_row_end *out);
bool ft_blueprint_fills(const ft_blueprint *blueprint, const ft_action *action, int i,
                        ft_row_end *out);
/* Bytes that filling the row brings to another device, of a batch of that bucket. */
int64_t ft_blueprint_sent(const ft_blueprint *blueprint, ft_row_end row, int bucket);

/* Makes what an action of that kind runs in a seat that has nodes for it: the caller's, until the
 * graphs end. FT_UNSUPPORTED as ft_program_new. */
ft_status ft_blueprint_compile(const ft_blueprint *blueprint, int seat, int bucket,
                               ft_action_kind kind, ft_program **out, ft_error *err);

#endif
