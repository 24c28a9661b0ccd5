/* test/test_residency_repeats.c - a long leg is proven by some repetitions of its body: with the
 * answer that the same lists have when all of them are written out. */
#include <time.h>

#include "check.h"
#include "plan/making.h"
#include "plan/wires.h"
#include "proof/proof.h"
#include "residency/residency.h"
#include "schedule_cases.h"

enum { MORE = 40, MOST = 1 << 16 };

/* A plan whose lists may be changed. */
typedef struct changed {
    ft_plan plan;
    ft_device_plan devices[CASE_STAGES];
    ft_edge edges[CASE_EDGES];
    ft_action actions[MOST];
    int n;
} changed;

static ft_action *copy_list(changed *c, ft_action_list *list)
{
    ft_action *to = &c->actions[c->n];
    if (c->n + list->n > MOST) return NULL;
    for (int i = 0; i < list->n; i++) to[i] = list->actions[i];
    c->n += list->n;
    list->actions = to;
    list->lines = NULL;
    return to;
}

/* The plan with so many repetitions more. */
static bool lengthen(changed *c, const ft_plan *from, int more)
{
    c->plan = *from;
    c->n = 0;
    c->plan.body_repeats += more;
    c->plan.n_batches += more * from->body_batches;
    c->plan.devices = c->devices;
    c->plan.edges = c->edges;
    memcpy(c->edges, from->edges, (size_t)from->n_edges * sizeof *c->edges);
    for (int d = 0; d < from->n_devices; d++) {
        c->devices[d] = from->devices[d];
        if (!copy_list(c, &c->devices[d].warmup) || !copy_list(c, &c->devices[d].body))
            return false;
        ft_action *drain = copy_list(c, &c->devices[d].drain);
        if (!drain) return false;
        for (int i = 0; i < from->devices[d].drain.n; i++)
            drain[i].batch += more * from->body_batches;
    }
    return true;
}

/* The same with nothing that repeats. */
static bool write_out(changed *out, const ft_plan *plan)
{
    out->plan = *plan;
    out->plan.body_repeats = out->plan.body_batches = 0;
    out->plan.devices = out->devices;
    out->n = 0;
    for (int d = 0; d < plan->n_devices; d++) {
        int64_t n = ft_plan_length(plan, d);
        if (out->n + n > MOST) return false;
        ft_action *to = &out->actions[out->n];
        for (int64_t i = 0; i < n; i++) to[i] = ft_plan_at(plan, d, i);
        out->devices[d] = (ft_device_plan){.warmup = {.n = (int)n, .actions = to}};
        out->n += (int)n;
    }
    return true;
}

/* Some part of some list, not empty, or NULL. */
static ft_action_list *draw_list(changed *c, ft_rng *rng)
{
    ft_device_plan *d = &c->devices[ft_rng_below(rng, (uint64_t)c->plan.n_devices)];
    ft_action_list *parts[] = {&d->body, &d->warmup, &d->drain, &d->body};
    ft_action_list *list = parts[ft_rng_below(rng, 4)];
    return list->n ? list : NULL;
}

/* One change of a list, or of the slots of an edge. */
static void change(changed *c, ft_rng *rng)
{
    if (c->plan.n_edges && !ft_rng_below(rng, 5)) {
        ft_edge *e = &c->edges[ft_rng_below(rng, (uint64_t)c->plan.n_edges)];
        e->slots = 1 + (int)ft_rng_below(rng, (uint64_t)e->slots + 2);
        return;
    }
    ft_action_list *list = draw_list(c, rng);
    if (!list) return;
    uint64_t n = (uint64_t)list->n;
    ft_action *actions = c->actions + (list->actions - c->actions);
    ft_action *a = &actions[ft_rng_below(rng, n)], *b = &actions[ft_rng_below(rng, n)], kept = *a;
    switch (ft_rng_below(rng, 5)) {
    case 0: list->n--; break;
    case 1: a->lag++; break;
    case 2: a->batch++; break;
    default: *a = *b; *b = kept;
    }
}

typedef struct answers {
    int passed, failed;
} answers;

/* Folded and written out, the plan gets one answer in one sentence; ranges are told of actions as
 * they are stored. */
