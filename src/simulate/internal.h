/* simulate/internal.h - the state of a simulation; inside this room only. */
#ifndef FT_SIMULATE_INTERNAL_H
#define FT_SIMULATE_INTERNAL_H

#include "plan/owners.h"
#include "plan/wires.h"
#include "simulate/simulate.h"

/* What a device's compute stream is at. */
typedef struct running {
    bool busy;
    ft_meeting meeting;
    int64_t event;
} running;

/* A copy that was submitted to its stream and has not ended. */
typedef struct copy {
    ft_meeting meeting;
    int device, line;           /* line: of device and stream */
    int stay;                   /* that it brings, or takes away; 0: not known */
    bool has_begun, is_awaited; /* awaited: a moment at ready_ns is in the heap */
    int64_t event, cause;
    int64_t ready_ns; /* not before */
    int64_t order;    /* in which they were submitted */
    int64_t next;     /* behind it in its stream; -1: none */
} copy;

/* A stream of copies: those that have not ended, in their order; -1: none. */
typedef struct queue {
    int64_t first, last;
} queue;

typedef struct simulation {
    const ft_plan *plan;
    const ft_simulation *options;
    ft_arena *arena;
    ft_seating shares;
    ft_owners owners;
    ft_wires *wires;
    ft_runners runners;
    ft_roads roads;        /* when options->machine */
    int64_t longest_ns;    /* of transfers over it */
    const int64_t *sum_ns; /* by stage: all-reduce, without a machine */
    int64_t *time_ns;      /* by seat and kind */
    bool copies;           /* some stream other than compute is used */
    ft_timeline *timeline;
    int64_t now;
    running *running;        /* by device */
    int64_t *free_ns;        /* by device and stream: until when it is taken */
    int64_t *last;           /* by device and stream: its last event; -1: none */
    int64_t *at;             /* by device and stream: its next event */
    int *coming;             /* by seat and class: loads of it that have not ended */
    uint8_t **moving_micros; /* by seat, then local micro-batch: copies of its activations that have
                                not ended; NULL: none move */
    int *open;               /* by seat and class: the stay that it is in; 0: not known */
    int **micro_open;        /* by seat, then local micro-batch: that of its activations; NULL */
    int64_t *moved;          /* by device: the last copy that ended; -1: none */
    queue *queues;           /* by device and stream; of compute: empty */
    int64_t n_submitted;
    int64_t *look_ns; /* by device: when a policy looks again; -1: it does not */
    copy *copying;    /* those under way, by number */
    int64_t n_copying, *idle_copies, n_idle, copy_capacity;
    ft_heap heap;
    int *dirty; /* devices to look at, a stack */
    bool *is_dirty;
    int n_dirty;
    bool out_of_memory;
} simulation;

/* setup.c: everything above from plan and options, and the timeline. */
ft_status simulation_begin(simulation *s, const ft_plan *plan, const ft_simulation *options,
                           ft_arena *arena, ft_error *err);

/* What happens at a moment; at one time, in this order. */
typedef enum { WHEN_ENDS, WHEN_COPY_STARTS, WHEN_COPY_ENDS, WHEN_LOOKED_AT } when;

/* simulate.c: adds a moment; looks at a device again; an event of the action, the next of its
 * stream; how much longer it takes by chance. */
void simulation_schedule(simulation *s, int64_t ns, when kind, int64_t number);
void simulation_look_at(void *simulation, int device);
int64_t simulation_event(simulation *s, int device, const ft_action *a, int64_t start,
                         int64_t cause);
int64_t simulation_delay(const simulation *s, int64_t event);
int simulation_seat(const simulation *s, const ft_meeting *m);

/* copies.c: what holds an action of the compute stream up, of copies that have not ended. */
bool simulation_is_moving(const simulation *s, int device, const ft_action *a, const ft_meeting *m);
/* Notes where what the action of the compute stream brings lies. */
void simulation_note_stay(simulation *s, const ft_action *a, const ft_meeting *m);
/* Submits a copy, which begins not before ready_ns; false without memory. */
bool simulation_submit(simulation *s, int device, const ft_action *a, const ft_meeting *m,
                       int64_t ready_ns, int64_t cause);
/* The first copy of its stream begins, if nothing holds it up. */
void simulation_begin_copy(simulation *s, int64_t number);
void simulation_end_copy(simulation *s, int64_t number);

/* links.c: what an action that ended leaves on its edges goes on its way. */
void simulation_send(simulation *s, const ft_meeting *m, int64_t event);
/* The S, O or L of `m` takes its way; when it has ended. */
int64_t simulation_copy(simulation *s, const ft_meeting *m, int device, int64_t event);

#endif
