/* bind_runs/moves.c - what blueprints move between devices and host memory. */
#include <string.h>

#include "bind_runs/internal.h"
#include "fit/fit.h"
#include "planfile/planfile.h"
#include "slots/slots.h"

/* What a move of each class carries, by stage; on the stack. Units take their guards with them, but
 * for activations. */
static int64_t (*push_bytes(lua_State *L, const ft_blueprint *b))[FT_MEMORY_CLASSES]
{
    int n = b->seating.n_seats;
    int64_t(*bytes)[FT_MEMORY_CLASSES] = lua_newuserdata(L, (size_t)n * sizeof *bytes);
    for (int s = 0; s < n; s++)
        for (int c = 0; c < FT_MEMORY_CLASSES; c++) {
            const ft_unit *u = b->seats[s].units[c];
            bool guarded = c != FT_MEMORY_ACTIVATIONS;
            bytes[s][c] = !u ? 0 : guarded ? ft_place_bytes(u->bytes) : u->bytes;
        }
    return bytes;
}

/* What moves between devices and host memory, how large that is and where it lies; on the stack. */
void script_tell_of_moves(lua_State *L, const ft_blueprint *b, ft_simulation *options)
{
    int n_devices = b->cut.n_devices;
    int64_t(*bytes)[FT_MEMORY_CLASSES] = push_bytes(L, b);
    ft_lot *lots = lua_newuserdata(L, (size_t)(b->stays.n + 1) * sizeof *lots);
    double *ns_per_byte = lua_newuserdata(L, (size_t)n_devices * sizeof *ns_per_byte);
    lots[0] = (ft_lot){0, 0};
    for (int i = 1; i <= b->stays.n; i++)
        lots[i] = (ft_lot){b->stays.of[i].at, ft_place_bytes(b->stays.of[i].unit->bytes)};
    for (int d = 0; d < n_devices; d++) ns_per_byte[d] = 1e9 / ft_blueprint_copy_rate(b, d);
    options->swap_bytes = (const int64_t(*)[FT_MEMORY_CLASSES])bytes;
    options->lots = lots;
    options->swap_ns_per_byte = ns_per_byte;
}

/* By device: all but what moves and slots of activations; on the stack. NULL: nothing moves. */
static const int64_t *push_staying(lua_State *L, const ft_blueprint *b)
{
    if (!b->stays.n) return NULL;
    int64_t *bytes = lua_newuserdata(L, (size_t)b->cut.n_devices * sizeof *bytes);
    for (int d = 0; d < b->cut.n_devices; d++)
        bytes[d] = b->blocks[d].total - b->stays.parts[d].bytes;
    for (int s = 0; s < b->seating.n_seats; s++) {
        const ft_seat_layout *seat = &b->seats[s];
        if (!seat->window) bytes[seat->device] -= seat->n_slots * seat->slot_bytes;
    }
    return bytes;
}

ft_holdings script_holdings(lua_State *L, const ft_blueprint *b, const ft_plan *leg)
{
    int n = leg->n_stages;
    int64_t *saved_bytes = lua_newuserdata(L, (size_t)n * sizeof *saved_bytes);
    for (int s = 0; s < n; s++) saved_bytes[s] = ft_blueprint_slot_bytes(b, s);
    const char **names = lua_newuserdata(L, (size_t)b->cut.n_devices * sizeof *names);
    for (int d = 0; d < b->cut.n_devices; d++) names[d] = b->cut.devices[d].name;
    return (ft_holdings){.plan = leg,
                         .device_names = names,
                         .saved_bytes = saved_bytes,
                         .moved_bytes = (const int64_t(*)[FT_MEMORY_CLASSES])push_bytes(L, b),
                         .staying_bytes = push_staying(L, b)};
}

