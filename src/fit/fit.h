/* fit/fit.h - moves for a plan whose memory is more than its devices have. */
#ifndef FT_FIT_H
#define FT_FIT_H

#include "blueprint/blueprint.h"
#include "residency/residency.h"

typedef struct ft_fit {
    bool least;           /* as little memory as there can be, whatever the budgets */
    const int64_t *spare; /* by device: bytes that are left of its budget; negative: all but the
                             least, by what leaves behind each task */
    unsigned classes;     /* that may move, as bits; of what cannot, none do */
    ft_tasks tasks;       /* that the blueprint's plan was made with */
    ft_residency_scope scope;
    bool writes_back, updates_at_home; /* as of ft_residency */
    bool far_ahead;                    /* loads stand FT_LOADS_FAR_AHEAD */
    double room;                       /* as of ft_residency, as the next */
    bool spreads;
    bool makes; /* packed copies are made where that is predicted to take less than bringing them */
} ft_fit;

/* The plan with moves between device and host memory. Places are found by a blueprint of that plan;
 * where these do not fit together, it takes a few bytes more. */
ft_status ft_fit_plan(ft_plan **out, const ft_blueprint *blueprint, const ft_fit *fit,
                      ft_error *err);

#endif
