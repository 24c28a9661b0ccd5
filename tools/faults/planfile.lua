--- Faults in src/planfile and src/timeline; see tools/mutate.lua.
local PARSE, WRITE = "src/planfile/parse.c", "src/planfile/write.c"
local FILES = "c/planfile c/plan_cut spec/plan_text spec/plan_given"
local TIMES = "c/simulate"
return {
   { PARSE, "if (!p->n_replicas[s]++) p->device[s] = (int)device;",
      "p->n_replicas[s]++; p->device[s] = (int)device;", FILES,
      "a stage is on the device of its last replica" },
   { PARSE, "p->versions[s] = 1;", "p->versions[s] = 2;", FILES,
      "a stage that does not say so keeps two versions of its weights" },
   { PARSE, "if (key == KEYS || seen >> key & 1) {", "if (key == KEYS) {", FILES,
      "a stage may say something twice" },
   { PARSE, "!scan_number(&at, end, p->n_nodes - p->nodes.n, &times)",
      "!scan_number(&at, end, p->n_nodes, &times)", FILES, "a plan has stages of nodes too many" },
   { PARSE, 'if (p->memory_seen[d]) return parser_fault(p, err, "memory of device %d stands twice",'
         .. " d);",
      "", FILES, "a device may have its memory twice" },
   { WRITE, 'if (a->lag) snprintf(item + used, sizeof item - (size_t)used, "~%d", a->lag);',
      'if (a->lag && run == 1) snprintf(item + used, sizeof item - (size_t)used, "~%d", a->lag);',
      FILES, "actions in a row are written without their lag" },
   { WRITE, "b->lag != a->lag || b->item != a->item ||", "b->item != a->item ||", FILES,
      "actions of other lags are written as a row" },
   { WRITE, "if (p->reduce_bytes[s]) ft_text_add", "if (0) ft_text_add", FILES,
      "what replicas sum is not written" },
   { "src/timeline/timeline.c",
      "if (e->device == device && ft_action_stream(e->kind) == FT_STREAM_COMPUTE)",
      "if (e->device == device)", "c/simulate", "copies are work of their device" },
   { "src/timeline/timeline.c", "if (bytes > *peak) *peak = bytes;", "*peak = bytes;", TIMES,
      "the peak of activations is what is left of them" },
   { "src/timeline/timeline.c", "points[n].ns = added > 0 ? e->start_ns : e->end_ns;",
      "points[n].ns = e->end_ns;", TIMES, "activations are there when their forward ends" },
   { "src/timeline/timeline.c", "if (p->ns != q->ns) return p->ns < q->ns ? -1 : 1;",
      "if (p->ns != q->ns) return p->ns < q->ns ? 1 : -1;", TIMES,
      "memory is counted from the end to the beginning" },
}
