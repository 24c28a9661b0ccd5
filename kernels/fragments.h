/* kernels/fragments.h - products of tensor cores, and what their operands are read with.
 *
 * A warp multiplies a (16, 16) by b (16, 8) and adds the product to c (16, 8). Each lane holds
 * parts of the three, as the PTX ISA lays them out (mma.m16n8k16 and mma.m16n8k8, of 16 bits).
 * With g = lane / 4 and t = lane % 4:
 *
 *   a: word 0: (g, 2t), (g, 2t + 1)           c: 0: (g, 2t)
 *           1: (g + 8, 2t), (g + 8, 2t + 1)      1: (g, 2t + 1)
 *           2: (g, 2t + 8), (g, 2t + 9)          2: (g + 8, 2t)
 *           3: (g + 8, 2t + 8), (g + 8, 2t + 9)  3: (g + 8, 2t + 1)
 *   b: word 0: (2t, g), (2t + 1, g)
 *           1: (2t + 8, g), (2t + 9, g)
 *
 * A word has two numbers, the first in its lower half. So two c side by side, rounded, are an a.
 *
 * Every lane of a warp comes to each of these functions. In the emulation the same functions take
 * what lanes show each other (test/emulation/fragments.hpp). */
#ifndef FT_FRAGMENTS_H
#define FT_FRAGMENTS_H

#include "rounding.h"

#ifdef __CUDACC__

/* Four matrices of 8 rows of 8 numbers, from shared memory. Lane i has the address of row i % 8 of
 * matrix i / 8, aligned to 16 bytes; word m of a lane is of matrix m: (g, 2t), (g, 2t + 1). */
FT_INLINE void ft_load_matrices(uint32_t x[4], const uint16_t *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}
/* The same, transposed: (2t, g), (2t + 1, g). */
FT_INLINE void ft_load_transposed(uint32_t x[4], const uint16_t *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

/* Kinds of numbers. `pair` rounds two to a word, `multiply` adds a product to c. */
struct ft_f16 {
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

#endif
