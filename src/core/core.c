/* core/core.c - the rooms that Lua sees: a new one's bindings are one line here. */
#include "core/core.h"

#include "bind_data/bind_data.h"
#include "bind_graphs/bind_graphs.h"
#include "bind_plans/bind_plans.h"
#include "bind_runs/bind_runs.h"
#include "bind_values/bind_values.h"

const luaL_Reg core_rooms[] = {
    {"sys", script_bind_sys},
    {"json", script_bind_json},
    {"tensor", script_bind_tensor},
    {"ops", script_bind_ops},
    {"card", script_bind_card},
    {"io", script_bind_io},
    {"process", script_bind_process},
    {"database", script_bind_database},
    {"data", script_bind_data},
    {"graph", script_bind_graph},
    {"engine", script_bind_engine},
    {"ranks", script_bind_ranks},
    {"program", script_bind_program},
    {"partition", script_bind_partition},
    {"profile", script_bind_profile},
    {"schedule", script_bind_schedule},
    {NULL, NULL},
};

struct ft_world *core_world(lua_State *L)
{
    return script_world(L);
}

int core_rank(lua_State *L)
{
    return script_rank(L);
}

int core_rank_code(lua_State *L)
{
    return script_rank_code(L);
}

bool core_loss_is_said(lua_State *L)
{
    return script_loss_is_said(L);
}

void core_give_up_world(lua_State *L, int code)
{
    script_give_up_world(L, code);
}

void core_leave_world(struct ft_world *world, int code)
{
    script_leave_world(world, code);
}
