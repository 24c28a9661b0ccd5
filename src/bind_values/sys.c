/* bind_values/sys.c - core.sys: time, files, the terminal, the process.
 *
 * What Lua's own io and os libraries do well (getenv, remove, rename, date) is not repeated. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bind_values/bind_values.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/sha256.h"
#include "device/device.h"
#include "io/io.h"
#include "ops/ops.h"

/* -- time, process ---------------------------------------------------------------------------- */

/* time_ns(): nanoseconds of a clock that never goes back. */
static int sys_time_ns(lua_State *L)
{
    lua_pushnumber(L, (double)ft_now_ns());
    return 1;
}

/* unix_time(): seconds since 1970, UTC. */
static int sys_unix_time(lua_State *L)
{
    lua_pushnumber(L, (double)(ft_calendar_ns() / 1000) / 1e6);
    return 1;
}

/* getpid(): the number of this process. */
static int sys_getpid(lua_State *L)
{
    lua_pushinteger(L, getpid());
    return 1;
}

/* cores(): of this machine that the process may use. */
static int sys_cores(lua_State *L)
{
    lua_pushinteger(L, ft_cpu_cores());
    return 1;
}

/* has_bf16(): whether products of bf16 operands are worth it here. */
static int sys_has_bf16(lua_State *L)
{
    lua_pushboolean(L, ft_cpu_bf16());
    return 1;
}

/* allow_kernels(name): none that need more of the CPU, from now on; before a run is opened. */
static int sys_allow_kernels(lua_State *L)
{
    ft_error err;
    if (ft_cpu_allow(script_check_string(L, 1), &err) != FT_OK) return script_raise(L, &err);
    return 0;
}

/* kernels(): those of this process for CPUs: "base", "avx2", "avx512", "avx512+bf16" or
 * "avx512+amx". */
static int sys_kernels(lua_State *L)
{
    lua_pushstring(L, ft_cpu_kernels_name());
    return 1;
}

/* all_kernels(): names of all kernels for CPUs, each of which needs more than the one before. */
static int sys_all_kernels(lua_State *L)
{
    lua_newtable(L);
    for (int i = 0; ft_cpu_kernels_at(i); i++) {
        lua_pushstring(L, ft_cpu_kernels_at(i));
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/* memory(): bytes that this process may fill on the host. */
static int sys_memory(lua_State *L)
{
    lua_pushnumber(L, (double)ft_cpu_memory_bytes());
    return 1;
}

/* rss(): resident bytes of the process now, and the most there ever were. */
static int sys_rss(lua_State *L)
{
    long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file) {
        if (fscanf(file, "%*s %lld", &pages) != 1) pages = 0;
        fclose(file);
    }
    struct rusage usage = {0};
    getrusage(RUSAGE_SELF, &usage);
    double now = (double)pages * (double)sysconf(_SC_PAGESIZE);
    double most = (double)usage.ru_maxrss * 1024.0; /* as it was counted last */
    lua_pushnumber(L, now);
    lua_pushnumber(L, most > now ? most : now);
    return 2;
}

/* allocs(): live blocks of ft_alloc, and allocations ever made. */
static int sys_allocs(lua_State *L)
{
    lua_pushnumber(L, (double)ft_alloc_live());
    lua_pushnumber(L, (double)ft_alloc_count());
    return 2;
}

/* What the kernel puts behind the path of a program whose file is gone. */
static const char deleted[] = " (deleted)";

/* executable(): the path of the running program, where a new one has taken its place since of that;
 * raises where none has. */
static int sys_executable(lua_State *L)
{
    ft_error err;
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0) {
        ft_fail(&err, FT_IO, "/proc/self/exe: %s", strerror(errno));
        return script_raise(L, &err);
    }
    path[n] = '\0';
    ssize_t kept = n - (ssize_t)(sizeof deleted - 1);
    if (kept > 0 && strcmp(path + kept, deleted) == 0 && access(path, F_OK) != 0) {
        path[kept] = '\0';
        if (access(path, F_OK) != 0) {
            ft_fail(&err, FT_IO, "%.200s: the program was removed while it ran", path);
            return script_raise(L, &err);
        }
    }
    lua_pushstring(L, path);
    return 1;
}

