/* test/test_residency.c - loads, saves and drops of random orders, replayed by others. */
#include "proof/proof.h"
#include "residency/residency.h"
#include "schedule_cases.h"

/* A request and what it points to. */
typedef struct residency_case {
    ft_residency q;
    int64_t bytes[CASE_STAGES][FT_MEMORY_CLASSES], capacity[CASE_STAGES], all[CASE_STAGES];
    int64_t least[CASE_STAGES];
    bool makes[CASE_STAGES];
} residency_case;

/* State of random sizes; weights of which older versions are kept stay. */
static void make_case(residency_case *c, const ft_plan *plan, ft_rng *rng)
{
    bool with_activations = ft_rng_below(rng, 2);
    memset(c, 0, sizeof *c);
    for (int s = 0; s < plan->n_stages; s++) {
        int64_t size = 64 * (1 + (int64_t)ft_rng_below(rng, 9));
        bool stays = plan->versions[s] > 1;
        c->bytes[s][FT_MEMORY_WEIGHTS] = stays ? 0 : size;
        c->bytes[s][FT_MEMORY_PACKED] = stays || ft_rng_below(rng, 2) ? 0 : size;
        c->bytes[s][FT_MEMORY_TURNED] = ft_rng_below(rng, 3) ? c->bytes[s][FT_MEMORY_PACKED] : 0;
        c->bytes[s][FT_MEMORY_GRADIENTS] = size;
        c->bytes[s][FT_MEMORY_OPTIMIZER] = 2 * size;
        c->makes[s] = ft_rng_below(rng, 2);
        if (with_activations)
            c->bytes[s][FT_MEMORY_ACTIVATIONS] = 64 * (1 + (int64_t)ft_rng_below(rng, 5));
        for (int k = 0; k < FT_MEMORY_CLASSES; k++)
            c->all[plan->device[s]] +=
                c->bytes[s][k] * (k == FT_MEMORY_ACTIVATIONS ? plan->in_flight[s] : 1);
    }
    c->q = (ft_residency){.plan = plan,
                          .bytes = (const int64_t(*)[FT_MEMORY_CLASSES])c->bytes,
                          .capacity = c->capacity,
                          .ahead = (int)ft_rng_below(rng, 6),
                          .room = 0.25 * (double)ft_rng_below(rng, 4),
                          .spreads = ft_rng_below(rng, 2),
                          .makes = c->makes};
}

enum { CASE_MICROS = 4096 }; /* of a stage, more than are ever under way */

/* What is on a device; activations by micro-batch. */
typedef struct presence {
    const residency_case *c;
    const ft_plan *plan;
    bool there[CASE_STAGES][FT_MEMORY_CLASSES], micros[CASE_STAGES][CASE_MICROS];
    int64_t live;
} presence;

static bool *place_of(presence *p, const ft_action *a, int class)
{
    int64_t micro = ft_action_index(p->plan, a) % CASE_MICROS;
    return class == FT_MEMORY_ACTIVATIONS ? &p->micros[a->stage][micro]
                                          : &p->there[a->stage][class];
}

static void set_there(presence *p, const ft_action *a, int class, bool there)
{
    bool *here = place_of(p, a, class);
    if (*here != there)
        p->live += there ? p->c->bytes[a->stage][class] : -p->c->bytes[a->stage][class];
    *here = there;
}

/* What an action that computes brings and ends. */
static void replay_work(presence *p, const ft_action *a, bool halves)
{
    bool backward = a->kind == FT_ACT_BACKWARD || a->kind == FT_ACT_BACKWARD_WEIGHT;
    if (a->kind == FT_ACT_FORWARD) set_there(p, a, FT_MEMORY_ACTIVATIONS, true);
    if (backward && a->micro == 0) set_there(p, a, FT_MEMORY_GRADIENTS, true);
    if (backward || a->kind == FT_ACT_BACKWARD_INPUT) {
        CHECK(!p->c->bytes[a->stage][FT_MEMORY_ACTIVATIONS] ||
              *place_of(p, a, FT_MEMORY_ACTIVATIONS));
        CHECK(p->live <= p->c->capacity[p->plan->device[a->stage]]);
    }
    if (backward && !(halves && a->kind == FT_ACT_BACKWARD))
        set_there(p, a, FT_MEMORY_ACTIVATIONS, false);
}

