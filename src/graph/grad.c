/* graph/grad.c - the gradient of a scalar, as further nodes.
 *
 * Forward nodes are visited from last to first. A node whose outputs have gradients gives gradients
 * to its inputs through its row's rule. The gradients of a value that is used several times are
 * added up as they arrive; those of a parameter are not: every use is one term, and the optimizer
 * sums them in graph order. Nothing here knows stages, so the result does not depend on the cut. */
#include "graph/internal.h"

#include <assert.h>

#include "base/alloc.h"

typedef struct grad_pass {
    ft_builder builder; /* first: rules hand it to the callbacks */
    ft_graph *g;
    int origin;        /* the forward node whose rule is adding nodes */
    bool *needed;      /* by forward value: a parameter that is trained influences it */
    ft_value_id *grad; /* by forward value: the sum so far */
    const ft_op *one, *add, *copy;
    ft_status status; /* the first failure of a callback */
    ft_error *err;
} grad_pass;

/* -- the builder that rules see ------------------------------------------------------------- */

static ft_value_id add_node(ft_builder *b, const ft_op *op, const ft_value_id *in, int n_in,
                            const double *attrs)
{
    grad_pass *p = (grad_pass *)b;
    if (p->status != FT_OK) return FT_NO_VALUE;
    assert(n_in <= FT_MAX_IN);
    const ft_node *forward = &p->g->nodes[p->origin];
    ft_node node = {.op = op,
                    .n_in = n_in,
                    .scope = forward->scope,
                    .phase = FT_BACKWARD,
                    .origin = p->origin,
                    .key = forward->key};
    for (int i = 0; i < n_in; i++) node.in[i] = in[i];
    ft_graph_attrs(op, attrs, node.attrs);
    ft_value_id out;
    p->status = ft_graph_append(p->g, &node, &out, p->err);
    return out;
}

/* A copy, since the array of values may move while the rule still looks at the spec. */
static const ft_spec *value_spec(ft_builder *b, ft_value_id value)
{
    static const ft_spec absent = {.shape = {.n_dims = -1}};
    grad_pass *p = (grad_pass *)b;
    if (value < 0 || value >= p->g->n_values) return &absent;
    ft_spec *copy = ft_arena_alloc(p->g->arena, sizeof *copy);
    if (copy)
        *copy = p->g->values[value].spec;
    else if (p->status == FT_OK)
        p->status = ft_fail(p->err, FT_NOMEM, "no memory for a gradient");
    return copy ? copy : &absent;
}

/* -- one forward node ----------------------------------------------------------------------- */

/* One more gradient of value v has arrived. A term's `node` is its user until finish_terms. */
static void take_grad(grad_pass *p, ft_value_id v, ft_value_id grad)
{
    const ft_value *value = &p->g->values[v];
    if (value->kind == FT_VALUE_PARAM) {
        ft_grad_term term = {value->source, grad, p->origin};
        p->status = ft_graph_append_grad(p->g, &term, p->err);
    } else if (p->grad[v] == FT_NO_VALUE) {
        p->grad[v] = grad;
    } else {
        p->grad[v] = add_node(&p->builder, p->add, (ft_value_id[]){p->grad[v], grad}, 2, NULL);
    }
}

static ft_status check_grad(const grad_pass *p, const ft_node *node, int slot, ft_value_id grad)
{
    const ft_graph *g = p->g;
    char where[256], wanted[160], got[160];
    ft_graph_node_text(node, where, sizeof where);
    if (grad < 0 || grad >= g->n_values)
        return ft_fail(p->err, FT_UNSUPPORTED,
                       "%s: the row gives no gradient of input %d, which parameters influence",
                       where, slot);
    const ft_spec *spec = &g->values[node->in[slot]].spec, *mine = &g->values[grad].spec;
    if (!ft_graph_made_in(g, grad, FT_BACKWARD))
        return ft_fail(p->err, FT_INVALID, "%s: the gradient of input %d is value %%%d of forward",
                       where, slot, grad);
    if (spec->dtype == mine->dtype && ft_shape_equal(&spec->shape, &mine->shape)) return FT_OK;
    return ft_fail(p->err, FT_SHAPE, "%s: the gradient of input %d is %s %s, expected %s %s", where,
                   slot, ft_dtype_name(mine->dtype), ft_shape_format(&mine->shape, got, sizeof got),
                   ft_dtype_name(spec->dtype),
                   ft_shape_format(&spec->shape, wanted, sizeof wanted));
}

