/* test/fuzz/fuzz_squad.c - any bytes as a file of SQuAD v1.1. */
#include "core/core.h"

#include "lua_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return run_in_lua("test/fuzz/squad.lua", data, size);
}
