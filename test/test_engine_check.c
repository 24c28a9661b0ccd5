/* test/test_engine_check.c - the engine on a device that checks: every wait is needed and there,
 * and whatever fails ends the run with one error. */
#include <stdlib.h>
#include <string.h>

#include "check_driver.h"
#include "engine_run.h"

static const ft_driver check_driver = CHECK_DRIVER("check");
const ft_driver *const ft_drivers[] = {&ft_cpu_driver, &check_driver, NULL};

typedef struct outcome {
    ft_status status;
    ft_error error;
    double losses[10];
    float w2[HIDDEN * HIDDEN];
} outcome;

/* Trains once; nothing stays open. */
static outcome run_on(const char *devices, const char *schedule, bool threaded)
{
    outcome o = {0};
    pipeline p;
    ft_blueprint *b = NULL;
    ft_run *run = NULL;
    int64_t alive = ft_alloc_live(), open = checks.open;
    if (!pipeline_init(&p, devices, schedule)) return o;
    o.status = pipeline_draw(&b, &p, &o.error);
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

/* Without any one of the waits that bring news to a stream, the run is refused; or another wait of
 * the same action brought the same. A third of them, another third for each schedule. */
static void test_dropped_waits(void)
{
    enum { EVERY = 3 };
    for (int s = 0; s < 4; s++) {
        int64_t before = checks.needed, found = 0, wrong = 0;
        run_on("check:3", schedules[s], false);
        int64_t waits = checks.needed - before;
        int64_t tried = 0, implied = checks.implied;
        for (int64_t n = 1 + s % EVERY; n <= waits; n += EVERY, tried++) {
            checks.drop_wait = n;
            outcome o = run_on("check:3", schedules[s], false);
            found += o.status == FT_DEVICE;
            wrong += o.status != FT_DEVICE && o.status != FT_OK;
        }
        implied = checks.implied - implied;
        printf("%s: %lld waits, %lld left out: %lld found, %lld implied by others\n", schedules[s],
               (long long)waits, (long long)tried, (long long)found, (long long)implied);
        CHECK(wrong == 0 && found + implied == tried && found > implied);
    }
    checks.refused = 0;
}

/* The n-th call fails, for every n until a run does without: one error, and nothing stays. */
static void fail_each(int64_t *counter, ft_status wanted, int step, bool threaded)
{
    int64_t n = 1;
    for (;; n += step) {
        *counter = n;
        outcome o = run_on("check:2", "1f1b", threaded);
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
        fail_each(&checks.fail_alloc, FT_NOMEM, 1, threaded);
        fail_each(&checks.fail_copy, FT_DEVICE, threaded ? 7 : 1, threaded);
        fail_each(&checks.fail_launch, FT_DEVICE, threaded ? 41 : 13, threaded);
    }
    CHECK(checks.refused == 0);
}

int main(void)
{
    RUN(test_same_bits);
    RUN(test_dropped_waits);
    RUN(test_failures);
    return check_report();
}
