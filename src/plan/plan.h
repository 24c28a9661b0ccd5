/* plan/plan.h - plans: the order each stage works in.
 *
 * Pure: plain arrays in, plain arrays out. A plan says what every device does. It is made from a
 * schedule (schedule/schedule.h), read from a file (planfile/planfile.h), written by hand or cut
 * from another; whatever ft_plan_check passes is one. The engine executes it, ft_plan_simulate
 * (simulate/simulate.h) executes it against costs; both give an ft_timeline.
 *
 * A plan covers one leg of training: n_batches optimizer batches, from drained to drained pipeline.
 * Each device has one list of actions: warm-up, a body repeated body_repeats times, and drain. In
 * the body, `batch` is that of the first repetition (body_batches are added each further time). A
 * plan of forwards alone evaluates: nothing is kept for a backward, so one micro-batch is in flight
 * in each stage, and no action has a lag.
 *
 * Waiting is only on edges: an action waits until the edges into (stage, kind) were filled for its
 * index, and an action that fills an edge waits for a free slot of it. Index: micro-batch number of
 * the leg (batch * micro_batches + micro), or batch number of kinds that are per batch.
 *
 * Versions: a stage's weights are version u after u updates. An action of batch b with lag l reads
 * version b - l; a stage keeps its newest `versions`. So a lag of 0 is what a synchronous run has,
 * weight stashing gives a backward the lag of its forward, vertical sync every stage the lag of the
 * first, 2BW a lag of 1 to everybody, and prediction puts a P before its forward.
 *
 * Gaps: an A stands behind the backward of the last micro-batch of its batch whose forward read a
 * version, the newest one when it is done; it divides the gradients so far by how far the weights
 * have gone since. Gradients of the batch that come later and read another version follow: they are
 * divided by an A of their own, and what is there already is multiplied by as much before.
 *
 * Norms: a U takes those of the stages whose R it waits for, and of the stages whose norms an N
 * has taken over the last that came: of the first batch before the first U, later of earlier ones.
 *
 * Joint forwards: in a stage with a `joint` of k the forwards of k micro-batches that follow each
 * other in a replica, the first of which has a number there that is a multiple of k, are one pass
 * over k times the rows. The first waits for what all of them read and makes everything; each of
 * them uses and fills its own items, and nothing else is computed on the device between them.
 *
 * Replicas: a stage may be on several devices. Micro-batches are dealt to them by a rule; what is
 * per batch is done by each. Edges from a stage to itself join its replicas: with X->R every one
 * sends the others the gradient terms that they sum, with U->W the weights that it has updated. A
 * stage with replicas and without X is one whose sum is somebody else's work: no U of a batch
 * before every replica's R of it. */
#ifndef FT_PLAN_H
#define FT_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/memory_class.h"

/* name, letter in plan files, word in tables, per MICRO-batch or BATCH, stream, what ':' names */
#define FT_ACTION_LIST(X)                                                                          \
    X(FORWARD, 'F', "forward", MICRO, COMPUTE, NOTHING)                                            \
    X(BACKWARD, 'B', "backward", MICRO, COMPUTE, NOTHING)                                          \
    X(REDUCE, 'R', "reduce", BATCH, COMPUTE, NOTHING) /* sum gradients of ties; squared norms */   \
    X(UPDATE, 'U', "update", BATCH, COMPUTE, PLACE)   /* optimizer step of what the stage owns */  \
    X(ADOPT, 'W', "adopt", BATCH, COMPUTE, NOTHING) /* take over tied weights from their owner */  \
    X(BACKWARD_INPUT, 'I', "backward-input", MICRO, COMPUTE, NOTHING) /* I and G stand for a B */  \
    X(BACKWARD_WEIGHT, 'G', "backward-weight", MICRO, COMPUTE, NOTHING)                            \
    X(RECOMPUTE, 'C', "recompute", MICRO, COMPUTE, NOTHING) /* activations that were dropped */    \
    X(PREDICT, 'P', "predict", MICRO, COMPUTE,                                                     \
      NOTHING)                                  /* weights `lag` updates ahead, for an F */        \
    X(SEND, 'S', "send", MICRO, OUT, EDGE)      /* along an edge, instead of when it is made */    \
    X(RECEIVE, 'V', "receive", MICRO, IN, EDGE) /* out of the edge's slot, which is free then */   \
    X(SWAP_OUT, 'O', "swap-out", MICRO, OUT, CLASS) /* to host memory, and off the device */       \
    X(SWAP_IN, 'L', "swap-in", MICRO, IN, CLASS)                                                   \
    X(DROP, 'D', "drop", MICRO, COMPUTE, CLASS) /* forget what the host has or C can make again */ \
    X(DRAIN, 'Z', "drain", BATCH, COMPUTE, NOTHING) /* nothing of the stage is in flight here */   \
    X(TAKE_NORMS, 'N', "take-norms", BATCH, COMPUTE, NOTHING) /* of stages whose R comes later */  \
    X(ATTENUATE, 'A', "attenuate", MICRO, COMPUTE, LAG) /* gradients whose F read older weights */ \
    X(EXCHANGE, 'X', "exchange", BATCH, COMPUTE, NOTHING) /* gradient terms to who sums them */    \
    X(MAKE, 'M', "make", MICRO, COMPUTE, CLASS) /* packed copies, from weights that are there */

