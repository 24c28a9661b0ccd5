/* bind_graphs/graph.c - graphs, as Lua builds and reads them.
 *
 * Values are handles: positive integers that mean nothing but "this value of this graph"; further
 * outputs of a node follow its first one by number. */
#include <string.h>

#include "bind_graphs/internal.h"
#include "program/roofline.h"

static const char GRAPH[] = "ftpipe.graph";

ft_graph *script_check_graph(lua_State *L, int i)
{
    return script_box_check(L, i, GRAPH);
}

static ft_value_id check_value(lua_State *L, int i, const ft_graph *g)
{
    return (ft_value_id)script_check_int(L, i, 1, ft_graph_n_values(g)) - 1;
}

static void push_value(lua_State *L, ft_value_id value)
{
    lua_pushinteger(L, value + 1);
}

/*** A new, empty graph.
 * @function graph.new
 * @treturn graph */
static int graph_new(lua_State *L)
{
    ft_error err;
    void **box = script_box_new(L, GRAPH);
    if (ft_graph_new((ft_graph **)box, &err) != FT_OK) return script_raise(L, &err);
    return 1;
}

/* Only the collector frees a graph: blueprints and programs borrow it and hold on to it. */
static int graph_gc(lua_State *L)
{
    void **box = script_box(L, 1, GRAPH);
    ft_graph_free(*box);
    *box = NULL;
    return 0;
}

/* -- building ---------------------------------------------------------------------------------- */

/*** An input, fed with each micro-batch.
 * @function graph:input
 * @tparam string name
 * @tparam string dtype
 * @tparam table dims
 * @treturn value */
static int graph_input(lua_State *L)
{
    ft_error err;
    ft_graph *g = script_check_graph(L, 1);
    const char *name = script_check_string(L, 2);
    ft_spec spec = {script_check_dtype(L, 3), script_check_shape(L, 4)};
    ft_value_id value;
    if (ft_graph_input(g, name, &spec, &value, &err) != FT_OK) return script_blame(L, &err);
    push_value(L, value);
    return 1;
}

/*** A parameter (f32) by its name; the same name again gives the same value: a tie.
 * @function graph:param
 * @tparam string name
 * @tparam table dims
 * @treturn value */
static int graph_param(lua_State *L)
{
    ft_error err;
    ft_graph *g = script_check_graph(L, 1);
    const char *name = script_check_string(L, 2);
    ft_spec spec = {FT_F32, script_check_shape(L, 3)};
    ft_value_id value;
    if (ft_graph_param(g, name, &spec, &value, &err) != FT_OK) return script_blame(L, &err);
    push_value(L, value);
    return 1;
}

/*** Leaves a parameter out of training: graph:grad makes no gradient of it.
 * @function graph:freeze
 * @tparam string name */
static int graph_freeze(lua_State *L)
{
    ft_error err;
    if (ft_graph_freeze(script_check_graph(L, 1), script_check_string(L, 2), &err) != FT_OK)
        return script_blame(L, &err);
    lua_settop(L, 1);
    return 1;
}

/*** Scope of the nodes added from now on.
 * @function graph:scope
 * @tparam string scope */
static int graph_scope(lua_State *L)
{
    ft_error err;
    if (ft_graph_scope(script_check_graph(L, 1), script_check_string(L, 2), &err) != FT_OK)
        return script_blame(L, &err);
    lua_settop(L, 1);
    return 1;
}

/* The list of inputs at index t: values, or false where an optional one is absent. */
static int check_inputs(lua_State *L, int t, const ft_graph *g, ft_value_id *in)
{
    script_check_table(L, t);
    int n = (int)lua_objlen(L, t);
    if (n > FT_MAX_IN) return script_arg_error(L, t, "%d inputs, at most %d", n, FT_MAX_IN);
    for (int i = 0; i < n; i++) {
        lua_rawgeti(L, t, i + 1);
        in[i] = FT_NO_VALUE;
        if (lua_toboolean(L, -1)) in[i] = check_value(L, lua_gettop(L), g);
        lua_pop(L, 1);
    }
    return n;
}

