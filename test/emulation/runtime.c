/* test/emulation/runtime.c - the functions of CUDA's driver library that the program uses, on the
 * host. */
#include "emulation.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cuda/args.h"
#include "cuda/attention_args.h"
#include "cuda/optim_args.h"
#include "emulated.h"
#include "runtime.h"
#include "streams.h"
#include "channels/channels.h"

emulation emulated = {.fail_with = 999, .capability = 80};

int emu_capability(void)
{
    return atomic_load(&emulated.capability);
}

enum { STICKY = 719, NO_CONTEXT = 201, NO_PEER = 217, OTHER_CONTEXT = 400 };

struct cu_context_s {
    _Atomic(cu_context) peer; /* whose memory is let into */
};

struct cu_module_s {
    int unused;
};

#define DECLARE(file, name, threads) void emu_kernel_##name(const void *args);
FT_CUDA_KERNELS(DECLARE)
#undef DECLARE

static struct cu_function_s functions[] = {
#define FUNCTION(file, name, threads)                                                              \
    {"ft_" #name, emu_kernel_##name, sizeof(ft_##name##_args), threads, PLAIN_ROOM},
    FT_CUDA_KERNELS(FUNCTION)
#undef FUNCTION
};

struct cu_event_s {
    cu_context context;
    pthread_cond_t over;    /* a record has passed */
    long submitted, passed; /* records */
    bool of_stream;         /* the newest is of one that was made */
    int uses;               /* what streams have of it */
    bool closed;
    int64_t ns;
};

/* One lock for queues and events; who waits is woken by what it waits for alone. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cu_context_s contexts[EMULATED_CARDS];
static atomic_int failed; /* an answer that stays; 0: none */

/* That the thread has chosen. What is made belongs to it, and works with what is of the same: two
 * cards are two contexts. */
static _Thread_local cu_context current;

/* Of calls that name none; it is there while contexts are. */
static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static cu_stream default_stream;
static int n_contexts;

/* Of programs whose callers set EMULATED_FAIL_AT: that call fails, and in the end they are told how
 * many there were, what was left open, and so on. EMULATED_NO_GRAPHS is what making a graph
 * answers, EMULATED_SLOW_MS how far behind the host's clock the cards' are, EMULATED_DROP_AT the
 * number of a stream's wait that is left out, EMULATED_SEED that of orders, EMULATED_HELD_US how
 * long a stream pauses in front of each kernel. */
static double slow_ms;
static unsigned held_us;

static void tell(void)
{
    fprintf(stderr,
            "emulated: %ld calls, %ld things left open, %ld launches, %ld graphs, %ld waits of the "
            "host, %ld passes\n",
            atomic_load(&emulated.calls), atomic_load(&emulated.open),
            atomic_load(&emulated.launches), atomic_load(&emulated.graphs),
            atomic_load(&emulated.host_waits), atomic_load(&emulated.passes));
}

static __attribute__((constructor)) void read_environment(void)
{
    const char *at = getenv("EMULATED_FAIL_AT"), *no_graphs = getenv("EMULATED_NO_GRAPHS");
    const char *slow = getenv("EMULATED_SLOW_MS"), *drop = getenv("EMULATED_DROP_AT");
    const char *seed = getenv("EMULATED_SEED"), *held = getenv("EMULATED_HELD_US");
    const char *capability = getenv("EMULATED_CAPABILITY");
    if (!at || atexit(tell)) return;
    atomic_store(&emulated.fail_at, strtol(at, NULL, 10));
    if (no_graphs) atomic_store(&emulated.no_graphs, atoi(no_graphs));
    if (capability) atomic_store(&emulated.capability, atoi(capability));
    if (slow) slow_ms = atof(slow);
    if (held) held_us = (unsigned)atoi(held);
    if (drop) atomic_store(&emulated.drop_at, strtol(drop, NULL, 10));
    if (seed) atomic_store(&emulated.seed, (unsigned)strtoul(seed, NULL, 10));
}

/* -- failures ---------------------------------------------------------------------------------- */

int emu_begin(void)
{
    long call = atomic_fetch_add(&emulated.calls, 1) + 1;
    if (call == atomic_load(&emulated.fail_at)) return atomic_load(&emulated.fail_with);
    return atomic_load(&failed);
}

static int error_name(int error, const char **text)
{
    *text = error == CU_OUT_OF_MEMORY ? "EMULATED_OUT_OF_MEMORY" : "EMULATED_FAILURE";
    return 0;
}

static int error_text(int error, const char **text)
{
    *text = error == STICKY ? "threads of a block did not come to the same barriers" : "as told";
    return 0;
}

/* -- cards ------------------------------------------------------------------------------------- */

static int init(unsigned flags)
{
    (void)flags;
    return emu_begin();
}

static int version(int *out)
{
    BEGIN();
    *out = 13000;
    return 0;
}

static int device_count(int *n)
{
    BEGIN();
    *n = EMULATED_CARDS;
    return 0;
}

static int device_get(int *device, int ordinal)
{
    BEGIN();
    *device = ordinal;
    return ordinal < EMULATED_CARDS ? 0 : 101;
}

static int device_name(char *text, int size, int device)
{
    (void)device;
    BEGIN();
    strncpy(text, "emulated card", (size_t)size);
    return 0;
}

static int device_memory(size_t *bytes, int device)
{
    (void)device;
    BEGIN();
    *bytes = EMULATED_BYTES;
    return 0;
}

/* A card of 2 multiprocessors at 1.5 GHz, with 1 GHz times 256 bits. */
static int device_attribute(int *value, int attribute, int device)
{
    (void)device;
    BEGIN();
    *value = attribute == CU_MULTIPROCESSORS    ? 2
             : attribute == CU_CLOCK_KHZ        ? 1500000
             : attribute == CU_MEMORY_CLOCK_KHZ ? 1000000
             : attribute == CU_MEMORY_BUS_BITS  ? 256
             : attribute == CU_MAJOR            ? atomic_load(&emulated.capability) / 10
             : attribute == CU_MINOR            ? atomic_load(&emulated.capability) % 10
                                                : 0;
    return 0;
}

static int context_set(cu_context context)
{
    current = context;
    return 0;
}

static int can_peer(int *can, int device, int peer)
{
    BEGIN();
    *can = device != peer;
    return 0;
}

static int enable_peer(cu_context peer, unsigned flags)
{
    BEGIN();
    if (!current || peer == current || flags) return OTHER_CONTEXT;
    return atomic_exchange(&current->peer, peer) == peer ? CU_PEER_ACCESS_ALREADY : 0;
}

/* -- streams ----------------------------------------------------------------------------------- */

/* Records of one event by two streams may end in the other order. */
static void pass(cu_event event, long number)
{
    if (number <= event->passed) return;
    event->passed = number;
    event->ns = ft_now_ns();
    pthread_cond_broadcast(&event->over);
}

static void leave(cu_event event)
{
    if (--event->uses == 0 && event->closed) free(event);
}

/* A pause now and then, so that streams come in other orders. */
static void dawdle(uint32_t *seed)
{
    if (!*seed) return;
    *seed = *seed * 1664525u + 1013904223u;
    if (*seed >> 30 == 0) usleep(*seed >> 16 & 63);
}

static void execute(const item *w, uint32_t *seed)
{
    bool fine = atomic_load(&failed) == 0;
    dawdle(seed);
    if (w->late) usleep(500);
    if (w->kind == DO_LAUNCH && held_us) usleep(held_us);
    if (w->kind == DO_COPY && fine) memmove(w->to, w->from, w->bytes);
    if (w->kind == DO_FILL && fine) memset(w->to, w->value, w->bytes);
    if (w->kind == DO_CALL && fine) w->call(w->args);
    if (w->kind == DO_LAUNCH && fine &&
        emu_run_grid(w->function->kernel, w->args, w->grid, (int)w->function->threads, w->room,
                     *seed))
        atomic_store(&failed, STICKY);
}

static void *stream_thread(void *arg)
{
    cu_stream s = arg;
    uint32_t seed = atomic_load(&emulated.seed);
    for (;;) {
        pthread_mutex_lock(&lock);
        while (s->done == s->submitted) pthread_cond_wait(&s->given, &lock);
        const item *w = &s->queue[s->done % QUEUE];
        while (w->kind == DO_WAIT && w->event->passed < w->number)
            pthread_cond_wait(&w->event->over, &lock);
        pthread_mutex_unlock(&lock);
        execute(w, &seed);
        bool end = w->kind == DO_END;
        pthread_mutex_lock(&lock);
        if (w->kind == DO_RECORD) pass(w->event, w->number);
        if (w->event) leave(w->event);
        s->done++;
        if (s->awaited) pthread_cond_broadcast(&s->gone);
        pthread_mutex_unlock(&lock);
        if (end) return NULL;
    }
}

/* Until so many items are done; under the lock. */
static void await(cu_stream s, long done)
{
    s->awaited++;
    while (s->done < done) pthread_cond_wait(&s->gone, &lock);
    s->awaited--;
}

void emu_put(cu_stream s, const item *w)
{
    pthread_mutex_lock(&lock);
    while (s->submitted - s->done == QUEUE) await(s, s->done + 1);
    item *at = &s->queue[s->submitted % QUEUE];
    *at = *w;
    if (w->event) w->event->uses++;
    if (w->kind == DO_RECORD) at->number = ++w->event->submitted;
    if (w->kind == DO_WAIT) at->number = w->event->submitted;
    s->submitted++;
    pthread_cond_signal(&s->given);
    pthread_mutex_unlock(&lock);
}

static void submit(cu_stream s, const item *w)
{
    if (s->capture)
        emu_add_node(s, w);
    else
        emu_put(s, w);
}

void emu_submit(cu_stream s, void (*call)(const void *arg), const void *arg, size_t bytes)
{
    item w = {.kind = DO_CALL, .call = call};
    if (bytes > ARGS) abort();
    memcpy(w.args, arg, bytes);
    submit(s, &w);
}

static int begin_stream(cu_stream *out)
{
    cu_stream s = calloc(1, sizeof *s);
    if (!s) return CU_OUT_OF_MEMORY;
    *s = (struct cu_stream_s){
        .context = current, .given = PTHREAD_COND_INITIALIZER, .gone = PTHREAD_COND_INITIALIZER};
    if (pthread_create(&s->thread, NULL, stream_thread, s)) abort();
    atomic_fetch_add(&emulated.open, 1);
    *out = s;
    return 0;
}

static int stream_create(cu_stream *out, unsigned flags)
{
    (void)flags;
    BEGIN();
    return current ? begin_stream(out) : NO_CONTEXT;
}

static int stream_destroy(cu_stream s)
{
    submit(s, &(item){.kind = DO_END});
    pthread_join(s->thread, NULL);
    free(s);
    atomic_fetch_sub(&emulated.open, 1);
    return 0;
}

static int context_retain(cu_context *out, int device)
{
    BEGIN();
    int given = 0;
    pthread_mutex_lock(&contexts_lock);
    if (n_contexts == 0) {
        atomic_store(&failed, 0);
        given = begin_stream(&default_stream);
    }
    if (!given) {
        n_contexts++;
        atomic_fetch_add(&emulated.open, 1);
        *out = &contexts[device];
    }
    pthread_mutex_unlock(&contexts_lock);
    return given;
}

static int context_release(int device)
{
    (void)device;
    pthread_mutex_lock(&contexts_lock);
    if (--n_contexts == 0) {
        stream_destroy(default_stream);
        for (int i = 0; i < EMULATED_CARDS; i++) atomic_store(&contexts[i].peer, NULL);
    }
    pthread_mutex_unlock(&contexts_lock);
    atomic_fetch_sub(&emulated.open, 1);
    return 0;
}

static int stream_finish(cu_stream s)
{
    int outside = emu_outside(), answer = emu_begin();
    if (outside) return outside;
    if (s) atomic_fetch_add(&emulated.host_waits, 1);
    if (!s) s = default_stream;
    pthread_mutex_lock(&lock);
    await(s, s->submitted);
    pthread_mutex_unlock(&lock);
    return answer ? answer : atomic_load(&failed);
}

static int fill_on(cu_address memory, unsigned char value, size_t bytes, cu_stream s)
{
    BEGIN();
    submit(
        s,
        &(item){.kind = DO_FILL, .to = (void *)(uintptr_t)memory, .value = value, .bytes = bytes});
    return 0;
}

/* Answers before it is done. */
static int fill(cu_address memory, unsigned char value, size_t bytes)
{
    BEGIN_OUTSIDE();
    submit(default_stream, &(item){.kind = DO_FILL,
                                   .to = (void *)(uintptr_t)memory,
                                   .value = value,
                                   .bytes = bytes,
                                   .late = true});
    return 0;
}

static int copy_on(cu_address to, cu_address from, size_t bytes, cu_stream s)
{
    BEGIN();
    submit(s, &(item){.kind = DO_COPY,
                      .to = (void *)(uintptr_t)to,
                      .from = (const void *)(uintptr_t)from,
                      .bytes = bytes});
    return 0;
}

static int copy_peer(cu_address to, cu_context to_context, cu_address from, cu_context from_context,
                     size_t bytes, cu_stream s)
{
    if (to_context == from_context) return 1;
    if (current->peer != (current == to_context ? from_context : to_context)) return NO_PEER;
    return copy_on(to, from, bytes, s);
}

/* Without it a launch gives 48 KB at most. */
static int function_set(cu_function function, int attribute, int bytes)
{
    BEGIN();
    if (attribute != CU_ROOM_BYTES || bytes < 0 || bytes > MOST_ROOM) return 1;
    atomic_store(&function->room, (unsigned)bytes);
    return 0;
}

static int launch(const cu_launch *how, cu_function function, void **arguments, void **extra)
{
    (void)extra;
    BEGIN();
    if (how->shared_bytes > atomic_load(&function->room)) return 1;
    if (how->stream->context != current) return OTHER_CONTEXT;
    if (how->block[0] != function->threads || how->block[1] != 1 || how->block[2] != 1) return 1;
    item w = {.kind = DO_LAUNCH, .function = function};
    atomic_fetch_add(&emulated.launches, 1);
    if (function->args > ARGS) abort();
    w.room = how->shared_bytes;
    memcpy(w.grid, how->grid, sizeof w.grid);
    memcpy(w.args, arguments[0], function->args);
    submit(how->stream, &w);
    return 0;
}

/* -- events ------------------------------------------------------------------------------------ */

static int event_create(cu_event *out, unsigned flags)
{
    (void)flags;
    BEGIN();
    if (!current) return NO_CONTEXT;
    *out = calloc(1, sizeof **out);
    if (!*out) return CU_OUT_OF_MEMORY;
    **out = (struct cu_event_s){.context = current, .over = PTHREAD_COND_INITIALIZER};
    atomic_fetch_add(&emulated.open, 1);
    return 0;
}

/* Streams may have it still: the last of them frees it. */
static int event_destroy(cu_event event)
{
    pthread_mutex_lock(&lock);
    event->uses++;
    event->closed = true;
    leave(event);
    pthread_mutex_unlock(&lock);
    atomic_fetch_sub(&emulated.open, 1);
    return 0;
}

/* A captured record would be one of the graph; the program has none. */
static int event_record(cu_event event, cu_stream s)
{
    BEGIN_OUTSIDE();
    if (event->context != (s ? s->context : current)) return OTHER_CONTEXT;
    event->of_stream = s;
    submit(s ? s : default_stream, &(item){.kind = DO_RECORD, .event = event});
    return 0;
}

static int stream_wait(cu_stream s, cu_event event, unsigned flags)
{
    (void)flags;
    BEGIN_OUTSIDE();
    if (atomic_fetch_add(&emulated.waits, 1) + 1 == atomic_load(&emulated.drop_at)) return 0;
    submit(s, &(item){.kind = DO_WAIT, .event = event});
    return 0;
}

static int event_query(cu_event event)
{
    int outside = emu_outside();
    if (outside) return outside;
    pthread_mutex_lock(&lock);
    bool ready = event->passed == event->submitted;
    pthread_mutex_unlock(&lock);
    int answer = atomic_load(&failed);
    return answer ? answer : ready ? 0 : CU_NOT_READY;
}

static int event_finish(cu_event event)
{
    int outside = emu_outside(), answer = emu_begin();
    if (outside) return outside;
    if (event->of_stream) atomic_fetch_add(&emulated.host_waits, 1);
    pthread_mutex_lock(&lock);
    long number = event->submitted;
    while (event->passed < number) pthread_cond_wait(&event->over, &lock);
    pthread_mutex_unlock(&lock);
    return answer ? answer : atomic_load(&failed);
}

static int event_elapsed(float *ms, cu_event from, cu_event to)
{
    if (from->context != to->context) return OTHER_CONTEXT;
    pthread_mutex_lock(&lock);
    *ms = (float)((double)(to->ns - from->ns) * 1e-6 - slow_ms);
    pthread_mutex_unlock(&lock);
    return 0;
}

/* -- modules ----------------------------------------------------------------------------------- */

static int module_load(cu_module *out, const void *image)
{
    (void)image;
    BEGIN_OUTSIDE();
    *out = calloc(1, sizeof **out);
    if (!*out) return CU_OUT_OF_MEMORY;
    atomic_fetch_add(&emulated.open, 1);
    return 0;
}

static int module_unload(cu_module module)
{
    free(module);
    atomic_fetch_sub(&emulated.open, 1);
    return 0;
}

static int function_get(cu_function *out, cu_module module, const char *name)
{
    (void)module;
    BEGIN();
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0) {
            *out = &functions[i];
            return 0;
        }
    return CU_NOT_FOUND;
}

/* -- the driver -------------------------------------------------------------------------------- */

static const ft_cuda_api *api(ft_error *err)
{
    static const ft_cuda_api table = {
#define ENTRY(field, name, parameters) .field = field,
        FT_CUDA_API(ENTRY)
#undef ENTRY
    };
    (void)err;
    return &table;
}

static const ft_cuda_image images[] = {{NULL, "kernels"}, {NULL, NULL}};

const ft_cuda_driver emu_driver = {FT_CUDA_DRIVER_TABLE("emu", FT_CHANNELS_ENTRIES), api, images,
                                   emu_cublas, emu_nccl};
const ft_cuda_driver emu_cpu_driver = {FT_CUDA_DRIVER_TABLE("cpu", FT_CHANNELS_ENTRIES), api,
                                       images, emu_cublas, emu_nccl};
const ft_cuda_driver emu_cuda_driver = {FT_CUDA_CARDS_TABLE("cuda", FT_CHANNELS_ENTRIES), api,
                                        images, emu_cublas, emu_nccl};
const ft_cuda_driver emu_cards_driver = {FT_CUDA_CARDS_TABLE("card", FT_CHANNELS_ENTRIES), api,
                                         images, emu_cublas, emu_nccl};
