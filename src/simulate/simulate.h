/* simulate/simulate.h - when everything of a plan would happen, given what it costs. */
#ifndef FT_SIMULATE_H
#define FT_SIMULATE_H

#include "machine/machine.h"
#include "plan/plan.h"
#include "timeline/timeline.h"

/* Where something lies in the block of its device. */
typedef struct ft_lot {
    int64_t at, bytes;
} ft_lot;

typedef struct ft_simulation {
    const ft_stage_costs
        *costs;                /* NULL: micro-batch actions take one unit each, the rest nothing */
    const ft_machine *machine; /* NULL: transfers take transfer_ns and wait for nobody */
    const int64_t (*swap_bytes)[FT_MEMORY_CLASSES]; /* by replica, in the order of the plan's
                                                       replica_device; activations: of a
                                                       micro-batch */
    const double *swap_ns_per_byte; /* by device, each way, where there is no machine; NULL: 0 */
    const ft_lot *lots; /* by ft_action.stay: what comes to a place waits for copies from there;
                           NULL: not known */
    int64_t delay_ns;   /* every action takes up to this much longer, by chance */
    uint64_t seed;      /* of the delays */
} ft_simulation;

/* Executes the plan against costs: discrete events, deterministic. Actions take their time on
 * devices and streams, transfers theirs on links; one that finds its way taken waits. */
ft_status ft_plan_simulate_on(ft_timeline **out, const ft_plan *plan,
                              const ft_simulation *simulation, ft_error *err);

/* As above with transfers of transfer_ns that do not occupy anything. */
ft_status ft_plan_simulate(ft_timeline **out, const ft_plan *plan, const ft_stage_costs *costs,
                           ft_error *err);

#endif