static bool check_answers(const ft_plan *plan, answers *n, const char *of)
{
    static changed whole;
    ft_error a = {0}, b = {0};
    if (!CHECK(write_out(&whole, plan))) return false;
    ft_status folded = ft_plan_check(plan, &a), written = ft_plan_check(&whole.plan, &b);
    if (written == FT_OK)
        n->passed++;
    else
        n->failed++;
    bool of_range = strstr(b.message, " reaches batch ");
    if (CHECK(folded == written) &&
        (written == FT_OK || of_range || CHECK(!strcmp(a.message, b.message))))
        return true;
    fprintf(stderr, "%s: folded %s, written out %s\n", of, folded ? a.message : "passes",
            written ? b.message : "passes");
    return false;
}

static bool check_derived(const ft_plan *plan)
{
    static changed whole;
    int a[3][CASE_STAGES] = {{0}}, b[3][CASE_STAGES] = {{0}};
    ft_error err = {0};
    ft_derived of_a = {a[0], a[1], a[2]}, of_b = {b[0], b[1], b[2]};
    return CHECK(write_out(&whole, plan)) &&
           CHECK_STATUS(ft_plan_derive(plan, &of_a, &err), FT_OK) &&
           CHECK_STATUS(ft_plan_derive(&whole.plan, &of_b, &err), FT_OK) &&
           CHECK(!memcmp(a, b, sizeof a));
}

/* Batches that have to be there at once, by the folded plan and by the one written out. */
static bool check_batch_slots(const ft_plan *plan)
{
    static changed whole;
    int a = 0, b = 0;
    ft_error err = {0};
    return CHECK(write_out(&whole, plan)) &&
           CHECK_STATUS(ft_plan_batch_slots(plan, 1, &a, &err), FT_OK) &&
           CHECK_STATUS(ft_plan_batch_slots(&whole.plan, 1, &b, &err), FT_OK) && CHECK(a == b);
}

static void check_changes(const ft_plan *plan, ft_rng *rng, answers *n, const char *of)
{
    static changed c;
    if (!CHECK(lengthen(&c, plan, MORE)) || !check_answers(&c.plan, n, of) ||
        !check_derived(&c.plan) || !check_batch_slots(&c.plan))
        return;
    for (int i = 0; i < 10; i++) {
        lengthen(&c, plan, MORE);
        for (uint64_t k = 1 + ft_rng_below(rng, 2); k > 0; k--) change(&c, rng);
        if (!check_answers(&c.plan, n, of)) return;
    }
}

/* The plan with moves of all that may move, within so much more than the devices need at least;
 * NULL: it can have none. */
static ft_plan *with_moves(const ft_plan *plan, bool spreads, int64_t more)
{
    static const int64_t sizes[FT_MEMORY_CLASSES] = {[FT_MEMORY_WEIGHTS] = 640,
                                                     [FT_MEMORY_GRADIENTS] = 640,
                                                     [FT_MEMORY_OPTIMIZER] = 1280,
                                                     [FT_MEMORY_ACTIVATIONS] = 320};
    int64_t bytes[CASE_STAGES][FT_MEMORY_CLASSES], least[CASE_STAGES];
    ft_volume volumes[CASE_STAGES];
    ft_plan *moved = NULL;
    ft_error err = {0};
    ft_residency q = {.plan = plan,
                      .bytes = (const int64_t(*)[FT_MEMORY_CLASSES])bytes,
                      .capacity = least,
                      .ahead = 3,
                      .spreads = spreads};
    for (int s = 0; s < plan->n_stages; s++) {
        memcpy(bytes[s], sizes, sizeof sizes);
        if (plan->versions[s] > 1) bytes[s][FT_MEMORY_WEIGHTS] = 0;
    }
    if (plan->forward_only || ft_residency_least(&q, least, &err) != FT_OK) return NULL;
    for (int d = 0; d < plan->n_devices; d++) least[d] += more;
    if (ft_residency_plan(&moved, &q, volumes, &err) != FT_OK) return NULL;
    return moved;
}

static void check_both(const ft_plan *plan, ft_rng *rng, answers *n, answers *moves, const char *of)
{
    if (plan->body_repeats) check_changes(plan, rng, n, of);
    ft_plan *moved = with_moves(plan, false, 0);
    if (moved && moved->body_repeats) check_changes(moved, rng, moves, of);
    ft_plan_free(moved);
}

