/* script/script.c - a Lua state with the modules of ftpipe in it.
 *
 * Modules are found in this order: FTPIPE_LUA's directory (a searcher in front, for editing without
 * building), the embedded ones (package.preload), then package.path; so a stray ftpipe.lua on the
 * machine changes nothing. */
#include "script/script.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "script/state.h"

static const char state_key[] = "ftpipe.state";

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool is_sanitized = true;
#else
static const bool is_sanitized = false;
#endif

script_state *script_state_of(lua_State *L)
{
    lua_getfield(L, LUA_REGISTRYINDEX, state_key);
    script_state *state = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return state;
}

/* -- modules ---------------------------------------------------------------------------------- */

/* package.preload["ftpipe.x"](name): runs the embedded file of upvalue 1. */
static int load_embedded(lua_State *L)
{
    const script_file *file = lua_touserdata(L, lua_upvalueindex(1));
    if (luaL_loadbuffer(L, file->bytes, (size_t)file->size, file->chunk) != 0) return lua_error(L);
    lua_pushstring(L, file->name);
    lua_call(L, 1, 1);
    return 1;
}

/* package.loaders entry: ftpipe.a.b is DIR/ftpipe/a/b.lua or DIR/ftpipe/a/b/init.lua. */
static int search_directory(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    const char *dir = script_state_of(L)->host->lua_dir;
    const char *slashed = luaL_gsub(L, name, ".", "/");
    static const char *const forms[] = {"%s/%s.lua", "%s/%s/init.lua"};
    for (int i = 0; i < 2; i++) {
        const char *path = lua_pushfstring(L, forms[i], dir, slashed);
        if (access(path, R_OK) != 0) continue;
        if (luaL_loadfile(L, path) != 0) return lua_error(L);
        return 1;
    }
    lua_pushfstring(L, "\n\tno file for '%s' in FTPIPE_LUA=%s", name, dir);
    return 1;
}

static void add_directory_searcher(lua_State *L)
{
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "loaders");
    for (int i = (int)lua_objlen(L, -1); i >= 1; i--) {
        lua_rawgeti(L, -1, i);
        lua_rawseti(L, -2, i + 1);
    }
    lua_pushcfunction(L, search_directory);
    lua_rawseti(L, -2, 1);
    lua_pop(L, 2);
}

static void add_embedded(lua_State *L, const script_file *modules)
{
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "preload");
    for (const script_file *file = modules; file && file->name; file++) {
        lua_pushlightuserdata(L, (void *)(uintptr_t)file);
        lua_pushcclosure(L, load_embedded, 1);
        lua_setfield(L, -2, file->name);
    }
    lua_pop(L, 2);
}

/* -- assets ----------------------------------------------------------------------------------- */

/* core.asset(name): the bytes of an embedded file. */
static int lua_asset(lua_State *L)
{
    const char *name = script_check_string(L, 1);
    for (const script_file *file = script_state_of(L)->host->assets; file && file->name; file++) {
        if (strcmp(file->name, name) != 0) continue;
        lua_pushlstring(L, file->bytes, (size_t)file->size);
        return 1;
    }
    ft_error err;
    ft_fail(&err, FT_NOT_FOUND, "no file '%s' is embedded in this program", name);
    return script_raise(L, &err);
}

/* core.source(module): the text of an embedded Lua module, or nil. None has one while modules come
 * from a directory: what is embedded is not what runs. */
static int lua_source(lua_State *L)
{
    const char *name = script_check_string(L, 1);
    if (script_state_of(L)->host->lua_dir) return 0;
    for (const script_file *file = script_state_of(L)->host->modules; file && file->name; file++) {
        if (strcmp(file->name, name) != 0) continue;
        lua_pushlstring(L, file->bytes, (size_t)file->size);
        return 1;
    }
    return 0;
}

/* core.assets(): the names of the embedded files, in order. */
static int lua_assets(lua_State *L)
{
    lua_newtable(L);
    int n = 0;
    for (const script_file *file = script_state_of(L)->host->assets; file && file->name; file++) {
        lua_pushstring(L, file->name);
        lua_rawseti(L, -2, ++n);
    }
    return 1;
}

