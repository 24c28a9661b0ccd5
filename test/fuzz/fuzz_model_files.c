/* test/fuzz/fuzz_model_files.c - the first byte chooses a file of JSON in a model's directory:
 * config.json (c), adapter_config.json (a), model.safetensors.index.json (i); the rest is what it
 * holds. */
#include "core/core.h"

#include "lua_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return run_in_lua("test/fuzz/model_files.lua", data, size);
}
