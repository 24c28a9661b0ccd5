/* ops/product.h - products with a weight, by whoever does them best here.
 *
 * That is our own kernels on most CPUs and oneDNN's on the others (ops/panels.h says which and
 * why). */
#ifndef FT_OPS_PRODUCT_H
#define FT_OPS_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "device/device.h"
#include "ops/ops.h"

/* y (m,n) = x (m,k) * B (k,n), then + bias (n), then the larger of that and 0; B is a weight stored
 * as (k,n), or as (n,k) if transposed. */
typedef struct ft_product {
    int64_t m, n, k;
    bool transposed, bias, relu;
    bool bf16; /* operands are rounded to bf16, or are so for oneDNN (ops/bf16.c); sums, bias and
                  y are f32 */
    /* What oneDNN alone is asked for, where k > 0. */
    bool x_transposed; /* x is stored as (k,m) */
    bool add;          /* to y, instead of overwriting it */
    int64_t y_step;    /* elements from one row of y to the next, 0: n */
} ft_product;

typedef struct ft_prepared ft_prepared; /* a product of oneDNN's that is ready to run */

typedef struct ft_product_data {
    const void *x;
    const void *weight; /* not read when `packed` is given */
    const void *packed; /* of ft_product_pack for the same n, k and transposed; NULL: none */
    const ft_prepared *prepared; /* of this product with such a weight; NULL: none */
    const float *bias;           /* NULL without a bias */
    float *y;
    void *work; /* ft_product_work_bytes, 64-byte aligned */
} ft_product_data;

/* x and the weight are f32, also where they are rounded to bf16. */
ft_status ft_product_run(const ft_product *product, const ft_product_data *data, ft_team *team,
                         ft_error *err);

/* Scratch memory of ft_product_run, with a packed weight or a plain one. */
int64_t ft_product_work_bytes(const ft_product *product, int team_size);

/* What calls of this kind share; *out is NULL where they share nothing, which may be forgotten. */
ft_status ft_product_prepare(ft_prepared **out, const ft_product *product, const ft_call_kind *kind,
                             ft_error *err);
void ft_product_forget(ft_prepared *prepared);

/* Packed weights: the layout in which kernels read B, bf16 or not; it depends on n and k, not on
 * m. They are made from f32. Packed memory is 64-byte aligned. */
int64_t ft_product_packed_bytes(const ft_product *product);
ft_status ft_product_pack(const ft_product *product, const float *weight, void *packed,
                          ft_team *team, ft_error *err);

#endif
