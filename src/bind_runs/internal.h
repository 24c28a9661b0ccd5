/* bind_runs/internal.h - what the files of this room share. */
#ifndef FT_BIND_RUNS_INTERNAL_H
#define FT_BIND_RUNS_INTERNAL_H

#include "bind_graphs/bind_graphs.h"
#include "bind_plans/bind_plans.h"
#include "bind_runs/bind_runs.h"
#include "engine/engine.h"

/* The blueprint in the box at index i. */
ft_blueprint *script_check_blueprint(lua_State *L, int i);

/* The field `tasks` of the table at t, { forward = , backward = } by stage; on the stack. None
 * where it is absent. */
ft_tasks script_opt_tasks(lua_State *L, int t, int n_stages);

/* core.engine.plan, core.engine.blueprint, and the class of what the latter gives. */
int script_engine_plan(lua_State *L);
int script_engine_blueprint(lua_State *L);
void script_blueprint_class(lua_State *L);
/* blueprint:simulate(), :fit(), :volumes(), :sends(), :check_feed(), :check_swap_room(). */
int script_blueprint_simulate(lua_State *L);
int script_blueprint_fit(lua_State *L);
int script_blueprint_share(lua_State *L);
int script_blueprint_volumes(lua_State *L);
int script_blueprint_sends(lua_State *L);
int script_blueprint_check_feed(lua_State *L);
int script_blueprint_check_swap_room(lua_State *L);
/* What moves between devices and host memory, how large that is and where it lies; on the stack. */
void script_tell_of_moves(lua_State *L, const ft_blueprint *blueprint, ft_simulation *options);
/* What the devices of a leg are called, and how large things are on them; on the stack. */
ft_holdings script_holdings(lua_State *L, const ft_blueprint *blueprint, const ft_plan *leg);

/* blueprint:run(), and the class of what it gives. */
int script_run_new(lua_State *L);
void script_run_class(lua_State *L);
/* run:write() */
int script_run_write(lua_State *L, ft_run *run);
int script_run_read(lua_State *L, ft_run *run);

#endif
