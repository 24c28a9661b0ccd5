/* core/core.h - the rooms that Lua sees. */
#ifndef FT_CORE_H
#define FT_CORE_H

#include "script/script.h"

/* For script_host: the subtables of `require "ftpipe.core"`, ends with a NULL name. */
extern const luaL_Reg core_rooms[];

#endif
