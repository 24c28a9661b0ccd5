/* test/schedule_cases.h - pipelines for the tests of plans. */
#ifndef FT_TEST_SCHEDULE_CASES_H
#define FT_TEST_SCHEDULE_CASES_H

#include <string.h>

#include "base/rng.h"
#include "check.h"
#include "planfile/planfile.h"
#include "proof/proof.h"
#include "schedule/schedule.h"
#include "simulate/simulate.h"

enum { CASE_STAGES = 16, CASE_EDGES = 256 };

/* A pipeline with the arrays that it points to. Not to be copied. */
typedef struct pipeline_case {
    ft_pipeline pipeline;
    ft_stage_costs costs;
    int device[CASE_STAGES];
    ft_edge edges[CASE_EDGES];
    double forward_ns[CASE_STAGES], backward_ns[CASE_STAGES], reduce_ns[CASE_STAGES];
    double update_ns[CASE_STAGES], adopt_ns[CASE_STAGES], transfer_ns[CASE_EDGES];
    double input_ns[CASE_STAGES], weight_ns[CASE_STAGES];
} pipeline_case;

static inline void case_edge(pipeline_case *c, int from, ft_action_kind from_kind, int to,
                             ft_action_kind to_kind, int slots)
{
    c->edges[c->pipeline.n_edges++] = (ft_edge){.from = from,
                                                .to = to,
                                                .from_kind = from_kind,
                                                .to_kind = to_kind,
                                                .bytes = 100 + from,
                                                .slots = slots};
}

static inline void case_init(pipeline_case *c, int n_stages, int micro_batches, int n_batches)
{
    memset(c, 0, sizeof *c);
    c->costs = (ft_stage_costs){.forward_ns = c->forward_ns,
                                .backward_ns = c->backward_ns,
                                .reduce_ns = c->reduce_ns,
                                .update_ns = c->update_ns,
                                .adopt_ns = c->adopt_ns,
                                .transfer_ns = c->transfer_ns,
                                .backward_input_ns = c->input_ns,
                                .backward_weight_ns = c->weight_ns};
    c->pipeline = (ft_pipeline){.n_stages = n_stages,
                                .n_devices = n_stages,
                                .device = c->device,
                                .micro_batches = micro_batches,
                                .n_batches = n_batches,
                                .edges = c->edges,
                                .costs = &c->costs};
    for (int s = 0; s < n_stages; s++) c->device[s] = s;
}

/* Stages one after the other, each on its device; forward and backward of these costs. */
static inline void case_chain(pipeline_case *c, int n_stages, int micro_batches, int n_batches,
                              int slots, double forward_ns, double backward_ns)
{
    case_init(c, n_stages, micro_batches, n_batches);
    for (int s = 0; s < n_stages; s++) {
        c->forward_ns[s] = forward_ns;
        c->backward_ns[s] = backward_ns;
        if (s == n_stages - 1) continue;
        case_edge(c, s, FT_ACT_FORWARD, s + 1, FT_ACT_FORWARD, slots);
        case_edge(c, s + 1, FT_ACT_BACKWARD, s, FT_ACT_BACKWARD, slots);
    }
}

/* Two stages, the first with two replicas that no X joins. */
static inline void case_replicas(pipeline_case *c, int n_batches)
{
    static const int first[] = {0, 2, 3}, device[] = {0, 1, 2};
    static const uint8_t rule[] = {FT_REPLICAS_ROUND_ROBIN, FT_REPLICAS_BLOCK};
    static const int64_t bytes[] = {100, 0};
    case_chain(c, 2, 4, n_batches, 4, 10, 20);
    c->pipeline.n_devices = 3;
    c->device[1] = 2;
    c->pipeline.replica_first = first;
    c->pipeline.replica_device = device;
    c->pipeline.replica_rule = rule;
    c->pipeline.reduce_bytes = bytes;
}

/* Norms from every stage to every other. */
static inline void case_norms(pipeline_case *c, int slots)
{
    c->pipeline.reduces = true;
    for (int s = 0; s < c->pipeline.n_stages; s++)
        for (int t = 0; t < c->pipeline.n_stages; t++)
            if (s != t) case_edge(c, s, FT_ACT_REDUCE, t, FT_ACT_UPDATE, slots);
}

