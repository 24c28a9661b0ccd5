/* bind_runs/files.c - what a run has, into files and out of them. */
#include "bind_runs/internal.h"

/* Positions on the stack, behind those of script_push_named. */
enum { LIST = 3, NAME, TENSOR, PARAM, PART };

/* The whole number in a field of the table at the top, or the preset; no metamethod is called. */
static int read_field(lua_State *L, int key, int preset)
{
    lua_pushvalue(L, key);
    lua_rawget(L, -2);
    int value = lua_isnil(L, -1) ? preset : (int)luaL_checkinteger(L, -1);
    lua_pop(L, 1);
    return value;
}

static void check_saved(lua_State *L, int i, ft_saved *out)
{
    *out = (ft_saved){.name = script_push_named(L, LIST, i), .param = -1, .part = -1};
    const ft_tensor *tensor = script_test_tensor(L, lua_gettop(L));
    if (tensor)
        out->view = *ft_tensor_view(tensor);
    else if (lua_istable(L, -1)) {
        out->param = read_field(L, PARAM, 0) - 1;
        out->part = read_field(L, PART, 0) - 1;
    }
    if (!tensor && out->param < 0)
        script_arg_error(L, LIST, "element %d: tensor is none, and no parameter of the run", i);
    lua_pop(L, 1);
}

/* What the list says; on the stack, which has nothing else behind it. */
static ft_saved *check_list(lua_State *L, int *n)
{
    script_check_table(L, LIST);
    *n = (int)lua_objlen(L, LIST);
    lua_settop(L, LIST);
    lua_pushliteral(L, "name");
    lua_pushliteral(L, "tensor");
    lua_pushliteral(L, "param");
    lua_pushliteral(L, "part");
    ft_saved *list = lua_newuserdata(L, (size_t)(*n + 1) * sizeof *list);
    for (int i = 0; i < *n; i++) check_saved(L, i + 1, &list[i]);
    return list;
}

/*** Writes a safetensors file, as io.write does. What other processes own they write there
 * themselves, where they see the file: `path` is in a directory that gets its name when this has
 * returned.
 * @function run:write
 * @tparam string path
 * @tparam table tensors a list of {name=string, tensor=}: a tensor, contiguous, or {param=, part=},
 *   the number of a parameter and, unless it is the parameter itself, of a part of its optimizer's
 *   state
 * @raise invalid argument, input or output failed: naming the process that failed */
int script_run_write(lua_State *L, ft_run *run)
{
    int n;
    ft_error err;
    const char *path = script_check_string(L, 2);
    const ft_saved *list = check_list(L, &n);
    if (ft_run_write(run, path, list, n, &err) != FT_OK) return script_raise(L, &err);
    return 0;
}

/*** Reads parameters and parts of their optimizers' state out of a file, or a directory, of
 * weights; a refresh is to follow. Other processes read what they have themselves, where they see
 * the file.
 * @function run:read
 * @tparam string path as of io.archive
 * @tparam table tensors a list of {name=string, tensor={param=, part=}}, as of write
 * @tparam[opt=false] boolean refuses another file at that path elsewhere; else it is left alone
 * @raise not found, malformed data, input or output failed; invalid argument: another process has
 *   another file there; naming the process that failed */
int script_run_read(lua_State *L, ft_run *run)
{
    int n;
    ft_error err;
    const char *path = script_check_string(L, 2);
    bool refuses = lua_toboolean(L, 4);
    const ft_saved *list = check_list(L, &n);
    if (ft_run_read(run, path, list, n, refuses, &err) != FT_OK) return script_raise(L, &err);
    return 0;
}
