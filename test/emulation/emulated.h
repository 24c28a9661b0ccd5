/* test/emulation/emulated.h - what the emulated runtime has of kernels. */
#ifndef FT_EMULATED_H
#define FT_EMULATED_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Every thread of every block calls the kernel; a block may ask for `room` bytes of shared memory
 * by ft_room. Seed 0: threads in their order. -1: the threads of a block do not come to the same
 * barriers. */
int emu_run_grid(void (*kernel)(const void *args), const void *args, const unsigned grid[3],
                 int threads, unsigned room, uint32_t seed);

/* Of the cards: 90 is 9.0. */
int emu_capability(void);

#ifdef __cplusplus
}
#endif

#endif
