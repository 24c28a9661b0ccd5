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
   { "src/base/utf8.c", "if (first == 0xED) high = 0x9F;", "if (first == 0xED) high = 0xBF;",
      "c/base_utf8", "halves of surrogate pairs pass as UTF-8" },
   { "src/base/utf8.c", "0x8080808080808080u", "0x8080808080808000u", "c/base_utf8",
      "the first of eight bytes may be anything" },
   { "src/base/sha256.c", "n + 9 > BLOCK", "n + 8 > BLOCK", "c/base",
      "SHA-256 of 56 bytes has its length in place of its end" },
   { "src/base/gate.c",
      "return (int32_t)(atomic_load_explicit(&gate->count, memory_order_acquire) -"
         .. " target) >= 0;",
      "return atomic_load_explicit(&gate->count, memory_order_acquire) >= target;", "c/base",
      "a gate is open when its count is about to wrap around" },
   { "src/base/map.c", "*slot = (ft_map_slot){slot->key ? slot->key : key, hash, value};",
      "*slot = (ft_map_slot){slot->key ? slot->key : key, hash, slot->key ?"
         .. " slot->value : value};",
      "c/base", "a key keeps its first value" },
}