typedef enum {
#define FT_ACTION_ENUM(name, ...) FT_ACT_##name,
    FT_ACTION_LIST(FT_ACTION_ENUM)
#undef FT_ACTION_ENUM
        FT_ACT_COUNT
} ft_action_kind;

/* What an action runs on. A list is the order in which a device's actions are begun: those of the
 * compute stream one after the other; a copy begins when the compute action before it has ended,
 * in the order of its stream, and runs beside those behind it until one needs what it moves. */
typedef enum { FT_STREAM_COMPUTE, FT_STREAM_IN, FT_STREAM_OUT, FT_STREAM_COUNT } ft_stream;

/* What stands behind the ':' of an action. */
typedef enum {
    FT_ITEM_NOTHING,
    FT_ITEM_EDGE,
    FT_ITEM_CLASS,
    FT_ITEM_LAG,
    FT_ITEM_PLACE /* ":host", or nothing for the device */
} ft_item_kind;

typedef struct ft_action_row {
    char letter;
    const char *word;
    enum { FT_SCOPE_MICRO, FT_SCOPE_BATCH } scope;
    ft_stream stream;
    ft_item_kind item;
} ft_action_row;

extern const ft_action_row ft_action_rows[FT_ACT_COUNT];

const char *ft_action_word(ft_action_kind kind); /* "forward" */
char ft_action_letter(ft_action_kind kind);      /* 'F' */

/* The others are per batch. */
static inline bool ft_action_per_micro(ft_action_kind kind)
{
    return ft_action_rows[kind].scope == FT_SCOPE_MICRO;
}

/* What it runs on. */
static inline ft_stream ft_action_stream(ft_action_kind kind)
{
    return ft_action_rows[kind].stream;
}

/* What stands behind its ':'. */
static inline ft_item_kind ft_action_item(ft_action_kind kind)
{
    return ft_action_rows[kind].item;
}

typedef struct ft_action {
    uint16_t kind; /* ft_action_kind; of a size that leaves no byte unused */
    union {
        int16_t stage;
        int16_t seat; /* of an action that ft_seated gave, in its place */
    };
    int16_t lag;   /* F, B, I, G, A: batch number minus the version that it reads; P: updates ahead
                    */
    int16_t item;  /* S and V: an edge; O, L and D: a memory class; A: the lag of the forwards of
                      the backwards that follow, 0 behind the last; U: 1 in host memory; 0 for the
                      others */
    int32_t batch; /* in the leg; of an action of the body: in its first repetition */
    int32_t micro; /* in its batch; 0 for those per batch */
    int32_t stay; /* in a blueprint's plan: where what it brings to the device lies, by number; 0 in
                     every other, and in a text */
} ft_action;

/* Classes of memory of its stage that it needs on the device, and those that it changes there; as
 * bits. again: backwards read packed copies of forwards too, as they run these again, or as the
 * stage moves no turned ones. */
unsigned ft_action_needs(const ft_action *action, bool again);
unsigned ft_action_writes(const ft_action *action);
/* Of a U: it works in host memory, where all that it needs is, and nowhere else. */
bool ft_action_at_home(const ft_action *action);
/* Whether it brings a class to its device or off it: an O, L, D or M; off it: an O or D. */
bool ft_action_moves(const ft_action *action);
bool ft_action_leaves(const ft_action *action);

enum { FT_ACTION_TEXT = 80 }; /* bytes for ft_action_text */

/* "F0.3.2" or "O0.3.2:activations": letter, stage, batch, micro-batch, item. Returns text. */
const char *ft_action_text(char text[FT_ACTION_TEXT], const ft_action *action);

/* What a device does at once, where it takes all micro-batches of a batch through one task after
 * the other. By stage: forwards of stages with one number are a task, and so are backwards, with
 * the updates behind them; a micro-batch goes through all stages of a task, then the next one. A
 * stage whose two numbers are one has both in one task: what has come forward through it goes back.
 * NULL: forwards and backwards of each stage by themselves. */
typedef struct ft_tasks {
    const int *forward, *backward;
} ft_tasks;

/* Whether what comes forward through the stage goes back in the same task. */
bool ft_tasks_go_back(const ft_tasks *tasks, int stage);

/* Data that passes from one stage's action to another's. from != to. A slot is taken when the
 * action that fills it starts, and is free again when the action that reads it has ended. A stage
 * passes something to itself only between its replicas: X->R, R->U and U->W. */
typedef struct ft_edge {
    int from, to;                      /* stages */
    ft_action_kind from_kind, to_kind; /* F->F, B or I->B or I, X->R, R->R, R->U, R->N or U->W */
    int64_t bytes;                     /* of one item; between replicas, of the largest */
    int slots;                         /* buffers at each receiver, >= 1 */
    int after; /* n + 1: its item lies where that of edge n of its batch lay before; 0: it has its
                  own buffers (plan/wires.h: turns) */
} ft_edge;

