/* bind_runs/ranks.c - the processes of a run, seen from Lua: meeting them, and what they are told
 * besides what a run says itself (ranks/ranks.c). */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "bind_runs/internal.h"

static const char WORLD[] = "ftpipe.world";
static const char CODE[] = "ftpipe.world.code";

/* What a letter of a job begins with: that a text follows; whether what was told last begins, since
 * all are ready for it, or not; or the exit code of a program that is over. */
enum { JOB = -1, BEGINS = -2, BEGINS_NOT = -3 };

ft_world *script_world(lua_State *L)
{
    lua_getfield(L, LUA_REGISTRYINDEX, WORLD);
    ft_world *world = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return world;
}

int script_rank(lua_State *L)
{
    const ft_world *world = script_world(L);
    return world ? ft_world_rank(world) : 0;
}

int script_rank_code(lua_State *L)
{
    lua_getfield(L, LUA_REGISTRYINDEX, CODE);
    int code = (int)lua_tointeger(L, -1);
    lua_pop(L, 1);
    return code;
}

bool script_loss_is_said(lua_State *L)
{
    ft_world *world = script_world(L);
    return world && ft_world_health(world, NULL) == FT_HANG;
}

void script_give_up_world(lua_State *L, int code)
{
    ft_error why;
    ft_world *world = script_world(L);
    if (!world) return;
    int rank = ft_world_rank(world);
    ft_fail(&why, FT_CANCELLED, "rank %d (host %s) has failed with exit code %d", rank,
            ft_world_host(world, rank), code);
    ft_world_give_up(world, &why);
}

static void set_world(lua_State *L, ft_world *world)
{
    if (world)
        lua_pushlightuserdata(L, world);
    else
        lua_pushnil(L);
    lua_setfield(L, LUA_REGISTRYINDEX, WORLD);
}

static ft_world *need_world(lua_State *L)
{
    ft_world *world = script_world(L);
    if (!world) script_fault(L, "this process was started alone");
    return world;
}

void script_leave_world(ft_world *world, int code)
{
    if (!world) return;
    const int32_t over = code;
    for (int r = 1; !ft_world_rank(world) && r < ft_world_size(world); r++)
        ft_world_send(world, r, FT_TAG_JOB, &over, sizeof over, true);
    ft_world_close(world);
}

/* What each process may fill, for lists of devices that say no budgets. */
static void note_memories(lua_State *L, const ft_world *world)
{
    int n = ft_world_size(world);
    int64_t *bytes = lua_newuserdata(L, (size_t)n * sizeof *bytes);
    ft_world_memories(world, bytes);
    script_note_memories(L, bytes, n);
    lua_pop(L, 1);
}

/*** Meets the other processes that a launcher of MPI started.
 * @function ranks.open
 * @tparam string version of this program: it and the build are the same everywhere
 * @tparam string processor this process's, with its kernels
 * @treturn int the rank of this process, from 0 */
static int ranks_open(lua_State *L)
{
    ft_error err;
    ft_world *world = NULL;
    const ft_world_self self = {script_check_string(L, 1), ft_cpu_memory_bytes(),
                                script_check_string(L, 2)};
    if (script_world(L)) return script_fault(L, "the processes have met");
    ft_status status = ft_world_open(&world, &self, script_say_of(L), &err);
    set_world(L, world);
    if (status != FT_OK) return script_raise(L, &err);
    note_memories(L, world);
    lua_pushinteger(L, ft_world_rank(world));
    return 1;
}

/*** The processes there are.
 * @function ranks.all
 * @treturn table by rank, from 1 on: { host =, near = (on this machine), processor = (with its
 *   kernels) }; nil in a process that was started alone */