/* The classes of the list in field `classes` of the table at t, as bits; all of them without it. */
static unsigned opt_classes(lua_State *L, int t)
{
    unsigned classes = 0;
    lua_getfield(L, t, "classes");
    if (lua_isnil(L, -1)) return ~0U;
    int list = lua_gettop(L), n = (int)lua_objlen(L, list);
    for (int i = 1; i <= n; i++) {
        lua_rawgeti(L, list, i);
        const char *name = lua_tostring(L, -1);
        bool known = false;
        for (int c = 0; name && c < FT_MEMORY_CLASSES; c++)
            if (!strcmp(ft_memory_classes[c].name, name)) {
                classes |= 1U << c;
                known = true;
            }
        if (!known)
            script_fault(L, "'classes' has '%s' at %d, expected classes of memory",
                         name ? name : luaL_typename(L, -1), i); /* does not return */
        lua_pop(L, 1);
    }
    return classes;
}

static ft_residency_scope opt_scope(lua_State *L, int t)
{
    lua_getfield(L, t, "scope");
    const char *scope = lua_tostring(L, -1);
    if (lua_isnil(L, -1)) return FT_SCOPE_PLAN;
    if (scope && !strcmp(scope, "task")) return FT_SCOPE_TASK;
    if (scope && !strcmp(scope, "group")) return FT_SCOPE_GROUP;
    if (!scope || strcmp(scope, "action"))
        script_fault(L, "'scope' is '%s', expected 'task', 'group' or 'action'",
                     scope ? scope : luaL_typename(L, -1)); /* does not return */
    return FT_SCOPE_ACTION;
}

/*** The plan with moves between device and host memory, so that it fits the devices' budgets.
 * @function blueprint:fit
 * @tparam table options least (true: as little device memory as there can be, whatever the
 *   budgets), spare (by device: bytes that are to be left; -1: all
 *   but the least, by what leaves behind each task), classes (that may move, a list of
 *   their names; all when absent), scope ("task" or "action": what leaves when a task, or an
 *   action, has ended, though there is room; "group": a task, with what it makes for others),
 * writes_back (true: whatever leaves is copied), updates_at_home (true: in host memory, where the
 * optimizer's state stays), far_ahead (true: loads stand further before what needs them), room
 * (share of the budget over the least that is left to such loads), spreads (true: what leaves is no
 * neighbours), makes (true: packed copies are made where that takes less than bringing them), tasks
 * (of engine.plan)
 * @treturn string the text of a plan */
int script_blueprint_fit(lua_State *L)
{
    static const char *const names[] = {"least",       "spare",           "classes",   "scope",
                                        "writes_back", "updates_at_home", "far_ahead", "room",
                                        "spreads",     "tasks",           "makes",     NULL};
    ft_error err;
    ft_plan *plan;
    ft_text text = {0};
    const ft_blueprint *b = script_check_blueprint(L, 1);
    script_check_table(L, 2);
    script_options(L, 2, names);
    luaL_checkstack(L, 20, "options");
    int n = ft_blueprint_plan(b)->n_devices;
    int64_t *spare = lua_newuserdata(L, (size_t)(n + 1) * sizeof *spare);
    double *given = script_opt_numbers(L, 2, "spare", n);
    for (int d = 0; d < n; d++) spare[d] = given ? (int64_t)given[d] : 0;
    const ft_fit fit = {.least = script_opt_bool(L, 2, "least", false),
                        .spare = spare,
                        .classes = opt_classes(L, 2),
                        .tasks = script_opt_tasks(L, 2, ft_blueprint_plan(b)->n_stages),
                        .scope = opt_scope(L, 2),
                        .writes_back = script_opt_bool(L, 2, "writes_back", false),
                        .updates_at_home = script_opt_bool(L, 2, "updates_at_home", false),
                        .far_ahead = script_opt_bool(L, 2, "far_ahead", false),
                        .room = script_opt_number(L, 2, "room", 0),
                        .spreads = script_opt_bool(L, 2, "spreads", false),
                        .makes = script_opt_bool(L, 2, "makes", false)};
    ft_status status = ft_fit_plan(&plan, b, &fit, &err);
    if (status == FT_OK) status = ft_plan_write(plan, &text, &err);
    ft_plan_free(plan);
    if (status == FT_OK) lua_pushlstring(L, text.data, (size_t)text.length);
    ft_text_fini(&text);
    if (status != FT_OK) return script_raise(L, &err);
    return 1;
}

