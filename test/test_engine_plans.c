/* test/test_engine_plans.c - random plans of the chain: each is refused before the start, or
 * completes with the numbers of its replay, and, where no weights are late, of one device. Some
 * leave the first weights as they are, so that the first stages have no backward.
 *
 *    test_engine_plans [PLANS [FIRST]]    so many (400), from a number on (1) */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "fit/fit.h"
#include "check_driver.h"
#include "engine_run.h"
#include "planfile/planfile.h"
#include "proof/proof.h"

static const ft_driver check_driver = CHECK_DRIVER("check");
const ft_driver *const ft_drivers[] = {&ft_cpu_driver, &check_driver, NULL};

enum { STAGES = 6, DEVICES = 4, BATCHES = 6, EDGES = 256, WEIGHTS = HIDDEN * HIDDEN };

/* -- devices that take their time -------------------------------------------------------------- */

static _Atomic uint32_t draws;

static void pause_now_and_then(void)
{
    uint32_t x = (atomic_fetch_add(&draws, 1) + 1) * 2654435761u;
    const struct timespec pause = {0, (long)(x >> 16)}; /* up to 65 us */
    if (x % 16 == 0) nanosleep(&pause, NULL);
}

static ft_status launch_later(ft_device_stream *stream, const ft_task *task, const void *arg,
                              ft_error *err)
{
    pause_now_and_then();
    return ft_cpu_driver.launch(stream, task, arg, err);
}

/* -- a random plan ----------------------------------------------------------------------------- */

typedef struct candidate {
    uint64_t number;
    ft_rng rng;
    ft_graph *g;
    int frozen; /* weights that are not trained */
    const ft_schedule *schedule;
    ft_weights weights;
    ft_cut cut;
    int node_stage[NODES], stage_device[STAGES];
    int replica_first[STAGES + 1], replica_device[2 * STAGES];
    double clip;
    int task[2][STAGES]; /* of forwards, of backwards */
    ft_tasks tasks;
    bool recompute[STAGES], splits[STAGES], edited, moved;
    ft_device devices[DEVICES];
    ft_plan *plan;
    ft_text text; /* of the plan, once it was written to be edited */
} candidate;

static int below(candidate *c, int n)
{
    return (int)ft_rng_below(&c->rng, (uint64_t)n);
}

static void choose_cut(candidate *c)
{
    int n = 1 + below(c, STAGES), stage = 0, devices = 1 + below(c, DEVICES);
    if (c->schedule->folds) {
        devices = 1 + below(c, STAGES / 2);
        n = 2 * devices;
    }
    for (int i = 0; i < NODES; i++) { /* further stages where they are drawn, or have to be */
        int left = NODES - i, wanted = n - 1 - stage;
        if (i && wanted && below(c, left) < wanted) stage++;
        c->node_stage[i] = stage;
    }
    for (int s = 0; s < n; s++) {
        c->stage_device[s] = c->schedule->interleaves ? s % devices : below(c, devices);
        c->recompute[s] = below(c, 3) == 0;
        c->splits[s] = c->schedule->splits;
    }
    for (int d = 0; d < devices; d++) c->stage_device[d < n ? d : 0] = d < n ? d : 0;
    c->cut.n_stages = n;
    c->cut.n_devices = devices < n ? devices : n;
    for (int s = 0; s < n; s++) c->stage_device[s] %= c->cut.n_devices;
    for (int s = 0; c->schedule->folds && s < n; s++)
        c->stage_device[s] = s < devices ? s : n - 1 - s;
}

/* Some stages get a second device. */
static void choose_replicas(candidate *c)
{
    const ft_cut *cut = &c->cut;
    int n = 0, devices = cut->n_devices;
    bool placed = c->schedule->folds || c->schedule->interleaves;
    if (devices == 1 || cut->micro_batches % 2 || placed || below(c, 2)) return;
    for (int s = 0; s < cut->n_stages; s++) {
        c->replica_first[s] = n;
        c->replica_device[n++] = c->stage_device[s];
        if (below(c, 2))
            c->replica_device[n++] = (c->stage_device[s] + 1 + below(c, devices - 1)) % devices;
    }
    c->replica_first[cut->n_stages] = n;
    c->cut.replica_first = c->replica_first;
    c->cut.replica_device = c->replica_device;
}

