/* actions/compute.c - forwards, backwards and their halves: a program, its values in and out.
 *
 * An action reads what its edges bring where it lies, and makes what other seats of its device
 * wait for in the slots of edges. What the seat keeps longer than the slot is copied out of it,
 * and what goes to other devices is copied to them.
 *
 * A joint forward gathers what edges bring of all its micro-batches, and makes everything in the
 * work area. Each of them gives its part from there. */
#include <math.h>

#include "actions/internal.h"

static int64_t value_bytes(const ft_graph *g, ft_value_id v)
{
    return ft_spec_bytes(&ft_graph_value(g, v)->spec);
}

static void set_inputs(const worker *w, const ft_action *a, int bucket)
{
    const ft_blueprint *b = w->run->blueprint;
    const int64_t *at = b->blocks[w->device].input_at;
    void **inputs = w->run->seats[a->seat].inputs;
    char *slot = batch_slot(w, a->batch);
    for (int i = 0; i < b->n_inputs; i++)
        if (at[i] >= 0)
            inputs[i] = slot + at[i] + a->micro * b->input_bytes[bucket * b->n_inputs + i];
}

static void bind_row(const worker *w, const ft_action *a, ft_row_end at, int bucket,
                     const ft_program *program)
{
    const ft_cargo *c = &w->run->blueprint->cargoes[at.edge];
    char *slot = row_place(w->run, at, a);
    for (int k = 0; k < c->n; k++) {
        ft_place place = ft_program_place(program, c->items[k]);
        if (place.home == FT_HOME_BOUND)
            w->run->seats[a->seat].bound[place.at] = slot + item_at(c, bucket, k);
    }
}

/* The program has values in rows of edges: all that it takes from, and those here that it fills. */
static void bind_rows(const worker *w, const ft_action *a, int bucket, const ft_program *program)
{
    const ft_blueprint *b = w->run->blueprint;
    ft_row_end at;
    for (int i = 0; ft_blueprint_takes(b, a, i, &at); i++) bind_row(w, a, at, bucket, program);
    for (int i = 0; ft_blueprint_fills(b, a, i, &at); i++) {
        at = made_in(w->run, at);
        if (b->cargoes[at.edge].rows[at.row].device == w->device)
            bind_row(w, a, at, bucket, program);
    }
}

/* Copies what the seat keeps of the values of the edges in. */
static ft_status receive_values(worker *w, const ft_action *a, int bucket,
                                const ft_program *program, const ft_bases *bases, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_graph *g = b->cut.graphs[bucket];
    ft_row_end at;
    for (int i = 0; ft_blueprint_takes(b, a, i, &at); i++) {
        const ft_cargo *c = &b->cargoes[at.edge];
        char *slot = row_place(w->run, at, a);
        for (int k = 0; k < c->n; k++) {
            int64_t bytes = value_bytes(g, c->items[k]);
            ft_place place = ft_program_place(program, c->items[k]);
            if (place.home == FT_HOME_BOUND) continue;
            FT_TRY(copy_on(w->compute, at_device(w->run, w->device, ft_place_address(bases, place)),
                           at_device(w->run, w->device, slot + item_at(c, bucket, k)), bytes, err));
        }
    }
    return FT_OK;
}

/* Where the action finds what its program has made, or the joint one that it is part of. */
static char *made_at(const worker *w, const ft_action *a, int bucket, const ft_program *program,
                     const ft_bases *bases, ft_value_id v)
{
    const ft_blueprint *b = w->run->blueprint;
    int part = ft_blueprint_part(b, a);
    char *at = ft_place_address(bases, ft_program_place(program, v));
    return part ? at + part * ft_blueprint_part_bytes(b, bucket, v) : at;
}

