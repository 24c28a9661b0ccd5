/* stays/internal.h - what moves with an action; inside this room only. */
#ifndef FT_STAYS_INTERNAL_H
#define FT_STAYS_INTERNAL_H

#include "stays/stays.h"

/* All of these are asked with actions of seats (ft_seated). */

/* The unit that the action moves, or may be the first to write: activations of a forward, or of a
 * micro-batch whose were dropped, gradients of a batch's first backward; else NULL. */
const ft_unit *stays_unit(const ft_stays *stays, const ft_action *action);
/* Activations whose last use the action is; else NULL. */
const ft_unit *stays_ended(const ft_stays *stays, const ft_action *action);
/* The stage of the plan whose seat has the unit: what people know it by. */
int stays_stage(const ft_stays *stays, const ft_unit *unit);

#endif