/* The table of attributes at index t (or nil), checked by the row. */
static void check_attrs(lua_State *L, int t, const ft_op *op, double *attrs)
{
    const char *names[FT_MAX_ATTRS];
    double values[FT_MAX_ATTRS];
    ft_error err;
    int n = 0;
    if (!lua_isnoneornil(L, t)) {
        script_check_table(L, t);
        for (lua_pushnil(L); lua_next(L, t); lua_pop(L, 1)) {
            if (n == FT_MAX_ATTRS) script_arg_error(L, t, "more than %d attributes", FT_MAX_ATTRS);
            if (lua_type(L, -2) != LUA_TSTRING) script_arg_error(L, t, "attributes have names");
            names[n] = lua_tostring(L, -2);
            values[n++] =
                lua_isboolean(L, -1) ? lua_toboolean(L, -1) : script_check_number(L, lua_gettop(L));
        }
    }
    if (ft_op_attrs(op, names, values, n, attrs, &err) != FT_OK) script_blame(L, &err);
}

/*** Adds a node.
 * @function graph:add
 * @tparam string op name of a row of the operator table
 * @tparam table inputs values; false where an optional input is absent
 * @tparam[opt] table attrs
 * @treturn value its first output */
static int graph_add(lua_State *L)
{
    ft_error err;
    ft_graph *g = script_check_graph(L, 1);
    const char *name = script_check_string(L, 2);
    const ft_op *op = ft_op_find(name);
    if (!op) return script_arg_error(L, 2, "there is no operator '%s'", name);
    ft_value_id in[FT_MAX_IN], out;
    int n = check_inputs(L, 3, g, in);
    double attrs[FT_MAX_ATTRS] = {0};
    check_attrs(L, 4, op, attrs);
    if (ft_graph_add(g, op, in, n, attrs, &out, &err) != FT_OK) return script_blame(L, &err);
    push_value(L, out);
    return 1;
}

/*** Names a value as an output.
 * @function graph:output
 * @tparam string name
 * @tparam value value */
static int graph_output(lua_State *L)
{
    ft_error err;
    ft_graph *g = script_check_graph(L, 1);
    const char *name = script_check_string(L, 2);
    if (ft_graph_output(g, name, check_value(L, 3, g), &err) != FT_OK) return script_blame(L, &err);
    lua_settop(L, 1);
    return 1;
}

/*** Appends the gradient of a scalar with respect to every parameter that is not frozen.
 * @function graph:grad
 * @tparam value loss */
static int graph_grad(lua_State *L)
{
    ft_error err;
    ft_graph *g = script_check_graph(L, 1);
    if (ft_graph_grad(g, check_value(L, 2, g), &err) != FT_OK) return script_blame(L, &err);
    lua_settop(L, 1);
    return 1;
}

/*** Products with weights read operands rounded to bf16; everything else stays f32.
 * @function graph:bf16
 * @treturn graph itself
 * @raise unsupported: the CPU has no instructions for it */
static int graph_bf16(lua_State *L)
{
    ft_error err;
    if (ft_graph_bf16(script_check_graph(L, 1), &err) != FT_OK) return script_raise(L, &err);
    lua_settop(L, 1);
    return 1;
}

/*** Products with weights and those of attention round their operands to tf32 on cards; everything
 * else stays f32.
 * @function graph:tf32
 * @treturn graph itself */
static int graph_tf32(lua_State *L)
{
    ft_graph_tf32(script_check_graph(L, 1));
    lua_settop(L, 1);
    return 1;
}

/*** For cards, and plans: what nodes give is kept in 16 bits, products with weights and those of
 * attention are made of such operands; parameters, their gradients, statistics, scalars and outputs
 * of the graph stay f32. CPUs cannot run such a graph.
 * @function graph:store
 * @tparam string dtype "bf16" or "f16"
 * @treturn graph itself */
static int graph_store(lua_State *L)
{
    ft_graph *g = script_check_graph(L, 1);
    const char *name = script_check_string(L, 2);
    bool bf16 = strcmp(name, "bf16") == 0;
    ft_error err;
    if (!bf16 && strcmp(name, "f16") != 0)
        return script_arg_error(L, 2, "expected \"bf16\" or \"f16\"");
    if (ft_graph_store(g, bf16 ? FT_BF16 : FT_F16, &err) != FT_OK) return script_raise(L, &err);
    lua_settop(L, 1);
    return 1;
}

