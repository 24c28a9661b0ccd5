/* graph/verify.c - every rule that a graph obeys.
 *
 *  1. Inputs and parameters have names of their own and specs that are possible.
 *  2. A node's inputs are older than its outputs; its attributes are in range; its outputs have the
 *     specs that its row says, f32 perhaps in 16 bits (ft_graph_store), and are numbered in a row;
 *     rows are apart (ft_graph_align) where the row makes and reads such.
 *  3. Forward nodes come first, see no gradient, and are their own origin and key; a backward node
 *     runs where its origin, a forward node, ran, and has its key.
 *  4. A gradient term is the output of a backward node whose origin uses the parameter, has the
 *     parameter's spec, belongs to one term only and is no node's input. Terms are in graph order.
 */
#include "graph/internal.h"

#include "base/alloc.h"

static bool same_spec(const ft_spec *a, const ft_spec *b)
{
    return a->dtype == b->dtype && ft_shape_equal(&a->shape, &b->shape);
}

/* What may be kept in 16 bits follows the rules of f32. */
static void widen(ft_spec *spec)
{
    if (spec->dtype == FT_BF16 || spec->dtype == FT_F16) spec->dtype = FT_F32;
}

static ft_status check_sources(const ft_graph *g, ft_error *err)
{
    for (int v = 0; v < g->n_values; v++) {
        const ft_value *value = &g->values[v];
        FT_TRY(ft_spec_check(&value->spec, err));
        if (value->kind == FT_VALUE_NODE) continue;
        bool input = value->kind == FT_VALUE_INPUT;
        int count = input ? g->n_inputs : g->n_params;
        const ft_value_id *list = input ? g->inputs : g->params;
        if (value->source < 0 || value->source >= count || list[value->source] != v)
            return ft_fail(err, FT_INVALID, "value %%%d is not in the list of its kind", v);
        if (!value->name || ft_graph_find(g, value->name) != v)
            return ft_fail(err, FT_INVALID, "value %%%d is not found by its name", v);
    }
    return FT_OK;
}

static ft_status check_phase(const ft_graph *g, int index, ft_error *err)
{
    const ft_node *node = &g->nodes[index];
    bool forward = index < ft_graph_n_forward(g);
    if (forward != (node->phase == FT_FORWARD))
        return ft_fail(err, FT_INVALID, "forward and backward nodes are mixed");
    if (forward && (node->origin != index || node->key != index))
        return ft_fail(err, FT_INVALID, "origin %d and key %d of a forward node, expected %d",
                       node->origin, node->key, index);
    if (!forward && (node->origin < 0 || node->origin >= ft_graph_n_forward(g)))
        return ft_fail(err, FT_INVALID, "origin %d is not a forward node", node->origin);
    if (node->key != g->nodes[node->origin].key)
        return ft_fail(err, FT_INVALID, "key %d, its origin has %d", node->key,
                       g->nodes[node->origin].key);
    return FT_OK;
}

static ft_status check_inputs(const ft_graph *g, const ft_node *node, ft_error *err)
{
    if (node->n_in < 0 || node->n_in > node->op->n_in)
        return ft_fail(err, FT_INVALID, "%d inputs, the row has %d", node->n_in, node->op->n_in);
    for (int i = 0; i < FT_MAX_IN; i++) {
        ft_value_id v = node->in[i];
        if (v == FT_NO_VALUE) continue;
        if (i >= node->n_in) return ft_fail(err, FT_INVALID, "input %d past the last", i);
        if (v < 0 || v >= node->out)
            return ft_fail(err, FT_INVALID, "input %d is %%%d, which is not older", i, v);
        if (node->phase == FT_FORWARD && ft_graph_made_in(g, v, FT_BACKWARD))
            return ft_fail(err, FT_INVALID, "input %d is %%%d, which backward makes", i, v);
    }
    return FT_OK;
}

