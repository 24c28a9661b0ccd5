/* engine/engine.h - a plan executed on devices.
 *
 * A blueprint holds all that is decided before a run: stages, edges between them, the plan, and the
 * place of every byte on every device. It needs no weights and allocates no device memory, so it
 * also serves for planning on hardware that is not there. A run is a blueprint with memory and
 * weights; it executes legs of the plan and decides nothing.
 *
 * Lifetime:
 *  1. A blueprint borrows the graphs of its options; they must outlive it. All else is copied.
 *  2. A run borrows its blueprint, except that after ft_run_end it may be freed without it.
 *  3. Between ft_run_begin and ft_run_end the devices' workers own the parameters; at other times
 *     they may be read and written by the caller.
 * One thread at a time may call the functions of one run. */
#ifndef FT_ENGINE_H
#define FT_ENGINE_H

#include "engine/program.h"
#include "memory/memory.h"
#include "optim/optim.h"
#include "schedule/timeline.h"

/* What work takes on one device, ns, as a profile has it. */
typedef struct ft_work_costs {
    const double *node_ns;      /* by node */
    const double *recompute_ns; /* by forward node, run again before backward; NULL: as node_ns */
    const double *pack_ns;      /* by forward node: packed copies of its weight, per update */
    const double *update_ns;    /* by parameter: its optimizer step */
    const double *norm_ns;      /* by parameter: the squared norm of its gradient */
    double copy_bytes_per_s;    /* into and out of the buffers of edges */
    double handoff_ns;          /* from the end of an action to the start of one waiting for it */
} ft_work_costs;

/* Evaluation between legs of training, through the same stages and with their weights. It works in
 * the memory that training's activations, workspace and buffers have, which is made as large as the
 * larger of both needs. */
typedef struct ft_evaluation_options {
    ft_graph *const *graphs; /* one per length bucket, without gradients: parameters are those of
                                the same names and shapes; output "loss" is a scalar, the others
                                are handed out */
    int n_graphs;
    const int *node_stage; /* by node: a stage of training that uses the node's parameters */
    int n_batches;         /* in the longest leg */
} ft_evaluation_options;

typedef struct ft_engine_options {
    ft_graph *const *graphs; /* one per length bucket, ascending: the same nodes with other shapes,
                                gradients included unless the schedule is one of forwards alone;
                                output "loss" is a scalar */
    int n_graphs;
    int n_stages;
    const int *node_stage;   /* by forward node */
    const bool *recompute;   /* by stage */
    const int *stage_device; /* by stage */
    const ft_device *devices;
    int n_devices;
    int micro_batches;        /* per batch */
    int64_t micro_batch_size; /* samples */
    const ft_schedule *schedule; /* must outlive the blueprint */
    ft_weights weights;          /* FT_WEIGHTS_OWN: those of the schedule */
    int n_batches; /* in the longest leg */
    const ft_optimizer *optimizer;
    const double *hypers;
    const bool *no_decay; /* by parameter: its weight_decay counts as 0; NULL: of none */
    double clip; /* largest global gradient norm; 0: no clipping */
    uint64_t seed;
    /* By device, NULL where it is modelled; NULL: all are. Not used after ft_blueprint_new. */
    const ft_work_costs *const *costs;
    const ft_machine *machine; /* links of devices that are described; NULL: transfers take what the
                                  receiver's row says, and none waits for another */
    const ft_evaluation_options *evaluation; /* NULL: training alone */
} ft_engine_options;

typedef struct ft_blueprint ft_blueprint;

/* FT_INVALID for options that contradict each other (clipping in an asynchronous schedule needs
 * every stage's gradients at once), FT_INFEASIBLE when the plan cannot complete. */
ft_status ft_blueprint_new(ft_blueprint **out, const ft_engine_options *options, ft_error *err);
void ft_blueprint_free(ft_blueprint *blueprint);

/* What evaluation legs are made from; NULL when the options have none. Borrowed. */
const ft_blueprint *ft_blueprint_evaluation(const ft_blueprint *blueprint);
/* The plan of the longest leg, annotated with assignment and memory. */
const ft_plan *ft_blueprint_plan(const ft_blueprint *blueprint);
/* FT_UNSUPPORTED, with what the engine lacks, for a plan that can be simulated but not run. */
ft_status ft_blueprint_check_executable(const ft_blueprint *blueprint, ft_error *err);
/* Times that the plan was made with. */
const ft_stage_costs *ft_blueprint_costs(const ft_blueprint *blueprint);
/* Bytes that a micro-batch in flight holds in a stage: what its forward leaves for its backward. */
int64_t ft_blueprint_slot_bytes(const ft_blueprint *blueprint, int stage);
/* What transfers pass over in a simulation; NULL when the options have no machine. */
const ft_machine *ft_blueprint_machine(const ft_blueprint *blueprint);
/* A plan for a leg of another length (not longer); the caller's to ft_plan_free. */
ft_status ft_blueprint_leg(ft_plan **out, const ft_blueprint *blueprint, int n_batches,
                           ft_error *err);
