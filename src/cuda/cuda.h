/* cuda/cuda.h - devices that compute by CUDA.
 *
 * A driver of this kind is made from a table of CUDA's functions and an image of the kernels: that
 * of cards has those of the driver library, found when the program runs; tests have emulated ones.
 * An executor is a context of a card; several may be on one card. Work is given to the card's
 * streams; what the host has to know of it is written to host memory and read after `finish`. */
#ifndef FT_CUDA_H
#define FT_CUDA_H

#include "device/driver.h"
#include "nvidia/cublas.h"
#include "nvidia/nccl.h"
#include "ops/ops.h"
#include "optim/optim.h"

/* Kernels that module_load takes: those of a file of kernels/. */
typedef struct ft_cuda_image {
    const char *file; /* NULL: all of them */
    const void *image;
} ft_cuda_image;

typedef struct ft_cuda_driver {
    ft_driver driver; /* FT_CUDA_DRIVER_TABLE */
    /* The functions, or NULL with the reason. */
    const ft_cuda_api *(*api)(ft_error *err);
    const ft_cuda_image *images; /* one without image at the end */
    /* cuBLASLt, or NULL with the reason: products are by a kernel then. */
    const ft_cublas_api *(*cublas)(ft_error *err);
    /* NCCL, or NULL with the reason: values go to other processes by way of the host then. */
    const ft_nccl_api *(*nccl)(ft_error *err);
} ft_cuda_driver;

/* Entries of the table, for ft_cuda_driver.driver. */
ft_status ft_cuda_count(const ft_driver *driver, int *n, ft_error *err);
ft_status ft_cuda_describe(const ft_driver *driver, int card, ft_device *out, ft_error *err);
ft_status ft_cuda_open(ft_executor **out, const ft_device *device, ft_error *err);
void ft_cuda_close(ft_executor *executor);
ft_status ft_cuda_enter(ft_executor *executor, ft_error *err);
void ft_cuda_limits(const ft_executor *executor, ft_limits *out);
ft_status ft_cuda_health(ft_executor *executor, ft_error *err);
ft_status ft_cuda_alloc(ft_executor *executor, ft_memory_side side, int64_t bytes, void **out,
                        ft_error *err);
void ft_cuda_release(ft_executor *executor, ft_memory_side side, void *memory, int64_t bytes);
void ft_cuda_occupy(ft_device_stream *stream, void *address, int64_t bytes);
ft_status ft_cuda_open_stream(ft_device_stream **out, ft_executor *executor, ft_stream_use use,
                              ft_error *err);
void ft_cuda_close_stream(ft_device_stream *stream);
void ft_cuda_lend(ft_device_stream *stream, void *memory, int64_t bytes);
ft_status ft_cuda_open_event(ft_device_event **out, ft_executor *executor, ft_error *err);
void ft_cuda_close_event(ft_device_event *event);
ft_status ft_cuda_record(ft_device_stream *stream, ft_device_event *event, ft_error *err);
ft_status ft_cuda_wait(ft_device_stream *stream, ft_device_event *event, ft_error *err);
int64_t ft_cuda_passed_ns(const ft_device_event *event);
ft_status ft_cuda_await(ft_device_event *event, ft_error *err);
ft_status ft_cuda_finish(ft_device_stream *stream, ft_error *err);
ft_status ft_cuda_copy(ft_device_stream *stream, ft_location to, ft_location from, int64_t bytes,
                       ft_error *err);
ft_status ft_cuda_run(ft_device_stream *stream, const ft_task *task, const void *arg,
                      ft_error *err);
void ft_cuda_begin_series(ft_device_stream *stream);
ft_status ft_cuda_end_series(ft_device_stream *stream, ft_status status, ft_error *err);

/* Of lists that count devices, all on the first card; and of lists that name cards. Entries of
 * other rooms stand behind the name. */
#define FT_CUDA_DRIVER_TABLE(text, ...)                                                            \
    {                                                                                              \
        FT_CUDA_ENTRIES(text), __VA_ARGS__                                                         \
    }
#define FT_CUDA_CARDS_TABLE(text, ...)                                                             \
    {                                                                                              \
        FT_CUDA_ENTRIES(text), .count = ft_cuda_count, .describe = ft_cuda_describe, __VA_ARGS__   \
    }
#define FT_CUDA_ENTRIES(text)                                                                      \
    .name = text, .kind = FT_DEVICE_GPU, .passes_apart = true, .open = ft_cuda_open,               \
    .close = ft_cuda_close, .enter = ft_cuda_enter, .limits = ft_cuda_limits,                      \
    .health = ft_cuda_health, .alloc = ft_cuda_alloc, .release = ft_cuda_release,                  \
    .occupy = ft_cuda_occupy, .vacate = ft_cuda_occupy, .open_stream = ft_cuda_open_stream,        \
    .close_stream = ft_cuda_close_stream, .lend = ft_cuda_lend, .open_event = ft_cuda_open_event,  \
    .close_event = ft_cuda_close_event, .record = ft_cuda_record, .wait = ft_cuda_wait,            \
    .passed_ns = ft_cuda_passed_ns, .await = ft_cuda_await, .finish = ft_cuda_finish,              \
    .copy = ft_cuda_copy, .launch = ft_cuda_run, .begin_series = ft_cuda_begin_series,             \
    .end_series = ft_cuda_end_series, .call = ft_driver_call

#endif
