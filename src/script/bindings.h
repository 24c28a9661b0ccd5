/* script/bindings.h - what binding files share. */
#ifndef FT_SCRIPT_BINDINGS_H
#define FT_SCRIPT_BINDINGS_H

#include "data/data.h"
#include "engine/engine.h"
#include "schedule/schedule.h"
#include "script/script.h"
#include "simulate/simulate.h"

/* The graph in the box at index i. */
ft_graph *script_check_graph(lua_State *L, int i);

/* graph:weights(), in a file of its own. */
int script_graph_weights(lua_State *L);

/* The blueprint in the box at index i. */
ft_blueprint *script_check_blueprint(lua_State *L, int i);

/* core.engine.plan, core.engine.blueprint, and the class of what the latter gives. */
int script_engine_plan(lua_State *L);
int script_engine_blueprint(lua_State *L);
void script_blueprint_class(lua_State *L);

/* The plan in the box at index i; a new box, for one that is freed with it. */
ft_plan *script_check_plan(lua_State *L, int i);
ft_plan **script_push_plan_box(lua_State *L);

/* The devices at index i: a text as in --devices, or a table of rows (devices.c); in a userdata
 * that is left on the stack. */
ft_device *script_check_devices(lua_State *L, int i, int *n);
/* The same for a key of the table at t. */
ft_device *script_opt_devices(lua_State *L, int t, const char *key, const char *preset, int *n);
/* Lists at a key of the table at t, in userdata left on the stack: numbers (NULL, and nil, when it
 * is absent), and whole numbers less `base` (n < 0: of any length); a number of the table, 0 when
 * it is absent; how long a list is. */
double *script_opt_numbers(lua_State *L, int t, const char *key, int n);
int *script_need_ints(lua_State *L, int t, const char *key, int n, int base);
int64_t script_field_int(lua_State *L, int t, const char *key);
int script_list_length(lua_State *L, int t, const char *key);

/* The field `machine` of the table at t into *m, its arrays left on the stack; NULL when there is
 * none. */
const ft_machine *script_opt_machine(lua_State *L, int t, int n_devices, ft_machine *m);
/* The field `swap_bytes`, by stage and class; NULL when there is none. */
const int64_t (*script_opt_swap_bytes(lua_State *L, int t, int n_stages))[FT_MEMORY_CLASSES];
/* core.schedule.ways. */
int script_schedule_ways(lua_State *L);

/* Options 'optimizer' (preset adamw) and 'hypers' of the table at t; hypers stay on the stack. */
const ft_optimizer *script_opt_optimizer(lua_State *L, int t);
const double *script_opt_hypers(lua_State *L, int t, const ft_optimizer *optimizer);

/* Costs as a profile has them, from the table at t: { node_ns =, recompute_ns =, pack_ns =,
 * update_ns =, norm_ns = (lists), copy_bytes_per_s =, handoff_ns = }; left on the stack. */
const ft_work_costs *script_check_costs(lua_State *L, int t, const ft_graph *g);
/* Option 'costs' of the table at t: a list of them by device (false: modelled), or NULL. */
const ft_work_costs *const *script_opt_costs(lua_State *L, int t, int n_devices, const ft_graph *g);

/* Pushes { end_ns =, events =, busy_ns = by device } and, when asked for, trace = Chrome trace
 * JSON. */
void script_push_timeline(lua_State *L, const ft_timeline *timeline, bool trace);
/* The same of a simulation, with critical = ns by kind on the critical path, link_ns = by link of
 * its machine, and, with the trace, memory = by device { peak =, points = { { ns, bytes } } } of
 * activations; saved_bytes by stage, of a micro-batch. */
void script_push_simulation(lua_State *L, const ft_timeline *timeline, bool trace,
                            const int64_t *saved_bytes);

/* Sets in the table at the top what the plan says of a stage: depth, in_flight, versions, buffers,
 * least_staleness, most_staleness. */
void script_set_stage(lua_State *L, const ft_plan *plan, int stage);

/* The schedule in field `schedule` of the options at t: by name, or a table with a rule in Lua,
 * which then is on the stack and lives as long as it is held. Pushes one value in any case. */
const ft_schedule *script_push_schedule(lua_State *L, int t, const char *preset);
/* What a rule in Lua raised takes the place of the message that this led to. */
void script_explain_schedule(const ft_schedule *schedule, ft_error *err);
/* The field `staleness` of the options at t. */
ft_weights script_opt_weights(lua_State *L, int t);

/* blueprint:run(), and the class of what it gives. */
int script_run_new(lua_State *L);
void script_run_class(lua_State *L);

/* Pushes a box for a block of ft_alloc on its way into Lua; it frees what it still holds. */
void **script_block_box(lua_State *L);

/* The tokenizer in the box at index i. */
ft_tokenizer *script_check_tokenizer(lua_State *L, int i);
/* Pushes a list of ids. */
void script_push_ids(lua_State *L, const int32_t *ids, int64_t n);

/* Adds datasets and batchers to core.data, the table at the top. */
void script_add_batches(lua_State *L);

/* Adds the other kinds of tokenizers to core.data, the table at the top, and methods to their
 * class, which is there. */
void script_add_tokenizers(lua_State *L);

#endif
