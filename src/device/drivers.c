/* device/drivers.c - the kinds of devices that execute in this program.
 *
 * Nothing else is in this file: a program that links a list of its own gets that one instead. */
#include "device/driver.h"

const ft_driver *const ft_drivers[] = {&ft_cpu_driver, NULL};
