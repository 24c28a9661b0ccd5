/* bind_runs/blueprint.c - from a graph to a plan for it, and from the plan to a blueprint. */
#include <math.h>
#include <string.h>

#include "blueprint/states.h"
#include "planfile/planfile.h"
#include "bind_runs/internal.h"

static const char BLUEPRINT[] = "ftpipe.blueprint";

ft_blueprint *script_check_blueprint(lua_State *L, int i)
{
    return script_box_check(L, i, BLUEPRINT);
}

/* -- options ----------------------------------------------------------------------------------- */

/* Integers of the list at key, 1-based in Lua when `base` is 1; anchored on the stack. */
static int *opt_list(lua_State *L, int t, const char *key, int n, int base)
{
    int *list = lua_newuserdata(L, ((size_t)n + 1) * sizeof(int));
    lua_getfield(L, t, key);
    if (!lua_istable(L, -1) || (int)lua_objlen(L, -1) != n)
        script_fault(L, "option '%s': expected a list of %d integers", key, n);
    for (int i = 0; i < n; i++) {
        lua_rawgeti(L, -1, i + 1);
        list[i] = (int)script_check_int(L, lua_gettop(L), base, INT32_MAX) - base;
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return list;
}

static bool *opt_flags(lua_State *L, int t, const char *key, int n)
{
    bool *list = lua_newuserdata(L, (size_t)n + 1);
    lua_getfield(L, t, key);
    bool table = lua_istable(L, -1);
    for (int i = 0; i < n; i++) {
        list[i] = false;
        if (!table) continue;
        lua_rawgeti(L, -1, i + 1);
        list[i] = lua_toboolean(L, -1);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return list;
}

static ft_graph **opt_graphs(lua_State *L, int t, const char *key, int *n)
{
    lua_getfield(L, t, key);
    if (!lua_istable(L, -1) || lua_objlen(L, -1) == 0)
        script_fault(L, "option '%s': expected a list of graphs", key);
    *n = (int)lua_objlen(L, -1);
    ft_graph **graphs = lua_newuserdata(L, (size_t)*n * sizeof *graphs);
    for (int i = 0; i < *n; i++) {
        lua_rawgeti(L, -2, i + 1);
        graphs[i] = script_check_graph(L, lua_gettop(L));
        lua_pop(L, 1);
    }
    return graphs;
}

/* Devices, and the links between them where they are described; on the stack. */
static const ft_device *opt_cluster(lua_State *L, int t, int *n, ft_machine *machine,
                                    const ft_machine **links)
{
    const ft_device *devices = script_opt_devices(L, t, "devices", "cpu:1", n);
    lua_getfield(L, t, "devices");
    *links = lua_istable(L, -1) ? script_opt_machine(L, lua_gettop(L), *n, machine) : NULL;
    return devices;
}

/* -- plans ------------------------------------------------------------------------------------- */

enum { MOST_SLOTS = 256 };

/* Plays the schedule over the cut's stages, with weights as asked for. */
static ft_status make_plan(ft_plan **out, const ft_cut *cut, const ft_schedule *schedule,
                           const ft_pipeline *asked, ft_error *err)
{
    ft_wiring *wiring;
    FT_TRY(ft_wiring_new(&wiring, cut, err));
    const ft_pipeline pipeline = {.n_stages = cut->n_stages,
                                  .n_devices = cut->n_devices,
                                  .device = cut->stage_device,
                                  .tasks = asked->tasks,
                                  .replica_first = cut->replica_first,
                                  .replica_device = cut->replica_device,
                                  .micro_batches = cut->micro_batches,
                                  .n_batches = cut->n_batches,
                                  .reduces = !cut->forward_only,
                                  .n_edges = wiring->n_edges,
                                  .edges = wiring->edges,
                                  .most_slots = MOST_SLOTS,
                                  .weights = asked->weights,
                                  .is_bounded = asked->is_bounded,
                                  .most_late = asked->most_late,
                                  .most_waiting = asked->most_waiting,
                                  .joint = cut->joint,
                                  .replica_rule = cut->replica_rule,
                                  .costs = &wiring->costs};
    ft_status status = ft_plan_make(out, &pipeline, schedule, err);
    ft_wiring_free(wiring);
    FT_TRY(status);
    return ft_plan_annotate(*out, ft_graph_n_forward(cut->graphs[0]), cut->node_stage,
                            cut->recompute, NULL, err);
}

/* By stage its device, or the list of those of its replicas; on the stack. */
static void opt_places(lua_State *L, ft_cut *cut)
{
    int n = script_list_length(L, 1, "stage_device"), seats = 0;
    int *device = lua_newuserdata(L, ((size_t)n + 1) * sizeof *device);
    int *first = lua_newuserdata(L, ((size_t)n + 1) * sizeof *first);
    lua_getfield(L, 1, "stage_device");
    int list = lua_gettop(L);
    for (int s = 0; s < n; s++) {
        lua_rawgeti(L, list, s + 1);
        first[s] = seats;
        seats += lua_istable(L, -1) ? (int)lua_objlen(L, -1) : 1;
        if (seats == first[s])
            script_fault(L, "option 'stage_device': stage %d has no device", s + 1);
        lua_pop(L, 1);
    }
    first[n] = seats;
    int *all = lua_newuserdata(L, ((size_t)seats + 1) * sizeof *all);
    for (int s = 0; s < n; s++) {
        lua_rawgeti(L, list, s + 1);
        bool several = lua_istable(L, -1);
        for (int i = first[s]; i < first[s + 1]; i++) {
            if (several)
                lua_rawgeti(L, -1, i - first[s] + 1);
            else
                lua_pushvalue(L, -1);
            all[i] = (int)script_check_int(L, lua_gettop(L), 1, cut->n_devices) - 1;
            lua_pop(L, 1);
        }
        device[s] = all[first[s]];
        lua_pop(L, 1);
    }
    cut->n_stages = n;
    cut->stage_device = device;
    cut->replica_first = first;
    cut->replica_device = all;
}

/* Those of joint forwards; one for each other graph, or NULL. */
static ft_graph *const *opt_joint_graphs(lua_State *L, int n_graphs)
{
    int n = script_list_length(L, 1, "joint_graphs");
    if (!n) return NULL;
    if (n != n_graphs)
        script_fault(L, "option 'joint_graphs': expected %d, as graphs, got %d", n_graphs, n);
    return opt_graphs(L, 1, "joint_graphs", &n);
}

/* By stage, how many micro-batches go forward as one: of replicas too, these are neighbours. */
static void opt_joint(lua_State *L, ft_cut *cut)
{
    cut->joint_graphs = opt_joint_graphs(L, cut->n_graphs);
    if (!cut->joint_graphs) return;
    cut->joint = script_need_ints(L, 1, "joint", cut->n_stages, 0);
    uint8_t *rule = lua_newuserdata(L, (size_t)cut->n_stages);
    memset(rule, FT_REPLICAS_BLOCK, (size_t)cut->n_stages);
    cut->replica_rule = rule;
}

ft_tasks script_opt_tasks(lua_State *L, int t, int n_stages)
{
    static const char *const names[] = {"forward", "backward", NULL};
    lua_getfield(L, t, "tasks");
    if (lua_isnil(L, -1)) return (ft_tasks){NULL, NULL};
    int own = lua_gettop(L);
    script_check_table(L, own);
    script_options(L, own, names);
    return (ft_tasks){opt_list(L, own, names[0], n_stages, 1),
                      opt_list(L, own, names[1], n_stages, 1)};
}

/* By stage whether backwards come in halves; on the stack. */
static const bool *push_splits(lua_State *L, const ft_schedule *schedule, int n)
{
    bool *splits = lua_newuserdata(L, (size_t)n + 1);
    for (int s = 0; s < n; s++) splits[s] = schedule->splits;
    return splits;
}

/*** Plays a schedule over the stages of a graph.
 * @function engine.plan
 * @tparam table options graphs (by length bucket), node_stage (by forward node), stage_device (a
 *   number, or a list of the devices of its replicas), recompute (by stage), devices (text or
 *   table), micro_batches, schedule (a name, or a rule as schedule.make takes; it is not needed
 *   later), staleness, max_staleness, apart (true: no update waits for gradients of other stages,
 *   but for those of shared weights), waiting (by stage: gradients of weights that wait, at most;
 *   as many as the schedule says when it is absent), batches (of the longest leg), clip (above 0:
 *   every update knows the norm of all gradients), tasks ({ forward = , backward = }: by stage the
 *   number of its task, see ft_tasks), joint (by stage: micro-batches that go forward as one) and
 *   joint_graphs (as graphs, of so many), costs (by device, see profile.measure; false where
 * modelled)
 * @treturn schedule_plan for engine.blueprint with the same graphs */
int script_engine_plan(lua_State *L)
{
    static const char *const names[] = {
        "graphs",        "node_stage", "stage_device", "recompute", "devices",       "schedule",
        "micro_batches", "staleness",  "batches",      "costs",     "max_staleness", "clip",
        "apart",         "waiting",    "tasks",        "joint",     "joint_graphs",  NULL};
    ft_error err = {FT_OK, ""};
    ft_cut cut = {0};
    ft_machine machine;
    script_check_table(L, 1);
    script_options(L, 1, names);
    luaL_checkstack(L, 40, "options");
    cut.graphs = opt_graphs(L, 1, "graphs", &cut.n_graphs);
    cut.devices = opt_cluster(L, 1, &cut.n_devices, &machine, &cut.machine);
    opt_places(L, &cut);
    opt_joint(L, &cut);
    cut.node_stage = opt_list(L, 1, "node_stage", ft_graph_n_forward(cut.graphs[0]), 1);
    cut.recompute = opt_flags(L, 1, "recompute", cut.n_stages);
    cut.micro_batches = (int)script_opt_int(L, 1, "micro_batches", 1, 1, 1 << 20);
    cut.n_batches = (int)script_opt_int(L, 1, "batches", 1, 1, 1 << 30);
    cut.costs = script_opt_costs(L, 1, cut.n_devices, cut.graphs[cut.n_graphs - 1]);
    ft_pipeline asked = {.weights = script_opt_weights(L, 1)};
    script_opt_bound(L, 1, &asked);
    lua_getfield(L, 1, "waiting");
    if (lua_toboolean(L, -1)) asked.most_waiting = opt_list(L, 1, "waiting", cut.n_stages, 0);
    asked.tasks = script_opt_tasks(L, 1, cut.n_stages);
    const ft_schedule *schedule = script_push_schedule(L, 1, "1f1b");
    cut.forward_only = schedule->forward_only;
    cut.splits = push_splits(L, schedule, cut.n_stages);
    ft_weights read = asked.weights == FT_WEIGHTS_OWN ? schedule->weights : asked.weights;
    cut.keeps = ft_weights_keep(read);
    cut.together = schedule->synchronous && !script_opt_bool(L, 1, "apart", false);
    cut.late_norms =
        !schedule->synchronous && !cut.forward_only && script_opt_number(L, 1, "clip", 0) > 0;
    ft_plan **box = script_push_plan_box(L);
    if (make_plan(box, &cut, schedule, &asked, &err) == FT_OK) return 1;
    script_explain_schedule(schedule, &err);
    return script_raise(L, &err);
}

/* -- blueprints -------------------------------------------------------------------------------- */

static const ft_plan *opt_plan(lua_State *L, int t)
{
    lua_getfield(L, t, "plan");
    return script_check_plan(L, lua_gettop(L));
}

/* What the table `evaluation` says, anchored on the stack; NULL when there is none. */
static const ft_evaluation_options *opt_evaluation(lua_State *L, int t)
{
    static const char *const names[] = {"graphs", "plan", NULL};
    lua_getfield(L, t, "evaluation");
    if (lua_isnil(L, -1)) return NULL;
    int own = lua_gettop(L);
    script_check_table(L, own);
    script_options(L, own, names);
    ft_evaluation_options *o = lua_newuserdata(L, sizeof *o);
    o->graphs = opt_graphs(L, own, "graphs", &o->n_graphs);
    o->plan = opt_plan(L, own);
    return o;
}

/* Adds plan and graphs of the table at t to the list at the top. */
static void hold_parts(lua_State *L, int t)
{
    int list = lua_gettop(L);
    lua_getfield(L, t, "plan");
    lua_rawseti(L, list, (int)lua_objlen(L, list) + 1);
    static const char *const graphs[] = {"graphs", "joint_graphs"};
    for (int k = 0; k < 2; k++) {
        lua_getfield(L, t, graphs[k]);
        for (int i = 1, n = lua_istable(L, -1) ? (int)lua_objlen(L, -1) : 0; i <= n; i++) {
            lua_rawgeti(L, -1, i);
            lua_rawseti(L, list, (int)lua_objlen(L, list) + 1);
        }
    }
    lua_settop(L, list);
}

/*** Everything decided before a run.
 * @function engine.blueprint
 * @tparam table options graphs (by length bucket), joint_graphs (likewise, of joint forwards, where
 *   the plan has some), plan (a schedule_plan with the stage of every
 *   forward node: of engine.plan, or read), devices (text or table), micro_batch_size, optimizer,
 *   hypers, weight_decays and rate_factors (by parameter: its weight_decay, and what its rate is
 *   multiplied by; nil, and false for a weight_decay: as all), clip, look_ahead (true: parameters
 *   are kept ahead by the updates that forwards are late), gaps (true: runs measure how far newest
 *   weights are from those that forwards read), gnorm (true: results have the norm of all gradients
 *   where no update goes by it, too), seed, costs (by device, see
 *   profile.measure; false where modelled); evaluation (optional): { graphs = without gradients,
 *   plan = of forwards alone }
 * @treturn blueprint */
int script_engine_blueprint(lua_State *L)
{
    static const char *const names[] = {"graphs",
                                        "plan",
                                        "devices",
                                        "micro_batch_size",
                                        "optimizer",
                                        "hypers",
                                        "look_ahead",
                                        "weight_decays",
                                        "rate_factors",
                                        "clip",
                                        "seed",
                                        "costs",
                                        "evaluation",
                                        "gaps",
                                        "gnorm",
                                        "joint_graphs",
                                        NULL};
    ft_error err;
    ft_blueprint_options o = {0};
    ft_machine machine;
    script_check_table(L, 1);
    script_options(L, 1, names);
    luaL_checkstack(L, 40, "options");
    o.graphs = opt_graphs(L, 1, "graphs", &o.n_graphs);
    o.joint_graphs = opt_joint_graphs(L, o.n_graphs);
    o.plan = opt_plan(L, 1);
    o.devices = opt_cluster(L, 1, &o.n_devices, &machine, &o.machine);
    o.micro_batch_size = script_opt_int(L, 1, "micro_batch_size", 1, 1, 1 << 30);
    o.optimizer = script_opt_optimizer(L, 1);
    o.hypers = script_opt_hypers(L, 1, o.optimizer);
    o.weight_decays =
        script_opt_numbers_or(L, 1, "weight_decays", ft_graph_n_params(o.graphs[0]), (double)NAN);
    o.rate_factors =
        script_opt_numbers_or(L, 1, "rate_factors", ft_graph_n_params(o.graphs[0]), (double)NAN);
    o.clip = script_opt_number(L, 1, "clip", 0);
    o.look_ahead = script_opt_bool(L, 1, "look_ahead", false);
    o.gaps = script_opt_bool(L, 1, "gaps", false);
    o.gnorm = script_opt_bool(L, 1, "gnorm", false);
    o.seed = (uint64_t)script_opt_int(L, 1, "seed", 0, 0, (int64_t)1 << 53);
    o.evaluation = opt_evaluation(L, 1);
    o.costs = script_opt_costs(L, 1, o.n_devices, o.graphs[o.n_graphs - 1]);
    void **box = script_box_new(L, BLUEPRINT);
    int at = lua_gettop(L);
    lua_newtable(L); /* holds on to graphs and plans */
    hold_parts(L, 1);
    lua_getfield(L, 1, "evaluation");
    if (lua_istable(L, -1)) {
        lua_insert(L, -2);
        hold_parts(L, lua_gettop(L) - 1);
        lua_remove(L, -2);
    } else
        lua_pop(L, 1);
    lua_setfenv(L, at);
    if (ft_blueprint_new((ft_blueprint **)box, &o, &err) == FT_OK) return 1;
    return script_raise(L, &err);
}

static int blueprint_gc(lua_State *L)
{
    void **box = script_box(L, 1, BLUEPRINT);
    ft_blueprint_free(*box);
    *box = NULL;
    return 0;
}

/* -- what they say ----------------------------------------------------------------------------- */

/*** The plan's text.
 * @function blueprint:plan_text
 * @tparam[opt] boolean evaluation the plan of evaluation, instead of training's */
static int blueprint_plan_text(lua_State *L)
{
    ft_error err;
    ft_text text = {0};
    const ft_blueprint *b = script_check_blueprint(L, 1);
    if (lua_toboolean(L, 2)) b = ft_blueprint_evaluation(b);
    if (!b) return script_arg_error(L, 2, "this blueprint has no evaluation");
    ft_status status = ft_plan_write(ft_blueprint_plan(b), &text, &err);
    if (status == FT_OK) lua_pushlstring(L, text.data, (size_t)text.length);
    ft_text_fini(&text);
    return status == FT_OK ? 1 : script_raise(L, &err);
}

/*** Planned memory: by device, bytes of each class, and `total`.
 * @function blueprint:memory */
static int blueprint_memory(lua_State *L)
{
    const ft_blueprint *b = script_check_blueprint(L, 1);
    const ft_plan *plan = ft_blueprint_plan(b);
    lua_createtable(L, plan->n_devices, 0);
    for (int d = 0; d < plan->n_devices; d++) {
        lua_createtable(L, 0, FT_MEMORY_CLASSES + 1);
        for (int c = 0; c < FT_MEMORY_CLASSES; c++)
            script_set_number(L, ft_memory_classes[c].name, (double)plan->memory[d][c]);
        script_set_number(L, "total", (double)ft_blueprint_device_bytes(b, d));
        lua_rawseti(L, -2, d + 1);
    }
    return 1;
}

/*** Bytes of the optimizer's state of all parameters that are trained.
 * @function blueprint:state_bytes */
static int blueprint_state_bytes(lua_State *L)
{
    const ft_blueprint *b = script_check_blueprint(L, 1);
    double bytes = 0;
    for (int i = 0; i < b->n_params; i++) bytes += (double)ft_blueprint_state_bytes(b, i);
    lua_pushnumber(L, bytes);
    return 1;
}

/*** Raises `plan infeasible` when a device is over its budget.
 * @function blueprint:check_memory */
static int blueprint_check_memory(lua_State *L)
{
    ft_error err;
    if (ft_blueprint_check_memory(script_check_blueprint(L, 1), &err) != FT_OK)
        return script_raise(L, &err);
    lua_settop(L, 1);
    return 1;
}

/*** Whether the plan can be run, not only simulated; false and why where it cannot.
 * @function blueprint:is_executable */
static int blueprint_is_executable(lua_State *L)
{
    ft_error err;
    ft_status status = ft_run_check(script_check_blueprint(L, 1), &err);
    if (status != FT_OK && status != FT_UNSUPPORTED) return script_raise(L, &err);
    lua_pushboolean(L, status == FT_OK);
    if (status == FT_OK) return 1;
    lua_pushstring(L, err.message);
    return 2;
}

/*** By stage: device, forward_ns and backward_ns (modelled), ahead (updates), and what
 * schedule_plan:describe says.
 * @function blueprint:stages */
static int blueprint_stages(lua_State *L)
{
    const ft_blueprint *b = script_check_blueprint(L, 1);
    const ft_plan *plan = ft_blueprint_plan(b);
    const ft_stage_costs *costs = ft_blueprint_costs(b);
    const int *buffers = script_push_buffers(L, plan);
    lua_createtable(L, plan->n_stages, 0);
    for (int s = 0; s < plan->n_stages; s++) {
        lua_createtable(L, 0, 9);
        script_set_number(L, "device", plan->device[s] + 1);
        script_set_stage(L, plan, s, buffers[s]);
        script_set_number(L, "forward_ns", costs->forward_ns[s]);
        script_set_number(L, "backward_ns", costs->backward_ns[s]);
        script_set_number(L, "ahead", ft_blueprint_ahead(b, s));
        lua_rawseti(L, -2, s + 1);
    }
    return 1;
}

/*** What passes between stages in a batch; signals without bytes are left out.
 * @function blueprint:transfers
 * @treturn table list of { from =, to = (stages), bytes =, messages = } */
static int blueprint_transfers(lua_State *L)
{
    const ft_blueprint *b = script_check_blueprint(L, 1);
    const ft_plan *plan = ft_blueprint_plan(b);
    lua_newtable(L);
    for (int e = 0, n = 0; e < plan->n_edges; e++) {
        const ft_edge *edge = &plan->edges[e];
        double messages = 0, bytes = ft_blueprint_traffic(b, e, &messages);
        if (!edge->bytes) continue;
        lua_createtable(L, 0, 4);
        script_set_number(L, "from", edge->from + 1);
        script_set_number(L, "to", edge->to + 1);
        script_set_number(L, "bytes", bytes);
        script_set_number(L, "messages", messages);
        lua_rawseti(L, -2, ++n);
    }
    return 1;
}

static int blueprint_tostring(lua_State *L)
{
    const ft_blueprint *b = script_check_blueprint(L, 1);
    const ft_plan *plan = ft_blueprint_plan(b);
    lua_pushfstring(L, "blueprint: %s, %d stage%s on %d device%s, %d micro-batch%s", plan->schedule,
                    plan->n_stages, script_plural(plan->n_stages, "s"), plan->n_devices,
                    script_plural(plan->n_devices, "s"), plan->micro_batches,
                    script_plural(plan->micro_batches, "es"));
    return 1;
}

void script_blueprint_class(lua_State *L)
{
    static const luaL_Reg methods[] = {{"plan_text", blueprint_plan_text},
                                       {"memory", blueprint_memory},
                                       {"check_memory", blueprint_check_memory},
                                       {"check_feed", script_blueprint_check_feed},
                                       {"check_swap_room", script_blueprint_check_swap_room},
                                       {"state_bytes", blueprint_state_bytes},
                                       {"fit", script_blueprint_fit},
                                       {"share", script_blueprint_share},
                                       {"is_executable", blueprint_is_executable},
                                       {"stages", blueprint_stages},
                                       {"transfers", blueprint_transfers},
                                       {"volumes", script_blueprint_volumes},
                                       {"sends", script_blueprint_sends},
                                       {"simulate", script_blueprint_simulate},
                                       {"run", script_run_new},
                                       {NULL, NULL}};
    static const luaL_Reg meta[] = {
        {"__gc", blueprint_gc}, {"__tostring", blueprint_tostring}, {NULL, NULL}};
    script_class(L, BLUEPRINT, methods, meta);
    lua_pop(L, 1);
}
