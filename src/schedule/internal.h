/* schedule/internal.h - what the files of this room share: limits, shares, wires, cursors, players.
 *
 * Everything that waits, waits on wires: the maker plays stages in time (play.c), the checker walks
 * the lists of a plan without a clock (walk.c), the simulator with one (simulate.c). */
#ifndef FT_SCHEDULE_INTERNAL_H
#define FT_SCHEDULE_INTERNAL_H

#include <stddef.h>

#include "base/arena.h"
#include "schedule/make.h"
#include "schedule/timeline.h"

/* Limits that keep every count of a plan, made or parsed, inside its type. */
enum {
    PLAN_MAX_STAGES = 4096,
    PLAN_MAX_MICRO = 1 << 20,   /* per batch */
    PLAN_MAX_BATCHES = 1 << 28, /* in a leg */
    PLAN_MAX_EDGES = 1 << 20,
    PLAN_MAX_SLOTS = 1 << 24, /* of an edge */
    PLAN_MAX_NODES = 1 << 22,
    PLAN_MAX_STORED = 1 << 22,  /* actions, written out once */
    PLAN_MAX_ACTIONS = 1 << 27, /* actions, all repetitions */
    PLAN_MAX_ITEM = INT16_MAX,  /* number of an edge that S and V name */
    ACTION_TEXT = 80            /* bytes for action_text */
};

/* -- small things (plan.c) --------------------------------------------------------------------- */

/* What stands behind the ':' of an action. */
typedef enum { ITEM_NOTHING, ITEM_EDGE, ITEM_CLASS } item_kind;
item_kind action_item(ft_action_kind kind);

/* "F0.3.2" or "O0.3.2:activations": letter, stage, batch, micro-batch, item. Returns text. */
const char *action_text(char text[ACTION_TEXT], const ft_action *action);

/* Whether the edge joins two stages of n_stages in one of the ways there are; `number` is for the
 * message. */
ft_status edge_check(const ft_edge *edge, int number, int n_stages, ft_error *err);

/* A name of 1 to 31 letters, digits, '-', '_' or '.'. */
bool schedule_name_ok(const char *name);

/* An empty plan with an arena of its own, or NULL. */
ft_plan *plan_new(void);

/* n items of so many bytes, copied; NULL without memory. */
void *plan_copy(ft_arena *arena, const void *from, int64_t n, int64_t size);

/* A device's list from first to last, one action at a time. */
typedef struct cursor {
    const ft_device_plan *lists;
    int body_batches, body_repeats;
    int part;       /* 0 warm-up, 1 body, 2 drain */
    int repetition; /* of the body */
    int at;         /* in the part's list */
    bool more;      /* `now` is an action */
    int line;       /* of it in the text; 0: none */
    ft_action now;
} cursor;

void cursor_begin(cursor *c, const ft_plan *plan, int device);
void cursor_step(cursor *c);

/* -- shares (shares.c) ------------------------------------------------------------------------- */

/* How a stage's micro-batches are dealt to its replicas. A replica is a "seat": seats of all stages
 * have numbers, first + replica. */
typedef struct stage_share {
    int first; /* seat of replica 0 */
    int n;
    int rule;       /* ft_replica_rule */
    int per_batch;  /* micro-batches per batch of one replica */
    int64_t micros; /* per batch */
} stage_share;

typedef struct seating {
    int n_stages, n_seats;
    const stage_share *of; /* by stage */
    const int *seat_device, *seat_stage;
    bool several; /* some stage has more than one replica */
} seating;

const char *replica_rule_name(int rule);

/* Where stages are: devices replica_device[replica_first[s]] ..., or, without these, device[s]. */
typedef struct seat_request {
    int n_stages, n_devices, micro_batches;
    const int *device, *replica_first, *replica_device;
    const uint8_t *replica_rule; /* may be NULL */
} seat_request;

/* FT_INVALID when a stage has one device twice, or replicas that micro_batches cannot be dealt to.
 */
ft_status shares_new(seating *out, ft_arena *arena, const seat_request *q, ft_error *err);
ft_status shares_of_plan(seating *out, ft_arena *arena, const ft_plan *plan, ft_error *err);

