/* test/check_program.c - the list of drivers of ftpipe_check, in which "cpu" is the device that
 * checks: what runs in that program runs on it. */
#include "check_driver.h"

static const ft_driver check_driver = CHECK_DRIVER("cpu");
const ft_driver *const ft_drivers[] = {&check_driver, NULL};
