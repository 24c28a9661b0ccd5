/* bind_plans/schedule.c - core.schedule: plans by themselves, without a model.
 *
 * Made by a rule of the table or one written in Lua, or read from text; checked, simulated on
 * machines. A rule in Lua is only called while the binding that needs it is; what it raises ends
 * that call. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "planfile/planfile.h"
#include "bind_plans/internal.h"
#include "proof/proof.h"

static const char PLAN[] = "ftpipe.schedule_plan", RULE[] = "ftpipe.schedule_rule";

ft_plan *script_check_plan(lua_State *L, int i)
{
    return script_box_check(L, i, PLAN);
}

ft_plan **script_push_plan_box(lua_State *L)
{
    return (ft_plan **)script_box_new(L, PLAN);
}

/* -- rules in Lua ------------------------------------------------------------------------------ */

typedef struct lua_rule {
    ft_schedule schedule;
    lua_State *L;
    int next; /* reference to the function */
    char name[32];
    char message[200]; /* what it raised; empty: nothing */
    bool stopped;      /* what it raised is that the script was interrupted */
    char answer[40];   /* what it gave instead of a letter of its own; empty: nothing */
} lua_rule;

/* What a rule sees of a stage. */
#define STATE_FIELDS(X) X(depth) X(height) X(micro_batches) X(forwards) X(backwards) X(weights)

static int raise_field(lua_State *L)
{
#define FIELD_NAME(field) " " #field
    return luaL_error(L, "a stage has no '%s', it has" STATE_FIELDS(FIELD_NAME),
                      lua_tostring(L, 2) ? lua_tostring(L, 2) : "?");
#undef FIELD_NAME
}

static void push_state(lua_State *L, const ft_rule_state *s)
{
    lua_createtable(L, 0, 6);
#define SET_FIELD(field) script_set_number(L, #field, (double)s->field);
    STATE_FIELDS(SET_FIELD)
#undef SET_FIELD
    if (luaL_newmetatable(L, "ftpipe.rule_state")) {
        lua_pushcfunction(L, raise_field);
        lua_setfield(L, -2, "__index");
    }
    lua_setmetatable(L, -2);
}

/* Keeps what is on the stack in words. */
static void keep_answer(lua_rule *rule, lua_State *L)
{
    if (lua_type(L, -1) == LUA_TSTRING)
        snprintf(rule->answer, sizeof rule->answer, "'%.30s'", lua_tostring(L, -1));
    else
        snprintf(rule->answer, sizeof rule->answer, "%s", luaL_typename(L, -1));
}

static ft_action_kind letter_kind(const char *letter)
{
    int kind = 0;
    while (kind < FT_ACT_COUNT && (!letter || letter[0] != ft_action_letter(kind) || letter[1]))
        kind++;
    return kind;
}

static bool rule_may_say(ft_action_kind kind)
{
    return kind == FT_ACT_FORWARD || kind == FT_ACT_BACKWARD || kind == FT_ACT_BACKWARD_INPUT ||
           kind == FT_ACT_BACKWARD_WEIGHT;
}

/* Words for what is raised, as its __tostring has them; called by lua_pcall, since that may raise.
 */
static int say_raised(lua_State *L)
{
    if (!luaL_callmeta(L, 1, "__tostring")) lua_pushvalue(L, 1);
    return 1;
}

/* Keeps what was raised, which is on the stack; the first is what there is to mend. */
static void keep_raised(lua_rule *rule, lua_State *L)
{
    if (rule->message[0]) return;
    lua_pushcfunction(L, say_raised);
    lua_pushvalue(L, -2);
    bool said = lua_pcall(L, 1, 1, 0) == 0 && lua_tostring(L, -1);
    snprintf(rule->message, sizeof rule->message, "%s",
             said ? lua_tostring(L, -1) : "raised what has no words");
    lua_pop(L, 1);
    if (!lua_istable(L, -1)) return;
    lua_pushstring(L, "status");
    lua_rawget(L, -2);
    rule->stopped =
        lua_tostring(L, -1) && !strcmp(lua_tostring(L, -1), ft_status_text(FT_CANCELLED));
    lua_pop(L, 1);
}

