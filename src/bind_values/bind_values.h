/* bind_values/bind_values.h - what programs are made of, seen from Lua: numbers, texts, files. */
#ifndef FT_BIND_VALUES_H
#define FT_BIND_VALUES_H

#include "script/script.h"

/* Openers: the tables core.sys, core.json, .... */
int script_bind_sys(lua_State *L);
int script_bind_json(lua_State *L);
int script_bind_tensor(lua_State *L);
int script_bind_ops(lua_State *L);
int script_bind_card(lua_State *L);
int script_bind_io(lua_State *L);
int script_bind_process(lua_State *L);
int script_bind_database(lua_State *L);

/* Pushes a tensor, taking over the caller's reference (also when it raises for want of memory
 * before: make the box first with script_push_tensor_box where that matters). */
void script_push_tensor(lua_State *L, ft_tensor *tensor);
/* Pushes an empty tensor box: fill it with `*box = tensor`. */
ft_tensor **script_push_tensor_box(lua_State *L);
ft_tensor *script_check_tensor(lua_State *L, int i);
ft_tensor *script_test_tensor(lua_State *L, int i);
const ft_view *script_check_view(lua_State *L, int i);
/* Of element i of the list at t, a table: its "name", which is at t + 1; pushes its "tensor", which
 * is at t + 2, whatever that is. Nothing here allocates in Lua, so what the list holds stays
 * alive. */
const char *script_push_named(lua_State *L, int t, int i);

#endif
