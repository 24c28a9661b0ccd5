/* test/test_engine_check.c - the engine on a device that checks: every wait is needed and there,
 * and whatever fails ends the run with one error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_driver.h"
#include "edited_plans.h"
#include "engine_run.h"

static const ft_driver check_driver = CHECK_DRIVER("check");
static const ft_driver apart_driver = CHECK_DRIVER("apart", .passes_apart = true);
const ft_driver *const ft_drivers[] = {&ft_cpu_driver, &check_driver, &apart_driver, NULL};

typedef struct outcome {
    ft_status status;
    ft_error error;
    double losses[10];
    int64_t planned, measured; /* bytes of device 0 */
    float w2[HIDDEN * HIDDEN];
} outcome;

/* -- runs -------------------------------------------------------------------------------------- */

/* What was live is what was planned; of buffers and activations no more. */
static void check_memory(const ft_blueprint *b, const ft_run *run, outcome *o)
{
    const ft_plan *plan = ft_blueprint_plan(b);
    for (int d = 0; d < plan->n_devices; d++) {
        int64_t bytes[FT_MEMORY_CLASSES];
        int64_t total = ft_run_measured(run, d, bytes), planned = ft_blueprint_device_bytes(b, d);
        CHECK(total <= planned);
        if (d == 0) o->planned = planned;
        if (d == 0) o->measured = total;
        for (int c = 0; c < FT_MEMORY_CLASSES; c++)
            CHECK(bytes[c] <= plan->memory[d][c] &&
                  (bytes[c] == plan->memory[d][c] || c == FT_MEMORY_BUFFERS ||
                   c == FT_MEMORY_ACTIVATIONS));
    }
}

/* One run of the chain: on the devices of a text, or with replicas of its stages on a device each
 * (kind is then all of the text); of schedules without a flush the weights that are read, and the
 * norm to which gradients are clipped. */
typedef struct way {
    const char *devices, *schedule;
    edit how;
    int replicas[3]; /* of stage 0: none, there are no replicas */
    ft_weights weights;
    double clip;
    const char *words;
    ft_tasks tasks;
    const int *joint; /* by stage */
    bool shares;      /* replicas' edges take turns in one place */
} way;

static bool set_up(pipeline *p, const way *w)
{
    if (!pipeline_init(p, w->devices, w->schedule)) return false;
    p->weights = w->weights;
    p->options.clip = w->clip;
    p->cut.late_norms = !p->schedule->synchronous && w->clip > 0;
    p->tasks = w->tasks;
    if (w->joint && !pipeline_join(p, w->joint)) return false;
    if (p->schedule->replicates) pipeline_spread(p);
    if (w->replicas[0] == 0) return true;
    const ft_driver *driver = p->devices[0].driver;
    if (!pipeline_replicate(p, w->replicas, 3)) return false;
    for (int d = 0; d < p->cut.n_devices; d++) p->devices[d].driver = driver;
    return true;
}

/* Trains once; nothing stays open. */
static outcome run_way(const way *w, bool threaded)
{
    outcome o = {0};
    pipeline p;
    ft_blueprint *b = NULL;
    ft_run *run = NULL;
    int64_t alive = ft_alloc_live(), open = checks.open;
    int shared = 0;
    if (!set_up(&p, w)) return o;
    if (w->shares) {
        o.status = share_plan(&p, &shared, &o.error);
        CHECK(shared > 0);
    }
    if (o.status != FT_OK) return o;
    if (w->how >= LEAST)
        o.status = fit_plan(&p, w->how, &o.error);
    else if (w->how != AS_IT_IS)
        o.status = edit_plan(&p, w->how, &o.error);
    if (o.status == FT_OK) o.status = pipeline_draw(&b, &p, &o.error);
    if (o.status == FT_OK) o.status = ft_run_new(&run, b, &o.error);
    if (o.status == FT_OK) o.status = set_params(run, &o.error);
    if (o.status == FT_OK)
        o.status = train(run, ft_blueprint_plan(b), threaded, o.losses, &o.error);
    if (o.status == FT_OK) check_memory(b, run, &o);
    if (o.status == FT_OK) memcpy(o.w2, ft_run_param(run, 1).data, sizeof o.w2);
    ft_run_free(run);
    ft_blueprint_free(b);
    pipeline_free(&p);
    CHECK(ft_alloc_live() == alive && checks.open == open);
    return o;
}

