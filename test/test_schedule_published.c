/* test/test_schedule_published.c - orders and staleness as published, for up to 16 stages and 8
 * micro-batches in a batch.
 *
 * The rules of FTPipe's work schedulers (Eliad and others, USENIX ATC 2021) are written out here:
 * by the depth of a stage, the number of micro-batches in a leg and in a batch, and how many
 * forwards and backwards it has done. So is the staleness that a forward is to expect: updates
 * between it and its own backward. */
#include "check.h"
#include "schedule_cases.h"

enum { MOST_STAGES = 16, MOST_MICROS = 8, LEG = 48 };

typedef struct published {
    const char *schedule;
    bool (*forward)(int depth, int micros, int forwards, int backwards); /* of a leg that goes on */
} published;

static bool one_f_one_b(int depth, int micros, int forwards, int backwards)
{
    (void)micros;
    return forwards - backwards <= depth;
}

static bool gpipe(int depth, int micros, int forwards, int backwards)
{
    (void)depth;
    return forwards / micros == backwards / micros;
}

static bool synchronous_1f1b(int depth, int micros, int forwards, int backwards)
{
    return gpipe(depth, micros, forwards, backwards) &&
           one_f_one_b(depth, micros, forwards, backwards);
}

static bool sequential(int depth, int micros, int forwards, int backwards)
{
    (void)depth;
    (void)micros;
    return forwards == backwards;
}

static const published rows[] = {{"async", one_f_one_b},
                                 {"gpipe", gpipe},
                                 {"1f1b", synchronous_1f1b},
                                 {"sequential", sequential}};

/* Ends of batches among micro-batches first .. last - 1. */
static int ends_between(int first, int last, int micros)
{
    int n = 0;
    for (int i = first; i < last; i++) n += i % micros == micros - 1;
    return n;
}

/* Follows the stage's list; returns whether all of it is as published, and its largest lag. */
static bool is_as_published(const ft_plan *plan, int stage, const published *p, int *most)
{
    int micros = plan->micro_batches, total = micros * plan->n_batches;
    int depth = plan->n_stages - 1 - stage, forwards = 0, backwards = 0;
    *most = 0;
    for (int64_t i = 0; i < ft_plan_length(plan, stage); i++) {
        ft_action a = ft_plan_at(plan, stage, i);
        if (!ft_action_per_micro(a.kind)) continue;
        bool forward = forwards < total && p->forward(depth, micros, forwards, backwards);
        if (forward != (a.kind == FT_ACT_FORWARD)) return false;
        if (!forward) {
            backwards++;
            continue;
        }
        if (a.lag != ends_between(backwards, forwards, micros)) return false;
        if (a.lag > *most) *most = a.lag;
        forwards++;
    }
    return forwards == total && backwards == total;
}

static void test_orders_and_staleness(void)
{
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int n = 1; n <= MOST_STAGES; n++)
            for (int micros = 1; micros <= MOST_MICROS; micros++) {
                pipeline_case c;
                case_chain(&c, n, micros, (LEG + micros - 1) / micros, 2, 10, 20);
                ft_plan *plan = case_plan(&c, rows[r].schedule);
                for (int s = 0; plan && s < n; s++) {
                    int most;
                    if (!CHECK(is_as_published(plan, s, &rows[r], &most)))
                        fprintf(stderr, "%s, stage %d of %d, %d micro-batches\n", rows[r].schedule,
                                s, n, micros);
                    CHECK(plan->versions[s] == 1);
                }
                ft_plan_free(plan);
            }
}

/* Closed forms: the staleness of a stage with d behind it is d over the micro-batches, rounded down
 * and up; stashing keeps as many versions more than the newest; what is in flight is d and one. */
static void test_closed_forms(void)
{
    for (int n = 1; n <= MOST_STAGES; n++)
        for (int micros = 1; micros <= MOST_MICROS; micros++) {
            pipeline_case c;
            case_chain(&c, n, micros, 60 / micros + 20, 2, 10, 20);
            c.pipeline.weights = FT_WEIGHTS_STASH;
            ft_plan *plan = case_plan(&c, "async");
            for (int d = 0; plan && d < n; d++) {
                int s = n - 1 - d, least, most;
                ft_plan_staleness(plan, s, plan->n_batches - 20, &least, &most);
                CHECK(least == d / micros && most == (d + micros - 1) / micros);
                CHECK_NEAR(ft_plan_mean_staleness(plan, s), (double)d / micros, 1e-12);
                CHECK(plan->versions[s] == most + 1 && plan->in_flight[s] == d + 1);
            }
            ft_plan_free(plan);
        }
}

int main(void)
{
    RUN(test_orders_and_staleness);
    RUN(test_closed_forms);
    return check_report();
}
