/* test/test_schedule_kinds.c - plans written by hand with every kind of action, and what the check
 * says when one of them is wrong. */
#include "check.h"
#include "proof/proof.h"
#include "schedule_cases.h"

#include "base/alloc.h"

#define HEAD(stages, devices, micros, batches)                                                     \
    "ftpipe-plan 1\nstages " #stages "\ndevices " #devices "\nmicro-batches " #micros              \
    "\nbatches " #batches "\nbody-batches 0\nbody-repeats 0\n"

#define TWO_STAGES(rest0, rest1)                                                                   \
    "stage 0 device 0 depth 1 in-flight 2" rest0 "\nstage 1 device 1 depth 0 in-flight 1" rest1 "\n"

#define EDGES "edge F0>F1 bytes 64 slots 2\nedge B1>B0 bytes 64 slots 1\n"

#define LAST_STAGE "warm-up 1 F1.0.0 B1.0.0 U1.0 F1.1.0 B1.1.0 U1.1 F1.2.0 B1.2.0 U1.2\n"

/* Weight stashing: a backward reads the version that its forward read. */
static const char *const stashed = HEAD(2, 2, 1, 3) TWO_STAGES(" versions 2", "") EDGES
    "warm-up 0 F0.0.0 F0.1.0~1 B0.0.0 U0.0 F0.2.0~1 B0.1.0~1 U0.1 B0.2.0~1 U0.2\n" LAST_STAGE;

/* Vertical sync: stage 1 reads the version that stage 0 read. */
static const char *const vertical = HEAD(2, 2, 1, 3) TWO_STAGES(" versions 2", " versions 2") EDGES
    "warm-up 0 F0.0.0 F0.1.0~1 B0.0.0 U0.0 F0.2.0~1 B0.1.0~1 U0.1 B0.2.0~1 U0.2\n"
    "warm-up 1 F1.0.0 B1.0.0 U1.0 F1.1.0~1 B1.1.0~1 U1.1 F1.2.0~1 B1.2.0~1 U1.2\n";

/* Prediction: a P moves the weights ahead by the lag of the forward behind it. */
static const char *const predicted = HEAD(2, 2, 1, 3) TWO_STAGES("", "") EDGES
    "warm-up 0 F0.0.0 P0.1.0~1 F0.1.0~1 B0.0.0 U0.0 P0.2.0~1 F0.2.0~1 B0.1.0 U0.1 B0.2.0 "
    "U0.2\n" LAST_STAGE;

/* Gaps: an A divides gradients whose forward read older weights. */
static const char *const attenuated = HEAD(2, 2, 1, 3) TWO_STAGES(" versions 2", "") EDGES
    "warm-up 0 F0.0.0 F0.1.0~1 B0.0.0 U0.0 F0.2.0~1 B0.1.0 A0.1.0:0~1 U0.1 B0.2.0 A0.2.0:0~1 "
    "U0.2\n" LAST_STAGE;

/* Backward in halves: the weights' gradients of stage 1 come last. */
static const char *const halves =
    HEAD(2, 2, 2, 1) "stage 0 device 0 depth 1 in-flight 2\nstage 1 device 1 depth 0 in-flight 2\n"
                     "edge F0>F1 bytes 64 slots 2\nedge I1>I0 bytes 64 slots 1\n"
                     "warm-up 0 F0.0.0-1 I0.0.0 G0.0.0 I0.0.1 G0.0.1 Z0.0 U0.0\n"
                     "warm-up 1 F1.0.0 I1.0.0 F1.0.1 I1.0.1 G1.0.0-1 U1.0\n";

/* A stage with a whole backward before one with halves, and behind one. */
static const char *const half_of_two =
    HEAD(3, 3, 1, 1) "stage 0 device 0 depth 2 in-flight 1\nstage 1 device 1 depth 1 in-flight 1\n"
                     "stage 2 device 2 depth 0 in-flight 1\n"
                     "edge F0>F1 bytes 64 slots 1\nedge F1>F2 bytes 64 slots 1\n"
                     "edge B2>I1 bytes 64 slots 1\nedge I1>B0 bytes 64 slots 1\n"
                     "warm-up 0 F0.0.0 B0.0.0 U0.0\nwarm-up 1 F1.0.0 I1.0.0 G1.0.0 U1.0\n"
                     "warm-up 2 F2.0.0 B2.0.0 U2.0\n";