static ft_action_kind ask_lua(const ft_rule_state *state)
{
    lua_rule *rule = state->payload;
    lua_State *L = rule->L;
    if (!lua_checkstack(L, 8)) return FT_ACT_COUNT;
    lua_rawgeti(L, LUA_REGISTRYINDEX, rule->next);
    push_state(L, state);
    ft_action_kind kind = FT_ACT_COUNT;
    if (lua_pcall(L, 1, 1, 0) == 0) {
        kind = letter_kind(lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL);
        if (!rule_may_say(kind)) keep_answer(rule, L);
    } else
        keep_raised(rule, L);
    lua_pop(L, 1);
    return kind;
}

static int rule_gc(lua_State *L)
{
    lua_rule *rule = lua_touserdata(L, 1);
    luaL_unref(L, LUA_REGISTRYINDEX, rule->next);
    rule->next = LUA_NOREF;
    return 0;
}

static const ft_schedule *push_rule(lua_State *L, int t)
{
    static const char *const names[] = {"name", "doc", "next", "synchronous", "splits", NULL};
    script_options(L, t, names);
    const char *name = script_opt_string(L, t, "name", "custom");
    lua_rule *rule = lua_newuserdata(L, sizeof *rule);
    memset(rule, 0, sizeof *rule);
    rule->next = LUA_NOREF;
    luaL_getmetatable(L, RULE);
    lua_setmetatable(L, -2);
    snprintf(rule->name, sizeof rule->name, "%s", name);
    lua_getfield(L, t, "next");
    if (!lua_isfunction(L, -1))
        script_fault(L, "option 'next' of the schedule: expected a function");
    rule->next = luaL_ref(L, LUA_REGISTRYINDEX);
    rule->L = L;
    rule->schedule = (ft_schedule){.name = rule->name,
                                   .doc = "a rule in Lua",
                                   .synchronous = script_opt_bool(L, t, "synchronous", false),
                                   .splits = script_opt_bool(L, t, "splits", false),
                                   .next = ask_lua,
                                   .payload = rule};
    return &rule->schedule;
}

const ft_schedule *script_push_schedule(lua_State *L, int t, const char *preset)
{
    lua_getfield(L, t, "schedule");
    if (lua_istable(L, -1)) {
        const ft_schedule *schedule = push_rule(L, lua_gettop(L));
        lua_remove(L, -2);
        return schedule;
    }
    const char *name = script_opt_string(L, t, "schedule", preset);
    const ft_schedule *schedule = ft_schedule_find(name);
    if (!schedule) script_fault(L, "option 'schedule': there is no '%s'", name);
    return schedule;
}

void script_explain_schedule(const ft_schedule *schedule, ft_error *err)
{
    if (schedule->next != ask_lua) return;
    lua_rule *rule = schedule->payload;
    if (rule->stopped) err->status = FT_CANCELLED;
    if (rule->message[0])
        snprintf(err->message, sizeof err->message, "schedule %s: next: %s", rule->name,
                 rule->message);
    else if (rule->answer[0]) {
        size_t n = strlen(err->message);
        snprintf(err->message + n, sizeof err->message - n, ": next gave %s, expected %s",
                 rule->answer, schedule->splits ? "'F', 'I' or 'G'" : "'F' or 'B'");
    }
    rule->message[0] = rule->answer[0] = '\0';
    rule->stopped = false;
}

ft_weights script_opt_weights(lua_State *L, int t)
{
    const char *name = script_opt_string(L, t, "staleness", "own");
    int weights = 0;
    while (weights < FT_WEIGHTS_COUNT && strcmp(ft_weights_word(weights), name)) weights++;
    if (weights == FT_WEIGHTS_COUNT) script_fault(L, "option 'staleness': there is no '%s'", name);
    return (ft_weights)weights;
}

void script_opt_bound(lua_State *L, int t, ft_pipeline *p)
{
    lua_getfield(L, t, "max_staleness");
    p->is_bounded = !lua_isnil(L, -1);
    lua_pop(L, 1);
    p->most_late = (int)script_opt_int(L, t, "max_staleness", 0, 0, INT16_MAX);
}

/* -- lists of options -------------------------------------------------------------------------- */

