/* script/check.c - arguments and option tables, checked without conversion.
 *
 * luaL_checkinteger turns 2.7 into 2 and "3" into 3 without a word; here both are errors. Numbers
 * past 2^53 are refused, since a double does not hold them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "script/script.h"

/* Why the value at the top is no integer in [lo, hi], in words; false when it is one. */
static bool integer_fault(lua_State *L, int i, int64_t lo, int64_t hi, char *text, size_t size)
{
    if (lua_type(L, i) != LUA_TNUMBER) {
        snprintf(text, size, "expected an integer, got %s", luaL_typename(L, i));
        return true;
    }
    double value = lua_tonumber(L, i);
    if (!isfinite(value) || value != floor(value) || fabs(value) > 9007199254740992.0)
        snprintf(text, size, "expected an integer, got %.17g", value);
    else if (value < (double)lo || value > (double)hi)
        snprintf(text, size, "expected an integer from %lld to %lld, got %.17g", (long long)lo,
                 (long long)hi, value);
    else
        return false;
    return true;
}

int64_t script_check_int(lua_State *L, int i, int64_t lo, int64_t hi)
{
    char fault[160];
    if (integer_fault(L, i, lo, hi, fault, sizeof fault)) script_arg_error(L, i, "%s", fault);
    return (int64_t)lua_tonumber(L, i);
}

int64_t script_arg_int(lua_State *L, int i, int64_t preset, int64_t lo, int64_t hi)
{
    return lua_isnoneornil(L, i) ? preset : script_check_int(L, i, lo, hi);
}

static void check_type(lua_State *L, int i, int type)
{
    if (lua_type(L, i) != type)
        script_arg_error(L, i, "expected a %s, got %s", lua_typename(L, type), luaL_typename(L, i));
}

double script_check_number(lua_State *L, int i)
{
    check_type(L, i, LUA_TNUMBER);
    return lua_tonumber(L, i);
}

const char *script_check_string(lua_State *L, int i)
{
    check_type(L, i, LUA_TSTRING);
    return lua_tostring(L, i);
}

void script_check_table(lua_State *L, int i)
{
    check_type(L, i, LUA_TTABLE);
}

int64_t script_check_index(lua_State *L, int i, int64_t n, const char *what)
{
    if (n == 0) script_arg_error(L, i, "there is no %s to choose", what);
    int64_t value = script_check_int(L, i, -n, n);
    if (value == 0)
        script_arg_error(L, i, "0 is no %s: they count from 1, or from -1 backwards", what);
    return value > 0 ? value - 1 : value + n;
}

int script_check_axis(lua_State *L, int i, int n_dims)
{
    return (int)script_check_index(L, i, n_dims, "axis");
}

/* -- names, shapes ----------------------------------------------------------------------------- */

/* Pushes "a, b, c". */
static const char *push_list(lua_State *L, const char *const *names, int n)
{
    luaL_Buffer list;
    luaL_buffinit(L, &list);
    for (int k = 0; k < n; k++) {
        if (k) luaL_addstring(&list, ", ");
        luaL_addstring(&list, names[k]);
    }
    luaL_pushresult(&list);
    return lua_tostring(L, -1);
}

/* Which of the names the argument is. */
static int check_name(lua_State *L, int i, const char *what, const char *const *names, int n)
{
    const char *name = script_check_string(L, i);
    for (int k = 0; k < n; k++)
        if (strcmp(name, names[k]) == 0) return k;
    script_arg_error(L, i, "no %s is called '%.40s', expected one of: %s", what, name,
                     push_list(L, names, n));
    return 0;
}

ft_dtype script_check_dtype(lua_State *L, int i)
{
    const char *names[FT_DTYPE_COUNT];
    for (int d = 0; d < FT_DTYPE_COUNT; d++) names[d] = ft_dtype_name((ft_dtype)d);
    return (ft_dtype)check_name(L, i, "dtype", names, FT_DTYPE_COUNT);
}

ft_dtype script_arg_dtype(lua_State *L, int i, ft_dtype preset)
{
    return lua_isnoneornil(L, i) ? preset : script_check_dtype(L, i);
}

