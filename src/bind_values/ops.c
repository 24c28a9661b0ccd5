/* bind_values/ops.c - core.ops: the rows of the operator table, run at once on tensors.
 *
 * apply("softmax", { x }) allocates outputs and workspace, packs nothing and runs on the calling
 * thread: for exploring and for tests. Training runs rows through the engine. */
#include <string.h>

#include "bind_values/internal.h"
#include "base/alloc.h"

/* One call being prepared; everything that it owns is in boxes on the Lua stack. */
typedef struct run {
    const ft_op *op;
    int n_in;
    ft_spec in_specs[FT_MAX_IN], out_specs[FT_MAX_OUT];
    ft_view in[FT_MAX_IN], out[FT_MAX_OUT];
    double attrs[FT_MAX_ATTRS];
    int first_out; /* stack index of the first output's box */
} run;

const ft_op *script_check_op(lua_State *L, int i)
{
    const char *name = script_check_string(L, i);
    const ft_op *op = ft_op_find(name);
    if (!op)
        script_arg_error(L, i, "no operator is called '%.60s'; core.ops.list() has them all", name);
    return op;
}

/* The value at the top is no live tensor: says whether it was one. */
static void refuse_input(lua_State *L, int i, int k)
{
    const char *got = luaL_typename(L, -1);
    if (luaL_getmetafield(L, -1, "__name") && strcmp(lua_tostring(L, -1), "ftpipe.tensor") == 0)
        script_arg_error(L, i, "input %d: the tensor was freed", k + 1);
    script_arg_error(L, i, "input %d: expected a tensor, got %s", k + 1, got);
}

int script_count_inputs(lua_State *L, int i, const ft_op *op)
{
    script_check_table(L, i);
    int n = (int)lua_objlen(L, i);
    if (n < op->min_in || n > op->n_in)
        script_arg_error(L, i, "%s takes %d to %d inputs, got %d", op->name, op->min_in, op->n_in,
                         n);
    return n;
}

/* Reads { t, t, ... } at index i; false stands for an absent optional input. Copies of inputs that
 * are not contiguous stay on the stack. */
static void read_inputs(lua_State *L, int i, run *r)
{
    r->n_in = script_count_inputs(L, i, r->op);
    for (int k = 0; k < FT_MAX_IN; k++) r->in_specs[k].shape.n_dims = -1;
    for (int k = 0; k < r->n_in; k++) {
        lua_rawgeti(L, i, k + 1);
        if (lua_isboolean(L, -1) && !lua_toboolean(L, -1)) continue;
        ft_tensor *tensor = script_test_tensor(L, -1);
        if (!tensor) refuse_input(L, i, k);
        r->in[k] = *ft_tensor_view(tensor);
        if (!ft_view_contiguous(&r->in[k])) {
            ft_error err;
            ft_tensor **box = script_push_tensor_box(L);
            if (ft_tensor_copy(box, tensor, r->in[k].dtype, &err) != FT_OK) script_blame(L, &err);
            r->in[k] = *ft_tensor_view(*box);
        }
        r->in_specs[k] = ft_view_spec(&r->in[k]);
    }
}

void script_read_attrs(lua_State *L, int i, const ft_op *op, double *attrs)
{
    const char *names[FT_MAX_ATTRS];
    double values[FT_MAX_ATTRS];
    int n = 0;
    if (!lua_isnoneornil(L, i)) {
        script_check_table(L, i);
        for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1)) {
            if (lua_type(L, -2) != LUA_TSTRING || n == FT_MAX_ATTRS)
                script_arg_error(L, i, "attributes of %s are at most %d named numbers", op->name,
                                 ft_op_attr_count(op));
            names[n] = lua_tostring(L, -2);
            if (lua_isboolean(L, -1))
                values[n] = lua_toboolean(L, -1);
            else if (lua_type(L, -1) == LUA_TNUMBER)
                values[n] = lua_tonumber(L, -1);
            else
                script_arg_error(L, i, "attribute '%s' is a number, got %s", names[n],
                                 luaL_typename(L, -1));
            n++;
        }
    }
    ft_error err;
    if (ft_op_attrs(op, names, values, n, attrs, &err) != FT_OK) script_blame(L, &err);
}