/* Stages behind each other on one device make tasks, of every second plan that groups; what comes
 * to the last stages may go back at once. Drawn apart, so that plans keep their numbers. */
static void choose_tasks(candidate *c)
{
    ft_rng rng;
    int number = 0, n = c->cut.n_stages;
    ft_rng_init(&rng, 7, c->number);
    if (!c->schedule->groups || c->cut.replica_first || ft_rng_below(&rng, 2)) return;
    for (int back = 0; back < 2; back++)
        for (int s = 0; s < n; s++) {
            bool goes_on = s && c->stage_device[s] == c->stage_device[s - 1];
            if (!goes_on || ft_rng_below(&rng, 2)) number++;
            c->task[back][s] = number;
        }
    if (ft_rng_below(&rng, 2))
        for (int s = n - 1; s >= 0 && c->task[1][s] == number; s--) c->task[0][s] = number;
    c->tasks = (ft_tasks){c->task[0], c->task[1]};
}

/* Draws everything; `schedule` NULL: that too, and its weights. */
static bool choose(candidate *c, const char *kind, uint64_t number, const ft_schedule *schedule,
                   ft_weights weights)
{
    ft_error err = {FT_OK, ""};
    int n = 0;
    char devices[16];
    ft_rng_init(&c->rng, 5, number);
    c->number = number;
    while (ft_schedules[n]) n++;
    do c->schedule = ft_schedules[below(c, n)];
    while (c->schedule->replicates);
    if (!c->schedule->synchronous && !c->schedule->weights)
        c->weights = (ft_weights)below(c, FT_WEIGHTS_COUNT);
    if (schedule) {
        c->schedule = schedule;
        c->weights = weights;
    }
    c->cut = (ft_cut){.graphs = &c->g,
                      .n_graphs = 1,
                      .node_stage = c->node_stage,
                      .recompute = c->recompute,
                      .splits = c->splits,
                      .stage_device = c->stage_device,
                      .devices = c->devices,
                      .micro_batches = 1 + below(c, MICRO),
                      .n_batches = 1 + below(c, BATCHES),
                      .together = c->schedule->synchronous};
    choose_cut(c);
    choose_replicas(c);
    choose_tasks(c);
    c->clip = below(c, 3) == 0 ? 0.5 : 0;
    c->cut.late_norms = !c->schedule->synchronous && c->clip > 0;
    snprintf(devices, sizeof devices, "%s:%d", kind, c->cut.n_devices);
    int parsed;
    return CHECK_STATUS(ft_devices_parse(devices, c->devices, &parsed, &err), FT_OK);
}

/* The plan, with slots of its own. */
static ft_status make(candidate *c, ft_error *err)
{
    ft_wiring *wiring;
    ft_edge edges[EDGES];
    ft_weights read = c->weights == FT_WEIGHTS_OWN ? c->schedule->weights : c->weights;
    c->cut.keeps = ft_weights_rows[read].reads == FT_READS_KEPT;
    FT_TRY(ft_wiring_new(&wiring, &c->cut, err));
    CHECK(wiring->n_edges <= EDGES);
    for (int e = 0; e < wiring->n_edges; e++) {
        edges[e] = wiring->edges[e];
        if (below(c, 3) == 0) edges[e].slots = 1 + below(c, 5);
    }
    const ft_pipeline made_for = {.n_stages = c->cut.n_stages,
                                  .n_devices = c->cut.n_devices,
                                  .device = c->stage_device,
                                  .replica_first = c->cut.replica_first,
                                  .replica_device = c->cut.replica_device,
                                  .tasks = c->tasks,
                                  .micro_batches = c->cut.micro_batches,
                                  .n_batches = c->cut.n_batches,
                                  .weights = c->weights,
                                  .reduces = true,
                                  .n_edges = wiring->n_edges,
                                  .edges = edges,
                                  .most_slots = below(c, 2) ? 64 : 0,
                                  .costs = &wiring->costs};
    ft_status status = ft_plan_make(&c->plan, &made_for, c->schedule, err);
    ft_wiring_free(wiring);
    if (status == FT_OK)
        status = ft_plan_annotate(c->plan, NODES, c->node_stage, c->recompute, NULL, err);
    return status;
}

