/* cuda/kernels.h - the kernels of kernels/: their names, their blocks.
 *
 * Read by the launchers (C) and by the kernels themselves (C++, for cards and for the emulation). A
 * kernel `name` takes one argument, ft_NAME_args. Tensors are contiguous f32, or ft_numbers, unless
 * said otherwise; addresses are of the device. A kernel writes all of what it gives; the same
 * inputs give the same bits, whatever runs beside it. */
#ifndef FT_CUDA_KERNELS_H
#define FT_CUDA_KERNELS_H

#include <stdint.h>

/* File of kernels/, name, threads of a block. */
#define FT_CUDA_KERNELS(X)                                                                         \
    X(elements, map, 128)                                                                          \
    X(elements, binary, 128)                                                                       \
    X(product, to_half, 256)                                                                       \
    X(product, clear_gaps, 256)                                                                    \
    X(elements, gated_gelu, 128)                                                                   \
    X(elements, dropout, 256)                                                                      \
    X(rows, softmax, 128)                                                                          \
    X(norms, norm, 256)                                                                            \
    X(norms, norm_grad, 256)                                                                       \
    X(norms, column_parts, 256)                                                                    \
    X(norms, column_sum, 256)                                                                      \
    X(norms, column_few, 256)                                                                      \
    X(rows, reduce, 256)                                                                           \
    X(rows, spread, 256)                                                                           \
    X(rows, max_grad, 256)                                                                         \
    X(rows, argmax, 128)                                                                           \
    X(tables, span, 256)                                                                           \
    X(tables, cache_append, 256)                                                                   \
    X(tables, embedding, 128)                                                                      \
    X(tables, embedding_grad, 128)                                                                 \
    X(tables, embedding_pieces, 128)                                                               \
    X(rows, cross_entropy, 256)                                                                    \
    X(rows, loss, 256)                                                                             \
    X(rows, cross_entropy_grad, 256)                                                               \
    X(product, product, 256)                                                                       \
    X(attention, attention_line, 256)                                                              \
    X(attention, attention, 128)                                                                   \
    X(attention, attention_mean, 128)                                                              \
    X(attention, attention_delta, 128)                                                             \
    X(attention, attention_queries, 128)                                                           \
    X(attention, attention_keys, 128)                                                              \
    X(attention_cores, attention_bf16_64, 256)                                                     \
    X(attention_cores, attention_bf16_128, 256)                                                    \
    X(attention_cores, attention_f16_64, 256)                                                      \
    X(attention_cores, attention_tf32_64, 256)                                                     \
    X(attention_cores, attention_tf32_128, 256)                                                    \
    X(attention_cores, attention_kept_bf16_64, 256)                                                \
    X(attention_cores, attention_kept_bf16_128, 256)                                               \
    X(attention_cores, attention_kept_f16_64, 256)                                                 \
    X(attention_cores_grad, attention_queries_bf16_64, 256)                                        \
    X(attention_cores_grad, attention_queries_bf16_128, 256)                                       \
    X(attention_cores_grad, attention_queries_f16_64, 256)                                         \
    X(attention_cores_grad, attention_queries_tf32_64, 256)                                        \
    X(attention_cores_grad, attention_queries_tf32_128, 256)                                       \
    X(attention_cores_grad, attention_queries_kept_bf16_64, 256)                                   \
    X(attention_cores_grad, attention_queries_kept_bf16_128, 256)                                  \
    X(attention_cores_grad, attention_queries_kept_f16_64, 256)                                    \
    X(attention_cores_grad, attention_keys_bf16_64, 256)                                           \
    X(attention_cores_grad, attention_keys_bf16_128, 256)                                          \
    X(attention_cores_grad, attention_keys_f16_64, 256)                                            \
    X(attention_cores_grad, attention_keys_tf32_64, 256)                                           \
    X(attention_cores_grad, attention_keys_tf32_128, 256)                                          \
    X(attention_cores_grad, attention_keys_kept_bf16_64, 256)                                      \
    X(attention_cores_grad, attention_keys_kept_bf16_128, 256)                                     \
    X(attention_cores_grad, attention_keys_kept_f16_64, 256)                                       \
    X(attention, attention_table, 128)                                                             \
    X(attention, attention_dropout, 128)                                                           \
    X(elements, look_parts, 256)                                                                   \
    X(elements, look, 256)                                                                         \
    X(elements, sum_terms, 256)                                                                    \
    X(optimizers, adamw, 256)                                                                      \
    X(optimizers, sgd, 256)                                                                        \
    X(optimizers, predict, 256)                                                                    \
    X(optimizers, note_step, 256)                                                                  \
    X(optimizers, attenuate, 256)                                                                  \
    X(optimizers, adafactor_rows, 128)                                                             \
    X(optimizers, adafactor_columns, 256)                                                          \
    X(optimizers, adafactor_mean, 256)                                                             \
    X(optimizers, adafactor_measure, 256)                                                          \
    X(optimizers, adafactor_size, 256)                                                             \
    X(optimizers, adafactor_apply, 256)