/* Predicted times, ns, rounded to whole ones. Arrays are by stage, transfer_ns by edge. backward_ns
 * has recomputation in. NULL stands for zeros. */
typedef struct ft_stage_costs {
    const double *forward_ns, *backward_ns, *reduce_ns, *update_ns, *adopt_ns;
    const double *transfer_ns;
    const double *backward_input_ns, *backward_weight_ns, *recompute_ns, *predict_ns;
    const double *attenuate_ns;
    const double *all_reduce_ns; /* over the replicas of a stage without X, per batch */
    const double *exchange_ns, *make_ns;
} ft_stage_costs;

typedef struct ft_action_list {
    int n;
    const ft_action *actions;
    const int *lines; /* of the text that the plan was read from, by action; NULL: of none */
} ft_action_list;

typedef struct ft_device_plan {
    ft_action_list warmup, body, drain;
} ft_device_plan;

/* The same lists by number. */
typedef enum { FT_PART_WARMUP, FT_PART_BODY, FT_PART_DRAIN, FT_PARTS } ft_part;

/* Which replica of n gets micro-batch m of M (a multiple of n): m % n, or m / (M / n). */
typedef enum { FT_REPLICAS_ROUND_ROBIN, FT_REPLICAS_BLOCK, FT_REPLICAS_COUNT } ft_replica_rule;
const char *ft_replica_rule_name(int rule);

/* The plan. Transparent, read-only; made and freed by the functions below only. */
typedef struct ft_plan {
    char schedule[32]; /* name of the rule it came from; information only */
    int n_stages, n_devices, micro_batches, n_batches;
    int body_batches, body_repeats;
    bool forward_only;
    const int *device;        /* by stage: of its first replica */
    const int *replica_first; /* by stage, and one more: its devices, in the order of its replicas,
                                 are replica_device[replica_first[s]] ... */
    const int *replica_device;
    const uint8_t *replica_rule;
    const int64_t *reduce_bytes; /* by stage: what its replicas sum per batch */
    const int *depth;            /* by stage */
    const int *in_flight;  /* by stage: micro-batches whose activations a device holds, at most */
    const int *versions;   /* by stage: weight versions kept, at least 1 */
    const bool *by_policy; /* by device: the list gives each stage's order alone; the device takes
                              the ready action that is not a forward, then nearest to the loss, then
                              oldest */
    const bool *recompute; /* by stage */
    const int *joint;      /* by stage: micro-batches that go forward as one; 1: each by itself */
    int n_edges;
    const ft_edge *edges;
    const ft_device_plan *devices;
    const int *stage_line, *edge_line; /* as `lines` */
    int n_nodes; /* forward nodes of the graph; 0 when the plan was made without one */
    const int *node_stage;
    const int64_t (
        *memory)[FT_MEMORY_CLASSES]; /* by device, planned bytes of each class; may be 0 */
    struct ft_arena *arena;
} ft_plan;

/* NULL is accepted. */
void ft_plan_free(ft_plan *plan);

/* Adds what the planner does not know, for print and file: assignment, recomputation, memory (any
 * may be NULL). */
ft_status ft_plan_annotate(ft_plan *plan, int n_nodes, const int *node_stage, const bool *recompute,
                           const int64_t (*memory)[FT_MEMORY_CLASSES], ft_error *err);

/* The device's list, unrolled: number of actions, and the i-th with leg-wide batch numbers. */
int64_t ft_plan_length(const ft_plan *plan, int device);
ft_action ft_plan_at(const ft_plan *plan, int device, int64_t i);
/* The number in the leg of the action's micro-batch, or of its batch when it has none. */
int64_t ft_action_index(const ft_plan *plan, const ft_action *action);

/* One of the device's lists as it is. Borrowed. */
const ft_action_list *ft_plan_list(const ft_plan *plan, int device, ft_part part);

/* Whether the stage has an action of the kind. */
bool ft_plan_has(const ft_plan *plan, int stage, ft_action_kind kind);
/* The kind after which nothing of a micro-batch is left in the stage: G, B, or F of a plan of
 * forwards alone. */
ft_action_kind ft_plan_last(const ft_plan *plan, int stage);

/* Lags of a stage's forwards: the least and the most of those after `from_batch`. */
void ft_plan_staleness(const ft_plan *plan, int stage, int from_batch, int *least, int *most);
/* By micro-batch of a batch in the body, or, without one, of the last batch: the lag of its forward
 * in a stage. */
void ft_plan_lags(const ft_plan *plan, int stage, int *by_micro);
/* Their mean: over the body where there is one, else over the second half of the leg. */
double ft_plan_mean_staleness(const ft_plan *plan, int stage);
/* How many batches before its own the norms are that a stage's U has taken over, at most; 0: it
 * waits for all of them. */
int ft_plan_norm_lag(const ft_plan *plan, int stage);
/* Whether every action reads the newest weights, as they are. */
bool ft_plan_reads_newest(const ft_plan *plan);

#endif
