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
} ft_seat_request;

/* FT_INVALID when a stage has one device twice, or replicas that micro_batches cannot be dealt to.
 */
ft_status ft_shares_new(ft_seating *out, ft_arena *arena, const ft_seat_request *q, ft_error *err);
ft_status ft_shares_of_plan(ft_seating *out, ft_arena *arena, const ft_plan *plan, ft_error *err);

/* The replica that has micro-batch `index` of the leg, and its number there. */
int ft_share_replica(const ft_stage_share *s, int64_t index);
int64_t ft_share_local(const ft_stage_share *s, int64_t index);
/* The number in the leg of the replica's local-th micro-batch. */
int64_t ft_share_index(const ft_stage_share *s, int replica, int64_t local);
/* The stage's replica on that device, or -1. */
int ft_shares_find(const ft_seating *all, int stage, int device);

#endif
