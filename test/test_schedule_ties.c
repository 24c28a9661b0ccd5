/* test/test_schedule_ties.c - weights that several stages share, wherever these stages are. */
#include <stdlib.h>

#include "check.h"
#include "plan/making.h"
#include "proof/proof.h"
#include "schedule_cases.h"

/* Longest path to a stage without forward edges out; edges lead to higher stages. */
static void find_depths(const pipeline_case *c, int *depth)
{
    memset(depth, 0, CASE_STAGES * sizeof *depth);
    for (int s = c->pipeline.n_stages - 1; s >= 0; s--)
        for (int e = 0; e < c->pipeline.n_edges; e++) {
            const ft_edge *edge = &c->edges[e];
            if (edge->from == s && edge->from_kind == FT_ACT_FORWARD &&
                depth[s] < depth[edge->to] + 1)
                depth[s] = depth[edge->to] + 1;
        }
}

/* Any number of stages without data from others, branches that meet, stages that share devices. */
static void random_branches(pipeline_case *c, ft_rng *rng)
{
    int n = 2 + (int)ft_rng_below(rng, 11), m = 1 + (int)ft_rng_below(rng, 10);
    case_init(c, n, m, 1 + (int)ft_rng_below(rng, 12));
    c->pipeline.n_devices = 1 + (int)ft_rng_below(rng, 5);
    for (int s = 0; s < n; s++)
        c->device[s] = (int)ft_rng_below(rng, (uint64_t)c->pipeline.n_devices);
    for (int s = 0; s < n - 1; s++) {
        int next = s + 1 + (int)ft_rng_below(rng, (uint64_t)(n - s - 1));
        for (int t = s + 1; t < n; t++) {
            if (t != next && ft_rng_below(rng, 5)) continue;
            case_edge(c, s, FT_ACT_FORWARD, t, FT_ACT_FORWARD, 1);
            if (ft_rng_below(rng, 6)) case_edge(c, t, FT_ACT_BACKWARD, s, FT_ACT_BACKWARD, 1);
        }
    }
}

static bool has_edge(const pipeline_case *c, int from, int to, ft_action_kind kind)
{
    for (int e = 0; e < c->pipeline.n_edges; e++)
        if (c->edges[e].from == from && c->edges[e].to == to && c->edges[e].from_kind == kind)
            return true;
    return false;
}

/* Several weights, each with its users and an owner among them: the one that comes first in some
 * order of all stages, which has nothing to do with their depths. */
static void random_ties(pipeline_case *c, ft_rng *rng)
{
    int n = c->pipeline.n_stages, rank[CASE_STAGES];
    for (int s = 0; s < n; s++) {
        int other = (int)ft_rng_below(rng, (uint64_t)s + 1);
        rank[s] = rank[other];
        rank[other] = s;
    }
    for (int weights = 1 + (int)ft_rng_below(rng, 3); weights; weights--) {
        bool uses[CASE_STAGES];
        int owner = -1;
        for (int s = 0; s < n; s++) {
            uses[s] = !ft_rng_below(rng, 3);
            if (uses[s] && (owner < 0 || rank[s] < rank[owner])) owner = s;
        }
        for (int s = 0; s < n; s++)
            if (owner >= 0 && uses[s] && s != owner && !has_edge(c, s, owner, FT_ACT_REDUCE))
                case_tie(c, owner, s, 1);
    }
}

/* As many slots as the engine begins with: the difference of depths, and one more. */
static void choose_slots(pipeline_case *c)
{
    int depth[CASE_STAGES];
    find_depths(c, depth);
    for (int e = 0; e < c->pipeline.n_edges; e++) {
        ft_edge *edge = &c->edges[e];
        int ahead = abs(depth[edge->from] - depth[edge->to]);
        edge->slots = ft_action_per_micro(edge->from_kind) ? ahead + 1
                                                           : ahead / c->pipeline.micro_batches + 2;
    }
}

