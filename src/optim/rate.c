/* optim/rate.c - the learning rate of a step. */
#include "optim/optim.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static double constant(double done)
{
    (void)done;
    return 1.0;
}

static double linear(double done)
{
    return 1.0 - done;
}

static double cosine(double done)
{
    return 0.5 * (1.0 + cos(3.14159265358979323846 * done));
}

/* Constant, then over the last fifth linear to 0 (Haegele and others, arXiv:2405.18392). */
static double cooldown(double done)
{
    return done < 0.8 ? 1.0 : (1.0 - done) / 0.2;
}

/* A schedule: the share of the peak after the share `done` of the steps behind the warm-up. */
static const struct {
    const char *name;
    double (*share)(double done);
} schedules[] = {
    {"constant", constant}, {"linear", linear}, {"cosine", cosine}, {"cooldown", cooldown}};

enum { N_SCHEDULES = sizeof schedules / sizeof *schedules };

static int schedule_index(const char *name)
{
    for (int i = 0; name && i < N_SCHEDULES; i++)
        if (strcmp(schedules[i].name, name) == 0) return i;
    return -1;
}

const char *ft_rate_schedule(int i)
{
    return i >= 0 && i < N_SCHEDULES ? schedules[i].name : NULL;
}

static ft_status fail_schedule(const char *name, ft_error *err)
{
    char known[128] = "";
    size_t used = 0;
    for (int i = 0; i < N_SCHEDULES && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                                 schedules[i].name);
    return ft_fail(err, FT_INVALID, "rate: schedule %s, expected one of %s", name ? name : "(none)",
                   known);
}

ft_status ft_rate_check(const ft_rate *rate, ft_error *err)
{
    if (schedule_index(rate->schedule) < 0) return fail_schedule(rate->schedule, err);
    if (!(rate->peak >= 0.0 && isfinite(rate->peak)))
        return ft_fail(err, FT_INVALID, "rate: peak is %g, expected a number from 0 on",
                       rate->peak);
    if (rate->warmup < 0 || rate->steps < 0)
        return ft_fail(err, FT_INVALID, "rate: warm-up of %lld of %lld steps, expected 0 or more",
                       (long long)rate->warmup, (long long)rate->steps);
    return FT_OK;
}

double ft_rate_at(const ft_rate *rate, int64_t step)
{
    if (step <= rate->warmup) return rate->peak * (double)step / (double)rate->warmup;
    int64_t length = rate->steps - rate->warmup;
    double done = length > 0 ? (double)(step - rate->warmup) / (double)length : 1.0;
    return rate->peak * schedules[schedule_index(rate->schedule)].share(done < 1.0 ? done : 1.0);
}