/* Stage 0 twice, stage 1 once. */
static const char *const replicated = HEAD(
    2, 3, 2, 1) "stage 0 device 0,2 depth 1 in-flight 1 replicas round-robin reduce-bytes 1000\n"
                "stage 1 device 1 depth 0 in-flight 1\n"
                "edge F0>F1 bytes 64 slots 2\nedge B1>B0 bytes 64 slots 1\n"
                "warm-up 0 F0.0.0 B0.0.0 R0.0 U0.0\n"
                "warm-up 1 F1.0.0 B1.0.0 F1.0.1 B1.0.1 R1.0 U1.0\n"
                "warm-up 2 F0.0.1 B0.0.1 R0.0 U0.0\n";

/* Likewise, and the sum is the plan's: every replica sends the other what that one sums, and takes
 * over what it has updated. */
static const char *const exchanged = HEAD(
    2, 3, 2, 1) "stage 0 device 0,2 depth 1 in-flight 1\nstage 1 device 1 depth 0 in-flight 1\n"
                "edge F0>F1 bytes 64 slots 2\nedge B1>B0 bytes 64 slots 1\n"
                "edge X0>R0 bytes 32 slots 1\nedge U0>W0 bytes 32 slots 1\n"
                "warm-up 0 F0.0.0 B0.0.0 X0.0 R0.0 U0.0 W0.0\n"
                "warm-up 1 F1.0.0 B1.0.0 F1.0.1 B1.0.1 R1.0 U1.0\n"
                "warm-up 2 F0.0.1 B0.0.1 X0.0 R0.0 U0.0 W0.0\n";

/* Forgotten activations are made again. */
static const char *const recomputed = HEAD(
    2, 2, 2, 1) "stage 0 device 0 depth 1 in-flight 1\nstage 1 device 1 depth 0 in-flight 1\n" EDGES
                "warm-up 0 F0.0.0 D0.0.0:activations F0.0.1 D0.0.1:activations\n"
                "warm-up 0 C0.0.0 B0.0.0 C0.0.1 B0.0.1 U0.0\n"
                "warm-up 1 F1.0.0 B1.0.0 F1.0.1 B1.0.1 U1.0\n";

/* Activations wait in host memory; weights come from there and leave again. */
static const char *const swapped =
    HEAD(2, 1, 2, 1) "stage 0 device 0 depth 1 in-flight 2\nstage 1 device 0 depth 0 in-flight 2\n"
                     "edge F0>F1 bytes 64 slots 2\nedge B1>B0 bytes 64 slots 2\n"
                     "warm-up 0 L0.0.0:weights F0.0.0 O0.0.0:activations F0.0.1 O0.0.1:activations "
                     "D0.0.1:weights\n"
                     "warm-up 0 L1.0.0:weights F1.0.0-1 B1.0.0-1 U1.0 O1.0.1:weights\n"
                     "warm-up 0 L0.0.0:weights L0.0.0-1:activations B0.0.0-1 U0.0 O0.0.1:weights\n";

/* Each direction has copies of its own. Stage 1 runs its forwards again; its update leaves copies
 * alone that are not there, as an M makes those. */
static const char *const turned =
    HEAD(2, 1, 2, 1) "stage 0 device 0 depth 1 in-flight 2\n"
                     "stage 1 device 0 depth 0 in-flight 2 recompute\n"
                     "edge F0>F1 bytes 64 slots 2\nedge B1>B0 bytes 64 slots 2\n"
                     "warm-up 0 L0.0.0:packed F0.0.0-1 D0.0.1:packed L1.0.0:packed F1.0.0-1\n"
                     "warm-up 0 M1.0.0:turned B1.0.0-1 D1.0.1:turned U1.0\n"
                     "warm-up 0 L0.0.0:turned B0.0.0-1 L0.0.1:packed U0.0 O0.0.1:turned\n";

