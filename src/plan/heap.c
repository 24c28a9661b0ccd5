/* plan/heap.c - moments in the order of time: a binary heap in an arena. */
#include "plan/wires.h"

/* Without a branch: which of two is earlier cannot be foretold. */
static bool earlier(ft_moment a, ft_moment b)
{
    return (a.ns < b.ns) | ((a.ns == b.ns) & (a.what < b.what));
}

bool ft_heap_add(ft_heap *h, ft_moment m)
{
    if (h->n == h->capacity) {
        int64_t capacity = h->capacity ? 2 * h->capacity : 256;
        ft_moment *bigger = ft_arena_array(h->arena, capacity, sizeof *bigger);
        if (!bigger) return false;
        for (int64_t i = 0; i < h->n; i++) bigger[i] = h->at[i];
        h->at = bigger;
        h->capacity = capacity;
    }
    int64_t i = h->n++;
    for (; i && earlier(m, h->at[(i - 1) / 2]); i = (i - 1) / 2) h->at[i] = h->at[(i - 1) / 2];
    h->at[i] = m;
    return true;
}

ft_moment ft_heap_pop(ft_heap *h)
{
    ft_moment top = h->at[0], last = h->at[--h->n];
    int64_t i = 0;
    /* a child that is the last has `last` itself beside it, which stays behind it */
    for (int64_t child = 1; child < h->n; child = 2 * i + 1) {
        child += earlier(h->at[child + 1], h->at[child]);
        if (!earlier(h->at[child], last)) break;
        h->at[i] = h->at[child];
        i = child;
    }
    h->at[i] = last;
    return top;
}
