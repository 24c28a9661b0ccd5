/* bind_plans/bind_plans.h - cutting and ordering work, seen from Lua. */
#ifndef FT_BIND_PLANS_H
#define FT_BIND_PLANS_H

#include "schedule/schedule.h"
#include "script/script.h"
#include "simulate/simulate.h"

/* Openers: the tables core.partition, core.schedule. */
int script_bind_partition(lua_State *L);
int script_bind_schedule(lua_State *L);

/* The plan in the box at index i; a new box, for one that is freed with it. */
ft_plan *script_check_plan(lua_State *L, int i);
ft_plan **script_push_plan_box(lua_State *L);

/* The field `machine` of the table at t into *m, its arrays left on the stack; NULL when there is
 * none. */
const ft_machine *script_opt_machine(lua_State *L, int t, int n_devices, ft_machine *m);
/* The field `swap_bytes`, by stage and class; NULL when there is none. */
const int64_t (*script_opt_swap_bytes(lua_State *L, int t, const ft_plan *plan))[FT_MEMORY_CLASSES];
/* Pushes { forward = bytes, ... }: what a device sends others, by the word of what makes it. */
void script_push_sent(lua_State *L, const int64_t by_kind[FT_ACT_COUNT]);
/* Pushes { end_ns =, events =, busy_ns = by device, waits = by device what waits_of pushes, copies
 * = by device and class { bytes_in =, bytes_out =, ns =, exposed_ns = }, of a run also sent = by
 * device what script_push_sent pushes } and, when asked for, trace = Chrome trace JSON. The
 * holdings have the plan of the leg. */
void script_push_timeline(lua_State *L, const ft_timeline *timeline, const ft_holdings *holdings,
                          bool trace);
/* The same of a simulation, with critical = ns by kind on the critical path, link_ns = by link of
 * its machine, stalls = by device ns by kind and, with the trace, memory = by device { peak =,
 * is_all = whether it is more than activations, points = { { ns, bytes } } }. */
void script_push_simulation(lua_State *L, ft_timeline *timeline, const ft_holdings *holdings,
                            bool trace);

/* By stage the buffers of edges that end there, `buffers` of the next function; pushed. */
const int *script_push_buffers(lua_State *L, const ft_plan *plan);
/* Sets in the table at the top what the plan says of a stage: depth, in_flight, versions, buffers,
 * least_staleness, most_staleness, mean_staleness, norm_lag (batches), lags (by micro-batch). */
void script_set_stage(lua_State *L, const ft_plan *plan, int stage, int buffers);

/* The schedule in field `schedule` of the options at t: by name, or a table with a rule in Lua,
 * which then is on the stack and lives as long as it is held. Pushes one value in any case. */
const ft_schedule *script_push_schedule(lua_State *L, int t, const char *preset);
/* What a rule in Lua raised takes the place of the message that this led to. */
void script_explain_schedule(const ft_schedule *schedule, ft_error *err);
/* The field `staleness` of the options at t. */
ft_weights script_opt_weights(lua_State *L, int t);
/* Takes is_bounded and most_late from the field `max_staleness` of the options at t. */
void script_opt_bound(lua_State *L, int t, ft_pipeline *pipeline);

#endif