/* What stage 0 sends, it sends when it says so; stage 1 takes it out of the slot. */
static const char *const copied = HEAD(2, 2, 2, 1)
    TWO_STAGES("", "") "edge F0>F1 bytes 64 slots 1\nedge B1>B0 bytes 64 slots 1\n"
                       "warm-up 0 F0.0.0 S0.0.0:0 F0.0.1 S0.0.1:0 B0.0.0-1 U0.0\n"
                       "warm-up 1 V1.0.0:0 F1.0.0 V1.0.1:0 B1.0.0 F1.0.1 B1.0.1 U1.0\n";

/* What passes between stages of a device waits in host memory; with replicas on each of both. */
static const char *const passed =
    HEAD(2, 1, 2, 1) "stage 0 device 0 depth 1 in-flight 2\nstage 1 device 0 depth 0 in-flight 2\n"
                     "edge F0>F1 bytes 64 slots 2\nedge B1>B0 bytes 64 slots 2\n"
                     "warm-up 0 F0.0.0 S0.0.0:0 F0.0.1 S0.0.1:0 V1.0.0:0 F1.0.0 V1.0.1:0 F1.0.1\n"
                     "warm-up 0 B1.0.0-1 U1.0 B0.0.0-1 U0.0\n";
static const char *const passed_by_both = HEAD(
    2, 2, 2, 1) "stage 0 device 0,1 depth 1 in-flight 1\nstage 1 device 0,1 depth 0 in-flight 1\n"
                "edge F0>F1 bytes 64 slots 1\nedge B1>B0 bytes 64 slots 1\n"
                "warm-up 0 F0.0.0 S0.0.0:0 V1.0.0:0 F1.0.0 B1.0.0 R1.0 U1.0 B0.0.0 R0.0 U0.0\n"
                "warm-up 1 F0.0.1 S0.0.1:0 V1.0.1:0 F1.0.1 B1.0.1 R1.0 U1.0 B0.0.1 R0.0 U0.0\n";

/* Two stages each on two devices in turns: interleaved. */
static const char *const interleaved =
    HEAD(4, 2, 2,
         1) "stage 0 device 0 depth 3 in-flight 2\nstage 1 device 1 depth 2 in-flight 2\n"
            "stage 2 device 0 depth 1 in-flight 2\nstage 3 device 1 depth 0 in-flight 1\n"
            "edge F0>F1 bytes 8 slots 2\nedge F1>F2 bytes 8 slots 2\nedge F2>F3 bytes 8 slots 2\n"
            "edge B3>B2 bytes 8 slots 2\nedge B2>B1 bytes 8 slots 2\nedge B1>B0 bytes 8 slots 2\n"
            "warm-up 0 F0.0.0-1 F2.0.0-1 B2.0.0-1 U2.0 B0.0.0-1 U0.0\n"
            "warm-up 1 F1.0.0-1 F3.0.0 B3.0.0 F3.0.1 B3.0.1 U3.0 B1.0.0-1 U1.0\n";

/* Device 0 has both ends of the pipeline and takes what is ready. */
static const char *const by_policy =
    HEAD(3, 2, 2, 1) "stage 0 device 0 depth 2 in-flight 2\nstage 1 device 1 depth 1 in-flight 2\n"
                     "stage 2 device 0 depth 0 in-flight 1\n"
                     "edge F0>F1 bytes 8 slots 1\nedge F1>F2 bytes 8 slots 1\n"
                     "edge B2>B1 bytes 8 slots 1\nedge B1>B0 bytes 8 slots 1\norder 0 policy\n"
                     "warm-up 0 F2.0.0 B2.0.0 F2.0.1 B2.0.1 U2.0 F0.0.0-1 B0.0.0-1 U0.0\n"
                     "warm-up 1 F1.0.0-1 B1.0.0-1 U1.0\n";

