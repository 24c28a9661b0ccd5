/* test/test_residency_best.c - planned moves against the fewest that there can be, by searching all
 * of them, and against published volumes. */
#include "residency/residency.h"
#include "schedule_cases.h"

/* -- exhaustive search -------------------------------------------------------------------------
 *
 * A state says of every item whether it is away, on the device as the host has it, or changed
 * there. Going through a list action by action, whatever is not needed may leave before an action;
 * the fewest bytes with which each state can be reached are kept. So the best of all plans is
 * found. */

enum { AWAY, CLEAN, CHANGED, KINDS };
enum { ITEMS = 10, STATES = 59049 }; /* KINDS to the power of ITEMS */
enum { MICROS = 2, STAGES = 2 };

typedef struct search {
    const int64_t (*bytes)[FT_MEMORY_CLASSES];
    int64_t capacity, size[ITEMS];
    int64_t *now, *then; /* by state: bytes moved, -1: not reached */
    bool holds[ITEMS];   /* something that would be lost */
} search;

/* Weights, gradients and optimizer of a stage, then activations by micro-batch. */
static int item_of(int stage, int class, int micro)
{
    if (class == FT_MEMORY_ACTIVATIONS) return 3 * STAGES + stage * MICROS + micro;
    return 3 * stage + (class == FT_MEMORY_WEIGHTS ? 0 : class == FT_MEMORY_GRADIENTS ? 1 : 2);
}

static int digit(int state, int item)
{
    for (int i = 0; i < item; i++) state /= KINDS;
    return state % KINDS;
}

static int with_digit(int state, int item, int value)
{
    int unit = 1;
    for (int i = 0; i < item; i++) unit *= KINDS;
    return state + (value - digit(state, item)) * unit;
}

/* What the action needs, changes and ends, as bits of items. */
typedef struct demand {
    unsigned needs, changes, ends;
} demand;

static demand demand_of(const ft_action *a)
{
    demand d = {0, 0, 0};
    unsigned w = 1U << item_of(a->stage, FT_MEMORY_WEIGHTS, 0);
    unsigned g = 1U << item_of(a->stage, FT_MEMORY_GRADIENTS, 0);
    unsigned k = 1U << item_of(a->stage, FT_MEMORY_OPTIMIZER, 0);
    unsigned x = 1U << item_of(a->stage, FT_MEMORY_ACTIVATIONS, a->micro);
    if (a->kind == FT_ACT_FORWARD) d = (demand){w | x, x, 0};
    if (a->kind == FT_ACT_BACKWARD) d = (demand){w | g | x, g, x};
    if (a->kind == FT_ACT_UPDATE) d = (demand){w | g | k, w | k, g};
    return d;
}

/* The state behind an action from one before it, when `leaves` leave; -1 where that is too much. */
static int64_t step(const search *s, int state, const demand *d, unsigned leaves, int *out)
{
    int64_t cost = 0, live = 0;
    for (int i = 0; i < ITEMS; i++) {
        unsigned bit = 1U << i;
        int at = digit(state, i);
        if (leaves & bit) {
            if (at == CHANGED && s->holds[i]) cost += s->size[i];
            at = AWAY;
        }
        if (d->needs & bit && at == AWAY) {
            if (s->holds[i]) cost += s->size[i];
            at = CLEAN;
        }
        if (at != AWAY) live += s->size[i];
        if (d->changes & bit) at = CHANGED;
        if (d->ends & bit) at = AWAY;
        state = with_digit(state, i, at);
    }
    *out = state;
    return live > s->capacity ? -1 : cost;
}

static void advance(search *s, const demand *d)
{
    for (int i = 0; i < STATES; i++) s->then[i] = -1;
    for (int state = 0; state < STATES; state++) {
        if (s->now[state] < 0) continue;
        unsigned there = 0;
        for (int i = 0; i < ITEMS; i++) there |= (unsigned)(digit(state, i) != AWAY) << i;
        unsigned free = there & ~d->needs;
        for (unsigned leaves = free;; leaves = (leaves - 1) & free) {
            int next;
            int64_t cost = step(s, state, d, leaves, &next);
            if (cost >= 0 && (s->then[next] < 0 || s->now[state] + cost < s->then[next]))
                s->then[next] = s->now[state] + cost;
            if (!leaves) break;
        }
    }
    int64_t *swap = s->now;
    s->now = s->then;
    s->then = swap;
}

