/* blueprint/rows.c - the places of edges: which there are, and which of them an action takes from
 * or fills. */
#include "blueprint/internal.h"
#include "device/driver.h"
#include "slots/slots.h"

/* What is made is copied out of one place while the next is made in the other. */
enum { PLACES_APART = 2 };

/* Whether what passes goes to another device beside what the maker computes next. */
static bool goes_apart(const ft_blueprint *b, int e, bool sent)
{
    const ft_device *from = &b->cut.devices[b->seats[b->edges[e].from].device];
    bool leaves = b->seats[b->edges[e].from].device != b->seats[b->edges[e].to].device;
    bool carries = b->cargoes[e].kind != FT_CARGO_NOTHING;
    return leaves && carries && !sent && from->driver && from->driver->passes_apart;
}

/* The places of each edge: its slots, and those that S and V of the plan, or copies apart from the
 * maker's work, need at its ends. */
ft_status blueprint_find_rows(ft_blueprint *b, ft_error *err)
{
    int *sent = ft_arena_array(b->arena, b->n_plan_edges + 1, sizeof *sent);
    int *received = ft_arena_array(b->arena, b->n_plan_edges + 1, sizeof *received);
    if (!sent || !received) return no_memory(err);
    FT_TRY(ft_plan_holds(&b->plan, sent, received, err));
    for (int e = 0; e < b->n_edges; e++) {
        ft_cargo *c = &b->cargoes[e];
        int from = b->seats[b->edges[e].from].device, to = b->seats[b->edges[e].to].device;
        int slots = b->edges[e].slots, made = sent[c->edge];
        c->apart = goes_apart(b, e, made > 0);
        if (c->apart && c->kind == FT_CARGO_VALUES)
            made = slots < PLACES_APART ? slots : PLACES_APART;
        bool at_home = from == to && sent[c->edge] && received[c->edge];
        c->rows[FT_ROW_MADE] = (ft_row){.n = made, .device = from};
        c->rows[FT_ROW_EDGE] = (ft_row){.n = slots, .device = to, .at_home = at_home};
        c->rows[FT_ROW_USED] = (ft_row){.n = received[c->edge], .device = to};
    }
    return FT_OK;
}

bool blueprint_makes_in_row(const ft_blueprint *b, int e)
{
    const ft_seat_layout *from = &b->seats[b->edges[e].from], *to = &b->seats[b->edges[e].to];
    bool near = from->device == to->device || b->cargoes[e].rows[FT_ROW_MADE].n;
    bool joint = b->edges[e].from_kind == FT_ACT_FORWARD && b->seating.of[from->stage].joint > 1;
    return near && !joint && b->seating.of[to->stage].n == 1;
}

/* -- of actions -------------------------------------------------------------------------------- */

int64_t ft_blueprint_slot_index(const ft_blueprint *b, int e, const ft_action *a)
{
    ft_action user = *a; /* of the same micro-batch or batch */
    user.kind = (uint16_t)b->edges[e].to_kind;
    user.seat = (int16_t)b->edges[e].to;
    return ft_seat_index(&b->seating, &user) * b->cargoes[e].turns + b->cargoes[e].turn;
}

static int64_t joint_of(const ft_blueprint *b, const ft_action *a)
{
    return a->kind == FT_ACT_FORWARD ? b->seating.of[b->seats[a->seat].stage].joint : 1;
}

int ft_blueprint_part(const ft_blueprint *b, const ft_action *a)
{
    int64_t joint = joint_of(b, a);
    return joint > 1 ? (int)(ft_seat_index(&b->seating, a) % joint) : 0;
}

int ft_blueprint_joint(const ft_blueprint *b, const ft_action *a)
{
    return ft_blueprint_part(b, a) ? 1 : (int)joint_of(b, a);
}

/* The i-th of a list of edges that the action has to do with, or -1. */
static int nth_edge(const ft_blueprint *b, const int *edges, int n, bool incoming,
                    const ft_action *a, int i)
{
    if (!b->seating.several) return i < n ? edges[i] : -1;
    for (int k = 0; k < n; k++) {
        const ft_edge *edge = &b->edges[edges[k]];
        int other = incoming ? edge->from : edge->to;
        if (ft_seat_has(&b->seating, other, a) && i-- == 0) return edges[k];
    }
    return -1;
}

/* That an S or V copies along: of the seat that has it. */
static int copied_edge(const ft_blueprint *b, const ft_action *a)
{
    int e = b->edge_first[a->item];
    bool sends = a->kind == FT_ACT_SEND;
    while ((sends ? b->edges[e].from : b->edges[e].to) != a->seat) e++;
    return e;
}

/* Of an edge with an S or V, the places at its ends: what the action takes from, or fills. */
static bool find_end(const ft_blueprint *b, const ft_action *a, int i, bool fills, ft_row_end *out)
{
    const ft_seat_layout *seat = &b->seats[a->seat];
    const int *edges = (fills ? seat->out_edges : seat->in_edges)[a->kind];
    int n = (fills ? seat->n_out_edges : seat->n_in_edges)[a->kind];
    bool copies = ft_action_item(a->kind) == FT_ITEM_EDGE;
    int e = !copies ? nth_edge(b, edges, n, !fills, a, i) : i ? -1 : copied_edge(b, a);
    if (e < 0) return false;
    const ft_cargo *c = &b->cargoes[e];
    ft_row_kind first = c->rows[FT_ROW_MADE].n && !c->apart ? FT_ROW_MADE : FT_ROW_EDGE;
    ft_row_kind last = c->rows[FT_ROW_USED].n ? FT_ROW_USED : FT_ROW_EDGE;
    *out = (ft_row_end){e, fills ? first : last};
    if (a->kind == FT_ACT_SEND) out->row = fills ? FT_ROW_EDGE : FT_ROW_MADE;
    if (a->kind == FT_ACT_RECEIVE) out->row = fills ? FT_ROW_USED : FT_ROW_EDGE;
    return true;
}

bool ft_blueprint_takes(const ft_blueprint *b, const ft_action *a, int i, ft_row_end *out)
{
    return find_end(b, a, i, false, out);
}

bool ft_blueprint_fills(const ft_blueprint *b, const ft_action *a, int i, ft_row_end *out)
{
    return find_end(b, a, i, true, out);
}

int64_t ft_blueprint_sent(const ft_blueprint *b, ft_row_end at, int bucket)
{
    const ft_edge *edge = &b->edges[at.edge];
    bool leaves = b->seats[edge->from].device != b->seats[edge->to].device;
    return at.row == FT_ROW_EDGE && leaves ? b->cargoes[at.edge].load[bucket] : 0;
}
