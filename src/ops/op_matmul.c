/* ops/op_matmul.c - c (...,M,N) = op(a) (...,M,K) op(b) (...,K,N), for each of the leading indices.
 * op transposes the last two axes where its attribute says so: a is then (...,K,M), b (...,N,K). */
#include "ops/internal.h"
#include "ops/panels.h"

#include <stddef.h>

enum { TRANSPOSE_A, TRANSPOSE_B };

static const ft_attr_rule matmul_attrs[] = {
    {.name = "transpose_a",
     .preset = 0,
     .min = 0,
     .max = 1,
     .integer = true,
     .help = "1: a is (...,K,M)"},
    {.name = "transpose_b",
     .preset = 0,
     .min = 0,
     .max = 1,
     .integer = true,
     .help = "1: b is (...,N,K)"},
    {.name = NULL},
};

typedef struct sizes {
    int64_t batch, M, N, K;
} sizes;

static sizes sizes_of(const ft_shape *a, const ft_shape *b, const double *attrs)
{
    bool ta = attrs[TRANSPOSE_A] != 0.0, tb = attrs[TRANSPOSE_B] != 0.0;
    return (sizes){.batch = ft_rows_of(a, 2),
                   .M = ft_dim_back(a, ta ? -1 : -2),
                   .K = ft_dim_back(a, ta ? -2 : -1),
                   .N = ft_dim_back(b, tb ? -2 : -1)};
}

static ft_status matmul_shape(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err)
{
    FT_TRY(ft_need_dtype("matmul", "a", &in[0], FT_F32, err));
    FT_TRY(ft_need_dtype("matmul", "b", &in[1], FT_F32, err));
    FT_TRY(ft_need_dims("matmul", "a", &in[0], 2, err));
    FT_TRY(ft_need_dims("matmul", "b", &in[1], 2, err));
    sizes s = sizes_of(&in[0].shape, &in[1].shape, attrs);
    bool tb = attrs[TRANSPOSE_B] != 0.0;
    ft_shape b = in[0].shape;
    b.dims[b.n_dims - 2] = tb ? s.N : s.K;
    b.dims[b.n_dims - 1] = tb ? s.K : s.N;
    FT_TRY(ft_need_shape("matmul", "b", &in[1], &b, err));
    out[0] = in[0];
    out[0].shape.dims[b.n_dims - 2] = s.M;
    out[0].shape.dims[b.n_dims - 1] = s.N;
    return FT_OK;
}

static ft_cost matmul_cost(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    sizes s = sizes_of(&in[0].shape, &in[1].shape, attrs);
    return ft_cost_per_element(in, 2, out, 1, 2.0 * (double)s.K);
}

/* One product after the other, each cut over the team. */
static ft_status matmul_kernel(const ft_call *call, ft_error *err)
{
    (void)err;
    const sizes s = sizes_of(&call->in[0].shape, &call->in[1].shape, call->attrs);
    ft_large_product product = {.m = s.M,
                                .n = s.N,
                                .k = s.K,
                                .a = ft_in(call, 0),
                                .b = ft_in(call, 1),
                                .a_transposed = call->attrs[TRANSPOSE_A] != 0.0,
                                .b_transposed = call->attrs[TRANSPOSE_B] != 0.0,
                                .c = ft_out(call, 0),
                                .work = call->work};
    for (int64_t i = 0; i < s.batch; i++) {
        ft_panels_multiply(&product, ft_panels_kernels(false), call->team);
        product.a += s.M * s.K;
        product.b += s.K * s.N;
        product.c += s.M * s.N;
    }
    return FT_OK;
}

static int64_t matmul_work(const ft_spec *in, const double *attrs, int team_size)
{
    const sizes s = sizes_of(&in[0].shape, &in[1].shape, attrs);
    return ft_panels_work_bytes(s.M, s.N, s.K, ft_panels_kernels(false), team_size);
}

static ft_status matmul_reference(const ft_call *call, ft_error *err)
{
    (void)err;
    bool ta = call->attrs[TRANSPOSE_A] != 0.0, tb = call->attrs[TRANSPOSE_B] != 0.0;
    sizes s = sizes_of(&call->in[0].shape, &call->in[1].shape, call->attrs);
    const double *a = ft_in64(call, 0), *b = ft_in64(call, 1);
    double *c = ft_out64(call, 0);
    for (int64_t n = 0; n < s.batch; n++, a += s.M * s.K, b += s.K * s.N, c += s.M * s.N)
        for (int64_t i = 0; i < s.M; i++)
            for (int64_t j = 0; j < s.N; j++) {
                double sum = 0.0;
                for (int64_t k = 0; k < s.K; k++)
                    sum += a[ta ? k * s.M + i : i * s.K + k] * b[tb ? j * s.K + k : k * s.N + j];
                c[i * s.N + j] = sum;
            }
    return FT_OK;
}

static ft_value_id product(ft_builder *b, ft_value_id x, ft_value_id y, bool tx, bool ty)
{
    return ft_add2(b, &ft_op_matmul, x, y, (const double[FT_MAX_ATTRS]){tx, ty});
}

/* With C = A B: dA = dC B^T and dB = A^T dC; where A or B is given transposed, so is its gradient.
 */
static void matmul_grad(ft_builder *b, const ft_grad_site *site)
{
    bool ta = site->attrs[TRANSPOSE_A] != 0.0, tb = site->attrs[TRANSPOSE_B] != 0.0;
    ft_value_id dc = site->dout[0], x = site->in[0], y = site->in[1];
    if (site->wanted[0])
        site->din[0] = ta ? product(b, y, dc, tb, true) : product(b, dc, y, false, !tb);
    if (site->wanted[1])
        site->din[1] = tb ? product(b, dc, x, true, ta) : product(b, x, dc, !ta, false);
}

static const ft_sample matmul_samples[] = {
    {.in = {FT_F32_OF(2, 3, 4), FT_F32_OF(2, 4, 5)}, .attrs = {0, 0}, .tolerance = 1e-6},
    {.in = {FT_F32_OF(4, 2, 3, 7, 33), FT_F32_OF(4, 2, 3, 9, 33)},
     .attrs = {0, 1},
     .tolerance = 2e-6},
    {.in = {FT_F32_OF(3, 2, 5, 3), FT_F32_OF(3, 2, 5, 1)}, .attrs = {1, 0}, .tolerance = 1e-6},
    {.in = {FT_F32_OF(3, 1, 7, 3), FT_F32_OF(3, 1, 2, 7)}, .attrs = {1, 1}, .tolerance = 1e-6},
    {.in = {FT_F32_OF(2, 600, 2), FT_F32_OF(2, 2, 3)}, .attrs = {0, 0}, .tolerance = 1e-6},
};

const ft_op ft_op_matmul = {
    .name = "matmul",
    .doc = "c (...,M,N) = a (...,M,K) b (...,K,N), either transposed if asked",
    .min_in = 2,
    .n_in = 2,
    .n_out = 1,
    .attrs = matmul_attrs,
    .shape = matmul_shape,
    .cost = matmul_cost,
    .grad = matmul_grad,
    .kernel = matmul_kernel,
    .reference = matmul_reference,
    .workspace = matmul_work,
    .samples = matmul_samples,
    .n_samples = sizeof matmul_samples / sizeof *matmul_samples,
};
