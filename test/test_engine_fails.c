/* test/test_engine_fails.c - a device that fails in any action: the run stops with one error that
 * names the device and the action, and can be freed. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine_run.h"

enum { LATE_NORMS = 1, REPLICAS = 2, SWAPS = 4, COPIES = 8, MAKES = 16 };

/* -- devices that fail once -------------------------------------------------------------------- */

static _Atomic int calls_left;

static bool fails_now(void)
{
    return atomic_fetch_sub(&calls_left, 1) == 1;
}

static ft_status launch_once(ft_device_stream *stream, const ft_task *task, const void *arg,
                             ft_error *err)
{
    if (fails_now()) return ft_fail(err, FT_DEVICE, "a kernel failed, as it was told to");
    return ft_cpu_driver.launch(stream, task, arg, err);
}

static ft_status copy_once(ft_device_stream *stream, ft_location to, ft_location from,
                           int64_t bytes, ft_error *err)
{
    if (fails_now()) return ft_fail(err, FT_NOMEM, "no memory for a copy, as it was told to");
    return ft_cpu_driver.copy(stream, to, from, bytes, err);
}

static ft_status record_once(ft_device_stream *stream, ft_device_event *event, ft_error *err)
{
    if (fails_now()) return ft_fail(err, FT_DEVICE, "an event failed, as it was told to");
    return ft_cpu_driver.record(stream, event, err);
}

/* -- plans ------------------------------------------------------------------------------------- */

static bool draw(pipeline *p, ft_blueprint **b, const char *schedule, ft_weights weights, int more)
{
    static const int replicas[] = {2, 1, 1};
    ft_error err = {FT_OK, ""};
    if (!pipeline_init(p, "cpu:3", schedule)) return false;
    if (more & REPLICAS && !pipeline_replicate(p, replicas, 3)) return false;
    p->weights = weights;
    p->cut.n_batches = 3;
    p->cut.late_norms = more & LATE_NORMS;
    p->options.clip = more & LATE_NORMS ? 0.5 : 0;
    ft_status status = pipeline_plan(p, &err);
    if (status == FT_OK && more & COPIES) status = pipeline_add_copies(p, 0, &err);
    if (status == FT_OK) status = pipeline_draw(b, p, &err);
    if (status == FT_OK && more & SWAPS) status = pipeline_swap(p, b, more & MAKES, &err);
    if (CHECK_STATUS(status, FT_OK)) return true;
    fprintf(stderr, "%s: %s\n", schedule, err.message);
    pipeline_free(p);
    return false;
}

/* -- failures ---------------------------------------------------------------------------------- */

/* The kind that the message names, or FT_ACT_COUNT; it has the device and all of the action. */
static int named_kind(const char *message, const ft_plan *plan)
{
    char word[24] = "";
    int device = -1, stage = -1, batch = -1, micro = -1, kind = 0;
    int n = sscanf(message, "device cpu:%d: %23s of stage %d, batch %d, micro-batch %d", &device,
                   word, &stage, &batch, &micro);
    while (kind < FT_ACT_COUNT && strcmp(ft_action_word(kind), word) != 0) kind++;
    if (kind == FT_ACT_COUNT) return kind;
    CHECK(n == (ft_action_per_micro(kind) ? 5 : 4));
    CHECK(strstr(message, "as it was told to") && !strchr(message, '\n'));
    for (int64_t i = 0; i < ft_plan_length(plan, device); i++) {
        ft_action a = ft_plan_at(plan, device, i);
        if (a.kind == kind && a.stage == stage && a.batch == batch && (n == 4 || a.micro == micro))
            return kind;
    }
    return FT_ACT_COUNT;
}

/* Trains with the k-th call failing; false when there are not so many calls. */
static bool fail_at_call(ft_blueprint *b, int k, bool *named)
{
    double losses[10];
    ft_error err = {FT_OK, ""};
    ft_run *run = NULL;
    atomic_store(&calls_left, 0);
    if (!CHECK_STATUS(ft_run_new(&run, b, &err), FT_OK)) return false;
    CHECK_STATUS(set_params(run, &err), FT_OK);
    atomic_store(&calls_left, k);
    ft_status status = train(run, ft_blueprint_plan(b), true, losses, &err);
    bool failed = atomic_load(&calls_left) <= 0;
    if (failed && status != FT_OK) {
        int kind = named_kind(err.message, ft_blueprint_plan(b));
        /* what surrounds a leg has no action */
        if (kind < FT_ACT_COUNT)
            named[kind] = true;
        else
            CHECK(!strncmp(err.message, "device", 6) || strstr(err.message, "as it was told to"));
        CHECK_STATUS(ft_run_end(run, &err), FT_OK);
    }
    CHECK(failed == (status != FT_OK));
    ft_run_free(run);
    return failed;
}