/* What is made of weights has left before they change. */
static void check_made(presence *p, const ft_action *a)
{
    if (a->kind != FT_ACT_UPDATE || !p->c->makes[a->stage]) return;
    CHECK(!*place_of(p, a, FT_MEMORY_PACKED) && !*place_of(p, a, FT_MEMORY_TURNED));
}

/* Nothing is over the capacity, all of it leaves, and the volumes are what was copied. */
static void check_replay(const residency_case *c, const ft_plan *plan, const ft_volume *volumes)
{
    static presence p;
    for (int d = 0; d < plan->n_devices; d++) {
        int64_t in = 0, out = 0, moves = 0, in_said = 0, out_said = 0;
        p = (presence){.c = c, .plan = plan};
        for (int64_t i = 0; i < ft_plan_length(plan, d); i++) {
            ft_action a = ft_plan_at(plan, d, i);
            bool comes = a.kind == FT_ACT_SWAP_IN, saves = a.kind == FT_ACT_SWAP_OUT;
            bool begins = comes || a.kind == FT_ACT_MAKE;
            int64_t bytes = c->bytes[a.stage][a.item];
            if (ft_action_moves(&a)) {
                bool made = c->q.makes && c->makes[a.stage] && ft_memory_classes[a.item].is_made;
                CHECK(made ? !comes && !saves : a.kind != FT_ACT_MAKE);
                CHECK(*place_of(&p, &a, a.item) != begins);
                set_there(&p, &a, a.item, begins);
                moves++;
                CHECK(p.live <= c->capacity[d]);
            } else {
                replay_work(&p, &a, false);
                check_made(&p, &a);
            }
            in += comes ? bytes : 0;
            out += saves ? bytes : 0;
        }
        for (int k = 0; k < FT_MEMORY_CLASSES; k++) {
            in_said += volumes[d].in[k];
            out_said += volumes[d].out[k];
        }
        CHECK(!moves || p.live == 0);
        CHECK(in == in_said && out == out_said);
        CHECK(moves == volumes[d].loads + volumes[d].saves + volumes[d].drops + volumes[d].makes);
    }
}

/* What leaves a device does so in a batch that still has work there: a shorter leg keeps it. */
static void check_batches(const ft_plan *plan)
{
    for (int d = 0; d < plan->n_devices; d++) {
        int least = -1; /* batch of the work behind; none yet */
        for (int64_t i = ft_plan_length(plan, d) - 1; i >= 0; i--) {
            ft_action a = ft_plan_at(plan, d, i);
            bool leaves = a.kind == FT_ACT_SWAP_OUT || a.kind == FT_ACT_DROP;
            if (leaves) CHECK(least < 0 || a.batch >= least);
            bool works = !ft_action_moves(&a);
            if (works && (least < 0 || a.batch < least)) least = a.batch;
        }
    }
}

/* With what lies between the least and all; a shorter leg of it is proven too. */
static bool check_between(residency_case *c, const ft_plan *plan, ft_rng *rng)
{
    ft_error err = {0};
    ft_volume volumes[CASE_STAGES];
    ft_plan *moved = NULL, *cut = NULL;
    for (int d = 0; d < plan->n_devices; d++)
        c->capacity[d] =
            c->least[d] + (int64_t)ft_rng_below(rng, (uint64_t)(c->all[d] - c->least[d]) + 1);
    ft_status status = ft_residency_plan(&moved, &c->q, volumes, &err);
    bool ok = CHECK_STATUS(status, FT_OK) && CHECK_STATUS(ft_plan_check(moved, &err), FT_OK);
    if (ok) check_replay(c, moved, volumes);
    if (ok) check_batches(moved);
    if (ok) {
        int n = 1 + (int)ft_rng_below(rng, (uint64_t)plan->n_batches);
        ok = CHECK_STATUS(ft_plan_cut(&cut, moved, n, &err), FT_OK) &&
             CHECK_STATUS(ft_plan_check(cut, &err), FT_OK);
    }
    ft_plan_free(cut);
    ft_plan_free(moved);
    if (!ok) fprintf(stderr, "%s: %s\n", plan->schedule, err.message);
    return ok;
}

