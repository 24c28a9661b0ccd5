/* test/test_engine_check.c - the engine on a device that checks: every wait is needed and there,
 * and whatever fails ends the run with one error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_driver.h"
#include "engine_run.h"
#include "planfile/planfile.h"

static const ft_driver check_driver = CHECK_DRIVER("check");
const ft_driver *const ft_drivers[] = {&ft_cpu_driver, &check_driver, NULL};

typedef struct outcome {
    ft_status status;
    ft_error error;
    double losses[10];
    float w2[HIDDEN * HIDDEN];
} outcome;

/* -- plans that swap --------------------------------------------------------------------------- */

/* Adds one action of a list. Everything that may leave a device does, as soon as it is not needed:
 * activations between forward and backward, gradients and optimizer state between batches, and
 * between all actions the weights of stage 2, which no other stage shares. */
static void add_swapped(ft_text *out, char kind, int stage, int batch, int micro)
{
    bool weights = stage == 2 && kind != 'R';
    if (weights) ft_text_add(out, " L2.%d.0:weights", batch);
    if (kind == 'B' && micro == 0) ft_text_add(out, " L%d.%d.0:gradients", stage, batch);
    if (kind == 'B') ft_text_add(out, " L%d.%d.%d:activations", stage, batch, micro);
    if (kind == 'U') ft_text_add(out, " L%d.%d.0:optimizer", stage, batch);
    ft_text_add(out, micro < 0 ? " %c%d.%d" : " %c%d.%d.%d", kind, stage, batch, micro);
    if (kind == 'F') ft_text_add(out, " O%d.%d.%d:activations", stage, batch, micro);
    if (weights) ft_text_add(out, " %c2.%d.0:weights", kind == 'U' ? 'O' : 'D', batch);
    if (kind == 'U')
        ft_text_add(out, " O%d.%d.0:gradients O%d.%d.0:optimizer", stage, batch, stage, batch);
}

/* A line of the plan's text; the numbers of slots are left to the lists. */
static void add_line(ft_text *out, char *line)
{
    char *flight = strstr(line, " in-flight"), *word = strtok(line, " ");
    if (word && strcmp(word, "stage") == 0 && flight) {
        line[strlen(line)] = ' ';
        char *rest = strchr(flight + 11, ' ');
        ft_text_add(out, "%.*s%s\n", (int)(flight - line), line, rest ? rest : "");
        return;
    }
    bool list =
        word && (!strcmp(word, "warm-up") || !strcmp(word, "body") || !strcmp(word, "drain"));
    for (int i = 0; word; i++, word = strtok(NULL, " ")) {
        int stage, batch, first, last;
        int n = list && i > 1 ? sscanf(word + 1, "%d.%d.%d-%d", &stage, &batch, &first, &last) : 0;
        if (n < 2) ft_text_add(out, i ? " %s" : "%s", word);
        if (n == 2) add_swapped(out, *word, stage, batch, -1);
        if (n == 3) last = first;
        for (int m = first; n > 2 && m <= last; m++) add_swapped(out, *word, stage, batch, m);
    }
    ft_text_add(out, "\n");
}

static ft_status swap_plan(pipeline *p, ft_error *err)
{
    ft_text text = {0}, swapped = {0};
    FT_TRY(pipeline_plan(p, err));
    ft_status status = ft_plan_write(p->plan, &text, err);
    ft_plan_free(p->plan);
    p->plan = NULL;
    for (char *line = text.data, *end; status == FT_OK && *line; line = end + 1) {
        end = strchr(line, '\n');
        *end = '\0';
        add_line(&swapped, line);
    }
    if (status == FT_OK) status = ft_plan_parse(&p->plan, swapped.data, err);
    if (status == FT_OK) status = ft_plan_check(p->plan, err);
    ft_text_fini(&text);
    ft_text_fini(&swapped);
    return status;
}

/* -- runs -------------------------------------------------------------------------------------- */

/* Trains once; nothing stays open. */
static outcome run_plan(const char *devices, const char *schedule, bool swaps, bool threaded)
{
    outcome o = {0};
    pipeline p;
    ft_blueprint *b = NULL;
    ft_run *run = NULL;
    int64_t alive = ft_alloc_live(), open = checks.open;
    if (!pipeline_init(&p, devices, schedule)) return o;
    if (swaps) o.status = swap_plan(&p, &o.error);
    if (o.status == FT_OK) o.status = pipeline_draw(&b, &p, &o.error);
    if (o.status == FT_OK) o.status = ft_run_new(&run, b, &o.error);
    if (o.status == FT_OK) o.status = set_params(run, &o.error);
    if (o.status == FT_OK)
        o.status = train(run, ft_blueprint_plan(b), threaded, o.losses, &o.error);
    if (o.status == FT_OK) memcpy(o.w2, ft_run_param(run, 1).data, sizeof o.w2);
    ft_run_free(run);
    ft_blueprint_free(b);
    pipeline_free(&p);
    CHECK(ft_alloc_live() == alive && checks.open == open);
    return o;
}

