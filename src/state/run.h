/* state/run.h - a run in memory: for the rooms that execute plans.
 *
 * What a run has on its devices, what it counts of it, and how bytes come and go. Nothing here
 * knows in which order a plan goes on. */
#ifndef FT_STATE_RUN_H
#define FT_STATE_RUN_H

#include <pthread.h>

#include "base/arena.h"
#include "base/gate.h"
#include "optim/optim.h"
#include "state/state.h"

/* Slots of one kind, handed out in turn: those of an edge, of micro-batches in flight in a seat,
 * of batches. */
typedef struct pool {
    const char *what; /* for people */
    int number;       /* of the stage or edge of the plan; -1: of none */
    int device;
    ft_memory_class class;
    bool moves;   /* what is in them has no slot in the block, but comes and goes */
    bool at_home; /* they are no device's */
    int n;
    _Atomic int64_t *holders; /* by slot: number of what is in it, and one more; 0: nothing */
    int64_t *bytes;           /* by slot: what was handed out */
} pool;

/* A row of an edge's places (ft_row). */
typedef struct row_state {
    ft_gate filled, freed;           /* submitted so often */
    ft_device_event **full, **empty; /* by place: written, read */
    pool slots;
} row_state;

typedef struct edge_state {
    row_state rows[FT_ROWS];
    /* Of an edge to another process (edges/remote.c). */
    int peer;      /* its rank; -1: none */
    bool tells;    /* others fill slots of its row, which are freed here */
    bool hears;    /* the first of its process to the row: that is told when a slot is free */
    char *box;     /* the sender's slots, in host memory */
    char *landing; /* a receiver's, of what the host does not write where it is used */
    int64_t placed, arrived, credits; /* numbers of what came last; slots that were free again */
    ft_channel *channel;              /* past host memory, NULL: there is none (edges/) */
    ft_device_stream *lane;           /* of a receiver by a channel */
    int64_t *passes;                  /* and, by its place, bytes that it was told of */
    bool awaits; /* of a row: host memory is on the way of some who fill its slots */
} edge_state;

typedef struct batch_state {
    int bucket;
    double rate, loss_scale;
    _Atomic int seats_left;   /* seats that have not updated yet */
    double norm;              /* of all gradients; by the blueprint's norm_seat alone */
    _Atomic int64_t finished; /* batch number + 1 once its result is written */
    ft_error failure;         /* numbers that are not finite, under error_lock: actions/finite.c */
    int64_t failure_order;
} batch_state;

typedef struct seat_state {
    ft_program **programs[FT_ACT_COUNT]; /* by kind of action, by bucket; of seats here */
    ft_program **joint;                  /* by bucket, where forwards are joint; else NULL */
    void **params;                       /* by parameter: address, NULL for those not here */
    void **grads;                        /* by term */
    uint8_t **rows;      /* by term by rows: which of them may hold something; else NULL */
    ft_sum_term *terms;  /* room for those of one sum */
    float **summands;    /* and for the addresses of terms, or of replicas */
    ft_sum_term *parts;  /* room for one of each replica */
    double **squares;    /* by own term that is its parameter's only one: its squares; else NULL */
    const void **packed; /* by pack of the seat */
    int *first_pack, *next_pack; /* by parameter; by pack, of the same parameter; -1: none */
    void **inputs, **bound;      /* set for each action: by input; what is in slots of edges */
    ft_update *updates;          /* room for one of each parameter */
    bool *kept_params;           /* by position in the seat's: written, so that it counts as live */
    bool *kept_packs, *kept_terms;
    float *losses;    /* by ring slot, then its micro-batch of the batch, where the loss is made */
    pool slots, held; /* of activations; of what is kept between halves of backwards */
    struct seat_swaps *swaps;     /* in a leg that has them: swap.c */
    ft_version_count versions;    /* of this leg: counted where weights are written */
    pool rings[FT_WEIGHTS_KINDS]; /* of older weights */
    void **old_params;            /* as params and packed, for an action that reads older ones */
    const void **old_packed;
    int64_t predicted_for;     /* index of the micro-batch whose forward reads them, and 1 */
    int64_t predicted_version; /* what the predicted weights are ahead of; -1: there are none */
    int predicted_lag;         /* by so many updates */
    bool kept_predicted[FT_WEIGHTS_KINDS];
    int64_t *marked;         /* by mark: the batch that it is of, and 1; 0: none */
    bool *kept_marks;        /* likewise: written, so that it counts as live */
    char **state_copies;     /* by parameter: its optimizer's state, of another replica; or NULL */
    bool *kept_copies;       /* by position in the seat's parameters */
    double *rates;           /* of the updates that are missing: room for batch_slots */
    double *own_rates;       /* the same, of one parameter */
    bool spoiled;            /* saw a number that is not finite: updates no more */
    ft_device_event **ended; /* by ring slot: the seat is done with that batch */
    ft_device_event *made, *left; /* of what goes to other devices from where it is */
    unsigned leaving;             /* that, a bit a class, until something waited */
} seat_state;

