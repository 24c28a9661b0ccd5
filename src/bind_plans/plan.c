/* bind_plans/plan.c - what a plan says of itself, as tables. */
#include "bind_plans/internal.h"
#include "proof/proof.h"

/* Of all replicas. */
static void push_devices(lua_State *L, const ft_plan *plan, int s)
{
    int first = plan->replica_first[s];
    lua_newtable(L);
    for (int i = first; i < plan->replica_first[s + 1]; i++) {
        lua_pushinteger(L, plan->replica_device[i] + 1);
        lua_rawseti(L, -2, i - first + 1);
    }
}

const int *script_push_buffers(lua_State *L, const ft_plan *plan)
{
    int *buffers = lua_newuserdata(L, ((size_t)plan->n_stages + 1) * sizeof *buffers);
    for (int s = 0; s < plan->n_stages; s++) buffers[s] = 0;
    for (int e = 0; e < plan->n_edges; e++)
        if (plan->edges[e].bytes && !plan->edges[e].after)
            buffers[plan->edges[e].to] += plan->edges[e].slots;
    return buffers;
}

void script_set_stage(lua_State *L, const ft_plan *plan, int s, int buffers)
{
    int least, most;
    ft_plan_staleness(plan, s, plan->n_batches / 2, &least, &most);
    push_devices(L, plan, s);
    lua_setfield(L, -2, "devices");
    script_set_number(L, "depth", plan->depth[s]);
    script_set_number(L, "in_flight", plan->in_flight[s]);
    script_set_number(L, "versions", plan->versions[s]);
    script_set_number(L, "buffers", buffers);
    script_set_number(L, "least_staleness", least);
    script_set_number(L, "most_staleness", most);
    script_set_number(L, "mean_staleness", ft_plan_mean_staleness(plan, s));
    script_set_number(L, "norm_lag", ft_plan_norm_lag(plan, s));
    int *lags = lua_newuserdata(L, (size_t)plan->micro_batches * sizeof *lags);
    ft_plan_lags(plan, s, lags);
    lua_createtable(L, plan->micro_batches, 0);
    for (int m = 0; m < plan->micro_batches; m++) {
        lua_pushinteger(L, lags[m]);
        lua_rawseti(L, -2, m + 1);
    }
    lua_setfield(L, -3, "lags");
    lua_pop(L, 1);
}

/* Of the buffers of edges that end at a stage. */
static double buffer_bytes(const ft_plan *plan, int s)
{
    double bytes = 0;
    for (int e = 0; e < plan->n_edges; e++)
        if (plan->edges[e].to == s && !plan->edges[e].after)
            bytes += (double)plan->edges[e].bytes * plan->edges[e].slots;
    return bytes;
}

static void push_stage(lua_State *L, const ft_plan *plan, int s, int buffers)
{
    lua_createtable(L, 0, 9);
    script_set_number(L, "buffer_bytes", buffer_bytes(plan, s));
    lua_pushboolean(L, plan->recompute[s]);
    lua_setfield(L, -2, "recompute");
    script_set_number(L, "joint", plan->joint[s]);
    script_set_stage(L, plan, s, buffers);
}

static void set_list(lua_State *L, const char *key, const int *list, int n)
{
    lua_createtable(L, n, 0);
    for (int i = 0; i < n; i++) {
        lua_pushinteger(L, list[i] + 1);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, key);
}

/* Whether no forward works with weights that are late. */
static bool is_synchronous(const ft_plan *plan)
{
    int least, most = 0;
    for (int s = 0; s < plan->n_stages && most <= 0; s++)
        ft_plan_staleness(plan, s, 0, &least, &most);
    return most <= 0;
}

/*** What the plan says: schedule, devices, micro_batches, batches, forward_only, synchronous (no
 * forward works with weights that are late), node_stage, stages (each with
 * devices, depth, in_flight, versions, recompute, buffers of the edges that end there and their
 * buffer_bytes, least_staleness and most_staleness of its forwards in the second half of the leg,
 * mean_staleness).
 * @function schedule_plan:describe */
