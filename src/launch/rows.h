/* launch/rows.h - the table of launchers: for every row how its kernels are given to a stream. */
#ifndef FT_LAUNCH_ROWS_H
#define FT_LAUNCH_ROWS_H

#include "launch/launch.h"
#include "ops/kernel.h"
#include "ops/maps.h"

typedef struct ft_cuda_row {
    const char *name; /* of the row */
    ft_kernel launch;
    int64_t (*workspace)(const ft_spec *in, const double *attrs); /* NULL: none */
} ft_cuda_row;

/* A NULL name ends each. */
extern const ft_cuda_row ft_cuda_element_rows[], ft_cuda_matrix_rows[], ft_cuda_table_rows[],
    ft_cuda_product_rows[], ft_cuda_attention_rows[];

/* Copies of weights in 16 bits, for rows that multiply such (ft_kernel_list). */
int64_t ft_cuda_pack_bytes(const ft_op *op, const ft_spec *in, const double *attrs);
const char *ft_cuda_pack_kind(const ft_op *op, const double *attrs);
ft_status ft_cuda_pack(const ft_op *op, const ft_spec *in, const double *attrs, const void *weight,
                       void *packed, const ft_packer *by, ft_error *err);
ft_dtype ft_cuda_pack_dtype(const ft_op *op, const double *attrs);

/* Input or output i as it is kept. */
static inline ft_numbers ft_cuda_in(const ft_call *call, int i)
{
    return ft_cuda_numbers(call->in[i].data, call->in[i].dtype);
}
static inline ft_numbers ft_cuda_out(const ft_call *call, int i)
{
    return ft_cuda_numbers(call->out[i].data, call->out[i].dtype);
}

/* From a row of it to the next, in numbers. */
static inline int64_t ft_cuda_pitch(const ft_view *x)
{
    ft_spec spec = ft_view_layout(x);
    return ft_spec_pitch(&spec);
}

/* Of a row's key. */
ft_cuda_draw ft_cuda_draw_of(const ft_rng_key *key, double p);

#endif