/* FT_INFEASIBLE when a device's planned memory is over its budget: the message has the breakdown by
 * class and what would help. */
ft_status ft_blueprint_check_memory(const ft_blueprint *blueprint, ft_error *err);
int64_t ft_blueprint_device_bytes(const ft_blueprint *blueprint, int device);

/* Modelled time of a node on a device, ns: the larger of arithmetic and memory traffic at the
 * device's rates (roofline), plus the cost of a call. */
double ft_node_time_ns(const ft_graph *graph, int node, const ft_device *device);

/* -- runs ------------------------------------------------------------------------------------- */

typedef struct ft_run ft_run;

/* Allocates and touches every device's block; parameters are zero. FT_NOMEM says how much. */
ft_status ft_run_new(ft_run **out, const ft_blueprint *blueprint, ft_error *err);
void ft_run_free(ft_run *run);

/* The run of evaluation legs, in the same memory and with the same weights; NULL without one. Of
 * the two, one leg is under way at a time. Borrowed. */
ft_run *ft_run_evaluation(ft_run *run);

/* Parameters of the graph. */
int ft_run_n_params(const ft_run *run);
/* Devices of the plan. */
int ft_run_n_devices(const ft_run *run);

/* The parameter's memory at its owner (f32, contiguous, borrowed). */
ft_view ft_run_param(const ft_run *run, int param);
/* One tensor of its optimizer state; false when there is no such part. */
bool ft_run_state(const ft_run *run, int param, int part, const char **name, ft_view *out);
/* To be called after parameters were written: copies them to replicas and packs them. */
ft_status ft_run_refresh(ft_run *run, ft_error *err);

/* One batch to train on. */
typedef struct ft_feed {
    int bucket;            /* which graph */
    int n_inputs;          /* as many as the graph has */
    const ft_view *inputs; /* by graph input: micro_batches times the input's elements */
    double rate;           /* learning rate of its update */
} ft_feed;

/* What became of a batch. */
typedef struct ft_result {
    int64_t step;     /* counts from 1 over the run */
    double loss;      /* sum over micro-batches, in their order */
    double grad_norm; /* before clipping; NAN when not clipping */
    double rate;
    int64_t end_ns; /* since the start of the leg */
} ft_result;

/* Starts a leg. `plan` covers it and is borrowed until the end; first_step counts from 1. threaded:
 * one worker per device; else everything runs in ft_run_next, on the calling thread, in an order
 * that the plan allows. */
ft_status ft_run_begin(ft_run *run, const ft_plan *plan, int64_t first_step, bool threaded,
                       ft_error *err);
/* Ends the leg with the batches that were fed so far: of every device's list, what belongs to later
 * batches is left out. What is under way is finished as usual; nothing else can be fed. The run is
 * then where a leg planned for so many batches would have brought it. */
void ft_run_drain(ft_run *run);
/* True while another batch of the leg can be fed without waiting. */
bool ft_run_wants(const ft_run *run);
/* Copies a batch in. FT_INVALID for wrong shapes or when ft_run_wants is false. */
ft_status ft_run_feed(ft_run *run, const ft_feed *feed, ft_error *err);
/* The next finished batch, in order. FT_CANCELLED after timeout_ns without one (nothing is lost,
 * call again); the first failure of a worker otherwise. */
ft_status ft_run_next(ft_run *run, ft_result *out, int64_t timeout_ns, ft_error *err);
/* Outputs of forwards alone: the graph's, without the loss; none in training. */
int ft_run_n_outputs(const ft_run *run);
/* Output i of the batch that ft_run_next gave last: its micro-batches one after the other along the
 * first axis. Borrowed, until the next ft_run_feed. */
ft_status ft_run_output(const ft_run *run, int i, const char **name, ft_view *out, ft_error *err);
/* Actions that all devices have behind them in this leg: grows while anything moves. */
int64_t ft_run_progress(const ft_run *run);
/* What the device's actions in this leg took together; the rest of the time it waited. */
int64_t ft_run_busy_ns(const ft_run *run, int device);
/* What each device is doing or waits for, one line each. */
ft_status ft_run_describe(const ft_run *run, ft_text *text, ft_error *err);
/* Ends the leg: waits for the workers (telling them to stop when the leg is not complete). */
ft_status ft_run_end(ft_run *run, ft_error *err);
/* What happened in the last leg; borrowed until the next ft_run_begin. */
const ft_timeline *ft_run_timeline(const ft_run *run);
/* Bytes of device memory that live tensors really reached, by class; also while a leg runs. */
void ft_run_measured(const ft_run *run, int device, int64_t bytes[FT_MEMORY_CLASSES]);
/* Blocks that workers allocated through base/alloc.h while actions ran in the last leg. */
int64_t ft_run_allocations(const ft_run *run);

#endif
