/* schedule/schedule.h - the order each stage works in.
 *
 * Pure: plain arrays in, plain arrays out. A schedule is a rule per stage; ft_plan_make plays the
 * rule against dependencies, buffers and costs and writes down what every device does: the plan.
 * The engine executes the plan, ft_plan_simulate executes it against costs; both give an
 * ft_timeline.
 *
 * A plan covers one leg of training: n_batches optimizer batches, from drained to drained pipeline.
 * Each device has one strict list of actions: warm-up, a body repeated body_repeats times, and
 * drain. In the body, `batch` is that of the first repetition (body_batches are added each further
 * time). A plan of forwards alone evaluates: nothing is kept for a backward, so one micro-batch is
 * in flight in each stage, and no action has a lag.
 *
 * Waiting is only on edges: an action waits until the edges into (stage, kind) were filled for its
 * index, and an action that fills an edge waits for a free slot of it. Index: micro-batch number of
 * the leg (batch * micro_batches + micro) for F and B, batch number for R, U and W. */
#ifndef FT_SCHEDULE_H
#define FT_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text.h"

/* name, letter in plan files, word in tables, whether it is per micro-batch */
#define FT_ACTION_LIST(X)                                                                          \
    X(FORWARD, 'F', "forward", true)                                                               \
    X(BACKWARD, 'B', "backward", true)                                                             \
    X(REDUCE, 'R', "reduce", false)   /* sum gradient terms of tied weights; squared norms */      \
    X(UPDATE, 'U', "update", false)   /* optimizer step of the parameters that the stage owns */   \
    X(ADOPT, 'W', "adopt", false)     /* take over tied weights that another stage has updated */

typedef enum {
#define FT_ACTION_ENUM(name, letter, word, micro) FT_ACT_##name,
    FT_ACTION_LIST(FT_ACTION_ENUM)
#undef FT_ACTION_ENUM
        FT_ACT_COUNT
} ft_action_kind;

const char *ft_action_word(ft_action_kind kind); /* "forward" */
char ft_action_letter(ft_action_kind kind);      /* 'F' */
bool ft_action_per_micro(ft_action_kind kind);   /* F and B; the others are per batch */

typedef struct ft_action {
    uint8_t kind; /* ft_action_kind */
    int16_t stage;
    int16_t lag;   /* F and B: batch number minus number of updates of this stage applied before it,
                      so 0 is what a synchronous run has */
    int32_t batch; /* in the leg; of an action of the body: in its first repetition */
    int32_t micro; /* F and B: in its batch; 0 for the others */
} ft_action;

/* Data that passes from one stage's action to another's. from != to. A slot is taken when the
 * action that fills it starts, and is free again when the action that reads it has ended. */
typedef struct ft_edge {
    int from, to;                   /* stages */
    ft_action_kind from_kind, to_kind; /* F->F, B->B, R->R, R->U or U->W */
    int64_t bytes;
    int slots;                      /* buffers at the receiver, >= 1 */
} ft_edge;

/* Predicted times, ns, rounded to whole ones. Arrays are by stage, transfer_ns by edge. backward_ns
 * has recomputation in. NULL stands for zeros. */
typedef struct ft_stage_costs {
    const double *forward_ns, *backward_ns, *reduce_ns, *update_ns, *adopt_ns;
    const double *transfer_ns;
} ft_stage_costs;

/* The state a rule sees: one stage, in a leg that never ends. */
typedef struct ft_stage_state {
    int depth;         /* longest path to the last stage; 0 is the last */
    int micro_batches; /* per batch */
    int64_t forwards, backwards; /* done so far */
} ft_stage_state;

typedef struct ft_schedule {
    const char *name;
    const char *doc;
    bool synchronous; /* no forward of a batch before the update of the batch before it */
    bool forward_only; /* a leg has forwards alone, and ends with the last of them */
    /* FT_ACT_FORWARD or FT_ACT_BACKWARD. It does not know how long the leg is: the forwards of
     * batches after the last are left out of what it says. NULL in a schedule of forwards alone,
     * which has one order. */
    ft_action_kind (*next)(const ft_stage_state *state);
} ft_schedule;

extern const ft_schedule *const ft_schedules[]; /* for training; NULL at the end */
extern const ft_schedule ft_schedule_evaluate;  /* forwards alone */
const ft_schedule *ft_schedule_find(const char *name);

/* What the planner gets. Everything is copied. */
typedef struct ft_pipeline {
    int n_stages, n_devices;
    const int *device;     /* by stage */
    int micro_batches;     /* per batch */
    int n_batches;         /* in the leg */
    bool reduces;          /* every stage has an R action before its U (clipping or ties) */
    int n_edges;
    const ft_edge *edges;  /* F->F and B->B edges, R->R and R->U, and U->W for tied replicas; a
                              stage that is the target of a U->W edge has a W action per batch */
    const ft_stage_costs *costs; /* decide the order of stages that share a device; NULL: F and B
                                    take one unit each, the rest nothing */
} ft_pipeline;

typedef struct ft_action_list {
    int n;
    const ft_action *actions;
} ft_action_list;

