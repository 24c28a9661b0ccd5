/* test/worlds.h - several ranks in one process, each a thread, over an MPI in memory.
 *
 * Linked in place of transport/load.c. Small messages are sent at once, larger ones are sent when
 * they have been taken, as by MPI; a receive is done some looks after it was begun, so that those
 * of different senders or tags end in any order. Of messages above HUGE_BYTES the ends alone are
 * carried: they may be larger than memory. */
#ifndef FT_TEST_WORLDS_H
#define FT_TEST_WORLDS_H

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/thread.h"
#include "check.h"
#include "transport/world.h"

enum {
    MOST_RANKS = 4,
    MOST_LINES = 8,
    EAGER_BYTES = 4096,
    HUGE_BYTES = 1 << 24,
    END_BYTES = 64,
    MOST_LOOKS = 8
};

typedef struct packet {
    struct packet *next; /* in the box of its receiver */
    int from, tag, bytes;
    const char *data; /* the sender's; a copy of what is small */
    bool taken;
} packet;

typedef struct receipt {
    bool of_send; /* else of a receive */
    packet *of;
    char *to;
    int looks; /* that are left until it is done */
} receipt;

static struct {
    pthread_mutex_t lock;
    ft_arena *arena; /* packets, copies, receipts */
    int n_ranks;
    packet *boxes[MOST_RANKS];
    bool mute[MOST_RANKS];      /* what that rank sends is lost */
    int sends_left[MOST_RANKS]; /* until one fails; 0: none does */
    uint32_t draws;
} wires = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* What worlds have told the user, in the order in which they did. */
static struct {
    pthread_mutex_t lock;
    int n;
    char lines[MOST_LINES][1024];
} told = {.lock = PTHREAD_MUTEX_INITIALIZER};

static inline void hear_line(const char *line)
{
    pthread_mutex_lock(&told.lock);
    if (told.n < MOST_LINES) snprintf(told.lines[told.n], sizeof told.lines[0], "%s", line);
    told.n++;
    pthread_mutex_unlock(&told.lock);
}

static _Thread_local int own_rank; /* of the thread that opens a world */

/* -- what the world asks of MPI ---------------------------------------------------------------- */

/* Until the end of the program; under the lock. */
static inline void *wire_alloc(int64_t bytes)
{
    void *memory = ft_arena_alloc(wires.arena, bytes);
    if (!memory) abort();
    return memory;
}

static inline packet *wire_packet(int from, const void *data, int bytes, int tag)
{
    packet *p = wire_alloc(sizeof *p);
    *p = (packet){.from = from, .tag = tag, .bytes = bytes, .data = data};
    if (bytes > EAGER_BYTES) return p;
    char *own = wire_alloc(bytes + 1);
    if (bytes) memcpy(own, data, (size_t)bytes);
    p->data = own;
    return p;
}

static inline int wire_send(int from, const void *data, int bytes, int to, int tag, void **request)
{
    pthread_mutex_lock(&wires.lock);
    packet *p = wire_packet(from, data, bytes, tag), **end = &wires.boxes[to];
    receipt *r = wire_alloc(sizeof *r);
    *r = (receipt){.of_send = true, .of = p};
    bool fails = wires.sends_left[from] && --wires.sends_left[from] == 0;
    while (*end) end = &(*end)->next;
    p->taken = bytes <= EAGER_BYTES || wires.mute[from];
    if (!fails && !wires.mute[from]) *end = p;
    pthread_mutex_unlock(&wires.lock);
    if (!fails) *request = r;
    return fails ? -7 : 0;
}

static inline int wire_probe(int rank, int *from, int *tag, int *bytes, void **message)
{
    pthread_mutex_lock(&wires.lock);
    packet *p = wires.boxes[rank];
    if (p) wires.boxes[rank] = p->next;
    pthread_mutex_unlock(&wires.lock);
    if (!p) return 0;
    *from = p->from;
    *tag = p->tag;
    *bytes = p->bytes;
    *message = p;
    return 1;
}

static inline int wire_receive(void *message, void *data, int bytes, void **request)
{
    pthread_mutex_lock(&wires.lock);
    receipt *r = wire_alloc(sizeof *r);
    wires.draws = wires.draws * 1664525u + 1013904223u;
    *r = (receipt){.of = message, .to = data, .looks = (int)(wires.draws >> 24) % MOST_LOOKS};
    if (r->of->bytes != bytes) abort();
    pthread_mutex_unlock(&wires.lock);
    *request = r;
    return 0;
}

static inline void carry(char *to, const packet *p)
{
    size_t bytes = (size_t)p->bytes;
    if (!bytes) return;
    memcpy(to, p->data, bytes <= HUGE_BYTES ? bytes : END_BYTES);
    if (bytes > HUGE_BYTES) memcpy(to + bytes - END_BYTES, p->data + bytes - END_BYTES, END_BYTES);
}

