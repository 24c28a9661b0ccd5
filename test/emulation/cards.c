/* test/emulation/cards.c - the lists of test programs on the cards of this machine, in which "cpu"
 * counts devices on the first one: what runs in them runs there. */
#include "channels/channels.h"
#include "launch/launch.h"

extern const ft_cuda_image ft_cuda_images[]; /* made by CMake */

static const ft_cuda_driver on_first = {FT_CUDA_DRIVER_TABLE("cpu", FT_CHANNELS_ENTRIES),
                                        ft_cuda_api_load, ft_cuda_images, ft_cublas_api_load,
                                        ft_nccl_api_load};
static const ft_cuda_driver cards = {FT_CUDA_CARDS_TABLE("cuda", FT_CHANNELS_ENTRIES),
                                     ft_cuda_api_load, ft_cuda_images, ft_cublas_api_load,
                                     ft_nccl_api_load};

const ft_driver *const ft_drivers[] = {&on_first.driver, &cards.driver, NULL};
const ft_kernel_list *const ft_kernel_lists[] = {&ft_cpu_kernels, &ft_cuda_kernels, NULL};
const ft_step_kernels *const ft_step_kernel_lists[] = {&ft_cuda_steps, NULL};