/* core.where(): "file:line: " of the caller outside lua/ftpipe. */
static int lua_where(lua_State *L)
{
    script_where(L);
    return 1;
}

/* -- opening ---------------------------------------------------------------------------------- */

static int open_core(lua_State *L)
{
    const script_host *host = script_state_of(L)->host;
    static const luaL_Reg functions[] = {{"asset", lua_asset},      {"assets", lua_assets},
                                         {"fail", script_lua_fail}, {"source", lua_source},
                                         {"where", lua_where},      {NULL, NULL}};
    lua_newtable(L);
    luaL_register(L, NULL, functions);
    lua_pushstring(L, FTPIPE_VERSION);
    lua_setfield(L, -2, "version");
    lua_pushboolean(L, is_sanitized);
    lua_setfield(L, -2, "sanitized"); /* times mean nothing then */
    for (const luaL_Reg *opener = host->rooms; opener->name; opener++) {
        lua_pushcfunction(L, opener->func);
        lua_call(L, 0, 1);
        lua_setfield(L, -2, opener->name);
    }
    return 1;
}

/* LuaJIT up to 2.1.0-beta3 (its issue 843; Debian 12 has it) lets compiled code read a table's
 * length as it was before another reference to the table added to it: right scripts compute wrong
 * numbers, and not each time. Without forwarding of loads no length is kept, whatever a script says
 * of other options. Releases with the correction count as 20199. */
static void mend_lengths(lua_State *L)
{
    static const char chunk[] = "local start = jit.opt.start\n"
                                "if jit.version_num >= 20199 then return end\n"
                                "function jit.opt.start(...) start(...) start('-fwd') end\n"
                                "start('-fwd')";
    if (luaL_loadstring(L, chunk) != 0) lua_error(L);
    lua_call(L, 0, 0);
}

static int open_all(lua_State *L)
{
    const script_host *host = lua_touserdata(L, 1);
    script_state *state = lua_newuserdata(L, sizeof *state);
    *state = (script_state){.host = host};
    lua_setfield(L, LUA_REGISTRYINDEX, state_key);
    luaL_openlibs(L);
    mend_lengths(L);
    script_error_class(L);
    add_embedded(L, host->modules);
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "preload");
    lua_pushcfunction(L, open_core);
    lua_setfield(L, -2, "ftpipe.core");
    if (host->lua_dir) add_directory_searcher(L);
    return 0;
}

script_say *script_say_of(lua_State *L)
{
    return script_state_of(L)->host->say;
}

lua_State *script_new(const script_host *host)
{
    lua_State *L = luaL_newstate();
    if (!L) return NULL;
    lua_gc(L, LUA_GCSTOP, 0);
    int rc = lua_cpcall(L, open_all, (void *)(uintptr_t)host);
    lua_gc(L, LUA_GCRESTART, 0);
    if (rc == 0) return L;
    lua_close(L);
    return NULL;
}

int script_interrupted(lua_State *L)
{
    return (int)*script_state_of(L)->host->interrupt;
}

void script_clear_interrupt(lua_State *L)
{
    *script_state_of(L)->host->interrupt = 0;
}

void script_hold_interrupt(lua_State *L, bool hold)
{
    script_state_of(L)->hold_interrupt = hold;
}

void script_hear_asks(lua_State *L, bool hear)
{
    volatile sig_atomic_t *asks = script_state_of(L)->host->asks;
    for (int what = 0; what < SCRIPT_ASK_COUNT; what++)
        if (!hear || asks[what] == SCRIPT_UNHEARD)
            asks[what] = hear ? SCRIPT_HEARD : SCRIPT_UNHEARD;
}

void script_pass_over_asks(lua_State *L)
{
    for (int what = 0; what < SCRIPT_ASK_COUNT; what++)
        script_state_of(L)->host->asks[what] = SCRIPT_PASSED_OVER;
}

bool script_asked(lua_State *L, script_ask what)
{
    volatile sig_atomic_t *ask = &script_state_of(L)->host->asks[what];
    if (*ask != SCRIPT_ASKED) return false;
    *ask = SCRIPT_HEARD;
    return true;
}

const volatile sig_atomic_t *script_interrupt_flag(lua_State *L)
{
    return script_state_of(L)->host->interrupt;
}
