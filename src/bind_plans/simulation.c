/* bind_plans/simulation.c - machines from Lua, and what simulations say to it. */
#include "base/alloc.h"
#include "bind_plans/internal.h"
#include "device/device.h"

/* -- machines ---------------------------------------------------------------------------------- */

/* { places =, links = { { from =, to =, bytes_per_s =, latency_ns =, eager_bytes =, duplex =,
 * one_way = } }, hand_off_ns =, launch_ns = by device, copy_bytes_per_s = by device, homes = by
 * device the place whose memory it swaps to } */
const ft_machine *script_opt_machine(lua_State *L, int t, int n_devices, ft_machine *m)
{
    luaL_checkstack(L, 20, "options");
    lua_getfield(L, t, "machine");
    if (lua_isnil(L, -1)) return NULL;
    script_check_table(L, lua_gettop(L));
    int table = lua_gettop(L), n = script_list_length(L, table, "links");
    ft_cable *links = lua_newuserdata(L, ((size_t)n + 1) * sizeof *links);
    lua_getfield(L, table, "links");
    for (int i = 0; i < n; i++) {
        lua_rawgeti(L, -1, i + 1);
        int link = lua_gettop(L);
        script_check_table(L, link);
        links[i] = (ft_cable){.a = (int)script_opt_int(L, link, "from", 0, 1, INT16_MAX) - 1,
                              .b = (int)script_opt_int(L, link, "to", 0, 1, INT16_MAX) - 1,
                              .bytes_per_s = script_opt_number(L, link, "bytes_per_s", 0),
                              .latency_ns = script_field_int(L, link, "latency_ns"),
                              .eager_bytes = script_field_int(L, link, "eager_bytes"),
                              .duplex = script_opt_bool(L, link, "duplex", false),
                              .one_way = script_opt_bool(L, link, "one_way", false)};
        lua_pop(L, 1);
    }
    *m = (ft_machine){.n_devices = n_devices, .n_links = n, .links = links};
    m->n_places = (int)script_opt_int(L, table, "places", n_devices, 1, INT16_MAX);
    m->hand_off_ns = script_field_int(L, table, "hand_off_ns");
    m->copy_bytes_per_s = script_opt_numbers(L, table, "copy_bytes_per_s", n_devices);
    double *launch = script_opt_numbers(L, table, "launch_ns", n_devices);
    int64_t *launch_ns = launch ? lua_newuserdata(L, ((size_t)n_devices + 1) * 8) : NULL;
    for (int d = 0; launch && d < n_devices; d++) launch_ns[d] = (int64_t)launch[d];
    m->launch_ns = launch_ns;
    if (script_list_length(L, table, "homes"))
        m->home = script_need_ints(L, table, "homes", n_devices, 1);
    return m;
}

/* By stage, what a swap of each class moves: { weights =, gradients =, optimizer =, activations =
 * (of a micro-batch) }; NULL when it is absent. */
const int64_t (*script_opt_swap_bytes(lua_State *L, int t, const ft_plan *plan))[FT_MEMORY_CLASSES]
{
    lua_getfield(L, t, "swap_bytes");
    if (lua_isnil(L, -1)) return NULL;
    int n_stages = plan->n_stages, n = plan->replica_first[n_stages];
    if (script_list_length(L, t, "swap_bytes") != n_stages)
        script_fault(L, "option 'swap_bytes': expected a list of %d tables", n_stages);
    int64_t(*bytes)[FT_MEMORY_CLASSES] = lua_newuserdata(L, (size_t)n * sizeof *bytes);
    for (int s = 0; s < n_stages; s++) {
        lua_rawgeti(L, -2, s + 1);
        script_check_table(L, lua_gettop(L));
        for (int i = plan->replica_first[s]; i < plan->replica_first[s + 1]; i++)
            for (int c = 0; c < FT_MEMORY_CLASSES; c++)
                bytes[i][c] = script_field_int(L, lua_gettop(L), ft_memory_classes[c].name);
        lua_pop(L, 1);
    }
    return (const int64_t(*)[FT_MEMORY_CLASSES])bytes;
}

static void push_list(lua_State *L, const double *list, int n)
{
    lua_createtable(L, n, 0);
    for (int i = 0; i < n; i++) {
        lua_pushnumber(L, list[i]);
        lua_rawseti(L, -2, i + 1);
    }
}

/*** What transfers between devices of a machine take while nothing else is under way.
 * @function schedule.ways
 * @tparam table options machine (as of simulate), devices (how many), bytes (of a transfer)
 * @treturn table latency_ns from device i to j, at (i - 1) * devices + j
 * @treturn table ns for every byte, likewise */
