/* bind_graphs/internal.h - what the files of this room share. */
#ifndef FT_BIND_GRAPHS_INTERNAL_H
#define FT_BIND_GRAPHS_INTERNAL_H

#include "bind_graphs/bind_graphs.h"

/* Packed copies of weights that programs share (packs.c): program.packs(), and their class. */
int program_packs(lua_State *L);
void script_packs_class(lua_State *L);
/* Option 'packs' of the table at t, pushed; false: nil. */
bool packs_option(lua_State *L, int t);
/* The packed copy of a weight, made by the team where it is not there yet. The packs and above them
 * the weight's tensor are on top of the stack: the packs hold on to the tensor, so that no other
 * one comes to lie where it is. */
ft_status packs_get(lua_State *L, const ft_graph *graph, const ft_pack *pack, const void *weight,
                    ft_team *team, const void **data, ft_error *err);

/* graph:weights(), in a file of its own. */
int script_graph_weights(lua_State *L);

#endif
