/* plan/owners.h - whose weights a stage takes over. */
#ifndef FT_PLAN_OWNERS_H
#define FT_PLAN_OWNERS_H

#include "base/arena.h"
#include "plan/plan.h"

/* Stages that stage s takes weights over from, by edges U->W, in their order: stages[first[s]] and
 * those before stages[first[s + 1]]. With replicas it may be one of its own. */
typedef struct ft_owners {
    int *first, *stages;
} ft_owners;

ft_status ft_owners_find(ft_owners *out, ft_arena *arena, const ft_plan *plan, ft_error *err);

#endif
