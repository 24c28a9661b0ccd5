/* transport/transport.h - the processes of a run, and messages between them.
 *
 * A launcher of MPI starts the processes and says who they are; nothing here listens on a port.
 * Messages with the same tag from one process to another arrive in the order in which they were
 * sent; large ones go in pieces. Whoever waits carries messages on (ft_world_progress); a thread of
 * the world does it where nobody waits, and watches over the others: a process that ended or does
 * not answer is an error of every other one. */
#ifndef FT_TRANSPORT_H
#define FT_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/gate.h"

typedef struct ft_world ft_world;

enum { FT_HOST_NAME = 64, FT_AT_WORDS = 160, FT_REMARK_WORDS = 256, FT_PROCESSOR_WORDS = 96 };

/* Callers' tags are from here on; lower ones are the world's own. */
enum { FT_FIRST_TAG = 8 };

/* Tells the user something at once, from any thread: a line, without its end. */
typedef void ft_world_say(const char *line);

/* What a process tells the others of itself when they meet. */
typedef struct ft_world_self {
    const char *version;   /* of the program: the same everywhere, as the build is */
    int64_t memory_bytes;  /* that its machine has for it and others together */
    const char *processor; /* and its kernels, in words, cut at FT_PROCESSOR_WORDS */
} ft_world_self;

/* Meets the other processes that a launcher started with this one. `says` hears of losses when they
 * are known, once: launchers end a process soon after another one; and when the others have not
 * come for 8 seconds, which is no error. FT_HANG when MPI has started and others say nothing for
 * 60 seconds, naming their ranks. FT_UNSUPPORTED when this program has no module for MPI,
 * FT_INVALID when they are not all the same build of the same version, naming the rank. Whoever has
 * met others before it failed gets a world all the same, which has failed, to be closed. */
ft_status ft_world_open(ft_world **out, const ft_world_self *self, ft_world_say *says,
                        ft_error *err);
/* Whether there is a module for MPI: its path. */
bool ft_world_module(char *path, int size);
/* Waits until all that was sent has arrived, and for the others to close; after a failure it does
 * not. NULL is accepted. */
void ft_world_close(ft_world *world);

/* This process's number, from 0; how many there are; the host of one, as it calls itself; what it
 * said of its processor. */
int ft_world_rank(const ft_world *world);
int ft_world_size(const ft_world *world);
const char *ft_world_host(const ft_world *world, int rank);
const char *ft_world_processor(const ft_world *world, int rank);
/* Whether that process is on this machine, with the same clock. */
bool ft_world_is_near(const ft_world *world, int rank);
/* By rank, the part of its machine's memory that each process may fill: as much as the others
 * there. Where that is less than an eighth more than another one's it is the same, so that machines
 * of one kind have devices that are alike. */
void ft_world_memories(const ft_world *world, int64_t *out);

/* How far that process's clock (base/clock.h) is before this one's, and by how much that may be
 * wrong; both 0 for one on this machine. Beats tell, of rank 0 or to it: false of others, and until
 * a second has passed. */
bool ft_world_clock(ft_world *world, int rank, int64_t *offset_ns, int64_t *error_ns);
/* The MPI that carries messages, in a word: "Open MPI v4.1.4". */
void ft_world_library(const ft_world *world, char *out, int size);

/* Sends; the bytes stay as they are until the receiver has them (the caller knows when), or with
 * `copies` they are the caller's again at once. From any thread; a failure is the world's. */
void ft_world_send(ft_world *world, int peer, int tag, const void *data, int64_t bytes,
                   bool copies);

/* Who takes messages of the tags from first_tag on, n_tags of them. Both functions are called while
 * somebody carries messages on, one at a time; they must not wait. */
typedef struct ft_receiver {
    int first_tag, n_tags;
    void *user;
    /* Where a message goes; it has no more bytes than the sender and `user` agreed on. */
    void *(*place)(void *user, int peer, int tag, int64_t bytes);
    void (*arrived)(void *user, int peer, int tag, int64_t bytes);
} ft_receiver;

