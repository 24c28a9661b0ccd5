/* timeline/waits.c - what devices waited for. */
#include <stdlib.h>

#include "base/alloc.h"
#include "timeline/internal.h"

const char *ft_wait_word(ft_wait wait)
{
    static const char *const words[] = {
#define FT_WAIT_WORD(name, word) word,
        FT_WAIT_LIST(FT_WAIT_WORD)
#undef FT_WAIT_WORD
    };
    return words[wait];
}

static bool computes(const ft_event *e)
{
    return ft_action_stream(e->kind) == FT_STREAM_COMPUTE;
}

int64_t ft_timeline_idle_ns(const ft_timeline *t, int device, int64_t by_wait[FT_WAIT_COUNT])
{
    int64_t last = 0;
    for (int i = 0; i < FT_WAIT_COUNT; i++) by_wait[i] = 0;
    span s = timeline_span(t, device, FT_STREAM_COMPUTE);
    for (int64_t i = s.first; i < s.last; i++) {
        const ft_event *e = &t->events[i];
        by_wait[e->wait] += e->start_ns - last;
        last = e->end_ns;
    }
    return last;
}

static int compare_edges(const void *a, const void *b)
{
    int x = ((const ft_edge_wait *)a)->edge, y = ((const ft_edge_wait *)b)->edge;
    return (x > y) - (x < y);
}

/* Adds up those of one edge, which stand next to each other; how many there are then. */
static int64_t join_waits(ft_edge_wait *list, int64_t n)
{
    int64_t joined = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!joined || list[joined - 1].edge != list[i].edge) {
            list[joined++] = list[i];
            continue;
        }
        list[joined - 1].data_ns += list[i].data_ns;
        list[joined - 1].slot_ns += list[i].slot_ns;
    }
    return joined;
}

ft_status ft_timeline_edge_waits(ft_edge_wait **out, int64_t *n, const ft_timeline *t, int device,
                                 ft_error *err)
{
    span s = timeline_span(t, device, FT_STREAM_COMPUTE);
    ft_edge_wait *list = ft_alloc((s.last - s.first + 1) * (int64_t)sizeof *list);
    int64_t last = 0, count = 0;
    *out = list;
    *n = 0;
    if (!list) return ft_fail(err, FT_NOMEM, "timeline: no memory for waits");
    for (int64_t i = s.first; i < s.last; i++) {
        const ft_event *e = &t->events[i];
        int64_t idle = e->start_ns - last;
        last = e->end_ns;
        if (idle && e->wait == FT_WAIT_DATA) list[count++] = (ft_edge_wait){e->edge, idle, 0};
        if (idle && e->wait == FT_WAIT_SLOT) list[count++] = (ft_edge_wait){e->edge, 0, idle};
    }
    qsort(list, (size_t)count, sizeof *list, compare_edges);
    *n = join_waits(list, count);
    return FT_OK;
}

/* Edges by the stage that they are from: those of stage s are edge[first[s]] ... */
typedef struct edge_index {
    int *first, *edge;
} edge_index;

static ft_status index_edges(edge_index *index, const ft_plan *plan, ft_error *err)
{
    index->first = ft_alloc((plan->n_stages + 2) * (int64_t)sizeof *index->first);
    index->edge = ft_alloc((plan->n_edges + 1) * (int64_t)sizeof *index->edge);
    if (!index->first || !index->edge)
        return ft_fail(err, FT_NOMEM, "timeline: no memory for %d edges", plan->n_edges);
    int *next = index->first + 1; /* becomes the first of the stage behind */
    for (int e = 0; e < plan->n_edges; e++) next[plan->edges[e].from + 1]++;
    for (int s = 0; s < plan->n_stages; s++) next[s + 1] += next[s];
    for (int e = 0; e < plan->n_edges; e++) index->edge[next[plan->edges[e].from]++] = e;
    return FT_OK;
}

/* The edge along which an action of `from` brings data to one of `to`; -1: none. */
static int edge_between(const ft_plan *plan, const edge_index *index, const ft_event *from,
                        const ft_event *to)
{
    for (int i = index->first[from->stage]; i < index->first[from->stage + 1]; i++) {
        const ft_edge *edge = &plan->edges[index->edge[i]];
        if (edge->from_kind == (ft_action_kind)from->kind && edge->to == to->stage &&
            edge->to_kind == (ft_action_kind)to->kind)
            return index->edge[i];
    }
    return -1;
}

static void find_wait(ft_event *e, const ft_event *cause, const ft_plan *plan,
                      const edge_index *index)
{
    int data = edge_between(plan, index, cause, e), slot = edge_between(plan, index, e, cause);
    if (!computes(cause)) {
        e->wait = FT_WAIT_COPY;
    } else if (cause->device == e->device && cause->end_ns == e->start_ns) {
        e->wait = FT_WAIT_NOTHING; /* it went on where the device had left off */
    } else if (data >= 0) {
        e->wait = FT_WAIT_DATA;
        e->edge = data;
    } else if (slot >= 0) {
        e->wait = FT_WAIT_SLOT;
        e->edge = slot;
    } else if (cause->stage == e->stage) {
        e->wait = FT_WAIT_REPLICAS;
    }
}

ft_status ft_timeline_find_waits(ft_timeline *t, const ft_plan *plan, ft_error *err)
{
    edge_index index = {0};
    ft_status status = index_edges(&index, plan, err);
    for (int64_t i = 0; status == FT_OK && t->cause && i < t->n_events; i++) {
        ft_event *e = &t->events[i];
        const ft_event *cause = t->cause[i] < 0 ? NULL : &t->events[t->cause[i]];
        if (cause && computes(e)) find_wait(e, cause, plan, &index);
    }
    ft_free(index.first);
    ft_free(index.edge);
    return status;
}