static int ranks_all(lua_State *L)
{
    const ft_world *world = script_world(L);
    if (!world) return 0;
    lua_createtable(L, ft_world_size(world), 0);
    for (int r = 0; r < ft_world_size(world); r++) {
        lua_createtable(L, 0, 3);
        lua_pushstring(L, ft_world_host(world, r));
        lua_setfield(L, -2, "host");
        lua_pushstring(L, ft_world_processor(world, r));
        lua_setfield(L, -2, "processor");
        lua_pushboolean(L, ft_world_is_near(world, r));
        lua_setfield(L, -2, "near");
        lua_rawseti(L, -2, r + 1);
    }
    return 1;
}

/*** The MPI that joins the processes.
 * @function ranks.library
 * @treturn string its name and version */
static int ranks_library(lua_State *L)
{
    char words[128] = "";
    ft_world_library(need_world(L), words, sizeof words);
    lua_pushstring(L, words);
    return 1;
}

/*** The path of the module for MPI that processes would meet by; nil where there is none.
 * @function ranks.module
 * @treturn[opt] string */
static int ranks_module(lua_State *L)
{
    char path[640];
    if (!ft_world_module(path, sizeof path)) return 0;
    lua_pushstring(L, path);
    return 1;
}

/* Pushes a letter, which is a head and then the text at argument 1. */
static const char *push_letter(lua_State *L, const void *head, size_t head_bytes, size_t *bytes)
{
    script_check_string(L, 1);
    lua_pushlstring(L, head, head_bytes);
    lua_pushvalue(L, 1);
    lua_concat(L, 2);
    return lua_tolstring(L, -1, bytes);
}

static void tell_all(ft_world *world, const void *letter, size_t bytes)
{
    for (int r = 1; r < ft_world_size(world); r++)
        ft_world_send(world, r, FT_TAG_JOB, letter, (int64_t)bytes, true);
}

/*** At rank 0: gives the others something to do, a text; returns when all are ready for it and have
 * been told to begin. Where one is not, none begins.
 * @function ranks.tell
 * @tparam string job
 * @raise what one of them finds wrong with it */
static int ranks_tell(lua_State *L)
{
    ft_error err = {FT_OK, ""};
    size_t bytes;
    const int32_t head = JOB;
    ft_world *world = need_world(L);
    const char *job = push_letter(L, &head, sizeof head, &bytes);
    tell_all(world, job, bytes);
    ft_status status = ft_world_take_replies(world, FT_TAG_REPLY, NULL, NULL, &err);
    const int32_t goes = status == FT_OK ? BEGINS : BEGINS_NOT;
    tell_all(world, &goes, sizeof goes);
    return status == FT_OK ? 0 : script_raise(L, &err);
}

/* Takes the next letter of a job; its head, after which the text is pushed, or the code noted. */
static int32_t take_letter(lua_State *L)
{
    ft_error err;
    ft_letter letter;
    bool got;
    int32_t head;
    ft_world *world = need_world(L);
    if (ft_world_take(world, FT_TAG_JOB, -1, &letter, &got, &err) != FT_OK)
        return script_raise(L, &err);
    memcpy(&head, letter.data, sizeof head);
    if (head == JOB)
        lua_pushlstring(L, letter.data + sizeof head, (size_t)letter.bytes - sizeof head);
    if (head >= 0) {
        lua_pushinteger(L, head);
        lua_setfield(L, LUA_REGISTRYINDEX, CODE);
    }
    ft_world_drop(world, &letter);
    return head;
}

static bool is_over(lua_State *L)
{
    lua_getfield(L, LUA_REGISTRYINDEX, CODE);
    bool over = !lua_isnil(L, -1);
    lua_pop(L, 1);
    return over;
}

/*** At the others: waits for what rank 0 says next.
 * @function ranks.hear
 * @treturn string the job; nil when the program is over */
static int ranks_hear(lua_State *L)
{
    return !is_over(L) && take_letter(L) == JOB;
}

/*** At the others: says that they are ready, or what is wrong with the job.
 * @function ranks.reply
 * @tparam[opt] string fault
 * @tparam[opt] string status its words
 * @treturn boolean whether the job begins: all are ready */
