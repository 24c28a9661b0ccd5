/* bind_data/bind_data.h - text into batches, seen from Lua. */
#ifndef FT_BIND_DATA_H
#define FT_BIND_DATA_H

#include "script/script.h"

/* Opener: the table core.data. */
int script_bind_data(lua_State *L);

#endif
