/* test/test_proof_cut.c - a short leg is a long one without its later actions. */
#include "check.h"
#include "proof/proof.h"
#include "schedule_cases.h"

#include "base/alloc.h"

/* The device's actions of batches below `until`, one stage's or (-1) all; returns how many. */
static int list_actions(const ft_plan *plan, int device, int stage, int until, ft_action *out,
                        int most)
{
    int n = 0;
    for (int64_t i = 0; i < ft_plan_length(plan, device) && n < most; i++) {
        ft_action a = ft_plan_at(plan, device, i);
        if ((stage < 0 || a.stage == stage) && a.batch < until) out[n++] = a;
    }
    return n;
}

static bool same_actions(const ft_plan *a, const ft_plan *b, int stage, int until)
{
    enum { MOST = 1 << 15 };
    static ft_action of_a[MOST], of_b[MOST];
    for (int d = 0; d < a->n_devices; d++) {
        int n = list_actions(a, d, stage, until, of_a, MOST);
        if (n != list_actions(b, d, stage, until, of_b, MOST) || n == MOST ||
            memcmp(of_a, of_b, (size_t)n * sizeof *of_a))
            return false;
    }
    return true;
}

static bool same_text(const ft_plan *a, const ft_plan *b)
{
    ft_error err = {0};
    ft_text of_a = {0}, of_b = {0};
    bool same = CHECK_STATUS(ft_plan_write(a, &of_a, &err), FT_OK) &&
                CHECK_STATUS(ft_plan_write(b, &of_b, &err), FT_OK) && !strcmp(of_a.data, of_b.data);
    if (!same) fprintf(stderr, "%s\n-- against\n%s\n", of_a.data, of_b.data);
    ft_text_fini(&of_a);
    ft_text_fini(&of_b);
    return same;
}

static bool shares_devices(const ft_plan *p)
{
    int n[CASE_STAGES] = {0};
    for (int s = 0; s < p->n_stages; s++)
        for (int i = p->replica_first[s]; i < p->replica_first[s + 1]; i++)
            if (n[p->replica_device[i]]++) return true;
    return false;
}

/* The cut plan is proven, has what the long one has of its batches, and is the plan that is made
 * for so many: to the letter where a device has one stage, else stage by stage. */
static void check_cut(pipeline_case *c, const ft_schedule *schedule, const ft_plan *plan,
                      int n_batches, const char *of)
{
    ft_error err = {0};
    ft_plan *cut = NULL, *made = NULL;
    int whole = c->pipeline.n_batches;
    c->pipeline.n_batches = n_batches;
    bool ok = CHECK_STATUS(ft_plan_cut(&cut, plan, n_batches, &err), FT_OK) &&
              CHECK_STATUS(ft_plan_check(cut, &err), FT_OK) && CHECK(cut->n_batches == n_batches) &&
              CHECK(same_actions(cut, plan, -1, n_batches)) &&
              CHECK_STATUS(ft_plan_make(&made, &c->pipeline, schedule, &err), FT_OK);
    for (int s = 0; ok && s < plan->n_stages; s++)
        ok = CHECK(same_actions(cut, made, s, n_batches)) &&
             CHECK(cut->in_flight[s] == made->in_flight[s]) &&
             CHECK(cut->versions[s] == made->versions[s]);
    if (ok && (schedule->interleaves || !shares_devices(plan))) ok = CHECK(same_text(cut, made));
    if (!ok)
        fprintf(stderr, "%s, %s: %d batches of %d: %s\n", of, schedule->name, n_batches, whole,
                err.message);
    c->pipeline.n_batches = whole;
    ft_plan_free(cut);
    ft_plan_free(made);
}

static void check_cuts(pipeline_case *c, const ft_schedule *schedule, ft_rng *rng, const char *of)
{
    ft_error err = {0};
    ft_plan *plan = NULL;
    if (!CHECK_STATUS(ft_plan_make(&plan, &c->pipeline, schedule, &err), FT_OK)) {
        fprintf(stderr, "%s, %s: %s\n", of, schedule->name, err.message);
        return;
    }
    int n = plan->n_batches;
    check_cut(c, schedule, plan, n, of);
    check_cut(c, schedule, plan, 1, of);
    for (int i = 0; i < 3; i++)
        check_cut(c, schedule, plan, 1 + (int)ft_rng_below(rng, (uint64_t)n), of);
    ft_plan_free(plan);
}

