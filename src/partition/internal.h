/* partition/internal.h - the rows of cost models by name. */
#ifndef FT_PARTITION_INTERNAL_H
#define FT_PARTITION_INTERNAL_H

#include "problem/ground.h"

/* NULL when there is none of that name. */
const ft_cost_model *cost_find(const char *name);

#endif
