/* graph/graph.h - a model's computation as data.
 *
 * Values are numbered in order of creation; a node's inputs are older than its outputs, so the
 * order of nodes is a topological one and every pass is a loop. Values are inputs (fed with each
 * micro-batch), parameters (by their HF name, one record however many uses) or outputs of nodes.
 * ft_graph_grad appends the gradient of a scalar as further nodes, before any cut, so that what is
 * computed does not depend on how it is cut.
 *
 * Lifetime: everything in a graph dies with it; pointers returned are borrowed and stay valid while
 * the graph lives, except those into arrays that ft_graph_add grows (nodes, values): use numbers
 * across additions. */
#ifndef FT_GRAPH_H
#define FT_GRAPH_H

#include "base/text.h"
#include "ops/ops.h"

typedef enum { FT_VALUE_INPUT, FT_VALUE_PARAM, FT_VALUE_NODE } ft_value_kind;
typedef enum { FT_FORWARD, FT_BACKWARD } ft_phase;

typedef struct ft_value {
    ft_spec spec;
    ft_value_kind kind;
    int source;       /* input, parameter or node number, by kind */
    int output;       /* which output of the node */
    const char *name; /* inputs and parameters; NULL for others */
    bool frozen;      /* parameters: not trained, see ft_graph_freeze */
} ft_value;

typedef struct ft_node {
    const ft_op *op;
    int n_in;
    ft_value_id in[FT_MAX_IN]; /* FT_NO_VALUE: absent optional input, and past n_in */
    ft_value_id out;           /* its outputs are out, out + 1, ... */
    double attrs[FT_MAX_ATTRS];
    const char *scope; /* "encoder/block.0/attn" */
    ft_phase phase;
    int origin; /* backward: the forward node in whose stage it runs; forward: itself */
    int key;    /* number for random draws: a gradient draws what its forward node drew */
} ft_node;

/* One gradient term: one use of one parameter. */
typedef struct ft_grad_term {
    int param;         /* parameter number */
    ft_value_id value; /* output of a backward node, of the parameter's shape */
    int node;          /* that node */
} ft_grad_term;

typedef struct ft_graph ft_graph;

/* Whether the value is one of these. */
static inline bool ft_value_among(ft_value_id value, const ft_value_id *values, int n)
{
    for (int i = 0; i < n; i++)
        if (values[i] == value) return true;
    return false;
}

/* An empty graph. */
ft_status ft_graph_new(ft_graph **out, ft_error *err);
/* Frees the graph, its splits and everything borrowed from it. */
void ft_graph_free(ft_graph *graph);

/* -- building --------------------------------------------------------------------------------- */

/* Each gives FT_INVALID for a name that exists already with another spec; ft_graph_param with the
 * same name and spec gives the value that exists (a tie). */
ft_status ft_graph_input(ft_graph *g, const char *name, const ft_spec *spec, ft_value_id *out,
                         ft_error *err);
ft_status ft_graph_param(ft_graph *g, const char *name, const ft_spec *spec, ft_value_id *out,
                         ft_error *err);
/* Leaves a parameter out of training: ft_graph_grad makes no gradient of it, nor of what it alone
 * influences. FT_NOT_FOUND for no parameter of that name, FT_INVALID when there are gradients. */
ft_status ft_graph_freeze(ft_graph *g, const char *name, ft_error *err);
/* Scope of the nodes added from now on; copied. */
ft_status ft_graph_scope(ft_graph *g, const char *scope, ft_error *err);
/* Adds a node; *out is its first output (in and out may be the same variable). attrs: FT_MAX_ATTRS
 * numbers (ft_op_attrs fills them), NULL: the row's presets. */
ft_status ft_graph_add(ft_graph *g, const ft_op *op, const ft_value_id *in, int n_in,
                       const double *attrs, ft_value_id *out, ft_error *err);
/* Names a value as an output of the graph ("loss", "logits"): it is kept and can be asked for. */
ft_status ft_graph_output(ft_graph *g, const char *name, ft_value_id value, ft_error *err);

/* -- asking ----------------------------------------------------------------------------------- */

int ft_graph_n_nodes(const ft_graph *g);
int ft_graph_n_forward(const ft_graph *g); /* nodes before the first backward one */
int ft_graph_n_values(const ft_graph *g);
int ft_graph_n_params(const ft_graph *g);
int ft_graph_n_inputs(const ft_graph *g);
int ft_graph_n_outputs(const ft_graph *g);
int ft_graph_n_grads(const ft_graph *g);
const ft_node *ft_graph_node(const ft_graph *g, int node);
/* What one execution of the node costs. */
ft_cost ft_graph_cost(const ft_graph *g, int node);
const ft_value *ft_graph_value(const ft_graph *g, ft_value_id value);
ft_value_id ft_graph_param_value(const ft_graph *g, int param);
ft_value_id ft_graph_input_value(const ft_graph *g, int input);
ft_value_id ft_graph_output_value(const ft_graph *g, int output, const char **name);
/* In graph order: the order in which the terms of one parameter are summed. */
const ft_grad_term *ft_graph_grad_term(const ft_graph *g, int grad);
/* Rows of its parameter that a term may have something in: those of the parameter unless its node's
 * op is by rows. */
