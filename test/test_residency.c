/* test/test_residency.c - loads, saves and drops of random orders, replayed by others. */
#include "residency/residency.h"
#include "schedule_cases.h"

/* A request and what it points to. */
typedef struct residency_case {
    ft_residency q;
    int64_t bytes[CASE_STAGES][FT_MEMORY_CLASSES], capacity[CASE_STAGES], all[CASE_STAGES];
    int64_t least[CASE_STAGES];
} residency_case;

/* State of random sizes; weights of which older versions are kept stay. */
static void make_case(residency_case *c, const ft_plan *plan, ft_rng *rng)
{
    memset(c, 0, sizeof *c);
    for (int s = 0; s < plan->n_stages; s++) {
        int64_t size = 64 * (1 + (int64_t)ft_rng_below(rng, 9));
        bool stays = plan->versions[s] > 1;
        c->bytes[s][FT_MEMORY_WEIGHTS] = stays ? 0 : size;
        c->bytes[s][FT_MEMORY_PACKED] = stays || ft_rng_below(rng, 2) ? 0 : size;
        c->bytes[s][FT_MEMORY_GRADIENTS] = size;
        c->bytes[s][FT_MEMORY_OPTIMIZER] = 2 * size;
        for (int k = 0; k < FT_MEMORY_CLASSES; k++) c->all[plan->device[s]] += c->bytes[s][k];
    }
    c->q = (ft_residency){plan, (const int64_t(*)[FT_MEMORY_CLASSES])c->bytes, c->capacity,
                          (int)ft_rng_below(rng, 6)};
}

/* Nothing is over the capacity, all of it leaves, and the volumes are what was copied. */
static void check_replay(const residency_case *c, const ft_plan *plan, const ft_volume *volumes)
{
    for (int d = 0; d < plan->n_devices; d++) {
        bool there[CASE_STAGES][FT_MEMORY_CLASSES] = {{false}};
        int64_t live = 0, in = 0, out = 0, moves = 0, in_said = 0, out_said = 0;
        for (int64_t i = 0; i < ft_plan_length(plan, d); i++) {
            ft_action a = ft_plan_at(plan, d, i);
            bool comes = a.kind == FT_ACT_SWAP_IN, saves = a.kind == FT_ACT_SWAP_OUT;
            bool first =
                a.micro == 0 && (a.kind == FT_ACT_BACKWARD || a.kind == FT_ACT_BACKWARD_WEIGHT);
            int class = comes || saves || a.kind == FT_ACT_DROP ? a.item : FT_MEMORY_GRADIENTS;
            bool *here = &there[a.stage][class];
            int64_t bytes = c->bytes[a.stage][class];
            if ((comes || first) && !*here) {
                *here = true;
                live += bytes;
            } else if (saves || a.kind == FT_ACT_DROP) {
                CHECK(*here);
                *here = false;
                live -= bytes;
            }
            in += comes ? bytes : 0;
            out += saves ? bytes : 0;
            moves += comes || saves || a.kind == FT_ACT_DROP;
            if (moves) CHECK(live <= c->capacity[d]);
        }
        for (int k = 0; k < FT_MEMORY_CLASSES; k++) {
            in_said += volumes[d].in[k];
            out_said += volumes[d].out[k];
        }
        CHECK(!moves || live == 0);
        CHECK(in == in_said && out == out_said);
        CHECK(moves == volumes[d].loads + volumes[d].saves + volumes[d].drops);
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
    const ft_residency q = {plan, bytes, &capacity, 1};
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

int main(void)
{
    RUN(test_what_is_needed_last_goes);
    RUN(test_random_orders);
    return check_report();
}
