--- Faults in src/residency; see tools/mutate.lua.
return {
   { "src/residency/stays.c", "double score = cost ? far / cost : 2.0 * (double)p->n;",
      "double score = -far;", "c/residency", "what is needed first goes" },
   { "src/residency/stays.c", "if (i->stay < 0 || is_needed(p, k, at)) continue;",
      "if (i->stay < 0) continue;", "c/residency", "what an action needs makes room for the rest" },
   { "src/residency/stays.c", "bool saved = i->is_dirty && !i->is_dead;",
      "bool saved = false;", "c/residency", "what was changed is dropped" },
   { "src/residency/stays.c", "            i->is_dead = false;\n", "", "c/residency",
      "sums of gradients are taken for dead" },
   { "src/residency/stays.c",
      "if (at <= gone[s->item] || there[at] + bytes > p->q->capacity[p->device]) break;",
      "if (at <= gone[s->item]) break;", "c/residency", "loads come where there is no room" },
   { "src/residency/moves.c", "least[s->end + 1] > s->from_batch ?", "0 ?", "c/residency",
      "what leaves has the batch of what brought it" },
   { "src/residency/residency.c", "if (bytes > least[d]) least[d] = bytes;", "least[d] = bytes;",
      "c/residency", "the least is what the last action needs" },
}
