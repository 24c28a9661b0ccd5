/* script/error.c - the errors of C as Lua error objects, and what they mean for the process.
 *
 * Raising is a long jump, so it happens here and in the argument checks only, and bindings have
 * nothing to free by then (script.h, rule 3). */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "script/script.h"
#include "script/state.h"

static const char error_class[] = "ftpipe.error";

int script_status_exit(ft_status status)
{
    switch (status) {
    case FT_OK: return 0;
    case FT_INVALID:
    case FT_UNSUPPORTED: return 2;
    case FT_INFEASIBLE: return 3;
    case FT_DIVERGED: return 4;
    case FT_HANG: return 5;
    case FT_SHAPE:
    case FT_NOT_FOUND:
    case FT_IO:
    case FT_FORMAT: return 6;
    case FT_CANCELLED: return 130;
    default: return 1;
    }
}

static int error_to_string(lua_State *L)
{
    lua_getfield(L, 1, "message");
    return 1;
}

void script_error_class(lua_State *L)
{
    luaL_newmetatable(L, error_class);
    lua_pushcfunction(L, error_to_string);
    lua_setfield(L, -2, "__tostring");
    lua_pop(L, 1);
}

void script_push_error(lua_State *L, ft_status status, const char *message, int exit_code)
{
    lua_createtable(L, 0, 3);
    lua_pushstring(L, ft_status_text(status));
    lua_setfield(L, -2, "status");
    lua_pushstring(L, message);
    lua_setfield(L, -2, "message");
    lua_pushinteger(L, exit_code);
    lua_setfield(L, -2, "exit");
    luaL_getmetatable(L, error_class);
    lua_setmetatable(L, -2);
}

/* A signal becomes an error once, whoever sees it first: the hook that would raise it goes. Returns
 * the exit code of the error. */
static int take_interrupt(lua_State *L)
{
    lua_sethook(L, NULL, 0, 0);
    int signal_number = script_interrupted(L);
    return 128 + (signal_number > 0 ? signal_number : SIGINT);
}

int script_raise(lua_State *L, const ft_error *err)
{
    bool stopped = err->status == FT_CANCELLED && script_interrupted(L);
    int exit_code = stopped ? take_interrupt(L) : script_status_exit(err->status);
    script_push_error(L, err->status, err->message, exit_code);
    return lua_error(L);
}

/* Whether a chunk is part of ftpipe itself, and so never the one to blame. */
static bool is_ours(const script_host *host, const char *source)
{
    static const char embedded[] = "@lua/ftpipe/";
    if (strncmp(source, embedded, sizeof embedded - 1) == 0) return true;
    return host->lua_dir && source[0] == '@' &&
           strncmp(source + 1, host->lua_dir, strlen(host->lua_dir)) == 0;
}

void script_where(lua_State *L)
{
    const script_host *host = script_state_of(L)->host;
    lua_Debug frame;
    for (int level = 1; lua_getstack(L, level, &frame); level++) {
        lua_getinfo(L, "Sl", &frame);
        if (frame.currentline <= 0 || is_ours(host, frame.source)) continue;
        lua_pushfstring(L, "%s:%d: ", frame.short_src, frame.currentline);
        return;
    }
    lua_pushliteral(L, "");
}

int script_blame(lua_State *L, const ft_error *err)
{
    script_where(L);
    lua_pushstring(L, err->message);
    lua_concat(L, 2);
    bool foreign =
        err->status != FT_INVALID && err->status != FT_SHAPE && err->status != FT_UNSUPPORTED;
    script_push_error(L, err->status, lua_tostring(L, -1),
                      foreign ? script_status_exit(err->status) : 1);
    return lua_error(L);
}

int script_fault(lua_State *L, const char *format, ...)
{
    ft_error err;
    char text[sizeof err.message];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ft_fail(&err, FT_INVALID, "%s", text);
    return script_blame(L, &err);
}

int script_arg_error(lua_State *L, int i, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    lua_Debug frame = {.name = NULL, .namewhat = ""};
    if (lua_getstack(L, 0, &frame)) lua_getinfo(L, "n", &frame);
    if (strcmp(frame.namewhat, "method") == 0) i--;
    script_where(L);
    if (i == 0)
        lua_pushfstring(L, "calling '%s' on bad self (%s)", frame.name, text);
    else if (frame.name)
        lua_pushfstring(L, "bad argument #%d to '%s' (%s)", i, frame.name, text);
    else /* called in the place of its caller, or by pcall */
        lua_pushfstring(L, "bad argument #%d (%s)", i, text);
    lua_concat(L, 2);
    script_push_error(L, FT_INVALID, lua_tostring(L, -1), 1);
    return lua_error(L);
}

/* The status of those words; FT_STATUS_COUNT when there is none. */
static ft_status status_named(const char *text)
{
    int status = FT_OK + 1;
    while (status < FT_STATUS_COUNT && strcmp(ft_status_text((ft_status)status), text) != 0)
        status++;
    return (ft_status)status;
}

int script_lua_fail(lua_State *L)
{
    const char *text = script_check_string(L, 1);
    const char *message = script_check_string(L, 2);
    ft_status status = status_named(text);
    if (status == FT_STATUS_COUNT) return script_arg_error(L, 1, "no status is called '%s'", text);
    int exit_code = (int)script_arg_int(L, 3, script_status_exit(status), 0, 255);
    script_push_error(L, status, message, exit_code);
    return lua_error(L);
}

int script_exit_code(lua_State *L, int i)
{
    int code = 1;
    if (!lua_istable(L, i)) return code;
    lua_pushvalue(L, i);
    lua_pushliteral(L, "exit");
    lua_rawget(L, -2);
    if (lua_isnumber(L, -1)) code = (int)lua_tointeger(L, -1);
    lua_pop(L, 2);
    return code;
}

const char *script_plural(int64_t n, const char *many)
{
    return n == 1 ? "" : many;
}

int script_traceback(lua_State *L)
{
    if (!lua_isstring(L, 1)) {
        if (lua_isnil(L, 1) || lua_istable(L, 1) || !luaL_callmeta(L, 1, "__tostring")) {
            lua_settop(L, 1);
            return 1;
        }
        lua_replace(L, 1);
        lua_settop(L, 1);
    }
    if (strstr(lua_tostring(L, 1), "\nstack traceback:\n")) return 1; /* of where it was raised */
    luaL_traceback(L, L, lua_tostring(L, 1), 1);
    return 1;
}

void script_interrupt_hook(lua_State *L, lua_Debug *where)
{
    (void)where;
    /* A handler of another error is at work, and another error would make "error in error handling"
     * of both: the hook stays until it is done. */
    if (lua_status(L) == LUA_ERRERR) return;
    int exit_code = take_interrupt(L);
    if (script_state_of(L)->hold_interrupt) return;
    bool terminated = exit_code == 128 + SIGTERM;
    script_push_error(L, FT_CANCELLED, terminated ? "terminated" : "interrupted", exit_code);
    lua_error(L);
}
