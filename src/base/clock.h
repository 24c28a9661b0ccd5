/* base/clock.h - time. */
#ifndef FT_BASE_CLOCK_H
#define FT_BASE_CLOCK_H

#include <stdint.h>

/* Nanoseconds of a clock that never goes back; only differences mean anything. */
int64_t ft_now_ns(void);

/* Returns when ft_now_ns() is `ns`, or at once when it is later. */
void ft_sleep_until_ns(int64_t ns);

/* Nanoseconds since 1970, UTC: the time of day, which somebody may set. */
int64_t ft_calendar_ns(void);

/* Nanoseconds of CPU time used by the calling thread. */
int64_t ft_thread_cpu_ns(void);

#endif