/* Every schedule that plays any pipeline; those that are never drained with all kinds of weights.
 */
static void test_random_cuts(void)
{
    for (int seed = 0; seed < CASES(150); seed++) {
        ft_rng rng;
        pipeline_case c;
        char of[32];
        ft_rng_init(&rng, 4, (uint64_t)seed);
        case_random(&c, &rng);
        snprintf(of, sizeof of, "seed %d", seed);
        if (seed % 3 == 0) c.pipeline.n_batches = 40 + (int)ft_rng_below(&rng, 300);
        case_walk walk = {.all_weights = true};
        for (const ft_schedule *s; (s = case_next(&c, &walk));) check_cuts(&c, s, &rng, of);
    }
}

static void test_cuts_of_stages_in_turns(void)
{
    for (int seed = 0; seed < 20; seed++) {
        ft_rng rng;
        pipeline_case c;
        ft_rng_init(&rng, 5, (uint64_t)seed);
        int n_devices = 1 + (int)ft_rng_below(&rng, 3), chunks = 1 + (int)ft_rng_below(&rng, 3);
        int micros = n_devices * (1 + (int)ft_rng_below(&rng, 3));
        case_chain(&c, n_devices * chunks, micros, 1 + (int)ft_rng_below(&rng, 60), micros, 10, 20);
        c.pipeline.n_devices = n_devices;
        for (int s = 0; s < n_devices * chunks; s++) c.device[s] = s % n_devices;
        check_cuts(&c, ft_schedule_find("interleaved"), &rng, "in turns");
    }
}

static void test_cuts_of_replicas(void)
{
    for (int i = 0; ft_schedules[i]; i++) {
        ft_rng rng;
        pipeline_case c;
        ft_rng_init(&rng, 6, (uint64_t)i);
        if (ft_schedules[i]->interleaves || ft_schedules[i]->groups) continue;
        if (ft_schedules[i]->splits) continue;
        case_replicas(&c, 50);
        check_cuts(&c, ft_schedules[i], &rng, "replicas");
    }
}

/* Millions of actions are cut without writing them out. */
static void test_cut_of_a_long_leg(void)
{
    pipeline_case c;
    ft_error err = {0};
    case_chain(&c, 4, 3, 200000, 4, 10, 20);
    ft_plan *plan = case_plan(&c, "async"), *cut = NULL, *made = NULL;
    if (!plan) return;
    c.pipeline.n_batches = 123457;
    made = case_plan(&c, "async");
    if (CHECK_STATUS(ft_plan_cut(&cut, plan, 123457, &err), FT_OK) && made) {
        CHECK_STATUS(ft_plan_check(cut, &err), FT_OK);
        CHECK(cut->body_repeats > 123000);
        for (int d = 0; d < 4; d++) {
            bool same = ft_plan_length(cut, d) == ft_plan_length(made, d);
            for (int64_t i = 0; same && i < ft_plan_length(cut, d); i++) {
                ft_action a = ft_plan_at(cut, d, i), b = ft_plan_at(made, d, i);
                same = !memcmp(&a, &b, sizeof a);
            }
            CHECK(same);
        }
    }
    ft_plan_free(plan);
    ft_plan_free(cut);
    ft_plan_free(made);
}

static void test_what_cannot_be_cut(void)
{
    pipeline_case c;
    ft_error err = {0};
    case_chain(&c, 2, 2, 5, 2, 10, 20);
    ft_plan *plan = case_plan(&c, "1f1b"), *cut = NULL;
    if (!plan) return;
    CHECK_STATUS(ft_plan_cut(&cut, plan, 0, &err), FT_INVALID);
    CHECK_STATUS(ft_plan_cut(&cut, plan, 6, &err), FT_INVALID);
    CHECK(strstr(err.message, "6 batches of it, expected 1 to 5, for which") && !cut);
    ft_plan_free(plan);
}

int main(void)
{
    RUN(test_random_cuts);
    RUN(test_cuts_of_stages_in_turns);
    RUN(test_cuts_of_replicas);
    RUN(test_cut_of_a_long_leg);
    RUN(test_what_cannot_be_cut);
    return check_report();
}
