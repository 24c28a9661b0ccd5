/* tensor/draw.c - random numbers and constants into a view. */
#include "base/rng.h"
#include "tensor/tensor.h"

/* From -1 to below 1. */
static double draw_around_zero(ft_rng *rng)
{
    return 2 * ft_rng_uniform(rng) - 1;
}

static double draw_one(ft_rng *rng)
{
    (void)rng;
    return 1;
}

static const struct {
    const char *name;
    double (*next)(ft_rng *rng); /* to be multiplied by the scale */
} laws[FT_N_LAWS] = {
    [FT_LAW_CONSTANT] = {"constant", draw_one},
    [FT_LAW_NORMAL] = {"normal", ft_rng_normal},
    [FT_LAW_UNIFORM] = {"uniform", draw_around_zero},
};

const char *ft_law_name(ft_law law)
{
    return laws[law].name;
}

void ft_view_draw(const ft_view *view, const ft_draw *draw, uint64_t seed)
{
    double (*next)(ft_rng *) = laws[draw->law].next;
    int64_t n = ft_shape_count(&view->shape);
    ft_rng rng;
    ft_rng_init(&rng, seed, draw->stream);
    if (view->dtype == FT_F32 && ft_view_contiguous(view)) {
        float *data = view->data;
        for (int64_t i = 0; i < n; i++) data[i] = (float)(draw->scale * next(&rng));
    } else {
        for (int64_t i = 0; i < n; i++) ft_view_set(view, i, draw->scale * next(&rng));
    }
}
