/* kernels/groups.h - products of four warps together: what cards of compute capability 9.0 have
 * beside fragments.h (PTX ISA, wgmma.mma_async).
 *
 * A group, four warps that follow each other, multiplies a (64, 16) by b (16, N) and adds the
 * product to c (64, N), of which each warp has 16 rows: parts of a and c lie in its lanes as in
 * fragments.h, and b comes from shared memory. Products go on beside what the group does else,
 * until it waits for them.
 *
 * A tile in shared memory has rows of 128 bytes from a multiple of 1024 on, and piece p of 16 bytes
 * of row r is where piece p ^ (r % 8) would be. Its rows are those of the right operand (they have
 * N numbers, products are made across the rows), or its columns (products are made along the rows).
 *
 * Every lane of the group comes to each of these functions. */
#ifndef FT_GROUPS_H
#define FT_GROUPS_H

#include "fragments.h"

enum { FT_GROUP_ROWS = 64, FT_TILE_ROW = 128 };

#ifdef __CUDACC__
/* Shared memory that the launch gives to the block, so many bytes (cuda/kernels.h). */
FT_INLINE void *ft_room(size_t)
{
    extern __shared__ __align__(1024) unsigned char room[];
    return room;
}

#endif

#if defined __CUDA_ARCH_FEAT_SM90_ALL

/* A tile from some row and number on, as the instruction takes it. */
struct ft_tile {
    uint64_t bits;
};
FT_INLINE ft_tile ft_tile_of(const void *first)
{
    const uint64_t apart = 8 * FT_TILE_ROW; /* bytes from 8 rows to the next */
    return {(uint64_t)(ft_at(first) & 0x3ffff) >> 4 | 1ull << 16 | apart >> 4 << 32 | 1ull << 62};
}
/* `bytes`: a multiple of 16, and of 1024 where it leaves the row. */
FT_INLINE ft_tile ft_further(ft_tile x, int bytes)
{
    return {x.bits + (uint64_t)(bytes / 16)};
}

/* Before products: what was written to registers and to shared memory is seen by them. */
FT_INLINE void ft_group_begins()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
/* Products since the last time are one batch. */
FT_INLINE void ft_group_hands_over()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* All batches but the LATER last ones are there, and what they read may be written to. */
template <int LATER> FT_INLINE void ft_group_waits()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LATER) : "memory");
}
/* What this thread has put into shared memory is seen by products behind the next barrier. */
FT_INLINE void ft_group_sees()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
/* A number that is used no earlier, and written no later, than here. */
FT_INLINE void ft_pin(float &x)
{
    asm volatile("" : "+f"(x)::"memory");
}
FT_INLINE void ft_pin(uint32_t &x)
{
    asm volatile("" : "+r"(x)::"memory");
}

#define FT_4(c, n)  "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])
#define FT_8(c, n)  FT_4(c, n), FT_4(c, (n) + 1)
#define FT_16(c, n) FT_8(c, n), FT_8(c, (n) + 2)
#define FT_32(c)    FT_16(c, 0), FT_16(c, 4)
#define FT_D8       "%0, %1, %2, %3, %4, %5, %6, %7"
#define FT_D16      FT_D8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define FT_D32                                                                                     \
    FT_D16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define FT_GROUP(N, type, sums, a, b, ways)                                                        \
    "{ .reg .pred p; setp.eq.u32 p, 0, 0; wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type    \
    "." type " {" sums "}, " a ", " b ", p, 1, 1, " ways "; }"

/* c (N numbers of a row) += a times the tile; left operands of 16 columns are in registers. */
#define FT_IN_REGISTERS(N, type, sums, outs, a, b, way)                                            \
    asm volatile(FT_GROUP(N, type, sums, a, b, way)                                                \
                 : outs                                                                            \
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(tile.bits), "n"(ACROSS))
/* The same of a tile: its rows, along which products are made. */
#define FT_IN_TILE(N, type, sums, outs, a, b, way)                                                 \
    asm volatile(FT_GROUP(N, type, sums, a, b, "0, " way)                                          \
                 : outs                                                                            \
                 : "l"(x.bits), "l"(tile.bits), "n"(ACROSS))