/* The same without a flush: stages take the norms of those before them from earlier batches. */
static inline void case_late_norms(pipeline_case *c, int slots)
{
    c->pipeline.reduces = true;
    for (int s = 0; s < c->pipeline.n_stages; s++)
        for (int t = 0; t < c->pipeline.n_stages; t++)
            if (s != t)
                case_edge(c, s, FT_ACT_REDUCE, t, s < t ? FT_ACT_TAKE_NORMS : FT_ACT_UPDATE, slots);
}

/* A weight that `owner` updates and `replica` uses too. */
static inline void case_tie(pipeline_case *c, int owner, int replica, int slots)
{
    c->pipeline.reduces = true;
    case_edge(c, replica, FT_ACT_REDUCE, owner, FT_ACT_REDUCE, slots);
    case_edge(c, owner, FT_ACT_UPDATE, replica, FT_ACT_ADOPT, slots);
    for (int i = 1; i <= 2; i++) c->edges[c->pipeline.n_edges - i].bytes = 1 << 20;
}

static inline void case_random_costs(pipeline_case *c, ft_rng *rng)
{
    for (int s = 0; s < c->pipeline.n_stages; s++) {
        c->forward_ns[s] = (double)ft_rng_below(rng, 100);
        c->backward_ns[s] = (double)ft_rng_below(rng, 200);
        c->reduce_ns[s] = (double)ft_rng_below(rng, 20);
        c->update_ns[s] = (double)ft_rng_below(rng, 50);
        c->adopt_ns[s] = (double)ft_rng_below(rng, 20);
        c->input_ns[s] = (double)ft_rng_below(rng, 100);
        c->weight_ns[s] = (double)ft_rng_below(rng, 100);
    }
    for (int e = 0; e < c->pipeline.n_edges; e++)
        c->transfer_ns[e] = ft_rng_below(rng, 3) ? (double)ft_rng_below(rng, 60) : 0;
}

/* A chain with more edges forward over stages, ties and norms, on devices that stages share. Slots
 * are as many as the depths differ, and one more: with fewer, skipping edges may block. */
static inline void case_random(pipeline_case *c, ft_rng *rng)
{
    int n = 1 + (int)ft_rng_below(rng, 6), m = 1 + (int)ft_rng_below(rng, 6);
    case_init(c, n, m, 1 + (int)ft_rng_below(rng, 9));
    c->pipeline.n_devices = 1 + (int)ft_rng_below(rng, 4);
    for (int s = 0; s < n; s++)
        c->device[s] = (int)ft_rng_below(rng, (uint64_t)c->pipeline.n_devices);
    for (int s = 0; s < n; s++)
        for (int t = s + 1; t < n; t++) {
            if (t > s + 1 && ft_rng_below(rng, 4)) continue;
            int slots = t - s + (t > s + 1) + (int)ft_rng_below(rng, 2);
            case_edge(c, s, FT_ACT_FORWARD, t, FT_ACT_FORWARD, slots);
            if (ft_rng_below(rng, 5)) case_edge(c, t, FT_ACT_BACKWARD, s, FT_ACT_BACKWARD, slots);
        }
    c->pipeline.reduces = ft_rng_below(rng, 2);
    c->pipeline.is_bounded = ft_rng_below(rng, 3) == 0;
    c->pipeline.most_late = 1 + (int)ft_rng_below(rng, 2);
    if (ft_rng_below(rng, 2))
        case_norms(c, 1 + (n + m - 1) / m);
    else if (ft_rng_below(rng, 2))
        case_late_norms(c, 2 + (n + m - 1) / m);
    if (n > 1 && ft_rng_below(rng, 2)) {
        int owner = (int)ft_rng_below(rng, (uint64_t)n - 1);
        int replica = owner + 1 + (int)ft_rng_below(rng, (uint64_t)(n - owner - 1));
        case_tie(c, owner, replica, 2 + (n + m - 1) / m);
    }
    case_random_costs(c, rng);
}

