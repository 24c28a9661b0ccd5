/* schedule/internal.h - a leg that is being made; for make.c and what it plays with. */
#ifndef FT_SCHEDULE_INTERNAL_H
#define FT_SCHEDULE_INTERNAL_H

#include "plan/making.h"
#include "plan/wires.h"
#include "schedule/schedule.h"

/* What a seat does, from first to last. */
typedef struct stage_order {
    ft_action *actions;
    int64_t n;
    int in_flight, versions;
} stage_order;

/* A leg that is being made: everything is in the arena. */
typedef struct leg {
    ft_arena *arena;
    const ft_pipeline *pipeline;
    const ft_schedule *schedule;
    ft_weights weights;
    int n_batches; /* that are played; at most the pipeline's */
    bool reduces;
    ft_seating shares;
    ft_wires *wires;
    ft_depths depths;
    stage_order *orders;  /* by seat */
    ft_action_list *done; /* by device */
    ft_edge *edges;       /* the pipeline's; the plan gets their slots */
} leg;

/* order.c: the orders of all seats, by the rule alone. */
ft_status leg_order(leg *leg, ft_error *err);
/* play.c: who goes first on each device; gives leg->done. */
ft_status leg_play(leg *leg, ft_error *err);
/* lanes.c: pipelines side by side, where stages take turns on groups of devices: every stage has as
 * many replicas as there are lanes, and those of a group are on the same devices. 1 without
 * replicas. FT_INVALID where it is not so. */
ft_status leg_count_lanes(const leg *leg, int *lanes, ft_error *err);
/* The device that a lane has in the group of a stage. */
int leg_lane_device(const leg *leg, int stage, int lane);
/* Whether the stage's replicas send each other what they sum. */
bool leg_exchanges(const leg *leg, int stage);
/* Whether it takes over weights. */
bool leg_adopts(const leg *leg, int stage);

/* interleave.c: both of them, where stages of a device take turns. */
ft_status leg_interleave(leg *leg, ft_error *err);
/* group.c: likewise, where a device takes all micro-batches through one stage after the other, or
 * one micro-batch through all of its stages after the other. */
ft_status leg_group(leg *leg, ft_error *err);
/* Whether the schedule has such an order, with stages where they are. */
bool leg_has_group(const leg *leg);

/* vee.c: likewise, where stages go down the devices and up again. */
ft_status leg_vee(leg *leg, ft_error *err);

#endif