static outcome run_plan(const char *devices, const char *schedule, edit how, bool threaded)
{
    return run_way(&(way){.devices = devices, .schedule = schedule, .how = how}, threaded);
}

static outcome run_on(const char *devices, const char *schedule, bool threaded)
{
    return run_plan(devices, schedule, AS_IT_IS, threaded);
}

static bool same_numbers(const outcome *a, const outcome *b)
{
    return memcmp(a->losses, b->losses, sizeof a->losses) == 0 &&
           memcmp(a->w2, b->w2, sizeof a->w2) == 0;
}

static const char *const schedules[] = {"sequential", "gpipe", "1f1b", "async"};

static void test_same_bits(void)
{
    for (int i = 0; i < 8; i++)
        for (int threaded = 0; threaded < 2; threaded++)
            for (uint32_t seed = 1; seed <= 3; seed++) {
                const char *devices = i < 4 ? "check:3" : "apart:3", *schedule = schedules[i % 4];
                outcome cpu = run_on("cpu:3", schedule, threaded);
                int64_t touches = checks.touches, waits = checks.waits;
                checks.seed = seed;
                outcome checked = run_on(devices, schedule, threaded);
                CHECK_STATUS(cpu.status, FT_OK);
                if (!CHECK(checked.status == FT_OK)) fprintf(stderr, "%s\n", checked.error.message);
                CHECK(same_numbers(&cpu, &checked));
                CHECK(checks.touches > touches + 1000 && checks.waits > waits + 100);
            }
    CHECK(checks.refused == 0);
}

/* What is moved in a plan that is edited does not change what it computes; returns the copies of
 * one run. */
static int64_t compare_edited(const char *schedule, edit how, bool threaded, uint32_t seed)
{
    outcome stays = run_on("cpu:3", schedule, threaded);
    outcome moved = run_plan("cpu:3", schedule, how, threaded);
    int64_t copies = checks.copies;
    checks.seed = seed;
    outcome checked = run_plan("check:3", schedule, how, threaded);
    CHECK_STATUS(stays.status, FT_OK);
    if (!CHECK(moved.status == FT_OK)) fprintf(stderr, "%s\n", moved.error.message);
    if (!CHECK(checked.status == FT_OK)) fprintf(stderr, "%s\n", checked.error.message);
    CHECK(same_numbers(&stays, &moved) && same_numbers(&stays, &checked));
    return checks.copies - copies;
}

static void test_swaps(void)
{
    for (int s = 0; s < 3; s++)
        for (int threaded = 0; threaded < 2; threaded++)
            for (uint32_t seed = 1; seed <= 4; seed++)
                CHECK(compare_edited(schedules[s], SWAPS, threaded, seed) >
                      10 * 3 * 2 * (MICRO + 2));
    CHECK(checks.refused == 0);
}

/* On one device: the same numbers in less memory, all of which is used at once. */
static void test_tight(void)
{
    for (int s = 0; s < 4; s++)
        for (int threaded = 0; threaded < 2; threaded++)
            for (uint32_t seed = 1; seed <= 4; seed++) {
                edit how = seed <= 2 ? TIGHT : HOME;
                outcome stays = run_on("cpu:1", schedules[s], threaded);
                outcome moved = run_plan("cpu:1", schedules[s], how, threaded);
                checks.seed = seed;
                outcome checked = run_plan("check:1", schedules[s], how, threaded);
                CHECK_STATUS(stays.status, FT_OK);
                if (!CHECK(moved.status == FT_OK)) fprintf(stderr, "%s\n", moved.error.message);
                if (!CHECK(checked.status == FT_OK)) fprintf(stderr, "%s\n", checked.error.message);
                CHECK(same_numbers(&stays, &moved) && same_numbers(&stays, &checked));
                CHECK(moved.planned < stays.planned);
                if (threaded) continue;
                CHECK(moved.planned - moved.measured == stays.planned - stays.measured);
            }
    CHECK(checks.refused == 0);
}

