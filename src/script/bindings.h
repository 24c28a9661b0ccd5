/* script/bindings.h - what binding files share. */
#ifndef FT_SCRIPT_BINDINGS_H
#define FT_SCRIPT_BINDINGS_H

#include "engine/engine.h"
#include "script/script.h"

/* The graph in the box at index i. */
ft_graph *script_check_graph(lua_State *L, int i);

/* The blueprint in the box at index i. */
ft_blueprint *script_check_blueprint(lua_State *L, int i);

/* The devices of a text, in a userdata that is left on the stack. */
ft_device *script_check_devices(lua_State *L, const char *text, int *n);

/* Pushes { end_ns =, events =, busy_ns = by device } and, when asked for, trace = Chrome trace
 * JSON. */
void script_push_timeline(lua_State *L, const ft_timeline *timeline, bool trace);

/* blueprint:run(), and the class of what it gives. */
int script_run_new(lua_State *L);
void script_run_class(lua_State *L);

/* Pushes a box for a block of ft_alloc on its way into Lua; it frees what it still holds. */
void **script_block_box(lua_State *L);

/* Adds datasets and batchers to core.data, the table at the top. */
void script_add_batches(lua_State *L);

/* Adds the other kinds of tokenizers to core.data, the table at the top, and methods to their
 * class, which is there. */
void script_add_tokenizers(lua_State *L);

#endif
