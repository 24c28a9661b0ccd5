/* test/test_simulate.c - simulated times against closed forms, links that are shared, and
 * schedules beyond the plain ones. */
#include "check.h"
#include "proof/proof.h"
#include "simulate_case.h"

/* -- closed forms ------------------------------------------------------------------------------ */

/* ZB-H1 with F, I and G of one length: (P - 1) (F + I - G) instead of (P - 1) (F + I + G), in the
 * memory of 1F1B's first stage. */
static void test_bubble_of_halved_backwards(void)
{
    for (int stages = 2; stages <= 8; stages++)
        for (int micros = stages; micros <= 3 * stages; micros += stages) {
            pipeline_case c;
            case_chain(&c, stages, micros, 1, 2, 10, 20);
            case_suit(&c, ft_schedule_find("zero-bubble"));
            for (int s = 0; s < stages; s++) c.input_ns[s] = c.weight_ns[s] = 10;
            CHECK(end_of(&c, "zero-bubble") == 30 * micros + 10 * (stages - 1));
            ft_plan *plan = case_plan(&c, "zero-bubble");
            for (int s = 0; plan && s < stages; s++) CHECK(plan->in_flight[s] <= stages);
            ft_plan_free(plan);
        }
}

/* V stages a device: the bubble is V times smaller, (P - 1) of a stage's F and B. */
static void test_bubble_of_stages_in_turns(void)
{
    for (int devices = 2; devices <= 4; devices++)
        for (int chunks = 1; chunks <= 4; chunks++)
            for (int rounds = 1; rounds <= 3; rounds++) {
                pipeline_case c;
                int n = devices * chunks, micros = devices * rounds;
                case_chain(&c, n, micros, 2, 2 * n, 10, 20);
                c.pipeline.n_devices = devices;
                for (int s = 0; s < n; s++) c.device[s] = s % devices;
                int64_t end = 2 * 30 * ((int64_t)micros * chunks + devices - 1);
                CHECK(end_of(&c, "interleaved") == end);
                if (n <= 8) case_norms(&c, 2); /* updates that wait for every stage */
                CHECK(end_of(&c, "interleaved") == end);
            }
}

/* Without flush and with free transfers the slowest device sets the pace, once enough is in
 * flight. */
static void test_steady_state_is_the_slowest_device(void)
{
    for (uint64_t seed = 0; seed < 50; seed++) {
        ft_rng rng;
        pipeline_case c;
        int64_t end[2], slowest = 0;
        ft_rng_init(&rng, 7, seed);
        int n = 2 + (int)ft_rng_below(&rng, 8), m = 1 + (int)ft_rng_below(&rng, 4);
        for (int longer = 0; longer < 2; longer++) {
            ft_rng_init(&rng, 8, seed);
            case_chain(&c, n, m, longer ? 200 : 100, 2 * n, 0, 0);
            for (int s = 0; s < n; s++) {
                c.forward_ns[s] = (double)(50 + ft_rng_below(&rng, 50));
                c.backward_ns[s] = (double)(100 + ft_rng_below(&rng, 100));
                c.update_ns[s] = (double)ft_rng_below(&rng, 30);
            }
            end[longer] = end_of(&c, "async");
        }
        for (int s = 0; s < n; s++) {
            int64_t work = m * (int64_t)(c.forward_ns[s] + c.backward_ns[s]);
            work += (int64_t)c.update_ns[s];
            if (work > slowest) slowest = work;
        }
        int64_t took = end[1] - end[0];
        CHECK(took >= 100 * slowest && took <= 100 * slowest + slowest / 50);
    }
}

/* A delay is as likely to be anything from 0 to the longest. */
static void test_delays_are_drawn_from_all(void)
{
    pipeline_case c;
    double sum = 0;
    int64_t least = 3000, most = 0;
    case_chain(&c, 1, 1, 1, 1, 100, 200);
    int64_t end = end_of(&c, "sequential");
    for (uint64_t seed = 0; seed < 300; seed++) { /* a forward, a backward, an update */
        ft_plan *plan = case_plan(&c, "sequential");
        const ft_simulation options = {.costs = &c.costs, .delay_ns = 1000, .seed = seed};
        ft_timeline *t = simulate(plan, &options);
        int64_t delay = t ? ft_timeline_end_ns(t) - end : -1;
        sum += (double)delay;
        least = delay < least ? delay : least;
        most = delay > most ? delay : most;
        ft_timeline_free(t);
        ft_plan_free(plan);
    }
    CHECK(least >= 0 && least < 600 && most > 2400 && most <= 3000);
    CHECK(sum / 300 > 1350 && sum / 300 < 1650);
}

