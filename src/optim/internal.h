/* optim/internal.h - what the rows of the optimizer table share. */
#ifndef FT_OPTIM_INTERNAL_H
#define FT_OPTIM_INTERNAL_H

#include "optim/optim.h"
#include "optim/simd/simd.h"

extern const ft_optimizer ft_optimizer_adamw, ft_optimizer_adafactor, ft_optimizer_sgd;

enum {
    FT_BLOCK = 16384, /* elements of a block of an update */
    FT_MAX_SUMS = 64  /* parts of a reduction */
};

/* Places a part of this shape at the end of a state of *bytes, 64-byte aligned. */
void ft_state_add(ft_state_part *part, const char *name, ft_shape shape, int64_t *bytes);

/* As ft_squared_norm, to some 1e-7 of itself: products and short runs are summed in f32. */
double ft_rough_squared_norm(const float *x, int64_t n, ft_team *team);

#endif
