/* bind_runs/bind_runs.h - blueprints and runs, seen from Lua. */
#ifndef FT_BIND_RUNS_H
#define FT_BIND_RUNS_H

#include "script/script.h"

/* Opener: the table core.engine. */
int script_bind_engine(lua_State *L);

#endif
