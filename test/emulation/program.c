/* test/emulation/program.c - the lists of ftpipe_emu, in which "cpu" counts emulated cards: what
 * runs in that program runs on them. */
#include "emulation.h"
#include "launch/launch.h"

const ft_driver *const ft_drivers[] = {&emu_cpu_driver.driver, &emu_driver.driver,
                                       &emu_cuda_driver.driver, NULL};
const ft_kernel_list *const ft_kernel_lists[] = {&ft_cpu_kernels, &ft_cuda_kernels, NULL};
const ft_step_kernels *const ft_step_kernel_lists[] = {&ft_cuda_steps, NULL};
