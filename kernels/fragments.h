/* kernels/fragments.h - products of tensor cores, and what their operands are read with.
 *
 * A warp multiplies a (16, 16) by b (16, 8) and adds the product to c (16, 8). Each lane holds
 * parts of the three. With g = lane / 4 and t = lane % 4:
 *
 *   a: pair 0: (g, 2t), (g, 2t + 1)           c: 0: (g, 2t)
 *           1: (g + 8, 2t), (g + 8, 2t + 1)      1: (g, 2t + 1)
 *           2: (g, 2t + 8), (g, 2t + 9)          2: (g + 8, 2t)
 *           3: (g + 8, 2t + 8), (g + 8, 2t + 9)  3: (g + 8, 2t + 1)
 *   b: pair 0: (2t, g), (2t + 1, g)
 *           1: (2t + 8, g), (2t + 9, g)
 *
 * So two c side by side, rounded, are an a. Two numbers of 16 bits are a word, the first in its
 * lower half: so the PTX ISA lays them out (mma.m16n8k16, and m16n8k8 twice). Two of tf32 are two
 * words, and m16n8k8 of tf32 has a: (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4), b: (t, g),
 * (t + 4, g): given the first numbers of pairs where it has t, and the second where it has t + 4,
 * it adds up the same products in another order.
 *
 * Every lane of a warp comes to each of these functions. In the emulation the same functions take
 * what lanes show each other (test/emulation/fragments.hpp). */
#ifndef FT_FRAGMENTS_H
#define FT_FRAGMENTS_H

#include "numbers.h"

#ifdef __CUDACC__

/* An address in shared memory. */
typedef uint32_t ft_shared_at;
FT_INLINE ft_shared_at ft_at(const void *x)
{
    return (ft_shared_at)__cvta_generic_to_shared(x);
}

/* Four matrices of 8 rows of 8 numbers, from shared memory. Lane i has the address of row i % 8 of
 * matrix i / 8, aligned to 16 bytes; word m of a lane is of matrix m: (g, 2t), (g, 2t + 1). */
FT_INLINE void ft_load_matrices(uint32_t x[4], ft_shared_at row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(row)
                 : "memory");
}
/* The same, transposed: (2t, g), (2t + 1, g). */
FT_INLINE void ft_load_transposed(uint32_t x[4], ft_shared_at row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(row)
                 : "memory");
}

/* The nearest tf32, as ft_as_tf32. From compute capability 8.0 on, as all of tf32. */
FT_INLINE float ft_round_tf32(float x)
{
    uint32_t y = 0;
#if __CUDA_ARCH__ >= 800
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
#endif
    return __uint_as_float(y);
}
/* m16n8k8. */
FT_INLINE void ft_multiply_tf32(float c[4], const float a[4], const float b[2])
{
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])),
                   "r"(__float_as_uint(a[2])), "r"(__float_as_uint(a[3])),
                   "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
#else
    __trap();
#endif
}

/* 2 to the power of x, as the card's own instruction has it. */
FT_INLINE float ft_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Bits 8 n and 8 n + 1, each 16 times: n from 0 to 3. */
FT_INLINE uint32_t ft_spread_bits(uint32_t bits, int n)
{
    uint32_t x; /* of each byte of the result the sign of one of these: prmt */
    asm("prmt.b32 %0, %1, %2, %3;"
        : "=r"(x)
        : "r"(bits << 7), "r"(bits << 6), "r"(0xcc88 + 0x1111 * n));
    return x;
}

/* Kinds of numbers: `number` in shared memory, `two` in registers. `pair` rounds two, `multiply`
 * adds a product to c. */
struct ft_f16 {
    enum { IS_F16 = 1 };
    typedef uint16_t number;
    typedef uint32_t two;
    FT_INLINE uint32_t pair(float first, float second)
    {
        uint32_t x;
#if __CUDA_ARCH__ >= 800
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(second), "f"(first));
#else
        asm("{ .reg .f16 first, second; cvt.rn.f16.f32 first, %1; cvt.rn.f16.f32 second, %2; "
            "mov.b32 %0, {first, second}; }"
            : "=r"(x)
            : "f"(first), "f"(second));
#endif
        return x;
    }
    FT_INLINE void multiply(float c[4], const uint32_t a[4], const uint32_t b[2])
    {
#if __CUDA_ARCH__ >= 800
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                     "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
FT_UNROLL
        for (int half = 0; half < 2; half++)
            asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                         "{%4, %5}, {%6}, {%0, %1, %2, %3};"
                         : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                         : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
#endif
    }
};

/* From compute capability 8.0 on; nobody launches its kernels before. */
struct ft_bf16 {
    enum { IS_F16 = 0 };
    typedef uint16_t number;
    typedef uint32_t two;
    FT_INLINE uint32_t pair(float first, float second)
    {
        uint32_t x = 0;
#if __CUDA_ARCH__ >= 800
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(second), "f"(first));
#endif
        return x;
    }
    FT_INLINE void multiply(float c[4], const uint32_t a[4], const uint32_t b[2])
    {
#if __CUDA_ARCH__ >= 800
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                     "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
        __trap();
#endif
    }
};

#else
#include "fragments.hpp"
#endif

struct alignas(8) ft_two {
    float x[2];
};

struct ft_tf32 {
    typedef float number;
    typedef ft_two two;
    FT_INLINE ft_two pair(float first, float second)
    {
        return {{ft_round_tf32(first), ft_round_tf32(second)}};
    }
    FT_INLINE void multiply(float c[4], const ft_two a[4], const ft_two b[2])
    {
FT_UNROLL
        for (int half = 0; half < 2; half++) {
            const ft_two x = a[2 * half], y = a[2 * half + 1];
            const float pairs[4] = {x.x[0], y.x[0], x.x[1], y.x[1]};
            ft_multiply_tf32(c, pairs, b[half].x);
        }
    }
};

#endif
