/* blueprint/evaluation.c - evaluation through the stages of training.
 *
 * Such a blueprint is one of forwards alone. It owns no parameter: its stages read those of the
 * stages of training that they stand for, plain and packed, where they are. It owns no memory
 * either: its activations, workspace and buffers lie where training has its own, since legs of the
 * two are never under way at once. (Forwards alone without training beside them are a blueprint
 * like any other.) */
#include <stddef.h>

#include "blueprint/internal.h"

static ft_status no_memory(ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "engine: no memory for evaluation");
}

/* -- stages ------------------------------------------------------------------------------------ */

/* Numbers the stages of training that have a node in evaluation: one without (a dropout alone, say)
 * has nothing to do there. */
static ft_status renumber(const ft_blueprint *b, int *node_stage, int *trained_stage, int *n_stages,
                          ft_error *err)
{
    const ft_evaluation_options *v = b->options.evaluation;
    int n_nodes = ft_graph_n_nodes(v->graphs[0]);
    int *number = ft_arena_array(b->arena, b->options.n_stages + 1, sizeof(int));
    if (!number) return no_memory(err);
    for (int n = 0; n < n_nodes; n++) {
        int s = v->node_stage[n];
        if (s < 0 || s >= b->options.n_stages)
            return ft_fail(err, FT_INVALID, "engine: evaluation has a node in stage %d of %d", s,
                           b->options.n_stages);
        number[s] = 1;
    }
    for (int s = 0; s < b->options.n_stages; s++) {
        if (!number[s]) continue;
        trained_stage[*n_stages] = s;
        number[s] = (*n_stages)++;
    }
    for (int n = 0; n < n_nodes; n++) node_stage[n] = number[v->node_stage[n]];
    return FT_OK;
}

ft_status blueprint_add_evaluation(ft_blueprint *b, ft_error *err)
{
    const ft_evaluation_options *v = b->options.evaluation;
    if (!v) return FT_OK;
    if (v->n_graphs < 1 || ft_graph_n_grads(v->graphs[0]) || !ft_graph_n_nodes(v->graphs[0]))
        return ft_fail(err, FT_INVALID,
                       "engine: evaluation needs graphs of forward nodes, without gradients");
    ft_blueprint_options o = b->options;
    int *node_stage = ft_arena_array(b->arena, ft_graph_n_nodes(v->graphs[0]), sizeof(int));
    int *trained_stage = ft_arena_array(b->arena, o.n_stages, sizeof(int));
    int *device = ft_arena_array(b->arena, o.n_stages, sizeof(int));
    bool *recompute = ft_arena_array(b->arena, o.n_stages, sizeof(bool));
    if (!node_stage || !trained_stage || !device || !recompute) return no_memory(err);
    o.n_stages = 0;
    FT_TRY(renumber(b, node_stage, trained_stage, &o.n_stages, err));
    for (int s = 0; s < o.n_stages; s++) device[s] = b->options.stage_device[trained_stage[s]];
    o.graphs = v->graphs;
    o.n_graphs = v->n_graphs;
    o.n_batches = v->n_batches;
    o.node_stage = node_stage;
    o.stage_device = device;
    o.recompute = recompute;
    o.schedule = &ft_schedule_evaluate;
    o.weights = FT_WEIGHTS_OWN;
    o.clip = 0;
    o.evaluation = NULL;
    return blueprint_build(&b->evaluation, &o, b, trained_stage, err);
}

/* -- parameters -------------------------------------------------------------------------------- */

static bool holds(const ft_stage *cut, int param)
{
    for (int i = 0; i < cut->n_params; i++)
        if (cut->params[i] == param) return true;
    return false;
}

static ft_status find_trained(ft_blueprint *b, int p, ft_error *err)
{
    const ft_graph *g = b->trains->options.graphs[0];
    ft_param_layout *info = &b->params[p];
    ft_value_id v = ft_graph_find(g, info->name);
    if (v == FT_NO_VALUE || ft_graph_value(g, v)->kind != FT_VALUE_PARAM ||
        !ft_shape_equal(&ft_graph_value(g, v)->spec.shape, &info->spec.shape))
        return ft_fail(err, FT_INVALID,
                       "engine: training has no parameter '%s' of the shape that evaluation needs",
                       info->name);
    info->trained = ft_graph_value(g, v)->source;
    return FT_OK;
}

ft_status blueprint_find_trained(ft_blueprint *b, ft_error *err)
{
    for (int p = 0; p < b->n_params; p++) FT_TRY(find_trained(b, p, err));
    for (int s = 0; s < b->options.n_stages; s++)
        for (int i = 0; i < b->stages[s].n_params; i++) {
            ft_stage_param *sp = &b->stages[s].params[i];
            int trained = b->trained_stage[s];
            sp->owned = sp->replica = false;
            if (!holds(b->trains->stages[trained].cut[0], b->params[sp->param].trained))
                return ft_fail(err, FT_INVALID,
                               "engine: evaluation uses '%s' in stage %d, which does not have it",
                               b->params[sp->param].name, trained);
        }
    return FT_OK;
}

/* Keeps the copies that training has, with their numbers there. */
void blueprint_share_packs(ft_blueprint *b, int s)
{
    ft_stage_layout *stage = &b->stages[s];
    const ft_stage_layout *trained = &b->trains->stages[b->trained_stage[s]];
    int n = 0;
    for (int i = 0; i < stage->n_packs; i++)
        for (int k = 0; k < trained->n_packs; k++) {
            const ft_pack *a = &stage->packs[i], *t = &trained->packs[k];
            if (b->params[a->param].trained != t->param ||
                !ft_pack_equal(b->options.graphs[0], a, b->trains->options.graphs[0], t))
                continue;
            stage->packs[n] = *a;
            stage->pack_at[n++] = k;
            break;
        }
    stage->n_packs = n;
}

/* -- outputs ----------------------------------------------------------------------------------- */

ft_status blueprint_find_outputs(ft_blueprint *b, ft_error *err)
{
    const ft_graph *g = b->options.graphs[0];
    int n = ft_graph_n_outputs(g);
    b->outputs = ft_arena_array(b->arena, n + 1, sizeof *b->outputs);
    if (!b->outputs) return no_memory(err);
    for (int i = 0; i < n && b->options.schedule->forward_only; i++) {
        ft_output_layout out = {0};
        out.value = ft_graph_output_value(g, i, &out.name);
        const ft_value *value = ft_graph_value(g, out.value);
        if (out.value == b->loss || value->kind != FT_VALUE_NODE) continue;
        out.stage = b->splits[0]->node_stage[value->source];
        for (int k = 0; k < b->options.n_graphs; k++) {
            int64_t bytes = ft_blueprint_output_bytes(b, &out, k) * b->options.micro_batches;
            if (bytes > out.slot_bytes) out.slot_bytes = bytes;
        }
        b->outputs[b->n_outputs++] = out;
    }
    return FT_OK;
}

int64_t ft_blueprint_output_bytes(const ft_blueprint *b, const ft_output_layout *out, int bucket)
{
    return ft_spec_bytes(&ft_graph_value(b->options.graphs[bucket], out->value)->spec);
}

const ft_blueprint *ft_blueprint_evaluation(const ft_blueprint *b)
{
    return b->evaluation;
}
