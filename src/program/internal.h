/* program/internal.h - what the files of programs share (packs.c). */
#ifndef FT_PROGRAM_INTERNAL_H
#define FT_PROGRAM_INTERNAL_H

#include "program/program.h"

/* Specs of a node's inputs, absent ones marked. */
void node_specs(const ft_graph *g, const ft_node *node, ft_spec *specs);
/* Whether a value that the node reads or gives is of 16 bits, or its rows are apart. */
bool is_for_cards(const ft_graph *g, const ft_node *node);
/* Whether a node reads its weight in the layout of this packed copy, sizes apart. */
bool pack_suits(const ft_graph *graph, const ft_pack *pack, const ft_node *node);

#endif
