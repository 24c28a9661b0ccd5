/* plan/making.h - for rooms that make plans: limits, an empty one, its repeating middle.
 *
 * Who executes plans needs none of it. */
#ifndef FT_PLAN_MAKING_H
#define FT_PLAN_MAKING_H

#include "base/arena.h"
#include "plan/plan.h"

/* Limits that keep every count of a plan, made or parsed, inside its type. */
enum {
    FT_PLAN_MAX_STAGES = 4096,
    FT_PLAN_MAX_MICRO = 1 << 20,   /* per batch */
    FT_PLAN_MAX_BATCHES = 1 << 28, /* in a leg */
    FT_PLAN_MAX_EDGES = 1 << 21,   /* norms pass from each of 1024 stages to each */
    FT_PLAN_MAX_SLOTS = 1 << 24,   /* of an edge */
    FT_PLAN_MAX_NODES = 1 << 22,
    FT_PLAN_MAX_STORED = 1 << 22,  /* actions, written out once */
    FT_PLAN_MAX_ACTIONS = 1 << 27, /* actions, all repetitions */
    FT_PLAN_MAX_ITEM = INT16_MAX   /* number of an edge that S and V name */
};

/* Whether the edge joins two stages of n_stages in one of the ways there are; `number` is for the
 * message. */
ft_status ft_edge_check(const ft_edge *edge, int number, int n_stages, ft_error *err);

/* A name of 1 to 31 letters, digits, '-', '_' or '.'. */
bool ft_plan_name_ok(const char *name);

/* An empty plan with an arena of its own, or NULL. */
ft_plan *ft_plan_new(void);

/* A repeating middle: device d repeats length[d] actions from start[d]. */
typedef struct ft_fold {
    int batches, repeats; /* repeats 0: nothing repeats */
    int64_t *start, *length;
} ft_fold;
ft_status ft_fold_find(ft_fold *out, ft_arena *arena, int n_devices, const ft_action_list *lists,
                       ft_error *err);
/* Gives the plan warm-up, body and drain of each device. The body is repeated for `later` batches
 * more than the lists say, and the drain is so many later. False: no memory. */
bool ft_fold_write(ft_plan *plan, const ft_action_list *lists, const ft_fold *f, int later);

#endif
