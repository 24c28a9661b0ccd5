/* core/core.h - the rooms that Lua sees. */
#ifndef FT_CORE_H
#define FT_CORE_H

#include "script/script.h"

/* For script_host: the subtables of `require "ftpipe.core"`, ends with a NULL name. */
extern const luaL_Reg core_rooms[];

/* The processes that this one is of, after core.ranks.open; NULL: there are no others. Its rank
 * among them. What rank 0 ended with, as the others were told. */
struct ft_world *core_world(lua_State *L);
int core_rank(lua_State *L);
int core_rank_code(lua_State *L);
/* Whether another process was lost: that was said when it was found. */
bool core_loss_is_said(lua_State *L);
/* Tells the others that this process ends with an error. */
void core_give_up_world(lua_State *L, int code);
/* When the state is closed: rank 0 tells the others that the program ends, and with what; all
 * leave. NULL is accepted. */
void core_leave_world(struct ft_world *world, int code);

#endif