/* The fewest bytes of all plans, with what has to come home at the end. */
static int64_t find_best(search *s, const ft_plan *plan)
{
    static int64_t a[STATES], b[STATES];
    s->now = a;
    s->then = b;
    for (int i = 0; i < STATES; i++) a[i] = -1;
    a[0] = 0;
    for (int i = 0; i < ITEMS; i++) s->holds[i] = i < 3 * STAGES && i % 3 != 1;
    for (int64_t i = 0; i < ft_plan_length(plan, 0); i++) {
        ft_action action = ft_plan_at(plan, 0, i);
        demand d = demand_of(&action);
        advance(s, &d);
        for (int k = 0; k < ITEMS; k++) {
            if (d.changes >> k & 1) s->holds[k] = true;
            if (d.ends >> k & 1) s->holds[k] = false;
        }
    }
    int64_t best = -1;
    for (int state = 0; state < STATES; state++) {
        int64_t bytes = s->now[state];
        for (int i = 0; bytes >= 0 && i < ITEMS; i++)
            if (digit(state, i) == CHANGED && s->holds[i]) bytes += s->size[i];
        if (bytes >= 0 && (best < 0 || bytes < best)) best = bytes;
    }
    return best;
}

static int64_t moved_bytes(const ft_volume *v)
{
    int64_t sum = 0;
    for (int c = 0; c < FT_MEMORY_CLASSES; c++) sum += v->in[c] + v->out[c];
    return sum;
}

/* An order of work, and how what leaves is chosen. */
typedef struct choice {
    const char *schedule, *words;
    double room;
    bool spreads, packs; /* packs: both stages are one, forward and back */
} choice;

/* A chain of two stages on one device, sizes by chance, with some of the room that it would use. */
static bool compare(ft_rng *rng, const choice *how, double *planned, double *best)
{
    static const int pack[STAGES] = {1, 1}, other[STAGES] = {2, 2};
    const ft_tasks tasks = how->packs ? (ft_tasks){pack, other} : (ft_tasks){NULL, NULL};
    pipeline_case c;
    ft_error err = {0};
    ft_plan *moved = NULL;
    int64_t bytes[STAGES][FT_MEMORY_CLASSES] = {{0}}, least, all = 0, capacity;
    ft_volume volume;
    case_chain(&c, STAGES, MICROS, 1, MICROS, 10, 20);
    c.pipeline.n_devices = 1;
    for (int s = 0; s < STAGES; s++) {
        c.device[s] = 0;
        bytes[s][FT_MEMORY_WEIGHTS] = bytes[s][FT_MEMORY_GRADIENTS] =
            1 + (int64_t)ft_rng_below(rng, 9);
        bytes[s][FT_MEMORY_OPTIMIZER] = 2 * bytes[s][FT_MEMORY_WEIGHTS];
        bytes[s][FT_MEMORY_ACTIVATIONS] = 1 + (int64_t)ft_rng_below(rng, 9);
    }
    c.pipeline.tasks = tasks;
    ft_plan *plan = case_plan(&c, how->schedule);
    if (!plan) return false;
    for (int s = 0; s < STAGES; s++)
        all +=
            4 * bytes[s][FT_MEMORY_WEIGHTS] + plan->in_flight[s] * bytes[s][FT_MEMORY_ACTIVATIONS];
    ft_residency q = {.plan = plan,
                      .bytes = (const int64_t(*)[FT_MEMORY_CLASSES])bytes,
                      .capacity = &capacity,
                      .tasks = tasks,
                      .room = how->room,
                      .spreads = how->spreads};
    bool ok = CHECK_STATUS(ft_residency_least(&q, &least, &err), FT_OK);
    capacity = least + (int64_t)ft_rng_below(rng, (uint64_t)(all - least) + 1);
    if (capacity >= all) capacity = all - 1; /* with all of it there is nothing to plan */
    ok = ok && CHECK_STATUS(ft_residency_plan(&moved, &q, &volume, &err), FT_OK);
    if (ok) {
        search s = {.bytes = q.bytes, .capacity = capacity};
        for (int i = 0; i < STAGES; i++) {
            for (int k = 0; k < 3; k++)
                s.size[3 * i + k] = bytes[i][k == 2 ? FT_MEMORY_OPTIMIZER : FT_MEMORY_WEIGHTS];
            for (int m = 0; m < MICROS; m++)
                s.size[item_of(i, FT_MEMORY_ACTIVATIONS, m)] = bytes[i][FT_MEMORY_ACTIVATIONS];
        }
        *planned = (double)moved_bytes(&volume);
        *best = (double)find_best(&s, plan);
        CHECK(*best > 0 && *planned >= *best);
    }
    ft_plan_free(moved);
    ft_plan_free(plan);
    return ok;
}

