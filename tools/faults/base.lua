--- Faults in src/base; see tools/mutate.lua.
return {
   { "src/base/rng.c", "round < 10", "round < 9", "c/base", "Philox has a round less" },
   { "src/base/rng.c", "if (++rng->counter[0] == 0) rng->counter[1]++;",
      "++rng->counter[0];", "c/base", "the counter has 32 bits" },
   { "src/base/rng.c", "UINT64_MAX - UINT64_MAX % n", "UINT64_MAX", "c/base",
      "low values are likelier" },
   { "src/base/rng.c", "0x1p-53", "0x1p-52", "c/base", "uniform draws go up to 2" },
   { "src/base/arena.c", "bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES", "CHUNK_BYTES", "c/base",
      "a large block is larger than its chunk" },
   { "src/base/arena.c", "(bytes + 15) & ~(int64_t)15", "bytes", "c/base",
      "blocks are not aligned" },
}
