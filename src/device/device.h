/* device/device.h - what executes: descriptions of devices, and the threads of one.
 *
 * A device here is one element of a pipeline's cluster: a virtual CPU device with its own threads
 * and memory budget, or a described one that exists only for planning ("sim"). The engine gives
 * every device one worker thread; a device of T threads has a team of T (the worker and T-1
 * helpers) that kernels split their rows over. */
#ifndef FT_DEVICE_H
#define FT_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

typedef enum { FT_DEVICE_CPU, FT_DEVICE_SIM, FT_DEVICE_GPU } ft_device_kind;

/* What is asked of a kind of device. */
typedef struct ft_device_traits {
    bool executes; /* what is planned for it; else it is there for plans alone */
    bool in_host;  /* it computes on this machine's cores, in their memory */
    bool measures; /* profiles: what work takes on it can be measured */
    bool gaps;     /* plans may have runs measure how far weights go after forwards read them */
} ft_device_traits;

/* By kind: the one place where kinds are told apart, but for their drivers and kernels. */
extern const ft_device_traits ft_device_kinds[];

struct ft_driver; /* device/driver.h: what it can do */

/* One device as planned for. Rates are what a cost model may count on, not promises. */
typedef struct ft_device {
    ft_device_kind kind;
    const struct ft_driver *driver; /* NULL: it exists for planning only */
    int index;                      /* position in the cluster, 0-based */
    int n_threads;                  /* threads of a CPU device, 1 for others */
    int card;                       /* that a GPU device is on; several may be on one */
    int rank;                       /* of the process that has it, among those of a run */
    int64_t memory_bytes;           /* budget */
    bool of_machine;                /* which is a part of the machine's memory: none was said */
    double flops_per_s;             /* f32 multiply-adds count twice */
    double bf16_flops_per_s;        /* the same of products of such numbers, with f32 sums; */
    double f16_flops_per_s;         /* 0: it has none, or they are not known */
    double tf32_flops_per_s;        /* of f32 that is rounded to 10 bits of fraction */
    double bytes_per_s;             /* memory bandwidth */
    double link_bytes_per_s;        /* to another device */
    int64_t link_latency_ns;
    int64_t library_bytes; /* memory that a library of products works in, beside what a plan
                              places; 0: there is none, or it needs none */
    double host_limit; /* bytes a second that copies to and from host memory are held to, each way;
                          0: they take what they can */
    bool unpacked;     /* products read weights as they are stored: no packed copies are kept */
    char name[32];     /* "cpu:0", "sim:3 2080ti" */
} ft_device;

enum { FT_MAX_DEVICES = 1024, FT_CARDS = 15 };

/* A card that can be planned for without being here; rates are peaks. */
typedef struct ft_card {
    const char *name;
    double memory_bytes, flops_per_s, bytes_per_s, link_bytes_per_s;
    double bf16_flops_per_s, f16_flops_per_s; /* dense, with f32 sums; 0: none */
} ft_card;

extern const ft_card ft_cards[FT_CARDS];
/* Cards whose tensor cores multiply bf16 multiply tf32 half as fast (the makers' papers). */
static inline double ft_tf32_rate(double bf16_flops_per_s)
{
    return bf16_flops_per_s / 2;
}
/* The parts of a card's peaks that work on it reaches. */
extern const double FT_CARD_PRODUCTS, FT_CARD_MEMORY, FT_CARD_TENSOR;
/* The card of that name, or NULL. */
const ft_card *ft_card_find(const char *name);
/* Insertions, deletions and replacements of letters that turn a into b (Levenshtein's distance),
 * in upper or lower case; of a longer b than 32 letters its length. */
int ft_letters_apart(const char *a, const char *b);
/* The card whose name is nearest to a misspelt one; NULL when none is near. */
const ft_card *ft_card_nearest(const char *name);

/* Reads a device list: "cpu" (one device of one thread per core), "cpu:N", "cpu:NxT", "cpu:N/2GB"
 * (budget of each), "cpu:N/2GB@3GB/s" (and what is copied to or from host memory beside what it
 * computes is held to that rate, each way), "cuda" (every card), "cuda:0,1", "cuda:0/4x11GB" (four
 * devices on one card), "sim:8x11GB", "sim:8x2080ti", "sim:4x2080ti+2x3090/20GB". GB is 10^9, GiB
 * 2^30.
 * "hosts:2xcpu:4" are the devices of two processes that a launcher of MPI starts, four each.
 * Writes at most FT_MAX_DEVICES into out and the count into *n. FT_INVALID says what was
 * expected, FT_UNSUPPORTED why there are no cards. What is said of cpu and cuda holds for every
 * name of ft_drivers: they count devices, or name cards. */
ft_status ft_devices_parse(const char *text, ft_device *out, int *n, ft_error *err);

/* Cores that this process may use, and bytes of memory that it may fill. */
int ft_cpu_cores(void);
int64_t ft_cpu_memory_bytes(void);

/* The instruction sets that kernels are compiled for, best last. */
typedef enum { FT_ISA_BASE, FT_ISA_AVX2, FT_ISA_AVX512, FT_ISA_COUNT } ft_isa;

/* The best one that this CPU and its operating system run, and ft_cpu_allow allows. */
ft_isa ft_cpu_isa(void);
const char *ft_isa_name(ft_isa isa);

/* Likewise: whether vectors of FT_ISA_AVX512 multiply bf16, and whether there is a matrix unit for
 * bf16 (Intel's AMX) beside them, that this process may use: asked for once, before threads that
 * use it begin. */
bool ft_cpu_bf16(void);
bool ft_cpu_tiles(void);
/* Whether those vectors take longer for bf16 than for f32: Intel's cores that have such a unit. */
bool ft_cpu_slow_bf16(void);

/* The kernels that this process runs: that set's name, or "avx512+bf16" or "avx512+amx". */
const char *ft_cpu_kernels_name(void);

/* The i-th of all names of kernels, each of which needs more of the CPU than the one before; NULL
 * past the last. */
const char *ft_cpu_kernels_at(int i);

/* Allows these, by name, and none that need more of the CPU, from now on; other threads do not run
 * kernels meanwhile. FT_INVALID: there are none of that name. */
ft_status ft_cpu_allow(const char *kernels, ft_error *err);

/* Threads that work on one call together. */
typedef struct ft_team ft_team;

/* A team of n_threads, the caller of ft_team_run included; 1 makes no thread at all. */
ft_status ft_team_new(ft_team **out, int n_threads, ft_error *err);
void ft_team_free(ft_team *team);
int ft_team_size(const ft_team *team); /* NULL counts as 1 */

/* Calls work(arg, i) for every i in [0, n), spread over the team in a fixed assignment; returns
 * when all are done; with n = the size of the team, every thread does one. Only the thread that
 * owns the team may call it. team NULL: the caller does all. */
void ft_team_run(ft_team *team, int n, void (*work)(void *arg, int i), void *arg);

/* Work is cut into pieces of fixed size where what is computed must not depend on the team: how
 * many of n there are, and where piece i, which begins at i * piece, ends. */
static inline int ft_pieces(int64_t n, int64_t piece)
{
    return (int)((n + piece - 1) / piece);
}
static inline int64_t ft_piece_end(int64_t n, int64_t piece, int i)
{
    int64_t end = ((int64_t)i + 1) * piece;
    return end < n ? end : n;
}

#endif
