/* test/simulate_case.h - simulated times of the pipelines of test/schedule_cases.h. */
#ifndef FT_TEST_SIMULATE_CASE_H
#define FT_TEST_SIMULATE_CASE_H

#include "schedule_cases.h"

static inline ft_timeline *simulate(const ft_plan *plan, const ft_simulation *options)
{
    ft_error err = {0};
    ft_timeline *timeline = NULL;
    if (plan && !CHECK_STATUS(ft_plan_simulate_on(&timeline, plan, options, &err), FT_OK))
        fprintf(stderr, "%s\n", err.message);
    return timeline;
}

static inline int64_t end_of(const pipeline_case *c, const char *name)
{
    ft_plan *plan = case_plan(c, name);
    ft_timeline *timeline = simulate(plan, &(ft_simulation){.costs = &c->costs});
    int64_t end = timeline ? ft_timeline_end_ns(timeline) : -1;
    ft_timeline_free(timeline);
    ft_plan_free(plan);
    return end;
}

#endif