static const char *const all[] = {
    stashed, vertical, predicted, attenuated,  halves,    replicated, exchanged,      recomputed,
    swapped, turned,   copied,    interleaved, by_policy, passed,     passed_by_both, half_of_two};

/* They parse, are proven, are simulated under any delays, and come back as they were. */
static void test_every_kind(void)
{
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        ft_error err = {0};
        ft_text once = {0}, twice = {0};
        ft_plan *plan = case_parse(all[i]), *again = NULL;
        if (!plan) continue;
        if (!CHECK_STATUS(ft_plan_check(plan, &err), FT_OK))
            fprintf(stderr, "plan %d: %s\n", (int)i, err.message);
        for (uint64_t seed = 0; seed < 20; seed++) {
            ft_timeline *timeline = NULL;
            ft_text trace = {0};
            ft_simulation options = {.delay_ns = seed ? 1000 : 0, .seed = seed};
            if (!CHECK_STATUS(ft_plan_simulate_on(&timeline, plan, &options, &err), FT_OK))
                fprintf(stderr, "plan %d: %s\n", (int)i, err.message);
            else
                CHECK_STATUS(ft_timeline_write_trace(timeline, plan, NULL, &trace, &err), FT_OK);
            ft_timeline_free(timeline);
            ft_text_fini(&trace);
        }
        CHECK_STATUS(ft_plan_write(plan, &once, &err), FT_OK);
        again = case_parse(once.data);
        if (again) CHECK_STATUS(ft_plan_write(again, &twice, &err), FT_OK);
        CHECK(again && !strcmp(once.data, twice.data));
        for (int n = 1; n <= plan->n_batches; n++) {
            ft_plan *cut = NULL;
            if (CHECK_STATUS(ft_plan_cut(&cut, plan, n, &err), FT_OK) &&
                !CHECK_STATUS(ft_plan_check(cut, &err), FT_OK))
                fprintf(stderr, "plan %d, %d batches: %s\n", (int)i, n, err.message);
            ft_plan_free(cut);
        }
        ft_plan_free(plan);
        ft_plan_free(again);
        ft_text_fini(&once);
        ft_text_fini(&twice);
    }
}