static void try_schedule(pipeline_case *c, const ft_schedule *schedule, const char *of)
{
    ft_error err = {0};
    ft_plan *plan = NULL;
    if (!CHECK_STATUS(ft_plan_make(&plan, &c->pipeline, schedule, &err), FT_OK) ||
        !CHECK_STATUS(ft_plan_check(plan, &err), FT_OK))
        fprintf(stderr, "%s, %s, %s: %s\n", of, schedule->name,
                ft_weights_word(c->pipeline.weights), err.message);
    ft_plan_free(plan);
}

/* Every schedule, and those without a drain with every way to choose weights, completes. */
static void test_ties_in_any_direction_complete(void)
{
    for (int seed = 0; seed < CASES(400); seed++) {
        ft_rng rng;
        pipeline_case c;
        char of[32];
        snprintf(of, sizeof of, "seed %d", seed);
        ft_rng_init(&rng, 7, (uint64_t)seed);
        random_branches(&c, &rng);
        random_ties(&c, &rng);
        choose_slots(&c);
        case_random_costs(&c, &rng);
        case_walk walk = {.all_weights = true};
        for (const ft_schedule *s; (s = case_next(&c, &walk));) try_schedule(&c, s, of);
    }
}

/* More buffers than needed change nothing: what a stage does follows from its rule. */
static void test_more_buffers_are_as_good(void)
{
    for (int seed = 0; seed < CASES(100); seed++) {
        ft_rng rng;
        pipeline_case c;
        ft_rng_init(&rng, 8, (uint64_t)seed);
        random_branches(&c, &rng);
        random_ties(&c, &rng);
        choose_slots(&c);
        for (int e = 0; e < c.pipeline.n_edges; e++) c.edges[e].slots += (int)ft_rng_below(&rng, 4);
        try_schedule(&c, ft_schedule_find("async"), "more buffers");
    }
}

static int64_t played_ns(const ft_plan *plan, uint64_t seed)
{
    ft_error err = {0};
    ft_timeline *timeline = NULL;
    const ft_simulation options = {.delay_ns = 300, .seed = seed};
    if (!CHECK_STATUS(ft_plan_simulate_on(&timeline, plan, &options, &err), FT_OK)) return -1;
    int64_t ns = ft_timeline_end_ns(timeline);
    ft_timeline_free(timeline);
    return ns;
}

/* Slots that are taken away were never full: no order and no time changes, whatever takes long. */
static void compare_trimmed(const pipeline_case *c, const ft_schedule *schedule, int *taken,
                            int *kept)
{
    ft_error err = {0};
    ft_plan *whole = NULL, *trimmed = NULL;
    ft_pipeline pipeline = c->pipeline;
    if (ft_plan_make(&whole, &pipeline, schedule, &err) != FT_OK) return; /* would be given more */
    pipeline.most_slots = FT_PLAN_MAX_SLOTS;
    if (!CHECK_STATUS(ft_plan_make(&trimmed, &pipeline, schedule, &err), FT_OK)) goto done;
    CHECK_STATUS(ft_plan_check(trimmed, &err), FT_OK);
    for (int e = 0; e < whole->n_edges; e++) {
        bool per_micro = ft_action_per_micro(whole->edges[e].from_kind);
        int before = whole->edges[e].slots, after = trimmed->edges[e].slots;
        CHECK(per_micro ? after == before : after >= 1 && after <= before);
        if (per_micro) continue;
        *taken += before - after;
        *kept += after > 1;
    }
    for (uint64_t seed = 1; seed < 4; seed++)
        CHECK(played_ns(whole, seed) == played_ns(trimmed, seed));
done:
    ft_plan_free(whole);
    ft_plan_free(trimmed);
}

static void test_slots_that_are_never_full_are_taken_away(void)
{
    int taken = 0, kept = 0;
    for (int seed = 0; seed < CASES(100); seed++) {
        ft_rng rng;
        pipeline_case c;
        ft_rng_init(&rng, 9, (uint64_t)seed);
        random_branches(&c, &rng);
        random_ties(&c, &rng);
        choose_slots(&c);
        case_random_costs(&c, &rng);
        case_walk walk = {.all_weights = true};
        for (const ft_schedule *s; (s = case_next(&c, &walk));)
            compare_trimmed(&c, s, &taken, &kept);
    }
    CHECK(taken > 0 && kept > 0);
}

