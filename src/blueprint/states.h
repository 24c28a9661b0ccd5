/* blueprint/states.h - the optimizer's state of a parameter. */
#ifndef FT_BLUEPRINT_STATES_H
#define FT_BLUEPRINT_STATES_H

#include "blueprint/blueprint.h"

/* Of a parameter that is trained: that of its optimizer and, of a seat that attenuates, behind it
 * that of the gap. Fills parts, returns their number; *bytes is all of it. */
int ft_blueprint_state(const ft_blueprint *blueprint, int param,
                       ft_state_part parts[FT_MAX_STATE_PARTS], int64_t *bytes);
/* Its bytes; 0 where no optimizer is known yet, or it is not trained. */
int64_t ft_blueprint_state_bytes(const ft_blueprint *blueprint, int param);
/* Whether an edge of weights carries their state, behind each: between replicas of a stage that
 * predicts or attenuates. */
bool ft_blueprint_with_state(const ft_blueprint *blueprint, int edge);

#endif