/* -- edits ------------------------------------------------------------------------------------- */

/* The i-th place in the text where `what` stands; how many there are, in *n. */
static char *find(char *text, const char *what, int i, int *n)
{
    char *found = NULL;
    *n = 0;
    for (char *at = strstr(text, what); at; at = strstr(at + 1, what)) {
        if (*n == i) found = at;
        ++*n;
    }
    return found;
}

static char *find_any(candidate *c, const char *what)
{
    int n;
    find(c->text.data, what, 0, &n);
    return n ? find(c->text.data, what, below(c, n), &n) : NULL;
}

/* Two neighbours in a list of actions change places. */
static void swap_actions(candidate *c)
{
    static const char *const lists[] = {"\nwarm-up ", "\nbody ", "\ndrain "};
    char *at = find_any(c, lists[below(c, 3)]);
    if (!at) return;
    char *words[256], copy[64], *end = at + strcspn(at + 1, "\n") + 1;
    int n = 0;
    for (char *p = at + 1; p < end && n < 256; p++)
        if (*p == ' ' && p + 1 < end && p[1] != ' ') words[n++] = p + 1;
    if (n < 3) return;
    int i = 1 + below(c, n - 2); /* the first word of a list is a number */
    char *first = words[i], *second = words[i + 1];
    size_t one = strcspn(first, " \n"), two = strcspn(second, " \n");
    if (one >= sizeof copy || first + one + 1 != second) return;
    memcpy(copy, first, one);
    memmove(first, second, two);
    first[two] = ' ';
    memcpy(first + two + 1, copy, one);
}

/* One digit becomes another: a lag, a slot, a batch, a stage, whatever it is of. */
static void change_digit(candidate *c, const char *behind)
{
    char *at = find_any(c, behind);
    if (at) at[strlen(behind)] = (char)('0' + below(c, 7));
}

static ft_status edit(candidate *c, ft_error *err)
{
    FT_TRY(ft_plan_write(c->plan, &c->text, err));
    ft_plan_free(c->plan);
    c->plan = NULL;
    c->edited = true;
    for (int n = 1 + below(c, 3); n > 0; n--) switch (below(c, 6)) {
        case 0: change_digit(c, " slots "); break;
        case 1: change_digit(c, "~"); break;
        case 2: change_digit(c, " F"); break;
        default: swap_actions(c); break;
        }
    FT_TRY(ft_plan_parse(&c->plan, c->text.data, err));
    return ft_plan_check(c->plan, err);
}

/* -- moves ------------------------------------------------------------------------------------- */

static ft_status draw(ft_blueprint **out, const candidate *c, ft_error *err)
{
    static double hypers[FT_MAX_HYPERS];
    const ft_optimizer *adamw = ft_optimizer_find("adamw");
    ft_optimizer_hypers(adamw, NULL, NULL, 0, hypers, err);
    const ft_blueprint_options options = {.graphs = &c->g,
                                          .n_graphs = 1,
                                          .plan = c->plan,
                                          .devices = c->devices,
                                          .n_devices = c->cut.n_devices,
                                          .micro_batch_size = ROWS,
                                          .optimizer = adamw,
                                          .hypers = hypers,
                                          .clip = c->clip,
                                          .seed = 1};
    return ft_blueprint_new(out, &options, err);
}

/* Every second plan moves state to host memory and back, for budgets between the least and all;
 * with too small ones as little as there can be is on the device; where none can, it stays. Drawn
 * apart, so that plans keep their numbers. */