int script_schedule_ways(lua_State *L)
{
    ft_error err;
    ft_machine machine;
    script_check_table(L, 1);
    int n = (int)script_opt_int(L, 1, "devices", 1, 1, FT_MAX_DEVICES);
    int64_t bytes = script_field_int(L, 1, "bytes");
    if (!script_opt_machine(L, 1, n, &machine))
        return script_arg_error(L, 1, "there is no machine");
    double *latency_ns = lua_newuserdata(L, 2 * (size_t)n * (size_t)n * sizeof *latency_ns);
    double *ns_per_byte = latency_ns + (size_t)n * (size_t)n;
    if (ft_machine_idle(&machine, bytes, latency_ns, ns_per_byte, &err) != FT_OK)
        return script_raise(L, &err);
    push_list(L, latency_ns, n * n);
    push_list(L, ns_per_byte, n * n);
    return 2;
}

/* -- what a simulation says -------------------------------------------------------------------- */

/* By kind: how long the critical path is at it; what is not an action is on its way or waiting. */
static void push_critical(lua_State *L, const ft_timeline *t)
{
    int64_t n = ft_timeline_critical_path(t, NULL, 0), by_kind[FT_ACT_COUNT] = {0};
    int64_t *path = ft_alloc((n + 1) * (int64_t)sizeof *path);
    lua_newtable(L);
    if (!path) return;
    ft_timeline_critical_path(t, path, n);
    for (int64_t i = 0; i < n; i++) {
        const ft_event *e = &t->events[path[i]];
        by_kind[e->kind] += e->end_ns - e->start_ns;
    }
    ft_free(path);
    script_set_number(L, "events", (double)n);
    for (int k = 0; k < FT_ACT_COUNT; k++)
        if (by_kind[k]) script_set_number(L, ft_action_word(k), (double)by_kind[k]);
}

/* By device and kind of action: how long computing waited for such. */
static void push_stalls(lua_State *L, const ft_timeline *t)
{
    int64_t by_kind[FT_ACT_COUNT];
    lua_createtable(L, t->n_devices, 0);
    for (int d = 0; d < t->n_devices; d++) {
        ft_timeline_stalls(t, d, by_kind);
        lua_newtable(L);
        for (int k = 0; k < FT_ACT_COUNT; k++)
            if (by_kind[k]) script_set_number(L, ft_action_word(k), (double)by_kind[k]);
        lua_rawseti(L, -2, d + 1);
    }
}

/* By device and class: { bytes_in =, bytes_out =, ns =, exposed_ns = } of copies to and from host
 * memory. */
static void push_copies(lua_State *L, const ft_timeline *t, const ft_holdings *holdings)
{
    ft_copy_sum by_class[FT_MEMORY_CLASSES];
    lua_createtable(L, t->n_devices, 0);
    for (int d = 0; d < t->n_devices; d++) {
        ft_timeline_copies(t, d, holdings, by_class);
        lua_newtable(L);
        for (int c = 0; c < FT_MEMORY_CLASSES; c++) {
            if (!by_class[c].ns) continue;
            lua_createtable(L, 0, 4);
            script_set_number(L, "bytes_in", (double)by_class[c].bytes_in);
            script_set_number(L, "bytes_out", (double)by_class[c].bytes_out);
            script_set_number(L, "ns", (double)by_class[c].ns);
            script_set_number(L, "exposed_ns", (double)by_class[c].exposed_ns);
            lua_setfield(L, -2, ft_memory_classes[c].name);
        }
        lua_rawseti(L, -2, d + 1);
    }
}

void script_push_sent(lua_State *L, const int64_t by_kind[FT_ACT_COUNT])
{
    lua_newtable(L);
    for (int k = 0; k < FT_ACT_COUNT; k++)
        if (by_kind[k]) script_set_number(L, ft_action_word(k), (double)by_kind[k]);
}

/* By device and word of what makes it: bytes that it sent others; of a run. */
static void push_all_sent(lua_State *L, const ft_timeline *t, const ft_plan *plan)
{
    int64_t by_kind[FT_ACT_COUNT];
    lua_createtable(L, t->n_devices, 0);
    for (int d = 0; d < t->n_devices; d++) {
        ft_timeline_sent(t, plan, d, by_kind);
        script_push_sent(L, by_kind);
        lua_rawseti(L, -2, d + 1);
    }
}

static void push_memory(lua_State *L, const ft_timeline *t, const ft_holdings *holdings)
{
    ft_error err;
    lua_createtable(L, t->n_devices, 0);
    for (int d = 0; d < t->n_devices; d++) {
        ft_memory_curve curve;
        if (ft_timeline_memory(&curve, t, d, holdings, &err) != FT_OK) script_raise(L, &err);
        lua_createtable(L, 0, 3);
        script_set_number(L, "peak", (double)curve.peak);
        lua_pushboolean(L, holdings->staying_bytes != NULL);
        lua_setfield(L, -2, "is_all");
        lua_createtable(L, (int)curve.n, 0);
        for (int64_t i = 0; i < curve.n; i++) {
            lua_createtable(L, 2, 0);
            lua_pushnumber(L, (double)curve.points[i].ns);
            lua_rawseti(L, -2, 1);
            lua_pushnumber(L, (double)curve.points[i].bytes);
            lua_rawseti(L, -2, 2);
            lua_rawseti(L, -2, (int)i + 1);
        }
        ft_memory_curve_fini(&curve);
        lua_setfield(L, -2, "points");
        lua_rawseti(L, -2, d + 1);
    }
}

