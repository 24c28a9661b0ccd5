/* profile/blocks.c - a graph cut into blocks, and which of them are equal.
 *
 * A block is a run of forward nodes whose scopes agree up to the first part that has a number
 * ("encoder/block.3/attn" and "encoder/block.3/ff"), or up to the first part when none has, with
 * the backward nodes that belong to them. Two blocks are equal when their nodes have the same rows,
 * attributes and shapes and take their inputs from the same places. */
#include <kernels_digest.h>
#include <string.h>

#include "base/map.h"
#include "profile/internal.h"

static ft_status no_memory(ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "profile: no memory for the graph's blocks");
}

/* Length of the scope's part that names its block. */
static size_t block_name_length(const char *scope)
{
    const char *digit = strpbrk(scope, "0123456789");
    const char *from = digit ? digit : scope;
    return (size_t)(from - scope) + strcspn(from, "/");
}

static bool same_block(const char *a, const char *b)
{
    size_t length = block_name_length(a);
    return length == block_name_length(b) && strncmp(a, b, length) == 0;
}

static int number_blocks(const ft_measure_options *o, bool whole, int *stage_of)
{
    int n = 0, n_forward = ft_graph_n_forward(o->graph);
    for (int i = 0; i < n_forward; i++) {
        bool begins = i == 0 || (!whole && !same_block(ft_graph_node(o->graph, i - 1)->scope,
                                                       ft_graph_node(o->graph, i)->scope));
        n += begins;
        stage_of[i] = n - 1;
    }
    return n;
}

/* -- equality ---------------------------------------------------------------------------------- */

static void describe_spec(const ft_spec *spec, ft_text *text)
{
    char shape[96];
    ft_text_add(text, " %s%s", ft_dtype_name(spec->dtype),
                ft_shape_format(&spec->shape, shape, sizeof shape));
}

static void describe_attrs(const ft_node *node, ft_text *text)
{
    for (int i = 0; i < ft_op_attr_count(node->op); i++)
        ft_text_add(text, " %s=%.9g", node->op->attrs[i].name, node->attrs[i]);
}

const char *ft_profile_kernels(void)
{
    return FT_KERNELS_DIGEST;
}

void ft_profile_describe(const ft_graph *graph, int n, ft_text *text)
{
    const ft_node *node = ft_graph_node(graph, n);
    ft_text_add(text, "%s", node->op->name);
    for (int i = 0; i < node->n_in; i++) {
        if (node->in[i] == FT_NO_VALUE)
            ft_text_add(text, " -");
        else
            describe_spec(&ft_graph_value(graph, node->in[i])->spec, text);
    }
    describe_attrs(node, text);
}

/* Places of a block's nodes and parameters, so that wiring can be compared between blocks. */
typedef struct wiring {
    const ft_graph *graph;
    int *position; /* by node: in its block, forward nodes first */
    const int *node_block;
} wiring;

static int param_position(const ft_stage *cut, int param)
{
    for (int i = 0; i < cut->n_params; i++)
        if (cut->params[i] == param) return i;
    return -1;
}

static void describe_source(const wiring *w, const ft_stage *cut, int block, ft_value_id v,
                            ft_text *text)
{
    if (v == FT_NO_VALUE) return;
    const ft_value *value = ft_graph_value(w->graph, v);
    if (value->kind == FT_VALUE_PARAM)
        ft_text_add(text, " p%d", param_position(cut, value->source));
    else if (value->kind == FT_VALUE_INPUT)
        ft_text_add(text, " i");
    else if (w->node_block[value->source] == block)
        ft_text_add(text, " n%d.%d", w->position[value->source], value->output);
    else
        ft_text_add(text, " x");
}

static void describe_nodes(const wiring *w, const ft_stage *cut, int block, const int *nodes, int n,
                           ft_text *text)
{
    for (int i = 0; i < n; i++) {
        const ft_node *node = ft_graph_node(w->graph, nodes[i]);
        ft_profile_describe(w->graph, nodes[i], text);
        for (int k = 0; k < node->n_in; k++) describe_source(w, cut, block, node->in[k], text);
        ft_text_add(text, "\n");
    }
}

static ft_status find_equal(profile_cut *cut, const ft_measure_options *o, ft_arena *arena,
                            ft_error *err)
{
    ft_map seen = {0};
    ft_text text = {0};
    wiring w = {o->graph, ft_arena_array(arena, ft_graph_n_nodes(o->graph) + 1, sizeof(int)),
                cut->node_block};
    ft_status status = w.position ? FT_OK : no_memory(err);
    for (int i = 0; status == FT_OK && i < cut->n_blocks; i++) {
        profile_block *block = &cut->blocks[i];
        const ft_stage *stage = block->cut;
        for (int k = 0; k < stage->n_forward; k++) w.position[stage->forward[k]] = k;
        for (int k = 0; k < stage->n_backward; k++)
            w.position[stage->backward[k]] = stage->n_forward + k;
        text.length = 0;
        describe_nodes(&w, stage, i, stage->forward, stage->n_forward, &text);
        describe_nodes(&w, stage, i, stage->backward, stage->n_backward, &text);
        char *key = text.failed ? NULL : ft_arena_strdup(arena, text.data);
        int32_t like = i;
        if (!key || (!ft_map_find(&seen, key, &like) && !ft_map_set(&seen, key, i))) {
            status = no_memory(err);
            break;
        }
        block->like = like;
        cut->blocks[like].repeats++;
        cut->n_distinct += like == i;
    }
    ft_map_fini(&seen);
    ft_text_fini(&text);
    return status;
}

/* -- cutting ----------------------------------------------------------------------------------- */

ft_status profile_cut_graph(profile_cut *cut, const ft_measure_options *o, bool whole,
                            ft_arena *arena, ft_error *err)
{
    int n_forward = ft_graph_n_forward(o->graph), n_nodes = ft_graph_n_nodes(o->graph);
    int *stage_of = ft_arena_array(arena, n_forward + 1, sizeof(int));
    *cut = (profile_cut){0};
    if (!stage_of) return no_memory(err);
    int n = cut->n_blocks = number_blocks(o, whole, stage_of);
    bool *recompute = ft_arena_array(arena, n + 1, sizeof(bool));
    cut->blocks = ft_arena_array(arena, n + 1, sizeof *cut->blocks);
    cut->node_block = ft_arena_array(arena, n_nodes + 1, sizeof(int));
    if (!recompute || !cut->blocks || !cut->node_block) return no_memory(err);
    for (int i = 0; i < n_nodes; i++)
        cut->node_block[i] = stage_of[ft_graph_node(o->graph, i)->origin];
    FT_TRY(ft_graph_split(o->graph, stage_of, recompute, n, &cut->split, err));
    for (int i = 0; i < n; i++) recompute[i] = true;
    if (o->recompute && !whole)
        FT_TRY(ft_graph_split(o->graph, stage_of, recompute, n, &cut->again, err));
    for (int i = 0; i < n; i++) {
        cut->blocks[i].cut = &cut->split->stages[i];
        if (cut->again) cut->blocks[i].again = &cut->again->stages[i];
    }
    return find_equal(cut, o, arena, err);
}