/* -- interrupts ------------------------------------------------------------------------------- */

/* interrupted(): the number of the signal that asked to stop, or nil. */
static int sys_interrupted(lua_State *L)
{
    int number = script_interrupted(L);
    if (number)
        lua_pushinteger(L, number);
    else
        lua_pushnil(L);
    return 1;
}

/* hold_interrupt(on): while on, a signal does not end Lua code, but the script asks interrupted().
 */
static int sys_hold_interrupt(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TBOOLEAN);
    script_hold_interrupt(L, lua_toboolean(L, 1));
    return 0;
}

/* hear_asks(on): while on, SIGQUIT, SIGUSR1 and SIGUSR2 do not end the program: the script looks at
 * asked(). */
static int sys_hear_asks(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TBOOLEAN);
    script_hear_asks(L, lua_toboolean(L, 1));
    return 0;
}

/* pass_over_asks(): these signals do nothing until hear_asks(false); others answer them. */
static int sys_pass_over_asks(lua_State *L)
{
    script_pass_over_asks(L);
    return 0;
}

/* asked(what): whether the signal that asks for a "report" (SIGQUIT), to "save" (SIGUSR1) or to
 * "trace" (SIGUSR2) came since the last time. */
static int sys_asked(lua_State *L)
{
    static const char *const names[] = {"report", "save", "trace"};
    const char *what = script_check_string(L, 1);
    for (int i = 0; i < SCRIPT_ASK_COUNT; i++) {
        if (strcmp(what, names[i]) != 0) continue;
        lua_pushboolean(L, script_asked(L, (script_ask)i));
        return 1;
    }
    return script_arg_error(L, 1, "expected report, save or trace, got '%.40s'", what);
}

/* clear_interrupt(): forgets the signal, as the prompt does before it reads on. */
static int sys_clear_interrupt(lua_State *L)
{
    script_clear_interrupt(L);
    lua_sethook(L, NULL, 0, 0);
    return 0;
}

/* -- terminal --------------------------------------------------------------------------------- */

/* isatty(fd): whether file 0, 1 or 2 of the process is a terminal. */
static int sys_isatty(lua_State *L)
{
    lua_pushboolean(L, isatty((int)script_check_int(L, 1, 0, 2)));
    return 1;
}

/* columns(): width of the terminal at stderr or stdout, nil when there is none. */
static int sys_columns(lua_State *L)
{
    struct winsize size = {0};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 0;
    lua_pushinteger(L, size.ws_col);
    return 1;
}

/* -- files ------------------------------------------------------------------------------------ */

/* exists(path): "file", "directory", "other", or nil; and the size in bytes. */
static int sys_exists(lua_State *L)
{
    struct stat info;
    if (stat(script_check_string(L, 1), &info) != 0) return 0;
    lua_pushstring(L, S_ISREG(info.st_mode)   ? "file"
                      : S_ISDIR(info.st_mode) ? "directory"
                                              : "other");
    lua_pushnumber(L, (double)info.st_size);
    return 2;
}

/* real_path(path): the same without links and dots, nil when nothing is there. */
static int sys_real_path(lua_State *L)
{
    char path[PATH_MAX];
    if (!realpath(script_check_string(L, 1), path)) return 0;
    lua_pushstring(L, path);
    return 1;
}

/* may_write(path): whether this process may make files in a directory. */
static int sys_may_write(lua_State *L)
{
    lua_pushboolean(L, access(script_check_string(L, 1), W_OK | X_OK) == 0);
    return 1;
}

/* mkdir(path): as mkdir -p. */
static int sys_mkdir(lua_State *L)
{
    ft_error err;
    if (ft_dir_make(script_check_string(L, 1), &err) != FT_OK) return script_raise(L, &err);
    return 0;
}

/* read_file(path): its bytes. */
static int sys_read_file(lua_State *L)
{
    const char *path = script_check_string(L, 1);
    char *bytes = NULL;
    int64_t size = 0;
    ft_error err;
    if (ft_file_read(path, &bytes, &size, &err) != FT_OK) return script_raise(L, &err);
    lua_pushlstring(L, bytes, (size_t)size);
    ft_free(bytes);
    return 1;
}

