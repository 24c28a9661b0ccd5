/* kernels/kernel.h - what kernels are written with, on a card and in the emulation.
 *
 * FT_KERNEL(name) { ... } defines kernel `name` of cuda/kernels.h, whose argument is `a`;
 * FT_ROOMY_KERNEL one that is given all the registers that it needs, where the compiler would spill
 * some to have more blocks at once (tools/kernels.lua says where); FT_PAIRED_KERNEL one of which a
 * multiprocessor has room for two blocks, FT_CROWDED_KERNEL(blocks, name) for so many. Shared
 * memory is FT_SHARED(type, name, count). Blocks have whole warps, and every thread comes to every
 * barrier: the emulation refuses others. */
#ifndef FT_KERNEL_H
#define FT_KERNEL_H

#include <float.h>
#include <math.h>

#include "cuda/args.h"
#include "cuda/attention_args.h"
#include "cuda/optim_args.h"

#ifdef __CUDACC__

#define FT_INLINE static __device__ __forceinline__
#define FT_SHARED(type, name, count) __shared__ __align__(16) type name[count]
#define FT_TILE(type, name, count)   __shared__ __align__(1024) type name[count] /* rows of tiles */
#define FT_BLOCK_BARRIER() __syncthreads()
#define FT_WARP_BARRIER() __syncwarp()
#define FT_UNROLL _Pragma("unroll")
#define FT_ROLLED _Pragma("unroll 1")

enum {
#define FT_BOUND(file, name, threads) ft_threads_of_##name = threads,
    FT_CUDA_KERNELS(FT_BOUND)
#undef FT_BOUND
};

