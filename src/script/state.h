/* script/state.h - what the files of this room share about one Lua state. */
#ifndef FT_SCRIPT_STATE_H
#define FT_SCRIPT_STATE_H

#include <stdbool.h>

#include "script/script.h"

typedef struct script_state {
    const script_host *host;
    bool hold_interrupt; /* the script looks at the interrupt flag by itself */
    int64_t gc_debt;     /* bytes taken outside Lua's heap since its collector was last told */
} script_state;

/* The state behind L, kept in its registry. */
script_state *script_state_of(lua_State *L);

/* Pushes an error object. */
void script_push_error(lua_State *L, ft_status status, const char *message, int exit_code);

/* Makes the metatable of error objects; part of script_new. */
void script_error_class(lua_State *L);

/* core.fail(status, message [, exit]): raises an error object from Lua. */
int script_lua_fail(lua_State *L);

#endif
