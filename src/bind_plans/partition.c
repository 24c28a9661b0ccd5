/* bind_plans/partition.c - core.partition: weighted graphs placed on devices. */
#include <math.h>
#include <string.h>

#include "bind_plans/internal.h"
#include "partition/partition.h"

/* -- arrays of option tables ------------------------------------------------------------------- */

/* A field that is a list of n numbers (n -1: any), as doubles in a userdata that is left on the
 * stack; NULL, with nil on the stack, when it is absent. */
static double *opt_numbers(lua_State *L, int t, const char *key, int *n)
{
    lua_getfield(L, t, key);
    if (lua_isnil(L, -1)) return NULL;
    if (!lua_istable(L, -1))
        script_arg_error(L, t, "%s is a %s, expected a list", key, luaL_typename(L, -1));
    int count = (int)lua_objlen(L, -1);
    if (*n >= 0 && count != *n)
        script_arg_error(L, t, "%s has %d entries, expected %d", key, count, *n);
    *n = count;
    double *out = lua_newuserdata(L, ((size_t)count + 1) * sizeof *out);
    for (int i = 0; i < count; i++) {
        lua_rawgeti(L, -2, i + 1);
        if (lua_type(L, -1) != LUA_TNUMBER)
            script_arg_error(L, t, "%s[%d] is a %s, expected a number", key, i + 1,
                             luaL_typename(L, -1));
        out[i] = lua_tonumber(L, -1);
        lua_pop(L, 1);
    }
    lua_remove(L, -2);
    return out;
}

static const double *need_numbers(lua_State *L, int t, const char *key, int *n)
{
    const double *list = opt_numbers(L, t, key, n);
    if (!list) script_arg_error(L, t, "%s is missing, expected a list", key);
    return list;
}

/* The same as whole numbers of 64 bits; which of them make sense the problem's own checks say. */
static const int64_t *opt_int64s(lua_State *L, int t, const char *key, int n)
{
    double *list = opt_numbers(L, t, key, &n);
    int64_t *out = (int64_t *)(void *)list;
    for (int i = 0; list && i < n; i++) {
        double x = list[i];
        if (!(x >= -0x1p62 && x <= 0x1p62) || x != (double)(int64_t)x)
            script_arg_error(L, t, "%s[%d] is %g, expected an integer", key, i + 1, x);
        int64_t whole = (int64_t)x;
        memcpy(&out[i], &whole, sizeof whole);
    }
    return out;
}

/* As ints, less `base` (1 for what Lua counts from 1). */
static const int *opt_ints(lua_State *L, int t, const char *key, int *n, int base)
{
    double *list = opt_numbers(L, t, key, n);
    if (!list) return NULL;
    int *out = lua_newuserdata(L, ((size_t)*n + 1) * sizeof *out);
    for (int i = 0; i < *n; i++) {
        if (!(list[i] >= -0x1p30 && list[i] <= 0x1p30) || list[i] != (double)(int)list[i])
            script_arg_error(L, t, "%s[%d] is %g, expected an integer", key, i + 1, list[i]);
        out[i] = (int)list[i] - base;
    }
    lua_remove(L, -2);
    return out;
}

/* Refuses numbers of stages or devices that Lua has from 1 on and that there are not. */
static void check_numbers(lua_State *L, int t, const char *key, const int *list, int n, int least,
                          int most)
{
    for (int i = 0; list && i < n; i++)
        if (list[i] + 1 < least || list[i] + 1 > most)
            script_arg_error(L, t, "%s[%d] is %d, expected %d to %d", key, i + 1, list[i] + 1,
                             least, most);
}

static const bool *opt_bools(lua_State *L, int t, const char *key, int n)
{
    lua_getfield(L, t, key);
    if (lua_isnil(L, -1)) return NULL;
    if (!lua_istable(L, -1))
        script_arg_error(L, t, "%s is a %s, expected a table", key, luaL_typename(L, -1));
    bool *out = lua_newuserdata(L, (size_t)n + 1);
    for (int i = 0; i < n; i++) {
        lua_rawgeti(L, -2, i + 1);
        out[i] = lua_toboolean(L, -1);
        lua_pop(L, 1);
    }
    lua_remove(L, -2);
    return out;
}

