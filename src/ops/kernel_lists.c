/* ops/kernel_lists.c - the kernels that are in this program.
 *
 * Nothing else is in this file: a program that links lists of its own gets those instead. */
#include "ops/ops.h"

const ft_kernel_list *const ft_kernel_lists[] = {&ft_cpu_kernels, NULL};
