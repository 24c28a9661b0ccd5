/* engine/engine.h - a plan executed on devices.
 *
 * A run is a blueprint with memory and weights; it executes legs of the plan and decides nothing.
 *
 * Lifetime:
 *  1. A run borrows its blueprint, except that after ft_run_end it may be freed without it.
 *  2. Between ft_run_begin and ft_run_end the devices' workers own the parameters; at other times
 *     they may be read and written by the caller.
 * One thread at a time may call the functions of one run. */
#ifndef FT_ENGINE_H
#define FT_ENGINE_H

#include "state/state.h"

/* FT_UNSUPPORTED, with what the engine lacks, for a plan that can be simulated but not run: of a
 * blueprint, and of a plan by itself. */
ft_status ft_run_check(const ft_blueprint *blueprint, ft_error *err);
ft_status ft_run_check_plan(const ft_plan *plan, ft_error *err);

/* Allocates and touches every device's block; parameters are zero. FT_NOMEM says how much,
 * FT_INFEASIBLE what is over a device's budget, or over the memory of this machine. */
ft_status ft_run_new(ft_run **out, const ft_blueprint *blueprint, ft_error *err);
/* The same, of the devices that are this process's by rank; every process of `world` has a run of
 * the same blueprint. At rank 0 the functions below are of the whole run; the others do what rank 0
 * tells them, in ft_run_serve. `world` NULL: one process has all devices. `transport` is the same
 * in all of them; FT_UNSUPPORTED at rank 0 where it is FT_CHANNELS_OR_FAIL, and some edge has no
 * channel. `swap_dir`: weights and optimizer state that move have their homes in files of that
 * directory, which one process has at a time; NULL: in host memory. FT_NOT_FOUND or FT_IO,
 * beginning with the directory, where it is not there, cannot be written, is full or taken; what
 * fails later ends a leg likewise. */
ft_status ft_run_join(ft_run **out, const ft_blueprint *blueprint, ft_world *world,
                      ft_transport transport, const char *swap_dir, ft_error *err);
/* FT_UNSUPPORTED where devices of that rank have channels and cannot open any here, in the words of
 * a run with FT_CHANNELS_OR_FAIL. */
ft_status ft_run_check_channels(const ft_device *devices, int n, int rank, ft_error *err);
/* What ft_run_join would find no room for in a `swap_dir`, in its words; takes nothing. */
ft_status ft_run_check_swap_room(const ft_blueprint *blueprint, const char *dir, ft_error *err);
/* Bytes per second that the slowest of these files was written with at the beginning; 0: none. */
double ft_run_swap_rate(const ft_run *run);
/* Ends a leg that is under way, gives cards the run's memory back, and lets the other processes
 * free theirs, which may then have another run. ft_run_param and ft_run_state have handed out none
 * of that memory; what they have, stays until ft_run_free, the only call that may follow. */
void ft_run_close(ft_run *run);
void ft_run_free(ft_run *run);

/* Until rank 0 frees its run. FT_HANG when another process is lost, which then nobody may free. */
ft_status ft_run_serve(ft_run *run, ft_error *err);

/* The run of evaluation legs, in the same memory and with the same weights; NULL without one. Of
 * the two, one leg is under way at a time. Borrowed. */
ft_run *ft_run_evaluation(ft_run *run);

/* Parameters of the graph. */
int ft_run_n_params(const ft_run *run);
/* Devices of the plan. */
int ft_run_n_devices(const ft_run *run);

/* Where devices have memory of their own: brings a parameter, perhaps with its state, as the last
 * leg left them, to host memory, where the two below find them and ft_run_refresh what was written.
 * To be called before those. FT_INVALID during a leg. */
ft_status ft_run_fetch(ft_run *run, int param, bool with_state, ft_error *err);
/* The parameter's memory at its owner (f32, contiguous, borrowed). */
ft_view ft_run_param(const ft_run *run, int param);
/* One tensor of its optimizer state; false when there is no such part. */
bool ft_run_state(const ft_run *run, int param, int part, const char **name, ft_view *out);
/* The name of such a part, without bringing it; NULL past the last. */
const char *ft_run_state_name(const ft_run *run, int param, int part);

/* A tensor for a file: the view; or a parameter of the run, or a part of its optimizer's state. */
typedef struct ft_saved {
    const char *name;
    ft_view view;
    int param; /* -1: the view */
    int part;  /* -1: the parameter itself */
} ft_saved;
/* Writes a safetensors file, as ft_safetensors_write does. What other processes own they write
 * there themselves where they see the file, which then is there before it is whole: `path` is in a
 * directory that has another name until this returned. FT_INVALID during a leg; a failure of
 * another process names it. */
