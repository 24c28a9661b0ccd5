/* channels/card/lists.c - the drivers and kernels of a program that has those of cards. */
#include "channels/channels.h"
#include "launch/launch.h"

/* One for each file of kernels/, NULL at the end; made by CMake. */
extern const ft_cuda_image ft_cuda_images[];

static const ft_cuda_driver cards = {FT_CUDA_CARDS_TABLE("cuda", FT_CHANNELS_ENTRIES),
                                     ft_cuda_api_load, ft_cuda_images, ft_cublas_api_load,
                                     ft_nccl_api_load};

const ft_driver *const ft_drivers[] = {&ft_cpu_driver, &cards.driver, NULL};
const ft_kernel_list *const ft_kernel_lists[] = {&ft_cpu_kernels, &ft_cuda_kernels, NULL};
const ft_step_kernels *const ft_step_kernel_lists[] = {&ft_cuda_steps, NULL};
