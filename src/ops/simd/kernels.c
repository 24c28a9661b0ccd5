/* ops/simd/kernels.c - the one table that an instruction set exports. */
#include "ops/simd/simd.h"

const ft_simd FT_ISA_NAME(ft_simd) = {
    .math = &FT_ISA_NAME(ft_simd_math),
    .norm = &FT_ISA_NAME(ft_simd_norm),
    .softmax = &FT_ISA_NAME(ft_simd_softmax),
    .random = &FT_ISA_NAME(ft_simd_random),
    .attention = &FT_ISA_NAME(ft_simd_attention),
    .product = &FT_ISA_NAME(ft_simd_product),
    .panels = &FT_ISA_NAME(ft_simd_panels),
#if defined(__AVX512F__)
    .pairs = &FT_ISA_NAME(ft_simd_pairs),
    .widened = &FT_ISA_NAME(ft_simd_widened),
    .tiles = &FT_ISA_NAME(ft_simd_tiles),
    .tiles_bf16 = &FT_ISA_NAME(ft_simd_tiles_bf16),
#endif
};
