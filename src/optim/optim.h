/* optim/optim.h - what a step does to the parameters.
 *
 * One row per optimizer and per rate schedule. An update touches one parameter and its state, works
 * in blocks of fixed size, and gives the same bits for any number of threads. */
#ifndef FT_OPTIM_H
#define FT_OPTIM_H

#include "base/error.h"
#include "device/driver.h"
#include "optim/step.h"
#include "tensor/tensor.h"

enum { FT_MAX_HYPERS = 8 };

typedef struct ft_hyper_rule {
    const char *name; /* NULL ends the list */
    double preset, min, max;
    const char *help;
} ft_hyper_rule;

/* One parameter's update. */
typedef struct ft_update {
    const ft_spec *spec; /* f32 */
    float *param;
    const float *grad;    /* sum over micro-batches */
    float grad_scale;     /* gradient clipping: multiplies every gradient */
    void *state;          /* state_bytes, zeroed before step 1 */
    const double *hypers; /* in the order of the rules */
    double rate;          /* learning rate of this step */
    double ahead;         /* steps like this one that the parameter is kept ahead; 0 and no other
                             with optimizers that do not look ahead */
    int64_t step;         /* 1 is the first */
    ft_team *team;
    void *copy; /* that ft_step_kernels write: the new parameter, rounded to copy_dtype, FT_BF16 or
                   FT_F16; NULL: none */
    ft_dtype copy_dtype;
} ft_update;

/* One parameter as it would be after n more updates whose gradients are zero. */
typedef struct ft_prediction {
    const ft_spec *spec; /* f32 */
    const float *param;
    float *out;        /* not param */
    const void *state; /* not changed */
    const double *hypers;
    const double *rates; /* learning rates of those updates, in their order */
    int n;
    int64_t step; /* updates done so far */
    ft_team *team;
} ft_prediction;

/* One tensor of an optimizer's state, as saved in checkpoints. */
typedef struct ft_state_part {
    const char *name;
    ft_spec spec;
    int64_t offset; /* in the state */
} ft_state_part;

enum { FT_MAX_STATE_PARTS = 5 }; /* those of an optimizer, and two of the gap */

typedef struct ft_optimizer {
    const char *name;
    const char *doc; /* the update as a formula, with its source */
    const ft_hyper_rule *hypers;
    double memory; /* bytes that training keeps for a byte of a large parameter, about: the weight,
                      its gradient, the state, and what products on CPUs have packed */
    const char *momentum; /* the setting by which `ahead` of an update goes; NULL: it has none */
    /* Fills parts (at most FT_MAX_STATE_PARTS - 2), returns their number; *bytes is all of it. */
    int (*state)(const ft_spec *spec, const double *hypers, ft_state_part *parts, int64_t *bytes);
    void (*update)(const ft_update *update);
    void (*predict)(const ft_prediction *prediction);
} ft_optimizer;

extern const ft_optimizer
    *const ft_optimizers[]; /* the first where none is named; NULL at the end */
const ft_optimizer *ft_optimizer_find(const char *name);

/* Presets overwritten by n named values; FT_INVALID for unknown names and values out of range. */
ft_status ft_optimizer_hypers(const ft_optimizer *optimizer, const char *const *names,
                              const double *values, int n, double *hypers, ft_error *err);

/* Whether parameters can be kept ahead: by a momentum, which is not 0. */
bool ft_optimizer_looks_ahead(const ft_optimizer *optimizer, const double *hypers);

/* -- gradients of older weights (gap.c) -------------------------------------------------------- */

/* A parameter, and what is known of the size of its steps: zeros before the first. */
typedef struct ft_gap {
    const ft_spec *spec; /* f32 */
    const float *param;  /* as it is now */
    void *state;
    ft_team *team;
} ft_gap;

/* What to do to a sum of gradients that were taken with older weights. */
typedef struct ft_attenuation {
    const float *old;  /* those weights */
    const float *next; /* gradients to come are of these: what there is must bear being divided by
                          their gap as well; NULL: none come */
    float *grad;
} ft_attenuation;

/* Adds the parts of the state behind *bytes, fills parts, returns their number: 2. */
int ft_gap_state(const ft_spec *spec, ft_state_part *parts, int64_t *bytes);
/* After an update at this rate, which 0 makes none, has moved the parameter from `before`. */
void ft_gap_note(const ft_gap *gap, const float *before, double rate);
/* Divides gradients by 1 and the gap over the size of steps; returns the squared norm of the gap.
 */
double ft_gap_attenuate(const ft_gap *gap, const ft_attenuation *attenuation);

/* Sum of squares of n numbers in f64: blocks of fixed size, summed in order. */
double ft_squared_norm(const float *x, int64_t n, ft_team *team);
/* Likewise, of the differences of two. */
double ft_squared_distance(const float *x, const float *y, int64_t n, ft_team *team);

/* dst += src; whether every sum is finite. */
bool ft_sum_into(float *dst, const float *src, int64_t n, ft_team *team);

