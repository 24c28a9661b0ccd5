/* test/slow_driver.h - CPU devices whose launches and copies begin after pauses of random lengths.
 */
#ifndef FT_TEST_SLOW_DRIVER_H
#define FT_TEST_SLOW_DRIVER_H

#include <stdatomic.h>
#include <time.h>

#include "device/driver.h"

static _Atomic uint32_t draws;

static inline void pause_a_while(void)
{
    uint32_t x = (atomic_fetch_add(&draws, 1) + 1) * 2654435761u;
    const struct timespec pause = {0, (long)(x >> 15)}; /* up to 131 us */
    if (x % 3 == 0) nanosleep(&pause, NULL);
}

static inline ft_status launch_later(ft_device_stream *stream, const ft_task *task, const void *arg,
                                     ft_error *err)
{
    pause_a_while();
    return ft_cpu_driver.launch(stream, task, arg, err);
}

static inline ft_status copy_later(ft_device_stream *stream, ft_location to, ft_location from,
                                   int64_t bytes, ft_error *err)
{
    pause_a_while();
    return ft_cpu_driver.copy(stream, to, from, bytes, err);
}

static inline ft_driver slow_driver(void)
{
    ft_driver slow = ft_cpu_driver;
    slow.launch = launch_later;
    slow.copy = copy_later;
    return slow;
}

#endif
