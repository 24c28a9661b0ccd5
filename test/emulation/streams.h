/* test/emulation/streams.h - what is given to an emulated stream. */
#ifndef FT_EMULATED_STREAMS_H
#define FT_EMULATED_STREAMS_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "nvidia/nvidia.h"

enum { QUEUE = 128, ARGS = 4096, PLAIN_ROOM = 48 << 10, MOST_ROOM = 227 << 10 };

struct cu_function_s {
    const char *name;
    void (*kernel)(const void *args);
    size_t args;
    unsigned threads;
    atomic_uint room; /* that a launch may give */
};

typedef enum { DO_COPY, DO_FILL, DO_LAUNCH, DO_CALL, DO_RECORD, DO_WAIT, DO_END } kind;

typedef struct item {
    kind kind;
    void *to;
    const void *from;
    size_t bytes;
    unsigned char value;
    bool late;
    struct cu_function_s *function;
    void (*call)(const void *arg);
    unsigned grid[3], room;
    _Alignas(16) char args[ARGS];
    cu_event event;
    long number;
} item;

struct cu_stream_s {
    cu_context context;
    pthread_t thread;
    long submitted, done;
    pthread_cond_t given,
        gone;         /* for its thread; for those that wait until it has done something */
    int awaited;      /* how many of those there are */
    cu_graph capture; /* what is given to it becomes nodes of this one; NULL: it is done */
    bool void_capture;
    item queue[QUEUE];
};

/* runtime.c: has the stream do it, when its turn comes. */
void emu_put(cu_stream s, const item *w);

/* graphs.c: a node of what the stream captures. */
void emu_add_node(cu_stream s, const item *w);
/* What a call that a capture does not allow answers: 0 where the thread captures nothing. */
int emu_outside(void);

#define BEGIN()                                                                                    \
    do {                                                                                           \
        int answer = emu_begin();                                                                  \
        if (answer) return answer;                                                                 \
    } while (0)

/* Of calls that no thread may make while it captures. */
#define BEGIN_OUTSIDE()                                                                            \
    do {                                                                                           \
        int outside = emu_outside();                                                               \
        if (outside) return outside;                                                               \
        BEGIN();                                                                                   \
    } while (0)

/* Entries of the table. */
int memory_info(size_t *free_bytes, size_t *total);
int alloc(cu_address *out, size_t bytes);
int host_alloc(void **out, size_t bytes, unsigned flags);
int host_release(void *memory);
int release(cu_address memory);
int capture_begin(cu_stream s, int mode);
int capture_info(cu_stream s, int *status, uint64_t *id, cu_graph *graph, const cu_node **nodes,
                 size_t *n);
int capture_end(cu_stream s, cu_graph *out);
int graph_make(cu_exec *out, cu_graph graph, unsigned long long flags);
int graph_free(cu_graph graph);
int exec_set(cu_exec exec, cu_node node, const cu_kernel_params *params);
int exec_launch(cu_exec exec, cu_stream s);
int exec_free(cu_exec exec);

#endif
