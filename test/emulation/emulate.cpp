/* test/emulation/emulate.cpp - threads of a block as fibers: stacks that are switched between. */
#include "emulate.hpp"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulated.h"

thread_local emu_index threadIdx, blockIdx, blockDim, gridDim;

namespace {

enum { MAX_THREADS = 1024, WARP = 32, STACK = 64 << 10, SHARED = 256 << 10 };

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

/* To ThreadSanitizer all fibers of a host thread are that thread: what they have called is counted
 * on one shadow of a stack, which is even again when a block ends. Functions that do not return in
 * turn are not counted. To tell it of each fiber would join the clocks of all at each switch. */
#define UNCOUNTED __attribute__((no_sanitize("thread")))

struct fiber {
    void *at; /* saved stack pointer */
    char *stack;
};

/* 8 bytes on their way. */
struct copy {
    void *to;
    uint64_t bytes;
};
enum { MAX_COPIES = 32 };

/* One block, on one host thread. Threads whose turn comes are in a queue; one that waits or ends
 * switches to the first of them by itself. */
struct block {
    void (*kernel)(const void *args);
    const void *args;
    int n, done;
    fiber *of[MAX_THREADS]; /* of a thread that has begun */
    size_t cursor[MAX_THREADS];
    int order[MAX_THREADS];
    int of_warps[MAX_THREADS]; /* the same order, a warp after the other */
    int at_warp[MAX_THREADS / WARP], at_block; /* how many wait */
    int queue[MAX_THREADS], first, queued;
    double lanes[2][MAX_THREADS];
    unsigned char turn[MAX_THREADS]; /* of the two, that the thread shows a number in next */
    emu_words words[MAX_THREADS];
    copy copies[MAX_THREADS][MAX_COPIES]; /* that are on their way */
    int n_copies[MAX_THREADS];
    int running;
    void *caller;
    fiber fibers[MAX_THREADS], *idle[MAX_THREADS];
    int n_fibers, n_idle;
    char *shared;
    size_t used, room; /* taken so far; what the launch gives beside it */
};

thread_local block *current;

UNCOUNTED void fiber_main();

fiber *take_fiber(block *b)
{
    if (b->n_idle) return b->idle[--b->n_idle];
    fiber *f = &b->fibers[b->n_fibers++];
    f->stack = (char *)aligned_alloc(64, STACK);
    if (!f->stack) abort();
    void **top = (void **)(f->stack + STACK) - 2; /* as after a call: 16-byte aligned, less one */
    top[0] = (void *)fiber_main;
    top[1] = NULL;
    top -= SAVED_WORDS;
    memset(top, 0, SAVED_WORDS * sizeof *top);
    f->at = top;
    return f;
}

void queue_up(block *b, const int *threads, int n)
{
    int at = (b->first + b->queued) % b->n;
    for (int i = 0; i < n; i++) {
        b->queue[at] = threads[i];
        if (++at == b->n) at = 0;
    }
    b->queued += n;
}

/* Chooses the thread whose turn it is; false if all wait or have ended. */
bool choose(block *b)
{
    if (b->queued == 0) return false;
    int t = b->queue[b->first];
    if (++b->first == b->n) b->first = 0;
    b->queued--;
    b->running = t;
    threadIdx = {(unsigned)t, 0, 0};
    return true;
}

/* Goes on with the thread that was chosen; returns when this fiber's turn comes again. */
UNCOUNTED void go_on(block *b, fiber *self)
{
    fiber *next = b->of[b->running];
    if (!next) next = b->of[b->running] = take_fiber(b);
    if (next == self) return;
    emu_switch(&self->at, next->at);
}

/* Goes back to who runs the block. */
UNCOUNTED void leave(block *b, fiber *self)
{
    emu_switch(&self->at, b->caller);
}

/* A fiber runs threads, one after the other, and lies idle while others are in the midst of one. */
void fiber_main()
{
    fiber *self = current->of[current->running];
    for (;;) {
        block *b = current;
        b->kernel(b->args);
        b->done++;
        bool more = choose(b);
        if (more && !b->of[b->running]) {
            b->of[b->running] = self;
            continue;
        }
        b->idle[b->n_idle++] = self;
        if (more)
            go_on(b, self);
        else
            leave(b, self);
    }
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

/* The order of a block's threads, and that of each warp's within it. */
void draw_order(block *b, uint32_t *seed)
{
    int filled[MAX_THREADS / WARP] = {0};
    shuffle(b->order, b->n, seed);
    for (int i = 0; i < b->n; i++) {
        int w = b->order[i] / WARP;
        b->of_warps[w * WARP + filled[w]++] = b->order[i];
    }
}

bool run_block(block *b, uint32_t *seed)
{
    memset(b->shared, 0xff, b->used); /* NaN */
    if (*seed) draw_order(b, seed);
    memset(b->of, 0, sizeof *b->of * (size_t)b->n);
    memset(b->cursor, 0, sizeof *b->cursor * (size_t)b->n);
    memset(b->at_warp, 0, sizeof b->at_warp);
    memset(b->turn, 0, sizeof b->turn);
    memset(b->n_copies, 0, sizeof b->n_copies);
    b->done = b->at_block = b->first = b->queued = 0;
    queue_up(b, b->order, b->n);
    choose(b);
    fiber *first = b->of[b->running] = take_fiber(b);
    emu_switch(&b->caller, first->at);
    return b->done == b->n;
}

/* Of a block whose threads do not come together: they are left where they are. */
void forget_fibers(block *b)
{
    for (int i = 0; i < b->n_fibers; i++) free(b->fibers[i].stack);
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
        if (!own.b || !(own.b->shared = (char *)aligned_alloc(1024, SHARED))) abort();
        memset(own.b->shared, 0xff, SHARED); /* NaN */
    }
    return own.b;
}

} // namespace

