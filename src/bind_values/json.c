/* bind_values/json.c - core.json: JSON as Lua values.
 *
 *   null      core.json.null            true, false   booleans
 *   number    number; integers past 2^53 are refused, since a Lua number would change them
 *   array     table with the metatable core.json.array_meta, so that [] stays an array
 *   object    table
 *
 * A Lua number does not know whether it was 1 or 1.0. Files that others wrote and we change, as
 * config.json, therefore go through core.json.merge, which touches only what it is given. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bind_values/bind_values.h"
#include "base/alloc.h"
#include "io/io.h"
#include "bind_values/json_text.h"

enum { MAX_DEPTH = 512 };

static const char json_class[] = "ftpipe.json";
static const char array_class[] = "ftpipe.json.array";

static int json_gc(lua_State *L)
{
    void **box = script_box(L, 1, json_class);
    json_decref(*box);
    *box = NULL;
    return 0;
}

/* -- JSON to Lua ------------------------------------------------------------------------------ */

static void push_value(lua_State *L, const json_t *value);

static void push_integer(lua_State *L, json_int_t value)
{
    const json_int_t limit = (json_int_t)1 << 53;
    if (value >= -limit && value <= limit) {
        lua_pushnumber(L, (double)value);
        return;
    }
    ft_error err;
    ft_fail(&err, FT_FORMAT, "integer %lld of a JSON text is past 2^53: a number cannot hold it",
            (long long)value);
    script_raise(L, &err);
}

static void push_array(lua_State *L, const json_t *value)
{
    size_t n = json_array_size(value);
    lua_createtable(L, (int)n, 0);
    luaL_getmetatable(L, array_class);
    lua_setmetatable(L, -2);
    for (size_t i = 0; i < n; i++) {
        push_value(L, json_array_get(value, i));
        lua_rawseti(L, -2, (int)i + 1);
    }
}

static void push_object(lua_State *L, const json_t *value)
{
    lua_createtable(L, 0, (int)json_object_size(value));
    json_t *object = (json_t *)(uintptr_t)value; /* iterators only read, but are not const */
    for (void *it = json_object_iter(object); it; it = json_object_iter_next(object, it)) {
        lua_pushstring(L, json_object_iter_key(it));
        push_value(L, json_object_iter_value(it));
        lua_rawset(L, -3);
    }
}

static void push_value(lua_State *L, const json_t *value)
{
    luaL_checkstack(L, 4, "JSON is nested too deeply");
    switch (json_typeof(value)) {
    case JSON_OBJECT: push_object(L, value); break;
    case JSON_ARRAY: push_array(L, value); break;
    case JSON_STRING:
        lua_pushlstring(L, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER: push_integer(L, json_integer_value(value)); break;
    case JSON_REAL: lua_pushnumber(L, json_real_value(value)); break;
    case JSON_TRUE: lua_pushboolean(L, true); break;
    case JSON_FALSE: lua_pushboolean(L, false); break;
    case JSON_NULL: lua_pushlightuserdata(L, NULL); break;
    }
}

/* -- Lua to JSON ------------------------------------------------------------------------------ */

/* The JSON of the value at the top, a new reference; raises when there is none. Containers are
 * attached to `parent` before they are filled, so that the box at the root holds everything. */
typedef struct place {
    json_t *parent;   /* NULL: the root */
    const char *name; /* member of an object, NULL in an array */
    void **root;
    int depth;
} place;

static json_t *attach(lua_State *L, const place *at, json_t *value)
{
    int rc = 0;
    if (!value)
        rc = -1;
    else if (!at->parent)
        *at->root = value;
    else if (at->name)
        rc = json_object_set_new(at->parent, at->name, value);
    else
        rc = json_array_append_new(at->parent, value);
    if (rc != 0) script_fault(L, "this value cannot be written as JSON: no memory left");
    return value;
}

static void convert(lua_State *L, const place *at);

static json_t *json_of_number(lua_State *L)
{
    double value = lua_tonumber(L, -1);
    if (!isfinite(value))
        script_fault(L, "JSON has no %s", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
    bool integer = value == floor(value) && fabs(value) <= 9007199254740992.0;
    return integer ? json_integer((json_int_t)value) : json_real(value);
}

static json_t *json_of_string(lua_State *L)
{
    size_t n = 0;
    const char *text = lua_tolstring(L, -1, &n);
    json_t *value = json_stringn(text, n);
    if (!value) script_fault(L, "JSON strings are UTF-8, this one is not: '%s'", text);
    return value;
}

/* Whether the table at the top is written as an array. */
static bool is_array(lua_State *L)
{
    if (lua_getmetatable(L, -1)) {
        luaL_getmetatable(L, array_class);
        bool marked = lua_rawequal(L, -1, -2);
        lua_pop(L, 2);
        if (marked) return true;
    }
    return lua_objlen(L, -1) > 0;
}

static void convert_array(lua_State *L, const place *at)
{
    json_t *array = attach(L, at, json_array());
    int n = (int)lua_objlen(L, -1), found = 0;
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TNUMBER)
            script_fault(
                L, "a table with both items and the key '%s' is neither a JSON array nor object",
                lua_tostring(L, -2));
        found++;
    }
    if (found != n) script_fault(L, "a JSON array has %d items up to its length of %d", found, n);
    place inner = {array, NULL, at->root, at->depth + 1};
    for (int i = 1; i <= n; i++) {
        lua_rawgeti(L, -1, i);
        convert(L, &inner);
        lua_pop(L, 1);
    }
}

