/* test/fuzz/fuzz_safetensors.c - any bytes as a safetensors file. */
#include "io/io.h"

#include "archive_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return open_archive(data, size);
}
