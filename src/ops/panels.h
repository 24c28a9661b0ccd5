/* ops/panels.h - large products by kernels of our own.
 *
 * In bf16 they are used where the CPU has a matrix unit
 * (bench/results/2026-11-29-products-bf16.txt); in f32 where they were measured to be faster than
 * oneDNN's: on Intel's CPUs, whose gradients of weights oneDNN is slow at
 * (bench/results/2026-11-23-products.txt), and products with packed weights on Emerald Rapids
 * (2026-11-29-products-intel.txt there), more so by the matrix unit of those that have one
 * (2026-11-29-products-unit.txt); and on every CPU with AVX2 but without AVX-512, where oneDNN 2.6
 * has no kernels that read packed weights (2026-11-27-products-avx2.txt). On Zen 4 oneDNN reaches
 * 0.96 of what the core can do. */
#ifndef FT_OPS_PANELS_H
#define FT_OPS_PANELS_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"
#include "ops/simd/simd.h"

/* c (m,n) = a (m,k) * b (k,n), or c + that, then + bias (n), then the larger of that and 0; all are
 * dense. An element is the sum over the first ft_panels_chunk of k, in their order, then over
 * the next ones, and so on, each sum begun at 0 and added to c: its bits depend on k and the
 * kernels alone, not on how b is given. With a matrix unit there are two ways to take the sum of a
 * chunk in f32, by vectors (ops/simd/panels.c) where m is below 64 or k below 48, and by the unit
 * (ops/simd/tiles.c), so that bits depend on m, too. */
typedef struct ft_large_product {
    int64_t m, n, k;
    const float *a, *b;
    bool a_transposed;  /* a is stored as (k,m) */
    bool b_transposed;  /* b is stored as (n,k) */
    const void *packed; /* b by ft_panels_pack, which is then not read; NULL: none */
    const float *bias;  /* NULL: none */
    float *c;
    bool add, relu;
    bool far;   /* c is read much later: it goes past the caches where that is worth it */
    void *work; /* ft_panels_work_bytes, 64-byte aligned */
} ft_large_product;

/* The kernels for products with weights and for their gradients on this CPU, in f32, or of operands
 * that are rounded to bf16; NULL: oneDNN's are used. */
const ft_simd_panels *ft_panels_kernels(bool bf16);

/* Cut over the team. k may not be 0. */
void ft_panels_multiply(const ft_large_product *product, const ft_simd_panels *kernels,
                        ft_team *team);
/* Enough for b packed or not. */
int64_t ft_panels_work_bytes(int64_t m, int64_t n, int64_t k, const ft_simd_panels *kernels,
                             int team_size);

/* b (k,n), or stored as (n,k), for any m; `packed` is 64-byte aligned. */
int64_t ft_panels_packed_bytes(int64_t n, int64_t k, const ft_simd_panels *kernels);
void ft_panels_pack(const ft_large_product *product, void *packed, const ft_simd_panels *kernels,
                    ft_team *team);

/* As much of k > 0 as is summed at a time. */
int64_t ft_panels_chunk(int64_t k, const ft_simd_panels *kernels);

#endif
