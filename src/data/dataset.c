/* data/dataset.c - tokenised examples, end to end in one array.
 * Example i has its source at ids[starts[2i]] and its target at ids[starts[2i + 1]]. */
#include "data/data.h"

#include <string.h>

#include "base/alloc.h"
#include "data/internal.h"

struct ft_dataset {
    int32_t *ids;
    int64_t n_ids, ids_capacity;
    int64_t *starts; /* 2n + 1 of them */
    int64_t n, capacity;
    int64_t longest_source, longest_target;
};

ft_status ft_dataset_new(ft_dataset **out, ft_error *err)
{
    *out = ft_alloc(sizeof **out);
    return *out ? FT_OK : ft_fail(err, FT_NOMEM, "dataset: no memory");
}

void ft_dataset_free(ft_dataset *dataset)
{
    if (!dataset) return;
    ft_free(dataset->ids);
    ft_free(dataset->starts);
    ft_free(dataset);
}

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
        int64_t *starts = ft_realloc(dataset->starts, (2 * capacity + 1) * (int64_t)sizeof *starts);
        if (!starts) return false;
        starts[0] = 0;
        dataset->starts = starts;
        dataset->capacity = capacity;
    }
    return true;
}

static void append(ft_dataset *dataset, const int32_t *ids, int64_t n)
{
    memcpy(dataset->ids + dataset->n_ids, ids, (size_t)n * sizeof *ids);
    dataset->n_ids += n;
}

ft_status ft_dataset_add(ft_dataset *dataset, const int32_t *source, int64_t n_source,
                         const int32_t *target, int64_t n_target, ft_error *err)
{
    if (n_source <= 0 || n_target <= 0)
        return ft_fail(err, FT_INVALID,
                       "dataset: example %lld has %lld source and %lld target ids, expected some",
                       (long long)dataset->n, (long long)n_source, (long long)n_target);
    if (!reserve(dataset, n_source + n_target))
        return ft_fail(err, FT_NOMEM, "dataset: no memory for example %lld of %lld ids",
                       (long long)dataset->n, (long long)(n_source + n_target));
    int64_t *starts = dataset->starts + 2 * dataset->n;
    append(dataset, source, n_source);
    starts[1] = dataset->n_ids;
    append(dataset, target, n_target);
    starts[2] = dataset->n_ids;
    dataset->n++;
    if (n_source > dataset->longest_source) dataset->longest_source = n_source;
    if (n_target > dataset->longest_target) dataset->longest_target = n_target;
    return FT_OK;
}

int64_t ft_dataset_size(const ft_dataset *dataset)
{
    return dataset->n;
}

int64_t ft_dataset_longest_source(const ft_dataset *dataset)
{
    return dataset->longest_source;
}

int64_t ft_dataset_longest_target(const ft_dataset *dataset)
{
    return dataset->longest_target;
}

ft_example ft_dataset_get(const ft_dataset *dataset, int64_t i)
{
    const int64_t *starts = dataset->starts + 2 * i;
    return (ft_example){.source = dataset->ids + starts[0],
                        .target = dataset->ids + starts[1],
                        .n_source = starts[1] - starts[0],
                        .n_target = starts[2] - starts[1]};
}
