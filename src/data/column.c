/* data/column.c - the ways in which a tensor of a batch is made of a field: one row each. */
#include "data/internal.h"

#include <stdio.h>
#include <string.h>

static void fill_ids(int32_t *out, int64_t length, ft_id_run from, const ft_column *column)
{
    for (int64_t i = 0; i < length; i++) out[i] = i < from.n ? from.ids[i] : column->pad;
}

static void fill_mask(int32_t *out, int64_t length, ft_id_run from, const ft_column *column)
{
    (void)column;
    for (int64_t i = 0; i < length; i++) out[i] = i < from.n;
}

/* What a decoder reads when it is to write the ids (Raffel et al. 2020, section 2.1). */
static void fill_shift_right(int32_t *out, int64_t length, ft_id_run from, const ft_column *column)
{
    out[0] = column->first;
    for (int64_t i = 1; i < length; i++) out[i] = i - 1 < from.n ? from.ids[i - 1] : column->pad;
}

/* What a language model is to say after each of the ids. */
static void fill_shift_left(int32_t *out, int64_t length, ft_id_run from, const ft_column *column)
{
    for (int64_t i = 0; i < length; i++) out[i] = i + 1 < from.n ? from.ids[i + 1] : column->pad;
}

static const ft_column_kind kinds[] = {
    {"ids", false, fill_ids},
    {"mask", false, fill_mask},
    {"shift_right", false, fill_shift_right},
    {"shift_left", false, fill_shift_left},
    {"scalar", true, fill_ids},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

const ft_column_kind *ft_column_kind_find(const char *as)
{
    for (int k = 0; k < N_KINDS; k++)
        if (strcmp(kinds[k].as, as) == 0) return &kinds[k];
    return NULL;
}

void ft_column_kind_names(char *out, size_t size)
{
    size_t n = 0;
    out[0] = 0;
    for (int k = 0; k < N_KINDS && n < size; k++)
        n += (size_t)snprintf(out + n, size - n, "%s%s", k ? ", " : "", kinds[k].as);
}
