/* test/test_schedule_random.c - what holds for every plan, on random pipelines. */
#include "check.h"
#include "proof/proof.h"
#include "schedule_cases.h"

/* F, B, R, U and W of every stage once each, in their order. */
static void check_complete(const pipeline_case *c, const ft_plan *plan)
{
    int64_t next[CASE_STAGES][FT_ACT_COUNT] = {{0}};
    bool in_order = true, at_home = true, complete = true;
    for (int d = 0; d < plan->n_devices; d++)
        for (int64_t i = 0; i < ft_plan_length(plan, d); i++) {
            ft_action a = ft_plan_at(plan, d, i);
            if (ft_action_index(plan, &a) != next[a.stage][a.kind]++) in_order = false;
            if (c->device[a.stage] != d) at_home = false;
        }
    for (int s = 0; s < plan->n_stages; s++) {
        int64_t batches = plan->n_batches, adopts = 0;
        for (int e = 0; e < plan->n_edges; e++)
            if (plan->edges[e].to == s && plan->edges[e].to_kind == FT_ACT_ADOPT) adopts = batches;
        int64_t micros = batches * plan->micro_batches, splits = next[s][FT_ACT_BACKWARD_WEIGHT];
        if (next[s][FT_ACT_FORWARD] != micros ||
            next[s][FT_ACT_BACKWARD] != (splits ? 0 : micros) ||
            next[s][FT_ACT_BACKWARD_INPUT] != splits || (splits && splits != micros) ||
            next[s][FT_ACT_REDUCE] != (c->pipeline.reduces ? batches : 0) ||
            next[s][FT_ACT_UPDATE] != batches || next[s][FT_ACT_ADOPT] != adopts)
            complete = false;
    }
    CHECK(in_order);
    CHECK(at_home);
    CHECK(complete);
}

static void check_lags(const ft_plan *plan, bool synchronous)
{
    int most = 0;
    bool within = true;
    for (int d = 0; d < plan->n_devices; d++)
        for (int64_t i = 0; i < ft_plan_length(plan, d); i++) {
            ft_action a = ft_plan_at(plan, d, i);
            int depth = plan->depth[a.stage];
            if (a.lag > most) most = a.lag;
            int allowed = (depth + plan->micro_batches - 1) / plan->micro_batches;
            if (plan->versions[a.stage] > 1 && allowed < 1) allowed = 1; /* 2bw */
            if (a.lag > allowed) within = false;
        }
    CHECK(within);
    CHECK(!synchronous || most == 0);
}

/* One action at a time per device, each after its data: the timeline is a possible one. */
static void check_times(const pipeline_case *c, const ft_plan *plan)
{
    ft_error err = {0};
    ft_timeline *timeline = NULL;
    if (!CHECK_STATUS(ft_plan_simulate(&timeline, plan, &c->costs, &err), FT_OK)) return;
    static int64_t start[CASE_STAGES][FT_ACT_COUNT][64], end[CASE_STAGES][FT_ACT_COUNT][64];
    bool alone = true, after_data = true;
    for (int64_t i = 0; i < timeline->n_events; i++) {
        const ft_event *e = &timeline->events[i];
        if (i && e[-1].device == e->device && e[-1].end_ns > e->start_ns) alone = false;
        int64_t index = e->batch;
        if (ft_action_per_micro(e->kind)) index = index * plan->micro_batches + e->micro;
        start[e->stage][e->kind][index] = e->start_ns;
        end[e->stage][e->kind][index] = e->end_ns;
    }
    for (int e = 0; e < plan->n_edges; e++) {
        const ft_edge *edge = &plan->edges[e];
        int64_t n = plan->n_batches;
        if (ft_action_per_micro(edge->from_kind)) n *= plan->micro_batches;
        for (int64_t i = 0; i < n; i++) {
            int64_t arrival = end[edge->from][edge->from_kind][i] + (int64_t)c->transfer_ns[e];
            if (start[edge->to][edge->to_kind][i] < arrival) after_data = false;
            if (i >= edge->slots && start[edge->from][edge->from_kind][i] <
                                        end[edge->to][edge->to_kind][i - edge->slots])
                after_data = false;
        }
    }
    CHECK(alone);
    CHECK(after_data);
    ft_timeline_free(timeline);
}

static void check_text(const ft_plan *plan)
{
    ft_error err = {0};
    ft_text once = {0}, twice = {0};
    ft_plan *again = NULL;
    CHECK_STATUS(ft_plan_write(plan, &once, &err), FT_OK);
    if (CHECK_STATUS(ft_plan_parse(&again, once.data, &err), FT_OK)) {
        CHECK_STATUS(ft_plan_check(again, &err), FT_OK);
        CHECK_STATUS(ft_plan_write(again, &twice, &err), FT_OK);
        CHECK(!strcmp(once.data, twice.data));
    } else
        fprintf(stderr, "%s\n", err.message);
    ft_plan_free(again);
    ft_text_fini(&once);
    ft_text_fini(&twice);
}

/* The plan's actions of one stage, those of batches below `until`; returns how many. */
static int stage_actions(const ft_plan *plan, int stage, int until, ft_action *out)
{
    int n = 0, device = plan->device[stage];
    for (int64_t i = 0; i < ft_plan_length(plan, device); i++) {
        ft_action a = ft_plan_at(plan, device, i);
        if (a.stage == stage && a.batch < until) out[n++] = a;
    }
    return n;
}

