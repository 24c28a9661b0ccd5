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

/* How many micro-batches the action takes at once, of a joint forward; else 1, also where it is
 * among those of an earlier one. */
int ft_blueprint_joint(const ft_blueprint *blueprint, const ft_action *action);
/* The number of the action's micro-batch among those of its joint forward; else 0. */
int ft_blueprint_part(const ft_blueprint *blueprint, const ft_action *action);
/* Of a value in the graph of joint forwards: bytes from one part to the next; 0: it has none. */
int64_t ft_blueprint_part_bytes(const ft_blueprint *blueprint, int bucket, ft_value_id value);
/* Whether the seat's forward makes the value. */
bool ft_blueprint_makes(const ft_blueprint *blueprint, int seat, int bucket, ft_value_id value);

/* Makes what an action of that kind runs in a seat that has nodes for it: the caller's, until the
 * graphs end. FT_UNSUPPORTED as ft_program_new. */
ft_status ft_blueprint_compile(const ft_blueprint *blueprint, int seat, int bucket,
                               ft_action_kind kind, ft_program **out, ft_error *err);
/* The same of joint forwards: all that they read of edges, and all that they give, is in WORK. */
ft_status ft_blueprint_compile_joint(const ft_blueprint *blueprint, int seat, int bucket,
                                     ft_program **out, ft_error *err);

#endif