static bool is_executed(const ft_plan *plan, ft_action_kind kind)
{
    for (int s = 0; s < plan->n_stages; s++)
        if (ft_plan_has(plan, s, kind)) return true;
    return false;
}

static void test_every_action_names_itself(void)
{
    static const struct {
        const char *schedule;
        ft_weights weights;
        int more;
    } rows[] = {{"1f1b", FT_WEIGHTS_OWN, 0},
                {"zero-bubble", FT_WEIGHTS_OWN, SWAPS},
                {"async", FT_WEIGHTS_LATEST, LATE_NORMS},
                {"async", FT_WEIGHTS_STASH_GAP, REPLICAS},
                {"async", FT_WEIGHTS_PREDICT, 0},
                {"gpipe", FT_WEIGHTS_OWN, COPIES},
                {"1f1b", FT_WEIGHTS_OWN, SWAPS | MAKES}};
    bool named[FT_ACT_COUNT] = {false}, planned[FT_ACT_COUNT] = {false};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        pipeline p;
        ft_blueprint *b = NULL;
        if (!draw(&p, &b, rows[r].schedule, rows[r].weights, rows[r].more)) continue;
        for (int i = 0; i < p.cut.n_devices; i++) CHECK(b->cut.devices[i].driver == &ft_cpu_driver);
        ft_driver once = ft_cpu_driver;
        once.launch = launch_once;
        once.copy = copy_once;
        for (int i = 0; i < p.cut.n_devices; i++)
            ((ft_device *)(uintptr_t)b->cut.devices)[i].driver = &once;
        for (int k = 0; k < FT_ACT_COUNT; k++) planned[k] |= is_executed(ft_blueprint_plan(b), k);
        int k = 1;
        while (fail_at_call(b, k, named)) k++;
        CHECK(k > 100);
        ft_blueprint_free(b);
        pipeline_free(&p);
    }
    for (int k = 0; k < FT_ACT_COUNT; k++) {
        bool calls = k != FT_ACT_DROP && k != FT_ACT_DRAIN && k != FT_ACT_RECOMPUTE;
        if (!CHECK(planned[k] || !calls)) fprintf(stderr, "no plan has %s\n", ft_action_word(k));
        if (!CHECK(named[k] || !planned[k] || !calls))
            fprintf(stderr, "%s did not name itself\n", ft_action_word(k));
    }
}

/* -- behind a failure -------------------------------------------------------------------------- */

enum { MOST_EVENTS = 400 };

typedef struct leg_seen {
    double loss;
    int n;
    int64_t events[MOST_EVENTS][6];
} leg_seen;

/* A leg on one thread, where nobody waits. */
static void see_leg(ft_run *run, const ft_plan *plan, leg_seen *out)
{
    double losses[10];
    ft_error err = {FT_OK, ""};
    CHECK_STATUS(set_params(run, &err), FT_OK);
    CHECK_STATUS(train(run, plan, false, losses, &err), FT_OK);
    const ft_timeline *t = ft_run_timeline(run);
    memset(out, 0, sizeof *out);
    out->loss = losses[0];
    out->n = (int)t->n_events;
    for (int i = 0; CHECK(out->n <= MOST_EVENTS) && i < out->n; i++) {
        const ft_event *e = &t->events[i];
        CHECK(e->wait == FT_WAIT_NOTHING);
        const int64_t row[] = {e->device, e->kind, e->stage, e->batch, e->micro, e->bytes};
        memcpy(out->events[i], row, sizeof row);
    }
    for (int d = 0; d < plan->n_devices; d++)
        CHECK(ft_run_busy_ns(run, d) == ft_timeline_busy_ns(t, d));
}

/* Whatever a leg has failed at, nothing of it is in the next one. */
static void test_a_leg_behind_one_that_failed(void)
{
    static leg_seen whole, next;
    pipeline p;
    ft_blueprint *b = NULL;
    ft_driver once = ft_cpu_driver;
    once.record = record_once;
    if (!draw(&p, &b, "1f1b", FT_WEIGHTS_OWN, 0)) return;
    for (int i = 0; i < 3; i++) ((ft_device *)(uintptr_t)b->cut.devices)[i].driver = &once;
    bool failed = true;
    int k = 0;
    for (; failed; k++) {
        double losses[10];
        ft_error err = {FT_OK, ""};
        ft_run *run = NULL;
        atomic_store(&calls_left, 0);
        if (!CHECK_STATUS(ft_run_new(&run, b, &err), FT_OK)) break;
        if (!k) see_leg(run, ft_blueprint_plan(b), &whole);
        CHECK_STATUS(set_params(run, &err), FT_OK);
        atomic_store(&calls_left, k);
        failed = train(run, ft_blueprint_plan(b), true, losses, &err) != FT_OK || !k;
        atomic_store(&calls_left, 0);
        CHECK_STATUS(ft_run_end(run, &err), FT_OK);
        see_leg(run, ft_blueprint_plan(b), &next);
        if (!CHECK(k ? !memcmp(&next, &whole, sizeof next) : next.n == whole.n))
            fprintf(stderr, "  behind failure %d\n", k);
        ft_run_free(run);
    }
    CHECK(k > 50);
    ft_blueprint_free(b);
    pipeline_free(&p);
}

