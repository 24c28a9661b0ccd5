/* nvidia/cublas.h - the functions of cuBLASLt that are used, as a table.
 *
 * The library is not linked: load.c finds it when the program runs, and the emulation of test/ has
 * a table of its own. Declarations are those of cublasLt.h (CUDA 11.8 to 13); numbers that are
 * returned are 0 when all is well. Matrices are stored by columns. */
#ifndef FT_NVIDIA_CUBLAS_H
#define FT_NVIDIA_CUBLAS_H

#include <stddef.h>
#include <stdint.h>

#include "nvidia/nvidia.h"

typedef struct cublas_handle_s *cublas_handle;
typedef struct cublas_product_s *cublas_product;       /* what is computed */
typedef struct cublas_layout_s *cublas_layout;         /* of a matrix, or of a batch of them */
typedef struct cublas_preference_s *cublas_preference; /* for the choice of an algorithm */

typedef struct cublas_algorithm {
    uint64_t data[8];
} cublas_algorithm;

typedef struct cublas_choice {
    cublas_algorithm algorithm;
    size_t workspace;
    int state; /* 0: the rest holds */
    float waves;
    int reserved[4];
} cublas_choice;

enum {
    CUBLAS_NOT_SUPPORTED = 15, /* what `choose` answers where there is no algorithm */
    CUBLAS_F32 = 0,            /* types of numbers */
    CUBLAS_F16 = 2,
    CUBLAS_BF16 = 14,
    CUBLAS_COMPUTE_F32 = 68,
    CUBLAS_COMPUTE_TF32 = 77, /* of operands in f32, which are rounded */
    /* attributes of products: transpositions, what is done to the sum, where the bias is */
    CUBLAS_TRANSPOSE_A = 3,
    CUBLAS_TRANSPOSE_B = 4,
    CUBLAS_EPILOGUE = 7,
    CUBLAS_BIAS = 8,
    CUBLAS_EPILOGUE_NONE = 1, /* epilogues: one, or relu and bias together */
    CUBLAS_EPILOGUE_RELU = 2,
    CUBLAS_EPILOGUE_BIAS = 4,
    CUBLAS_BATCH_COUNT = 5, /* attributes of layouts */
    CUBLAS_BATCH_STEP = 6,
    CUBLAS_MOST_WORKSPACE = 1, /* attributes of preferences */
    CUBLAS_ALIGNMENT_A = 5,
    CUBLAS_ALIGNMENT_B = 6,
    CUBLAS_ALIGNMENT_C = 7,
    CUBLAS_ALIGNMENT_D = 8
};

/* Field, its name in the library, parameters. */
#define FT_CUBLAS_API(X)                                                                           \
    X(open, cublasLtCreate, (cublas_handle * out))                                                 \
    X(close, cublasLtDestroy, (cublas_handle handle))                                              \
    X(product_new, cublasLtMatmulDescCreate, (cublas_product * out, int compute, int scale))       \
    X(product_free, cublasLtMatmulDescDestroy, (cublas_product product))                           \
    X(product_set, cublasLtMatmulDescSetAttribute,                                                 \
      (cublas_product product, int attribute, const void *value, size_t bytes))                    \
    X(layout_new, cublasLtMatrixLayoutCreate,                                                      \
      (cublas_layout * out, int type, uint64_t rows, uint64_t columns, int64_t step))              \
    X(layout_free, cublasLtMatrixLayoutDestroy, (cublas_layout layout))                            \
    X(layout_set, cublasLtMatrixLayoutSetAttribute,                                                \
      (cublas_layout layout, int attribute, const void *value, size_t bytes))                      \
    X(preference_new, cublasLtMatmulPreferenceCreate, (cublas_preference * out))                   \
    X(preference_free, cublasLtMatmulPreferenceDestroy, (cublas_preference preference))            \
    X(preference_set, cublasLtMatmulPreferenceSetAttribute,                                        \
      (cublas_preference preference, int attribute, const void *value, size_t bytes))              \
    X(choose, cublasLtMatmulAlgoGetHeuristic,                                                      \
      (cublas_handle handle, cublas_product product, cublas_layout a, cublas_layout b,             \
       cublas_layout c, cublas_layout d, cublas_preference preference, int most,                   \
       cublas_choice *out, int *n))                                                                \
    X(multiply, cublasLtMatmul,                                                                    \
      (cublas_handle handle, cublas_product product, const void *alpha, const void *a,             \
       cublas_layout of_a, const void *b, cublas_layout of_b, const void *beta, const void *c,     \
       cublas_layout of_c, void *d, cublas_layout of_d, const cublas_algorithm *algorithm,         \
       void *workspace, size_t bytes, cu_stream stream))

typedef struct ft_cublas_api {
#define FT_CUBLAS_FIELD(field, name, parameters) int(*field) parameters;
    FT_CUBLAS_API(FT_CUBLAS_FIELD)
#undef FT_CUBLAS_FIELD
} ft_cublas_api;

/* cuBLASLt of this machine; NULL says why there is none. */
const ft_cublas_api *ft_cublas_api_load(ft_error *err);

#endif
