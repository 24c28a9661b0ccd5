/* plan/depths.c - how far stages are from the loss and from the input. */
#include "plan/wires.h"

/* Sorts stages so that edges between actions of the kind lead to earlier ones. Returns a stage that
 * is on a circle of them or before it; -1: there is none. */
static int sort_stages(const ft_wires *w, int n, ft_action_kind kind, int *left, int *queue)
{
    int head = 0, tail = 0;
    for (int s = 0; s < n; s++) {
        int spot = ft_spot_of(s, kind);
        left[s] = 0;
        for (int i = w->out_first[spot]; i < w->out_first[spot + 1]; i++)
            left[s] += w->edges[w->out[i]].to_kind == kind;
        if (!left[s]) queue[tail++] = s;
    }
    while (head < tail) {
        int spot = ft_spot_of(queue[head++], kind);
        for (int i = w->in_first[spot]; i < w->in_first[spot + 1]; i++) {
            const ft_edge *e = &w->edges[w->in[i]];
            if (e->from_kind == kind && !--left[e->from]) queue[tail++] = e->from;
        }
    }
    for (int s = 0; s < n; s++)
        if (left[s]) return s;
    return -1;
}

/* Leaves the queue of forwards. */
static ft_status check_circles(const ft_wires *w, int n, int *left, int *queue, ft_error *err)
{
    int s = sort_stages(w, n, FT_ACT_REDUCE, left, queue);
    if (s >= 0)
        return ft_fail(err, FT_INVALID,
                       "plan: stages that share weights wait for each other's gradients in a "
                       "circle, stage %d is on it or before it: expected owners in one order, as "
                       "the first stage of each shared weight",
                       s);
    s = sort_stages(w, n, FT_ACT_FORWARD, left, queue);
    if (s < 0) return FT_OK;
    return ft_fail(err, FT_INVALID,
                   "plan: forward edges go in a circle, stage %d is on it or before it", s);
}

ft_status ft_depths_find(ft_depths *out, ft_arena *arena, const ft_wires *w, ft_error *err)
{
    int n = w->shares->n_stages;
    int *left = ft_arena_array(arena, n, sizeof(int));
    int *queue = ft_arena_array(arena, n, sizeof(int));
    int *depth = ft_arena_array(arena, 3 * (int64_t)n, sizeof(int));
    if (!left || !queue || !depth)
        return ft_fail(err, FT_NOMEM, "plan: no memory for %d stages", n);
    int *ahead = depth + n, *height = ahead + n;
    *out = (ft_depths){.depth = depth, .ahead = ahead, .height = height};
    FT_TRY(check_circles(w, n, left, queue, err));
    for (int k = 0; k < n; k++) {
        int to = queue[k], spot = ft_spot_of(to, FT_ACT_FORWARD);
        int workers = ahead[to] + w->shares->of[to].n;
        for (int i = w->in_first[spot]; i < w->in_first[spot + 1]; i++) {
            int from = w->edges[w->in[i]].from;
            if (depth[from] < depth[to] + 1) depth[from] = depth[to] + 1;
            if (ahead[from] < workers) ahead[from] = workers;
        }
    }
    for (int i = n - 1; i >= 0; i--) {
        int from = queue[i], spot = ft_spot_of(from, FT_ACT_FORWARD);
        for (int k = w->out_first[spot]; k < w->out_first[spot + 1]; k++) {
            int to = w->edges[w->out[k]].to;
            if (height[to] < height[from] + 1) height[to] = height[from] + 1;
        }
    }
    return FT_OK;
}
