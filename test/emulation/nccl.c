/* test/emulation/nccl.c - the functions of NCCL that the program uses, on the host: two processes
 * of one machine share a page, through which what a stream sends comes to the stream that receives
 * it. A send ends when all was taken, as one of NCCL may. EMULATED_NO_NCCL: there is none;
 * EMULATED_NCCL_VERSION: what it says it is. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emulation.h"
#include "runtime.h"

enum { ROOM = 1 << 16, NAP_US = 100, INVALID = 4, USAGE = 5, UNKNOWN = 99 };

/* What both have. Bytes so far; number n is at n modulo ROOM. */
typedef struct shared {
    atomic_bool here[2]; /* who has come */
    _Atomic uint64_t sent, taken;
    char bytes[ROOM];
} shared;

struct nccl_comm_s {
    shared *shared;
    nccl_id id;
    int rank;
    atomic_bool aborted;
    atomic_int failed; /* what a stream found */
    atomic_int users;  /* the caller, and passes that streams have not ended */
};

/* What a call answers before it does anything: that of EMULATED_NCCL_FAIL_AT, counted from 1,
 * fails, and from then on nothing else does. Calls that ask for a state are made as often as time
 * allows: they are counted apart, from -1 downwards. */
static int begin_counted(atomic_long *calls, int step)
{
    const char *at = getenv("EMULATED_NCCL_FAIL_AT");
    if (at && atomic_fetch_add(calls, step) + step == strtol(at, NULL, 10)) return UNKNOWN;
    return emu_begin();
}

static int begin(void)
{
    static atomic_long calls;
    return begin_counted(&calls, 1);
}

static int begin_asking(void)
{
    static atomic_long calls;
    return begin_counted(&calls, -1);
}

static int version(int *out)
{
    const char *told = getenv("EMULATED_NCCL_VERSION");
    *out = told ? atoi(told) : 22100;
    return 0;
}

static int id_new(nccl_id *out)
{
    static atomic_int number;
    int answer = begin();
    if (answer) return answer;
    memset(out, 0, sizeof *out);
    snprintf(out->bytes, sizeof out->bytes, "/ft-emulated-%d-%d", (int)getpid(),
             atomic_fetch_add(&number, 1));
    return 0;
}

static shared *map(const char *name)
{
    int file = shm_open(name, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof(shared))) return NULL;
    void *at = mmap(NULL, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return at == MAP_FAILED ? NULL : at;
}

/* Whoever comes second takes the name away. */
static int open_comm(nccl_comm *out, int n, nccl_id id, int rank, nccl_config *config)
{
    int answer = begin();
    if (answer) return answer;
    if (n != 2 || config->magic != 0xcafebeef || config->blocking) return INVALID;
    nccl_comm c = calloc(1, sizeof *c);
    *c = (struct nccl_comm_s){.shared = map(id.bytes), .id = id, .rank = rank, .users = 1};
    if (!c->shared) abort();
    if (atomic_exchange(&c->shared->here[rank], true)) return USAGE;
    if (atomic_load(&c->shared->here[!rank])) shm_unlink(id.bytes);
    atomic_fetch_add(&emulated.open, 1);
    *out = c;
    return NCCL_IN_PROGRESS;
}

static int state(nccl_comm c, int *out)
{
    int answer = begin_asking();
    *out = atomic_load(&c->failed);
    if (!*out && !atomic_load(&c->shared->here[!c->rank])) *out = NCCL_IN_PROGRESS;
    return answer;
}

static void leave(nccl_comm c)
{
    if (atomic_fetch_sub(&c->users, 1) != 1) return;
    if (!atomic_load(&c->shared->here[!c->rank])) shm_unlink(c->id.bytes);
    munmap(c->shared, sizeof *c->shared);
    free(c);
    atomic_fetch_sub(&emulated.open, 1);
}

/* -- on streams -------------------------------------------------------------------------------- */

typedef struct passing {
    nccl_comm comm;
    char *memory;
    uint64_t bytes;
} passing;

/* Up to n bytes at one end, as many as there is room or are there; the other end is gone: none. */
static uint64_t move(nccl_comm c, char *at, uint64_t n)
{
    shared *s = c->shared;
    _Atomic uint64_t *mine = c->rank ? &s->taken : &s->sent;
    uint64_t begin = atomic_load(mine), sent = atomic_load(&s->sent), moved = 0;
    uint64_t most = c->rank ? sent - begin : ROOM - (begin - atomic_load(&s->taken));
    if (n > most) n = most;
    while (moved < n) {
        uint64_t where = (begin + moved) % ROOM, part = n - moved;
        if (part > ROOM - where) part = ROOM - where;
        if (c->rank)
            memcpy(at + moved, s->bytes + where, part);
        else
            memcpy(s->bytes + where, at + moved, part);
        moved += part;
    }
    atomic_store(mine, begin + n);
    return n;
}

static bool move_all(nccl_comm c, void *memory, uint64_t n)
{
    char *at = memory;
    while (n > 0 && !atomic_load(&c->aborted)) {
        uint64_t moved = move(c, at, n);
        at += moved;
        n -= moved;
        if (!moved) usleep(NAP_US);
    }
    return n == 0;
}

/* The number of bytes goes first: both ends mean the same. */
static void pass(const void *arg)
{
    const passing *p = arg;
    nccl_comm c = p->comm;
    uint64_t n = p->bytes;
    bool whole = move_all(c, &n, sizeof n);
    if (whole && n != p->bytes) atomic_store(&c->failed, INVALID);
    if (whole && n == p->bytes) whole = move_all(c, p->memory, n);
    while (whole && !c->rank && !atomic_load(&c->aborted) &&
           atomic_load(&c->shared->taken) != atomic_load(&c->shared->sent))
        usleep(NAP_US);
    leave(c);
}

static int give(nccl_comm c, void *memory, size_t bytes, int type, int peer, cu_stream stream)
{
    const passing p = {c, memory, bytes};
    int answer = begin();
    if (answer) return answer;
    if (type != NCCL_BYTES || peer == c->rank) return INVALID;
    atomic_fetch_add(&c->users, 1);
    atomic_fetch_add(&emulated.passes, 1);
    emu_submit(stream, pass, &p, sizeof p);
    return 0;
}

static int send_to(const void *from, size_t n, int type, int peer, nccl_comm c, cu_stream stream)
{
    return give(c, (void *)(uintptr_t)from, n, type, peer, stream);
}

static int receive_from(void *to, size_t n, int type, int peer, nccl_comm c, cu_stream stream)
{
    return give(c, to, n, type, peer, stream);
}

/* -- ending ------------------------------------------------------------------------------------ */

/* Streams that have a pass still to come find that it is over. */
static int abort_comm(nccl_comm c)
{
    atomic_store(&c->aborted, true);
    leave(c);
    return 0;
}

static int close_comm(nccl_comm c)
{
    leave(c);
    return 0;
}

const ft_nccl_api *emu_nccl(ft_error *err)
{
    static const ft_nccl_api table = {version, id_new,       open_comm,  state,
                                      send_to, receive_from, abort_comm, close_comm};
    if (getenv("EMULATED_NO_NCCL"))
        ft_fail(err, FT_UNSUPPORTED, "NCCL is not found: as told");
    else if (ft_nccl_check(&table, err) == FT_OK)
        return &table;
    return NULL;
}
