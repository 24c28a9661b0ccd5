/* problem/swapped.c - what devices hold that have one stage at a time. */
#include "problem/ground.h"

int64_t ft_pack_bytes(const ft_load *sums)
{
    return sums->fixed + sums->saved + sums->in;
}

bool ft_pack_memory(const ft_ground *g, const ft_partition_result *r, int64_t *device_bytes)
{
    int *first = ft_arena_array(g->arena, r->n_stages + 2, sizeof *first);
    int *units = ft_arena_array(g->arena, g->n_units, sizeof *units);
    int *held = ft_arena_array(g->arena, g->n_nets + 1, sizeof *held);
    if (!first || !units || !held) return false;
    for (int u = 0; u < g->n_units; u++) first[r->stage[g->unit_nodes[g->unit_first[u]]] + 2]++;
    for (int s = 2; s <= r->n_stages; s++) first[s] += first[s - 1];
    for (int u = 0; u < g->n_units; u++)
        units[first[r->stage[g->unit_nodes[g->unit_first[u]]] + 1]++] = u;
    for (int s = 0; s < r->n_stages; s++) {
        ft_load sums = {.out = 0}, discarded = {.out = 0};
        for (int i = first[s]; i < first[s + 1]; i++) ft_load_change(g, &sums, held, units[i], 1);
        for (int i = first[s]; i < first[s + 1]; i++)
            ft_load_change(g, &discarded, held, units[i], -1);
        int64_t *bytes = &device_bytes[r->stage_device[s]];
        if (ft_pack_bytes(&sums) > *bytes) *bytes = ft_pack_bytes(&sums);
    }
    return true;
}
