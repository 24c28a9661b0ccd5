/* optim/rate.c - the learning rate of a step. */
#include "optim/optim.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* How much of what is behind the warm-up is done, at most 1. */
static double done_of(const ft_rate *rate, int64_t step)
{
    int64_t length = rate->steps - rate->warmup;
    double done = length > 0 ? (double)(step - rate->warmup) / (double)length : 1.0;
    return done < 1.0 ? done : 1.0;
}

static double constant(const ft_rate *rate, int64_t step)
{
    (void)rate;
    (void)step;
    return 1.0;
}

static double linear(const ft_rate *rate, int64_t step)
{
    return 1.0 - done_of(rate, step);
}

static double cosine(const ft_rate *rate, int64_t step)
{
    return 0.5 * (1.0 + cos(3.14159265358979323846 * done_of(rate, step)));
}

/* Constant, then over the last fifth linear to 0 (Haegele and others, arXiv:2405.18392). */
static double cooldown(const ft_rate *rate, int64_t step)
{
    double done = done_of(rate, step);
    return done < 0.8 ? 1.0 : (1.0 - done) / 0.2;
}

/* The peak times the root of warm-up over step, without warm-up that of 1 over step (Vaswani and
 * others, arXiv:1706.03762, section 5.3; T5 pre-trained so, arXiv:1910.10683, section 3.1.2). */
static double inverse_sqrt(const ft_rate *rate, int64_t step)
{
    return sqrt((double)(rate->warmup > 0 ? rate->warmup : 1) / (double)step);
}

/* Constant, then over the last tenth 1 less the root of how much of it is done (the form that is
 * best in arXiv:2405.18392, section 4; the tenth of Hu and others, MiniCPM, arXiv:2404.06395). */
static double stable_decay(const ft_rate *rate, int64_t step)
{
    double done = done_of(rate, step);
    return done < 0.9 ? 1.0 : done < 1.0 ? 1.0 - sqrt((done - 0.9) / 0.1) : 0.0;
}

const ft_rate_schedule ft_rate_schedules[] = {
    {"constant", "constant", false, constant},
    {"linear", "then linear", true, linear},
    {"cosine", "then cosine", true, cosine},
    {"cooldown", "over the last fifth linear", true, cooldown},
    {"inverse-sqrt", "then by one over the root of the step", false, inverse_sqrt},
    {"warmup-stable-decay", "over the last tenth by one less a root", true, stable_decay},
    {0},
};

static const ft_rate_schedule *find_schedule(const char *name)
{
    for (const ft_rate_schedule *row = ft_rate_schedules; name && row->name; row++)
        if (strcmp(row->name, name) == 0) return row;
    return NULL;
}

static ft_status fail_schedule(const char *name, ft_error *err)
{
    char known[160] = "";
    size_t used = 0;
    for (const ft_rate_schedule *row = ft_rate_schedules; row->name && used < sizeof known; row++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "",
                                 row->name);
    return ft_fail(err, FT_INVALID, "rate: schedule %s, expected one of %s", name ? name : "(none)",
                   known);
}

ft_status ft_rate_check(const ft_rate *rate, ft_error *err)
{
    if (!find_schedule(rate->schedule)) return fail_schedule(rate->schedule, err);
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
    return rate->peak * find_schedule(rate->schedule)->share(rate, step);
}
