/* optim/table.c - the list of optimizers, and what is asked of any of them. */
#include "optim/internal.h"

#include <string.h>

/* A new optimizer is a file with a row, and one line here. */
const ft_optimizer *const ft_optimizers[] = {
    &ft_optimizer_adamw,
    &ft_optimizer_adafactor,
    &ft_optimizer_sgd,
    NULL,
};

const ft_optimizer *ft_optimizer_find(const char *name)
{
    for (const ft_optimizer *const *row = ft_optimizers; *row; row++)
        if (strcmp((*row)->name, name) == 0) return *row;
    return NULL;
}

static int hyper_index(const ft_optimizer *optimizer, const char *name)
{
    for (int i = 0; optimizer->hypers[i].name; i++)
        if (strcmp(optimizer->hypers[i].name, name) == 0) return i;
    return -1;
}

ft_status ft_optimizer_hypers(const ft_optimizer *optimizer, const char *const *names,
                              const double *values, int n, double *hypers, ft_error *err)
{
    memset(hypers, 0, FT_MAX_HYPERS * sizeof *hypers);
    for (int i = 0; optimizer->hypers[i].name; i++) hypers[i] = optimizer->hypers[i].preset;
    for (int i = 0; i < n; i++) {
        int at = hyper_index(optimizer, names[i]);
        if (at < 0)
            return ft_fail(err, FT_INVALID, "%s: there is no setting %s", optimizer->name,
                           names[i]);
        const ft_hyper_rule *rule = &optimizer->hypers[at];
        if (!(values[i] >= rule->min && values[i] <= rule->max))
            return ft_fail(err, FT_INVALID, "%s: %s is %g, expected a number from %g to %g",
                           optimizer->name, rule->name, values[i], rule->min, rule->max);
        hypers[at] = values[i];
    }
    return FT_OK;
}

bool ft_optimizer_looks_ahead(const ft_optimizer *optimizer, const double *hypers)
{
    return optimizer->momentum && hypers[hyper_index(optimizer, optimizer->momentum)] > 0;
}

void ft_state_add(ft_state_part *part, const char *name, ft_shape shape, int64_t *bytes)
{
    *part =
        (ft_state_part){.name = name, .spec = {.dtype = FT_F32, .shape = shape}, .offset = *bytes};
    *bytes += (ft_spec_bytes(&part->spec) + 63) / 64 * 64;
}
