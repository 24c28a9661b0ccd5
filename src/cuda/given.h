/* cuda/given.h - what streams for computing are given by those who launch kernels. */
#ifndef FT_CUDA_GIVEN_H
#define FT_CUDA_GIVEN_H

#include <stdatomic.h>

#include "cuda/args.h"
#include "cuda/attention_args.h"
#include "cuda/optim_args.h"
#include "cuda/cuda.h"

/* Blocks of a launch. */
typedef struct ft_grid {
    int64_t x, y, z;
} ft_grid;

/* What the library of CUDA answered to `what`, in words; 0 is FT_OK. */
ft_status ft_cuda_answered(const ft_executor *executor, int answer, const char *what,
                           ft_error *err);
/* Gives a kernel to the stream; `args` is the one that cuda/args.h names, copied. An empty grid is
 * no launch. */
ft_status ft_cuda_launch(ft_device_stream *stream, ft_cuda_kernel kernel, ft_grid grid,
                         const void *args, ft_error *err);
/* Products by cuBLASLt (cuda/products.h), of a stream for computing. *done: false where that is not
 * here or has no way to the product, and nothing was given to the stream. */
bool ft_cuda_has_library(const ft_device_stream *stream);
ft_status ft_cuda_multiply(ft_device_stream *stream, const ft_product_args *args, int64_t batch,
                           bool *done, ft_error *err);
/* Zeros. */
ft_status ft_cuda_clear(ft_device_stream *stream, void *memory, int64_t bytes, ft_error *err);
/* Where kernels of the stream's device say what is wrong in a tensor. */
ft_cuda_fault *ft_cuda_fault_of(const ft_device_stream *stream);
/* cuBLASLt wants what it works in to begin at a multiple of this. */
enum { FT_CUDA_LIBRARY_ALIGN = 256 };
/* FT_CUDA_SCRATCH bytes of device memory that launches of a compute stream may use, one after the
 * other; cuBLASLt too, where the stream was lent nothing for it. */
void *ft_cuda_scratch(const ft_device_stream *stream);
enum { FT_CUDA_SCRATCH = 512 << 10 };

/* The cards whose memory a card was let into, by number. */
enum { FT_CUDA_CARDS = 64 };
typedef struct ft_cuda_peers {
    atomic_bool met[FT_CUDA_CARDS];
} ft_cuda_peers;
/* The first time, lets copies of `card`, whose context is chosen, go to another one without passing
 * through the host, where the machine has such a way. What the library answers. */
int ft_cuda_reach(ft_cuda_peers *peers, const ft_cuda_api *api, int card, int other,
                  cu_context context);

static inline ft_numbers ft_cuda_numbers(const void *at, ft_dtype dtype)
{
    return (ft_numbers){(void *)(uintptr_t)at, dtype == FT_BF16  ? FT_CUDA_BF16
                                               : dtype == FT_F16 ? FT_CUDA_F16
                                                                 : FT_CUDA_F32};
}
/* Those from number i on. */
static inline ft_numbers ft_cuda_from(ft_numbers x, int64_t i)
{
    return (ft_numbers){(char *)x.at + i * (x.kept == FT_CUDA_F32 ? 4 : 2), x.kept};
}

#endif
