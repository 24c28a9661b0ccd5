/* bind_graphs/bind_graphs.h - graphs with their costs, seen from Lua. */
#ifndef FT_BIND_GRAPHS_H
#define FT_BIND_GRAPHS_H

#include "bind_values/bind_values.h"
#include "blueprint/blueprint.h"

/* Openers: the tables core.graph, core.program, core.profile. */
int script_bind_graph(lua_State *L);
int script_bind_program(lua_State *L);
int script_bind_profile(lua_State *L);

/* The graph in the box at index i. */
ft_graph *script_check_graph(lua_State *L, int i);

/* The devices at index i: a text as in --devices, or a table of rows (devices.c); in a userdata
 * that is left on the stack. */
ft_device *script_check_devices(lua_State *L, int i, int *n);
/* The same for a key of the table at t. */
ft_device *script_opt_devices(lua_State *L, int t, const char *key, const char *preset, int *n);
/* Of each process that has met the others, by rank, the bytes that it may fill: devices of texts
 * that say no budget have their parts of that from now on. Copied. */
void script_note_memories(lua_State *L, const int64_t *bytes, int n_ranks);
/* Options 'optimizer' (preset adamw) and 'hypers' of the table at t; hypers stay on the stack. */
const ft_optimizer *script_opt_optimizer(lua_State *L, int t);
const double *script_opt_hypers(lua_State *L, int t, const ft_optimizer *optimizer);

/* Costs as a profile has them, from the table at t: { node_ns =, recompute_ns =, pack_ns =,
 * update_ns =, norm_ns = (lists), copy_bytes_per_s =, handoff_ns = }; left on the stack. */
const ft_work_costs *script_check_costs(lua_State *L, int t, const ft_graph *g);
/* Option 'costs' of the table at t: a list of them by device (false: modelled), or NULL. */
const ft_work_costs *const *script_opt_costs(lua_State *L, int t, int n_devices, const ft_graph *g);

#endif