/* One term of a sum. */
typedef struct ft_sum_term {
    float *x;
    bool by_rows;  /* zero in most rows: a row of zeros is left out of the sum */
    uint8_t *rows; /* by row, where x is by rows: 0 where it holds zeros; NULL: all are looked at */
    const int32_t *picked; /* of ft_picked_term: the rows that x has, ascending; NULL: it has all */
    int64_t n_picked;
} ft_sum_term;

/* The sum of n terms, in their order, into the term `into`, which has all rows and whose `rows` are
 * kept true; the others are overwritten. Terms are rows x width, borrowed. Whether every sum is
 * finite. */
bool ft_sum_terms(const ft_sum_term *terms, int n, int into, int64_t rows, int64_t width,
                  ft_team *team);

/* A term by rows as it passes to another device: room for the numbers of n rows, -1 behind the
 * last, then for those rows. */
int64_t ft_picked_bytes(int64_t n, int64_t width);
/* Puts the rows there that do not hold zeros; whether there was room for all. */
bool ft_pick_rows(const ft_sum_term *term, int64_t rows, int64_t width, void *picked, int64_t n);
/* What was put there, borrowed. */
ft_sum_term ft_picked_term(void *picked, int64_t n);

/* -- on other devices than the CPU ------------------------------------------------------------- */

/* The numbers of an update by the rows `adamw` and `sgd`. */
ft_adamw_step ft_adamw_step_of(const ft_update *update);
ft_sgd_step ft_sgd_step_of(const ft_update *update);
/* Of a prediction's k-th update, 1 is the first: p = keep p - size m / (sqrt(v) root + eps). */
ft_adamw_step ft_adamw_step_ahead(const ft_prediction *prediction, int k);
/* Of all its updates together: p - this m. */
float ft_sgd_rate_ahead(const ft_prediction *prediction);

/* What a tensor holds: its sum of squares, and whether anything is not finite, or is not a number.
 */
typedef struct ft_look {
    double squares;
    uint32_t finite, nan; /* flags */
} ft_look;

/* y = x[0] + x[1] + ..., in this order, of `count` numbers each; y may be one of them, and x[0] may
 * be overwritten. */
typedef struct ft_summands {
    float *y;
    float *const *x;
    int n;
    int64_t count;
} ft_summands;

/* A tensor to look at; *found, in host memory of the device, gets the squares of it alone, and its
 * flags join those there. */
typedef struct ft_looking {
    const void *x;
    ft_dtype dtype; /* FT_F32, FT_BF16 or FT_F16 */
    int64_t n;
    ft_look *found;
} ft_looking;

/* What a kind of device has for what is done to gradients and parameters; the CPU does it by the
 * functions above. Each gives its work to the stream; addresses are the device's. */
typedef struct ft_step_kernels {
    ft_device_kind kind;
    /* n tensors, each with a `found` of its own. */
    ft_status (*look)(ft_device_stream *stream, const ft_looking *at, int n, ft_error *err);
    ft_status (*sum)(ft_device_stream *stream, const ft_summands *summands, ft_error *err);
    /* Of n parameters. */
    ft_status (*update)(ft_device_stream *stream, const ft_optimizer *optimizer,
                        const ft_update *updates, int n, ft_error *err);
    ft_status (*predict)(ft_device_stream *stream, const ft_optimizer *optimizer,
                         const ft_prediction *prediction, ft_error *err);
    /* As ft_gap_note and ft_gap_attenuate do; *out gets the squared norm of the gap. */
    ft_status (*note_step)(ft_device_stream *stream, const ft_gap *gap, const float *before,
                           double rate, ft_error *err);
    ft_status (*attenuate)(ft_device_stream *stream, const ft_gap *gap, const ft_attenuation *work,
                           ft_look *out, ft_error *err);
} ft_step_kernels;

/* Those of this program; NULL at the end (steps.c). */
extern const ft_step_kernels *const ft_step_kernel_lists[];
/* Those of a stream's device; NULL: it is the CPU's, or there is no stream. */
const ft_step_kernels *ft_steps_of(const ft_device_stream *stream);

/* Learning rate over steps: linear warm-up from 0, then by the row. */
typedef struct ft_rate {
    const char *schedule; /* the name of a row */
    double peak;
    int64_t warmup; /* steps; the rate of step w <= warmup is peak * w / warmup */
    int64_t steps;  /* all of them */
} ft_rate;

typedef struct ft_rate_schedule {
    const char *name;
    const char *words; /* what it does behind the warm-up, where `ends` before "to 0 at step N" */
    bool ends;         /* falls to 0 at `steps`; else they are no matter */
    double (*share)(const ft_rate *rate, int64_t step); /* of the peak, behind the warm-up */
} ft_rate_schedule;

extern const ft_rate_schedule ft_rate_schedules[]; /* a name of NULL at the end */
/* FT_INVALID for an unknown schedule (listing those there are), negative or non-finite numbers. */
ft_status ft_rate_check(const ft_rate *rate, ft_error *err);
double ft_rate_at(const ft_rate *rate, int64_t step); /* step counts from 1 */

#endif
