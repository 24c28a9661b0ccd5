/* ops/isa.c - which copy of the vector kernels runs. */
#include "device/device.h"
#include "ops/simd/simd.h"

extern const ft_simd ft_simd_base;
#if defined(__x86_64__)
extern const ft_simd ft_simd_avx2, ft_simd_avx512;
#endif

const ft_simd *ft_simd_of(int isa)
{
#if defined(__x86_64__)
    if (isa == FT_ISA_AVX512) return &ft_simd_avx512;
    if (isa == FT_ISA_AVX2) return &ft_simd_avx2;
#endif
    return isa == FT_ISA_BASE ? &ft_simd_base : 0;
}

const ft_simd *ft_simd_get(void)
{
    const ft_simd *best = ft_simd_of((int)ft_cpu_isa());
    return best ? best : &ft_simd_base;
}
