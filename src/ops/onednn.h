/* ops/onednn.h - the matrix products of oneDNN, without its types.
 *
 * Every call computes with one thread for each piece of its result; pieces are split over the team.
 * Where the pieces lie depends on the sizes alone, so that the bits of a result do not depend on
 * the team. Matrices are row-major f32, or bf16 where it is said; all functions may be called from
 * any thread. */
#ifndef FT_OPS_ONEDNN_H
#define FT_OPS_ONEDNN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "device/device.h"
#include "ops/product.h"

/* c (m,n) = alpha * op(a) (m,k) * op(b) (k,n) + beta * c, where op transposes if asked: a is then
 * stored as (k,m), b as (n,k). lda, ldb, ldc: elements from one stored row to the next. */
typedef struct ft_gemm {
    int64_t m, n, k;
    const float *a;
    const float *b;
    float *c;
    int64_t lda, ldb, ldc;
    bool transpose_a, transpose_b;
    float alpha, beta;
} ft_gemm;

/* One product, on the calling thread. */
ft_status ft_onednn_gemm(const ft_gemm *gemm, ft_error *err);

/* The same, its rows of c split over the team. */
ft_status ft_onednn_gemm_team(const ft_gemm *gemm, ft_team *team, ft_error *err);

/* A product with a weight, plain or packed by ft_onednn_pack. */
ft_status ft_onednn_product(const ft_product *product, const ft_product_data *data, ft_team *team,
                            ft_error *err);

/* What calls of one product share, with a packed weight or a plain one, for teams of this size;
 * *out is NULL for a product of nothing. Calls of any threads may use it at once. */
ft_status ft_onednn_prepare(ft_prepared **out, const ft_product *product, bool packed,
                            int team_size, ft_error *err);
void ft_onednn_forget(ft_prepared *prepared);

/* Scratch memory of ft_onednn_product. A size that no machine has when oneDNN cannot tell. */
int64_t ft_onednn_work_bytes(const ft_product *product, int team_size);

/* Packed weights: the layout in which oneDNN's kernels read B, bf16 or not; it depends on n and k,
 * not on m. They are made from f32. Packed memory is 64-byte aligned. */
int64_t ft_onednn_packed_bytes(const ft_product *product);
ft_status ft_onednn_pack(const ft_product *product, const float *weight, void *packed,
                         ft_team *team, ft_error *err);

#endif
