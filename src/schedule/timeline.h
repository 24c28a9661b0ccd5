/* schedule/timeline.h - what happened when, and the simulator that makes it of a plan.
 *
 * The engine's runs and simulations give the same type. Events of a device are by stream, then by
 * start; those of one stream do not overlap. A simulation adds what passed over links, and why each
 * event began when it did. */
#ifndef FT_SCHEDULE_TIMELINE_H
#define FT_SCHEDULE_TIMELINE_H

#include "schedule/schedule.h"

typedef struct ft_event {
    int64_t start_ns, end_ns; /* from the start of the leg */
    int32_t batch, micro;     /* in the leg */
    int16_t device, stage;
    int16_t lag;
    uint8_t kind;
    uint8_t class; /* what a swap or a drop moves; 0 for the others */
} ft_event;

/* Data on its way between devices, or between a device and host memory. */
typedef struct ft_passage {
    int64_t start_ns, end_ns;
    int32_t edge;     /* of the plan; -1: a swap, -2: an all-reduce */
    int32_t link;     /* the narrowest on its way; -1: without a machine */
    int16_t from, to; /* devices; -1 is the host */
    int32_t event;    /* that it belongs to */
} ft_passage;

typedef struct ft_timeline {
    int n_devices, n_stages;
    int64_t n_events, capacity;
    ft_event *events; /* capacity is set when it is made */
    int64_t n_passages, passage_capacity;
    ft_passage *passages; /* NULL in a run's */
    int64_t *cause;   /* by event: that whose end, or whose data, it waited for last; -1: none */
    int n_links;      /* of the machine of a simulation; 0 without */
    int64_t *link_ns; /* by link: how long it was taken, in its busier direction */
} ft_timeline;

/* A timeline without events, with room for `capacity`; freed with ft_timeline_free. */
ft_status ft_timeline_new(ft_timeline **out, int n_devices, int n_stages, int64_t capacity,
                          ft_error *err);
void ft_timeline_free(ft_timeline *timeline);

/* When the last event ends, and how long the device's compute events take together. */
int64_t ft_timeline_end_ns(const ft_timeline *timeline);
int64_t ft_timeline_busy_ns(const ft_timeline *timeline, int device);

/* The chain of events that made the end as late as it is, last first; returns how many, of which
 * at most `n` are written to `events`. 0 in a run's timeline, which knows no causes. */
int64_t ft_timeline_critical_path(const ft_timeline *timeline, int64_t *events, int64_t n);

/* Activations over time: a point whenever the device's bytes change. */
typedef struct ft_memory_point {
    int64_t ns, bytes;
} ft_memory_point;

/* saved_bytes: by stage, what a micro-batch's forward leaves for its backward. `points` has room
 * for one per event of the device; returns how many were written. *peak: the most bytes. At one
 * time what is freed goes before what is taken. */
int64_t ft_timeline_memory(const ft_timeline *timeline, int device, const int64_t *saved_bytes,
                           ft_memory_point *points, int64_t *peak);

/* Chrome trace JSON, as Perfetto opens it: pid = device, tid = stage, slices "F stage 0 mb 3";
 * copies and passages on tracks of their own. FT_INVALID when events of a stream overlap or are out
 * of order. */
ft_status ft_timeline_write_trace(const ft_timeline *timeline, ft_text *text, ft_error *err);

/* -- machines ---------------------------------------------------------------------------------- */

/* A cable between two places. What passes in one direction waits for what asked before; with
 * `duplex` the two directions do not wait for each other. */
typedef struct ft_cable {
    int a, b; /* places */
    double bytes_per_s;
    int64_t latency_ns;
    bool duplex;
    bool one_way; /* from a to b alone */
} ft_cable;

/* What a plan runs on. Places are devices, 0 to n_devices - 1, and others behind them: hosts and
 * switches. Data takes the way over the fewest links (then over those with the lowest numbers) that
 * passes through no other device. It needs as long as the narrowest of them, and the sum of their
 * latencies; each is taken for as long as it needs itself, so that a fast one has room for others
 * meanwhile. What a host lets through in all is a link from one place, where the links of its
 * devices end, to another, where they begin: one way each. */
typedef struct ft_machine {
    int n_devices, n_places;
    int n_links;
    const ft_cable *links;
    const int *home; /* by device: the place whose memory it swaps to; NULL: no swaps */
    const double *copy_bytes_per_s; /* by device: what an edge carries is copied at both ends by the
                                    compute stream; 0 or NULL: for nothing */
    const int64_t *launch_ns;       /* by device, of an action; may be NULL */
    int64_t hand_off_ns; /* from the end of an action to the begin of one that waits for it
                            on another device */
} ft_machine;

typedef struct ft_simulation {
    const ft_stage_costs
        *costs;                /* NULL: micro-batch actions take one unit each, the rest nothing */
    const ft_machine *machine; /* NULL: transfers take transfer_ns and wait for nobody */
    const int64_t (*swap_bytes)[FT_MEMORY_CLASSES]; /* by stage; activations: of a micro-batch */
    int64_t delay_ns; /* every action takes up to this much longer, by chance */
    uint64_t seed;    /* of the delays */
} ft_simulation;

/* What transfers take while nothing else is under way: from device i to j, at i * n_devices + j,
 * latency_ns and for every byte ns_per_byte more. FT_INVALID where there is no way. */
ft_status ft_machine_idle(const ft_machine *machine, double *latency_ns, double *ns_per_byte,
                          ft_error *err);

/* Executes the plan against costs: discrete events, deterministic. Actions take their time on
 * devices and streams, transfers theirs on links; one that finds its way taken waits. */
ft_status ft_plan_simulate_on(ft_timeline **out, const ft_plan *plan,
                              const ft_simulation *simulation, ft_error *err);

/* As above with transfers of transfer_ns that do not occupy anything. */
ft_status ft_plan_simulate(ft_timeline **out, const ft_plan *plan, const ft_stage_costs *costs,
                           ft_error *err);

#endif