/* A list of bytes at a key, zeros when it is absent. */
static const int64_t *opt_bytes(lua_State *L, int t, const char *key, int n)
{
    const double *given = script_opt_numbers(L, t, key, n);
    int64_t *bytes = lua_newuserdata(L, ((size_t)n + 1) * sizeof *bytes);
    for (int i = 0; i < n; i++) {
        if (given && !(given[i] >= 0 && given[i] <= 0x1p53))
            script_fault(L, "option '%s': %g bytes of stage %d, expected 0 to 2^53", key, given[i],
                         i + 1);
        bytes[i] = given ? (int64_t)given[i] : 0;
    }
    return bytes;
}

static ft_stage_costs opt_costs(lua_State *L, int t, int n_stages, int n_edges)
{
    return (ft_stage_costs){
        .forward_ns = script_opt_numbers(L, t, "forward_ns", n_stages),
        .backward_ns = script_opt_numbers(L, t, "backward_ns", n_stages),
        .reduce_ns = script_opt_numbers(L, t, "reduce_ns", n_stages),
        .update_ns = script_opt_numbers(L, t, "update_ns", n_stages),
        .adopt_ns = script_opt_numbers(L, t, "adopt_ns", n_stages),
        .transfer_ns = script_opt_numbers(L, t, "transfer_ns", n_edges),
        .backward_input_ns = script_opt_numbers(L, t, "backward_input_ns", n_stages),
        .backward_weight_ns = script_opt_numbers(L, t, "backward_weight_ns", n_stages),
        .recompute_ns = script_opt_numbers(L, t, "recompute_ns", n_stages),
        .predict_ns = script_opt_numbers(L, t, "predict_ns", n_stages),
        .attenuate_ns = script_opt_numbers(L, t, "attenuate_ns", n_stages),
        .all_reduce_ns = script_opt_numbers(L, t, "all_reduce_ns", n_stages),
        .exchange_ns = script_opt_numbers(L, t, "exchange_ns", n_stages),
        .make_ns = script_opt_numbers(L, t, "make_ns", n_stages),
    };
}

/* Edges { from =, to =, kind = "F", bytes =, slots = }; kind of both ends, or to_kind of the
 * second.
 */
