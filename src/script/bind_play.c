/* script/bind_play.c - core.pipeline: schedules over stages that are only costs.
 *
 * What ft.plan does for graphs of operators needs their memory to the byte; a graph from elsewhere
 * has stages with times and edges with bytes, and this plays a schedule over them. */
#include <string.h>

#include "script/bindings.h"

static double row_number(lua_State *L, const char *key, double lo, double hi)
{
    lua_getfield(L, -1, key);
    double value = lua_isnil(L, -1) ? 0 : lua_tonumber(L, -1);
    bool is_number = lua_isnil(L, -1) || lua_type(L, -1) == LUA_TNUMBER;
    lua_pop(L, 1);
    if (!is_number || !(value >= lo && value <= hi))
        luaL_error(L, "%s is %f, expected a number from %f to %f", key, value, lo, hi);
    return value;
}

/* Rows of the list at options[key]; leaves the list on the stack. */
static int check_rows(lua_State *L, const char *key)
{
    lua_getfield(L, 1, key);
    if (!lua_istable(L, -1))
        script_arg_error(L, 1, "%s is a %s, expected a list", key, luaL_typename(L, -1));
    return (int)lua_objlen(L, -1);
}

static void push_row(lua_State *L, int i, const char *key)
{
    lua_rawgeti(L, -1, i + 1);
    if (!lua_istable(L, -1)) script_arg_error(L, 1, "%s[%d] is no table", key, i + 1);
}

enum { MOST = 1 << 20, MOST_STAGES = 4096, SLOTS = 2 };

typedef struct pipeline_arrays {
    int n_stages, n_edges;
    int *device;
    double *forward, *backward, *update, *transfer;
    ft_edge *edges;
} pipeline_arrays;

/* Memory that the collector frees; it stays on the stack. */
static void *scratch(lua_State *L, size_t n, size_t size)
{
    void *p = lua_newuserdata(L, (n + 1) * size);
    return memset(p, 0, (n + 1) * size);
}

static void read_stages(lua_State *L, pipeline_arrays *a, int n_devices)
{
    a->device = scratch(L, MOST_STAGES, sizeof(int));
    a->forward = scratch(L, MOST_STAGES, sizeof(double));
    a->backward = scratch(L, MOST_STAGES, sizeof(double));
    a->update = scratch(L, MOST_STAGES, sizeof(double));
    a->n_stages = check_rows(L, "stages");
    if (a->n_stages < 1 || a->n_stages > MOST_STAGES)
        script_arg_error(L, 1, "%d stages, expected 1 to %d", a->n_stages, MOST_STAGES);
    for (int s = 0; s < a->n_stages; s++) {
        push_row(L, s, "stages");
        a->device[s] = (int)row_number(L, "device", 1, n_devices) - 1;
        a->forward[s] = row_number(L, "forward_ns", 0, 1e15);
        a->backward[s] = row_number(L, "backward_ns", 0, 1e15);
        a->update[s] = row_number(L, "update_ns", 0, 1e15);
        lua_pop(L, 1);
    }
}

/* An edge of values, and the one of gradients beside it. */
static void read_edges(lua_State *L, pipeline_arrays *a)
{
    int n = check_rows(L, "edges");
    int list = lua_gettop(L);
    a->edges = scratch(L, 2 * (size_t)n, sizeof *a->edges);
    a->transfer = scratch(L, 2 * (size_t)n, sizeof *a->transfer);
    lua_pushvalue(L, list);
    for (int i = 0; i < n; i++) {
        push_row(L, i, "edges");
        int from = (int)row_number(L, "from", 1, a->n_stages) - 1;
        int to = (int)row_number(L, "to", 1, a->n_stages) - 1;
        a->transfer[a->n_edges] = row_number(L, "ns", 0, 1e15);
        a->edges[a->n_edges++] =
            (ft_edge){from, to, FT_ACT_FORWARD, FT_ACT_FORWARD,
                      (int64_t)row_number(L, "bytes", 0, 0x1p53), SLOTS};
        a->transfer[a->n_edges] = row_number(L, "grad_ns", 0, 1e15);
        a->edges[a->n_edges++] =
            (ft_edge){to, from, FT_ACT_BACKWARD, FT_ACT_BACKWARD,
                      (int64_t)row_number(L, "grad_bytes", 0, 0x1p53), SLOTS};
        lua_pop(L, 1);
    }
}

