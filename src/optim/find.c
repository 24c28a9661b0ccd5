/* optim/find.c - the kernels of steps that a device has. */
#include "optim/optim.h"

const ft_step_kernels *ft_steps_of(const ft_device_stream *stream)
{
    if (!stream) return NULL;
    for (int i = 0; ft_step_kernel_lists[i]; i++)
        if (ft_step_kernel_lists[i]->kind == stream->executor->driver->kind)
            return ft_step_kernel_lists[i];
    return NULL;
}