static ft_edge *need_edges(lua_State *L, int t, int n)
{
    ft_edge *edges = lua_newuserdata(L, ((size_t)n + 1) * sizeof *edges);
    lua_getfield(L, t, "edges");
    for (int i = 0; i < n; i++) {
        lua_rawgeti(L, -1, i + 1);
        int edge = lua_gettop(L);
        script_check_table(L, edge);
        const char *kind = script_opt_string(L, edge, "kind", "F");
        const char *to_kind = script_opt_string(L, edge, "to_kind", kind);
        if (letter_kind(kind) == FT_ACT_COUNT || letter_kind(to_kind) == FT_ACT_COUNT)
            script_arg_error(L, t, "edge %d joins '%s' to '%s', expected letters of actions, as F",
                             i + 1, kind, to_kind);
        edges[i] = (ft_edge){.from = (int)script_opt_int(L, edge, "from", 0, 1, INT16_MAX) - 1,
                             .to = (int)script_opt_int(L, edge, "to", 0, 1, INT16_MAX) - 1,
                             .from_kind = letter_kind(kind),
                             .to_kind = letter_kind(to_kind),
                             .bytes = script_field_int(L, edge, "bytes"),
                             .slots = (int)script_opt_int(L, edge, "slots", 2, 1, INT32_MAX)};
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return edges;
}

/* -- making ------------------------------------------------------------------------------------ */

/* Replicas: how many of each stage, and all devices stage by stage. */
static void opt_replicas(lua_State *L, int t, ft_pipeline *p)
{
    int n = p->n_stages, listed = script_list_length(L, t, "device");
    int *count = script_need_ints(L, t, "replicas", n, 0);
    int *first = lua_newuserdata(L, ((size_t)n + 1) * sizeof *first);
    first[0] = 0;
    for (int s = 0; s < n; s++) {
        if (count[s] < 1) script_fault(L, "option 'replicas': stage %d has none", s + 1);
        if (count[s] > listed - first[s]) /* which sums of any numbers would pass by wrapping */
            script_fault(L,
                         "option 'replicas': stages 1 to %d have more than the %d that 'device' "
                         "lists",
                         s + 1, listed);
        first[s + 1] = first[s] + count[s];
    }
    p->replica_first = first;
    p->replica_device = script_need_ints(L, t, "device", first[n], 1);
    int *device = lua_newuserdata(L, ((size_t)n + 1) * sizeof *device);
    for (int s = 0; s < n; s++) device[s] = p->replica_device[first[s]];
    p->device = device;
    bool blocks = !strcmp(script_opt_string(L, t, "replica_rule", "round-robin"), "block");
    uint8_t *rule = lua_newuserdata(L, (size_t)n + 1);
    memset(rule, blocks ? FT_REPLICAS_BLOCK : FT_REPLICAS_ROUND_ROBIN, (size_t)n);
    p->replica_rule = rule;
}

/*** Plays a schedule.
 * @function schedule.make
 * @tparam table options replicas (by stage), device (of all replicas, stage by stage), devices,
 *   micro_batches, batches, reduces, edges (list of { from =, to =, kind = "F", to_kind =, bytes =,
 *   slots = }), most_slots (to which slots are doubled where no order completes; 0: they are as
 * they are), schedule (a name, or { name =, next =, synchronous =, splits = }), staleness,
 *   max_staleness (updates that a forward's weights may be late; any when it is absent), and
 *   costs by stage: forward_ns, backward_ns ..., by edge: transfer_ns
 * @treturn schedule_plan */
static int schedule_make(lua_State *L)
{
    ft_error err = {FT_OK, ""};
    script_check_table(L, 1);
    int n_edges = script_list_length(L, 1, "edges");
    ft_pipeline p = {.n_stages = script_list_length(L, 1, "replicas")};
    opt_replicas(L, 1, &p);
    p.n_devices = (int)script_opt_int(L, 1, "devices", 1, 1, INT16_MAX);
    p.micro_batches = (int)script_opt_int(L, 1, "micro_batches", 1, 1, INT32_MAX);
    p.n_batches = (int)script_opt_int(L, 1, "batches", 1, 1, INT32_MAX);
    p.reduces = script_opt_bool(L, 1, "reduces", false);
    p.n_edges = n_edges;
    p.edges = need_edges(L, 1, n_edges);
    p.most_slots = (int)script_opt_int(L, 1, "most_slots", 0, 0, INT32_MAX);
    p.weights = script_opt_weights(L, 1);
    script_opt_bound(L, 1, &p);
    luaL_checkstack(L, 40, "options");
    ft_stage_costs costs = opt_costs(L, 1, p.n_stages, n_edges);
    p.costs = &costs;
    const ft_schedule *schedule = script_push_schedule(L, 1, "1f1b");
    void **box = script_box_new(L, PLAN);
    if (ft_plan_make((ft_plan **)box, &p, schedule, &err) == FT_OK) return 1;
    script_explain_schedule(schedule, &err);
    return script_raise(L, &err);
}

/*** Reads a plan's text; it is not checked yet.
 * @function schedule.parse
 * @tparam string text
 * @treturn schedule_plan */
static int schedule_parse(lua_State *L)
{
    ft_error err;
    const char *text = script_check_string(L, 1);
    void **box = script_box_new(L, PLAN);
    if (ft_plan_parse((ft_plan **)box, text, &err) != FT_OK) return script_raise(L, &err);
    return 1;
}

/* -- plans ------------------------------------------------------------------------------------- */

static int plan_gc(lua_State *L)
{
    void **box = script_box(L, 1, PLAN);
    ft_plan_free(*box);
    *box = NULL;
    return 0;
}

static int plan_text(lua_State *L)
{
    ft_error err;
    ft_text text = {0};
    ft_status status = ft_plan_write(script_check_plan(L, 1), &text, &err);
    if (status == FT_OK) lua_pushlstring(L, text.data, (size_t)text.length);
    ft_text_fini(&text);
    return status == FT_OK ? 1 : script_raise(L, &err);
}

/*** Proves the plan; raises what is wrong with it.
 * @function schedule_plan:check */
static int plan_check(lua_State *L)
{
    ft_error err;
    if (ft_plan_check(script_check_plan(L, 1), &err) != FT_OK) return script_raise(L, &err);
    lua_settop(L, 1);
    return 1;
}

/* -- simulating -------------------------------------------------------------------------------- */

static const char *const simulate_options[] = {"forward_ns",
                                               "backward_ns",
                                               "reduce_ns",
                                               "update_ns",
                                               "adopt_ns",
                                               "transfer_ns",
                                               "backward_input_ns",
                                               "backward_weight_ns",
                                               "recompute_ns",
                                               "predict_ns",
                                               "attenuate_ns",
                                               "all_reduce_ns",
                                               "exchange_ns",
                                               "make_ns",
                                               "machine",
                                               "swap_bytes",
                                               "delay_ns",
                                               "seed",
                                               "trace",
                                               "saved_bytes",
                                               NULL};

/*** Simulates the plan.
 * @function schedule_plan:simulate
 * @tparam[opt] table options costs by stage and edge as in make; machine = { places =, links =,
 *   hand_off_ns =, launch_ns =, copy_bytes_per_s =, homes = }; swap_bytes (by stage and class);
 *   delay_ns, seed; trace, and saved_bytes (by stage, what a micro-batch's forward leaves for its
 *   backward)
 * @treturn table end_ns, events, busy_ns (by device), waits (by device: ns that it stood idle, by
 *   what it waited for: between, batches, data, slots, copies, replicas, over, and edges = { name =
 *   "F0>F1", data =, slots = }), critical (ns by kind on the critical path),
 *   link_ns (by link of the machine: how long its busier direction is taken), stalls (by device and
 *   kind of action: how long computing waited for such), copies (by device and class: bytes_in and
 *   bytes_out of its copies from and to host memory, ns of these, exposed_ns while computing waited
 *   for one); with trace: trace, memory (by device: peak, points { ns, bytes } of activations and
 *   what moves, is_all: also of what stays) */
static int plan_simulate(lua_State *L)
{
    ft_error err;
    const ft_plan *plan = script_check_plan(L, 1);
    if (lua_isnoneornil(L, 2)) {
        lua_settop(L, 1);
        lua_newtable(L);
    }
    script_options(L, 2, simulate_options);
    luaL_checkstack(L, 40, "options");
    ft_machine machine;
    ft_stage_costs costs = opt_costs(L, 2, plan->n_stages, plan->n_edges);
    bool trace = script_opt_bool(L, 2, "trace", false);
    const int64_t *saved_bytes = opt_bytes(L, 2, "saved_bytes", plan->n_stages);
    ft_simulation options = {.costs = script_list_length(L, 2, "forward_ns") ? &costs : NULL,
                             .machine = script_opt_machine(L, 2, plan->n_devices, &machine),
                             .swap_bytes = script_opt_swap_bytes(L, 2, plan),
                             .delay_ns = script_field_int(L, 2, "delay_ns"),
                             .seed = (uint64_t)script_field_int(L, 2, "seed")};
    ft_timeline *timeline = NULL;
    if (ft_plan_simulate_on(&timeline, plan, &options, &err) != FT_OK) return script_raise(L, &err);
    const ft_holdings holdings = {
        .plan = plan, .saved_bytes = saved_bytes, .moved_bytes = options.swap_bytes};
    script_push_simulation(L, timeline, &holdings, trace);
    ft_timeline_free(timeline);
    return 1;
}

static int plan_tostring(lua_State *L)
{
    const ft_plan *plan = script_check_plan(L, 1);
    lua_pushfstring(L, "plan: %s, %d stage%s on %d device%s, %d micro-batch%s, %d batch%s",
                    plan->schedule[0] ? plan->schedule : "by hand", plan->n_stages,
                    script_plural(plan->n_stages, "s"), plan->n_devices,
                    script_plural(plan->n_devices, "s"), plan->micro_batches,
                    script_plural(plan->micro_batches, "es"), plan->n_batches,
                    script_plural(plan->n_batches, "es"));
    return 1;
}

/*** Ways to choose weights that are late: { name =, doc =, attenuates = gradients are divided by
 * gaps }.
 * @function schedule.weights */
static int schedule_weights(lua_State *L)
{
    lua_newtable(L);
    for (int w = FT_WEIGHTS_OWN + 1; w < FT_WEIGHTS_COUNT; w++) {
        lua_createtable(L, 0, 3);
        lua_pushboolean(L, ft_weights_rows[w].attenuates);
        lua_setfield(L, -2, "attenuates");
        lua_pushstring(L, ft_weights_rows[w].word);
        lua_setfield(L, -2, "name");
        lua_pushstring(L, ft_weights_rows[w].doc);
        lua_setfield(L, -2, "doc");
        lua_rawseti(L, -2, w);
    }
    return 1;
}

/*** The schedules there are: { name =, doc =, weights =, and what schedule/schedule.h says of:
 * synchronous =, splits =, interleaves =, groups =, folds =, replicates =, flat =, serial = }.
 * @function schedule.list */
static int schedule_list(lua_State *L)
{
    lua_newtable(L);
    for (int i = 0; ft_schedules[i]; i++) {
        const ft_schedule *row = ft_schedules[i];
        const struct {
            const char *key;
            bool value;
        } flags[] = {{"synchronous", row->synchronous},
                     {"splits", row->splits},
                     {"interleaves", row->interleaves},
                     {"groups", row->groups},
                     {"folds", row->folds},
                     {"replicates", row->replicates},
                     {"flat", row->flat},
                     {"serial", row->serial}};
        lua_createtable(L, 0, 10);
        lua_pushstring(L, row->name);
        lua_setfield(L, -2, "name");
        lua_pushstring(L, row->doc);
        lua_setfield(L, -2, "doc");
        lua_pushstring(L, ft_weights_word(row->weights));
        lua_setfield(L, -2, "weights");
        for (size_t k = 0; k < sizeof flags / sizeof *flags; k++) {
            lua_pushboolean(L, flags[k].value);
            lua_setfield(L, -2, flags[k].key);
        }
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/*** What a device's memory holds: { name =, moves = (to host memory), doc = }, in the order of
 * tables.
 * @function schedule.memory_classes */
static int schedule_memory_classes(lua_State *L)
{
    lua_createtable(L, FT_MEMORY_CLASSES, 0);
    for (int c = 0; c < FT_MEMORY_CLASSES; c++) {
        lua_createtable(L, 0, 3);
        lua_pushboolean(L, ft_memory_classes[c].moves != FT_MOVES_NEVER);
        lua_setfield(L, -2, "moves");
        lua_pushstring(L, ft_memory_classes[c].name);
        lua_setfield(L, -2, "name");
        lua_pushstring(L, ft_memory_classes[c].doc);
        lua_setfield(L, -2, "doc");
        lua_rawseti(L, -2, c + 1);
    }
    return 1;
}

int script_bind_schedule(lua_State *L)
{
    static const luaL_Reg methods[] = {{"text", plan_text},
                                       {"check", plan_check},
                                       {"describe", script_plan_describe},
                                       {"head", script_plan_head},
                                       {"letters", script_plan_letters},
                                       {"simulate", plan_simulate},
                                       {"free", plan_gc},
                                       {NULL, NULL}};
    static const luaL_Reg meta[] = {{"__gc", plan_gc}, {"__tostring", plan_tostring}, {NULL, NULL}};
    static const luaL_Reg rule_meta[] = {{"__gc", rule_gc}, {NULL, NULL}};
    static const luaL_Reg functions[] = {{"make", schedule_make},
                                         {"parse", schedule_parse},
                                         {"list", schedule_list},
                                         {"weights", schedule_weights},
                                         {"memory_classes", schedule_memory_classes},
                                         {"ways", script_schedule_ways},
                                         {NULL, NULL}};
    script_class(L, PLAN, methods, meta);
    script_class(L, RULE, NULL, rule_meta);
    lua_pop(L, 2);
    lua_newtable(L);
    luaL_register(L, NULL, functions);
    luaL_getmetatable(L, PLAN);
    lua_getfield(L, -1, "__index");
    lua_setfield(L, -3, "plan_methods"); /* Lua adds some */
    lua_pop(L, 1);
    return 1;
}