/* More slots where the schedule needs them: FT_INFEASIBLE says that these are too few. */
static ft_status make_plan(ft_plan **plan, ft_pipeline *pipeline, pipeline_arrays *a,
                           const ft_schedule *schedule, ft_error *err)
{
    ft_status status = FT_INFEASIBLE;
    int most = pipeline->micro_batches * pipeline->n_batches + a->n_stages;
    for (int slots = SLOTS; status == FT_INFEASIBLE && slots <= 4 * most; slots *= 4) {
        for (int e = 0; e < a->n_edges; e++) a->edges[e].slots = slots < most ? slots : most;
        status = ft_plan_make(plan, pipeline, schedule, err);
    }
    return status;
}

/*** Plays a schedule over stages.
 * @function pipeline.play
 * @tparam table options stages = { { device =, forward_ns =, backward_ns =, update_ns = }, ... },
 *   edges = { { from =, to =, bytes =, grad_bytes =, ns =, grad_ns = }, ... } between stages,
 *   devices (how many), schedule, micro_batches, batches, trace (whether)
 * @treturn table { end_ns =, events =, busy_ns = by device, trace =, in_flight = by stage } */
static int pipeline_play(lua_State *L)
{
    static const char *const names[] = {"stages",        "edges",   "devices", "schedule",
                                        "micro_batches", "batches", "trace",   NULL};
    ft_error err = {FT_OK, ""};
    pipeline_arrays a = {0};
    lua_settop(L, 1);
    script_check_table(L, 1);
    script_options(L, 1, names);
    int n_devices = (int)script_opt_int(L, 1, "devices", 1, 1, MOST_STAGES);
    const char *name = script_opt_string(L, 1, "schedule", "1f1b");
    const ft_schedule *schedule = ft_schedule_find(name);
    if (!schedule) return script_arg_error(L, 1, "there is no schedule '%s'", name);
    read_stages(L, &a, n_devices);
    read_edges(L, &a);
    ft_stage_costs costs = {.forward_ns = a.forward,
                            .backward_ns = a.backward,
                            .update_ns = a.update,
                            .transfer_ns = a.transfer};
    ft_pipeline pipeline = {.n_stages = a.n_stages,
                            .n_devices = n_devices,
                            .device = a.device,
                            .micro_batches = (int)script_opt_int(L, 1, "micro_batches", 1, 1, MOST),
                            .n_batches = (int)script_opt_int(L, 1, "batches", 1, 1, MOST),
                            .n_edges = a.n_edges,
                            .edges = a.edges,
                            .costs = &costs};
    bool trace = script_opt_bool(L, 1, "trace", false);
    ft_plan *plan = NULL;
    ft_timeline *timeline = NULL;
    ft_status status = make_plan(&plan, &pipeline, &a, schedule, &err);
    if (status == FT_OK) status = ft_plan_simulate(&timeline, plan, &costs, &err);
    if (status == FT_OK) {
        script_push_timeline(L, timeline, trace);
        lua_createtable(L, plan->n_stages, 0);
        for (int s = 0; s < plan->n_stages; s++) {
            lua_pushinteger(L, plan->in_flight[s]);
            lua_rawseti(L, -2, s + 1);
        }
        lua_setfield(L, -2, "in_flight");
    }
    ft_timeline_free(timeline);
    ft_plan_free(plan);
    return status == FT_OK ? 1 : script_raise(L, &err);
}

int script_bind_pipeline(lua_State *L)
{
    static const luaL_Reg functions[] = {{"play", pipeline_play}, {NULL, NULL}};
    lua_newtable(L);
    luaL_register(L, NULL, functions);
    return 1;
}