template <bool F16, int N, int ACROSS>
FT_INLINE void ft_multiply_tile(float (*c)[4], const uint32_t x[4], ft_tile tile)
{
    if constexpr (N == 16 && F16)
        FT_IN_REGISTERS(16, "f16", FT_D8, FT_8(c, 0), "{%8, %9, %10, %11}", "%12", "%13");
    else if constexpr (N == 16)
        FT_IN_REGISTERS(16, "bf16", FT_D8, FT_8(c, 0), "{%8, %9, %10, %11}", "%12", "%13");
    else if constexpr (N == 32 && F16)
        FT_IN_REGISTERS(32, "f16", FT_D16, FT_16(c, 0), "{%16, %17, %18, %19}", "%20", "%21");
    else if constexpr (N == 32)
        FT_IN_REGISTERS(32, "bf16", FT_D16, FT_16(c, 0), "{%16, %17, %18, %19}", "%20", "%21");
    else if constexpr (F16)
        FT_IN_REGISTERS(64, "f16", FT_D32, FT_32(c), "{%32, %33, %34, %35}", "%36", "%37");
    else
        FT_IN_REGISTERS(64, "bf16", FT_D32, FT_32(c), "{%32, %33, %34, %35}", "%36", "%37");
    static_assert(N == 16 || N == 32 || N == 64, "no such product is written");
}

template <bool F16, int N, int ACROSS>
FT_INLINE void ft_multiply_tiles(float (*c)[4], ft_tile x, ft_tile tile)
{
    if constexpr (N == 16 && F16)
        FT_IN_TILE(16, "f16", FT_D8, FT_8(c, 0), "%8", "%9", "%10");
    else if constexpr (N == 16)
        FT_IN_TILE(16, "bf16", FT_D8, FT_8(c, 0), "%8", "%9", "%10");
    else if constexpr (N == 32 && F16)
        FT_IN_TILE(32, "f16", FT_D16, FT_16(c, 0), "%16", "%17", "%18");
    else if constexpr (N == 32)
        FT_IN_TILE(32, "bf16", FT_D16, FT_16(c, 0), "%16", "%17", "%18");
    else if constexpr (F16)
        FT_IN_TILE(64, "f16", FT_D32, FT_32(c), "%32", "%33", "%34");
    else
        FT_IN_TILE(64, "bf16", FT_D32, FT_32(c), "%32", "%33", "%34");
    static_assert(N == 16 || N == 32 || N == 64, "no such product is written");
}

#elif defined __CUDACC__

/* Other cards have none: templates name them, and nobody calls them. */
struct ft_tile {
    uint64_t bits;
};
FT_INLINE ft_tile ft_tile_of(const void *)
{
    return {0};
}
FT_INLINE ft_tile ft_further(ft_tile x, int)
{
    return x;
}
FT_INLINE void ft_group_begins()
{
    __trap();
}
FT_INLINE void ft_group_hands_over()
{
    __trap();
}
template <int LATER> FT_INLINE void ft_group_waits()
{
    __trap();
}
FT_INLINE void ft_group_sees()
{
    __trap();
}
FT_INLINE void ft_pin(float &)
{
}
FT_INLINE void ft_pin(uint32_t &)
{
}
template <bool F16, int N, int ACROSS>
FT_INLINE void ft_multiply_tile(float (*)[4], const uint32_t[4], ft_tile)
{
    __trap();
}
template <bool F16, int N, int ACROSS>
FT_INLINE void ft_multiply_tiles(float (*)[4], ft_tile, ft_tile)
{
    __trap();
}

#else
#include "groups.hpp"
#endif

#endif
