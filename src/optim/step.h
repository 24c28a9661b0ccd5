/* optim/step.h - the numbers of a step of AdamW and of SGD, for the loops and kernels that take it.
 */
#ifndef FT_OPTIM_STEP_H
#define FT_OPTIM_STEP_H

typedef struct ft_adamw_step {
    float grad_scale;
    float beta1, rest1; /* rest: 1 - beta, rounded once */
    float beta2, rest2;
    float keep; /* 1 - rate * weight_decay: multiplies the parameter first */
    float size; /* rate / (1 - beta1^step) */
    float root; /* 1 / sqrt(1 - beta2^step) */
    float eps;
    float ahead;  /* steps that the parameter is kept ahead */
    float before; /* multiplies the old m: its correction for bias by that of the new one */
} ft_adamw_step;

typedef struct ft_sgd_step {
    float grad_scale, momentum, decay, rate;
    float ahead; /* steps that the parameter is kept ahead */
} ft_sgd_step;

#endif
