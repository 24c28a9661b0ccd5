/* blueprint/places.c - the place of every byte of every device.
 *
 * A device's block is its memory classes one after the other. Weights, gradients, optimizer state
 * and packed copies stay for the whole run, unless the plan moves them (stays/stays.h). Older
 * weights are slots, as many as the plan reads at once. Activations are slots, as many per seat as
 * the plan keeps micro-batches in flight; a slot holds what forward saves for backward; slots of
 * their own hold what is kept between the halves of a backward. The workspace has what the device's
 * library of products works in; the rest serves one action at a time and is as large as the largest
 * one needs. Buffers receive what other seats send. */
#include <stdio.h>
#include <string.h>

#include "blueprint/internal.h"
#include "blueprint/states.h"
#include "proof/proof.h"

/* -- blocks ------------------------------------------------------------------------------------ */

/* Takes n slots of a class; the offset is within the class until finish_blocks. */
static int64_t take_slots(ft_block_layout *block, ft_memory_class class, int64_t slot_bytes, int n)
{
    int64_t at = block->bytes[class];
    block->bytes[class] += slot_bytes * n;
    return at;
}

/* Takes the place of one tensor. */
static int64_t take(ft_block_layout *block, ft_memory_class class, int64_t bytes)
{
    return take_slots(block, class, ft_place_bytes(bytes), 1);
}

/* Takes the place of one tensor of a seat: in its unit, where the class moves. */
static int64_t take_of(ft_blueprint *b, int s, ft_memory_class class, int64_t bytes)
{
    ft_unit *unit = b->seats[s].units[class];
    if (!unit) return take(&b->blocks[b->seats[s].device], class, bytes);
    int64_t at = unit->bytes;
    unit->bytes += ft_memory_round(bytes);
    return at;
}

static void take_params(ft_blueprint *b, int s)
{
    ft_seat_layout *seat = &b->seats[s];
    for (int i = 0; i < seat->n_params; i++) {
        ft_seat_param *sp = &seat->params[i];
        ft_param_layout *p = &b->params[sp->param];
        int64_t bytes = ft_spec_bytes(&p->spec);
        int64_t state_bytes = ft_blueprint_state_bytes(b, sp->param);
        if (sp->owned || sp->replica) sp->at = take_of(b, s, FT_MEMORY_WEIGHTS, bytes);
        if (sp->with_state)
            sp->state_at = take(&b->blocks[seat->device], FT_MEMORY_VERSIONS, state_bytes);
        if (!sp->owned) continue;
        p->at = sp->at;
        p->state_at = take_of(b, s, FT_MEMORY_OPTIMIZER, state_bytes);
    }
}

static int64_t library_place(const ft_blueprint *b, int device)
{
    return ft_place_bytes(b->cut.devices[device].library_bytes);
}

int64_t ft_blueprint_work_at(const ft_blueprint *b, int device)
{
    return b->blocks[device].begin[FT_MEMORY_WORKSPACE] + library_place(b, device);
}

static ft_status take_seat(ft_blueprint *b, int s, ft_error *err)
{
    ft_seat_layout *seat = &b->seats[s];
    ft_block_layout *block = &b->blocks[seat->device];
    const ft_stage *cut = seat->cut[0];
    seat->term_at = ft_arena_array(b->arena, cut->n_grads + 1, sizeof(int64_t));
    if (!seat->term_at) return no_memory(err);
    for (int i = 0; i < cut->n_grads; i++) {
        const ft_grad_term *term = ft_graph_grad_term(b->cut.graphs[0], cut->grads[i]);
        seat->term_at[i] =
            take_of(b, s, FT_MEMORY_GRADIENTS, ft_spec_bytes(&b->params[term->param].spec));
    }
    for (int i = 0; i < seat->n_packs && !b->trains; i++)
        seat->pack_at[i] = take_of(b, s, ft_pack_class(seat, i), seat->packs[i].bytes);
    if (seat->units[FT_MEMORY_ACTIVATIONS])
        seat->units[FT_MEMORY_ACTIVATIONS]->bytes = ft_place_room(seat->slot_bytes);
    else
        seat->slots_at = take_slots(block, FT_MEMORY_ACTIVATIONS, seat->slot_bytes, seat->n_slots);
    FT_TRY(blueprint_place_versions(b, s, err));
    for (int k = 0; k < FT_WEIGHTS_KINDS; k++) {
        ft_version_ring *ring = &seat->rings[k], *ahead = &seat->predicted[k];
        ring->at = take_slots(block, FT_MEMORY_VERSIONS, ring->slot_bytes, ring->n);
        ahead->at = take_slots(block, FT_MEMORY_VERSIONS, ahead->slot_bytes, ahead->n);
    }
    seat->marks.at = take_slots(block, FT_MEMORY_VERSIONS, seat->marks.slot_bytes, seat->marks.n);
    seat->held_at =
        take_slots(block, FT_MEMORY_ACTIVATIONS, seat->held_slot_bytes, seat->n_held_slots);
    if (seat->work_bytes > block->bytes[FT_MEMORY_WORKSPACE])
        block->bytes[FT_MEMORY_WORKSPACE] = seat->work_bytes;
    return FT_OK;
}

