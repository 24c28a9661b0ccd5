/* graph/internal.h - the graph as the files of this room see it. */
#ifndef FT_GRAPH_INTERNAL_H
#define FT_GRAPH_INTERNAL_H

#include "base/arena.h"
#include "base/map.h"
#include "graph/graph.h"

typedef struct graph_output {
    const char *name;
    ft_value_id value;
} graph_output;

/* Arrays grow by doubling, on the heap; names, scopes and splits are in the arena. */
struct ft_graph {
    ft_arena *arena;
    ft_map names; /* inputs, parameters and outputs to values */
    ft_node *nodes;
    ft_value *values;
    ft_value_id *params;
    ft_value_id *inputs;
    graph_output *outputs;
    ft_grad_term *grads;
    int n_nodes, n_values, n_params, n_inputs, n_outputs, n_grads;
    int max_nodes, max_values, max_params, max_inputs, max_outputs, max_grads;
    int n_forward; /* -1 before the gradient pass */
    const char *scope;
    const ft_split *last_split; /* asked for again: a plan is made for a cut, then laid out */
};

/* Room for one more element in an array of `count`, of `size` bytes each. */
ft_status ft_graph_grow(void *array, int *max, int count, int64_t size, ft_error *err);

/* Appends `node` (op, n_in, in, attrs, scope, phase, origin and key set) and its outputs. */
ft_status ft_graph_append(ft_graph *g, const ft_node *node, ft_value_id *out, ft_error *err);

/* From now on only backward nodes come. */
void ft_graph_end_forward(ft_graph *g);

ft_status ft_graph_append_grad(ft_graph *g, const ft_grad_term *term, ft_error *err);

/* Specs of a node's inputs, n_dims -1 for absent ones; FT_MAX_IN of them. */
void ft_graph_specs(const ft_graph *g, const ft_value_id *in, int n_in, ft_spec *specs);

/* "node %3 (linear) in encoder/block.0" into text; returns text. */
char *ft_graph_node_text(const ft_node *node, char *text, int size);

/* The row's attributes (NULL: its presets) into FT_MAX_ATTRS numbers, zeros after them. */
void ft_graph_attrs(const ft_op *op, const double *attrs, double *out);

/* Whether the value is the output of a node of that phase. */
bool ft_graph_made_in(const ft_graph *g, ft_value_id value, ft_phase phase);

#endif
