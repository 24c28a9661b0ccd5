/* residency/residency.h - what is on a device when, of more than it holds.
 *
 * Pure: an order of work, the bytes of what it needs and how many may be there at once go in; the
 * same order with loads, saves and drops comes out. Whatever does not fit makes room by what is
 * needed furthest in the future. */
#ifndef FT_RESIDENCY_H
#define FT_RESIDENCY_H

#include "plan/shares.h"

/* When something leaves a device that has room for it. */
typedef enum {
    FT_SCOPE_PLAN,   /* never */
    FT_SCOPE_TASK,   /* when a task has ended: tasks of the request; without any, actions of one
                        kind of one stage that stand one behind the other, with the reduce and the
                        update behind backwards */
    FT_SCOPE_GROUP,  /* likewise, with what it makes for other tasks of the device */
    FT_SCOPE_ACTION, /* when an action has ended, or a reduce and the update behind it */
} ft_residency_scope;

typedef struct ft_residency {
    const ft_plan *plan;                       /* that moves none of the classes below */
    const int64_t (*bytes)[FT_MEMORY_CLASSES]; /* by replica, in the order of the plan's
                                                  replica_device: of what moves as a whole
                                                  (base/memory_class.h), of activations those
                                                  of one micro-batch; 0 of what stays */
    const int64_t *capacity;                   /* by device: that all of these may take at once */
    const char *const *names;                  /* by device, for messages; NULL: their numbers */
    ft_tasks tasks; /* that the plan was made with: the least is what one of them needs, so that
                       nothing comes twice within one */
    int ahead; /* actions that a load may stand before what needs it, where there is room, and that
                  an update in host memory may stand behind its place */
    double room; /* of what the capacity has over the least, the share that is left to such loads */
    bool spreads; /* what leaves is spread over what is needed about as far in the future */
    ft_residency_scope scope;
    const bool *early; /* by device: where the scope is the plan's it is the task's there; NULL: on
                          none */
    bool writes_back;  /* whatever leaves is saved, also what the host has, and gradients are loaded
                          to begin with: as of memory that is moved by somebody who does not know
                          what is in it */
    bool updates_at_home; /* a stage's weights and gradients leave for its updates, which work in
                             host memory, where the optimizer's state stays; of stages whose
                             weights and gradients move */
    const bool *makes;    /* by replica: packed and turned copies that move are made of the weights
                             where they are needed, and never saved or loaded; NULL: none are */
} ft_residency;

/* What is copied in the leg, by class; buffers: what passes through host memory. */
typedef struct ft_volume {
    int64_t in[FT_MEMORY_CLASSES], out[FT_MEMORY_CLASSES]; /* bytes */
    int64_t loads, saves, drops, makes;
    int64_t updates_at_home; /* of stages, in host memory */
} ft_volume;

/* What the moves of a plan copy, by device; bytes as in ft_residency. False: nothing moves. */
bool ft_plan_volumes(const ft_plan *plan, const ft_seating *seating,
                     const int64_t (*bytes)[FT_MEMORY_CLASSES], ft_volume *volumes);

/* Actions ahead that serve well: a stage's work, and some of the next one's; that of some stages.
 */
enum { FT_LOADS_AHEAD = 8, FT_LOADS_FAR_AHEAD = 3 * FT_LOADS_AHEAD };

/* By device, the most that one action needs: with less there is no plan. With tasks, the most that
 * one of these needs at once. */
ft_status ft_residency_least(const ft_residency *request, int64_t *least, ft_error *err);

/* The plan with its moves; volumes by device. FT_INFEASIBLE names the action whose own needs are
 * more than the capacity; FT_UNSUPPORTED for devices that choose by policy, and orders without a
 * repeating middle that are too long to be written out. */
ft_status ft_residency_plan(ft_plan **out, const ft_residency *request, ft_volume *volumes,
                            ft_error *err);

#endif