/*** The plan with edges between replicas that take turns in one place: less memory, for which they
 * wait.
 * @function blueprint:share
 * @treturn[opt] string the text of a plan; nil where no edges can */
int script_blueprint_share(lua_State *L)
{
    ft_error err;
    ft_text text = {0};
    const ft_blueprint *b = script_check_blueprint(L, 1);
    ft_plan with = *ft_blueprint_plan(b);
    int shared;
    ft_edge *edges = lua_newuserdata(L, ((size_t)with.n_edges + 1) * sizeof *edges);
    for (int e = 0; e < with.n_edges; e++) edges[e] = with.edges[e];
    ft_status status = ft_turns_share(ft_blueprint_plan(b), edges, &shared, &err);
    if (status == FT_OK && !shared) return 0;
    with.edges = edges;
    if (status == FT_OK) status = ft_plan_write(&with, &text, &err);
    if (status == FT_OK) lua_pushlstring(L, text.data, (size_t)text.length);
    ft_text_fini(&text);
    return status == FT_OK ? 1 : script_raise(L, &err);
}

static void push_volumes(lua_State *L, const ft_volume *volumes, int n)
{
    lua_createtable(L, n, 0);
    for (int d = 0; d < n; d++) {
        const ft_volume *v = &volumes[d];
        lua_createtable(L, 0, 7);
        for (int out = 0; out < 2; out++) {
            lua_createtable(L, 0, FT_MEMORY_CLASSES);
            for (int c = 0; c < FT_MEMORY_CLASSES; c++)
                script_set_number(L, ft_memory_classes[c].name,
                                  (double)(out ? v->out[c] : v->in[c]));
            lua_setfield(L, -2, out ? "bytes_out" : "bytes_in");
        }
        script_set_number(L, "loads", (double)v->loads);
        script_set_number(L, "saves", (double)v->saves);
        script_set_number(L, "drops", (double)v->drops);
        script_set_number(L, "makes", (double)v->makes);
        script_set_number(L, "updates_at_home", (double)v->updates_at_home);
        lua_rawseti(L, -2, d + 1);
    }
}

/*** What the plan's moves copy in its longest leg.
 * @function blueprint:volumes
 * @treturn[opt] table by device: bytes_in and bytes_out by class, loads, saves, drops, makes, and
 *   updates_at_home (in host memory); nil when nothing moves */
int script_blueprint_volumes(lua_State *L)
{
    const ft_blueprint *b = script_check_blueprint(L, 1);
    const int64_t(*bytes)[FT_MEMORY_CLASSES] =
        (const int64_t(*)[FT_MEMORY_CLASSES])push_bytes(L, b);
    int n = b->cut.n_devices;
    ft_volume *volumes = lua_newuserdata(L, (size_t)n * sizeof *volumes);
    if (!ft_plan_volumes(ft_blueprint_plan(b), &b->seating, bytes, volumes)) return 0;
    push_volumes(L, volumes, n);
    return 1;
}

/*** Raises what a directory of swaps has no room for, in the words of a run; takes nothing.
 * @function blueprint:check_swap_room
 * @tparam string dir */
int script_blueprint_check_swap_room(lua_State *L)
{
    ft_error err;
    const ft_blueprint *b = script_check_blueprint(L, 1);
    if (ft_run_check_swap_room(b, script_check_string(L, 2), &err) != FT_OK)
        return script_raise(L, &err);
    return 0;
}

/*** What devices send each other in the plan's longest leg, of its longest batches.
 * @function blueprint:sends
 * @treturn table by device: bytes by the word of the action that makes them, as forward */
int script_blueprint_sends(lua_State *L)
{
    const ft_blueprint *b = script_check_blueprint(L, 1);
    int64_t by_kind[FT_ACT_COUNT];
    lua_createtable(L, b->cut.n_devices, 0);
    for (int d = 0; d < b->cut.n_devices; d++) {
        ft_blueprint_sends(b, d, by_kind);
        script_push_sent(L, by_kind);
        lua_rawseti(L, -2, d + 1);
    }
    return 1;
}