static ft_status move_state(candidate *c, ft_error *err)
{
    ft_rng rng;
    ft_blueprint *b = NULL;
    ft_plan *moved = NULL;
    int64_t spare[DEVICES];
    ft_rng_init(&rng, 6, c->number);
    if (ft_rng_below(&rng, 2)) return FT_OK;
    FT_TRY(draw(&b, c, err));
    for (int d = 0; d < c->cut.n_devices; d++) {
        int64_t all = ft_blueprint_device_bytes(b, d);
        spare[d] =
            c->devices[d].memory_bytes - all + (int64_t)ft_rng_below(&rng, (uint64_t)all / 2 + 1);
    }
    ft_fit fit = {.least = ft_rng_below(&rng, 3) == 0,
                  .spare = spare,
                  .classes = ft_rng_below(&rng, 4) ? ~0U : (unsigned)ft_rng_below(&rng, 256),
                  .tasks = c->tasks,
                  .scope = (ft_residency_scope)ft_rng_below(&rng, 3),
                  .writes_back = ft_rng_below(&rng, 4) == 0,
                  .updates_at_home = ft_rng_below(&rng, 3) == 0,
                  .far_ahead = ft_rng_below(&rng, 2),
                  .room = 0.25 * (double)ft_rng_below(&rng, 3),
                  .spreads = ft_rng_below(&rng, 2),
                  .makes = ft_rng_below(&rng, 2)};
    if (fit.makes && !fit.writes_back) /* over so slow a link all are made */
        for (int d = 0; d < c->cut.n_devices; d++) b->copy_bytes_per_s[d] = 1;
    ft_status status = ft_fit_plan(&moved, b, &fit, err);
    fit.least = true;
    if (status == FT_INFEASIBLE) status = ft_fit_plan(&moved, b, &fit, err);
    if (status == FT_OK) {
        ft_plan_free(c->plan);
        c->plan = moved;
        c->moved = true;
    }
    ft_blueprint_free(b);
    return status == FT_INFEASIBLE || status == FT_UNSUPPORTED ? FT_OK : status;
}

/* -- runs -------------------------------------------------------------------------------------- */

typedef struct outcome {
    double losses[BATCHES];
    float params[PARAMS][WEIGHTS];
} outcome;

/* Takes the batches of a leg; false when one does not come. */
static bool take(candidate *c, ft_run *run, outcome *o)
{
    ft_error err = {FT_OK, ""};
    for (int fed = 0, taken = 0; taken < c->cut.n_batches; taken++) {
        ft_result result;
        for (; fed < c->cut.n_batches && ft_run_wants(run); fed++)
            CHECK_STATUS(feed(run, (int64_t)c->cut.micro_batches * ROWS, &err), FT_OK);
        if (CHECK_STATUS(ft_run_next(run, &result, (int64_t)120e9, &err), FT_OK)) {
            o->losses[taken] = result.loss;
            continue;
        }
        ft_text text = {0};
        ft_run_describe(run, &text, &err);
        fprintf(stderr, "plan %d: %s\n%s", (int)c->number, err.message, text.data);
        ft_text_fini(&text);
        return false;
    }
    return true;
}

/* Trains by the plan. *refused: before the start, else what goes wrong is a fault. */
static outcome train_by(candidate *c, bool threaded, bool *refused)
{
    outcome o = {0};
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    ft_run *run = NULL;
    ft_status status = draw(&b, c, &err);
    if (status == FT_OK) status = ft_run_new(&run, b, &err);
    if (status == FT_OK) status = set_params(run, &err);
    if (status == FT_OK) status = ft_run_begin(run, ft_blueprint_plan(b), 1, threaded, &err);
    *refused = status != FT_OK;
    CHECK(status == FT_OK || err.message[0]);
    if (status == FT_OK && take(c, run, &o)) {
        if (!CHECK_STATUS(ft_run_end(run, &err), FT_OK)) fprintf(stderr, "%s\n", err.message);
        for (int p = 0; p < PARAMS; p++) {
            ft_view view = ft_run_param(run, p);
            memcpy(o.params[p], view.data, (size_t)ft_shape_count(&view.shape) * sizeof(float));
        }
    }
    ft_run_free(run);
    ft_blueprint_free(b);
    return o;
}