/* What passes over stages waits at its reader while those work on it: a slot for each of them and
 * one more is as good as any number; with one fewer the forwards of a batch wait. */
static void test_slots_of_edges_over_stages(void)
{
    static const char *const names[] = {"sequential", "gpipe", "1f1b", "async"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int over = 1; over <= 5; over++) {
            int64_t end[3];
            const int slots[] = {over + 2, 100, over + 1};
            for (int k = 0; k < 3; k++) {
                pipeline_case c;
                case_chain(&c, 7, 8, 4, 2, 10, 20);
                case_edge(&c, 0, FT_ACT_FORWARD, over + 1, FT_ACT_FORWARD, slots[k]);
                case_edge(&c, over + 1, FT_ACT_BACKWARD, 0, FT_ACT_BACKWARD, slots[k]);
                end[k] = end_of(&c, names[i]);
            }
            CHECK(end[0] == end[1]);
            CHECK(!strcmp(names[i], "gpipe") ? end[2] > end[0] : end[2] >= end[0]);
        }
}

/* -- staleness --------------------------------------------------------------------------------- */

/* The published values of 15 stages, by depth and micro-batches per update. */
static void test_published_staleness(void)
{
    static const int rows[][4] = {/* micro-batches, depth, least, most */
                                  {1, 0, 0, 0}, {1, 1, 1, 1}, {1, 7, 7, 7}, {1, 14, 14, 14},
                                  {2, 1, 0, 1}, {2, 3, 1, 2}, {2, 7, 3, 4}, {2, 14, 7, 7},
                                  {5, 3, 0, 1}, {5, 7, 1, 2}, {5, 14, 2, 3}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pipeline_case c;
        int least, most;
        case_chain(&c, 15, rows[i][0], 60, 2, 10, 20);
        ft_plan *plan = case_plan(&c, "async");
        if (!plan) continue;
        ft_plan_staleness(plan, 14 - rows[i][1], 20, &least, &most);
        CHECK(least == rows[i][2] && most == rows[i][3]);
        CHECK(plan->in_flight[14 - rows[i][1]] == rows[i][1] + 1);
        ft_plan_free(plan);
    }
}