typedef struct ft_device_plan {
    ft_action_list warmup, body, drain;
} ft_device_plan;

enum { FT_PLAN_CLASSES = 8 }; /* as FT_MEMORY_CLASSES */

/* The plan. Transparent, read-only; made and freed by the functions below only. */
typedef struct ft_plan {
    char schedule[32]; /* name of the rule it came from; information only */
    int n_stages, n_devices, micro_batches, n_batches;
    int body_batches, body_repeats;
    bool forward_only;
    const int *device;    /* by stage */
    const int *depth;     /* by stage */
    const int *in_flight; /* by stage: micro-batches between forward and backward, at most */
    const bool *recompute; /* by stage */
    int n_edges;
    const ft_edge *edges;
    const ft_device_plan *devices;
    int n_nodes;          /* forward nodes of the graph; 0 when the plan was made without one */
    const int *node_stage;
    const int64_t (*memory)[FT_PLAN_CLASSES]; /* by device, planned bytes of each class; may be 0 */
    struct ft_arena *arena;
} ft_plan;

/* Plays `schedule` over the pipeline. A stage's own order follows from its rule alone: R and U
 * stand right after the last B of their batch; a W stands before the first forward of the replica
 * whose owner (every owner, when there are several) ran that forward with the newer weights, so
 * that every use of a tied weight by one micro-batch reads one version, and nobody waits for it;
 * those left over stand at the end. What a leg of fewer batches does is what a longer one does
 * without the actions of the batches after them, stage by stage. A device with several stages
 * takes, among the actions that are ready, anything but a forward first, then the stage closer to
 * the loss, then the older micro-batch. Long legs are played for some tens of batches and then
 * extended by the period found.
 * FT_INFEASIBLE when no order completes with these slots (more of them may help); FT_INVALID for
 * bad input, or a rule that asks for what cannot be. */
ft_status ft_plan_make(ft_plan **out, const ft_pipeline *pipeline, const ft_schedule *schedule,
                       ft_error *err);
void ft_plan_free(ft_plan *plan);

/* Adds what the planner does not know, for print and file: assignment, recomputation, memory (any
 * may be NULL). */
ft_status ft_plan_annotate(ft_plan *plan, int n_nodes, const int *node_stage, const bool *recompute,
                           const int64_t (*memory)[FT_PLAN_CLASSES], ft_error *err);

/* Proves the plan: every F, B, R, U, W exactly once and in an order that respects the edges, with
 * the real numbers of slots and in-flight buffers, on any timing (strict lists and FIFO edges make
 * one untimed run a proof); lags and in_flight are what the lists say. FT_INFEASIBLE names the
 * devices, actions and edges that wait for each other; FT_INVALID what is missing or wrong. */
ft_status ft_plan_check(const ft_plan *plan, ft_error *err);

/* The device's list, unrolled: number of actions, and the i-th with leg-wide batch numbers. */
int64_t ft_plan_length(const ft_plan *plan, int device);
ft_action ft_plan_at(const ft_plan *plan, int device, int64_t i);
/* The number in the leg of the action's micro-batch, or of its batch when it has none. */
int64_t ft_action_index(const ft_plan *plan, const ft_action *action);

/* Text with a version line that ft_plan_parse reads back; grammar in plan_text.c; small enough to
 * edit. Unknown keys are refused, errors (FT_FORMAT) carry the line number; a parsed plan is not
 * yet checked. */
ft_status ft_plan_write(const ft_plan *plan, ft_text *text, ft_error *err);
ft_status ft_plan_parse(ft_plan **out, const char *text, ft_error *err);

/* -- timelines --------------------------------------------------------------------------------- */

typedef struct ft_event {
    int64_t start_ns, end_ns; /* from the start of the leg */
    int32_t batch, micro;     /* in the leg */
    int16_t device, stage;
    int16_t lag;
    uint8_t kind;
} ft_event;

typedef struct ft_timeline {
    int n_devices, n_stages;
    int64_t n_events, capacity;
    ft_event *events; /* by device, then start; capacity is set when it is made */
} ft_timeline;

/* A timeline without events, with room for `capacity`; freed with ft_timeline_free. */
ft_status ft_timeline_new(ft_timeline **out, int n_devices, int n_stages, int64_t capacity,
                          ft_error *err);
void ft_timeline_free(ft_timeline *timeline);

/* When the last event ends, and how long the device's events take together. */
int64_t ft_timeline_end_ns(const ft_timeline *timeline);
int64_t ft_timeline_busy_ns(const ft_timeline *timeline, int device);

/* Chrome trace JSON, as Perfetto opens it: pid = device, tid = stage, slices "F stage 0 mb 3".
 * FT_INVALID when events of a device overlap or are out of order. */
ft_status ft_timeline_write_trace(const ft_timeline *timeline, ft_text *text, ft_error *err);

/* Executes the plan against costs: discrete events, one action at a time per device, transfers of
 * transfer_ns that do not occupy the devices. Deterministic. */
ft_status ft_plan_simulate(ft_timeline **out, const ft_plan *plan, const ft_stage_costs *costs,
                           ft_error *err);

#endif