/* With a drain, an owner and the stage that copies it wait for each other in every batch; without
 * one, either may be a batch ahead. */
static void test_slots_of_a_tied_weight(void)
{
    static const struct {
        const char *schedule;
        int owner, user, gradients, weights;
    } rows[] = {{"1f1b", 0, 3, 1, 1}, {"gpipe", 3, 0, 1, 1}, {"async", 0, 3, 2, 2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pipeline_case c;
        ft_error err = {0};
        ft_plan *plan = NULL;
        case_chain(&c, 4, 2, 40, 5, 10, 20);
        case_tie(&c, rows[i].owner, rows[i].user, 5);
        c.pipeline.most_slots = 64;
        if (!CHECK_STATUS(
                ft_plan_make(&plan, &c.pipeline, ft_schedule_find(rows[i].schedule), &err), FT_OK))
            continue;
        const ft_edge *tie = &plan->edges[plan->n_edges - 2];
        if (!CHECK(tie[0].slots == rows[i].gradients && tie[1].slots == rows[i].weights))
            fprintf(stderr, "%s: %d and %d\n", rows[i].schedule, tie[0].slots, tie[1].slots);
        ft_plan_free(plan);
    }
}

/* Updates of the owner that the stage has taken over, before its forward of each micro-batch. */
static int versions_read(const ft_plan *plan, int stage, ft_action_kind kind, int *at)
{
    int n = 0, updates = 0, device = plan->device[stage];
    for (int64_t i = 0; i < ft_plan_length(plan, device); i++) {
        ft_action a = ft_plan_at(plan, device, i);
        if (a.stage != stage) continue;
        if (a.kind == FT_ACT_FORWARD) at[n++] = updates;
        updates += a.kind == kind;
    }
    return n;
}

/* Where the owner is not nearer to the loss than the other stage, one micro-batch reads one version
 * of the weight; where it is, the other stage is as far behind as its own weights are. */
static void test_versions_of_tied_weights(void)
{
    for (int owner = 0; owner < 4; owner++)
        for (int user = 0; user < 4; user++) {
            pipeline_case c;
            int of_owner[64] = {0}, of_user[64] = {0}, own[64] = {0};
            if (owner == user) continue;
            case_chain(&c, 4, 2, 8, 5, 10, 20);
            case_tie(&c, owner, user, 4);
            ft_plan *plan = case_plan(&c, "async");
            if (!plan) continue;
            CHECK(versions_read(plan, owner, FT_ACT_UPDATE, of_owner) == 16);
            versions_read(plan, user, FT_ACT_ADOPT, of_user);
            versions_read(plan, user, FT_ACT_UPDATE, own);
            CHECK(!memcmp(of_user, owner < user ? of_owner : own, sizeof own));
            ft_plan_free(plan);
        }
}

static void test_owners_in_a_circle_are_named(void)
{
    pipeline_case c;
    ft_error err = {0};
    ft_plan *plan = NULL;
    case_chain(&c, 3, 4, 2, 3, 10, 20);
    case_tie(&c, 0, 2, 3);
    case_tie(&c, 2, 0, 3);
    CHECK_STATUS(ft_plan_make(&plan, &c.pipeline, ft_schedule_find("1f1b"), &err), FT_INVALID);
    CHECK(strstr(err.message, "wait for each other's gradients in a circle, stage 0 is on it"));
    CHECK(!plan);
}

int main(void)
{
    RUN(test_ties_in_any_direction_complete);
    RUN(test_more_buffers_are_as_good);
    RUN(test_slots_that_are_never_full_are_taken_away);
    RUN(test_slots_of_a_tied_weight);
    RUN(test_versions_of_tied_weights);
    RUN(test_owners_in_a_circle_are_named);
    return check_report();
}