/* *finite: whether all that was sent is. */
static ft_status send_values(worker *w, const ft_action *a, int bucket, const ft_program *program,
                             const ft_bases *bases, bool *finite, ft_error *err)
{
    *finite = true;
    const ft_blueprint *b = w->run->blueprint;
    const ft_graph *g = b->cut.graphs[bucket];
    ft_row_end at;
    for (int i = 0; ft_blueprint_fills(b, a, i, &at); i++) {
        at = made_in(w->run, at);
        const ft_cargo *c = &b->cargoes[at.edge];
        char *slot = row_place(w->run, at, a);
        for (int k = 0; k < c->n; k++) {
            const ft_spec *spec = &ft_graph_value(g, c->items[k])->spec;
            const void *data = made_at(w, a, bucket, program, bases, c->items[k]);
            char *out = slot + item_at(c, bucket, k);
            if (data != out)
                FT_TRY(copy_on(w->compute, at_device(w->run, c->rows[at.row].device, out),
                               at_device(w->run, w->device, data), ft_spec_bytes(spec), err));
            int64_t n = ft_shape_count(&spec->shape);
            if (!ft_dtype_is_float(spec->dtype)) continue;
            const ft_looking look = {data, spec->dtype, n, w->findings ? &w->findings->sent : NULL};
            if (w->findings) /* told when the stream came to it */
                FT_TRY(ft_steps_of(w->compute)->look(w->compute, &look, 1, err));
            else
                *finite = *finite && ft_all_finite(data, n, w->team);
        }
    }
    return FT_OK;
}

/* The loss, in the seat that makes it; else NULL. */
static const float *find_loss(const worker *w, const ft_action *a, const ft_program *program,
                              const ft_bases *bases)
{
    const ft_blueprint *b = w->run->blueprint;
    if (a->kind != FT_ACT_FORWARD || !b->seats[a->seat].sums_loss) return NULL;
    return ft_place_address(bases, ft_program_place(program, b->loss));
}

/* What there is to know of the action: `sent`, whether all that it sent is finite, on the CPU,
 * whose work is done; other devices tell it later, or now if the run is attentive. */
static ft_status find_out(worker *w, const ft_action *a, int bucket, const ft_program *program,
                          const ft_bases *bases, bool sent, ft_error *err)
{
    const float *loss = find_loss(w, a, program, bases);
    if (w->findings && loss)
        FT_TRY(copy_on(w->compute, (ft_location){NULL, &w->findings->loss},
                       at_device(w->run, w->device, loss), sizeof *loss, err));
    if (w->findings && !w->run->attentive)
        return hear_later(w, a, program, bases, loss != NULL, err);
    if (w->findings) {
        FT_TRY(w->executor->driver->finish(w->compute, err));
        ft_program_judge(program, bases);
        sent = w->findings->sent.finite;
        if (loss) loss = &w->findings->loss;
    }
    if (loss) *loss_of(w->run, a->seat, a->batch, a->micro) = *loss;
    if (sent && (!loss || isfinite(*loss)) && !bases->watch->node) return FT_OK;
    return explain_failure(w, a, bucket, program, bases, err);
}

/* Copies the outputs of the seat to where the caller finds them, in its device or not. */
static ft_status hand_out(const worker *w, const ft_action *a, int bucket,
                          const ft_program *program, const ft_bases *bases, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    for (int i = 0; i < b->n_outputs; i++) {
        const ft_output_layout *out = &b->outputs[i];
        if (out->seat != a->seat) continue;
        int64_t bytes = ft_blueprint_output_bytes(b, out, bucket);
        int64_t number = ft_seat_index(&b->seating, a) % out->micros;
        char *slot = part_at(w->run, i, a->batch % b->batch_slots);
        const void *value = ft_place_address(bases, ft_program_place(program, out->value));
        bool inside = at_device(w->run, w->device, slot).executor != NULL;
        if (number == 0 && inside) occupy(w, slot, ft_place_room(out->slot_bytes));
        FT_TRY(copy_on(w->compute, at_device(w->run, w->device, slot + number * bytes),
                       at_device(w->run, w->device, value), bytes, err));
    }
    return FT_OK;
}

