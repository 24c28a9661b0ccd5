/* bind_values/io.c - core.io: tensors on disk.
 *
 * What checkpoints are made of: archives of named tensors, read one at a time into tensors that are
 * there already, and the writing of one. Whole files and JSON are core.sys and core.json. */
#include <string.h>
#include <unistd.h>

#include "bind_values/bind_values.h"
#include "io/io.h"

static const char ARCHIVE[] = "ftpipe.archive";
static const char LOCK[] = "ftpipe.lock";

static ft_archive *check_archive(lua_State *L, int i)
{
    return script_box_check(L, i, ARCHIVE);
}

/* A string that C can take whole: without a NUL in it. */
static const char *check_text(lua_State *L, int i)
{
    const char *text = script_check_string(L, i);
    if (strlen(text) != lua_objlen(L, i)) script_arg_error(L, i, "the string holds a NUL byte");
    return text;
}

/* -- archives --------------------------------------------------------------------------------- */

/*** Opens a safetensors file, an index of shards, or a directory with one of them.
 * @function io.archive
 * @tparam string path
 * @treturn archive
 * @raise not found, malformed data, input or output failed */
static int io_archive(lua_State *L)
{
    ft_error err;
    const char *path = check_text(L, 1);
    void **box = script_box_new(L, ARCHIVE);
    if (ft_archive_open((ft_archive **)box, path, &err) != FT_OK) return script_raise(L, &err);
    return 1;
}

/*** Opens a safetensors file that is held in a string.
 * @function io.archive_bytes
 * @tparam string bytes
 * @tparam string name stands for the path in messages
 * @treturn archive */
static int io_archive_bytes(lua_State *L)
{
    ft_error err;
    const char *bytes = script_check_string(L, 1);
    size_t size = lua_objlen(L, 1);
    const char *name = check_text(L, 2);
    void **box = script_box_new(L, ARCHIVE);
    if (ft_archive_load((ft_archive **)box, bytes, (int64_t)size, name, &err) != FT_OK)
        return script_raise(L, &err);
    return 1;
}

static int archive_close(lua_State *L)
{
    void **box = script_box(L, 1, ARCHIVE);
    ft_archive_close(*box);
    *box = NULL;
    return 0;
}

/*** The names of the tensors, sorted.
 * @function archive:names
 * @treturn {string,...} */