/* Every schedule that plays any pipeline, with all kinds of weights, and wrong plans of them. */
static void test_random_plans(void)
{
    answers n = {0}, moves = {0};
    for (int seed = 0; seed < CASES(25); seed++) {
        ft_rng rng;
        pipeline_case c;
        char of[96];
        ft_error err = {0};
        ft_rng_init(&rng, 8, (uint64_t)seed);
        case_random(&c, &rng);
        c.pipeline.n_batches = 12 + (int)ft_rng_below(&rng, 12);
        case_walk walk = {.all_weights = true};
        for (const ft_schedule *s; (s = case_next(&c, &walk));) {
            ft_plan *plan = NULL;
            snprintf(of, sizeof of, "seed %d, %s", seed, s->name);
            if (!CHECK_STATUS(ft_plan_make(&plan, &c.pipeline, s, &err), FT_OK)) continue;
            check_both(plan, &rng, &n, &moves, of);
            ft_plan_free(plan);
        }
    }
    CHECK(n.passed > CASES(100) && n.failed > CASES(100));
    CHECK(moves.passed > CASES(100) && moves.failed > CASES(100));
}

static void test_plans_of_replicas(void)
{
    answers n = {0};
    for (int i = 0; ft_schedules[i]; i++) {
        ft_rng rng;
        pipeline_case c;
        ft_rng_init(&rng, 9, (uint64_t)i);
        const ft_schedule *s = ft_schedules[i];
        if (s->interleaves || s->groups || s->splits) continue;
        case_replicas(&c, 12);
        ft_plan *plan = case_plan(&c, s->name);
        for (int k = 0; plan && k < CASES(10); k++) check_changes(plan, &rng, &n, s->name);
        ft_plan_free(plan);
    }
    CHECK(n.passed > CASES(10) && n.failed > CASES(100));
}

/* A leg of so many batches by the schedule with moves, spread or not, within what the devices need
 * at least and some more; NULL: it has none. */
static ft_plan *leg_with_moves(pipeline_case *c, const ft_schedule *s, int n_batches, ft_rng rng)
{
    ft_plan *plan = NULL, *moved = NULL;
    ft_error err = {0};
    bool spreads = ft_rng_below(&rng, 2);
    c->pipeline.n_batches = n_batches;
    if (CHECK_STATUS(ft_plan_make(&plan, &c->pipeline, s, &err), FT_OK) && plan->body_repeats)
        moved = with_moves(plan, spreads, 320 * (int64_t)ft_rng_below(&rng, 10));
    ft_plan_free(plan);
    return moved;
}

/* What leaves a device need not be the same in any batch. A leg that is too long to be written out
 * repeats all the same, and does what it should. */
static void test_long_legs_with_moves(void)
{
    int n = 0;
    for (int seed = 0; seed < CASES(60); seed++) {
        ft_rng rng;
        pipeline_case c;
        ft_error err = {0};
        ft_rng_init(&rng, 10, (uint64_t)seed);
        case_random(&c, &rng);
        case_walk walk = {.all_weights = true};
        for (const ft_schedule *s; (s = case_next(&c, &walk)); ft_rng_u32(&rng)) {
            ft_plan *few = leg_with_moves(&c, s, 60, rng);
            ft_plan *many = leg_with_moves(&c, s, 1 << 18, rng);
            bool repeats = !few || (CHECK(many) && CHECK(many->body_repeats > 0) &&
                                    CHECK_STATUS(ft_plan_check(many, &err), FT_OK));
            if (!repeats) fprintf(stderr, "seed %d, %s\n", seed, s->name);
            n += few != NULL;
            ft_plan_free(few);
            ft_plan_free(many);
        }
    }
    CHECK(n > CASES(100));
}

static double seconds_of_check(pipeline_case *c, const char *schedule, int n_batches)
{
    ft_error err = {0};
    c->pipeline.n_batches = n_batches;
    ft_plan *plan = case_plan(c, schedule);
    if (!plan) return 0;
    clock_t begin = clock();
    for (int i = 0; i < 20; i++) CHECK_STATUS(ft_plan_check(plan, &err), FT_OK);
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    ft_plan_free(plan);
    return seconds;
}

/* A leg of a thousand times as many batches takes no ten times as long. */
static void test_long_legs_are_proven_as_fast(void)
{
    static const char *const names[] = {"1f1b", "async", "gpipe", "zero-bubble"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        pipeline_case c;
        case_chain(&c, 6, 4, 1, 6, 10, 20);
        double few = seconds_of_check(&c, names[i], 500);
        double many = seconds_of_check(&c, names[i], 500000);
        if (!CHECK(many < 10 * few)) fprintf(stderr, "%s: %g s and %g s\n", names[i], few, many);
    }
}

int main(void)
{
    RUN(test_random_plans);
    RUN(test_plans_of_replicas);
    RUN(test_long_legs_with_moves);
    RUN(test_long_legs_are_proven_as_fast);
    return check_report();
}