static int ranks_reply(lua_State *L)
{
    ft_error error = {FT_OK, ""};
    ft_world *world = need_world(L);
    if (!lua_isnoneornil(L, 1)) {
        const char *words = luaL_optstring(L, 2, "invalid argument");
        error.status = FT_INVALID;
        for (int s = 0; s < FT_STATUS_COUNT; s++)
            if (strcmp(ft_status_text((ft_status)s), words) == 0) error.status = (ft_status)s;
        snprintf(error.message, sizeof error.message, "%s", script_check_string(L, 1));
    }
    ft_world_send(world, 0, FT_TAG_REPLY, &error, sizeof error, true);
    lua_pushboolean(L, take_letter(L) == BEGINS);
    return 1;
}

/*** What is said besides when another process is lost, which is said at once.
 * @function ranks.remark
 * @tparam[opt] string words nil: nothing; of a process that was started alone nothing is said */
static int ranks_remark(lua_State *L)
{
    ft_world *world = script_world(L);
    const char *words = lua_isnoneornil(L, 1) ? NULL : script_check_string(L, 1);
    if (world) ft_world_remark(world, words);
    return 0;
}

/*** At the others: gives rank 0 a text, which it gathers.
 * @function ranks.report
 * @tparam string text without line breaks */
static int ranks_report(lua_State *L)
{
    const ft_error fine = {FT_OK, ""};
    size_t bytes;
    ft_world *world = need_world(L);
    const char *reply = push_letter(L, &fine, sizeof fine, &bytes);
    ft_world_send(world, 0, FT_TAG_REPORT, reply, (int64_t)bytes + 1, true);
    return 0;
}

static void hear_text(void *lines, int rank, char *data)
{
    (void)rank;
    ft_text_add(lines, "%s\n", data);
}

/*** At rank 0: the texts of all others, a line each, in no order.
 * @function ranks.gather
 * @treturn string */
static int ranks_gather(lua_State *L)
{
    ft_error err = {FT_OK, ""};
    ft_text lines = {0};
    ft_status status = ft_world_take_replies(need_world(L), FT_TAG_REPORT, hear_text, &lines, &err);
    if (status == FT_OK) lua_pushlstring(L, lines.data, (size_t)lines.length);
    ft_text_fini(&lines);
    return status == FT_OK ? 1 : script_raise(L, &err);
}

/*** Measures the way to another process, which calls the same for this one meanwhile.
 * @function ranks.measure
 * @tparam int rank from 0
 * @treturn table latency_ns (of a word, one way), to_bytes_per_s, from_bytes_per_s,
 *   eager_bytes (larger messages take two latencies more; 0: none does); nothing at the higher rank
 *   of the two */
static int ranks_measure(lua_State *L)
{
    ft_error err;
    ft_link_rates rates = {0};
    ft_world *world = need_world(L);
    int rank = (int)script_check_int(L, 1, 0, ft_world_size(world) - 1);
    if (ft_world_measure(world, rank, &rates, &err) != FT_OK) return script_raise(L, &err);
    if (ft_world_rank(world) > rank) return 0;
    lua_createtable(L, 0, 4);
    script_set_number(L, "latency_ns", rates.latency_ns);
    script_set_number(L, "eager_bytes", (double)rates.eager_bytes);
    script_set_number(L, "to_bytes_per_s", rates.to_bytes_per_s);
    script_set_number(L, "from_bytes_per_s", rates.from_bytes_per_s);
    return 1;
}

int script_bind_ranks(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"open", ranks_open},     {"all", ranks_all},         {"tell", ranks_tell},
        {"hear", ranks_hear},     {"reply", ranks_reply},     {"measure", ranks_measure},
        {"remark", ranks_remark}, {"library", ranks_library}, {"report", ranks_report},
        {"gather", ranks_gather}, {"module", ranks_module},   {NULL, NULL}};
    lua_newtable(L);
    luaL_register(L, NULL, functions);
    return 1;
}
