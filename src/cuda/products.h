/* cuda/products.h - matrix products by cuBLASLt, with an algorithm chosen once for each shape. */
#ifndef FT_CUDA_PRODUCTS_H
#define FT_CUDA_PRODUCTS_H

#include <stdbool.h>

#include "cuda/args.h"
#include "nvidia/cublas.h"

typedef struct ft_products ft_products; /* of one stream, whose context is current in each call */

ft_status ft_products_new(ft_products **out, const ft_cublas_api *api, ft_error *err);
void ft_products_free(ft_products *products);

/* Where a product is computed, and its workspace. */
typedef struct ft_product_place {
    cu_stream stream;
    void *scratch;
    size_t scratch_bytes;
} ft_product_place;

/* Whether the library has an algorithm for the shape, which is searched for when it first comes. */
ft_status ft_products_have(ft_products *products, const ft_product_args *args, int64_t batch,
                           const ft_product_place *place, bool *out, ft_error *err);
/* `batch` products, one behind the other, for which there is an algorithm. Rounded to 16 bits, a
 * and b are kept so; c may be, and then the bias is. */
ft_status ft_products_multiply(ft_products *products, const ft_product_args *args, int64_t batch,
                               const ft_product_place *place, ft_error *err);

#endif
