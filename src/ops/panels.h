/* ops/panels.h - matrix products, of f32 or of what is rounded to bf16. */
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

/* The kernels of this CPU, in f32, or of operands that are rounded to bf16. The latter may be run
 * where ft_panels_check says so: plans for other machines ask for their sizes. */
const ft_simd_panels *ft_panels_kernels(bool bf16);
/* FT_UNSUPPORTED for operands that are rounded to bf16 where that is not there or not allowed. */
ft_status ft_panels_check(bool bf16, ft_error *err);

/* Cut over the team. */
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