enum { FT_WORLD_RECEIVERS = 16 };

/* FT_INVALID when there are too many. Copied. */
ft_status ft_world_listen(ft_world *world, const ft_receiver *receiver, ft_error *err);
/* No message goes to that user after it returned. */
void ft_world_forget(ft_world *world, const void *user);

/* A message that nobody listens for: it waits until it is taken. */
typedef struct ft_letter {
    int peer, tag;
    char *data; /* the taker's until ft_world_drop */
    int64_t bytes;
} ft_letter;

/* Takes the oldest one of the tag; waits for timeout_ns at most (negative: for ever), then *got is
 * false. The world's failure otherwise. */
ft_status ft_world_take(ft_world *world, int tag, int64_t timeout_ns, ft_letter *out, bool *got,
                        ft_error *err);
void ft_world_drop(ft_world *world, ft_letter *letter);

/* Replies are messages that begin with an ft_error: that of who replies, or FT_OK. */

/* Waits for one: *theirs is its error, with the rank and host in front when it is a failure. */
ft_status ft_world_take_reply(ft_world *world, int tag, ft_letter *out, ft_error *theirs,
                              ft_error *err);
/* Waits for one of every other process: `hear`, unless it is NULL, gets what is behind the error of
 * each that tells of no failure. The first failure that one tells of. */
ft_status ft_world_take_replies(ft_world *world, int tag,
                                void (*hear)(void *user, int rank, char *data), void *user,
                                ft_error *err);
/* Puts the rank and host of a process in front of its failure. */
void ft_world_name(const ft_world *world, int rank, ft_error *failure);

/* What passes between two processes when nothing else of theirs does. */
typedef struct ft_link_rates {
    double latency_ns; /* of a word, one way */
    double to_bytes_per_s, from_bytes_per_s;
    int64_t eager_bytes; /* a larger message is announced and asked for first, which takes two
                            latencies more; 0: none was seen to be */
} ft_link_rates;

/* Measures the way to another process, which calls the same for this one meanwhile; the higher rank
 * of the two leaves *out alone. FT_HANG when it does not answer; the world's failure. */
ft_status ft_world_measure(ft_world *world, int other, ft_link_rates *out, ft_error *err);

/* A thread that looks for messages by itself now and then begins to work, or ends: meanwhile who
 * waits for a letter leaves looking to it, and does so again behind the last one's end. */
void ft_world_works(ft_world *world, bool begins);
/* Carries on what is under way, if no other thread does. */
void ft_world_progress(ft_world *world);
/* ft_gate_wait that carries messages on meanwhile. */
bool ft_world_wait(ft_world *world, ft_gate *gate, uint32_t target, const atomic_bool *stop,
                   int64_t timeout_ns);
/* Likewise, but a failure of the world ends it, which it gives; *met: the gate opened so far. The
 * limit is kept to a tenth of a second. */
ft_status ft_world_await(ft_world *world, ft_gate *gate, uint32_t target, const atomic_bool *stop,
                         int64_t timeout_ns, bool *met, ft_error *err);

/* The first failure: of messages, or of another process. One with FT_HANG, a loss, was said. */
ft_status ft_world_health(ft_world *world, ft_error *err);
/* What is said besides of a loss, as what can be gone on from; copied, cut at FT_REMARK_WORDS;
 * NULL: nothing. */
void ft_world_remark(ft_world *world, const char *words);
/* Calls `fails` once with the first failure, at once if there was one; from any thread. */
void ft_world_on_failure(ft_world *world, void (*fails)(void *user, const ft_error *error),
                         void *user);
/* `tells` is asked from time to time for what this process is at, for the others to say when it is
 * lost; whoever was asked before is not. */
void ft_world_on_ask(ft_world *world, void (*tells)(void *user, char out[FT_AT_WORDS]), void *user);
/* That one is not asked any more, if it still was. */
void ft_world_off_ask(ft_world *world, const void *user);
/* Tells every other process why this one gives up: for them it is lost, with these words. */
void ft_world_give_up(ft_world *world, const ft_error *why);

#endif
