/* test/test_planfile.c - plans as text, what the check says of bad ones. */
#include "check.h"
#include "proof/proof.h"
#include "schedule_cases.h"

#include "base/alloc.h"

static void check_words(const ft_error *err, const char *words)
{
    if (!CHECK(strstr(err->message, words))) fprintf(stderr, "said: %s\n", err->message);
}

static const char small_plan[] = /* written by hand */
    "ftpipe-plan 1\n"
    "schedule by-hand  # a comment\n"
    "stages 2\n"
    "devices 2\n"
    "micro-batches 2\n"
    "batches 5\n"
    "body-batches 1\n"
    "body-repeats 3\n"
    "\n"
    "stage 0 device 0 depth 1 in-flight 2\n"
    "stage 1 device 1 depth 0 in-flight 1 recompute\n"
    "edge F0>F1 bytes 64 slots 2\n"
    "edge B1>B0 bytes 64 slots 1\n"
    "\n"
    "nodes 7\n"
    "node-stage 0*3 1*4\n"
    "\n"
    "memory 0 weights 1 gradients 2 optimizer 3 versions 4 packed 5 turned 9 activations 6 "
    "workspace 7 buffers 8\n"
    "memory 1 weights 0 gradients 0 optimizer 0 versions 0 packed 0 turned 0 activations 0 "
    "workspace 0 buffers 9\n"
    "\n"
    "warm-up 0 F0.0.0-1 B0.0.0\n"
    "body 0 F0.1.0~1 B0.0.1 U0.0\n"
    "body 0 F0.1.1 B0.1.0\n"
    "drain 0 F0.4.0~1 B0.3.1 U0.3\n"
    "drain 0 F0.4.1 B0.4.0-1 U0.4\n"
    "\n"
    "warm-up 1 F1.0.0 B1.0.0 F1.0.1 B1.0.1 U1.0\n"
    "body 1 F1.1.0 B1.1.0 F1.1.1 B1.1.1 U1.1\n"
    "drain 1 F1.4.0 B1.4.0 F1.4.1 B1.4.1 U1.4\n";

static void test_a_plan_written_by_hand(void)
{
    ft_error err = {0};
    ft_plan *plan = case_parse(small_plan);
    if (!plan) return;
    if (!CHECK_STATUS(ft_plan_check(plan, &err), FT_OK)) fprintf(stderr, "%s\n", err.message);
    CHECK(!strcmp(plan->schedule, "by-hand"));
    CHECK(plan->n_nodes == 7 && plan->node_stage[2] == 0 && plan->node_stage[3] == 1);
    CHECK(!plan->recompute[0] && plan->recompute[1]);
    CHECK(plan->memory[0][FT_MEMORY_BUFFERS] == 8 && plan->memory[1][FT_MEMORY_BUFFERS] == 9);
    CHECK(ft_plan_length(plan, 0) == 25 && ft_plan_length(plan, 1) == 25);
    ft_action a = ft_plan_at(plan, 0, 3 + 2 * 5);
    CHECK(a.kind == FT_ACT_FORWARD && a.batch == 3 && a.micro == 0 && a.lag == 1);
    CHECK(ft_action_index(plan, &a) == 6);
    ft_plan_free(plan);
}

/* A program with fewer classes of memory wrote fewer, one that lists them otherwise in its order.
 */
static void test_memory_is_by_name(void)
{
    const plan_fault fewer = {small_plan, "versions 4 packed 5 turned 9 activations 6", "packed 5",
                              ""};
    char text[2048], turned[2048];
    const plan_fault other = {text, "weights 1 gradients 2", "gradients 2 weights 1", ""};
    if (!case_edit(&fewer, text, sizeof text) || !case_edit(&other, turned, sizeof turned)) return;
    ft_plan *plan = case_parse(turned);
    if (!plan) return;
    static const int64_t wanted[FT_MEMORY_CLASSES] = {
        [FT_MEMORY_WEIGHTS] = 1, [FT_MEMORY_GRADIENTS] = 2, [FT_MEMORY_OPTIMIZER] = 3,
        [FT_MEMORY_PACKED] = 5,  [FT_MEMORY_WORKSPACE] = 7, [FT_MEMORY_BUFFERS] = 8};
    CHECK(!memcmp(plan->memory[0], wanted, sizeof wanted));
    ft_plan_free(plan);
}