/* What one device computes, one micro-batch after the other. */
static const outcome *judge(const candidate *of)
{
    static outcome known[PARAMS][2][MICRO + 1][BATCHES + 1];
    static bool is_known[PARAMS][2][MICRO + 1][BATCHES + 1];
    int micro_batches = of->cut.micro_batches, n_batches = of->cut.n_batches;
    outcome *o = &known[of->frozen][of->clip > 0][micro_batches][n_batches];
    bool *is_there = &is_known[of->frozen][of->clip > 0][micro_batches][n_batches];
    if (*is_there) return o;
    candidate c = {.g = of->g};
    ft_error err = {FT_OK, ""};
    bool refused = true;
    choose(&c, "cpu", 1, ft_schedule_find("sequential"), FT_WEIGHTS_OWN);
    memset(c.node_stage, 0, sizeof c.node_stage);
    memset(c.recompute, 0, sizeof c.recompute);
    c.splits[0] = false;
    c.stage_device[0] = 0;
    c.cut.n_stages = c.cut.n_devices = 1;
    c.cut.together = true;
    c.cut.late_norms = false;
    c.cut.replica_first = c.cut.replica_device = NULL;
    c.clip = of->clip;
    c.cut.micro_batches = micro_batches;
    c.cut.n_batches = n_batches;
    if (CHECK_STATUS(make(&c, &err), FT_OK)) *o = train_by(&c, false, &refused);
    CHECK(!refused);
    ft_plan_free(c.plan);
    *is_there = true;
    return o;
}

/* Whether some action reads weights that lack an update. */
static bool is_late(const ft_plan *plan)
{
    for (int d = 0; d < plan->n_devices; d++)
        for (int64_t i = 0; i < ft_plan_length(plan, d); i++)
            if (ft_plan_at(plan, d, i).lag) return true;
    return false;
}

/* Sums of replicas are others than those of one device. */
static bool has_replicas(const ft_plan *plan)
{
    return plan->replica_first[plan->n_stages] > plan->n_stages;
}

