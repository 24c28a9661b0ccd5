/* edges/edges.h - places of edges, waited for and filled. */
#ifndef FT_EDGES_H
#define FT_EDGES_H

#include "state/run.h"

/* Around an action, on its stream: waits for what it reads and may overwrite; what it read is free
 * then, what it wrote is there, or on its way. */
ft_status begin_edges(worker *w, const ft_action *action, ft_error *err);
ft_status end_edges(worker *w, const ft_action *action, ft_error *err);
/* S and V: from the row that it takes from to the one that it fills. */
ft_status do_pass(worker *w, const ft_action *action, ft_error *err);
/* What an edge takes from where its seat has it is copied on *out, when all that was computed so
 * far has ended; it stays as it is until that is over. */
ft_status begin_sending(worker *w, int edge, ft_device_stream **out, ft_error *err);

#endif