/* All of it stays as it is; a byte less than the least is refused. */
static void check_ends(residency_case *c, const ft_plan *plan)
{
    ft_error err = {0};
    ft_volume volumes[CASE_STAGES];
    ft_plan *moved = NULL;
    ft_text before = {0}, after = {0};
    memcpy(c->capacity, c->all, sizeof c->capacity);
    if (CHECK_STATUS(ft_residency_plan(&moved, &c->q, volumes, &err), FT_OK)) {
        CHECK(ft_plan_write(plan, &before, &err) == FT_OK);
        CHECK(ft_plan_write(moved, &after, &err) == FT_OK);
        CHECK(plan->n_batches > 20 || strcmp(before.data, after.data) == 0);
        CHECK(volumes[0].loads == 0 && volumes[0].saves == 0 && volumes[0].drops == 0);
    }
    ft_plan_free(moved);
    ft_text_fini(&before);
    ft_text_fini(&after);
    memcpy(c->capacity, c->least, sizeof c->capacity);
    c->capacity[0]--;
    CHECK_STATUS(ft_residency_plan(&moved, &c->q, volumes, &err), FT_INFEASIBLE);
    CHECK(strstr(err.message, "alone needs") && strstr(err.message, "into more stages"));
}

static void test_random_orders(void)
{
    int planned = 0;
    for (int seed = 0; seed < CASES(150); seed++) {
        ft_rng rng;
        pipeline_case p;
        ft_rng_init(&rng, 21, (uint64_t)seed);
        case_random(&p, &rng);
        if (seed % 4 == 0) p.pipeline.n_batches = 30 + (int)ft_rng_below(&rng, 200);
        case_walk walk = {.all_weights = true};
        for (const ft_schedule *s; (s = case_next(&p, &walk));) {
            ft_error err = {0};
            ft_plan *plan = NULL;
            residency_case c;
            if (!CHECK_STATUS(ft_plan_make(&plan, &p.pipeline, s, &err), FT_OK)) continue;
            make_case(&c, plan, &rng);
            ft_status status =
                plan->forward_only ? FT_UNSUPPORTED : ft_residency_least(&c.q, c.least, &err);
            bool policy = false;
            for (int d = 0; d < plan->n_devices; d++) policy = policy || plan->by_policy[d];
            if (status == FT_OK && !policy && c.least[0] < c.all[0]) {
                planned++;
                check_between(&c, plan, &rng);
                check_ends(&c, plan);
            }
            ft_plan_free(plan);
        }
    }
    CHECK(planned > CASES(150));
}