/* -- a device that allocates ------------------------------------------------------------------- */

static _Atomic int launches;

static ft_status launch_and_allocate(ft_device_stream *stream, const ft_task *task, const void *arg,
                                     ft_error *err)
{
    atomic_fetch_add(&launches, 1);
    ft_free(ft_alloc(8));
    return ft_cpu_driver.launch(stream, task, arg, err);
}

static void test_allocations_are_counted(void)
{
    pipeline p;
    ft_blueprint *b = NULL;
    ft_run *run = NULL;
    ft_error err = {FT_OK, ""};
    double losses[10];
    ft_driver driver = ft_cpu_driver;
    driver.launch = launch_and_allocate;
    if (!draw(&p, &b, "1f1b", FT_WEIGHTS_OWN, 0)) return;
    for (int i = 0; i < 3; i++) ((ft_device *)(uintptr_t)b->cut.devices)[i].driver = &driver;
    CHECK_STATUS(ft_run_new(&run, b, &err), FT_OK);
    CHECK_STATUS(set_params(run, &err), FT_OK);
    for (int threaded = 0; threaded < 2; threaded++) {
        atomic_store(&launches, 0);
        CHECK_STATUS(train(run, ft_blueprint_plan(b), threaded, losses, &err), FT_OK);
        CHECK(launches > 50 && ft_run_allocations(run) == launches);
    }
    ft_run_free(run);
    ft_blueprint_free(b);
    pipeline_free(&p);
}

/* -- a device that cannot be entered ----------------------------------------------------------- */

static struct {
    bool shut; /* for workers; it is open when the run is made */
    int device;
    ft_gate may_enter; /* once for that device, then for the others */
} door;

static ft_status enter_by_door(ft_executor *executor, ft_error *err)
{
    bool fails = door.shut && executor->device->index == door.device;
    if (door.shut) ft_gate_wait(&door.may_enter, fails ? 1 : 2, NULL, -1);
    if (fails) return ft_fail(err, FT_DEVICE, "device %s is shut", executor->device->name);
    return ft_cpu_driver.enter(executor, err);
}

/* A batch is there for all, and no device takes an action of it, be it its own door or another
 * one's that is shut. */
static void test_a_device_is_not_entered(void)
{
    for (int d = 0; d < 3; d++) {
        pipeline p;
        ft_blueprint *b = NULL;
        ft_run *run = NULL;
        ft_result result;
        ft_error err = {FT_OK, ""};
        ft_driver driver = ft_cpu_driver;
        driver.enter = enter_by_door;
        if (!draw(&p, &b, "1f1b", FT_WEIGHTS_OWN, 0)) return;
        for (int i = 0; i < 3; i++) ((ft_device *)(uintptr_t)b->cut.devices)[i].driver = &driver;
        door.shut = false;
        CHECK_STATUS(ft_run_new(&run, b, &err), FT_OK);
        CHECK_STATUS(set_params(run, &err), FT_OK);
        door.shut = true;
        door.device = d;
        atomic_store(&door.may_enter.count, 0);
        CHECK_STATUS(ft_run_begin(run, ft_blueprint_plan(b), 1, true, &err), FT_OK);
        CHECK_STATUS(feed(run, (int64_t)MICRO * ROWS, &err), FT_OK);
        ft_gate_open(&door.may_enter);
        CHECK_STATUS(ft_run_next(run, &result, (int64_t)600e9, &err), FT_DEVICE);
        CHECK(strstr(err.message, "is shut"));
        ft_gate_open(&door.may_enter);
        CHECK_STATUS(ft_run_end(run, &err), FT_OK);
        CHECK(ft_run_timeline(run)->n_events == 0);
        ft_run_free(run);
        ft_blueprint_free(b);
        pipeline_free(&p);
    }
}

int main(void)
{
    RUN(test_every_action_names_itself);
    RUN(test_a_leg_behind_one_that_failed);
    RUN(test_allocations_are_counted);
    RUN(test_a_device_is_not_entered);
    CHECK(ft_alloc_live() == 0);
    return check_report();
}
