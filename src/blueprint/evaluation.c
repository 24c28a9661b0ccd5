/* blueprint/evaluation.c - evaluation with the weights of training.
 *
 * Such a blueprint is one of forwards alone. It owns no parameter: its seats read those of
 * training on their devices, plain and packed, where they are. It owns no memory
 * either: its activations, workspace and buffers lie where training has its own, since legs of the
 * two are never under way at once. (Forwards alone without training beside them are a blueprint
 * like any other.) */
#include <stddef.h>

#include "blueprint/internal.h"

ft_status blueprint_add_evaluation(ft_blueprint *b, ft_error *err)
{
    const ft_evaluation_options *v = b->options.evaluation;
    if (!v) return FT_OK;
    if (v->n_graphs < 1 || ft_graph_n_grads(v->graphs[0]) || !v->plan->forward_only)
        return ft_fail(err, FT_INVALID,
                       "evaluation needs graphs without gradients and a plan of forwards alone");
    ft_blueprint_options o = b->options;
    o.graphs = v->graphs;
    o.n_graphs = v->n_graphs;
    o.joint_graphs = NULL;
    o.plan = v->plan;
    o.devices = b->cut.devices;
    o.machine = b->cut.machine;
    o.costs = NULL; /* of other nodes */
    o.weight_decays = o.rate_factors = NULL;
    o.clip = 0;
    o.evaluation = NULL;
    return blueprint_build(&b->evaluation, &o, b, err);
}

/* -- parameters -------------------------------------------------------------------------------- */

static ft_status find_trained(ft_blueprint *b, int p, ft_error *err)
{
    const ft_graph *g = b->trains->cut.graphs[0];
    ft_param_layout *info = &b->params[p];
    ft_value_id v = ft_graph_find(g, info->name);
    if (v == FT_NO_VALUE || ft_graph_value(g, v)->kind != FT_VALUE_PARAM ||
        !ft_shape_equal(&ft_graph_value(g, v)->spec.shape, &info->spec.shape))
        return ft_fail(err, FT_INVALID,
                       "training has no parameter '%s' of the shape that evaluation needs",
                       info->name);
    info->trained = ft_graph_value(g, v)->source;
    return FT_OK;
}

/* A seat of training on the device that has the parameter, or -1. */
static int find_holder(const ft_blueprint *trains, int device, int param)
{
    for (int s = 0; s < trains->seating.n_seats; s++)
        if (trains->seats[s].device == device && blueprint_seat_uses(trains, s, param)) return s;
    return -1;
}

ft_status blueprint_find_trained(ft_blueprint *b, ft_error *err)
{
    for (int p = 0; p < b->n_params; p++) FT_TRY(find_trained(b, p, err));
    for (int s = 0; s < b->seating.n_seats; s++)
        for (int i = 0; i < b->seats[s].n_params; i++) {
            ft_seat_param *sp = &b->seats[s].params[i];
            const ft_param_layout *info = &b->params[sp->param];
            sp->owned = sp->replica = false;
            sp->trained = find_holder(b->trains, b->seats[s].device, info->trained);
            if (sp->trained < 0)
                return ft_fail(err, FT_INVALID,
                               "evaluation uses '%s' in stage %d on device %d, where training does "
                               "not have it",
                               info->name, b->seats[s].stage, b->seats[s].device);
        }
    return FT_OK;
}

/* Finds a copy of training that is the same bytes on the same device. */
static bool find_pack(const ft_blueprint *b, int device, const ft_pack *pack, int *seat,
                      int64_t *at)
{
    const ft_blueprint *t = b->trains;
    for (*seat = 0; *seat < t->seating.n_seats; ++*seat) {
        const ft_seat_layout *trained = &t->seats[*seat];
        for (int k = 0; trained->device == device && k < trained->n_packs; k++) {
            *at = k;
            if (b->params[pack->param].trained == trained->packs[k].param &&
                ft_pack_equal(b->cut.graphs[0], pack, t->cut.graphs[0], &trained->packs[k]))
                return true;
        }
    }
    return false;
}

/* Keeps the copies that training has, with their numbers there. */
void blueprint_share_packs(ft_blueprint *b, int s)
{
    ft_seat_layout *seat = &b->seats[s];
    int n = 0;
    for (int i = 0; i < seat->n_packs; i++) {
        if (!find_pack(b, seat->device, &seat->packs[i], &seat->pack_seat[n], &seat->pack_at[n]))
            continue;
        seat->packs[n++] = seat->packs[i];
    }
    seat->n_packs = seat->n_forward_packs = n;
}

/* -- outputs ----------------------------------------------------------------------------------- */

ft_status blueprint_find_outputs(ft_blueprint *b, ft_error *err)
{
    const ft_graph *g = b->cut.graphs[0];
    int n = ft_graph_n_outputs(g);
    b->outputs = ft_arena_array(b->arena, (int64_t)n * b->seating.n_seats + 1, sizeof *b->outputs);
    if (!b->outputs) return no_memory(err);
    for (int i = 0; i < n && b->cut.forward_only; i++) {
        ft_output_layout out = {0};
        out.value = ft_graph_output_value(g, i, &out.name);
        const ft_value *value = ft_graph_value(g, out.value);
        if (out.value == b->loss || value->kind != FT_VALUE_NODE) continue;
        const ft_stage_share *of = &b->seating.of[b->splits[0]->node_stage[value->source]];
        out.micros = of->per_batch;
        for (int k = 0; k < b->cut.n_graphs; k++) {
            int64_t bytes = ft_blueprint_output_bytes(b, &out, k) * out.micros;
            if (bytes > out.slot_bytes) out.slot_bytes = bytes;
        }
        for (out.seat = of->first; out.seat < of->first + of->n; out.seat++)
            b->outputs[b->n_outputs++] = out;
    }
    return FT_OK;
}

int64_t ft_blueprint_output_bytes(const ft_blueprint *b, const ft_output_layout *out, int bucket)
{
    return ft_spec_bytes(&ft_graph_value(b->cut.graphs[bucket], out->value)->spec);
}

const ft_blueprint *ft_blueprint_evaluation(const ft_blueprint *b)
{
    return b->evaluation;
}