/* One device, stages of equal weights, room for two of three: what is needed last goes. */
static void test_what_is_needed_last_goes(void)
{
    static const char *const text =
        "ftpipe-plan 1\nstages 3\ndevices 1\nmicro-batches 1\nbatches 1\nbody-batches 0\n"
        "body-repeats 0\nstage 0 device 0\nstage 1 device 0\nstage 2 device 0\n"
        "edge F0>F1 bytes 1 slots 1\nedge F1>F2 bytes 1 slots 1\n"
        "edge B2>B1 bytes 1 slots 1\nedge B1>B0 bytes 1 slots 1\n"
        "warm-up 0 F0.0.0 F1.0.0 F2.0.0 B2.0.0 U2.0 B1.0.0 U1.0 B0.0.0 U0.0\n";
    ft_error err = {0};
    ft_plan *plan = NULL, *moved = NULL;
    ft_volume volume;
    ft_text out = {0};
    const int64_t bytes[3][FT_MEMORY_CLASSES] = {{64}, {64}, {64}};
    const int64_t capacity = 128;
    if (!CHECK_STATUS(ft_plan_parse(&plan, text, &err), FT_OK)) return;
    const ft_residency q = {.plan = plan, .bytes = bytes, .capacity = &capacity, .ahead = 1};
    if (CHECK_STATUS(ft_residency_plan(&moved, &q, &volume, &err), FT_OK)) {
        /* stage 0 leaves for stage 2 and comes back when that is done: four loads, not five */
        CHECK(volume.in[FT_MEMORY_WEIGHTS] == 4 * 64 && volume.out[FT_MEMORY_WEIGHTS] == 3 * 64);
        CHECK(volume.drops == 1);
        CHECK(ft_plan_write(moved, &out, &err) == FT_OK);
        CHECK(strstr(out.data,
                     "L0.0.0:weights L1.0.0:weights F0.0.0 D0.0.0:weights L2.0.0:weights F1.0.0 "
                     "F2.0.0"));
        CHECK(strstr(out.data, "O2.0.0:weights B1.0.0 L0.0.0:weights U1.0\n"));
    }
    ft_text_fini(&out);
    ft_plan_free(moved);
    ft_plan_free(plan);
}

/* The least of a stage whose updates are in host memory is what a backward needs: weights, their
 * gradients and turned copies, where it runs its forward again packed ones too. */
static void test_directions_have_their_copies(void)
{
    static const char *const text =
        "ftpipe-plan 1\nstages 1\ndevices 1\nmicro-batches 2\nbatches 1\nbody-batches 0\n"
        "body-repeats 0\nstage 0 device 0%s\nwarm-up 0 F0.0.0 B0.0.0 F0.0.1 B0.0.1 U0.0\n";
    const int64_t bytes[1][FT_MEMORY_CLASSES] = {{[FT_MEMORY_WEIGHTS] = 1,
                                                  [FT_MEMORY_GRADIENTS] = 10,
                                                  [FT_MEMORY_PACKED] = 100,
                                                  [FT_MEMORY_TURNED] = 1000}};
    for (int again = 0; again < 2; again++) {
        char of_case[512];
        int64_t least = 0, capacity;
        ft_error err = {0};
        ft_volume v;
        ft_plan *moved = NULL;
        snprintf(of_case, sizeof of_case, text, again ? " recompute" : "");
        ft_plan *plan = case_parse(of_case);
        if (!plan) return;
        ft_residency q = {.plan = plan,
                          .bytes = bytes,
                          .capacity = &capacity,
                          .scope = FT_SCOPE_ACTION,
                          .updates_at_home = true};
        CHECK_STATUS(ft_residency_least(&q, &least, &err), FT_OK);
        CHECK(least == (again ? 1111 : 1011));
        capacity = least;
        if (CHECK_STATUS(ft_residency_plan(&moved, &q, &v, &err), FT_OK)) {
            CHECK(v.in[FT_MEMORY_PACKED] == (again ? 4 : 2) * 100);
            CHECK(v.in[FT_MEMORY_TURNED] == 2 * 1000);
            CHECK_STATUS(ft_plan_check(moved, &err), FT_OK);
        }
        ft_plan_free(moved);
        ft_plan_free(plan);
    }
}

enum { W = 1000, DW = 100, K = 10, X = 1 }; /* bytes; multiples show which is which */

/* -- what leaves of many ----------------------------------------------------------------------- */

enum { ALIKE = 16 };

/* Stages on one device, of which nothing moves but optimizer state, each as large, with room for
 * ten of them. Gives which come in a late batch, and the bytes of all that come. */
