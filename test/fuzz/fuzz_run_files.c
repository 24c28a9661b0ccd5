/* test/fuzz/fuzz_run_files.c - the first byte chooses a file of a run directory, the rest is what
 * it holds. */
#include "core/core.h"

#include "lua_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return run_in_lua("test/fuzz/run_files.lua", data, size);
}
