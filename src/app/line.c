/* app/line.c - reading one line of a terminal, through libedit when it was there at build time.
 *
 * libedit's own reader loses its state on Ctrl-C and completes on pasted tabs, so characters are
 * read here (EL_GETCFN): an interrupted read ends the line, a tab is a tab. Lines are kept for the
 * arrow keys while the program runs. */
#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#ifdef FTPIPE_HAVE_LIBEDIT
#include <histedit.h>
#endif

#include "app/app.h"

typedef struct reader {
    volatile sig_atomic_t *interrupt;
    const char *prompt; /* on Lua's stack while a line is read */
#ifdef FTPIPE_HAVE_LIBEDIT
    EditLine *edit;
    History *history;
#endif
} reader;

/* One character from the terminal: 1, 0 at the end of input, -1 when a signal came. */
static int read_wide(reader *r, wchar_t *out)
{
    mbstate_t state = {0};
    for (;;) {
        char byte;
        ssize_t n = read(STDIN_FILENO, &byte, 1);
        if (n < 0 && errno == EINTR && !*r->interrupt) continue;
        if (n <= 0) return n == 0 ? 0 : -1;
        size_t used = mbrtowc(out, &byte, 1, &state);
        if (used == (size_t)-1) *out = L'?';
        if (used != (size_t)-2) return 1;
    }
}

#ifdef FTPIPE_HAVE_LIBEDIT

static int edit_read(EditLine *edit, wchar_t *out)
{
    reader *r = NULL;
    el_get(edit, EL_CLIENTDATA, &r);
    return read_wide(r, out);
}

static char *edit_prompt(EditLine *edit)
{
    reader *r = NULL;
    el_get(edit, EL_CLIENTDATA, &r);
    return (char *)(uintptr_t)r->prompt;
}

static void open_reader(reader *r)
{
    HistEvent event;
    setlocale(LC_CTYPE, "");
    r->edit = el_init("ftpipe", stdin, stdout, stderr);
    r->history = history_init();
    if (!r->edit || !r->history) return;
    history(r->history, &event, H_SETSIZE, 10000);
    history(r->history, &event, H_SETUNIQUE, 1);
    el_set(r->edit, EL_CLIENTDATA, r);
    el_set(r->edit, EL_PROMPT, edit_prompt);
    el_set(r->edit, EL_EDITOR, "emacs");
    el_set(r->edit, EL_HIST, history, r->history);
    el_set(r->edit, EL_BIND, "^I", "ed-insert", NULL);
    el_set(r->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_set(r->edit, EL_GETCFN, edit_read);
}

static void close_reader(reader *r)
{
    if (r->history) history_end(r->history);
    if (r->edit) el_end(r->edit);
    r->history = NULL;
    r->edit = NULL;
}

/* Pushes the line and gives true, or false at the end of input and on a signal. */
static bool push_line(lua_State *L, reader *r)
{
    int n = 0;
    const char *line = r->edit ? el_gets(r->edit, &n) : NULL;
    if (!line || n <= 0 || *r->interrupt) {
        if (*r->interrupt && r->edit) el_reset(r->edit);
        return false;
    }
    HistEvent event;
    if (r->history && strspn(line, " \t\n") < (size_t)n) history(r->history, &event, H_ENTER, line);
    lua_pushlstring(L, line, (size_t)(line[n - 1] == '\n' ? n - 1 : n));
    return true;
}

#else

static void open_reader(reader *r)
{
    (void)r;
    setlocale(LC_CTYPE, "");
}

static void close_reader(reader *r)
{
    (void)r;
}

static bool push_line(lua_State *L, reader *r)
{
    fputs(r->prompt, stdout);
    fflush(stdout);
    luaL_Buffer buffer;
    luaL_buffinit(L, &buffer);
    wchar_t c = 0;
    int got = 0;
    bool any = false;
    while ((got = read_wide(r, &c)) == 1 && c != L'\n') {
        char bytes[MB_LEN_MAX];
        mbstate_t state = {0};
        size_t n = wcrtomb(bytes, c, &state);
        if (n != (size_t)-1) luaL_addlstring(&buffer, bytes, n);
        any = true;
    }
    luaL_pushresult(&buffer);
    if (got == 1 || (got == 0 && any)) return true;
    lua_pop(L, 1);
    return false;
}

#endif

static int reader_gc(lua_State *L)
{
    close_reader(lua_touserdata(L, 1));
    return 0;
}

static int read_line(lua_State *L)
{
    reader *r = lua_touserdata(L, lua_upvalueindex(1));
    r->prompt = luaL_checkstring(L, 1);
    if (push_line(L, r)) return 1;
    fputc('\n', stdout);
    if (*r->interrupt == SIGTERM) { /* kept: the prompt ends */
        lua_pushboolean(L, false);
    } else if (*r->interrupt) {
        *r->interrupt = 0;
        lua_sethook(L, NULL, 0, 0);
        lua_pushboolean(L, false);
    } else {
        lua_pushnil(L);
    }
    return 1;
}

void app_push_reader(lua_State *L, volatile sig_atomic_t *interrupt)
{
    reader *r = lua_newuserdata(L, sizeof *r);
    *r = (reader){.interrupt = interrupt};
    lua_newtable(L);
    lua_pushcfunction(L, reader_gc);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    open_reader(r);
    lua_pushcclosure(L, read_line, 1);
}