static int64_t find_comers(bool spreads, bool comes[ALIKE])
{
    pipeline_case p;
    ft_error err = {0};
    ft_plan *moved = NULL;
    ft_volume volume = {.loads = 0};
    int64_t bytes[ALIKE][FT_MEMORY_CLASSES] = {{0}};
    const int64_t capacity = 10 * K;
    case_chain(&p, ALIKE, 2, 48, 2, 10, 20);
    p.pipeline.n_devices = 1;
    for (int s = 0; s < ALIKE; s++) {
        p.device[s] = 0;
        comes[s] = false;
        bytes[s][FT_MEMORY_OPTIMIZER] = K;
    }
    ft_plan *plan = case_plan(&p, "harmony-pp");
    const ft_residency q = {.plan = plan,
                            .bytes = (const int64_t(*)[FT_MEMORY_CLASSES])bytes,
                            .capacity = &capacity,
                            .spreads = spreads};
    if (plan && CHECK_STATUS(ft_residency_plan(&moved, &q, &volume, &err), FT_OK))
        for (int64_t i = 0; i < ft_plan_length(moved, 0); i++) {
            ft_action a = ft_plan_at(moved, 0, i);
            if (a.kind == FT_ACT_SWAP_IN && a.batch == 40) comes[a.stage] = true;
        }
    ft_plan_free(moved);
    ft_plan_free(plan);
    return volume.in[FT_MEMORY_OPTIMIZER];
}

static int count_neighbours(const bool comes[ALIKE])
{
    int n = 0;
    for (int s = 0; s + 1 < ALIKE; s++) n += comes[s] && comes[s + 1];
    return n;
}

/* Of stages alike, those that are needed furthest in the future are neighbours. Spread, few are,
 * and little more comes. */
static void test_what_leaves_is_spread(void)
{
    bool comes[ALIKE], spread[ALIKE];
    int64_t together = find_comers(false, comes), apart = find_comers(true, spread);
    printf("of %d stages alike, neighbours that come: %d, spread %d; bytes %lld, spread %lld\n",
           ALIKE, count_neighbours(comes), count_neighbours(spread), (long long)together,
           (long long)apart);
    CHECK(count_neighbours(comes) >= 4);
    CHECK(count_neighbours(spread) <= 2);
    CHECK(together > 0 && apart > 0 && apart <= together + together / 8);
}

/* Work of stage 0 that stands before the update of stage 1; -1 where gradients are not saved by
 * then. */
static int work_before_update(const ft_plan *plan)
{
    bool saved = false;
    int n = 0;
    for (int64_t i = 0; i < ft_plan_length(plan, 0); i++) {
        ft_action a = ft_plan_at(plan, 0, i);
        saved |= a.kind == FT_ACT_SWAP_OUT && a.stage == 1 && a.item == FT_MEMORY_GRADIENTS;
        n += a.kind == FT_ACT_BACKWARD && a.stage == 0;
        if (a.kind == FT_ACT_UPDATE && a.stage == 1) return saved ? n : -1;
    }
    return -1;
}

/* An update in host memory stands behind the next stage's backwards, beside which the gradients are
 * saved; not behind what may not wait for it, and not where what leaves is told task by task. */
