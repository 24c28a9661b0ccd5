/* ops/internal.h - what the rows of the table share. */
#ifndef FT_OPS_INTERNAL_H
#define FT_OPS_INTERNAL_H

#include "ops/kernel.h"
#include "ops/maps.h"
#include "ops/ops.h"

/* -- rules (rules.c) --------------------------------------------------------------------------- */

/* Refusals of shape rules, FT_SHAPE. op is the name of the row; NULL where rows share a rule:
 * ft_op_shape puts the name in front of messages that do not begin with it.
 * "op: what is f32 (2, 3), expected ..." */
ft_status ft_shape_fail(ft_error *err, const char *op, const char *what, const ft_spec *spec,
                        const char *expected);
/* Input `what` must have this dtype, ... this shape, ... dtype and shape, ... at least this many
 * dimensions. */
ft_status ft_need_dtype(const char *op, const char *what, const ft_spec *spec, ft_dtype dtype,
                        ft_error *err);
ft_status ft_need_shape(const char *op, const char *what, const ft_spec *spec,
                        const ft_shape *shape, ft_error *err);
ft_status ft_need_spec(const char *op, const char *what, const ft_spec *spec, const ft_spec *wanted,
                       ft_error *err);
ft_status ft_need_dims(const char *op, const char *what, const ft_spec *spec, int min_dims,
                       ft_error *err);

/* Input `what` must be f32 of this shape, ... f32 with a last axis. */
ft_status ft_need_f32(const char *op, const char *what, const ft_spec *spec, ft_shape shape,
                      ft_error *err);
ft_status ft_need_rows(const char *op, const char *what, const ft_spec *spec, ft_error *err);

/* The rule of rows whose inputs are all f32 of one shape, which the output has too. */
ft_status ft_shape_same1(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err);
ft_status ft_shape_same2(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err);

double ft_spec_size(const ft_spec *spec); /* elements, 0 when absent */

/* Every present input read and every output written once; n_in and n_out count the specs.
 * `flops` is for all of it, flops_per for an element of out[0]. */
ft_cost ft_cost_per_element(const ft_spec *in, int n_in, const ft_spec *out, int n_out,
                            double flops_per);
ft_cost ft_cost_of(const ft_spec *in, int n_in, const ft_spec *out, int n_out, double flops);

/* -- kernels ----------------------------------------------------------------------------------- */

enum { FT_PIECE = 8192 }; /* elements of a piece of an elementwise row */

/* Sums over rows (gradients of parameters that every row uses): at most FT_MAX_PARTS parts of whole
 * rows, each summed into D floats of workspace, then added up in order. */
enum { FT_MAX_PARTS = 16 };
int64_t ft_rows_per_part(int64_t rows);
/* dst (+)= the n_parts partial sums of D numbers each. */
void ft_parts_sum(float *dst, const float *parts, int n_parts, int64_t D, bool add);

/* -- gradient rules ---------------------------------------------------------------------------- */

/* Add a node and give its first output. attrs NULL: the row has none. */
ft_value_id ft_add(ft_builder *b, const ft_op *op, int n_in, const ft_value_id *in,
                   const double *attrs);
ft_value_id ft_add1(ft_builder *b, const ft_op *op, ft_value_id a, const double *attrs);
ft_value_id ft_add2(ft_builder *b, const ft_op *op, ft_value_id a, ft_value_id c,
                    const double *attrs);

/* -- samples ----------------------------------------------------------------------------------- */

/* Inputs of samples: FT_F32_OF(3, 2, 5, 7) is f32 of 3 dimensions. */
#define FT_F32_OF(n, ...)                                                                          \
    {                                                                                              \
        FT_F32,                                                                                    \
        {                                                                                          \
            n,                                                                                     \
            {                                                                                      \
                __VA_ARGS__                                                                        \
            }                                                                                      \
        }                                                                                          \
    }
#define FT_I32_OF(n, ...)                                                                          \
    {                                                                                              \
        FT_I32,                                                                                    \
        {                                                                                          \
            n,                                                                                     \
            {                                                                                      \
                __VA_ARGS__                                                                        \
            }                                                                                      \
        }                                                                                          \
    }
#define FT_ABSENT                                                                                  \
    {                                                                                              \
        FT_F32,                                                                                    \
        {                                                                                          \
            -1,                                                                                    \
            {                                                                                      \
                0                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

/* -- the rows ---------------------------------------------------------------------------------- */

/* op_linear.c, op_linear_weight.c */
extern const ft_op ft_op_linear, ft_op_linear_grad_input, ft_op_linear_grad_weight, ft_op_bias_grad;
/* op_matmul.c, op_attention.c, op_cache_append.c */
extern const ft_op ft_op_matmul, ft_op_attention, ft_op_attention_grad, ft_op_cache_append;
/* op_embedding.c */
extern const ft_op ft_op_embedding, ft_op_embedding_grad;
/* op_norm.c */
extern const ft_op ft_op_rms_norm, ft_op_rms_norm_grad, ft_op_layer_norm, ft_op_layer_norm_grad;
/* op_unary.c */
#define FT_DECLARE_MAP(row, ...) extern const ft_op ft_op_##row;
FT_MAP1_LIST(FT_DECLARE_MAP)
FT_MAP2_LIST(FT_DECLARE_MAP)
#undef FT_DECLARE_MAP
extern const ft_op ft_op_scale, ft_op_copy;
/* op_binary.c */
extern const ft_op ft_op_add, ft_op_sub, ft_op_mul, ft_op_div, ft_op_sum_to;
/* op_gated_gelu.c */
extern const ft_op ft_op_gated_gelu, ft_op_gated_gelu_grad;
/* op_dropout.c */
extern const ft_op ft_op_dropout, ft_op_dropout_grad, ft_op_dropout_add, ft_op_relu_dropout,
    ft_op_relu_dropout_grad;
/* op_softmax.c */
extern const ft_op ft_op_softmax, ft_op_softmax_grad;
/* op_cross_entropy.c */
extern const ft_op ft_op_cross_entropy, ft_op_cross_entropy_grad;
/* op_reduce.c */
extern const ft_op ft_op_sum, ft_op_mean, ft_op_max, ft_op_spread, ft_op_max_grad, ft_op_one;
/* op_argmax.c, op_slice.c */
extern const ft_op ft_op_argmax, ft_op_slice, ft_op_slice_grad;

#endif
