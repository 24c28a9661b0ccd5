/* ops/kernels.c - which kernel executes a row: by kind of device and dtype of its arithmetic.
 *
 * A kind of device has a list for each dtype that it computes in (kernel_lists.c). The CPU's f32
 * kernels are in the rows themselves. */
#include "ops/internal.h"

#include "device/driver.h"

static ft_kernel own_kernel(const ft_op *op)
{
    return op->kernel;
}

static int64_t own_workspace(const ft_op *op, const ft_spec *in, const double *attrs, int team_size)
{
    return op->workspace ? op->workspace(in, attrs, team_size) : 0;
}

static int64_t own_pack_bytes(const ft_op *op, const ft_spec *in, const double *attrs)
{
    return op->pack_bytes(in, attrs);
}

static const char *own_pack_kind(const ft_op *op, const double *attrs)
{
    return op->pack_kind(attrs);
}

static ft_status own_pack(const ft_op *op, const ft_spec *in, const double *attrs,
                          const void *weight, void *packed, const ft_packer *by, ft_error *err)
{
    return op->pack(in, attrs, weight, packed, by->team, err);
}

const ft_kernel_list ft_cpu_kernels = {
    .kind = FT_DEVICE_CPU,
    .dtype = FT_F32,
    .find = own_kernel,
    .workspace = own_workspace,
    .pack_bytes = own_pack_bytes,
    .pack_kind = own_pack_kind,
    .pack = own_pack,
};

const ft_kernel_list *ft_kernel_list_of(ft_device_kind kind, ft_dtype dtype)
{
    for (int i = 0; ft_kernel_lists[i]; i++)
        if (ft_kernel_lists[i]->kind == kind && ft_kernel_lists[i]->dtype == dtype)
            return ft_kernel_lists[i];
    return NULL;
}

ft_kernel ft_op_kernel(const ft_op *op, ft_device_kind kind, ft_dtype dtype)
{
    const ft_kernel_list *list = ft_kernel_list_of(kind, dtype);
    return list ? list->find(op) : NULL;
}

int64_t ft_op_workspace(const ft_op *op, ft_device_kind kind, ft_dtype dtype, const ft_spec *in,
                        const double *attrs, int team_size)
{
    const ft_kernel_list *list = ft_kernel_list_of(kind, dtype);
    return list ? list->workspace(op, in, attrs, team_size) : 0;
}

/* -- as work of a stream ----------------------------------------------------------------------- */

static ft_status run_row(const void *arg, ft_device_stream *stream, ft_error *err)
{
    const ft_row_run *run = arg;
    (void)stream; /* of the call as well */
    return run->kernel(run->call, err);
}

static int64_t view_bytes(const ft_view *view)
{
    ft_spec spec = ft_view_layout(view);
    return ft_spec_bytes(&spec);
}

static int row_accesses(const void *arg, ft_access out[FT_MAX_ACCESSES])
{
    const ft_row_run *run = arg;
    const ft_call *call = run->call;
    const ft_op *op = run->op;
    ft_spec specs[FT_MAX_IN];
    int n = 0;
    for (int i = 0; i < op->n_in; i++) {
        specs[i] = (ft_spec){.shape = {.n_dims = -1}};
        if (!call->in[i].data) continue;
        specs[i] = ft_view_spec(&call->in[i]);
        bool packed = call->packed && i == op->pack_input - 1;
        if (!packed)
            out[n++] = (ft_access){call->in[i].data, view_bytes(&call->in[i]), true, false};
    }
    for (int k = 0; k < op->n_out; k++)
        out[n++] = (ft_access){call->out[k].data, view_bytes(&call->out[k]),
                               call->accumulate >> k & 1, true};
    if (call->packed)
        out[n++] = (ft_access){call->packed, op->pack_bytes(specs, call->attrs), true, false};
    if (call->work) out[n++] = (ft_access){call->work, run->work_bytes, false, true};
    return n;
}

const ft_task ft_row_task = {"a row", run_row, row_accesses};
