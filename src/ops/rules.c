/* ops/rules.c - what shape rules, costs, kernels and gradient rules have in common. */
#include "ops/internal.h"

#include <string.h>

int64_t ft_rows_of(const ft_shape *shape, int n)
{
    ft_shape front = ft_shape_front(shape, n);
    return ft_shape_count(&front);
}

ft_shape ft_shape_front(const ft_shape *shape, int n)
{
    return ft_shape_make(shape->n_dims - n, shape->dims);
}

ft_shape ft_shape_back(const ft_shape *shape, int n)
{
    return ft_shape_make(n, shape->dims + shape->n_dims - n);
}

ft_axes ft_axes_of(const ft_shape *shape, int axis)
{
    if (axis < 0) return (ft_axes){1, ft_shape_count(shape), 1};
    ft_shape front = ft_shape_front(shape, shape->n_dims - axis);
    ft_shape back = ft_shape_back(shape, shape->n_dims - axis - 1);
    return (ft_axes){ft_shape_count(&front), shape->dims[axis], ft_shape_count(&back)};
}

ft_spec ft_spec_of(ft_dtype dtype, ft_shape shape)
{
    return (ft_spec){.dtype = dtype, .shape = shape};
}

ft_status ft_shape_fail(ft_error *err, const char *op, const char *what, const ft_spec *spec,
                        const char *expected)
{
    char text[96];
    return ft_fail(err, FT_SHAPE, "%s%s%s is %s %s, expected %s", op ? op : "", op ? ": " : "",
                   what, ft_dtype_name(spec->dtype),
                   ft_shape_format(&spec->shape, text, sizeof text), expected);
}

ft_status ft_need_dtype(const char *op, const char *what, const ft_spec *spec, ft_dtype dtype,
                        ft_error *err)
{
    return spec->dtype == dtype ? FT_OK : ft_shape_fail(err, op, what, spec, ft_dtype_name(dtype));
}

ft_status ft_need_shape(const char *op, const char *what, const ft_spec *spec,
                        const ft_shape *shape, ft_error *err)
{
    char text[96];
    if (ft_shape_equal(&spec->shape, shape)) return FT_OK;
    return ft_shape_fail(err, op, what, spec, ft_shape_format(shape, text, sizeof text));
}

ft_status ft_need_spec(const char *op, const char *what, const ft_spec *spec, const ft_spec *wanted,
                       ft_error *err)
{
    FT_TRY(ft_need_dtype(op, what, spec, wanted->dtype, err));
    return ft_need_shape(op, what, spec, &wanted->shape, err);
}

ft_status ft_need_dims(const char *op, const char *what, const ft_spec *spec, int min_dims,
                       ft_error *err)
{
    if (spec->shape.n_dims >= min_dims) return FT_OK;
    return ft_shape_fail(err, op, what, spec,
                         min_dims == 1 ? "at least 1 dimension" : "at least 2 dimensions");
}

ft_status ft_need_f32(const char *op, const char *what, const ft_spec *spec, ft_shape shape,
                      ft_error *err)
{
    FT_TRY(ft_need_dtype(op, what, spec, FT_F32, err));
    return ft_need_shape(op, what, spec, &shape, err);
}

ft_status ft_need_rows(const char *op, const char *what, const ft_spec *spec, ft_error *err)
{
    FT_TRY(ft_need_dtype(op, what, spec, FT_F32, err));
    return ft_need_dims(op, what, spec, 1, err);
}

ft_status ft_shape_same1(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err)
{
    (void)attrs;
    FT_TRY(ft_need_dtype(NULL, "the input", &in[0], FT_F32, err));
    out[0] = in[0];
    return FT_OK;
}

ft_status ft_shape_same2(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err)
{
    (void)attrs;
    FT_TRY(ft_need_dtype(NULL, "the first input", &in[0], FT_F32, err));
    FT_TRY(ft_need_spec(NULL, "the second input", &in[1], &in[0], err));
    out[0] = in[0];
    return FT_OK;
}

double ft_spec_size(const ft_spec *spec)
{
    return ft_present(spec) ? (double)ft_shape_count(&spec->shape) : 0.0;
}

ft_cost ft_cost_of(const ft_spec *in, int n_in, const ft_spec *out, int n_out, double flops)
{
    ft_cost cost = {.flops = flops};
    for (int i = 0; i < n_in; i++)
        cost.bytes_read += ft_spec_size(&in[i]) * (double)ft_dtype_bytes(in[i].dtype);
    for (int i = 0; i < n_out; i++)
        cost.bytes_written += ft_spec_size(&out[i]) * (double)ft_dtype_bytes(out[i].dtype);
    return cost;
}

ft_cost ft_cost_per_element(const ft_spec *in, int n_in, const ft_spec *out, int n_out,
                            double flops_per)
{
    return ft_cost_of(in, n_in, out, n_out, flops_per * ft_spec_size(&out[0]));
}

int64_t ft_rows_per_part(int64_t rows)
{
    int64_t per_part = (rows + FT_MAX_PARTS - 1) / FT_MAX_PARTS;
    return per_part < 16 ? 16 : per_part;
}

void ft_parts_sum(float *dst, const float *parts, int n_parts, int64_t D, bool add)
{
    ft_map2 sum = ft_simd_get()->math->map2[FT_MAP_ADD];
    if (!add) memset(dst, 0, (size_t)D * sizeof *dst);
    for (int i = 0; i < n_parts; i++) sum(dst, dst, parts + i * D, D);
}

ft_value_id ft_add(ft_builder *b, const ft_op *op, int n_in, const ft_value_id *in,
                   const double *attrs)
{
    static const double none[FT_MAX_ATTRS];
    return b->add(b, op, in, n_in, attrs ? attrs : none);
}

ft_value_id ft_add1(ft_builder *b, const ft_op *op, ft_value_id a, const double *attrs)
{
    return ft_add(b, op, 1, &a, attrs);
}

ft_value_id ft_add2(ft_builder *b, const ft_op *op, ft_value_id a, ft_value_id c,
                    const double *attrs)
{
    return ft_add(b, op, 2, (ft_value_id[]){a, c}, attrs);
}