static ft_status visit(grad_pass *p, int index)
{
    const ft_node node = p->g->nodes[index]; /* the array may move */
    ft_value_id out[FT_MAX_OUT], dout[FT_MAX_OUT], din[FT_MAX_IN];
    bool wanted[FT_MAX_IN] = {false}, reached = false, any = false;
    for (int i = 0; i < FT_MAX_OUT; i++) {
        out[i] = i < node.op->n_out ? node.out + i : FT_NO_VALUE;
        dout[i] = i < node.op->n_out ? p->grad[node.out + i] : FT_NO_VALUE;
        reached = reached || dout[i] != FT_NO_VALUE;
    }
    for (int i = 0; i < FT_MAX_IN; i++) {
        din[i] = FT_NO_VALUE;
        wanted[i] = node.in[i] != FT_NO_VALUE && p->needed[node.in[i]];
        any = any || wanted[i];
    }
    if (!reached || !any) return FT_OK;
    char where[256];
    if (!node.op->grad)
        return ft_fail(p->err, FT_UNSUPPORTED, "%s: the row has no gradient",
                       ft_graph_node_text(&node, where, sizeof where));
    p->origin = index;
    ft_grad_site site = {node.in, out, dout, wanted, node.attrs, din};
    node.op->grad(&p->builder, &site);
    for (int i = 0; i < node.n_in && p->status == FT_OK; i++) {
        if (!wanted[i]) continue;
        FT_TRY(check_grad(p, &node, i, din[i]));
        take_grad(p, node.in[i], din[i]);
    }
    if (p->status != FT_OK)
        ft_error_wrap(p->err, "gradient of %s", ft_graph_node_text(&node, where, sizeof where));
    return p->status;
}

/* -- what needs a gradient ------------------------------------------------------------------ */

static bool carries_grad(const ft_graph *g, const ft_value *value)
{
    return ft_dtype_is_float(value->spec.dtype) &&
           !(g->nodes[value->source].op->no_grad_out >> value->output & 1);
}

static void find_needed(grad_pass *p)
{
    const ft_graph *g = p->g;
    for (int v = 0; v < g->n_values; v++) {
        const ft_value *value = &g->values[v];
        p->grad[v] = FT_NO_VALUE;
        if (value->kind == FT_VALUE_PARAM)
            p->needed[v] = ft_dtype_is_float(value->spec.dtype) && !value->frozen;
        if (value->kind != FT_VALUE_NODE || !carries_grad(g, value)) continue;
        const ft_node *node = &g->nodes[value->source];
        for (int i = 0; i < node->n_in; i++)
            if (node->in[i] != FT_NO_VALUE && p->needed[node->in[i]]) p->needed[v] = true;
    }
}

/* -- terms ---------------------------------------------------------------------------------- */

static void reverse_terms(ft_grad_term *terms, int n)
{
    for (int i = 0, j = n - 1; i < j; i++, j--) {
        ft_grad_term swapped = terms[i];
        terms[i] = terms[j];
        terms[j] = swapped;
    }
}

/* Terms came from the last user to the first, but within one from the first input to the last. */
static void order_terms(ft_graph *g)
{
    reverse_terms(g->grads, g->n_grads);
    for (int first = 0, next; first < g->n_grads; first = next) {
        for (next = first; next < g->n_grads && g->grads[next].node == g->grads[first].node;)
            next++;
        reverse_terms(g->grads + first, next - first);
    }
}

static void count_uses(const ft_graph *g, int *uses)
{
    for (int i = 0; i < g->n_grads; i++) uses[g->grads[i].value]++;
    for (int n = g->n_forward; n < g->n_nodes; n++)
        for (int i = 0; i < g->nodes[n].n_in; i++)
            if (g->nodes[n].in[i] != FT_NO_VALUE) uses[g->nodes[n].in[i]]++;
}

/* A term is made in the stage of its user, and read by nothing else, so that it can be accumulated
 * where it is made. Rules that pass a gradient through unchanged get a copy for that. */
static ft_status finish_terms(grad_pass *p)
{
    ft_graph *g = p->g;
    order_terms(g);
    int *uses = ft_alloc(g->n_values * (int64_t)sizeof *uses);
    if (!uses) return ft_fail(p->err, FT_NOMEM, "no memory for a gradient");
    count_uses(g, uses);
    for (int i = 0; i < g->n_grads && p->status == FT_OK; i++) {
        ft_grad_term *term = &g->grads[i];
        p->origin = term->node;
        term->node = g->values[term->value].source;
        if (uses[term->value] == 1 && g->nodes[term->node].origin == p->origin) continue;
        term->value = add_node(&p->builder, p->copy, &term->value, 1, NULL);
        if (p->status == FT_OK) term->node = g->values[term->value].source;
    }
    ft_free(uses);
    return p->status;
}

/* -- dead nodes ----------------------------------------------------------------------------- */

/* Marks the backward nodes that a gradient term depends on. */
static void mark_live(const ft_graph *g, bool *live)
{
    for (int i = 0; i < g->n_grads; i++) live[g->grads[i].node] = true;
    for (int n = g->n_nodes - 1; n >= g->n_forward; n--) {
        if (!live[n]) continue;
        for (int i = 0; i < g->nodes[n].n_in; i++) {
            ft_value_id v = g->nodes[n].in[i];
            if (v != FT_NO_VALUE && g->values[v].kind == FT_VALUE_NODE)
                live[g->values[v].source] = true;
        }
    }
}

