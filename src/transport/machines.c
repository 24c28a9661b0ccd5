/* transport/machines.c - which processes are on one machine, and what it has for each.
 *
 * All of them know this of all, so that each comes to the same. */
#include <string.h>

#include "transport/world.h"

static bool are_near(const ft_world *w, int a, int b)
{
    return strcmp(w->peers[a].hello.machine, w->peers[b].hello.machine) == 0;
}

bool ft_world_is_near(const ft_world *w, int rank)
{
    return are_near(w, rank, w->rank);
}

static int64_t part_of_machine(const ft_world *w, int rank)
{
    int64_t least = w->peers[rank].hello.memory_bytes;
    int n = 0;
    for (int r = 0; r < w->size; r++) {
        if (!are_near(w, r, rank)) continue;
        if (w->peers[r].hello.memory_bytes < least) least = w->peers[r].hello.memory_bytes;
        n++;
    }
    return least / n;
}

/* The least of n numbers that are above a limit; 0: none is. */
static int64_t least_above(const int64_t *bytes, int n, int64_t limit)
{
    int64_t least = 0;
    for (int i = 0; i < n; i++)
        if (bytes[i] > limit && (!least || bytes[i] < least)) least = bytes[i];
    return least;
}

void ft_world_memories(const ft_world *w, int64_t *out)
{
    int64_t least, limit = 0;
    for (int r = 0; r < w->size; r++) out[r] = part_of_machine(w, r);
    while ((least = least_above(out, w->size, limit)) > 0) {
        limit = least + least / 8;
        for (int r = 0; r < w->size; r++)
            if (out[r] > least && out[r] <= limit) out[r] = least;
    }
}