static void convert_object(lua_State *L, const place *at)
{
    json_t *object = attach(L, at, json_object());
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING)
            script_fault(L, "JSON names are strings, got a %s", luaL_typename(L, -2));
        size_t n = 0;
        const char *name = lua_tolstring(L, -2, &n);
        json_t *probe = json_stringn(name, n);
        json_decref(probe);
        if (!probe || strlen(name) != n) script_fault(L, "JSON names are UTF-8 without NUL");
        place inner = {object, name, at->root, at->depth + 1};
        convert(L, &inner);
    }
}

static void convert(lua_State *L, const place *at)
{
    if (at->depth > MAX_DEPTH)
        script_fault(L, "tables nested past %d levels, or in a circle", MAX_DEPTH);
    luaL_checkstack(L, 8, "tables are nested too deeply");
    switch (lua_type(L, -1)) {
    case LUA_TNUMBER: attach(L, at, json_of_number(L)); return;
    case LUA_TBOOLEAN: attach(L, at, json_boolean(lua_toboolean(L, -1))); return;
    case LUA_TSTRING: attach(L, at, json_of_string(L)); return;
    case LUA_TTABLE: is_array(L) ? convert_array(L, at) : convert_object(L, at); return;
    case LUA_TLIGHTUSERDATA:
        if (!lua_touserdata(L, -1)) {
            attach(L, at, json_null());
            return;
        }
        break;
    default: break;
    }
    script_fault(L, "a %s cannot be written as JSON", luaL_typename(L, -1));
}

/* -- functions -------------------------------------------------------------------------------- */

/* Pushes a box with the value at index i as JSON. */
static json_t *box_value(lua_State *L, int i)
{
    void **box = script_box_new(L, json_class);
    place root = {NULL, NULL, box, 0};
    lua_pushvalue(L, i);
    convert(L, &root);
    lua_pop(L, 1);
    return *box;
}

/* Pushes a box with a parsed text. */
static json_t *box_text(lua_State *L, const char *text, size_t size, const char *name)
{
    void **box = script_box_new(L, json_class);
    ft_error err;
    if (ft_json_parse((json_t **)box, text, (int64_t)size, name, &err) != FT_OK)
        script_raise(L, &err);
    return *box;
}

/* Pushes the text of a value; options { indent =, sort = } at index i. */
static int push_text(lua_State *L, const json_t *value, int i, bool sort)
{
    static const char *const names[] = {"indent", "sort", NULL};
    int indent = 0;
    if (!lua_isnoneornil(L, i)) {
        script_options(L, i, names);
        indent = (int)script_opt_int(L, i, "indent", 0, 0, 16);
        sort = script_opt_bool(L, i, "sort", sort);
    }
    ft_text text = {0};
    script_json_write(&text, value, indent, sort);
    if (text.failed) {
        ft_text_fini(&text);
        return script_fault(L, "no memory for the text of a JSON value");
    }
    lua_pushlstring(L, text.data, (size_t)text.length);
    ft_text_fini(&text);
    return 1;
}

/* decode(text, name): the value of a JSON text; the name, which may be absent, is for messages. */
static int lua_json_decode(lua_State *L)
{
    script_check_string(L, 1);
    size_t size = 0;
    const char *text = lua_tolstring(L, 1, &size);
    const char *name = lua_isnoneornil(L, 2) ? "JSON text" : script_check_string(L, 2);
    push_value(L, box_text(L, text, size, name));
    return 1;
}

/* read(path): the value of a JSON file. */
static int lua_json_read(lua_State *L)
{
    const char *path = script_check_string(L, 1);
    void **box = script_box_new(L, json_class);
    ft_error err;
    if (ft_json_read((json_t **)box, path, &err) != FT_OK) return script_raise(L, &err);
    push_value(L, *box);
    return 1;
}

/* encode(value, o): its text; o, which may be absent, has indent (0: on one line) and sort (true:
 * by name). */
static int lua_json_encode(lua_State *L)
{
    luaL_checkany(L, 1);
    lua_settop(L, 2);
    return push_text(L, box_value(L, 1), 2, true);
}

/* merge(text, changes, o): the text of a JSON object with some of its members set; all others keep
 * their order and the way their numbers are written (1.0 stays 1.0). o as of encode, sort = false.
 */
static int lua_json_merge(lua_State *L)
{
    script_check_string(L, 1);
    script_check_table(L, 2);
    lua_settop(L, 3);
    size_t size = 0;
    const char *text = lua_tolstring(L, 1, &size);
    json_t *target = box_text(L, text, size, "JSON text");
    if (!json_is_object(target))
        return script_arg_error(L, 1, "expected the text of a JSON object");
    json_t *changes = box_value(L, 2);
    if (json_object_update(target, changes) != 0)
        return script_fault(L, "the changes could not be applied: expected an object");
    return push_text(L, target, 3, false);
}

/* array(list): marks a table as a JSON array, for tables that may be empty; gives it back. */
static int lua_json_array(lua_State *L)
{
    script_check_table(L, 1);
    lua_settop(L, 1);
    luaL_getmetatable(L, array_class);
    lua_setmetatable(L, 1);
    return 1;
}

int script_bind_json(lua_State *L)
{
    static const luaL_Reg functions[] = {{"decode", lua_json_decode}, {"read", lua_json_read},
                                         {"encode", lua_json_encode}, {"merge", lua_json_merge},
                                         {"array", lua_json_array},   {NULL, NULL}};
    static const luaL_Reg box_meta[] = {{"__gc", json_gc}, {NULL, NULL}};
    script_class(L, json_class, NULL, box_meta);
    lua_newtable(L);
    luaL_register(L, NULL, functions);
    luaL_newmetatable(L, array_class);
    lua_setfield(L, -2, "array_meta");
    lua_pushlightuserdata(L, NULL);
    lua_setfield(L, -2, "null");
    return 1;
}
