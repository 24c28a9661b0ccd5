/* test/fuzz/lua_target.h - a fuzz target whose work is done by a function in Lua.
 *
 * A file of test/fuzz, run in the root of the sources, returns a function that takes the input as
 * a text and raises for what may not be. libFuzzer sees what C does; which line of Lua follows
 * which is counted for it in the section where it looks for counters of others. */
#ifndef FT_TEST_FUZZ_LUA_TARGET_H
#define FT_TEST_FUZZ_LUA_TARGET_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

enum { COUNTERS = 1 << 15, COLLECTED_EVERY = 64 };
__attribute__((section("__libfuzzer_extra_counters"), used)) static uint8_t counters[COUNTERS];

static void count_line(lua_State *L, lua_Debug *at)
{
    static uint32_t before;
    lua_getinfo(L, "S", at);
    uint32_t here = (uint32_t)((uintptr_t)at->source >> 4) * 31 + (uint32_t)at->currentline;
    here *= 2654435761u; /* Knuth's multiplier, to spread neighbours */
    counters[(here ^ before) % COUNTERS]++;
    before = here >> 1;
}

static void fail(lua_State *L)
{
    const char *text = lua_tostring(L, -1);
    fprintf(stderr, "%s\n", text ? text : "an error without text");
    abort();
}

static lua_State *state;

/* What C holds for the state is no leak. */
static void close_state(void)
{
    lua_close(state);
}

/* A state with the function of the file on its stack; one for all inputs. */
static void open_state(const char *file)
{
    static volatile sig_atomic_t interrupt, asks[SCRIPT_ASK_COUNT];
    static const script_file nothing = {0};
    static const script_host host = {.modules = &nothing,
                                     .assets = &nothing,
                                     .rooms = core_rooms,
                                     .interrupt = &interrupt,
                                     .asks = asks,
                                     .lua_dir = "lua"};
    lua_State *L = script_new(&host);
    if (!L) abort();
    if (luaL_dostring(L, "jit.off()") != 0) fail(L);
    if (luaL_dofile(L, file) != 0) fail(L);
    lua_sethook(L, count_line, LUA_MASKLINE, 0);
    state = L;
    atexit(close_state);
}

/* libFuzzer looks for leaks at the end alone, as if it was asked to: what C holds for objects that
 * Lua has not collected is none, and to collect them after each input takes longer than all else.
 */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static char at_the_end[] = "-detect_leaks=0";
    static char **words;
    words = calloc((size_t)*argc + 2, sizeof *words);
    if (!words) abort();
    memcpy(words, *argv, (size_t)*argc * sizeof *words);
    words[(*argc)++] = at_the_end;
    *argv = words;
    return 0;
}

/* Calls the function of the file. */
static int run_in_lua(const char *file, const uint8_t *data, size_t size)
{
    static int inputs;
    if (!state) open_state(file);
    lua_State *L = state;
    lua_pushcfunction(L, script_traceback);
    lua_pushvalue(L, 1);
    lua_pushlstring(L, size ? (const char *)data : "", size);
    if (lua_pcall(L, 1, 0, 2) != 0) fail(L);
    lua_settop(L, 1);
    if (++inputs % COLLECTED_EVERY == 0) lua_gc(L, LUA_GCCOLLECT, 0); /* what C holds is large */
    return 0;
}

#endif