/* What is kept of a micro-batch between the halves of its backward; NULL where none has halves. */
static char *held_slot(const ft_run *run, int s, int64_t index)
{
    const ft_seat_layout *seat = &run->blueprint->seats[s];
    if (!seat->n_held_slots) return NULL;
    return run->workers[seat->device].block + seat->held_at +
           index % seat->n_held_slots * seat->held_slot_bytes;
}

/* -- joint forwards ---------------------------------------------------------------------------- */

/* Copies one micro-batch's values of the edges in to their part in the work area. */
static ft_status gather_part(worker *w, const ft_action *a, int number, int bucket,
                             const ft_bases *bases, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_program *joint = w->run->seats[a->seat].joint[bucket];
    ft_row_end at;
    for (int i = 0; ft_blueprint_takes(b, a, i, &at); i++) {
        const ft_cargo *c = &b->cargoes[at.edge];
        const char *slot = row_place(w->run, at, a);
        for (int k = 0; k < c->n; k++) {
            int64_t bytes = value_bytes(b->cut.graphs[bucket], c->items[k]);
            int64_t stride = ft_blueprint_part_bytes(b, bucket, c->items[k]);
            char *to = ft_place_address(bases, ft_program_place(joint, c->items[k]));
            if (number && !stride) continue;
            FT_TRY(copy_on(w->compute, at_device(w->run, w->device, to + number * stride),
                           at_device(w->run, w->device, slot + item_at(c, bucket, k)), bytes, err));
        }
    }
    return FT_OK;
}

static ft_status gather(worker *w, const ft_action *a, int n, int bucket, const ft_bases *bases,
                        ft_error *err)
{
    ft_action part = *a;
    for (int k = 0; k < n; k++, part.micro++) FT_TRY(gather_part(w, &part, k, bucket, bases, err));
    return FT_OK;
}

/* Copies what the seat's own nodes leave for the micro-batch's backward out of the work area. */
static ft_status keep_part(worker *w, const ft_action *a, int bucket, const ft_bases *bases,
                           ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    const seat_state *state = &w->run->seats[a->seat];
    const ft_stage *cut = b->seats[a->seat].cut[bucket];
    for (int i = 0; i < cut->n_saved; i++) {
        ft_value_id v = cut->saved[i];
        if (!ft_blueprint_makes(b, a->seat, bucket, v)) continue;
        ft_place place = ft_program_place(state->programs[a->kind][bucket], v);
        const char *from = made_at(w, a, bucket, state->joint[bucket], bases, v);
        FT_TRY(copy_on(w->compute, at_device(w->run, w->device, ft_place_address(bases, place)),
                       at_device(w->run, w->device, from), value_bytes(b->cut.graphs[bucket], v),
                       err));
    }
    return FT_OK;
}

/* What the action computes, into the work area at first. The first of a joint forward computes for
 * all; the work area is taken until the last has its part. */
static ft_status run_joint(worker *w, const ft_action *a, int bucket, const ft_bases *bases,
                           ft_error *err)
{
    const ft_program *joint = w->run->seats[a->seat].joint[bucket];
    int n = ft_blueprint_joint(w->run->blueprint, a);
    if (n > 1) {
        occupy(w, bases->work, ft_program_work_bytes(joint));
        FT_TRY(gather(w, a, n, bucket, bases, err));
        FT_TRY(ft_program_run(joint, bases, err));
    }
    return keep_part(w, a, bucket, bases, err);
}

static bool is_last_part(const ft_blueprint *b, const ft_action *a)
{
    int joint = b->seating.of[b->seats[a->seat].stage].joint;
    return ft_blueprint_part(b, a) == joint - 1;
}

/* -- actions ----------------------------------------------------------------------------------- */

