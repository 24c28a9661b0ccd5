/* bind_values/process.c - core.process: programs beside this one.
 *
 * A child is in a process group of its own, so that Ctrl-C reaches it through its parent alone, and
 * gets SIGTERM when its parent dies. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "bind_values/bind_values.h"

extern char **environ;

enum { WORDS_MOST = 4096 };

/* The strings of the list at index i, with a NULL behind them, in userdata left on the stack. */
static const char **check_words(lua_State *L, int i)
{
    script_check_table(L, i);
    int n = (int)lua_objlen(L, i);
    if (n > WORDS_MOST) script_arg_error(L, i, "%d words, expected at most %d", n, WORDS_MOST);
    const char **words = lua_newuserdata(L, (size_t)(n + 1) * sizeof *words);
    for (int k = 0; k < n; k++) {
        lua_rawgeti(L, i, k + 1);
        if (lua_type(L, -1) != LUA_TSTRING) script_arg_error(L, i, "word %d is no text", k + 1);
        words[k] = lua_tostring(L, -1); /* the list holds it */
        lua_pop(L, 1);
    }
    words[n] = NULL;
    return words;
}

/* The CPUs of the list at index i; whether there is one. */
static bool check_cpus(lua_State *L, int i, cpu_set_t *set)
{
    if (lua_isnoneornil(L, i)) return false;
    script_check_table(L, i);
    CPU_ZERO(set);
    for (int k = 1; k <= (int)lua_objlen(L, i); k++) {
        lua_rawgeti(L, i, k);
        int cpu = (int)script_check_int(L, -1, 0, CPU_SETSIZE - 1);
        CPU_SET(cpu, set);
        lua_pop(L, 1);
    }
    return CPU_COUNT(set) > 0;
}

typedef struct child {
    const char **argv;
    char **environment;
    const char *out, *err;
    const cpu_set_t *cpus; /* NULL: as its parent */
    pid_t parent;
} child;

/* In the child: says in one piece what cannot be done with a path, and ends it. */
static _Noreturn void end_child(const char *path, const char *what, int code)
{
    const char *why = strerrordesc_np(errno);
    const char *const texts[] = {"ftpipe: ", path, what, why ? why : "unknown error", "\n"};
    enum { N = sizeof texts / sizeof *texts };
    struct iovec parts[N];
    for (int i = 0; i < N; i++)
        parts[i] = (struct iovec){(char *)(uintptr_t)texts[i], strlen(texts[i])};
    ssize_t written = writev(STDERR_FILENO, parts, N);
    (void)written; /* nobody else could be told */
    _exit(code);
}

static void redirect(const char *path, int flags, int fd)
{
    int file = open(path, flags | O_CLOEXEC, 0666);
    if (file < 0 || dup2(file, fd) < 0) end_child(path, " cannot be opened: ", 126);
}

/* In the child: calls only what is safe behind fork. */
static void become(const child *c)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != c->parent) _exit(143); /* it is gone already */
    if (c->cpus) sched_setaffinity(0, sizeof *c->cpus, c->cpus);
    const int appends = O_WRONLY | O_CREAT | O_APPEND;
    redirect("/dev/null", O_RDONLY, STDIN_FILENO);
    if (c->out) redirect(c->out, appends, STDOUT_FILENO);
    if (c->err) redirect(c->err, appends, STDERR_FILENO);
    execve(c->argv[0], (char *const *)(uintptr_t)c->argv, c->environment);
    end_child(c->argv[0], " cannot be started: ", 127);
}

/* The environment with `more` in front, which come first; for free. NULL without memory. */
static char **join_environment(const char **more)
{
    int n = 0, m = 0;
    while (environ[n]) n++;
    while (more[m]) m++;
    char **all = ft_alloc((int64_t)(n + m + 1) * (int64_t)sizeof *all);
    if (!all) return NULL;
    for (int i = 0; i < m; i++) all[i] = (char *)(uintptr_t)more[i];
    for (int i = 0; i < n; i++) all[m + i] = environ[i];
    all[m + n] = NULL;
    return all;
}

/* start(argv, out, err, { "NAME=value", ... }, cpus): the number of a new process that runs argv[1]
 * (a path) with what it prints appended to files, or, where one is nil, where this process prints;
 * cpus, a list, are those it may use. Where a file cannot be opened, or the program not be started,
 * it says so on its stderr, and ends with 126, or 127. */
static int process_start(lua_State *L)
{
    lua_settop(L, 5);
    const char **argv = check_words(L, 1);
    if (!argv[0]) script_arg_error(L, 1, "there is no program in it");
    cpu_set_t cpus;
    child c = {.argv = argv, .parent = getpid()};
    if (!lua_isnil(L, 2)) c.out = script_check_string(L, 2);
    if (!lua_isnil(L, 3)) c.err = script_check_string(L, 3);
    const char **more = check_words(L, 4);
    if (check_cpus(L, 5, &cpus)) c.cpus = &cpus;
    c.environment = join_environment(more);
    pid_t pid = c.environment ? fork() : -1;
    if (pid == 0) become(&c);
    int problem = c.environment ? errno : ENOMEM;
    ft_free(c.environment);
    if (pid < 0) {
        ft_error err;
        ft_fail(&err, FT_IO, "'%s' cannot be started: %s", argv[0], strerror(problem));
        return script_raise(L, &err);
    }
    lua_pushinteger(L, pid);
    return 1;
}

/* poll(pid): nil while a process that `start` made runs; then its exit code, once: 128 and the
 * number of a signal that ended it. */
static int process_poll(lua_State *L)
{
    int status = 0;
    pid_t pid = (pid_t)script_check_int(L, 1, 1, INT32_MAX);
    if (waitpid(pid, &status, WNOHANG) != pid) return 0;
    lua_pushinteger(L, WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
    return 1;
}

/* signal(pid, number): whether there is such a process; number 0 only asks. */
static int process_signal(lua_State *L)
{
    pid_t pid = (pid_t)script_check_int(L, 1, 1, INT32_MAX);
    lua_pushboolean(L, kill(pid, (int)script_check_int(L, 2, 0, 64)) == 0);
    return 1;
}

/* sleep(seconds): shorter when a signal comes. */
static int process_sleep(lua_State *L)
{
    double seconds = script_check_number(L, 1);
    if (!(seconds > 0 && seconds < 1e6)) return 0;
    struct timespec time = {.tv_sec = (time_t)seconds};
    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    nanosleep(&time, NULL);
    return 0;
}

/* cpus(): the CPUs that this process may use, ascending. */
static int process_cpus(lua_State *L)
{
    cpu_set_t set;
    lua_newtable(L);
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    int n = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &set)) continue;
        lua_pushinteger(L, cpu);
        lua_rawseti(L, -2, ++n);
    }
    return 1;
}

int script_bind_process(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"start", process_start}, {"poll", process_poll}, {"signal", process_signal},
        {"sleep", process_sleep}, {"cpus", process_cpus}, {NULL, NULL},
    };
    lua_newtable(L);
    luaL_register(L, NULL, functions);
    return 1;
}