void *emu_shared(size_t bytes, size_t align)
{
    block *b = current;
    size_t at = (b->cursor[b->running] + align - 1) / align * align;
    b->cursor[b->running] = at + bytes;
    if (b->cursor[b->running] > SHARED) {
        fprintf(stderr, "emulation: a block uses more than %d bytes of shared memory\n", SHARED);
        abort();
    }
    if (b->cursor[b->running] > b->used) b->used = b->cursor[b->running];
    return b->shared + at;
}

void *emu_room(size_t bytes)
{
    if (bytes > current->room) {
        fprintf(stderr, "emulation: a block asks for %zu bytes, the launch gives %zu\n", bytes,
                current->room);
        abort();
    }
    return emu_shared(bytes, 1024);
}

/* Who comes last lets all go that wait there. */
void emu_barrier(bool of_warp)
{
    block *b = current;
    int self = b->running, w = self / WARP;
    if (of_warp && ++b->at_warp[w] == WARP) {
        b->at_warp[w] = 0;
        queue_up(b, b->of_warps + w * WARP, WARP);
    } else if (!of_warp && ++b->at_block == b->n) {
        b->at_block = 0;
        queue_up(b, b->order, b->n);
    }
    if (choose(b))
        go_on(b, b->of[self]);
    else
        leave(b, b->of[self]);
}

/* The next number lies apart, so that nobody overwrites what others have still to read. */
double emu_from_lane(double x, int lane)
{
    block *b = current;
    int self = b->running, turn = b->turn[self];
    b->turn[self] = !turn;
    b->lanes[turn][self] = x;
    emu_barrier(true);
    return b->lanes[turn][self / WARP * WARP + lane];
}

void emu_copy_eight(void *to, const void *from)
{
    block *b = current;
    int t = b->running;
    if (b->n_copies[t] == MAX_COPIES || (uintptr_t)to % 8 || (uintptr_t)from % 8) abort();
    copy *c = &b->copies[t][b->n_copies[t]++];
    *c = {to, 0};
    if (from) memcpy(&c->bytes, from, sizeof c->bytes);
    memset(to, 0xff, sizeof c->bytes);
}

void emu_copies_done()
{
    block *b = current;
    int t = b->running;
    for (int i = 0; i < b->n_copies[t]; i++) memcpy(b->copies[t][i].to, &b->copies[t][i].bytes, 8);
    b->n_copies[t] = 0;
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
                            int threads, unsigned room, uint32_t seed)
{
    block *b = own_block();
    if (threads < WARP || threads > MAX_THREADS || threads % WARP) return -1;
    b->kernel = kernel;
    b->args = args;
    b->n = threads;
    b->room = room;
    current = b;
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {(unsigned)threads, 1, 1};
    uint32_t in_order = 0;
    draw_order(b, &in_order);
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
