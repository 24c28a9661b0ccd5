/* app/main.c - the program: a Lua interpreter with ftpipe inside.
 *
 * It behaves as `lua` does for scripts, options and `arg`, so that busted runs in it: a file of any
 * name is a script, and an error that is nil ends the process silently. The words of --help and of
 * usage errors are in lua/ftpipe/prompt/host.lua. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/app.h"
#include "core/core.h"

/* The only mutable objects of the program: what a signal handler may touch. */
static volatile sig_atomic_t interrupt_signal;
static volatile sig_atomic_t interrupt_count; /* since the last one that was seen */
static volatile sig_atomic_t interrupt_most = 1;
static lua_State *volatile interrupt_state;
static volatile sig_atomic_t asks[SCRIPT_ASK_COUNT];

static void on_signal(int number)
{
    if (!interrupt_signal) interrupt_count = 0;
    if (++interrupt_count > interrupt_most) { /* nobody looks at them: this one kills */
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    interrupt_signal = number;
    lua_State *L = interrupt_state;
    if (L) lua_sethook(L, script_interrupt_hook, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
}

/* Where nobody answers it ends the process as always, and so does SIGQUIT when the one before it
 * was not answered yet. */
static void on_ask(int number)
{
    int what = number == SIGUSR1   ? SCRIPT_ASK_SAVE
               : number == SIGUSR2 ? SCRIPT_ASK_TRACE
                                   : SCRIPT_ASK_REPORT;
    if (asks[what] == SCRIPT_PASSED_OVER) return;
    bool again = asks[what] == SCRIPT_ASKED && number == SIGQUIT;
    if (asks[what] != SCRIPT_UNHEARD && !again) {
        asks[what] = SCRIPT_ASKED;
        return;
    }
    signal(number, SIG_DFL);
    raise(number);
}

static void catch_signal(int number, void (*handler)(int))
{
    struct sigaction old;
    if (sigaction(number, NULL, &old) == 0 && old.sa_handler == SIG_IGN) return;
    struct sigaction action = {.sa_handler = handler};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

/* -- running Lua: the functions return the exit code of the process ---------------------------- */

/* In one piece, so that it is no part of another thread's line. */
static void say(const char *line)
{
    fprintf(stderr, "ftpipe: %s\n", line);
}

/* Prints the error value at the top, unless that was said before; pops it, gives its exit code. */
static int report(lua_State *L)
{
    int code = script_exit_code(L, lua_gettop(L));
    bool is_said = code == script_status_exit(FT_HANG) && core_loss_is_said(L);
    if (!lua_isnil(L, -1) && !is_said) { /* error() ends silently, as in lua */
        const char *text = lua_tostring(L, -1);
        if (!text && luaL_getmetafield(L, -1, "__tostring")) {
            lua_pushvalue(L, -2);
            if (lua_pcall(L, 1, 1, 0) == 0) text = lua_tostring(L, -1);
        }
        fprintf(stderr, "ftpipe: %s\n", text ? text : "(the error is not a string)");
    }
    lua_settop(L, 0);
    return code;
}

/* Calls the function below n arguments. */
static int call(lua_State *L, int n_args)
{
    int base = lua_gettop(L) - n_args;
    lua_pushcfunction(L, script_traceback);
    lua_insert(L, base);
    int rc = lua_pcall(L, n_args, 0, base);
    lua_remove(L, base);
    return rc == 0 ? 0 : report(L);
}

/* Pushes a module, or reports why there is none. */
static int push_module(lua_State *L, const char *module)
{
    lua_getglobal(L, "require");
    lua_pushstring(L, module);
    return lua_pcall(L, 1, 1, 0) == 0 ? 0 : report(L);
}

/* Calls function `name` of module ftpipe.prompt.host with the n arguments at the top. */
static int call_host(lua_State *L, const char *name, int n_args)
{
    int code = push_module(L, "ftpipe.prompt.host");
    if (code != 0) return code;
    lua_getfield(L, -1, name);
    lua_remove(L, -2);
    lua_insert(L, -n_args - 1);
    return call(L, n_args);
}

/* Gives the chunk at the top the globals of the prompt that comes after it. */
static int share_globals(lua_State *L)
{
    int code = push_module(L, "ftpipe.prompt.globals");
    if (code != 0) return code;
    lua_getfield(L, -1, "own");
    lua_setfenv(L, -3);
    lua_pop(L, 1);
    return 0;
}

/* Runs the chunk that a luaL_load function just pushed, or reports why there is none. */
static int run_chunk(lua_State *L, int load_rc, int n_args, bool interactive)
{
    if (load_rc != 0) return report(L);
    int code = interactive ? share_globals(L) : 0;
    if (code != 0) return code;
    lua_insert(L, -n_args - 1);
    return call(L, n_args);
}

/* The global `arg`: arg[0] is the script, what follows it counts from 1, what precedes from -1.
 * Without a script all precedes, as `luajit` has it: options of the program are none of a recipe.
 */
static void set_arg(lua_State *L, char **argv, int argc, int script)
{
    lua_createtable(L, argc, script + 1);
    for (int i = 0; i < argc; i++) {
        lua_pushstring(L, argv[i]);
        lua_rawseti(L, -2, i - script);
    }
    lua_setglobal(L, "arg");
}

/* Modules beside the script are found first. */
static void add_script_directory(lua_State *L, const char *script)
{
    const char *slash = strrchr(script, '/');
    if (!slash) return; /* the default path has ./?.lua */
    lua_getglobal(L, "package");
    lua_pushlstring(L, script, (size_t)(slash - script));
    lua_pushliteral(L, "/?.lua;");
    lua_getfield(L, -3, "path");
    lua_concat(L, 3);
    lua_setfield(L, -2, "path");
    lua_pop(L, 1);
}

static int run_script(lua_State *L, char **argv, int argc, int script, bool interactive)
{
    const char *name = argv[script];
    bool from_stdin = strcmp(name, "-") == 0;
    struct stat info;
    luaL_checkstack(L, argc + 1, "too many arguments");
    if (!from_stdin && (stat(name, &info) != 0 || S_ISDIR(info.st_mode))) {
        for (int i = script; i < argc; i++) lua_pushstring(L, argv[i]);
        return call_host(L, "command", argc - script);
    }
    if (!from_stdin) add_script_directory(L, name);
    for (int i = script + 1; i < argc; i++) lua_pushstring(L, argv[i]);
    int rc = luaL_loadfile(L, from_stdin ? NULL : name);
    if (from_stdin && rc == LUA_ERRSYNTAX) {
        lua_pushliteral(L,
                        "\nstandard input is a script where it is no terminal; ftpipe -i reads it "
                        "as the prompt does");
        lua_concat(L, 2);
    }
    return run_chunk(L, rc, argc - script - 1, interactive);
}

static int run_repl(lua_State *L, bool quiet)
{
    interrupt_most = 2; /* what is typed at a prompt is not to be lost for one too many */
    app_push_reader(L, &interrupt_signal);
    lua_pushboolean(L, quiet);
    return call_host(L, "repl", 2);
}

/* -- options ---------------------------------------------------------------------------------- */

typedef struct options {
    bool interactive, quiet, version, help;
    int script; /* index of the script in argv, argc when there is none */
    int bad;    /* index of an option that is not one of ours, 0 when all are */
} options;

static bool takes_value(const char *option)
{
    return option[1] == 'e' || option[1] == 'l';
}

/* Has colours always, never, or on terminals, for all that looks into the environment: false of
 * another word. */
static bool choose_color(const char *when)
{
    if (strcmp(when, "never") == 0) return setenv("NO_COLOR", "1", 1) == 0;
    if (strcmp(when, "auto") == 0) return true;
    return strcmp(when, "always") == 0 && unsetenv("NO_COLOR") == 0 &&
           setenv("CLICOLOR_FORCE", "1", 1) == 0;
}

/* Splits argv at the script; -e and -l are run by a second walk. */
static options scan_options(int argc, char **argv)
{
    static const char color[] = "--color=";
    options o = {.script = argc};
    for (int i = 1; i < argc; i++) {
        const char *text = argv[i];
        if (text[0] != '-' || strcmp(text, "-") == 0) {
            o.script = i;
            return o;
        }
        if (strcmp(text, "--") == 0) {
            o.script = i + 1;
            return o;
        }
        if (strcmp(text, "-i") == 0)
            o.interactive = true;
        else if (strcmp(text, "-q") == 0)
            o.quiet = true;
        else if (strncmp(text, color, sizeof color - 1) == 0 &&
                 choose_color(text + sizeof color - 1))
            continue;
        else if (strcmp(text, "-v") == 0 || strcmp(text, "--version") == 0)
            o.version = true;
        else if (strcmp(text, "-h") == 0 || strcmp(text, "--help") == 0)
            o.help = true;
        else if (takes_value(text) && (text[2] || i + 1 < argc))
            i += text[2] == '\0';
        else {
            o.bad = i;
            return o;
        }
    }
    return o;
}

/* Runs -e CODE and -l MODULE in their order, up to the first that fails. */
static int run_options(lua_State *L, char **argv, options o, bool *ran)
{
    int code = 0;
    for (int i = 1; i < o.script && code == 0; i++) {
        const char *text = argv[i];
        if (text[0] != '-' || !takes_value(text)) continue;
        const char *value = text[2] ? text + 2 : argv[++i];
        *ran = true;
        if (text[1] == 'e') {
            int rc = luaL_loadbuffer(L, value, strlen(value), "=(command line)");
            code = run_chunk(L, rc, 0, o.interactive);
        } else {
            lua_getglobal(L, "require");
            lua_pushstring(L, value);
            code = call(L, 1);
        }
    }
    return code;
}

static int run(lua_State *L, int argc, char **argv)
{
    options o = scan_options(argc, argv);
    set_arg(L, argv, argc, o.script);
    if (o.bad) {
        lua_pushstring(L, argv[o.bad]);
        return call_host(L, "bad_option", 1);
    }
    if (o.help) return call_host(L, "help", 0);
    bool done = o.version && !o.interactive;
    bool tells = o.version || (o.interactive && !o.quiet);
    int code = tells ? call_host(L, "version", 0) : 0;
    if (code == 0) code = run_options(L, argv, o, &done);
    if (code == 0 && o.script < argc) {
        code = run_script(L, argv, argc, o.script, o.interactive);
        done = true;
    }
    if (o.interactive) return run_repl(L, o.quiet);
    if (done || code != 0) return code;
    if (isatty(STDIN_FILENO)) return run_repl(L, o.quiet);
    char dash[] = "-", *stdin_argv[] = {argv[0], dash};
    return run_script(L, stdin_argv, 2, 1, false);
}

/* What launchers say in the environment of each process: how many there are. */
static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"};

/* Whether this process is one of several. Slurm says how many tasks a step has; they are of one run
 * where it offers them a way to meet (srun --mpi=pmix). */
static bool is_launched(void)
{
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
    bool several = tasks && getenv("PMIX_RANK") && atoi(tasks) > 1;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *size = getenv(sizes[i]);
        several = several || (size && atoi(size) > 1);
    }
    return several;
}

/* Over TCP, Open MPI announces a message above 64 KiB and waits until it is asked for it: two
 * latencies for nothing where somebody always takes what comes. Its own setting, unless the user
 * has one. */
static void announce_less(void)
{
    setenv("OMPI_MCA_btl_tcp_eager_limit", "1048576", 0);
}

/* A card's streams that wait for other processes have queues of their own: else one might wait for
 * another by chance. */
static void part_streams(void)
{
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

/* Processes that this one starts are none of the launcher's. */
static void forget_launcher(void)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) unsetenv(sizes[i]);
    unsetenv("PMIX_RANK");
}

/* What was printed has to have been written: a full disk is no success. */
static int check_written(int code)
{
    if ((fflush(stdout) == 0 && !ferror(stdout)) || code != 0) return code;
    fprintf(stderr, "ftpipe: standard output cannot be written: %s\n", strerror(errno));
    return script_status_exit(FT_IO);
}

/* Ends what Lua has, then tells the other processes; gives the exit code. */
static int finish(lua_State *L, int code)
{
    interrupt_state = NULL;
    if (code == script_status_exit(FT_HANG)) { /* a thread may still be at what would be freed */
        fflush(NULL);
        if (core_world(L)) usleep(300000); /* launchers drop what they have not read by the end */
        _exit(code);
    }
    struct ft_world *world = core_world(L);
    lua_close(L);
    core_leave_world(world, code);
    return check_written(code);
}

/* os.exit where there are several processes: the others learn that this one ends, and that it was
 * not lost. */
static int exit_with_ranks(lua_State *L)
{
    int code = lua_isnoneornil(L, 1) ? 0 : (int)lua_tointeger(L, 1);
    if (lua_isboolean(L, 1)) code = !lua_toboolean(L, 1);
    exit(finish(L, code));
}

/* Rank 0 runs what is asked for; the others do what it says, until it ends. */
static int run_ranks(lua_State *L, int argc, char **argv)
{
    interrupt_most = INT_MAX; /* launchers send some when another process was lost */
    announce_less();
    part_streams();
    int code = call_host(L, "join", 0);
    forget_launcher();
    if (code != 0 && core_rank(L)) core_give_up_world(L, code);
    if (code != 0) return code;
    if (core_rank(L)) return core_rank_code(L);
    lua_getglobal(L, "os");
    lua_pushcfunction(L, exit_with_ranks);
    lua_setfield(L, -2, "exit");
    lua_pop(L, 1);
    return run(L, argc, argv);
}

/* The environment may keep this process from the best kernels. */
static int allow_kernels(lua_State *L)
{
    const char *name = getenv("FTPIPE_KERNELS");
    if (!name) return 0;
    lua_pushstring(L, name);
    return call_host(L, "allow_kernels", 1);
}

int main(int argc, char **argv)
{
    const char *lua_dir = getenv("FTPIPE_LUA");
    script_host host = {app_modules, app_assets, core_rooms, &interrupt_signal, asks, lua_dir, say};
#ifdef FTPIPE_LUA_DIR
    if (!lua_dir) host.lua_dir = FTPIPE_LUA_DIR;
#endif
    lua_State *L = script_new(&host);
    if (!L) {
        fputs("ftpipe: not enough memory to start\n", stderr);
        return 1;
    }
    interrupt_state = L;
    catch_signal(SIGINT, on_signal);
    catch_signal(SIGTERM, on_signal);
    catch_signal(SIGQUIT, on_ask);
    catch_signal(SIGUSR1, on_ask);
    catch_signal(SIGUSR2, on_ask);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of its write */
    int code = allow_kernels(L);
    if (code == 0) code = is_launched() ? run_ranks(L, argc, argv) : run(L, argc, argv);
    return finish(L, code);
}