/* A parameter's squared gradient norm, which the devices of its owner and of others share. */
typedef struct norm_cell {
    double squared;
    char apart[56];
} norm_cell;

/* Rows of `live` and `high`. */
enum {
    LIVE_MOVING = FT_MEMORY_CLASSES, /* and by class */
    LIVE_TOGETHER = 2 * FT_MEMORY_CLASSES,
    LIVE_ROWS
};

/* Copies in host memory of what such a device holds, for who looks at it between legs. */
typedef struct mirror {
    char *param, *state;       /* NULL: nobody asked */
    bool is_new, state_is_new; /* as it is on the device, or newer */
} mirror;

enum { CLOCKED = 64 };

/* Streams for copies: of what moves in and out; of what goes to other devices apart. */
enum { COPY_IN, COPY_OUT, COPY_APART, COPIERS };

/* When what was given to a stream last really began and ended: who gives it is ahead of that. The
 * n-th of a leg is at n modulo CLOCKED. */
typedef struct stream_clock {
    ft_device_event *begun[CLOCKED], *ended[CLOCKED];
    bool runs[CLOCKED];      /* until its times are noted */
    int64_t noted, ahead_ns; /* events that have theirs; of the host's clock (below 0: behind) */
} stream_clock;

typedef struct worker {
    ft_run *run;
    int device;
    pthread_t thread;
    bool started;
    ft_executor *executor;
    ft_device_stream *compute;
    ft_device_stream *copies[COPIERS];     /* those that a leg has */
    stream_clock *clocks[FT_STREAM_COUNT]; /* of what is not done when the worker goes on */
    ft_device_stream *feeder; /* of the thread that runs the leg: batches in, outputs out */
    ft_device_event **fed;    /* by ring slot: what is read here of the batch has come */
    pool fed_slots;
    ft_team *team;             /* the executor's */
    struct findings *findings; /* actions/hearing.h; NULL: the CPU's functions do all */
    struct hearing *hearing;   /* with findings */
    char *block;
    int64_t block_bytes;
    int64_t length, position; /* of the device's list */
    _Atomic int64_t passed;   /* position, for other threads */
    _Atomic int64_t busy_ns;  /* in the events of this leg, for other threads */
    _Atomic int64_t since_ns; /* ft_now_ns when it came to where it is */
    atomic_bool ended;        /* its thread does nothing more in this leg */
    uint8_t wait;             /* ft_wait that came last since its last event, */
    int32_t wait_edge;        /* and of which edge */
    int64_t carried;          /* bytes that the action under way has copied (ft_event.bytes) */
    ft_event *events[FT_STREAM_COUNT]; /* by stream, as a timeline has them */
    _Atomic int64_t n_events[FT_STREAM_COUNT];
    /* Bytes of live tensors, and the most that they were: by class; by class, of what moves as a
     * whole; of all that does. Of the run of training; read while the worker goes on. */
    _Atomic int64_t *live, *high;
    int64_t allocations;
} worker;

