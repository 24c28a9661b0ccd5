/* nvidia/nvidia.h - the functions of CUDA's driver library that are used, as a table.
 *
 * The library is not linked: load.c finds it when the program runs, and the emulation of test/ has
 * a table of its own. Declarations are those of the library's documentation (CUDA driver API, 12
 * and 13); numbers that are returned are 0 when all is well. */
#ifndef FT_NVIDIA_H
#define FT_NVIDIA_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef uint64_t cu_address; /* of the device; host memory of host_alloc has the same for both */
typedef struct cu_context_s *cu_context;
typedef struct cu_module_s *cu_module;
typedef struct cu_function_s *cu_function;
typedef struct cu_stream_s *cu_stream;
typedef struct cu_event_s *cu_event;
typedef struct cu_graph_s *cu_graph;
typedef struct cu_node_s *cu_node; /* of a graph */
typedef struct cu_exec_s *cu_exec; /* a graph that can be launched */

enum {
    CU_OUT_OF_MEMORY = 2,
    CU_NO_DEVICE = 100,
    CU_PEER_ACCESS_ALREADY = 704,
    CU_NOT_FOUND = 500,
    CU_NOT_READY = 600,
    CU_HOST_PORTABLE = 1,     /* of host_alloc: for every context, */
    CU_HOST_MAPPED = 2,       /* kernels may use it */
    CU_STREAM_NO_SYNC = 1,    /* of stream_create: not ordered with the default stream */
    CU_CAPTURE_OF_THREAD = 1, /* of capture_begin: other threads may take memory meanwhile */
    CU_CAPTURES = 1,          /* status of capture_info */
    CU_MULTIPROCESSORS = 16 /* device_attribute: how many */,
    CU_CLOCK_KHZ = 13,
    CU_MEMORY_CLOCK_KHZ = 36,
    CU_MEMORY_BUS_BITS = 37,
    CU_MAJOR = 75, /* compute capability */
    CU_MINOR = 76
};

/* Attribute of a function: shared memory that its launches may give (CUfunction_attribute). */
enum { CU_ROOM_BYTES = 8 };

/* How a kernel is launched (CUlaunchConfig). */
typedef struct cu_launch {
    unsigned grid[3], block[3], shared_bytes;
    cu_stream stream;
    void *attributes;
    unsigned n_attributes;
} cu_launch;

/* A kernel of a graph (CUDA_KERNEL_NODE_PARAMS_v1). */
typedef struct cu_kernel_params {
    cu_function function;
    unsigned grid[3], block[3], shared_bytes;
    void **arguments, **extra;
} cu_kernel_params;

/* Field, its name in the library, parameters. */
#define FT_CUDA_API(X)                                                                             \
    X(init, cuInit, (unsigned flags))                                                              \
    X(version, cuDriverGetVersion, (int *version))                                                 \
    X(error_name, cuGetErrorName, (int error, const char **text))                                  \
    X(error_text, cuGetErrorString, (int error, const char **text))                                \
    X(device_count, cuDeviceGetCount, (int *n))                                                    \
    X(device_get, cuDeviceGet, (int *device, int ordinal))                                         \
    X(device_name, cuDeviceGetName, (char *text, int size, int device))                            \
    X(device_memory, cuDeviceTotalMem_v2, (size_t * bytes, int device))                            \
    X(device_attribute, cuDeviceGetAttribute, (int *value, int attribute, int device))             \
    X(context_retain, cuDevicePrimaryCtxRetain, (cu_context * context, int device))                \
    X(context_release, cuDevicePrimaryCtxRelease_v2, (int device))                                 \
    X(context_set, cuCtxSetCurrent, (cu_context context))                                          \
    X(can_peer, cuDeviceCanAccessPeer, (int *can, int device, int peer))                           \
    X(enable_peer, cuCtxEnablePeerAccess, (cu_context peer, unsigned flags))                       \
    X(memory_info, cuMemGetInfo_v2, (size_t * free, size_t * total))                               \
    X(alloc, cuMemAlloc_v2, (cu_address * out, size_t bytes))                                      \
    X(release, cuMemFree_v2, (cu_address memory))                                                  \
    X(host_alloc, cuMemHostAlloc, (void **out, size_t bytes, unsigned flags))                      \
    X(host_release, cuMemFreeHost, (void *memory))                                                 \
    X(fill, cuMemsetD8_v2, (cu_address memory, unsigned char value, size_t bytes))                 \
    X(fill_on, cuMemsetD8Async,                                                                    \
      (cu_address memory, unsigned char value, size_t bytes, cu_stream stream))                    \
    X(copy_on, cuMemcpyAsync, (cu_address to, cu_address from, size_t bytes, cu_stream stream))    \
    X(copy_peer, cuMemcpyPeerAsync,                                                                \
      (cu_address to, cu_context to_context, cu_address from, cu_context from_context,             \
       size_t bytes, cu_stream stream))                                                            \
    X(stream_create, cuStreamCreate, (cu_stream * out, unsigned flags))                            \
    X(stream_destroy, cuStreamDestroy_v2, (cu_stream stream))                                      \
    X(stream_finish, cuStreamSynchronize, (cu_stream stream))                                      \
    X(stream_wait, cuStreamWaitEvent, (cu_stream stream, cu_event event, unsigned flags))          \
    X(event_create, cuEventCreate, (cu_event * out, unsigned flags))                               \
    X(event_destroy, cuEventDestroy_v2, (cu_event event))                                          \
    X(event_record, cuEventRecord, (cu_event event, cu_stream stream))                             \
    X(event_query, cuEventQuery, (cu_event event))                                                 \
    X(event_finish, cuEventSynchronize, (cu_event event))                                          \
    X(event_elapsed, cuEventElapsedTime, (float *ms, cu_event from, cu_event to))                  \
    X(module_load, cuModuleLoadData, (cu_module * out, const void *image))                         \
    X(module_unload, cuModuleUnload, (cu_module module))                                           \
    X(function_get, cuModuleGetFunction, (cu_function * out, cu_module module, const char *name))  \
    X(function_set, cuFuncSetAttribute, (cu_function function, int attribute, int value))          \
    X(launch, cuLaunchKernelEx,                                                                    \
      (const cu_launch *how, cu_function function, void **arguments, void **extra))                \
    X(capture_begin, cuStreamBeginCapture_v2, (cu_stream stream, int mode))                        \
    X(capture_info, cuStreamGetCaptureInfo_v2,                                                     \
      (cu_stream stream, int *status, uint64_t *id, cu_graph *graph, const cu_node **nodes,        \
       size_t *n))                                                                                 \
    X(capture_end, cuStreamEndCapture, (cu_stream stream, cu_graph * out))                         \
    X(graph_make, cuGraphInstantiateWithFlags,                                                     \
      (cu_exec * out, cu_graph graph, unsigned long long flags))                                   \
    X(graph_free, cuGraphDestroy, (cu_graph graph))                                                \
    X(exec_set, cuGraphExecKernelNodeSetParams,                                                    \
      (cu_exec exec, cu_node node, const cu_kernel_params *params))                                \
    X(exec_launch, cuGraphLaunch, (cu_exec exec, cu_stream stream))                                \
    X(exec_free, cuGraphExecDestroy, (cu_exec exec))

typedef struct ft_cuda_api {
#define FT_CUDA_FIELD(field, name, parameters) int(*field) parameters;
    FT_CUDA_API(FT_CUDA_FIELD)
#undef FT_CUDA_FIELD
} ft_cuda_api;

/* CUDA's driver library of this machine; NULL says why there is none. */
const ft_cuda_api *ft_cuda_api_load(ft_error *err);

#endif