static bool same(const outcome *a, const outcome *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* What became of all plans. */
typedef struct tally {
    int refused, completed, edited, judged, moved, with_norms, with_replicas, with_tasks, frozen;
    int by_schedule[32];
} tally;

/* Of how many weights, at most two of the three; drawn apart, so that plans keep their numbers. */
static int choose_frozen(uint64_t number)
{
    ft_rng rng;
    ft_rng_init(&rng, 7, number);
    int frozen = (int)ft_rng_below(&rng, 5);
    return frozen < PARAMS ? frozen : 0;
}

static void try_plan(ft_graph *const graphs[PARAMS], const char *kind, uint64_t number, tally *t)
{
    int frozen = choose_frozen(number);
    candidate c = {.g = graphs[frozen], .frozen = frozen};
    ft_error err = {FT_OK, ""};
    ft_driver slow = ft_cpu_driver;
    slow.launch = launch_later;
    if (!choose(&c, kind, number, NULL, FT_WEIGHTS_OWN)) return;
    bool delayed = !strcmp(kind, "cpu") && below(&c, 4) == 0;
    for (int d = 0; delayed && d < c.cut.n_devices; d++) c.devices[d].driver = &slow;
    ft_status status = make(&c, &err);
    if (status == FT_OK) status = move_state(&c, &err);
    if (status == FT_OK && below(&c, 2)) status = edit(&c, &err);
    bool refused = status != FT_OK;
    CHECK(!refused || err.message[0]);
    outcome threaded = {0}, replayed;
    if (!refused) threaded = train_by(&c, true, &refused);
    t->refused += refused;
    if (!refused) {
        bool again;
        int s = 0;
        while (ft_schedules[s] != c.schedule) s++;
        t->completed++;
        t->edited += c.edited;
        t->with_norms += ft_plan_has(c.plan, c.cut.n_stages - 1, FT_ACT_TAKE_NORMS);
        t->with_replicas += has_replicas(c.plan);
        t->moved += c.moved;
        t->with_tasks += c.tasks.forward != NULL;
        t->frozen += frozen > 0;
        if (s < 32) t->by_schedule[s]++;
        replayed = train_by(&c, false, &again);
        bool fine = CHECK(!again && same(&threaded, &replayed));
        bool exact = !c.clip || !c.cut.late_norms; /* no norm is late */
        if (!is_late(c.plan) && !has_replicas(c.plan) && exact) {
            t->judged++;
            fine &= CHECK(same(&threaded, judge(&c)));
        }
        if (!fine) fprintf(stderr, "plan %d of %s: %s\n", (int)number, kind, c.schedule->name);
    }
    ft_plan_free(c.plan);
    ft_text_fini(&c.text);
}

static void try_plans(const char *kind, uint64_t first, int n)
{
    ft_graph *graphs[PARAMS]; /* by how many weights are frozen */
    tally t = {0};
    for (int i = 0; i < PARAMS; i++) graphs[i] = make_frozen_graph(ROWS, "loss", i);
    if (!CHECK(graphs[0] && graphs[1] && graphs[2])) return;
    for (int i = 0; i < n; i++) try_plan(graphs, kind, first + (uint64_t)i, &t);
    printf(
        "%d plans on %s: %d refused before the start, %d completed (%d of them edited, %d with "
        "moves, %d with late norms, %d with replicas, %d with tasks, %d with frozen weights), %d "
        "as one device\n",
        n, kind, t.refused, t.completed, t.edited, t.moved, t.with_norms, t.with_replicas,
        t.with_tasks, t.frozen, t.judged);
    CHECK(t.refused + t.completed == n);
    if (n >= 200) { /* nothing is left out by chance */
        CHECK(t.completed > n / 3 && t.refused > n / 20 && t.judged > n / 10);
        CHECK(t.edited > n / 50 && t.moved > n / 10);
        CHECK(t.with_norms > n / 100 && t.with_replicas > n / 50 && t.frozen > n / 10);
        CHECK(t.with_tasks > n / 200);
        for (int s = 0; ft_schedules[s]; s++)
            CHECK(t.by_schedule[s] > 0 || ft_schedules[s]->replicates);
    }
    for (int i = 0; i < PARAMS; i++) ft_graph_free(graphs[i]);
}

/* -- delays ------------------------------------------------------------------------------------ */

/* A plan of the schedule that is made as it was drawn; false when none of some is. */
static bool find_plan(candidate *c, ft_graph *g, const ft_schedule *schedule, ft_weights weights)
{
    for (uint64_t number = 1; number <= 40; number++) {
        ft_error err = {FT_OK, ""};
        *c = (candidate){.g = g};
        choose(c, "cpu", number, schedule, weights);
        if (c->cut.n_devices > 1 && c->cut.n_batches > 2 && make(c, &err) == FT_OK) return true;
        ft_plan_free(c->plan);
    }
    return false;
}

/* Whatever takes its time where, the numbers are the same, by every schedule and with every way of
 * reading weights that are late. */
static void test_delays(void)
{
    ft_graph *g = make_graph(ROWS, "loss");
    ft_driver slow = ft_cpu_driver;
    slow.launch = launch_later;
    for (int s = 0; g && ft_schedules[s]; s++) {
        const ft_schedule *schedule = ft_schedules[s];
        bool may_be_stale = !schedule->synchronous && !schedule->weights;
        for (int w = 0; w < (may_be_stale ? FT_WEIGHTS_COUNT : 1); w++) {
            candidate c;
            bool refused[3] = {true, true, true};
            if (schedule->replicates) continue;
            if (!CHECK(find_plan(&c, g, schedule, (ft_weights)w))) {
                fprintf(stderr, "no plan: %s, %s\n", schedule->name,
                        ft_weights_word((ft_weights)w));
                continue;
            }
            outcome replayed = train_by(&c, false, &refused[0]);
            for (int d = 0; d < c.cut.n_devices; d++) c.devices[d].driver = &slow;
            outcome first = train_by(&c, true, &refused[1]);
            outcome second = train_by(&c, true, &refused[2]);
            CHECK(!refused[0] && !refused[1] && !refused[2]);
            if (!CHECK(same(&replayed, &first) && same(&first, &second)))
                fprintf(stderr, "%s, %s\n", schedule->name, ft_weights_word((ft_weights)w));
            ft_plan_free(c.plan);
        }
    }
    ft_graph_free(g);
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 400;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    RUN(test_delays);
    try_plans("cpu", first, n);
    try_plans("check", first, n / 2);
    return check_report();
}