/* Copies that a run of the plan makes. */
static int64_t copies_of(const char *devices, const char *schedule, bool threaded)
{
    int64_t before = checks.copies;
    CHECK_STATUS(run_on(devices, schedule, threaded).status, FT_OK);
    return checks.copies - before;
}

/* Between stages of one device a value is made in its slot and read there. Of 10 batches over 2
 * boundaries, there and back, what forwards keep of what arrives is copied; the rest are batches
 * that are fed, and guards. */
static void test_near(void)
{
    for (int s = 0; s < 4; s++)
        for (int threaded = 0; threaded < 2; threaded++) {
            checks.seed = (uint32_t)(5 + s);
            int64_t kept = 10 * MICRO * 2, copies = copies_of("check:1", schedules[s], threaded);
            CHECK(copies >= kept && copies < 2 * 2 * kept);
        }
    CHECK(checks.refused == 0);
}

/* Each V is one copy more, of 10 batches over 2 boundaries, there and back; an S takes what was
 * made in its row, which was copied to the slot before. */
static void test_passes(void)
{
    for (int s = 0; s < 4; s++)
        for (int threaded = 0; threaded < 2; threaded++)
            for (edit how = PASSES; how <= RECEIVES; how++) {
                checks.seed = (uint32_t)(5 + s);
                int64_t plain = copies_of("check:3", schedules[s], threaded);
                int64_t copies = compare_edited(schedules[s], how, threaded, 1 + how);
                int64_t wanted = (how != SENDS) * 10 * MICRO * 2 * 2, guards = 64;
                CHECK(copies - plain >= wanted && copies - plain < wanted + guards);
            }
    CHECK(checks.refused == 0);
}

/* What is computed next does not wait until what was made before has come to another device. */
static void test_apart(void)
{
    for (int s = 1; s < 4; s++) {
        int64_t beside = checks.beside, launches = checks.launches;
        CHECK_STATUS(run_on("check:3", schedules[s], false).status, FT_OK);
        CHECK(checks.beside == beside && checks.launches > launches);
        launches = checks.launches;
        CHECK_STATUS(run_on("apart:3", schedules[s], false).status, FT_OK);
        CHECK(3 * (checks.beside - beside) > checks.launches - launches);
    }
    CHECK(checks.refused == 0);
}

/* Sums of replicas (X), norms without a flush (N), gradients of older weights (A), and all three.
 * Memory of attenuated gradients is in use in part of the steps only. */
static const way ways[] = {
    {"check", "gpipe", AS_IT_IS, {2, 1, 2}, FT_WEIGHTS_OWN, 0.5, .words = " with replicas"},
    {"check",
     "async",
     AS_IT_IS,
     {2, 2, 1},
     FT_WEIGHTS_STASH,
     0,
     .words = " with replicas and stash"},
    {"check:3", "async", AS_IT_IS, {0}, FT_WEIGHTS_OWN, 0.5, .words = " with late norms"},
    {"check:3", "async", AS_IT_IS, {0}, FT_WEIGHTS_GAP, 0, .words = " with gaps"},
    {"check:3", "async", AS_IT_IS, {0}, FT_WEIGHTS_STASH_GAP, 0.5, .words = " with all of them"},
};
enum { WAYS = sizeof ways / sizeof *ways };

/* The same on devices where what passes to others goes beside what is computed next. */
static way apart(const way *w)
{
    way other = *w;
    other.devices =
        strchr(w->devices, ':') ? strcmp(w->devices, "check:2") ? "apart:3" : "apart:2" : "apart";
    return other;
}

/* Harmony's tasks: stages by themselves, or forwards of the first two at once, or backwards of the
 * last two with their forwards; and forwards of two micro-batches as one. */
