/* engine/internal.h - what the files of the engine share. */
#ifndef FT_ENGINE_INTERNAL_H
#define FT_ENGINE_INTERNAL_H

#include <pthread.h>

#include "base/arena.h"
#include "base/gate.h"
#include "engine/engine.h"

/* What an edge of the plan carries. */
typedef enum {
    CARGO_VALUES,  /* activations or their gradients, per micro-batch */
    CARGO_TERMS,   /* gradient terms of parameters that the receiver owns */
    CARGO_WEIGHTS, /* updated parameters for a replica */
    CARGO_NOTHING  /* order alone: norms, or weights on the same device */
} cargo_kind;

typedef struct cargo {
    cargo_kind kind;
    int n;
    int *items;         /* value, term or parameter numbers */
    int64_t *at;        /* by bucket, then item: offset in a slot */
    int64_t slot_bytes; /* largest over the buckets */
    int64_t base;       /* offset of slot 0 in the receiving device's block */
} cargo;

/* A parameter as one stage sees it. */
typedef struct stage_param {
    int param;
    bool owned;   /* this stage updates it */
    bool replica; /* this stage has its own copy, owned elsewhere on another device */
    int64_t at;   /* in the stage's device block */
} stage_param;

typedef struct stage_info {
    int device;
    const ft_stage **cut;             /* by bucket */
    ft_program **forward, **backward; /* by bucket */
    int n_params;
    stage_param *params;
    int64_t *term_at; /* by position in cut[0]->grads: offset in the block */
    int n_packs;
    ft_pack *packs;
    int64_t *pack_at;   /* evaluation: the number of the same copy in the stage of training */
    ft_place **places;  /* by bucket, by value: where values live in this stage */
    int64_t slot_bytes; /* saved values of one micro-batch, largest over the buckets */
    int64_t slots_at;
    int *in_edges[FT_ACT_COUNT], n_in_edges[FT_ACT_COUNT]; /* by kind of this stage's action */
    int *out_edges[FT_ACT_COUNT], n_out_edges[FT_ACT_COUNT];
} stage_info;

/* A value that an evaluation hands out. */
typedef struct output_info {
    const char *name;
    ft_value_id value;
    int stage;          /* that makes it */
    int64_t at;         /* of batch slot 0, in the block of that stage's device */
    int64_t slot_bytes; /* of all micro-batches of a batch, largest over the buckets */
} output_info;

typedef struct param_info {
    const char *name;
    int trained; /* its number in training; evaluation alone */
    ft_spec spec;
    int owner;        /* stage */
    int64_t at;       /* in the owner's device block */
    int64_t state_at; /* optimizer state, there too */
    int n_terms;
    int *terms;           /* graph order */
    const double *hypers; /* of its updates */
} param_info;

/* Offsets of the classes in a device's block. */
typedef struct block_info {
    int64_t begin[FT_MEMORY_CLASSES], bytes[FT_MEMORY_CLASSES];
    int64_t total;
} block_info;

struct ft_blueprint {
    ft_arena *arena;
    ft_engine_options options; /* deep copies of its arrays */
    const ft_split **splits;   /* by bucket */
    int n_params, n_inputs, n_terms;
    param_info *params;
    int *term_stage; /* by term */
    stage_info *stages;
    int n_edges;
    ft_edge *edges;
    cargo *cargoes; /* by edge */
    ft_stage_costs costs;
    block_info *blocks;   /* by device */
    int batch_slots;      /* batches that are in memory at once */
    int64_t *input_at;    /* by input: offset in a batch slot; micro-batches contiguous */
    int64_t *input_bytes; /* by bucket, then input: of one micro-batch */
    int64_t batch_slot_bytes, batch_at; /* in the block of stage 0's device */
    ft_value_id loss;
    ft_action_kind backward; /* that gives gradients of inputs: whole, or the half that does */
    ft_plan *plan;
    ft_blueprint *evaluation;   /* of training: may be NULL */
    const ft_blueprint *trains; /* of evaluation: what it belongs to; NULL in training */
    int *trained_stage;         /* of evaluation: by stage, the stage of training */
    int n_outputs;
    output_info *outputs;
};

/* blueprint_edges.c: ties, edges and their cargo, from splits. */
ft_status blueprint_find_owners(ft_blueprint *b, ft_error *err);
ft_status blueprint_find_edges(ft_blueprint *b, ft_error *err);
/* blueprint_memory.c: programs, places, packs, blocks; needs b->plan for in-flight counts. */
ft_status blueprint_compile(ft_blueprint *b, ft_error *err);
ft_status blueprint_lay_out(ft_blueprint *b, ft_error *err);
/* blueprint.c: a blueprint of training (trains NULL), or of evaluation beside one; trained_stage is
 * borrowed. */
ft_status blueprint_build(ft_blueprint **out, const ft_engine_options *options,
                          const ft_blueprint *trains, int *trained_stage, ft_error *err);
/* blueprint_evaluation.c: evaluation beside training whose stages are cut; then, of a blueprint of
 * evaluation, its parameters and packed copies in training, and its outputs. */
