/* test/test_schedule.c - rules, plans and their times on pipelines whose answers are known. */
#include "check.h"
#include "proof/proof.h"
#include "schedule_cases.h"
#include "base/alloc.h"
#include "plan/making.h"

static const ft_schedule *find(const char *name)
{
    return ft_schedule_find(name);
}

/* The letters of what the stage does, F and B only. */
static void order_letters(const ft_plan *plan, int stage, char *out)
{
    int d = plan->device[stage];
    for (int64_t i = 0; i < ft_plan_length(plan, d); i++) {
        ft_action a = ft_plan_at(plan, d, i);
        if (a.stage == stage && ft_action_per_micro(a.kind)) *out++ = ft_action_letter(a.kind);
    }
    *out = 0;
}

static void test_rows(void)
{
    int n = 0;
    for (; ft_schedules[n]; n++) {
        CHECK(ft_schedule_find(ft_schedules[n]->name) == ft_schedules[n]);
        CHECK(strlen(ft_schedules[n]->doc) > 10);
    }
    CHECK(n > 0);
    CHECK(!ft_schedule_find("1F1B"));
    CHECK(!strcmp(ft_action_word(FT_ACT_ADOPT), "adopt") && ft_action_letter(FT_ACT_ADOPT) == 'W');
}

static void test_orders_of_four_stages(void)
{
    static const struct {
        const char *schedule;
        int micro_batches, n_batches;
        const char *by_depth[4];
    } rows[] = {
        {"async",
         1,
         8,
         {"FBFBFBFBFBFBFBFB", "FFBFBFBFBFBFBFBB", "FFFBFBFBFBFBFBBB", "FFFFBFBFBFBFBBBB"}},
        {"async",
         4,
         2,
         {"FBFBFBFBFBFBFBFB", "FFBFBFBFBFBFBFBB", "FFFBFBFBFBFBFBBB", "FFFFBFBFBFBFBBBB"}},
        {"gpipe",
         4,
         2,
         {"FFFFBBBBFFFFBBBB", "FFFFBBBBFFFFBBBB", "FFFFBBBBFFFFBBBB", "FFFFBBBBFFFFBBBB"}},
        {"1f1b",
         4,
         2,
         {"FBFBFBFBFBFBFBFB", "FFBFBFBBFFBFBFBB", "FFFBFBBBFFFBFBBB", "FFFFBBBBFFFFBBBB"}},
        {"sequential", 2, 2, {"FBFBFBFB", "FBFBFBFB", "FBFBFBFB", "FBFBFBFB"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pipeline_case c;
        char letters[64];
        case_chain(&c, 4, rows[i].micro_batches, rows[i].n_batches, 2, 10, 20);
        ft_plan *plan = case_plan(&c, rows[i].schedule);
        for (int s = 0; plan && s < 4; s++) {
            CHECK(plan->depth[s] == 3 - s);
            order_letters(plan, s, letters);
            CHECK(!strcmp(letters, rows[i].by_depth[3 - s]));
        }
        ft_plan_free(plan);
    }
}

static void check_list(const ft_plan *plan, int device, const char *wanted)
{
    char text[1024] = "";
    int used = 0;
    for (int64_t i = 0; i < ft_plan_length(plan, device); i++) {
        ft_action a = ft_plan_at(plan, device, i);
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%c%d.%d", i ? " " : "",
                         ft_action_letter(a.kind), a.stage, a.batch);
        if (ft_action_per_micro(a.kind))
            used += snprintf(text + used, sizeof text - (size_t)used, ".%d", a.micro);
    }
    if (!CHECK(!strcmp(text, wanted))) fprintf(stderr, "%s\n", text);
}

/* Micro-batches go in their own order both ways, and R and U stand right behind their last B. */
static void test_whole_list_of_a_stage(void)
{
    pipeline_case c;
    case_chain(&c, 2, 3, 2, 1, 1, 1);
    c.pipeline.reduces = true;
    ft_plan *plan = case_plan(&c, "gpipe");
    if (plan)
        check_list(plan, 0,
                   "F0.0.0 F0.0.1 F0.0.2 B0.0.0 B0.0.1 B0.0.2 R0.0 U0.0 "
                   "F0.1.0 F0.1.1 F0.1.2 B0.1.0 B0.1.1 B0.1.2 R0.1 U0.1");
    ft_plan_free(plan);
}

static int64_t end_of(const pipeline_case *c, const char *schedule)
{
    ft_error err = {0};
    ft_timeline *timeline = NULL;
    ft_plan *plan = case_plan(c, schedule);
    if (!plan || !CHECK_STATUS(ft_plan_simulate(&timeline, plan, &c->costs, &err), FT_OK))
        return -1;
    int64_t end = ft_timeline_end_ns(timeline);
    for (int d = 0; d < c->pipeline.n_devices; d++) {
        int64_t work = 0, micros = (int64_t)c->pipeline.micro_batches * c->pipeline.n_batches;
        for (int s = 0; s < c->pipeline.n_stages; s++)
            if (c->device[s] == d)
                work += (int64_t)(c->forward_ns[s] + c->backward_ns[s]) * micros +
                        (int64_t)c->update_ns[s] * c->pipeline.n_batches;
        CHECK(ft_timeline_busy_ns(timeline, d) == work);
    }
    ft_timeline_free(timeline);
    ft_plan_free(plan);
    return end;
}

/* With equal stages: (P - 1) / (M + P - 1) of the time for the synchronous ones, once per batch;
 * without flush only at the two ends; none of it with two slots an edge. */
static void test_bubbles_are_the_textbook_ones(void)
{
    for (int stages = 1; stages <= 8; stages++)
        for (int micros = 1; micros <= 9; micros += 2)
            for (int ratio = 1; ratio <= 3; ratio++) {
                pipeline_case c;
                int64_t both = 100 + 100 * ratio, batches = 3, wait = stages - 1;
                case_chain(&c, stages, micros, (int)batches, 2, 100, 100 * ratio);
                CHECK(end_of(&c, "gpipe") == batches * (micros + wait) * both);
                CHECK(end_of(&c, "1f1b") == batches * (micros + wait) * both);
                CHECK(end_of(&c, "async") == (batches * micros + wait) * both);
                CHECK(end_of(&c, "sequential") == batches * micros * stages * both);
            }
}

static void test_updates_and_transfers_are_timed(void)
{
    pipeline_case c;
    case_chain(&c, 2, 1, 1, 1, 100, 200);
    c.update_ns[0] = 7;
    c.update_ns[1] = 1000;
    c.transfer_ns[0] = 30; /* F0>F1 */
    c.transfer_ns[1] = 50; /* B1>B0 */
    CHECK(end_of(&c, "1f1b") == 100 + 30 + 100 + 200 + 1000);
    c.update_ns[1] = 5;
    CHECK(end_of(&c, "1f1b") == 100 + 30 + 100 + 200 + 50 + 200 + 7);
}

/* One slot: the next forward of the sender waits until the receiver is through. */
static void test_a_slot_is_held_to_the_end_of_its_use(void)
{
    pipeline_case c;
    case_chain(&c, 2, 2, 1, 1, 100, 0);
    c.forward_ns[1] = 300;
    CHECK(end_of(&c, "gpipe") == 100 + 300 + 100 + 300);
    c.edges[0].slots = 2;
    CHECK(end_of(&c, "gpipe") == 100 + 300 + 300);
}

/* Lags of a forward in the steady state: floor and ceiling of depth over micro-batches. */
static void test_lags_are_the_theoretical_staleness(void)
{
    for (int micros = 1; micros <= 5; micros++) {
        pipeline_case c;
        case_chain(&c, 8, micros, 40, 2, 10, 20);
        ft_plan *plan = case_plan(&c, "async");
        for (int s = 0; plan && s < 8; s++) {
            int least = 99, most = -1, depth = plan->depth[s];
            for (int64_t i = 0; i < ft_plan_length(plan, s); i++) {
                ft_action a = ft_plan_at(plan, s, i);
                CHECK(a.kind == FT_ACT_FORWARD || a.lag == 0);
                if (a.kind != FT_ACT_FORWARD || a.batch < 10) continue;
                if (a.lag < least) least = a.lag;
                if (a.lag > most) most = a.lag;
            }
            CHECK(least == depth / micros && most == (depth + micros - 1) / micros);
            CHECK(plan->in_flight[s] == depth + 1);
        }
        ft_plan_free(plan);
    }
}

/* With a bound: the theoretical staleness, or the bound where that is less; what is in flight and
 * the versions that are kept follow from it, and a bound of 0 is 1F1B with its flush. */
static void test_bounds_of_staleness(void)
{
    for (int micros = 1; micros <= 5; micros++)
        for (int bound = 0; bound <= 8; bound++) {
            pipeline_case c;
            char letters[2][700];
            case_chain(&c, 8, micros, 40, 2, 10, 20);
            ft_plan *flushed = case_plan(&c, "1f1b");
            c.pipeline.weights = FT_WEIGHTS_STASH;
            c.pipeline.is_bounded = true;
            c.pipeline.most_late = bound;
            ft_plan *plan = case_plan(&c, "async");
            for (int s = 0; plan && flushed && s < 8; s++) {
                int least, most, depth = plan->depth[s], wanted = (depth + micros - 1) / micros;
                ft_plan_staleness(plan, s, 0, &least, &most);
                CHECK(most == (bound < wanted ? bound : wanted));
                CHECK(plan->versions[s] == most + 1);
                int flight = (bound + 1) * micros;
                CHECK(plan->in_flight[s] == (flight < depth + 1 ? flight : depth + 1));
                order_letters(flushed, s, letters[0]);
                order_letters(plan, s, letters[1]);
                CHECK(bound || !strcmp(letters[0], letters[1]));
            }
            ft_plan_free(plan);
            ft_plan_free(flushed);
        }
}

static void test_bounds_that_cannot_be(void)
{
    pipeline_case c;
    ft_plan *plan;
    ft_error err = {0};
    case_chain(&c, 2, 2, 4, 2, 10, 20);
    c.pipeline.is_bounded = true;
    CHECK_STATUS(ft_plan_make(&plan, &c.pipeline, find("2bw"), &err), FT_INVALID);
    CHECK(strstr(err.message, "one update late"));
    c.pipeline.most_late = -1;
    CHECK_STATUS(ft_plan_make(&plan, &c.pipeline, find("async"), &err), FT_INVALID);
    CHECK(strstr(err.message, "expected 0 or more"));
}

static int64_t batches_take(pipeline_case *c, int n_batches)
{
    ft_error err = {0};
    ft_timeline *timeline = NULL;
    c->pipeline.n_batches = n_batches;
    ft_plan *plan = case_plan(c, "async");
    if (!plan || !CHECK_STATUS(ft_plan_simulate(&timeline, plan, &c->costs, &err), FT_OK))
        return -1;
    int64_t end = ft_timeline_end_ns(timeline);
    ft_timeline_free(timeline);
    ft_plan_free(plan);
    return end;
}

/* Norms come as late as the backward of a batch does to the first stage, so that nobody waits for
 * them: a batch takes what it takes without norms, and longer where all wait for all. */
static void test_late_norms_cost_nothing(void)
{
    for (int n = 2; n <= 8; n++)
        for (int micros = 1; micros <= 5; micros++) {
            pipeline_case c;
            int64_t per_batch[3];
            for (int i = 0; i < 3; i++) {
                case_chain(&c, n, micros, 60, 2, 10, 20);
                if (i == 1) case_late_norms(&c, (n + micros - 1) / micros + 1);
                if (i == 2) case_norms(&c, (n + micros - 1) / micros + 1);
                per_batch[i] = batches_take(&c, 80) - batches_take(&c, 60);
                if (i != 1) continue;
                ft_plan *plan = case_plan(&c, "async");
                for (int s = 0; plan && s < n; s++)
                    CHECK(ft_plan_norm_lag(plan, s) == (s + micros - 1) / micros);
                ft_plan_free(plan);
            }
            CHECK(per_batch[0] == (int64_t)20 * micros * 30);
            CHECK(per_batch[1] == per_batch[0]);
            CHECK(per_batch[2] > per_batch[0]);
        }
}

/* Both uses of the weight by one micro-batch are preceded by as many new versions. */
static void test_tied_weights_have_one_version_per_micro_batch(void)
{
    for (int micros = 1; micros <= 4; micros++) {
        pipeline_case c;
        case_chain(&c, 4, micros, 30, 2, 10, 20);
        case_tie(&c, 0, 3, 5);
        case_norms(&c, 5);
        ft_plan *plan = case_plan(&c, "async");
        int version[2][120] = {{0}}, n_adopts = 0;
        for (int side = 0; plan && side < 2; side++) {
            int stage = side ? 3 : 0, count = 0;
            ft_action_kind step = side ? FT_ACT_ADOPT : FT_ACT_UPDATE;
            for (int64_t i = 0; i < ft_plan_length(plan, stage); i++) {
                ft_action a = ft_plan_at(plan, stage, i);
                if (a.kind == step) count++;
                if (a.kind == FT_ACT_ADOPT) n_adopts++;
                if (a.kind == FT_ACT_FORWARD) version[side][ft_action_index(plan, &a)] = count;
            }
        }
        CHECK(n_adopts == 30);
        CHECK(!memcmp(version[0], version[1], sizeof version[0]));
        ft_plan_free(plan);
    }
}

/* A skipping edge needs as many slots as the sender runs ahead: one fewer blocks. */
static void test_one_slot_fewer_blocks(void)
{
    pipeline_case c;
    ft_plan *plan = NULL;
    ft_error err = {0};
    int slots = 0;
    while (!plan) {
        case_chain(&c, 5, 4, 6, 1, 10, 20);
        case_edge(&c, 0, FT_ACT_FORWARD, 4, FT_ACT_FORWARD, ++slots);
        case_edge(&c, 4, FT_ACT_BACKWARD, 0, FT_ACT_BACKWARD, 1);
        ft_status status = ft_plan_make(&plan, &c.pipeline, find("async"), &err);
        if (status != FT_OK && !CHECK_STATUS(status, FT_INFEASIBLE)) return;
        if (slots > 10) break;
    }
    CHECK(slots > 1 && slots <= 5);
    if (!plan) return;
    ft_edge *edge = (ft_edge *)(uintptr_t)&plan->edges[8];
    CHECK_STATUS(ft_plan_check(plan, &err), FT_OK);
    edge->slots--;
    CHECK_STATUS(ft_plan_check(plan, &err), FT_INFEASIBLE);
    CHECK(strstr(err.message, "waits for a free slot of edge 8, F0>F4"));
    CHECK(strstr(err.message, "device 0: F0."));
    ft_plan_free(plan);
}

/* A device with the first and the last stage: a backward first, then the stage near the loss.
 * Worked out by hand: F0.0.2 can start when F2.0.0 does, and gives way to B2.0.0, F2.0.1 and
 * B2.0.1; later B0.0.1 can start when B2.0.2 has ended, and gives way to U2.0. */
static void test_the_stage_near_the_loss_goes_first(void)
{
    pipeline_case c;
    case_chain(&c, 3, 3, 1, 2, 10, 10);
    c.device[2] = 0;
    c.pipeline.n_devices = 2;
    ft_plan *plan = case_plan(&c, "1f1b");
    if (plan) {
        check_list(
            plan, 0,
            "F0.0.0 F0.0.1 F2.0.0 B2.0.0 F2.0.1 B2.0.1 F0.0.2 B0.0.0 F2.0.2 B2.0.2 U2.0 B0.0.1 "
            "B0.0.2 U0.0");
        check_list(plan, 1, "F1.0.0 F1.0.1 B1.0.0 F1.0.2 B1.0.1 B1.0.2 U1.0");
    }
    ft_plan_free(plan);
}

/* B0.0.0 and F1.0.1 can start together: the backward goes first, though farther from the loss. */
static void test_a_backward_goes_before_a_forward(void)
{
    pipeline_case c;
    case_chain(&c, 2, 3, 1, 2, 10, 10);
    c.device[1] = 0;
    c.pipeline.n_devices = 1;
    ft_plan *plan = case_plan(&c, "1f1b");
    if (plan)
        check_list(plan, 0,
                   "F0.0.0 F1.0.0 B1.0.0 F0.0.1 B0.0.0 F1.0.1 B1.0.1 F0.0.2 B0.0.1 F1.0.2 B1.0.2 "
                   "U1.0 B0.0.2 U0.0");
    ft_plan_free(plan);
}

static void test_long_legs_are_short_plans(void)
{
    pipeline_case c;
    case_walk walk = {0};
    case_chain(&c, 8, 8, 100000, 2, 100, 200);
    case_norms(&c, 3);
    case_tie(&c, 0, 7, 4);
    for (const ft_schedule *s; (s = case_next(&c, &walk));) {
        int64_t stored = 0, length = 0;
        ft_plan *plan = case_plan(&c, s->name);
        for (int d = 0; plan && d < 8; d++) {
            const ft_device_plan *lists = &plan->devices[d];
            stored += lists->warmup.n + lists->body.n + lists->drain.n;
            length += ft_plan_length(plan, d);
        }
        CHECK(length == (8 * ((s->splits ? 3 : 2) * 8 + 2) + 1) * 100000LL);
        CHECK(stored < 8 * 3 * 26);
        CHECK(plan && plan->body_batches == 1 && plan->body_repeats > 99990);
        ft_plan_free(plan);
    }
}

static ft_action_kind only_forward(const ft_rule_state *state)
{
    (void)state;
    return FT_ACT_FORWARD;
}

static void check_refused(const ft_pipeline *p, const ft_schedule *schedule, const char *words)
{
    ft_error err = {0};
    ft_plan *plan;
    CHECK_STATUS(ft_plan_make(&plan, p, schedule, &err), FT_INVALID);
    if (!CHECK(strstr(err.message, words))) fprintf(stderr, "%s\n", err.message);
    CHECK(!plan);
}

static void test_bad_input_is_refused_in_words(void)
{
    pipeline_case c;
    const ft_schedule forward = {.name = "forward", .next = only_forward};
    const ft_schedule liar = {.name = "liar", .next = only_forward, .synchronous = true};
    const ft_schedule nameless = {.name = "two words", .next = only_forward};
    const ft_schedule endless = {.name = "thirty-two-letters-are-too-long-", .next = only_forward};
    case_chain(&c, 3, 2, 2, 1, 1, 1);
    check_refused(&c.pipeline, &forward,
                  "stage 0, after 65536 forwards and 0 backwards: the next action is more batches "
                  "ahead");
    check_refused(&c.pipeline, &liar, "a forward of the next batch before this one's update");
    check_refused(&c.pipeline, &nameless, "expected a name");
    check_refused(&c.pipeline, &endless, "expected a name of 1 to 31 letters");
    c.device[1] = 3;
    check_refused(&c.pipeline, find("1f1b"), "stage 1 is on device 3 of 3");
    c.device[1] = 1;
    c.edges[2].slots = 0;
    check_refused(&c.pipeline, find("1f1b"), "edge 2 has 0 slots");
    c.edges[2].slots = FT_PLAN_MAX_SLOTS + 1;
    check_refused(&c.pipeline, find("1f1b"), "edge 2 has 16777217 slots, expected 1 to 16777216");
    c.edges[2].slots = FT_PLAN_MAX_SLOTS;
    CHECK_STATUS(ft_edge_check(&c.edges[2], 2, 3, NULL), FT_OK);
    c.edges[2].slots = 1;
    c.edges[2].to_kind = FT_ACT_UPDATE;
    check_refused(&c.pipeline, find("1f1b"), "edge 2 joins");
    c.edges[2].to_kind = FT_ACT_FORWARD;
    case_edge(&c, 2, FT_ACT_FORWARD, 0, FT_ACT_FORWARD, 1);
    check_refused(&c.pipeline, find("1f1b"), "forward edges go in a circle");
    c.pipeline.n_edges--;
    c.forward_ns[2] = NAN;
    check_refused(&c.pipeline, find("1f1b"), "forward of stage 2 takes nan s, expected 0 to 1000");
    c.forward_ns[2] = 1;
    c.pipeline.n_batches = 1 << 28;
    c.pipeline.micro_batches = 1 << 20;
    check_refused(&c.pipeline, find("1f1b"), "actions in a leg");
    case_edge(&c, 0, FT_ACT_REDUCE, 1, FT_ACT_UPDATE, 1);
    c.pipeline.n_batches = c.pipeline.micro_batches = 2;
    check_refused(&c.pipeline, find("1f1b"), "begins at a reduce");
}

static void test_unequal_turns_are_refused(void)
{
    pipeline_case c;
    const int first[] = {0, 2}, devices[] = {0, 1};
    case_chain(&c, 4, 3, 1, 2, 1, 1);
    c.pipeline.n_devices = 2;
    for (int s = 0; s < 4; s++) c.device[s] = s % 2;
    check_refused(&c.pipeline, find("interleaved"),
                  "3 micro-batches, expected a multiple of the 2 devices");
    case_chain(&c, 1, 3, 1, 2, 1, 1);
    c.pipeline.n_devices = 2;
    c.pipeline.replica_first = first;
    c.pipeline.replica_device = devices;
    check_refused(&c.pipeline, find("data-parallel"),
                  "3 micro-batches cannot be dealt to the 2 replicas of stage 0 alike");
}

static ft_action_kind eight_ahead(const ft_rule_state *s)
{
    return s->forwards - s->backwards < 8 ? FT_ACT_FORWARD : FT_ACT_BACKWARD;
}

/* A rule of the user's without a name in the table, and without a flush. */
static void test_a_new_rule_is_a_row(void)
{
    pipeline_case c;
    ft_error err = {0};
    ft_plan *plan;
    const ft_schedule eager = {.name = "eager", .next = eight_ahead};
    case_chain(&c, 3, 2, 4, 2, 1, 1);
    CHECK_STATUS(ft_plan_make(&plan, &c.pipeline, &eager, &err), FT_OK);
    CHECK(plan && plan->in_flight[0] == 8 && plan->in_flight[2] == 8);
    ft_plan_free(plan);
}

static ft_action_kind halves_ahead(const ft_rule_state *s)
{
    if (s->forwards - s->backwards < 8) return FT_ACT_FORWARD;
    return s->weights < s->backwards ? FT_ACT_BACKWARD_WEIGHT : FT_ACT_BACKWARD_INPUT;
}

/* A rule that would run ahead is held back, with whole backwards and with halves. */
static void test_a_rule_is_held_to_a_bound(void)
{
    const ft_schedule rules[] = {{.name = "eager", .next = eight_ahead},
                                 {.name = "halves", .splits = true, .next = halves_ahead}};
    for (int i = 0; i < 2; i++)
        for (int bound = 0; bound < 4; bound++) {
            pipeline_case c;
            ft_error err = {0};
            ft_plan *plan;
            int least, most;
            case_chain(&c, 3, 2, 12, 4, 1, 1);
            case_suit(&c, &rules[i]);
            c.pipeline.is_bounded = true;
            c.pipeline.most_late = bound;
            if (!CHECK_STATUS(ft_plan_make(&plan, &c.pipeline, &rules[i], &err), FT_OK)) continue;
            ft_plan_staleness(plan, 0, 6, &least, &most);
            CHECK(most == bound && plan->in_flight[0] == 2 * (bound + 1));
            ft_plan_free(plan);
        }
}

static void test_no_memory_is_an_error(void)
{
    pipeline_case c;
    ft_error err = {0};
    case_chain(&c, 3, 2, 60, 2, 10, 20);
    case_tie(&c, 0, 2, 3);
    int64_t before = ft_alloc_live();
    for (int n = 1;; n++) {
        ft_plan *plan = NULL;
        ft_timeline *timeline = NULL;
        ft_alloc_fail_after(n);
        ft_status status = ft_plan_make(&plan, &c.pipeline, find("async"), &err);
        if (status == FT_OK) status = ft_plan_simulate(&timeline, plan, &c.costs, &err);
        ft_alloc_fail_after(0);
        ft_timeline_free(timeline);
        ft_plan_free(plan);
        CHECK(ft_alloc_live() == before);
        if (status == FT_OK) {
            CHECK(n > 5);
            return;
        }
        if (!CHECK_STATUS(status, FT_NOMEM)) return;
    }
}

/* Two stages on each of two devices in turns. Worked out by hand from the published order: device p
 * runs 2 (P - p - 1) + (V - 1) P forwards ahead, P micro-batches through one stage and then the
 * same ones through its next; backwards likewise, from its last stage on. */
static void test_the_order_of_stages_in_turns(void)
{
    static const char *const wanted[] = {"F0.0 F0.1 F2.0 F2.1 F0.2 B2.0 F0.3 B2.1 F2.2 B0.0 F2.3 "
                                         "B0.1 B2.2 B2.3 B0.2 B0.3 U2.0 U0.0 ",
                                         "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 F1.2 B1.0 F1.3 B1.1 F3.2 "
                                         "B3.2 F3.3 B3.3 B1.2 B1.3 U3.0 U1.0 "};
    pipeline_case c;
    case_chain(&c, 4, 4, 1, 4, 10, 20);
    c.pipeline.n_devices = 2;
    for (int s = 0; s < 4; s++) c.device[s] = s % 2;
    ft_plan *plan = case_plan(&c, "interleaved");
    for (int d = 0; plan && d < 2; d++) {
        char text[256] = "";
        int used = 0;
        for (int64_t i = 0; i < ft_plan_length(plan, d); i++) {
            ft_action a = ft_plan_at(plan, d, i);
            used += snprintf(text + used, sizeof text - (size_t)used, "%c%d.%d ",
                             ft_action_letter(a.kind), a.stage, a.micro);
        }
        if (!CHECK(!strcmp(text, wanted[d]))) fprintf(stderr, "device %d: %s\n", d, text);
    }
    ft_plan_free(plan);
}

/* All micro-batches through one stage of a device, then through its next; an update behind the
 * backwards of its stage, unless it waits for the gradients of a stage that comes later. */
static void test_the_order_of_groups(void)
{
    pipeline_case c;
    case_chain(&c, 4, 2, 1, 2, 10, 20);
    c.pipeline.n_devices = 2;
    for (int s = 0; s < 4; s++) c.device[s] = s % 2;
    ft_plan *plan = case_plan(&c, "harmony-pp");
    check_list(plan, 0, "F0.0.0 F0.0.1 F2.0.0 F2.0.1 B2.0.0 B2.0.1 U2.0 B0.0.0 B0.0.1 U0.0");
    check_list(plan, 1, "F1.0.0 F1.0.1 F3.0.0 F3.0.1 B3.0.0 B3.0.1 U3.0 B1.0.0 B1.0.1 U1.0");
    ft_plan_free(plan);
    c.pipeline.reduces = true;
    ft_edge *edges = c.edges;
    edges[c.pipeline.n_edges++] = (ft_edge){1, 2, FT_ACT_REDUCE, FT_ACT_UPDATE, 0, 1, 0};
    edges[c.pipeline.n_edges++] = (ft_edge){3, 0, FT_ACT_REDUCE, FT_ACT_UPDATE, 0, 1, 0};
    plan = case_plan(&c, "harmony-pp");
    check_list(plan, 0,
               "F0.0.0 F0.0.1 F2.0.0 F2.0.1 B2.0.0 B2.0.1 R2.0 B0.0.0 B0.0.1 R0.0 U0.0 U2.0");
    check_list(plan, 1,
               "F1.0.0 F1.0.1 F3.0.0 F3.0.1 B3.0.0 B3.0.1 R3.0 U3.0 B1.0.0 B1.0.1 R1.0 U1.0");
    ft_plan_free(plan);
}

int main(void)
{
    RUN(test_rows);
    RUN(test_the_order_of_groups);
    RUN(test_orders_of_four_stages);
    RUN(test_whole_list_of_a_stage);
    RUN(test_bubbles_are_the_textbook_ones);
    RUN(test_updates_and_transfers_are_timed);
    RUN(test_a_slot_is_held_to_the_end_of_its_use);
    RUN(test_lags_are_the_theoretical_staleness);
    RUN(test_bounds_of_staleness);
    RUN(test_late_norms_cost_nothing);
    RUN(test_bounds_that_cannot_be);
    RUN(test_tied_weights_have_one_version_per_micro_batch);
    RUN(test_one_slot_fewer_blocks);
    RUN(test_the_stage_near_the_loss_goes_first);
    RUN(test_a_backward_goes_before_a_forward);
    RUN(test_long_legs_are_short_plans);
    RUN(test_bad_input_is_refused_in_words);
    RUN(test_unequal_turns_are_refused);
    RUN(test_a_new_rule_is_a_row);
    RUN(test_a_rule_is_held_to_a_bound);
    RUN(test_no_memory_is_an_error);
    RUN(test_the_order_of_stages_in_turns);
    return check_report();
}