static const char *const *opt_names(lua_State *L, int t, int n)
{
    lua_getfield(L, t, "names");
    if (lua_isnil(L, -1)) return NULL;
    if (!lua_istable(L, -1))
        script_arg_error(L, t, "names is a %s, expected a list", luaL_typename(L, -1));
    const char **out = lua_newuserdata(L, ((size_t)n + 1) * sizeof *out);
    for (int i = 0; i < n; i++) {
        lua_rawgeti(L, -2, i + 1);
        out[i] =
            lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL; /* the list holds it */
        lua_pop(L, 1);
    }
    return out; /* both stay on the stack */
}

/* -- problems ---------------------------------------------------------------------------------- */

static const char *const problem_keys[] = {
    "names",      "node_ns",         "last_ns",       "fixed_bytes",       "saved_bytes", "tie",
    "backward",   "cheap",           "pin",           "forbid_node",       "edge_from",   "edge_to",
    "edge_bytes", "edge_grad_bytes", "edge_value",    "devices",           "in_flight",   "flat",
    "swaps",      "forbid_device",   "level_devices", "level_bytes_per_s", NULL};

/* node_ns is a list of times, or, where devices differ in kind, a list of such lists. */
static const double *check_times(lua_State *L, int t, const char *key, int *n_nodes, int *n_kinds)
{
    lua_getfield(L, t, key);
    if (lua_isnil(L, -1)) return NULL;
    if (!lua_istable(L, -1))
        script_arg_error(L, t, "%s is a %s, expected a list", key, luaL_typename(L, -1));
    lua_rawgeti(L, -1, 1);
    bool by_kind = lua_istable(L, -1);
    lua_pop(L, 1);
    if (!by_kind) {
        if (*n_kinds < 0) *n_kinds = 1;
        if (*n_kinds != 1)
            script_arg_error(L, t, "%s is one list, expected a list for each of %d kinds", key,
                             *n_kinds);
        return opt_numbers(L, t, key, n_nodes);
    }
    int kinds = (int)lua_objlen(L, -1);
    if (*n_kinds >= 0 && kinds != *n_kinds)
        script_arg_error(L, t, "%s has %d lists, expected %d", key, kinds, *n_kinds);
    if (kinds > FT_PARTITION_KINDS)
        script_arg_error(L, t, "%s has %d lists, expected 1 to %d", key, kinds, FT_PARTITION_KINDS);
    *n_kinds = kinds;
    double *out = NULL;
    for (int k = 0; k < kinds; k++) {
        lua_rawgeti(L, -1 - (k > 0), k + 1);
        if (!lua_istable(L, -1)) script_arg_error(L, t, "%s[%d] is no list", key, k + 1);
        int n = (int)lua_objlen(L, -1);
        if (*n_nodes >= 0 && n != *n_nodes)
            script_arg_error(L, t, "%s[%d] has %d entries, expected %d", key, k + 1, n, *n_nodes);
        *n_nodes = n;
        if (!k) {
            out = lua_newuserdata(L, ((size_t)kinds * (size_t)n + 1) * sizeof *out);
            lua_insert(L, -2);
        }
        for (int i = 0; i < n; i++) {
            lua_rawgeti(L, -1, i + 1);
            out[(size_t)k * (size_t)n + (size_t)i] = script_check_number(L, -1);
            lua_pop(L, 1);
        }
        lua_pop(L, 1);
    }
    return out;
}

static double field_number(lua_State *L, const char *key, double preset)
{
    lua_getfield(L, -1, key);
    double value = luaL_optnumber(L, -1, preset);
    lua_pop(L, 1);
    return value;
}

