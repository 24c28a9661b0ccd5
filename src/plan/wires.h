/* plan/wires.h - for rooms that go through plans: who has to wait for whom.
 *
 * Everything that waits, waits on wires: the proof of a plan walks its lists without a clock
 * (proof/walk.c), schedules play stages in time, the simulator plays lists in time. */
#ifndef FT_PLAN_WIRES_H
#define FT_PLAN_WIRES_H

#include "base/arena.h"
#include "plan/shares.h"

/* -- wires (wires.c) --------------------------------------------------------------------------- */

/* Index of (stage or seat, kind) in the tables below. */
static inline int ft_spot_of(int stage, int kind)
{
    return stage * FT_ACT_COUNT + kind;
}

/* An action as the wires meet it. */
typedef struct ft_meeting {
    int stage, kind, replica, item;
    int64_t index; /* in the leg */
} ft_meeting;

/* Why an action cannot start. */
typedef enum { FT_STOP_NOTHING, FT_STOP_UNFILLED, FT_STOP_FULL, FT_STOP_GROUP } ft_stop_reason;

typedef struct ft_stop {
    ft_stop_reason reason;
    int edge; /* FT_STOP_UNFILLED, FT_STOP_FULL */
} ft_stop;

/* Edges that share one place, which they fill in turns: in a batch each when the one that it is
 * after was used, the first when the last of the batch before was. By edge; NULL where none do. */
typedef struct ft_turns {
    int *first, *next, *last; /* of those that share it; next -1: none */
} ft_turns;

/* turns.c; FT_INVALID for edges that cannot share a place. */
ft_status ft_turns_link(ft_turns *out, ft_arena *arena, int n_edges, const ft_edge *edges,
                        ft_error *err);
/* Whether the plan's can. FT_INVALID, with the line of a plan that was read. */
ft_status ft_turns_check(const ft_plan *plan, const ft_seating *shares, ft_arena *arena,
                         ft_error *err);
/* Whose item has to be used before one of edge e can be made: of its own, that of the batch before.
 */
static inline int ft_turns_before(const ft_turns *turns, const ft_edge *edges, int e)
{
    return edges[e].after ? edges[e].after - 1 : turns->last ? turns->last[e] : e;
}

/* Where the slots that a receiver uses of an edge lie in the arrays by ring. */
typedef struct ft_ring {
    int64_t first, length;
} ft_ring;

/* The edges as actions meet them. Times are kept only when the wires were made for it. */
typedef struct ft_wires {
    int n_edges;
    const ft_edge *edges;
    const ft_seating *shares;
    ft_turns turns;
    const int *in_first, *in;   /* edges into spot s: in[in_first[s]] ... in[in_first[s + 1] - 1] */
    const int *out_first, *out; /* likewise those out of it; both by stage and kind */
    int64_t *done;              /* by seat and kind: actions completed */
    int64_t *least; /* by stage with replicas, and kind: those that every one has completed */
    int *wake_first, *wake; /* by stage and kind: devices that may go on behind it, each once */
    bool *is_grouped;       /* by stage: replicas whose sum is made behind their R */
    bool *is_sent, *is_received; /* by edge: S or V of the plan do it; NULL: of no edge */
    int64_t *sent, *received;    /* by edge and replica of its maker, or user: done */
    int most_replicas;           /* of a stage */
    int64_t *transfer_ns;        /* by edge; NULL without times, and all below too */
    ft_ring *rings;              /* by edge: of its first receiver; the others' lie behind it */
    int64_t *arrival_ns;         /* ring by receiver's index: when the item is there */
    int64_t *release_ns;         /* likewise: when the slot was free again */
    int64_t *maker;              /* likewise: event that arrival_ns comes from */
    int64_t *user;               /* likewise: event that release_ns comes from */
    int64_t *group_ns;           /* by stage: when the replicas' last sum was there */
    int64_t *group_event;
} ft_wires;

ft_status ft_wires_new(ft_wires **out, ft_arena *arena, const ft_seating *shares, int n_edges,
                       const ft_edge *edges, ft_error *err);
/* Lets S and V of the plan's lists take the place of sending at once. */
ft_status ft_wires_add_copies(ft_wires *w, ft_arena *arena, const ft_plan *plan, ft_error *err);
/* Adds the times; transfer_ns by edge (NULL: zeros), `micros` the most items that one edge carries.
 */
ft_status ft_wires_add_times(ft_wires *w, ft_arena *arena, const double *transfer_ns,
                             int64_t micros, ft_error *err);

/* What keeps the action from starting. Looks at counts only. */
ft_stop ft_wires_blocking(const ft_wires *w, const ft_meeting *m);
/* When it can start, as far as its edges go, and the event that this comes from (or -1); only when
 * nothing blocks it. */
