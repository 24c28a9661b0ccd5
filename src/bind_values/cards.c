/* bind_values/cards.c - core.card: open devices, their streams and events; lua/ftpipe/base/card.lua
 * makes of them what scripts see. */
#include "bind_values/internal.h"

static const char card_class[] = "ftpipe.card", stream_class[] = "ftpipe.card_stream",
                  event_class[] = "ftpipe.card_event";

card *script_check_card(lua_State *L, int i)
{
    return script_box_check(L, i, card_class);
}

static card_stream *check_stream(lua_State *L, int i)
{
    return script_box_check(L, i, stream_class);
}

static card_event *check_event(lua_State *L, int i)
{
    return script_box_check(L, i, event_class);
}

static const ft_driver *driver_of(const card *c)
{
    return c->executor->driver;
}

/* A binding without results. */
static int done(lua_State *L, ft_status status, const ft_error *err)
{
    return status == FT_OK ? 0 : script_raise(L, err);
}

/* -- devices ----------------------------------------------------------------------------------- */

/*** Opens the one device of a list.
 * @function card.open
 * @tparam string devices
 * @tparam int pinned_bytes memory of the host that copies pass through */
static int open_card(lua_State *L)
{
    const char *text = script_check_string(L, 1);
    int64_t pinned = script_check_int(L, 2, 2, INT64_C(1) << 40);
    ft_device *devices = lua_newuserdata(L, FT_MAX_DEVICES * sizeof *devices);
    int n;
    ft_error err;
    if (ft_devices_parse(text, devices, &n, &err) != FT_OK) return script_raise(L, &err);
    if (n != 1) script_arg_error(L, 1, "'%.60s' has %d devices, expected one", text, n);
    if (!devices[0].driver)
        script_arg_error(L, 1, "'%.60s' is for planning only, expected a device that computes",
                         text);
    card **box = (card **)script_box_new(L, card_class);
    return card_open(box, &devices[0], pinned, &err) == FT_OK ? 1 : script_raise(L, &err);
}

static int close_card(lua_State *L)
{
    void **box = script_box(L, 1, card_class);
    card_release(*box);
    *box = NULL;
    return 0;
}

static int card_name(lua_State *L)
{
    lua_pushstring(L, script_check_card(L, 1)->device.name);
    return 1;
}

/*** Bytes of its budget, of those that are free, that tensors have, of pinned host memory. */
static int card_bytes(lua_State *L)
{
    const card *c = script_check_card(L, 1);
    ft_limits limits;
    driver_of(c)->limits(c->executor, &limits);
    lua_pushnumber(L, (double)c->device.memory_bytes);
    lua_pushnumber(L, (double)limits.device_bytes);
    lua_pushnumber(L, (double)c->taken_bytes);
    lua_pushnumber(L, (double)c->pinned_bytes);
    return 4;
}

static int finish_card(lua_State *L)
{
    ft_error err;
    return done(L, card_finish(script_check_card(L, 1), &err), &err);
}

/*** Says which stream gets work from here on; nil: the card's own. */
static int use_stream(lua_State *L)
{
    card *c = script_check_card(L, 1);
    card_stream *s = lua_isnoneornil(L, 2) ? NULL : check_stream(L, 2);
    if (s && s->card != c)
        script_arg_error(L, 2, "the stream is of %s, not of %s", s->card->device.name,
                         c->device.name);
    c->now = s ? s->stream : c->own;
    return 0;
}

/* -- streams and events ------------------------------------------------------------------------ */

static int new_stream(lua_State *L)
{
    card *c = script_check_card(L, 1);
    ft_error err;
    card_stream **box = (card_stream **)script_box_new(L, stream_class);
    return card_stream_new(box, c, &err) == FT_OK ? 1 : script_raise(L, &err);
}

static int free_stream(lua_State *L)
{
    void **box = script_box(L, 1, stream_class);
    card_stream_free(*box);
    *box = NULL;
    return 0;
}

static int new_event(lua_State *L)
{
    card *c = script_check_card(L, 1);
    ft_error err;
    card_event **box = (card_event **)script_box_new(L, event_class);
    return card_event_new(box, c, &err) == FT_OK ? 1 : script_raise(L, &err);
}

static int free_event(lua_State *L)
{
    void **box = script_box(L, 1, event_class);
    card_event_free(*box);
    *box = NULL;
    return 0;
}

static int record(lua_State *L)
{
    const card_stream *s = check_stream(L, 1);
    const card_event *e = check_event(L, 2);
    ft_error err;
    if (e->card != s->card)
        script_arg_error(L, 2, "the event is of %s, the stream of %s", e->card->device.name,
                         s->card->device.name);
    return done(L, driver_of(s->card)->record(s->stream, e->event, &err), &err);
}

static int wait(lua_State *L)
{
    const card_stream *s = check_stream(L, 1);
    const card_event *e = check_event(L, 2);
    ft_error err;
    if (driver_of(e->card) != driver_of(s->card))
        script_arg_error(L, 2, "the event is of %s, the stream of %s, another kind of device",
                         e->card->device.name, s->card->device.name);
    return done(L, driver_of(s->card)->wait(s->stream, e->event, &err), &err);
}

static int finish_stream(lua_State *L)
{
    const card_stream *s = check_stream(L, 1);
    ft_error err;
    return done(L, driver_of(s->card)->finish(s->stream, &err), &err);
}

static int await(lua_State *L)
{
    const card_event *e = check_event(L, 1);
    ft_error err;
    return done(L, driver_of(e->card)->await(e->event, &err), &err);
}

/*** When its newest record was passed, by the clock of sys.time_ns; nil while it was not. */
static int passed_ns(lua_State *L)
{
    const card_event *e = check_event(L, 1);
    int64_t ns = driver_of(e->card)->passed_ns(e->event);
    if (ns < 0) return 0;
    lua_pushnumber(L, (double)ns);
    return 1;
}

/* A class that Lua reaches through functions of the room alone. */
static void plain_class(lua_State *L, const char *name, lua_CFunction end)
{
    const luaL_Reg meta[] = {{"__gc", end}, {NULL, NULL}};
    script_class(L, name, NULL, meta);
    lua_pop(L, 1);
}

int script_bind_card(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"open", open_card},
        {"close", close_card},
        {"name", card_name},
        {"bytes", card_bytes},
        {"finish", finish_card},
        {"use", use_stream},
        {"stream", new_stream},
        {"event", new_event},
        {"record", record},
        {"wait", wait},
        {"finish_stream", finish_stream},
        {"await", await},
        {"passed_ns", passed_ns},
        {NULL, NULL},
    };
    plain_class(L, card_class, close_card);
    plain_class(L, stream_class, free_stream);
    plain_class(L, event_class, free_event);
    lua_newtable(L);
    luaL_register(L, NULL, functions);
    script_card_tensor_class(L); /* adds to the table */
    return 1;
}
