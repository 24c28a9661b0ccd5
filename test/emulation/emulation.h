/* test/emulation/emulation.h - cards on the host: a driver "emu" for tests, and what it is told.
 *
 * Each stream is a thread that does what was given to it, in that order; kernels run in fibers
 * (emulate.hpp). Memory of a card is memory of the host, so what forgets to wait is a race that
 * ThreadSanitizer sees. */
#ifndef FT_TEST_EMULATION_H
#define FT_TEST_EMULATION_H

#include <stdatomic.h>

#include "cuda/cuda.h"

/* cuBLASLt, as handles find it that are opened then: it has an algorithm for every product, for
 * none, or is not there. */
typedef enum { LIBRARY_WHOLE, LIBRARY_EMPTY, LIBRARY_ABSENT } emulated_library;

typedef struct emulation {
    atomic_uint seed;       /* of the order of threads and blocks, and of pauses; 0: in order */
    atomic_long calls;      /* of functions of the library that can fail */
    atomic_long fail_at;    /* call number that fails, counted from 1; 0: none */
    atomic_int fail_with;   /* what it answers */
    atomic_long launches;   /* of kernels, those that are captured too */
    atomic_long graphs;     /* that were launched */
    atomic_int no_graphs;   /* what making one answers; 0: it is made */
    atomic_long products;   /* that cuBLASLt was given */
    atomic_int library;     /* emulated_library */
    atomic_int capability;  /* of cards: 80 is 8.0 */
    atomic_long waits;      /* for events, by streams */
    atomic_long drop_at;    /* of those, the one that is left out, counted from 1; 0: none */
    atomic_long host_waits; /* by who gives work, for streams that were made and events of them */
    atomic_long open;       /* contexts, streams, events, modules, blocks of memory, channels */
    atomic_long taken;      /* bytes of cards' memory */
    atomic_long passes;     /* to and from other processes */
} emulation;

extern emulation emulated;
enum { EMULATED_CARDS = 2, EMULATED_BYTES = 1 << 30 };

/* "emu:2" counts devices, all on the first card, and so does "cpu:2" where that one stands for the
 * CPU; "card:0,1" names cards, and so does "cuda:0,1". */
extern const ft_cuda_driver emu_driver, emu_cpu_driver, emu_cards_driver, emu_cuda_driver;

#endif