int64_t ft_wires_start_ns(const ft_wires *w, const ft_meeting *m, int64_t *cause);
/* Counts the action as done; with times, its slots are free at end_ns. */
void ft_wires_complete(ft_wires *w, const ft_meeting *m, int64_t end_ns, int64_t event);
/* The item that the action leaves on the edge is there at ns. */
void ft_wires_arrive(ft_wires *w, int edge, int64_t index, int64_t ns, int64_t event);
/* Whether the action, now done, was the last R of its batch among a stage's replicas: their sum
 * begins, and ends at group_ns. */
bool ft_wires_join(const ft_wires *w, const ft_meeting *m);
/* Devices that may go on when the action is done: calls look(user, device). */
typedef void ft_wake_fn(void *user, int device);
void ft_wires_wake(const ft_wires *w, const ft_meeting *m, ft_wake_fn *look, void *user);

/* "F0.0.1 waits for a free slot of F0>F1 (2 slots)", into text. */
void ft_wires_explain(const ft_wires *w, const ft_action *action, const ft_meeting *m, char *text,
                      int size);

/* -- depths (depths.c) ------------------------------------------------------------------------- */

/* By stage, over the edges between forwards. */
typedef struct ft_depths {
    const int *depth;  /* longest path to a stage without edges out */
    const int *height; /* longest path from a stage without edges in */
    const int *ahead;  /* workers behind it; the depth where there are no replicas */
} ft_depths;

/* FT_INVALID for edges that go in a circle, those between forwards or those between reduces. */
ft_status ft_depths_find(ft_depths *out, ft_arena *arena, const ft_wires *w, ft_error *err);

/* -- lists (plan.c, runners.c) ----------------------------------------------------------------- */

/* A device's list from first to last, one action at a time. */
typedef struct ft_cursor {
    const ft_device_plan *lists;
    int body_batches, body_repeats;
    int part;       /* 0 warm-up, 1 body, 2 drain */
    int repetition; /* of the body */
    int at;         /* in the part's list */
    bool more;      /* `now` is an action */
    int line;       /* of it in the text; 0: none */
    ft_action now;
} ft_cursor;

void ft_cursor_begin(ft_cursor *c, const ft_plan *plan, int device);
void ft_cursor_step(ft_cursor *c);
/* Whether `now` is where the body's last repetition begins. */
static inline bool ft_cursor_begins_last(const ft_cursor *c)
{
    return c->more && c->part == FT_PART_BODY && !c->at && c->repetition == c->body_repeats - 1;
}

/* What goes through a list in order: a device, or one stage of a device by policy. */
typedef struct ft_runner {
    ft_cursor cursor;
    int device;
    int stage; /* -1: all of the device's */
} ft_runner;

typedef struct ft_runners {
    int n;
    ft_runner *list;
    const int *first; /* by device, and one more */
} ft_runners;

/* runners.c */
ft_status ft_runners_new(ft_runners *out, ft_arena *arena, const ft_plan *plan,
                         const ft_seating *shares, ft_error *err);
void ft_runner_step(ft_runner *r);
ft_meeting ft_meeting_of(const ft_plan *plan, const ft_seating *shares, int device,
                         const ft_action *action);

/* The policy of a device with several stages: not a forward; then closer to the loss; then older.
 */
bool ft_policy_goes_before(const int *depth, const ft_action *a, const ft_action *b);

/* -- whole times (costs.c) --------------------------------------------------------------------- */

/* Costs in whole ns by stage and kind. FT_INVALID when one is negative, not a number, or above
 * 10^12. */
ft_status ft_costs_round(int64_t **out, ft_arena *arena, int n_stages, const ft_stage_costs *costs,
                         ft_error *err);
ft_status ft_cost_round(int64_t *out, double ns, const char *what, int index, ft_error *err);

/* -- moments in time (heap.c) ------------------------------------------------------------------ */

/* A moment at which something happens: the earliest first, then the lowest `what`. */
typedef struct ft_moment {
    int64_t ns, what;
} ft_moment;

typedef struct ft_heap {
    ft_moment *at;
    int64_t n, capacity;
    ft_arena *arena;
} ft_heap;

bool ft_heap_add(ft_heap *h, ft_moment m); /* false: no memory */
ft_moment ft_heap_pop(ft_heap *h);

/* The same message with the line of the text that the plan was read from, which is not from one
 * when it is 0: what began with "plan" begins with "plan, line 7". Gives the error's status. */
ft_status ft_plan_at_line(int line, ft_error *err);

#endif
