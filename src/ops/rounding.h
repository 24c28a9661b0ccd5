/* ops/rounding.h - attributes of products whose operands are rounded first.
 *
 * Operands come as f32; products are summed in f32 (Micikevicius et al., arXiv:1710.03740, with
 * bf16's range in place of loss scaling), and results are f32. */
#ifndef FT_OPS_ROUNDING_H
#define FT_OPS_ROUNDING_H

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

extern const ft_attr_rule ft_rounding_attrs[]; /* of a row that has these alone */

/* Tolerance of samples: two operands that are off by 2^-9 of themselves each, in sums that may
 * cancel. */
#define FT_BF16_GAP 8e-3
#define FT_TF32_GAP 1e-3 /* the same of 2^-11, which f16 has too */

#endif