static void test_updates_wait_for_their_saves(void)
{
    static const char *const text =
        "ftpipe-plan 1\nstages 2\ndevices 1\nmicro-batches 2\nbatches 1\nbody-batches 0\n"
        "body-repeats 0\nstage 0 device 0 in-flight 2\nstage 1 device 0 in-flight 2\n"
        "edge F0>F1 bytes 1 slots 2\nedge B1>B0 bytes 1 slots 2\n%s"
        "warm-up 0 F0.0.0 F0.0.1 F1.0.0 F1.0.1 B1.0.0 B1.0.1 U1.0 B0.0.0 B0.0.1 U0.0%s\n";
    static const struct {
        const char *edges, *ends;
        ft_residency_scope scope;
        int ahead, wanted;
    } cases[] = {
        {"", "", FT_SCOPE_PLAN, 8, 2},
        {"", "", FT_SCOPE_PLAN, 1, 1},
        {"", "", FT_SCOPE_PLAN, 0, 0},
        {"", "", FT_SCOPE_GROUP, 8, 0},
        {"edge U1>W0 bytes 1 slots 1\n", " W0.0", FT_SCOPE_PLAN, 8, 0},
    };
    const int64_t bytes[2][FT_MEMORY_CLASSES] = {
        {[FT_MEMORY_WEIGHTS] = 64, [FT_MEMORY_GRADIENTS] = 64},
        {[FT_MEMORY_WEIGHTS] = 64, [FT_MEMORY_GRADIENTS] = 64}};
    const int64_t capacity = 192;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char given[1024];
        ft_error err = {0};
        ft_plan *plan = NULL, *moved = NULL;
        ft_volume volume;
        snprintf(given, sizeof given, text, cases[i].edges, cases[i].ends);
        if (!CHECK_STATUS(ft_plan_parse(&plan, given, &err), FT_OK)) return;
        const ft_residency q = {.plan = plan,
                                .bytes = bytes,
                                .capacity = &capacity,
                                .ahead = cases[i].ahead,
                                .scope = cases[i].scope,
                                .updates_at_home = true};
        bool ok = CHECK_STATUS(ft_residency_plan(&moved, &q, &volume, &err), FT_OK) &&
                  CHECK_STATUS(ft_plan_check(moved, &err), FT_OK) &&
                  CHECK(work_before_update(moved) == cases[i].wanted);
        if (!ok) fprintf(stderr, "case %d: %s\n", (int)i, err.message);
        ft_plan_free(moved);
        ft_plan_free(plan);
    }
}

static void test_room_is_a_share(void)
{
    ft_error err = {0};
    ft_plan *moved = NULL;
    pipeline_case p;
    int64_t capacity = 1;
    ft_volume volume;
    case_chain(&p, 1, 1, 1, 1, 10, 20);
    ft_plan *plan = case_plan(&p, "gpipe");
    static const int64_t bytes[1][FT_MEMORY_CLASSES];
    for (int i = 0; i < 2; i++) {
        const ft_residency q = {
            .plan = plan, .bytes = bytes, .capacity = &capacity, .room = i ? 1.5 : -0.5};
        CHECK_STATUS(ft_residency_plan(&moved, &q, &volume, &err), FT_INVALID);
        CHECK(strstr(err.message, "expected a share of 0 to 1"));
    }
    ft_plan_free(plan);
}

/* -- Harmony's table --------------------------------------------------------------------------- */

/* A chain of R layers of equal sizes, cut into as many stages. */
typedef struct chain {
    int R, N, M;
    bool in_turns; /* layer l is on device l % N, else on l / (R / N) */
    const char *schedule;
    ft_residency_scope scope;
    bool writes_back;
} chain;