ft_status ft_run_write(ft_run *run, const char *path, const ft_saved *list, int n, ft_error *err);

/* Reads parameters, and parts of state, out of a file of weights, as ft_archive_open takes it; a
 * refresh is to follow. Other processes read what they have themselves where they see the file.
 * Where one has another file at that path it reads nothing, or with `refuses` fails with
 * FT_INVALID, named. FT_FORMAT for a name that the file lacks; FT_INVALID during a leg. */
ft_status ft_run_read(ft_run *run, const char *path, const ft_saved *list, int n, bool refuses,
                      ft_error *err);

/* Fills a parameter with numbers that are drawn; a refresh is to follow. The processes that have it
 * draw it themselves. FT_INVALID during a leg. */
ft_status ft_run_draw(ft_run *run, int param, const ft_draw *draw, uint64_t seed, ft_error *err);

/* To be called after parameters were written: copies them to replicas and packs them. */
ft_status ft_run_refresh(ft_run *run, ft_error *err);

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
/* Whether the inputs have the number, sizes and types that the graphs of the blueprint take;
 * without a run. FT_SHAPE and FT_INVALID say what is wrong with which. */
ft_status ft_feed_check(const ft_blueprint *blueprint, const ft_feed *feed, ft_error *err);
/* The next finished batch, in order. FT_CANCELLED after timeout_ns without one (nothing is lost,
 * call again); the first failure of a worker otherwise. */
ft_status ft_run_next(ft_run *run, ft_result *out, int64_t timeout_ns, ft_error *err);
/* Of the batch that ft_run_next gave last, until the next ft_run_feed: the norm of what the weights
 * that the stage of the plan owns, each of its replicas some, had gone between the first forward of
 * the batch there and its backward; NAN where neither the plan (action A) nor the blueprint asks
 * for it, or it was nothing. */
double ft_run_gap(const ft_run *run, int stage);
int ft_run_n_stages(const ft_run *run); /* of the plan */
/* Outputs of forwards alone: the graph's, without the loss; none in training. */
int ft_run_n_outputs(const ft_run *run);
/* Output i of the batch that ft_run_next gave last: its micro-batches one after the other along the
 * first axis. Borrowed, until the next ft_run_feed. */
ft_status ft_run_output(ft_run *run, int i, const char **name, ft_view *out, ft_error *err);
/* Actions that all devices have behind them in this leg: grows while anything moves. */
int64_t ft_run_progress(const ft_run *run);
/* What the device's actions in this leg took together; the rest of the time it waited. */
int64_t ft_run_busy_ns(const ft_run *run, int device);
/* Who waits for whom: for each device with work left a line on what it is at and since when, with
 * all that it waits for; then who waits for each other. May be called while the leg goes on. */
ft_status ft_run_describe(const ft_run *run, ft_text *text, ft_error *err);
/* The last `n` events of each device and stream in this leg, a line each; likewise. */
ft_status ft_run_describe_past(const ft_run *run, int n, ft_text *text, ft_error *err);
/* Tells the workers of a leg that makes no progress to stop. FT_HANG names one that is still at its
 * action after the time: then nothing of the run may be freed, ft_run_end and ft_run_free leave it
 * as it is, and the process should end. */
ft_status ft_run_give_up(ft_run *run, int64_t timeout_ns, ft_error *err);
/* Ends the leg: waits for the workers (telling them to stop when the leg is not complete). */
ft_status ft_run_end(ft_run *run, ft_error *err);
/* What happened in the last leg; borrowed until the next ft_run_begin. */
const ft_timeline *ft_run_timeline(const ft_run *run);
/* The most bytes of device memory that live tensors took at one time, by class, guards included;
 * also while a leg runs. Counted where places are handed out and given back: of slots that are not
 * all in use at once it is less than the plan's. Returns the most of all classes: what moves shares
 * its places, so that this may be less than their sum. */
int64_t ft_run_measured(const ft_run *run, int device, int64_t bytes[FT_MEMORY_CLASSES]);
/* What people should know of a device's work, which goes on ("device cuda:0: ..."): true when there
 * is something that was not told before. Between legs. */
bool ft_run_take_remark(ft_run *run, int device, char *text, size_t size);
/* Blocks that workers allocated through base/alloc.h while actions ran in the last leg. */
int64_t ft_run_allocations(const ft_run *run);

#endif
