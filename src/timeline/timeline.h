/* timeline/timeline.h - what happened when: of a run, or of a simulation.
 *
 * Events are by device, then by stream, then
 * by start; those of one stream do not overlap. A simulation adds what passed over links, and why
 * each event began when it did. */
#ifndef FT_TIMELINE_H
#define FT_TIMELINE_H

#include "base/text.h"
#include "plan/plan.h"

/* Why a compute stream stood idle before an event: what came last of all that the event needed.
 * Name, and the word for people. */
#define FT_WAIT_LIST(X)                                                                            \
    X(NOTHING, "between")   /* nothing: the way from one action to the next */                     \
    X(BATCH, "batches")     /* its batch had to be fed */                                          \
    X(DATA, "data")         /* an edge had to be filled */                                         \
    X(SLOT, "slots")        /* a slot of an edge had to become free */                             \
    X(COPY, "copies")       /* a copy had to end */                                                \
    X(REPLICAS, "replicas") /* the other replicas of its stage had to come so far */

typedef enum {
#define FT_WAIT_ENUM(name, ...) FT_WAIT_##name,
    FT_WAIT_LIST(FT_WAIT_ENUM)
#undef FT_WAIT_ENUM
        FT_WAIT_COUNT
} ft_wait;

const char *ft_wait_word(ft_wait wait); /* "data" */

typedef struct ft_event {
    int64_t start_ns, end_ns; /* from the start of the leg */
    int32_t batch, micro;     /* in the leg */
    int16_t device, stage;
    int16_t lag;
    uint8_t kind;
    uint8_t class; /* what a swap or a drop moves; 0 for the others */
    int32_t edge;  /* of FT_WAIT_DATA and FT_WAIT_SLOT; of a send or receive of a run, its own */
    uint8_t wait;  /* ft_wait, of compute events */
    int64_t bytes; /* of a run: copied to or from host memory, or sent to other devices; else 0 */
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
    /* By device: by how much its clock may be off that of the timeline; -1: nobody knows. */
    int64_t *clock_error_ns;
} ft_timeline;

/* Moves events of one stream in time; none begins before the timeline does. */
void ft_events_shift(ft_event *events, int64_t n, int64_t shift_ns);

/* A timeline without events, with room for `capacity`; freed with ft_timeline_free. */
ft_status ft_timeline_new(ft_timeline **out, int n_devices, int n_stages, int64_t capacity,
                          ft_error *err);
void ft_timeline_free(ft_timeline *timeline);

/* When the last event ends, and how long the device's compute events take together. */
int64_t ft_timeline_end_ns(const ft_timeline *timeline);
int64_t ft_timeline_busy_ns(const ft_timeline *timeline, int device);

/* For how long the device's compute stream stood idle, by what it waited for. Returns when its last
 * event ends, from which on it has nothing left to do: all of it and its busy time are as long. */
int64_t ft_timeline_idle_ns(const ft_timeline *timeline, int device,
                            int64_t by_wait[FT_WAIT_COUNT]);

/* For how long of that it waited for data and for slots of an edge. */
typedef struct ft_edge_wait {
    int edge;
    int64_t data_ns, slot_ns;
} ft_edge_wait;
/* Those that it waited for, ascending, to be freed with ft_free. FT_NOMEM. */
ft_status ft_timeline_edge_waits(ft_edge_wait **out, int64_t *n, const ft_timeline *timeline,
                                 int device, ft_error *err);

/* Of a simulation of the plan: says of each event what it waited for, as its causes tell. FT_NOMEM.
 */
ft_status ft_timeline_find_waits(ft_timeline *timeline, const ft_plan *plan, ft_error *err);

/* Lags of each stage's forwards, as they happened: the least and the most of those in the second
 * half of the leg's batches; 0 without any. */
typedef struct ft_lag_range {
    int least, most;
} ft_lag_range;
void ft_timeline_staleness(const ft_timeline *timeline, ft_lag_range *by_stage);

/* The chain of events that made the end as late as it is, last first; returns how many, of which
 * at most `n` are written to `events`. 0 in a run's timeline, which knows no causes. */
int64_t ft_timeline_critical_path(const ft_timeline *timeline, int64_t *events, int64_t n);

/* How long the device's compute stream stood still, by the kind of what it waited for: an action of
 * another device, or a copy. Zeros in a run's timeline, which knows no causes. */
void ft_timeline_stalls(const ft_timeline *timeline, int device, int64_t by_kind[FT_ACT_COUNT]);

/* What devices are called, and how large things are on them, in bytes. */
typedef struct ft_holdings {
    const ft_plan *plan;
    const char *const *device_names; /* NULL: by their numbers */
    const int64_t *saved_bytes; /* by stage: what a micro-batch's forward leaves for its backward */
    const int64_t (*moved_bytes)[FT_MEMORY_CLASSES]; /* by replica, in the order of the plan's
                                                        replica_device: what a move of the class
                                                        carries; NULL: none does but of
                                                        activations, all of saved_bytes */
    const int64_t *staying_bytes; /* by device: of all else; NULL: it is not counted */
} ft_holdings;

/* Copies of a class between a device and host memory: what they carry, how long they take, and for
 * how long of that computing stood still for a copy; the rest is hidden. */
typedef struct ft_copy_sum {
    int64_t bytes_in, bytes_out, ns, exposed_ns;
} ft_copy_sum;
void ft_timeline_copies(const ft_timeline *timeline, int device, const ft_holdings *holdings,
                        ft_copy_sum by_class[FT_MEMORY_CLASSES]);

/* What a device has sent others in a run of the plan, by the kind of action that made it. Zeros of
 * a simulation. */
void ft_timeline_sent(const ft_timeline *timeline, const ft_plan *plan, int device,
                      int64_t by_kind[FT_ACT_COUNT]);

/* What a device holds over time: a point whenever it changes. */
typedef struct ft_memory_point {
    int64_t ns, bytes;
} ft_memory_point;

typedef struct ft_memory_curve {
    int64_t n, peak; /* peak: the most bytes */
    ft_memory_point *points;
} ft_memory_curve;

/* Activations, and what moves with what stays. At one time what is freed goes before what is taken.
 * To be freed with ft_memory_curve_fini. FT_NOMEM. */
ft_status ft_timeline_memory(ft_memory_curve *out, const ft_timeline *timeline, int device,
                             const ft_holdings *holdings, ft_error *err);
void ft_memory_curve_fini(ft_memory_curve *curve);

/* Chrome trace JSON, as Perfetto opens it: pid = device, tid = stage, slices "F stage 0 mb 3";
 * copies, passages and what a device waited for on tracks of their own; with holdings (NULL: none)
 * also what copies carry, and what devices hold, as counters. FT_INVALID when events of a
 * stream overlap or are out of order, or an edge is not the plan's. */
ft_status ft_timeline_write_trace(const ft_timeline *timeline, const ft_plan *plan,
                                  const ft_holdings *holdings, ft_text *text, ft_error *err);

/* For who simulates: room for causes, passages and times of links in a timeline that has none. */
ft_status ft_timeline_add_causes(ft_timeline *timeline, int64_t n_passages, int n_links,
                                 ft_error *err);

#endif
