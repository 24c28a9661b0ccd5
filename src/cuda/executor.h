/* cuda/executor.h - what executors and streams of cards have. */
#ifndef FT_CUDA_EXECUTOR_H
#define FT_CUDA_EXECUTOR_H

#include "cuda/given.h"
#include "cuda/products.h"
#include "cuda/series.h"

enum { MAX_IMAGES = 16, MAX_BLOCKS = 16 };

typedef struct executor {
    ft_executor base;
    const ft_cuda_api *api;
    int card;
    bool retained;
    cu_context context;
    cu_module modules[MAX_IMAGES];
    int n_modules;
    cu_function functions[FT_CUDA_KERNEL_COUNT];
    unsigned rooms[FT_CUDA_KERNEL_COUNT]; /* bytes of shared memory that launches give */
    cu_event origin;                      /* was passed at origin_ns */
    int64_t origin_ns;
    ft_cuda_fault *fault; /* host memory that kernels write to */
    ft_cuda_peers peers;
    struct {
        uintptr_t begin, end;
    } blocks[MAX_BLOCKS]; /* of the card's memory that alloc gave */
} executor;

typedef struct stream {
    ft_device_stream base;
    ft_stream_use use;
    cu_stream handle;
    cu_address scratch;
    void *lent; /* for the library; NULL: it has the scratch */
    size_t lent_bytes;
    ft_products *products; /* NULL: no library is here */
    ft_series *series;     /* of one for computing */
} stream;

static inline executor *of(const ft_executor *x)
{
    return (executor *)(uintptr_t)x;
}

static inline ft_status check(const executor *x, int answer, const char *what, ft_error *err)
{
    return ft_cuda_answered(&x->base, answer, what, err);
}

/* Chooses its context, which each call into the library needs. */
static inline ft_status use(const executor *x, const char *what, ft_error *err)
{
    return check(x, x->api->context_set(x->context), what, err);
}

/* given.c: a kernel's name in the image of its file; what a stream's series gives to it. */
const char *cuda_kernel_name(int kernel);
const char *cuda_kernel_file(int kernel);
ft_status cuda_give(ft_device_stream *stream, const ft_given *item, ft_error *err);

#endif
