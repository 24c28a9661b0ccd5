/* optim/element.h - what a step makes of one number of a parameter: AdamW, SGD.
 *
 * The loops of CPUs (optim/simd/) and the kernels of cards (kernels/optimizers.cu) take the same
 * functions, and products and sums are fused where it is written and nowhere else: so a parameter
 * gets the same bits wherever it is updated, by a CPU that fuses them or a card. On other CPUs
 * nothing is fused. A kernel defines FT_ELEMENT, what its functions begin with. */
#ifndef FT_OPTIM_ELEMENT_H
#define FT_OPTIM_ELEMENT_H

#include <math.h>

#include "optim/step.h"

#if defined(FT_ELEMENT) || defined(FP_FAST_FMAF)
#define FT_FUSED(a, b, c) fmaf(a, b, c)
#else
#define FT_FUSED(a, b, c) ((a) * (b) + (c))
#endif
#ifndef FT_ELEMENT
#define FT_ELEMENT static inline
#endif

/* *p, *m, *v: the parameter, the means of its gradients and of their squares; optim/adamw.c has
 * the formula. */
FT_ELEMENT void ft_adamw_element(const ft_adamw_step *s, float grad, float *p, float *m, float *v)
{
    float g = grad * s->grad_scale, old = *m;
    *m = FT_FUSED(old, s->beta1, g * s->rest1);
    *v = FT_FUSED(*v, s->beta2, g * g * s->rest2);
    float way = *m;
    if (s->ahead != 0.0f) way = FT_FUSED(s->ahead, FT_FUSED(-s->before, old, *m), *m);
    float change = s->size * way / FT_FUSED(sqrtf(*v), s->root, s->eps);
    *p = FT_FUSED(*p, s->keep, -change);
}

/* *p, *m: the parameter and its momentum; optim/sgd.c has the formula. */
FT_ELEMENT void ft_sgd_element(const ft_sgd_step *s, float grad, float *p, float *m)
{
    float old = *m;
    *m = FT_FUSED(old, s->momentum, FT_FUSED(*p, s->decay, grad * s->grad_scale));
    *p = FT_FUSED(-s->rate, FT_FUSED(s->ahead, *m - old, *m), *p);
}

#endif
