/* test/test_nvidia_declarations.cpp - what src/nvidia declares of CUDA's libraries is what their
 * own headers declare: functions parameter by parameter, numbers, and where fields lie. The
 * compiler compares; headers that this machine does not have are counted as skipped. */
#define __CUDA_API_VERSION_INTERNAL /* cuda.h then has older forms of functions as well */
#include "check.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <type_traits>

#include "nvidia/cublas.h"
#include "nvidia/nccl.h"

#if __has_include(<cuda.h>)
#include <cuda.h>
#define HAS_DRIVER
#endif
#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#define HAS_CUBLAS
#endif
#if __has_include(<nccl.h>)
#include <nccl.h>
#define HAS_NCCL
#endif

/* Alike as a caller sees it: pointers are, whatever opaque thing they point to, but numbers they
 * point to have the same size; and numbers of one kind (a count, a size, an enumeration) have the
 * same size. What is handed over by value has one size. */
template <typename ours, typename theirs> constexpr bool alike()
{
    if constexpr (std::is_pointer_v<ours> && std::is_pointer_v<theirs>) {
        using x = std::remove_pointer_t<ours>;
        using y = std::remove_pointer_t<theirs>;
        constexpr bool both_known = !std::is_void_v<x> && !std::is_void_v<y>;
        if constexpr (both_known && !std::is_class_v<x> && !std::is_class_v<y>)
            return alike<std::remove_cv_t<x>, std::remove_cv_t<y>>();
        else
            return true;
    } else {
        return std::is_pointer_v<ours> == std::is_pointer_v<theirs> &&
               std::is_floating_point_v<ours> == std::is_floating_point_v<theirs> &&
               std::is_class_v<ours> == std::is_class_v<theirs> && sizeof(ours) == sizeof(theirs);
    }
}

template <typename... types> struct list {
};

/* Parameters one by one; lists of other lengths are not alike. */
template <typename ours, typename theirs> constexpr bool all_alike = std::is_same_v<ours, theirs>;
template <typename x, typename... xs, typename y, typename... ys>
constexpr bool all_alike<list<x, xs...>, list<y, ys...>> =
    alike<x, y>() && all_alike<list<xs...>, list<ys...>>;

template <typename ours, typename theirs> constexpr bool same_call = false;
template <typename r, typename s, typename... a, typename... b>
constexpr bool
    same_call<r (*)(a...), s (*)(b...)> = alike<r, s>() && all_alike<list<a...>, list<b...>>;

/* Each is compared by the compiler; the count says how many were. */
#define SAME(condition, what)                                                                      \
    do {                                                                                           \
        static_assert(condition, what);                                                            \
        check_passed++;                                                                            \
    } while (0);
