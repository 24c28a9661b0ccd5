/* bind_data/ids.c - token ids as one value of Lua: a vector that goes from a tokenizer into a
 * dataset without a number of Lua for each id.
 *
 * The ids lie in the userdata itself, so Lua's collector frees them. A vector never changes. */
#include <string.h>

#include "bind_data/internal.h"

static const char IDS[] = "ftpipe.ids";

typedef struct script_ids {
    int64_t n;
    int32_t ids[];
} script_ids;

static script_ids *push_vector(lua_State *L, int64_t n)
{
    script_ids *v = lua_newuserdata(L, sizeof *v + (size_t)n * sizeof *v->ids);
    v->n = n;
    luaL_getmetatable(L, IDS);
    lua_setmetatable(L, -2);
    return v;
}

void script_push_vector(lua_State *L, const int32_t *ids, int64_t n)
{
    script_ids *v = push_vector(L, n);
    if (n > 0) memcpy(v->ids, ids, (size_t)n * sizeof *ids);
}

bool script_test_vector(lua_State *L, int i, ft_id_run *run)
{
    const script_ids *v = lua_touserdata(L, i);
    if (!v || !lua_getmetatable(L, i)) return false;
    luaL_getmetatable(L, IDS);
    bool is_vector = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    if (is_vector) *run = (ft_id_run){v->ids, v->n};
    return is_vector;
}

static ft_id_run check_vector(lua_State *L, int i)
{
    ft_id_run run = {NULL, 0};
    if (!script_test_vector(L, i, &run))
        script_arg_error(L, i, "expected ids, got a %s", luaL_typename(L, i));
    return run;
}

bool script_is_id(double id)
{
    bool fits = (id >= 0 && id <= INT32_MAX) || id == FT_IGNORED_LABEL;
    return fits && id == (double)(int32_t)id;
}

/* The entry of data.ids at the top of the stack: one id, put into *one, or a vector. */
static ft_id_run check_entry(lua_State *L, int number, int32_t *one)
{
    ft_id_run run = {NULL, 0};
    if (script_test_vector(L, lua_gettop(L), &run)) return run;
    double id = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : -1;
    if (!script_is_id(id))
        script_arg_error(L, 1, "element %d is neither a token id (an integer from 0) nor ids",
                         number);
    *one = (int32_t)id;
    return (ft_id_run){one, 1};
}

/*** Ids as a vector: `#`, `[i]` from 1.
 * @function data.ids
 * @tparam table list of ids and of vectors, which are put behind each other
 * @treturn ids
 * @usage data.ids { cls, query, separator, context:part(1, 20), separator } */
static int data_ids(lua_State *L)
{
    int32_t one;
    int64_t n = 0;
    script_check_table(L, 1);
    int entries = (int)lua_objlen(L, 1);
    for (int i = 1; i <= entries; i++, lua_pop(L, 1)) {
        lua_rawgeti(L, 1, i);
        n += check_entry(L, i, &one).n;
    }
    script_ids *v = push_vector(L, n);
    int64_t at = 0;
    for (int i = 1; i <= entries; i++, lua_pop(L, 1)) {
        lua_rawgeti(L, 1, i);
        ft_id_run run = check_entry(L, i, &one);
        memcpy(v->ids + at, run.ids, (size_t)run.n * sizeof *run.ids);
        at += run.n;
    }
    return 1;
}

/*** A vector of n equal values, as segments are.
 * @function data.repeated
 * @tparam integer id
 * @tparam integer n
 * @treturn ids */
static int data_repeated(lua_State *L)
{
    int32_t id = (int32_t)script_check_int(L, 1, 0, INT32_MAX);
    int64_t n = script_check_int(L, 2, 0, INT32_MAX);
    script_ids *v = push_vector(L, n);
    for (int64_t i = 0; i < n; i++) v->ids[i] = id;
    return 1;
}

/*** A part of the ids, as a vector of its own.
 * @function ids:part
 * @tparam integer first from 1
 * @tparam integer n
 * @treturn ids
 * @raise invalid argument: it goes past the end */
static int ids_part(lua_State *L)
{
    ft_id_run run = check_vector(L, 1);
    int64_t first = script_check_int(L, 2, 1, run.n + 1);
    int64_t n = script_check_int(L, 3, 0, run.n - first + 1);
    script_push_vector(L, run.ids + first - 1, n);
    return 1;
}

/*** The ids as a list.
 * @function ids:totable
 * @treturn {integer,...} */
static int ids_totable(lua_State *L)
{
    ft_id_run run = check_vector(L, 1);
    script_push_ids(L, run.ids, run.n);
    return 1;
}

static int ids_length(lua_State *L)
{
    lua_pushnumber(L, (double)check_vector(L, 1).n);
    return 1;
}

/* v[i], nil past its ends; v.part. */
static int ids_index(lua_State *L)
{
    ft_id_run run = check_vector(L, 1);
    if (lua_type(L, 2) != LUA_TNUMBER) {
        lua_pushvalue(L, 2);
        lua_rawget(L, lua_upvalueindex(1));
        return 1;
    }
    double i = lua_tonumber(L, 2);
    if (!(i >= 1 && i <= (double)run.n) || i != (double)(int64_t)i) return 0;
    lua_pushinteger(L, run.ids[(int64_t)i - 1]);
    return 1;
}

static int ids_tostring(lua_State *L)
{
    int n = (int)check_vector(L, 1).n;
    lua_pushfstring(L, "%d id%s", n, script_plural(n, "s"));
    return 1;
}

void script_add_ids(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"ids", data_ids}, {"repeated", data_repeated}, {NULL, NULL}};
    static const luaL_Reg methods[] = {{"part", ids_part}, {"totable", ids_totable}, {NULL, NULL}};
    static const luaL_Reg meta[] = {
        {"__len", ids_length}, {"__tostring", ids_tostring}, {NULL, NULL}};
    script_class(L, IDS, methods, meta);
    lua_getfield(L, -1, "__index");
    lua_pushcclosure(L, ids_index, 1);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    luaL_register(L, NULL, functions);
}
