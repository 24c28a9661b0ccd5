/* optim/steps.c - which devices have kernels of their own for steps.
 *
 * A program that links a list of its own gets that one instead: find.c looks into it. */
#include "optim/optim.h"

const ft_step_kernels *const ft_step_kernel_lists[] = {NULL};