/*** For cards, and plans, after :store: rows of what products give and read begin at 16 bytes,
 * where their length is no multiple of that. CPUs cannot run such a graph.
 * @function graph:align
 * @treturn graph itself */
static int graph_align(lua_State *L)
{
    ft_error err;
    if (ft_graph_align(script_check_graph(L, 1), &err) != FT_OK) return script_raise(L, &err);
    lua_settop(L, 1);
    return 1;
}

static int graph_verify(lua_State *L)
{
    ft_error err;
    if (ft_graph_verify(script_check_graph(L, 1), &err) != FT_OK) return script_raise(L, &err);
    lua_settop(L, 1);
    return 1;
}

/* -- asking ------------------------------------------------------------------------------------ */

static void push_spec(lua_State *L, const ft_spec *spec)
{
    lua_createtable(L, 0, 2);
    lua_pushstring(L, ft_dtype_name(spec->dtype));
    lua_setfield(L, -2, "dtype");
    script_push_shape(L, &spec->shape);
    lua_setfield(L, -2, "dims");
}

/*** dtype and dims of a value. */
static int graph_spec(lua_State *L)
{
    ft_graph *g = script_check_graph(L, 1);
    push_spec(L, &ft_graph_value(g, check_value(L, 2, g))->spec);
    return 1;
}

/*** The value of that name among inputs, parameters and outputs, or nil. */
static int graph_find(lua_State *L)
{
    ft_value_id value = ft_graph_find(script_check_graph(L, 1), script_check_string(L, 2));
    if (value == FT_NO_VALUE) return 0;
    push_value(L, value);
    return 1;
}

static void set_count(lua_State *L, const char *key, int n)
{
    lua_pushinteger(L, n);
    lua_setfield(L, -2, key);
}

/*** Numbers of things: nodes, forward (nodes), values, params, inputs, grads (terms). */
static int graph_counts(lua_State *L)
{
    ft_graph *g = script_check_graph(L, 1);
    lua_createtable(L, 0, 6);
    set_count(L, "nodes", ft_graph_n_nodes(g));
    set_count(L, "forward", ft_graph_n_forward(g));
    set_count(L, "values", ft_graph_n_values(g));
    set_count(L, "params", ft_graph_n_params(g));
    set_count(L, "inputs", ft_graph_n_inputs(g));
    set_count(L, "grads", ft_graph_n_grads(g));
    return 1;
}

static void push_named(lua_State *L, const ft_graph *g, ft_value_id value)
{
    push_spec(L, &ft_graph_value(g, value)->spec);
    lua_pushstring(L, ft_graph_value(g, value)->name);
    lua_setfield(L, -2, "name");
}