struct ft_run {
    const ft_blueprint *blueprint;
    ft_run *evaluation; /* of training: may be NULL */
    ft_run *trains;     /* of evaluation: whose memory it works in; NULL in training */
    int n_devices, n_edges, n_seats, n_buckets; /* the run may outlive its blueprint */
    ft_world *world;                            /* NULL: this process has all devices */
    ft_transport transport;                     /* to devices of others */
    int rank, home;                             /* whose devices are here; the first of them */
    int first_tag;                              /* of messages of its edges */
    struct ranks *ranks;                        /* ranks/ranks.c */
    worker *workers;
    seat_state *seats;
    edge_state *edges;
    batch_state *batches; /* ring of blueprint->batch_slots */
    char *boxes;          /* all of edges, one behind the other */
    int64_t boxes_bytes;
    norm_cell *norms; /* by ring slot, then parameter; host memory of norms_at */
    ft_executor *norms_at;
    int64_t norms_bytes;
    pool *output_slots; /* by output */
    bool *kept_states;  /* by parameter */
    char **states;      /* by parameter: its optimizer state */
    mirror *mirrors;    /* by parameter; and by output of the graph, what was given last */
    char **output_mirrors, **told_outputs; /* by part: ring slots of what another process made */
    struct run_units *units;               /* NULL: nothing moves as a whole; units.c */
    const char *swap_dir;    /* of the caller, until units are open: weights and optimizer
                                state have their homes there; NULL: in host memory */
    struct disk_file *disks; /* likewise, by device; disk.c */
    ft_result *results;      /* ring of batch_slots */
    double *gaps;            /* likewise, by seat: norms of what weights have gone */
    /* one leg */
    const ft_plan *plan;
    bool active, threaded;
    bool attentive; /* devices do not run ahead: each action is heard when it was given */
    bool lost;      /* a worker does not come back: nothing of the run may be freed */
    int64_t first_step, start_ns;
    int64_t fed, taken;
    _Atomic int64_t n_batches; /* that happen: the plan's, or fewer once drained */
    ft_gate fed_gate, done_gate;
    ft_gate ended_gate; /* workers whose threads do nothing more */
    atomic_bool stop;
    pthread_mutex_t error_lock;
    ft_error error; /* the first failure, under error_lock */
    ft_timeline *timeline;
    ft_arena *arena;
};

/* The stage of the plan of which it is a seat: what people know it by. */
static inline int plan_stage(const ft_run *run, int seat)
{
    return run->blueprint->seats[seat].stage;
}

/* True when the action's batch is past the end of a leg that was drained. */
static inline bool action_is_left_out(const ft_run *run, const ft_action *action)
{
    return action->batch >= atomic_load(&run->n_batches);
}

/* moves.c: streams and events of the run; what moves_open made is closed by moves_close. */
ft_status moves_open(ft_run *run, ft_error *err);
void moves_close(ft_run *run);
/* Around a leg: streams for copies, on devices whose lists have some. */
ft_status copies_open(ft_run *run, ft_error *err);
void copies_close(ft_run *run);
/* clock.c: around these, for a stream; around what is given to the stream of an action that has a
 * clock. Its event gets the times when that has ended: now, or at the latest when clocks close. */
ft_status clock_open(worker *w, ft_stream stream, ft_error *err);
void clocks_close(worker *w);
ft_status clock_begins(worker *w, const ft_action *action, ft_error *err);
ft_status clock_ends(worker *w, const ft_action *action, ft_error *err);
void clock_looks(worker *w, ft_stream stream);
/* The stream of the device that an action runs on. */
ft_device_stream *worker_stream(const worker *w, ft_stream stream);
ft_device_stream *stream_of(const worker *w, const ft_action *action);
/* The stream waits for the event; where it computes and a copy is not over yet, notes that. */
ft_status wait_on(worker *w, ft_device_stream *stream, ft_device_event *event, ft_error *err);
ft_status wait_for(worker *w, ft_device_stream *stream, ft_device_event *event, ft_wait what,
                   int edge, ft_error *err); /* for something else, of an edge or -1 */
