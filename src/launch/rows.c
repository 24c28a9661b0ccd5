/* launch/rows.c - finds the launcher of a row. */
#include "launch/rows.h"

#include <string.h>

static const ft_cuda_row *const groups[] = {ft_cuda_element_rows, ft_cuda_matrix_rows,
                                            ft_cuda_table_rows, ft_cuda_product_rows,
                                            ft_cuda_attention_rows};

static const ft_cuda_row *find(const ft_op *op)
{
    for (unsigned g = 0; g < sizeof groups / sizeof *groups; g++)
        for (const ft_cuda_row *row = groups[g]; row->name; row++)
            if (strcmp(row->name, op->name) == 0) return row;
    return NULL;
}

static ft_kernel find_kernel(const ft_op *op)
{
    const ft_cuda_row *row = find(op);
    return row ? row->launch : NULL;
}

static int64_t workspace(const ft_op *op, const ft_spec *in, const double *attrs, int team_size)
{
    const ft_cuda_row *row = find(op);
    (void)team_size;
    return row && row->workspace ? row->workspace(in, attrs) : 0;
}

const ft_kernel_list ft_cuda_kernels = {
    .kind = FT_DEVICE_GPU,
    .dtype = FT_F32,
    .find = find_kernel,
    .workspace = workspace,
    .pack_bytes = ft_cuda_pack_bytes,
    .pack_kind = ft_cuda_pack_kind,
    .pack = ft_cuda_pack,
    .pack_dtype = ft_cuda_pack_dtype,
};
