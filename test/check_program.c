/* test/check_program.c - the list of drivers of ftpipe_check, in which "cpu" is the device that
 * checks: what runs in that program runs on it.
 *
 * Of the process's launches the one that CHECK_FAIL_LAUNCH numbers (from 1) fails, and that of
 * CHECK_STALL_LAUNCH never returns. */
#include <stdlib.h>

#include "check_driver.h"

static const ft_driver check_driver = CHECK_DRIVER("cpu");
const ft_driver *const ft_drivers[] = {&check_driver, NULL};

static int64_t number_of(const char *name)
{
    const char *text = getenv(name);
    return text ? strtoll(text, NULL, 10) : 0;
}

__attribute__((constructor)) static void read_faults(void)
{
    checks.fail_launch = number_of("CHECK_FAIL_LAUNCH");
    checks.stall_launch = number_of("CHECK_STALL_LAUNCH");
}
