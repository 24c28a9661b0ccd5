/* test/emulation/emulate.hpp - kernels on the host: the threads of a block take turns on one host
 * thread.
 *
 * A thread runs until it comes to a barrier or its end; then the next one does, in an order drawn
 * from a seed. Blocks are executed one after the other, in an order drawn too. Shared memory holds
 * NaN when a block begins. Nothing here is part of the program: tests link it. */
#ifndef FT_EMULATE_H
#define FT_EMULATE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define FT_INLINE                    static inline
#define FT_SHARED(type, name, count) type *name = (type *)emu_shared((count) * sizeof(type), 16)
#define FT_TILE(type, name, count)   type *name = (type *)emu_shared((count) * sizeof(type), 1024)
#define FT_BLOCK_BARRIER()           emu_barrier(false)
#define FT_WARP_BARRIER()            emu_barrier(true)
#define FT_UNROLL
#define FT_ROLLED

struct emu_index {
    unsigned x, y, z;
};

extern thread_local emu_index threadIdx, blockIdx, blockDim, gridDim;

/* The same memory for every thread of the block that asks for its n-th piece. */
void *emu_shared(size_t bytes, size_t align);
/* Of what the launch gives. */
void *emu_room(size_t bytes);
#define ft_room emu_room
/* Of the cards: 90 is 9.0. */
extern "C" int emu_capability(void);
void emu_barrier(bool of_warp);
/* x of that lane of the warp. */
double emu_from_lane(double x, int lane);
/* What the lanes of the warp show, n words each, until the warp's next barrier. */
struct emu_words {
    uint32_t x[6];
};
const emu_words *emu_show(const uint32_t *mine, int n);

FT_INLINE uint32_t ft_ballot(bool x)
{
    const uint32_t mine = x;
    const emu_words *lanes = emu_show(&mine, 1);
    uint32_t votes = 0;
    for (int i = 0; i < 32; i++) votes |= lanes[i].x[0] << i;
    emu_barrier(true);
    return votes;
}
FT_INLINE int ft_count_bits(uint32_t x)
{
    return __builtin_popcount(x);
}
FT_INLINE float ft_from_lane(float x, int lane)
{
    return (float)emu_from_lane(x, lane);
}
FT_INLINE uint32_t ft_from_lane(uint32_t x, int lane)
{
    return (uint32_t)emu_from_lane(x, lane);
}
FT_INLINE double ft_xor_lane(double x, int mask)
{
    return emu_from_lane(x, (int)(threadIdx.x % 32) ^ mask);
}
FT_INLINE float ft_xor_lane(float x, int mask)
{
    return (float)emu_from_lane(x, (int)(threadIdx.x % 32) ^ mask);
}

FT_INLINE uint32_t ft_xor_lane(uint32_t x, int mask)
{
    return (uint32_t)emu_from_lane(x, (int)(threadIdx.x % 32) ^ mask);
}

/* 8 bytes that come to shared memory until the thread waits for them; zeros, from nowhere. Until
 * then there is NaN. */
void emu_copy_eight(void *to, const void *from);
void emu_copies_done();
FT_INLINE void ft_copy_eight(void *to, const void *from, bool there)
{
    emu_copy_eight(to, there ? from : NULL);
}
FT_INLINE void ft_copies_done()
{
    emu_copies_done();
}

FT_INLINE float ft_reciprocal(float x)
{
    return 1.0f / x;
}

FT_INLINE float ft_inverse_root(float x)
{
    return (float)(1.0 / sqrt((double)x));
}

/* The kernel as the emulated runtime calls it, once for each thread. */
#define FT_KERNEL(name)                                                                            \
    static void name##_thread(const ft_##name##_args &a);                                          \
    extern "C" void emu_kernel_##name(const void *args);                                           \
    extern "C" void emu_kernel_##name(const void *args)                                            \
    {                                                                                              \
        name##_thread(*(const ft_##name##_args *)args);                                            \
    }                                                                                              \
    static void name##_thread(const ft_##name##_args &a)

#define FT_ROOMY_KERNEL(name)  FT_KERNEL(name)
#define FT_PAIRED_KERNEL(name) FT_KERNEL(name)
#define FT_CROWDED_KERNEL(blocks, name) FT_KERNEL(name)

#endif
