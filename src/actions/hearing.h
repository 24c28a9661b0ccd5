/* actions/hearing.h - what actions have found on devices that run ahead of their workers.
 *
 * A worker gives an action to such a device and goes on to the next. What it has to know of the
 * action - the loss, whether numbers are finite, squares of gradients - the device leaves in its
 * host memory, with an event behind it, until the worker hears it (actions/hear.c). */
#ifndef FT_ACTIONS_HEARING_H
#define FT_ACTIONS_HEARING_H

#include "state/run.h"

/* What one action has found. */
typedef struct findings {
    ft_look any, sent; /* of one tensor; of all that an action sends */
    float loss;
    ft_look terms[]; /* by gradient term */
} findings;

/* An action that was given and not heard yet. */
typedef struct unheard {
    ft_action action;
    const ft_program *program;
    double *const *squares; /* as in ft_bases */
    bool makes_loss;
    findings *found;
    ft_device_event *told; /* passed when `found` is written */
} unheard;

enum { AHEAD = 32 };

/* Numbers `first` to `end` - 1 of a leg were not heard; number n is at n modulo AHEAD, and the
 * place of `end` is free. */
typedef struct hearing {
    unheard of[AHEAD];
    int64_t first, end;
    void *memory; /* of all findings */
    int64_t bytes;
} hearing;

/* Of a device that has steps of its own (optim/optim.h); others get none. */
ft_status hearing_open(worker *w, ft_error *err);
void hearing_close(worker *w);
/* Before a leg: nothing is to be heard. */
void hearing_begin(worker *w);

#endif