ft_status record_on(ft_device_stream *stream, ft_device_event *event, ft_error *err);
/* Where a device has the inputs of a batch that its seats read. */
char *batch_slot(const worker *w, int64_t batch);
/* Copies a batch in, as number run->fed; notes that the seat is done with the action's batch;
 * waits until every seat is done with batch run->taken. */
ft_status load_batch(ft_run *run, const ft_feed *feed, ft_error *err);
ft_status end_batch(worker *w, const ft_action *action, ft_error *err);
ft_status unload_batch(ft_run *run, ft_error *err);
/* Waits for all that was submitted. */
ft_status finish_streams(ft_run *run, ft_error *err);
/* On the worker's compute stream: memory that has contents from here, or none; a function. */
void occupy(const worker *w, const void *address, int64_t bytes);
void vacate(const worker *w, const void *address, int64_t bytes);
ft_status compute(const worker *w, ft_plain_work *work, ft_error *err);
/* Says that the work reads, or reads and writes, a range; past FT_MAX_ACCESSES none is noted. */
void touches(ft_plain_work *work, const void *address, int64_t bytes, bool writes);
ft_status copy_on(ft_device_stream *stream, ft_location to, ft_location from, int64_t bytes,
                  ft_error *err);
/* In the device's block; or in host memory, where what moves has its home. */
ft_location at_device(const ft_run *run, int device, const void *address);

/* swap.c: around a leg, homes in host memory for activations that its plan moves there. */
ft_status swaps_begin(ft_run *run, ft_error *err);
void swaps_end(ft_run *run);
/* Where the activations of the action's micro-batch are, which are on the device. */
char *activations_at(const ft_run *run, const ft_action *action);
/* The compute stream waits for copies of what the action touches. */
ft_status swaps_wait(worker *w, const ft_action *action, ft_error *err);
ft_status do_swap_out(worker *w, const ft_action *action, ft_error *err);
ft_status do_swap_in(worker *w, const ft_action *action, ft_error *err);
ft_status do_drop(worker *w, const ft_action *action, ft_error *err);

/* units.c: the stream, of copies or of what is computed, waits for copies from where the stay will
 * be; a copy on the stream leaves the stay's place. */
ft_status room_wait(worker *w, int stay, ft_device_stream *stream, ft_error *err);
ft_status room_leave(const worker *w, int stay, ft_device_stream *stream, ft_error *err);
/* Homes of what moves as a whole, for a run; there it is between legs. */
ft_status units_open(ft_run *run, ft_error *err);
void units_close(ft_run *run);
/* Around a leg: what is on the device when it begins comes there, what is there at its end comes
 * home. FT_INVALID when the leg would bring two to one place. */
ft_status units_begin(ft_run *run, ft_error *err);
ft_status units_end(ft_run *run, ft_error *err);
/* FT_INVALID when something was written behind a unit. */
ft_status units_check(const ft_run *run, ft_error *err);
/* Before an action that computes: the gradients that it begins have their place; it waits for
 * copies of what it needs. */
ft_status units_wait(worker *w, const ft_action *action, ft_error *err);
/* Of a class: L, O and D; before what an M makes is written. */
ft_status unit_comes(worker *w, const ft_action *action, ft_error *err);
ft_status unit_goes(worker *w, const ft_action *action, ft_error *err);
ft_status unit_is_dropped(worker *w, const ft_action *action, ft_error *err);
ft_status unit_begins(worker *w, const ft_action *action, ft_error *err);
/* Classes, as bits, without those that a later M makes: whose copies change with weights now. */
unsigned packed_here(const ft_run *run, int seat);

#endif