/* Makes the pipeline one that the schedule can play: its edges carry what its backward gives. */
static inline void case_suit(pipeline_case *c, const ft_schedule *schedule)
{
    ft_action_kind kind = schedule->splits ? FT_ACT_BACKWARD_INPUT : FT_ACT_BACKWARD;
    for (int e = 0; e < c->pipeline.n_edges; e++) {
        ft_edge *edge = &c->edges[e];
        bool backward = edge->to_kind == FT_ACT_BACKWARD || edge->to_kind == FT_ACT_BACKWARD_INPUT;
        if (backward) edge->from_kind = edge->to_kind = kind;
    }
}

/* Whether any pipeline will do. */
static inline bool case_plays(const pipeline_case *c, const ft_schedule *schedule)
{
    if (schedule->interleaves || schedule->groups || schedule->folds || schedule->replicates)
        return false;
    return schedule->weights != FT_WEIGHTS_DOUBLE ||
           c->pipeline.micro_batches >= c->pipeline.n_stages;
}

/* Goes through the schedules that play any pipeline; starts zeroed. */
typedef struct case_walk {
    bool all_weights; /* with each way to choose weights that are late, where one may be chosen */
    int schedule, weights;
} case_walk;

/* The next schedule, NULL at the end; the case is made one that it can play. */
static inline const ft_schedule *case_next(pipeline_case *c, case_walk *at)
{
    c->pipeline.weights = FT_WEIGHTS_OWN;
    for (; ft_schedules[at->schedule]; at->schedule++, at->weights = 0) {
        const ft_schedule *schedule = ft_schedules[at->schedule];
        bool chooses = at->all_weights && !schedule->synchronous && !schedule->weights;
        while (case_plays(c, schedule) && at->weights < (chooses ? FT_WEIGHTS_COUNT : 1)) {
            int weights = at->weights++;
            if (weights == FT_WEIGHTS_DOUBLE && c->pipeline.micro_batches < c->pipeline.n_stages)
                continue;
            case_suit(c, schedule);
            c->pipeline.weights = (ft_weights)weights;
            return schedule;
        }
    }
    return NULL;
}

/* -- plans --------------------------------------------------------------------------------------
 */

/* Of a schedule by name; NULL, a failed check and what was wrong when there is none. */
static inline ft_plan *case_plan(const pipeline_case *c, const char *name)
{
    ft_error err = {0};
    ft_plan *plan = NULL;
    if (!CHECK_STATUS(ft_plan_make(&plan, &c->pipeline, ft_schedule_find(name), &err), FT_OK))
        fprintf(stderr, "%s: %s\n", name, err.message);
    return plan;
}

/* The same from its text. */
static inline ft_plan *case_parse(const char *text)
{
    ft_error err = {0};
    ft_plan *plan = NULL;
    if (!CHECK_STATUS(ft_plan_parse(&plan, text, &err), FT_OK))
        fprintf(stderr, "%s\n", err.message);
    return plan;
}

/* A plan's text in which `to` stands for the first `from`, and words of what is said of it. */
typedef struct plan_fault {
    const char *plan, *from, *to, *words;
} plan_fault;

/* Writes that text; false, told, where the plan has no `from`. */
static inline bool case_edit(const plan_fault *f, char *out, size_t size)
{
    const char *at = strstr(f->plan, f->from);
    if (!CHECK(at)) return false;
    snprintf(out, size, "%.*s%s%s", (int)(at - f->plan), f->plan, f->to, at + strlen(f->from));
    return true;
}

/* It does not parse, or the check refuses it; the message has the words. */
static inline void case_fault(const plan_fault *f, ft_status parses)
{
    char text[2048];
    ft_error err = {0};
    ft_plan *plan = NULL;
    if (!case_edit(f, text, sizeof text)) return;
    CHECK_STATUS(ft_plan_parse(&plan, text, &err), parses);
    CHECK(!plan == (parses != FT_OK));
    if (plan) CHECK(ft_plan_check(plan, &err) != FT_OK);
    if (!CHECK(strstr(err.message, f->words)))
        fprintf(stderr, "%s for %s said: %s\n", f->to, f->from, err.message);
    ft_plan_free(plan);
}

#endif
