/* graph/graph.c - building a graph, and asking it. */
#include "graph/internal.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* -- life ----------------------------------------------------------------------------------- */

static ft_status no_memory(ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "no memory for a graph");
}

ft_status ft_graph_new(ft_graph **out, ft_error *err)
{
    *out = NULL;
    ft_graph *g = ft_alloc(sizeof *g);
    if (!g) return no_memory(err);
    g->arena = ft_arena_new();
    if (!g->arena) {
        ft_free(g);
        return no_memory(err);
    }
    g->n_forward = -1;
    g->scope = "";
    *out = g;
    return FT_OK;
}

void ft_graph_free(ft_graph *graph)
{
    if (!graph) return;
    ft_map_fini(&graph->names);
    ft_free(graph->nodes);
    ft_free(graph->values);
    ft_free(graph->params);
    ft_free(graph->inputs);
    ft_free(graph->outputs);
    ft_free(graph->grads);
    ft_arena_free(graph->arena);
    ft_free(graph);
}

/* -- growing -------------------------------------------------------------------------------- */

enum { MAX_COUNT = 1 << 28, MAX_NAME = 1000 };

/* What text can hold (parse.c). */
static ft_status check_name(const char *what, const char *name, ft_error *err)
{
    if (strlen(name) <= MAX_NAME) return FT_OK;
    return ft_fail(err, FT_INVALID, "%s \"%.40s...\" has a name longer than %d bytes", what, name,
                   MAX_NAME);
}

ft_status ft_graph_grow(void *array, int *max, int count, int64_t size, ft_error *err)
{
    if (count < *max) return FT_OK;
    if (count >= MAX_COUNT) return ft_fail(err, FT_INVALID, "a graph of more than 2^28 things");
    void *old, *bigger;
    memcpy(&old, array, sizeof old); /* array is the address of a typed pointer */
    int wanted = *max ? *max * 2 : 64;
    bigger = ft_realloc(old, wanted * size);
    if (!bigger) return no_memory(err);
    memcpy(array, &bigger, sizeof bigger);
    *max = wanted;
    return FT_OK;
}

static ft_status append_value(ft_graph *g, const ft_value *value, ft_error *err)
{
    FT_TRY(ft_graph_grow(&g->values, &g->max_values, g->n_values, sizeof *g->values, err));
    g->values[g->n_values++] = *value;
    return FT_OK;
}

static ft_status refuse_name(const ft_graph *g, const char *name, const ft_spec *spec,
                             ft_value_id old, const char *what, ft_error *err)
{
    static const char *const kinds[] = {"an input", "a parameter", "an output"};
    const ft_value *value = &g->values[old];
    char mine[160], other[160];
    return ft_fail(err, FT_INVALID, "\"%.200s\" cannot be %s of %s %s: it is %s of %s %s already",
                   name, what, ft_dtype_name(spec->dtype),
                   ft_shape_format(&spec->shape, mine, sizeof mine), kinds[value->kind],
                   ft_dtype_name(value->spec.dtype),
                   ft_shape_format(&value->spec.shape, other, sizeof other));
}

/* An input or a parameter: the two differ in the list that they are in. */
static ft_status add_source(ft_graph *g, ft_value_kind kind, const char *name, const ft_spec *spec,
                            ft_value_id *out, ft_error *err)
{
    const char *what = kind == FT_VALUE_INPUT ? "an input" : "a parameter";
    ft_value_id **list = kind == FT_VALUE_INPUT ? &g->inputs : &g->params;
    int *max = kind == FT_VALUE_INPUT ? &g->max_inputs : &g->max_params;
    int *count = kind == FT_VALUE_INPUT ? &g->n_inputs : &g->n_params;
    ft_value_id old;
    *out = FT_NO_VALUE;
    FT_TRY(check_name(what, name, err));
    ft_status status = ft_spec_check(spec, err);
    if (status != FT_OK) {
        ft_error_wrap(err, "%s \"%.200s\"", what, name);
        return status;
    }
    if (ft_map_find(&g->names, name, &old)) {
        const ft_value *value = &g->values[old];
        if (value->kind != kind || strcmp(value->name, name) != 0 ||
            value->spec.dtype != spec->dtype || !ft_shape_equal(&value->spec.shape, &spec->shape))
            return refuse_name(g, name, spec, old, what, err);
        *out = old;
        return FT_OK;
    }
    if (g->n_forward >= 0)
        return ft_fail(err, FT_INVALID, "\"%.200s\" comes after the gradient pass", name);
    FT_TRY(ft_graph_grow(list, max, *count, sizeof **list, err));
    ft_value value = {.spec = *spec, .kind = kind, .source = *count};
    value.name = ft_arena_strdup(g->arena, name);
    if (!value.name) return no_memory(err);
    FT_TRY(append_value(g, &value, err));
    if (!ft_map_set(&g->names, value.name, g->n_values - 1)) {
        g->n_values--;
        return no_memory(err);
    }
    (*list)[(*count)++] = *out = g->n_values - 1;
    return FT_OK;
}