/* Kernels whose blocks are given shared memory by the launch, beside what they have themselves, on
 * cards of compute capability FT_CUDA_GROUPS (kernels/groups.h): bytes. */
#define FT_CUDA_ROOMS(X)                                                                           \
    X(attention_kept_bf16_64, 32 << 10)                                                            \
    X(attention_kept_bf16_128, 64 << 10)                                                           \
    X(attention_kept_f16_64, 32 << 10)                                                             \
    X(attention_queries_kept_bf16_64, 64 << 10)                                                    \
    X(attention_queries_kept_bf16_128, 128 << 10)                                                  \
    X(attention_queries_kept_f16_64, 64 << 10)                                                     \
    X(attention_keys_kept_bf16_64, 64 << 10)                                                       \
    X(attention_keys_kept_bf16_128, 128 << 10)                                                     \
    X(attention_keys_kept_f16_64, 64 << 10)
enum { FT_CUDA_GROUPS = 90 };

typedef enum {
#define FT_CUDA_NUMBER(file, name, threads) FT_CUDA_##name,
    FT_CUDA_KERNELS(FT_CUDA_NUMBER)
#undef FT_CUDA_NUMBER
        FT_CUDA_KERNEL_COUNT
} ft_cuda_kernel;

enum {
    FT_CUDA_EACH = 1024,    /* elements of a block, in kernels over elements */
    FT_CUDA_TILE = 64,      /* of a product: rows and columns of a block */
    FT_CUDA_COLUMNS = 32,   /* of a block of adafactor_columns */
    FT_CUDA_SPAN = 64,      /* columns of a block of column_parts */
    FT_CUDA_FEW = 32,       /* rows of column_few, at most */
    FT_CUDA_PARTS = 128,    /* of the rows, at most, in sums over rows */
    FT_CUDA_PIECE = 32,     /* rows of one id that are added by one block */
    FT_CUDA_WARPS = 4,      /* of a block that has a row for each, and of attention */
    FT_CUDA_NORM_WARPS = 8, /* of a block of norms */
    FT_CUDA_HELD = 4,       /* words of 16 bytes of a row in a lane, where norms keep it */
    FT_CUDA_TOGETHER = 16,  /* queries or keys of a block of attention */
    FT_CUDA_WIDE = 128,     /* on tensor cores */
    FT_CUDA_ROWS = 64,      /* of a block of adafactor_apply; of its factors at once */
    FT_CUDA_LOOKS = 1024    /* parts of a sum of squares, at most */
};

/* What numbers are kept in, and what operands of products are rounded to. */
typedef enum { FT_CUDA_F32, FT_CUDA_TF32, FT_CUDA_BF16, FT_CUDA_F16 } ft_cuda_rounding;

/* Numbers of a tensor that may be kept in 16 bits; at NULL: none. */
typedef struct ft_numbers {
    void *at;
    int64_t kept; /* FT_CUDA_F32, FT_CUDA_BF16 or FT_CUDA_F16 */
} ft_numbers;

/* What was found wrong with the contents of a tensor; the first one stays. In host memory. */
typedef enum {
    FT_CUDA_NO_FAULT,
    FT_CUDA_BAD_ID,
    FT_CUDA_BAD_LABEL,
    FT_CUDA_BAD_POSITION
} ft_cuda_fault_kind;

typedef struct ft_cuda_fault {
    uint32_t kind; /* ft_cuda_fault_kind */
    int32_t value;
    int64_t at, limit;
} ft_cuda_fault;

#endif
