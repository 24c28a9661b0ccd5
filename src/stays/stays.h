/* stays/stays.h - where what a plan moves lies while it is on a device.
 *
 * Pure: a plan with loads, saves and drops, and the bytes of what they move go in; a place for each
 * time that something is on its device comes out, no two in one place at once.
 *
 * A class of a seat (plan/shares.h) that the plan moves is a unit: its tensors lie one behind the
 * other, and it is brought to the device and leaves it as a whole. From an action that brings it to
 * the one with which it leaves, it stays in one place. Another unit may have that place at another
 * time: all stays of a device share one part of its block. An action of the body brings its unit to
 * the same place in every repetition. */
#ifndef FT_STAYS_H
#define FT_STAYS_H

#include "memory/memory.h"
#include "plan/shares.h"

/* All tensors of a class of a seat. Of activations, those of one micro-batch. */
typedef struct ft_unit {
    int seat;
    ft_memory_class class;
    int64_t bytes;  /* without its guard; 0 until who knows them says so */
    bool starts;    /* it is on the device when a leg begins: in the place of first_stay */
    bool goes_home; /* it is copied to or from host memory, or made there at the end of a leg */
    bool is_made;   /* on the device, and so not copied home */
    bool visits;    /* evaluation: copied out of homes that training has, and never back */
    int first_stay;
} ft_unit;

/* A time that a unit is on its device, and where. */
typedef struct ft_stay {
    const ft_unit *unit;
    int64_t at; /* in the device's block */
} ft_stay;

/* The part of a device's block where its stays are, whose numbers are first, first + 1 ... */
typedef struct ft_stays_part {
    int first, n;
    int64_t begin, bytes;
    int64_t most[FT_MEMORY_CLASSES]; /* bytes of units with their guards, at one time */
} ft_stays_part;

typedef struct ft_stays {
    const ft_seating *seating;
    ft_unit *(*units)[FT_MEMORY_CLASSES]; /* by seat; NULL: the class does not move */
    ft_action_kind *last; /* by seat: after which nothing of a micro-batch is left there */
    int *under_way;       /* by seat: micro-batches between forward and `last`, at most */
    int *window;          /* the same where activations move, else 0 */
    int n;
    ft_stay *of;          /* from 1 on; actions of the plan name them */
    ft_stays_part *parts; /* by device */
} ft_stays;

/* Finds the units of a plan that ft_plan_check has passed. What it gives is of the arena; the
 * seating is borrowed. FT_NOMEM. */
ft_status ft_stays_find(ft_stays *out, ft_arena *arena, const ft_plan *plan,
                        const ft_seating *seating, ft_error *err);

/* When units have their bytes: places, in parts that begin at 0. The plan gets lists of its own, of
 * the arena, whose actions have the numbers of the stays that they begin. Nothing is done where
 * nothing moves. FT_UNSUPPORTED when a unit would have to be in two places at once. */
ft_status ft_stays_place(ft_stays *stays, ft_arena *arena, ft_plan *plan, ft_error *err);

/* The device's part begins there in its block, and not at 0. */
void ft_stays_shift(ft_stays *stays, int device, int64_t begin);

/* Replays a leg, cut from that plan: whatever it brings to a device comes to a place that nothing
 * else has then. FT_INVALID says what meets. */
ft_status ft_stays_prove(const ft_stays *stays, const ft_plan *leg, ft_error *err);

#endif
