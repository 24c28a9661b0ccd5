--- Faults in src/memory; see tools/mutate.lua.
local LAYOUT = "src/memory/layout.c"
return {
   { LAYOUT, "bool near = a->begin <= b->end && b->begin <= a->end;",
      "bool near = a->begin < b->end && b->begin < a->end;", "c/memory",
      "a tensor takes the place of one that is read at that step" },
   { LAYOUT, "if (hole >= size && hole < best_size)", "if (hole >= size)", "c/memory",
      "the last hole is taken, not the smallest" },
   { LAYOUT, "if (end > top) top = end;", "top = end;", "c/memory", "a hole inside a tensor" },
   { LAYOUT, "if (v->end < v->begin)", "if (v->end < v->begin - 1)", "c/memory",
      "an interval may end before it begins" },
   { LAYOUT, "(bytes + FT_MEMORY_ALIGN - 1) / FT_MEMORY_ALIGN", "bytes / FT_MEMORY_ALIGN",
      "c/memory", "sizes are rounded down" },
   { "src/memory/layout.c", "if (hole >= size && hole < best_size) {",
      "if (hole > size && hole < best_size) {", "c/memory",
      "a hole of exactly the size is not taken" },
   { "src/memory/layout.c", "return near && (!a->times || meet_between(a, b));", "return near;",
      "c/memory", "what comes again keeps its place in between" },
}
