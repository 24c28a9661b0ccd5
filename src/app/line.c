/* app/line.c - reading one line of a terminal, through libedit when it was there at build time.
 *
 * libedit's own reader loses its state on Ctrl-C and takes pasted lines one by one, so characters
 * are read here (EL_GETCFN): an interrupted read ends the line, and what comes between the marks of
 * a bracketed paste is taken as it is. What completes a line is a Lua function. */
#include <errno.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#ifdef FTPIPE_HAVE_LIBEDIT
#include <histedit.h>
#endif

#include "app/app.h"
#include "base/alloc.h"

enum { PASTE_MOST = 1 << 24 }; /* bytes of a paste; what is behind them is dropped */

typedef struct reader {
    volatile sig_atomic_t *interrupt;
    lua_State *L;
    const char *prompt; /* on Lua's stack while a line is read */
    struct winsize size;
    char *chunk; /* lines of a paste, up to its last newline, with what stood before the cursor */
    char *rest;  /* what the next line begins with: behind that newline */
#ifdef FTPIPE_HAVE_LIBEDIT
    EditLine *edit;
    History *history;
#endif
} reader;

/* The terminal's width may change while a line is read. */
static void follow_size(reader *r);

/* Waits for input: false when a signal came, also before the wait began. */
static bool wait_for_input(const reader *r)
{
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};
    sigset_t held, before;
    sigemptyset(&held);
    sigaddset(&held, SIGINT);
    sigaddset(&held, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &held, &before);
    while (!*r->interrupt && ppoll(&input, 1, NULL, &before) < 0 && errno == EINTR) continue;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return !*r->interrupt;
}

/* One character from the terminal: 1, 0 at the end of input, -1 when a signal came. */
static int read_wide(reader *r, wchar_t *out)
{
    mbstate_t state = {0};
    for (;;) {
        char byte;
        if (!wait_for_input(r)) {
            errno = EINTR;
            return -1;
        }
        ssize_t n = read(STDIN_FILENO, &byte, 1);
        if (n < 0 && errno == EINTR && !*r->interrupt) continue;
        if (n <= 0) return n == 0 ? 0 : -1;
        follow_size(r);
        size_t used = mbrtowc(out, &byte, 1, &state);
        if (used == (size_t)-1) *out = L'?';
        if (used != (size_t)-2) return 1;
    }
}

/* A terminal that says nothing of its characters writes UTF-8 today. */
static void set_locale(void)
{
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "ANSI_X3.4-1968") == 0) setlocale(LC_CTYPE, "C.UTF-8");
}

#ifdef FTPIPE_HAVE_LIBEDIT

static void follow_size(reader *r)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return;
    if (size.ws_col == r->size.ws_col && size.ws_row == r->size.ws_row) return;
    r->size = size;
    el_resize(r->edit);
}

static reader *reader_of(EditLine *edit)
{
    reader *r = NULL;
    el_get(edit, EL_CLIENTDATA, &r);
    return r;
}

static int edit_read(EditLine *edit, wchar_t *out)
{
    return read_wide(reader_of(edit), out);
}

static char *edit_prompt(EditLine *edit)
{
    return (char *)(uintptr_t)reader_of(edit)->prompt;
}

/* Reads up to the mark that ends a paste; NULL when the input ends before it. */
static char *read_paste(void)
{
    static const char mark[] = "\33[201~";
    const int64_t n_mark = (int64_t)sizeof mark - 1;
    int64_t n = 0, room = 4096;
    char last = '\0';
    char *text = ft_alloc(room);
    while (text) {
        char byte;
        ssize_t got = read(STDIN_FILENO, &byte, 1);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        if (n == room - 1) {
            char *more = ft_realloc(text, 2 * room);
            if (!more) break;
            text = more;
            room *= 2;
        }
        /* lines that end by two signs, which the terminal exchanges */
        bool ends_pair = (last == '\n' && byte == '\r') || (last == '\r' && byte == '\n');
        last = ends_pair ? '\0' : byte;
        if (ends_pair) continue;
        text[n++] = byte == '\r' ? '\n' : byte;
        if (n >= n_mark && memcmp(text + n - n_mark, mark, (size_t)n_mark) == 0) {
            text[n - n_mark] = '\0';
            return text;
        }
        if (n > PASTE_MOST) n = PASTE_MOST - n_mark;
    }
    ft_free(text);
    return NULL;
}

