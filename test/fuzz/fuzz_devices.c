/* test/fuzz/fuzz_devices.c - any text as a device list: what is accepted has devices that have
 * names, memory and rates, and says the rank of each. */
#include <string.h>

#include "base/alloc.h"
#include "device/device.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static ft_device devices[FT_MAX_DEVICES];
    ft_error err = {FT_OK, ""};
    int n = 0, rank = 0;
    char *text = ft_alloc((int64_t)size + 1);
    if (!text) return 0;
    if (size) memcpy(text, data, size);
    if (ft_devices_parse(text, devices, &n, &err) != FT_OK) {
        if (!err.message[0] || strpbrk(err.message, "\n\r\t\x1b")) __builtin_trap();
    } else {
        if (n < 1 || n > FT_MAX_DEVICES) __builtin_trap();
        for (int d = 0; d < n; d++) {
            const ft_device *device = &devices[d];
            if (!device->name[0] || device->n_threads < 1 || device->memory_bytes < 0)
                __builtin_trap();
            if (device->rank < rank || device->rank > rank + 1) __builtin_trap();
            rank = device->rank;
        }
    }
    ft_free(text);
    return 0;
}
