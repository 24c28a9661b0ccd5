/* tensor/internal.h - what files of this room share. */
#ifndef FT_TENSOR_INTERNAL_H
#define FT_TENSOR_INTERNAL_H

#include "tensor/tensor.h"

/* Address of the element at flat index `index` in row-major order. */
char *ft_view_address(const ft_view *view, int64_t index);

#endif
