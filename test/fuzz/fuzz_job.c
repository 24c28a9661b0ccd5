/* test/fuzz/fuzz_job.c - any bytes as what rank 0 tells the other processes to do. */
#include "core/core.h"

#include "lua_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return run_in_lua("test/fuzz/job.lua", data, size);
}
