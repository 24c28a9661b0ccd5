/* ops/bf16.h - products whose operands are rounded to bf16 first, by oneDNN: those of rows with the
 * attribute bf16 where there are no kernels of our own (ops/panels.h).
 *
 * Operands come as f32 and are converted in each call; packed weights are converted once, when they
 * are packed. Products are summed in f32 (Micikevicius et al., arXiv:1710.03740, with bf16's range
 * in place of loss scaling), and results are f32. */
#ifndef FT_OPS_BF16_H
#define FT_OPS_BF16_H

#include "ops/onednn.h"
#include "ops/ops.h"

#define FT_BF16_RULE                                                                               \
    {                                                                                              \
        .name = "bf16", .preset = 0, .min = 0, .max = 1, .integer = true,                          \
        .help = "1: operands of the product are rounded to bf16"                                   \
    }

/* Cards alone have products of tf32: f32 with 10 bits of fraction. */
#define FT_TF32_RULE                                                                               \
    {                                                                                              \
        .name = "tf32", .preset = 0, .min = 0, .max = 1, .integer = true,                          \
        .help = "1: cards round operands of the product to tf32"                                   \
    }

/* The same of f16, where what is too large becomes infinite. */
#define FT_F16_RULE                                                                                \
    {                                                                                              \
        .name = "f16", .preset = 0, .min = 0, .max = 1, .integer = true,                           \
        .help = "1: cards round operands of the product to f16"                                    \
    }

extern const ft_attr_rule ft_bf16_attrs[]; /* of a row that has these alone */

/* Tolerance of samples: two operands that are off by 2^-9 of themselves each, in sums that may
 * cancel. */
#define FT_BF16_GAP 8e-3
#define FT_TF32_GAP 1e-3 /* the same of 2^-11, which f16 has too */

/* As ft_onednn_product, with x and the weight in f32; product->bf16 is set. */
ft_status ft_bf16_product(const ft_product *product, const ft_product_data *data, ft_team *team,
                          ft_error *err);
int64_t ft_bf16_work_bytes(const ft_product *product, int team_size);

/* dw (N,K) = dy (M,N)^T x (M,K), or added to it; M, N, K > 0. */
typedef struct ft_bf16_outer {
    int64_t M, N, K;
    const float *dy, *x;
    float *dw;
    bool add;
    void *work; /* ft_bf16_outer_work_bytes, 64-byte aligned */
} ft_bf16_outer;

ft_status ft_bf16_outer_product(const ft_bf16_outer *outer, ft_team *team, ft_error *err);
int64_t ft_bf16_outer_work_bytes(int64_t M, int64_t N, int64_t K, int team_size);

#endif