/* gzip(bytes): a gzip file of them. */
static int sys_gzip(lua_State *L)
{
    ft_error err;
    void *packed = NULL;
    int64_t size = 0;
    const char *bytes = script_check_string(L, 1);
    if (ft_gzip(bytes, (int64_t)lua_objlen(L, 1), &packed, &size, &err) != FT_OK)
        return script_raise(L, &err);
    lua_pushlstring(L, packed, (size_t)size);
    ft_free(packed);
    return 1;
}

/* sha256(bytes): the digest in hexadecimal. */
static int sys_sha256(lua_State *L)
{
    uint8_t digest[FT_SHA256_BYTES];
    char text[2 * FT_SHA256_BYTES + 1];
    const char *bytes = script_check_string(L, 1);
    ft_sha256(bytes, (int64_t)lua_objlen(L, 1), digest);
    for (int i = 0; i < FT_SHA256_BYTES; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
    lua_pushstring(L, text);
    return 1;
}

/* write_file(path, bytes): replaces the file whole. */
static int sys_write_file(lua_State *L)
{
    const char *path = script_check_string(L, 1);
    script_check_string(L, 2);
    size_t size = 0;
    const char *bytes = lua_tolstring(L, 2, &size);
    ft_error err;
    if (ft_file_write(path, bytes, (int64_t)size, &err) != FT_OK) return script_raise(L, &err);
    return 0;
}

static int close_dir(lua_State *L)
{
    void **box = script_box(L, 1, "ftpipe.directory");
    if (*box) closedir(*box);
    *box = NULL;
    return 0;
}

/* list_dir(path): the names in a directory, without "." and "..", sorted. */
static int sys_list_dir(lua_State *L)
{
    const char *path = script_check_string(L, 1);
    void **box = script_box_new(L, "ftpipe.directory");
    *box = opendir(path);
    if (!*box) {
        ft_error err;
        ft_fail(&err, errno == ENOENT ? FT_NOT_FOUND : FT_IO, "%s: %s", path, strerror(errno));
        return script_raise(L, &err);
    }
    lua_getglobal(L, "table");
    lua_getfield(L, -1, "sort");
    lua_newtable(L);
    int n = 0;
    for (struct dirent *entry = readdir(*box); entry; entry = readdir(*box)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        lua_pushstring(L, entry->d_name);
        lua_rawseti(L, -2, ++n);
    }
    closedir(*box);
    *box = NULL;
    lua_pushvalue(L, -1);
    lua_insert(L, -3); /* the list stays below sort(list) */
    lua_call(L, 1, 0);
    return 1;
}

int script_bind_sys(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"time_ns", sys_time_ns},
        {"unix_time", sys_unix_time},
        {"getpid", sys_getpid},
        {"cores", sys_cores},
        {"has_bf16", sys_has_bf16},
        {"allow_kernels", sys_allow_kernels},
        {"kernels", sys_kernels},
        {"all_kernels", sys_all_kernels},
        {"memory", sys_memory},
        {"rss", sys_rss},
        {"allocs", sys_allocs},
        {"executable", sys_executable},
        {"interrupted", sys_interrupted},
        {"hold_interrupt", sys_hold_interrupt},
        {"hear_asks", sys_hear_asks},
        {"pass_over_asks", sys_pass_over_asks},
        {"asked", sys_asked},
        {"clear_interrupt", sys_clear_interrupt},
        {"isatty", sys_isatty},
        {"columns", sys_columns},
        {"exists", sys_exists},
        {"real_path", sys_real_path},
        {"may_write", sys_may_write},
        {"mkdir", sys_mkdir},
        {"read_file", sys_read_file},
        {"write_file", sys_write_file},
        {"list_dir", sys_list_dir},
        {"gzip", sys_gzip},
        {"sha256", sys_sha256},
        {NULL, NULL},
    };
    static const luaL_Reg directory_meta[] = {{"__gc", close_dir}, {NULL, NULL}};
    script_class(L, "ftpipe.directory", NULL, directory_meta);
    lua_newtable(L);
    luaL_register(L, NULL, functions);
    return 1;
}
