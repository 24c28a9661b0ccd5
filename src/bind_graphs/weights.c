/* bind_graphs/weights.c - graph:weights: what partitioning needs to know of a graph beside times.
 *
 * All lists are by forward node or by edge between forward nodes; what belongs to the gradient of a
 * node counts to the node. */
#include <string.h>

#include "bind_graphs/internal.h"

static void set_at(lua_State *L, int list, int i, double value)
{
    lua_pushnumber(L, value);
    lua_rawseti(L, list, i + 1);
}

static double node_flops(const ft_graph *g, const ft_node *node)
{
    ft_spec in[FT_MAX_IN], out[FT_MAX_OUT];
    for (int i = 0; i < FT_MAX_IN; i++) {
        in[i] = (ft_spec){.shape = {.n_dims = -1}};
        if (node->in[i] != FT_NO_VALUE) in[i] = ft_graph_value(g, node->in[i])->spec;
    }
    for (int k = 0; k < node->op->n_out; k++) out[k] = ft_graph_value(g, node->out + k)->spec;
    return node->op->cost(in, out, node->attrs).flops;
}

/* Marks, by value, what the gradients read. */
static void mark_saved(const ft_graph *g, bool *saved)
{
    for (int n = ft_graph_n_forward(g); n < ft_graph_n_nodes(g); n++) {
        const ft_node *node = ft_graph_node(g, n);
        for (int i = 0; i < node->n_in; i++)
            if (node->in[i] != FT_NO_VALUE) saved[node->in[i]] = true;
    }
}

/* A parameter's bytes count at the node that uses it first. *frozen: those that are not trained. */
static int64_t new_parameter_bytes(const ft_graph *g, const ft_node *node, bool *seen,
                                   int64_t *frozen)
{
    int64_t bytes = 0;
    *frozen = 0;
    for (int i = 0; i < node->n_in; i++) {
        const ft_value *v = node->in[i] == FT_NO_VALUE ? NULL : ft_graph_value(g, node->in[i]);
        if (!v || v->kind != FT_VALUE_PARAM || seen[v->source]) continue;
        seen[v->source] = true;
        bytes += ft_spec_bytes(&v->spec);
        if (v->frozen) *frozen += ft_spec_bytes(&v->spec);
    }
    return bytes;
}

/* Fills the lists by node, which are at the stack's index `first` and on. */
static void fill_nodes(lua_State *L, const ft_graph *g, int first, const bool *saved, bool *seen)
{
    for (int n = 0; n < ft_graph_n_forward(g); n++) {
        const ft_node *node = ft_graph_node(g, n);
        int64_t output = 0, kept = 0, frozen;
        for (int k = 0; k < node->op->n_out; k++) {
            int64_t bytes = ft_spec_bytes(&ft_graph_value(g, node->out + k)->spec);
            output += bytes;
            if (saved[node->out + k]) kept += bytes;
        }
        set_at(L, first, n, (double)new_parameter_bytes(g, node, seen, &frozen));
        set_at(L, first + 1, n, (double)kept);
        set_at(L, first + 2, n, (double)output);
        set_at(L, first + 3, n, node_flops(g, node));
        set_at(L, first + 4, n, (double)frozen);
    }
}

/* Adds an edge to the lists by edge. */
static void add_edge(lua_State *L, int first, int from, int to, double bytes, double grad_bytes,
                     ft_value_id value)
{
    int e = (int)lua_objlen(L, first);
    set_at(L, first, e, from + 1);
    set_at(L, first + 1, e, to + 1);
    set_at(L, first + 2, e, bytes);
    set_at(L, first + 3, e, grad_bytes);
    set_at(L, first + 4, e, value);
}

/* Edges of values, and edges of gradients: where a node's gradient reads what the gradient of
 * another made, the other stands after it, and bytes come back along an edge that carries none
 * forward. Where uses of a value are summed, that is from each use to the one after it. */
static void fill_edges(lua_State *L, const ft_graph *g, int first)
{
    for (int n = 0; n < ft_graph_n_nodes(g); n++) {
        const ft_node *node = ft_graph_node(g, n);
        for (int i = 0; i < node->n_in; i++) {
            if (node->in[i] == FT_NO_VALUE) continue;
            const ft_value *v = ft_graph_value(g, node->in[i]);
            if (v->kind != FT_VALUE_NODE) continue;
            const ft_node *maker = ft_graph_node(g, v->source);
            double bytes = (double)ft_spec_bytes(&v->spec);
            if (node->phase == FT_FORWARD)
                add_edge(L, first, v->source, n, bytes, 0, node->in[i]);
            else if (maker->phase == FT_BACKWARD && maker->origin != node->origin)
                add_edge(L, first, node->origin, maker->origin, 0, bytes, node->in[i]);
        }
    }
}

/* What forward nodes are, and to which of them the backward nodes belong. */
static void fill_words(lua_State *L, const ft_graph *g, int first)
{
    int n_forward = ft_graph_n_forward(g);
    for (int n = 0; n < ft_graph_n_nodes(g); n++) {
        const ft_node *node = ft_graph_node(g, n);
        if (n >= n_forward) {
            set_at(L, first + 2, n - n_forward, node->origin + 1);
            continue;
        }
        lua_pushstring(L, node->op->name);
        lua_rawseti(L, first, n + 1);
        lua_pushstring(L, node->scope);
        lua_rawseti(L, first + 1, n + 1);
    }
}

static bool *new_marks(lua_State *L, int n)
{
    return memset(lua_newuserdata(L, (size_t)n + 1), 0, (size_t)n + 1);
}

/*** Bytes and floating-point operations of a graph.
 * @function graph:weights
 * @treturn table by forward node: parameter_bytes (where a parameter is used first), saved_bytes
 *   (of its outputs, read by gradients), output_bytes, flops (of the forward node), frozen_bytes
 *   (of parameter_bytes, those that are not trained), op, scope; by edge, one for each use of a
 *   value or of a gradient: edge_from, edge_to, edge_bytes, edge_grad_bytes, edge_value; by
 *   backward node: origin, the forward node that it belongs to */
int script_graph_weights(lua_State *L)
{
    static const char *const names[] = {"parameter_bytes", "saved_bytes",  "output_bytes",
                                        "flops",           "frozen_bytes", "edge_from",
                                        "edge_to",         "edge_bytes",   "edge_grad_bytes",
                                        "edge_value",      "op",           "scope",
                                        "origin"};
    enum { N_LISTS = sizeof names / sizeof *names, EDGES = 5, WORDS = 10 };
    const ft_graph *g = script_check_graph(L, 1);
    lua_settop(L, 1);
    luaL_checkstack(L, N_LISTS + 8, "weights");
    bool *saved = new_marks(L, ft_graph_n_values(g)), *seen = new_marks(L, ft_graph_n_params(g));
    mark_saved(g, saved);
    lua_createtable(L, 0, N_LISTS);
    int result = lua_gettop(L);
    for (int i = 0; i < N_LISTS; i++) {
        lua_createtable(L, ft_graph_n_forward(g), 0);
        lua_pushvalue(L, -1);
        lua_setfield(L, result, names[i]);
    }
    fill_nodes(L, g, result + 1, saved, seen);
    fill_edges(L, g, result + 1 + EDGES);
    fill_words(L, g, result + 1 + WORDS);
    lua_settop(L, result);
    return 1;
}
