/* script/script.h - a Lua state, and what bindings are written with.
 *
 * `require "ftpipe.core"` gives one table with one subtable per room (core.tensor, core.json, ...).
 * lua/ftpipe/ builds what users see on top of it. Conventions for a binding, src/bind_GROUP/ROOM.c:
 *
 *  1. It has one opener, script_bind_ROOM, a lua_CFunction that returns the room's table; the list
 *     of them is core/core.c.
 *  2. A class is a metatable named "ftpipe.<noun>". Userdata is a box: one pointer, never the data.
 *     NULL in the box means freed; __gc and :free() are the same function.
 *  3. Box first. A binding (1) checks all arguments, (2) makes the box, holding NULL, (3) calls C,
 *     which cannot raise, (4) raises with script_raise or returns. So nothing can leak.
 *  4. Lua counts from 1, C from 0: only bindings convert (script_check_index, script_check_axis).
 *  5. Only the main thread sees a lua_State.
 *  6. An error is an object with .status (the words of ft_status_text), .message and .exit. Use
 *     script_raise for what the world did wrong (files, memory, devices): the process would end
 *     with the status's exit code. Use script_blame for what the calling line of Lua did wrong: the
 *     message gets that line in front, and the exit code is 1.
 *  7. A binding that loops in C for long asks script_interrupted and ends early with FT_CANCELLED.
 */
#ifndef FT_SCRIPT_H
#define FT_SCRIPT_H

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <signal.h>

#include "base/error.h"
#include "tensor/tensor.h"

/* A file inside the program: a Lua module ("ftpipe.opts") or an asset ("t5_tiny/config.json"). */
typedef struct script_file {
    const char *name;
    const char *chunk; /* chunk name of a module ("@lua/ftpipe/base/opts.lua"), NULL for an asset */
    const void *bytes;
    int64_t size;
} script_file;

/* What signals ask of a script that goes on: what is going on, to save, to trace. */
typedef enum { SCRIPT_ASK_REPORT, SCRIPT_ASK_SAVE, SCRIPT_ASK_TRACE, SCRIPT_ASK_COUNT } script_ask;

/* Whether a signal would be answered, and whether one came. */
typedef enum { SCRIPT_UNHEARD, SCRIPT_HEARD, SCRIPT_ASKED, SCRIPT_PASSED_OVER } script_hearing;

/* Tells the user something, a line without its end; from any thread. */
typedef void script_say(const char *line);

/* What the program around Lua gives to it; all of it outlives the lua_State. */
typedef struct script_host {
    const script_file *modules; /* ends with a NULL name */
    const script_file *assets;  /* ends with a NULL name */
    const luaL_Reg *rooms;      /* subtables of ftpipe.core with their openers; likewise */
    /* The number of the signal that asks to stop, 0 when there is none; the handler writes it. */
    volatile sig_atomic_t *interrupt;
    /* By script_ask, a script_hearing: the handler writes that somebody asked, Lua the others. */
    volatile sig_atomic_t *asks;
    const char
        *lua_dir; /* a directory of Lua modules that come before the embedded ones, or NULL */
    script_say *say;
} script_host;

/* -- a state ---------------------------------------------------------------------------------- */

/* A Lua state with the standard libraries, the embedded modules and ftpipe.core of the rooms; NULL
 * when there is no memory. lua_close frees it. */
lua_State *script_new(const script_host *host);
/* The host's, for what cannot wait for Lua. */
script_say *script_say_of(lua_State *L);

/* Message handler for lua_pcall: adds a traceback to plain messages, leaves error objects and nil.
 */
int script_traceback(lua_State *L);

/* The exit code of the process for the error value at index i: .exit of an error object, 1
 * otherwise. */
int script_exit_code(lua_State *L, int i);

/* The number of the signal that asked to stop, 0 when none did. C loops of the main thread poll it.
 */
int script_interrupted(lua_State *L);
/* The flag itself, for C code that has no lua_State. */
const volatile sig_atomic_t *script_interrupt_flag(lua_State *L);
void script_clear_interrupt(lua_State *L);
/* Says whether the script itself looks at the signal, so that the hook leaves it alone. */
void script_hold_interrupt(lua_State *L, bool hold);
/* Says whether the script answers the signals that ask; whether one came that asks for this, which
 * is forgotten then. */
void script_hear_asks(lua_State *L, bool hear);
bool script_asked(lua_State *L, script_ask what);
/* From then on, until they are heard no more, they do nothing: others answer them. */
void script_pass_over_asks(lua_State *L);
/* A debug hook that ends Lua code with a `cancelled` error, unless core.sys.hold_interrupt(true)
 * said that the script itself looks at core.sys.interrupted(). */
void script_interrupt_hook(lua_State *L, lua_Debug *where);