/*** Parameters in the order of their creation: { name =, dtype =, dims =, frozen = }. */
static int graph_params(lua_State *L)
{
    ft_graph *g = script_check_graph(L, 1);
    lua_createtable(L, ft_graph_n_params(g), 0);
    for (int i = 0; i < ft_graph_n_params(g); i++) {
        push_named(L, g, ft_graph_param_value(g, i));
        lua_pushboolean(L, ft_graph_value(g, ft_graph_param_value(g, i))->frozen);
        lua_setfield(L, -2, "frozen");
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/*** Inputs in the order of their creation: { name =, dtype =, dims = }. */
static int graph_inputs(lua_State *L)
{
    ft_graph *g = script_check_graph(L, 1);
    lua_createtable(L, ft_graph_n_inputs(g), 0);
    for (int i = 0; i < ft_graph_n_inputs(g); i++) {
        push_named(L, g, ft_graph_input_value(g, i));
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/* Pushes the numbers of the parameters that a node uses, each once for each input that it is. */
static void push_params(lua_State *L, const ft_graph *g, const ft_node *node)
{
    lua_newtable(L);
    for (int i = 0, n = 0; i < node->n_in; i++) {
        const ft_value *v = node->in[i] == FT_NO_VALUE ? NULL : ft_graph_value(g, node->in[i]);
        if (!v || v->kind != FT_VALUE_PARAM) continue;
        lua_pushnumber(L, v->source + 1);
        lua_rawseti(L, -2, ++n);
    }
}

/*** One node: { op =, scope =, phase = "forward" or "backward", origin =, params = numbers of
 * those that it uses, out = its first output, which the others follow by number, flops, numbers =
 * what these are products of ("f32", "tf32", "bf16", "f16"), bytes = that it reads and writes,
 * reads = those that it reads }. */
static int graph_node(lua_State *L)
{
    ft_graph *g = script_check_graph(L, 1);
    int i = (int)script_check_index(L, 2, ft_graph_n_nodes(g), "node");
    const ft_node *node = ft_graph_node(g, i);
    const ft_cost cost = ft_graph_cost(g, i);
    lua_createtable(L, 0, 10);
    lua_pushstring(L, cost.tf32 ? "tf32" : cost.f16 ? "f16" : cost.bf16 ? "bf16" : "f32");
    lua_setfield(L, -2, "numbers");
    script_set_number(L, "flops", cost.flops);
    script_set_number(L, "reads", cost.bytes_read);
    script_set_number(L, "bytes", cost.bytes_read + cost.bytes_written);
    lua_pushstring(L, node->op->name);
    lua_setfield(L, -2, "op");
    lua_pushstring(L, node->scope);
    lua_setfield(L, -2, "scope");
    lua_pushstring(L, node->phase == FT_FORWARD ? "forward" : "backward");
    lua_setfield(L, -2, "phase");
    set_count(L, "origin", node->origin + 1);
    push_params(L, g, node);
    lua_setfield(L, -2, "params");
    push_value(L, node->out);
    lua_setfield(L, -2, "out");
    return 1;
}

/*** The text form, which graph.parse reads back. */
static int graph_text(lua_State *L)
{
    ft_error err;
    ft_text text = {0};
    ft_graph *g = script_check_graph(L, 1);
    ft_status status = ft_graph_write(g, &text, &err);
    if (status == FT_OK) lua_pushlstring(L, text.data, (size_t)text.length);
    ft_text_fini(&text);
    return status == FT_OK ? 1 : script_raise(L, &err);
}

static int graph_parse(lua_State *L)
{
    ft_error err;
    const char *text = script_check_string(L, 1);
    void **box = script_box_new(L, GRAPH);
    if (ft_graph_parse((ft_graph **)box, text, &err) != FT_OK) return script_raise(L, &err);
    return 1;
}

static int graph_tostring(lua_State *L)
{
    ft_graph *g = script_box_test(L, 1, GRAPH);
    if (!g) return script_fault(L, "graph was freed");
    int n_nodes = ft_graph_n_nodes(g), n_params = ft_graph_n_params(g);
    lua_pushfstring(L, "graph: %d node%s (%d forward), %d parameter%s, %d input%s", n_nodes,
                    script_plural(n_nodes, "s"), ft_graph_n_forward(g), n_params,
                    script_plural(n_params, "s"), ft_graph_n_inputs(g),
                    script_plural(ft_graph_n_inputs(g), "s"));
    return 1;
}

/* -- times ------------------------------------------------------------------------------------- */

/* Of the devices that the text or cluster at i means, the one whose number is at i + 1, or 1. */
static const ft_device *check_device(lua_State *L, int i)
{
    int n, which = (int)script_arg_int(L, i + 1, 1, 1, FT_MAX_DEVICES);
    const ft_device *devices = script_check_devices(L, i, &n);
    if (which > n) script_arg_error(L, i + 1, "device %d of %d", which, n);
    return &devices[which - 1];
}

/*** Modelled times of all nodes on a device, ns.
 * @function graph:times
 * @tparam string devices as in --devices
 * @tparam[opt=1] int which of them */
static int graph_times(lua_State *L)
{
    ft_graph *g = script_check_graph(L, 1);
    lua_settop(L, 3);
    const ft_device *device = check_device(L, 2);
    lua_createtable(L, ft_graph_n_nodes(g), 0);
    for (int i = 0; i < ft_graph_n_nodes(g); i++) {
        lua_pushnumber(L, ft_node_time_ns(g, i, device));
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/* Passes over a parameter: an update reads p, g, m, v and writes p, m, v; a sum of the gradients of
 * two uses reads both and writes one. */
enum { UPDATE_PASSES = 7, SUM_PASSES = 3 };

/* Adds to `ns`, by forward node, what parameters cost beside the products they are in: at the
 * node that uses one first, its update and the sums of the gradients of its further uses; at every
 * node whose row packs it, that. `first` is zeroed, by parameter. */
static void sum_updates(const ft_graph *g, const ft_device *device, const ft_work_costs *costs,
                        int *first, double *ns)
{
    for (int n = 0; n < ft_graph_n_forward(g); n++)
        for (int i = 0; i < ft_graph_node(g, n)->n_in; i++) {
            ft_value_id in = ft_graph_node(g, n)->in[i];
            const ft_value *v = in == FT_NO_VALUE ? NULL : ft_graph_value(g, in);
            if (!v || v->kind != FT_VALUE_PARAM || v->frozen) continue;
            double pass_ns = 1e9 * (double)ft_spec_bytes(&v->spec) / device->bytes_per_s;
            int *owner = &first[v->source];
            if (!*owner) {
                *owner = n + 1;
                ns[n] += costs ? costs->update_ns[v->source] : UPDATE_PASSES * pass_ns;
            } else if (*owner != n + 1) {
                ns[*owner - 1] += SUM_PASSES * pass_ns;
            }
            if (ft_graph_node(g, n)->op->pack_input == i + 1 && !device->unpacked)
                ns[n] += costs ? ft_pack_share(device->kind) * costs->pack_ns[n]
                               : FT_PACK_PASSES * pass_ns;
        }
}

/*** What a batch costs beside its micro-batches, by forward node, ns: of parameters that are
 * trained, updates, sums of the gradients of their uses, packed copies.
 * @function graph:update_times
 * @tparam string devices as in --devices
 * @tparam[opt=1] int which of them
 * @tparam[opt] table costs measured there, see profile.measure; modelled without */
static int graph_update_times(lua_State *L)
{
    ft_graph *g = script_check_graph(L, 1);
    lua_settop(L, 4);
    int n = ft_graph_n_forward(g), n_params = ft_graph_n_params(g);
    const ft_work_costs *costs = lua_isnil(L, 4) ? NULL : script_check_costs(L, 4, g);
    const ft_device *device = check_device(L, 2);
    int *first = lua_newuserdata(L, ((size_t)n_params + 1) * sizeof *first);
    double *ns = lua_newuserdata(L, ((size_t)n + 1) * sizeof *ns);
    memset(first, 0, ((size_t)n_params + 1) * sizeof *first);
    memset(ns, 0, ((size_t)n + 1) * sizeof *ns);
    sum_updates(g, device, costs, first, ns);
    lua_createtable(L, n, 0);
    for (int i = 0; i < n; i++) {
        lua_pushnumber(L, ns[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

int script_bind_graph(lua_State *L)
{
    static const luaL_Reg methods[] = {{"input", graph_input},
                                       {"param", graph_param},
                                       {"freeze", graph_freeze},
                                       {"store", graph_store},
                                       {"align", graph_align},
                                       {"scope", graph_scope},
                                       {"add", graph_add},
                                       {"output", graph_output},
                                       {"grad", graph_grad},
                                       {"bf16", graph_bf16},
                                       {"tf32", graph_tf32},
                                       {"verify", graph_verify},
                                       {"spec", graph_spec},
                                       {"find", graph_find},
                                       {"counts", graph_counts},
                                       {"params", graph_params},
                                       {"inputs", graph_inputs},
                                       {"node", graph_node},
                                       {"text", graph_text},
                                       {"times", graph_times},
                                       {"update_times", graph_update_times},
                                       {"weights", script_graph_weights},
                                       {NULL, NULL}};
    static const luaL_Reg meta[] = {
        {"__gc", graph_gc}, {"__tostring", graph_tostring}, {NULL, NULL}};
    static const luaL_Reg functions[] = {{"new", graph_new}, {"parse", graph_parse}, {NULL, NULL}};
    script_class(L, GRAPH, methods, meta);
    lua_pop(L, 1);
    lua_newtable(L);
    luaL_register(L, NULL, functions);
    return 1;
}
