/* bind_graphs/profile.c - what nodes cost: measured profiles, and costs as options. */
#include <string.h>

#include "base/alloc.h"
#include "profile/profile.h"
#include "bind_graphs/internal.h"

/* -- costs in ---------------------------------------------------------------------------------- */

/* The list of n numbers >= 0 at `key` of the table at t, anchored on the stack; NULL when it is
 * absent and may be. */
static const double *cost_list(lua_State *L, int t, const char *key, int n, bool needed)
{
    lua_getfield(L, t, key);
    if (lua_isnil(L, -1) && !needed) return NULL;
    if (!lua_istable(L, -1) || (int)lua_objlen(L, -1) != n)
        script_fault(L, "costs: '%s': expected a list of %d numbers", key, n);
    double *list = lua_newuserdata(L, ((size_t)n + 1) * sizeof *list);
    lua_insert(L, -2);
    for (int i = 0; i < n; i++) {
        lua_rawgeti(L, -1, i + 1);
        list[i] = lua_tonumber(L, -1);
        if (lua_type(L, -1) != LUA_TNUMBER || !(list[i] >= 0) || list[i] > 1e18)
            script_fault(L, "costs: '%s' of %d: expected ns, a number from 0 to 1e18", key, i + 1);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return list;
}

const ft_work_costs *script_check_costs(lua_State *L, int t, const ft_graph *g)
{
    int n_forward = ft_graph_n_forward(g), n_params = ft_graph_n_params(g);
    script_check_table(L, t);
    luaL_checkstack(L, 16, "costs");
    ft_work_costs *costs = lua_newuserdata(L, sizeof *costs);
    costs->node_ns = cost_list(L, t, "node_ns", ft_graph_n_nodes(g), true);
    costs->recompute_ns = cost_list(L, t, "recompute_ns", n_forward, false);
    costs->joint_ns = cost_list(L, t, "joint_ns", n_forward, false);
    costs->pack_ns = cost_list(L, t, "pack_ns", n_forward, true);
    costs->update_ns = cost_list(L, t, "update_ns", n_params, true);
    costs->norm_ns = cost_list(L, t, "norm_ns", n_params, true);
    costs->copy_bytes_per_s = script_opt_number(L, t, "copy_bytes_per_s", 1e10);
    costs->handoff_ns = script_opt_number(L, t, "handoff_ns", 0);
    if (!(costs->copy_bytes_per_s > 0) || !(costs->handoff_ns >= 0))
        script_fault(L,
                     "costs: copy_bytes_per_s %f, handoff_ns %f: expected more than 0, and 0 or "
                     "more",
                     costs->copy_bytes_per_s, costs->handoff_ns);
    return costs;
}

const ft_work_costs *const *script_opt_costs(lua_State *L, int t, int n_devices, const ft_graph *g)
{
    lua_getfield(L, t, "costs");
    if (lua_isnil(L, -1)) return NULL;
    int list = lua_gettop(L);
    script_check_table(L, list);
    const ft_work_costs **costs = lua_newuserdata(L, (size_t)n_devices * sizeof *costs);
    luaL_checkstack(L, 24, "costs");
    lua_newtable(L); /* holds all lists: the stack has no room for those of many devices */
    int held = lua_gettop(L), n_held = 0;
    for (int d = 0; d < n_devices; d++) {
        costs[d] = NULL;
        lua_rawgeti(L, list, d + 1);
        int one = lua_gettop(L);
        for (int before = 0; before < d && !costs[d]; before++) {
            lua_rawgeti(L, list, before + 1); /* devices of one kind share a table */
            if (lua_rawequal(L, -1, one)) costs[d] = costs[before];
            lua_pop(L, 1);
        }
        if (!costs[d] && lua_toboolean(L, one)) costs[d] = script_check_costs(L, one, g);
        while (lua_gettop(L) > held) lua_rawseti(L, held, ++n_held);
    }
    return costs;
}

/* -- profiles out ------------------------------------------------------------------------------ */

static void set_numbers(lua_State *L, const char *key, const double *list, int n)
{
    if (!list) return;
    lua_createtable(L, n, 0);
    for (int i = 0; i < n; i++) {
        lua_pushnumber(L, list[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, key);
}

static void set_bytes(lua_State *L, const char *key, const int64_t *list, int n)
{
    lua_createtable(L, n, 0);
    for (int i = 0; i < n; i++) {
        lua_pushnumber(L, (double)list[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, key);
}

static void push_profile(lua_State *L, const ft_profile *p)
{
    lua_createtable(L, 0, 16);
    set_numbers(L, "node_ns", p->node_ns, p->n_nodes);
    set_numbers(L, "node_spread", p->node_spread, p->n_nodes);
    set_numbers(L, "recompute_ns", p->recompute_ns, p->n_forward);
    set_numbers(L, "pack_ns", p->pack_ns, p->n_forward);
    set_numbers(L, "update_ns", p->update_ns, p->n_params);
    set_numbers(L, "norm_ns", p->norm_ns, p->n_params);
    set_bytes(L, "output_bytes", p->output_bytes, p->n_nodes);
    set_bytes(L, "workspace_bytes", p->workspace_bytes, p->n_nodes);
    set_bytes(L, "saved_bytes", p->saved_bytes, p->n_forward);
    script_set_number(L, "pass_ns", p->pass_ns);
    script_set_number(L, "whole_ns", p->whole_ns);
    script_set_number(L, "whole_bytes", (double)p->whole_bytes);
    script_set_number(L, "copy_bytes_per_s", p->copy_bytes_per_s);
    script_set_number(L, "handoff_ns", p->handoff_ns);
    script_set_number(L, "blocks", p->n_blocks);
    script_set_number(L, "distinct", p->n_distinct);
    script_set_number(L, "rounds", (double)p->n_rounds);
}

static bool is_interrupted(void *owner)
{
    return script_interrupted(owner) != 0;
}

/*** Measures what every node of a graph costs on a CPU device. A signal ends it between rounds.
 * @function profile.measure
 * @tparam graph graph with gradients
 * @tparam table options device (as in --devices, or a table; the first one is measured), busy
 * (devices that work at once), memory_bytes (for all of them together), optimizer, hypers,
 * recompute, accumulate, whole, seconds
 * @treturn table node_ns, node_spread, recompute_ns, pack_ns, update_ns, norm_ns, output_bytes,
 *   workspace_bytes, saved_bytes (lists), pass_ns, whole_ns (0: there was no memory for it),
 *   whole_bytes, copy_bytes_per_s, handoff_ns, blocks, distinct, rounds */
static int profile_measure(lua_State *L)
{
    static const char *const names[] = {"device",  "busy",      "memory_bytes", "optimizer",
                                        "hypers",  "recompute", "accumulate",   "whole",
                                        "seconds", NULL};
    ft_error err;
    ft_measure_options o = {
        .graph = script_check_graph(L, 1), .cancelled = is_interrupted, .owner = L};
    int n;
    script_check_table(L, 2);
    script_options(L, 2, names);
    ft_device *device = script_opt_devices(L, 2, "device", "cpu:1", &n);
    o.n_busy = (int)script_opt_int(L, 2, "busy", 1, 1, FT_MAX_DEVICES);
    device->memory_bytes =
        script_opt_int(L, 2, "memory_bytes", device->memory_bytes, 1, (int64_t)1 << 53) / o.n_busy;
    o.device = device;
    o.optimizer = script_opt_optimizer(L, 2);
    o.hypers = script_opt_hypers(L, 2, o.optimizer);
    o.recompute = script_opt_bool(L, 2, "recompute", false);
    o.accumulate = script_opt_bool(L, 2, "accumulate", true);
    o.whole = script_opt_bool(L, 2, "whole", false);
    o.seconds = script_opt_number(L, 2, "seconds", 1);
    ft_profile *profile;
    if (ft_profile_measure(&profile, &o, &err) != FT_OK) return script_raise(L, &err);
    push_profile(L, profile);
    ft_profile_free(profile);
    return 1;
}

/*** Rates of this machine's CPU devices, while all of the list work.
 * @function profile.rates
 * @tparam string device as in --devices
 * @treturn table flops_per_s, bytes_per_s, link_bytes_per_s, link_latency_ns */
static int profile_rates(lua_State *L)
{
    ft_error err;
    int n, cores = ft_cpu_cores();
    ft_device *devices = script_check_devices(L, 1, &n);
    int busy = cores / devices[0].n_threads < n ? cores / devices[0].n_threads : n;
    if (ft_profile_rates(devices, busy > 1 ? busy : 1, &err) != FT_OK) return script_raise(L, &err);
    lua_createtable(L, 0, 4);
    script_set_number(L, "flops_per_s", devices[0].flops_per_s);
    script_set_number(L, "bytes_per_s", devices[0].bytes_per_s);
    script_set_number(L, "link_bytes_per_s", devices[0].link_bytes_per_s);
    script_set_number(L, "link_latency_ns", (double)devices[0].link_latency_ns);
    return 1;
}

/*** What every node is to a profile: row, specs of inputs, attributes. Equal texts cost the same.
 * @function profile.describe
 * @tparam graph graph
 * @treturn table list of texts by node */
static int profile_describe(lua_State *L)
{
    const ft_graph *g = script_check_graph(L, 1);
    ft_text text = {0};
    lua_createtable(L, ft_graph_n_nodes(g), 0);
    for (int n = 0; n < ft_graph_n_nodes(g); n++) {
        text.length = 0;
        ft_profile_describe(g, n, &text);
        if (text.failed) {
            ft_text_fini(&text);
            return script_fault(L, "profile: no memory for texts");
        }
        lua_pushlstring(L, text.data, (size_t)text.length);
        lua_rawseti(L, -2, n + 1);
    }
    ft_text_fini(&text);
    return 1;
}

/* kernels: a digest of those whose times are measured. */
int script_bind_profile(lua_State *L)
{
    static const luaL_Reg functions[] = {{"measure", profile_measure},
                                         {"rates", profile_rates},
                                         {"describe", profile_describe},
                                         {NULL, NULL}};
    lua_newtable(L);
    luaL_register(L, NULL, functions);
    lua_pushstring(L, ft_profile_kernels());
    lua_setfield(L, -2, "kernels");
    return 1;
}
