--- Faults in src/ops; see tools/mutate.lua.
local BIAS = "src/ops/relative_bias.c"
local DROPOUT = "src/ops/op_dropout.c"
return {
   { BIAS, "int64_t exact = buckets / 2;", "int64_t exact = buckets / 2 - 1;",
      "c/ops|spec/model_t5", "wide buckets begin a distance early" },
   { BIAS, "log((double)max_distance / (double)exact)",
      "log((double)(max_distance + 1) / (double)exact)", "c/ops|spec/model_t5",
      "wide buckets are wider" },
   { BIAS, "steps + 1e-9", "steps", "c/ops|spec/model_t5", "buckets begin late by rounding" },
   { BIAS, "if (key_minus_query > 0) base = buckets;", "if (key_minus_query >= 0) base = buckets;",
      "c/ops|spec/model_t5", "a token's own position counts as behind it" },
   { DROPOUT, "(uint32_t)(key->seed >> 32) ^ key->step", "(uint32_t)(key->seed >> 32)",
      "spec/closed_forms", "draws are the same in every step" },
   { DROPOUT, "(uint32_t)key->seed ^ key->node", "key->node", "spec/closed_forms",
      "draws do not depend on the seed" },
   { DROPOUT, "^ key->node * 0x9E3779B9u", "", "c/ops|spec/closed_forms",
      "all nodes draw alike" },
   { DROPOUT, ">= threshold;", "> threshold;", "c/ops", "a draw too many is dropped" },
   { DROPOUT, "65536.0f / (65536.0f - (float)threshold)",
      "65536.0f / (65537.0f - (float)threshold)", "c/ops", "what is kept is scaled too little" },
}
