/* script/box.c - userdata that holds one pointer to something of C. */
#include "script/script.h"
#include "script/state.h"

void script_class(lua_State *L, const char *name, const luaL_Reg *methods, const luaL_Reg *meta)
{
    luaL_newmetatable(L, name);
    lua_pushstring(L, name);
    lua_setfield(L, -2, "__name");
    lua_newtable(L);
    if (methods) luaL_register(L, NULL, methods);
    lua_setfield(L, -2, "__index");
    if (meta) luaL_register(L, NULL, meta);
}

void **script_box_new(lua_State *L, const char *name)
{
    void **box = lua_newuserdata(L, sizeof *box);
    *box = NULL;
    luaL_getmetatable(L, name);
    lua_setmetatable(L, -2);
    return box;
}

/* The box when the value at i is one of that class, else NULL. */
static void **find_box(lua_State *L, int i, const char *name)
{
    void **box = lua_touserdata(L, i);
    if (!box || !lua_getmetatable(L, i)) return NULL;
    luaL_getmetatable(L, name);
    bool same = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    return same ? box : NULL;
}

/* "tensor" of "ftpipe.tensor". */
static const char *short_name(const char *name)
{
    static const char prefix[] = "ftpipe.";
    int i = 0;
    while (prefix[i] && name[i] == prefix[i]) i++;
    return prefix[i] ? name : name + i;
}

void **script_box(lua_State *L, int i, const char *name)
{
    void **box = find_box(L, i, name);
    if (!box)
        script_arg_error(L, i, "expected a %s, got %s", short_name(name), luaL_typename(L, i));
    return box;
}

void *script_box_check(lua_State *L, int i, const char *name)
{
    void **box = script_box(L, i, name);
    if (!*box) script_arg_error(L, i, "%s was freed", short_name(name));
    return *box;
}

void *script_box_test(lua_State *L, int i, const char *name)
{
    void **box = find_box(L, i, name);
    return box ? *box : NULL;
}

void script_gc_step(lua_State *L, int64_t bytes)
{
    /* The collector sees a box of 8 bytes where megabytes hang on it. Every 8 MiB it does work for
     * as many KiB of its own heap, a whole cycle when that is smaller: garbage outside is then
     * bounded, and small tensors cost nothing. */
    enum { DEBT_BYTES = 8 << 20 };
    script_state *state = script_state_of(L);
    state->gc_debt += bytes;
    if (state->gc_debt < DEBT_BYTES) return;
    state->gc_debt = 0;
    lua_gc(L, LUA_GCSTEP, DEBT_BYTES / 1024);
}
