/* plan/shares.h - which replica of a stage works on which micro-batch. */
#ifndef FT_PLAN_SHARES_H
#define FT_PLAN_SHARES_H

#include "base/arena.h"
#include "plan/plan.h"

/* How a stage's micro-batches are dealt to its replicas. A replica is a "seat": seats of all stages
 * have numbers, first + replica. */
typedef struct ft_stage_share {
    int first; /* seat of replica 0 */
    int n;
    int rule;       /* ft_replica_rule */
    int per_batch;  /* micro-batches per batch of one replica */
    int joint;      /* of these, so many go forward as one */
    int64_t micros; /* per batch */
} ft_stage_share;

typedef struct ft_seating {
    int n_stages, n_seats;
    const ft_stage_share *of; /* by stage */
    const int *seat_device, *seat_stage;
    bool several; /* some stage has more than one replica */
} ft_seating;

/* Where stages are: devices replica_device[replica_first[s]] ..., or, without these, device[s]. */
typedef struct ft_seat_request {
    int n_stages, n_devices, micro_batches;
    const int *device, *replica_first, *replica_device;
    const uint8_t *replica_rule; /* may be NULL */
    const int *joint;            /* by stage; NULL: 1 everywhere */
} ft_seat_request;

/* FT_INVALID when a stage has one device twice, or micro_batches cannot be dealt to its replicas,
 * or there made joint. */
ft_status ft_seating_new(ft_seating *out, ft_arena *arena, const ft_seat_request *q, ft_error *err);
ft_status ft_seating_of_plan(ft_seating *out, ft_arena *arena, const ft_plan *plan, ft_error *err);

/* The replica that has micro-batch `index` of the leg, and its number there. */
int ft_share_replica(const ft_stage_share *s, int64_t index);
int64_t ft_share_local(const ft_stage_share *s, int64_t index);
/* The number in the leg of the replica's local-th micro-batch. */
int64_t ft_share_index(const ft_stage_share *s, int replica, int64_t local);
/* How many micro-batches the forward of that one takes at once: those from it on; 0: it is among
 * those of an earlier one. */
int ft_share_joint(const ft_stage_share *s, int64_t index);
/* Whether what passes along the edge, of micro-batches, stays on its device; an S and a V then take
 * it through host memory, where the edge's slots are. */
bool ft_edge_stays(const ft_plan *plan, const ft_edge *edge);
/* Whether two stages have their replicas on the same devices, in the same order. */
bool ft_seats_together(const ft_seating *all, int a, int b);
/* The stage's seat on that device, or -1. */
int ft_seat_of(const ft_seating *all, int stage, int device);

/* Actions of a plan name their stage. The same action of a seat: with the stage's seat on the
 * device, which has one, in its place; all below are asked with such. */
ft_action ft_seated(const ft_seating *all, int device, ft_action action);
/* The number, among those of its seat, of the action's micro-batch or batch in the leg. */
int64_t ft_seat_index(const ft_seating *all, const ft_action *action);
/* Whether the action is the first, or the last, of its batch in its seat. */
bool ft_seat_is_first(const ft_seating *all, const ft_action *action);
bool ft_seat_is_last(const ft_seating *all, const ft_action *action);
/* Whether the action's micro-batch passes through another seat too; what is per batch does. */
bool ft_seat_has(const ft_seating *all, int seat, const ft_action *action);

#endif
