/* data/dataset.c - tokenised examples, end to end in one array.
 * With F fields, field f of example i is at ids[starts[F i + f]]. */
#include "data/data.h"

#include <string.h>

#include "base/alloc.h"

struct ft_dataset {
    ft_data_field fields[FT_MAX_FIELDS];
    int n_fields, n_groups;
    int32_t *ids;
    int64_t n_ids, ids_capacity;
    int64_t *starts; /* F n + 1 of them */
    int64_t n, capacity;
    int64_t longest[FT_MAX_FIELDS];
};

/* -- fields ----------------------------------------------------------------------------------- */

static ft_status add_field(ft_dataset *dataset, const ft_data_field *field, ft_error *err)
{
    if (!field->name[0] || !memchr(field->name, 0, FT_MAX_NAME))
        return ft_fail(err, FT_INVALID, "dataset: field %d has a name of 0 or more than %d bytes",
                       dataset->n_fields, FT_MAX_NAME - 1);
    if (ft_dataset_find(dataset, field->name) >= 0)
        return ft_fail(err, FT_INVALID, "dataset: two fields are called '%s'", field->name);
    if (field->group < 0 || field->group > dataset->n_groups)
        return ft_fail(err, FT_INVALID,
                       "dataset: field '%s' is of length group %d, expected 0 to "
                       "%d",
                       field->name, field->group, dataset->n_groups);
    if (field->group == dataset->n_groups) dataset->n_groups++;
    dataset->fields[dataset->n_fields++] = *field;
    return FT_OK;
}

ft_status ft_dataset_new(ft_dataset **out, const ft_data_field *fields, int n_fields, ft_error *err)
{
    *out = NULL;
    if (n_fields < 1 || n_fields > FT_MAX_FIELDS)
        return ft_fail(err, FT_INVALID, "dataset: %d fields, expected 1 to %d", n_fields,
                       FT_MAX_FIELDS);
    ft_dataset *dataset = ft_alloc(sizeof *dataset);
    if (!dataset) return ft_fail(err, FT_NOMEM, "dataset: no memory");
    ft_status status = FT_OK;
    for (int f = 0; f < n_fields && status == FT_OK; f++)
        status = add_field(dataset, &fields[f], err);
    if (status == FT_OK)
        *out = dataset;
    else
        ft_dataset_free(dataset);
    return status;
}

void ft_dataset_free(ft_dataset *dataset)
{
    if (!dataset) return;
    ft_free(dataset->ids);
    ft_free(dataset->starts);
    ft_free(dataset);
}

int ft_dataset_n_fields(const ft_dataset *dataset)
{
    return dataset->n_fields;
}

const ft_data_field *ft_dataset_field(const ft_dataset *dataset, int f)
{
    return &dataset->fields[f];
}

int ft_dataset_find(const ft_dataset *dataset, const char *name)
{
    for (int f = 0; f < dataset->n_fields; f++)
        if (strcmp(dataset->fields[f].name, name) == 0) return f;
    return -1;
}

int64_t ft_dataset_longest(const ft_dataset *dataset, int f)
{
    return dataset->longest[f];
}

/* -- examples --------------------------------------------------------------------------------- */

/* Makes room for one more example of n ids. */
static bool reserve(ft_dataset *dataset, int64_t n)
{
    if (dataset->n_ids + n > dataset->ids_capacity) {
        int64_t capacity = 2 * (dataset->n_ids + n) + 1024;
        int32_t *ids = ft_realloc(dataset->ids, capacity * (int64_t)sizeof *ids);
        if (!ids) return false;
        dataset->ids = ids;
        dataset->ids_capacity = capacity;
    }
    if (dataset->n == dataset->capacity) {
        int64_t capacity = 2 * dataset->capacity + 64;
        int64_t bytes = (dataset->n_fields * capacity + 1) * (int64_t)sizeof *dataset->starts;
        int64_t *starts = ft_realloc(dataset->starts, bytes);
        if (!starts) return false;
        starts[0] = 0;
        dataset->starts = starts;
        dataset->capacity = capacity;
    }
    return true;
}

/* Checks a row; *n is the number of its ids. */
static ft_status check_row(const ft_dataset *dataset, const ft_id_run *row, int64_t *n,
                           ft_error *err)
{
    int first[FT_MAX_FIELDS]; /* field of each group */
    int groups = 0;
    *n = 0;
    for (int f = 0; f < dataset->n_fields; f++) {
        const ft_data_field *field = &dataset->fields[f];
        if (row[f].n <= 0)
            return ft_fail(err, FT_INVALID, "dataset: example %lld has no ids in field '%s'",
                           (long long)dataset->n, field->name);
        if (field->group == groups) first[groups++] = f;
        int other = first[field->group];
        if (row[f].n != row[other].n)
            return ft_fail(err, FT_INVALID,
                           "dataset: example %lld has %lld ids in field '%s' and %lld in '%s', "
                           "expected equally many",
                           (long long)dataset->n, (long long)row[other].n,
                           dataset->fields[other].name, (long long)row[f].n, field->name);
        *n += row[f].n;
    }
    return FT_OK;
}

ft_status ft_dataset_add(ft_dataset *dataset, const ft_id_run *row, ft_error *err)
{
    int64_t n;
    FT_TRY(check_row(dataset, row, &n, err));
    if (!reserve(dataset, n))
        return ft_fail(err, FT_NOMEM, "dataset: no memory for example %lld of %lld ids",
                       (long long)dataset->n, (long long)n);
    int64_t *starts = dataset->starts + dataset->n_fields * dataset->n;
    for (int f = 0; f < dataset->n_fields; f++) {
        memcpy(dataset->ids + dataset->n_ids, row[f].ids, (size_t)row[f].n * sizeof *row[f].ids);
        dataset->n_ids += row[f].n;
        starts[f + 1] = dataset->n_ids;
        if (row[f].n > dataset->longest[f]) dataset->longest[f] = row[f].n;
    }
    dataset->n++;
    return FT_OK;
}

int64_t ft_dataset_size(const ft_dataset *dataset)
{
    return dataset->n;
}

ft_id_run ft_dataset_get(const ft_dataset *dataset, int64_t i, int f)
{
    const int64_t *start = dataset->starts + dataset->n_fields * i + f;
    return (ft_id_run){.ids = dataset->ids + start[0], .n = start[1] - start[0]};
}
