/* device/cpu.c - what this machine has for this process: cores, memory, instruction sets. */
#include "device/device.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__linux__) && defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#endif

int ft_cpu_cores(void)
{
    cpu_set_t set; /* 1024 cores; a larger machine answers with an error, and sysconf counts */
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

/* -- memory --------------------------------------------------------------------------------- */

/* What the kernel thinks can be filled without swapping; physical memory when it does not say. */
static int64_t system_memory(void)
{
    long long kib = 0;
    char line[128];
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %lld kB", &kib) == 1) break;
    if (f) fclose(f);
    if (kib > 0) return kib * 1024;
    return (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
}

/* The number in a file; INT64_MAX when there is none ("max", or no such file). */
static int64_t read_limit(const char *path)
{
    long long limit = 0;
    FILE *f = fopen(path, "re");
    if (!f) return INT64_MAX;
    bool found = fscanf(f, "%lld", &limit) == 1 && limit > 0;
    fclose(f);
    return found ? limit : INT64_MAX;
}

/* The lowest limit of a control group and its ancestors. group is "/a/b" and is eaten up. */
static int64_t group_limit(const char *root, char *group, const char *file)
{
    int64_t lowest = INT64_MAX;
    for (;;) {
        char path[1024];
        snprintf(path, sizeof path, "%s%s/%s", root, group, file);
        int64_t limit = read_limit(path);
        if (limit < lowest) lowest = limit;
        char *slash = strrchr(group, '/');
        if (!slash) return lowest;
        *slash = 0;
    }
}

/* Lines of /proc/self/cgroup are "id:controllers:path"; version 2 has id 0 and no controllers.
 * Inside a container the path may be the host's: the walk ends at the root of the mount in any
 * case. */
static int64_t cgroup_memory(void)
{
    int64_t lowest = INT64_MAX;
    char line[768];
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path) continue;
        *path++ = 0;
        int64_t limit = INT64_MAX;
        if (!controllers[1])
            limit = group_limit("/sys/fs/cgroup", path, "memory.max");
        else if (strstr(controllers, "memory"))
            limit = group_limit("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes");
        if (limit < lowest) lowest = limit;
    }
    if (f) fclose(f);
    return lowest;
}

int64_t ft_cpu_memory_bytes(void)
{
    int64_t system = system_memory(), group = cgroup_memory();
    return system < group ? system : group;
}

/* -- instruction sets ----------------------------------------------------------------------- */

/* Kernels, each of which needs more than the one before; the first are FT_ISA_COUNT sets. */
enum { VECTORS_OF_BF16 = FT_ISA_COUNT, MATRIX_UNIT, N_KERNELS };
static const char *const names[N_KERNELS] = {"base", "avx2", "avx512", "avx512+bf16", "avx512+amx"};

static int most = N_KERNELS - 1; /* that are allowed */
static struct {
    ft_isa isa;
    bool bf16, tiles, slow_bf16;
} found;

static ft_isa best_isa(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return FT_ISA_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return FT_ISA_AVX2;
#endif
    return FT_ISA_BASE;
}

#if defined(__linux__) && defined(__x86_64__)

static bool has_bf16(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && a >> 5 & 1;
}

/* AVX512-FP16 came with the first of Intel's cores that have a matrix unit, whether it may be used
 * or not: they multiply a pair of bf16 every other cycle where f32 goes twice a cycle. */
static bool has_slow_bf16(void)
{
    enum { FP16 = 1 << 23 };
    unsigned a, b, c, d;
    return __builtin_cpu_is("intel") && __get_cpuid_count(7, 0, &a, &b, &c, &d) && d & FP16;
}

/* The matrix unit's registers are large, so that Linux wants to be asked for them (its
 * Documentation/arch/x86/xstate.rst). */
static bool tiles_granted(void)
{
    enum { REQUEST_STATE = 0x1023, TILE_DATA = 18, BF16 = 1 << 22, TILE = 1 << 24 };
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & BF16) || !(d & TILE)) return false;
    return !syscall(SYS_arch_prctl, REQUEST_STATE, TILE_DATA);
}

#else

static bool has_bf16(void)
{
    return false;
}

static bool has_slow_bf16(void)
{
    return false;
}

static bool tiles_granted(void)
{
    return false;
}

#endif

static void look(void)
{
    found.isa = best_isa();
    if (most < (int)found.isa) found.isa = (ft_isa)most;
    found.bf16 = most >= VECTORS_OF_BF16 && found.isa == FT_ISA_AVX512 && has_bf16();
    found.slow_bf16 = found.bf16 && has_slow_bf16();
    found.tiles = most >= MATRIX_UNIT && found.bf16 && tiles_granted();
}

static void look_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, look);
}

ft_status ft_cpu_allow(const char *kernels, ft_error *err)
{
    char list[64] = "";
    look_once();
    for (int i = 0; i < N_KERNELS; i++) {
        if (!strcmp(kernels, names[i])) {
            most = i;
            look();
            return FT_OK;
        }
        snprintf(list + strlen(list), sizeof list - strlen(list), i ? ", %s" : "%s", names[i]);
    }
    return ft_fail(err, FT_INVALID, "FTPIPE_KERNELS is '%.40s', expected one of %s", kernels, list);
}

ft_isa ft_cpu_isa(void)
{
    look_once();
    return found.isa;
}

bool ft_cpu_bf16(void)
{
    look_once();
    return found.bf16;
}

bool ft_cpu_tiles(void)
{
    look_once();
    return found.tiles;
}

bool ft_cpu_slow_bf16(void)
{
    look_once();
    return found.slow_bf16;
}

const char *ft_isa_name(ft_isa isa)
{
    return (unsigned)isa < FT_ISA_COUNT ? names[isa] : "unknown";
}

const char *ft_cpu_kernels_at(int i)
{
    return i < N_KERNELS ? names[i] : NULL;
}

const char *ft_cpu_kernels_name(void)
{
    return names[ft_cpu_tiles()  ? MATRIX_UNIT
                 : ft_cpu_bf16() ? VECTORS_OF_BF16
                                 : (int)ft_cpu_isa()];
}
