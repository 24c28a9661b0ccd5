/* schedule/internal.h - what the files of this room share: limits, wires, cursors, the two players.
 *
 * Everything that waits, waits on wires: the maker plays stages in time (play.c), the checker and
 * the simulator walk the strict lists of a plan (walk.c). */
#ifndef FT_SCHEDULE_INTERNAL_H
#define FT_SCHEDULE_INTERNAL_H

#include <stddef.h>

#include "base/arena.h"
#include "schedule/schedule.h"

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
    ACTION_TEXT = 64            /* bytes for action_text */
};

/* -- small things (plan.c) --------------------------------------------------------------------- */

/* "F0.3.2": letter, stage, batch, micro-batch. Returns text. */
const char *action_text(char text[ACTION_TEXT], const ft_action *action);

/* Whether the edge joins two stages of n_stages in one of the five ways; `number` is for the
 * message. */
ft_status edge_check(const ft_edge *edge, int number, int n_stages, ft_error *err);

/* A name of 1 to 31 letters, digits, '-', '_' or '.'. */
bool schedule_name_ok(const char *name);

/* An empty plan with an arena of its own, or NULL. */
ft_plan *plan_new(void);

/* A device's list from first to last, one action at a time. */
typedef struct cursor {
    const ft_device_plan *lists;
    int body_batches, body_repeats;
    int part;       /* 0 warm-up, 1 body, 2 drain */
    int repetition; /* of the body */
    int at;         /* in the part's list */
    bool more;      /* `now` is an action */
    ft_action now;
} cursor;

void cursor_begin(cursor *c, const ft_plan *plan, int device);
void cursor_step(cursor *c);

/* -- wires (wires.c) --------------------------------------------------------------------------- */

/* Index of (stage, kind) in the tables below. */
static inline int spot_of(int stage, int kind) { return stage * FT_ACT_COUNT + kind; }

/* The edges as actions meet them. Times are kept only when the wires were made for it. */
typedef struct wires {
    int n_edges;
    const ft_edge *edges;
    const int *in_first, *in;   /* edges into spot s: in[in_first[s]] ... in[in_first[s + 1] - 1] */
    const int *out_first, *out; /* likewise those out of it */
    int64_t *done;              /* by spot: actions completed */
    int64_t *transfer_ns;       /* by edge; NULL without times, and the next three too */
    int64_t *ring_first;        /* by edge: where its ring begins; n_edges + 1 */
    int64_t *arrival_ns;        /* ring by index: when the item is at the receiver */
    int64_t *release_ns;        /* ring by index: when the slot was free again */
} wires;

ft_status wires_new(wires **out, ft_arena *arena, int n_stages, int n_edges, const ft_edge *edges,
                    ft_error *err);
/* Adds the times; transfer_ns by edge (NULL: zeros), `micros` the most items that one edge carries.
 */
ft_status wires_add_times(wires *w, ft_arena *arena, const double *transfer_ns, int64_t micros,
                          ft_error *err);

/* The edge that keeps item `index` of the spot from starting, or -1. *full: it lacks a free slot;
 * otherwise it has not been filled. Looks at counts only. */
int wires_blocking(const wires *w, int spot, int64_t index, bool *full);
/* When the item can start, as far as its edges go; only when nothing blocks it. */
int64_t wires_start_ns(const wires *w, int spot, int64_t index);
/* Counts the item as done; with times, its data leaves at end_ns. */
void wires_complete(wires *w, int spot, int64_t index, int64_t end_ns);

/* "F0.0.1 waits for a free slot of F0>F1 (2 slots)", into text. */
void wires_explain(const wires *w, const ft_action *action, int64_t index, char *text, int size);

/* -- whole times (costs.c) -----------------------------------------------------------------------
 */

/* Costs in whole ns by spot. FT_INVALID when one is negative, not a number, or above 10^12. */
ft_status costs_round(int64_t **out, ft_arena *arena, int n_stages, const ft_stage_costs *costs,
                      ft_error *err);
ft_status cost_round(int64_t *out, double ns, const char *what, int index, ft_error *err);

/* -- making --------------------------------------------------------------------------------------
 */

/* What a stage does, from first to last. */
typedef struct stage_order {
    ft_action *actions;
    int64_t n;
    int in_flight;
} stage_order;

/* A leg that is being made: everything is in the arena. */
typedef struct leg {
    ft_arena *arena;
    const ft_pipeline *pipeline;
    const ft_schedule *schedule;
    int n_batches; /* that are played; at most the pipeline's */
    wires *wires;
    int *depth;           /* by stage */
    stage_order *orders;  /* by stage */
    ft_action_list *done; /* by device */
} leg;

/* order.c: the orders of all stages, by the rule alone. */
ft_status leg_order(leg *leg, ft_error *err);
/* play.c: who goes first on each device; gives leg->done. */
ft_status leg_play(leg *leg, ft_error *err);

/* fold.c: a repeating middle. Device d repeats length[d] actions from start[d]. */
typedef struct fold {
    int batches, repeats; /* repeats 0: nothing repeats */
    int64_t *start, *length;
} fold;
ft_status fold_find(fold *out, ft_arena *arena, int n_devices, const ft_action_list *lists,
                    ft_error *err);

/* -- walking (walk.c) -------------------------------------------------------------------------- */

/* A walk executes the strict lists as far as they go. */
typedef struct walk {
    const ft_plan *plan;
    wires *wires;
    cursor *cursors;        /* by device: what it does next, or waits with */
    int64_t *free_ns;       /* by device; with times */
    const int64_t *cost_ns; /* by spot; NULL: without times */
    ft_event *events;       /* with times: the lists' events, device by device */
    int64_t *at;            /* by device: its next event */
    int *queue;             /* devices to look at again, a ring */
    bool *queued;
} walk;

/* Begins without times; costs and events are the caller's to add. */
ft_status walk_new(walk **out, ft_arena *arena, const ft_plan *plan, ft_error *err);
/* Runs to the end or to where every device waits; FT_INFEASIBLE then, with who waits for what. */
ft_status walk_run(walk *w, ft_error *err);

/* plan_text.c: names of the memory classes, in the order of FT_MEMORY_CLASS_LIST. */
extern const char *const plan_class_names[FT_PLAN_CLASSES];

/* check.c: everything but waiting: ranges, counts, each stage's order, lags, in-flight numbers. */
ft_status plan_check_lists(const ft_plan *plan, ft_error *err);

#endif
