/* bind_graphs/internal.h - what the files of this room share. */
#ifndef FT_BIND_GRAPHS_INTERNAL_H
#define FT_BIND_GRAPHS_INTERNAL_H

#include "bind_graphs/bind_graphs.h"

/* graph:weights(), in a file of its own. */
int script_graph_weights(lua_State *L);

#endif