static int archive_names(lua_State *L)
{
    const ft_archive *archive = check_archive(L, 1);
    int n = ft_archive_count(archive);
    lua_createtable(L, n, 0);
    for (int i = 0; i < n; i++) {
        lua_pushstring(L, ft_archive_entry(archive, i)->name);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/*** What a tensor is.
 * @function archive:spec
 * @tparam string name
 * @treturn {dtype=string,dims=table,readable=boolean} nil when there is no such tensor; of one that
 *   is not readable, the dtype as the file spells it and its bytes as the one dimension */
static int archive_spec(lua_State *L)
{
    const ft_archive *archive = check_archive(L, 1);
    int i = ft_archive_find(archive, check_text(L, 2));
    if (i < 0) return 0;
    const ft_entry *entry = ft_archive_entry(archive, i);
    lua_createtable(L, 0, 3);
    lua_pushstring(L, entry->readable ? ft_dtype_name(entry->spec.dtype) : entry->dtype_name);
    lua_setfield(L, -2, "dtype");
    script_push_shape(L, &entry->spec.shape);
    lua_setfield(L, -2, "dims");
    lua_pushboolean(L, entry->readable);
    lua_setfield(L, -2, "readable");
    return 1;
}

/*** The name that is nearest in spelling, nil in an empty archive.
 * @function archive:nearest
 * @tparam string name
 * @treturn string */
static int archive_nearest(lua_State *L)
{
    lua_pushstring(L, ft_archive_nearest(check_archive(L, 1), check_text(L, 2)));
    return 1;
}

/* The number of the tensor named by argument i; raises when there is none. */
static int check_entry(lua_State *L, int i, const ft_archive *archive)
{
    const char *name = check_text(L, i);
    int entry = ft_archive_find(archive, name);
    if (entry >= 0) return entry;
    const char *nearest = ft_archive_nearest(archive, name);
    ft_error err;
    ft_fail(&err, FT_NOT_FOUND, "no tensor is named '%.200s' (the nearest name is '%.200s')", name,
            nearest ? nearest : "");
    return script_raise(L, &err);
}

/*** Reads a tensor into another, contiguous one of the same shape, converting to its dtype.
 * @function archive:read
 * @tparam string name
 * @tparam tensor destination
 * @treturn tensor the destination
 * @raise not found, shape mismatch, unsupported, input or output failed */
static int archive_read(lua_State *L)
{
    ft_error err;
    const ft_archive *archive = check_archive(L, 1);
    int entry = check_entry(L, 2, archive);
    const ft_view *view = script_check_view(L, 3);
    if (ft_archive_read(archive, entry, view, &err) != FT_OK) return script_raise(L, &err);
    lua_settop(L, 3);
    return 1;
}

/*** Whether two tensors hold the same shape and values; neither is loaded whole.
 * @function archive:equal
 * @tparam string name
 * @tparam string other
 * @treturn boolean */
static int archive_equal(lua_State *L)
{
    ft_error err;
    bool equal = false;
    const ft_archive *archive = check_archive(L, 1);
    int a = check_entry(L, 2, archive), b = check_entry(L, 3, archive);
    if (ft_archive_equal(archive, a, b, &equal, &err) != FT_OK) return script_raise(L, &err);
    lua_pushboolean(L, equal);
    return 1;
}

static int archive_length(lua_State *L)
{
    lua_pushinteger(L, ft_archive_count(check_archive(L, 1)));
    return 1;
}

static int archive_tostring(lua_State *L)
{
    const ft_archive *archive = script_box_test(L, 1, ARCHIVE);
    if (archive)
        lua_pushfstring(L, "archive: %d tensor%s", ft_archive_count(archive),
                        script_plural(ft_archive_count(archive), "s"));
    else
        lua_pushliteral(L, "archive (closed)");
    return 1;
}

/* -- writing ---------------------------------------------------------------------------------- */

/* Pushes list[i][key], where the list is at t and the key at k; no metamethod is called. */
static void push_field(lua_State *L, int t, int i, int k)
{
    lua_rawgeti(L, t, i);
    if (!lua_istable(L, -1)) script_arg_error(L, t, "element %d is not {name=, tensor=}", i);
    lua_pushvalue(L, k);
    lua_rawget(L, -2);
    lua_remove(L, -2);
}

const char *script_push_named(lua_State *L, int t, int i)
{
    push_field(L, t, i, t + 1);
    if (lua_type(L, -1) != LUA_TSTRING || strlen(lua_tostring(L, -1)) != lua_objlen(L, -1))
        script_arg_error(L, t, "element %d: name is not a string without NUL bytes", i);
    const char *name = lua_tostring(L, -1);
    lua_pop(L, 1);
    push_field(L, t, i, t + 2);
    return name;
}

static void check_named(lua_State *L, int t, int i, ft_named_view *out)
{
    const char *name = script_push_named(L, t, i);
    const ft_tensor *tensor = script_test_tensor(L, lua_gettop(L));
    if (!tensor) script_arg_error(L, t, "element %d: tensor is no tensor, or was freed", i);
    *out = (ft_named_view){name, *ft_tensor_view(tensor)};
    lua_pop(L, 1);
}

/*** Writes a safetensors file, whole or not at all.
 * @function io.write
 * @tparam string path
 * @tparam table tensors a list of {name=string, tensor=tensor}; the tensors are contiguous
 * @raise invalid argument, input or output failed */
static int io_write(lua_State *L)
{
    ft_error err;
    const char *path = check_text(L, 1);
    script_check_table(L, 2);
    int n = (int)lua_objlen(L, 2);
    lua_settop(L, 2);
    lua_pushliteral(L, "name");
    lua_pushliteral(L, "tensor");
    ft_named_view *tensors = lua_newuserdata(L, (size_t)(n + 1) * sizeof *tensors);
    for (int i = 0; i < n; i++) check_named(L, 2, i + 1, &tensors[i]);
    if (ft_safetensors_write(path, tensors, n, &err) != FT_OK) return script_raise(L, &err);
    return 0;
}

/*** Puts one directory in the place of another, in one step; what was there is at `from`
 * afterwards.
 * @function io.exchange
 * @tparam string from
 * @tparam string to need not exist */
static int io_exchange(lua_State *L)
{
    ft_error err;
    if (ft_dir_exchange(check_text(L, 1), check_text(L, 2), &err) != FT_OK)
        return script_raise(L, &err);
    return 0;
}

/*** Makes the names in a directory survive a power cut.
 * @function io.sync
 * @tparam string directory */
static int io_sync(lua_State *L)
{
    ft_error err;
    if (ft_dir_sync(check_text(L, 1), &err) != FT_OK) return script_raise(L, &err);
    return 0;
}

/*** Makes a symbolic link, or points one that is there elsewhere, in one step.
 * @function io.link
 * @tparam string path of the link
 * @tparam string target as it is written in the link */
static int io_link(lua_State *L)
{
    ft_error err;
    if (ft_link_set(check_text(L, 1), check_text(L, 2), &err) != FT_OK)
        return script_raise(L, &err);
    return 0;
}

/*** Gives a file a second name on its file system.
 * @function io.hard_link
 * @tparam string path
 * @tparam string name that is not there yet
 * @treturn boolean false when that is not possible */
static int io_hard_link(lua_State *L)
{
    lua_pushboolean(L, link(check_text(L, 1), check_text(L, 2)) == 0);
    return 1;
}

/*** Where a symbolic link points, as it is written there.
 * @function io.link_target
 * @tparam string path
 * @treturn string nil when there is no such link */
static int io_link_target(lua_State *L)
{
    ft_error err;
    char target[4096];
    ft_status status = ft_link_read(check_text(L, 1), target, sizeof target, &err);
    if (status == FT_NOT_FOUND) return 0;
    if (status != FT_OK) return script_raise(L, &err);
    lua_pushstring(L, target);
    return 1;
}

/*** Bytes that can still be written where a file or directory is.
 * @function io.free_bytes
 * @tparam string path that exists
 * @treturn number */
static int io_free_bytes(lua_State *L)
{
    ft_error err;
    int64_t bytes = 0;
    if (ft_disk_free(check_text(L, 1), &bytes, &err) != FT_OK) return script_raise(L, &err);
    lua_pushnumber(L, (double)bytes);
    return 1;
}

/* -- locks ------------------------------------------------------------------------------------ */

/*** Locks a file for this process, and makes it when it is not there. The lock is given back by
 * lock:free(), with the object, or when the process ends.
 * @function io.lock
 * @tparam string path
 * @treturn lock nil when another process has it
 * @treturn boolean whether it keeps others out, which it does not where a file system has no locks;
 *   or the number of the process that has it, 0 when it is not known */
static int io_lock(lua_State *L)
{
    ft_error err;
    int64_t holder = 0;
    const char *path = check_text(L, 1);
    void **box = script_box_new(L, LOCK);
    if (ft_lock_take((ft_lock **)box, path, &holder, &err) != FT_OK) return script_raise(L, &err);
    if (*box) {
        lua_pushboolean(L, ft_lock_guards(*box));
        return 2;
    }
    lua_pushnil(L);
    lua_pushinteger(L, (lua_Integer)holder);
    return 2;
}

/* io.lock_holder(path): the number of the process that has a lock of it (0: not known), nil without
 * one. */
static int io_lock_holder(lua_State *L)
{
    ft_error err;
    int64_t holder;
    bool held;
    if (ft_lock_look(check_text(L, 1), &held, &holder, &err) != FT_OK) return script_raise(L, &err);
    if (!held) return 0;
    lua_pushinteger(L, (lua_Integer)holder);
    return 1;
}

static int lock_free(lua_State *L)
{
    void **box = script_box(L, 1, LOCK);
    ft_lock_free(*box);
    *box = NULL;
    return 0;
}

int script_bind_io(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"archive", io_archive},
        {"archive_bytes", io_archive_bytes},
        {"write", io_write},
        {"exchange", io_exchange},
        {"sync", io_sync},
        {"link", io_link},
        {"link_target", io_link_target},
        {"hard_link", io_hard_link},
        {"free_bytes", io_free_bytes},
        {"lock", io_lock},
        {"lock_holder", io_lock_holder},
        {NULL, NULL},
    };
    static const luaL_Reg methods[] = {
        {"close", archive_close},     {"free", archive_close},
        {"names", archive_names},     {"spec", archive_spec},
        {"nearest", archive_nearest}, {"read", archive_read},
        {"equal", archive_equal},     {NULL, NULL},
    };
    static const luaL_Reg meta[] = {
        {"__gc", archive_close},
        {"__len", archive_length},
        {"__tostring", archive_tostring},
        {NULL, NULL},
    };
    static const luaL_Reg lock_methods[] = {{"free", lock_free}, {NULL, NULL}};
    static const luaL_Reg lock_meta[] = {{"__gc", lock_free}, {NULL, NULL}};
    script_class(L, ARCHIVE, methods, meta);
    script_class(L, LOCK, lock_methods, lock_meta);
    lua_newtable(L);
    luaL_register(L, NULL, functions);
    /* weight_files: the names that a directory's weights may have, the first that is there counts
     */
    lua_newtable(L);
    for (int i = 0; ft_archive_files[i]; i++) {
        lua_pushstring(L, ft_archive_files[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "weight_files");
    return 1;
}
