/* test/emulation/emulate.cpp - threads of a block as fibers: stacks that are switched between. */
#include "emulate.hpp"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulated.h"

thread_local emu_index threadIdx, blockIdx, blockDim, gridDim;

namespace {

enum { MAX_THREADS = 1024, WARP = 32, STACK = 64 << 10, SHARED = 256 << 10 };
enum state { READY, DONE, AT_BLOCK, AT_WARP };

/* Saves the registers that a call must keep, and goes on where `to` was saved. */
extern "C" void emu_switch(void **from, void *to);
#ifdef __x86_64__
asm(R"(
.pushsection .text
.type emu_switch,@function
emu_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size emu_switch,.-emu_switch
.popsection
)");
enum { SAVED_WORDS = 6 };
#else
#error "emulated kernels need a switch of stacks for this processor"
#endif

/* ThreadSanitizer follows a stack only when it is told of the switch. */
#ifdef __SANITIZE_THREAD__
extern "C" void *__tsan_get_current_fiber(void);
extern "C" void *__tsan_create_fiber(unsigned flags);
extern "C" void __tsan_destroy_fiber(void *fiber);
extern "C" void __tsan_switch_to_fiber(void *fiber, unsigned flags);
void *new_shadow() { return __tsan_create_fiber(0); }
void free_shadow(void *shadow) { __tsan_destroy_fiber(shadow); }
void *this_shadow() { return __tsan_get_current_fiber(); }
void follow(void *shadow) { __tsan_switch_to_fiber(shadow, 0); }
#else
void *new_shadow() { return NULL; }
void free_shadow(void *) {}
void *this_shadow() { return NULL; }
void follow(void *) {}
#endif

struct fiber {
    void *at; /* saved stack pointer */
    char *stack;
    void *shadow; /* as the sanitizer knows it */
    int thread;   /* that it runs */
};

/* One block, on one host thread. */
struct block {
    void (*kernel)(const void *args);
    const void *args;
    int n, done;
    state states[MAX_THREADS];
    fiber *of[MAX_THREADS]; /* of a thread that has begun */
    size_t cursor[MAX_THREADS];
    int order[MAX_THREADS];
    double lanes[MAX_THREADS];
    emu_words words[MAX_THREADS];
    int running;
    void *scheduler, *scheduler_shadow;
    fiber fibers[MAX_THREADS], *idle[MAX_THREADS];
    int n_fibers, n_idle;
    char *shared;
    size_t used;
};

thread_local block *current;

void yield(fiber *f)
{
    follow(current->scheduler_shadow);
    emu_switch(&f->at, current->scheduler);
}

/* A fiber runs threads, one after the other. */
void fiber_main()
{
    for (;;) {
        block *b = current;
        fiber *f = b->of[b->running];
        b->kernel(b->args);
        b->states[b->running] = DONE;
        yield(f);
    }
}

fiber *take_fiber(block *b)
{
    if (b->n_idle) return b->idle[--b->n_idle];
    fiber *f = &b->fibers[b->n_fibers++];
    f->stack = (char *)aligned_alloc(64, STACK);
    if (!f->stack) abort();
    f->shadow = new_shadow();
    void **top = (void **)(f->stack + STACK) - 2; /* as after a call: 16-byte aligned, less one */
    top[0] = (void *)fiber_main;
    top[1] = NULL;
    top -= SAVED_WORDS;
    memset(top, 0, SAVED_WORDS * sizeof *top);
    f->at = top;
    return f;
}

/* Runs thread t until it waits or ends. */
void run_thread(block *b, int t)
{
    if (!b->of[t]) b->of[t] = take_fiber(b);
    b->running = t;
    threadIdx = {(unsigned)t, 0, 0};
    b->scheduler_shadow = this_shadow();
    follow(b->of[t]->shadow);
    emu_switch(&b->scheduler, b->of[t]->at);
    if (b->states[t] == DONE) {
        b->idle[b->n_idle++] = b->of[t];
        b->done++;
    }
}

bool all_at(const block *b, int from, int end, state where)
{
    for (int t = from; t < end; t++)
        if (b->states[t] != where) return false;
    return true;
}

/* Lets go those who wait for each other and are all there; false if nobody is. */
bool release(block *b)
{
    bool any = false;
    for (int w = 0; w < b->n; w += WARP) {
        if (!all_at(b, w, w + WARP, AT_WARP)) continue;
        for (int t = w; t < w + WARP; t++) b->states[t] = READY;
        any = true;
    }
    if (any || !all_at(b, 0, b->n, AT_BLOCK)) return any;
    for (int t = 0; t < b->n; t++) b->states[t] = READY;
    return true;
}

void shuffle(int *order, int n, uint32_t *seed)
{
    for (int i = 0; i < n; i++) order[i] = i;
    for (int i = n - 1; *seed && i > 0; i--) {
        *seed = *seed * 1664525u + 1013904223u;
        int j = (int)((*seed >> 8) % (unsigned)(i + 1)), x = order[i];
        order[i] = order[j];
        order[j] = x;
    }
}

bool run_block(block *b, uint32_t *seed)
{
    memset(b->shared, 0xff, b->used); /* NaN */
    shuffle(b->order, b->n, seed);
    for (int t = 0; t < b->n; t++) {
        b->states[t] = READY;
        b->of[t] = NULL;
        b->cursor[t] = 0;
    }
    b->done = 0;
    do
        for (int i = 0; i < b->n; i++)
            if (b->states[b->order[i]] == READY) run_thread(b, b->order[i]);
    while (b->done < b->n && release(b));
    return b->done == b->n;
}

/* Of a block whose threads do not come together: they are left where they are. */
void forget_fibers(block *b)
{
    for (int i = 0; i < b->n_fibers; i++) {
        free_shadow(b->fibers[i].shadow);
        free(b->fibers[i].stack);
    }
    b->n_fibers = b->n_idle = 0;
}

/* Freed when the host thread ends. */
struct holder {
    block *b = NULL;
    ~holder()
    {
        if (!b) return;
        forget_fibers(b);
        free(b->shared);
        free(b);
    }
};
thread_local holder own;

block *own_block()
{
    if (!own.b) {
        own.b = (block *)calloc(1, sizeof *own.b);
        if (!own.b || !(own.b->shared = (char *)aligned_alloc(64, SHARED))) abort();
        memset(own.b->shared, 0xff, SHARED); /* NaN */
    }
    return own.b;
}

} // namespace

