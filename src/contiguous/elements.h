/* contiguous/elements.h - what a contiguous partition moves as one. */
#ifndef FT_CONTIGUOUS_ELEMENTS_H
#define FT_CONTIGUOUS_ELEMENTS_H

#include "contiguous/orders.h"
#include "problem/ground.h"

/* Units that a contiguous partition cannot or need not separate, with their order. */
typedef struct ft_elements {
    int n;
    int *of;                                    /* by unit */
    int *first, *list;                          /* units by element, CSR */
    int *next_first, *next, *back_first, *back; /* order among elements, CSR, no doubles */
} ft_elements;

/* Units that are on cycles with each other are one element; so is a unit that costs nothing and
 * has one neighbour, with that neighbour, where memory is no question and no order is asked for. */
bool ft_elements_make(const ft_ground *g, ft_elements *out);
ft_dag ft_elements_dag(const ft_elements *e);

#endif