#define SAME_CALL(table, field, name)                                                              \
    SAME((same_call<decltype(table::field), decltype(&name)>), #name)
#define SAME_NUMBER(ours, theirs) SAME((long long)(ours) == (long long)(theirs), #theirs)
#define SAME_SIZE(ours, theirs)   SAME(sizeof(ours) == sizeof(theirs), #theirs)
#define SAME_FIELD(ours, field, theirs, other)                                                     \
    SAME(offsetof(ours, field) == offsetof(theirs, other) &&                                       \
             sizeof(ours::field) == sizeof(theirs::other),                                         \
         #theirs "." #other)

static void test_comparison(void)
{
    SAME((same_call<int (*)(int *, size_t), unsigned (*)(unsigned *, uint64_t)>), "alike")
    SAME((!same_call<int (*)(int *, size_t), int (*)(int *, int)>), "a shorter number")
    SAME((!same_call<int (*)(int *, size_t), int (*)(int64_t *, size_t)>), "what it points to")
    SAME((!same_call<int (*)(int *), int (*)(int *, size_t)>), "a parameter more")
    SAME((!same_call<int (*)(float), int (*)(int)>), "another kind of number")
    SAME((!same_call<int (*)(int *), int (*)(uint64_t)>), "a number for a pointer")
}

static void test_driver(void)
{
#ifdef HAS_DRIVER
#define CALL(field, name, parameters) SAME_CALL(ft_cuda_api, field, name)
    FT_CUDA_API(CALL)
#undef CALL
    SAME_NUMBER(CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY)
    SAME_NUMBER(CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE)
    SAME_NUMBER(CU_PEER_ACCESS_ALREADY, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
    SAME_NUMBER(CU_NOT_FOUND, CUDA_ERROR_NOT_FOUND)
    SAME_NUMBER(CU_NOT_READY, CUDA_ERROR_NOT_READY)
    SAME_NUMBER(CU_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE)
    SAME_NUMBER(CU_HOST_MAPPED, CU_MEMHOSTALLOC_DEVICEMAP)
    SAME_NUMBER(CU_STREAM_NO_SYNC, CU_STREAM_NON_BLOCKING)
    SAME_NUMBER(CU_CAPTURE_OF_THREAD, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
    SAME_NUMBER(CU_CAPTURES, CU_STREAM_CAPTURE_STATUS_ACTIVE)
    SAME_NUMBER(CU_MULTIPROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
    SAME_NUMBER(CU_CLOCK_KHZ, CU_DEVICE_ATTRIBUTE_CLOCK_RATE)
    SAME_NUMBER(CU_MEMORY_CLOCK_KHZ, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)
    SAME_NUMBER(CU_MEMORY_BUS_BITS, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)
    SAME_NUMBER(CU_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
    SAME_NUMBER(CU_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
    SAME_SIZE(cu_launch, CUlaunchConfig)
    SAME(offsetof(cu_launch, block) == offsetof(CUlaunchConfig, blockDimX), "CUlaunchConfig")
    SAME_FIELD(cu_launch, shared_bytes, CUlaunchConfig, sharedMemBytes)
    SAME_FIELD(cu_launch, stream, CUlaunchConfig, hStream)
    SAME_FIELD(cu_launch, attributes, CUlaunchConfig, attrs)
    SAME_FIELD(cu_launch, n_attributes, CUlaunchConfig, numAttrs)
    SAME_SIZE(cu_kernel_params, CUDA_KERNEL_NODE_PARAMS_v1)
    SAME_FIELD(cu_kernel_params, function, CUDA_KERNEL_NODE_PARAMS_v1, func)
    SAME_FIELD(cu_kernel_params, shared_bytes, CUDA_KERNEL_NODE_PARAMS_v1, sharedMemBytes)
    SAME_FIELD(cu_kernel_params, arguments, CUDA_KERNEL_NODE_PARAMS_v1, kernelParams)
    SAME_FIELD(cu_kernel_params, extra, CUDA_KERNEL_NODE_PARAMS_v1, extra)
#else
    printf("skipped: no cuda.h\n");
#endif
}

static void test_cublas(void)
{
#ifdef HAS_CUBLAS
#define CALL(field, name, parameters) SAME_CALL(ft_cublas_api, field, name)
    FT_CUBLAS_API(CALL)
#undef CALL
    SAME_NUMBER(CUBLAS_NOT_SUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED)
    SAME_NUMBER(CUBLAS_F32, CUDA_R_32F)
    SAME_NUMBER(CUBLAS_F16, CUDA_R_16F)
    SAME_NUMBER(CUBLAS_BF16, CUDA_R_16BF)
    SAME_NUMBER(CUBLAS_COMPUTE_F32, CUBLAS_COMPUTE_32F)
    SAME_NUMBER(CUBLAS_COMPUTE_TF32, CUBLAS_COMPUTE_32F_FAST_TF32)
    SAME_NUMBER(CUBLAS_TRANSPOSE_A, CUBLASLT_MATMUL_DESC_TRANSA)
    SAME_NUMBER(CUBLAS_TRANSPOSE_B, CUBLASLT_MATMUL_DESC_TRANSB)
    SAME_NUMBER(CUBLAS_EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE)
    SAME_NUMBER(CUBLAS_BIAS, CUBLASLT_MATMUL_DESC_BIAS_POINTER)
    SAME_NUMBER(CUBLAS_EPILOGUE_NONE, CUBLASLT_EPILOGUE_DEFAULT)
    SAME_NUMBER(CUBLAS_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU)
    SAME_NUMBER(CUBLAS_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BIAS)
    SAME_NUMBER(CUBLAS_EPILOGUE_RELU | CUBLAS_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS)
    SAME_NUMBER(CUBLAS_BATCH_COUNT, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
    SAME_NUMBER(CUBLAS_BATCH_STEP, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
    SAME_NUMBER(CUBLAS_MOST_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    SAME_NUMBER(CUBLAS_ALIGNMENT_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES)
    SAME_NUMBER(CUBLAS_ALIGNMENT_B, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES)
    SAME_NUMBER(CUBLAS_ALIGNMENT_C, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES)
    SAME_NUMBER(CUBLAS_ALIGNMENT_D, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)
    SAME_SIZE(cublas_algorithm, cublasLtMatmulAlgo_t)
    SAME_SIZE(cublas_choice, cublasLtMatmulHeuristicResult_t)
    SAME_FIELD(cublas_choice, algorithm, cublasLtMatmulHeuristicResult_t, algo)
    SAME_FIELD(cublas_choice, workspace, cublasLtMatmulHeuristicResult_t, workspaceSize)
    SAME_FIELD(cublas_choice, state, cublasLtMatmulHeuristicResult_t, state)
#else
    printf("skipped: no cublasLt.h\n");
#endif
}

/* The library reads as many bytes of its settings as they say they have. */
static void test_nccl(void)
{
#ifdef HAS_NCCL
#define CALL(field, name, parameters) SAME_CALL(ft_nccl_api, field, name)
    FT_NCCL_API(CALL)
#undef CALL
    SAME_NUMBER(NCCL_BYTES, ncclInt8)
    SAME_NUMBER(NCCL_IN_PROGRESS, ncclInProgress)
    SAME_NUMBER(NCCL_ANY, NCCL_CONFIG_UNDEF_INT)
    SAME_SIZE(nccl_id, ncclUniqueId)
    SAME_FIELD(nccl_config, size, ncclConfig_t, size)
    SAME_FIELD(nccl_config, magic, ncclConfig_t, magic)
    SAME_FIELD(nccl_config, version, ncclConfig_t, version)
    SAME_FIELD(nccl_config, blocking, ncclConfig_t, blocking)
    SAME_FIELD(nccl_config, cluster_blocks, ncclConfig_t, cgaClusterSize)
    SAME_FIELD(nccl_config, least_blocks, ncclConfig_t, minCTAs)
    SAME_FIELD(nccl_config, most_blocks, ncclConfig_t, maxCTAs)
    SAME_FIELD(nccl_config, network, ncclConfig_t, netName)
    const nccl_config ours = NCCL_CONFIG;
    const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
    CHECK(ours.magic == theirs.magic);
#else
    printf("skipped: no nccl.h\n");
#endif
}

int main(void)
{
    RUN(test_comparison);
    RUN(test_driver);
    RUN(test_cublas);
    RUN(test_nccl);
    return check_report();
}
