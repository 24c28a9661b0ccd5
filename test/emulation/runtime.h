/* test/emulation/runtime.h - what the emulated libraries share. */
#ifndef FT_EMULATED_RUNTIME_H
#define FT_EMULATED_RUNTIME_H

#include "nvidia/cublas.h"
#include "nvidia/nccl.h"

/* What a call answers before it does anything: 0, what the context has, or what was asked for. */
int emu_begin(void);
/* Has the stream call it, with a copy of the argument. */
void emu_submit(cu_stream stream, void (*call)(const void *arg), const void *arg, size_t bytes);
/* Entries `cublas` and `nccl` of drivers. */
const ft_cublas_api *emu_cublas(ft_error *err);
const ft_nccl_api *emu_nccl(ft_error *err);

#endif
