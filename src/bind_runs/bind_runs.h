/* bind_runs/bind_runs.h - blueprints and runs, seen from Lua. */
#ifndef FT_BIND_RUNS_H
#define FT_BIND_RUNS_H

#include "script/script.h"

/* Opener: the table core.engine. */
int script_bind_engine(lua_State *L);
/* Opener: the table core.ranks. */
int script_bind_ranks(lua_State *L);
/* The rank of this process, 0 where there are no others. */
int script_rank(lua_State *L);
/* What rank 0 ended with, as the others were told. */
int script_rank_code(lua_State *L);
/* Whether another process was lost: that was said when it was found. */
bool script_loss_is_said(lua_State *L);
/* Tells the others that this process ends with an error. */
void script_give_up_world(lua_State *L, int code);
/* The processes that this one is of (transport/transport.h), NULL: there are no others. Then, when
 * the state is closed, so that no run is left: rank 0 tells the others that the program ends, and
 * with what; and all leave. */
struct ft_world *script_world(lua_State *L);
void script_leave_world(struct ft_world *world, int code);

#endif