#define FT_KERNEL(name)                                                                            \
    extern "C" __global__ void __launch_bounds__(ft_threads_of_##name)                             \
        ft_##name(const __grid_constant__ ft_##name##_args a)
#define FT_ROOMY_KERNEL(name)                                                                      \
    extern "C" __global__ void __launch_bounds__(ft_threads_of_##name, 1)                          \
        ft_##name(const __grid_constant__ ft_##name##_args a)

/* Before compute capability 8.0 rows pass through registers, and for 10.0 the compiler takes more
 * of them: there it is one. */
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ < 800 || __CUDA_ARCH__ >= 1000)
#define FT_PAIR 1
#else
#define FT_PAIR 2
#endif
#define FT_PAIRED_KERNEL(name)                                                                     \
    extern "C" __global__ void __launch_bounds__(ft_threads_of_##name, FT_PAIR)                    \
        ft_##name(const __grid_constant__ ft_##name##_args a)

#if __CUDA_ARCH__ >= 800
enum { FT_MOST_THREADS = 1536 }; /* of a multiprocessor, of the smallest of these cards */
#else
enum { FT_MOST_THREADS = 1024 };
#endif
FT_INLINE constexpr int ft_least_blocks(int blocks, int threads)
{
    return blocks * threads > FT_MOST_THREADS ? FT_MOST_THREADS / threads : blocks;
}
#define FT_CROWDED_KERNEL(blocks, name)                                                            \
    extern "C" __global__ void __launch_bounds__(                                                  \
        ft_threads_of_##name, ft_least_blocks(blocks, ft_threads_of_##name))                       \
        ft_##name(const __grid_constant__ ft_##name##_args a)

FT_INLINE float ft_from_lane(float x, int lane)
{
    return __shfl_sync(0xffffffffu, x, lane);
}
FT_INLINE uint32_t ft_from_lane(uint32_t x, int lane)
{
    return __shfl_sync(0xffffffffu, x, lane);
}
/* A bit for each lane of the warp; how many bits are set. */
FT_INLINE uint32_t ft_ballot(bool x)
{
    return __ballot_sync(0xffffffffu, x);
}
FT_INLINE int ft_count_bits(uint32_t x)
{
    return __popc(x);
}
FT_INLINE double ft_xor_lane(double x, int mask)
{
    return __shfl_xor_sync(0xffffffffu, x, mask);
}
FT_INLINE float ft_xor_lane(float x, int mask)
{
    return __shfl_xor_sync(0xffffffffu, x, mask);
}
FT_INLINE uint32_t ft_xor_lane(uint32_t x, int mask)
{
    return __shfl_xor_sync(0xffffffffu, x, mask);
}

/* 8 bytes, or zeros, come to shared memory past the registers, until this thread has waited: no
 * thread looks there before a barrier behind that. Before compute capability 8.0 at once. */
FT_INLINE void ft_copy_eight(void *to, const void *from, bool there)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;"
                 :
                 : "r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from), "r"(there ? 8 : 0)
                 : "memory");
#else
    *(uint2 *)to = there ? *(const uint2 *)from : make_uint2(0, 0);
#endif
}
FT_INLINE void ft_copies_done()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

/* 1 / x, within an ulp; 0 where that is below 2^-126. */
FT_INLINE float ft_reciprocal(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* 1 / sqrt(x), within two ulp. */
FT_INLINE float ft_inverse_root(float x)
{
    float y;
    asm("rsqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    float rest = fmaf(-x * y, y, 1.0f); /* nan if x is 0 or infinite */
    return fabsf(rest) < 1.0f ? fmaf(0.5f * y, rest, y) : y;
}

#else
#include "emulate.hpp"
#endif

enum { FT_WARP = 32 };

FT_INLINE int ft_lane()
{
    return (int)(threadIdx.x % FT_WARP);
}
FT_INLINE int ft_warp()
{
    return (int)(threadIdx.x / FT_WARP);
}
/* The row of this warp, where warps have one each. */
FT_INLINE int64_t ft_warp_row()
{
    return (int64_t)blockIdx.x * (blockDim.x / FT_WARP) + ft_warp();
}

/* Elements i of this thread, where a block has FT_CUDA_EACH; of that block. */
#define FT_EACH(i, n) FT_EACH_OF(i, blockIdx.x, n)
#define FT_EACH_OF(i, block, n)                                                                    \
    for (int64_t i = (int64_t)(block)*FT_CUDA_EACH + threadIdx.x,                                  \
                 ft_each_end = ft_least(((int64_t)(block) + 1) * FT_CUDA_EACH, n);                 \
         i < ft_each_end; i += blockDim.x)

/* The first of four elements of this thread, of n; a block has FT_CUDA_EACH. */
#define FT_EACH_FOUR(i, n)                                                                         \
    for (int64_t i = (int64_t)blockIdx.x * FT_CUDA_EACH + 4 * (int64_t)threadIdx.x,                \
                 ft_each_end = ft_least(((int64_t)blockIdx.x + 1) * FT_CUDA_EACH, n);              \
         i < ft_each_end; i += 4 * (int64_t)blockDim.x)

/* Of a block of FT_CUDA_EACH elements, which has 8 for a thread: the first of those. */
FT_INLINE int64_t ft_first_of_eight()
{
    return (int64_t)blockIdx.x * FT_CUDA_EACH + 8 * (int64_t)threadIdx.x;
}

/* Four numbers at once, from where 16 bytes are aligned. */
struct alignas(16) ft_four {
    float x[4];
};
FT_INLINE bool ft_aligned(const float *x)
{
    return ((uintptr_t)x & 15) == 0;
}
FT_INLINE ft_four ft_get(const float *x)
{
    return *(const ft_four *)x;
}
FT_INLINE void ft_put(float *x, const ft_four &four)
{
    *(ft_four *)x = four;
}

/* i / n, in 32 bits where that is enough. */
FT_INLINE int64_t ft_whole_times(int64_t i, int64_t n)
{
    return (i | n) >> 32 ? i / n : (int64_t)((uint32_t)i / (uint32_t)n);
}

FT_INLINE int64_t ft_least(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

/* The tensor that this block is of, and its number among the blocks of that. */
FT_INLINE int ft_tensor_of(const ft_cuda_blocks &blocks, unsigned *block)
{
    int t = 0, end = blocks.n;
    while (end - t > 1) {
        int middle = (t + end) / 2;
        if (blocks.first[middle] <= blockIdx.x)
            t = middle;
        else
            end = middle;
    }
    *block = blockIdx.x - blocks.first[t];
    return t;
}

/* Sums and maxima, the same in every lane; sums in f64, in a fixed order. */
FT_INLINE double ft_warp_sum(double x)
{
    for (int mask = FT_WARP / 2; mask; mask /= 2) x += ft_xor_lane(x, mask);
    return x;
}
FT_INLINE float ft_larger(float x, float y)
{
    return y > x || y != y ? y : x; /* nan stays */
}
FT_INLINE float ft_warp_max(float x)
{
    for (int mask = FT_WARP / 2; mask; mask /= 2) x = ft_larger(x, ft_xor_lane(x, mask));
    return x;
}
/* `room`: shared, of a number for each warp and one more. */
FT_INLINE double ft_block_sum(double x, double *room)
{
    int n = (int)(blockDim.x / FT_WARP);
    x = ft_warp_sum(x);
    FT_BLOCK_BARRIER();
    if (ft_lane() == 0) room[ft_warp()] = x;
    FT_BLOCK_BARRIER();
    double sum = 0;
    for (int i = 0; i < n; i++) sum += room[i];
    return sum;
}
FT_INLINE float ft_block_max(float x, double *room)
{
    int n = (int)(blockDim.x / FT_WARP);
    x = ft_warp_max(x);
    FT_BLOCK_BARRIER();
    if (ft_lane() == 0) room[ft_warp()] = x;
    FT_BLOCK_BARRIER();
    float top = (float)room[0];
    for (int i = 1; i < n; i++) top = ft_larger(top, (float)room[i]);
    return top;
}

FT_INLINE void ft_report(ft_cuda_fault *fault, uint32_t kind, int32_t value, int64_t at,
                         int64_t limit)
{
    if (fault->kind) return;
    fault->value = value;
    fault->at = at;
    fault->limit = limit;
    fault->kind = kind;
}

/* Ten rounds of Philox4x32 (base/rng.h). */
FT_INLINE void ft_philox(const uint32_t key[2], uint64_t block, uint32_t sample, uint32_t out[4])
{
    uint32_t k0 = key[0], k1 = key[1];
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32), c2 = sample, c3 = 0x44524F50u;
    for (int round = 0; round < 10; round++) {
        uint64_t x = (uint64_t)0xD2511F53u * c0, y = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(y >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(x >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)y;
        c3 = (uint32_t)x;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* Whether element j of 8 of a drawn block is kept. */
FT_INLINE bool ft_kept(const uint32_t out[4], int j, uint32_t threshold)
{
    uint32_t word = j < 4 ? (j < 2 ? out[0] : out[1]) : (j < 6 ? out[2] : out[3]);
    return (word >> (16 * (j % 2)) & 0xffff) >= threshold;
}

#endif
