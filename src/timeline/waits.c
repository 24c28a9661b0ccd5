/* timeline/waits.c - what devices waited for. */
#include "timeline/timeline.h"

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

int64_t ft_timeline_idle_ns(const ft_timeline *t, int device, int64_t by_wait[FT_WAIT_COUNT],
                            int n_edges, int64_t *data_ns, int64_t *slot_ns)
{
    int64_t last = 0;
    for (int i = 0; i < FT_WAIT_COUNT; i++) by_wait[i] = 0;
    for (int e = 0; e < n_edges; e++) data_ns[e] = slot_ns[e] = 0;
    for (int64_t i = 0; i < t->n_events; i++) {
        const ft_event *e = &t->events[i];
        if (e->device != device || !computes(e)) continue;
        int64_t idle = e->start_ns - last;
        by_wait[e->wait] += idle;
        if (e->wait == FT_WAIT_DATA && e->edge < n_edges) data_ns[e->edge] += idle;
        if (e->wait == FT_WAIT_SLOT && e->edge < n_edges) slot_ns[e->edge] += idle;
        last = e->end_ns;
    }
    return ft_timeline_end_ns(t) - last;
}

/* The edge along which an action of `from` brings data to one of `to`; -1: none. */
static int edge_between(const ft_plan *plan, const ft_event *from, const ft_event *to)
{
    for (int e = 0; e < plan->n_edges; e++) {
        const ft_edge *edge = &plan->edges[e];
        if (edge->from == from->stage && edge->from_kind == (ft_action_kind)from->kind &&
            edge->to == to->stage && edge->to_kind == (ft_action_kind)to->kind)
            return e;
    }
    return -1;
}

void ft_timeline_find_waits(ft_timeline *t, const ft_plan *plan)
{
    for (int64_t i = 0; t->cause && i < t->n_events; i++) {
        ft_event *e = &t->events[i];
        const ft_event *cause = t->cause[i] < 0 ? NULL : &t->events[t->cause[i]];
        if (!cause || !computes(e)) continue;
        int data = edge_between(plan, cause, e), slot = edge_between(plan, e, cause);
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
}
