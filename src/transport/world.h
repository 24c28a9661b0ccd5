/* transport/world.h - what the files of the room share. */
#ifndef FT_TRANSPORT_WORLD_H
#define FT_TRANSPORT_WORLD_H

#include <poll.h>
#include <pthread.h>

#include "transport/mpi.h"
#include "transport/transport.h"

/* The world's own tags. */
enum { TAG_HELLO, TAG_BYE, TAG_BEAT, TAG_LOST, TAG_PROBE, TAG_READY };

/* Who says nothing for so long is lost; at first, as many as share a core may need longer. */
enum { SILENT_MS = 8000, HELLO_MS = 60000 };

/* A message is as many full pieces as it has, and one that is less, maybe nothing. */
enum { PIECE = 1 << 30 };

/* What a process says of itself first. */
typedef struct hello {
    char host[FT_HOST_NAME], machine[96], build[80], processor[FT_PROCESSOR_WORDS];
    int64_t pid, memory_bytes;
} hello;

/* What a beat says of time; of the last beat that came the other way, when that was sent, by the
 * clock there (0: none has come), and for how long it has been here. */
typedef struct stamp {
    int64_t sent_ns, echo_ns, held_ns;
} stamp;

typedef struct beat {
    stamp time;
    char at[FT_AT_WORDS];
} beat;

/* The other clock less ours, as far as it is known: off by error_ns at most when it was seen. */
typedef struct sight {
    int64_t offset_ns, error_ns, seen_ns; /* seen_ns 0: never */
} sight;

/* What others know of a process. */
typedef struct peer {
    hello hello;
    _Atomic int64_t heard_ns; /* when it said something last */
    char at[FT_AT_WORDS];
    int64_t sent_ns, came_ns; /* its last beat, by its clock and by ours */
    sight clock;
    bool is_ready; /* to measure the way between it and this process */
} peer;

/* A piece under way; of the last of a message that was copied, `own` is the copy. */
typedef struct sending {
    int peer, tag, bytes;
    const char *data;
    char *own;
    void *request;
} sending;

typedef struct receiving {
    int peer, tag;
    void *request;
    bool heard;     /* by `to`; else it is a letter */
    ft_receiver to; /* as it was when the message came */
    char *data;
    int64_t bytes; /* of the whole message, this piece its last; -1: more follow */
} receiving;

/* Where further pieces of a message go. */
typedef struct partial {
    int peer, tag;
    char *base;
    int64_t bytes;
} partial;

/* A growing array. */
typedef struct list {
    void *items;
    int n, room;
} list;

struct ft_world {
    const ft_mpi *mpi;
    int rank, size;
    peer *peers;
    struct pollfd *ends; /* by rank: what the kernel says when a process here has ended; fd -1 */
    pthread_mutex_t carrying; /* held by who carries messages on: the lists below, and MPI */
    list sends, receives, partials, begun_letters;
    ft_receiver receivers[FT_WORLD_RECEIVERS];
    int n_receivers;
    _Atomic int64_t carried_ns, moved_ns; /* when somebody did, and something came or went */
    atomic_bool reaches_far;              /* some of other machines had begun and not ended */
    atomic_int working;                   /* threads of ft_world_works */
    pthread_mutex_t lock;                 /* of what follows */
    list waiting;                         /* sends that are to begin */
    list letters;
    ft_error failure;
    int64_t hello_ms; /* for which rank 0 waits for the others */
    ft_world_say *says;
    char remark[FT_REMARK_WORDS];
    void (*fails)(void *user, const ft_error *error);
    void *fails_user;
    void (*tells)(void *user, char out[FT_AT_WORDS]);
    void *tells_user;
    ft_gate came; /* letters so far */
    pthread_t helper;
    bool helps; /* the thread is there */
    atomic_bool stop, failed;
    atomic_bool parts; /* the others may end */
};

/* An item at the end, of `size` bytes, zeroed; NULL without memory. */
void *list_add(list *l, int64_t size);
/* Without item i; the order stays. */
void list_remove(list *l, int i, int64_t size);

/* load.c: FT_UNSUPPORTED when there is no module, or not one of this program. */
ft_status load_mpi(const ft_mpi **out, ft_error *err);
/* "VERSION, build DIGEST" of this program. */
void describe_build(const char *version, char *out, size_t size);
/* carry.c: moves what can be moved; the caller holds `carrying`. */
void world_carry(ft_world *world);
/* Whether something is on its way into the memory of that user; likewise. */
bool world_receives(const ft_world *world, const void *user);
/* There is no memory for a message, which is a failure of the world. */
void world_fail_memory(ft_world *world);
/* world.c: notes the first failure, says it when it is a loss, and tells who wants to know. */
void world_fail(ft_world *world, const ft_error *error);
/* Waits until all that was to be sent is sent, or for so long; negative: without a limit. */
void world_flush(ft_world *world, int64_t limit_ns);
/* ft_world_open with another limit than HELLO_MS. */
ft_status world_open_within(ft_world **out, const ft_world_self *self, ft_world_say *says,
                            int64_t limit_ms, ft_error *err);
/* watch.c: the thread that carries on and watches; stops at world->stop. */
void *world_help(void *arg);
/* Opens what tells of the end of processes on this machine; closes it. */
void watch_open(ft_world *world);
void watch_close(ft_world *world);
/* Tells the others that have said hello, but the one that is lost, and lets that out. */
void world_tell_loss(ft_world *world, int lost, const ft_error *error);
/* clock.c: takes a stamp that came now, where it tells more than the best so far; that sight, less
 * sure with time, false when there is none. */
void clock_note(sight *best, const stamp *heard, int64_t now_ns);
bool clock_read(const sight *best, int64_t now_ns, int64_t *offset_ns, int64_t *error_ns);
/* A letter of the world's own tags, which is not kept. */
void watch_hear(ft_world *world, int from, int tag, const char *data, int64_t bytes);

#endif