/* Micro-batches that are in the pipeline at once, at most; those of replicas lie side by side. */
static int most_in_flight(const ft_blueprint *b)
{
    bool alone = b->cut.forward_only;
    int most = 0;
    for (int s = 0; s < b->plan.n_stages; s++) {
        int here = (alone ? b->plan.depth[s] + 1 : b->plan.in_flight[s]) * b->seating.of[s].n;
        if (here > most) most = here;
    }
    return most;
}

static void take_outputs(ft_blueprint *b)
{
    for (int i = 0; i < b->n_outputs; i++) {
        ft_output_layout *out = &b->outputs[i];
        ft_block_layout *block = &b->blocks[b->seats[out->seat].device];
        out->slot_bytes = ft_place_bytes(out->slot_bytes);
        out->at = take_slots(block, FT_MEMORY_BUFFERS, out->slot_bytes, b->batch_slots);
    }
}

static ft_status size_inputs(ft_blueprint *b, ft_error *err)
{
    int64_t sizes = (int64_t)b->cut.n_graphs * b->n_inputs;
    b->input_bytes = ft_arena_array(b->arena, sizes + 1, sizeof(int64_t));
    if (!b->input_bytes) return no_memory(err);
    for (int64_t k = 0; k < sizes; k++) {
        const ft_graph *g = b->cut.graphs[k / b->n_inputs];
        ft_value_id v = ft_graph_input_value(g, (int)(k % b->n_inputs));
        b->input_bytes[k] = ft_spec_bytes(&ft_graph_value(g, v)->spec);
    }
    return FT_OK;
}

/* Marks the inputs that a seat reads. */
static void mark_inputs(const ft_blueprint *b, const ft_seat_layout *seat, bool *read)
{
    const ft_graph *g = b->cut.graphs[0];
    for (int k = 0; k < FT_ACT_COUNT; k++)
        for (int i = 0; i < seat->n_nodes[k]; i++) {
            const ft_node *node = ft_graph_node(g, seat->nodes[k][i]);
            for (int j = 0; j < node->n_in; j++) {
                if (node->in[j] == FT_NO_VALUE) continue;
                const ft_value *value = ft_graph_value(g, node->in[j]);
                if (value->kind == FT_VALUE_INPUT) read[value->source] = true;
            }
        }
}

/* A device has the inputs that its seats read, of whole batches: a replica reads some of each. */
static ft_status take_batches(ft_blueprint *b, int d, ft_error *err)
{
    ft_block_layout *block = &b->blocks[d];
    bool *read = ft_arena_array(b->arena, b->n_inputs + 1, sizeof *read);
    block->input_at = ft_arena_array(b->arena, b->n_inputs + 1, sizeof(int64_t));
    if (!read || !block->input_at) return no_memory(err);
    for (int s = 0; s < b->seating.n_seats; s++)
        if (b->seats[s].device == d) mark_inputs(b, &b->seats[s], read);
    for (int i = 0; i < b->n_inputs; i++) {
        int64_t largest = 0;
        for (int k = 0; k < b->cut.n_graphs; k++)
            if (b->input_bytes[k * b->n_inputs + i] > largest)
                largest = b->input_bytes[k * b->n_inputs + i];
        block->input_at[i] = read[i] ? block->batch_slot_bytes : -1;
        if (read[i]) block->batch_slot_bytes += ft_memory_round(largest * b->cut.micro_batches);
    }
    block->batch_slot_bytes = ft_place_bytes(block->batch_slot_bytes);
    block->batch_at = take_slots(block, FT_MEMORY_BUFFERS, block->batch_slot_bytes, b->batch_slots);
    return FT_OK;
}