static const int first_two[] = {3, 3, 0}, each[] = {2, 1, 0};
static const int alone[] = {2, 0, 0}, last_two[] = {1, 0, 0};
static const int joint[] = {JOINT, JOINT, 1};
static const way harmony[] = {
    {"check:1", "harmony-pp", TASKS, .words = ", tasks"},
    {"check:2", "harmony-pp", TASKS, .words = " on two devices, tasks"},
    {"check:1", "harmony-pp", LEAST, .words = ", least"},
    {"check:2", "harmony-dp", TASKS, .words = ", tasks"},
    {"check:1", "harmony-pp", TASKS, .words = ", 2/1", .tasks = {first_two, each}},
    {"check:1", "harmony-pp", TASKS, .words = ", 1/2", .tasks = {alone, last_two}},
    {"check:1", "harmony-pp", TASKS_HOME, .words = ", 2/1 at home", .tasks = {first_two, each}},
    {"check:1", "harmony-pp", LEAST_HOME, .words = ", 1/2 at home", .tasks = {alone, last_two}},
    {"check:1", "harmony-pp", TASKS, .words = ", joint", .joint = joint},
    {"check:2", "harmony-pp", AS_IT_IS, .words = " on two devices, joint", .joint = joint},
    {"check:2", "harmony-dp", TASKS, .words = ", joint", .joint = joint},
    {"apart:2", "harmony-pp", AS_IT_IS, .words = " apart, joint", .joint = joint},
    {"apart:2", "harmony-dp", TASKS, .words = " apart, joint", .joint = joint},
    {"apart:2", "harmony-dp", TASKS_HOME, .words = " apart, at home"},
    {"check:2", "harmony-dp", AS_IT_IS, .words = ", shared", .shares = true},
    {"check:2", "data-parallel", TASKS, .words = ", shared", .shares = true},
    {"apart:2", "harmony-dp", LEAST, .words = " apart, shared", .shares = true},
    {"apart:2", "harmony-dp", TASKS_HOME, .words = " apart, shared, at home", .shares = true},
    {"check:1", "harmony-pp", LEAST, .words = ", 2/1 joint", .tasks = {first_two, each},
     .joint = joint},
};
enum { HARMONIES = sizeof harmony / sizeof *harmony };

static void test_harmony(void)
{
    for (int i = 0; i < HARMONIES; i++)
        for (int threaded = 0; threaded < 2; threaded++) {
            way judge = harmony[i];
            bool both = harmony[i].devices[6] == '2'; /* of "check:2" */
            judge.devices = both ? "cpu:2" : "cpu:1";
            judge.how = AS_IT_IS;
            judge.shares = false;
            judge.tasks = (ft_tasks){NULL, NULL};
            judge.joint = NULL;
            outcome plain = run_way(&judge, threaded);
            checks.seed = (uint32_t)(3 + i);
            outcome checked = run_way(&harmony[i], threaded);
            if (!CHECK(plain.status == FT_OK)) fprintf(stderr, "%s\n", plain.error.message);
            if (!CHECK(checked.status == FT_OK))
                fprintf(stderr, "%s%s: %s\n", harmony[i].schedule, harmony[i].words,
                        checked.error.message);
            CHECK(same_numbers(&plain, &checked));
        }
    CHECK(checks.refused == 0);
}

static void test_ways(void)
{
    for (int i = 0; i < 2 * WAYS; i++)
        for (int threaded = 0; threaded < 2; threaded++) {
            const way at = i < WAYS ? ways[i] : apart(&ways[i - WAYS]);
            way cpu = at;
            cpu.devices = at.replicas[0] ? "cpu" : "cpu:3";
            outcome plain = run_way(&cpu, threaded);
            checks.seed = (uint32_t)(7 + i);
            outcome checked = run_way(&at, threaded);
            CHECK_STATUS(plain.status, FT_OK);
            if (!CHECK(checked.status == FT_OK))
                fprintf(stderr, "%s %s%s: %s\n", at.devices, at.schedule, at.words,
                        checked.error.message);
            CHECK(same_numbers(&plain, &checked));
        }
    CHECK(checks.refused == 0);
}

/* Without any one of the waits that bring news to a stream, the run is refused; or a later wait of
 * the stream, or one of the host, brought the same before anything there was touched. A part of
 * them, another one for each way. */
