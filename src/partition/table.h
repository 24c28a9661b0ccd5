/* partition/table.h - the rows of cost models and partitioners by name. */
#ifndef FT_PARTITION_TABLE_H
#define FT_PARTITION_TABLE_H

#include "partition/internal.h"

/* NULL when there is none of that name. */
const cost_model *cost_find(const char *name);
const method *method_find(const char *name);
/* Row i, NULL past the end. */
const method *method_at(int i);

#endif