static outcome run_on(const char *devices, const char *schedule, bool threaded)
{
    return run_plan(devices, schedule, false, threaded);
}

static bool same_numbers(const outcome *a, const outcome *b)
{
    return memcmp(a->losses, b->losses, sizeof a->losses) == 0 &&
           memcmp(a->w2, b->w2, sizeof a->w2) == 0;
}

static const char *const schedules[] = {"sequential", "gpipe", "1f1b", "async"};

static void test_same_bits(void)
{
    for (int s = 0; s < 4; s++)
        for (int threaded = 0; threaded < 2; threaded++)
            for (uint32_t seed = 1; seed <= 3; seed++) {
                outcome cpu = run_on("cpu:3", schedules[s], threaded);
                int64_t touches = checks.touches, waits = checks.waits;
                checks.seed = seed;
                outcome checked = run_on("check:3", schedules[s], threaded);
                CHECK_STATUS(cpu.status, FT_OK);
                if (!CHECK(checked.status == FT_OK)) fprintf(stderr, "%s\n", checked.error.message);
                CHECK(same_numbers(&cpu, &checked));
                CHECK(checks.touches > touches + 1000 && checks.waits > waits + 100);
            }
    CHECK(checks.refused == 0);
}

static void test_swaps(void)
{
    for (int s = 0; s < 3; s++)
        for (int threaded = 0; threaded < 2; threaded++)
            for (uint32_t seed = 1; seed <= 4; seed++) {
                outcome stays = run_on("cpu:3", schedules[s], threaded);
                outcome moved = run_plan("cpu:3", schedules[s], true, threaded);
                int64_t copies = checks.copies;
                checks.seed = seed;
                outcome checked = run_plan("check:3", schedules[s], true, threaded);
                CHECK_STATUS(stays.status, FT_OK);
                if (!CHECK(moved.status == FT_OK)) fprintf(stderr, "%s\n", moved.error.message);
                if (!CHECK(checked.status == FT_OK)) fprintf(stderr, "%s\n", checked.error.message);
                CHECK(same_numbers(&stays, &moved) && same_numbers(&stays, &checked));
                CHECK(checks.copies - copies > 10 * 3 * 2 * (MICRO + 2));
            }
    CHECK(checks.refused == 0);
}

/* Without any one of the waits that bring news to a stream, the run is refused; or another wait of
 * the same action brought the same, or what a copy waits for did not touch what it moves. A part of
 * them, another one for each schedule. */
static void drop_waits(const char *schedule, bool swaps, int first, int every)
{
    int64_t before = checks.needed, tried = 0, implied = checks.implied, found = 0, same = 0;
    outcome judge = run_plan("check:3", schedule, swaps, false);
    int64_t waits = checks.needed - before;
    for (int64_t n = first; n <= waits; n += every, tried++) {
        checks.drop_wait = n;
        outcome o = run_plan("check:3", schedule, swaps, false);
        found += o.status == FT_DEVICE;
        same += o.status == FT_OK && same_numbers(&o, &judge);
    }
    implied = checks.implied - implied;
    printf("%s%s: %lld waits, %lld left out: %lld found, %lld implied by others\n", schedule,
           swaps ? " with swaps" : "", (long long)waits, (long long)tried, (long long)found,
           (long long)implied);
    CHECK(found + same == tried && found > same && (swaps || implied == same));
}

static void test_dropped_waits(void)
{
    for (int s = 0; s < 4; s++) drop_waits(schedules[s], false, 1 + s % 3, 3 * CASES_STEP);
    for (int s = 0; s < 3; s++) drop_waits(schedules[s], true, 1 + s, 17 * CASES_STEP);
    checks.refused = 0;
}

/* The n-th call fails, for every n until a run does without: one error, and nothing stays. */
static void fail_each(int64_t *counter, ft_status wanted, int step, bool swaps, bool threaded)
{
    int64_t n = 1;
    for (;; n += step) {
        *counter = n;
        outcome o = run_plan("check:2", "1f1b", swaps, threaded);
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
        fail_each(&checks.fail_alloc, FT_NOMEM, 1, false, threaded);
        fail_each(&checks.fail_copy, FT_DEVICE, threaded ? 7 : 2, false, threaded);
        fail_each(&checks.fail_launch, FT_DEVICE, threaded ? 41 : 13, false, threaded);
        fail_each(&checks.fail_alloc, FT_NOMEM, 1, true, threaded);
        fail_each(&checks.fail_copy, FT_DEVICE, threaded ? 89 : 23, true, threaded);
    }
    CHECK(checks.refused == 0);
}

int main(void)
{
    RUN(test_same_bits);
    RUN(test_swaps);
    RUN(test_dropped_waits);
    RUN(test_failures);
    return check_report();
}
