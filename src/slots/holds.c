/* slots/holds.c - what S and V need besides the slots of their edge.
 *
 * A value that an S fetches stays with its maker until then, one that a V has brought stays with
 * its user until it is used. Both ends stand in one device's list, so the list says how many there
 * are at most. */
#include "slots/slots.h"

#include "plan/wires.h"

typedef struct hold {
    ft_wires *wires;
    int64_t *made, *fetched; /* by edge: at the maker */
    int64_t *brought, *used; /* at the user */
    int *sent, *received;    /* the most at once */
} hold;

static void raise_to(int *most, int64_t n)
{
    if (n > *most) *most = (int)n;
}

/* A place is taken when what fills it starts, and free when what takes from it has ended. */
static void pass(hold *h, const ft_action *a)
{
    const ft_wires *w = h->wires;
    if (a->kind == FT_ACT_SEND) h->fetched[a->item]++;
    if (a->kind == FT_ACT_RECEIVE)
        raise_to(&h->received[a->item], ++h->brought[a->item] - h->used[a->item]);
    if (ft_action_item(a->kind) == FT_ITEM_EDGE) return;
    int spot = ft_spot_of(a->stage, a->kind);
    for (int i = w->in_first[spot]; i < w->in_first[spot + 1]; i++) h->used[w->in[i]]++;
    for (int i = w->out_first[spot]; i < w->out_first[spot + 1]; i++) {
        int e = w->out[i];
        if (w->is_sent[e]) raise_to(&h->sent[e], ++h->made[e] - h->fetched[e]);
    }
}

static ft_status find_holds(const ft_plan *plan, ft_arena *arena, int *sent, int *received,
                            ft_error *err)
{
    ft_seating shares;
    int64_t n = plan->n_edges;
    int64_t *counts = ft_arena_array(arena, 4 * n + 1, sizeof *counts);
    hold h = {.sent = sent, .received = received};
    if (!counts) return ft_fail(err, FT_NOMEM, "plan: no memory for %d edges", plan->n_edges);
    h.made = counts;
    h.fetched = counts + n;
    h.brought = counts + 2 * n;
    h.used = counts + 3 * n;
    FT_TRY(ft_seating_of_plan(&shares, arena, plan, err));
    FT_TRY(ft_wires_new(&h.wires, arena, &shares, plan->n_edges, plan->edges, err));
    FT_TRY(ft_wires_add_copies(h.wires, arena, plan, err));
    bool any = false;
    for (int e = 0; e < plan->n_edges; e++) {
        sent[e] = received[e] = 0;
        any = any || h.wires->is_sent[e] || h.wires->is_received[e];
    }
    ft_cursor at;
    for (int d = 0; any && d < plan->n_devices; d++)
        for (ft_cursor_begin(&at, plan, d); at.more; ft_cursor_step(&at)) pass(&h, &at.now);
    return FT_OK;
}

ft_status ft_plan_holds(const ft_plan *plan, int *sent, int *received, ft_error *err)
{
    ft_arena *arena = ft_arena_new();
    if (!arena) return ft_fail(err, FT_NOMEM, "plan: no memory to count what it holds");
    ft_status status = find_holds(plan, arena, sent, received, err);
    ft_arena_free(arena);
    return status;
}