/* -- errors: none of these returns ------------------------------------------------------------ */

/* Raises *err as an error object; the exit code follows the status. */
int script_raise(lua_State *L, const ft_error *err);
/* Raises *err with the position of the calling Lua code in front and exit code 1. */
int script_blame(lua_State *L, const ft_error *err);
/* The same for what a binding finds itself: `invalid argument`, with the words given. */
int script_fault(lua_State *L, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Argument error "bad argument #i to 'f' (...)", positioned as script_blame does. */
int script_arg_error(lua_State *L, int i, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Pushes "file:line: " of the nearest Lua function outside lua/ftpipe, or "". */
void script_where(lua_State *L);
/* The process's exit code for a status that nobody caught (0 for FT_OK). */
int script_status_exit(ft_status status);

/* The end of a word behind a figure: "" behind 1, `many` ("s", "es") behind any other number. */
const char *script_plural(int64_t n, const char *many);

/* -- arguments -------------------------------------------------------------------------------- */

/* An integer in [lo, hi]; 2.7, "2" and nil are refused, nothing is truncated. */
int64_t script_check_int(lua_State *L, int i, int64_t lo, int64_t hi);
/* As script_check_int, or preset when the argument is nil or absent. */
int64_t script_arg_int(lua_State *L, int i, int64_t preset, int64_t lo, int64_t hi);
double script_check_number(lua_State *L, int i);
const char *script_check_string(lua_State *L, int i);
/* 1..n or -n..-1 to 0..n-1; `what` names the thing counted in the message. */
int64_t script_check_index(lua_State *L, int i, int64_t n, const char *what);
int script_check_axis(lua_State *L, int i, int n_dims);
void script_check_table(lua_State *L, int i);

/* A dtype by name; script_arg_dtype gives the preset for nil. */
ft_dtype script_check_dtype(lua_State *L, int i);
ft_dtype script_arg_dtype(lua_State *L, int i, ft_dtype preset);
/* A table of dimensions, { 2, 3 }. */
ft_shape script_check_shape(lua_State *L, int i);
void script_push_shape(lua_State *L, const ft_shape *shape);
/* How numbers are drawn, from four arguments: a law by name, a scale (1), a seed (0), a stream (0).
 */
ft_draw script_check_draw(lua_State *L, int i, uint64_t *seed);

/* Sets a number in the table at the top. */
void script_set_number(lua_State *L, const char *key, double value);

/* -- option tables: the table is at index t (positive) ---------------------------------------- */

/* Refuses keys that are not in `names` (NULL ends it) and lists the valid ones. */
void script_options(lua_State *L, int t, const char *const *names);
/* The value of a key, or preset when it is nil; wrong types and ranges are errors naming the key.
 */
int64_t script_opt_int(lua_State *L, int t, const char *key, int64_t preset, int64_t lo,
                       int64_t hi);
double script_opt_number(lua_State *L, int t, const char *key, double preset);
bool script_opt_bool(lua_State *L, int t, const char *key, bool preset);
/* Lives as long as the table holds it. */
const char *script_opt_string(lua_State *L, int t, const char *key, const char *preset);

/* -- lists in option tables (lists.c) --------------------------------------------------------- */

/* Lists at a key of the table at t, in userdata left on the stack: numbers (NULL, and nil, when it
 * is absent; with `absent` for false), and whole numbers less `base` (n < 0: of any length); a
 * number of the table, 0 when it is absent; how long a list is. */
double *script_opt_numbers(lua_State *L, int t, const char *key, int n);
double *script_opt_numbers_or(lua_State *L, int t, const char *key, int n, double absent);
int *script_need_ints(lua_State *L, int t, const char *key, int n, int base);
int64_t script_field_int(lua_State *L, int t, const char *key);
int script_list_length(lua_State *L, int t, const char *key);

/* -- classes and boxes ------------------------------------------------------------------------ */

/* Makes the metatable of a class: `methods` are its __index, `meta` its metamethods (either may be
 * NULL); leaves the metatable on the stack. Call it once, in the opener. */
void script_class(lua_State *L, const char *name, const luaL_Reg *methods, const luaL_Reg *meta);
/* Pushes an empty box (holding NULL) of the class. */
void **script_box_new(lua_State *L, const char *name);
/* What the box holds; wrong class and freed boxes are errors. */
void *script_box_check(lua_State *L, int i, const char *name);
/* As script_box_check, but NULL when the value is no box of that class or was freed. */
void *script_box_test(lua_State *L, int i, const char *name);
/* The box itself, for free(): may hold NULL. */
void **script_box(lua_State *L, int i, const char *name);

/* Tells the collector that `bytes` outside its heap now hang on Lua objects. */
void script_gc_step(lua_State *L, int64_t bytes);

#endif