int64_t ft_graph_grad_rows(const ft_graph *g, int grad);
/* Value of that name among inputs, parameters and outputs, or FT_NO_VALUE. */
ft_value_id ft_graph_find(const ft_graph *g, const char *name);

/* -- passes ----------------------------------------------------------------------------------- */

/* Appends the gradient of the scalar `loss` with respect to every parameter that is not frozen;
 * where none of those is further from the loss, there is no backward node. Uses of a value are
 * summed by a chain of `add` nodes in the order in which backward reaches them (last use first);
 * each sum belongs to the stage of its newer term. A parameter is not summed: each of its uses is
 * one term, made in the stage of that use and read by no node. Once per graph; a graph that is
 * refused stays as it was. */
ft_status ft_graph_grad(ft_graph *g, ft_value_id loss, ft_error *err);

/* Products with weights read operands rounded to bf16: the attribute for it of every row that has
 * one is set, in forward and in what ft_graph_grad has made or will make. Everything else stays
 * f32. FT_UNSUPPORTED where the CPU has no instructions for it. */
ft_status ft_graph_bf16(ft_graph *g, ft_error *err);
/* The same of tf32, on cards, and of attention's products there; the CPU's stay f32. */
void ft_graph_tf32(ft_graph *g);

/* For cards, after the gradient pass: what nodes give is kept in `dtype` (FT_BF16, FT_F16), where
 * the rows that make it and read it allow that (half_in, half_out), and products with weights and
 * those of attention are made of such operands. Parameters, their gradients, statistics, scalars
 * and outputs of the graph stay f32. FT_NOMEM leaves the graph as it was. */
ft_status ft_graph_store(ft_graph *g, ft_dtype dtype, ft_error *err);
/* For cards, after that: rows of values begin at 16 bytes each, as products read them fast, where
 * the rows that make and read them allow it (apart_in, apart_out); not those of outputs of the
 * graph and gradients of parameters. FT_NOMEM leaves the graph as it was. */
ft_status ft_graph_align(ft_graph *g, ft_error *err);
/* Whether the row that makes the value can give it in 16 bits. */
bool ft_graph_may_store(const ft_graph *g, ft_value_id value);

/* Every rule that a graph obeys, checked; the message shows the offending node. */
ft_status ft_graph_verify(const ft_graph *g, ft_error *err);

/* Text form, one line per thing, that ft_graph_parse reads back to an equal graph; see parse.c for
 * the grammar. Parse errors carry the line number. */
ft_status ft_graph_write(const ft_graph *g, ft_text *text, ft_error *err);
ft_status ft_graph_parse(ft_graph **out, const char *text, ft_error *err);

/* -- stages ----------------------------------------------------------------------------------- */

/* A value that one stage makes and another needs. Once per (value, destination stage). */
typedef struct ft_transfer {
    ft_value_id value;
    ft_phase phase; /* of the action that makes it and of the first that needs it: they are equal */
    int from, to;   /* stages */
} ft_transfer;

/* What one stage computes. All lists are in ascending order. */
typedef struct ft_stage {
    const int *forward; /* node numbers run by the forward action */
    int n_forward;
    const int *backward; /* node numbers run by the backward action (recomputed ones come first, see
                            n_recompute) */
    int n_backward;
    int n_recompute;          /* leading entries of `backward` that are forward nodes run again */
    const ft_value_id *saved; /* made or received by forward, needed by backward of that stage */
    int n_saved;
    const int *params; /* parameters with a use in this stage */
    int n_params;
    const int *grads; /* gradient terms (numbers) made by this stage */
    int n_grads;
    bool recompute;
} ft_stage;

typedef struct ft_split {
    int n_stages, n_nodes;
    const int *node_stage; /* by node, backward ones too */
    const ft_stage *stages;
    const ft_transfer *transfers; /* by from, to, phase, value */
    int n_transfers;
} ft_split;

/* Cuts the graph: stage_of[n] for every forward node n, recompute[s] for every stage (NULL: none).
 * With recomputation a stage saves only what it received (and never what it can make again). Every
 * stage has a forward node, and data flows between stages without a cycle (in forward, and in
 * backward), or FT_INVALID says which node or stages break it. The split lives as long as the
 * graph. */
ft_status ft_graph_split(ft_graph *g, const int *stage_of, const bool *recompute, int n_stages,
                         const ft_split **out, ft_error *err);

#endif