static ft_status check_outputs(const ft_graph *g, int index, ft_error *err)
{
    const ft_node *node = &g->nodes[index];
    ft_spec in[FT_MAX_IN], out[FT_MAX_OUT] = {0};
    if (node->out < 0 || node->out > g->n_values - node->op->n_out)
        return ft_fail(err, FT_INVALID, "no such outputs in a graph of %d values", g->n_values);
    ft_graph_specs(g, node->in, node->n_in, in);
    for (int i = 0; i < node->n_in; i++) {
        if (in[i].pitch && !(node->op->apart_in >> i & 1))
            return ft_fail(err, FT_SHAPE, "the rows of input %d are apart", i);
        if (node->op->half_in >> i & 1) widen(&in[i]);
    }
    FT_TRY(ft_op_shape(node->op, in, node->n_in, node->attrs, out, err));
    for (int k = 0; k < node->op->n_out; k++) {
        const ft_value *value = &g->values[node->out + k];
        if (value->kind != FT_VALUE_NODE || value->source != index || value->output != k)
            return ft_fail(err, FT_INVALID, "value %%%d is not its output %d", node->out + k, k);
        ft_spec spec = value->spec;
        if (spec.pitch && !(node->op->apart_out >> k & 1))
            return ft_fail(err, FT_SHAPE, "the rows of value %%%d are apart", node->out + k);
        if (ft_graph_may_store(g, node->out + k)) widen(&spec);
        if (!same_spec(&spec, &out[k]))
            return ft_fail(err, FT_SHAPE, "value %%%d has not the spec that the row says",
                           node->out + k);
    }
    return FT_OK;
}

static ft_status check_node(const ft_graph *g, int index, ft_error *err)
{
    FT_TRY(check_inputs(g, &g->nodes[index], err));
    FT_TRY(check_phase(g, index, err));
    return check_outputs(g, index, err);
}

static ft_status check_outputs_named(const ft_graph *g, ft_error *err)
{
    for (int i = 0; i < g->n_outputs; i++) {
        const graph_output *output = &g->outputs[i];
        if (output->value < 0 || output->value >= g->n_values ||
            ft_graph_find(g, output->name) != output->value)
            return ft_fail(err, FT_INVALID, "output \"%.200s\" is not found by its name",
                           output->name);
    }
    return FT_OK;
}

/* taken: by value, whether a node reads it or it is an earlier term. */
static ft_status check_term(const ft_graph *g, int index, bool *taken, ft_error *err)
{
    const ft_grad_term *term = &g->grads[index];
    if (term->param < 0 || term->param >= g->n_params || term->value < 0 ||
        term->value >= g->n_values || !ft_graph_made_in(g, term->value, FT_BACKWARD) ||
        g->values[term->value].source != term->node)
        return ft_fail(err, FT_INVALID, "is not a parameter and an output of a backward node");
    ft_value_id param = g->params[term->param];
    const ft_node *origin = &g->nodes[g->nodes[term->node].origin];
    if (!same_spec(&g->values[param].spec, &g->values[term->value].spec))
        return ft_fail(err, FT_SHAPE, "%%%d has not the spec of parameter \"%.200s\"", term->value,
                       g->values[param].name);
    bool used = false;
    for (int i = 0; i < origin->n_in; i++) used = used || origin->in[i] == param;
    if (!used)
        return ft_fail(err, FT_INVALID, "the forward node of %%%d does not use \"%.200s\"",
                       term->value, g->values[param].name);
    if (taken[term->value])
        return ft_fail(err, FT_INVALID, "%%%d is another term or the input of a node", term->value);
    taken[term->value] = true;
    if (index && g->nodes[g->grads[index - 1].node].origin > g->nodes[term->node].origin)
        return ft_fail(err, FT_INVALID, "%%%d is out of graph order", term->value);
    return FT_OK;
}

static ft_status check_terms(const ft_graph *g, ft_error *err)
{
    bool *taken = ft_alloc(g->n_values * (int64_t)sizeof *taken);
    if (!taken) return ft_fail(err, FT_NOMEM, "no memory to verify a graph");
    for (int n = 0; n < g->n_nodes; n++)
        for (int i = 0; i < g->nodes[n].n_in; i++)
            if (g->nodes[n].in[i] != FT_NO_VALUE) taken[g->nodes[n].in[i]] = true;
    ft_status status = FT_OK;
    for (int i = 0; i < g->n_grads && status == FT_OK; i++) {
        status = check_term(g, i, taken, err);
        if (status != FT_OK) ft_error_wrap(err, "gradient term %d", i);
    }
    ft_free(taken);
    return status;
}

ft_status ft_graph_verify(const ft_graph *g, ft_error *err)
{
    FT_TRY(check_sources(g, err));
    for (int n = 0; n < g->n_nodes; n++) {
        char text[256];
        ft_status status = check_node(g, n, err);
        if (status == FT_OK) continue;
        ft_error_wrap(err, "%s", ft_graph_node_text(&g->nodes[n], text, sizeof text));
        return status;
    }
    FT_TRY(check_outputs_named(g, err));
    return check_terms(g, err);
}
