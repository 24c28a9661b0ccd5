/* state/slots.h - which place of a row an action takes from or fills, and where it is. */
#ifndef FT_STATE_SLOTS_H
#define FT_STATE_SLOTS_H

#include "state/run.h"

/* Where an action reads or writes what edges carry; the number of the place in its row, which goes
 * round. */
char *row_place(const ft_run *run, ft_row_end at, const ft_action *action);
int64_t place_number(const ft_run *run, ft_row_end at, const ft_action *action);
/* The row that counts the slots: the edge's own, or that of another one with the same receiver. */
row_state *slots_row(const ft_run *run, ft_row_end at);
/* Where what fills the row is made: of values that go apart, in another row of their edge. */
ft_row_end made_in(const ft_run *run, ft_row_end at);

#endif