/* Two texts as one, for ft_free; NULL without memory. */
static char *join(const char *a, size_t n_a, const char *b, size_t n_b)
{
    char *text = ft_alloc((int64_t)(n_a + n_b) + 1);
    if (!text) return NULL;
    memcpy(text, a, n_a);
    memcpy(text + n_a, b, n_b);
    text[n_a + n_b] = '\0';
    return text;
}

/* Shows pasted lines as if they had been typed; the terminal is in raw mode. */
static void echo(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\n') fputc('\r', stdout);
        fputc(text[i], stdout);
    }
    fflush(stdout);
}

/* A paste: of one line it is inserted, of several it ends the line and is one chunk. */
static unsigned char take_paste(EditLine *edit, int c)
{
    (void)c;
    reader *r = reader_of(edit);
    char *text = read_paste();
    if (!text) return CC_ERROR;
    char *last = strrchr(text, '\n');
    if (!last) {
        int fine = el_insertstr(edit, text);
        ft_free(text);
        return fine == 0 ? CC_REFRESH : CC_ERROR;
    }
    const LineInfo *line = el_line(edit);
    size_t before = (size_t)(line->cursor - line->buffer), behind = strlen(last + 1);
    r->chunk = join(line->buffer, before, text, (size_t)(last - text));
    r->rest = join(last + 1, behind, line->cursor, (size_t)(line->lastchar - line->cursor));
    for (char *at = r->rest; at && *at; at++)
        if (*at == '\t') *at = ' '; /* a tab that is pushed would complete */
    echo(text, (size_t)(last - text));
    ft_free(text);
    return r->chunk ? CC_NEWLINE : CC_ERROR;
}

/* Asks the Lua function what the line up to the cursor goes on with: a text to insert, or a list to
 * show. */
static unsigned char complete(EditLine *edit, int c)
{
    (void)c;
    reader *r = reader_of(edit);
    lua_State *L = r->L;
    const LineInfo *line = el_line(edit);
    int top = lua_gettop(L);
    unsigned char result = CC_ERROR;
    lua_pushlightuserdata(L, r);
    lua_rawget(L, LUA_REGISTRYINDEX);
    lua_pushlstring(L, line->buffer, (size_t)(line->cursor - line->buffer));
    if (lua_isfunction(L, -2) && lua_pcall(L, 1, 2, 0) == 0) {
        const char *text = lua_tostring(L, -2), *list = lua_tostring(L, -1);
        if (text && *text) {
            if (el_insertstr(edit, text) == 0) result = CC_REFRESH;
        } else if (list) {
            echo("\n", 1);
            echo(list, strlen(list));
            echo("\n", 1);
            result = CC_REDISPLAY;
        }
    }
    lua_settop(L, top);
    return result;
}