static inline int wire_test(void **request)
{
    receipt *r = *request;
    pthread_mutex_lock(&wires.lock);
    bool done = r->of_send ? r->of->taken : r->looks-- <= 0;
    if (done && !r->of_send) {
        carry(r->to, r->of);
        r->of->taken = true;
    }
    pthread_mutex_unlock(&wires.lock);
    return done;
}

static inline int wire_close(void)
{
    return 0;
}

static inline void wire_words(int code, char *out, int size)
{
    snprintf(out, (size_t)size, "fault %d", code);
}

static inline void wire_library(char *out, int size)
{
    snprintf(out, (size_t)size, "queues 1.0");
}

/* MPI has one rank in a process, so that its functions are not told of which they are. */
#define RANK(r)                                                                                    \
    static int open_##r(int *rank, int *size)                                                      \
    {                                                                                              \
        *rank = r;                                                                                 \
        *size = wires.n_ranks;                                                                     \
        return 0;                                                                                  \
    }                                                                                              \
    static int send_##r(const void *data, int bytes, int to, int tag, void **request)              \
    {                                                                                              \
        return wire_send(r, data, bytes, to, tag, request);                                        \
    }                                                                                              \
    static int probe_##r(int *from, int *tag, int *bytes, void **message)                          \
    {                                                                                              \
        return wire_probe(r, from, tag, bytes, message);                                           \
    }
RANK(0)
RANK(1)
RANK(2)
RANK(3)
#undef RANK

#define TABLE(r)                                                                                   \
    {                                                                                              \
        FT_MPI_VERSION, open_##r, send_##r, probe_##r, wire_receive, wire_test, wire_close,        \
            wire_words, wire_library                                                               \
    }
static const ft_mpi mpi_tables[MOST_RANKS] = {TABLE(0), TABLE(1), TABLE(2), TABLE(3)};
#undef TABLE

ft_status load_mpi(const ft_mpi **out, ft_error *err)
{
    (void)err;
    *out = &mpi_tables[own_rank];
    return FT_OK;
}

void describe_build(const char *version, char *out, size_t size)
{
    snprintf(out, size, "%s, build of a test", version);
}

/* -- programs ---------------------------------------------------------------------------------- */

/* CHECK, from any rank. */
#define HOLDS(condition) holds((condition), __FILE__, __LINE__, #condition)

static inline bool holds(bool ok, const char *file, int line, const char *what)
{
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&one);
    check_note(ok, file, line, what);
    pthread_mutex_unlock(&one);
    return ok;
}

typedef struct rank_program {
    int rank;
    void (*run)(int rank, void *user);
    void *user;
} rank_program;

static inline void *run_rank(void *arg)
{
    const rank_program *program = arg;
    own_rank = program->rank;
    program->run(program->rank, program->user);
    return NULL;
}

/* Runs a program of n ranks to its end. */
static inline void run_ranks(int n, void (*run)(int rank, void *user), void *user)
{
    pthread_t threads[MOST_RANKS];
    rank_program programs[MOST_RANKS];
    ft_error err;
    wires.n_ranks = n;
    wires.arena = ft_arena_new();
    memset(wires.mute, 0, sizeof wires.mute);
    memset(wires.sends_left, 0, sizeof wires.sends_left);
    for (int r = 0; r < n; r++) {
        programs[r] = (rank_program){r, run, user};
        if (ft_thread_start(&threads[r], run_rank, &programs[r], &err) != FT_OK) abort();
    }
    for (int r = 0; r < n; r++) pthread_join(threads[r], NULL);
    memset(wires.boxes, 0, sizeof wires.boxes); /* of worlds that failed */
    ft_arena_free(wires.arena);
}

/* -- programs ---------------------------------------------------------------------------------- */

enum { TAG = FT_FIRST_TAG };

static const int64_t LIMIT_NS = INT64_C(600000000000);
static const ft_world_self self = {"1", 1, "a processor"};

static inline ft_world *meet(void)
{
    ft_world *w = NULL;
    ft_error err = {FT_OK, ""};
    if (!HOLDS(ft_world_open(&w, &self, hear_line, &err) == FT_OK))
        fprintf(stderr, "%s\n", err.message);
    return w;
}

/* A word that the other may go on. */
static inline void say_go(ft_world *w, int to)
{
    ft_world_send(w, to, TAG + 1, NULL, 0, true);
}

static inline void await_go(ft_world *w)
{
    ft_letter letter;
    bool got = false;
    HOLDS(ft_world_take(w, TAG + 1, LIMIT_NS, &letter, &got, NULL) == FT_OK && got);
    if (got) ft_world_drop(w, &letter);
}

#endif