ft_status ft_graph_input(ft_graph *g, const char *name, const ft_spec *spec, ft_value_id *out,
                         ft_error *err)
{
    return add_source(g, FT_VALUE_INPUT, name, spec, out, err);
}

ft_status ft_graph_param(ft_graph *g, const char *name, const ft_spec *spec, ft_value_id *out,
                         ft_error *err)
{
    return add_source(g, FT_VALUE_PARAM, name, spec, out, err);
}

ft_status ft_graph_freeze(ft_graph *g, const char *name, ft_error *err)
{
    ft_value_id v = ft_graph_find(g, name);
    if (v == FT_NO_VALUE || g->values[v].kind != FT_VALUE_PARAM)
        return ft_fail(err, FT_NOT_FOUND, "the graph has no parameter \"%.200s\" to freeze", name);
    if (g->n_forward >= 0)
        return ft_fail(err, FT_INVALID,
                       "parameter \"%.200s\" has gradients already: freeze it before", name);
    g->values[v].frozen = true;
    return FT_OK;
}

ft_status ft_graph_scope(ft_graph *g, const char *scope, ft_error *err)
{
    FT_TRY(check_name("scope", scope, err));
    if (!strcmp(g->scope, scope)) return FT_OK;
    const char *copy = ft_arena_strdup(g->arena, scope);
    if (!copy) return no_memory(err);
    g->scope = copy;
    return FT_OK;
}

ft_status ft_graph_output(ft_graph *g, const char *name, ft_value_id value, ft_error *err)
{
    ft_value_id old;
    FT_TRY(check_name("output", name, err));
    if (value < 0 || value >= g->n_values)
        return ft_fail(err, FT_INVALID,
                       "output \"%.200s\": no value %%%d among the %d of the graph", name, value,
                       g->n_values);
    if (ft_map_find(&g->names, name, &old)) {
        for (int i = 0; i < g->n_outputs; i++)
            if (!strcmp(g->outputs[i].name, name) && old == value) return FT_OK;
        return ft_fail(err, FT_INVALID,
                       "output \"%.200s\" cannot be %%%d: the name is that of %%%d already", name,
                       value, old);
    }
    FT_TRY(ft_graph_grow(&g->outputs, &g->max_outputs, g->n_outputs, sizeof *g->outputs, err));
    const char *copy = ft_arena_strdup(g->arena, name);
    if (!copy || !ft_map_set(&g->names, copy, value)) return no_memory(err);
    g->outputs[g->n_outputs++] = (graph_output){copy, value};
    return FT_OK;
}

/* -- nodes ---------------------------------------------------------------------------------- */

void ft_graph_specs(const ft_graph *g, const ft_value_id *in, int n_in, ft_spec *specs)
{
    for (int i = 0; i < FT_MAX_IN; i++) {
        bool present = i < n_in && in[i] != FT_NO_VALUE;
        specs[i] = present ? g->values[in[i]].spec : (ft_spec){.shape = {.n_dims = -1}};
    }
}

