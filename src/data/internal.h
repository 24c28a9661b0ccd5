/* data/internal.h - what datasets and batchers share. */
#ifndef FT_DATA_INTERNAL_H
#define FT_DATA_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/data.h"

/* -- columns ---------------------------------------------------------------------------------- */

/* A way to make the values of one sample from its ids: all L of them, L >= n (1 for a scalar). */
typedef struct ft_column_kind {
    const char *as; /* as in ft_column */
    bool scalar;
    void (*fill)(int32_t *out, int64_t length, ft_id_run from, const ft_column *column);
} ft_column_kind;

/* The kind of that name, or NULL. */
const ft_column_kind *ft_column_kind_find(const char *as);
/* Writes "ids, mask, ..." into `out`. */
void ft_column_kind_names(char *out, size_t size);

#endif