int script_plan_describe(lua_State *L)
{
    const ft_plan *plan = script_check_plan(L, 1);
    ft_error err;
    if (ft_plan_check(plan, &err) != FT_OK) return script_raise(L, &err);
    lua_createtable(L, 0, 8);
    lua_pushstring(L, plan->schedule);
    lua_setfield(L, -2, "schedule");
    script_set_number(L, "devices", plan->n_devices);
    script_set_number(L, "micro_batches", plan->micro_batches);
    script_set_number(L, "batches", plan->n_batches);
    lua_pushboolean(L, plan->forward_only);
    lua_setfield(L, -2, "forward_only");
    lua_pushboolean(L, is_synchronous(plan));
    lua_setfield(L, -2, "synchronous");
    const int *buffers = script_push_buffers(L, plan);
    lua_createtable(L, plan->n_stages, 0);
    for (int s = 0; s < plan->n_stages; s++) {
        push_stage(L, plan, s, buffers[s]);
        lua_rawseti(L, -2, s + 1);
    }
    lua_setfield(L, -3, "stages");
    lua_pop(L, 1);
    set_list(L, "node_stage", plan->node_stage, plan->n_nodes);
    return 1;
}

/* Of its edges what joins them: from, kind, to, to_kind, as in make. */
static void push_edges(lua_State *L, const ft_plan *plan)
{
    lua_createtable(L, plan->n_edges, 0);
    for (int e = 0; e < plan->n_edges; e++) {
        const ft_edge *edge = &plan->edges[e];
        const char from = ft_action_letter(edge->from_kind), to = ft_action_letter(edge->to_kind);
        lua_createtable(L, 0, 4);
        script_set_number(L, "from", edge->from + 1);
        script_set_number(L, "to", edge->to + 1);
        lua_pushlstring(L, &from, 1);
        lua_setfield(L, -2, "kind");
        lua_pushlstring(L, &to, 1);
        lua_setfield(L, -2, "to_kind");
        lua_rawseti(L, -2, e + 1);
    }
}

/* By device, bytes by class. */
static void push_memory(lua_State *L, const ft_plan *plan)
{
    lua_createtable(L, plan->n_devices, 0);
    for (int d = 0; d < plan->n_devices; d++) {
        lua_createtable(L, 0, FT_MEMORY_CLASSES);
        for (int c = 0; c < FT_MEMORY_CLASSES; c++)
            script_set_number(L, ft_memory_classes[c].name, (double)plan->memory[d][c]);
        lua_rawseti(L, -2, d + 1);
    }
}

/*** What stands in front of its lists, of a plan that need not be one that completes.
 * @function schedule_plan:head
 * @treturn table { node_stage = by forward node, device = by stage: its device, or a list of those
 *   of its replicas, edges = list of { from =, kind = "F", to =, to_kind = }, memory = by device:
 *   bytes by class, nil of a plan that says none } */
int script_plan_head(lua_State *L)
{
    const ft_plan *plan = script_check_plan(L, 1);
    lua_createtable(L, 0, 4);
    set_list(L, "node_stage", plan->node_stage, plan->n_nodes);
    lua_createtable(L, plan->n_stages, 0);
    for (int s = 0; s < plan->n_stages; s++) {
        if (plan->replica_first[s + 1] - plan->replica_first[s] > 1)
            push_devices(L, plan, s);
        else
            lua_pushinteger(L, plan->device[s] + 1);
        lua_rawseti(L, -2, s + 1);
    }
    lua_setfield(L, -2, "device");
    push_edges(L, plan);
    lua_setfield(L, -2, "edges");
    if (plan->memory) {
        push_memory(L, plan);
        lua_setfield(L, -2, "memory");
    }
    return 1;
}

/*** The letters of what a stage does in a leg, forwards and backwards alone: "FFBFBB".
 * @function schedule_plan:letters
 * @tparam int stage */
int script_plan_letters(lua_State *L)
{
    const ft_plan *plan = script_check_plan(L, 1);
    int stage = (int)script_check_int(L, 2, 1, plan->n_stages) - 1;
    ft_error err;
    luaL_Buffer buffer;
    if (ft_plan_check(plan, &err) != FT_OK) return script_raise(L, &err);
    luaL_buffinit(L, &buffer);
    for (int64_t i = 0, d = plan->device[stage]; i < ft_plan_length(plan, (int)d); i++) {
        ft_action a = ft_plan_at(plan, (int)d, i);
        if (a.stage == stage && ft_action_per_micro(a.kind))
            luaL_addchar(&buffer, ft_action_letter(a.kind));
    }
    luaL_pushresult(&buffer);
    return 1;
}