/* PipeDream's w(t + 1) = w(t) - grad(w_s(t - n + s)), its vertical sync, and 2BW's delay of one. */
static void test_versions_of_each_way(void)
{
    static const struct {
        const char *schedule;
        ft_weights weights;
        int micros, first_lag, first_versions, last_lag, last_versions;
        double first_mean;
    } rows[] = {{"async", FT_WEIGHTS_OWN, 1, 3, 1, 0, 1, 3},
                {"async", FT_WEIGHTS_OWN, 4, 1, 1, 0, 1, 0.75},
                {"async", FT_WEIGHTS_STASH, 1, 3, 4, 0, 1, 3},
                {"async", FT_WEIGHTS_VERTICAL, 1, 3, 4, 3, 4, 3},
                {"async", FT_WEIGHTS_PREDICT, 1, 3, 1, 0, 1, 3},
                {"async", FT_WEIGHTS_STASH, 2, 2, 3, 0, 1, 1.5},
                {"2bw", FT_WEIGHTS_OWN, 4, 1, 2, 1, 2, 1},
                {"1f1b", FT_WEIGHTS_STASH, 4, 0, 1, 0, 1, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pipeline_case c;
        int least, most;
        case_chain(&c, 4, rows[i].micros, 40, 2, 10, 20);
        c.pipeline.weights = rows[i].weights;
        ft_plan *plan = case_plan(&c, rows[i].schedule);
        if (!plan) continue;
        ft_plan_staleness(plan, 0, 10, &least, &most);
        CHECK(most == rows[i].first_lag && plan->versions[0] == rows[i].first_versions);
        CHECK_NEAR(ft_plan_mean_staleness(plan, 0), rows[i].first_mean, 1e-12);
        ft_plan_staleness(plan, 3, 10, &least, &most);
        CHECK(most == rows[i].last_lag && plan->versions[3] == rows[i].last_versions);
        ft_plan_free(plan);
    }
    pipeline_case c;
    ft_error err = {0};
    ft_plan *plan;
    case_chain(&c, 6, 2, 10, 2, 10, 20);
    CHECK_STATUS(ft_plan_make(&plan, &c.pipeline, ft_schedule_find("2bw"), &err), FT_INFEASIBLE);
    CHECK(strstr(err.message, "stage 0 works 2 batches ahead, at most 1"));
}

/* 15 workers and one, as PipeDream has for VGG-16: micro-batch b on replica b mod 15. */
static void test_one_forward_one_backward_round_robin(void)
{
    enum { REPLICAS = 15 };
    pipeline_case c;
    int first[] = {0, REPLICAS, REPLICAS + 1}, devices[REPLICAS + 1];
    for (int i = 0; i <= REPLICAS; i++) devices[i] = i;
    case_chain(&c, 2, REPLICAS, 20, 2 * REPLICAS, 0, 0);
    c.forward_ns[0] = 1000 * REPLICAS;
    c.backward_ns[0] = 2000 * REPLICAS;
    c.forward_ns[1] = 1000;
    c.backward_ns[1] = 1999;
    c.pipeline.n_devices = REPLICAS + 1;
    c.pipeline.replica_first = first;
    c.pipeline.replica_device = devices;
    ft_plan *plan = case_plan(&c, "async");
    ft_timeline *timeline = simulate(plan, &(ft_simulation){.costs = &c.costs});
    if (timeline) {
        CHECK(plan->in_flight[0] == 2 && plan->in_flight[1] == 1);
        for (int64_t i = 0; i < timeline->n_events; i++) {
            const ft_event *e = &timeline->events[i];
            if (e->stage == 0 && ft_action_per_micro(e->kind)) CHECK(e->device == e->micro);
        }
        int64_t work = 20LL * 3000 * REPLICAS;
        CHECK(ft_timeline_busy_ns(timeline, 3) == work);
        CHECK(ft_timeline_end_ns(timeline) < work + work / 10);
    }
    ft_timeline_free(timeline);
    ft_plan_free(plan);
}

/* A stage runs as far ahead as there are workers behind it. */
static void test_workers_behind_a_stage(void)
{
    pipeline_case c;
    const int first[] = {0, 1, 4, 5}, devices[] = {0, 1, 2, 3, 4};
    case_chain(&c, 3, 3, 4, 6, 100, 200);
    c.pipeline.n_devices = 5;
    c.pipeline.replica_first = first;
    c.pipeline.replica_device = devices;
    ft_plan *plan = case_plan(&c, "async");
    if (plan) CHECK(plan->in_flight[0] == 1 + 3 + 1);
    if (plan) CHECK(plan->in_flight[1] == 2 && plan->in_flight[2] == 1);
    ft_plan_free(plan);
}

/* An action that could start when its data came and its device was free waited for its device. */
static void test_what_a_start_waited_for(void)
{
    pipeline_case c;
    case_chain(&c, 2, 3, 1, 3, 100, 100);
    ft_plan *plan = case_plan(&c, "gpipe");
    ft_timeline *t = simulate(plan, &(ft_simulation){.costs = &c.costs});
    int seen = 0;
    for (int64_t i = 0; t && i < t->n_events; i++) {
        const ft_event *e = &t->events[i];
        if (e->stage != 1 || e->kind != FT_ACT_FORWARD || e->micro == 0) continue;
        const ft_event *cause = &t->events[t->cause[i]];
        CHECK(cause->end_ns == e->start_ns && cause->stage == 1);
        seen++;
    }
    CHECK(seen == 2);
    ft_timeline_free(t);
    ft_plan_free(plan);
}

/* -- machines ---------------------------------------------------------------------------------- */

/* Two pairs of stages that send at one moment. */
static const char *const pairs =
    "ftpipe-plan 1\nstages 4\ndevices 4\nmicro-batches 1\nbatches 1\nbody-batches 0\n"
    "body-repeats 0\nstage 0 device 0 depth 1 in-flight 1\nstage 1 device 1 depth 0 in-flight 1\n"
    "stage 2 device 2 depth 1 in-flight 1\nstage 3 device 3 depth 0 in-flight 1\n"
    "edge F0>F1 bytes 1000 slots 1\nedge F2>F3 bytes 1000 slots 1\n"
    "warm-up 0 F0.0.0 B0.0.0 U0.0\nwarm-up 1 F1.0.0 B1.0.0 U1.0\n"
    "warm-up 2 F2.0.0 B2.0.0 U2.0\nwarm-up 3 F3.0.0 B3.0.0 U3.0\n";

static int64_t start_of(const ft_timeline *t, int stage)
{
    for (int64_t i = 0; i < t->n_events; i++)
        if (t->events[i].stage == stage && t->events[i].kind == FT_ACT_FORWARD)
            return t->events[i].start_ns;
    return -1;
}

static void check_pairs(ft_machine *m, int64_t first, int64_t second)
{
    const double forward[] = {100, 50, 100, 50}, none[] = {0, 0, 0, 0};
    const ft_stage_costs costs = {.forward_ns = forward, .backward_ns = none};
    ft_error err = {0};
    ft_plan *plan = NULL;
    CHECK_STATUS(ft_plan_parse(&plan, pairs, &err), FT_OK);
    ft_timeline *t = simulate(plan, &(ft_simulation){.costs = &costs, .machine = m});
    if (t) {
        CHECK(start_of(t, 1) == first && start_of(t, 3) == second);
        int64_t path[8];
        CHECK(ft_timeline_critical_path(t, path, 8) >= 2);
        CHECK(t->events[path[0]].end_ns == ft_timeline_end_ns(t));
    }
    ft_timeline_free(t);
    ft_plan_free(plan);
}

/* 1000 bytes at 1 GB/s take 1000 ns, and 10 ns on the way. */
static void test_links_serve_who_asked_first(void)
{
    ft_cable own[4], bus[5];
    const int64_t launch[] = {3, 3, 3, 3};
    const double copies[] = {1e9, 1e9, 2e9, 2e9};
    for (int d = 0; d < 4; d++) {
        own[d] = (ft_cable){.a = d, .b = 4, .bytes_per_s = 1e9, .latency_ns = 5, .duplex = true};
        bus[d] = (ft_cable){.a = d, .b = 4 + d % 2, .bytes_per_s = 4e9, .latency_ns = 0};
    }
    ft_machine m = {.n_devices = 4, .n_places = 5, .n_links = 4, .links = own};
    check_pairs(&m, 1110, 1110); /* each over links of its own */
    m.hand_off_ns = 40;
    m.launch_ns = launch;
    check_pairs(&m, 1153, 1153);
    m.copy_bytes_per_s = copies; /* the sender copies 1000 bytes */
    check_pairs(&m, 2153, 1653);
    bus[4] = (ft_cable){.a = 4, .b = 5, .bytes_per_s = 1e9, .latency_ns = 10, .duplex = true};
    ft_machine shared = {.n_devices = 4, .n_places = 6, .n_links = 5, .links = bus};
    check_pairs(&shared, 1110, 2110); /* one link between the hosts: the second waits */
}

/* Nanoseconds from the last R to the first U of a stage of n replicas on the machine. */
static int64_t sum_on(const ft_machine *m, int n, int64_t bytes)
{
    pipeline_case c;
    ft_error err = {0};
    ft_plan *plan = NULL;
    const int first[] = {0, n}, devices[] = {0, 1, 2, 3};
    case_chain(&c, 1, 12, 1, 1, 100, 200);
    c.pipeline.n_devices = n;
    c.pipeline.replica_first = first;
    c.pipeline.replica_device = devices;
    c.pipeline.reduce_bytes = &bytes;
    int64_t reduced = -1, updated = -1;
    if (!CHECK_STATUS(ft_plan_make(&plan, &c.pipeline, ft_schedule_find("data-parallel"), &err),
                      FT_OK))
        return -1;
    ft_timeline *t = simulate(plan, &(ft_simulation){.costs = &c.costs, .machine = m});
    for (int64_t i = 0; t && i < t->n_events; i++) {
        const ft_event *e = &t->events[i];
        if (e->kind == FT_ACT_REDUCE && e->end_ns > reduced) reduced = e->end_ns;
        if (e->kind == FT_ACT_UPDATE && (updated < 0 || e->start_ns < updated))
            updated = e->start_ns;
    }
    ft_timeline_free(t);
    ft_plan_free(plan);
    return updated - reduced;
}

/* What a batch sends to all replicas of a stage is there when the last of them has it. */
static void test_all_replicas_wait_for_the_last(void)
{
    enum { SLOW_NS = 101000 }; /* of 101 bytes */
    pipeline_case c;
    const int first[] = {0, 2, 3}, devices[] = {0, 1, 2};
    ft_cable links[] = {{.a = 2, .b = 0, .bytes_per_s = 1e6, .duplex = true},
                        {.a = 2, .b = 1, .bytes_per_s = 1e9, .duplex = true},
                        {.a = 0, .b = 1, .bytes_per_s = 1e9, .duplex = true}};
    ft_machine m = {.n_devices = 3, .n_places = 3, .n_links = 3, .links = links};
    case_chain(&c, 2, 2, 1, 2, 100, 100);
    c.pipeline.n_devices = 3;
    c.pipeline.replica_first = first;
    c.pipeline.replica_device = devices;
    case_norms(&c, 2);
    ft_plan *plan = case_plan(&c, "1f1b");
    ft_timeline *t = simulate(plan, &(ft_simulation){.costs = &c.costs, .machine = &m});
    int64_t summed = -1;
    for (int64_t i = 0; t && i < t->n_events; i++)
        if (t->events[i].stage == 1 && t->events[i].kind == FT_ACT_REDUCE)
            summed = t->events[i].end_ns;
    for (int64_t i = 0; t && i < t->n_events; i++)
        if (t->events[i].stage == 0 && t->events[i].kind == FT_ACT_UPDATE)
            CHECK(t->events[i].start_ns >= summed + SLOW_NS);
    CHECK(summed > 0);
    ft_timeline_free(t);
    ft_plan_free(plan);
}

/* A ring of n passes 2 (n - 1) parts of an n-th each, one after the other: over cables from each to
 * the next at the rate of the slowest; over one cable that all of them need, one at a time. */
static void test_sums_go_round_a_ring(void)
{
    for (int n = 2; n <= 4; n++) {
        ft_cable next[4], hub[5];
        for (int d = 0; d < 4; d++) {
            next[d] = (ft_cable){.a = d, .b = (d + 1) % n, .bytes_per_s = 1e9, .latency_ns = 7};
            next[d].duplex = true;
            hub[d] = (ft_cable){.a = d, .b = n, .bytes_per_s = 1e12, .one_way = true};
        }
        ft_machine ring = {.n_devices = n, .n_places = n, .n_links = n == 2 ? 1 : n, .links = next};
        CHECK(sum_on(&ring, n, 1200) == 2 * (n - 1) * (1200 / n + 7));
        next[0].bytes_per_s = 0.5e9;
        CHECK(sum_on(&ring, n, 1200) == 2 * (n - 1) * (2400 / n + 7));
        ft_cable bus[9];
        for (int d = 0; d < n; d++) {
            bus[d] = hub[d];
            bus[n + d] = (ft_cable){.a = n + 1, .b = d, .bytes_per_s = 1e12, .one_way = true};
        }
        bus[2 * n] = (ft_cable){.a = n, .b = n + 1, .bytes_per_s = 1e9, .one_way = true};
        ft_machine host = {.n_devices = n, .n_places = n + 2, .n_links = 2 * n + 1, .links = bus};
        CHECK(sum_on(&host, n, 1200) == 2 * (n - 1) * 1200);
    }
}

/* Through a host that lets one transfer through at a time: devices to it, it to devices. */
static void test_what_all_ways_cross_is_shared(void)
{
    ft_cable links[9];
    for (int d = 0; d < 4; d++) {
        links[d] = (ft_cable){.a = d, .b = 4, .bytes_per_s = 1e9, .latency_ns = 5, .one_way = true};
        links[4 + d] =
            (ft_cable){.a = 5, .b = d, .bytes_per_s = 1e9, .latency_ns = 5, .one_way = true};
    }
    links[8] = (ft_cable){.a = 4, .b = 5, .bytes_per_s = 1e9, .one_way = true};
    ft_machine m = {.n_devices = 4, .n_places = 6, .n_links = 9, .links = links};
    check_pairs(&m, 1110, 2110);
    links[8].bytes_per_s = 2e9; /* has room for the second when half of the first's time is over */
    check_pairs(&m, 1110, 1610);
    links[0].bytes_per_s = 1e8;
    check_pairs(&m, 10110, 1610); /* a slow link holds up nobody but itself */
    links[8].a = 5;               /* backwards: there is no way any more */
    links[8].b = 4;
    double latency[16], per_byte[16];
    ft_error err = {0};
    CHECK_STATUS(ft_machine_idle(&m, 0, latency, per_byte, &err), FT_INVALID);
    CHECK(strstr(err.message, "no way from device 0 to device 1"));
    links[8].one_way = false;
    CHECK_STATUS(ft_machine_idle(&m, 0, latency, per_byte, &err), FT_OK);
    CHECK(latency[1] == 10 && per_byte[1] == 10 && per_byte[6] == 1 && latency[5] == 0);
}

static void test_bad_machines_are_refused(void)
{
    pipeline_case c;
    ft_error err = {0};
    case_chain(&c, 2, 1, 1, 1, 10, 10);
    ft_plan *plan = case_plan(&c, "1f1b");
    ft_cable link = {.a = 0, .b = 1, .bytes_per_s = 1e9};
    ft_machine m = {.n_devices = 2, .n_places = 2, .n_links = 1, .links = &link};
    const ft_simulation options = {.machine = &m};
    ft_timeline *t = NULL;
    struct {
        double bytes_per_s;
        int b, n_devices, n_links;
        const char *words;
    } rows[] = {{0, 1, 2, 1, "link 0 has 0 bytes/s"},
                {1e9, 2, 2, 1, "link 0 joins places 0 and 2"},
                {1e9, 1, 3, 1, "3 devices, the plan has 2"},
                {1e9, 1, 2, 0, "no way from place 0 to place 1"},
                {1e-9, 1, 2, 1, "transfer of edge 0 takes"}};
    for (size_t i = 0; plan && i < sizeof rows / sizeof *rows; i++) {
        link.bytes_per_s = rows[i].bytes_per_s;
        link.b = rows[i].b;
        m.n_devices = rows[i].n_devices;
        m.n_links = rows[i].n_links;
        CHECK_STATUS(ft_plan_simulate_on(&t, plan, &options, &err), FT_INVALID);
        if (!CHECK(strstr(err.message, rows[i].words))) fprintf(stderr, "%s\n", err.message);
    }
    ft_plan_free(plan);
}

/* 1F1B holds depth + 1 micro-batches at most, and nothing at the end. */
static void test_memory_over_time(void)
{
    pipeline_case c;
    const int64_t saved[] = {10, 100, 1000};
    case_chain(&c, 3, 6, 2, 2, 10, 20);
    ft_plan *plan = case_plan(&c, "1f1b");
    ft_timeline *t = simulate(plan, &(ft_simulation){.costs = &c.costs});
    for (int d = 0; t && d < 3; d++) {
        const ft_holdings holdings = {.plan = plan, .saved_bytes = saved};
        ft_memory_curve curve;
        CHECK_STATUS(ft_timeline_memory(&curve, t, d, &holdings, NULL), FT_OK);
        CHECK(curve.n == 2 * 6 * 2 && curve.points[curve.n - 1].bytes == 0);
        CHECK(curve.peak == saved[d] * plan->in_flight[d]);
        ft_memory_curve_fini(&curve);
    }
    ft_timeline_free(t);
    ft_plan_free(plan);
}

/* -- chance ------------------------------------------------------------------------------------ */

static void random_machine(ft_machine *m, ft_cable *links, int n_devices, ft_rng *rng)
{
    int n = 0;
    for (int d = 0; d < n_devices; d++)
        links[n++] = (ft_cable){.a = d,
                                .b = n_devices + (int)ft_rng_below(rng, 2),
                                .bytes_per_s = 1e9 * (double)(1 + ft_rng_below(rng, 9)),
                                .latency_ns = (int64_t)ft_rng_below(rng, 20),
                                .duplex = ft_rng_below(rng, 2)};
    links[n++] = (ft_cable){.a = n_devices, .b = n_devices + 1, .bytes_per_s = 1e9};
    *m = (ft_machine){.n_devices = n_devices,
                      .n_places = n_devices + 2,
                      .n_links = n,
                      .links = links,
                      .hand_off_ns = (int64_t)ft_rng_below(rng, 10)};
}

static bool same_timelines(const ft_timeline *a, const ft_timeline *b)
{
    return a && b && a->n_events == b->n_events && a->n_passages == b->n_passages &&
           !memcmp(a->events, b->events, (size_t)a->n_events * sizeof *a->events) &&
           !memcmp(a->passages, b->passages, (size_t)a->n_passages * sizeof *a->passages);
}

/* Random plans under random delays, on lists or by policy, on random links: none waits for ever,
 * every event is there, and the same seed gives the same bytes. */
static void test_no_deadlock_under_any_delay(void)
{
    for (uint64_t seed = 0; seed < CASES(400); seed++) {
        ft_rng rng;
        pipeline_case c;
        ft_error err = {0};
        ft_machine m;
        ft_cable links[8];
        ft_rng_init(&rng, 9, seed);
        case_random(&c, &rng);
        random_machine(&m, links, c.pipeline.n_devices, &rng);
        case_walk walk = {0};
        for (const ft_schedule *s; (s = case_next(&c, &walk));) {
            ft_plan *plan = NULL;
            c.pipeline.weights = (ft_weights)ft_rng_below(&rng, FT_WEIGHTS_DOUBLE);
            if (!CHECK_STATUS(ft_plan_make(&plan, &c.pipeline, s, &err), FT_OK)) {
                fprintf(stderr, "%s: %s\n", s->name, err.message);
                continue;
            }
            bool *by_policy = (bool *)(uintptr_t)plan->by_policy;
            for (int d = 0; d < plan->n_devices; d++) by_policy[d] = ft_rng_below(&rng, 2);
            CHECK_STATUS(ft_plan_check(plan, &err), FT_OK);
            const ft_simulation options = {.costs = &c.costs,
                                           .machine = ft_rng_below(&rng, 2) ? &m : NULL,
                                           .delay_ns = (int64_t)ft_rng_below(&rng, 300),
                                           .seed = seed};
            ft_timeline *once = simulate(plan, &options), *twice = simulate(plan, &options);
            CHECK(same_timelines(once, twice));
            ft_timeline_free(once);
            ft_timeline_free(twice);
            ft_plan_free(plan);
        }
    }
}

int main(void)
{
    RUN(test_bubble_of_halved_backwards);
    RUN(test_bubble_of_stages_in_turns);
    RUN(test_steady_state_is_the_slowest_device);
    RUN(test_delays_are_drawn_from_all);
    RUN(test_slots_of_edges_over_stages);
    RUN(test_published_staleness);
    RUN(test_versions_of_each_way);
    RUN(test_one_forward_one_backward_round_robin);
    RUN(test_workers_behind_a_stage);
    RUN(test_what_a_start_waited_for);
    RUN(test_all_replicas_wait_for_the_last);
    RUN(test_links_serve_who_asked_first);
    RUN(test_what_all_ways_cross_is_shared);
    RUN(test_sums_go_round_a_ring);
    RUN(test_bad_machines_are_refused);
    RUN(test_memory_over_time);
    RUN(test_no_deadlock_under_any_delay);
    return check_report();
}