/* The replica that has micro-batch `index` of the leg, and its number there. */
int share_replica(const stage_share *s, int64_t index);
int64_t share_local(const stage_share *s, int64_t index);
/* The number in the leg of the replica's local-th micro-batch. */
int64_t share_index(const stage_share *s, int replica, int64_t local);
/* The stage's replica on that device, or -1. */
int shares_find(const seating *all, int stage, int device);

/* -- wires (wires.c) --------------------------------------------------------------------------- */

/* Index of (stage or seat, kind) in the tables below. */
static inline int spot_of(int stage, int kind)
{
    return stage * FT_ACT_COUNT + kind;
}

/* An action as the wires meet it. */
typedef struct meeting {
    int stage, kind, replica, item;
    int64_t index; /* in the leg */
} meeting;

/* Why an action cannot start. */
typedef enum { STOP_NOTHING, STOP_UNFILLED, STOP_FULL, STOP_GROUP } stop_reason;

typedef struct stop {
    stop_reason reason;
    int edge; /* STOP_UNFILLED, STOP_FULL */
} stop;

/* The edges as actions meet them. Times are kept only when the wires were made for it. */
typedef struct wires {
    int n_edges;
    const ft_edge *edges;
    const seating *shares;
    const int *in_first, *in;   /* edges into spot s: in[in_first[s]] ... in[in_first[s + 1] - 1] */
    const int *out_first, *out; /* likewise those out of it; both by stage and kind */
    int64_t *done;              /* by seat and kind: actions completed */
    bool *is_sent, *is_received; /* by edge: S or V of the plan do it; NULL: of no edge */
    int64_t *sent, *received;
    int64_t *transfer_ns; /* by edge; NULL without times, and all below too */
    int64_t *ring_first;  /* by edge: where its ring begins; n_edges + 1 */
    int64_t *arrival_ns;  /* ring by receiver's index: when the item is there */
    int64_t *release_ns;  /* likewise: when the slot was free again */
    int64_t *maker;       /* likewise: event that arrival_ns comes from */
    int64_t *user;        /* likewise: event that release_ns comes from */
    int64_t *group_ns;    /* by stage: when the replicas' last sum was there */
    int64_t *group_event;
} wires;

ft_status wires_new(wires **out, ft_arena *arena, const seating *shares, int n_edges,
                    const ft_edge *edges, ft_error *err);
/* Lets S and V of the plan's lists take the place of sending at once. */
ft_status wires_add_copies(wires *w, ft_arena *arena, const ft_plan *plan, ft_error *err);
/* Adds the times; transfer_ns by edge (NULL: zeros), `micros` the most items that one edge carries.
 */
ft_status wires_add_times(wires *w, ft_arena *arena, const double *transfer_ns, int64_t micros,
                          ft_error *err);

/* What keeps the action from starting. Looks at counts only. */
stop wires_blocking(const wires *w, const meeting *m);
/* When it can start, as far as its edges go, and the event that this comes from (or -1); only when
 * nothing blocks it. */
int64_t wires_start_ns(const wires *w, const meeting *m, int64_t *cause);
/* Counts the action as done; with times, its slots are free at end_ns. */
void wires_complete(wires *w, const meeting *m, int64_t end_ns, int64_t event);
/* The item that the action leaves on the edge is there at ns. */
void wires_arrive(wires *w, int edge, int64_t index, int64_t ns, int64_t event);
/* Whether the action, now done, was the last R of its batch among a stage's replicas: their sum
 * begins, and ends at group_ns. */
bool wires_join(const wires *w, const meeting *m);
/* Devices that may go on when the action is done: calls look(user, device). */
typedef void wake_fn(void *user, int device);
void wires_wake(const wires *w, const meeting *m, wake_fn *look, void *user);

/* "F0.0.1 waits for a free slot of F0>F1 (2 slots)", into text. */
void wires_explain(const wires *w, const ft_action *action, const meeting *m, char *text, int size);

/* -- depths (depths.c) ------------------------------------------------------------------------- */

/* By stage, over the edges between forwards. */
typedef struct depths {
    const int *depth;  /* longest path to a stage without edges out */
    const int *height; /* longest path from a stage without edges in */
    const int *ahead;  /* workers behind it; the depth where there are no replicas */
} depths;

