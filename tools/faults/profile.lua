--- Faults in src/profile; see tools/mutate.lua.
return {
   { "src/profile/blocks.c", "describe_attrs(node, text);", "(void)describe_attrs;",
      "c/profile spec/profile", "blocks that differ in attributes are measured once" },
   { "src/profile/blocks.c",
      'ft_text_add(text, " n%d.%d", w->position[value->source], value->output);',
      'ft_text_add(text, " n");', "c/profile spec/profile",
      "blocks that are wired in other ways are measured once" },
   { "src/profile/blocks.c", "return length == block_name_length(b) && strncmp(a, b, length) == 0;",
      "return strncmp(a, b, length) == 0;", "c/profile spec/profile",
      "block 1 goes on in block 10" },
   { "src/profile/bench.c", "*saved_bytes += value_bytes(g, cut->saved[i]);",
      "*saved_bytes += value_bytes(g, cut->saved[i]) / 2;", "c/profile spec/profile",
      "saved values overlap" },
   { "src/profile/worker.c", "all * w->number / w->parts->bench->options->n_busy",
      "0 * all * w->number / w->parts->bench->options->n_busy", "c/profile",
      "workers measure the same blocks at once" },
}
