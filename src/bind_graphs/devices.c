/* bind_graphs/devices.c - devices as Lua gives them: texts, or tables of rows.
 *
 * A table has one row for each device: { name =, memory_bytes =, flops_per_s =, bytes_per_s =,
 * link_bytes_per_s =, link_latency_ns = }; rows of kind "cpu" also have threads, host_limit
 * and unpacked. Its `machine`, if there, is what bind_plans/schedule.c reads. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "device/driver.h"
#include "bind_graphs/internal.h"

/* A number of row i (1-based) at the top of the stack: above 0, or 0 where that `may_be_zero`. */
static double row_number(lua_State *L, int i, const char *key, double preset, bool may_be_zero)
{
    lua_getfield(L, -1, key);
    double value = lua_isnil(L, -1) ? preset : lua_tonumber(L, -1);
    bool fits = value > 0 || (may_be_zero && value == 0);
    if ((!lua_isnil(L, -1) && lua_type(L, -1) != LUA_TNUMBER) || !fits || !isfinite(value))
        script_fault(L, "devices[%d]: '%s' is %s, expected a number %s", i, key,
                     lua_isnil(L, -1)      ? "missing"
                     : lua_tostring(L, -1) ? lua_tostring(L, -1)
                                           : "?",
                     may_be_zero ? "of 0 or more" : "above 0");
    lua_pop(L, 1);
    return value;
}

/* One that is used as an integer, from `least` on; of bytes and ns a fraction is left out. */
static int64_t row_integer(lua_State *L, int i, const char *key, double preset, double least,
                           double most)
{
    double value = row_number(L, i, key, preset, least == 0);
    bool counts = most <= INT32_MAX;
    if (!(value >= least && value <= most) || (counts && value != floor(value)))
        script_fault(L, "devices[%d]: '%s' is %.17g, expected a%s number from %.0f to %.0f", i, key,
                     value, counts ? " whole" : "", least, most);
    return (int64_t)value;
}

static void read_device(lua_State *L, int i, ft_device *d)
{
    if (!lua_istable(L, -1)) script_fault(L, "devices[%d]: expected a table", i);
    lua_getfield(L, -1, "kind");
    const char *kind = lua_tostring(L, -1);
    const ft_driver *driver = kind ? ft_driver_find(kind, strlen(kind)) : NULL;
    lua_pop(L, 1);
    *d = (ft_device){.kind = driver ? driver->kind : FT_DEVICE_SIM,
                     .driver = driver,
                     .index = i - 1,
                     .n_threads = (int)row_integer(L, i, "threads", 1, 1, INT16_MAX),
                     .card = (int)row_integer(L, i, "card", 0, 0, INT16_MAX),
                     .rank = (int)row_integer(L, i, "rank", 0, 0, INT16_MAX),
                     .memory_bytes = row_integer(L, i, "memory_bytes", NAN, 1, 0x1p53),
                     .flops_per_s = row_number(L, i, "flops_per_s", NAN, false),
                     .bf16_flops_per_s = row_number(L, i, "bf16_flops_per_s", 0, true),
                     .f16_flops_per_s = row_number(L, i, "f16_flops_per_s", 0, true),
                     .tf32_flops_per_s = row_number(L, i, "tf32_flops_per_s", 0, true),
                     .bytes_per_s = row_number(L, i, "bytes_per_s", NAN, false),
                     .link_bytes_per_s = row_number(L, i, "link_bytes_per_s", NAN, false),
                     .link_latency_ns = row_integer(L, i, "link_latency_ns", 1, 0, 0x1p53),
                     .library_bytes = row_integer(L, i, "library_bytes", 0, 0, 0x1p53),
                     .host_limit = row_number(L, i, "host_limit", 0, true)};
    lua_getfield(L, -1, "of_machine");
    d->of_machine = lua_toboolean(L, -1);
    lua_pop(L, 1);
    lua_getfield(L, -1, "unpacked");
    d->unpacked = d->kind == FT_DEVICE_CPU && lua_toboolean(L, -1);
    lua_pop(L, 1);
    lua_getfield(L, -1, "name");
    const char *name = lua_tostring(L, -1);
    snprintf(d->name, sizeof d->name, "%s", name ? name : "device");
    lua_pop(L, 1);
}

static const char MEMORIES[] = "ftpipe.memories";

void script_note_memories(lua_State *L, const int64_t *bytes, int n_ranks)
{
    size_t size = (size_t)n_ranks * sizeof *bytes;
    memcpy(lua_newuserdata(L, size), bytes, size);
    lua_setfield(L, LUA_REGISTRYINDEX, MEMORIES);
}

/* Divides what processes may fill among their devices, where it is those that have met. */
static void share_memory(lua_State *L, ft_device *devices, int n)
{
    lua_getfield(L, LUA_REGISTRYINDEX, MEMORIES);
    const int64_t *bytes = lua_touserdata(L, -1);
    int ranks = devices[n - 1].rank + 1;
    bool met = bytes && lua_objlen(L, -1) == (size_t)ranks * sizeof *bytes;
    for (int d = 0; met && d < n; d++) {
        int64_t part = bytes[devices[d].rank] / (n / ranks);
        if (devices[d].of_machine && part > 0) devices[d].memory_bytes = part;
    }
    lua_pop(L, 1);
}

/* Those of a text: the room for all that it may mean is left to the collector. */
static ft_device *push_listed(lua_State *L, const char *text, int *n)
{
    ft_error err;
    ft_device *room = lua_newuserdata(L, FT_MAX_DEVICES * sizeof *room);
    if (ft_devices_parse(text, room, n, &err) != FT_OK) script_raise(L, &err);
    share_memory(L, room, *n);
    size_t bytes = (size_t)*n * sizeof *room;
    ft_device *devices = memcpy(lua_newuserdata(L, bytes), room, bytes);
    lua_remove(L, -2);
    return devices;
}

ft_device *script_check_devices(lua_State *L, int i, int *n)
{
    if (i < 0) i = lua_gettop(L) + 1 + i;
    if (lua_type(L, i) == LUA_TSTRING) return push_listed(L, lua_tostring(L, i), n);
    script_check_table(L, i);
    int count = (int)lua_objlen(L, i);
    if (count < 1 || count > FT_MAX_DEVICES)
        script_fault(L, "a cluster of %d devices, expected 1 to %d", count, FT_MAX_DEVICES);
    ft_device *devices = lua_newuserdata(L, (size_t)count * sizeof *devices);
    for (int d = 1; d <= count; d++) {
        lua_rawgeti(L, i, d);
        read_device(L, d, &devices[d - 1]);
        lua_pop(L, 1);
    }
    *n = count;
    return devices;
}

ft_device *script_opt_devices(lua_State *L, int t, const char *key, const char *preset, int *n)
{
    lua_getfield(L, t, key);
    if (lua_isnil(L, -1)) lua_pushstring(L, preset);
    return script_check_devices(L, lua_gettop(L), n);
}
