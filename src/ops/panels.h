/* ops/panels.h - gradients of weights by kernels of our own.
 *
 * Where oneDNN's product of a transposed matrix is slower than ours, in f32: on Intel's CPUs with
 * AVX2 or AVX-512 (measured with AVX-512 units of two 64-byte products a cycle, and with AVX2 on
 * the same one; bench/results/2026-11-23-products.txt). On Zen 4 oneDNN reaches 0.96 of what the
 * core can do and ours has not been timed, so that oneDNN keeps it, as it keeps all other products.
 */
#ifndef FT_OPS_PANELS_H
#define FT_OPS_PANELS_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"
#include "ops/simd/simd.h"

/* c (m,n) = a (k,m)^T * b (k,n), or c + that; all are dense. An element is the sum over the first
 * ft_panels_chunk(k) rows of a and b, in their order, then over the next ones, and so on, each sum
 * begun at 0 and added to c: its bits depend on k and the instruction set alone. */
typedef struct ft_outer {
    int64_t m, n, k;
    const float *a, *b;
    float *c;
    bool add;
    void *work; /* ft_panels_work_bytes, 64-byte aligned */
} ft_outer;

/* The kernels for gradients of weights on this CPU; NULL: oneDNN's are. */
const ft_simd_panels *ft_panels_get(void);

/* Cut over the team. k may not be 0. */
void ft_panels_outer(const ft_outer *product, const ft_simd_panels *kernels, ft_team *team);
int64_t ft_panels_work_bytes(int64_t m, int64_t n, int64_t k, const ft_simd_panels *kernels,
                             int team_size);

/* Rows that are summed at a time, of k > 0. */
int64_t ft_panels_chunk(int64_t k);

#endif
