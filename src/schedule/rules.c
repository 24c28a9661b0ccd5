/* schedule/rules.c - the schedules: one row each, one pure rule each.
 *
 * A rule sees one stage and says whether its next action is a forward or a backward. Micro-batches
 * go in their own order both ways, so that gradients are summed in the same order under every
 * schedule. Sources: Huang et al., "GPipe", arXiv:1811.06965; Narayanan et al., "PipeDream", SOSP
 * 2019, section 3.2 (one forward, one backward); Eliad et al., "FTPipe", USENIX ATC 2021 (without
 * flush, by depth); Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training", ICML 2021
 * (2BW); Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, section 2 (ZB-H1). */
#include "schedule/schedule.h"

#include <string.h>

/* Every backward of the batches before the next forward's is done. */
static bool batch_is_open(const ft_rule_state *s)
{
    return s->forwards / s->micro_batches == s->weights / s->micro_batches;
}

static ft_action_kind choose(bool forward)
{
    return forward ? FT_ACT_FORWARD : FT_ACT_BACKWARD;
}

static ft_action_kind sequential_next(const ft_rule_state *s)
{
    return choose(s->forwards == s->backwards);
}

static ft_action_kind gpipe_next(const ft_rule_state *s)
{
    return choose(batch_is_open(s));
}

static ft_action_kind one_f_one_b_next(const ft_rule_state *s)
{
    return choose(batch_is_open(s) && s->forwards - s->backwards <= s->depth);
}

static ft_action_kind async_next(const ft_rule_state *s)
{
    return choose(s->forwards - s->backwards <= s->depth);
}

static const ft_schedule sequential = {
    .name = "sequential",
    .doc = "one micro-batch at a time, forward and backward; the judge of the others",
    .synchronous = true,
    .serial = true,
    .next = sequential_next,
};

static const ft_schedule gpipe = {
    .name = "gpipe",
    .doc = "all forwards of a batch, then all its backwards, then the update",
    .synchronous = true,
    .flat = true,
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

static const ft_schedule double_buffered = {
    .name = "2bw",
    .doc = "as async with two weight buffers: each batch reads weights one update old",
    .synchronous = false,
    .weights = FT_WEIGHTS_DOUBLE,
    .next = async_next,
};

/* 1F1B with the input's gradient in the place of the backward. The weights' gradients wait, as many
 * as the stages before this one leave room for in memory: they fill the gaps at the end. */
static ft_action_kind zero_bubble_next(const ft_rule_state *s)
{
    if (s->backwards - s->weights > s->height) return FT_ACT_BACKWARD_WEIGHT;
    if (batch_is_open(s) && s->forwards - s->backwards <= s->depth) return FT_ACT_FORWARD;
    if (s->forwards > s->backwards) return FT_ACT_BACKWARD_INPUT;
    return FT_ACT_BACKWARD_WEIGHT;
}

static const ft_schedule zero_bubble = {
    .name = "zero-bubble",
    .doc = "1f1b with backward in halves; gradients of weights fill the bubbles (ZB-H1)",
    .synchronous = true,
    .splits = true,
    .next = zero_bubble_next,
};

static const ft_schedule zero_bubble_v = {
    .name = "zb-v",
    .doc = "zero-bubble with two stages per device, down the devices and up again (ZB-V)",
    .synchronous = true,
    .splits = true,
    .folds = true,
    .next = zero_bubble_next,
};

static const ft_schedule interleaved = {
    .name = "interleaved",
    .doc = "1f1b with several stages per device in turns, for smaller bubbles and more transfers",
    .synchronous = true,
    .interleaves = true,
    .next = one_f_one_b_next,
};

static const ft_schedule harmony_pp = {
    .name = "harmony-pp",
    .doc = "all micro-batches through one stage, then the next, each updated behind its backwards",
    .synchronous = true,
    .groups = true,
    .flat = true,
    .next = gpipe_next,
};

static const ft_schedule data_parallel = {
    .name = "data-parallel",
    .doc = "every device has the whole model and a share of each batch; the baseline",
    .synchronous = true,
    .replicates = true,
    .next = sequential_next,
};

static const ft_schedule harmony_dp = {
    .name = "harmony-dp",
    .doc = "as data-parallel, with all micro-batches of a device through one stage, then the next",
    .synchronous = true,
    .groups = true,
    .replicates = true,
    .flat = true,
    .next = gpipe_next,
};

const ft_schedule ft_schedule_evaluate = {
    .name = "evaluate",
    .doc = "forwards alone, one micro-batch after the other",
    .forward_only = true,
};

const ft_schedule *const ft_schedules[] = {
    &sequential,    &gpipe,       &one_f_one_b, &async,         &double_buffered, &zero_bubble,
    &zero_bubble_v, &interleaved, &harmony_pp,  &data_parallel, &harmony_dp,      NULL};

const ft_weights_row ft_weights_rows[FT_WEIGHTS_COUNT] = {
    [FT_WEIGHTS_OWN] = {"own", FT_READS_NEWEST, false, "those of the schedule"},
#define FT_WEIGHTS_ROW(name, word, reads, attenuates, doc)                                         \
    [FT_WEIGHTS_##name] = {word, FT_READS_##reads, attenuates, doc},
    FT_WEIGHTS_LIST(FT_WEIGHTS_ROW)
#undef FT_WEIGHTS_ROW
};

const char *ft_weights_word(ft_weights weights)
{
    return ft_weights_rows[weights].word;
}

bool ft_weights_keep(ft_weights weights)
{
    return ft_weights_rows[weights].reads == FT_READS_KEPT || ft_weights_rows[weights].attenuates;
}

const ft_schedule *ft_schedule_find(const char *name)
{
    for (int i = 0; ft_schedules[i]; i++)
        if (!strcmp(ft_schedules[i]->name, name)) return ft_schedules[i];
    return strcmp(ft_schedule_evaluate.name, name) ? NULL : &ft_schedule_evaluate;
}