/* A shorter leg is the longer one without the batches after it: what draining early relies on. */
static void check_shorter_leg(pipeline_case *c, const ft_plan *plan, int batches)
{
    enum { MOST = 9 * (4 * 6 + 6) }; /* batches, with halves of backwards */
    ft_error err = {0};
    ft_plan *shorter = NULL;
    int n_batches = c->pipeline.n_batches;
    c->pipeline.n_batches = batches;
    if (CHECK_STATUS(ft_plan_make(&shorter, &c->pipeline, ft_schedule_find(plan->schedule), &err),
                     FT_OK))
        for (int s = 0; s < plan->n_stages; s++) {
            ft_action some[MOST] = {{0}}, all[MOST] = {{0}};
            int n = stage_actions(plan, s, batches, some);
            CHECK(n == stage_actions(shorter, s, batches, all));
            CHECK(!memcmp(some, all, sizeof some));
        }
    c->pipeline.n_batches = n_batches;
    ft_plan_free(shorter);
}

static void test_random_plans(void)
{
    for (int seed = 0; seed < CASES(600); seed++) {
        ft_rng rng;
        pipeline_case c;
        ft_error err = {0};
        ft_rng_init(&rng, 1, (uint64_t)seed);
        case_random(&c, &rng);
        case_walk walk = {0};
        for (const ft_schedule *s; (s = case_next(&c, &walk));) {
            ft_plan *plan = NULL;
            if (!CHECK_STATUS(ft_plan_make(&plan, &c.pipeline, s, &err), FT_OK)) {
                fprintf(stderr, "seed %d, %s: %s\n", seed, s->name, err.message);
                continue;
            }
            CHECK_STATUS(ft_plan_check(plan, &err), FT_OK);
            check_complete(&c, plan);
            check_lags(plan, s->synchronous);
            check_times(&c, plan);
            check_text(plan);
            check_shorter_leg(&c, plan, 1 + seed % plan->n_batches);
            ft_plan_free(plan);
        }
    }
}

/* Legs whose middle was not played but repeated are complete, provable, and no staler. */
static void test_long_legs_are_extended_rightly(void)
{
    int folded = 0;
    for (int seed = 0; seed < CASES(60); seed++) {
        ft_rng rng;
        pipeline_case c;
        ft_error err = {0};
        ft_rng_init(&rng, 2, (uint64_t)seed);
        case_random(&c, &rng);
        c.pipeline.n_batches = 300 + (int)ft_rng_below(&rng, 50);
        case_walk walk = {0};
        for (const ft_schedule *s; (s = case_next(&c, &walk));) {
            ft_plan *plan = NULL;
            if (!CHECK_STATUS(ft_plan_make(&plan, &c.pipeline, s, &err), FT_OK)) continue;
            CHECK_STATUS(ft_plan_check(plan, &err), FT_OK);
            check_complete(&c, plan);
            check_lags(plan, s->synchronous);
            folded += plan->body_repeats > 50;
            ft_plan_free(plan);
        }
    }
    CHECK(folded > CASES(200));
}

/* No list with two actions of one kind swapped, one left out or one twice passes the check. */
static void test_damaged_lists_are_caught(void)
{
    for (int seed = 0; seed < CASES(200); seed++) {
        ft_rng rng;
        pipeline_case c;
        ft_error err = {0};
        ft_plan *plan = NULL;
        ft_rng_init(&rng, 3, (uint64_t)seed);
        case_random(&c, &rng);
        const ft_schedule *schedule = ft_schedules[ft_rng_below(&rng, 4)]; /* whole ones */
        if (!CHECK_STATUS(ft_plan_make(&plan, &c.pipeline, schedule, &err), FT_OK)) continue;
        int d = c.device[0];
        ft_action_list *list = (ft_action_list *)(uintptr_t)&plan->devices[d].warmup;
        if (!list->n) list = (ft_action_list *)(uintptr_t)&plan->devices[d].body;
        ft_action *actions = (ft_action *)(uintptr_t)list->actions;
        int i = (int)ft_rng_below(&rng, (uint64_t)list->n);
        ft_action whole = actions[i];
        for (int j = 0; j < list->n; j++) {
            if (j == i || actions[j].stage != whole.stage || actions[j].kind != whole.kind)
                continue;
            actions[i] = actions[j];
            CHECK_STATUS(ft_plan_check(plan, &err), FT_INVALID); /* twice */
            actions[j] = whole;
            CHECK_STATUS(ft_plan_check(plan, &err), FT_INVALID); /* swapped */
            actions[j] = actions[i];
            actions[i] = whole;
        }
        list->n--;
        CHECK(ft_plan_check(plan, &err) != FT_OK);
        list->n++;
        CHECK_STATUS(ft_plan_check(plan, &err), FT_OK);
        ft_plan_free(plan);
    }
}

int main(void)
{
    RUN(test_random_plans);
    RUN(test_long_legs_are_extended_rightly);
    RUN(test_damaged_lists_are_caught);
    return check_report();
}