/* FT_INVALID for edges that go in a circle, those between forwards or those between reduces. */
ft_status depths_find(depths *out, ft_arena *arena, const wires *w, ft_error *err);

/* -- whole times (costs.c) -----------------------------------------------------------------------
 */

/* Costs in whole ns by stage and kind. FT_INVALID when one is negative, not a number, or above
 * 10^12. */
ft_status costs_round(int64_t **out, ft_arena *arena, int n_stages, const ft_stage_costs *costs,
                      ft_error *err);
ft_status cost_round(int64_t *out, double ns, const char *what, int index, ft_error *err);

/* -- moments in time (heap.c) -------------------------------------------------------------------
 */

/* A moment at which something happens: the earliest first, then the lowest `what`. */
typedef struct moment {
    int64_t ns, what;
} moment;

typedef struct heap {
    moment *at;
    int64_t n, capacity;
    ft_arena *arena;
} heap;

bool heap_add(heap *h, moment m); /* false: no memory */
moment heap_pop(heap *h);

/* The policy of a device with several stages: not a forward; then closer to the loss; then older.
 */
bool policy_goes_before(const int *depth, const ft_action *a, const ft_action *b);

/* -- folding (fold.c) --------------------------------------------------------------------------
 */

/* A repeating middle: device d repeats length[d] actions from start[d]. */
typedef struct fold {
    int batches, repeats; /* repeats 0: nothing repeats */
    int64_t *start, *length;
} fold;
ft_status fold_find(fold *out, ft_arena *arena, int n_devices, const ft_action_list *lists,
                    ft_error *err);
/* Gives the plan warm-up, body and drain of each device. The body is repeated for `later` batches
 * more than the lists say, and the drain is so many later. False: no memory. */
bool fold_write(ft_plan *plan, const ft_action_list *lists, const fold *f, int later);

/* -- timelines (timeline.c) ----------------------------------------------------------------------
 */

/* Room for causes, passages and times of links in a timeline that has none. */
ft_status timeline_add_causes(ft_timeline *timeline, int64_t n_passages, int n_links,
                              ft_error *err);

/* -- running -------------------------------------------------------------------------------------
 */

/* What goes through a list in order: a device, or one stage of a device by policy. */
typedef struct runner {
    cursor cursor;
    int device;
    int stage; /* -1: all of the device's */
} runner;

typedef struct runners {
    int n;
    runner *list;
    const int *first; /* by device, and one more */
} runners;

/* runners.c */
ft_status runners_new(runners *out, ft_arena *arena, const ft_plan *plan, ft_error *err);
void runner_step(runner *r);
meeting meeting_of(const ft_plan *plan, const seating *shares, int device, const ft_action *action);

/* -- checking ------------------------------------------------------------------------------------
 */

/* What a plan says of its stages that follows from its edges and lists; by stage. */
typedef struct derived {
    int *depth, *in_flight, *versions;
} derived;

/* The same message with the line of the text, which is not one when it is 0: what began with "plan"
 * begins with "plan, line 7". Gives the error's status. */
ft_status at_line(int line, ft_error *err);

/* check.c: everything but waiting: ranges, counts, each stage's order, lags, in-flight numbers. */
ft_status plan_check_lists(const ft_plan *plan, ft_error *err);
/* What follows from a plan that need not say it. */
ft_status plan_derive(const ft_plan *plan, const derived *out, ft_error *err);
/* check_order.c: all but the ranges; the derived values are compared with what the plan says. */
ft_status plan_check_order(const ft_plan *plan, const seating *shares, ft_arena *arena,
                           ft_error *err);
/* Likewise, without comparing. */
ft_status plan_measure(const ft_plan *plan, const seating *shares, ft_arena *arena,
                       const derived *out, ft_error *err);
/* walk.c: runs the lists to the end; FT_INFEASIBLE with who waits for what. A batch begins when the
 * one batch_slots before it has ended; 0: none waits for that. */
ft_status plan_walk(const ft_plan *plan, const seating *shares, int batch_slots, ft_arena *arena,
                    ft_error *err);

#endif