char *ft_graph_node_text(const ft_node *node, char *text, int size)
{
    snprintf(text, (size_t)size, "node %%%d (%s)%s%.120s", node->out, node->op->name,
             *node->scope ? " in " : "", node->scope);
    return text;
}

static ft_status check_inputs(const ft_graph *g, const ft_node *node, ft_error *err)
{
    if (node->n_in < 0 || node->n_in > node->op->n_in)
        return ft_fail(err, FT_INVALID, "%d inputs, expected %d to %d", node->n_in,
                       node->op->min_in, node->op->n_in);
    for (int i = 0; i < node->n_in; i++) {
        ft_value_id v = node->in[i];
        if (v != FT_NO_VALUE && (v < 0 || v >= g->n_values))
            return ft_fail(err, FT_INVALID, "input %d is value %%%d of a graph of %d values", i, v,
                           g->n_values);
        if (v != FT_NO_VALUE && node->phase == FT_FORWARD && ft_graph_made_in(g, v, FT_BACKWARD))
            return ft_fail(err, FT_INVALID, "input %d is value %%%d, which backward makes", i, v);
    }
    return FT_OK;
}

static ft_status append_outputs(ft_graph *g, const ft_op *op, const ft_spec *specs, ft_error *err)
{
    for (int i = 0; i < op->n_out; i++) {
        FT_TRY(ft_spec_check(&specs[i], err));
        ft_value value = {
            .spec = specs[i], .kind = FT_VALUE_NODE, .source = g->n_nodes, .output = i};
        FT_TRY(append_value(g, &value, err));
    }
    return FT_OK;
}

static ft_status try_append(ft_graph *g, const ft_node *node, ft_error *err)
{
    ft_spec in[FT_MAX_IN], out[FT_MAX_OUT] = {0};
    FT_TRY(check_inputs(g, node, err));
    ft_graph_specs(g, node->in, node->n_in, in);
    FT_TRY(ft_op_shape(node->op, in, node->n_in, node->attrs, out, err));
    FT_TRY(ft_graph_grow(&g->nodes, &g->max_nodes, g->n_nodes, sizeof *g->nodes, err));
    return append_outputs(g, node->op, out, err);
}

void ft_graph_attrs(const ft_op *op, const double *attrs, double *out)
{
    int n = ft_op_attr_count(op);
    for (int i = 0; i < n; i++) out[i] = attrs ? attrs[i] : op->attrs[i].preset;
    for (int i = n; i < FT_MAX_ATTRS; i++) out[i] = 0;
}

ft_status ft_graph_append(ft_graph *g, const ft_node *node, ft_value_id *out, ft_error *err)
{
    ft_node added = *node;
    added.out = g->n_values;
    for (int i = added.n_in; i < FT_MAX_IN; i++) added.in[i] = FT_NO_VALUE;
    *out = FT_NO_VALUE;
    ft_status status = try_append(g, &added, err);
    if (status != FT_OK) {
        char text[256];
        g->n_values = added.out;
        ft_error_wrap(err, "%s", ft_graph_node_text(&added, text, sizeof text));
        return status;
    }
    g->nodes[g->n_nodes++] = added;
    *out = added.out;
    return FT_OK;
}

static ft_status check_forward(const ft_graph *g, const ft_op *op, int n_in, ft_error *err)
{
    if (!op) return ft_fail(err, FT_INVALID, "a node without an operator in \"%s\"", g->scope);
    if (n_in < 0 || n_in > FT_MAX_IN)
        return ft_fail(err, FT_INVALID, "%s: %d inputs, expected at most %d", op->name, n_in,
                       op->n_in);
    if (g->n_forward >= 0)
        return ft_fail(err, FT_INVALID, "%s in \"%s\" comes after the gradient pass", op->name,
                       g->scope);
    return FT_OK;
}

