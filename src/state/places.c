/* state/places.c - where every place of a blueprint ends, but those of what moves: a unit takes
 * its guard with it. */
#include <stddef.h>

#include "state/places.h"
#include "blueprint/states.h"

typedef struct walk {
    const ft_blueprint *b;
    void (*visit)(void *user, const ft_guard *guard);
    void *user;
} walk;

static void visit_tensor(const walk *w, ft_guard guard, int64_t at, int64_t bytes)
{
    if (!bytes) return;
    guard.at = at + ft_memory_round(bytes);
    guard.slot = -1;
    w->visit(w->user, &guard);
}

static void visit_slots(const walk *w, ft_guard guard, int64_t at, int64_t slot_bytes, int n)
{
    for (guard.slot = 0; slot_bytes && guard.slot < n; guard.slot++) {
        guard.at = at + (guard.slot + 1) * slot_bytes - FT_GUARD_BYTES;
        w->visit(w->user, &guard);
    }
}

static void visit_params(const walk *w, int s)
{
    const ft_blueprint *b = w->b;
    const ft_seat_layout *seat = &b->seats[s];
    ft_guard guard = {.device = seat->device, .seat = s};
    for (int i = 0; i < seat->n_params; i++) {
        const ft_seat_param *sp = &seat->params[i];
        const ft_param_layout *p = &b->params[sp->param];
        int64_t state_bytes = ft_blueprint_state_bytes(b, sp->param);
        guard.name = p->name;
        guard.class = FT_MEMORY_WEIGHTS;
        bool own = (sp->owned || sp->replica) && !seat->units[FT_MEMORY_WEIGHTS];
        if (own) visit_tensor(w, guard, sp->at, ft_spec_bytes(&p->spec));
        guard.class = FT_MEMORY_VERSIONS;
        if (sp->with_state) visit_tensor(w, guard, sp->state_at, state_bytes);
        if (!sp->owned || !p->n_terms || seat->units[FT_MEMORY_OPTIMIZER]) continue;
        guard.class = FT_MEMORY_OPTIMIZER;
        visit_tensor(w, guard, p->state_at, state_bytes);
    }
}

static void visit_seat(const walk *w, int s)
{
    const ft_blueprint *b = w->b;
    const ft_seat_layout *seat = &b->seats[s];
    const ft_stage *cut = seat->cut[0];
    ft_guard guard = {.device = seat->device, .seat = s, .class = FT_MEMORY_GRADIENTS};
    for (int i = 0; i < cut->n_grads && !seat->units[FT_MEMORY_GRADIENTS]; i++) {
        const ft_param_layout *p =
            &b->params[ft_graph_grad_term(b->cut.graphs[0], cut->grads[i])->param];
        guard.name = p->name;
        visit_tensor(w, guard, seat->term_at[i], ft_spec_bytes(&p->spec));
    }
    for (int i = 0; i < seat->n_packs && !b->trains; i++) {
        guard.class = ft_pack_class(seat, i);
        guard.name = b->params[seat->packs[i].param].name;
        if (!seat->units[guard.class])
            visit_tensor(w, guard, seat->pack_at[i], seat->packs[i].bytes);
    }
    guard.name = NULL;
    guard.class = FT_MEMORY_ACTIVATIONS;
    if (!seat->units[FT_MEMORY_ACTIVATIONS])
        visit_slots(w, guard, seat->slots_at, seat->slot_bytes, seat->n_slots);
    ft_guard older = guard;
    older.class = FT_MEMORY_VERSIONS;
    for (int k = 0; k < FT_WEIGHTS_KINDS; k++) {
        const ft_version_ring *ring = &seat->rings[k], *ahead = &seat->predicted[k];
        visit_slots(w, older, ahead->at, ahead->slot_bytes, ahead->n);
        visit_slots(w, older, ring->at, ring->slot_bytes, ring->n);
    }
    visit_slots(w, older, seat->marks.at, seat->marks.slot_bytes, seat->marks.n);
    visit_slots(w, guard, seat->held_at, seat->held_slot_bytes, seat->n_held_slots);
}

static void visit_buffers(const walk *w)
{
    const ft_blueprint *b = w->b;
    ft_guard guard = {.class = FT_MEMORY_BUFFERS};
    for (int e = 0; e < b->n_edges; e++)
        for (int r = 0; r < FT_ROWS; r++) {
            const ft_row *row = &b->cargoes[e].rows[r];
            guard.seat = r == FT_ROW_MADE ? b->edges[e].from : b->edges[e].to;
            guard.device = row->device;
            if (row->at_home || (r == FT_ROW_EDGE && b->cargoes[e].slots_of != e)) continue;
            visit_slots(w, guard, row->base, b->cargoes[e].slot_bytes, row->n);
        }
    for (int i = 0; i < b->n_outputs; i++) {
        guard.seat = b->outputs[i].seat;
        guard.device = b->seats[guard.seat].device;
        visit_slots(w, guard, b->outputs[i].at, b->outputs[i].slot_bytes, b->batch_slots);
    }
}

void places_visit(const ft_blueprint *b, void (*visit)(void *user, const ft_guard *guard),
                  void *user)
{
    const walk w = {b, visit, user};
    for (int s = 0; s < b->seating.n_seats; s++) {
        visit_params(&w, s);
        visit_seat(&w, s);
    }
    for (int d = 0; d < b->cut.n_devices; d++) {
        const ft_block_layout *block = &b->blocks[d];
        ft_guard guard = {.device = d, .class = FT_MEMORY_WORKSPACE, .seat = -1};
        int64_t at = block->begin[FT_MEMORY_WORKSPACE], work_at = ft_blueprint_work_at(b, d);
        visit_slots(&w, guard, at, work_at - at, 1);
        visit_slots(&w, guard, work_at, at + block->bytes[FT_MEMORY_WORKSPACE] - work_at, 1);
        guard.class = FT_MEMORY_BUFFERS;
        visit_slots(&w, guard, block->batch_at, block->batch_slot_bytes, b->batch_slots);
    }
    visit_buffers(&w);
}
