/* test/fuzz/fuzz_graph_files.c - any bytes as a graph file of any form. */
#include "core/core.h"

#include "lua_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return run_in_lua("test/fuzz/graph_files.lua", data, size);
}
