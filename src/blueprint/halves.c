/* blueprint/halves.c - the nodes of every action, and what is kept between the halves of a
 * backward.
 *
 * The first half of a backward has what other seats wait for: the nodes on which a value depends
 * that the seat sends. The second has the rest, which is what gradients of parameters alone need
 * (Qi and others, "Zero Bubble Pipeline Parallelism", ICLR 2024). What the first half makes or
 * receives and the second one reads is held between them, gradient terms of rows that make them
 * beside the gradient of their input too. Buckets have the same nodes, so they share these lists.
 */
#include "blueprint/internal.h"

/* Marks what the seat sends in the first half, and the values that it is made from. */
static void mark_sent(const ft_blueprint *b, const ft_seat_layout *seat, bool *wanted)
{
    const ft_graph *g = b->cut.graphs[0];
    const ft_stage *cut = seat->cut[0];
    const int *edges = seat->out_edges[FT_ACT_BACKWARD_INPUT];
    for (int i = 0; i < seat->n_out_edges[FT_ACT_BACKWARD_INPUT]; i++) {
        const ft_cargo *c = &b->cargoes[edges[i]];
        for (int k = 0; c->kind == FT_CARGO_VALUES && k < c->n; k++) wanted[c->items[k]] = true;
    }
    for (int i = cut->n_backward - 1; i >= 0; i--) {
        const ft_node *node = ft_graph_node(g, cut->backward[i]);
        bool sent = false;
        for (int k = 0; k < node->op->n_out; k++) sent = sent || wanted[node->out + k];
        for (int k = 0; sent && k < node->n_in; k++)
            if (node->in[k] != FT_NO_VALUE) wanted[node->in[k]] = true;
    }
}

static bool makes_one_of(const ft_node *node, const bool *wanted)
{
    for (int k = 0; k < node->op->n_out; k++)
        if (wanted[node->out + k]) return true;
    return false;
}

/* Deals the nodes of the backward to its halves, in their order. */
static ft_status deal_nodes(ft_blueprint *b, ft_seat_layout *seat, const bool *wanted,
                            ft_error *err)
{
    const ft_stage *cut = seat->cut[0];
    for (int half = 0; half < 2; half++) {
        int kind = half ? FT_ACT_BACKWARD_WEIGHT : FT_ACT_BACKWARD_INPUT;
        int *nodes = ft_arena_array(b->arena, cut->n_backward + 1, sizeof *nodes);
        if (!nodes) return no_memory(err);
        seat->nodes[kind] = nodes;
        seat->n_nodes[kind] = 0;
        for (int i = 0; i < cut->n_backward; i++)
            if (makes_one_of(ft_graph_node(b->cut.graphs[0], cut->backward[i]), wanted) == !half)
                nodes[seat->n_nodes[kind]++] = cut->backward[i];
    }
    return FT_OK;
}

/* Notes the value once as held, if the first half has it. */
static void hold(ft_seat_layout *seat, bool *first, ft_value_id v)
{
    if (v == FT_NO_VALUE || !first[v]) return;
    first[v] = false;
    seat->held[seat->n_held++] = v;
}

static ft_status find_held(ft_blueprint *b, ft_seat_layout *seat, bool *first, ft_error *err)
{
    const ft_graph *g = b->cut.graphs[0];
    const int *edges = seat->in_edges[FT_ACT_BACKWARD_INPUT];
    int room = seat->cut[0]->n_grads;
    for (int i = 0; i < seat->n_nodes[FT_ACT_BACKWARD_INPUT]; i++) {
        const ft_node *node = ft_graph_node(g, seat->nodes[FT_ACT_BACKWARD_INPUT][i]);
        for (int k = 0; k < node->op->n_out; k++, room++) first[node->out + k] = true;
    }
    for (int i = 0; i < seat->n_in_edges[FT_ACT_BACKWARD_INPUT]; i++) {
        const ft_cargo *c = &b->cargoes[edges[i]];
        for (int k = 0; c->kind == FT_CARGO_VALUES && k < c->n; k++, room++)
            first[c->items[k]] = true;
    }
    for (int i = 0; i < seat->cut[0]->n_saved; i++) first[seat->cut[0]->saved[i]] = false;
    seat->held = ft_arena_array(b->arena, room + 1, sizeof *seat->held);
    if (!seat->held) return no_memory(err);
    for (int i = 0; i < seat->n_nodes[FT_ACT_BACKWARD_WEIGHT]; i++) {
        const ft_node *node = ft_graph_node(g, seat->nodes[FT_ACT_BACKWARD_WEIGHT][i]);
        for (int k = 0; k < node->n_in; k++) hold(seat, first, node->in[k]);
    }
    for (int i = 0; i < seat->cut[0]->n_grads; i++)
        hold(seat, first, ft_graph_grad_term(g, seat->cut[0]->grads[i])->value);
    return FT_OK;
}

static ft_status halve(ft_blueprint *b, ft_seat_layout *seat, ft_error *err)
{
    int n_values = ft_graph_n_values(b->cut.graphs[0]);
    bool *wanted = ft_arena_array(b->arena, n_values + 1, sizeof *wanted);
    bool *first = ft_arena_array(b->arena, n_values + 1, sizeof *first);
    if (!wanted || !first) return no_memory(err);
    mark_sent(b, seat, wanted);
    FT_TRY(deal_nodes(b, seat, wanted, err));
    return find_held(b, seat, first, err);
}

ft_status blueprint_find_nodes(ft_blueprint *b, ft_error *err)
{
    for (int s = 0; s < b->seating.n_seats; s++) {
        ft_seat_layout *seat = &b->seats[s];
        const ft_stage *cut = seat->cut[0];
        seat->nodes[FT_ACT_FORWARD] = cut->forward;
        seat->n_nodes[FT_ACT_FORWARD] = cut->n_forward;
        if (b->cut.forward_only) continue;
        if (seat->splits) {
            FT_TRY(halve(b, seat, err));
            continue;
        }
        seat->nodes[FT_ACT_BACKWARD] = cut->backward;
        seat->n_nodes[FT_ACT_BACKWARD] = cut->n_backward;
    }
    return FT_OK;
}

/* A body leaves as many between the halves as it found. */
void blueprint_count_held(ft_blueprint *b)
{
    for (int s = 0; s < b->seating.n_seats; s++) {
        ft_seat_layout *seat = &b->seats[s];
        int held = 0;
        for (int part = 0; part < FT_PARTS; part++) {
            const ft_action_list *list = ft_plan_list(&b->plan, seat->device, part);
            for (int i = 0; i < list->n; i++) {
                const ft_action *a = &list->actions[i];
                if (a->stage != seat->stage) continue;
                held += a->kind == FT_ACT_BACKWARD_INPUT;
                if (held > seat->n_held_slots) seat->n_held_slots = held;
                held -= a->kind == FT_ACT_BACKWARD_WEIGHT;
            }
        }
    }
}