static void test_wrong_ones_are_refused_in_words(void)
{
    static const plan_fault rows[] = {
        {stashed, " versions 2", "", "B0.1.0 has another lag"},
        {stashed, "B0.1.0~1", "B0.1.0~2", "B0.1.0 reads a version from before the first batch"},
        {stashed, "F0.2.0~1 B0.1.0~1 U0.1 B0.2.0~1", "F0.2.0~2 B0.1.0~1 U0.1 B0.2.0~2",
         "B0.2.0 reads a version of the weights that is not kept any more"},
        {vertical, "F1.1.0~1", "F1.1.0~3", "F1.1.0 reads a version"},
        {vertical, "F0.1.0~1", "F0.1.0",
         "F0.1.0 reads a version of the weights that does not "
         "exist yet"},
        {predicted, "P0.1.0~1", "P0.1.0~2", "F0.1.0 has another lag than its predict"},
        {predicted, "P0.1.0~1", "P0.2.0~1", "P0.2.0 is not for the next forward"},
        {attenuated, "A0.2.0:0~1", "A0.2.0:0~2",
         "A0.2.0:0 has another lag than the forward of its micro-batch"},
        {attenuated, "A0.2.0:0~1", "A0.2.0:1~1", "A0.2.0:1 goes on to gradients that are no less"},
        {halves, "I0.0.0 G0.0.0", "G0.0.0 I0.0.0", "G0.0.0 stands before its backward-input"},
        {halves, "I0.0.0 G0.0.0", "B0.0.0", "B0.0.0 and backward-input stand in one stage"},
        {halves, "G0.0.1 Z0.0", "Z0.0 G0.0.1", "Z0.0 stands where something is in flight"},
        {halves, "I1.0.1 G1.0.0-1", "G1.0.0 I1.0.1",
         "U1.0 stands before the last backward of its batch"},
        {replicated, "F0.0.0 B0.0.0", "F0.0.1 B0.0.1", "F0.0.1 belongs to the replica on device 2"},
        {replicated, "device 0,2", "device 0,0", "stage 0 has two replicas on device 0"},
        {replicated, "R1.0 ", "", "U1.0 stands before its reduce"},
        {replicated, "R1.0 ", "O1.0.0:gradients L1.0.0:gradients R1.0 D1.0.0:gradients ",
         "D1.0.0:gradients drops what is nowhere else"},
        {replicated, "R1.0 ", "O1.0.0:gradients R1.0 L1.0.0:gradients ",
         "R1.0 needs its gradients on the device, where they are not"},
        {exchanged, "X0.0 R0.0 U0.0 W0.0\nwarm-up 1", "R0.0 X0.0 U0.0 W0.0\nwarm-up 1",
         "R0.0 stands before its exchange"},
        {exchanged, "B0.0.0 X0.0", "X0.0 B0.0.0", "X0.0 stands before the last backward"},
        {exchanged, "edge X0>R0 bytes 32 slots 1\n", "",
         "X0.0 has nothing to send: no edge X to R begins at its stage"},
        {exchanged, "B0.0.1 X0.0", "B0.0.1", "device 2: R0.0 stands before its exchange"},
        {recomputed, "C0.0.0 ", "", "B0.0.0 needs its activations, which are not on the device"},
        {recomputed, "D0.0.1:activations", "D0.0.1:activations C0.0.1 C0.0.1",
         "C0.0.1 makes again what is on the device"},
        {recomputed, "F0.0.0 D0.0.0:activations", "D0.0.0:activations F0.0.0",
         "D0.0.0:activations stands outside the time between its forward and its backward"},
        {swapped, "U0.0 O0.0.1:weights", "U0.0 D0.0.1:weights",
         "D0.0.1:weights drops what is nowhere else"},
        {swapped, "L0.0.0:weights F0.0.0", "F0.0.0 L0.0.0:weights",
         "F0.0.0 needs its weights on the device, where they are not"},
        {swapped, "B0.0.0-1 U0.0", "B0.0.0 D0.0.0:gradients B0.0.1 U0.0",
         "D0.0.0:gradients drops what is nowhere else"},
        {swapped, "B0.0.0-1 U0.0", "B0.0.0 O0.0.0:gradients B0.0.1 U0.0",
         "B0.0.1 needs its gradients on the device, where they are not"},
        {swapped, "U0.0 O0.0.1:weights", "L0.0.1:packed U0.0 O0.0.1:weights",
         "F0.0.0 needs its packed on the device, where they are not"},
        {swapped, "L0.0.0-1:activations", "L0.0.0:activations",
         "B0.0.1 needs its activations, which are not on the device"},
        {swapped, "L0.0.0:weights L0", "L0", "B0.0.0 needs its weights on the device"},
        {swapped, "D0.0.1:weights", "D0.0.1:buffers",
         "D0.0.1:buffers moves a class of memory that does not move"},
        {copied, "S0.0.1:0 ", "", "edge 0 has 1 send actions, expected 2"},
        {copied, "S0.0.0:0", "S0.0.0:1", "S0.0.0:1 names edge B1>B0, expected one that leaves"},
        {copied, "S0.0.0:0", "S0.0.0:7", "S0.0.0:7 names edge 7 of 2"},
        {passed, "V1.0.1:0 ", "", "edge 0 has 1 receive actions, expected 2"},
        {passed, "V1.0.0:0 F1.0.0 V1.0.1:0 F1", "F1.0.0 F1",
         "edge 0 has 0 receive actions, expected 2"},
        {passed_by_both, "V1.0.1:0 ", "", "edge 0 has 1 receive actions, expected 2"},
        {passed_by_both, "S0.0.1:0 V1.0.1:0", "V1.0.1:0 S0.0.1:0",
         "V1.0.1:0 waits for edge 0, F0>F1"},
        {interleaved, "F0.0.0-1 F2.0.0-1", "F2.0.0-1 F0.0.0-1", "waits for edge 1, F1>F2"},
        {by_policy, "order 0 policy\n", "", "device 0, line 15: F2.0.0 waits for edge 1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) case_fault(&rows[i], FT_OK);
}

static void test_each_direction_needs_its_copies(void)
{
    static const plan_fault rows[] = {
        {turned, "L0.0.0:turned B0.0.0-1", "B0.0.0-1 L0.0.0:turned",
         "B0.0.0 needs its turned on the device"},
        {turned, "L0.0.0:turned B0.0.0-1 L0.0.1:packed U0.0 O0.0.1:turned", "B0.0.0-1 U0.0",
         "B0.0.0 needs its packed on the device"},
        {turned, "M1.0.0:turned", "D1.0.0:packed M1.0.0:turned",
         "B1.0.0 needs its packed on the device"},
        {turned, "L0.0.1:packed ", "", "U0.0 needs its packed on the device"},
        {turned, "M1.0.0:turned", "L1.0.0:turned", "U1.0 needs its turned on the device"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) case_fault(&rows[i], FT_OK);
}

static void test_state_is_there_and_replicas_are_alike(void)
{
    static const plan_fault rows[] = {
        {attenuated, "A0.2.0:0~1", "O0.2.0:optimizer A0.2.0:0~1 L0.2.0:optimizer",
         "A0.2.0:0 needs its optimizer on the device, where they are not"},
        {predicted, "P0.2.0~1", "O0.2.0:optimizer P0.2.0~1 L0.2.0:optimizer",
         "P0.2.0 needs its optimizer on the device, where they are not"},
        {passed_by_both, "depth 0 in-flight 1", "depth 0 in-flight 1 replicas block",
         "S0.0.0:0 names edge F0>F1, expected one that leaves its stage"},
        {replicated, "replicas round-robin", "replicas block joint 2",
         "joint forwards of 2 micro-batches in stage 0, which has 1 in a batch"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) case_fault(&rows[i], FT_OK);
}

static void test_bad_words_are_refused_with_their_line(void)
{
    static const plan_fault rows[] = {
        {stashed, "versions 2", "versions 0", "line 8: versions is '0'"},
        {stashed, "versions 2", "versions 2 versions 2", "'versions' was not expected here"},
        {exchanged, "edge X0>R0", "edge F0>F0", "expected two different ones of 2"},
        {exchanged, "edge X0>R0", "edge R0>R0", "expected two different ones of 2"},
        {replicated, "round-robin", "at-random", "line 8: replicas is 'at-random', expected"},
        {replicated, "0,2", "0,3", "line 8: device is '0,3'"},
        {replicated, "0,2", "0,", "line 8: device is '0,'"},
        {by_policy, "order 0 policy", "order 0 chance", "line 15: found 'chance'"},
        {by_policy, "order 0 policy", "order 2 policy", "line 15: order is '2'"},
        {copied, "S0.0.0:0", "S0.0.0", "action is 'S0.0.0', expected"},
        {copied, "S0.0.0:0", "S0.0.0:x", "action is 'S0.0.0:x', expected"},
        {swapped, "L0.0.0:weights", "L0.0.0:colours", "action is 'L0.0.0:colours', expected"},
        {swapped, "L0.0.0:weights", "L0.0.0:weights5", "action is 'L0.0.0:weights5', expected"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) case_fault(&rows[i], FT_FORMAT);
}

/* A copy runs beside what follows in its list; what needs it waits. */
static void test_swaps_overlap_with_computing(void)
{
    const double forward[] = {100, 100}, backward[] = {200, 200};
    const ft_stage_costs costs = {.forward_ns = forward, .backward_ns = backward};
    const ft_cable link = {.a = 0, .b = 1, .bytes_per_s = 1e9, .duplex = true};
    const int home[] = {1};
    const int64_t bytes[2][FT_MEMORY_CLASSES] = {
        {[FT_MEMORY_WEIGHTS] = 50, [FT_MEMORY_ACTIVATIONS] = 80}, {[FT_MEMORY_WEIGHTS] = 50}};
    const ft_machine machine = {
        .n_devices = 1, .n_places = 2, .n_links = 1, .links = &link, .home = home};
    const ft_simulation options = {.costs = &costs, .machine = &machine, .swap_bytes = bytes};
    ft_error err = {0};
    ft_timeline *timeline = NULL;
    ft_plan *plan = case_parse(swapped);
    if (!plan) return;
    if (!CHECK_STATUS(ft_plan_simulate_on(&timeline, plan, &options, &err), FT_OK)) {
        fprintf(stderr, "%s\n", err.message);
        ft_plan_free(plan);
        return;
    }
    /* Weights in 50, four forwards, four backwards; of the other copies those that compute waits
     * for: weights of stage 1 behind the last forward of stage 0 (50), and of stage 0 and its first
     * activations (50 + 80) behind the last backward of stage 1. */
    CHECK(ft_timeline_end_ns(timeline) == 50 + 400 + 800 + 50 + 50 + 80 + 50);
    CHECK(ft_timeline_busy_ns(timeline, 0) == 4 * 100 + 4 * 200);
    CHECK(timeline->n_passages == 9);
    int64_t stalls[FT_ACT_COUNT];
    ft_copy_sum copies[FT_MEMORY_CLASSES];
    const int64_t saved[] = {80, 0};
    const ft_holdings holdings = {
        .plan = plan, .saved_bytes = saved, .moved_bytes = options.swap_bytes};
    ft_timeline_stalls(timeline, 0, stalls);
    CHECK(stalls[FT_ACT_SWAP_IN] == 50 + 50 + 50 + 80 && stalls[FT_ACT_SWAP_OUT] == 0);
    CHECK_STATUS(ft_timeline_find_waits(timeline, plan, NULL), FT_OK);
    ft_timeline_copies(timeline, 0, &holdings, copies);
    /* weights of stage 1 leave while those of stage 0 come, the second activations while those of
     * stage 1 come; the last weights leave when nothing waits for them */
    CHECK(copies[FT_MEMORY_WEIGHTS].ns == 5 * 50 && copies[FT_MEMORY_WEIGHTS].exposed_ns == 4 * 50);
    CHECK(copies[FT_MEMORY_ACTIVATIONS].ns == 4 * 80 &&
          copies[FT_MEMORY_ACTIVATIONS].exposed_ns == 80 + 50);
    ft_timeline_free(timeline);
    ft_plan_free(plan);
}

static void test_what_passes_through_host_memory(void)
{
    static const double ns_per_byte = 2;
    const double forward[] = {100, 100}, backward[] = {200, 200};
    const ft_stage_costs costs = {.forward_ns = forward, .backward_ns = backward};
    const int64_t none[2][FT_MEMORY_CLASSES] = {{0}};
    const ft_simulation options = {.costs = &costs,
                                   .swap_bytes = (const int64_t(*)[FT_MEMORY_CLASSES])none,
                                   .swap_ns_per_byte = &ns_per_byte};
    ft_error err = {0};
    ft_timeline *timeline = NULL;
    ft_copy_sum copies[FT_MEMORY_CLASSES];
    ft_plan *plan = case_parse(passed);
    const ft_holdings holdings = {.plan = plan, .moved_bytes = options.swap_bytes};
    if (!plan) return;
    if (CHECK_STATUS(ft_plan_simulate_on(&timeline, plan, &options, &err), FT_OK)) {
        /* One goes out beside the second forward and comes in behind it; the other comes in behind
         * the forward that reads the first. */
        CHECK(ft_timeline_end_ns(timeline) == 100 + 2 * 128 + 100 + 128 + 100 + 4 * 200);
        ft_timeline_copies(timeline, 0, &holdings, copies);
        CHECK(copies[FT_MEMORY_BUFFERS].bytes_in == 128);
        CHECK(copies[FT_MEMORY_BUFFERS].bytes_out == 128);
        CHECK(copies[FT_MEMORY_BUFFERS].ns == 4 * 128);
    }
    ft_timeline_free(timeline);
    ft_plan_free(plan);
}

/* When the weights of stage 1 were there, which come while those of stage 0 are saved: to another
 * place, or to the one that these leave. */
static int64_t time_of_arrival(ft_plan *plan, const ft_simulation *options)
{
    ft_error err = {0};
    ft_timeline *timeline = NULL;
    int64_t end = -1;
    if (!CHECK_STATUS(ft_plan_simulate_on(&timeline, plan, options, &err), FT_OK)) return -1;
    for (int64_t i = 0; i < timeline->n_events; i++)
        if (timeline->events[i].kind == FT_ACT_SWAP_IN && timeline->events[i].stage == 1)
            end = timeline->events[i].end_ns;
    ft_timeline_free(timeline);
    return end;
}

static void test_what_comes_waits_for_what_leaves(void)
{
    static const char *const text =
        HEAD(2, 1, 1, 1) "stage 0 device 0\nstage 1 device 0\n"
                         "edge F0>F1 bytes 64 slots 1\nedge B1>B0 bytes 64 slots 1\n"
                         "warm-up 0 L0.0.0:weights F0.0.0 O0.0.0:weights L1.0.0:weights F1.0.0 "
                         "B1.0.0 U1.0 O1.0.0:weights L0.0.0:weights B0.0.0 U0.0 O0.0.0:weights\n";
    static const double ns_per_byte = 2;
    static const ft_lot apart[] = {{0, 0}, {0, 50}, {50, 70}}, met[] = {{0, 0}, {0, 50}, {49, 70}};
    const double forward[] = {100, 100}, backward[] = {200, 200};
    const ft_stage_costs costs = {.forward_ns = forward, .backward_ns = backward};
    const int64_t bytes[2][FT_MEMORY_CLASSES] = {{50}, {70}};
    ft_simulation options = {.costs = &costs,
                             .swap_bytes = (const int64_t(*)[FT_MEMORY_CLASSES])bytes,
                             .swap_ns_per_byte = &ns_per_byte};
    ft_plan *plan = case_parse(text);
    if (!plan) return;
    const ft_action_list *list = &plan->devices[0].warmup;
    for (int i = 0; i < list->n; i++) {
        ft_action *a = (ft_action *)(uintptr_t)&list->actions[i];
        if (a->kind == FT_ACT_SWAP_IN) a->stay = 1 + a->stage;
    }
    CHECK(time_of_arrival(plan, &options) == 100 + 100 + 140);
    options.lots = apart;
    CHECK(time_of_arrival(plan, &options) == 100 + 100 + 140);
    options.lots = met;
    CHECK(time_of_arrival(plan, &options) == 100 + 100 + 100 + 140);
    ft_plan_free(plan);
}

static void test_no_memory_is_an_error(void)
{
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int64_t before = ft_alloc_live();
        for (int n = 1;; n++) {
            ft_error err = {0};
            ft_plan *plan = NULL;
            ft_timeline *timeline = NULL;
            ft_alloc_fail_after(n);
            ft_status status = ft_plan_parse(&plan, all[i], &err);
            if (status == FT_OK) status = ft_plan_check(plan, &err);
            if (status == FT_OK) status = ft_plan_simulate(&timeline, plan, NULL, &err);
            ft_alloc_fail_after(0);
            ft_timeline_free(timeline);
            ft_plan_free(plan);
            CHECK(ft_alloc_live() == before);
            if (status == FT_OK) break;
            if (!CHECK_STATUS(status, FT_NOMEM)) break;
        }
    }
}

int main(void)
{
    RUN(test_every_kind);
    RUN(test_wrong_ones_are_refused_in_words);
    RUN(test_each_direction_needs_its_copies);
    RUN(test_state_is_there_and_replicas_are_alike);
    RUN(test_bad_words_are_refused_with_their_line);
    RUN(test_swaps_overlap_with_computing);
    RUN(test_what_passes_through_host_memory);
    RUN(test_what_comes_waits_for_what_leaves);
    RUN(test_no_memory_is_an_error);
    return check_report();
}
