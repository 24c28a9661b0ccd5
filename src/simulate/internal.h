/* simulate/internal.h - the state of a simulation; inside this room only. */
#ifndef FT_SIMULATE_INTERNAL_H
#define FT_SIMULATE_INTERNAL_H

#include "plan/wires.h"
#include "simulate/simulate.h"

/* What a device's compute stream is at. */
typedef struct running {
    bool busy;
    ft_meeting meeting;
    int64_t event;
} running;

/* A copy under way. */
typedef struct copy {
    ft_meeting meeting;
    int device;
    int64_t event;
} copy;

typedef struct simulation {
    const ft_plan *plan;
    const ft_simulation *options;
    ft_arena *arena;
    ft_seating shares;
    ft_wires *wires;
    ft_runners runners;
    ft_roads roads;        /* when options->machine */
    const int64_t *sum_ns; /* by stage: all-reduce, without a machine */
    int64_t *time_ns;      /* by seat and kind */
    bool copies;           /* some stream other than compute is used */
    ft_timeline *timeline;
    int64_t now;
    running *running;        /* by device */
    int64_t *free_ns;        /* by device and stream: until when it is taken */
    int64_t *last;           /* by device and stream: its last event; -1: none */
    int64_t *at;             /* by device and stream: its next event */
    int *moving;             /* by seat and class: copies of it under way */
    uint8_t **moving_micros; /* by seat: the same by local micro-batch; NULL: none move */
    int64_t *moved;          /* by seat: the last copy that ended; -1: none */
    int64_t *look_ns;        /* by device: when a policy looks again; -1: it does not */
    copy *copying;           /* those under way, by number */
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

/* links.c: what an action that ended leaves on its edges goes on its way. */
void simulation_send(simulation *s, const ft_meeting *m, int64_t event);
/* The S, O or L of `m` takes its way; when it has ended. */
int64_t simulation_copy(simulation *s, const ft_meeting *m, int device, int64_t event);

#endif