ft_status do_nodes(worker *w, const ft_action *a, ft_error *err)
{
    const ft_run *run = w->run;
    const ft_blueprint *b = run->blueprint;
    const ft_seat_layout *seat = &b->seats[a->seat];
    seat_state *state = &run->seats[a->seat];
    int bucket = batch_of(run, a->batch)->bucket;
    bool forward = a->kind == FT_ACT_FORWARD, last = ft_seat_is_last(&b->seating, a);
    const ft_program *program = state->programs[a->kind][bucket];
    const ft_program *joint = forward && state->joint ? state->joint[bucket] : NULL;
    int64_t index = ft_seat_index(&b->seating, a);
    char *held = held_slot(run, a->seat, index);
    ft_high_water water = {0, 0};
    ft_watch watch = {.growing = !last};
    ft_bases bases = {.work = w->block + ft_blueprint_work_at(b, w->device),
                      .saved = activations_at(run, a),
                      .held = held,
                      .inputs = state->inputs,
                      .bound = state->bound,
                      .grads = state->grads,
                      .rows = moves_gradients(run, a->seat) ? NULL : state->rows,
                      .squares = b->squares && last ? state->squares : NULL,
                      .accumulate = !ft_seat_is_first(&b->seating, a),
                      .key = {.seed = b->options.seed,
                              .step = (uint32_t)(run->first_step + a->batch),
                              .sample = (uint32_t)(a->micro * b->options.micro_batch_size)},
                      .team = w->team,
                      .stream = w->compute,
                      .high_water = &water,
                      .watch = &watch};
    bool sent;
    if (w->findings) {
        bases.looks = w->findings->terms;
        bases.look = &w->findings->any;
        w->findings->sent = (ft_look){0, 1, 0};
    }
    FT_TRY(find_versions(run, a, &bases, err));
    if (b->options.gaps) FT_TRY((forward ? keep_mark : measure_gap)(w, a, &bases, err));
    set_inputs(w, a, bucket);
    if (forward) occupy(w, bases.saved, ft_place_room(seat->slot_bytes));
    if (a->kind == FT_ACT_BACKWARD_INPUT) occupy(w, held, ft_place_room(seat->held_slot_bytes));
    if (!joint) occupy(w, bases.work, ft_program_work_bytes(program));
    bind_rows(w, a, bucket, program);
    FT_TRY(receive_values(w, a, bucket, program, &bases, err));
    FT_TRY(joint ? run_joint(w, a, bucket, &bases, err) : ft_program_run(program, &bases, err));
    FT_TRY(send_values(w, a, bucket, joint ? joint : program, &bases, &sent, err));
    if (forward) FT_TRY(hand_out(w, a, bucket, program, &bases, err));
    FT_TRY(find_out(w, a, bucket, program, &bases, sent, err));
    ledger_work(w, water.work);
    if (!joint || is_last_part(b, a))
        vacate(w, bases.work, ft_program_work_bytes(joint ? joint : program));
    if (a->kind != (int)seat->last) return FT_OK;
    vacate(w, bases.saved, ft_place_room(seat->slot_bytes));
    if (a->kind == FT_ACT_BACKWARD_WEIGHT) vacate(w, held, ft_place_room(seat->held_slot_bytes));
    return FT_OK;
}

ft_status do_forward(worker *w, const ft_action *a, ft_error *err)
{
    FT_TRY(do_nodes(w, a, err));
    if (!w->run->plan->forward_only || !ft_seat_is_last(&w->run->blueprint->seating, a))
        return FT_OK;
    FT_TRY(hear_rest(w, err));
    return finish_batch(w, a, err);
}

/* A backward, or the half of one that adds to gradients. */
ft_status do_backward(worker *w, const ft_action *a, ft_error *err)
{
    FT_TRY(do_nodes(w, a, err));
    const ft_stage *cut = w->run->blueprint->seats[a->seat].cut[0];
    for (int i = 0; i < cut->n_grads; i++) {
        int param = ft_graph_grad_term(w->run->blueprint->cut.graphs[0], cut->grads[i])->param;
        ledger_keep(w, a->seat, FT_MEMORY_GRADIENTS, &w->run->seats[a->seat].kept_terms[i],
                    ft_spec_bytes(&w->run->blueprint->params[param].spec));
    }
    return FT_OK;
}
