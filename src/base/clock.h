/* base/clock.h - time. */
#ifndef FT_BASE_CLOCK_H
#define FT_BASE_CLOCK_H

#include <stdint.h>

/* Nanoseconds of a clock that never goes back; only differences mean anything. */
int64_t ft_now_ns(void);

/* Nanoseconds since 1970, UTC: the time of day, which somebody may set. */
int64_t ft_calendar_ns(void);

/* Nanoseconds of CPU time used by the calling thread. */
int64_t ft_thread_cpu_ns(void);

#endif