/* What all devices copy in a batch, in and out, in bytes of each class. */
static bool chain_volumes(const chain *q, int64_t volume[FT_MEMORY_CLASSES], int64_t *sent)
{
    pipeline_case p;
    ft_error err = {0};
    ft_plan *moved = NULL, *plan;
    int64_t bytes[CASE_STAGES][FT_MEMORY_CLASSES], capacity[CASE_STAGES];
    ft_volume volumes[CASE_STAGES];
    case_chain(&p, q->R, q->M, 1, q->M, 10, 20);
    p.pipeline.n_devices = q->N;
    *sent = 0;
    for (int s = 0; s < q->R; s++) {
        p.device[s] = q->in_turns ? s % q->N : s / (q->R / q->N);
        capacity[s] = INT64_MAX / 4;
        if (s && p.device[s] != p.device[s - 1]) *sent += q->M;
        for (int c = 0; c < FT_MEMORY_CLASSES; c++) bytes[s][c] = 0;
        bytes[s][FT_MEMORY_WEIGHTS] = W;
        bytes[s][FT_MEMORY_GRADIENTS] = DW;
        bytes[s][FT_MEMORY_OPTIMIZER] = K;
        bytes[s][FT_MEMORY_ACTIVATIONS] = X;
    }
    plan = case_plan(&p, q->schedule);
    if (!plan) return false;
    const ft_residency request = {.plan = plan,
                                  .bytes = (const int64_t(*)[FT_MEMORY_CLASSES])bytes,
                                  .capacity = capacity,
                                  .scope = q->scope,
                                  .writes_back = q->writes_back};
    bool ok = CHECK_STATUS(ft_residency_plan(&moved, &request, volumes, &err), FT_OK) &&
              CHECK_STATUS(ft_plan_check(moved, &err), FT_OK);
    if (!ok) fprintf(stderr, "%s\n", err.message);
    for (int c = 0; ok && c < FT_MEMORY_CLASSES; c++) {
        volume[c] = 0;
        for (int d = 0; d < q->N; d++) volume[c] += volumes[d].in[c] + volumes[d].out[c];
    }
    ft_plan_free(moved);
    ft_plan_free(plan);
    return ok;
}

/* The factors by which W, dW, K and X of a layer are copied. */
static void check_factors(const chain *q, int w, int dw, int k, int x)
{
    int64_t v[FT_MEMORY_CLASSES], sent;
    if (!chain_volumes(q, v, &sent)) return;
    bool ok = CHECK(v[FT_MEMORY_WEIGHTS] == (int64_t)w * q->R * W) &&
              CHECK(v[FT_MEMORY_GRADIENTS] == (int64_t)dw * q->R * DW) &&
              CHECK(v[FT_MEMORY_OPTIMIZER] == (int64_t)k * q->R * K) &&
              CHECK(v[FT_MEMORY_ACTIVATIONS] == (int64_t)x * q->R * X) &&
              CHECK(sent == (int64_t)q->M * (q->N == 1     ? 0
                                             : q->in_turns ? q->R - 1
                                                           : q->N - 1));
    if (!ok)
        fprintf(stderr, "%s, R %d, N %d, M %d: W %lld, dW %lld, K %lld, X %lld\n", q->schedule,
                q->R, q->N, q->M, (long long)v[FT_MEMORY_WEIGHTS],
                (long long)v[FT_MEMORY_GRADIENTS], (long long)v[FT_MEMORY_OPTIMIZER],
                (long long)v[FT_MEMORY_ACTIVATIONS]);
}

/* Pipelines with memory that somebody moves for each device, who does not know what is clean, or
 * who does; and Harmony's. With one device they are also its data parallelism, but for what passes
 * between layers, which stays in buffers here. */
static void test_the_table(void)
{
    for (int N = 1; N <= 4; N *= 2)
        for (int r = 1; r <= 3; r++)
            for (int M = 1; M <= 5; M++) {
                chain q = {r * N, N, M, false, "1f1b", FT_SCOPE_ACTION, true};
                if (q.R < 2) continue;
                check_factors(&q, 4 * M + 2, 2 * M + 2, 2, 2 * M);
                q.schedule = "gpipe";
                check_factors(&q, 4 * M + 2, 2 * M + 2, 2, 2 * M);
                q.writes_back = false;
                check_factors(&q, 2 * M + 2, 2 * M, 2, 2 * M);
                q = (chain){r * N, N, M, true, "harmony-pp", FT_SCOPE_GROUP, false};
                check_factors(&q, 3, 0, 2, 2 * M);
            }
}

int main(void)
{
    RUN(test_the_table);
    RUN(test_room_is_a_share);
    RUN(test_updates_wait_for_their_saves);
    RUN(test_what_leaves_is_spread);
    RUN(test_what_is_needed_last_goes);
    RUN(test_directions_have_their_copies);
    RUN(test_random_orders);
    return check_report();
}