static ft_view push_output(lua_State *L, const ft_spec *spec)
{
    ft_error err;
    ft_tensor **box = script_push_tensor_box(L);
    if (ft_tensor_new(box, spec, &err) != FT_OK) script_blame(L, &err);
    script_gc_step(L, ft_spec_bytes(spec));
    return *ft_tensor_view(*box);
}

/* Pushes boxes for the outputs, and one for the workspace above them. */
static void *push_memory(lua_State *L, run *r)
{
    ft_error err;
    if (ft_op_shape(r->op, r->in_specs, r->n_in, r->attrs, r->out_specs, &err) != FT_OK)
        script_blame(L, &err);
    luaL_checkstack(L, FT_MAX_OUT + 2, "too many values");
    r->first_out = lua_gettop(L) + 1;
    for (int k = 0; k < r->op->n_out; k++) r->out[k] = push_output(L, &r->out_specs[k]);
    int64_t bytes = r->op->workspace ? r->op->workspace(r->in_specs, r->attrs, 1) : 0;
    if (bytes == 0) return NULL;
    ft_spec spec = {FT_U8, ft_shape_of(bytes)};
    return push_output(L, &spec).data;
}

/*** Runs an operator.
 * @function ops.apply
 * @tparam string name
 * @tparam table inputs tensors; false for an absent optional one
 * @tparam[opt] table attrs
 * @tparam[opt=0] int seed for operators that draw random numbers
 * @return its outputs */
static int ops_apply(lua_State *L)
{
    run r = {.op = script_check_op(L, 1)};
    ft_rng_key key = {.seed = (uint64_t)script_arg_int(L, 4, 0, 0, INT64_C(1) << 53)};
    script_read_attrs(L, 3, r.op, r.attrs);
    luaL_checkstack(L, 2 * FT_MAX_IN, "too many values");
    read_inputs(L, 2, &r);
    void *work = push_memory(L, &r);
    ft_call call = {.in = r.in, .out = r.out, .attrs = r.attrs, .work = work, .key = key};
    ft_error err;
    if (r.op->kernel(&call, &err) != FT_OK) return script_raise(L, &err);
    lua_settop(L, r.first_out + r.op->n_out - 1);
    return r.op->n_out;
}

static void push_attr_rules(lua_State *L, const ft_op *op)
{
    lua_newtable(L);
    for (int k = 0; k < ft_op_attr_count(op); k++) {
        lua_createtable(L, 0, 3);
        lua_pushstring(L, op->attrs[k].name);
        lua_setfield(L, -2, "name");
        lua_pushnumber(L, op->attrs[k].preset);
        lua_setfield(L, -2, "default");
        lua_pushstring(L, op->attrs[k].help);
        lua_setfield(L, -2, "help");
        lua_rawseti(L, -2, k + 1);
    }
}

/*** What there is: { name, doc, min_in, n_in, n_out, attrs, random, differentiable } of every row.
 * @function ops.list */
static int ops_list(lua_State *L)
{
    lua_newtable(L);
    for (int i = 0; ft_ops[i]; i++) {
        const ft_op *op = ft_ops[i];
        lua_createtable(L, 0, 8);
        lua_pushstring(L, op->name);
        lua_setfield(L, -2, "name");
        lua_pushstring(L, op->doc);
        lua_setfield(L, -2, "doc");
        lua_pushinteger(L, op->min_in);
        lua_setfield(L, -2, "min_in");
        lua_pushinteger(L, op->n_in);
        lua_setfield(L, -2, "n_in");
        lua_pushinteger(L, op->n_out);
        lua_setfield(L, -2, "n_out");
        lua_pushboolean(L, op->random);
        lua_setfield(L, -2, "random");
        lua_pushboolean(L, op->grad != NULL);
        lua_setfield(L, -2, "differentiable");
        push_attr_rules(L, op);
        lua_setfield(L, -2, "attrs");
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

int script_bind_ops(lua_State *L)
{
    static const luaL_Reg functions[] = {{"apply", ops_apply}, {"list", ops_list}, {NULL, NULL}};
    lua_newtable(L);
    luaL_register(L, NULL, functions);
    return 1;
}