static ft_status take_buffers(ft_blueprint *b, ft_error *err)
{
    for (int e = 0; e < b->n_edges; e++)
        for (int r = 0; r < FT_ROWS; r++) {
            ft_row *row = &b->cargoes[e].rows[r];
            int whose = r == FT_ROW_EDGE ? b->cargoes[e].slots_of : e;
            if (row->at_home) continue;
            row->base = whose == e ? take_slots(&b->blocks[row->device], FT_MEMORY_BUFFERS,
                                                b->cargoes[e].slot_bytes, row->n)
                                   : b->cargoes[whose].rows[r].base;
        }
    /* Micro-batches in flight span so many batches, one more is being updated and one fed. */
    int m = b->cut.micro_batches, most = most_in_flight(b);
    FT_TRY(ft_plan_batch_slots(&b->plan, (most + m - 1) / m + 2, &b->batch_slots, err));
    FT_TRY(size_inputs(b, err));
    for (int d = 0; d < b->cut.n_devices; d++) FT_TRY(take_batches(b, d, err));
    take_outputs(b);
    return FT_OK;
}

/* Where classes begin: one after the other; evaluation has its classes where training has them,
 * which are as large as the larger of both needs. */
static void place_classes(ft_blueprint *b)
{
    for (int d = 0; d < b->cut.n_devices; d++) {
        ft_block_layout *block = &b->blocks[d];
        ft_block_layout *other = b->evaluation ? &b->evaluation->blocks[d] : NULL;
        for (int c = 0; c < FT_MEMORY_CLASSES; c++) {
            block->begin[c] = block->total;
            if (other && other->bytes[c] > block->bytes[c]) block->bytes[c] = other->bytes[c];
            if (other) other->begin[c] = block->begin[c];
            block->total += block->bytes[c];
        }
        int64_t moving = b->stays.parts[d].bytes;
        ft_stays_shift(&b->stays, d, block->total);
        if (other) {
            const ft_stays *visits = &b->evaluation->stays;
            if (visits->parts[d].bytes > moving) moving = visits->parts[d].bytes;
            ft_stays_shift(&b->evaluation->stays, d, block->total);
        }
        block->total += moving;
    }
}

static void finish_buffers(ft_blueprint *b)
{
    for (int e = 0; e < b->n_edges; e++)
        for (int r = 0; r < FT_ROWS; r++) {
            ft_row *row = &b->cargoes[e].rows[r];
            row->base += b->blocks[row->device].begin[FT_MEMORY_BUFFERS];
        }
    for (int i = 0; i < b->n_outputs; i++)
        b->outputs[i].at += b->blocks[b->seats[b->outputs[i].seat].device].begin[FT_MEMORY_BUFFERS];
    for (int d = 0; d < b->cut.n_devices; d++)
        b->blocks[d].batch_at += b->blocks[d].begin[FT_MEMORY_BUFFERS];
}

/* Class offsets become block offsets; those of evaluation too. */
void blueprint_finish_layout(ft_blueprint *b)
{
    place_classes(b);
    for (int s = 0; s < b->seating.n_seats; s++) {
        ft_seat_layout *seat = &b->seats[s];
        int64_t begin[FT_MEMORY_CLASSES]; /* those of units are from where they begin */
        for (int c = 0; c < FT_MEMORY_CLASSES; c++)
            begin[c] = seat->units[c] ? 0 : b->blocks[seat->device].begin[c];
        for (int i = 0; i < seat->n_params; i++) {
            seat->params[i].at += begin[FT_MEMORY_WEIGHTS];
            seat->params[i].state_at += begin[FT_MEMORY_VERSIONS];
        }
        for (int i = 0; i < seat->cut[0]->n_grads; i++)
            seat->term_at[i] += begin[FT_MEMORY_GRADIENTS];
        for (int i = 0; i < seat->n_packs; i++) seat->pack_at[i] += begin[ft_pack_class(seat, i)];
        seat->slots_at += begin[FT_MEMORY_ACTIVATIONS];
        seat->held_at += b->blocks[seat->device].begin[FT_MEMORY_ACTIVATIONS];
        for (int k = 0; k < FT_WEIGHTS_KINDS; k++) {
            seat->rings[k].at += begin[FT_MEMORY_VERSIONS];
            seat->predicted[k].at += begin[FT_MEMORY_VERSIONS];
        }
        seat->marks.at += begin[FT_MEMORY_VERSIONS];
    }
    for (int p = 0; p < b->n_params; p++) {
        const ft_seat_layout *owner = &b->seats[b->params[p].owner];
        const int64_t *begin = b->blocks[owner->device].begin;
        if (!owner->units[FT_MEMORY_WEIGHTS]) b->params[p].at += begin[FT_MEMORY_WEIGHTS];
        if (!owner->units[FT_MEMORY_OPTIMIZER]) b->params[p].state_at += begin[FT_MEMORY_OPTIMIZER];
    }
    finish_buffers(b);
    if (b->evaluation) finish_buffers(b->evaluation);
}

