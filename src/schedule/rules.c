/* schedule/rules.c - the schedules: one row each, one pure rule each.
 *
 * A rule sees one stage and says whether its next action is a forward or a backward. Micro-batches
 * go in their own order both ways, so that gradients are summed in the same order under every
 * schedule. Sources: Huang et al., "GPipe", arXiv:1811.06965; Narayanan et al., "PipeDream", SOSP
 * 2019, section 3.2 (one forward, one backward); Eliad et al., "FTPipe", USENIX ATC 2021 (without
 * flush, by depth). */
#include "schedule/schedule.h"

#include <string.h>

/* Every backward of the batches before the next forward's is done. */
static bool batch_is_open(const ft_stage_state *s)
{
    return s->forwards / s->micro_batches == s->backwards / s->micro_batches;
}

static ft_action_kind choose(bool forward) { return forward ? FT_ACT_FORWARD : FT_ACT_BACKWARD; }

static ft_action_kind sequential_next(const ft_stage_state *s)
{
    return choose(s->forwards == s->backwards);
}

static ft_action_kind gpipe_next(const ft_stage_state *s)
{
    return choose(batch_is_open(s));
}

static ft_action_kind one_f_one_b_next(const ft_stage_state *s)
{
    return choose(batch_is_open(s) && s->forwards - s->backwards <= s->depth);
}

static ft_action_kind async_next(const ft_stage_state *s)
{
    return choose(s->forwards - s->backwards <= s->depth);
}

static const ft_schedule sequential = {
    .name = "sequential",
    .doc = "one micro-batch at a time, forward and backward; the judge of the others",
    .synchronous = true,
    .next = sequential_next,
};

static const ft_schedule gpipe = {
    .name = "gpipe",
    .doc = "all forwards of a batch, then all its backwards, then the update",
    .synchronous = true,
    .next = gpipe_next,
};

static const ft_schedule one_f_one_b = {
    .name = "1f1b",
    .doc = "forwards and backwards in turn, drained at the end of each batch",
    .synchronous = true,
    .next = one_f_one_b_next,
};

static const ft_schedule async = {
    .name = "async",
    .doc = "forwards and backwards in turn, never drained; weights may be newer than the forward's",
    .synchronous = false,
    .next = async_next,
};

const ft_schedule ft_schedule_evaluate = {
    .name = "evaluate",
    .doc = "forwards alone, one micro-batch after the other",
    .forward_only = true,
};

const ft_schedule *const ft_schedules[] = {&sequential, &gpipe, &one_f_one_b, &async, NULL};

const ft_schedule *ft_schedule_find(const char *name)
{
    for (int i = 0; ft_schedules[i]; i++)
        if (!strcmp(ft_schedules[i]->name, name)) return ft_schedules[i];
    return strcmp(ft_schedule_evaluate.name, name) ? NULL : &ft_schedule_evaluate;
}
