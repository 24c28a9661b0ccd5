/* ops/table.c - the list of operators, and what is asked of any of them. */
#include "ops/internal.h"

#include <math.h>
#include <string.h>

/* A new operator is one line here, and its name among the rows of internal.h. */
const ft_op *const ft_ops[] = {
    &ft_op_linear,
    &ft_op_linear_grad_input,
    &ft_op_linear_grad_weight,
    &ft_op_bias_grad,
    &ft_op_matmul,
    &ft_op_attention,
    &ft_op_attention_grad,
    &ft_op_cache_append,
    &ft_op_embedding,
    &ft_op_embedding_grad,
    &ft_op_rms_norm,
    &ft_op_rms_norm_grad,
    &ft_op_layer_norm,
    &ft_op_layer_norm_grad,
#define MAP_LINE(row, ...) &ft_op_##row,
    FT_MAP1_LIST(MAP_LINE) FT_MAP2_LIST(MAP_LINE)
#undef MAP_LINE
        & ft_op_scale,
    &ft_op_copy,
    &ft_op_add,
    &ft_op_sub,
    &ft_op_mul,
    &ft_op_div,
    &ft_op_sum_to,
    &ft_op_gated_gelu,
    &ft_op_gated_gelu_grad,
    &ft_op_dropout,
    &ft_op_dropout_grad,
    &ft_op_dropout_add,
    &ft_op_relu_dropout,
    &ft_op_relu_dropout_grad,
    &ft_op_softmax,
    &ft_op_softmax_grad,
    &ft_op_cross_entropy,
    &ft_op_cross_entropy_grad,
    &ft_op_sum,
    &ft_op_mean,
    &ft_op_spread,
    &ft_op_max,
    &ft_op_max_grad,
    &ft_op_one,
    &ft_op_argmax,
    &ft_op_slice,
    &ft_op_slice_grad,
    NULL,
};

const ft_op *ft_op_find(const char *name)
{
    for (const ft_op *const *op = ft_ops; *op; op++)
        if (strcmp((*op)->name, name) == 0) return *op;
    return NULL;
}

int ft_op_attr_count(const ft_op *op)
{
    int n = 0;
    while (op->attrs && op->attrs[n].name) n++;
    return n;
}

static int attr_index(const ft_op *op, const char *name)
{
    int n = ft_op_attr_count(op);
    for (int i = 0; i < n; i++)
        if (strcmp(op->attrs[i].name, name) == 0) return i;
    return -1;
}

static ft_status check_attr(const ft_op *op, const ft_attr_rule *rule, double value, ft_error *err)
{
    bool whole = !rule->integer || floor(value) == value;
    if (value >= rule->min && value <= rule->max && whole) return FT_OK;
    return ft_fail(err, FT_INVALID, "%s: %s is %g, expected %s from %g to %g", op->name, rule->name,
                   value, rule->integer ? "a whole number" : "a number", rule->min, rule->max);
}

ft_status ft_op_attrs(const ft_op *op, const char *const *names, const double *values, int n,
                      double *attrs, ft_error *err)
{
    int count = ft_op_attr_count(op);
    for (int i = 0; i < FT_MAX_ATTRS; i++) attrs[i] = i < count ? op->attrs[i].preset : 0.0;
    for (int i = 0; i < n; i++) {
        int at = attr_index(op, names[i]);
        if (at < 0)
            return ft_fail(err, FT_INVALID, "%s: there is no attribute %s", op->name, names[i]);
        FT_TRY(check_attr(op, &op->attrs[at], values[i], err));
        attrs[at] = values[i];
    }
    return FT_OK;
}

static ft_status check_inputs(const ft_op *op, const ft_spec *in, int n_in, ft_error *err)
{
    if (n_in < op->min_in || n_in > op->n_in)
        return op->min_in == op->n_in
                   ? ft_fail(err, FT_SHAPE, "%s: %d inputs, expected %d", op->name, n_in, op->n_in)
                   : ft_fail(err, FT_SHAPE, "%s: %d inputs, expected %d to %d", op->name, n_in,
                             op->min_in, op->n_in);
    for (int i = 0; i < n_in; i++) {
        if (ft_present(&in[i])) {
            if (ft_spec_check(&in[i], err) != FT_OK) return ft_error_wrap(err, "%s", op->name);
        } else if (i < op->min_in)
            return ft_fail(err, FT_SHAPE, "%s: input %d is absent, the first %d are needed",
                           op->name, i + 1, op->min_in);
    }
    return FT_OK;
}

static bool names_row(const ft_op *op, const char *message)
{
    size_t length = strlen(op->name);
    return strncmp(message, op->name, length) == 0 && message[length] == ':';
}

ft_status ft_op_shape(const ft_op *op, const ft_spec *in, int n_in, const double *attrs,
                      ft_spec *out, ft_error *err)
{
    FT_TRY(check_inputs(op, in, n_in, err));
    ft_spec all[FT_MAX_IN];
    for (int i = 0; i < FT_MAX_IN; i++)
        all[i] = i < n_in ? in[i] : (ft_spec){.shape = {.n_dims = -1}};
    for (int i = 0; i < ft_op_attr_count(op); i++)
        FT_TRY(check_attr(op, &op->attrs[i], attrs[i], err));
    ft_status status = op->shape(all, attrs, out, err);
    if (status == FT_OK || !err || names_row(op, err->message)) return status;
    return ft_error_wrap(err, "%s", op->name);
}
