/* schedule/schedule.h - from a schedule to a plan.
 *
 * A schedule is a rule per stage; ft_plan_make plays the rule against dependencies, buffers and
 * costs and writes down what every device does. It is one way to get a plan; who executes plans
 * cannot include it. */
#ifndef FT_SCHEDULE_H
#define FT_SCHEDULE_H

#include "plan/plan.h"

/* The state a rule sees: one stage, or one of its replicas, in a leg that never
 * ends. */
typedef struct ft_rule_state {
    int depth;         /* workers behind it over its own, or: longest path to the last stage, if no
                          stage has replicas; 0 is the last */
    int height;        /* longest path from a first stage */
    int micro_batches; /* per batch, of this replica */
    int64_t forwards, backwards; /* done so far; backwards: B or I */
    int64_t weights;             /* G done so far; as backwards where there is no G */
    void *payload;               /* of the schedule */
} ft_rule_state;

/* What reading them needs: nothing more, older versions, or a P before each forward. */
typedef enum { FT_READS_NEWEST, FT_READS_KEPT, FT_READS_MOVED } ft_weights_reads;

/* Which weights a schedule without flush works with: name, word, what that needs, whether gradients
 * are attenuated by how far weights have gone since their forwards (A). */
#define FT_WEIGHTS_LIST(X)                                                                         \
    X(LATEST, "none", NEWEST, false, "the newest, forward and backward")                           \
    X(STASH, "stash", KEPT, false, "backward reads what its forward read")                         \
    X(VERTICAL, "vertical", KEPT, false, "every stage reads the version that the first one read")  \
    X(DOUBLE, "2bw", KEPT, false,                                                                  \
      "two versions: every batch reads that of the batch before the last")                         \
    X(PREDICT, "predict", MOVED, false,                                                            \
      "forward reads the newest, moved ahead by what is missing")                                  \
    X(GAP, "gap-aware", NEWEST, true,                                                              \
      "as none; gradients count less the further weights have gone since")                         \
    X(STASH_GAP, "stash+gap-aware", KEPT, true,                                                    \
      "as stash; gradients count less the further weights have gone since")                        \
    X(VERTICAL_GAP, "vertical+gap-aware", KEPT, true,                                              \
      "as vertical; gradients count less the further weights have gone since")

typedef enum {
    FT_WEIGHTS_OWN, /* of a pipeline: those of the schedule */
#define FT_WEIGHTS_ENUM(name, ...) FT_WEIGHTS_##name,
    FT_WEIGHTS_LIST(FT_WEIGHTS_ENUM)
#undef FT_WEIGHTS_ENUM
        FT_WEIGHTS_COUNT
} ft_weights;

typedef struct ft_weights_row {
    const char *word; /* "stash"; of FT_WEIGHTS_OWN "own" */
    ft_weights_reads reads;
    bool attenuates;
    const char *doc;
} ft_weights_row;

extern const ft_weights_row ft_weights_rows[FT_WEIGHTS_COUNT];
/* Whether some version but the newest is kept. */
bool ft_weights_keep(ft_weights weights);
/* "stash", "own". */
const char *ft_weights_word(ft_weights weights);

typedef struct ft_schedule {
    const char *name;
    const char *doc;
    bool synchronous;  /* no forward of a batch before the update of the batch before it */
    bool forward_only; /* a leg has forwards alone, and ends with the last of them */
    bool splits;       /* backward-input and backward-weight instead of backward */
    bool interleaves;  /* not by stage: stages s, s + P, s + 2P ... of device s take turns */
    bool groups;     /* not by stage: a device takes all micro-batches of a batch through one of its
                        stages, or tasks of these, then through the next */
    bool folds;      /* not by stage: of 2P stages device d has d and 2P - 1 - d, and takes what is
                        ready of both */
    bool replicates; /* not by stage: every stage is on every device, which takes one micro-batch
                        through all of them, then the next; or, where it groups, all of its
                        micro-batches through one of them, then the next */
    bool flat;       /* every stage holds all micro-batches of a batch */
    bool serial;     /* one micro-batch is under way, in one stage: a judge, never the fastest */
    ft_weights weights; /* FT_WEIGHTS_OWN is FT_WEIGHTS_LATEST */
    /* FT_ACT_FORWARD, FT_ACT_BACKWARD or, where it splits, one of its halves. It does not know how
     * long the leg is: what belongs to batches after the last is left out of what it says. NULL in
     * a schedule of forwards alone, which has one order. */
    ft_action_kind (*next)(const ft_rule_state *state);
    void *payload; /* for next */
} ft_schedule;

extern const ft_schedule *const ft_schedules[]; /* for training; NULL at the end */
extern const ft_schedule ft_schedule_evaluate;  /* forwards alone */
const ft_schedule *ft_schedule_find(const char *name);

/* What the planner gets. Everything is copied. */
typedef struct ft_pipeline {
    int n_stages, n_devices;
    const int *device;                         /* by stage */
    const int *replica_first, *replica_device; /* as in ft_plan; NULL: one device each */
    const uint8_t *replica_rule;               /* by stage, ft_replica_rule; may be NULL */
    const int64_t *reduce_bytes;               /* by stage; may be NULL */
    ft_weights weights;
    bool is_bounded; /* no forward reads weights that are more than most_late updates late: where
                        the rule asks for one that would, the stage does a backward first */
    int most_late;
    const int *most_waiting; /* by stage, where backwards come in halves: gradients of weights that
                                wait when the next action begins, at most: where there are more the
                                stage does one first; NULL: as many as the rule says */
    ft_tasks tasks;    /* for a schedule that groups, stages in the order of their numbers; those of
                          a task follow each other on the same devices, with a slot between them */
    const int *joint;  /* by stage, as in ft_plan, where it groups; NULL: 1 everywhere. Edges to
                          such stages get a slot for each of the micro-batches */
    int micro_batches; /* per batch */
    int n_batches;     /* in the leg */
    bool reduces;      /* every stage has an R action before its U (clipping or ties) */
    int n_edges;
    const ft_edge *edges; /* F->F and B->B edges, R->R and R->U, and U->W for tied replicas; a
                             stage that is the target of a U->W edge has a W action per batch */
    int most_slots; /* where no order completes all edges get twice the slots, up to so many, and
                       those that can never be full are taken away; 0: they have what they say */
    const ft_stage_costs *costs; /* decide the order of stages that share a device; NULL: F and B
                                    take one unit each, the rest nothing */
} ft_pipeline;

/* Plays `schedule` over the pipeline. A stage's own order follows from its rule alone: R and U
 * stand right after the last B of their batch; a W stands before the first forward of the replica
 * whose owner (every owner, when there are several) ran that forward with the newer weights, but
 * not before the replica's own R and U of the batch, for which the owner waits; those left over
 * stand at the end. So, where no owner is nearer to the loss than its replicas, every use of a tied
 * weight by one micro-batch reads one version. What a leg of fewer batches does is what a longer
 * one does without the actions of the batches after them, stage by stage. A device with several
 * stages takes, among the actions that are ready, anything but a forward first, then the stage
 * closer to the loss, then the older micro-batch. Long legs are played for some tens of batches and
 * then extended by the period found.
 * FT_INFEASIBLE when no order completes with these slots (more of them may help), or the schedule
 * keeps fewer versions of weights than these stages read; FT_INVALID for bad input, or a rule that
 * asks for what cannot be. */
ft_status ft_plan_make(ft_plan **out, const ft_pipeline *pipeline, const ft_schedule *schedule,
                       ft_error *err);

#endif
