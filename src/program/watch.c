/* program/watch.c - looks for numbers that are not finite. */
#include <math.h>
#include <stdio.h>

#include "program/program.h"

void ft_watch_value(ft_watch *watch, const ft_node *node, const float *x, int64_t n, ft_team *team)
{
    if (watch->node || ft_all_finite(x, n, team)) return;
    watch->node = node;
    for (int64_t i = 0; i < n; i++) watch->nan = watch->nan || isnan(x[i]);
}

void ft_watch_words(const ft_watch *watch, char *text, size_t size)
{
    const ft_node *node = watch->node;
    const char *gave = watch->nan ? "nan" : "inf";
    if (!node)
        snprintf(text, size, "a value gave %s", gave);
    else
        snprintf(text, size, "'%s'%s%s (%s) gave %s", node->op->name, node->scope[0] ? " in " : "",
                 node->scope, node->phase == FT_BACKWARD ? "backward" : "forward", gave);
}

ft_status ft_watch_tensor(const ft_bases *bases, const ft_node *node, const ft_spec *spec,
                          const void *x, ft_error *err)
{
    ft_watch *watch = bases->watch;
    int64_t n = ft_spec_bytes(spec) / ft_dtype_bytes(spec->dtype); /* zeros between rows, too */
    if (!ft_steps_of(bases->stream)) {
        ft_watch_value(watch, node, x, n, bases->team);
        return FT_OK;
    }
    if (watch->node) return FT_OK;
    const ft_looking at = {x, spec->dtype, n, bases->look};
    *bases->look = (ft_look){0, 1, 0};
    FT_TRY(ft_steps_of(bases->stream)->look(bases->stream, &at, 1, err));
    FT_TRY(bases->stream->executor->driver->finish(bases->stream, err));
    if (bases->look->finite) return FT_OK;
    watch->node = node;
    watch->nan = bases->look->nan;
    return FT_OK;
}