/* devices = { { kind = 1, slowdown = 1, memory_bytes = 0, bytes_per_s = 0 }, ... } */
static void check_devices(lua_State *L, int t, ft_partition_problem *p)
{
    lua_getfield(L, t, "devices");
    if (!lua_istable(L, -1))
        script_arg_error(L, t, "devices is a %s, expected a list", luaL_typename(L, -1));
    p->n_devices = (int)lua_objlen(L, -1);
    ft_partition_device *devices = lua_newuserdata(L, ((size_t)p->n_devices + 1) * sizeof *devices);
    lua_insert(L, -2);
    for (int d = 0; d < p->n_devices; d++) {
        lua_rawgeti(L, -1, d + 1);
        if (!lua_istable(L, -1)) script_arg_error(L, t, "devices[%d] is no table", d + 1);
        double memory = field_number(L, "memory_bytes", 0);
        if (!(memory >= 0 && memory <= 0x1p53))
            script_arg_error(L, t, "devices[%d].memory_bytes is %g, expected 0 to 2^53", d + 1,
                             memory);
        double kind = field_number(L, "kind", 1);
        devices[d] = (ft_partition_device){.kind = kind >= 1 && kind <= 1e6 ? (int)kind - 1 : -1,
                                           .slowdown = field_number(L, "slowdown", 1),
                                           .memory_bytes = (int64_t)memory,
                                           .bytes_per_s = field_number(L, "bytes_per_s", 0)};
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    p->devices = devices;
}

static void check_levels(lua_State *L, int t, ft_partition_problem *p)
{
    int n = -1;
    const int *devices = opt_ints(L, t, "level_devices", &n, 0);
    if (!devices) return;
    if (n > FT_PARTITION_LEVELS)
        script_arg_error(L, t, "level_devices has %d entries, expected 1 to %d", n,
                         FT_PARTITION_LEVELS);
    const double *rates = need_numbers(L, t, "level_bytes_per_s", &n);
    p->n_levels = n;
    memcpy(p->level_devices, devices, (size_t)n * sizeof *devices);
    memcpy(p->level_bytes_per_s, rates, (size_t)n * sizeof *rates);
}

/* Leaves its arrays on the stack. */
static ft_partition_problem check_problem(lua_State *L, int t)
{
    ft_partition_problem p = {.n_kinds = -1};
    script_check_table(L, t);
    luaL_checkstack(L, 64, "partition");
    script_options(L, t, problem_keys);
    int n = -1, n_edges = -1, n_forbids = -1;
    check_devices(L, t, &p);
    p.node_ns = check_times(L, t, "node_ns", &n, &p.n_kinds);
    if (!p.node_ns) script_arg_error(L, t, "node_ns is missing, expected a list");
    p.n_nodes = n;
    p.last_ns = check_times(L, t, "last_ns", &n, &p.n_kinds);
    p.names = opt_names(L, t, n);
    p.fixed_bytes = opt_int64s(L, t, "fixed_bytes", n);
    p.saved_bytes = opt_int64s(L, t, "saved_bytes", n);
    p.tie = opt_ints(L, t, "tie", &n, 0);
    p.backward = opt_bools(L, t, "backward", n);
    p.cheap = opt_bools(L, t, "cheap", n);
    p.pin = opt_ints(L, t, "pin", &n, 1);
    check_numbers(L, t, "pin", p.pin, n, 0, p.n_devices);
    p.forbid_node = opt_ints(L, t, "forbid_node", &n_forbids, 1);
    if (p.forbid_node) p.forbid_device = opt_ints(L, t, "forbid_device", &n_forbids, 1);
    if (p.forbid_device) p.n_forbids = n_forbids;
    check_numbers(L, t, "forbid_device", p.forbid_device, p.n_forbids, 1, p.n_devices);
    p.edge_from = opt_ints(L, t, "edge_from", &n_edges, 1);
    if (p.edge_from) {
        p.n_edges = n_edges;
        p.edge_to = opt_ints(L, t, "edge_to", &n_edges, 1);
        p.edge_bytes = opt_int64s(L, t, "edge_bytes", n_edges);
        if (!p.edge_to || !p.edge_bytes) script_arg_error(L, t, "edge_to or edge_bytes is missing");
        p.edge_grad_bytes = opt_int64s(L, t, "edge_grad_bytes", n_edges);
        p.edge_value = opt_ints(L, t, "edge_value", &n_edges, 0);
    }
    check_levels(L, t, &p);
    p.in_flight = (int)script_opt_int(L, t, "in_flight", 0, 0, 1 << 20);
    p.flat = script_opt_bool(L, t, "flat", false);
    p.swaps = script_opt_bool(L, t, "swaps", false);
    return p;
}

/* -- results ----------------------------------------------------------------------------------- */

static void push_ints(lua_State *L, const char *key, const int *list, int n, int base)
{
    lua_createtable(L, n, 0);
    for (int i = 0; i < n; i++) {
        lua_pushinteger(L, list[i] + base);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, key);
}

static void push_loads(lua_State *L, const ft_partition_load *loads, int n)
{
    lua_createtable(L, n, 0);
    for (int d = 0; d < n; d++) {
        lua_createtable(L, 0, 8);
        script_set_number(L, "compute_ns", loads[d].compute_ns);
        script_set_number(L, "out_bytes", (double)loads[d].out_bytes);
        script_set_number(L, "out_grad_bytes", (double)loads[d].out_grad_bytes);
        script_set_number(L, "in_bytes", (double)loads[d].in_bytes);
        script_set_number(L, "in_grad_bytes", (double)loads[d].in_grad_bytes);
        script_set_number(L, "memory_bytes", (double)loads[d].memory_bytes);
        script_set_number(L, "price_ns", loads[d].price_ns);
        script_set_number(L, "stages", loads[d].n_stages);
        lua_rawseti(L, -2, d + 1);
    }
    lua_setfield(L, -2, "loads");
}

/* Lua says efforts in millions of steps. */
static const double STEPS_OF_EFFORT = 1e6, MOST_EFFORT = 1e6;

static void push_result(lua_State *L, const ft_partition_result *r, const ft_partition_problem *p)
{
    lua_createtable(L, 0, 14);
    push_ints(L, "stage", r->stage, p->n_nodes, 1);
    push_ints(L, "device", r->device, p->n_nodes, 1);
    push_ints(L, "stage_device", r->stage_device, r->n_stages, 1);
    push_ints(L, "stage_replicas", r->stage_replicas, r->n_stages, 0);
    push_loads(L, r->loads, p->n_devices);
    script_set_number(L, "n_stages", r->n_stages);
    script_set_number(L, "objective_ns", r->objective_ns);
    script_set_number(L, "moved_bytes", (double)r->moved_bytes);
    script_set_number(L, "lower_bound_ns", r->lower_bound_ns);
    double gap = r->lower_bound_ns > 0 ? r->objective_ns / r->lower_bound_ns - 1 : 0;
    script_set_number(L, "gap", gap);
    if (r->method_bound_ns > 0) {
        script_set_number(L, "method_bound_ns", r->method_bound_ns);
        script_set_number(L, "method_gap", r->objective_ns / r->method_bound_ns - 1);
    }
    script_set_number(L, "effort", (double)r->effort / STEPS_OF_EFFORT);
    script_set_number(L, "work", (double)r->work / STEPS_OF_EFFORT);
    script_set_number(L, "down_sets", (double)r->down_sets);
    lua_pushboolean(L, r->proved);
    lua_setfield(L, -2, "proved");
    lua_pushstring(L, r->method);
    lua_setfield(L, -2, "method");
}

static int result_gc(lua_State *L)
{
    ft_partition_result_free(lua_touserdata(L, 1));
    return 0;
}

/* A zeroed result on the stack that is freed with the collector. */
static ft_partition_result *new_result(lua_State *L)
{
    ft_partition_result *r = lua_newuserdata(L, sizeof *r);
    *r = (ft_partition_result){0};
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, result_gc);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    return r;
}

