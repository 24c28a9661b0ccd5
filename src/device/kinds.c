/* device/kinds.c - what the kinds of devices can do. */
#include "device/device.h"

const ft_device_traits ft_device_kinds[] = {
    [FT_DEVICE_CPU] = {.executes = true, .in_host = true, .measures = true, .gaps = true},
    [FT_DEVICE_GPU] = {.executes = true, .measures = true},
    [FT_DEVICE_SIM] = {.gaps = true},
};