/* `in` and `out` may be the same variable: a chain reads well so. */
ft_status ft_graph_add(ft_graph *g, const ft_op *op, const ft_value_id *in, int n_in,
                       const double *attrs, ft_value_id *out, ft_error *err)
{
    ft_node node = {.op = op,
                    .n_in = n_in,
                    .scope = g->scope,
                    .phase = FT_FORWARD,
                    .origin = g->n_nodes,
                    .key = g->n_nodes};
    ft_status status = check_forward(g, op, n_in, err);
    for (int i = 0; i < n_in && status == FT_OK; i++) node.in[i] = in[i];
    *out = FT_NO_VALUE;
    if (status != FT_OK) return status;
    ft_graph_attrs(op, attrs, node.attrs);
    return ft_graph_append(g, &node, out, err);
}

void ft_graph_end_forward(ft_graph *g)
{
    if (g->n_forward < 0) g->n_forward = g->n_nodes;
}

ft_status ft_graph_append_grad(ft_graph *g, const ft_grad_term *term, ft_error *err)
{
    FT_TRY(ft_graph_grow(&g->grads, &g->max_grads, g->n_grads, sizeof *g->grads, err));
    g->grads[g->n_grads++] = *term;
    return FT_OK;
}

/* -- asking --------------------------------------------------------------------------------- */

bool ft_graph_made_in(const ft_graph *g, ft_value_id value, ft_phase phase)
{
    const ft_value *v = &g->values[value];
    return v->kind == FT_VALUE_NODE && g->nodes[v->source].phase == phase;
}

int ft_graph_n_nodes(const ft_graph *g)
{
    return g->n_nodes;
}

int ft_graph_n_forward(const ft_graph *g)
{
    return g->n_forward < 0 ? g->n_nodes : g->n_forward;
}

int ft_graph_n_values(const ft_graph *g)
{
    return g->n_values;
}

int ft_graph_n_params(const ft_graph *g)
{
    return g->n_params;
}

int ft_graph_n_inputs(const ft_graph *g)
{
    return g->n_inputs;
}

int ft_graph_n_outputs(const ft_graph *g)
{
    return g->n_outputs;
}

int ft_graph_n_grads(const ft_graph *g)
{
    return g->n_grads;
}

const ft_node *ft_graph_node(const ft_graph *g, int node)
{
    return &g->nodes[node];
}

ft_cost ft_graph_cost(const ft_graph *g, int node)
{
    const ft_node *n = ft_graph_node(g, node);
    ft_spec in[FT_MAX_IN], out[FT_MAX_OUT];
    for (int i = 0; i < FT_MAX_IN; i++) {
        in[i] = (ft_spec){.shape = {.n_dims = -1}};
        if (n->in[i] != FT_NO_VALUE) in[i] = ft_graph_value(g, n->in[i])->spec;
    }
    for (int k = 0; k < n->op->n_out; k++) out[k] = ft_graph_value(g, n->out + k)->spec;
    return n->op->cost(in, out, n->attrs);
}

const ft_value *ft_graph_value(const ft_graph *g, ft_value_id value)
{
    return &g->values[value];
}

ft_value_id ft_graph_param_value(const ft_graph *g, int param)
{
    return g->params[param];
}

ft_value_id ft_graph_input_value(const ft_graph *g, int input)
{
    return g->inputs[input];
}

ft_value_id ft_graph_output_value(const ft_graph *g, int output, const char **name)
{
    if (name) *name = g->outputs[output].name;
    return g->outputs[output].value;
}

int64_t ft_graph_grad_rows(const ft_graph *g, int grad)
{
    const ft_grad_term *term = ft_graph_grad_term(g, grad);
    const ft_node *node = ft_graph_node(g, term->node);
    int64_t rows = ft_shape_rows(&ft_graph_value(g, g->params[term->param])->spec.shape);
    if (!node->op->by_rows) return rows;
    const ft_shape *given = &ft_graph_value(g, node->in[0])->spec.shape;
    int64_t picked = 1;
    for (int i = 0; i < given->n_dims - 1; i++) picked *= given->dims[i];
    return picked < rows ? picked : rows;
}

const ft_grad_term *ft_graph_grad_term(const ft_graph *g, int grad)
{
    return &g->grads[grad];
}

ft_value_id ft_graph_find(const ft_graph *g, const char *name)
{
    ft_value_id value;
    return ft_map_find(&g->names, name, &value) ? value : FT_NO_VALUE;
}
