/* script/lists.c - lists in option tables. */
#include "script/script.h"

/* The numbers of the list; `absent` in place of false when that is allowed. */
static double *read_numbers(lua_State *L, int t, const char *key, int n, bool allowed,
                            double absent)
{
    lua_getfield(L, t, key);
    if (lua_isnil(L, -1)) return NULL;
    if (!lua_istable(L, -1) || (int)lua_objlen(L, -1) != n)
        script_fault(L, "option '%s': expected a list of %d numbers", key, n);
    double *list = lua_newuserdata(L, ((size_t)n + 1) * sizeof *list);
    for (int i = 0; i < n; i++) {
        lua_rawgeti(L, -2, i + 1);
        bool none = allowed && lua_isboolean(L, -1) && !lua_toboolean(L, -1);
        list[i] = none ? absent : script_check_number(L, lua_gettop(L));
        lua_pop(L, 1);
    }
    return list;
}

double *script_opt_numbers(lua_State *L, int t, const char *key, int n)
{
    return read_numbers(L, t, key, n, false, 0);
}

double *script_opt_numbers_or(lua_State *L, int t, const char *key, int n, double absent)
{
    return read_numbers(L, t, key, n, true, absent);
}

int *script_need_ints(lua_State *L, int t, const char *key, int n, int base)
{
    lua_getfield(L, t, key);
    if (!lua_istable(L, -1) || (n >= 0 && (int)lua_objlen(L, -1) != n))
        script_fault(L, "option '%s': expected a list%s", key,
                     n < 0 ? "" : " as long as the others");
    n = (int)lua_objlen(L, -1);
    int *list = lua_newuserdata(L, ((size_t)n + 1) * sizeof *list);
    for (int i = 0; i < n; i++) {
        lua_rawgeti(L, -2, i + 1);
        list[i] = (int)script_check_int(L, lua_gettop(L), base, INT32_MAX) - base;
        lua_pop(L, 1);
    }
    return list;
}

int script_list_length(lua_State *L, int t, const char *key)
{
    lua_getfield(L, t, key);
    int n = lua_istable(L, -1) ? (int)lua_objlen(L, -1) : 0;
    lua_pop(L, 1);
    return n;
}

int64_t script_field_int(lua_State *L, int t, const char *key)
{
    return script_opt_int(L, t, key, 0, 0, (int64_t)1 << 53);
}