/* Closes the gaps of backward nodes that nothing needs. renamed: new numbers of values. */
static void remove_dead(ft_graph *g, const bool *live, ft_value_id *renamed)
{
    int n_nodes = g->n_forward, n_values = g->nodes[g->n_forward].out;
    for (int v = 0; v < n_values; v++) renamed[v] = v;
    for (int n = g->n_forward; n < g->n_nodes; n++) {
        if (!live[n]) continue;
        ft_node node = g->nodes[n];
        for (int i = 0; i < node.n_in; i++)
            if (node.in[i] != FT_NO_VALUE) node.in[i] = renamed[node.in[i]];
        for (int k = 0; k < node.op->n_out; k++, n_values++) {
            renamed[node.out + k] = n_values;
            g->values[n_values] = g->values[node.out + k];
            g->values[n_values].source = n_nodes;
        }
        node.out = n_values - node.op->n_out;
        g->nodes[n_nodes++] = node;
    }
    g->n_nodes = n_nodes;
    g->n_values = n_values;
    for (int i = 0; i < g->n_grads; i++) {
        ft_grad_term *term = &g->grads[i];
        term->value = renamed[term->value];
        term->node = g->values[term->value].source;
    }
}

static ft_status sweep(ft_graph *g, ft_error *err)
{
    if (g->n_nodes == g->n_forward) return FT_OK;
    bool *live = ft_alloc(g->n_nodes * (int64_t)sizeof *live);
    ft_value_id *renamed = ft_alloc(g->n_values * (int64_t)sizeof *renamed);
    bool ready = live && renamed;
    if (ready) {
        mark_live(g, live);
        remove_dead(g, live, renamed);
    }
    ft_free(live);
    ft_free(renamed);
    return ready ? FT_OK : ft_fail(err, FT_NOMEM, "no memory for a gradient");
}

/* -- the pass ------------------------------------------------------------------------------- */

static ft_status check_loss(const ft_graph *g, ft_value_id loss, ft_error *err)
{
    if (g->n_forward >= 0) return ft_fail(err, FT_INVALID, "the graph has a gradient already");
    if (loss < 0 || loss >= g->n_values)
        return ft_fail(err, FT_INVALID, "loss: no value %%%d among the %d of the graph", loss,
                       g->n_values);
    const ft_value *value = &g->values[loss];
    char shape[160];
    if (value->kind != FT_VALUE_NODE)
        return ft_fail(err, FT_INVALID, "loss: value %%%d (\"%.200s\") is not computed by a node",
                       loss, value->name);
    if (value->spec.shape.n_dims || value->spec.dtype != FT_F32)
        return ft_fail(err, FT_INVALID, "loss: value %%%d is %s %s, expected an f32 scalar", loss,
                       ft_dtype_name(value->spec.dtype),
                       ft_shape_format(&value->spec.shape, shape, sizeof shape));
    return FT_OK;
}

static ft_status find_rows(grad_pass *p)
{
    p->one = ft_op_find("one");
    p->add = ft_op_find("add");
    p->copy = ft_op_find("copy");
    if (p->one && p->add && p->copy) return FT_OK;
    return ft_fail(p->err, FT_UNSUPPORTED, "gradients need the rows one, add and copy");
}

static ft_status run_pass(grad_pass *p, ft_value_id loss)
{
    ft_graph *g = p->g;
    FT_TRY(find_rows(p));
    if (!p->needed || !p->grad) return ft_fail(p->err, FT_NOMEM, "no memory for a gradient");
    find_needed(p);
    if (!p->needed[loss])
        return ft_fail(p->err, FT_INVALID,
                       "loss: no parameter that is trained influences value %%%d", loss);
    p->origin = g->values[loss].source;
    p->grad[loss] = add_node(&p->builder, p->one, NULL, 0, NULL);
    if (p->status != FT_OK) return p->status;
    for (int n = g->n_forward - 1; n >= 0; n--) FT_TRY(visit(p, n));
    FT_TRY(finish_terms(p));
    return sweep(g, p->err);
}

ft_status ft_graph_grad(ft_graph *g, ft_value_id loss, ft_error *err)
{
    FT_TRY(check_loss(g, loss, err));
    int n_nodes = g->n_nodes, n_values = g->n_values;
    ft_graph_end_forward(g);
    grad_pass p = {.builder = {add_node, value_spec}, .g = g, .err = err};
    p.needed = ft_alloc(n_values * (int64_t)sizeof *p.needed);
    p.grad = ft_alloc(n_values * (int64_t)sizeof *p.grad);
    ft_status status = run_pass(&p, loss);
    ft_free(p.needed);
    ft_free(p.grad);
    if (status != FT_OK) { /* as it was */
        g->n_nodes = n_nodes;
        g->n_values = n_values;
        g->n_grads = 0;
        g->n_forward = -1;
    }
    return status;
}
