/* test/fuzz/fuzz_records.c - the first byte chooses a task, the rest is its file. */
#include "core/core.h"

#include "lua_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return run_in_lua("test/fuzz/records.lua", data, size);
}