/* No plan can be better than the best. What a rule that looks at one thing at a time may cost has
 * no bound that is known for sizes and costs that differ; here it is held to half of the best more,
 * and to a tenth in the mean. Room that is left to loads ahead costs more bytes: of plans that
 * leave some, how many is printed alone. */
static void test_against_the_best(void)
{
    static const choice rows[] = {
        {.schedule = "gpipe", .words = ""},
        {.schedule = "1f1b", .words = ""},
        {.schedule = "harmony-pp", .words = ""},
        {.schedule = "harmony-pp", .words = ", a pack", .packs = true},
        {.schedule = "1f1b", .words = ", spread", .spreads = true},
        {.schedule = "harmony-pp",
         .words = ", spread, an eighth left",
         .room = 0.125,
         .spreads = true},
        {.schedule = "gpipe", .words = ", spread, a third left", .room = 1. / 3, .spreads = true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ft_rng rng;
        double sum = 0, worst = 1;
        int n = CASES(120), exact = 0;
        ft_rng_init(&rng, 31, (uint64_t)i);
        for (int k = 0; k < n; k++) {
            double planned = 1, best = 1;
            if (!compare(&rng, &rows[i], &planned, &best)) continue;
            double gap = planned / best;
            sum += gap;
            exact += gap == 1;
            if (gap > worst) worst = gap;
        }
        printf("%s%s: %d cases, %d as few as there can be, %.1f %% more in the mean, %.1f %% at "
               "worst\n",
               rows[i].schedule, rows[i].words, n, exact, 100 * (sum / n - 1), 100 * (worst - 1));
        CHECK(rows[i].spreads || (worst <= 1.5 && sum / n <= 1.1));
    }
}

/* -- published volumes ------------------------------------------------------------------------- */

/* Four layers, four micro-batches, one device; every tensor of one unit but the optimizer's two.
 * `total`: what another planner by furthest next use moved at that budget. There the budget has
 * room for what passes between layers too (two units at most, or what of it is moved); here that
 * has buffers of its own, beside the budget. There the inputs of a batch are moved too: they are
 * added here. From a budget of 16 on, or 24, nothing can be less. */
typedef struct vector {
    int budget, total;
} vector;

enum { INPUTS = 4 }; /* units: one of each micro-batch */

static int64_t vector_bytes(const char *schedule, int64_t capacity, ft_volume *v)
{
    pipeline_case c;
    ft_error err = {0};
    ft_plan *moved = NULL;
    int64_t bytes[4][FT_MEMORY_CLASSES] = {{0}};
    case_chain(&c, 4, 4, 1, 4, 10, 20);
    c.pipeline.n_devices = 1;
    for (int s = 0; s < 4; s++) {
        c.device[s] = 0;
        bytes[s][FT_MEMORY_WEIGHTS] = bytes[s][FT_MEMORY_GRADIENTS] = 1;
        bytes[s][FT_MEMORY_ACTIVATIONS] = 1;
        bytes[s][FT_MEMORY_OPTIMIZER] = 2;
    }
    ft_plan *plan = case_plan(&c, schedule);
    const ft_residency q = {
        .plan = plan, .bytes = (const int64_t(*)[FT_MEMORY_CLASSES])bytes, .capacity = &capacity};
    if (plan) CHECK_STATUS(ft_residency_plan(&moved, &q, v, &err), FT_OK);
    ft_plan_free(moved);
    ft_plan_free(plan);
    return moved_bytes(v);
}

static void test_published_vectors(void)
{
    static const vector micro_major[] = {{5, 92}, {8, 58}, {10, 42}, {12, 31}, {16, 28}};
    static const vector grouped[] = {{5, 79}, {8, 51}, {10, 48}, {12, 44}, {16, 37}, {24, 28}};
    for (int g = 0; g < 2; g++)
        for (int i = 0; i < (g ? 6 : 5); i++) {
            const vector *row = g ? &grouped[i] : &micro_major[i];
            ft_volume v;
            int64_t total = INPUTS + vector_bytes(g ? "harmony-pp" : "sequential", row->budget, &v);
            printf("%s, budget %d: %lld with inputs, published %d\n", g ? "grouped" : "micro-major",
                   row->budget, (long long)total, row->total);
            CHECK(total <= row->total);
        }
}

int main(void)
{
    RUN(test_published_vectors);
    RUN(test_against_the_best);
    return check_report();
}