static void open_reader(reader *r)
{
    HistEvent event;
    set_locale();
    r->edit = el_init("ftpipe", stdin, stdout, stderr);
    r->history = history_init();
    if (!r->edit || !r->history) return;
    history(r->history, &event, H_SETSIZE, 10000);
    history(r->history, &event, H_SETUNIQUE, 1);
    el_set(r->edit, EL_CLIENTDATA, r);
    el_set(r->edit, EL_PROMPT_ESC, edit_prompt, '\1');
    el_set(r->edit, EL_EDITOR, "emacs");
    el_set(r->edit, EL_HIST, history, r->history);
    el_set(r->edit, EL_ADDFN, "ft-complete", "complete a name", complete);
    el_set(r->edit, EL_ADDFN, "ft-paste", "take what is pasted", take_paste);
    el_set(r->edit, EL_BIND, "^I", "ft-complete", NULL);
    el_set(r->edit, EL_BIND, "\\e[200~", "ft-paste", NULL);
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

static void remember(reader *r, const char *line)
{
    HistEvent event;
    if (r->history) history(r->history, &event, H_ENTER, line);
}

/* Whether the terminal marks what is pasted, when it is asked to. */
static bool marks_pastes(void)
{
    const char *term = getenv("TERM");
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0;
}

/* Pushes the line and whether it was pasted, and gives true; or false at the end of input and on a
 * signal. */
static bool push_line(lua_State *L, reader *r)
{
    int n = 0;
    bool marks = marks_pastes();
    /* el_gets shows the prompt first: a Ctrl-D that answers it at once would be lost */
    if (r->edit) el_set(r->edit, EL_PREP_TERM, 1);
    if (marks) fputs("\33[?2004h", stdout);
    fflush(stdout);
    if (r->edit) follow_size(r);
    if (r->rest && r->edit) el_push(r->edit, r->rest);
    ft_free(r->rest);
    r->rest = NULL;
    const char *line = r->edit ? el_gets(r->edit, &n) : NULL;
    if (marks) fputs("\33[?2004l", stdout);
    char *chunk = r->chunk;
    r->chunk = NULL;
    if (chunk) {
        fputc('\n', stdout);
        lua_pushstring(L, chunk);
        lua_pushboolean(L, true);
        ft_free(chunk);
        el_reset(r->edit);
        return true;
    }
    if (!line || n <= 0 || *r->interrupt) {
        if (*r->interrupt && r->edit) el_reset(r->edit);
        return false;
    }
    lua_pushlstring(L, line, (size_t)(line[n - 1] == '\n' ? n - 1 : n));
    lua_pushboolean(L, false);
    return true;
}

#else

static void follow_size(reader *r)
{
    (void)r;
}

static void open_reader(reader *r)
{
    (void)r;
    set_locale();
}

static void close_reader(reader *r)
{
    (void)r;
}

static void remember(reader *r, const char *line)
{
    (void)r;
    (void)line;
}

static bool push_line(lua_State *L, reader *r)
{
    for (const char *p = r->prompt; *p; p++)
        if (*p != '\1') fputc(*p, stdout);
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
    lua_pushboolean(L, false);
    if (got == 1 || (got == 0 && any)) return true;
    lua_pop(L, 2);
    return false;
}

#endif

/* -- what Lua sees ---------------------------------------------------------------------------- */

static const char READER[] = "ftpipe.terminal";

static int reader_gc(lua_State *L)
{
    reader *r = luaL_checkudata(L, 1, READER);
    close_reader(r);
    ft_free(r->chunk);
    ft_free(r->rest);
    r->chunk = r->rest = NULL;
    return 0;
}

/* terminal:read(prompt): a line, and whether it was pasted and may be several. */
static int reader_read(lua_State *L)
{
    reader *r = luaL_checkudata(L, 1, READER);
    r->prompt = luaL_checkstring(L, 2);
    if (push_line(L, r)) return 2;
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

/* terminal:remember(line): for the arrow keys. */
static int reader_remember(lua_State *L)
{
    remember(luaL_checkudata(L, 1, READER), luaL_checkstring(L, 2));
    return 0;
}

/* terminal:complete(f): what f(text up to the cursor) gives is inserted, or shown. */
static int reader_complete(lua_State *L)
{
    reader *r = luaL_checkudata(L, 1, READER);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_pushlightuserdata(L, r);
    lua_pushvalue(L, 2);
    lua_rawset(L, LUA_REGISTRYINDEX);
    return 0;
}

void app_push_reader(lua_State *L, volatile sig_atomic_t *interrupt)
{
    static const luaL_Reg methods[] = {{"read", reader_read},
                                       {"remember", reader_remember},
                                       {"complete", reader_complete},
                                       {NULL, NULL}};
    static const luaL_Reg meta[] = {{"__gc", reader_gc}, {NULL, NULL}};
    script_class(L, READER, methods, meta);
    lua_pop(L, 1);
    reader *r = lua_newuserdata(L, sizeof *r);
    *r = (reader){.interrupt = interrupt, .L = L};
    luaL_getmetatable(L, READER);
    lua_setmetatable(L, -2);
    open_reader(r);
}