void *emu_shared(size_t bytes)
{
    block *b = current;
    size_t at = b->cursor[b->running];
    b->cursor[b->running] = at + (bytes + 63) / 64 * 64;
    if (b->cursor[b->running] > SHARED) {
        fprintf(stderr, "emulation: a block uses more than %d bytes of shared memory\n", SHARED);
        abort();
    }
    if (b->cursor[b->running] > b->used) b->used = b->cursor[b->running];
    return b->shared + at;
}

void emu_barrier(bool of_warp)
{
    block *b = current;
    int self = b->running;
    b->states[self] = of_warp ? AT_WARP : AT_BLOCK;
    yield(b->of[self]);
}

double emu_from_lane(double x, int lane)
{
    block *b = current;
    int self = b->running;
    b->lanes[self] = x;
    emu_barrier(true);
    double y = b->lanes[self / WARP * WARP + lane];
    emu_barrier(true); /* before anyone overwrites */
    return y;
}

const emu_words *emu_show(const uint32_t *mine, int n)
{
    block *b = current;
    int self = b->running;
    memcpy(b->words[self].x, mine, (size_t)n * sizeof *mine);
    emu_barrier(true);
    return &b->words[self / WARP * WARP];
}

extern "C" int emu_run_grid(void (*kernel)(const void *), const void *args, const unsigned grid[3],
                            int threads, uint32_t seed)
{
    block *b = own_block();
    if (threads < WARP || threads > MAX_THREADS || threads % WARP) return -1;
    b->kernel = kernel;
    b->args = args;
    b->n = threads;
    current = b;
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {(unsigned)threads, 1, 1};
    bool whole = true, backwards = seed >> 3 & 1;
    uint64_t n = (uint64_t)grid[0] * grid[1] * grid[2];
    for (uint64_t k = 0; k < n && whole; k++) {
        uint64_t i = backwards ? n - 1 - k : k;
        blockIdx = {(unsigned)(i % grid[0]), (unsigned)(i / grid[0] % grid[1]),
                    (unsigned)(i / grid[0] / grid[1])};
        whole = run_block(b, &seed);
    }
    if (!whole) forget_fibers(b);
    return whole ? 0 : -1;
}
