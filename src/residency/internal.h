/* residency/internal.h - the state of a planner; inside this room only. */
#ifndef FT_RESIDENCY_INTERNAL_H
#define FT_RESIDENCY_INTERNAL_H

#include "base/arena.h"
#include "plan/owners.h"
#include "plan/shares.h"
#include "residency/residency.h"

/* A class of a stage; of activations, those of a micro-batch, and of the later ones whose number in
 * the leg is larger by a multiple of the stage's window. */
typedef struct item {
    int stage, class;
    int64_t bytes;
    int64_t next; /* in `uses` of the device: its first use that is not behind us */
    int stay;     /* the one that is open; -1: not on the device */
    bool is_dirty;
    bool is_dead; /* it holds nothing: its next use makes it */
    bool is_made; /* on the device, of what is there */
} item;

typedef enum { LEAVES_SAVED, LEAVES_DROPPED, LEAVES_DEAD } leaving;

/* From the action before which it is brought to the one behind which it leaves. */
typedef struct stay {
    int item;
    int64_t begin, end;          /* first and last use; begin may move forward */
    bool is_loaded;              /* else its first use, or an M before that, makes it */
    leaving leaving;             /* the dead need no action */
    int from_batch, until_batch; /* of the moves */
    int micro;                   /* of activations */
} stay;

typedef struct use {
    int64_t at;
    int item;
    int64_t later; /* number of the next use of the item; -1: none */
    int stay;      /* that it is in, once these are found */
} use;

/* What may leave: items that are on the device and that the action at hand does not need. A tree
 * over rows of places, of which each node knows the first to leave of those below it; see
 * victims.c. */
typedef struct victims {
    int64_t size;   /* places, a power of two */
    int *first;     /* by node, of which 1 is the root: item and 1, or 0 */
    int64_t *place; /* by item; -1: it may not leave */
    int64_t looks;  /* work: nodes that were looked at */
} victims;

typedef struct planner {
    const ft_residency *q;
    const ft_plan *plan;
    ft_arena *arena;
    ft_seating shares;
    int device;
    ft_residency_scope scope; /* of the device */
    bool anew;                /* a batch begins with nothing on the device */
    int newest;               /* batch that has begun */
    int *seat;                /* by stage: the one on the device, or -1 */
    bool *at_home;            /* by stage: its updates work in host memory */
    ft_owners owners;
    ft_action *list;
    int64_t n;
    item *items; /* by stage and class, then activations by stage and micro-batch */
    int n_items;
    int *window, *first_micro; /* by stage: micro-batches under way at most; their first item */
    ft_action_kind *last;      /* by stage: after which activations are dead */
    use *uses;                 /* of all actions, in their order */
    int64_t *first_use;        /* by action, and one more */
    int64_t *needed;           /* by action: bytes of its uses */
    int64_t least;             /* the most of these */
    stay *stays;
    int64_t n_stays;
    int64_t used; /* bytes of open stays */
    victims victims;
    int *first_into, *next_into; /* by stage, then by edge: those that pass through host memory, to
                                    the stage; -1: no more */
    int *first_out, *next_out;   /* likewise from it */
} planner;

/* stays.c: the device's list and items; *all gets the bytes of these. */
ft_status residency_begin(planner *p, int64_t *all, ft_error *err);
/* What each action needs, and from when to when it is there. */
ft_status residency_find_uses(planner *p, ft_error *err);
ft_status residency_find_stays(planner *p, ft_error *err);
/* Updates in host memory move back, behind work of other stages beside which gradients are saved.
 */
ft_status residency_put_off(planner *p, ft_error *err);
/* Loads move forward, where there is room. */
ft_status residency_hoist(planner *p, ft_error *err);

/* victims.c: none may leave yet; false without memory. */
bool victims_begin(planner *p);
/* The item may leave from here on; or it may not, whether or not it might before. */
void victims_add(planner *p, int number);
void victims_remove(planner *p, int number);
/* Which item goes before the action at `at`: needed furthest in the future, for what leaving and
 * coming again costs; -1: none may. */
int victims_find(planner *p, int64_t at);

/* passes.c: edges through host memory; *n gets how many S and V they are. */
ft_status residency_find_passes(planner *p, int64_t *n, ft_error *err);
/* S of what the action at `at` makes, or V of what it reads; returns how many. */
int residency_write_passes(const planner *p, int64_t at, bool sends, ft_action *to);

/* moves.c: the list with its moves. */
ft_status residency_write(planner *p, ft_action_list *out, ft_error *err);
/* Micro-batches that stages hold, of which some move, are counted anew. */
ft_status residency_count_held(ft_plan *plan, ft_error *err);

#endif