static void test_text_comes_back_as_it_was(void)
{
    ft_error err = {0};
    ft_text text = {0};
    ft_plan *plan = case_parse(small_plan);
    if (!plan) return;
    CHECK_STATUS(ft_plan_write(plan, &text, &err), FT_OK);
    /* but for the comment and where lists were broken, the writer's text is the hand's */
    CHECK(strstr(text.data, "schedule by-hand\nstages 2\n"));
    CHECK(strstr(text.data, "body 0 F0.1.0~1 B0.0.1 U0.0\nbody 0 F0.1.1 B0.1.0\n"));
    CHECK(!strcmp(strstr(text.data, "stages"), strstr(small_plan, "stages")));
    ft_text_fini(&text);
    ft_plan_free(plan);
}

/* What an action or a stage may say besides is in the text again, as it was. */
static void test_all_that_may_be_said_comes_back(void)
{
    static const plan_fault rows[] = {
        {small_plan, "F0.4.0~1 B0.3.1", "F0.4.0-1~1 B0.3.1", "drain 0 F0.4.0-1~1 B0.3.1"},
        {small_plan, "F0.4.0~1 B0.3.1", "F0.4.0~1 F0.4.1 B0.3.1", "drain 0 F0.4.0~1 F0.4.1 B0.3.1"},
        {small_plan, "F0.4.0~1 B0.3.1", "F0.4.0~1 F0.4.1~1 B0.3.1", "drain 0 F0.4.0-1~1 B0.3.1"},
        {small_plan, "stage 0 device 0 depth 1 in-flight 2",
         "stage 0 device 1,0 recompute reduce-bytes 12 replicas block versions 3 in-flight 2 depth "
         "1",
         "stage 0 device 1,0 depth 1 in-flight 2 versions 3 replicas block reduce-bytes 12 "
         "recompute\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char changed[2048];
        ft_text text = {0};
        if (!case_edit(&rows[i], changed, sizeof changed)) continue;
        ft_plan *plan = case_parse(changed);
        if (!plan) continue;
        CHECK_STATUS(ft_plan_write(plan, &text, NULL), FT_OK);
        if (!CHECK(strstr(text.data, rows[i].words))) fprintf(stderr, "said: %s\n", text.data);
        if (strstr(rows[i].words, "device 1,0")) CHECK(plan->device[0] == 1);
        CHECK(plan->device[1] == 1);
        ft_text_fini(&text);
        ft_plan_free(plan);
    }
}

/* Replicas of two stages on the same devices, which pass gradients through one place. */
static const char shared_plan[] =
    "ftpipe-plan 1\nstages 2\ndevices 2\nmicro-batches 2\nbatches 2\nbody-batches 0\n"
    "body-repeats 0\nstage 0 device 0,1 replicas block\nstage 1 device 0,1 replicas block\n"
    "edge F0>F1 bytes 4 slots 1\nedge B1>B0 bytes 4 slots 1\nedge X0>R0 bytes 4 slots 1 after 3\n"
    "edge X1>R1 bytes 8 slots 1\nedge U0>W0 bytes 4 slots 1\nedge U1>W1 bytes 4 slots 1 after 4\n"
    "drain 0 F0.0.0 F1.0.0 B1.0.0 X1.0 R1.0 B0.0.0 X0.0 R0.0 U0.0 W0.0 U1.0 W1.0\n"
    "drain 0 F0.1.0 F1.1.0 B1.1.0 X1.1 R1.1 B0.1.0 X0.1 R0.1 U0.1 W0.1 U1.1 W1.1\n"
    "drain 1 F0.0.1 F1.0.1 B1.0.1 X1.0 R1.0 B0.0.1 X0.0 R0.0 U0.0 W0.0 U1.0 W1.0\n"
    "drain 1 F0.1.1 F1.1.1 B1.1.1 X1.1 R1.1 B0.1.1 X0.1 R0.1 U0.1 W0.1 U1.1 W1.1\n";

/* Edges that share a place come back as such, and have to be able to. */
static void test_edges_take_turns(void)
{
    static const plan_fault faults[] = {
        {shared_plan, "X1.0 R1.0 B0.0.0 X0.0 R0.0", "X1.0 B0.0.0 X0.0 R1.0 R0.0",
         "X0.0 waits for a free slot of edge 2, X0>R0 (1 slot)"},
        {shared_plan, "slots 1 after 4", "slots 2 after 4", "expected 1 slot of both"},
        {shared_plan, "edge U0>W0 bytes 4 slots 1", "edge U0>W0 bytes 4 slots 2",
         "edge 5 is after edge 4: expected 1 slot of both"},
        {shared_plan, "slots 1 after 4", "slots 1 after 3", "one that no other is after"},
        {shared_plan, "slots 1 after 4", "slots 1 after 9", "edge 9: expected one that there is"},
        {shared_plan, "slots 1 after 4", "slots 1 after 1", "both X to R or U to W"},
        {shared_plan, "slots 1\nedge U0>W0", "slots 1 after 2\nedge U0>W0", "in a circle"},
        {shared_plan, "stage 1 device 0,1", "stage 1 device 1,0", "edge 2 is after edge 3"},
    };
    ft_error err = {0};
    ft_text text = {0};
    ft_plan *plan = case_parse(shared_plan);
    if (!plan) return;
    CHECK_STATUS(ft_plan_check(plan, &err), FT_OK);
    CHECK_STATUS(ft_plan_write(plan, &text, &err), FT_OK);
    CHECK(strstr(text.data, "\nedge X0>R0 bytes 4 slots 1 after 3\nedge X1>R1 bytes 8 slots 1\n"));
    ft_text_fini(&text);
    ft_plan_free(plan);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        case_fault(&faults[i], i ? FT_INVALID : FT_OK);
}

static void test_annotations_are_kept(void)
{
    pipeline_case c;
    ft_error err = {0};
    ft_plan *plan = NULL;
    ft_text text = {0};
    const int node_stage[] = {0, 0, 1, 0, 1};
    const bool recompute[] = {true, false};
    int64_t memory[2][FT_MEMORY_CLASSES] = {{11}, {22}};
    case_chain(&c, 2, 2, 2, 1, 1, 1);
    CHECK_STATUS(ft_plan_make(&plan, &c.pipeline, ft_schedule_find("gpipe"), &err), FT_OK);
    CHECK_STATUS(ft_plan_annotate(plan, 5, node_stage, recompute,
                                  (const int64_t(*)[FT_MEMORY_CLASSES])memory, &err),
                 FT_OK);
    CHECK_STATUS(ft_plan_write(plan, &text, &err), FT_OK);
    CHECK(strstr(text.data, "nodes 5\nnode-stage 0*2 1*1 0*1 1*1\n"));
    CHECK(strstr(text.data, "stage 0 device 0 depth 1 in-flight 2 recompute\n"));
    CHECK(strstr(text.data, "memory 1 weights 22 gradients 0"));
    const int wrong[] = {0, 2};
    CHECK_STATUS(ft_plan_annotate(plan, 2, wrong, NULL, NULL, &err), FT_INVALID);
    check_words(&err, "node 1 is in stage 2 of 2");
    CHECK(plan->n_nodes == 5);
    ft_text_fini(&text);
    ft_plan_free(plan);
}

/* A stage on so many devices that their list is longer than a message. */
static void test_long_words_come_back(void)
{
    enum { REPLICAS = 200 };
    ft_pipeline p = {.n_stages = 1, .n_devices = REPLICAS, .micro_batches = REPLICAS};
    ft_error err = {0};
    ft_plan *plan = NULL, *again = NULL;
    ft_text text = {0}, second = {0};
    int device[REPLICAS];
    static const int first[] = {0, REPLICAS}, on[] = {0};
    static const uint8_t rule[] = {FT_REPLICAS_ROUND_ROBIN};
    static const double ns[] = {1};
    const ft_stage_costs costs = {.forward_ns = ns, .backward_ns = ns};
    for (int d = 0; d < REPLICAS; d++) device[d] = d;
    p.n_batches = 1;
    p.device = on;
    p.replica_first = first;
    p.replica_device = device;
    p.replica_rule = rule;
    p.costs = &costs;
    CHECK_STATUS(ft_plan_make(&plan, &p, ft_schedule_find("gpipe"), &err), FT_OK);
    CHECK_STATUS(ft_plan_write(plan, &text, &err), FT_OK);
    CHECK(strstr(text.data, ",198,199 "));
    if (CHECK_STATUS(ft_plan_parse(&again, text.data, &err), FT_OK)) {
        CHECK_STATUS(ft_plan_write(again, &second, &err), FT_OK);
        CHECK(!strcmp(text.data, second.data));
    }
    ft_text_fini(&text);
    ft_text_fini(&second);
    ft_plan_free(plan);
    ft_plan_free(again);
}

static void test_bad_text_is_refused_with_its_line(void)
{
    static const plan_fault rows[] = {
        {small_plan, "ftpipe-plan 1", "ftpipe-plan 2", "line 1: expected 'ftpipe-plan 1'"},
        {small_plan, "ftpipe-plan 1\n", "", "line 1: expected"},
        {small_plan, "schedule by-hand", "schedule by hand",
         "line 2: 'hand' was not expected here"},
        {small_plan, "stages 2", "stages 0",
         "line 3: stages is '0', expected a number from 1 to 4096"},
        {small_plan, "stages 2", "stages 5000", "line 3: stages is '5000'"},
        {small_plan, "stages 2", "stages 99999999999999999999999", "line 3: stages is '9999"},
        {small_plan, "stages 2", "stages -1", "line 3: stages is '-1'"},
        {small_plan, "devices 2\n", "", "line 9: 'stage' stands before 'devices'"},
        {small_plan, "devices 2\n", "devices 2\ndevices 2\n", "line 5: 'devices' stands twice"},
        {small_plan, "nodes 7", "colour 7", "line 15: unknown word 'colour'"},
        {small_plan, "stage 1", "stage 0", "line 11: stage 0 stands twice"},
        {small_plan, "stage 1 device 1", "stage 1 device 2",
         "line 11: device is '2', expected a number from 0 to 1"},
        {small_plan, "depth 1 in-flight", "depth 1 inflight",
         "line 10: 'inflight' was not expected here"},
        {small_plan, "in-flight 2", "in-flight 2 depth 1",
         "line 10: 'depth' was not expected here"},
        {small_plan, "F0>F1", "F0-F1", "line 12: edge is 'F0-F1'"},
        {small_plan, "F0>F1", "F0>F2",
         "line 12: edge is 'F0>F2', expected two actions with stages below 2"},
        {small_plan, "F0>F1", "F1>F1", "line 12: edge 0 goes from stage 1 to stage 1"},
        {small_plan, "F0>F1", "F0>U1", "line 12: edge 0 joins"},
        {small_plan, "slots 2", "slots 0", "line 12: slots is '0'"},
        {small_plan, "0*3 1*4", "0*3 1*5", "line 16: node-stage is '1*5'"},
        {small_plan, "0*3 1*4", "0*3 1*3", "'node-stage' gives 6 nodes, 'nodes' 7"},
        {small_plan, "versions 4", "version 4",
         "line 18: found 'version', expected a class of memory, as 'weights'"},
        {small_plan, "versions 4", "weights 4", "line 18: 'weights' stands twice"},
        {small_plan, "memory 1", "memory 0", "line 19: memory of device 0 stands twice"},
        {small_plan, "buffers 9", "buffers 9 10",
         "line 19: found '10', expected a class of memory, as 'weights'"},
        {small_plan, "buffers 9", "buffers -9", "line 19: buffers is '-9'"},
        {small_plan, "F0.0.0-1", "F0.0.0-2", "line 21: action is 'F0.0.0-2'"},
        {small_plan, "F0.0.0-1", "F0.0.1-0", "line 21: action is 'F0.0.1-0'"},
        {small_plan, "F0.0.0-1", "F0.0", "line 21: action is 'F0.0'"},
        {small_plan, "U0.0", "U0.0.0", "line 22: action is 'U0.0.0'"},
        {small_plan, "U0.4", "U0.5", "line 25: action is 'U0.5'"},
        {small_plan, "U1.4\n", "u1.4\n", "line 29: action is 'u1.4'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) case_fault(&rows[i], FT_FORMAT);
}

static void test_wrong_plans_are_refused_in_words(void)
{
    static const plan_fault rows[] = {
        {small_plan, "in-flight 2", "in-flight 3",
         "plan, line 10: stage 0 has 2 micro-batches in flight, the plan says 3"},
        {small_plan, "F0.1.0~1", "F0.1.0",
         "plan, line 22: device 0: F0.1.0 has another lag than the updates"},
        {small_plan, "B0.0.1 U0.0", "U0.0 B0.0.1",
         "plan, line 22: device 0: U0.0 stands before the last backward of its batch"},
        {small_plan, "B1.0.1 U1.0", "B1.0.1", "device 1: F1.1.0 has another lag"},
        {small_plan, "F0.4.1 B0.4.0-1 U0.4", "F0.4.1 B0.4.0-1",
         "plan, line 10: stage 0 has 4 update actions, expected 5"},
        {small_plan, "F0.4.1 B0.4.0-1 U0.4", "F0.4.1 B0.4.0-1 W0.0 U0.4",
         "W0.0 has nothing to adopt"},
        {small_plan, "F0.4.1 B0.4.0-1 U0.4", "F0.4.1 B0.4.0-1 R0.0 U0.4",
         "stands before its reduce"},
        {small_plan, "F1.4.1 B1.4.1", "B1.4.1 F1.4.1", "B1.4.1 stands before its forward"},
        {small_plan, "F0.0.0-1", "F0.0.0",
         "device 0: F0.1.0 is out of its order, missing or twice"},
        {small_plan, "body-repeats 3", "body-repeats 2", "out of its order"},
        {small_plan, "body-repeats 3", "body-repeats 5",
         "plan, line 22: device 0: F0.1.0 reaches batch 5 of 5"},
        {small_plan, "stage 1 device 1", "stage 1 device 0",
         "plan, line 27: device 1: F1.0.0 belongs to device 0"},
        {small_plan, "depth 1 in-flight", "depth 0 in-flight",
         "plan, line 10: stage 0 has 1 stages behind it (depth), the plan says 0"},
        {small_plan, "in-flight 1 recompute", "in-flight 1 versions 2 recompute",
         "plan, line 11: stage 1 has 1 versions of its weights, the plan says 2"},
        {small_plan, "F1.0.0 B1.0.0 F1.0.1", "F1.0.0-1 B1.0.0",
         "plan, line 11: stage 1 has 2 micro-batches in flight, the plan says 1"},
        {small_plan, "slots 1\n", "slots 1\nedge F1>F0 bytes 8 slots 1\n",
         "forward edges go in a circle"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) case_fault(&rows[i], FT_OK);
}

/* What edges and lists give need not be said; where they give nothing, the line is. */
static void test_derived_numbers_may_be_left_out(void)
{
    char text[2048];
    ft_error err = {0};
    ft_plan *whole = case_parse(small_plan), *plan = NULL;
    const char *at = strstr(small_plan, " depth 1 in-flight 2"), *lag = NULL;
    size_t length = strlen(" depth 1 in-flight 2");
    snprintf(text, sizeof text, "%.*s%s", (int)(at - small_plan), small_plan, at + length);
    if (CHECK_STATUS(ft_plan_parse(&plan, text, &err), FT_OK)) {
        CHECK_STATUS(ft_plan_check(plan, &err), FT_OK);
        CHECK(plan->depth[0] == 1 && plan->in_flight[0] == 2 && plan->in_flight[1] == 1);
        CHECK(whole && whole->depth[0] == 1 && whole->in_flight[0] == 2);
        ft_plan_free(plan);
    }
    if ((lag = strstr(text, "F0.0.0-1"))) memcpy(text + (lag - text), "F0.0.1-1", 8);
    CHECK_STATUS(ft_plan_parse(&plan, text, &err), FT_INVALID);
    check_words(&err, "plan, line 21: device 0: F0.0.1 is out of its order, missing or twice");
    ft_plan_free(whole);
}

/* Gradients of two batches would be summed into one update. */
static void test_batches_do_not_mix(void)
{
    static const char *const text =
        "ftpipe-plan 1\nstages 1\ndevices 1\nmicro-batches 1\nbatches 2\n"
        "body-batches 0\nbody-repeats 0\nstage 0 device 0 depth 0 in-flight 1\n"
        "warm-up 0 F0.0.0 B0.0.0 F0.1.0~1 B0.1.0 U0.0 U0.1\n";
    ft_error err = {0};
    ft_plan *plan = case_parse(text);
    if (!plan) return;
    CHECK_STATUS(ft_plan_check(plan, &err), FT_INVALID);
    check_words(&err, "device 0: B0.1.0 stands before the update of the batch before");
    ft_plan_free(plan);
}

/* Stage 1 wants two forwards before its first backward, stage 0 gives one at a time. */
static void test_a_deadlock_is_named(void)
{
    static const char *const text =
        "ftpipe-plan 1\nstages 2\ndevices 2\nmicro-batches 2\nbatches 1\n"
        "body-batches 0\nbody-repeats 0\n"
        "stage 0 device 0 depth 1 in-flight 1\n"
        "stage 1 device 1 depth 0 in-flight 2\n"
        "edge F0>F1 bytes 8 slots 1\nedge B1>B0 bytes 8 slots 1\n"
        "warm-up 0 F0.0.0 B0.0.0 F0.0.1 B0.0.1 U0.0\n"
        "warm-up 1 F1.0.0-1 B1.0.0-1 U1.0\n";
    ft_error err = {0};
    ft_timeline *timeline;
    ft_plan *plan = case_parse(text);
    if (!plan) return;
    CHECK_STATUS(ft_plan_check(plan, &err), FT_INFEASIBLE);
    check_words(&err, "2 devices wait for ever: device 0, line 12: B0.0.0 waits for edge 1, B1>B0, "
                      "to be filled; device 1, line 13: F1.0.1 waits for edge 0, F0>F1, to be "
                      "filled");
    CHECK_STATUS(ft_plan_simulate(&timeline, plan, NULL, &err), FT_INFEASIBLE);
    CHECK(!timeline);
    ft_plan_free(plan);
}

static void test_no_memory_is_an_error(void)
{
    int64_t before = ft_alloc_live();
    for (int n = 1;; n++) {
        ft_error err = {0};
        ft_plan *plan = NULL;
        ft_text text = {0};
        ft_alloc_fail_after(n);
        ft_status status = ft_plan_parse(&plan, small_plan, &err);
        if (status == FT_OK) status = ft_plan_check(plan, &err);
        if (status == FT_OK) status = ft_plan_write(plan, &text, &err);
        ft_alloc_fail_after(0);
        ft_text_fini(&text);
        ft_plan_free(plan);
        CHECK(ft_alloc_live() == before);
        if (status == FT_OK) {
            CHECK(n > 5);
            return;
        }
        if (!CHECK_STATUS(status, FT_NOMEM)) return;
    }
}

int main(void)
{
    RUN(test_a_plan_written_by_hand);
    RUN(test_memory_is_by_name);
    RUN(test_text_comes_back_as_it_was);
    RUN(test_all_that_may_be_said_comes_back);
    RUN(test_edges_take_turns);
    RUN(test_annotations_are_kept);
    RUN(test_long_words_come_back);
    RUN(test_bad_text_is_refused_with_its_line);
    RUN(test_wrong_plans_are_refused_in_words);
    RUN(test_derived_numbers_may_be_left_out);
    RUN(test_batches_do_not_mix);
    RUN(test_a_deadlock_is_named);
    RUN(test_no_memory_is_an_error);
    return check_report();
}