/* { { name = "F0>F1", data =, slots = } } of the edges that a device waited for. */
static void push_edge_waits(lua_State *L, const ft_timeline *t, const ft_plan *plan, int device)
{
    ft_error err;
    ft_edge_wait *waits;
    int64_t n;
    if (ft_timeline_edge_waits(&waits, &n, t, device, &err) != FT_OK) script_raise(L, &err);
    lua_createtable(L, (int)n, 0);
    for (int64_t i = 0; i < n; i++) {
        const ft_edge *edge = &plan->edges[waits[i].edge];
        lua_createtable(L, 0, 3);
        lua_pushfstring(L, "%c%d>%c%d", ft_action_letter(edge->from_kind), edge->from,
                        ft_action_letter(edge->to_kind), edge->to);
        lua_setfield(L, -2, "name");
        script_set_number(L, "data", (double)waits[i].data_ns);
        script_set_number(L, "slots", (double)waits[i].slot_ns);
        lua_rawseti(L, -2, (int)i + 1);
    }
    ft_free(waits);
}

/* By device: ns by word of what it waited for, `over` = with nothing left to do, and `edges`. */
static void push_waits(lua_State *L, const ft_timeline *t, const ft_plan *plan, int64_t end_ns)
{
    int64_t by_wait[FT_WAIT_COUNT];
    lua_createtable(L, t->n_devices, 0);
    for (int d = 0; d < t->n_devices; d++) {
        int64_t last = ft_timeline_idle_ns(t, d, by_wait);
        lua_createtable(L, 0, FT_WAIT_COUNT + 2);
        for (int i = 0; i < FT_WAIT_COUNT; i++)
            script_set_number(L, ft_wait_word((ft_wait)i), (double)by_wait[i]);
        script_set_number(L, "over", (double)(end_ns - last));
        push_edge_waits(L, t, plan, d);
        lua_setfield(L, -2, "edges");
        lua_rawseti(L, -2, d + 1);
    }
}

/* By stage { least, most }. */
static void push_staleness(lua_State *L, const ft_timeline *t)
{
    ft_lag_range *lags = lua_newuserdata(L, (size_t)t->n_stages * sizeof *lags);
    ft_timeline_staleness(t, lags);
    lua_createtable(L, t->n_stages, 0);
    for (int s = 0; s < t->n_stages; s++) {
        lua_createtable(L, 2, 0);
        lua_pushinteger(L, lags[s].least);
        lua_rawseti(L, -2, 1);
        lua_pushinteger(L, lags[s].most);
        lua_rawseti(L, -2, 2);
        lua_rawseti(L, -2, s + 1);
    }
    lua_remove(L, -2);
}

void script_push_timeline(lua_State *L, const ft_timeline *timeline, const ft_holdings *holdings,
                          bool trace)
{
    ft_error err = {FT_OK, ""};
    ft_text text = {0};
    lua_createtable(L, 0, 4);
    int64_t end_ns = ft_timeline_end_ns(timeline);
    script_set_number(L, "end_ns", (double)end_ns);
    script_set_number(L, "events", (double)timeline->n_events);
    lua_createtable(L, timeline->n_devices, 0);
    for (int d = 0; d < timeline->n_devices; d++) {
        lua_pushnumber(L, (double)ft_timeline_busy_ns(timeline, d));
        lua_rawseti(L, -2, d + 1);
    }
    lua_setfield(L, -2, "busy_ns");
    push_waits(L, timeline, holdings->plan, end_ns);
    lua_setfield(L, -2, "waits");
    push_staleness(L, timeline);
    lua_setfield(L, -2, "staleness");
    push_copies(L, timeline, holdings);
    lua_setfield(L, -2, "copies");
    if (!timeline->cause) {
        push_all_sent(L, timeline, holdings->plan);
        lua_setfield(L, -2, "sent");
    }
    if (!trace) return;
    ft_status status = ft_timeline_write_trace(timeline, holdings->plan, holdings, &text, &err);
    if (status == FT_OK) lua_pushlstring(L, text.data, (size_t)text.length);
    ft_text_fini(&text);
    if (status != FT_OK) script_raise(L, &err);
    lua_setfield(L, -2, "trace");
}

void script_push_simulation(lua_State *L, ft_timeline *timeline, const ft_holdings *holdings,
                            bool trace)
{
    ft_error err;
    if (ft_timeline_find_waits(timeline, holdings->plan, &err) != FT_OK) script_raise(L, &err);
    script_push_timeline(L, timeline, holdings, trace);
    push_critical(L, timeline);
    lua_setfield(L, -2, "critical");
    push_stalls(L, timeline);
    lua_setfield(L, -2, "stalls");
    lua_createtable(L, timeline->n_links, 0);
    for (int i = 0; i < timeline->n_links; i++) {
        lua_pushnumber(L, (double)timeline->link_ns[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "link_ns");
    if (!trace) return;
    push_memory(L, timeline, holdings);
    lua_setfield(L, -2, "memory");
}