ft_shape script_check_shape(lua_State *L, int i)
{
    check_type(L, i, LUA_TTABLE);
    ft_shape shape = {.n_dims = 0};
    size_t n = lua_objlen(L, i);
    if (n > FT_MAX_DIMS)
        script_arg_error(L, i, "at most %d dimensions, got %d", FT_MAX_DIMS, (int)n);
    for (size_t d = 0; d < n; d++) {
        char fault[160];
        lua_rawgeti(L, i, (int)d + 1);
        if (integer_fault(L, -1, 0, INT64_C(1) << 53, fault, sizeof fault))
            script_arg_error(L, i, "dimension %d: %s", (int)d + 1, fault);
        shape.dims[shape.n_dims++] = (int64_t)lua_tonumber(L, -1);
        lua_pop(L, 1);
    }
    return shape;
}

void script_push_shape(lua_State *L, const ft_shape *shape)
{
    lua_createtable(L, shape->n_dims, 0);
    for (int d = 0; d < shape->n_dims; d++) {
        lua_pushnumber(L, (double)shape->dims[d]);
        lua_rawseti(L, -2, d + 1);
    }
}

static ft_law check_law(lua_State *L, int i)
{
    const char *names[FT_N_LAWS];
    for (int k = 0; k < FT_N_LAWS; k++) names[k] = ft_law_name((ft_law)k);
    return (ft_law)check_name(L, i, "law of numbers", names, FT_N_LAWS);
}

ft_draw script_check_draw(lua_State *L, int i, uint64_t *seed)
{
    ft_draw draw = {.law = check_law(L, i)};
    draw.scale = lua_isnoneornil(L, i + 1) ? 1 : script_check_number(L, i + 1);
    *seed = (uint64_t)script_arg_int(L, i + 2, 0, 0, INT64_C(1) << 53);
    draw.stream = (uint64_t)script_arg_int(L, i + 3, 0, 0, INT64_C(1) << 53);
    return draw;
}

void script_set_number(lua_State *L, const char *key, double value)
{
    lua_pushnumber(L, value);
    lua_setfield(L, -2, key);
}

/* -- option tables ---------------------------------------------------------------------------- */

void script_options(lua_State *L, int t, const char *const *names)
{
    check_type(L, t, LUA_TTABLE);
    for (lua_pushnil(L); lua_next(L, t); lua_pop(L, 1)) {
        bool named = lua_type(L, -2) == LUA_TSTRING, known = false;
        const char *key = named ? lua_tostring(L, -2) : luaL_typename(L, -2);
        int n = 0;
        for (; names[n]; n++) known = known || (named && strcmp(names[n], key) == 0);
        if (!known)
            script_arg_error(L, t, "unknown option '%.60s' (expected one of: %s)", key,
                             push_list(L, names, n));
    }
}

int64_t script_opt_int(lua_State *L, int t, const char *key, int64_t preset, int64_t lo, int64_t hi)
{
    char fault[160];
    lua_getfield(L, t, key);
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        return preset;
    }
    if (integer_fault(L, -1, lo, hi, fault, sizeof fault))
        script_arg_error(L, t, "option '%s': %s", key, fault);
    int64_t value = (int64_t)lua_tonumber(L, -1);
    lua_pop(L, 1);
    return value;
}

/* Pushes the option when it is there and of that type; false when it is nil (nothing pushed). */
static bool push_option(lua_State *L, int t, const char *key, int type)
{
    lua_getfield(L, t, key);
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        return false;
    }
    if (lua_type(L, -1) != type)
        script_arg_error(L, t, "option '%s': expected a %s, got %s", key, lua_typename(L, type),
                         luaL_typename(L, -1));
    return true;
}

double script_opt_number(lua_State *L, int t, const char *key, double preset)
{
    if (!push_option(L, t, key, LUA_TNUMBER)) return preset;
    double value = lua_tonumber(L, -1);
    lua_pop(L, 1);
    return value;
}

bool script_opt_bool(lua_State *L, int t, const char *key, bool preset)
{
    if (!push_option(L, t, key, LUA_TBOOLEAN)) return preset;
    bool value = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return value;
}

const char *script_opt_string(lua_State *L, int t, const char *key, const char *preset)
{
    if (!push_option(L, t, key, LUA_TSTRING)) return preset;
    const char *value = lua_tostring(L, -1);
    lua_pop(L, 1);
    return value;
}