/* Weights of which older versions are kept cannot leave. What both directions read moves as packed,
 * so that a backward which reads it finds it there. */
static ft_status check_moving_weights(const ft_blueprint *b, const ft_seat_layout *seat,
                                      ft_error *err)
{
    int versions = b->plan.versions[seat->stage];
    bool packs = seat->units[FT_MEMORY_PACKED] || seat->units[FT_MEMORY_TURNED];
    if (seat->units[FT_MEMORY_TURNED] && seat->share_packs)
        return ft_fail(err, FT_INVALID,
                       "stage %d has copies of weights that forwards and backwards read: they move "
                       "as packed, not as turned",
                       seat->stage);
    if ((seat->units[FT_MEMORY_WEIGHTS] || packs) && versions > 1)
        return ft_fail(err, FT_UNSUPPORTED,
                       "stage %d keeps %d versions of its weights: they cannot leave its device",
                       seat->stage, versions);
    return FT_OK;
}

static ft_status find_stays(ft_blueprint *b, ft_error *err)
{
    FT_TRY(ft_stays_find(&b->stays, b->arena, &b->plan, &b->seating, err));
    for (int s = 0; s < b->seating.n_seats; s++) {
        ft_seat_layout *seat = &b->seats[s];
        seat->units = b->stays.units[s];
        seat->n_under_way = b->stays.under_way[s];
        seat->window = b->stays.window[s];
        FT_TRY(check_moving_weights(b, seat, err));
    }
    return FT_OK;
}

ft_status blueprint_lay_out(ft_blueprint *b, ft_error *err)
{
    b->blocks = ft_arena_array(b->arena, b->cut.n_devices, sizeof *b->blocks);
    if (!b->blocks) return no_memory(err);
    for (int s = 0; s < b->seating.n_seats; s++)
        b->seats[s].n_slots = b->plan.in_flight[b->seats[s].stage];
    blueprint_count_held(b);
    FT_TRY(find_stays(b, err));
    FT_TRY(blueprint_count_versions(b, err));
    for (int s = 0; s < b->seating.n_seats; s++) {
        take_params(b, s);
        FT_TRY(take_seat(b, s, err));
    }
    for (int d = 0; d < b->cut.n_devices; d++)
        b->blocks[d].bytes[FT_MEMORY_WORKSPACE] += library_place(b, d);
    FT_TRY(take_buffers(b, err));
    if (b->trains) blueprint_size_visits(b);
    return ft_stays_place(&b->stays, b->arena, &b->plan, err);
}

int64_t ft_blueprint_device_bytes(const ft_blueprint *b, int device)
{
    return b->blocks[device].total;
}

ft_status ft_blueprint_check_memory(const ft_blueprint *b, ft_error *err)
{
    for (int d = 0; d < b->cut.n_devices; d++) {
        const ft_device *device = &b->cut.devices[d];
        const ft_block_layout *block = &b->blocks[d];
        double over = (double)(block->total - device->memory_bytes);
        if (over <= 0) continue;
        char text[512];
        int used = 0;
        for (int c = 0; c < FT_MEMORY_CLASSES; c++)
            if (b->plan.memory[d][c] && used < (int)sizeof text)
                used += snprintf(text + used, sizeof text - (size_t)used, "%s%s %.1f MB",
                                 used ? ", " : "", ft_memory_classes[c].name,
                                 (double)b->plan.memory[d][c] / 1e6);
        return ft_fail(
            err, FT_INFEASIBLE,
            "device %s needs %.1f MB of memory, its budget is %.1f MB (%s): %.1f %s too much",
            device->name, (double)block->total / 1e6, (double)device->memory_bytes / 1e6, text,
            over >= 1e6 ? over / 1e6 : over / 1e3, over >= 1e6 ? "MB" : "kB");
    }
    return FT_OK;
}
