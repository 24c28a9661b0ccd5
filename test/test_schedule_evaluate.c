/* test/test_schedule_evaluate.c - plans of forwards alone. */
#include "check.h"
#include "proof/proof.h"
#include "schedule_cases.h"

/* A chain without its edges backward. */
static void case_forwards(pipeline_case *c, int n_stages, int micro_batches, int n_batches,
                          int slots)
{
    case_chain(c, n_stages, micro_batches, n_batches, slots, 3, 0);
    int n = 0;
    for (int e = 0; e < c->pipeline.n_edges; e++)
        if (c->edges[e].from_kind == FT_ACT_FORWARD) c->edges[n++] = c->edges[e];
    c->pipeline.n_edges = n;
}

static void test_every_forward_once_and_nothing_else(void)
{
    for (int n_stages = 1; n_stages <= 5; n_stages++)
        for (int slots = 1; slots <= 3; slots++) {
            pipeline_case c;
            ft_error err = {0};
            case_forwards(&c, n_stages, 4, 100, slots);
            ft_plan *plan = case_plan(&c, "evaluate");
            if (!CHECK(plan != NULL)) return;
            CHECK(plan->forward_only);
            CHECK_STATUS(ft_plan_check(plan, &err), FT_OK);
            for (int d = 0; d < n_stages; d++) {
                CHECK(ft_plan_length(plan, d) == 400);
                CHECK(plan->in_flight[d] == 1);
                ft_action a = ft_plan_at(plan, d, 203);
                CHECK(a.kind == FT_ACT_FORWARD);
                CHECK(a.batch == 50);
                CHECK(a.micro == 3);
                CHECK(a.lag == 0);
            }
            ft_plan_free(plan);
        }
}

/* Filling the pipeline costs a forward per further stage; then the stages work side by side. */
static void test_takes_the_time_of_a_full_pipeline(void)
{
    pipeline_case c;
    ft_error err = {0};
    ft_timeline *timeline = NULL;
    case_forwards(&c, 4, 2, 10, 2);
    ft_plan *plan = case_plan(&c, "evaluate");
    CHECK_STATUS(ft_plan_simulate(&timeline, plan, &c.costs, &err), FT_OK);
    CHECK(ft_timeline_end_ns(timeline) == 3 * (20 + 3));
    ft_timeline_free(timeline);
    ft_plan_free(plan);
}

static void test_text_comes_back(void)
{
    pipeline_case c;
    ft_error err = {0};
    ft_text text = {0}, again = {0};
    ft_plan *read = NULL;
    case_forwards(&c, 3, 2, 40, 2);
    ft_plan *plan = case_plan(&c, "evaluate");
    CHECK_STATUS(ft_plan_write(plan, &text, &err), FT_OK);
    CHECK(strstr(text.data, "\nforward-only\n") != NULL);
    CHECK_STATUS(ft_plan_parse(&read, text.data, &err), FT_OK);
    CHECK(read && read->forward_only);
    CHECK_STATUS(ft_plan_check(read, &err), FT_OK);
    CHECK_STATUS(ft_plan_write(read, &again, &err), FT_OK);
    CHECK(strcmp(text.data, again.data) == 0);
    ft_text_fini(&text);
    ft_text_fini(&again);
    ft_plan_free(read);
    ft_plan_free(plan);
}

static void check_text(const char *text, const char *words)
{
    ft_error err = {0};
    ft_plan *plan = NULL;
    CHECK_STATUS(ft_plan_parse(&plan, text, &err), FT_OK);
    ft_status status = ft_plan_check(plan, &err);
    CHECK_STATUS(status, words ? FT_INVALID : FT_OK);
    if (words && !CHECK(strstr(err.message, words))) fprintf(stderr, "%s\n", err.message);
    ft_plan_free(plan);
}

#define HEAD                                                                                       \
    "ftpipe-plan 1\nstages 1\ndevices 1\nmicro-batches 2\nbatches 1\nbody-batches 0\n"             \
    "body-repeats 0\n"
#define STAGE "stage 0 device 0 depth 0 in-flight 1\n"

static void test_plans_by_hand_are_checked(void)
{
    check_text(HEAD "forward-only\n" STAGE "warm-up 0 F0.0.0-1\n", NULL);
    check_text(HEAD "forward-only\n" STAGE "warm-up 0 F0.0.0\n",
               "has 1 forward actions, expected 2");
    check_text(HEAD "forward-only\n" STAGE "warm-up 0 F0.0.1 F0.0.0\n", "is out of its order");
    check_text(HEAD "forward-only\n" STAGE "warm-up 0 F0.0.0 O0.0.0:weights F0.0.1\n",
               "O0.0.0:weights is neither a load nor a drop of weights");
    check_text(HEAD "forward-only\n" STAGE "warm-up 0 L0.0.0:optimizer F0.0.0 F0.0.1\n",
               "L0.0.0:optimizer is neither a load nor a drop of weights");
    check_text(HEAD "forward-only\n" STAGE
                    "warm-up 0 L0.0.0:weights F0.0.0 D0.0.0:weights F0.0.1\n",
               "F0.0.1 needs its weights on the device, where they are not");
    check_text(HEAD "forward-only\n" STAGE "warm-up 0 F0.0.0 B0.0.0 F0.0.1\n", "is not a forward");
    check_text(HEAD "forward-only\n" STAGE "warm-up 0 F0.0.0 F0.0.1~1\n", "has a lag");
    /* without the line it is a plan for training, which lacks what updates */
    check_text(HEAD STAGE "warm-up 0 F0.0.0-1\n", "backward actions, expected 2");
}

static void test_edges_of_training_are_refused(void)
{
    pipeline_case c;
    ft_error err = {0};
    ft_plan *plan = NULL;
    case_chain(&c, 2, 2, 4, 1, 1, 1);
    CHECK_STATUS(ft_plan_make(&plan, &c.pipeline, &ft_schedule_evaluate, &err), FT_INVALID);
    CHECK(strstr(err.message, "is not between forwards") != NULL);
    CHECK(!plan);
}

static void test_stale_weights_are_refused(void)
{
    pipeline_case c;
    ft_error err = {0};
    ft_plan *plan = NULL;
    case_chain(&c, 2, 2, 4, 1, 1, 1);
    c.pipeline.n_edges = 0;
    c.pipeline.weights = FT_WEIGHTS_VERTICAL;
    CHECK_STATUS(ft_plan_make(&plan, &c.pipeline, &ft_schedule_evaluate, &err), FT_INVALID);
    CHECK(strstr(err.message, "there is no 'vertical'") != NULL);
    CHECK(!plan);
}

int main(void)
{
    RUN(test_every_forward_once_and_nothing_else);
    RUN(test_takes_the_time_of_a_full_pipeline);
    RUN(test_text_comes_back);
    RUN(test_plans_by_hand_are_checked);
    RUN(test_edges_of_training_are_refused);
    RUN(test_stale_weights_are_refused);
    return check_report();
}