ft_status blueprint_add_evaluation(ft_blueprint *b, ft_error *err);
ft_status blueprint_find_trained(ft_blueprint *b, ft_error *err);
void blueprint_share_packs(ft_blueprint *b, int stage);
ft_status blueprint_find_outputs(ft_blueprint *b, ft_error *err);
/* Of one micro-batch. */
int64_t blueprint_output_bytes(const ft_blueprint *b, const output_info *out, int bucket);
/* blueprint_costs.c */
ft_status blueprint_estimate(ft_blueprint *b, ft_error *err);

/* -- runs ---------------------------------------------------------------------------------------
 */

typedef struct edge_state {
    ft_gate filled, freed;
} edge_state;

typedef struct batch_state {
    int bucket;
    double rate;
    _Atomic int stages_left;  /* stages that have not updated yet */
    double loss;              /* written by the stage of the loss alone */
    _Atomic int64_t finished; /* batch number + 1 once its result is written */
    ft_error failure;         /* numbers that are not finite, under error_lock; see finite.c */
    int64_t failure_order;
} batch_state;

typedef struct stage_state {
    void **params;       /* by parameter: address, NULL for those not here */
    void **grads;        /* by term */
    const void **packed; /* by pack of the stage */
    void **inputs;       /* by input; set for each action */
    int64_t updates;     /* of this leg */
    bool spoiled;        /* saw a number that is not finite: updates no more */
} stage_state;

typedef struct worker {
    ft_run *run;
    int device;
    pthread_t thread;
    bool started;
    ft_team *team;
    char *block;
    int64_t block_bytes;
    int64_t length, position; /* of the device's list */
    _Atomic int64_t passed;   /* position, for other threads */
    _Atomic int64_t busy_ns;  /* in the events of this leg, for other threads */
    ft_event *events;
    int64_t n_events;
    /* By class: highest end that a live tensor reached in it; of the run of training; read while
     * the worker goes on. */
    _Atomic int64_t *high;
    int64_t allocations;
} worker;

struct ft_run {
    const ft_blueprint *blueprint;
    ft_run *evaluation; /* of training: may be NULL */
    ft_run *trains;     /* of evaluation: whose memory it works in; NULL in training */
    int n_devices;
    worker *workers;
    stage_state *stages;
    edge_state *edges;
    batch_state *batches; /* ring of blueprint->batch_slots */
    double *norms;        /* by ring slot, then parameter: squared */
    ft_result *results;   /* ring of batch_slots */
    /* one leg */
    const ft_plan *plan;
    bool active, threaded;
    int64_t first_step, start_ns;
    int64_t fed, taken;
    _Atomic int64_t n_batches; /* that happen: the plan's, or fewer once drained */
    ft_gate fed_gate, done_gate;
    atomic_bool stop;
    pthread_mutex_t error_lock;
    ft_error error; /* the first failure, under error_lock */
    ft_timeline *timeline;
    ft_arena *arena;
};

/* True when the action's batch is past the end of a leg that was drained. */
static inline bool action_is_left_out(const ft_run *run, const ft_action *action)
{
    return action->batch >= atomic_load(&run->n_batches);
}

/* wait.c: waits for what the action needs: its batch, its edges in, a free slot of its edges out;
 * or until it is left out. FT_CANCELLED when the run is stopped meanwhile. */
ft_status wait_for_action(const worker *w, const ft_action *action, ft_error *err);
/* True when the action would not wait. */
bool action_is_ready(const worker *w, const ft_action *action);
/* One line on what is missing, into text (empty when nothing is). */
void describe_wait(const worker *w, const ft_action *action, char *text, int size);
/* After the action: its edges in are free, its edges out are filled. */
void free_edges(ft_run *run, const ft_action *action);
void fill_edges(ft_run *run, const ft_action *action);

/* actions.c: executes one action; everything it needs is there. */
ft_status execute_action(worker *w, const ft_action *action, ft_error *err);
/* FT_UNSUPPORTED names what of the plan the engine cannot do. */
ft_status check_executable(const ft_plan *plan, ft_error *err);
/* Packs the weights of a stage again; param >= 0: only copies of that one. */
ft_status pack_weights(ft_run *run, int stage, int param, ft_team *team, ft_error *err);
/* Raises a class's mark to `end` (an offset in the device's block). */
void mark_memory(worker *w, ft_memory_class c, int64_t end);
/* leg.c: raises the marks of buffers to every slot that was filled in the leg. For the thread that
 * runs the leg. */
void mark_buffers(const ft_run *run);

/* finite.c: finds the node that gave the first number that is not finite, and notes it for the
 * batch. The action was executed, and what it received is in place again. */
ft_status explain_failure(worker *w, const ft_action *action, int bucket, const ft_program *program,
                          const ft_bases *bases, ft_error *err);
/* Notes a parameter whose gradient terms are finite, but not their sum. */
void note_bad_sum(worker *w, const ft_action *action, int param);
/* Whether the stage may update: it, or with a synchronous schedule every stage, has seen nothing
 * but finite numbers. */
bool may_update(worker *w, const ft_action *action);

/* worker.c: one thread per device, or none. */
ft_status workers_start(ft_run *run, ft_error *err);
void workers_join(ft_run *run);
/* Without threads: executes actions that are ready until batch `wanted` is done or nothing can
 * move; returns whether it moved. */
ft_status workers_replay(ft_run *run, int64_t wanted, ft_error *err);
/* Stores the first failure, stops everybody. */
void run_fail(ft_run *run, const ft_error *error);

#endif
