/* blueprint/halves.c - the nodes of every action, and what is kept between the halves of a
 * backward.
 *
 * The first half of a backward has what other stages wait for: the nodes on which a value depends
 * that the stage sends. The second has the rest, which is what gradients of parameters alone need
 * (Qi and others, "Zero Bubble Pipeline Parallelism", ICLR 2024). What the first half makes or
 * receives and the second one reads is held between them, gradient terms of rows that make them
 * beside the gradient of their input too. Buckets have the same nodes, so they share these lists.
 */
#include "blueprint/internal.h"

static ft_status no_memory(ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "blueprint: no memory for the halves of backwards");
}

/* Marks what the stage sends in the first half, and the values that it is made from. */
static void mark_sent(const ft_blueprint *b, const ft_stage_layout *stage, bool *wanted)
{
    const ft_graph *g = b->cut.graphs[0];
    const ft_stage *cut = stage->cut[0];
    const int *edges = stage->out_edges[FT_ACT_BACKWARD_INPUT];
    for (int i = 0; i < stage->n_out_edges[FT_ACT_BACKWARD_INPUT]; i++) {
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
static ft_status deal_nodes(ft_blueprint *b, ft_stage_layout *stage, const bool *wanted,
                            ft_error *err)
{
    const ft_stage *cut = stage->cut[0];
    for (int half = 0; half < 2; half++) {
        int kind = half ? FT_ACT_BACKWARD_WEIGHT : FT_ACT_BACKWARD_INPUT;
        int *nodes = ft_arena_array(b->arena, cut->n_backward + 1, sizeof *nodes);
        if (!nodes) return no_memory(err);
        stage->nodes[kind] = nodes;
        stage->n_nodes[kind] = 0;
        for (int i = 0; i < cut->n_backward; i++)
            if (makes_one_of(ft_graph_node(b->cut.graphs[0], cut->backward[i]), wanted) == !half)
                nodes[stage->n_nodes[kind]++] = cut->backward[i];
    }
    return FT_OK;
}

/* Notes the value once as held, if the first half has it. */
static void hold(ft_stage_layout *stage, bool *first, ft_value_id v)
{
    if (v == FT_NO_VALUE || !first[v]) return;
    first[v] = false;
    stage->held[stage->n_held++] = v;
}

static ft_status find_held(ft_blueprint *b, ft_stage_layout *stage, bool *first, ft_error *err)
{
    const ft_graph *g = b->cut.graphs[0];
    const int *edges = stage->in_edges[FT_ACT_BACKWARD_INPUT];
    int room = stage->cut[0]->n_grads;
    for (int i = 0; i < stage->n_nodes[FT_ACT_BACKWARD_INPUT]; i++) {
        const ft_node *node = ft_graph_node(g, stage->nodes[FT_ACT_BACKWARD_INPUT][i]);
        for (int k = 0; k < node->op->n_out; k++, room++) first[node->out + k] = true;
    }
    for (int i = 0; i < stage->n_in_edges[FT_ACT_BACKWARD_INPUT]; i++) {
        const ft_cargo *c = &b->cargoes[edges[i]];
        for (int k = 0; c->kind == FT_CARGO_VALUES && k < c->n; k++, room++)
            first[c->items[k]] = true;
    }
    for (int i = 0; i < stage->cut[0]->n_saved; i++) first[stage->cut[0]->saved[i]] = false;
    stage->held = ft_arena_array(b->arena, room + 1, sizeof *stage->held);
    if (!stage->held) return no_memory(err);
    for (int i = 0; i < stage->n_nodes[FT_ACT_BACKWARD_WEIGHT]; i++) {
        const ft_node *node = ft_graph_node(g, stage->nodes[FT_ACT_BACKWARD_WEIGHT][i]);
        for (int k = 0; k < node->n_in; k++) hold(stage, first, node->in[k]);
    }
    for (int i = 0; i < stage->cut[0]->n_grads; i++)
        hold(stage, first, ft_graph_grad_term(g, stage->cut[0]->grads[i])->value);
    return FT_OK;
}

static ft_status halve(ft_blueprint *b, ft_stage_layout *stage, ft_error *err)
{
    int n_values = ft_graph_n_values(b->cut.graphs[0]);
    bool *wanted = ft_arena_array(b->arena, n_values + 1, sizeof *wanted);
    bool *first = ft_arena_array(b->arena, n_values + 1, sizeof *first);
    if (!wanted || !first) return no_memory(err);
    mark_sent(b, stage, wanted);
    FT_TRY(deal_nodes(b, stage, wanted, err));
    return find_held(b, stage, first, err);
}

ft_status blueprint_find_nodes(ft_blueprint *b, ft_error *err)
{
    for (int s = 0; s < b->seating.n_seats; s++) {
        ft_stage_layout *stage = &b->stages[s];
        const ft_stage *cut = stage->cut[0];
        stage->nodes[FT_ACT_FORWARD] = cut->forward;
        stage->n_nodes[FT_ACT_FORWARD] = cut->n_forward;
        if (b->cut.forward_only) continue;
        if (stage->splits) {
            FT_TRY(halve(b, stage, err));
            continue;
        }
        stage->nodes[FT_ACT_BACKWARD] = cut->backward;
        stage->n_nodes[FT_ACT_BACKWARD] = cut->n_backward;
    }
    return FT_OK;
}

/* A body leaves as many between the halves as it found. */
void blueprint_count_held(ft_blueprint *b)
{
    for (int s = 0; s < b->seating.n_seats; s++) {
        ft_stage_layout *stage = &b->stages[s];
        int held = 0;
        for (int part = 0; part < FT_PARTS; part++) {
            const ft_action_list *list = ft_plan_list(&b->plan, stage->device, part);
            for (int i = 0; i < list->n; i++) {
                const ft_action *a = &list->actions[i];
                if (a->stage != stage->origin) continue;
                held += a->kind == FT_ACT_BACKWARD_INPUT;
                if (held > stage->n_held_slots) stage->n_held_slots = held;
                held -= a->kind == FT_ACT_BACKWARD_WEIGHT;
            }
        }
    }
}