static void drop_waits(const way *w, int first, int every)
{
    int64_t before = checks.needed, tried = 0, found = 0;
    checks.seed = 1;
    outcome judge = run_way(w, false);
    int64_t waits = checks.needed - before;
    for (int64_t n = first; n <= waits; n += every, tried++) {
        int64_t implied = checks.implied;
        checks.drop_wait = n;
        checks.seed = 1;
        outcome o = run_way(w, false);
        checks.dropper = NULL;
        found += o.status == FT_DEVICE;
        if (o.status == FT_DEVICE) continue;
        CHECK(o.status == FT_OK && checks.implied == implied + 1 && same_numbers(&o, &judge));
    }
    printf("%s, %s%s: %lld waits, %lld left out: %lld found, the others implied\n", w->devices,
           w->schedule, w->words, (long long)waits, (long long)tried, (long long)found);
    CHECK(found > 0 || CASES_STEP > 1); /* of a tenth of them all may be implied */
}

static void test_dropped_waits(void)
{
    static const struct {
        edit how;
        int n_schedules, every;
        const char *devices, *words;
    } edits[] = {{AS_IT_IS, 4, 3, "check:3", ""},
                 {SWAPS, 3, 17, "check:3", " with swaps"},
                 {TIGHT, 4, 41, "check:1", ", tight"},
                 {HOME, 4, 41, "check:1", ", updates in host memory"},
                 {PASSES, 4, 7, "check:3", " with S and V"},
                 {AS_IT_IS, 4, 5, "apart:3", " apart"},
                 {SWAPS, 3, 31, "apart:3", " apart with swaps"},
                 {RECEIVES, 4, 11, "apart:3", " apart with V"}};
    for (int e = 0; e < 8; e++)
        for (int s = 0; s < edits[e].n_schedules; s++) {
            const way w = {.devices = edits[e].devices,
                           .schedule = schedules[s],
                           .how = edits[e].how,
                           .words = edits[e].words};
            drop_waits(&w, 1 + s % 3, edits[e].every * CASES_STEP);
        }
    for (int i = 0; i < WAYS; i++) {
        const way other = apart(&ways[i]);
        drop_waits(&ways[i], 1 + i % 3, 5 * CASES_STEP);
        drop_waits(&other, 1 + i % 3, 5 * CASES_STEP);
    }
    for (int i = 0; i < HARMONIES; i++) drop_waits(&harmony[i], 1 + i % 3, 29 * CASES_STEP);
    checks.refused = 0;
}

/* The n-th call fails, for every n until a run does without: one error, and nothing stays. */
static void fail_each(int64_t *counter, ft_status wanted, int step, edit how, bool threaded)
{
    int64_t n = 1;
    for (;; n += step) {
        *counter = n;
        outcome o = run_plan("check:2", "1f1b", how, threaded);
        bool reached = *counter == 0;
        *counter = 0;
        if (!reached) {
            CHECK_STATUS(o.status, FT_OK);
            break;
        }
        if (!CHECK(o.status == wanted && o.error.message[0])) {
            fprintf(stderr, "call %lld: status %d: %s\n", (long long)n, o.status, o.error.message);
            break;
        }
    }
    CHECK(n > 2);
}

static void test_failures(void)
{
    for (int threaded = 0; threaded < 2; threaded++) {
        fail_each(&checks.fail_alloc, FT_NOMEM, 1, AS_IT_IS, threaded);
        fail_each(&checks.fail_copy, FT_DEVICE, threaded ? 7 : 2, AS_IT_IS, threaded);
        fail_each(&checks.fail_launch, FT_DEVICE, threaded ? 41 : 13, AS_IT_IS, threaded);
        fail_each(&checks.fail_alloc, FT_NOMEM, 1, SWAPS, threaded);
        fail_each(&checks.fail_copy, FT_DEVICE, threaded ? 89 : 23, SWAPS, threaded);
        fail_each(&checks.fail_copy, FT_DEVICE, threaded ? 97 : 31, PASSES, threaded);
    }
    CHECK(checks.refused == 0);
}

int main(void)
{
    RUN(test_same_bits);
    RUN(test_swaps);
    RUN(test_tight);
    RUN(test_near);
    RUN(test_passes);
    RUN(test_apart);
    RUN(test_ways);
    RUN(test_harmony);
    RUN(test_dropped_waits);
    RUN(test_failures);
    return check_report();
}
