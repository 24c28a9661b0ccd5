/* base/clock.c - time. */
#include "base/clock.h"

#include <time.h>

static int64_t read_clock(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t ft_now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t ft_calendar_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

int64_t ft_thread_cpu_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}
