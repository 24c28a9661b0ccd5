/* optim/isa.c - which copy of the update loops runs. */
#include "device/device.h"
#include "optim/simd/simd.h"

extern const ft_optim_simd ft_optim_simd_base;
#if defined(__x86_64__)
extern const ft_optim_simd ft_optim_simd_avx2, ft_optim_simd_avx512;
#endif

const ft_optim_simd *ft_optim_simd_of(int isa)
{
#if defined(__x86_64__)
    if (isa == FT_ISA_AVX512) return &ft_optim_simd_avx512;
    if (isa == FT_ISA_AVX2) return &ft_optim_simd_avx2;
#endif
    return isa == FT_ISA_BASE ? &ft_optim_simd_base : 0;
}

const ft_optim_simd *ft_optim_simd_get(void)
{
    const ft_optim_simd *best = ft_optim_simd_of((int)ft_cpu_isa());
    return best ? best : &ft_optim_simd_base;
}