static int finish(lua_State *L, ft_status status, const ft_error *err, ft_partition_result *r,
                  const ft_partition_problem *p)
{
    if (status != FT_OK) return script_raise(L, err);
    push_result(L, r, p);
    ft_partition_result_free(r);
    return 1;
}

static const char *const option_keys[] = {"method",
                                          "cost",
                                          "seed",
                                          "effort",
                                          "deadline_ms",
                                          "max_stages",
                                          "max_stages_per_device",
                                          "blocks",
                                          "max_down_sets",
                                          "in_order",
                                          "free_transfers",
                                          "straight",
                                          NULL};

static int64_t opt_effort(lua_State *L, int t)
{
    double effort = script_opt_number(L, t, "effort", 0);
    if (!(effort >= 0 && effort <= MOST_EFFORT))
        script_arg_error(L, t, "effort is %f, expected more than 0, at most 1000000 million steps",
                         effort);
    return (int64_t)ceil(effort * STEPS_OF_EFFORT);
}

/*** Places the nodes of a problem on devices.
 * @function core.partition.solve
 * @tparam table problem lists by node and edge; see src/problem/problem.h. Nodes, edges,
 *   devices and kinds count from 1; a pin of 0 is none.
 * @tparam[opt] table options method, cost, seed, effort (millions of steps), deadline_ms,
 * max_stages, max_stages_per_device, blocks, max_down_sets, in_order, free_transfers, straight
 * @treturn table stage and device by node, stage_device and stage_replicas by stage, loads by
 *   device, n_stages, objective_ns, moved_bytes, lower_bound_ns, gap, proved, effort, work,
 *   down_sets, method; method_bound_ns and method_gap where the method has a bound of its own */
static int solve(lua_State *L)
{
    ft_error err = {FT_OK, ""};
    lua_settop(L, 2);
    if (lua_isnil(L, 2)) {
        lua_newtable(L);
        lua_replace(L, 2);
    }
    script_options(L, 2, option_keys);
    ft_partition_options o = {
        .method = script_opt_string(L, 2, "method", NULL),
        .cost = script_opt_string(L, 2, "cost", NULL),
        .seed = (uint64_t)script_opt_int(L, 2, "seed", 0, 0, (int64_t)1 << 53),
        .deadline_ns = 1000000 * script_opt_int(L, 2, "deadline_ms", 0, 0, 1 << 30),
        .effort = opt_effort(L, 2),
        .max_stages = (int)script_opt_int(L, 2, "max_stages", 0, 0, 1 << 30),
        .max_stages_per_device = (int)script_opt_int(L, 2, "max_stages_per_device", 0, 0, 1 << 30),
        .blocks = (int)script_opt_int(L, 2, "blocks", 0, 0, 1 << 30),
        .max_down_sets = script_opt_int(L, 2, "max_down_sets", 0, 0, 1 << 24),
        .in_order = script_opt_bool(L, 2, "in_order", false),
        .stop = (const volatile int *)script_interrupt_flag(L),
        .free_transfers = script_opt_bool(L, 2, "free_transfers", false),
        .straight = script_opt_bool(L, 2, "straight", false),
    };
    ft_partition_problem p = check_problem(L, 1);
    ft_partition_result *r = new_result(L);
    return finish(L, ft_partition_solve(&p, &o, r, &err), &err, r, &p);
}

/*** Prices a placement.
 * @function core.partition.evaluate
 * @tparam table problem as for solve
 * @tparam table device by node
 * @tparam[opt] table stage by node; made when it is absent
 * @tparam[opt="overlap"] string cost
 * @treturn table as solve */
static int evaluate(lua_State *L)
{
    ft_error err = {FT_OK, ""};
    lua_settop(L, 4);
    const char *cost = luaL_optstring(L, 4, NULL);
    lua_createtable(L, 0, 2);
    for (int i = 2; i <= 3; i++) {
        lua_pushvalue(L, i);
        lua_setfield(L, 5, i == 2 ? "device" : "stage");
    }
    ft_partition_problem p = check_problem(L, 1);
    int n = p.n_nodes;
    const int *device = opt_ints(L, 5, "device", &n, 1), *stage = opt_ints(L, 5, "stage", &n, 1);
    if (!device) return script_arg_error(L, 2, "expected a device for each node");
    check_numbers(L, 2, "device", device, n, 1, p.n_devices);
    check_numbers(L, 3, "stage", stage, n, 1, n);
    ft_partition_result *r = new_result(L);
    return finish(L, ft_partition_evaluate(&p, cost, device, stage, r, &err), &err, r, &p);
}

static void set_rows(lua_State *L, const char *key, const char *(*name)(int),
                     const char *(*doc)(int))
{
    lua_newtable(L);
    for (int i = 0; name(i); i++) {
        lua_createtable(L, 0, 2);
        lua_pushstring(L, name(i));
        lua_setfield(L, -2, "name");
        lua_pushstring(L, doc(i));
        lua_setfield(L, -2, "doc");
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, key);
}

int script_bind_partition(lua_State *L)
{
    lua_createtable(L, 0, 4);
    lua_pushcfunction(L, solve);
    lua_setfield(L, -2, "solve");
    lua_pushcfunction(L, evaluate);
    lua_setfield(L, -2, "evaluate");
    set_rows(L, "methods", ft_partition_method_name, ft_partition_method_doc);
    set_rows(L, "costs", ft_partition_cost_name, ft_partition_cost_doc);
    return 1;
}
